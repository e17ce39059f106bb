/* Pools of connections, on loopback. */
#include "rpc/rpc.h"
#include "net/balance.h"
#include "net/pool.h"
#include "queries.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "unit.h"

static struct net_server *pool_new(unsigned connections_max, unsigned paths)
{
    struct net_address addresses[NET_PATHS_MAX];
    for (unsigned i = 0; i < paths; i++)
        addresses[i] = loopback((in_port_t)(1000 + i));
    struct net_server_options options = {
        .name = "pool", .connections_max = connections_max, .reconnect_max_s = 30};
    struct net_server *server;
    assert_int_equal(net_server_create(&options, addresses, paths, &server), 0);
    return server;
}

CALL_TEST(an_idle_channel_is_used_again)
{
    struct net_server *server = pool_new(8, 1);
    struct net_channel *first = net_channel_get(server, 0);
    for (int i = 0; i < 100; i++)
        assert_ptr_equal(net_channel_get(server, 0), first);
    assert_int_equal(server->channel_count, 1);
    assert_int_equal(first->fd, -1); /* no traffic until someone connects */
    net_server_destroy(server);
}

CALL_TEST(grows_while_all_are_busy)
{
    struct net_server *server = pool_new(8, 1);
    for (unsigned i = 0; i < 30; i++) {
        struct net_channel *channel = net_channel_get(server, 0);
        assert_int_equal(channel->outstanding, i / 8); /* then the one with the fewest calls */
        channel->outstanding++;
        assert_int_equal(server->channel_count, i < 8 ? i + 1 : 8);
    }
    net_server_destroy(server);
}

CALL_TEST(prefers_the_fewest_calls_in_flight)
{
    struct net_server *server = pool_new(3, 1);
    for (int i = 0; i < 3; i++)
        net_channel_get(server, 0)->outstanding = 5;
    server->channels[0]->outstanding = 4;
    server->channels[1]->outstanding = 2;
    server->channels[2]->outstanding = 3;
    assert_ptr_equal(net_channel_get(server, 0), server->channels[1]);
    server->channels[2]->outstanding = 0;
    assert_ptr_equal(net_channel_get(server, 0), server->channels[2]);
    net_server_destroy(server);
}

CALL_TEST(calls_without_data_do_not_wait_behind_data)
{
    const size_t sizes[] = {4096, 8192, 32768, 65535};
    for (unsigned i = 0; i < 4; i++) {
        struct net_server *server = pool_new(4, 1);
        for (unsigned calls = 0; calls < 400; calls++)
            net_channel_get(server, sizes[i])->outstanding++;
        struct net_channel *free = net_channel_get(server, 0);
        assert_true((free->outstanding - 1) * sizes[i] < 16384);
        assert_int_equal(net_channel_has_room(free, 0), true);
        assert_int_equal(net_channel_has_room(free, sizes[i]), false);
        for (unsigned j = 0; j < 3; j++)
            assert_in_range(server->channels[j]->outstanding, 123, 133);
        net_server_destroy(server);
    }
}

/* Else a call and the channel that cannot take it would give it back to each other. */
CALL_TEST(data_takes_the_free_channel_when_all_others_failed)
{
    const size_t sizes[] = {0, 8192, 32768, 1 << 20};
    struct net_server *server = pool_new(3, 1);
    for (int i = 0; i < 3; i++)
        atomic_fetch_add(&net_channel_get(server, 0)->outstanding, 1);
    for (int i = 0; i < 2; i++) {
        server->channels[i]->outstanding = 0;
        server->channels[i]->failed_ns = sys_now_ns();
    }
    for (unsigned calls = 0; calls < 10; calls++) {
        server->channels[2]->outstanding = calls;
        for (unsigned i = 0; i < 4; i++)
            assert_ptr_equal(net_channel_get(server, sizes[i]), server->channels[2]);
    }
    server->channels[1]->failed_ns = 0;
    assert_ptr_equal(net_channel_get(server, 1 << 20), server->channels[1]);
    net_server_destroy(server);
}

CALL_TEST(paths_take_turns)
{
    struct net_server *server = pool_new(2, 3);
    unsigned per_path[3] = {0};
    for (int i = 0; i < 12; i++) {
        struct net_channel *channel = net_channel_get(server, 0);
        channel->outstanding++;
        net_load_add(channel, 0);
    }
    assert_int_equal(server->channel_count, 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(server->channels[i]->outstanding, 2);
        assert_int_equal(server->channels[i]->index, i);
        per_path[server->channels[i]->path - server->paths]++;
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(per_path[i], 2);
    net_server_destroy(server);
}

CALL_TEST(limits_of_a_server)
{
    struct net_address addresses[NET_PATHS_MAX + 1];
    for (int i = 0; i <= NET_PATHS_MAX; i++)
        addresses[i] = loopback(1);
    struct net_server_options options = {.name = "limits", .connections_max = 1000};
    struct net_server *server = NULL;
    assert_int_equal(net_server_create(&options, addresses, 0, &server), -EINVAL);
    assert_int_equal(net_server_create(&options, addresses, NET_PATHS_MAX + 1, &server), -EINVAL);
    assert_int_equal(net_server_create(&options, addresses, NET_PATHS_MAX, &server), 0);
    assert_int_equal(server->options.connections_max, NET_CONNECTIONS_MAX);
    for (int i = 0; i < NET_PATHS_MAX * NET_CONNECTIONS_MAX + 10; i++) {
        struct net_channel *channel = net_channel_get(server, 0);
        channel->outstanding++;
        net_load_add(channel, 0);
    }
    assert_int_equal(server->channel_count, NET_PATHS_MAX * NET_CONNECTIONS_MAX);
    net_server_destroy(server);
    options.connections_max = 0;
    assert_int_equal(net_server_create(&options, addresses, 1, &server), 0);
    assert_int_equal(server->options.connections_max, 1);
    net_server_destroy(server);
}

static void *grow(void *context)
{
    for (int i = 0; i < 200; i++) {
        struct net_channel *channel = net_channel_get(context, 0);
        atomic_fetch_add(&channel->outstanding, 1);
        net_load_add(channel, 0);
    }
    return NULL;
}

CALL_TEST(threads_grow_a_pool)
{
    struct net_server *server = pool_new(16, 2);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, grow, server), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(server->channel_count, 32);
    unsigned total = 0;
    for (int i = 0; i < 32; i++) {
        assert_non_null(server->channels[i]);
        total += server->channels[i]->outstanding;
    }
    assert_int_equal(total, 800);
    net_server_destroy(server);
}

CALL_TEST(pauses_grow_up_to_their_limit)
{
    struct net_server *server = pool_new(1, 1);
    assert_int_equal(net_reconnect_pause_ms(server, 0), 0);
    int last = 0;
    for (unsigned attempt = 1; attempt < 100; attempt++) {
        int pause = net_reconnect_pause_ms(server, attempt);
        assert_true(pause >= 100 && pause >= last && pause <= 30000);
        last = pause;
    }
    assert_int_equal(last, 30000);
    assert_int_equal(net_reconnect_pause_ms(server, 0xffffffff), 30000);
    net_server_destroy(server);
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
