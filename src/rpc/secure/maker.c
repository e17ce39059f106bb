/*
 * Contexts are made by threads of ours (RFC 2203 section 5.2): a KDC that does not answer stalls
 * its own identity only. One thread looks after all channels. It starts another one for each
 * context, and makes those again that will end soon.
 */
#include "rpc/transport.h"
#include "rpc/secure/converse.h"
#include "run/log_limit.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/foreign.h"
#include "sys/log.h"
#include "sys/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS  UINT64_C(1000000000)
#define HELD_UP_NS UINT64_C(100000000)

enum {
    MOUNT_PROGRAM = 100005,
    RETRY_FIRST_MS = 500,
    RETRY_DOUBLED = 3,
    SAY_EVERY_S = 60,
    SLEEP_S = 60,
    RENEW_LEAST_S = 60
};

static struct {
    pthread_mutex_t lock; /* guards the list, `walking` and `leaving`; held briefly */
    struct rpc_secure *first;
    bool walking;
    _Atomic bool started;    /* changes under the lock */
    _Atomic bool starved;    /* the last thread for a context could not be started */
    _Atomic uint32_t kicks;  /* futex */
    _Atomic bool soon;       /* the thread shall look again within HELD_UP_NS */
    _Atomic uint64_t due_ns; /* when it looks at the latest; UINT64_MAX: it is looking */
} makers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- one context ---- */

bool rpc_secure_pin(struct rpc_secure *secure)
{
    pthread_mutex_lock(&makers.lock);
    bool stays = !secure->leaving;
    secure->pins += stays;
    pthread_mutex_unlock(&makers.lock);
    return stays;
}

void rpc_secure_unpin(struct rpc_secure *secure)
{
    pthread_mutex_lock(&makers.lock);
    secure->pins--;
    pthread_mutex_unlock(&makers.lock);
}

/* When to make another one: before a tenth of the time, and at least a minute, is left. A short
 * ticket is used for two thirds of its time. */
static void set_times(struct rpc_context *context, struct rpc_identity *identity,
                      uint64_t lifetime_s)
{
    uint64_t now = sys_now_ns(), before_s = lifetime_s / 10;
    if (lifetime_s == RPC_GSS_FOREVER)
        return;
    if (before_s < RENEW_LEAST_S)
        before_s = RENEW_LEAST_S;
    uint64_t before_ns = before_s * SECOND_NS, third_ns = lifetime_s * SECOND_NS / 3;
    context->ends_ns = now + lifetime_s * SECOND_NS;
    context->renew_ns = context->ends_ns - (before_ns < third_ns ? before_ns : third_ns);
    atomic_store(&identity->ends_s, sys_clock_ns(CLOCK_REALTIME) / SECOND_NS + lifetime_s);
}

static void say(const struct rpc_making *making, bool waits)
{
    char subject[512];
    const struct rpc_gss_fault *fault = &making->fault;
    const char *server = making->identity->server + strlen("nfs@");
    snprintf(subject, sizeof(subject), "kerberos %u %d %d %.300s", making->identity->uid,
             (int)fault->why, waits, server);
    if (!run_may_say(subject, SAY_EVERY_S))
        return;
    const char *remedy = rpc_gss_remedy(fault->why);
    log_warning("server %s: user %u: %s: %s%s%s%s%s", server, making->identity->uid,
                rpc_gss_reason(fault->why), fault->text[0] ? fault->text : "no reason is told",
                waits ? "; calls wait" : "", *remedy ? " (" : "", remedy, *remedy ? ")" : "");
}

/* Is it MOUNT that knows no Kerberos, as rpc.mountd does not? It is asked with AUTH_SYS then. */
static bool is_refused_by_mount(const struct rpc_making *making)
{
    return making->program == MOUNT_PROGRAM && making->fault.why == RPC_GSS_REFUSED;
}

/* Calls of an identity that worked wait, as on a hard mount, and so they do while a KDC or the
 * server is away. What a person has to set right fails at once. So does what nobody can. */
