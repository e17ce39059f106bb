/*
 * The client of NFSv4.1 against the server of v41_server.h, which shares no code with it: what is
 * written is carried out exactly once, wherever a connection ends, and what a server says that
 * cannot be is never taken for an answer.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "nfs/v4/call.h"
#include "nfs/v4/session.h"
#include "nfs/v4/types.h"
#include "config/tunables.h"
#include "net/health.h"
#include "net/pool.h"
#include "no_descriptors.h"
#include "reach/server.h"
#include "stats/count.h"
#include "rounds.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "unit.h"
#include "v41_server.h"

enum { LENGTH = 100, TIMEOUT_MS = 60000 };

static struct v41_server *server;
static struct v41_control *control;
static struct v41_node *node; /* of the file */
static struct nfs_client client;
static struct rpc_auth auth;
static struct nfs_fh file;

static int begin(void **unused)
{
    (void)unused;
    static const struct conf_tunables tunables = {.retransmit_timeout = 60};
    alarm(1200);
    log_set_level(LOG_LEVEL_ERROR);
    server = v41_server_start(NULL, INADDR_LOOPBACK, 0);
    control = server->control;
    pthread_mutex_lock(&server->lock);
    node = v41_node_at(&server->state.store, "/export/file");
    pthread_mutex_unlock(&server->lock);
    struct net_address address = {.peer_text = "127.0.0.1"};
    *(struct sockaddr_in *)&address.peer =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons(server->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    client = (struct nfs_client){.version = &nfs_version41,
                                 .session = nfs4_session_new(NULL, NULL),
                                 .auth = &auth,
                                 .read_max = 8192,
                                 .write_max = 8192,
                                 .timeout_ms = TIMEOUT_MS};
    assert_int_equal(reach_over(&address, NET_PORT_ANY, 2, &tunables, NULL, &client.server), 0);
    assert_int_equal(nfs4_walk(&client, "/export/file", &file), 0);
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    rpc_server_destroy(client.server);
    sys_free(client.session);
    v41_server_stop(server);
    alarm(0);
    return 0;
}

#define EXACT_TEST(name) UNIT_TEST_WITH(name, begin, end)

static int write_text(uint8_t byte, enum nfs_stable stable, struct nfs_transfer *done)
{
    uint8_t data[LENGTH];
    struct iovec vector = {data, LENGTH};
    struct nfs_data from = {.vectors = &vector, .count = 1, .length = LENGTH};
    memset(data, byte, LENGTH);
    return nfs_write(&client, &file, 0, &from, stable, done);
}

static int read_text(uint8_t data[LENGTH], struct nfs_transfer *done)
{
    struct iovec vector = {data, LENGTH};
    struct nfs_data to = {.vectors = &vector, .count = 1, .length = LENGTH};
    return nfs_read(&client, &file, 0, &to, done);
}

static bool all_are(const uint8_t *data, uint8_t byte)
{
    for (unsigned i = 0; i < LENGTH; i++) {
        if (data[i] != byte)
            return false;
    }
    return true;
}

/* The file at the server. */
static bool file_is(uint8_t byte)
{
    pthread_mutex_lock(&server->lock);
    bool is = node->size == LENGTH && all_are(node->data, byte);
    pthread_mutex_unlock(&server->lock);
    return is;
}

/* One WRITE while a connection ends at byte `at` of the call or of the reply. */
static void write_through(_Atomic unsigned *cut, unsigned at)
{
    struct nfs_transfer done;
    unsigned writes = control->writes[NFS_FILE_SYNC];
    atomic_store(cut, at);
    assert_int_equal(write_text((uint8_t)at, NFS_FILE_SYNC, &done), 0);
    atomic_store(cut, 0);
    assert_int_equal(done.length, LENGTH);
    assert_int_equal(done.committed, NFS_FILE_SYNC);
    assert_false(done.unsettled);
    assert_false(done.repeated);
    assert_int_equal(control->writes[NFS_FILE_SYNC], writes + 1);
    assert_true(file_is((uint8_t)at));
}

EXACT_TEST(a_write_is_carried_out_once_wherever_its_connection_ends)
{
    enum { CALL = 360, REPLY = 300 }; /* bytes, more than there are */
    unsigned step = CALL / rounds_of(CALL);
    for (unsigned at = 1; at < CALL; at += step)
        write_through(&control->cut_call, at);
    for (unsigned at = 1; at < REPLY; at += step)
        write_through(&control->cut_reply, at);
    assert_true(control->replays > 0);
    assert_true(stats_get(&stats_own->counters.session_replays) >= control->replays);
    assert_int_equal(stats_get(&stats_own->counters.sequence_errors), 0);
    assert_int_equal(control->false_retries, 0);
    assert_int_equal(control->misordered, 0);
    assert_int_equal(control->bad_calls, 0);
    assert_int_equal(control->calls[V41_CREATE_SESSION], 1);
}

EXACT_TEST(a_read_is_answered_wherever_its_connection_ends)
{
    enum { REPLY = 400 };
    uint8_t data[LENGTH];
    struct nfs_transfer done;
    assert_int_equal(write_text(5, NFS_FILE_SYNC, &done), 0);
    for (unsigned at = 1; at < REPLY; at += REPLY / rounds_of(20)) { /* each takes a pause */
        memset(data, 0, sizeof(data));
        atomic_store(&control->cut_reply, at);
        assert_int_equal(read_text(data, &done), 0);
        atomic_store(&control->cut_reply, 0);
        assert_int_equal(done.length, LENGTH);
        assert_true(all_are(data, 5));
    }
    assert_true(control->uncached_retries > 0);
    assert_int_equal(control->misordered, 0);
    assert_int_equal(control->calls[V41_CREATE_SESSION], 1);
}

static void *write_ones(void *done)
{
    assert_int_equal(write_text(1, NFS_FILE_SYNC, done), 0);
    return NULL;
}

/* A WRITE is held before the server carries it out, and its connections break. So many copies of it
 * are refused. */
static void break_write(pthread_t *thread, struct nfs_transfer *done, unsigned refused)
{
    atomic_store(&control->hold_calls, UINT64_C(1) << V41_WRITE);
    assert_int_equal(pthread_create(thread, NULL, write_ones, done), 0);
    while (atomic_load(&control->held) == 0)
        poll(NULL, 0, 1);
    atomic_store(&control->hold_calls, 0);
    atomic_store(&control->fail_count[V41_SEQUENCE], refused);
    v41_break_all(server);
}

/* The server reads the first copy when the second one, and the next call, are over. */
EXACT_TEST(a_copy_that_comes_late_is_not_carried_out)
{
    struct nfs_transfer done;
    pthread_t thread;
    break_write(&thread, &done, 0);
    pthread_join(thread, NULL);
    assert_int_equal(write_text(2, NFS_FILE_SYNC, &done), 0);
    v41_release(server, false);
    assert_int_equal(control->misordered, 1);
    assert_int_equal(control->writes[NFS_FILE_SYNC], 2);
    assert_true(file_is(2));
}

static const struct directnfs_session_stats *shown;

static uint64_t count_of(unsigned procedure)
{
    return stats_get(&stats_own->counters.procedures[procedure].latency.calls);
}

EXACT_TEST(what_becomes_of_slots_is_shown)
{
    struct nfs_transfer done;
    struct nfs_session_facts facts;
    pthread_t thread;
    uint64_t sequences = count_of(DIRECTNFS_PROCEDURE_SEQUENCE);
    nfs4_session_show(client.session, "cloud");
    shown = stats_session("cloud");
    assert_true(nfs4_session_facts(client.session, &facts));
    assert_int_equal(shown->slots, facts.slots);
    assert_int_equal(shown->lease_s, facts.lease_s);
    assert_true(shown->client == facts.client && facts.client != 0);
    assert_int_equal(shown->used, 0);
    assert_true(count_of(DIRECTNFS_PROCEDURE_EXCHANGE_ID) > 0);
    assert_true(count_of(DIRECTNFS_PROCEDURE_CREATE_SESSION) > 0);
    assert_true(count_of(DIRECTNFS_PROCEDURE_RECLAIM_COMPLETE) > 0);

    atomic_store(&control->hold_calls, UINT64_C(1) << V41_WRITE);
    assert_int_equal(pthread_create(&thread, NULL, write_ones, &done), 0);
    while (atomic_load(&control->held) == 0)
        poll(NULL, 0, 1);
    assert_int_equal(stats_get(&shown->used), 1);
    atomic_store(&control->hold_calls, 0);
    v41_release(server, false);
    pthread_join(thread, NULL);
    assert_int_equal(shown->used, 0);

    atomic_store(&control->lie, V41_OTHER_SLOT);
    assert_int_equal(write_text(2, NFS_FILE_SYNC, &done), -EBADMSG);
    atomic_store(&control->lie, V41_TRUTH);
    assert_int_equal(shown->lost, 1);
    client.session->used_ns -= UINT64_C(1001) * 1000000000;
    nfs4_session_renew(&client);
    assert_int_equal(count_of(DIRECTNFS_PROCEDURE_SEQUENCE), sequences + 1);
    nfs4_session_lost(client.session, client.session->generation);
    assert_int_equal(write_text(3, NFS_FILE_SYNC, &done), 0);
    assert_int_equal(shown->lost, 0); /* it is another session */
}

/* "Busy with that", says the server of the second one: nobody knows what becomes of the first. */
EXACT_TEST(a_copy_that_is_put_off_says_nothing_of_the_one_before)
{
    struct nfs_transfer done;
    pthread_t thread;
    atomic_store(&control->fail_status[V41_SEQUENCE], NFS4ERR_DELAY);
    break_write(&thread, &done, 1);
    pthread_join(thread, NULL);
    assert_int_equal(control->fail_count[V41_SEQUENCE], 0);
    assert_true(done.unsettled);
    pthread_mutex_lock(&client.session->lock);
    assert_int_equal(client.session->lost, 1); /* its slot */
    pthread_mutex_unlock(&client.session->lock);
    v41_release(server, false);
}

EXACT_TEST(a_loss_of_power_is_seen_by_its_verifier)
{
    struct nfs_transfer before, after;
    bool repeated;
    uint64_t verifier;
    assert_int_equal(write_text(1, NFS_FILE_SYNC, &before), 0);
    assert_int_equal(write_text(2, NFS_UNSTABLE, &before), 0);
    assert_int_equal(before.committed, NFS_UNSTABLE);
    v41_lose_power(server);
    assert_true(file_is(1));
    assert_int_equal(nfs_commit(&client, &file, 0, 0, &verifier, &repeated), 0);
    assert_true(verifier != before.verifier);
    assert_int_equal(control->calls[V41_CREATE_SESSION], 2);
    assert_int_equal(write_text(3, NFS_UNSTABLE, &after), 0);
    assert_true(after.verifier == verifier);
    assert_int_equal(nfs_commit(&client, &file, 0, 0, &verifier, &repeated), 0);
    v41_lose_power(server);
    assert_true(file_is(3));
}

static void fail_sessions(uint32_t status, unsigned count)
{
    atomic_store(&control->fail_status[V41_CREATE_SESSION], status);
    atomic_store(&control->fail_count[V41_CREATE_SESSION], count);
    v41_lose_power(server);
}

EXACT_TEST(a_server_that_has_no_room_for_a_session_is_asked_again)
{
    enum { TIMES = 5 };
    struct nfs_transfer done;
    client.timeout_ms = 0;
    fail_sessions(NFS4ERR_NOSPC, TIMES);
    assert_int_equal(write_text(1, NFS_FILE_SYNC, &done), 0);
    assert_int_equal(control->fail_count[V41_CREATE_SESSION], 0);
    assert_true(file_is(1));
}

/* Data that a server refuses for good is given up. */
EXACT_TEST(what_a_server_says_of_a_session_is_not_said_of_data)
{
    static const uint32_t says[] = {NFS4ERR_NOSPC, NFS4ERR_DQUOT, NFS4ERR_FBIG,  NFS4ERR_ROFS,
                                    NFS4ERR_NXIO,  NFS4ERR_INVAL, NFS4ERR_STALE, NFS4ERR_NOENT};
    struct nfs_transfer done;
    for (unsigned i = 0; i < sizeof(says) / sizeof(*says); i++) {
        fail_sessions(says[i], 1000000);
        assert_int_equal(write_text(1, NFS_FILE_SYNC, &done), -EIO);
    }
    fail_sessions(NFS4_OK, 0);
    assert_int_equal(write_text(1, NFS_FILE_SYNC, &done), 0);
}

EXACT_TEST(a_server_that_wants_connections_to_be_bound_gets_them_bound)
{
    struct nfs_transfer done;
    uint8_t data[LENGTH];
    atomic_store(&control->bind_needed, true);
    for (uint8_t round = 1; round < 5; round++) {
        v41_break_all(server);
        assert_int_equal(write_text(round, NFS_FILE_SYNC, &done), 0);
        assert_int_equal(read_text(data, &done), 0);
        assert_true(all_are(data, round));
    }
    assert_true(control->bound >= 4);
    assert_int_equal(control->calls[V41_CREATE_SESSION], 1);
    assert_int_equal(control->bad_calls, 0);
}

/* A connection that was made again between CREATE_SESSION and RECLAIM_COMPLETE. */
EXACT_TEST(a_session_that_is_not_bound_from_the_first_is_made_again)
{
    struct nfs_attr attr;
    v41_forget_sessions(server);
    nfs4_session_lost(client.session, client.session->generation);
    atomic_store(&control->fail_status[V41_SEQUENCE], NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    atomic_store(&control->fail_count[V41_SEQUENCE], 1);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    assert_int_equal(control->calls[V41_CREATE_SESSION], 3);
}

static int agree(struct net_path *path, bool proven, int timeout_ms)
{
    (void)path;
    (void)proven;
    (void)timeout_ms;
    return 0;
}

static void *ask_in_thread(void *over)
{
    struct nfs_attr attr;
    return (void *)(intptr_t)nfs_getattr(over, &file, &attr);
}

/* Though when the answer has come calls should rather go over the other path. */
EXACT_TEST(a_session_is_completed_over_the_connection_that_it_was_made_over)
{
    enum { BUSY = 1 << 30 };
    const struct net_address first = client.server->paths[0].address;
    const struct net_address addresses[] = {first, first};
    struct net_server_options options = {.name = "two",
                                         .connections_max = 2,
                                         .port_policy = NET_PORT_ANY,
                                         .reconnect_max_s = 1,
                                         .retransmit_timeout_s = 60,
                                         .probe = agree,
                                         .close_idle = rpc_close_idle};
    struct nfs_client over = client;
    pthread_t thread;
    void *result;
    struct net_path *used = NULL;
    assert_int_equal(net_server_create(&options, addresses, 2, &over.server), 0);
    over.session = nfs4_session_new(NULL, NULL);
    net_server_want_more(over.server);
    while (!net_path_usable(&over.server->paths[1]))
        poll(NULL, 0, 1);
    atomic_store(&control->bind_needed, true);
    atomic_store(&control->hold_replies, UINT64_C(1) << V41_CREATE_SESSION);
    assert_int_equal(pthread_create(&thread, NULL, ask_in_thread, &over), 0);
    while (atomic_load(&control->held) == 0)
        poll(NULL, 0, 1);
    for (int i = 0; i < 2; i++) {
        if (atomic_load(&over.server->paths[i].load.outstanding_bytes) > 0)
            used = &over.server->paths[i];
    }
    assert_non_null(used);
    atomic_fetch_add(&used->load.outstanding_bytes, BUSY);
    v41_release(server, false);
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, 0);
    assert_int_equal(control->calls[V41_CREATE_SESSION], 2);
    nfs4_session_end(&over);
    rpc_server_destroy(over.server);
    sys_free(over.session);
}

static uint8_t large[1 << 16];

static int transfer_large(bool write)
{
    struct iovec vector = {large, sizeof(large)};
    struct nfs_data data = {.vectors = &vector, .count = 1, .length = sizeof(large)};
    struct nfs_transfer done;
    int result = write ? nfs_write(&client, &file, 0, &data, NFS_FILE_SYNC, &done)
                       : nfs_read(&client, &file, 0, &data, &done);
    if (result == 0)
        assert_int_equal(done.length, sizeof(large));
    return result;
}

static int write_large_if(uint8_t byte, struct nfs_attr *expected, size_t *length)
{
    struct iovec vector = {large, sizeof(large)};
    struct nfs_data data = {.vectors = &vector, .count = 1, .length = sizeof(large)};
    struct nfs_transfer done;
    memset(large, byte, sizeof(large));
    int result = nfs_write_if(&client, &file, 0, &data, expected, &done);
    *length = done.length;
    return result;
}

EXACT_TEST(what_is_written_if_nobody_else_changes_the_file_is_not_written_if_somebody_does)
{
    struct nfs_attr expected, old;
    struct nfs_transfer done;
    uint8_t data[LENGTH];
    size_t length;
    assert_int_equal(nfs_getattr(&client, &file, &expected), 0);
    old = expected;
    atomic_store(&control->drop_after[V41_WRITE],
                 1); /* carried out once, though it is sent twice */
    for (uint8_t byte = 'a'; byte < 'c'; byte++) {
        assert_int_equal(write_large_if(byte, &expected, &length), 0);
        assert_int_equal(length, sizeof(large));
    }
    assert_int_equal(write_large_if('c', &old, &length), -ECANCELED);
    assert_int_equal(length, 0);
    assert_int_equal(write_text('o', NFS_FILE_SYNC, &done), 0); /* as another host may */
    assert_int_equal(write_large_if('d', &expected, &length), -ECANCELED);
    assert_int_equal(length, 0);
    assert_int_equal(read_text(data, &done), 0);
    assert_int_equal(data[0], 'o');
}

/* By an administrator who lowered it, or it is another node that has taken over. The client goes on
 * with the sizes that it was told first. */
EXACT_TEST(a_server_that_is_started_again_may_take_and_give_less_at_a_time)
{
    enum { LARGEST = 20000 };
    client.read_max = client.write_max = sizeof(large);
    for (unsigned i = 0; i < sizeof(large); i++)
        large[i] = (uint8_t)(i ^ i >> 8);
    assert_int_equal(transfer_large(true), 0);
    assert_int_equal(transfer_large(false), 0);
    atomic_store(&control->largest, LARGEST);
    for (int write = 0; write < 2; write++) {
        v41_lose_power(server);
        assert_int_equal(transfer_large(write), 0);
        assert_in_range(client.session->write_most, 1, LARGEST);
    }
    memset(large, 0, sizeof(large));
    assert_int_equal(transfer_large(false), 0);
    for (unsigned i = 0; i < sizeof(large); i++)
        assert_int_equal(large[i], (uint8_t)(i ^ i >> 8));
}

/* ---- who we are ---- */

/* The connection is there before. */
static void connect_to_server(void)
{
    struct rpc_call call, *calls[] = {&call};
    enum { PROGRAM = 100003, VERSION = 4 };
    rpc_call_end(&call, rpc_call_begin(&call, &rpc_auth_none, PROGRAM, VERSION, 0));
    rpc_submit(client.server, calls, 1);
    rpc_wait(calls, 1);
    assert_int_equal(call.error, 0);
}

/* A process that has no descriptor left when its session is made writes down who it is. */
static void name_child(struct nfs4_owner *owner)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct nfs_attr attr;
        rpc_after_fork(client.server);
        net_server_after_fork(client.server);
        nfs4_session_after_fork(client.session);
        connect_to_server();
        no_descriptors_begin();
        if (nfs_getattr(&client, &file, &attr) != 0)
            _exit(1);
        *owner = client.session->owner;
        nfs4_session_end(&client);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

EXACT_TEST(processes_without_descriptors_have_an_owner_each)
{
    struct nfs4_owner *owners =
        mmap(NULL, 2 * sizeof(*owners), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(owners, MAP_FAILED);
    name_child(&owners[0]);
    name_child(&owners[1]);
    assert_string_not_equal(owners[0].name, owners[1].name);
    munmap(owners, 2 * sizeof(*owners));
}

/* Else the server would have the session before yet, and what was sent in it might be carried out
 * late. */
EXACT_TEST(an_owner_is_the_same_without_descriptors)
{
    struct nfs_attr attr;
    struct nfs4_owner before = client.session->owner;
    no_descriptors_begin();
    nfs4_session_lost(client.session, client.session->generation);
    int result = nfs_getattr(&client, &file, &attr);
    no_descriptors_end();
    assert_int_equal(result, 0);
    assert_int_equal(client.session->generation, 2);
    assert_string_equal(client.session->owner.name, before.name);
    assert_int_equal(control->calls[V41_DESTROY_SESSION], 1);
}

EXACT_TEST(what_cannot_be_is_no_answer)
{
    static const unsigned lies[] = {V41_OTHER_SESSION, V41_OTHER_SEQUENCE, V41_OTHER_SLOT,
                                    V41_FAR_TARGET,    V41_MORE_READ,      V41_NO_READ,
                                    V41_MORE_WRITTEN,  V41_NO_WRITTEN,     V41_WEAK_WRITTEN,
                                    V41_WRONG_OP,      V41_WRONG_COUNT,    V41_NO_SIZE};
    struct nfs_transfer done;
    uint8_t data[LENGTH];
    client.timeout_ms = 500;
    for (unsigned i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        uint8_t byte = (uint8_t)(100 + i);
        atomic_store(&control->lie, lies[i]);
        if (write_text(byte, NFS_FILE_SYNC, &done) == 0) {
            assert_int_equal(done.length, LENGTH);
            assert_int_equal(done.committed, NFS_FILE_SYNC);
            assert_true(file_is(byte));
        }
        if (read_text(data, &done) == 0)
            assert_true(done.length == LENGTH && all_are(data, data[0]) && file_is(data[0]));
        atomic_store(&control->lie, V41_TRUTH);
    }
    client.timeout_ms = TIMEOUT_MS;
    assert_int_equal(write_text(7, NFS_FILE_SYNC, &done), 0);
    assert_int_equal(read_text(data, &done), 0);
    assert_true(all_are(data, 7));
}

int main(void)
{
    return unit_run(NULL, NULL);
}
