/* Connections that are silent while others of their path are answered, and servers that are silent
 * on all: one path. */
#include "log_lines.h"
#include "net/fewer.h"
#include "net_scene.h"
#include "sys/critical.h"

enum { LIMIT_MS = 800, CONNECTIONS = 4 };

static struct server *server;
static struct net_server *client;
static _Atomic unsigned probes;
static char log_name[128];

/* A ping over a new connection. */
static int probe(struct net_path *path, bool proven, int timeout_ms)
{
    struct rpc_call call;
    (void)proven;
    atomic_fetch_add(&probes, 1);
    rpc_call_end(&call, rpc_call_begin(&call, &rpc_auth_none, 100003, 3, 0));
    return rpc_call_once(&path->address, NET_PORT_ANY, NULL, &call, timeout_ms);
}

static int setup(void **state)
{
    struct net_server_options options = scene_options("silent", CONNECTIONS, LIMIT_MS, probe);
    options.retransmit_timeout_s = 600;
    watchdog_start(state);
    server = server_start(&(struct script){0});
    struct net_address address = loopback(server->port);
    snprintf(address.peer_text, sizeof(address.peer_text), "address");
    probes = 0;
    snprintf(log_name, sizeof(log_name), "%s/log", getenv("DIRECTNFS_RUN"));
    remove(log_name);
    log_open(log_name);
    return net_server_create(&options, &address, 1, &client);
}

static int teardown(void **state)
{
    atomic_store(&server->stuck, 0);
    rpc_server_destroy(client);
    server_stop(server);
    return watchdog_stop(state);
}

#define SILENT_TEST(name) UNIT_TEST_WITH(name, setup, teardown)

/* A call that a thread waits for. */
struct waiting {
    struct query query;
    pthread_t thread;
};

static void begin(struct waiting *waiting, uint32_t token)
{
    struct rpc_call *call = &waiting->query.call;
    query_begin(&waiting->query, ECHO, token, 0);
    rpc_submit(client, &call, 1);
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_for_one, call), 0);
}

static void end(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    assert_true(query_good(&waiting->query));
}

/* Why the path is down, or was. */
static const char *why(void)
{
    pthread_mutex_lock(&client->lock);
    const char *why = client->paths[0].why ? client->paths[0].why : "";
    pthread_mutex_unlock(&client->lock);
    return why;
}

/* On how many connections the server answers, if it is known to be silent on others. */
static unsigned answering(void)
{
    pthread_mutex_lock(&client->lock);
    unsigned answering = client->paths[0].answering;
    pthread_mutex_unlock(&client->lock);
    return answering;
}

static void retry_at(uint64_t ns)
{
    pthread_mutex_lock(&client->lock);
    client->paths[0].retry_ns = ns;
    pthread_mutex_unlock(&client->lock);
    net_health_kick();
}

/* Was it seen that the path was silent, and is over? */
static bool was_silent(struct net_path *path)
{
    pthread_mutex_lock(&client->lock);
    bool was = path->silence_over_ns != 0;
    pthread_mutex_unlock(&client->lock);
    return was;
}

static bool is_connected(struct net_channel *channel, uint64_t after_ns)
{
    return atomic_load(&channel->fd) >= 0 && atomic_load(&channel->connected_ns) > after_ns;
}

static void forget_connections(void)
{
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->forgotten, server->connections);
    pthread_mutex_unlock(&server->lock);
}

/* It may have interrupted malloc(). The first test, as the thread never ends. */
SILENT_TEST(the_thread_that_probes_is_not_started_in_a_handler)
{
    sys_critical.handler = __builtin_frame_address(0);
    net_health_kick();
    assert_true(net_health_late);
    net_health_catch_up();
    assert_true(net_health_late);
    sys_critical.handler = NULL;
    net_health_catch_up();
    assert_false(net_health_late);
}

/* ---- one connection ---- */