static bool is_waited_for(const struct rpc_making *making)
{
    if (is_refused_by_mount(making) || making->fault.why == RPC_GSS_NO_LIBRARY ||
        making->fault.why == RPC_GSS_LOST)
        return false;
    return atomic_load(&making->identity->worked) || making->fault.why == RPC_GSS_NO_KDC ||
           making->fault.why == RPC_GSS_NO_SERVER;
}

/* Shows when the ticket ends. */
static void show_end(const struct rpc_making *making)
{
    struct directnfs_path_stats *stats = making->secure->transport->channel->path->stats;
    uint64_t ends_s = atomic_load(&making->identity->ends_s);
    if (stats)
        stats_set(&stats->ticket_ends_ns, ends_s * SECOND_NS);
}

static void install(struct rpc_making *making)
{
    struct rpc_place *place = making->place;
    const struct rpc_context *before = place->context;
    uint64_t now = sys_now_ns();
    stats_add(&stats_own->counters.kerberos_contexts, 1);
    if (before && before->ends_ns > now)
        stats_add(&stats_own->counters.kerberos_renewals, 1);
    if (place->context)
        rpc_context_put(making->secure, place->context);
    place->context = making->context;
    show_end(making);
    place->context->references = 1;
    place->context->oldest = 1;
    place->context->stands_ns = now;
    rpc_place_unpark(making->secure->transport, place, !making->secure->transport->connected);
}

static void note_failure(struct rpc_making *making)
{
    struct rpc_place *place = making->place;
    uint64_t now = sys_now_ns();
    unsigned doubled = place->failures < RETRY_DOUBLED ? place->failures : RETRY_DOUBLED;
    uint64_t pause_ns = ((uint64_t)RETRY_FIRST_MS << doubled) * 1000000;
    bool waits = is_waited_for(making);
    if (!is_refused_by_mount(making))
        stats_add(&stats_own->counters.kerberos_failures, 1);
    place->failures++;
    place->retry_ns = now + pause_ns;
    if (place->context && place->context->ends_ns > now) {
        place->context->renew_ns = now + pause_ns;
        return;
    }
    if (place->context) /* it has ended: the next call wants another one */
        place->context->renew_ns = 0;
    bool by_mount = is_refused_by_mount(making);
    if (!by_mount)
        say(making, waits && place->parked);
    if (!waits) {
        place->retry_ns = 0; /* who calls again is told again */
        rpc_place_fail(making->secure->transport, place, by_mount ? -EKEYREJECTED : -EACCES);
    } else if (making->fault.why != RPC_GSS_NO_SERVER) { /* without it nobody needs them */
        rpc_place_give_slots(place);
    }
    place->wanted = place->parked != NULL;
}

/* Tells the transport. */
static void finish(struct rpc_making *making, bool made)
{
    struct rpc_secure *secure = making->secure;
    struct rpc_identity *identity = (struct rpc_identity *)making->identity;
    if (made || !is_refused_by_mount(making))
        atomic_store(&identity->why, made ? RPC_GSS_WELL : (uint32_t)making->fault.why);
    if (made) {
        set_times(making->context, identity, making->gss.lifetime_s);
        atomic_store(&identity->worked, true);
    }
    if (rpc_secure_pin(secure)) {
        struct rpc_transport *transport = secure->transport;
        pthread_mutex_lock(&transport->lock);
        making->place->making = false;
        if (made)
            install(making);
        else
            note_failure(making);
        if (made)
            making->context = NULL;
        rpc_secure_unpark_homeless(transport);
        if (transport->connected)
            rpc_send_unsent(transport, false);
        rpc_call_finished(transport);
        pthread_mutex_unlock(&transport->lock);
        rpc_secure_unpin(secure);
    }
}

static void secure_put(struct rpc_secure *secure)
{
    pthread_mutex_lock(&makers.lock);
    bool last = --secure->users == 0;
    pthread_mutex_unlock(&makers.lock);
    if (last)
        sys_free(secure);
}

