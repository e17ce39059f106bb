/* Opens of NFSv4.1, for servers that insist on them: src/nfs/v4/open.c. */
#include "session_scene.h"
#include "nfs/v4/open.h"
#include "sys/hash.h"

/* A server that insists on opens gets one for the file, which is good for reading, then for writing
 * too; a new one when that is lost; and it is closed at the end. */
SESSION_TEST(what_must_be_open_is_opened)
{
    struct nfs_transfer done;
    struct nfs_wcc wcc;
    bool unsettled;
    const struct nfs_sattr size = {.set_size = true, .size = 16 * BLOCK};
    write_block(1, &done);
    assert_int_equal(session_server.opens, 0);
    atomic_store(&session_server.insists, true);
    read_block(1);
    assert_int_equal(session_server.opens, 1);
    assert_int_equal(session_server.share, 1);
    read_block(1);
    assert_int_equal(session_server.opens, 1);
    write_block(2, &done);
    assert_int_equal(session_server.share, 3);
    unsigned opens = session_server.opens;
    assert_int_equal(nfs_setattr(&session_client, &session_file, &size, &wcc, &unsettled), 0);
    write_block(3, &done);
    read_block(3);
    assert_int_equal(session_server.opens, opens);
    session_server.share = 0; /* the server has lost it */
    assert_int_equal(nfs_setattr(&session_client, &session_file, &size, &wcc, &unsettled), 0);
    assert_int_equal(session_server.opens, opens + 1);
    read_block(3);
    nfs4_session_end(&session_client);
    assert_int_equal(session_server.share, 0);
    assert_int_equal(asked(S_CLOSE), 1);
}

/* Of 1024 places in the table. */
static uint64_t place_of(const struct nfs_fh *fh)
{
    return (sys_hash(SYS_HASH_NONE, fh->data, fh->len) >> 20) % 1024;
}

SESSION_TEST(no_file_is_used_by_what_another_one_was_opened_with)
{
    struct nfs_fh other = session_file;
    struct nfs_transfer done;
    write_block(1, &done);
    atomic_store(&session_server.insists, true);
    read_block(1);
    other.len += (uint32_t)sizeof(uint32_t);
    for (uint32_t i = 1; place_of(&other) != place_of(&session_file); i++)
        memcpy(other.data + session_file.len, &i, sizeof(i));
    struct nfs4_stateid one = nfs4_open_state(&session_client, &session_file, 1),
                        two = nfs4_open_state(&session_client, &other, 1);
    assert_memory_not_equal(&one, &two, sizeof(one));
}

/* A state that the server has counted on since it told it is refused. */
SESSION_TEST(the_state_of_an_open_file_is_the_newest_one)
{
    struct nfs_transfer done;
    write_block(1, &done);
    atomic_store(&session_server.insists, true);
    read_block(1);
    struct nfs4_stateid newest = nfs4_open_state(&session_client, &session_file, 1);
    assert_memory_equal(newest.bytes, "\0\0\0\0", 4);
    assert_memory_not_equal(&newest, &nfs4_anonymous, sizeof(newest));
}

/* An open of a user. */
struct opening {
    struct nfs_client client;
    struct rpc_auth auth;
    const struct nfs_fh *fh;
    pthread_t thread;
    _Atomic bool over;
};

static void *open_as(void *argument)
{
    struct opening *opening = argument;
    nfs4_open_state(&opening->client, opening->fh, 1);
    atomic_store(&opening->over, true);
    return NULL;
}

static void start_opening(struct opening *opening, uint32_t user, const struct nfs_fh *fh)
{
    opening->client = session_client;
    rpc_auth_sys(&opening->auth, "test", user, 0, NULL, 0);
    opening->client.auth = &opening->auth;
    opening->fh = fh;
    atomic_store(&opening->over, false);
    assert_int_equal(pthread_create(&opening->thread, NULL, open_as, opening), 0);
}

static void await(struct opening *opening)
{
    for (int i = 0; i < TIMEOUT_MS && !atomic_load(&opening->over); i++)
        usleep(1000);
    assert_true(atomic_load(&opening->over));
    pthread_join(opening->thread, NULL);
}

/* As of a user without a ticket: it waits. */
SESSION_TEST(a_user_whose_open_waits_lets_others_open_that_file_and_others)
{
    enum { WAITS = 77, OTHER };
    static struct opening waits, same, another;
    struct nfs_transfer done;
    struct nfs_fh file = session_file;
    file.data[file.len++] = 'x';
    write_block(1, &done);
    atomic_store(&session_server.insists, true);
    read_block(1);
    nfs4_open_forget(session_client.session);
    atomic_store(&session_server.delayed, WAITS);
    unsigned before = asked(S_OPEN);
    start_opening(&waits, WAITS, &session_file);
    while (asked(S_OPEN) == before)
        usleep(1000);
    start_opening(&same, OTHER, &session_file);
    await(&same);
    start_opening(&another, OTHER, &file);
    await(&another);
    assert_false(atomic_load(&waits.over));
    atomic_store(&session_server.delayed, 0);
    await(&waits);
    read_block(1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
