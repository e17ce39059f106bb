/* Fences: who has one, who lost it, and what a server that was started again changes. */
#include <errno.h>
#include <pthread.h>

#include "nfs/v4/session.h"
#include "nfs/v4/status.h"
#include "run/fence.h"
#include "config/tunables.h"
#include "net/pool.h"
#include "reach/server.h"
#include "host_test.h"
#include "no_descriptors.h"
#include "session_server.h"
#include "sys/alloc.h"

enum { TIMEOUT_MS = 60000, OURS = 0x1234, THEIRS = 0x5678 };

static struct nfs_client client;
static struct rpc_auth auth;
static const struct nfs_fh root = {1, {'r'}};
static const struct nfs_fence fence = {.server = "filer", .name = "db", .directory = "/dir"};

static void put_token(uint64_t verifier, uint8_t *where)
{
    struct nfs4_token token = {.verifier = verifier, .host = "beta", .time = "now"};
    nfs4_token_print(&token, (char *)where);
}

static void server_has_token(uint64_t verifier)
{
    assert_false(atomic_load(&session_server.new_token));
    put_token(verifier, session_server.token);
    atomic_store(&session_server.new_token, true);
}

static void host_has(enum run_fence_state state, uint64_t verifier)
{
    struct run_fence now = {.state = state, .verifier = verifier};
    int locked = run_fence_lock("filer", "db", TIMEOUT_MS);
    assert_true(locked >= 0);
    assert_int_equal(run_fence_write(locked, &now), 0);
    run_fence_unlock(locked);
}

static enum run_fence_state host_state(void)
{
    struct run_fence now;
    run_fence_look("filer", "db", &now);
    return now.state;
}

static struct nfs_session *fenced(void)
{
    struct nfs_session *session = nfs4_session_new(NULL, NULL);
    assert_non_null(session);
    nfs4_fence_set(session, &fence);
    return session;
}

static int begin(void **state)
{
    static const struct conf_tunables tunables = {.retransmit_timeout = 60};
    struct net_address address = {.peer_text = "127.0.0.1"};
    struct sockaddr_in *in = (struct sockaddr_in *)&address.peer;
    if (make_run_directory(state) != 0)
        return -1;
    log_set_level(LOG_LEVEL_ERROR);
    session_server_start();
    *in = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)session_server.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    client = (struct nfs_client){.version = &nfs_version41,
                                 .session = fenced(),
                                 .auth = &auth,
                                 .read_max = 8192,
                                 .write_max = 8192,
                                 .timeout_ms = TIMEOUT_MS};
    host_has(RUN_FENCE_HELD, OURS);
    server_has_token(OURS);
    return reach_over(&address, NET_PORT_ANY, 4, &tunables, NULL, &client.server);
}

static int end(void **state)
{
    rpc_server_destroy(client.server);
    sys_free(client.session);
    session_server_stop();
    return remove_run_directory(state);
}

#define FENCE_TEST(name) UNIT_TEST_WITH(name, begin, end)

static int ask(void)
{
    struct nfs_attr attr;
    return nfs_getattr(&client, &root, &attr);
}

/* What the next process of the host would be told, and how often the server was asked for it. */
static int ask_anew(unsigned *exchanges)
{
    struct nfs_session *before = client.session;
    unsigned asked = atomic_load(&session_server.ops[S_EXCHANGE_ID]);
    client.session = fenced();
    int result = ask();
    nfs4_session_end(&client);
    sys_free(client.session);
    client.session = before;
    *exchanges = atomic_load(&session_server.ops[S_EXCHANGE_ID]) - asked;
    return result;
}

/* ---- its parts ---- */

