/* Waiting for answers: the leader receives and connects, followers sleep. */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>

#include "stats/count.h"
#include "rpc/transport.h"
#include "net/balance.h"
#include "net/health.h"
#include "net/pool.h"
#include "net/protect.h"
#include "net/silence.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/log.h"

enum {
    CONNECT_TIMEOUT_MS = 10000,
    PORT_PAUSE_MS = 1000, /* at most, before it tries again to get a local port */
    LOOK_EVERY_MS = 200,  /* how often it looks after calls without an answer */
    SLOT_MS = 1           /* how often it looks whether an exact call can be sent */
};

#define SECOND_NS UINT64_C(1000000000)

__thread struct rpc_attended rpc_attended;
__thread struct rpc_owned *rpc_owned;

static uint32_t state_of(struct rpc_call *call)
{
    return atomic_load_explicit(&call->state, memory_order_acquire);
}

/* Is it answered, or taken from its channel? */
static bool is_settled(struct rpc_call *call)
{
    uint32_t state = state_of(call);
    return state == RPC_DONE || state == RPC_ADRIFT;
}

/* ---- connecting ---- */

/* A server that does not answer may also hang while we connect to it. */
static void look_meanwhile(void *context)
{
    struct rpc_transport *transport = context;
    pthread_mutex_lock(&transport->lock);
    rpc_look_for_oldest(transport, sys_now_ns());
    pthread_mutex_unlock(&transport->lock);
}

/*
 * The leader makes a new connection, and the lock is free meanwhile. It makes one attempt within
 * `timeout_ms`, or sleeps until one is due.
 * 0: it is connected.
 * -EAGAIN: it is too early, or another thread still uses the old socket.
 * Another -errno: why connecting failed.
 */
static int connect_again(struct rpc_transport *transport, int timeout_ms)
{
    struct net_channel *channel = transport->channel;
    uint64_t up_ns = atomic_load(&channel->path->up_ns);
    int64_t early_ns = up_ns > transport->attempted_ns
                           ? 0 /* the path came up since */
                           : (int64_t)(transport->connect_after_ns - sys_now_ns());
    int pause = transport->sending || transport->withdrawing ? 1
                : early_ns > 0                               ? (int)(early_ns / 1000000) + 1
                                                             : 0;
    uint64_t now = sys_now_ns();
    for (struct rpc_call *call = transport->unsent; call; call = call->next_unsent) {
        if (call->queued_ns == 0 && call->sent_ns == 0)
            call->queued_ns = now;
    }
    rpc_look_for_oldest(transport, now);
    /* One of the others may work at any moment, or does. */
    bool others = channel->server->path_count > 1 || net_channel_has_sister(channel);
    pthread_mutex_unlock(&transport->lock);
    if (others && pause > LOOK_EVERY_MS)
        pause = LOOK_EVERY_MS;
    /* Attempts shorter than a round trip would never succeed, however often a polling caller
     * makes them. */
    int longest_ms = others ? RPC_CONNECT_LEAST_MS : CONNECT_TIMEOUT_MS;
    int result = -EAGAIN;
    if (pause > 0)
        sys_nanosleep_ms(pause < timeout_ms ? pause : timeout_ms);
    else if (channel->server->options.tls && net_tls_is_lost(channel->server->options.tls))
        result = -ELIBACC;
    else if (timeout_ms < RPC_CONNECT_LEAST_MS && !channel->server->options.once)
        result = net_channel_connect(channel, RPC_CONNECT_LEAST_MS);
    else
        result = net_channel_connect_looking(
            channel, timeout_ms < longest_ms ? timeout_ms : longest_ms, look_meanwhile, transport);
    pthread_mutex_lock(&transport->lock);
    if (pause > 0)
        return result;
    if (result == 0)
        result = rpc_connection_stays(transport);
    transport->attempts++;
    transport->attempted_ns = sys_now_ns();
    pause = net_reconnect_pause_ms(channel->server, transport->attempts);
    if (result == -EADDRINUSE && pause > PORT_PAUSE_MS)
        pause = PORT_PAUSE_MS;
    transport->connect_after_ns = transport->attempted_ns + (uint64_t)pause * 1000000;
    transport->failure = result;
    if (result != 0) {
        rpc_say_waiting(transport, net_error_text(channel->server, result));
        return result;
    }
    rpc_receiver_reset(&transport->receiver);
    /* The server's duplicate request cache knows a call again by address and port. Another network
     * interface may have another address. */
    rpc_secure_unpark_all(transport);
    rpc_queue_again(transport, channel->moved);
    transport->received_ns = sys_now_ns();
    transport->connected = true;
    rpc_prove(transport, transport->received_ns);
    return 0;
}

