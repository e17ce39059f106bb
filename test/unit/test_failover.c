/* A server with several paths: losing and regaining them, and what becomes of the calls there. */
#include "path_scene.h"
#include "net/health.h"
#include "net/pool.h"

/* ---- losing a path ---- */

/* As a balancer does that stands before a server that is dead. */
PATH_TEST(a_path_that_accepts_connections_and_ends_them_is_left)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    atomic_store(&probed[1], -ECONNRESET);
    atomic_store(&servers[1]->closing, true);
    end_connections(1);
    echo_over(1, 2, &query);
    eventually(!usable(1));
    atomic_store(&servers[1]->closing, false);
    atomic_store(&probed[1], 0);
    eventually(usable(1));
}

/* Without waiting for the time that it would be tried again, were it not known to work. */
PATH_TEST(a_path_that_came_back_is_used_at_once)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    refuse(1);
    echo_over(1, 2, &query);
    eventually(!usable(1));
    struct net_channel *channel = net_path_channel(&client->paths[1], 0);
    struct rpc_transport *transport = rpc_transport_of(channel);
    pthread_mutex_lock(&transport->lock);
    transport->connect_after_ns = sys_now_ns() + 1000 * SECOND_NS;
    pthread_mutex_unlock(&transport->lock);
    accept_again(1);
    eventually(usable(1));
    unsigned before = servers[1]->calls;
    struct rpc_call *call = &query.call;
    query_begin(&query, ECHO, 3, 0);
    rpc_submit_on(channel, &call, 1);
    rpc_wait(&call, 1);
    assert_int_equal(servers[1]->calls, before + 1);
}

/* The path works, as its other connection shows: nothing is sent elsewhere. */
PATH_TEST(a_dead_connection_of_a_path_that_works_is_made_again)
{
    struct query stuck = {0}, query = {0};
    struct rpc_call *calls[] = {&stuck.call, &query.call};
    pthread_t thread;
    use_all_paths();
    echo_over(1, 1, &query);
    atomic_store(&servers[1]->mute, 1);
    struct net_channel *channel = net_path_channel(&client->paths[1], 0), *other;
    query_begin(&stuck, ECHO, 2, 0);
    rpc_submit_on(channel, calls, 1);
    other = net_path_channel(&client->paths[1], 0);
    assert_ptr_not_equal(channel, other);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, calls[0]), 0);
    for (uint32_t i = 3; atomic_load(&stuck.call.state) != RPC_DONE; i++) {
        query_begin(&query, ECHO, i, 0);
        rpc_submit_on(other, calls + 1, 1);
        rpc_wait(calls + 1, 1);
        assert_true(query_good(&query));
        sys_nanosleep_ms(2);
    }
    pthread_join(thread, NULL);
    assert_true(query_good(&stuck));
    assert_false(stuck.call.unsettled);
    assert_int_equal(client->paths[1].down_since_ns, 0);
    assert_int_equal(servers[1]->connections, 3);
}

enum { CROWDED = NET_IN_FLIGHT_MAX + 60 };

/* As many calls wait as may be in flight: it is asked all the same. */
PATH_TEST(a_crowded_path_that_answers_pings_is_kept)
{
    static struct query queries[CROWDED], query;
    struct rpc_call *calls[CROWDED];
    use_all_paths();
    echo_over(1, 1, &query);
    atomic_store(&servers[1]->busy, true);
    for (uint32_t i = 0; i < CROWDED; i++) {
        query_begin(&queries[i], ECHO, 2 + i, 0);
        calls[i] = &queries[i].call;
    }
    rpc_submit_on(net_path_channel(&client->paths[1], 0), calls, CROWDED);
    rpc_wait_for(calls, CROWDED, 4 * PATH_TIMEOUT_MS);
    assert_int_equal(queries[0].call.error, -ETIMEDOUT);
    assert_int_equal(client->paths[1].down_since_ns, 0);
    assert_int_equal(servers[0]->calls + servers[2]->calls, 0);
}

PATH_TEST(a_refused_path_is_left_at_once)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    refuse(1);
    echo_over(1, 2, &query);
    assert_int_equal(servers[1]->calls, 1);
    eventually(!usable(1));
    for (uint32_t i = 10; i < 60; i++)
        check_echo(client, i);
}

PATH_TEST(a_silent_path_is_left_when_another_answers)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    assert_false(query.call.unsettled);
    atomic_store(&servers[1]->silent, true);
    atomic_store(&probed[1], -ETIMEDOUT);
    uint64_t begin = sys_now_ns();
    echo_over(1, 2, &query);
    assert_true(sys_now_ns() - begin >= PATH_TIMEOUT_MS * UINT64_C(1000000));
    assert_true(query.call.unsettled); /* the silent server may have carried it out, or may yet */
    assert_false(usable(1));
}