/* The address was taken over, or the host behind it went away, as it was made. */
SILENT_TEST(a_connection_that_never_brought_an_answer_is_given_up)
{
    struct waiting waiting = {0};
    atomic_store(&server->silent, true);
    begin(&waiting, 1);
    eventually(server->calls == 1);
    forget_connections();
    atomic_store(&server->silent, false);
    end(&waiting);
    assert_int_equal(server->calls, 2);
    assert_int_equal(server->changed_xids, 0);
}

/* An address that moved away, and came back. */
SILENT_TEST(a_connection_that_falls_silent_is_given_up)
{
    struct waiting waiting = {0};
    check_echo(client, 1);
    forget_connections();
    begin(&waiting, 2);
    end(&waiting);
    assert_int_equal(server->changed_xids, 0);
}

/* After a connection that was silent a new one gets no calls before it has answered a ping. */
SILENT_TEST(a_call_is_sent_again_when_the_new_connection_answers)
{
    struct waiting waiting = {0};
    atomic_store(&server->silent, true);
    begin(&waiting, 1);
    eventually(server->calls == 1);
    struct net_channel *channel = client->channels[0];
    struct rpc_transport *transport = rpc_transport_of(channel);
    uint64_t first_ns = atomic_load(&channel->connected_ns);
    pthread_mutex_lock(&transport->lock);
    transport->given_up = 1;
    rpc_connection_lost(transport);
    pthread_mutex_unlock(&transport->lock);
    eventually(is_connected(channel, first_ns));
    forget_connections();
    atomic_store(&server->silent, false);
    end(&waiting);
    assert_int_equal(server->calls, 2);
}

/* All that come are silent: it is the server, which gets no more than a question now and then. */
SILENT_TEST(a_silent_server_is_waited_for)
{
    struct waiting waiting = {0};
    check_echo(client, 1);
    atomic_store(&server->silent, true);
    begin(&waiting, 2);
    uint64_t began = sys_now_ns();
    eventually(probes >= 3);
    double seconds = (double)(sys_now_ns() - began) / 1e9;
    assert_true(seconds > 1.5); /* 0.5 s and 1 s apart, and later more */
    assert_int_equal(server->calls, 2);
    assert_in_range(server->connections, probes, 1 + probes);
    forget_connections();
    atomic_store(&server->silent, false);
    end(&waiting);
    assert_int_equal(server->calls, 3);
}

/* What is shown is what is the matter now, and not why no connection could be made before. */
SILENT_TEST(a_server_that_accepts_connections_and_is_silent_is_shown_so)
{
    struct waiting waiting = {0};
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    begin(&waiting, 1);
    eventually(strcmp(why(), "Connection refused") == 0);
    atomic_store(&server->silent, true);
    server_listen(server);
    eventually(strcmp(why(), "connected, but silent") == 0);
    assert_int_equal(client->paths[0].state, NET_PATH_DOWN);
    forget_connections();
    atomic_store(&server->silent, false);
    end(&waiting);
    eventually(client->paths[0].state == NET_PATH_UP);
}

/* Whatever it is busy with: it answers a ping over the connection. */
SILENT_TEST(a_connection_that_answers_pings_is_kept)
{
    struct waiting waiting = {0};
    uint64_t began = sys_now_ns();
    client->options.path_timeout_ms = 3 * LIMIT_MS;
    check_echo(client, 1);
    uint64_t connected_ns = client->channels[0]->connected_ns;
    atomic_store(&server->busy, true);
    begin(&waiting, 2);
    eventually(sys_now_ns() - began > 3 * LIMIT_MS * UINT64_C(1000000));
    assert_int_equal(client->channels[0]->connected_ns, connected_ns);
    atomic_store(&server->busy, false);
    forget_connections(); /* the call was dropped */
    end(&waiting);
}

/* It carries out one call after the other of a connection, and one takes long. Once it is sent
 * again; after that it is known that the connection is not dead. */
