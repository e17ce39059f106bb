/* A path that has another address by now, and connections that this thread cannot make. */
#include <sched.h>

#include "path_scene.h"
#include "sys/proc.h"
#include "unit.h"

/* ---- another address ---- */

static struct server *former, *latter;
static struct net_server *mover;

static int setup_move(void **state)
{
    watchdog_start(state);
    former = server_start(&(struct script){0});
    latter = server_start(&(struct script){0});
    mover = client_new(former->port, 2, 600);
    return 0;
}

static int teardown_move(void **state)
{
    rpc_server_destroy(mover);
    server_stop(former);
    server_stop(latter);
    return watchdog_stop(state);
}

#define MOVE_TEST(name) UNIT_TEST_WITH(name, setup_move, teardown_move)

static bool move(void)
{
    struct net_address address = loopback(latter->port);
    return net_path_move(&mover->paths[0], &address.peer);
}

MOVE_TEST(a_path_that_works_stays)
{
    check_echo(mover, 1);
    assert_false(net_path_is_down_for(&mover->paths[0], 0));
    assert_false(move());
    check_echo(mover, 2);
    assert_int_equal(former->calls, 2);
}

/* Over a connection that was open all the time: others may be made to the same address. */
MOVE_TEST(a_path_that_was_heard_since_it_was_down_stays)
{
    check_echo(mover, 1);
    net_path_failed(&mover->paths[0], "so it seems");
    assert_true(net_path_is_down_for(&mover->paths[0], 0));
    assert_false(net_path_is_down_for(&mover->paths[0], 3600 * SECOND_NS));
    check_echo(mover, 2);
    assert_false(net_path_is_down_for(&mover->paths[0], 0));
    assert_false(move());
}

MOVE_TEST(an_open_connection_to_the_address_before_is_given_up)
{
    check_echo(mover, 1);
    net_path_failed(&mover->paths[0], "so it seems");
    assert_true(move());
    rpc_follow_path(&mover->paths[0]);
    check_echo(mover, 2);
    assert_int_equal(former->calls, 1);
    assert_int_equal(latter->calls, 1);
}

static struct query waiting;

static void *waits_for_one(void *unused)
{
    query_wait(mover, &waiting, 0);
    return unused;
}

