/* RPCSEC_GSS on a channel (RFC 2203), with a toy for a mechanism: what is sent, what is believed,
 * and who waits for whom. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "rpc/transport.h"
#include "secure_channel.h"
#include "sys/critical.h"
#include "log_lines.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"
#include "unit.h"

static const enum rpc_service services[] = {RPC_SERVICE_NONE, RPC_SERVICE_INTEGRITY,
                                            RPC_SERVICE_PRIVACY};

SECURE_TEST(calls_of_each_service)
{
    for (unsigned i = 0; i < 3; i++) {
        query_auth = secure_auth(1000, services[i]);
        secure_exchange(6, 6);
        secure_check();
    }
    assert_int_equal(secure.contexts, 3);
}

/* More calls than the window has numbers, whatever order they are answered in. */
SECURE_TEST(no_more_calls_than_the_window)
{
    secure.window = 4;
    query_auth = secure_auth(1000, RPC_SERVICE_INTEGRITY);
    secure_exchange(64, 4);
    secure.server->script.order = REVERSE;
    secure_exchange(64, 4);
    assert_in_range(secure.server->most_held, 2, 4);
    secure_check();
}

/* One call that is not answered keeps others out of the window: they go on in another context. */
SECURE_TEST(a_slow_call_does_not_close_the_window)
{
    struct query slow = {0};
    struct rpc_call *calls[] = {&slow.call};
    secure.window = 4;
    secure.slow = 77;
    query_auth = secure_auth(1000, RPC_SERVICE_NONE);
    check_echo(secure.client, 1);
    sys_nanosleep_ms(120); /* the window of a context that was just made is waited for */
    query_begin(&slow, ECHO, 77, 0);
    rpc_submit(secure.client, calls, 1);
    for (uint32_t i = 0; i < 20; i++)
        check_echo(secure.client, 100 + i);
    assert_in_range(secure.contexts, 2, 10);
    rpc_wait_for(calls, 1, 1);
    assert_int_equal(slow.call.error, -ETIMEDOUT);
    secure_check();
}

/* A call finds the window full, and it is too early to say that one call holds it up. Nobody calls
 * after it, and the thread that looks after contexts sleeps for a minute: it is woken. */
SECURE_TEST(the_last_call_that_a_slow_one_keeps_out_goes_on_soon)
{
    enum { SOON_MS = 20000 };
    struct query slow = {0}, last = {0};
    struct rpc_call *calls[] = {&slow.call};
    secure.window = 4;
    secure.slow = 77;
    query_auth = secure_auth(1001, RPC_SERVICE_NONE);
    check_echo(secure.client, 1);
    query_begin(&slow, ECHO, 77, 0);
    rpc_submit(secure.client, calls, 1);
    for (uint32_t i = 0; i < 3; i++)
        check_echo(secure.client, 100 + i);
    query_begin(&last, ECHO, 200, 0);
    assert_int_equal(query_wait(secure.client, &last, SOON_MS), 0);
    assert_true(query_good(&last));
    assert_int_equal(secure.contexts, 2);
    rpc_wait_for(calls, 1, 1);
    assert_int_equal(slow.call.error, -ETIMEDOUT);
    secure_check();
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
            unsigned connections = secure.server->connections, contexts = secure.contexts;
            query_auth = secure_auth(2000 + (uint32_t)trick, services[i]);
            atomic_store(&secure.trick, trick);
            atomic_store(&secure.tricks, 3);
            atomic_store(&secure.every, 5);
            secure_exchange(5, 6);
            assert_int_equal(atomic_load(&secure.tricks), 0);
            /* It was not believed: the call was sent again, over another connection if need be. */
            assert_true(secure.contexts > contexts + 1);
            if (trick < TRICK_CREDPROBLEM)
                assert_true(secure.server->connections > connections);
        }
    }
    secure_check();
    assert_int_equal(secure.server->changed_xids, 0);
}