/* Whether it answers could not be asked: nothing is known against it. */
PATH_TEST(a_path_that_could_not_be_asked_is_kept)
{
    use_all_paths();
    unsigned before = probes[1];
    atomic_store(&probed[1], -EADDRINUSE);
    uint64_t now = sys_now_ns();
    net_path_suspect(&client->paths[0], now);
    eventually(probes[1] > before && client->paths[2].heard_ns > now);
    before = probes[2];
    net_path_suspect(&client->paths[0], now + SECOND_NS); /* the first is over when this begins */
    eventually(probes[2] > before);
    assert_true(usable(1));
}

/* It has no room for another connection, or no time. */
PATH_TEST(a_path_that_is_heard_while_it_is_asked_is_kept)
{
    use_all_paths();
    atomic_store(&probed[1], HEARD_MEANWHILE);
    unsigned before = probes[1];
    net_path_suspect(&client->paths[0], sys_now_ns());
    eventually(probes[1] > before);
    atomic_store(&probed[1], 0);
    before = probes[2];
    net_path_suspect(&client->paths[0], sys_now_ns() + SECOND_NS); /* begins when that is over */
    eventually(probes[2] > before);
    assert_int_equal(client->paths[1].down_since_ns, 0);
}

PATH_TEST(a_call_keeps_its_xid_on_another_path)
{
    struct query query = {0};
    use_all_paths();
    atomic_store(&servers[1]->silent, true);
    atomic_store(&probed[1], -ETIMEDOUT);
    echo_over(1, 2, &query);
    uint32_t first = servers[1]->xids[2], again = 0;
    for (unsigned i = 0; i < PATHS; i++) {
        if (i != 1 && servers[i]->xids[2])
            again = servers[i]->xids[2];
    }
    assert_int_not_equal(first, 0);
    assert_int_equal(first, again);
}

static struct rpc_transport transport;
static struct net_channel lone_channel;

/* A channel that is nobody's yet, with a call that was sent on it. */
static void begin_with_a_call(struct rpc_call *sent)
{
    static struct directnfs_channel_stats stats;
    lone_channel =
        (struct net_channel){.server = client, .path = &client->paths[0], .stats = &stats};
    memset(&transport, 0, sizeof(transport));
    *sent = (struct rpc_call){.channel = &lone_channel, .sent = true, .sent_ns = 1};
    rpc_transport_init(&transport, &lone_channel);
    rpc_in_flight_add(&transport, sent);
}

/* Sent over one connection, and before its turn came on the second, which the server knows by the
 * same port, a third is made from another one. */
PATH_TEST(a_call_that_waits_to_be_sent_again_is_not_forgotten)
{
    struct rpc_call sent, fresh = {0};
    begin_with_a_call(&sent);
    rpc_unsent_append(&transport, &fresh);
    rpc_queue_again(&transport, false);
    assert_false(sent.unsettled);
    rpc_queue_again(&transport, true);
    assert_true(sent.unsettled);
    assert_false(fresh.unsettled);
    assert_ptr_equal(transport.unsent, &sent);
    rpc_receiver_free(&transport.receiver);
}

/* Each copy has a sequence number of its own, by which some servers take it for another call. */
PATH_TEST(a_call_with_a_context_that_is_sent_again_is_unsettled)
{
    struct rpc_call sent;
    begin_with_a_call(&sent);
    sent.identity = &rpc_identity_making;
    rpc_queue_again(&transport, false);
    assert_true(sent.unsettled);
    rpc_receiver_free(&transport.receiver);
}

/* A ping has taken its place in the table: the server cannot know it again by another xid. */
PATH_TEST(a_call_that_gets_another_xid_is_unsettled)
{
    struct rpc_call sent, other = {0};
    begin_with_a_call(&sent);
    uint32_t xid = sent.xid;
    rpc_queue_again(&transport, false);
    transport.next_xid += RPC_SLOTS - 1; /* that many calls later */
    rpc_in_flight_add(&transport, &other);
    assert_int_equal(other.xid % RPC_SLOTS, xid % RPC_SLOTS);
    rpc_in_flight_add(&transport, rpc_unsent_take(&transport));
    assert_int_not_equal(sent.xid, xid);
    assert_true(sent.unsettled);
    assert_ptr_equal(rpc_call_sent(&transport, sent.xid), &sent);
    rpc_receiver_free(&transport.receiver);
}

PATH_TEST(a_silent_server_is_waited_for)
{
    struct query query = {0};
    use_all_paths();
    for (unsigned i = 0; i < PATHS; i++) {
        atomic_store(&servers[i]->silent, true);
        atomic_store(&probed[i], -ETIMEDOUT);
    }
    struct rpc_call *call = &query.call;
    query_begin(&query, ECHO, 2, 0);
    rpc_submit_on(net_path_channel(&client->paths[1], 0), &call, 1);
    rpc_wait_for(&call, 1, 3 * PATH_TIMEOUT_MS);
    assert_int_equal(call->error, -ETIMEDOUT);
    for (unsigned i = 0; i < PATHS; i++)
        assert_true(usable(i)); /* it is not the paths */
    assert_int_equal(servers[0]->calls + servers[2]->calls, 0);
}