/* ---- the leader ---- */

/* The calls with payloads that are answered next, if the server answers in order. */
static unsigned expected_calls(struct rpc_transport *transport,
                               struct rpc_call *expected[RPC_AIMS_MAX])
{
    unsigned count = 0;
    if (transport->payloads == 0)
        return 0;
    uint32_t xid = transport->oldest_xid;
    if (transport->next_xid - xid > RPC_SLOTS)
        xid = transport->next_xid - RPC_SLOTS;
    for (; count < RPC_AIMS_MAX && xid != transport->next_xid; xid++) {
        struct rpc_call *call = transport->calls[xid % RPC_SLOTS];
        if (!call || call->xid != xid)
            continue;
        if (count == 0)
            transport->oldest_xid = xid;
        if (!call->find_payload || rpc_is_wrapped(call))
            break;
        expected[count++] = call;
    }
    return count;
}

bool rpc_look_is_due(const struct rpc_transport *transport, uint64_t now_ns)
{
    return now_ns - transport->looked_ns >= LOOK_EVERY_MS * UINT64_C(1000000);
}

/* The program's memory for a reply is missing. The connection is given up, as nobody takes the
 * rest. It is not at fault, so a new one is made at once. */
static void fail_target(struct rpc_transport *transport, struct rpc_call *target)
{
    transport->attempts = 0;
    transport->connect_after_ns = 0;
    rpc_connection_lost(transport);
    rpc_call_fail(transport, target, -EFAULT);
}

/* Receives from the socket. `full`: something waits to be sent. */
static inline ssize_t receive_from(int fd, struct iovec *vectors, int count, bool full,
                                   int timeout_ms)
{
    if (timeout_ms > 0 && (full || timeout_ms < NET_TICK_MS)) {
        struct pollfd poll = {.fd = fd, .events = full ? POLLIN | POLLOUT : POLLIN};
        sys_poll(&poll, 1, timeout_ms < 1000 ? timeout_ms : 1000);
    }
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)count};
    return sys_recvmsg(fd, &message, full || timeout_ms < NET_TICK_MS ? MSG_DONTWAIT : 0);
}

/* Receives once and hands out replies. Under the lock, which is free while it sleeps in the
 * kernel. */
