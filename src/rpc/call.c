/*
 * Calls in flight on channels: sending, waiting, connecting again.
 *
 *   rpc_submit()  queue --> table of calls in flight (by xid) --> socket
 *   rpc_wait()    leader: socket --> receiver --> call answered --> its owner wakes
 *
 * At most one thread sends on a channel (`sending`) and at most one reads (`leading`); both work
 * without the lock while they are in the kernel. Only the leader connects, and not while a thread
 * sends, so a descriptor never changes under a system call.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>

#include "host/stats.h"
#include "rpc/message.h"
#include "rpc/receiver.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    SLOTS = 256,         /* of the table; a power of two */
    IN_FLIGHT_MAX = 128, /* servers queue about as many on a connection */
    BATCH = 64,          /* calls in one sendmsg() */
    VECTORS_MAX = 256,
    CONNECT_TIMEOUT_MS = 10000,
    SAY_EVERY_S = 60
};

#define SECOND_NS UINT64_C(1000000000)

/* A thread that sleeps in rpc_wait() until its call is answered or it shall lead. On its stack. */
struct follower {
    struct rpc_call *call;
    struct follower *next, **link;
};

/* State of a channel. Made at its first call, lives as long as the channel. `lock` guards all but
 * `receiver`, which is the leader's. */
struct rpc_transport {
    pthread_mutex_t lock;
    struct net_channel *channel;
    struct rpc_call *calls[SLOTS]; /* in flight, by xid */
    unsigned in_flight;
    unsigned payloads; /* of them expect a payload */
    uint32_t next_xid;
    struct rpc_call *unsent, **unsent_end;
    size_t unsent_offset; /* bytes of the first unsent call that are sent already */
    struct follower *followers;
    bool leading, sending;
    bool receiving; /* the leader is in the kernel, which may write into a call's memory */
    bool connected;
    unsigned withdrawing;      /* threads that take calls back: not to be connected meanwhile */
    unsigned attempts;         /* to connect, since the last success */
    int connect_error;         /* of the last attempt to connect */
    uint64_t connect_after_ns; /* when the next attempt is due */
    uint64_t looked_ns;        /* when calls were last looked after */
    uint64_t silent_since_ns;  /* for saying so: 0 when all is well */
    uint64_t said_ns;
    struct rpc_receiver receiver;
};

static void transport_init(struct rpc_transport *transport, struct net_channel *channel)
{
    memset(transport, 0, sizeof(*transport));
    pthread_mutex_init(&transport->lock, NULL);
    transport->channel = channel;
    transport->unsent_end = &transport->unsent;
    uint64_t seed = sys_now_ns() * 0x9e3779b97f4a7c15u + (uint64_t)sys_getpid() * 0x10001 +
                    (uint64_t)(uintptr_t)transport;
    transport->next_xid = (uint32_t)(seed >> 24) | 1;
    rpc_receiver_init(&transport->receiver);
}

static struct rpc_transport *transport_of(struct net_channel *channel)
{
    struct rpc_transport *transport = __atomic_load_n(&channel->transport, __ATOMIC_ACQUIRE);
    if (transport)
        return transport;
    struct rpc_transport *made;
    while (!(made = malloc(sizeof(*made)))) {
        log_error("server %s: no memory for a connection; waiting for some", channel->server->name);
        sys_nanosleep_ms(1000);
    }
    transport_init(made, channel);
    pthread_mutex_lock(&channel->server->lock);
    transport = channel->transport;
    if (!transport)
        __atomic_store_n(&channel->transport, made, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&channel->server->lock);
    if (!transport)
        return made;
    rpc_receiver_free(&made->receiver);
    free(made);
    return transport;
}

/* ---- the queue and the table (all under the lock)
 * ------------------------------------------------ */

static void unsent_append(struct rpc_transport *transport, struct rpc_call *call)
{
    call->next_unsent = NULL;
    *transport->unsent_end = call;
    transport->unsent_end = &call->next_unsent;
}

static struct rpc_call *unsent_take(struct rpc_transport *transport)
{
    struct rpc_call *call = transport->unsent;
    transport->unsent = call->next_unsent;
    if (!transport->unsent)
        transport->unsent_end = &transport->unsent;
    return call;
}

