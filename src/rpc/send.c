/* Sending: what is queued leaves in as few system calls as possible. */
#include <errno.h>

#include "stats/count.h"
#include "rpc/message.h"
#include "rpc/transport.h"
#include "sys/sys.h"

static size_t call_length(const struct rpc_call *call)
{
    if (__builtin_expect(call->dress != NULL, false))
        return rpc_secure_length(call);
    return call->head_length + ((call->payload_length + 3) & ~(size_t)3) + call->tail_length;
}

static void batch_add(struct rpc_batch *batch, struct rpc_call *call, size_t skip)
{
    static const uint8_t zeros[4];
    struct iovec *vectors = batch->vectors + batch->vector_count;
    struct iovec *parts = skip > 0 ? batch->parts : vectors;
    size_t length;
    int count = 0;
    if (__builtin_expect(call->dress != NULL, false)) {
        count = rpc_secure_vectors(call, parts);
        length = rpc_secure_length(call) - skip;
    } else {
        parts[count++] = (struct iovec){call->head, call->head_length};
        for (int i = 0; i < call->payload_count; i++)
            parts[count++] = call->payload[i];
        size_t padding = -call->payload_length & 3, behind = padding + call->tail_length;
        const uint8_t *tail = call->tail_length > 0 ? call->tail - padding : zeros;
        if (behind > 0)
            parts[count++] = (struct iovec){(void *)tail, behind};
        length = call->head_length + call->payload_length + behind - skip;
    }
    if (skip > 0) /* the rest of a call that was sent in part */
        count = rpc_vectors_slice(parts, count, skip, length, vectors);
    batch->vector_count += count;
    batch->calls[batch->count] = call;
    batch->xids[batch->count] = call->xid;
    batch->lengths[batch->count++] = length;
    batch->total += length;
}

/* READ and WRITE are known by their payload. */
static uint64_t *resent_on_mount(const struct rpc_call *call)
{
    enum directnfs_operation operation = call->find_payload     ? DIRECTNFS_READ
                                         : call->payload_length ? DIRECTNFS_WRITE
                                                                : DIRECTNFS_OTHER;
    return &call->counted->operations[operation].resent;
}

/* Makes the bytes of a call with an identity. 0, or why it is not sent now, or not at all. */
static __attribute__((noinline)) int dress(struct rpc_transport *transport, struct rpc_call *call)
{
    int result = call->identity == &rpc_identity_making ? 0 : rpc_secure_dress(transport, call);
    if (result == 0)
        return 0;
    /* Others' calls are left to threads that are in no handler. */
    if (result == -EFAULT || (result == -ETIMEDOUT && rpc_is_own(call))) {
        rpc_call_fail(transport, call, result);
        return result;
    }
    rpc_in_flight_remove(transport, call);
    stats_add_locked(&transport->channel->stats->outstanding, -1);
    call->sent = false;
    rpc_unsent_prepend(transport, call);
    if (result == -EKEYEXPIRED)
        rpc_secure_park_first(transport);
    return result;
}

/* At least one call may be sent. The batch is empty if it was one of Kerberos, and cannot. */
static void batch_fill(struct rpc_transport *transport, struct rpc_batch *batch, unsigned count_max)
{
    struct directnfs_channel_stats *stats = transport->channel->stats;
    batch->count = 0;
    batch->total = 0;
    batch->vector_count = 0;
    uint64_t now = sys_now_ns();
    do {
        struct rpc_call *call = rpc_unsent_take(transport);
        if (!call->sent) { /* it is true for the rest of a call that was sent in part */
            call->sent = true;
            rpc_in_flight_add(transport, call);
            stats_add_locked(&stats->outstanding, 1);
            if (__builtin_expect(call->identity != NULL, false)) {
                int error = dress(transport, call);
                batch->error = error == -ENOMEM || error == -ETIMEDOUT ? error : 0;
                if (batch->error != 0)
                    break;
                if (error != 0) /* the others may go */
                    continue;
            }
            stats_add_locked(&stats->sends, 1);
            if (call->sent_ns == 0) {
                call->sent_ns = now;
            } else {
                call->resent = true;
                stats_add_locked(&stats->reissued, 1);
                stats_add(&stats_own->counters.retransmissions, 1);
                if (call->counted)
                    stats_add(resent_on_mount(call), 1);
            }
        }
        call->last_sent_ns = now;
        batch_add(batch, call, transport->unsent_offset);
        transport->unsent_offset = 0;
    } while (batch->count < count_max && rpc_may_send(transport) &&
             batch->vector_count + transport->unsent->payload_count + 3 <= RPC_BATCH_VECTORS);
}

/* Puts back what was not sent. False: a call that was sent in part is gone. Only a server that
 * answers what it has not read can do that. */
