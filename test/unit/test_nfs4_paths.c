/* A session of NFSv4.1 over two paths: what was on its way over one that fails goes over the other,
 * and is carried out once. */
#include <errno.h>

#include "nfs/v4/call.h"
#include "nfs/v4/status.h"
#include "net/health.h"
#include "net/pool.h"
#include "config/tunables.h"
#include "reach/server.h"
#include "session_server.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "unit.h"

enum { BLOCK = 8192, IN_FLIGHT = 4 };

static struct nfs_client client;
static struct rpc_auth auth;
static const struct nfs_fh file = {1, {'f'}};
static _Atomic bool first_fails;

static int probe(struct net_path *path, bool proven, int timeout_ms)
{
    (void)proven;
    (void)timeout_ms;
    return path->index == 0 && atomic_load(&first_fails) ? -ECONNREFUSED : 0;
}

static struct net_address loopback(unsigned port, const char *name)
{
    struct net_address address;
    memset(&address, 0, sizeof(address));
    struct sockaddr_in *in = (struct sockaddr_in *)&address.peer;
    *in = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    strcpy(address.peer_text, name);
    return address;
}

static int begin(void **unused)
{
    (void)unused;
    log_open("/dev/null");
    session_server_start();
    atomic_store(&first_fails, false);
    const struct net_address addresses[] = {loopback(session_server.port, "first"),
                                            loopback(session_server.other_port, "second")};
    struct net_server_options options = {.name = "two",
                                         .connections_max = 2,
                                         .port_policy = NET_PORT_ANY,
                                         .reconnect_max_s = 1,
                                         .retransmit_timeout_s = 60,
                                         .path_timeout_ms = 400,
                                         .probe = probe,
                                         .close_idle = rpc_close_idle};
    rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    client = (struct nfs_client){.version = &nfs_version41,
                                 .session = nfs4_session_new(NULL, NULL),
                                 .auth = &auth,
                                 .read_max = BLOCK,
                                 .write_max = BLOCK};
    return client.session ? net_server_create(&options, addresses, 2, &client.server) : -ENOMEM;
}

static int end(void **unused)
{
    (void)unused;
    rpc_server_destroy(client.server);
    sys_free(client.session);
    session_server_stop();
    return 0;
}

static void use_both(void)
{
    net_server_want_more(client.server);
    while (!net_path_usable(&client.server->paths[1]))
        sys_nanosleep_ms(1);
}

/* The first path dies when the server has executed a WRITE that came over it. */
static void fail_first_after_a_write(void)
{
    atomic_store(&first_fails, true);
    atomic_store(&session_server.death, SERVER_DIES_AFTER);
    atomic_store(&session_server.cut, true);
    atomic_store(&session_server.deaths, 1);
}

static uint8_t blocks[IN_FLIGHT][BLOCK];
static struct rpc_call room[IN_FLIGHT];
static struct iovec vectors[IN_FLIGHT];
static _Atomic unsigned told_down;

static void begin_write(int i, uint8_t byte)
{
    memset(blocks[i], byte, BLOCK);
    vectors[i] = (struct iovec){blocks[i], BLOCK};
    const struct nfs_data data = {.vectors = &vectors[i], .count = 1, .length = BLOCK};
    nfs_write_begin(&room[i], &client, &file, (uint64_t)i * BLOCK, &data, NFS_FILE_SYNC);
}

/* Over the first path, which dies when the server has executed one of them. */
static void begin_writes(struct rpc_call *calls[IN_FLIGHT], void (*answered)(struct rpc_call *))
{
    struct nfs_attr attr;
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    fail_first_after_a_write();
    for (int i = 0; i < IN_FLIGHT; i++) {
        calls[i] = &room[i];
        begin_write(i, (uint8_t)(i + 1));
        calls[i]->answered = answered;
    }
    rpc_submit_on(net_path_channel(&client.server->paths[0], BLOCK), calls, IN_FLIGHT);
}

