/* RPCSEC_GSS on a channel (RFC 2203), with a toy for a mechanism: what is sent, what is believed,
 * and who waits for whom. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "rpc/transport.h"
#include "secure_scene.h"
#include "sys/critical.h"
#include "log_lines.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"
#include "unit.h"

static struct server *server;
static struct net_server *client;

static int begin(void **state)
{
    secure_begin();
    server = server_start(&(struct script){.answer = secure_answer});
    client = client_new(server->port, 1, 60);
    client->options.kerberos_only = true;
    return watchdog_start(state);
}

static int end(void **state)
{
    query_auth = NULL;
    rpc_server_destroy(client);
    server_stop(server);
    return watchdog_stop(state);
}

#define SECURE_TEST(name) UNIT_TEST_WITH(name, begin, end)

static const enum rpc_service services[] = {RPC_SERVICE_NONE, RPC_SERVICE_INTEGRITY,
                                            RPC_SERVICE_PRIVACY};

static uint32_t last_token = 1000;

/* Calls of all kinds and lengths, so many at a time. */
static void exchange(unsigned count, unsigned rounds)
{
    static const size_t lengths[] = {1, 5, 512, 8192, 70001, 1 << 20};
    struct query *queries = calloc(count, sizeof(*queries));
    struct rpc_call **calls = calloc(count, sizeof(struct rpc_call *));
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < count; i++) {
            uint32_t token = ++last_token; /* the server knows by it whether an xid changed */
            enum procedure procedure = token % 3 == 0 ? ECHO : token % 3 == 1 ? READ : WRITE;
            query_begin(&queries[i], procedure, token, lengths[token / 3 % (count > 8 ? 4 : 6)]);
            calls[i] = &queries[i].call;
        }
        rpc_submit(client, calls, count);
        rpc_wait(calls, count);
        for (unsigned i = 0; i < count; i++)
            assert_true(query_good(&queries[i]));
    }
    for (unsigned i = 0; i < count; i++)
        query_free(&queries[i]);
    free(queries);
    free(calls);
}

static void check_seen(void)
{
    assert_int_equal(secure.outside, 0);
    assert_int_equal(secure.forged, 0);
    assert_int_equal(secure.in_clear, 0);
    assert_int_equal(server->bad_calls, 0);
}

SECURE_TEST(calls_of_each_service)
{
    for (unsigned i = 0; i < 3; i++) {
        query_auth = secure_auth(1000, services[i]);
        exchange(6, 6);
        check_seen();
    }
    assert_int_equal(secure.contexts, 3);
}

/* More calls than the window has numbers, whatever order they are answered in. */
SECURE_TEST(no_more_calls_than_the_window)
{
    secure.window = 4;
    query_auth = secure_auth(1000, RPC_SERVICE_INTEGRITY);
    exchange(64, 4);
    server->script.order = REVERSE;
    exchange(64, 4);
    assert_in_range(server->most_held, 2, 4);
    check_seen();
}

/* One call that is not answered keeps others out of the window: they go on in another context. */
SECURE_TEST(a_slow_call_does_not_close_the_window)
{
    struct query slow = {0};
    struct rpc_call *calls[] = {&slow.call};
    secure.window = 4;
    secure.slow = 77;
    query_auth = secure_auth(1000, RPC_SERVICE_NONE);
    check_echo(client, 1);
    sys_nanosleep_ms(120); /* the window of a context that was just made is waited for */
    query_begin(&slow, ECHO, 77, 0);
    rpc_submit(client, calls, 1);
    for (uint32_t i = 0; i < 20; i++)
        check_echo(client, 100 + i);
    assert_in_range(secure.contexts, 2, 10);
    rpc_wait_for(calls, 1, 1);
    assert_int_equal(slow.call.error, -ETIMEDOUT);
    check_seen();
}

static bool denied_often(void *unused)
{
    (void)unused;
    return 1000 - atomic_load(&secure.tricks) > RPC_DENIALS_MAX + 2;
}