static bool batch_return(struct rpc_transport *transport, const struct rpc_batch *batch,
                         size_t sent)
{
    unsigned first = 0;
    while (first < batch->count && sent >= batch->lengths[first])
        sent -= batch->lengths[first++];
    for (unsigned i = batch->count; i-- > first;) {
        struct rpc_call *call = rpc_call_sent(transport, batch->xids[i]);
        if (call != batch->calls[i])
            return false;
        rpc_unsent_prepend(transport, call);
        if (i == first)
            transport->unsent_offset = call_length(call) - (batch->lengths[i] - sent);
    }
    return true;
}

/* Did the server end the connection? The reader notices when it has what was received before. */
static bool is_broken(ssize_t sent)
{
    return sent == -EPIPE || sent == -ECONNRESET;
}

static bool is_failure(ssize_t sent)
{
    return sent < 0 && sent != -EAGAIN && sent != -ENOBUFS && sent != -ENOMEM && !is_broken(sent);
}

/* What the socket took of the batch, or -errno. Not under the lock. */
static ssize_t send_batch(int fd, struct net_tls_session *tls, struct rpc_batch *batch)
{
    struct msghdr message = {.msg_iov = batch->vectors, .msg_iovlen = (size_t)batch->vector_count};
    ssize_t sent;
    if (__builtin_expect(tls != NULL, false))
        return net_tls_send(tls, batch->vectors, batch->vector_count);
    do
        sent = sys_sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent == -EINTR);
    return sent;
}

/* For a thread that sends while another one leads. */
static void wait_for_room(struct rpc_transport *transport)
{
    struct net_tls_session *tls = transport->channel->tls;
    struct pollfd poll = {.fd = transport->channel->fd,
                          .events = tls ? net_tls_send_event(tls) : POLLOUT};
    pthread_mutex_unlock(&transport->lock);
    sys_poll(&poll, 1, 20);
    pthread_mutex_lock(&transport->lock);
}

/* Else the leader would be told at once that it can send, again and again. */
static void wait_for_memory(struct rpc_transport *transport)
{
    enum { PAUSE_MS = 10 };
    pthread_mutex_unlock(&transport->lock);
    sys_nanosleep_ms(PAUSE_MS);
    pthread_mutex_lock(&transport->lock);
}

/* With TLS: bytes of calls that count as sent may still be here. As long as another thread leads,
 * which waits for replies only, they are sent here. */
static void send_owed(struct rpc_transport *transport, bool lead)
{
    while (transport->connected && rpc_owes(transport)) {
        pthread_mutex_unlock(&transport->lock);
        int result = net_tls_flush(transport->channel->tls);
        pthread_mutex_lock(&transport->lock);
        if (result != -EAGAIN || lead || !transport->leading || !transport->connected)
            break;
        wait_for_room(transport);
    }
}

/* The batch is empty. True: calls of Kerberos cannot be sent now. */
static __attribute__((noinline)) bool is_stuck(struct rpc_transport *transport)
{
    if (transport->batch.error == -ENOMEM)
        wait_for_memory(transport);
    return transport->batch.error != 0;
}

void rpc_send_unsent(struct rpc_transport *transport, bool lead)
{
    unsigned count_max = RPC_BATCH;
    if (transport->sending)
        return;
    struct rpc_batch *batch = &transport->batch;
    transport->kept = 0;
    transport->kept_bytes = 0;
    transport->sending = true;
    while (transport->connected && rpc_may_send(transport)) {
        struct net_tls_session *tls = NULL;
        batch_fill(transport, batch, count_max);
        if (__builtin_expect(transport->special, false)) {
            if (batch->count == 0 && is_stuck(transport))
                break;
            if (batch->count == 0)
                continue;
            tls = transport->channel->tls; /* constant while a thread sends */
        }
        int fd = transport->channel->fd;
        pthread_mutex_unlock(&transport->lock);
        ssize_t sent = send_batch(fd, tls, batch);
        pthread_mutex_lock(&transport->lock);
        if (sent > 0)
            stats_add_locked(&transport->channel->stats->sent_bytes, (uint64_t)sent);
        bool whole = batch_return(transport, batch, sent > 0 ? (size_t)sent : 0);
        if (sent == -EFAULT && whole) { /* the application gave us memory that is missing */
            if (batch->count > 1) {     /* which call's memory? */
                count_max = 1;
                continue;
            }
            if (transport->unsent_offset > 0)
                rpc_connection_lost(transport);
            rpc_call_fail(transport, batch->calls[0], -EFAULT);
        } else if (!whole || is_failure(sent)) {
            rpc_connection_lost(transport);
        } else if (sent < 0 || (size_t)sent < batch->total) {
            if (lead || !transport->leading || is_broken(sent))
                break;
            wait_for_room(transport);
        }
    }
    if (__builtin_expect(transport->special, false)) {
        send_owed(transport, lead);
        if (transport->secure)
            rpc_secure_sent(transport);
    }
    transport->sending = false;
    rpc_connection_leave(transport);
}
