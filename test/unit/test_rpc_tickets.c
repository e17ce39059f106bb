/* Tickets of RPCSEC_GSS, with a toy for a mechanism: who has none, whose has ended, and who waits.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport.h"
#include "secure_channel.h"
#include "sys/critical.h"
#include "log_lines.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

SECURE_TEST(a_user_without_a_ticket_is_told_at_once)
{
    struct query query = {0};
    secure.no_ticket = true;
    query_auth = secure_auth(4000, RPC_SERVICE_NONE);
    for (uint32_t i = 0; i < 3; i++) {
        query_begin(&query, ECHO, 1 + i, 0);
        assert_int_equal(query_wait(secure.client, &query, 0), -EACCES);
        assert_false(query.call.unsettled);
        assert_int_equal(query.call.sent_ns, 0);
    }
    secure.no_ticket = false;
    check_echo(secure.client, 9);
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
    assert_int_equal(query_wait(secure.client, &query, 0), -EACCES);
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
        check_echo(secure.client, 1 + i);
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
    rpc_submit(secure.client, calls, RPC_PLACES);
    query_auth = secure_auth(4200, RPC_SERVICE_NONE);
    query_begin(&lucky, ECHO, 99, 0);
    rpc_submit(secure.client, last, 1);
    rpc_wait(last, 1);
    assert_true(query_good(&lucky));
    for (uint32_t i = 0; i < RPC_PLACES; i++)
        assert_int_equal(atomic_load(&queries[i].call.state), RPC_WAITING);
    secure.expired = false;
    rpc_wait(calls, RPC_PLACES);
    for (uint32_t i = 0; i < RPC_PLACES; i++)
        assert_true(query_good(&queries[i]));
    secure_check();
}

/* Its KDC hangs. Those of others go on, on the same channel. */
SECURE_TEST(a_kdc_that_hangs_stalls_its_user_only)
{
    struct query stalled = {0};
    struct rpc_call *calls[] = {&stalled.call};
    query_auth = secure_auth(5000, RPC_SERVICE_PRIVACY);
    check_echo(secure.client, 1);
    secure.hangs = true;
    query_auth = secure_auth(5001, RPC_SERVICE_PRIVACY);
    query_begin(&stalled, ECHO, 2, 0);
    rpc_submit(secure.client, calls, 1);
    query_auth = secure_auth(5000, RPC_SERVICE_PRIVACY);
    secure_exchange(8, 4);
    assert_int_equal(atomic_load(&stalled.call.state), RPC_WAITING);
    secure.hangs = false;
    rpc_wait(calls, 1);
    assert_true(query_good(&stalled));
    secure_check();
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
    check_echo(secure.client, 1);
    secure.expired = true;
    while (lines_with(log, "user 6000: the Kerberos ticket has ended") == 0)
        sys_nanosleep_ms(1);
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(secure.client, calls, 1);
    unsigned acquired = secure.acquired;
    rpc_wait_for(calls, 1, 1);
    assert_int_equal(query.call.error, -ETIMEDOUT);
    query_begin(&query, ECHO, 3, 0);
    rpc_submit(secure.client, calls, 1);
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
    secure_check();
}

/* Who is waited for by others gives way. */
SECURE_TEST(a_thread_in_turn_does_not_wait_for_a_ticket)
{
    struct query query = {0};
    struct rpc_call *calls[] = {&query.call};
    secure.lifetime_s = 1;
    query_auth = secure_auth(6100, RPC_SERVICE_INTEGRITY);
    check_echo(secure.client, 1);
    secure.expired = true;
    sys_nanosleep_ms(1100);
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(secure.client, calls, 1);
    rpc_wait_in_turn(calls, 1);
    assert_int_equal(query.call.error, -EKEYEXPIRED);
    assert_int_equal(query.call.sent_ns, 0);
    /* Nobody calls any more: no further ticket is asked for. */
    const struct rpc_place *place = NULL;
    struct rpc_transport *transport = rpc_transport_of(secure.client->channels[0]);
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        if (transport->secure->places[i].identity == query_auth->identity)
            place = &transport->secure->places[i];
    }
    for (bool rests = false; !rests; sys_nanosleep_ms(1)) {
        pthread_mutex_lock(&transport->lock);
        rests = !place->wanted && !place->making && place->context->renew_ns == 0;
        pthread_mutex_unlock(&transport->lock);
    }
    rpc_contexts_end(secure.client); /* it has ended */
    assert_int_equal(secure.destroyed, 0);
    secure.expired = false;
    check_echo(secure.client, 3);
    secure_check();
}

/* A handler may have interrupted malloc(), for which the thread that makes contexts waits. */
SECURE_TEST(a_handler_does_not_wait_for_a_context_for_ever)
{
    struct query query = {0};
    secure.hangs = true;
    query_auth = secure_auth(6200, RPC_SERVICE_NONE);
    query_begin(&query, ECHO, 1, 0);
    sys_critical.handler = (const char *)__builtin_frame_address(0);
    int result = query_wait(secure.client, &query, 0);
    sys_critical.handler = NULL;
    assert_int_equal(result, -ETIMEDOUT);
    assert_int_equal(query.call.sent_ns, 0);
    secure.hangs = false;
    check_echo(secure.client, 2);
    secure_check();
}

/* A context is made before the one before ends, also while nobody calls. */
SECURE_TEST(contexts_are_renewed_in_time)
{
    secure.lifetime_s = 2;
    query_auth = secure_auth(7000, RPC_SERVICE_NONE);
    check_echo(secure.client, 1);
    assert_int_equal(secure.contexts, 1);
    while (atomic_load(&secure.contexts) < 3)
        sys_nanosleep_ms(1);
    check_echo(secure.client, 2);
    secure_check();
}

/* soft_timeout counts for calls that wait for a ticket as well. */
SECURE_TEST(a_call_for_which_nobody_waits_ends_with_soft_timeout)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    secure.client->options.soft_timeout_s = 1;
    query_auth = secure_auth(8001, RPC_SERVICE_NONE); /* the channel is connected, and idle */
    check_echo(secure.client, 2);
    secure.no_kdc = true;
    query_auth = secure_auth(8000, RPC_SERVICE_NONE);
    query_begin(&query, ECHO, 1, 0);
    query.call.answered = note_call_end;
    atomic_store(&call_ended, 0);
    rpc_submit(secure.client, &call, 1);
    rpc_drive(secure.client->channels[0], call_has_ended, NULL, 0);
    assert_int_equal(atomic_load(&call_ended), -ENETDOWN);
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