static void unsent_prepend(struct rpc_transport *transport, struct rpc_call *call)
{
    call->next_unsent = transport->unsent;
    if (!transport->unsent)
        transport->unsent_end = &call->next_unsent;
    transport->unsent = call;
}

static struct rpc_call *in_flight_find(void *context, uint32_t xid)
{
    struct rpc_transport *transport = context;
    struct rpc_call *call = transport->calls[xid % SLOTS];
    return call && call->xid == xid ? call : NULL;
}

static void in_flight_add(struct rpc_transport *transport, struct rpc_call *call)
{
    if (call->xid == 0) {
        while (transport->next_xid == 0 || transport->calls[transport->next_xid % SLOTS])
            transport->next_xid++;
        rpc_call_stamp(call, transport->next_xid++);
    }
    transport->calls[call->xid % SLOTS] = call;
    transport->in_flight++;
    transport->payloads += call->find_payload != NULL;
}

static void in_flight_remove(struct rpc_transport *transport, struct rpc_call *call)
{
    transport->calls[call->xid % SLOTS] = NULL;
    transport->in_flight--;
    transport->payloads -= call->find_payload != NULL;
}

/* The last access to the call: its owner goes on as soon as the lock is free. */
static void call_done(struct rpc_transport *transport, struct rpc_call *call)
{
    atomic_fetch_sub_explicit(&transport->channel->outstanding, 1, memory_order_relaxed);
    bool asleep = false;
    for (struct follower *f = transport->followers; f && !asleep; f = f->next)
        asleep = f->call == call;
    atomic_store_explicit(&call->state, RPC_DONE, memory_order_release);
    if (asleep)
        sys_futex(&call->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void answered(void *context, struct rpc_call *call)
{
    struct rpc_transport *transport = context;
    struct directnfs_channel_stats *stats = transport->channel->stats;
    call->answered_ns = sys_now_ns();
    call->connected_ns = transport->channel->connected_ns;
    uint64_t rtt_us = (call->answered_ns - call->last_sent_ns) / 1000;
    uint64_t smooth = host_stats_get(&stats->rtt_us);
    host_stats_set(&stats->rtt_us, smooth ? (7 * smooth + rtt_us) / 8 : rtt_us);
    host_stats_add(&stats->recvs, 1);
    host_stats_sub(&stats->outstanding, 1);
    in_flight_remove(transport, call);
    call_done(transport, call);
}

/* ---- sending
 * ------------------------------------------------------------------------------------- */

/* What one sendmsg() carries. The calls may be answered, and gone, before it returns. */
struct batch {
    unsigned count;
    struct rpc_call *calls[BATCH];
    uint32_t xids[BATCH];
    size_t lengths[BATCH];
    size_t total;
    int vector_count;
    struct iovec vectors[VECTORS_MAX];
};

static size_t call_length(const struct rpc_call *call)
{
    return call->head_length + ((call->payload_length + 3) & ~(size_t)3);
}

static void batch_add(struct batch *batch, struct rpc_call *call, size_t skip)
{
    static const uint8_t zeros[4];
    struct iovec parts[RPC_VECTORS_MAX + 2];
    int count = 0;
    parts[count++] = (struct iovec){call->head, call->head_length};
    for (int i = 0; i < call->payload_count; i++)
        parts[count++] = call->payload[i];
    size_t padding = -call->payload_length & 3;
    if (padding > 0)
        parts[count++] = (struct iovec){(void *)zeros, padding};
    size_t length = call_length(call) - skip;
    batch->vector_count +=
        rpc_vectors_slice(parts, count, skip, length, batch->vectors + batch->vector_count);
    batch->calls[batch->count] = call;
    batch->xids[batch->count] = call->xid;
    batch->lengths[batch->count++] = length;
    batch->total += length;
}

static void batch_fill(struct rpc_transport *transport, struct batch *batch, unsigned count_max)
{
    struct directnfs_channel_stats *stats = transport->channel->stats;
    batch->count = 0;
    batch->total = 0;
    batch->vector_count = 0;
    uint64_t now = sys_now_ns();
    while (transport->unsent && batch->count < count_max && transport->in_flight < IN_FLIGHT_MAX &&
           batch->vector_count + transport->unsent->payload_count + 2 <= VECTORS_MAX) {
        struct rpc_call *call = unsent_take(transport);
        if (!call->sent) { /* not so when it was sent in part, or again */
            call->sent = true;
            in_flight_add(transport, call);
            host_stats_add(&stats->sends, 1);
            host_stats_add(&stats->outstanding, 1);
            if (call->sent_ns == 0) {
                call->sent_ns = now;
            } else {
                host_stats_add(&stats->reissued, 1);
                host_stats_add(&host_stats->counters.retransmissions, 1);
            }
        }
        call->last_sent_ns = now;
        batch_add(batch, call, transport->unsent_offset);
        transport->unsent_offset = 0;
    }
}

/*
 * Puts back what was not sent. False when a call that was sent in part is gone: only a server that
 * answers what it has not read can do that.
 */
static bool batch_return(struct rpc_transport *transport, const struct batch *batch, size_t sent)
{
    unsigned first = 0;
    while (first < batch->count && sent >= batch->lengths[first])
        sent -= batch->lengths[first++];
    for (unsigned i = batch->count; i-- > first;) {
        struct rpc_call *call = in_flight_find(transport, batch->xids[i]);
        if (call != batch->calls[i])
            return false;
        unsent_prepend(transport, call);
        if (i == first)
            transport->unsent_offset = call_length(call) - (batch->lengths[i] - sent);
    }
    return true;
}

/*
 * Wakes the reader. SHUT_WR would say FIN, and the port could then be in TIME_WAIT when the new
 * connection asks for it.
 */
static void connection_lost(struct rpc_transport *transport)
{
    if (transport->connected)
        sys_shutdown(transport->channel->fd, SHUT_RD);
    transport->connected = false;
}

static void unsent_remove(struct rpc_transport *transport, const struct rpc_call *call)
{
    for (struct rpc_call **at = &transport->unsent; *at; at = &(*at)->next_unsent) {
        if (*at != call)
            continue;
        *at = call->next_unsent;
        if (!*at)
            transport->unsent_end = at;
        return;
    }
}

/* Ends a call without an answer. No connection may still carry a part of it. */
static void fail(struct rpc_transport *transport, struct rpc_call *call, int error)
{
    unsent_remove(transport, call);
    if (call->sent) {
        in_flight_remove(transport, call);
        host_stats_sub(&transport->channel->stats->outstanding, 1);
    }
    call->error = error;
    call->results_length = 0;
    call->received = 0;
    call_done(transport, call);
}

/*
 * Sends what is queued, if no other thread does. Under the lock, which is free during system calls.
 * Returns when all is sent, or the socket is full and the caller (or no one) leads, or the
 * connection is lost. While another thread leads, and so reads replies, it waits for room.
 */
static void send_unsent(struct rpc_transport *transport, bool lead)
{
    struct batch batch;
    unsigned count_max = BATCH;
    if (transport->sending)
        return;
    transport->sending = true;
    while (transport->connected && transport->unsent && transport->in_flight < IN_FLIGHT_MAX) {
        batch_fill(transport, &batch, count_max);
        int fd = transport->channel->fd;
        pthread_mutex_unlock(&transport->lock);
        struct msghdr message = {.msg_iov = batch.vectors,
                                 .msg_iovlen = (size_t)batch.vector_count};
        ssize_t sent;
        do
            sent = sys_sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (sent == -EINTR);
        pthread_mutex_lock(&transport->lock);
        if (sent > 0)
            host_stats_add(&transport->channel->stats->sent_bytes, (uint64_t)sent);
        bool whole = batch_return(transport, &batch, sent > 0 ? (size_t)sent : 0);
        if (sent == -EFAULT && whole) { /* the application gave us memory that is not there */
            if (batch.count > 1) {      /* whose memory? */
                count_max = 1;
                continue;
            }
            if (transport->unsent_offset > 0)
                connection_lost(transport);
            fail(transport, batch.calls[0], -EFAULT);
        } else if (!whole || (sent < 0 && sent != -EAGAIN && sent != -ENOBUFS && sent != -ENOMEM))
            connection_lost(transport);
        else if (sent < 0 || (size_t)sent < batch.total) {
            if (lead || !transport->leading)
                break;
            pthread_mutex_unlock(&transport->lock);
            struct pollfd poll = {.fd = fd, .events = POLLOUT};
            sys_poll(&poll, 1, 20);
            pthread_mutex_lock(&transport->lock);
        }
    }
    transport->sending = false;
}

/* ---- connecting
 * ---------------------------------------------------------------------------------- */

static void say_waiting(struct rpc_transport *transport, const char *why)
{
    uint64_t now = sys_now_ns();
    if (transport->silent_since_ns == 0)
        transport->silent_since_ns = transport->said_ns = now;
    if (now - transport->said_ns < SAY_EVERY_S * SECOND_NS)
        return;
    transport->said_ns = now;
    log_warning("server %s: no answer over %s for %u s (%s); %u calls wait",
                transport->channel->server->name, transport->channel->path->address.peer_text,
                (unsigned)((now - transport->silent_since_ns) / SECOND_NS), why,
                atomic_load(&transport->channel->outstanding));
}

/*
 * All calls in flight go back to the head of the queue, the oldest first: sent again with the same
 * xid, from memory that their callers leave alone until they are answered.
 */
static void queue_again(struct rpc_transport *transport)
{
    struct rpc_call *again = NULL, **end = &again;
    struct rpc_call *fresh = NULL, **fresh_end = &fresh;
    while (transport->unsent) {
        struct rpc_call *call = unsent_take(transport);
        if (!call->sent) {
            *fresh_end = call;
            fresh_end = &call->next_unsent;
        }
    }
    *fresh_end = NULL;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct rpc_call *call = transport->calls[(transport->next_xid + i) % SLOTS];
        if (!call)
            continue;
        in_flight_remove(transport, call);
        host_stats_sub(&transport->channel->stats->outstanding, 1);
        call->sent = false;
        *end = call;
        end = &call->next_unsent;
    }
    *end = fresh;
    transport->unsent = again;
    transport->unsent_end = fresh ? fresh_end : end;
    if (!again)
        transport->unsent_end = &transport->unsent;
    transport->unsent_offset = 0;
}

/*
 * The leader makes a new connection; the lock is free meanwhile. One attempt within `timeout_ms`,
 * or a sleep until one is due. Returns 0, -EAGAIN when it is too early or another thread still uses
 * the old socket, or what connecting said.
 */
static int connect_again(struct rpc_transport *transport, int timeout_ms)
{
    struct net_channel *channel = transport->channel;
    int64_t early_ns = (int64_t)(transport->connect_after_ns - sys_now_ns());
    int pause = transport->sending || transport->withdrawing ? 1
                : early_ns > 0                               ? (int)(early_ns / 1000000) + 1
                                                             : 0;
    pthread_mutex_unlock(&transport->lock);
    int result = -EAGAIN;
    if (pause > 0)
        sys_nanosleep_ms(pause < timeout_ms ? pause : timeout_ms);
    else
        result = net_channel_connect(channel, timeout_ms < CONNECT_TIMEOUT_MS ? timeout_ms
                                                                              : CONNECT_TIMEOUT_MS);
    pthread_mutex_lock(&transport->lock);
    if (pause > 0)
        return result;
    transport->attempts++;
    transport->connect_after_ns =
        sys_now_ns() +
        (uint64_t)net_reconnect_pause_ms(channel->server, transport->attempts) * 1000000;
    transport->connect_error = result;
    if (result != 0) {
        say_waiting(transport, strerrordesc_np(-result));
        return result;
    }
    rpc_receiver_reset(&transport->receiver);
    queue_again(transport);
    transport->connected = true;
    return 0;
}

/* ---- the leader
 * ---------------------------------------------------------------------------------- */

static struct rpc_call *only_call(struct rpc_transport *transport, struct rpc_call *own)
{
    return transport->in_flight == 1 && !transport->unsent && own->sent ? own : NULL;
}

/* A call that is unanswered for too long means that the connection is dead, whatever TCP says. */
static void look_after_silence(struct rpc_transport *transport)
{
    uint64_t now = sys_now_ns(), oldest = now;
    transport->looked_ns = now;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct rpc_call *call = transport->calls[i];
        if (call && call->last_sent_ns < oldest)
            oldest = call->last_sent_ns;
    }
    unsigned limit = transport->channel->server->retransmit_timeout_s;
    if (now - oldest < limit * SECOND_NS)
        return;
    log_warning("server %s: no reply over %s for %u s; connecting again",
                transport->channel->server->name, transport->channel->path->address.peer_text,
                limit);
    connection_lost(transport);
}