SILENT_TEST(a_call_that_keeps_its_connection_waiting_is_not_sent_again_and_again)
{
    struct waiting waiting = {0};
    check_echo(client, 1);
    atomic_store(&server->stuck, 2 + 1);
    begin(&waiting, 2);
    eventually(server->copies == 2); /* a ping was answered before that */
    uint64_t began = sys_now_ns(), limit_ns = LIMIT_MS * UINT64_C(1000000);
    eventually(sys_now_ns() - began > limit_ns);
    assert_int_equal(server->copies, 2);
    atomic_store(&server->stuck, 0);
    end(&waiting);
    assert_true(client->paths[0].lenient_ns > sys_now_ns()); /* and the next one not once more, */
    assert_true(client->paths[0].needed_ns > limit_ns);
    atomic_store(&client->paths[0].needed_ns, UINT64_MAX / 4); /* however long the machine takes */
    atomic_store(&server->stuck, 3 + 1);
    begin(&waiting, 3);
    began = sys_now_ns();
    eventually(sys_now_ns() - began > 2 * limit_ns);
    assert_int_equal(server->copies, 3);
    atomic_store(&server->stuck, 0);
    end(&waiting);
}

/* A server that drops copies of a call that it carries out has answered over the old connection. So
 * it is asked again, but not so often that a slow server gets many copies. */
SILENT_TEST(a_call_of_which_the_server_drops_copies_is_sent_again_soon_and_then_more_rarely)
{
    struct waiting waiting = {0};
    enum { LIMIT = LIMIT_MS / 4 }; /* half of path_timeout */
    client->options.path_timeout_ms = 2 * LIMIT;
    check_echo(client, 1);
    atomic_store(&server->drops, true);
    atomic_store(&server->stuck, 2 + 1);
    uint64_t began = sys_now_ns();
    begin(&waiting, 2);
    eventually(server->copies == 3);
    assert_true(sys_now_ns() - began >= (1 + 1) * LIMIT * UINT64_C(1000000));
    atomic_store(&server->stuck, 0);
    end(&waiting);
    assert_int_equal(server->changed_xids, 0);
    assert_true(waiting.query.call.unsettled); /* or it drops none, and carries out all at once */
    struct net_path *path = &client->paths[0];
    assert_true(path->lenient_ns > sys_now_ns());
    assert_true(path->needed_ns >= (1 + 1 + 2) * LIMIT * UINT64_C(1000000) ||
                was_silent(path)); /* on a slow machine: what is before that does not count */
}

/* It may have been away for long before it was sent the last time but one. */
SILENT_TEST(what_a_call_needed_counts_from_when_the_server_came_back)
{
    uint64_t now = sys_now_ns();
    struct net_path *path = &client->paths[0];
    struct rpc_call call = {.sent_ns = 1, .resent = true, .answered_ns = now};
    check_echo(client, 1);
    struct rpc_transport *transport = rpc_transport_of(client->channels[0]);
    call.last_sent_ns = now - 2 * SECOND_NS;
    pthread_mutex_lock(&transport->lock);
    transport->overdue = 1;
    atomic_store(&path->up_ns, now - 3 * SECOND_NS);
    rpc_silence_is_over(transport, &call);
    assert_int_equal(path->needed_ns, 3 * SECOND_NS);
    pthread_mutex_unlock(&transport->lock);
}

/* Sends a call over the first channel as one that was sent before. */
static void begin_again(struct query *query, uint32_t token)
{
    struct rpc_call *call = &query->call;
    query_begin(query, ECHO, token, 0);
    call->sent_ns = 1;
    rpc_submit_on(client->channels[0], &call, 1);
}

/* Looks after calls of which this one was sent so long ago, and was overtaken then. Is the
 * connection kept? */
static bool is_kept(struct rpc_call *oldest, uint64_t age_ns)
{
    struct rpc_transport *transport = rpc_transport_of(client->channels[0]);
    pthread_mutex_lock(&transport->lock);
    oldest->last_sent_ns = sys_now_ns() - age_ns;
    transport->overtaken_ns = oldest->last_sent_ns + 1;
    rpc_look_after_silence(transport);
    bool kept = transport->connected;
    pthread_mutex_unlock(&transport->lock);
    return kept;
}