/* Each trick, once in a while: never a wrong byte, and in the end the right ones. */
SECURE_TEST(replies_that_are_not_what_they_should_be)
{
    for (enum secure_trick trick = TRICK_VERIFIER; trick < TRICK_TOOWEAK; trick++) {
        for (unsigned i = 0; i < 3; i++) {
            bool body = trick >= TRICK_BODY && trick <= TRICK_CLEAR;
            if (body && services[i] == RPC_SERVICE_NONE)
                continue;
            unsigned connections = server->connections, contexts = secure.contexts;
            query_auth = secure_auth(2000 + (uint32_t)trick, services[i]);
            atomic_store(&secure.trick, trick);
            atomic_store(&secure.tricks, 3);
            atomic_store(&secure.every, 5);
            exchange(5, 6);
            assert_int_equal(atomic_load(&secure.tricks), 0);
            /* It was not believed: the call was sent again, over another connection if need be. */
            assert_true(secure.contexts > contexts + 1);
            if (trick < TRICK_CREDPROBLEM)
                assert_true(server->connections > connections);
        }
    }
    check_seen();
    assert_int_equal(server->changed_xids, 0);
}

/* A MIC that the library did not verify, as the context has ended, is worth nothing. */
SECURE_TEST(a_context_that_ended_verifies_nothing)
{
    secure.late = true;
    secure.trick = TRICK_VERIFIER;
    secure.every = 1;
    secure.tricks = 2;
    query_auth = secure_auth(2100, RPC_SERVICE_NONE);
    check_echo(client, 1);
    assert_int_equal(atomic_load(&secure.tricks), 0);
    assert_in_range(secure.contexts, 2, 4);
    check_seen();
}

/* A reply that is never what it should be ends the call, and its fate is unknown. READ comes with a
 * payload, which is received in place. */
SECURE_TEST(replies_that_are_never_believed)
{
    static const enum secure_trick tricks[] = {TRICK_BODY, TRICK_VERIFIER, TRICK_VERIFIER};
    for (unsigned i = 0; i < 3; i++) {
        struct query query = {0};
        secure.every = 0;
        secure.contexts = 0;
        query_auth = secure_auth(2200 + i, i == 2 ? RPC_SERVICE_NONE : RPC_SERVICE_INTEGRITY);
        check_echo(client, 10 * i + 1);
        secure.trick = tricks[i];
        secure.tricks = 1000;
        secure.every = 1;
        query_begin(&query, i == 2 ? READ : ECHO, 10 * i + 2, 8192);
        assert_int_equal(query_wait(client, &query, 0), -EBADMSG);
        assert_true(query.call.unsettled);
        assert_in_range(1000 - atomic_load(&secure.tricks), 2, 8);
        query_free(&query);
    }
    check_seen();
}

/* Nothing protects the status of a reply: anybody on the way may have changed it. */
SECURE_TEST(a_status_that_somebody_changed)
{
    for (unsigned i = 1; i < 3; i++) {
        struct query query = {0};
        secure.every = 0;
        query_auth = secure_auth(2250 + i, services[i]);
        check_echo(client, 30 * i + 1);
        secure.trick = TRICK_STATUS;
        secure.tricks = 3;
        secure.every = 5;
        exchange(5, 6);
        assert_int_equal(atomic_load(&secure.tricks), 0);
        secure.tricks = 1000;
        secure.every = 1;
        query_begin(&query, ECHO, 30 * i + 2, 0);
        assert_int_equal(query_wait(client, &query, 0), -EBADMSG);
        assert_true(query.call.unsettled);
        assert_in_range(1000 - atomic_load(&secure.tricks), RPC_DENIALS_MAX, RPC_DENIALS_MAX + 1);
        query_free(&query);
    }
    assert_int_equal(secure.contexts, 2);
    check_seen();
    assert_int_equal(server->changed_xids, 0);
}