PATH_TEST(a_path_that_answers_pings_is_kept)
{
    struct query query = {0};
    use_all_paths();
    echo_over(1, 1, &query);
    atomic_store(&servers[1]->busy, true);
    struct rpc_call *call = &query.call;
    query_begin(&query, ECHO, 2, 0);
    rpc_submit_on(net_path_channel(&client->paths[1], 0), &call, 1);
    rpc_wait_for(&call, 1, 4 * PATH_TIMEOUT_MS);
    assert_int_equal(call->error, -ETIMEDOUT);
    assert_true(usable(1));
    assert_int_equal(servers[0]->calls + servers[2]->calls, 0);
}

struct crowd {
    _Atomic bool stop;
    _Atomic unsigned good, bad;
};

static void *keep_calling(void *context)
{
    struct crowd *crowd = context;
    struct query query = {0};
    struct rpc_call *call = &query.call;
    for (uint32_t i = 0; !atomic_load(&crowd->stop); i++) {
        query_begin(&query, READ, (i * 8 + (uint32_t)(uintptr_t)&query) % TOKENS, 3000);
        rpc_submit(client, &call, 1);
        rpc_wait(&call, 1);
        if (call->error == 0 && query_good(&query))
            atomic_fetch_add(&crowd->good, 1);
        else if (atomic_fetch_add(&crowd->bad, 1) == 0)
            print_message("call %u: error %d\n", i, call->error);
    }
    query_free(&query);
    return NULL;
}

/* Paths break in turn under load: no call is lost or answered wrongly, and each comes back. */
PATH_TEST(paths_come_and_go_under_load)
{
    enum { THREADS = 6, ROUNDS = 6 };
    struct crowd crowd = {0};
    pthread_t threads[THREADS];
    use_all_paths();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_calling, &crowd), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned path = i % PATHS;
        if (i % 2) {
            atomic_store(&probed[path], -ETIMEDOUT);
            atomic_store(&servers[path]->silent, true);
        } else {
            refuse(path);
        }
        eventually(!usable(path));
        unsigned before = crowd.good;
        eventually(crowd.good > before + 100);
        if (i % 2) {
            atomic_store(&servers[path]->silent, false);
            end_connections(path); /* that have lost calls */
            atomic_store(&probed[path], 0);
        } else {
            accept_again(path);
        }
        eventually(usable(path));
        unsigned calls = servers[path]->calls;
        eventually(servers[path]->calls > calls);
    }
    atomic_store(&crowd.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.bad, 0);
    for (unsigned i = 0; i < atomic_load(&client->channel_count); i++)
        assert_int_equal(atomic_load(&client->channels[i]->outstanding), 0);
    for (unsigned i = 0; i < PATHS; i++)
        assert_int_equal(atomic_load(&client->paths[i].load.outstanding_bytes), 0);
}