MOVE_TEST(a_call_that_waits_at_the_address_before_is_sent_to_the_new_one)
{
    pthread_t thread;
    check_echo(mover, 1);
    atomic_store(&former->silent, true);
    query_begin(&waiting, ECHO, 2, 0);
    assert_int_equal(pthread_create(&thread, NULL, waits_for_one, NULL), 0);
    eventually(former->calls == 2);
    net_path_failed(&mover->paths[0], "so it seems");
    assert_true(move());
    rpc_follow_path(&mover->paths[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(latter->calls, 1);
    assert_true(query_good(&waiting));
    assert_true(waiting.call.unsettled); /* who is there does not know it again */
}

/* It accepts one connection, and then none before that is taken. */
static int full_listener(in_port_t *port)
{
    *port = 0;
    int fd = stream_bind_loopback(AF_INET, port);
    assert_int_equal(listen(fd, 0), 0);
    return fd;
}

static int connect_to(in_port_t port)
{
    struct net_address address = loopback(port);
    int fd = net_connect(&address, NET_PORT_ANY, 1000);
    assert_true(fd >= 0);
    return fd;
}

static void moves_meanwhile(void *context)
{
    int *listener = context;
    if (*listener < 0)
        return;
    net_path_failed(&mover->paths[0], "so it seems");
    assert_true(move());
    close(accept(*listener, NULL, NULL));
    *listener = -1;
}

MOVE_TEST(a_connection_that_is_made_meanwhile_is_not_used)
{
    in_port_t port;
    int fd = full_listener(&port), first = connect_to(port), listener = fd;
    struct net_channel *channel = net_channel_get(mover, 0);
    mover->paths[0].address.peer = loopback(port).peer;
    assert_int_equal(net_channel_connect_looking(channel, 60000, moves_meanwhile, &listener),
                     -EAGAIN);
    assert_int_equal(listener, -1);
    assert_true(channel->fd < 0);
    assert_int_equal(net_channel_connect(channel, 60000), 0);
    assert_false(net_channel_is_astray(channel));
    eventually(latter->connections == 1);
    close(first);
    close(fd);
}

/* It was made already, but who made it did not say so yet. */
MOVE_TEST(a_connection_that_was_just_made_is_not_used)
{
    struct net_channel *channel = net_channel_get(mover, 0);
    struct rpc_transport *transport = rpc_transport_of(channel);
    assert_int_equal(net_channel_connect(channel, 60000), 0);
    net_path_failed(&mover->paths[0], "so it seems");
    assert_true(move());
    rpc_follow_path(&mover->paths[0]);
    pthread_mutex_lock(&transport->lock);
    assert_int_equal(rpc_connection_stays(transport), -EAGAIN);
    pthread_mutex_unlock(&transport->lock);
    assert_true(channel->fd < 0);
    assert_int_equal(net_channel_connect(channel, 60000), 0);
    pthread_mutex_lock(&transport->lock);
    assert_int_equal(rpc_connection_stays(transport), 0);
    pthread_mutex_unlock(&transport->lock);
    check_echo(mover, 1);
    assert_int_equal(latter->calls, 1);
}

/* ---- the only path ---- */

static _Atomic unsigned lone_asked, lone_probed, lone_heard;
static _Atomic bool lone_known;

static int probe_lone(struct net_path *path, bool proven, int timeout_ms)
{
    (void)path, (void)proven, (void)timeout_ms;
    atomic_fetch_add(&lone_probed, 1);
    return -ECONNREFUSED;
}

static bool lone_elsewhere(struct net_path *path)
{
    (void)path;
    atomic_fetch_add(&lone_asked, 1);
    return atomic_load(&lone_known);
}

static void lone_is_heard(struct net_path *path, const struct sockaddr_storage *peer)
{
    assert_memory_equal(peer, &path->address.peer, sizeof(*peer));
    atomic_fetch_add(&lone_heard, 1);
}

static void fails_for_long(struct net_path *path)
{
    net_path_failed(path, "so it seems");
    pthread_mutex_lock(&path->server->lock);
    path->down_since_ns = 1;
    path->probe_ns = 1;
    pthread_mutex_unlock(&path->server->lock);
    for (unsigned i = 0; i < path->server->channel_count; i++)
        atomic_store(&path->server->channels[i]->heard_ns, 0);
    net_path_failed(path, "so it seems");
}

/* Else a server of one address would be asked by a thread of ours as long as it is away. */
MOVE_TEST(the_only_path_is_probed_when_another_address_is_known)
{
    struct net_address address = loopback(former->port);
    struct net_server_options options = mover->options;
    struct net_server *lone;
    options.probe = probe_lone;
    options.elsewhere = lone_elsewhere;
    options.heard = lone_is_heard;
    assert_int_equal(net_server_create(&options, &address, 1, &lone), 0);
    struct net_path *path = &lone->paths[0];
    check_echo(lone, 1);
    check_echo(lone, 2);
    assert_int_equal(atomic_load(&lone_heard), 1);
    assert_true(net_path_failed(path, "so it seems"));
    assert_int_equal(atomic_load(&lone_asked), 0); /* it may restart */
    fails_for_long(path);
    assert_true(atomic_load(&lone_asked) > 0);
    assert_false(net_server_is_probed(lone));
    net_health_kick();
    wait_for_prober(lone);
    assert_int_equal(atomic_load(&lone_probed), 0);
    atomic_store(&lone_known, true);
    fails_for_long(path);
    eventually(atomic_load(&lone_probed) > 0);
    net_path_works(path);
    assert_false(net_server_is_probed(lone));
    rpc_server_destroy(lone);
}

/* ---- in another network namespace ---- */

/* What was so when the call failed: meanwhile another thread may have connected. */
MOVE_TEST(a_call_that_failed_abroad_did_so)
{
    check_echo(mover, 1);
    assert_true(net_server_fails_abroad(mover, -ENONET));
    assert_false(net_server_fails_abroad(mover, -EIO));
}

static void *looks_abroad(void *unused)
{
    struct net_channel *channel = net_channel_get(mover, 0);
    assert_int_equal(unshare(CLONE_NEWNET), 0);
    assert_false(net_server_look_abroad(mover));
    net_channel_reset(channel); /* as one that is given up */
    assert_true(net_server_look_abroad(mover));
    return unused;
}

MOVE_TEST(a_connection_that_is_over_is_none)
{
    pthread_t thread;
    if (geteuid() != 0)
        return;
    check_echo(mover, 1);
    assert_int_equal(pthread_create(&thread, NULL, looks_abroad, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *calls_abroad(void *unused)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    assert_int_equal(unshare(CLONE_NEWNET), 0);
    end_connections(0);
    query_begin(&query, ECHO, 3, 0);
    rpc_submit_on(net_path_channel(&client->paths[0], 0), &call, 1);
    rpc_wait(&call, 1);
    assert_int_equal(call->error, 0);
    return unused;
}

PATH_TEST(calls_go_over_the_paths_that_are_connected)
{
    struct query query = {0};
    pthread_t thread;
    if (geteuid() != 0)
        return; /* only root may go there */
    use_all_paths();
    atomic_store(&probed[0], -ECONNREFUSED);
    echo_over(0, 1, &query);
    echo_over(1, 2, &query);
    echo_over(2, 2, &query);
    assert_int_equal(pthread_create(&thread, NULL, calls_abroad, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    sys_proc_keep();
    return path_tests_run("test_path_move");
}