static void receive(struct rpc_transport *transport, int timeout_ms)
{
    struct iovec *vectors = transport->vectors;
    int fd = transport->channel->fd;
    bool full = rpc_may_send(transport) && !transport->sending;
    /* A call that ends on another channel, and frees a slot, does not wake this one. */
    if (transport->short_of_slots && transport->unsent && timeout_ms > SLOT_MS)
        timeout_ms = SLOT_MS;
    struct rpc_call *expected[RPC_AIMS_MAX];
    unsigned expecting = expected_calls(transport, expected);
    int count = rpc_receiver_vectors(&transport->receiver, expected, expecting,
                                     transport->payloads > 0 ? transport->longest : 0, vectors);
    if (count < 0) {
        rpc_connection_lost(transport);
        return;
    }
    transport->receiving = true;
    pthread_mutex_unlock(&transport->lock);
    struct net_tls_session *tls = transport->channel->tls; /* constant while a thread leads */
    ssize_t got = __builtin_expect(tls != NULL, false)
                      ? rpc_tls_receive(tls, vectors, count, full, timeout_ms)
                      : receive_from(fd, vectors, count, full, timeout_ms);
    pthread_mutex_lock(&transport->lock);
    transport->receiving = false;
    rpc_connection_leave(transport);

    struct rpc_receiver *receiver = &transport->receiver;
    if (got == -EFAULT && !receiver->careful) { /* nothing was taken from the stream */
        receiver->careful = true;
        return;
    }
    if (got == -EFAULT && receiver->target) {
        fail_target(transport, receiver->target);
        return;
    }
    uint64_t now = sys_now_ns();
    if (got == -EAGAIN || got == -EINTR) { /* frequent signals must not put off timeouts */
        if (rpc_look_is_due(transport, now))
            rpc_look_after_silence(transport);
        return;
    }
    if (got <= 0) {
        log_info("server %s: connection over %s lost: %s", transport->channel->server->name,
                 transport->channel->path->address.peer_text,
                 got == 0 ? "closed by the server"
                          : net_error_text(transport->channel->server, (int)got));
        net_channel_tls_ended(transport->channel);
        rpc_connection_ended(transport, got == 0 ? -ECONNRESET : (int)got);
        return;
    }
    transport->received_ns = now;
    net_channel_heard(transport->channel, now);
    stats_add_locked(&transport->channel->stats->received_bytes, (uint64_t)got);
    int result = rpc_receiver_received(receiver, (size_t)got, &transport->owner);
    stats_tally_end(&transport->tally);
    if (result == -EFAULT) {
        fail_target(transport, receiver->target);
        return;
    }
    if (result != 0) {
        if (result != -ECONNRESET &&
            net_server_may_say(transport->channel->server, RPC_SAY_EVERY_S))
            log_error("server %s: garbage in the stream of replies over %s; connecting again",
                      transport->channel->server->name,
                      transport->channel->path->address.peer_text);
        rpc_connection_ended(transport, result);
        return;
    }
    transport->silent_since_ns = 0;
    if (atomic_load_explicit(&transport->channel->server->waiting_ns, memory_order_relaxed) != 0)
        net_server_answers(transport->channel->server);
    if (transport->waits_long || net_path_is_silent(transport->channel->path))
        rpc_look_for_oldest_again(transport, now);
    if (now - transport->looked_ns >= SECOND_NS)
        rpc_look_after_silence(transport);
}

void rpc_pass_lead(struct rpc_transport *transport)
{
    struct rpc_follower *next = NULL;
    transport->leading = false;
    for (struct rpc_follower *f = transport->followers; f; f = f->next) {
        uint32_t state = atomic_load(f->word); /* changes only under the lock */
        if (state == RPC_LEAD)
            return;
        if (state == RPC_WAITING && !next)
            next = f;
    }
    if (next) {
        atomic_store(next->word, RPC_LEAD);
        sys_futex(next->word, FUTEX_WAKE_PRIVATE, 1, NULL);
    }
}

/* Sleeps until the follower's word changes: it got what it waits for, or it is its turn to lead. */
static void follow(struct rpc_transport *transport, struct rpc_follower *self, int timeout_ms)
{
    self->next = transport->followers;
    self->link = &transport->followers;
    if (self->next)
        self->next->link = &self->next;
    transport->followers = self;
    pthread_mutex_unlock(&transport->lock);
    struct timespec limit = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    if (atomic_load_explicit(self->word, memory_order_acquire) == RPC_WAITING)
        sys_futex(self->word, FUTEX_WAIT_PRIVATE, RPC_WAITING, &limit);
    pthread_mutex_lock(&transport->lock);
    *self->link = self->next;
    if (self->next)
        self->next->link = self->link;
    uint32_t lead = RPC_LEAD;
    atomic_compare_exchange_strong(self->word, &lead, RPC_WAITING);
}

/* ---- for src/nfs ---- */

/* Queues calls on a channel, and sends what is queued, if it is connected. With `later` it may be
 * kept. */