/* After an outage a slow server has all that waited, and answers one after the other. */
SILENT_TEST(calls_are_not_sent_once_more_while_others_that_were_sent_again_are_answered)
{
    enum { LIMIT_S = 20, AGE_S = LIMIT_S + LIMIT_S / 2 }; /* however slow the machine is */
    struct query dropped = {0}, answered = {0}, first = {0};
    struct rpc_call *calls[] = {&dropped.call, &first.call}, *call = &answered.call;
    client->options.path_timeout_ms = 2 * LIMIT_S * 1000;
    check_echo(client, 1);
    atomic_store(&server->drops, true);
    atomic_store(&server->copies, 1);
    atomic_store(&server->stuck, 2 + 1);
    begin_again(&dropped, 2);
    eventually(server->copies == 2);
    begin_again(&answered, 3);
    rpc_wait(&call, 1);
    atomic_store(&server->busy, true);
    query_begin(&first, ECHO, 4, 0);
    rpc_submit_on(client->channels[0], calls + 1, 1);
    assert_true(is_kept(&dropped.call, AGE_S * SECOND_NS));

    rpc_transport_of(client->channels[0])->again_ns = 0; /* that is long ago */
    assert_false(is_kept(&dropped.call, AGE_S * SECOND_NS));
    atomic_store(&server->busy, false);
    atomic_store(&server->stuck, 0);
    rpc_wait(calls, 2);
    assert_true(query_good(&dropped) && query_good(&first));
    assert_true(dropped.call.unsettled); /* of this one there were two copies */
    assert_false(first.call.unsettled);
}

/* Its age is that of the call, not of what was sent last: retransmit_timeout may be shorter. */
SILENT_TEST(what_nobody_waits_for_ends_by_its_age_though_pings_are_answered)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    check_echo(client, 1);
    atomic_store(&call_ended, 0);
    atomic_store(&server->busy, true);
    client->options.soft_timeout_s = 1 + (unsigned)(sys_now_ns() / 2 / 1000000000);
    query_begin(&query, ECHO, 2, 0);
    call->answered = note_call_end;
    rpc_submit(client, &call, 1);
    call->sent_ns = 1; /* when the machine started: and it was sent again now */
    rpc_drive(client->channels[0], call_has_ended, NULL, 0);
    assert_int_equal(call_ended, -ENETDOWN);
}

/* ---- several ---- */

static struct waiting many[3 * CONNECTIONS];

static void begin_many(uint32_t token)
{
    for (unsigned i = 0; i < 3 * CONNECTIONS; i++)
        begin(&many[i], token + i);
}

static void end_many(void)
{
    for (unsigned i = 0; i < 3 * CONNECTIONS; i++)
        end(&many[i]);
}

static unsigned open_channels(void)
{
    unsigned open = 0;
    for (unsigned i = 0; i < client->channel_count; i++)
        open += client->channels[i]->fd >= 0;
    return open;
}

SILENT_TEST(a_server_that_answers_one_connection_gets_no_more)
{
    atomic_store(&server->cap, 1);
    check_echo(client, 1);
    atomic_store(&server->stuck, 10 + 1); /* until all connections are wanted */
    begin_many(10);
    assert_int_equal(client->channel_count, CONNECTIONS);
    atomic_store(&server->stuck, 0);
    end_many();
    eventually(lines_with(log_name,
                          "it answers on 1 connection over address, and is silent on further ones; "
                          "calls use that one") == 1);
    eventually(answering() == 1);
    assert_int_equal(client->paths[0].state, NET_PATH_UP);
    eventually(open_channels() == 1);
    retry_at(UINT64_MAX); /* however long the machine takes */
    begin_many(50);
    end_many();
    assert_int_equal(open_channels(), 1);

    /* It is tried again, over connections that no call waits for. */
    atomic_store(&server->cap, 2);
    retry_at(0);
    eventually(answering() == 2);
    assert_int_equal(open_channels(), 2);
    atomic_store(&server->cap, 0);
    retry_at(0);
    eventually(lines_with(log_name, "answers on further connections over address again") == 1);
    assert_int_equal(client->paths[0].silenced, 0);
    begin_many(100);
    end_many();
    assert_int_equal(lines_with(log_name, "is silent on further ones"), 1);
}