static void make(struct rpc_making *making)
{
    making->fault.why = RPC_GSS_WELL;
    bool made = rpc_gss_load(&making->fault) &&
                rpc_gss_acquire(&making->gss, making->identity, &making->fault) &&
                rpc_converse(making);
    if (made && making->gss.lifetime_s == 0) {
        making->fault = (struct rpc_gss_fault){.why = RPC_GSS_EXPIRED, .text = "Ticket expired"};
        made = false;
    }
    if (made) {
        making->context->gss = making->gss.context;
        making->gss.context = NULL;
    }
    finish(making, made);
    rpc_gss_making_end(&making->gss);
    if (making->context) {
        rpc_gss_delete(making->context->gss);
        sys_free(making->context);
    }
    secure_put(making->secure);
    sys_free(making);
    atomic_fetch_add(&makers.kicks, 1); /* the next attempt may be due before it would wake */
    sys_futex(&makers.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void *make_thread(void *argument)
{
    sys_critical_enter();
    make(argument);
    return NULL;
}

/* Takes a place whose context is wanted. NULL: none is, or there is no memory. Under the
 * transport's lock. */
static struct rpc_making *take(struct rpc_secure *secure, uint64_t now)
{
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        struct rpc_place *place = &secure->places[i];
        if (!place->wanted || place->making || now < place->retry_ns)
            continue;
        struct rpc_making *making = sys_alloc(sizeof(*making));
        struct rpc_context *context = sys_alloc_zeroed(sizeof(*context));
        if (!making || !context) {
            sys_free(making);
            sys_free(context);
            return NULL;
        }
        making->secure = secure;
        making->place = place;
        making->identity = place->identity;
        making->program = place->program;
        making->version = place->version;
        making->context = context;
        making->is_ours = true;
        memset(&making->gss, 0, sizeof(making->gss));
        place->wanted = false;
        place->making = true;
        pthread_mutex_lock(&makers.lock);
        secure->users++;
        pthread_mutex_unlock(&makers.lock);
        return making;
    }
    return NULL;
}

/* No thread can make it now. Threads that wait for it do: see rpc_secure_make_here(). */
static void put_back(struct rpc_making *making)
{
    making->place->making = false;
    making->place->wanted = true;
    sys_free(making->context);
    secure_put(making->secure);
    sys_free(making);
}

/* ---- looking after all ---- */

/* Wants those anew that end soon. When is the next thing due? */
static uint64_t look_at_places(struct rpc_secure *secure, uint64_t now)
{
    uint64_t next = now + SLEEP_S * SECOND_NS;
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        struct rpc_place *place = &secure->places[i];
        const struct rpc_context *context = place->context;
        if (place->parked && context && !place->wanted && !place->making &&
            rpc_context_room(context) == 0) {
            place->wanted = rpc_context_is_held_up(context, now);
            if (now + HELD_UP_NS < next && !place->wanted)
                next = now + HELD_UP_NS;
        }
        if (context && context->renew_ns && !place->wanted && !place->making) {
            if (now >= context->renew_ns)
                place->wanted = true;
            else if (context->renew_ns < next)
                next = context->renew_ns;
        }
        if (place->wanted && !place->making && place->retry_ns < next)
            next = place->retry_ns;
    }
    return next;
}

static void delete_dead(struct rpc_context *dead)
{
    while (dead) {
        struct rpc_context *next = dead->next;
        rpc_gss_delete(dead->gss);
        sys_free(dead);
        dead = next;
    }
}

/* Not while the list may change: the transport stays. */
static uint64_t look_after(struct rpc_secure *secure)
{
    struct rpc_transport *transport = secure->transport;
    struct rpc_making *making;
    uint64_t now = sys_now_ns();
    pthread_mutex_lock(&transport->lock);
    uint64_t next = look_at_places(secure, now);
    struct rpc_context *dead = secure->dead;
    secure->dead = NULL;
    while ((making = take(secure, now)) != NULL) {
        pthread_mutex_unlock(&transport->lock);
        bool starts = sys_thread_start(make_thread, making, "Kerberos");
        atomic_store(&makers.starved, !starts);
        pthread_mutex_lock(&transport->lock);
        if (!starts) {
            put_back(making);
            next = now + RETRY_FIRST_MS * UINT64_C(1000000);
            break;
        }
    }
    pthread_mutex_unlock(&transport->lock);
    delete_dead(dead);
    return next;
}