static void assert_written_once(void)
{
    for (int i = 0; i < IN_FLIGHT; i++) {
        struct nfs_transfer done;
        struct net_channel *channel = room[i].channel;
        assert_int_equal(nfs_write_end(&room[i], NFS_FILE_SYNC, &done), 0);
        assert_int_equal(done.length, BLOCK);
        assert_false(done.unsettled);
        assert_false(done.repeated);
        assert_int_equal(channel->path->index, 1);
    }
    assert_int_equal(atomic_load(&session_server.writes), IN_FLIGHT);
    assert_int_equal(atomic_load(&session_server.told_again), 1);
    for (int i = 0; i < IN_FLIGHT * BLOCK; i++)
        assert_int_equal(session_server.file[i], i / BLOCK + 1);
    assert_int_equal(atomic_load(&session_server.clients), 1);
    assert_int_equal(client.session->lost, 0);
    assert_int_equal(client.session->aside, 0);
}

UNIT_TEST_WITH(a_write_goes_on_over_another_path_and_is_carried_out_once, begin, end)
{
    struct rpc_call *calls[IN_FLIGHT];
    begin_writes(calls, NULL);
    rpc_wait(calls, IN_FLIGHT);
    assert_written_once();
}

static void note_down(struct rpc_call *call)
{
    for (; call; call = call->next_unsent)
        atomic_fetch_add(&told_down, call->error == -ENETDOWN);
}

static bool all_are_down(void *unused)
{
    (void)unused;
    return atomic_load(&told_down) == IN_FLIGHT;
}

UNIT_TEST_WITH(so_does_one_that_nobody_waits_for_until_its_path_is_down, begin, end)
{
    struct rpc_call *calls[IN_FLIGHT];
    atomic_store(&told_down, 0);
    begin_writes(calls, note_down);
    struct net_channel *channel = room[0].channel;
    assert_true(rpc_drive(channel, all_are_down, NULL, 0));
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_false(room[i].unsettled);
        assert_true(rpc_take_up(&room[i]));
    }
    rpc_wait(calls, IN_FLIGHT);
    assert_written_once();
}

/* Those that were told: the last one first, as the engine takes them up. */
static struct rpc_call *troubled[IN_FLIGHT];
static unsigned troubled_count;

static void note_troubled(struct rpc_call *call)
{
    for (; call; call = call->next_unsent)
        troubled[troubled_count++] = call;
}

static bool all_are_troubled(void *count)
{
    return troubled_count == *(unsigned *)count;
}

/* One thread carries out what went down with its path, one after the other: as the same call, or,
 * if that gave its slot back, as another one. */
static void carry_out(unsigned count)
{
    struct rpc_call *calls[IN_FLIGHT];
    struct net_channel *channel = net_path_channel(&client.server->paths[0], BLOCK);
    troubled_count = 0;
    for (unsigned i = 0; i < count; i++) {
        calls[i] = &room[i];
        begin_write((int)i, (uint8_t)(i + 1));
        calls[i]->answered = note_troubled;
    }
    rpc_submit_on(channel, calls, count);
    assert_true(rpc_drive(channel, all_are_troubled, &count, 0));
    while (troubled_count-- > 0) {
        struct rpc_call *call = troubled[troubled_count];
        size_t i = (size_t)(call - room);
        const struct nfs_data data = {.vectors = &vectors[i], .count = 1, .length = BLOCK};
        struct nfs_transfer done;
        int result = -EAGAIN;
        if (rpc_take_up(call)) {
            rpc_wait(&call, 1);
            result = nfs_write_end(call, NFS_FILE_SYNC, &done);
        }
        if (result == -EAGAIN)
            result = nfs_write(&client, &file, i * BLOCK, &data, NFS_FILE_SYNC, &done);
        assert_int_equal(result, 0);
    }
    assert_int_equal(client.session->aside, 0);
    assert_true(atomic_load(&session_server.writes) >= count);
    for (unsigned i = 0; i < count * BLOCK; i++)
        assert_int_equal(session_server.file[i], i / BLOCK + 1);
}

