#include "rpc/transport.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>

#include "stats/count.h"
#include "rpc/message.h"
#include "net/balance.h"
#include "net/health.h"
#include "net/pool.h"
#include "net/protect.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

void rpc_transport_init(struct rpc_transport *transport, struct net_channel *channel)
{
    memset(transport, 0, sizeof(*transport));
    pthread_mutex_init(&transport->lock, NULL);
    transport->channel = channel;
    transport->secured = channel->server->options.kerberos_only;
    transport->special = channel->server->options.tls != NULL;
    transport->unsent_end = &transport->unsent;
    transport->finished_end = &transport->finished;
    uint64_t seed = sys_now_ns() * 0x9e3779b97f4a7c15u + (uint64_t)sys_getpid() * 0x10001 +
                    (uint64_t)(uintptr_t)transport;
    transport->next_xid = transport->oldest_xid = (uint32_t)(seed >> 24) | 1;
    rpc_receiver_init(&transport->receiver);
    transport->owner = (struct rpc_receiver_owner){rpc_call_sent, rpc_call_answered, transport,
                                                   rpc_secure_answered, rpc_secure_verified};
}

struct rpc_transport *rpc_transport_of(struct net_channel *channel)
{
    struct rpc_transport *transport = __atomic_load_n(&channel->transport, __ATOMIC_ACQUIRE);
    if (transport)
        return transport;
    struct rpc_transport *made;
    while (!(made = sys_alloc(sizeof(*made)))) {
        log_error("server %s: no memory for a connection; waiting for some", channel->server->name);
        sys_nanosleep_ms(1000);
    }
    rpc_transport_init(made, channel);
    pthread_mutex_lock(&channel->server->lock);
    transport = channel->transport;
    if (!transport)
        __atomic_store_n(&channel->transport, made, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&channel->server->lock);
    if (!transport)
        return made;
    rpc_receiver_free(&made->receiver);
    sys_free(made);
    return transport;
}

/* ---- the queue and the table (all under the lock) ---- */

void rpc_unsent_append(struct rpc_transport *transport, struct rpc_call *call)
{
    call->queued = true;
    call->next_unsent = NULL;
    *transport->unsent_end = call;
    transport->unsent_end = &call->next_unsent;
}

struct rpc_call *rpc_unsent_take(struct rpc_transport *transport)
{
    struct rpc_call *call = transport->unsent;
    call->queued = false;
    transport->unsent = call->next_unsent;
    if (!transport->unsent)
        transport->unsent_end = &transport->unsent;
    return call;
}

void rpc_unsent_prepend(struct rpc_transport *transport, struct rpc_call *call)
{
    call->queued = true;
    call->next_unsent = transport->unsent;
    if (!transport->unsent)
        transport->unsent_end = &call->next_unsent;
    transport->unsent = call;
}

void rpc_unsent_remove(struct rpc_transport *transport, struct rpc_call *call)
{
    for (struct rpc_call **at = &transport->unsent; *at; at = &(*at)->next_unsent) {
        if (*at != call)
            continue;
        *at = call->next_unsent;
        if (!*at)
            transport->unsent_end = at;
        call->queued = false;
        return;
    }
    if (__builtin_expect(call->identity != NULL, false))
        rpc_secure_remove(transport, call);
}

void rpc_unsent_next(struct rpc_transport *transport, struct rpc_call *call)
{
    bool stays = transport->unsent_offset > 0 || transport->unsent == &transport->ping;
    struct rpc_call *first = stays ? rpc_unsent_take(transport) : NULL;
    rpc_unsent_prepend(transport, call);
    if (first)
        rpc_unsent_prepend(transport, first);
}

/*
 * The first call cannot be sent until another one leaves. A call behind it that is entered already,
 * and has come back, goes before it. Else each would wait for the other. So does a call that makes
 * a context: those that have the slots may wait for it. False: there is no such call.
 */
static bool entered_goes_first(struct rpc_transport *transport)
{
    struct rpc_call **link = &transport->unsent->next_unsent;
    while (*link && (*link)->identity != &rpc_identity_making &&
           (!(*link)->exact || (*link)->exact_slot < 0))
        link = &(*link)->next_unsent;
    struct rpc_call *call = *link;
    if (!call)
        return false;
    *link = call->next_unsent;
    if (!*link)
        transport->unsent_end = link;
    rpc_unsent_prepend(transport, call);
    return true;
}