static void submit(struct net_channel *channel, struct rpc_call *const *calls, unsigned count,
                   bool later)
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    for (unsigned i = 0; i < count; i++)
        net_load_add(channel, rpc_call_bytes(calls[i]));
    pthread_mutex_lock(&transport->lock);
    rpc_outstanding_add(transport, (int)count);
    bool waits = !transport->connected || transport->unsent || transport->proving;
    uint64_t now = waits ? sys_now_ns() : 0;
    for (unsigned i = 0; i < count; i++) {
        struct rpc_call *call = calls[i];
        atomic_store_explicit(&call->channel, channel, memory_order_relaxed);
        call->sent = false;
        if (waits && call->queued_ns == 0 && call->sent_ns == 0)
            call->queued_ns = now;
        atomic_store_explicit(&call->state, RPC_WAITING, memory_order_relaxed);
        rpc_unsent_append(transport, call);
        transport->kept_bytes += rpc_call_bytes(call);
    }
    transport->kept += count;
    bool kept = later && rpc_can_keep(transport);
    if (transport->connected && !kept)
        rpc_send_unsent(transport, false);
    rpc_call_finished(transport);
    pthread_mutex_unlock(&transport->lock);
    if (kept)
        rpc_keep(transport);
}

void rpc_submit_on(struct net_channel *channel, struct rpc_call *const *calls, unsigned count)
{
    submit(channel, calls, count, false);
}

void rpc_submit_later(struct net_channel *channel, struct rpc_call *const *calls, unsigned count)
{
    submit(channel, calls, count, true);
}

void rpc_submit(struct net_server *server, struct rpc_call *const *calls, unsigned count)
{
    unsigned together = server->path_count == 1 ? count : 1;
    for (unsigned i = 0; i < count; i += together)
        rpc_submit_on(net_channel_get(server, rpc_call_bytes(calls[i])), calls + i, together);
}

void rpc_submit_adrift(struct rpc_call *call, bool over)
{
    struct net_channel *from = call->channel;
    if (over) {
        call->error = -ETIMEDOUT;
        call->unsettled = call->unsettled || call->sent_ns != 0;
        if (call->exact && call->exact_slot >= 0)
            call->exact->leave(call->exact, call);
        atomic_store(&call->state, RPC_DONE);
        return;
    }
    if (from->path->stats && call->sent_ns != 0)
        stats_add(&from->path->stats->reissued, 1);
    submit(net_channel_get(from->server, rpc_call_bytes(call)), &call, 1, false);
}

/* Takes a call without an answer back. Under the lock. A connection that has seen part of it, or
 * may be receiving into it, is given up; other calls must then be sent again. */
static void withdraw(struct rpc_transport *transport, struct rpc_call *call, int error)
{
    transport->withdrawing++; /* else the leader could connect, and send the call again */
    if (call->sent)
        rpc_connection_lost(transport);
    while (!is_settled(call) && call->sent && (transport->receiving || transport->sending)) {
        pthread_mutex_unlock(&transport->lock);
        sys_nanosleep_ms(1);
        pthread_mutex_lock(&transport->lock);
    }
    transport->withdrawing--;
    if (!is_settled(call))
        rpc_call_fail(transport, call, error);
}

int rpc_time_left_ms(uint64_t deadline_ns)
{
    if (!deadline_ns)
        return CONNECT_TIMEOUT_MS;
    int64_t left_ns = (int64_t)(deadline_ns - sys_now_ns());
    int64_t left_ms = (left_ns + 999999) / 1000000;
    return left_ns <= 0 ? 0 : left_ms < CONNECT_TIMEOUT_MS ? (int)left_ms : CONNECT_TIMEOUT_MS;
}

void rpc_lead_once(struct rpc_transport *transport, struct rpc_call *own, int timeout_ms)
{
    transport->leading = true;
    if (!transport->connected) {
        int error = rpc_abandon(transport) ? 0 : connect_again(transport, timeout_ms);
        if ((error == -ENONET || error == -ELIBACC || error == -ELIBSCN) && !rpc_abandon(transport))
            rpc_strand(transport, error);
        rpc_call_finished(transport);
        return;
    }
    rpc_send_unsent(transport, true);
    if (transport->connected && !(own && is_settled(own)))
        receive(transport, timeout_ms);
    rpc_call_finished(transport);
}