/* All processes of a client share the number: see net/fewer.c. */
SILENT_TEST(a_connection_is_given_up_for_a_process_that_has_none)
{
    struct net_path *path = &client->paths[0];
    struct waiting waiting = {0};
    client->options.path_timeout_ms = 100 * LIMIT_MS; /* no other reason to give it up */
    check_echo(client, 1);
    atomic_store(&server->stuck, 2 + 1);
    begin(&waiting, 2);
    check_echo(client, 3);
    atomic_store(&server->stuck, 0);
    end(&waiting);
    assert_int_equal(open_channels(), 2);

    /* Not when this process did not know either, lately, whether the server answers. */
    atomic_store(&client->suspected_ns, sys_now_ns());
    net_path_starved(path);
    net_path_heard(path, sys_now_ns() + 1);
    net_path_look_starved(path, sys_now_ns());
    assert_false(path->giving);
    atomic_store(&client->suspected_ns, 0);

    for (uint32_t i = 10; open_channels() == 2; i++) {
        net_path_starved(path);
        check_echo(client, i);
    }
    assert_int_equal(open_channels(), 1);
    assert_int_equal(path->silenced, 1);
    check_echo(client, 5);
    assert_int_equal(open_channels(), 1);

    /* The last one is kept. */
    net_path_starved(path);
    net_path_heard(path, sys_now_ns() + 1);
    net_path_look_starved(path, sys_now_ns() + SECOND_NS);
    assert_false(path->giving);
}

/* Not who cannot reach it, or whom it only answers late: others would give up theirs in vain. */
SILENT_TEST(who_is_accepted_and_never_answered_says_that_it_has_no_connection)
{
    const struct net_path *path = &client->paths[0];
    struct waiting waiting = {0};
    uint64_t since_ns = sys_now_ns();
    assert_false(net_path_is_starved(path, -ETIMEDOUT, since_ns)); /* there is none */
    atomic_store(&server->silent, true);
    begin(&waiting, 1);
    eventually(server->calls == 1);
    assert_true(net_path_is_starved(path, -ETIMEDOUT, since_ns));
    const int results[] = {-EAGAIN, -ECONNREFUSED, -ENETUNREACH, -ECONNRESET};
    for (unsigned i = 0; i < sizeof(results) / sizeof(*results); i++)
        assert_false(net_path_is_starved(path, results[i], since_ns));
    net_path_heard(&client->paths[0], since_ns); /* while it was asked */
    assert_false(net_path_is_starved(path, -ETIMEDOUT, since_ns));

    forget_connections();
    atomic_store(&server->silent, false);
    end(&waiting);
    assert_false(net_path_is_starved(path, -ETIMEDOUT, UINT64_MAX)); /* one was answered */
}

/* Who waits on the silent one would drive the other next. */
SILENT_TEST(answers_that_nobody_has_taken_show_that_the_server_answers)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    struct waiting waiting = {0};
    atomic_store(&call_ended, 0);
    atomic_store(&server->cap, 1);
    check_echo(client, 1);
    query_begin(&query, ECHO, 2, 0);
    call->answered = note_call_end;
    rpc_submit(client, &call, 1);
    begin(&waiting, 3);
    assert_ptr_not_equal(waiting.query.call.channel, call->channel);
    end(&waiting);
    assert_int_equal(call_ended, 1);
}

/* Not a server that takes fewer: one that was away as the others were made. */
SILENT_TEST(connections_that_were_made_during_an_outage_come_back)
{
    check_echo(client, 1);
    struct net_channel *first = client->channels[0];
    atomic_store(&server->silent, true);
    begin_many(10);
    eventually(server->calls == 1 + 3 * CONNECTIONS);
    forget_connections();
    atomic_store(&server->silent, false);
    end_many();
    begin_many(50);
    end_many();
    eventually(client->paths[0].silenced == 0);
    assert_int_equal(first->silenced, false);
}

int main(void)
{
    return path_tests_run("test_silent");
}
