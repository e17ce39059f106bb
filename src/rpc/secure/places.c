/* Which call may be sent in which context, and where it waits. */
#include "rpc/transport.h"
#include "rpc/message.h"
#include "rpc/secure/secure.h"
#include "net/health.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/log.h"

#include <string.h>

enum { PROGRAM_AT = 16, VERSION_AT = 20, PROCEDURE_AT = 24 }; /* in the head of a call */
enum { SAY_EVERY_S = 60, AGAIN_FIRST_MS = 50, AGAIN_DOUBLED = 6 };

#define HELD_UP_NS UINT64_C(100000000)

#define SEQUENCE_MOST UINT32_C(0x7ffffff0) /* RFC 2203 section 5.3.3.1 */

/* ---- contexts ---- */

void rpc_context_put(struct rpc_secure *secure, struct rpc_context *context)
{
    if (--context->references > 0)
        return;
    context->next = secure->dead; /* it may be a handler that is here */
    secure->dead = context;
}

void rpc_context_advance(struct rpc_context *context)
{
    uint32_t before = context->oldest;
    while (context->oldest <= context->sequence &&
           !(context->open[context->oldest % RPC_WINDOW_MAX / 64] >> context->oldest % 64 & 1))
        context->oldest++;
    if (context->oldest != before)
        context->stands_ns = sys_now_ns();
}

bool rpc_context_is_good(const struct rpc_context *context, uint64_t now)
{
    return context && context->sequence < SEQUENCE_MOST &&
           (context->ends_ns == 0 || now < context->ends_ns);
}

void rpc_secure_refuse(struct rpc_transport *transport, const struct rpc_identity *identity,
                       struct rpc_context *context, unsigned denials)
{
    struct rpc_secure *secure = transport->secure;
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        struct rpc_place *place = &secure->places[i];
        if (place->identity != identity || !context || place->context != context)
            continue;
        place->context = NULL;
        place->failures = context->proven ? 0 : place->failures + 1;
        unsigned times = place->failures > denials ? place->failures : denials;
        unsigned doubled = times < AGAIN_DOUBLED ? times : AGAIN_DOUBLED;
        if (times > 0)
            place->retry_ns = sys_now_ns() + ((uint64_t)AGAIN_FIRST_MS << doubled) * 1000000;
        rpc_context_put(secure, context);
    }
}

/* ---- places ---- */

static bool is_in_use(const struct rpc_place *place)
{
    return place->parked || place->making || place->wanted ||
           (place->context && place->context->under_way > 0);
}

static struct rpc_place *find_place(struct rpc_secure *secure, const struct rpc_identity *identity)
{
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        if (secure->places[i].identity == identity)
            return &secure->places[i];
    }
    return NULL;
}

/* A place that only waits for its next attempt, as others may have tickets: its calls wait without
 * a place. NULL: there is none. */
static struct rpc_place *vacate(struct rpc_secure *secure)
{
    struct rpc_place *best = NULL;
    uint64_t now = sys_now_ns();
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        struct rpc_place *place = &secure->places[i];
        if (!place->making && place->retry_ns > now &&
            !(place->context && place->context->under_way > 0) &&
            (!best || place->retry_ns > best->retry_ns))
            best = place;
    }
    if (!best)
        return NULL;
    atomic_store(&((struct rpc_identity *)best->identity)->retry_ns, best->retry_ns);
    rpc_place_give_slots(best);
    if (best->parked) {
        *secure->homeless_end = best->parked;
        secure->homeless_end = best->parked_end;
    }
    return best;
}

/* A free place, or the one that was not used for longest. NULL: all are in use. */
static struct rpc_place *take_place(struct rpc_secure *secure, const struct rpc_identity *identity)
{
    struct rpc_place *best = NULL;
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        struct rpc_place *place = &secure->places[i];
        if (!is_in_use(place) && (!best || place->used_ns < best->used_ns))
            best = place;
    }
    if (!best)
        best = vacate(secure);
    if (!best)
        return NULL;
    if (best->context)
        rpc_context_put(secure, best->context);
    *best = (struct rpc_place){.identity = identity, .retry_ns = atomic_load(&identity->retry_ns)};
    best->parked_end = &best->parked;
    return best;
}

static struct rpc_place *place_of(struct rpc_secure *secure, const struct rpc_identity *identity)
{
    struct rpc_place *place = find_place(secure, identity);
    return place ? place : take_place(secure, identity);
}

static void append(struct rpc_call ***end, struct rpc_call *call)
{
    call->queued = true;
    call->next_unsent = NULL;
    **end = call;
    *end = &call->next_unsent;
}

static void want(struct rpc_secure *secure, struct rpc_place *place, const struct rpc_call *call)
{
    place->program = rpc_word(call->head + PROGRAM_AT);
    place->version = rpc_word(call->head + VERSION_AT);
    if (place->wanted || place->making)
        return;
    place->wanted = true;
    rpc_secure_kick(secure);
}