/* A MIC that the library did not verify, as the context has ended, is worth nothing. */
SECURE_TEST(a_context_that_ended_verifies_nothing)
{
    secure.late = true;
    secure.trick = TRICK_VERIFIER;
    secure.every = 1;
    secure.tricks = 2;
    query_auth = secure_auth(2100, RPC_SERVICE_NONE);
    check_echo(secure.client, 1);
    assert_int_equal(atomic_load(&secure.tricks), 0);
    assert_in_range(secure.contexts, 2, 4);
    secure_check();
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
        check_echo(secure.client, 10 * i + 1);
        secure.trick = tricks[i];
        secure.tricks = 1000;
        secure.every = 1;
        query_begin(&query, i == 2 ? READ : ECHO, 10 * i + 2, 8192);
        assert_int_equal(query_wait(secure.client, &query, 0), -EBADMSG);
        assert_true(query.call.unsettled);
        assert_in_range(1000 - atomic_load(&secure.tricks), 2, 8);
        query_free(&query);
    }
    secure_check();
}

/* Nothing protects the status of a reply: anybody on the way may have changed it. */
SECURE_TEST(a_status_that_somebody_changed)
{
    for (unsigned i = 1; i < 3; i++) {
        struct query query = {0};
        secure.every = 0;
        query_auth = secure_auth(2250 + i, services[i]);
        check_echo(secure.client, 30 * i + 1);
        secure.trick = TRICK_STATUS;
        secure.tricks = 3;
        secure.every = 5;
        secure_exchange(5, 6);
        assert_int_equal(atomic_load(&secure.tricks), 0);
        secure.tricks = 1000;
        secure.every = 1;
        query_begin(&query, ECHO, 30 * i + 2, 0);
        assert_int_equal(query_wait(secure.client, &query, 0), -EBADMSG);
        assert_true(query.call.unsettled);
        assert_in_range(1000 - atomic_load(&secure.tricks), RPC_DENIALS_MAX, RPC_DENIALS_MAX + 1);
        query_free(&query);
    }
    assert_int_equal(secure.contexts, 2);
    secure_check();
    assert_int_equal(secure.server->changed_xids, 0);
}

/* A user whose calls were answered waits until the server has second thoughts. */
SECURE_TEST(a_server_that_refuses_for_a_while)
{
    struct query query = {0};
    struct rpc_call *calls[] = {&query.call};
    query_auth = secure_auth(2300, RPC_SERVICE_INTEGRITY);
    check_echo(secure.client, 1);
    secure.trick = TRICK_CREDPROBLEM;
    secure.tricks = 1000;
    secure.every = 1;
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(secure.client, calls, 1);
    rpc_drive(secure.client->channels[0], denied_often, NULL, 0);
    assert_int_equal(atomic_load(&query.call.state), RPC_WAITING);
    assert_in_range(secure.contexts, RPC_DENIALS_MAX + 2, 12);
    secure.every = 0;
    rpc_wait(calls, 1);
    assert_true(query_good(&query));
    secure_check();
    assert_int_equal(secure.server->changed_xids, 0);
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
    assert_int_equal(query_wait(secure.client, &query, 0), -EACCES);
    assert_true(query.call.unsettled);
    assert_in_range(secure.contexts, 2, 8);
    query_auth = secure_auth(2401, RPC_SERVICE_PRIVACY);
    secure.trick = TRICK_TOOWEAK;
    query_begin(&query, ECHO, 3, 0);
    assert_int_equal(query_wait(secure.client, &query, 0), -EACCES);
    assert_true(query.call.unsettled);
    secure.every = 0;
    check_echo(secure.client, 4);
    secure_check();
    assert_int_equal(secure.server->changed_xids, 0);
}

