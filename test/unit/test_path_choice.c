/* A server with several paths: which of them a call takes, and which none take any more. */
#include "path_scene.h"
#include "net/balance.h"
#include "net/health.h"
#include "net/pool.h"

/* ---- choosing ---- */

PATH_TEST(one_path_is_enough_for_one_call_at_a_time)
{
    for (uint32_t i = 0; i < 100; i++)
        check_echo(client, i);
    assert_int_equal(servers[0]->calls, 100);
    for (unsigned i = 1; i < PATHS; i++) {
        assert_int_equal(servers[i]->connections, 0);
        assert_int_equal(probes[i], 0);
    }
}

PATH_TEST(an_unproven_path_carries_nothing)
{
    atomic_store(&probed[1], -EXDEV);
    net_server_want_more(client);
    eventually(usable(2) && probes[1] > 0);
    for (int i = 0; i < 200; i++)
        net_load_add(net_channel_get(client, 8192), 8192);
    eventually(atomic_load(&client->paths[1].state) == NET_PATH_REFUSED);
    assert_int_equal(atomic_load(&client->paths[1].load.outstanding_bytes), 0);
    assert_true(atomic_load(&client->paths[2].load.outstanding_bytes) > 0);
    net_path_failed(&client->paths[1], "replies stopped");
    assert_int_equal(atomic_load(&client->paths[1].state), NET_PATH_REFUSED);
    assert_int_equal(probes[1], 1); /* for ever */
}

PATH_TEST(a_path_that_is_asked_keeps_no_other_waiting)
{
    atomic_store(&probed[1], UNTIL_OTHERS);
    use_all_paths();
    assert_int_equal(probes[1], 1);
    assert_int_equal(probes[2], 1);
}

PATH_TEST(work_is_spread_evenly_over_equal_paths)
{
    unsigned chosen[PATHS] = {0};
    use_all_paths();
    for (int i = 0; i < 300; i++) {
        struct net_channel *channel = net_channel_get(client, 8192);
        net_load_add(channel, 8192);
        chosen[channel->path->index]++;
    }
    for (unsigned i = 0; i < PATHS; i++)
        assert_int_equal(chosen[i], 100);
}

/* A path's replies come `ns` apart, each of 64 KiB, while there is always more to do. */
static void path_serves(unsigned path, uint64_t ns, uint64_t start_ns)
{
    struct net_channel *channel = net_path_channel(&client->paths[path], 65536);
    for (uint64_t i = 1; i <= 64; i++)
        net_load_answered(channel, 65536, start_ns, start_ns + i * ns);
}

PATH_TEST(faster_paths_get_more)
{
    unsigned chosen[PATHS] = {0};
    uint64_t now = sys_now_ns();
    use_all_paths();
    path_serves(0, 4000000, now);
    path_serves(1, 1000000, now);
    path_serves(2, 1000000, now);
    for (int i = 0; i < 900; i++) {
        struct net_channel *channel = net_channel_get(client, 65536);
        net_load_add(channel, 65536);
        chosen[channel->path->index]++;
    }
    assert_in_range(chosen[0], 90, 110); /* 1 : 4 : 4 */
    assert_in_range(chosen[1], 390, 410);
    assert_in_range(chosen[2], 390, 410);
}

/* The same, but so many replies arrive at once, after their time. */
static void path_serves_in_bursts(unsigned path, uint64_t ns, uint64_t burst, size_t bytes,
                                  uint64_t start_ns)
{
    struct net_channel *channel = net_path_channel(&client->paths[path], bytes);
    for (uint64_t i = 0; i < 40; i++) {
        for (uint64_t j = 0; j < burst; j++)
            net_load_answered(channel, bytes, start_ns, start_ns + (i + 1) * burst * ns);
    }
}

static uint64_t service_of(unsigned path)
{
    return atomic_load(&client->paths[path].load.ns_per_unit);
}

PATH_TEST(bursts_say_nothing_of_speed)
{
    uint64_t now = sys_now_ns();
    const struct {
        uint64_t ns, burst;
        size_t bytes;
    } cases[] = {{330000, 40, 8192},  {330000, 100, 8192},    {330000, 3, 8192},
                 {2600000, 8, 65536}, {42000000, 2, 1 << 20}, {20000, 100, 8192}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        net_load_forget(&client->paths[0]);
        client->paths[0].load.departed_ns = 0;
        path_serves_in_bursts(0, cases[i].ns, cases[i].burst, cases[i].bytes, now);
        uint64_t service = cases[i].ns * 65536 / (cases[i].bytes + 512);
        assert_in_range(service_of(0), service * 7 / 10, service * 14 / 10);
    }
}

PATH_TEST(a_path_that_was_slow_long_ago_is_tried_again)
{
    unsigned chosen[PATHS] = {0};
    uint64_t now = sys_now_ns();
    use_all_paths();
    path_serves(0, 40000000, now - 60 * SECOND_NS);
    path_serves(1, 1000000, now);
    path_serves(2, 1000000, now);
    for (int i = 0; i < 300; i++) {
        struct net_channel *channel = net_channel_get(client, 65536);
        net_load_add(channel, 65536);
        chosen[channel->path->index]++;
    }
    assert_in_range(chosen[0], 90, 110);
}