UNIT_TEST_WITH(all_slots_may_be_those_of_calls_that_nobody_waits_for, begin, end)
{
    struct nfs_attr attr;
    atomic_store(&session_server.slots, IN_FLIGHT);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    fail_first_after_a_write();
    carry_out(IN_FLIGHT);
}

UNIT_TEST_WITH(so_they_may_when_others_are_of_no_use, begin, end)
{
    enum { LOST = 3 };
    struct nfs_attr attr;
    atomic_store(&session_server.slots, IN_FLIGHT);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    pthread_mutex_lock(&client.session->lock);
    client.session->lost = LOST; /* half of them, as by calls that ended without an answer */
    client.session->free &= ~(uint64_t)LOST;
    pthread_mutex_unlock(&client.session->lock);
    fail_first_after_a_write();
    carry_out(IN_FLIGHT - 1); /* one of them has no slot */
}

UNIT_TEST_WITH(a_path_to_the_same_server_is_known_by_its_owner_and_scope, begin, end)
{
    struct nfs_attr attr;
    struct net_server *other;
    const struct net_address address = loopback(session_server.other_port, "other");
    struct net_server_options options = {.name = "other",
                                         .connections_max = 1,
                                         .port_policy = NET_PORT_ANY,
                                         .reconnect_max_s = 1,
                                         .retransmit_timeout_s = 60,
                                         .hidden = true};
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    assert_int_equal(net_server_create(&options, &address, 1, &other), 0);
    struct nfs_client over = client;
    over.server = other;
    over.timeout_ms = 60000;
    assert_int_equal(nfs4_session_leads_here(&over), 0);
    assert_int_equal(nfs_getattr(&over, &file, &attr), 0); /* in the same session */
    assert_int_equal(atomic_load(&session_server.ops[S_CREATE_SESSION]), 1);
    atomic_store(&session_server.other_node, true); /* of a cluster: it does not know the session */
    assert_int_equal(nfs4_session_leads_here(&over), -EXDEV);
    atomic_store(&session_server.other_node, false);
    assert_int_equal(nfs4_session_leads_here(&over), 0);
    nfs4_session_after_fork(client.session); /* a child knows it before it has a session */
    assert_int_equal(nfs4_session_leads_here(&over), 0);
    atomic_store(&session_server.other_owner, true);
    assert_int_equal(nfs4_session_leads_here(&over), -EXDEV);
    rpc_server_destroy(other);
}

/* Who waits for a slot waits for a call that nobody else sees to: its own, on another path. */
UNIT_TEST_WITH(one_slot_is_enough_for_two_paths, begin, end)
{
    struct nfs_attr attr;
    struct rpc_call *calls[2];
    atomic_store(&session_server.slots, 1);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    assert_int_equal(client.session->granted, 1);
    use_both();
    for (int i = 0; i < 2; i++) {
        begin_write(i, (uint8_t)(i + 1));
        calls[1 - i] = &room[i];
        struct rpc_call *one[] = {&room[i]};
        rpc_submit_on(net_path_channel(&client.server->paths[i], BLOCK), one, 1);
    }
    rpc_wait(calls, 2); /* the one without a slot first */
    for (int i = 0; i < 2; i++) {
        struct nfs_transfer done;
        assert_int_equal(nfs_write_end(&room[i], NFS_FILE_SYNC, &done), 0);
    }
    assert_int_equal(atomic_load(&session_server.writes), 2);
}

/* The call that has the only slot was carried out over the first path, which is down since; another
 * one waits for the slot at `there`, on the second. */
static void begin_with_the_slot_adrift(struct net_channel **there)
{
    struct nfs_attr attr;
    atomic_store(&session_server.slots, 1);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    fail_first_after_a_write();
    *there = net_path_channel(&client.server->paths[1], BLOCK);
    for (int i = 0; i < 2; i++) {
        struct rpc_call *one[] = {&room[i]};
        begin_write(i, (uint8_t)(i + 1));
        rpc_submit_on(i == 0 ? net_path_channel(&client.server->paths[0], BLOCK) : *there, one, 1);
    }
}

