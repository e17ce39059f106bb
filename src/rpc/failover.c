/* When replies stop: pings, giving up connections and paths, and calls that must go elsewhere. */
#include <string.h>

#include "stats/count.h"
#include "rpc/transport.h"
#include "net/health.h"
#include "net/pool.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { NFS_PROGRAM = 100003, NFS_VERSION = 3 };

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)

void rpc_say_waiting(struct rpc_transport *transport, const char *why)
{
    struct net_channel *channel = transport->channel;
    uint64_t now = sys_now_ns();
    if (transport->silent_since_ns == 0)
        transport->silent_since_ns = now;
    uint64_t silent_s = (now - transport->silent_since_ns) / SECOND_NS;
    if (silent_s < RPC_SAY_EVERY_S || !net_server_may_say(channel->server, RPC_SAY_EVERY_S))
        return;
    atomic_store(&channel->server->waiting_ns, transport->silent_since_ns);
    log_warning("server %s: no answer over %s for %u s (%s); %u calls wait", channel->server->name,
                channel->path->address.peer_text, (unsigned)silent_s, why,
                atomic_load(&channel->outstanding));
}

void rpc_say_answers(struct net_server *server)
{
    uint64_t waiting_ns = atomic_exchange(&server->waiting_ns, 0);
    if (waiting_ns != 0)
        log_warning("server %s: answers again after %.1f s", server->name,
                    (double)(sys_now_ns() - waiting_ns) / 1e9);
}

/* ---- pings ---- */

#define TRANSPORT_OF_PING(call) \
    ((struct rpc_transport *)((char *)(call)-offsetof(struct rpc_transport, ping)))

static void ping_answered(struct rpc_call *call)
{
    atomic_store(&TRANSPORT_OF_PING(call)->pinging, false);
}

/* Procedure NULL, without a credential: the server answers it whatever else it is busy with. */
static void ping(struct rpc_transport *transport, uint64_t now)
{
    struct rpc_call *call = &transport->ping;
    if (atomic_exchange(&transport->pinging, true))
        return;
    rpc_call_end(call, rpc_call_begin(call, &rpc_auth_none, NFS_PROGRAM, NFS_VERSION, 0));
    call->answered = ping_answered;
    call->channel = transport->channel;
    call->sent = false;
    atomic_store_explicit(&call->state, RPC_WAITING, memory_order_relaxed);
    stats_add_locked(&transport->channel->stats->pings, 1);
    transport->pinged_ns = now;
    rpc_unsent_next(transport, call);
}

/* ---- silence ---- */

/*
 * Not even a ping is answered. While others are over the same path it is the connection that is
 * dead; a path on which nothing is, while another path of the server answers, is down. When none
 * answers it is the server that is silent, and moving calls would not help.
 */
static void look_after_path(struct rpc_transport *transport, uint64_t silent_since, uint64_t now)
{
    struct net_path *path = transport->channel->path;
    uint64_t limit_ns = path->server->options.path_timeout_ms * MS_NS;
    if (limit_ns == 0 || now - silent_since < limit_ns / 4)
        return;
    if (atomic_load(&path->state) != NET_PATH_UP && net_path_has_other(path)) {
        rpc_connection_lost(transport); /* somebody else found out */
        return;
    }
    if (now - silent_since < limit_ns / 2)
        return;
    ping(transport, now);
    net_path_suspect(path, now);
    if (now - silent_since < limit_ns || now - transport->pinged_ns < limit_ns / 4)
        return;
    if (atomic_load(&path->heard_ns) > silent_since + limit_ns / 4) {
        rpc_connection_ended(transport, -ETIMEDOUT);
    } else if (net_path_other_heard(path, silent_since + limit_ns / 4)) {
        net_path_failed(path, "replies stopped");
        rpc_connection_lost(transport);
    }
}

/* Silent for as long as a call may wait (never, unless soft_timeout is set). */
static bool is_expired(const struct rpc_transport *transport, uint64_t now)
{
    unsigned limit_s = transport->channel->server->options.soft_timeout_s;
    return limit_s > 0 && transport->silent_since_ns != 0 &&
           now - transport->silent_since_ns >= limit_s * SECOND_NS;
}

void rpc_look_after_silence(struct rpc_transport *transport)
{
    const struct net_channel *channel = transport->channel;
    const struct net_server *server = channel->server;
    uint64_t now = sys_now_ns(), oldest = now;
    transport->looked_ns = now;
    if (transport->in_flight == 0)
        return;
    for (unsigned i = 0; i < RPC_SLOTS; i++) {
        struct rpc_call *call = transport->calls[i];
        if (call && call != &transport->ping && call->last_sent_ns < oldest)
            oldest = call->last_sent_ns;
    }
    uint64_t silent_since = oldest > transport->received_ns ? oldest : transport->received_ns;
    if (now - oldest >= server->options.retransmit_timeout_s * SECOND_NS) {
        /* A call that is unanswered for too long means that the connection is dead, whatever TCP
         * says. */
        if (net_server_may_say(channel->server, RPC_SAY_EVERY_S)) {
            atomic_store(&channel->server->waiting_ns, oldest);
            log_warning("server %s: no reply over %s for %u s; connecting again", server->name,
                        channel->path->address.peer_text, server->options.retransmit_timeout_s);
        }
        rpc_connection_lost(transport);
        return;
    }
    if (now - silent_since >= SECOND_NS)
        rpc_say_waiting(transport, "connected, but silent");
    look_after_path(transport, silent_since, now);
    if (is_expired(transport, now))
        rpc_connection_lost(transport);
}

bool rpc_abandon(struct rpc_transport *transport)
{
    struct net_channel *channel = transport->channel;
    net_server_look_offline(channel->server);
    bool elsewhere = net_channel_has_other(channel);
    bool failed = channel->server->options.once && transport->attempts > 0;
    int error = !failed ? -ENETDOWN : transport->failure ? transport->failure : -ECONNRESET;
    if (transport->sending || transport->withdrawing ||
        (!elsewhere && !failed && !is_expired(transport, sys_now_ns())) ||
        (transport->in_flight == 0 && !transport->unsent))
        return false;
    net_channel_disconnect(channel);
    rpc_receiver_reset(&transport->receiver);
    rpc_queue_again(transport, true);
    unsigned count = 0;
    for (struct rpc_call *call = transport->unsent, *next; call; call = next) {
        next = call->next_unsent;
        if (!elsewhere && !failed && !call->answered) /* who waits for it knows how long */
            continue;
        rpc_call_fail(transport, call, error);
        count++;
    }
    transport->silent_since_ns = 0;
    transport->attempts = 0;
    if (elsewhere)
        log_info("server %s: %u calls go from %s to other connections", channel->server->name,
                 count, channel->path->address.peer_text);
    return true;
}