/* What was true long ago does not count against what is seen now. */
PATH_TEST(a_path_that_is_fast_again_is_believed)
{
    uint64_t now = sys_now_ns();
    use_all_paths();
    path_serves(0, 100000000, now - 10 * SECOND_NS); /* over after 6.4 s */
    path_serves(1, 1000000, now);
    assert_true(service_of(0) > 90000000);
    struct net_channel *channel = net_path_channel(&client->paths[0], 65536);
    for (unsigned i = 1; i <= 10; i++)
        net_load_answered(channel, 65536, now, now + i * 1000000);
    assert_in_range(service_of(0), 900000, 1100000);
}

/* It has no more to do than short calls, one at a time, of which most is latency. */
PATH_TEST(a_path_that_gets_lone_short_calls_is_not_slower)
{
    uint64_t now = sys_now_ns();
    use_all_paths();
    path_serves(1, 1000000, now);
    struct net_channel *channel = net_path_channel(&client->paths[0], 8192);
    for (unsigned i = 0; i < 100; i++)
        net_load_answered(channel, 8192, now + i * 1000000, now + i * 1000000 + 400000);
    assert_in_range(service_of(0), 1, service_of(1));
    assert_ptr_equal(net_path_choose(client, 1 << 20, NULL), &client->paths[0]);
}

PATH_TEST(short_calls_do_not_wait_behind_bulk_data)
{
    for (int i = 0; i < 50; i++) {
        struct net_channel *channel = net_path_channel(&client->paths[0], 1 << 20);
        atomic_fetch_add(&channel->outstanding, 1);
        net_load_add(channel, 1 << 20);
        assert_int_equal(channel->index, 0); /* of two: the other is left to short calls */
    }
    struct net_channel *channel = net_path_channel(&client->paths[0], 200);
    assert_int_equal(channel->index, 1);
    assert_int_equal(atomic_load(&channel->outstanding), 0);
}

/* ---- offline ---- */

PATH_TEST(an_offline_path_gets_no_new_calls)
{
    use_all_paths();
    assert_int_equal(run_offline_set("several", "path0", NULL, true), 0);
    for (uint32_t i = 0; i < 50; i++)
        check_echo(client, i);
    assert_int_equal(servers[0]->calls, 0);
    assert_int_equal(run_offline_set("several", "path0", NULL, false), 0);
    net_server_look_offline(client);
    assert_true(usable(0));
}

/* Nobody calls meanwhile. */
PATH_TEST(an_idle_connection_of_an_offline_path_is_closed)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    struct net_channel *channel = query.call.channel;
    assert_true(channel->fd >= 0);
    assert_int_equal(run_offline_set("several", "path1", NULL, true), 0);
    eventually(channel->fd < 0);
    assert_int_equal(run_offline_set("several", "path1", NULL, false), 0);
    eventually(usable(1));
    echo_over(1, 2, &query);
    assert_int_equal(servers[1]->connections, 2);
}

/* There is a thread that would do it: this is what one does that makes a call. */
PATH_TEST(a_connection_of_an_offline_path_is_closed_when_it_is_drained)
{
    struct query query = {0}, last = {0};
    struct rpc_call *call = &last.call;
    use_all_paths();
    echo_over(1, 1, &query);
    struct net_channel *channel = query.call.channel;
    query_begin(&last, ECHO, 2, 0);
    rpc_submit_on(channel, &call, 1);
    assert_int_equal(run_offline_set("several", "path1", NULL, true), 0);
    net_server_look_offline(client);
    assert_false(usable(1));
    assert_false(rpc_close_idle(channel, 0)); /* nobody took the answer */
    rpc_wait(&call, 1);
    assert_int_equal(call->error, 0);
    eventually(net_server_drain(client) && channel->fd < 0);
    assert_int_equal(servers[1]->connections, 1);
    assert_int_equal(run_offline_set("several", "path1", NULL, false), 0);
}

/* Nobody waits for the answer to a ping. */
PATH_TEST(a_ping_does_not_keep_a_connection)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    atomic_store(&servers[1]->silent, true);
    struct net_channel *channel = net_path_channel(&client->paths[1], 0);
    struct rpc_transport *transport = rpc_transport_of(channel);
    struct rpc_call *call = &query.call;
    query_begin(&query, ECHO, 2, 0);
    rpc_submit_on(channel, &call, 1);
    client->options.path_timeout_ms = 6000; /* a ping after half of it */
    rpc_wait_for(&call, 1, 4500);
    assert_true(transport->pinging);
    assert_int_equal(channel->outstanding, 0);
    assert_true(rpc_close_idle(channel, 0));
    assert_false(transport->pinging);
    atomic_store(&servers[1]->silent, false);
    echo_over(1, 3, &query);
}

PATH_TEST(the_last_path_is_used_though_offline)
{
    use_all_paths();
    for (unsigned i = 0; i < PATHS; i++)
        assert_int_equal(run_offline_set("several", client->paths[i].address.peer_text, NULL, true),
                         0);
    check_echo(client, 1);
    net_server_drain(client);
    assert_true(client->channels[0]->fd >= 0);
    for (unsigned i = 0; i < PATHS; i++)
        assert_int_equal(
            run_offline_set("several", client->paths[i].address.peer_text, NULL, false), 0);
}

int main(void)
{
    return path_tests_run("test_path_choice");
}