/* A server that restarted knows no context. The calls of all users get new ones. */
SECURE_TEST(contexts_that_the_server_forgot)
{
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t uid = 0; uid < 3; uid++) {
            query_auth = secure_auth(1000 + uid, RPC_SERVICE_INTEGRITY);
            secure_exchange(20, 1);
        }
        atomic_store(&secure.forgets, true);
    }
    secure_check();
    assert_int_equal(secure.server->changed_xids, 0);
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
        rpc_submit(secure.client, calls, RPC_PLACES * 3);
        rpc_wait(calls, RPC_PLACES * 3);
        for (uint32_t i = 0; i < RPC_PLACES * 3; i++)
            assert_true(query_good(&queries[i]));
    }
    secure_check();
}

/* Nothing goes out in clear by a fault elsewhere. */
SECURE_TEST(a_call_without_kerberos_is_held_back)
{
    struct query query = {0};
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(query_wait(secure.client, &query, 0), -EACCES);
    assert_int_equal(query.call.sent_ns, 0);
    assert_int_equal(secure.in_clear, 0);
    assert_int_equal(secure.server->calls, 0);
}

SECURE_TEST(contexts_are_ended)
{
    for (uint32_t i = 0; i < 3; i++) {
        query_auth = secure_auth(1000 + i, services[i]);
        secure_exchange(4, 1);
    }
    for (unsigned i = 0; i < 2; i++)
        rpc_contexts_end(secure.client);
    assert_int_equal(secure.destroyed, 3);
    unsigned connections = secure.server->connections;
    secure_exchange(4, 1);
    assert_int_equal(secure.contexts, 4);
    assert_int_equal(secure.server->connections, connections);
    secure_check();
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
    rpc_submit(secure.client, calls, STALLED + 1);
    rpc_wait(calls + STALLED, 1);
    assert_true(query_good(&queries[STALLED]));
    secure.stalls = false;
    rpc_wait(calls, STALLED);
    for (uint32_t i = 0; i < STALLED; i++)
        assert_true(query_good(&queries[i]));
    secure_check();
}

/* ---- connections, processes ---- */

SECURE_TEST(connections_that_are_reset)
{
    secure.server->script.reset_every = 7;
    for (unsigned i = 0; i < 3; i++) {
        query_auth = secure_auth(9000, services[i]);
        secure_exchange(16, 4);
    }
    assert_int_equal(secure.forged, 0);
    assert_int_equal(secure.in_clear, 0);
    assert_int_equal(secure.server->changed_xids, 0);
}

SECURE_TEST(a_child_makes_its_own_contexts)
{
    query_auth = secure_auth(1000, RPC_SERVICE_PRIVACY);
    secure_exchange(4, 2);
    unsigned before = secure.contexts;
    pid_t child = fork();
    if (child == 0) {
        net_server_after_fork(secure.client);
        rpc_after_fork(secure.client);
        struct query query = {0};
        query_begin(&query, ECHO, 200, 0);
        _exit(query_wait(secure.client, &query, 0) == 0 && query_good(&query) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(secure.contexts, before + 1);
    secure_exchange(4, 2);
    secure_check();
}

/* A process that can have no thread of ours makes its contexts itself, one after the other. */
SECURE_TEST(a_child_without_threads)
{
    pid_t child = fork();
    if (child == 0) {
        net_server_after_fork(secure.client);
        rpc_after_fork(secure.client);
        sys_thread_forbid();
        struct query queries[3] = {0};
        struct rpc_call *calls[3];
        for (uint32_t i = 0; i < 3; i++) {
            query_auth = secure_auth(1000 + i, RPC_SERVICE_PRIVACY);
            query_begin(&queries[i], ECHO, 300 + i, 0);
            calls[i] = &queries[i].call;
        }
        rpc_submit(secure.client, calls, 3);
        rpc_wait(calls, 3);
        bool good = query_good(&queries[0]) && query_good(&queries[1]) && query_good(&queries[2]);
        sys_critical.handler = (const char *)__builtin_frame_address(0);
        query_auth = secure_auth(1003, RPC_SERVICE_PRIVACY);
        query_begin(&queries[0], ECHO, 303, 0);
        _exit(good && query_wait(secure.client, &queries[0], 0) == -ETIMEDOUT ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(secure.contexts, 3);
    secure_check();
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