static void pass_lead_unless_led(struct rpc_transport *transport, bool lead)
{
    if (lead || !transport->leading) /* it may just have been woken to lead */
        rpc_pass_lead(transport);
    /* Others wait for the port: stay away for longer than their pause between two attempts. */
    if (atomic_load_explicit(&transport->channel->turn_over, memory_order_relaxed) &&
        rpc_retire(transport, 0))
        transport->connect_after_ns = sys_now_ns() + (PORT_PAUSE_MS + 100) * UINT64_C(1000000);
}

/* For calls with a deadline: did an attempt to connect since then end by a fault of TLS that
 * another attempt would have as well? */
static bool is_hopeless(const struct rpc_transport *transport, uint64_t since_ns)
{
    int error = transport->failure;
    return transport->channel->server->options.tls && !transport->connected &&
           transport->attempted_ns > since_ns && net_tls_is_error(error) && error != -EBADRQC;
}

/* Shall this thread, which waits since `since_ns`, wait no longer for the call's context? In a
 * handler it gives up all that needs one. 0, or the error of the call. */
static int is_overdue(struct rpc_transport *transport, const struct rpc_call *call, bool in_turn,
                      uint64_t since_ns)
{
    bool helpless = rpc_is_helpless(transport);
    if (!helpless && (in_turn || sys_critical_in_handler()) && transport->connected &&
        rpc_secure_lacks_context(transport, call)) {
        bool late = sys_now_ns() - since_ns > SECOND_NS;
        if (sys_critical_in_handler())
            helpless = late || !rpc_secure_is_looked_after();
        else if (late)
            return -EKEYEXPIRED;
        if (helpless)
            rpc_gss_give_up();
    }
    return helpless ? -ETIMEDOUT : 0;
}

/* Drives the channel of the first call, until that call and those after it on this channel are
 * settled or the deadline (0: none) has passed. Withdraws what has no answer then. */
static void wait_for_some(struct rpc_call *const *calls, unsigned count, uint64_t deadline_ns,
                          bool in_turn)
{
    struct rpc_transport *transport = rpc_transport_of(calls[0]->channel);
    bool lead = false;
    unsigned i = 0;
    uint64_t began_ns = deadline_ns || calls[0]->identity ? sys_now_ns() : 0;
    int overdue = 0;
    pthread_mutex_lock(&transport->lock);
    while (i < count && calls[i]->channel == transport->channel) {
        int timeout_ms = rpc_time_left_ms(deadline_ns);
        if (is_settled(calls[i])) {
            i++;
        } else if (timeout_ms == 0 || (deadline_ns && is_hopeless(transport, began_ns)) ||
                   (calls[i]->identity &&
                    (overdue = is_overdue(transport, calls[i], in_turn, began_ns)) != 0)) {
            withdraw(transport, calls[i],
                     !transport->connected && transport->failure ? transport->failure
                     : overdue != 0                              ? overdue
                                                                 : -ETIMEDOUT);
        } else if (!lead && transport->leading) {
            struct rpc_follower self = {.word = &calls[i]->state, .call = calls[i]};
            follow(transport, &self, timeout_ms < 1000 ? timeout_ms : 1000);
            rpc_secure_help(transport, &lead);
            if (!is_settled(calls[i])) /* the leader may wait for slots that this thread has */
                rpc_drive_others(transport);
        } else {
            lead = true;
            rpc_lead_once(transport, calls[i], timeout_ms);
            rpc_secure_help(transport, &lead);
            rpc_drive_others(transport);
        }
    }
    pass_lead_unless_led(transport, lead);
    pthread_mutex_unlock(&transport->lock);
}