/* Receives once and hands out replies. Under the lock, which is free while it sleeps in the kernel.
 */
static void receive(struct rpc_transport *transport, struct rpc_call *own, int timeout_ms)
{
    struct iovec vectors[RPC_RECEIVER_VECTORS];
    int fd = transport->channel->fd;
    bool full = transport->unsent && !transport->sending && transport->in_flight < IN_FLIGHT_MAX;
    int count = rpc_receiver_vectors(&transport->receiver, only_call(transport, own),
                                     transport->payloads > 0, vectors);
    if (count < 0) {
        connection_lost(transport);
        return;
    }
    transport->receiving = true;
    pthread_mutex_unlock(&transport->lock);
    ssize_t got = 0;
    if (full || timeout_ms < 1000) {
        struct pollfd poll = {.fd = fd, .events = full ? POLLIN | POLLOUT : POLLIN};
        sys_poll(&poll, 1, timeout_ms < 1000 ? timeout_ms : 1000);
    }
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)count};
    got = sys_recvmsg(fd, &message, full || timeout_ms < 1000 ? MSG_DONTWAIT : 0);
    pthread_mutex_lock(&transport->lock);
    transport->receiving = false;

    if (got == -EFAULT && transport->receiver.target) {
        connection_lost(transport);
        fail(transport, transport->receiver.target, -EFAULT);
        return;
    }
    if (got == -EAGAIN || got == -EINTR) { /* frequent signals shall not put off timeouts */
        look_after_silence(transport);
        say_waiting(transport, "connected, but silent");
        return;
    }
    if (got <= 0) {
        log_info("server %s: connection over %s lost: %s", transport->channel->server->name,
                 transport->channel->path->address.peer_text,
                 got == 0 ? "closed by the server" : strerrordesc_np((int)-got));
        connection_lost(transport);
        return;
    }
    host_stats_add(&transport->channel->stats->received_bytes, (uint64_t)got);
    struct rpc_receiver_owner owner = {in_flight_find, answered, transport};
    int result = rpc_receiver_received(&transport->receiver, (size_t)got, &owner);
    if (result != 0) {
        log_error("server %s: garbage in the stream of replies over %s; connecting again",
                  transport->channel->server->name, transport->channel->path->address.peer_text);
        connection_lost(transport);
        return;
    }
    transport->attempts = 0;
    transport->connect_after_ns = 0;
    transport->silent_since_ns = 0;
    if (sys_now_ns() - transport->looked_ns >= SECOND_NS)
        look_after_silence(transport);
}

