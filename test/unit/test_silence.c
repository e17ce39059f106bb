/* Calls that wait long, and paths over which nothing comes: src/net/silence.c, and who tells it. */
#include "log_lines.h"
#include "stats/count.h"
#include "net/connect.h"
#include "net/silence.h"
#include "run/log_limit.h"
#include "path_scene.h"
#include "sys/fd.h"

static const struct directnfs_path_stats *shown(unsigned path)
{
    return client->paths[path].stats;
}

static bool is_shown(unsigned path, uint32_t state)
{
    return stats_get(&shown(path)->state) == state;
}

static uint64_t oldest_shown(unsigned path)
{
    return stats_get(&shown(path)->oldest_ns);
}

/* Submits an ECHO over the first path, and has a thread wait for it. */
static void wait_for_echo(struct query *query, uint32_t token, pthread_t *thread)
{
    struct rpc_call *call = &query->call;
    query_begin(query, ECHO, token, 0);
    rpc_submit_on(net_path_channel(&client->paths[0], 0), &call, 1);
    assert_int_equal(pthread_create(thread, NULL, wait_for_one, call), 0);
}

static void begin_silence(char *log, size_t size)
{
    snprintf(log, size, "%s/log", getenv("DIRECTNFS_RUN"));
    remove(log);
    assert_int_equal(log_open(log), 0);
    client->options.silence_warning_ms = 1100;
    for (unsigned i = 0; i < PATHS; i++)
        atomic_store(&probed[i], -ETIMEDOUT);
    atomic_store(&servers[0]->silent, true);
}

PATH_TEST(a_server_that_hangs_is_shown_and_said_and_so_is_its_end)
{
    char log[128];
    struct query query = {0}, second = {0};
    pthread_t threads[2];
    begin_silence(log, sizeof(log));
    /* Time to look at it before it is sent again. */
    client->options.retransmit_timeout_s = getenv("DIRECTNFS_TEST_SHORT") ? 30 : 6;
    uint64_t before_ns = sys_now_ns(), before_realtime_ns = sys_clock_ns(CLOCK_REALTIME);
    wait_for_echo(&query, 1, &threads[0]);
    eventually(is_shown(0, DIRECTNFS_CHANNEL_SILENT));
    assert_in_range(oldest_shown(0), before_ns, sys_now_ns() - NET_WAITS_LONG_NS);
    eventually(lines_with(log, "server several: no reply over path0 for ") > 0 &&
               lines_with(log, "; 1 call waits") == 1);
    assert_in_range(stats_get(&shown(0)->since_ns), before_realtime_ns - 60 * SECOND_NS,
                    sys_clock_ns(CLOCK_REALTIME) - SECOND_NS);
    assert_true(usable(0)); /* nothing else is done about it */
    assert_int_equal(lines_with(log, "answers again"), 0);

    /* It answers other calls: it is not silent, though the first one waits still. */
    atomic_store(&servers[0]->silent, false);
    wait_for_echo(&second, 2, &threads[1]);
    pthread_join(threads[1], NULL);
    eventually(is_shown(0, DIRECTNFS_CHANNEL_UP));
    eventually(oldest_shown(0) != 0 || atomic_load(&query.call.state) == RPC_DONE);
    eventually(lines_with(log, "server several: answers again after ") == 1);

    /* Until the connection is given up, and it is sent again. */
    pthread_join(threads[0], NULL);
    eventually(oldest_shown(0) == 0);
    assert_true(is_shown(0, DIRECTNFS_CHANNEL_UP));
    log_open("/dev/null");
}

PATH_TEST(who_gives_up_waits_no_longer)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    char log[128];
    begin_silence(log, sizeof(log));
    query_begin(&query, ECHO, 1, 0);
    rpc_submit_on(net_path_channel(&client->paths[0], 0), &call, 1);
    rpc_wait_for(&call, 1, 1300);
    assert_int_equal(call->error, -ETIMEDOUT);
    assert_int_equal(oldest_shown(0), 0);
    assert_true(is_shown(0, DIRECTNFS_CHANNEL_UP));
    log_open("/dev/null");
}

/* A listener whose queue is full answers no SYN, as a host that is down. */
PATH_TEST(a_server_that_cannot_be_connected_to_is_silent_meanwhile)
{
    struct server *server = server_new(&(struct script){0}, AF_INET);
    struct net_server *hanging = client_new(server->port, 1, 60);
    struct net_address address = loopback(server->port);
    struct query query = {0};
    struct rpc_call *call = &query.call;
    pthread_t thread;
    int fds[8], count = 0;
    assert_int_equal(listen(server->listener, 0), 0);
    while (count < 8 && (fds[count] = net_connect(&address, NET_PORT_ANY, 200)) >= 0)
        count++;
    query_begin(&query, ECHO, 1, 0);
    rpc_submit(hanging, &call, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, call), 0);
    eventually(stats_get(&hanging->paths[0].stats->state) == DIRECTNFS_CHANNEL_SILENT);
    while (count > 0)
        sys_fd_close(fds[--count]);
    server_listen(server);
    pthread_join(thread, NULL);
    assert_int_equal(call->error, 0);
    assert_int_equal(stats_get(&hanging->paths[0].stats->state), DIRECTNFS_CHANNEL_UP);
    rpc_server_destroy(hanging);
    server_stop(server);
}