UNIT_TEST(a_token_is_read_as_it_was_printed_and_nothing_else_is_one)
{
    struct nfs4_token token = {.verifier = OURS, .host = "alpha", .time = "2026-11-23T00:00:00Z"};
    struct nfs4_token read;
    char text[NFS4_TOKEN_SIZE], bad[NFS4_TOKEN_SIZE];
    nfs4_token_print(&token, text);
    assert_true(nfs4_token_parse(text, sizeof(text), &read));
    assert_int_equal(read.verifier, OURS);
    assert_string_equal(read.host, "alpha");
    assert_string_equal(read.time, "2026-11-23T00:00:00Z");
    for (size_t length = 0; length < sizeof(text); length++)
        assert_false(nfs4_token_parse(text, length, &read));
    for (size_t i = 0; i < strlen("directnfs fence 1\n"); i++) {
        memcpy(bad, text, sizeof(bad));
        bad[i] ^= 1;
        assert_false(nfs4_token_parse(bad, sizeof(bad), &read));
    }
    memset(bad, 'x', sizeof(bad));
    assert_false(nfs4_token_parse(bad, sizeof(bad), &read));
    memcpy(bad, text, strlen("directnfs fence 1\n")); /* a verifier that does not end */
    assert_false(nfs4_token_parse(bad, sizeof(bad), &read));
    token.verifier = 0;
    nfs4_token_print(&token, text);
    assert_false(nfs4_token_parse(text, sizeof(text), &read));
}

static int lock_in_vain(void *unused)
{
    (void)unused;
    return run_fence_lock("filer", "db", 50) == -ETIMEDOUT ? 0 : 1;
}

static int lock_well(void *unused)
{
    (void)unused;
    return run_fence_lock("filer", "db", TIMEOUT_MS) >= 0 ? 0 : 1; /* and dies with it */
}

UNIT_TEST_WITH(one_process_at_a_time_has_the_lock, make_run_directory, remove_run_directory)
{
    struct run_fence now;
    int other = run_fence_lock("filer", "other", TIMEOUT_MS);
    int locked = run_fence_lock("filer", "db", TIMEOUT_MS);
    assert_true(locked >= 0 && other >= 0);
    assert_int_equal(run_child(lock_in_vain, NULL), 0);
    run_fence_read(locked, &now);
    assert_int_equal(now.state, RUN_FENCE_NONE);
    run_fence_unlock(locked);
    assert_int_equal(run_child(lock_well, NULL), 0);
    locked = run_fence_lock("filer", "db", TIMEOUT_MS);
    assert_true(locked >= 0);
    run_fence_unlock(locked);
    run_fence_unlock(other);
}