/* Wakes a follower, if there is one and none is woken already, to lead. */
static void pass_lead(struct rpc_transport *transport)
{
    transport->leading = false;
    for (struct follower *f = transport->followers; f; f = f->next) {
        if (atomic_load(&f->call->state) == RPC_LEAD)
            return;
    }
    for (struct follower *f = transport->followers; f; f = f->next) {
        uint32_t waiting = RPC_WAITING;
        if (atomic_compare_exchange_strong(&f->call->state, &waiting, RPC_LEAD)) {
            sys_futex(&f->call->state, FUTEX_WAKE_PRIVATE, 1, NULL);
            return;
        }
    }
}

static void follow(struct rpc_transport *transport, struct rpc_call *call, int timeout_ms)
{
    struct follower self = {
        .call = call, .next = transport->followers, .link = &transport->followers};
    if (self.next)
        self.next->link = &self.next;
    transport->followers = &self;
    pthread_mutex_unlock(&transport->lock);
    struct timespec limit = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    if (atomic_load_explicit(&call->state, memory_order_acquire) == RPC_WAITING)
        sys_futex(&call->state, FUTEX_WAIT_PRIVATE, RPC_WAITING, &limit);
    pthread_mutex_lock(&transport->lock);
    *self.link = self.next;
    if (self.next)
        self.next->link = self.link;
    uint32_t lead = RPC_LEAD;
    atomic_compare_exchange_strong(&call->state, &lead, RPC_WAITING);
}