/* ---- what it is told, without waiting ---- */

enum { LONG = 3 };

static void tell(unsigned path, uint64_t waits_s, uint64_t usual_s, uint64_t now)
{
    struct net_channel *channel = net_path_channel(&client->paths[path], 0);
    net_channel_waits(channel, waits_s ? now - waits_s * SECOND_NS : 0, usual_s * SECOND_NS, now);
}

PATH_TEST(a_call_that_takes_its_usual_time_is_no_silence)
{
    uint64_t now = sys_now_ns() + 100 * SECOND_NS;
    tell(0, LONG, LONG + 1, now);
    assert_false(net_path_is_silent(&client->paths[0]));
    assert_int_equal(oldest_shown(0), now - LONG * SECOND_NS);
    tell(0, LONG + 1, LONG + 1, now + SECOND_NS);
    assert_true(is_shown(0, DIRECTNFS_CHANNEL_SILENT));
    tell(0, 0, 0, now + SECOND_NS);
    assert_true(is_shown(0, DIRECTNFS_CHANNEL_DOWN) || is_shown(0, DIRECTNFS_CHANNEL_UP));
    assert_int_equal(oldest_shown(0), 0);
}

PATH_TEST(a_path_that_brings_something_is_not_silent)
{
    uint64_t now = sys_now_ns() + 100 * SECOND_NS;
    net_path_heard(&client->paths[0], now - SECOND_NS / 2);
    tell(0, LONG, 0, now);
    assert_false(net_path_is_silent(&client->paths[0]));
    assert_int_equal(oldest_shown(0), now - LONG * SECOND_NS);
    tell(0, LONG + 1, 0, now + SECOND_NS);
    assert_true(client->paths[0].silent_ns == now - SECOND_NS / 2); /* since it last was heard */
}

/* Of one that falls silent while others answer other lines tell. */
PATH_TEST(a_server_that_answers_over_another_path_is_not_waited_for)
{
    char log[128];
    use_all_paths();
    begin_silence(log, sizeof(log));
    run_said_forget("silent: several");
    uint64_t now = sys_now_ns() + 100 * SECOND_NS;
    net_path_heard(&client->paths[1], now);
    tell(0, LONG, 0, now);
    assert_true(is_shown(0, DIRECTNFS_CHANNEL_SILENT));
    assert_int_equal(lines_with(log, "no reply"), 0);
    tell(0, 2 * LONG, 0, now + LONG * SECOND_NS); /* it goes on, and there is a later silence */
    assert_int_equal(lines_with(log, "no reply"), 0);
    log_open("/dev/null");
}

/* Another process, or another path of this one, may have said it. */
PATH_TEST(silence_and_its_end_are_said_once)
{
    char log[128];
    struct net_server *other;
    begin_silence(log, sizeof(log));
    run_said_forget("silent: several");
    run_said_forget("answers: several");
    paths_client(2, &other);
    other->options.silence_warning_ms = 1100;
    uint64_t now = sys_now_ns() + 100 * SECOND_NS;
    struct net_server *servers_of_processes[] = {client, other};
    for (unsigned i = 0; i < 2; i++) {
        struct net_channel *channel = net_path_channel(&servers_of_processes[i]->paths[0], 0);
        net_channel_waits(channel, now - 2 * SECOND_NS, 0, now);
        net_channel_waits(channel, now - 2 * SECOND_NS, 0, now + SECOND_NS);
    }
    assert_int_equal(lines_with(log, "no reply over path0"), 1);
    for (unsigned i = 0; i < 2; i++)
        net_server_answers(servers_of_processes[i]);
    assert_int_equal(lines_with(log, "answers again"), 1);
    /* The next one is news, though a minute has not passed. */
    struct net_channel *channel = net_path_channel(&other->paths[0], 0);
    net_channel_waits(channel, now, 0, now + 10 * SECOND_NS);
    assert_int_equal(lines_with(log, "no reply over path0"), 2);
    log_open("/dev/null");
    rpc_server_destroy(other);
}

UNIT_TEST(what_is_usual_is_what_99_of_100_calls_take)
{
    struct directnfs_latency latency = {.calls = 50};
    latency.histogram[10] = 50;
    assert_int_equal(stats_usual_ns(&latency), 0); /* too few */
    latency.calls = latency.histogram[10] = 1000;
    assert_int_equal(stats_usual_ns(&latency), 1024000);
    latency.calls += 9;
    latency.histogram[20] = 9;
    assert_int_equal(stats_usual_ns(&latency), 1024000);
    latency.calls += 9;
    latency.histogram[20] += 9;
    assert_int_equal(stats_usual_ns(&latency), UINT64_C(1000) << 20);
}

int main(void)
{
    return path_tests_run("silence");
}