/* A user whose calls were answered waits until the server has second thoughts. */
SECURE_TEST(a_server_that_refuses_for_a_while)
{
    struct query query = {0};
    struct rpc_call *calls[] = {&query.call};
    query_auth = secure_auth(2300, RPC_SERVICE_INTEGRITY);
    check_echo(client, 1);
    secure.trick = TRICK_CREDPROBLEM;
    secure.tricks = 1000;
    secure.every = 1;
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(client, calls, 1);
    rpc_drive(client->channels[0], denied_often, NULL, 0);
    assert_int_equal(atomic_load(&query.call.state), RPC_WAITING);
    assert_in_range(secure.contexts, RPC_DENIALS_MAX + 2, 12);
    secure.every = 0;
    rpc_wait(calls, 1);
    assert_true(query_good(&query));
    check_seen();
    assert_int_equal(server->changed_xids, 0);
}

/* A refusal proves nothing. It ends a call after some attempts, and its fate is unknown. */
SECURE_TEST(a_server_that_refuses_each_call)
{
    struct query query = {0};
    query_auth = secure_auth(2400, RPC_SERVICE_PRIVACY);
    secure.trick = TRICK_CREDPROBLEM;
    secure.every = 1;
    secure.tricks = 1000;
    query_begin(&query, ECHO, 2, 0);
    assert_int_equal(query_wait(client, &query, 0), -EACCES);
    assert_true(query.call.unsettled);
    assert_in_range(secure.contexts, 2, 8);
    query_auth = secure_auth(2401, RPC_SERVICE_PRIVACY);
    secure.trick = TRICK_TOOWEAK;
    query_begin(&query, ECHO, 3, 0);
    assert_int_equal(query_wait(client, &query, 0), -EACCES);
    assert_true(query.call.unsettled);
    secure.every = 0;
    check_echo(client, 4);
    check_seen();
    assert_int_equal(server->changed_xids, 0);
}

/* A server that restarted knows no context. The calls of all users get new ones. */
SECURE_TEST(contexts_that_the_server_forgot)
{
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t uid = 0; uid < 3; uid++) {
            query_auth = secure_auth(1000 + uid, RPC_SERVICE_INTEGRITY);
            exchange(20, 1);
        }
        atomic_store(&secure.forgets, true);
    }
    check_seen();
    assert_int_equal(server->changed_xids, 0);
}

SECURE_TEST(more_users_than_places)
{
    struct query queries[RPC_PLACES * 3];
    struct rpc_call *calls[RPC_PLACES * 3];
    memset(queries, 0, sizeof(queries));
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < RPC_PLACES * 3; i++) {
            query_auth = secure_auth(3000 + i, services[i % 3]);
            query_begin(&queries[i], ECHO, i, 0);
            calls[i] = &queries[i].call;
        }
        rpc_submit(client, calls, RPC_PLACES * 3);
        rpc_wait(calls, RPC_PLACES * 3);
        for (uint32_t i = 0; i < RPC_PLACES * 3; i++)
            assert_true(query_good(&queries[i]));
    }
    check_seen();
}

/* Nothing goes out in clear by a fault elsewhere. */
SECURE_TEST(a_call_without_kerberos_is_held_back)
{
    struct query query = {0};
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(query_wait(client, &query, 0), -EACCES);
    assert_int_equal(query.call.sent_ns, 0);
    assert_int_equal(secure.in_clear, 0);
    assert_int_equal(server->calls, 0);
}

/* ---- tickets ---- */

SECURE_TEST(a_user_without_a_ticket_is_told_at_once)
{
    struct query query = {0};
    secure.no_ticket = true;
    query_auth = secure_auth(4000, RPC_SERVICE_NONE);
    for (uint32_t i = 0; i < 3; i++) {
        query_begin(&query, ECHO, 1 + i, 0);
        assert_int_equal(query_wait(client, &query, 0), -EACCES);
        assert_false(query.call.unsettled);
        assert_int_equal(query.call.sent_ns, 0);
    }
    secure.no_ticket = false;
    check_echo(client, 9);
}