bool rpc_context_is_held_up(const struct rpc_context *context, uint64_t now)
{
    return rpc_context_room(context) == 0 && context->under_way <= context->window / 2 &&
           now - context->stands_ns > HELD_UP_NS;
}

static void park(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_secure *secure = transport->secure;
    struct rpc_place *place = place_of(secure, call->identity);
    uint64_t now = sys_now_ns();
    if (call->answered && call->queued_ns == 0 && call->sent_ns == 0) /* for soft_timeout */
        call->queued_ns = now;
    if (call->exact && call->exact_slot >= 0 && call->sent_ns == 0) { /* others need the slot */
        call->exact->leave(call->exact, call);
        call->exact_slot = -1;
    }
    if (!place) {
        append(&secure->homeless_end, call);
        return;
    }
    bool first = place->parked == NULL;
    append(&place->parked_end, call);
    if (!rpc_context_is_good(place->context, now) || rpc_context_is_held_up(place->context, now))
        want(secure, place, call);
    else if (first && now - place->context->stands_ns <= HELD_UP_NS)
        rpc_secure_look_soon(secure, now);
}

void rpc_secure_park_first(struct rpc_transport *transport)
{
    park(transport, rpc_unsent_take(transport));
}

void rpc_place_unpark(struct rpc_transport *transport, struct rpc_place *place, bool all)
{
    const struct rpc_context *context = place->context;
    uint32_t room = context ? rpc_context_room(context) : 0;
    struct rpc_call *call = transport->unsent, *last_first = NULL;
    if (call && (transport->unsent_offset > 0 || call == &transport->ping))
        call = call->next_unsent;
    /* Those that were moved before and are not sent yet. */
    for (; !all && room > 0 && call && call->identity == place->identity; call = call->next_unsent)
        room--;
    while (place->parked && (all || room-- > 0)) {
        call = place->parked;
        place->parked = call->next_unsent;
        if (!place->parked)
            place->parked_end = &place->parked;
        if (all) {
            rpc_unsent_append(transport, call);
        } else {
            call->next_unsent = last_first;
            last_first = call;
        }
    }
    while ((call = last_first) != NULL) { /* before those that came later */
        last_first = call->next_unsent;
        rpc_unsent_next(transport, call);
    }
}

void rpc_secure_unpark_homeless(struct rpc_transport *transport)
{
    struct rpc_secure *secure = transport->secure;
    struct rpc_call *call = secure->homeless;
    secure->homeless = NULL;
    secure->homeless_end = &secure->homeless;
    while (call) {
        struct rpc_call *next = call->next_unsent;
        rpc_unsent_append(transport, call);
        call = next;
    }
}

void rpc_place_fail(struct rpc_transport *transport, struct rpc_place *place, int error)
{
    while (place->parked)
        rpc_call_fail(transport, place->parked, error);
    rpc_secure_unpark_homeless(transport);
}

void rpc_place_give_slots(struct rpc_place *place)
{
    for (struct rpc_call *call = place->parked; call; call = call->next_unsent) {
        if (!call->exact || call->exact_slot < 0)
            continue;
        call->error = -ETIMEDOUT; /* what became of it in its slot is not known */
        call->unsettled = call->unsettled || call->sent_ns != 0;
        call->exact->leave(call->exact, call);
        call->exact_slot = -1;
    }
}

void rpc_secure_unpark_all(struct rpc_transport *transport)
{
    struct rpc_secure *secure = transport->secure;
    if (!secure)
        return;
    for (unsigned i = 0; i < RPC_PLACES; i++)
        rpc_place_unpark(transport, &secure->places[i], true);
    rpc_secure_unpark_homeless(transport);
}

static bool take_out(struct rpc_call **first, struct rpc_call ***end, struct rpc_call *call)
{
    for (struct rpc_call **at = first; *at; at = &(*at)->next_unsent) {
        if (*at != call)
            continue;
        *at = call->next_unsent;
        if (!*at)
            *end = at;
        call->queued = false;
        return true;
    }
    return false;
}

void rpc_secure_remove(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_secure *secure = transport->secure;
    if (!secure)
        return;
    struct rpc_place *place = find_place(secure, call->identity);
    if (!place || !take_out(&place->parked, &place->parked_end, call))
        take_out(&secure->homeless, &secure->homeless_end, call);
    else if (secure->homeless && !place->parked)
        rpc_secure_unpark_homeless(transport);
}

struct rpc_call *rpc_secure_find(const struct rpc_transport *transport,
                                 bool (*is)(const void *context, const struct rpc_call *call),
                                 const void *context)
{
    const struct rpc_secure *secure = transport->secure;
    for (unsigned i = 0; secure && i <= RPC_PLACES; i++) {
        struct rpc_call *call = i < RPC_PLACES ? secure->places[i].parked : secure->homeless;
        for (; call; call = call->next_unsent) {
            if (is(context, call))
                return call;
        }
    }
    return NULL;
}