static void assert_all_written(int count)
{
    for (int i = 0; i < count; i++) {
        struct nfs_transfer done;
        assert_int_equal(nfs_write_end(&room[i], NFS_FILE_SYNC, &done), 0);
        assert_false(done.unsettled);
    }
    assert_int_equal(atomic_load(&session_server.writes), count);
}

UNIT_TEST_WITH(who_waits_for_a_slot_sends_its_own_call_that_has_it_over_another_path, begin, end)
{
    struct net_channel *there;
    begin_with_the_slot_adrift(&there);
    rpc_wait((struct rpc_call *[]){&room[1], &room[0]}, 2);
    assert_all_written(2);
}

/* As a flush waits for its WRITEs. */
UNIT_TEST_WITH(so_does_who_waits_for_one_call_after_the_other, begin, end)
{
    struct net_channel *there;
    struct rpc_call *calls[] = {&room[1], &room[0]};
    struct rpc_owned own = {calls, 2, rpc_owned};
    begin_with_the_slot_adrift(&there);
    rpc_owned = &own;
    for (int i = 0; i < 2; i++)
        rpc_wait(&calls[i], 1);
    rpc_owned = own.outer;
    assert_all_written(2);
}

static void *wait_for_second(void *unused)
{
    rpc_wait((struct rpc_call *[]){&room[1]}, 1);
    return unused;
}

UNIT_TEST_WITH(so_does_who_follows_another_thread_that_waits_for_the_slot, begin, end)
{
    pthread_t leader;
    struct net_channel *there;
    begin_with_the_slot_adrift(&there);
    pthread_create(&leader, NULL, wait_for_second, NULL);
    while (atomic_load(&room[0].state) != RPC_ADRIFT)
        sys_nanosleep_ms(1);
    begin_write(2, 3);
    rpc_submit_on(there, (struct rpc_call *[]){&room[2]}, 1);
    rpc_wait((struct rpc_call *[]){&room[2], &room[0]}, 2);
    pthread_join(leader, NULL);
    assert_all_written(3);
}

/* The copy goes over a connection that was made before the call was first sent. The server says
 * DELAY, as the first one is still under way. */
UNIT_TEST_WITH(a_copy_over_an_older_connection_that_is_put_off_says_nothing_of_the_one_before,
               begin, end)
{
    struct nfs_attr attr;
    struct nfs_transfer done;
    struct rpc_call *calls[] = {&room[0]};
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    begin_write(0, 1);
    rpc_submit_on(net_path_channel(&client.server->paths[1], BLOCK), calls, 1);
    rpc_wait(calls, 1);
    assert_int_equal(nfs_write_end(&room[0], NFS_FILE_SYNC, &done), 0);

    fail_first_after_a_write();
    begin_write(0, 2);
    rpc_submit_on(net_path_channel(&client.server->paths[0], BLOCK), calls, 1);
    while (atomic_load(&session_server.writes) < 2)
        sys_nanosleep_ms(1);
    atomic_store(&session_server.fail_op, S_SEQUENCE);
    atomic_store(&session_server.fail_status, NFS4ERR_DELAY);
    atomic_store(&session_server.fail_count, 1);
    rpc_wait(calls, 1);
    assert_int_equal(room[0].channel->path->index, 1);
    assert_int_equal(nfs_write_end(&room[0], NFS_FILE_SYNC, &done), -EAGAIN);
    assert_true(done.unsettled);
    assert_int_equal(__builtin_popcountll(client.session->lost), 1);

    begin_write(1, 9); /* in the same slot it would be taken for another copy */
    rpc_submit_on(net_path_channel(&client.server->paths[1], BLOCK),
                  (struct rpc_call *[]){&room[1]}, 1);
    rpc_wait((struct rpc_call *[]){&room[1]}, 1);
    assert_int_equal(nfs_write_end(&room[1], NFS_FILE_SYNC, &done), 0);
    assert_int_equal(atomic_load(&session_server.writes), 3);
    assert_int_equal(session_server.file[BLOCK], 9);
}