/* A cache that belongs to the user of the process is of no use to others, whatever it is now. */
SECURE_TEST(the_cache_of_this_user_is_not_for_others)
{
    struct query query = {0};
    const struct rpc_identity like = {
        .uid = getuid() + 54321, .service = RPC_SERVICE_NONE, .server = "nfs@toy", .usual = true};
    struct rpc_auth auth;
    rpc_auth_secure(&auth, 0, rpc_identity_of(&like));
    query_auth = &auth;
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(query_wait(client, &query, 0), -EACCES);
    assert_int_equal(secure.acquired, 0);
    assert_int_equal(query.call.sent_ns, 0);
}

/* Users whose tickets ended wait, and have no places that others need. */
SECURE_TEST(users_without_tickets_leave_their_places)
{
    struct query queries[RPC_PLACES] = {0}, lucky = {0};
    struct rpc_call *calls[RPC_PLACES], *last[] = {&lucky.call};
    secure.lifetime_s = 1;
    for (uint32_t i = 0; i < RPC_PLACES; i++) {
        query_auth = secure_auth(4100 + i, RPC_SERVICE_NONE);
        check_echo(client, 1 + i);
    }
    secure.lifetime_s = 3600;
    secure.lucky = 4200;
    secure.expired = true;
    sys_nanosleep_ms(1100);
    for (uint32_t i = 0; i < RPC_PLACES; i++) {
        query_auth = secure_auth(4100 + i, RPC_SERVICE_NONE);
        query_begin(&queries[i], ECHO, 100 + i, 0);
        calls[i] = &queries[i].call;
    }
    rpc_submit(client, calls, RPC_PLACES);
    query_auth = secure_auth(4200, RPC_SERVICE_NONE);
    query_begin(&lucky, ECHO, 99, 0);
    rpc_submit(client, last, 1);
    rpc_wait(last, 1);
    assert_true(query_good(&lucky));
    for (uint32_t i = 0; i < RPC_PLACES; i++)
        assert_int_equal(atomic_load(&queries[i].call.state), RPC_WAITING);
    secure.expired = false;
    rpc_wait(calls, RPC_PLACES);
    for (uint32_t i = 0; i < RPC_PLACES; i++)
        assert_true(query_good(&queries[i]));
    check_seen();
}

/* Its KDC hangs. Those of others go on, on the same channel. */
SECURE_TEST(a_kdc_that_hangs_stalls_its_user_only)
{
    struct query stalled = {0};
    struct rpc_call *calls[] = {&stalled.call};
    query_auth = secure_auth(5000, RPC_SERVICE_PRIVACY);
    check_echo(client, 1);
    secure.hangs = true;
    query_auth = secure_auth(5001, RPC_SERVICE_PRIVACY);
    query_begin(&stalled, ECHO, 2, 0);
    rpc_submit(client, calls, 1);
    query_auth = secure_auth(5000, RPC_SERVICE_PRIVACY);
    exchange(8, 4);
    assert_int_equal(atomic_load(&stalled.call.state), RPC_WAITING);
    secure.hangs = false;
    rpc_wait(calls, 1);
    assert_true(query_good(&stalled));
    check_seen();
}

/* The ticket ends, and there is none for a while: calls wait, and then go on. That it ended is said
 * as nobody calls; then that calls wait is news. */