/* Looks after all channels once. When is the next thing due? */
static uint64_t walk(void)
{
    uint64_t next = sys_now_ns() + SLEEP_S * SECOND_NS;
    pthread_mutex_lock(&makers.lock);
    makers.walking = true;
    for (struct rpc_secure *secure = makers.first; secure; secure = secure->next) {
        pthread_mutex_unlock(&makers.lock);
        uint64_t due = look_after(secure);
        next = due < next ? due : next;
        pthread_mutex_lock(&makers.lock);
    }
    makers.walking = false;
    pthread_mutex_unlock(&makers.lock);
    return next;
}

static void *look_after_all(void *argument)
{
    (void)argument;
    sys_critical_enter();
    for (;;) {
        uint32_t kicks = atomic_load(&makers.kicks);
        atomic_store(&makers.due_ns, UINT64_MAX);
        bool soon = atomic_exchange(&makers.soon, false);
        uint64_t next = walk(), now = sys_now_ns();
        if (soon && next > now + HELD_UP_NS)
            next = now + HELD_UP_NS;
        atomic_store(&makers.due_ns, next);
        uint64_t left = next > now ? next - now : 1000000;
        struct timespec limit = {(time_t)(left / SECOND_NS), (long)(left % SECOND_NS)};
        sys_futex(&makers.kicks, FUTEX_WAIT_PRIVATE, kicks, &limit);
    }
    return NULL;
}