static bool second_is_answered(void *unused)
{
    (void)unused;
    return room[1].answered_ns != 0;
}

static void do_nothing(struct rpc_call *unused)
{
    (void)unused;
}

/* Nobody waits for the call that has the slot, whose channel is none of those that are driven. */
UNIT_TEST_WITH(who_drives_several_channels_gets_a_slot, begin, end)
{
    struct nfs_attr attr;
    atomic_store(&session_server.slots, 1);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    for (int i = 0; i < 2; i++) {
        begin_write(i, (uint8_t)(i + 1));
        room[i].answered = do_nothing;
        room[i].answered_ns = 0;
    }
    struct net_channel *busy = net_path_channel(&client.server->paths[0], BLOCK);
    rpc_submit_on(busy, (struct rpc_call *[]){&room[0]}, 1);
    struct net_channel *driven[] = {net_path_channel(&client.server->paths[1], BLOCK),
                                    net_path_channel(&client.server->paths[0], BLOCK)};
    assert_ptr_not_equal(driven[1], busy);
    rpc_submit_on(driven[0], (struct rpc_call *[]){&room[1]}, 1);
    assert_true(
        rpc_drive_all(driven, 2, second_is_answered, NULL, sys_now_ns() + UINT64_C(10000000000)));
}

/* A probe has a server of its own, and with it the connection that is to be bound. */
UNIT_TEST_WITH(a_connection_is_bound_by_who_has_it, begin, end)
{
    static const struct conf_tunables tunables = {.retransmit_timeout = 60};
    struct nfs_attr attr;
    const struct net_address address = loopback(session_server.other_port, "other");
    struct nfs_client over = client;
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    over.timeout_ms = 200;
    assert_int_equal(reach_over(&address, NET_PORT_ANY, 1, &tunables, NULL, &over.server), 0);
    atomic_store(&session_server.fail_op, S_SEQUENCE);
    atomic_store(&session_server.fail_status, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    atomic_store(&session_server.fail_count, 1);
    assert_int_equal(nfs_getattr(&over, &file, &attr), 0);
    assert_int_equal(atomic_load(&session_server.ops[S_BIND]), 1);
    atomic_store(&session_server.fail_count, UINT32_MAX);
    assert_int_equal(nfs_getattr(&over, &file, &attr), -ETIMEDOUT);
    rpc_server_destroy(over.server);
    atomic_store(&session_server.fail_count, 0);
    unsigned bound = atomic_load(&session_server.ops[S_BIND]);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    assert_int_equal(atomic_load(&session_server.ops[S_BIND]), bound);
}

/* That a path is dead is no answer of a server. */
UNIT_TEST_WITH(a_probe_without_an_answer_is_no_call_that_failed, begin, end)
{
    static const struct conf_tunables tunables = {.retransmit_timeout = 60};
    const struct directnfs_procedure_stats *counted = &stats_own->counters.procedures[1];
    struct nfs_client over = {.version = &nfs_version3, .auth = &rpc_auth_none, .timeout_ms = 100};
    const struct net_address address = loopback(1, "nobody"); /* no port of a test */
    const struct nfs_fh fh = {.len = 4};
    struct nfs_attr attr;
    uint64_t errors = counted->errors, calls = counted->latency.calls;
    assert_int_equal(reach_over(&address, NET_PORT_ANY, 1, &tunables, NULL, &over.server), 0);
    assert_true(nfs_getattr(&over, &fh, &attr) < 0);
    rpc_server_destroy(over.server);
    assert_int_equal(counted->errors, errors);
    assert_int_equal(counted->latency.calls, calls);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