SECURE_TEST(calls_wait_for_a_ticket_that_ended)
{
    char log[] = "/tmp/test_rpc_secure.XXXXXX";
    struct query query = {0};
    struct rpc_call *calls[] = {&query.call};
    close(mkstemp(log));
    log_open(log);
    secure.lifetime_s = 1;
    query_auth = secure_auth(6000, RPC_SERVICE_INTEGRITY);
    check_echo(client, 1);
    secure.expired = true;
    while (lines_with(log, "user 6000: the Kerberos ticket has ended") == 0)
        sys_nanosleep_ms(1);
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(client, calls, 1);
    unsigned acquired = secure.acquired;
    rpc_wait_for(calls, 1, 1);
    assert_int_equal(query.call.error, -ETIMEDOUT);
    query_begin(&query, ECHO, 3, 0);
    rpc_submit(client, calls, 1);
    while (atomic_load(&secure.acquired) < acquired + 2)
        sys_nanosleep_ms(1);
    assert_int_equal(atomic_load(&query.call.state), RPC_WAITING);
    secure.expired = false;
    secure.lifetime_s = 3600;
    rpc_wait(calls, 1);
    assert_true(query_good(&query));
    assert_int_equal(lines_with(log, "; calls wait ("), 1);
    log_open("/dev/null");
    unlink(log);
    check_seen();
}

/* Who is waited for by others gives way. */
SECURE_TEST(a_thread_in_turn_does_not_wait_for_a_ticket)
{
    struct query query = {0};
    struct rpc_call *calls[] = {&query.call};
    secure.lifetime_s = 1;
    query_auth = secure_auth(6100, RPC_SERVICE_INTEGRITY);
    check_echo(client, 1);
    secure.expired = true;
    sys_nanosleep_ms(1100);
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(client, calls, 1);
    rpc_wait_in_turn(calls, 1);
    assert_int_equal(query.call.error, -EKEYEXPIRED);
    assert_int_equal(query.call.sent_ns, 0);
    /* Nobody calls any more: no further ticket is asked for. */
    const struct rpc_place *place = NULL;
    struct rpc_transport *transport = rpc_transport_of(client->channels[0]);
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        if (transport->secure->places[i].identity == query_auth->identity)
            place = &transport->secure->places[i];
    }
    for (bool rests = false; !rests; sys_nanosleep_ms(1)) {
        pthread_mutex_lock(&transport->lock);
        rests = !place->wanted && !place->making && place->context->renew_ns == 0;
        pthread_mutex_unlock(&transport->lock);
    }
    rpc_contexts_end(client); /* it has ended */
    assert_int_equal(secure.destroyed, 0);
    secure.expired = false;
    check_echo(client, 3);
    check_seen();
}

/* A handler may have interrupted malloc(), for which the thread that makes contexts waits. */
SECURE_TEST(a_handler_does_not_wait_for_a_context_for_ever)
{
    struct query query = {0};
    secure.hangs = true;
    query_auth = secure_auth(6200, RPC_SERVICE_NONE);
    query_begin(&query, ECHO, 1, 0);
    sys_critical.handler = (const char *)__builtin_frame_address(0);
    int result = query_wait(client, &query, 0);
    sys_critical.handler = NULL;
    assert_int_equal(result, -ETIMEDOUT);
    assert_int_equal(query.call.sent_ns, 0);
    secure.hangs = false;
    check_echo(client, 2);
    check_seen();
}

/* A context is made before the one before ends, also while nobody calls. */
SECURE_TEST(contexts_are_renewed_in_time)
{
    secure.lifetime_s = 2;
    query_auth = secure_auth(7000, RPC_SERVICE_NONE);
    check_echo(client, 1);
    assert_int_equal(secure.contexts, 1);
    while (atomic_load(&secure.contexts) < 3)
        sys_nanosleep_ms(1);
    check_echo(client, 2);
    check_seen();
}

/* soft_timeout counts for calls that wait for a ticket as well. */
SECURE_TEST(a_call_for_which_nobody_waits_ends_with_soft_timeout)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    client->options.soft_timeout_s = 1;
    query_auth = secure_auth(8001, RPC_SERVICE_NONE); /* the channel is connected, and idle */
    check_echo(client, 2);
    secure.no_kdc = true;
    query_auth = secure_auth(8000, RPC_SERVICE_NONE);
    query_begin(&query, ECHO, 1, 0);
    query.call.answered = note_call_end;
    atomic_store(&call_ended, 0);
    rpc_submit(client, &call, 1);
    rpc_drive(client->channels[0], call_has_ended, NULL, 0);
    assert_int_equal(atomic_load(&call_ended), -ENETDOWN);
}