static void wait_until(struct rpc_call *const *calls, unsigned count, uint64_t deadline_ns,
                       bool in_turn)
{
    struct rpc_owned own = {calls, count, rpc_owned};
    rpc_owned = &own;
    while (count > 0) {
        wait_for_some(calls, count, deadline_ns, in_turn);
        bool over = rpc_time_left_ms(deadline_ns) == 0;
        for (unsigned i = 0; i < count; i++) {
            if (state_of(calls[i]) == RPC_ADRIFT)
                rpc_submit_adrift(calls[i], over);
        }
        for (; count > 0 && state_of(calls[0]) == RPC_DONE; count--)
            calls++;
    }
    rpc_owned = own.outer;
}

bool rpc_drive(struct net_channel *channel, bool (*satisfied)(void *context), void *context,
               uint64_t deadline_ns)
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    _Atomic uint32_t word = RPC_WAITING;
    bool lead = false, looked = false, done;
    pthread_mutex_lock(&transport->lock);
    for (;;) {
        done = satisfied(context);
        if (done || atomic_load(&channel->outstanding) == 0 || sys_critical_interrupts() ||
            rpc_is_helpless(transport))
            break;
        int timeout_ms = rpc_time_left_ms(deadline_ns);
        if (timeout_ms == 0 && looked)
            break;
        looked = true;
        if (!lead && transport->leading) {
            if (timeout_ms == 0)
                break;
            atomic_store(&word, RPC_WAITING);
            struct rpc_follower self = {.word = &word, .satisfied = satisfied, .context = context};
            follow(transport, &self, timeout_ms < 1000 ? timeout_ms : 1000);
        } else {
            lead = true;
            rpc_lead_once(transport, NULL, timeout_ms);
            rpc_secure_help(transport, &lead);
            rpc_drive_others(transport);
        }
    }
    pass_lead_unless_led(transport, lead);
    pthread_mutex_unlock(&transport->lock);
    return done;
}

void rpc_wait(struct rpc_call *const *calls, unsigned count)
{
    wait_until(calls, count, 0, false);
}

void rpc_wait_in_turn(struct rpc_call *const *calls, unsigned count)
{
    wait_until(calls, count, 0, true);
}

void rpc_wait_for(struct rpc_call *const *calls, unsigned count, int timeout_ms)
{
    wait_until(calls, count, sys_now_ns() + (uint64_t)timeout_ms * 1000000, false);
}

/* Ends what threads that make contexts wait for, until they do not use the transport any more. */
static void end_makers(struct rpc_transport *transport)
{
    while (!rpc_secure_leave(transport)) {
        pthread_mutex_lock(&transport->lock);
        struct rpc_call *call = transport->unsent;
        while (call && call->identity != &rpc_identity_making)
            call = call->next_unsent;
        for (unsigned i = 0; i < RPC_SLOTS && !call; i++) {
            struct rpc_call *sent = transport->calls[i];
            call = sent && sent->identity == &rpc_identity_making ? sent : NULL;
        }
        if (call)
            withdraw(transport, call, -ETIMEDOUT);
        pthread_mutex_unlock(&transport->lock);
        sys_nanosleep_ms(1);
    }
}

void rpc_contexts_end(struct net_server *server)
{
    enum { PATIENCE_MS = 50 };
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct rpc_transport *transport = server->channels[i]->transport;
        if (transport && transport->secure && !rpc_secure_end(transport, PATIENCE_MS))
            return; /* the server is away */
    }
}

void rpc_server_destroy(struct net_server *server)
{
    if (!server)
        return;
    rpc_contexts_end(server);
    net_server_leave(server); /* first: these threads may be closing a connection */
    for (unsigned i = 0; i < server->channel_count; i++) {
        struct rpc_transport *transport = server->channels[i]->transport;
        if (!transport)
            continue;
        rpc_keep_forget(transport);
        end_makers(transport);
        rpc_secure_free(transport);
        rpc_receiver_free(&transport->receiver);
        pthread_mutex_destroy(&transport->lock);
        sys_free(transport);
        server->channels[i]->transport = NULL;
    }
    net_server_destroy(server);
}