bool rpc_enter(struct rpc_transport *transport, struct rpc_call *call)
{
    if (sys_test_unsafe(SYS_TEST_SLOT) && call->exact_slot >= 0 && call->sent_ns != 0 &&
        transport->unsent_offset == 0) {
        call->exact->leave(call->exact, call);
        call->exact_slot = -1;
        call->sent_ns = 0;
    }
    bool entered = call->exact_slot >= 0 || call->exact->enter(call->exact, call) ||
                   entered_goes_first(transport);
    transport->short_of_slots = !entered;
    return entered;
}

struct rpc_call *rpc_call_sent(void *context, uint32_t xid)
{
    const struct rpc_transport *transport = context;
    struct rpc_call *call = transport->calls[xid % RPC_SLOTS];
    return call && call->xid == xid && !call->queued ? call : NULL;
}

void rpc_in_flight_add(struct rpc_transport *transport, struct rpc_call *call)
{
    if (call->xid != 0 && transport->calls[call->xid % RPC_SLOTS]) {
        call->xid = 0; /* it comes from another channel, or a ping took its place */
        if (!call->exact)
            call->unsettled = true;
    }
    if (call->xid == 0 || sys_test_unsafe(SYS_TEST_XID)) {
        while (transport->next_xid == 0 || transport->calls[transport->next_xid % RPC_SLOTS])
            transport->next_xid++;
        rpc_call_stamp(call, transport->next_xid++);
    }
    transport->calls[call->xid % RPC_SLOTS] = call;
    transport->in_flight++;
    if (!call->find_payload)
        return;
    if (transport->payloads++ == 0 || call->destination_length > transport->longest)
        transport->longest = call->destination_length;
}

void rpc_in_flight_remove(struct rpc_transport *transport, struct rpc_call *call)
{
    transport->calls[call->xid % RPC_SLOTS] = NULL;
    transport->in_flight--;
    transport->payloads -= call->find_payload != NULL;
    if (__builtin_expect(call->identity != NULL, false))
        rpc_secure_landed(transport, call);
}

/* The call's owner goes on as soon as the lock is free, so this is the last access to the call. An
 * `answered` function is called later, without the lock. */