void rpc_secure_kick(struct rpc_secure *secure)
{
    (void)secure;
    atomic_fetch_add(&makers.kicks, 1);
    sys_futex(&makers.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void rpc_secure_look_soon(struct rpc_secure *secure, uint64_t now)
{
    if (atomic_load(&makers.due_ns) <= now + HELD_UP_NS)
        return;
    atomic_store(&makers.soon, true);
    rpc_secure_kick(secure);
}

static bool start(void)
{
    pthread_mutex_lock(&makers.lock);
    if (!makers.started && !sys_critical_in_handler()) {
        makers.started = sys_thread_start(look_after_all, NULL, "Kerberos");
        sys_foreign_aside_start();
    }
    bool started = makers.started;
    pthread_mutex_unlock(&makers.lock);
    return started;
}

bool rpc_secure_is_looked_after(void)
{
    return atomic_load(&makers.started) && !atomic_load(&makers.starved);
}

/* This thread waits for what needs no further context. */
static __thread bool busy;

void rpc_secure_make_here(struct rpc_transport *transport, bool *lead)
{
    struct rpc_secure *secure = transport->secure;
    bool wanted = false;
    if (atomic_load_explicit(&makers.started, memory_order_relaxed) &&
        !atomic_load(&makers.starved) && !sys_foreign_is_kept(SYS_FOREIGN_KERBEROS))
        return;
    for (unsigned i = 0; secure && i < RPC_PLACES; i++)
        wanted = wanted || secure->places[i].wanted;
    if (!wanted || busy || sys_critical_in_handler())
        return;
    bool can_start =
        !sys_foreign_is_kept(SYS_FOREIGN_KERBEROS) && start() && !atomic_load(&makers.starved);
    struct rpc_making *making = can_start ? NULL : take(secure, sys_now_ns());
    if (!making)
        return;
    making->is_ours = false;
    if (*lead)
        rpc_pass_lead(transport);
    *lead = false;
    busy = true;
    pthread_mutex_unlock(&transport->lock);
    make(making);
    pthread_mutex_lock(&transport->lock);
    busy = false;
}

/* ---- the end ---- */

struct endings {
    struct rpc_call calls[RPC_PLACES];
    struct rpc_context *contexts[RPC_PLACES]; /* with a reference each */
    unsigned count;
};

/* The places whose contexts can be ended now. Under the lock. */
static void take_endings(struct rpc_transport *transport, struct endings *endings)
{
    struct rpc_secure *secure = transport->secure;
    uint64_t now = sys_now_ns();
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        struct rpc_place *place = &secure->places[i];
        struct rpc_auth auth;
        if (!rpc_context_is_good(place->context, now) || !place->context->proven ||
            place->context->under_way > 0 || place->making)
            continue;
        rpc_auth_secure(&auth, 0, place->identity);
        struct rpc_call *call = &endings->calls[endings->count];
        rpc_call_end(call, rpc_call_begin(call, &auth, place->program, place->version, 0));
        if (!rpc_secure_destroys(transport, call))
            continue;
        place->context->references++;
        endings->contexts[endings->count++] = place->context;
    }
}

/* Contexts that the server was told to end are of no use. False: one was not answered. */
static bool forget_ended(struct rpc_transport *transport, const struct endings *endings)
{
    struct rpc_secure *secure = transport->secure;
    bool answered = true;
    pthread_mutex_lock(&transport->lock);
    for (unsigned i = 0; i < endings->count; i++) {
        const struct rpc_call *call = &endings->calls[i];
        struct rpc_context *context = endings->contexts[i];
        answered = answered && call->error != -ETIMEDOUT;
        for (unsigned j = 0; j < RPC_PLACES; j++) {
            struct rpc_place *place = &secure->places[j];
            if (place->context != context || call->sent_ns == 0)
                continue;
            place->context = NULL;
            rpc_context_put(secure, context);
            place->wanted = place->wanted || (place->parked && !place->making);
        }
        rpc_context_put(secure, context);
    }
    pthread_mutex_unlock(&transport->lock);
    rpc_secure_kick(secure);
    return answered;
}

bool rpc_secure_end(struct rpc_transport *transport, int timeout_ms)
{
    struct rpc_call *calls[RPC_PLACES];
    struct endings *endings;
    if (!transport->secure || sys_critical_in_handler() || !(endings = sys_alloc(sizeof(*endings))))
        return true;
    endings->count = 0;
    for (unsigned i = 0; i < RPC_PLACES; i++)
        calls[i] = &endings->calls[i];
    pthread_mutex_lock(&transport->lock);
    if (transport->connected)
        take_endings(transport, endings);
    pthread_mutex_unlock(&transport->lock);
    bool answered = true;
    if (endings->count > 0) {
        bool before = busy;
        busy = true;
        rpc_submit_on(transport->channel, calls, endings->count);
        rpc_wait_for(calls, endings->count, timeout_ms);
        busy = before;
        answered = forget_ended(transport, endings);
    }
    sys_free(endings);
    return answered;
}

/* ---- the list ---- */

struct rpc_secure *rpc_secure_of(struct rpc_transport *transport)
{
    struct rpc_secure *secure = transport->secure;
    if (secure)
        return secure;
    secure = sys_alloc_zeroed(sizeof(*secure));
    if (!secure)
        return NULL;
    secure->transport = transport;
    secure->users = 1;
    secure->homeless_end = &secure->homeless;
    snprintf(secure->name, sizeof(secure->name), "%s", transport->channel->server->name);
    for (unsigned i = 0; i < RPC_PLACES; i++)
        secure->places[i].parked_end = &secure->places[i].parked;
    pthread_mutex_lock(&makers.lock);
    secure->next = makers.first;
    makers.first = secure;
    pthread_mutex_unlock(&makers.lock);
    transport->secure = secure;
    transport->special = true;
    start();
    return secure;
}

bool rpc_secure_leave(struct rpc_transport *transport)
{
    struct rpc_secure *secure = transport->secure;
    if (!secure)
        return true;
    pthread_mutex_lock(&makers.lock);
    secure->leaving = true;
    bool left = secure->pins == 0 && !makers.walking;
    if (left) {
        struct rpc_secure **at = &makers.first;
        while (*at && *at != secure)
            at = &(*at)->next;
        if (*at)
            *at = secure->next;
    }
    pthread_mutex_unlock(&makers.lock);
    return left;
}

void rpc_secure_free(struct rpc_transport *transport)
{
    struct rpc_secure *secure = transport->secure;
    if (!secure)
        return;
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        if (secure->places[i].context)
            rpc_context_put(secure, secure->places[i].context);
    }
    rpc_secure_sent(transport);
    delete_dead(secure->dead);
    secure->dead = NULL;
    secure_put(secure);
    transport->secure = NULL;
}

void rpc_secure_after_fork(void)
{
    memset(&makers, 0, sizeof(makers));
    pthread_mutex_init(&makers.lock, NULL);
    rpc_gss_after_fork();
}