static bool same(const void *context, const struct rpc_call *call)
{
    return call == context;
}

bool rpc_secure_lacks_context(const struct rpc_transport *transport, const struct rpc_call *call)
{
    struct rpc_secure *secure = transport->secure;
    if (!secure || !call->queued || !rpc_secure_find(transport, same, call))
        return false;
    const struct rpc_place *place = find_place(secure, call->identity);
    return !place || !rpc_context_is_good(place->context, sys_now_ns());
}

static bool any(const void *context, const struct rpc_call *call)
{
    (void)context;
    (void)call;
    return true;
}

bool rpc_secure_waits(const struct rpc_transport *transport)
{
    return rpc_secure_find(transport, any, NULL) != NULL;
}

/* ---- sending ---- */

/* Only procedure NULL is called without Kerberos on a channel that is to be secured: pings. Nothing
 * of ours asks for more. It is the last thing between a fault elsewhere and the network. */
static bool may_go_plain(const struct rpc_transport *transport, const struct rpc_call *call)
{
    if (call->identity == &rpc_identity_barred)
        return false;
    return !transport->channel->server->options.kerberos_only ||
           rpc_word(call->head + PROCEDURE_AT) == 0;
}

static bool may_go(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_secure *secure = transport->secure;
    struct rpc_place *place = place_of(secure, call->identity);
    uint64_t now = sys_now_ns();
    if (!place)
        return false;
    place->used_ns = now;
    return rpc_context_is_good(place->context, now) && rpc_context_room(place->context) > 0;
}

struct rpc_call *rpc_secure_first(struct rpc_transport *transport)
{
    struct rpc_call *call;
    while ((call = transport->unsent) != NULL) {
        if (call->sent || call == &transport->ping || call->identity == &rpc_identity_making)
            return call;
        if (!call->identity || call->identity == &rpc_identity_barred) {
            if (may_go_plain(transport, call))
                return call;
            if (net_server_may_say(transport->channel->server, SAY_EVERY_S))
                log_error("server %s: a call without Kerberos was held back",
                          transport->channel->server->name);
            rpc_call_fail(transport, call, -EACCES);
            continue;
        }
        if (!rpc_secure_of(transport)) /* no memory: asked again */
            return NULL;
        if (!rpc_gss_can()) /* another thread sends it */
            return NULL;
        if (may_go(transport, call))
            return call;
        rpc_secure_park_first(transport);
    }
    return NULL;
}

void rpc_secure_landed(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_dress *dress = call->dress;
    if (!dress || !dress->counted)
        return;
    struct rpc_context *context = dress->copies[0].context;
    dress->counted = false;
    context->under_way--;
    uint32_t sequence = dress->copies[0].sequence % RPC_WINDOW_MAX;
    context->open[sequence / 64] &= ~(UINT64_C(1) << sequence % 64);
    rpc_context_advance(context);
    struct rpc_place *place = find_place(transport->secure, call->identity);
    if (!transport->connected) /* with the next connection all are looked at */
        return;
    if (place && place->parked && place->context == context)
        rpc_place_unpark(transport, place, false);
    else if (transport->secure->homeless && context->under_way == 0)
        rpc_secure_unpark_homeless(transport);
    if (place && place->parked && !place->wanted && !place->making && place->context == context &&
        rpc_context_is_held_up(context, sys_now_ns())) {
        place->wanted = true;
        rpc_secure_kick(transport->secure);
    }
}

void rpc_secure_proven(struct rpc_transport *transport, const struct rpc_call *call,
                       struct rpc_context *context)
{
    if (__builtin_expect(context->proven, true))
        return;
    struct rpc_place *place = find_place(transport->secure, call->identity);
    context->proven = true;
    atomic_store(&((struct rpc_identity *)call->identity)->answered, true);
    if (place && place->context == context)
        place->failures = 0;
}

void rpc_secure_over(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_dress *dress = call->dress;
    struct rpc_secure *secure = transport->secure;
    if (!dress)
        return;
    call->dress = NULL;
    for (unsigned i = 0; i < RPC_COPIES_KNOWN; i++) {
        if (dress->copies[i].context)
            rpc_context_put(secure, dress->copies[i].context);
    }
    if (!transport->sending) {
        sys_free(dress);
        return;
    }
    dress->next = secure->worn; /* another thread may be sending it */
    secure->worn = dress;
}

void rpc_secure_sent(struct rpc_transport *transport)
{
    struct rpc_secure *secure = transport->secure;
    while (secure->worn) {
        struct rpc_dress *dress = secure->worn;
        secure->worn = dress->next;
        sys_free(dress);
    }
}