PATH_TEST(all_paths_down_and_one_comes_back)
{
    struct crowd crowd = {0};
    pthread_t thread;
    use_all_paths();
    assert_int_equal(pthread_create(&thread, NULL, keep_calling, &crowd), 0);
    eventually(crowd.good > 10);
    for (unsigned i = 0; i < PATHS; i++)
        refuse(i);
    eventually(!usable(0) && !usable(1) && !usable(2));
    sys_nanosleep_ms(300);
    accept_again(2);
    unsigned before = crowd.good;
    eventually(crowd.good > before + 10);
    atomic_store(&crowd.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(crowd.bad, 0);
    server_listen(servers[0]);
    server_listen(servers[1]);
}

/* Another process would have a server of its own, too. */
PATH_TEST(waiting_is_said_once_by_all)
{
    struct net_address addresses[2] = {loopback(servers[0]->port), loopback(servers[1]->port)};
    struct net_server_options options = {.name = "waited for", .connections_max = 1};
    struct net_server *first, *second;
    assert_int_equal(net_server_create(&options, addresses, 2, &first), 0);
    assert_int_equal(net_server_create(&options, addresses, 2, &second), 0);
    assert_true(net_server_may_say(first, 60));
    assert_false(net_server_may_say(first, 60));
    assert_false(net_server_may_say(second, 60));
    net_server_destroy(second);
    net_server_destroy(first);
}

static unsigned lines_with(const char *log, const char *text)
{
    char line[1024];
    unsigned count = 0;
    FILE *file = fopen(log, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

/* Each change is one line, however many processes see it. */
PATH_TEST(a_change_of_a_path_is_said_once_by_all)
{
    char log[128];
    struct net_server *seers[2] = {client};
    paths_client(2, &seers[1]);
    snprintf(log, sizeof(log), "%s/log", getenv("DIRECTNFS_RUN"));
    assert_int_equal(log_open(log), 0);
    for (unsigned round = 1; round <= 2; round++) {
        atomic_store(&probed[1], 0);
        for (unsigned i = 0; i < 2; i++) {
            net_server_want_more(seers[i]);
            eventually(net_path_usable(&seers[i]->paths[0]) &&
                       net_path_usable(&seers[i]->paths[1]));
            net_path_heard(&seers[i]->paths[0], sys_now_ns() + 10 * SECOND_NS);
        }
        for (unsigned i = 0; i < 2; i++)
            wait_for_prober(seers[i]);
        assert_int_equal(lines_with(log, "path path1 is up again"), round - 1);
        assert_int_equal(client->paths[1].stats->state, DIRECTNFS_CHANNEL_UP);
        const char *was_down = strstr(client->paths[1].stats->reason, " s: replies stopped");
        assert_int_equal(was_down != NULL, round > 1);
        atomic_store(&probed[1], -EAGAIN); /* it stays down for the reason that it has */
        for (unsigned i = 0; i < 2; i++)
            net_path_failed(&seers[i]->paths[1], "replies stopped");
        assert_int_equal(lines_with(log, "path path1 is down"), round);
        assert_string_equal(client->paths[1].stats->reason, "replies stopped");
    }
    assert_int_equal(run_offline_set("several", "path0", NULL, true), 0);
    for (unsigned i = 0; i < 2; i++) {
        net_server_look_offline(seers[i]);
        wait_for_prober(seers[i]); /* which may have seen it first, and say it */
    }
    assert_int_equal(lines_with(log, "path path0 is offline by command"), 1);
    assert_int_equal(run_offline_set("several", "path0", NULL, false), 0);
    log_open("/dev/null");
    rpc_server_destroy(seers[1]);
}

PATH_TEST(the_end_of_waiting_is_said)
{
    char log[128];
    struct query query = {0};
    struct rpc_call *call = &query.call;
    pthread_t thread;
    snprintf(log, sizeof(log), "%s/log", getenv("DIRECTNFS_RUN"));
    assert_int_equal(log_open(log), 0);
    client->options.retransmit_timeout_s = 1;
    for (unsigned i = 0; i < PATHS; i++)
        atomic_store(&probed[i], -ETIMEDOUT);
    atomic_store(&servers[0]->silent, true);
    query_begin(&query, ECHO, 1, 0);
    rpc_submit(client, &call, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, call), 0);
    eventually(lines_with(log, "no reply over path0 for 1 s") == 1);
    assert_int_equal(lines_with(log, "answers again after "), 0);
    atomic_store(&servers[0]->silent, false);
    pthread_join(thread, NULL);
    eventually(lines_with(log, "server several: answers again after ") == 1);
    log_open("/dev/null");
}

/* ---- servers that leave ---- */

static _Atomic bool first_asked, first_released;
static _Atomic unsigned second_asked;

static int probe_leaving(struct net_path *path, bool proven, int timeout_ms)
{
    (void)proven;
    (void)timeout_ms;
    if (strcmp(path->server->name, "first") != 0) {
        atomic_fetch_add(&second_asked, 1);
        return 0;
    }
    atomic_store(&first_asked, true);
    eventually(atomic_load(&first_released));
    return 0;
}

static struct net_server *leaving_server(const char *name)
{
    struct net_address addresses[2] = {loopback(servers[0]->port), loopback(servers[1]->port)};
    struct net_server_options options = {
        .name = name, .connections_max = 1, .probe = probe_leaving};
    struct net_server *server;
    assert_int_equal(net_server_create(&options, addresses, 2, &server), 0);
    return server;
}

static void *leave(void *server)
{
    net_health_leave(server);
    return NULL;
}

/* The thread that probes is at the first one, from where it would go on to the second. */
PATH_TEST(two_servers_leave_at_once)
{
    pthread_t thread;
    struct net_server *second = leaving_server("second"), *first = leaving_server("first");
    net_server_want_more(first);
    eventually(atomic_load(&first_asked));
    atomic_store(&second->more_wanted, true);
    assert_int_equal(pthread_create(&thread, NULL, leave, first), 0);
    sys_nanosleep_ms(50); /* until it waits */
    net_health_leave(second);
    atomic_store(&first_released, true);
    pthread_join(thread, NULL);
    use_all_paths(); /* of a server that comes after them */
    assert_int_equal(second_asked, 0);
    net_server_destroy(second);
    net_server_destroy(first);
}

int main(void)
{
    return path_tests_run("test_failover");
}