UNIT_TEST_WITH(what_was_damaged_is_not_held, make_run_directory, remove_run_directory)
{
    struct run_fence now;
    char byte;
    host_has(RUN_FENCE_HELD, OURS);
    assert_int_equal(host_state(), RUN_FENCE_HELD);
    int fd = run_fence_lock("filer", "db", TIMEOUT_MS);
    for (off_t at = 0; at < 40; at++) {
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        run_fence_read(fd, &now);
        assert_int_equal(now.state, RUN_FENCE_NONE);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    run_fence_read(fd, &now);
    assert_int_equal(now.state, RUN_FENCE_HELD);
    run_fence_unlock(fd);
}

/* ---- in sessions ---- */

FENCE_TEST(a_host_that_has_the_fence_is_served_by_its_owner)
{
    assert_int_equal(ask(), 0);
    assert_int_equal(atomic_load(&session_server.fences), 1);
    assert_int_equal(client.session->verifier, OURS);
    assert_string_equal(client.session->owner.name, "directnfs fence db");
    assert_int_equal(atomic_load(&session_server.alive), 1); /* who read the token has gone */
    unsigned destroyed = atomic_load(&session_server.ops[S_DESTROY_CLIENTID]);
    nfs4_session_end(&client);
    assert_int_equal(atomic_load(&session_server.alive), 0);
    assert_int_equal(atomic_load(&session_server.ops[S_DESTROY_CLIENTID]),
                     destroyed); /* it is shared */
}

FENCE_TEST(a_host_that_has_not_taken_it_asks_nobody)
{
    unsigned exchanges;
    host_has(RUN_FENCE_NONE, 0);
    assert_int_equal(ask_anew(&exchanges), -EIO);
    assert_int_equal(exchanges, 0);
    host_has(RUN_FENCE_LOST, OURS);
    assert_int_equal(ask_anew(&exchanges), -EIO);
    assert_int_equal(exchanges, 0);
    host_has(RUN_FENCE_HELD, OURS);
    assert_int_equal(ask_anew(&exchanges), 0);
}

FENCE_TEST(a_server_that_is_started_again_takes_it_from_nobody)
{
    assert_int_equal(ask(), 0);
    atomic_store(&session_server.forget, true);
    assert_int_equal(ask(), 0);
    assert_int_equal(atomic_load(&session_server.fences), 2);
    assert_int_equal(host_state(), RUN_FENCE_HELD);
}

FENCE_TEST(the_loser_never_makes_a_session_of_the_fence_again)
{
    unsigned exchanges;
    assert_int_equal(ask(), 0);
    server_has_token(THEIRS);
    atomic_store(&session_server.forget,
                 true); /* no record of anybody: who comes first would have it */
    assert_int_equal(ask(), -EIO);
    assert_int_equal(ask(), -EIO);
    assert_int_equal(atomic_load(&session_server.fences), 1);
    assert_int_equal(host_state(), RUN_FENCE_LOST);
    assert_int_equal(ask_anew(&exchanges), -EIO);
    assert_int_equal(exchanges, 0);
    host_has(RUN_FENCE_HELD, OURS + 1); /* the host takes it back: this process stays without */
    server_has_token(OURS + 1);
    assert_int_equal(ask(), -EIO);
    assert_int_equal(atomic_load(&session_server.fences), 1);
    assert_int_equal(ask_anew(&exchanges), 0);
}

FENCE_TEST(writes_of_the_loser_end_with_an_error)
{
    uint8_t data[4096] = {1};
    struct iovec vector = {data, sizeof(data)};
    struct nfs_data from = {.vectors = &vector, .count = 1, .length = sizeof(data)};
    struct nfs_fh file = {1, {'f'}};
    struct nfs_transfer done;
    assert_int_equal(ask(), 0);
    server_has_token(THEIRS);
    atomic_store(&session_server.forget, true);
    assert_int_equal(nfs_write(&client, &file, 0, &from, NFS_UNSTABLE, &done), -EIO);
    assert_int_equal(nfs_read(&client, &file, 0, &from, &done), -EIO);
    assert_int_equal(atomic_load(&session_server.writes), 0);
}

FENCE_TEST(a_session_that_was_made_too_late_is_not_used)
{
    put_token(THEIRS, session_server.taken);
    atomic_store(&session_server.taken_meanwhile, true);
    assert_int_equal(ask(), -EIO);
    assert_int_equal(atomic_load(&session_server.fences), 1);
    assert_int_equal(atomic_load(&session_server.alive), 0);
    assert_int_equal(host_state(), RUN_FENCE_LOST);
}

FENCE_TEST(without_a_token_nothing_is_known_and_nothing_is_lost)
{
    atomic_store(&session_server.no_token, true);
    assert_int_equal(ask(), -EIO);
    assert_int_equal(atomic_load(&session_server.fences), 0);
    atomic_store(&session_server.no_token, false);
    assert_false(atomic_load(&session_server.new_token));
    memset(session_server.token, 'x', 100);
    atomic_store(&session_server.new_token, true);
    assert_int_equal(ask(), -EIO);
    server_has_token(OURS);
    assert_int_equal(ask(), 0);
    assert_int_equal(host_state(), RUN_FENCE_HELD);
}

static int ask_as_child(void *expected)
{
    rpc_after_fork(client.server);
    net_server_after_fork(client.server);
    nfs4_session_after_fork(client.session);
    return ask() == *(int *)expected ? 0 : 1;
}

FENCE_TEST(children_have_what_their_parent_has)
{
    int fine = 0, refused = -EIO;
    assert_int_equal(ask(), 0);
    assert_int_equal(run_child(ask_as_child, &fine), 0);
    host_has(RUN_FENCE_HELD, OURS + 1); /* taken again by the host itself */
    server_has_token(OURS + 1);
    assert_int_equal(run_child(ask_as_child, &refused), 0);
}

/* open(2) asks whether the host still has it, too. */
FENCE_TEST(a_moment_without_descriptors_does_not_lose_it)
{
    uint64_t term = 0;
    assert_int_equal(ask(), 0);
    no_descriptors_begin();
    int during = nfs4_fence_hold(client.session, &term);
    no_descriptors_end();
    assert_int_equal(during, -EAGAIN);
    assert_int_equal(nfs4_fence_hold(client.session, &term), 0);
    assert_int_equal(term, OURS);
    host_has(RUN_FENCE_LOST, OURS);
    assert_int_equal(nfs4_fence_hold(client.session, &term), -EPERM);
    no_descriptors_begin();
    during = nfs4_fence_hold(client.session, &term);
    no_descriptors_end();
    assert_int_equal(during, -EPERM);
}

FENCE_TEST(nor_does_a_server_that_is_started_again_in_it)
{
    assert_int_equal(ask(), 0);
    client.timeout_ms = 300;
    no_descriptors_begin();
    atomic_store(&session_server.forget, true);
    int during = ask();
    no_descriptors_end();
    client.timeout_ms = TIMEOUT_MS;
    assert_int_equal(during, -ETIMEDOUT);
    assert_int_equal(ask(), 0);
    assert_int_equal(atomic_load(&session_server.fences), 2);
}

FENCE_TEST(who_takes_it_needs_no_token)
{
    struct nfs_session *session = client.session;
    client.session = nfs4_session_new(NULL, NULL);
    atomic_store(&session_server.no_token, true);
    assert_int_equal(nfs4_fence_take(&client, &fence, THEIRS), 0);
    assert_int_equal(atomic_load(&session_server.fences), 1);
    assert_int_equal(atomic_load(&session_server.alive), 0);
    sys_free(client.session);
    client.session = session;
}

static void *ask_in_thread(void *result)
{
    *(int *)result = ask();
    return NULL;
}

static uint32_t generation(void)
{
    pthread_mutex_lock(&client.session->lock);
    uint32_t now = client.session->generation;
    pthread_mutex_unlock(&client.session->lock);
    return now;
}

/* A WRITE that was begun in the session before and is sent now: by a thread that waited for a
 * processor, or over a connection that was made again a little later than another. */
FENCE_TEST(nothing_is_done_in_a_session_that_was_made_too_late)
{
    static struct rpc_call late, other;
    struct rpc_call *calls[] = {&late, &other};
    uint8_t data[1024] = {1};
    struct iovec vector = {data, sizeof(data)};
    struct nfs_data from = {.vectors = &vector, .count = 1, .length = sizeof(data)};
    struct nfs_fh file = {1, {'f'}};
    struct nfs_transfer done;
    pthread_t thread;
    int result = 0;
    assert_int_equal(ask(), 0);
    /* Two connections: the session is made over the first. */
    struct net_path *path = &client.server->paths[0];
    struct net_channel *second = NULL;
    for (int i = 0; i < 2; i++) {
        second = net_path_channel(path, sizeof(data));
        nfs_read_begin(calls[i], &client, &file, 0, &from);
        rpc_submit_on(second, calls + i, 1);
    }
    rpc_wait(calls, 2);
    assert_ptr_not_equal(second, late.channel);
    uint32_t before = generation();
    nfs_write_begin(&late, &client, &file, 4096, &from, NFS_FILE_SYNC);
    put_token(THEIRS, session_server.taken);
    server_has_token(OURS);
    atomic_store(&session_server.taken_meanwhile, true);
    atomic_store(&session_server.forget, true);
    atomic_store(&session_server.fail_op,
                 S_RECLAIM_COMPLETE); /* so that it is not proven for a while */
    atomic_store(&session_server.fail_status, NFS4ERR_DELAY);
    atomic_store(&session_server.fail_count, 5);
    assert_int_equal(pthread_create(&thread, NULL, ask_in_thread, &result), 0);
    while (generation() == before)
        ;
    rpc_submit_on(second, calls, 1);
    rpc_wait(calls, 1);
    pthread_join(thread, NULL);
    assert_int_equal(nfs_write_end(&late, NFS_FILE_SYNC, &done), -EIO);
    assert_int_equal(result, -EIO);
    assert_int_equal(atomic_load(&session_server.writes), 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