/* ---- the end ---- */

SECURE_TEST(contexts_are_ended)
{
    for (uint32_t i = 0; i < 3; i++) {
        query_auth = secure_auth(1000 + i, services[i]);
        exchange(4, 1);
    }
    for (unsigned i = 0; i < 2; i++)
        rpc_contexts_end(client);
    assert_int_equal(secure.destroyed, 3);
    unsigned connections = server->connections;
    exchange(4, 1);
    assert_int_equal(secure.contexts, 4);
    assert_int_equal(server->connections, connections);
    check_seen();
}

/* More users without a ticket than there are places do not keep out one that has one. */
SECURE_TEST(places_of_users_that_get_no_context)
{
    enum { STALLED = RPC_PLACES + 4 };
    struct query queries[STALLED + 1];
    struct rpc_call *calls[STALLED + 1];
    memset(queries, 0, sizeof(queries));
    secure.stalls = true;
    for (uint32_t i = 0; i <= STALLED; i++) {
        query_auth = i < STALLED ? secure_auth_stalled(1000 + i, services[i % 3])
                                 : secure_auth(999, RPC_SERVICE_PRIVACY);
        query_begin(&queries[i], ECHO, i, 0);
        calls[i] = &queries[i].call;
    }
    rpc_submit(client, calls, STALLED + 1);
    rpc_wait(calls + STALLED, 1);
    assert_true(query_good(&queries[STALLED]));
    secure.stalls = false;
    rpc_wait(calls, STALLED);
    for (uint32_t i = 0; i < STALLED; i++)
        assert_true(query_good(&queries[i]));
    check_seen();
}

/* ---- connections, processes ---- */

SECURE_TEST(connections_that_are_reset)
{
    server->script.reset_every = 7;
    for (unsigned i = 0; i < 3; i++) {
        query_auth = secure_auth(9000, services[i]);
        exchange(16, 4);
    }
    assert_int_equal(secure.forged, 0);
    assert_int_equal(secure.in_clear, 0);
    assert_int_equal(server->changed_xids, 0);
}

SECURE_TEST(a_child_makes_its_own_contexts)
{
    query_auth = secure_auth(1000, RPC_SERVICE_PRIVACY);
    exchange(4, 2);
    unsigned before = secure.contexts;
    pid_t child = fork();
    if (child == 0) {
        net_server_after_fork(client);
        rpc_after_fork(client);
        struct query query = {0};
        query_begin(&query, ECHO, 200, 0);
        _exit(query_wait(client, &query, 0) == 0 && query_good(&query) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(secure.contexts, before + 1);
    exchange(4, 2);
    check_seen();
}

/* A process that can have no thread of ours makes its contexts itself, one after the other. */
SECURE_TEST(a_child_without_threads)
{
    pid_t child = fork();
    if (child == 0) {
        net_server_after_fork(client);
        rpc_after_fork(client);
        sys_thread_forbid();
        struct query queries[3] = {0};
        struct rpc_call *calls[3];
        for (uint32_t i = 0; i < 3; i++) {
            query_auth = secure_auth(1000 + i, RPC_SERVICE_PRIVACY);
            query_begin(&queries[i], ECHO, 300 + i, 0);
            calls[i] = &queries[i].call;
        }
        rpc_submit(client, calls, 3);
        rpc_wait(calls, 3);
        bool good = query_good(&queries[0]) && query_good(&queries[1]) && query_good(&queries[2]);
        sys_critical.handler = (const char *)__builtin_frame_address(0);
        query_auth = secure_auth(1003, RPC_SERVICE_PRIVACY);
        query_begin(&queries[0], ECHO, 303, 0);
        _exit(good && query_wait(client, &queries[0], 0) == -ETIMEDOUT ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(secure.contexts, 3);
    check_seen();
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
