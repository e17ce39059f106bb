/* A session of NFSv4.1 over two paths: what was on its way over one that fails goes over the other,
 * and is carried out once. */
#include <errno.h>

#include "nfs/nfs4_call.h"
#include "net/health.h"
#include "net/pool.h"
#include "session_server.h"
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
    server_start();
    atomic_store(&first_fails, false);
    const struct net_address addresses[] = {loopback(server.port, "first"),
                                            loopback(server.other_port, "second")};
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
    server_stop();
    return 0;
}

static void use_both(void)
{
    net_server_want_more(client.server);
    while (!net_path_usable(&client.server->paths[1]))
        sys_nanosleep_ms(1);
}

static uint8_t blocks[IN_FLIGHT][BLOCK];
static struct rpc_call room[IN_FLIGHT];
static struct iovec vectors[IN_FLIGHT];
static _Atomic unsigned told_down;

/* Over the first path, which dies when the server has executed one of them. */
static void begin_writes(struct rpc_call *calls[IN_FLIGHT], void (*answered)(struct rpc_call *))
{
    struct nfs_attr attr;
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    use_both();
    atomic_store(&first_fails, true);
    atomic_store(&server.death, SERVER_DIES_AFTER);
    atomic_store(&server.cut, true);
    atomic_store(&server.deaths, 1);
    for (int i = 0; i < IN_FLIGHT; i++) {
        memset(blocks[i], i + 1, BLOCK);
        vectors[i] = (struct iovec){blocks[i], BLOCK};
        const struct nfs_data data = {.vectors = &vectors[i], .count = 1, .length = BLOCK};
        calls[i] = &room[i];
        nfs_write_begin(calls[i], &client, &file, (uint64_t)i * BLOCK, &data, NFS_FILE_SYNC);
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
    assert_int_equal(atomic_load(&server.writes), IN_FLIGHT);
    assert_int_equal(atomic_load(&server.told_again), 1);
    for (int i = 0; i < IN_FLIGHT * BLOCK; i++)
        assert_int_equal(server.file[i], i / BLOCK + 1);
    assert_int_equal(atomic_load(&server.clients), 1);
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

UNIT_TEST_WITH(a_path_to_the_same_server_is_known_by_its_owner_and_scope, begin, end)
{
    struct nfs_attr attr;
    struct net_server *other;
    const struct net_address address = loopback(server.other_port, "other");
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
    assert_int_equal(atomic_load(&server.ops[S_CREATE_SESSION]), 1);
    atomic_store(&server.other_owner, true);
    assert_int_equal(nfs4_session_leads_here(&over), -EXDEV);
    rpc_server_destroy(other);
}

/* Who waits for a slot waits for a call that nobody else sees to: its own, on another path. */
UNIT_TEST_WITH(one_slot_is_enough_for_two_paths, begin, end)
{
    struct nfs_attr attr;
    struct rpc_call *calls[2];
    atomic_store(&server.slots, 1);
    assert_int_equal(nfs_getattr(&client, &file, &attr), 0);
    assert_int_equal(client.session->granted, 1);
    use_both();
    for (int i = 0; i < 2; i++) {
        memset(blocks[i], i + 1, BLOCK);
        vectors[i] = (struct iovec){blocks[i], BLOCK};
        const struct nfs_data data = {.vectors = &vectors[i], .count = 1, .length = BLOCK};
        nfs_write_begin(&room[i], &client, &file, (uint64_t)i * BLOCK, &data, NFS_FILE_SYNC);
        calls[1 - i] = &room[i];
        struct rpc_call *one[] = {&room[i]};
        rpc_submit_on(net_path_channel(&client.server->paths[i], BLOCK), one, 1);
    }
    rpc_wait(calls, 2); /* the one without a slot first */
    for (int i = 0; i < 2; i++) {
        struct nfs_transfer done;
        assert_int_equal(nfs_write_end(&room[i], NFS_FILE_SYNC, &done), 0);
    }
    assert_int_equal(atomic_load(&server.writes), 2);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