/* ---- for src/nfs
 * --------------------------------------------------------------------------------- */

void rpc_submit(struct net_server *server, struct rpc_call *const *calls, unsigned count)
{
    if (count == 0)
        return;
    struct net_channel *channel = net_channel_get(server);
    struct rpc_transport *transport = transport_of(channel);
    atomic_fetch_add_explicit(&channel->outstanding, count, memory_order_relaxed);
    pthread_mutex_lock(&transport->lock);
    for (unsigned i = 0; i < count; i++) {
        struct rpc_call *call = calls[i];
        call->channel = channel;
        call->xid = 0;
        call->sent = false;
        call->sent_ns = 0;
        atomic_store_explicit(&call->state, RPC_WAITING, memory_order_relaxed);
        unsent_append(transport, call);
    }
    if (transport->connected)
        send_unsent(transport, false);
    pthread_mutex_unlock(&transport->lock);
}

static bool is_done(struct rpc_call *call)
{
    return atomic_load_explicit(&call->state, memory_order_acquire) == RPC_DONE;
}

/*
 * Takes an unanswered call back. Under the lock. A connection that has seen part of it, or may be
 * receiving into it, is given up, which costs others a resend.
 */
static void withdraw(struct rpc_transport *transport, struct rpc_call *call, int error)
{
    transport->withdrawing++; /* else the leader connects, and sends the call again, in between */
    if (call->sent)
        connection_lost(transport);
    while (!is_done(call) && call->sent && (transport->receiving || transport->sending)) {
        pthread_mutex_unlock(&transport->lock);
        sys_nanosleep_ms(1);
        pthread_mutex_lock(&transport->lock);
    }
    transport->withdrawing--;
    if (is_done(call))
        return;
    fail(transport, call, error);
}