static void call_done(struct rpc_transport *transport, struct rpc_call *call, enum rpc_state state)
{
    if (__builtin_expect(call->exact != NULL, false) && call->exact_slot >= 0 &&
        state != RPC_ADRIFT)
        call->exact->leave(call->exact, call);
    if (__builtin_expect(call->identity != NULL, false))
        rpc_secure_over(transport, call);
    if (call != &transport->ping) {
        rpc_outstanding_add(transport, -1);
        net_load_remove(transport->channel, rpc_call_bytes(call));
    }
    if (call->answered) {
        call->next_unsent = NULL;
        *transport->finished_end = call;
        transport->finished_end = &call->next_unsent;
        return;
    }
    bool asleep = false;
    for (struct rpc_follower *f = transport->followers; f && !asleep; f = f->next)
        asleep = f->call == call;
    atomic_store_explicit(&call->state, state, memory_order_release);
    if (asleep)
        sys_futex(&call->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void rpc_call_finished(struct rpc_transport *transport)
{
    struct rpc_call *call = transport->finished;
    if (!call)
        return;
    transport->finished = NULL;
    transport->finished_end = &transport->finished;
    pthread_mutex_unlock(&transport->lock);
    while (call) {
        struct rpc_call *first = call, *last;
        do {
            last = call;
            call = call->next_unsent;
        } while (call && call->answered == first->answered);
        last->next_unsent = NULL;
        first->answered(first);
    }
    pthread_mutex_lock(&transport->lock);
    for (struct rpc_follower *f = transport->followers; f; f = f->next) {
        uint32_t waiting = RPC_WAITING;
        if (!f->call && f->satisfied(f->context) &&
            atomic_compare_exchange_strong(f->word, &waiting, RPC_DONE))
            sys_futex(f->word, FUTEX_WAKE_PRIVATE, 1, NULL);
    }
}

void rpc_call_answered(void *context, struct rpc_call *call)
{
    struct rpc_transport *transport = context;
    struct directnfs_channel_stats *stats = transport->channel->stats;
    call->answered_ns = transport->received_ns;
    call->connected_ns = transport->channel->connected_ns;
    uint64_t rtt_us = (call->answered_ns - call->last_sent_ns) / 1000;
    uint64_t smooth = stats_get(&stats->rtt_us);
    stats_set(&stats->rtt_us, smooth ? (7 * smooth + rtt_us) / 8 : rtt_us);
    stats_add_locked(&stats->recvs, 1);
    stats_add_locked(&stats->outstanding, -1);
    net_load_answered(transport->channel, rpc_call_bytes(call), call->last_sent_ns,
                      call->answered_ns);
    if (transport->channel->path->stats)
        stats_tally_add(&transport->tally, &transport->channel->path->stats->latency,
                        call->answered_ns - call->last_sent_ns);
    if (transport->newest_ns < call->last_sent_ns)
        transport->newest_ns = call->last_sent_ns;
    if (__builtin_expect(call->resent, false))
        transport->again_ns = call->answered_ns;
    if (transport->attempts > 0) { /* the first answer over this connection */
        transport->attempts = 0;
        transport->connect_after_ns = 0;
        transport->proving = false;
        net_path_works(transport->channel->path);
    }
    if (__builtin_expect(transport->given_up + transport->overdue > 0, false) &&
        call != &transport->ping)
        rpc_silence_is_over(transport, call);
    rpc_in_flight_remove(transport, call);
    call_done(transport, call, RPC_DONE);
}

/* A connection that is given up may have queued data. If no thread connects until the path works
 * again, that data must not be sent then. */
void rpc_connection_leave(struct rpc_transport *transport)
{
    if (!transport->connected && !transport->receiving && !transport->sending)
        net_channel_reset(transport->channel);
}

/* Wakes the reader. SHUT_WR would send FIN, and the port could then be in TIME_WAIT when the new
 * connection asks for it. */
void rpc_connection_lost(struct rpc_transport *transport)
{
    if (!transport->connected)
        return;
    transport->connected = false;
    if (transport->receiving)
        sys_shutdown(transport->channel->fd, SHUT_RD);
    rpc_connection_leave(transport);
}

void rpc_connection_ended(struct rpc_transport *transport, int error)
{
    struct net_channel *channel = transport->channel;
    bool refused = error == -EBADRQC; /* by TLS: the handshake went well before that was known */
    if (channel->server->options.once || refused)
        transport->failure = error;
    if (transport->connected && transport->attempts > 0)
        net_channel_failed(channel, refused ? net_error_text(channel->server, error)
                                            : "connections end without an answer");
    rpc_connection_lost(transport);
}

void rpc_call_fail(struct rpc_transport *transport, struct rpc_call *call, int error)
{
    rpc_unsent_remove(transport, call);
    if (call->sent) {
        rpc_in_flight_remove(transport, call);
        stats_add_locked(&transport->channel->stats->outstanding, -1);
    }
    call->sent = false;
    /* If nothing is tried again, -ENETDOWN is the error of connecting. */
    bool adrift = error == -ENETDOWN && !transport->channel->server->options.once &&
                  call->identity != &rpc_identity_making; /* a context is of this channel */
    /* An exact call is only late, if it is sent again. */
    bool late = call->exact && adrift;
    if (late && call->answered && call->exact_slot >= 0 && !call->exact->set_aside(call->exact))
        late = false;
    if (!late)
        call->unsettled = call->unsettled || call->sent_ns != 0;
    call->answered_ns = call->sent_ns ? sys_now_ns() : 0;
    call->error = error;
    call->results_length = 0;
    call->received = 0;
    if (!late && adrift && call->exact && call->exact_slot >= 0) {
        call->exact->leave(call->exact, call);
        call->exact_slot = -1;
    }
    call_done(transport, call, adrift ? RPC_ADRIFT : RPC_DONE);
    if (transport->waits_long &&
        atomic_load_explicit(&transport->channel->outstanding, memory_order_relaxed) == 0)
        rpc_look_for_oldest(transport, sys_now_ns()); /* nobody will look later */
}

bool rpc_take_up(struct rpc_call *call)
{
    if (call->error != -ENETDOWN || !call->exact || call->exact_slot < 0)
        return false;
    call->exact->take_up(call->exact);
    call->answered = NULL;
    atomic_store(&call->state, RPC_ADRIFT);
    return true;
}

/* May the server carry out an older copy of this call, which it does not know again? With a context
 * each copy has a sequence number of its own (RFC 2203 section 5.3.3.1): some servers, as
 * nfs-ganesha, take it for another call, from the same port as well. */
static bool has_unknown_copy(const struct rpc_call *call, bool unsettled)
{
    return (unsettled || call->identity) && !call->exact;
}

/* All calls in flight go back to the head of the queue, the oldest first. They are sent again with
 * their xid, from memory that their callers leave alone until they are answered. */
void rpc_queue_again(struct rpc_transport *transport, bool unsettled)
{
    struct rpc_call *call, *fresh = NULL, **end = &fresh;
    while (transport->unsent) {
        call = rpc_unsent_take(transport);
        if (!call->sent) { /* not in flight; an earlier connection may have sent it */
            call->unsettled =
                call->unsettled || (call->sent_ns != 0 && has_unknown_copy(call, unsettled));
            *end = call;
            end = &call->next_unsent;
        }
    }
    *end = NULL;
    for (unsigned i = 0; i < RPC_SLOTS; i++) {
        call = transport->calls[(transport->next_xid + i) % RPC_SLOTS];
        if (!call)
            continue;
        rpc_in_flight_remove(transport, call);
        stats_add_locked(&transport->channel->stats->outstanding, -1);
        call->sent = false;
        call->unsettled = call->unsettled || has_unknown_copy(call, unsettled);
        rpc_unsent_append(transport, call);
    }
    while ((call = fresh) != NULL) {
        fresh = call->next_unsent;
        rpc_unsent_append(transport, call);
    }
    transport->unsent_offset = 0;
}

bool rpc_retire(struct rpc_transport *transport, uint64_t idle_ns)
{
    struct net_channel *channel = transport->channel;
    bool idle = atomic_load(&channel->outstanding) == 0 && !transport->leading &&
                !transport->sending && !transport->withdrawing &&
                sys_now_ns() - transport->received_ns >= idle_ns;
    if (idle) {
        transport->connected = false;
        net_channel_retire(channel);
        if (atomic_load(&transport->pinging))
            rpc_call_fail(transport, &transport->ping, -ENETDOWN);
        rpc_call_finished(transport);
    }
    return idle;
}

bool rpc_close_idle(struct net_channel *channel, uint64_t idle_ns)
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    pthread_mutex_lock(&transport->lock);
    bool idle = rpc_retire(transport, idle_ns);
    pthread_mutex_unlock(&transport->lock);
    return idle;
}

void rpc_after_fork(struct net_server *server)
{
    rpc_keep_after_fork();
    rpc_secure_after_fork();
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct rpc_transport *transport = server->channels[i]->transport;
        /* A thread that does not exist here may have left the receiver's memory half changed. */
        if (transport)
            rpc_transport_init(transport, server->channels[i]);
    }
}

void rpc_hand_over(struct net_server *from, struct net_server *to)
{
    struct net_channel *before = from->channels[0], *channel = to->channels[0];
    struct rpc_transport *old = rpc_transport_of(before), *transport = rpc_transport_of(channel);
    pthread_mutex_lock(&transport->lock);
    if (old->connected && old->in_flight == 0 && !old->unsent && !old->secure &&
        !transport->leading && !transport->connected) {
        transport->leading = true; /* nobody else connects meanwhile */
        pthread_mutex_unlock(&transport->lock);
        bool taken = net_channel_take(channel, before);
        pthread_mutex_lock(&transport->lock);
        if (taken) {
            old->connected = false;
            transport->received_ns = old->received_ns;
            transport->connected = true;
        }
        rpc_pass_lead(transport);
    }
    pthread_mutex_unlock(&transport->lock);
}