/* Drives the channel until all calls are answered or the deadline (0: none) has passed. */
static void wait_until(struct rpc_call *const *calls, unsigned count, uint64_t deadline_ns)
{
    if (count == 0)
        return;
    struct rpc_transport *transport = transport_of(calls[0]->channel);
    bool lead = false;
    unsigned i = 0;
    pthread_mutex_lock(&transport->lock);
    for (;;) {
        while (i < count && is_done(calls[i]))
            i++;
        if (i == count)
            break;
        int timeout_ms = CONNECT_TIMEOUT_MS;
        if (deadline_ns) {
            int64_t left_ms = (int64_t)(deadline_ns - sys_now_ns()) / 1000000;
            if (left_ms <= 0)
                break;
            timeout_ms = left_ms < timeout_ms ? (int)left_ms : timeout_ms;
        }
        if (!lead && transport->leading) {
            follow(transport, calls[i], timeout_ms < 1000 ? timeout_ms : 1000);
            continue;
        }
        lead = transport->leading = true;
        if (!transport->connected) {
            connect_again(transport, timeout_ms);
            continue;
        }
        send_unsent(transport, true);
        if (transport->connected && !is_done(calls[i]))
            receive(transport, calls[i], timeout_ms);
    }
    if (lead || !transport->leading) /* it may just have been woken to lead */
        pass_lead(transport);
    int error =
        !transport->connected && transport->connect_error ? transport->connect_error : -ETIMEDOUT;
    for (; i < count; i++) {
        if (!is_done(calls[i]))
            withdraw(transport, calls[i], error);
    }
    pthread_mutex_unlock(&transport->lock);
}

void rpc_wait(struct rpc_call *const *calls, unsigned count)
{
    wait_until(calls, count, 0);
}

void rpc_wait_for(struct rpc_call *const *calls, unsigned count, int timeout_ms)
{
    wait_until(calls, count, sys_now_ns() + (uint64_t)timeout_ms * 1000000);
}

void rpc_after_fork(struct net_server *server)
{
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct rpc_transport *transport = server->channels[i]->transport;
        if (!transport)
            continue;
        /* The receiver's memory may be half changed by a thread that does not exist here. */
        transport_init(transport, server->channels[i]);
    }
}

void rpc_server_release(struct net_server *server)
{
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct rpc_transport *transport = server->channels[i]->transport;
        if (!transport)
            continue;
        rpc_receiver_free(&transport->receiver);
        pthread_mutex_destroy(&transport->lock);
        free(transport);
        server->channels[i]->transport = NULL;
    }
}
