/* When replies stop: pings, giving up connections and paths, and calls that must go elsewhere. */
#include <string.h>

#include "stats/count.h"
#include "rpc/message.h"
#include "rpc/transport.h"
#include "net/fewer.h"
#include "net/health.h"
#include "net/pool.h"
#include "net/silence.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { NFS_PROGRAM = 100003, NFS_VERSION = 3 };

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)

#define USUAL_MOST_NS (4 * SECOND_NS)
#define LOOK_AGAIN_NS (200 * MS_NS) /* while one call waits and others are answered */
#define LENIENT_NS    (600 * SECOND_NS)

#define SPREAD UINT32_C(2654435761) /* the upper bits of its product with an xid look random */

enum { PATIENCE_GROWS = 4, OVERDUE_MOST = 10 };

static const char silent[] = "connected, but silent";

void rpc_say_waiting(struct rpc_transport *transport, const char *why)
{
    struct net_channel *channel = transport->channel;
    uint64_t now = sys_now_ns();
    if (transport->silent_since_ns == 0)
        transport->silent_since_ns = now;
    uint64_t silent_s = (now - transport->silent_since_ns) / SECOND_NS;
    if (silent_s < RPC_SAY_EVERY_S || !net_server_may_say(channel->server, RPC_SAY_EVERY_S))
        return;
    net_server_waited_for(channel->server, transport->silent_since_ns);
    log_warning("server %s: no answer over %s for %u s (%s); %u calls wait", channel->server->name,
                channel->path->address.peer_text, (unsigned)silent_s, why,
                atomic_load(&channel->outstanding));
}

/* ---- calls that wait long ---- */

/* How long calls of this procedure mostly take. Calls that hung before count too, so there is a
 * bound. */
static uint64_t usual_ns(const struct rpc_call *call)
{
    if (call->procedure >= DIRECTNFS_PROCEDURES)
        return 0;
    uint64_t usual = stats_usual_ns(&stats_own->counters.procedures[call->procedure].latency);
    return usual < USUAL_MOST_NS ? usual : USUAL_MOST_NS;
}

/* Since when the call waits: it was first sent then, or began to wait for that. Later connections
 * do not matter. 0: it does not wait yet. */
static uint64_t waits_since_ns(const struct rpc_call *call)
{
    return call->queued_ns ? call->queued_ns : call->sent_ns;
}

/* The call that waits longer. Both may be NULL. */
static const struct rpc_call *older(const struct rpc_transport *transport,
                                    const struct rpc_call *oldest, const struct rpc_call *call,
                                    uint64_t *oldest_ns)
{
    if (!call || call == &transport->ping)
        return oldest;
    uint64_t since_ns = waits_since_ns(call);
    if (since_ns == 0 || (oldest && since_ns >= *oldest_ns))
        return oldest;
    *oldest_ns = since_ns;
    return call;
}

void rpc_look_for_oldest(struct rpc_transport *transport, uint64_t now)
{
    struct net_channel *channel = transport->channel;
    const struct rpc_call *oldest = NULL;
    uint64_t oldest_ns = 0;
    for (unsigned i = 0; i < RPC_SLOTS; i++)
        oldest = older(transport, oldest, transport->calls[i], &oldest_ns);
    for (const struct rpc_call *call = transport->unsent; call; call = call->next_unsent)
        oldest = older(transport, oldest, call, &oldest_ns);
    bool waits_long = oldest && now >= oldest_ns + NET_WAITS_LONG_NS;
    transport->waits_looked_ns = now;
    if (!waits_long && !transport->waits_long && !net_path_is_silent(channel->path))
        return;
    transport->waits_long = waits_long;
    transport->waits_xid = waits_long ? oldest->xid : 0;
    net_channel_waits(channel, waits_long ? oldest_ns : 0, waits_long ? usual_ns(oldest) : 0, now);
}

void rpc_look_for_oldest_again(struct rpc_transport *transport, uint64_t now)
{
    const struct rpc_call *call = transport->calls[transport->waits_xid % RPC_SLOTS];
    bool waits = call && call->xid == transport->waits_xid;
    if (!waits || net_path_is_silent(transport->channel->path) ||
        now - transport->waits_looked_ns >= LOOK_AGAIN_NS)
        rpc_look_for_oldest(transport, now);
}

/* ---- pings ---- */

#define TRANSPORT_OF_PING(call) \
    ((struct rpc_transport *)((char *)(call)-offsetof(struct rpc_transport, ping)))

static void ping_answered(struct rpc_call *call)
{
    atomic_store(&TRANSPORT_OF_PING(call)->pinging, false);
}

/* Procedure NULL, without a credential: a server answers it whatever else it is busy with. */
static void ping(struct rpc_transport *transport, uint64_t now)
{
    struct rpc_call *call = &transport->ping;
    unsigned version = transport->channel->server->options.nfs_version;
    if (atomic_exchange(&transport->pinging, true))
        return;
    rpc_call_end(call, rpc_call_begin(call, &rpc_auth_none, NFS_PROGRAM,
                                      version ? version : NFS_VERSION, 0));
    call->answered = ping_answered;
    call->channel = transport->channel;
    call->sent = false;
    atomic_store_explicit(&call->state, RPC_WAITING, memory_order_relaxed);
    stats_add_locked(&transport->channel->stats->pings, 1);
    transport->pinged_ns = now;
    rpc_unsent_next(transport, call);
}

/* ---- silence ---- */

static bool is_lenient(const struct net_path *path, uint64_t now)
{
    return now < atomic_load_explicit(&path->lenient_ns, memory_order_relaxed);
}

/* How long a call took lately, though others were answered meanwhile. */
static uint64_t needed_ns(const struct net_path *path, uint64_t now)
{
    return is_lenient(path, now) ? atomic_load_explicit(&path->needed_ns, memory_order_relaxed) : 0;
}

void rpc_prove(struct rpc_transport *transport, uint64_t now)
{
    const struct net_channel *channel = transport->channel;
    transport->proving = (transport->given_up > 0 || is_lenient(channel->path, now)) &&
                         channel->server->options.probe;
    if (!transport->proving)
        return;
    if (!transport->ping.queued || !atomic_load(&transport->pinging)) {
        ping(transport, now);
        return;
    }
    rpc_unsent_remove(transport, &transport->ping);
    rpc_unsent_prepend(transport, &transport->ping);
}

/* Since when the server may be at work on the call: since the call was first sent, or since the
 * server answers again; in any case since the call was last sent. */
static uint64_t at_work_since(struct net_path *path, const struct rpc_call *call)
{
    uint64_t since_ns = call->sent_ns, up_ns = atomic_load(&path->up_ns);
    pthread_mutex_lock(&path->server->lock);
    uint64_t silence_over_ns = path->silence_over_ns;
    pthread_mutex_unlock(&path->server->lock);
    if (since_ns < up_ns)
        since_ns = up_ns;
    if (since_ns < silence_over_ns)
        since_ns = silence_over_ns;
    return since_ns < call->last_sent_ns ? since_ns : call->last_sent_ns;
}

/*
 * Learns that some calls take long, and makes the path lenient. Either others were answered while
 * the connection was silent, and then it brought an answer. Or an answer came when the call was
 * sent for the third time.
 */
void rpc_silence_is_over(struct rpc_transport *transport, const struct rpc_call *call)
{
    struct net_path *path = transport->channel->path;
    transport->given_up = 0;
    if (transport->elsewhere_ns <= call->last_sent_ns && (transport->overdue == 0 || !call->resent))
        return;
    uint64_t needed = call->answered_ns - at_work_since(path, call);
    if (needed > needed_ns(path, call->answered_ns))
        atomic_store(&path->needed_ns, needed);
    atomic_store(&path->lenient_ns, call->answered_ns + LENIENT_NS);
}

/*
 * How long a connection may be silent while others are answered. A connection that brought nothing
 * since it was made is dead. But a server may carry out the calls of a connection one after the
 * other, and one of them may take long. So after a connection was given up, the next one gets calls
 * only when it has answered a ping. If it is silent then, the calls are the reason. They get more
 * time each time, and later calls get at least twice what that one took.
 */
static uint64_t patience_ns(const struct rpc_transport *transport, uint64_t now)
{
    const struct net_path *path = transport->channel->path;
    const struct net_server_options *options = &path->server->options;
    uint64_t limit_ns = options->path_timeout_ms * MS_NS / 2, needed = needed_ns(path, now);
    uint64_t most_ns = options->retransmit_timeout_s * SECOND_NS;
    if (transport->attempts > 0)
        return limit_ns;
    if (limit_ns < 2 * needed)
        limit_ns = 2 * needed;
    for (unsigned i = 0; i < transport->given_up && limit_ns < most_ns; i++)
        limit_ns *= PATIENCE_GROWS;
    return limit_ns < most_ns ? limit_ns : most_ns;
}

/*
 * The connection is dead, as others of its path are answered. If another one is open that answers,
 * the calls go there, else over a new one. The second time, that comes from another port: a
 * balancer may choose a dead server by the port.
 */
static void give_up(struct rpc_transport *transport, uint64_t silent_since)
{
    struct net_channel *channel = transport->channel;
    log_info("server %s: a connection over %s is silent, and others are not; it is given up",
             channel->server->name, channel->path->address.peer_text);
    if (transport->attempts > 0 && transport->given_up > 0)
        channel->local_port = 0;
    transport->given_up++;
    if (transport->attempts > 0)
        net_channel_silenced(channel, silent_since);
    rpc_connection_lost(transport);
}

/* When it was first seen, in this silence, that another connection of the path is answered. 0: none
 * is. */
static uint64_t answered_elsewhere(struct rpc_transport *transport, uint64_t silent_since,
                                   uint64_t limit_ns, uint64_t now)
{
    uint64_t heard_ns = atomic_load(&transport->channel->path->heard_ns);
    if (heard_ns <= silent_since + limit_ns / 4 || now - heard_ns > limit_ns)
        return 0;
    if (transport->elsewhere_ns < silent_since)
        transport->elsewhere_ns = now;
    return transport->elsewhere_ns;
}

/*
 * Not even a ping is answered. If others are answered over this path, the connection is dead. If
 * nothing is answered over this path, but over another path of the server, the path is down. If
 * nothing is answered at all, the server is silent, and moving calls would not help.
 */
static void look_after_path(struct rpc_transport *transport, uint64_t silent_since, uint64_t now)
{
    struct net_path *path = transport->channel->path;
    uint64_t limit_ns = path->server->options.path_timeout_ms * MS_NS;
    uint64_t silence_ns = now - silent_since;
    if (limit_ns == 0 || silence_ns < limit_ns / 8)
        return;
    ping(transport, now);
    if (silence_ns < limit_ns / 4)
        return;
    if (atomic_load(&path->state) != NET_PATH_UP && net_path_has_other(path)) {
        rpc_connection_lost(transport); /* another thread found out */
        return;
    }
    uint64_t connected_ns = atomic_load(&transport->channel->connected_ns);
    uint64_t asked_ns = transport->pinged_ns > connected_ns ? transport->pinged_ns : connected_ns;
    uint64_t elsewhere_ns = answered_elsewhere(transport, silent_since, limit_ns, now);
    if (elsewhere_ns == 0 && now - asked_ns >= limit_ns / 8)
        net_path_suspect(path, now);
    if (now - asked_ns < limit_ns / 4)
        return;
    if (elsewhere_ns != 0) {
        if (silence_ns >= patience_ns(transport, now) && now - elsewhere_ns >= limit_ns / 8)
            give_up(transport, silent_since + limit_ns / 4);
    } else if (silence_ns >= limit_ns && net_path_other_heard(path, silent_since + limit_ns / 4)) {
        net_path_failed(path, "replies stopped");
        rpc_connection_lost(transport);
    }
}

/* A server that keeps no replies may carry out copies of these calls at once: one copy may end long
 * after another was answered. */
static void unsettle_copies(struct rpc_transport *transport)
{
    for (unsigned i = 0; i < RPC_SLOTS; i++) {
        struct rpc_call *call = transport->calls[i];
        if (call && call->resent && !call->exact)
            call->unsettled = true;
    }
}

/*
 * `again` is the first sent of the calls that were sent again. It is not answered, though a call
 * that was sent after it is, or a ping: so the server has read it. Some servers drop copies of a
 * call that they carry out. Then the answer went to the connection before; if the call is sent once
 * more, the server has the answer.
 *
 * But each time gives more work to a server that is only slow. So each time it gets twice as long,
 * and never less than such calls take. It has more time as long as it answers others of them.
 * Connections that were lost together must not do this at one moment, so the time differs by xid.
 * The port remains, as the server knows copies by it.
 */
static bool give_up_overdue(struct rpc_transport *transport, const struct rpc_call *again,
                            uint64_t now)
{
    struct net_channel *channel = transport->channel;
    const struct net_server_options *options = &channel->server->options;
    uint64_t limit_ns = (options->path_timeout_ms * MS_NS / 2) << transport->overdue;
    uint64_t usual = usual_ns(again), needed = needed_ns(channel->path, now);
    uint64_t least_ns = usual > needed ? usual : needed;
    if (limit_ns < least_ns)
        limit_ns = least_ns;
    limit_ns += limit_ns / 1024 * (again->xid * SPREAD >> 24);
    if (options->path_timeout_ms == 0 || !options->probe ||
        transport->newest_ns <= again->last_sent_ns)
        return false;
    if (transport->overtaken_ns <= again->last_sent_ns)
        transport->overtaken_ns = now;
    uint64_t since_ns =
        again->last_sent_ns > transport->again_ns ? again->last_sent_ns : transport->again_ns;
    if (now - since_ns < limit_ns || now - transport->overtaken_ns < limit_ns / 2)
        return false;
    log_info("server %s: a call that was sent again over %s is not answered, and others are; it is "
             "sent once more",
             channel->server->name, channel->path->address.peer_text);
    transport->overdue += transport->overdue < OVERDUE_MOST;
    unsettle_copies(transport);
    rpc_connection_lost(transport);
    return true;
}

/* Has the call, for which no thread waits, waited for so long? */
static bool is_over(const struct rpc_transport *transport, const struct rpc_call *call,
                    uint64_t limit_ns, uint64_t now)
{
    if (!call || !call->answered || call == &transport->ping)
        return false;
    uint64_t since_ns = waits_since_ns(call);
    return since_ns != 0 && now >= since_ns + limit_ns;
}

/* Has some call waited for as long as it may, however often it was sent? Never, unless soft_timeout
 * is set. */
static bool is_expired(const struct rpc_transport *transport, uint64_t now)
{
    uint64_t limit_ns = transport->channel->server->options.soft_timeout_s * SECOND_NS;
    bool expired = false;
    if (limit_ns == 0)
        return false;
    for (unsigned i = 0; i < RPC_SLOTS && !expired; i++)
        expired = is_over(transport, transport->calls[i], limit_ns, now);
    const struct rpc_call *call = transport->unsent;
    for (; call && !expired; call = call->next_unsent)
        expired = is_over(transport, call, limit_ns, now);
    return expired;
}

/* Has a parked call waited for so long? */
static bool parked_is_over(const void *context, const struct rpc_call *call)
{
    const struct rpc_transport *transport = context;
    return is_over(transport, call, transport->channel->server->options.soft_timeout_s * SECOND_NS,
                   sys_now_ns());
}

static bool has_parked_over(const struct rpc_transport *transport)
{
    return transport->channel->server->options.soft_timeout_s > 0 &&
           rpc_secure_find(transport, parked_is_over, transport) != NULL;
}

/* Calls that wait for Kerberos wait no longer than others: see is_expired(). */
static void end_parked(struct rpc_transport *transport)
{
    struct rpc_call *call;
    while (transport->channel->server->options.soft_timeout_s > 0 &&
           (call = rpc_secure_find(transport, parked_is_over, transport)) != NULL)
        rpc_call_fail(transport, call, -ENETDOWN);
}

void rpc_look_after_silence(struct rpc_transport *transport)
{
    const struct net_channel *channel = transport->channel;
    const struct net_server *server = channel->server;
    uint64_t now = sys_now_ns(), oldest = now;
    transport->looked_ns = now;
    rpc_look_for_oldest(transport, now);
    net_health_catch_up();
    net_path_look_starved(channel->path, now);
    if (is_expired(transport, now)) {
        rpc_connection_lost(transport);
        return;
    }
    if (__builtin_expect(transport->secure != NULL, false))
        end_parked(transport);
    if (transport->in_flight == 0 && !transport->proving)
        return;
    if (transport->proving)
        ping(transport, now);
    const struct rpc_call *again = NULL;
    for (unsigned i = 0; i < RPC_SLOTS; i++) {
        const struct rpc_call *call = transport->calls[i];
        if (!call || (call == &transport->ping && !transport->proving))
            continue;
        if (call->last_sent_ns < oldest)
            oldest = call->last_sent_ns;
        if (call->resent && (!again || call->last_sent_ns < again->last_sent_ns))
            again = call;
    }
    transport->overdue = again || transport->unsent ? transport->overdue : 0;
    uint64_t silent_since = oldest > transport->received_ns ? oldest : transport->received_ns;
    if (now - oldest >= server->options.retransmit_timeout_s * SECOND_NS) {
        /* A call without an answer for too long means that the connection is dead, whatever TCP
         * says. */
        if (net_server_may_say(channel->server, RPC_SAY_EVERY_S)) {
            net_server_waited_for(channel->server, oldest);
            log_warning("server %s: no reply over %s for %u s; connecting again", server->name,
                        channel->path->address.peer_text, server->options.retransmit_timeout_s);
        }
        transport->given_up++;
        rpc_connection_lost(transport);
        return;
    }
    if (now - silent_since >= SECOND_NS) {
        rpc_say_waiting(transport, silent);
        if (atomic_load(&channel->path->state) == NET_PATH_DOWN) /* for another reason now */
            net_path_failed(channel->path, silent);
    }
    if (!again || !give_up_overdue(transport, again, now))
        look_after_path(transport, silent_since, now);
}

bool rpc_abandon(struct rpc_transport *transport)
{
    struct net_channel *channel = transport->channel;
    net_server_look_offline(channel->server);
    bool elsewhere = net_channel_has_other(channel);
    bool failed = channel->server->options.once && transport->attempts > 0;
    int error = !failed ? -ENETDOWN : transport->failure ? transport->failure : -ECONNRESET;
    if (transport->sending || transport->withdrawing ||
        (!elsewhere && !failed && !is_expired(transport, sys_now_ns()) &&
         !has_parked_over(transport)) ||
        (transport->in_flight == 0 && !transport->unsent && !rpc_secure_waits(transport)))
        return false;
    net_channel_disconnect(channel);
    rpc_receiver_reset(&transport->receiver);
    rpc_secure_unpark_all(transport);
    rpc_queue_again(transport, true);
    unsigned count = 0;
    for (struct rpc_call *call = transport->unsent, *next; call; call = next) {
        next = call->next_unsent;
        if (!elsewhere && !failed && !call->answered) /* its thread knows how long to wait */
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

bool rpc_answers(struct net_channel *channel, bool connect, int timeout_ms)
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    uint64_t until_ns = sys_now_ns() + (uint64_t)timeout_ms * MS_NS;
    int left_ms;
    bool answers = false;
    pthread_mutex_lock(&transport->lock);
    bool was_connected = transport->connected;
    bool in_use = transport->leading || (!was_connected && atomic_load(&channel->outstanding) > 0);
    if (in_use || (!was_connected && !connect)) {
        pthread_mutex_unlock(&transport->lock);
        return false;
    }
    if (was_connected)
        ping(transport, sys_now_ns());
    else
        transport->given_up += transport->given_up == 0; /* the new connection must answer a ping */
    while (!answers && (left_ms = rpc_time_left_ms(until_ns)) > 0 &&
           (transport->connected || !was_connected)) {
        rpc_lead_once(transport, NULL, left_ms);
        answers = transport->connected && !atomic_load(&transport->pinging);
    }
    rpc_pass_lead(transport);
    pthread_mutex_unlock(&transport->lock);
    if (!answers && !was_connected)
        rpc_close_idle(channel, 0);
    return answers;
}

void rpc_follow_path(struct net_path *path)
{
    unsigned count = atomic_load(&path->server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = path->server->channels[i];
        struct rpc_transport *transport = rpc_transport_of(channel);
        pthread_mutex_lock(&transport->lock);
        if (channel->path == path && net_channel_is_astray(channel))
            rpc_connection_lost(transport);
        pthread_mutex_unlock(&transport->lock);
    }
}

int rpc_connection_stays(struct rpc_transport *transport)
{
    if (!net_channel_is_astray(transport->channel))
        return 0;
    net_channel_disconnect(transport->channel);
    return -EAGAIN;
}

bool rpc_is_own(const struct rpc_call *call)
{
    for (const struct rpc_owned *own = rpc_owned; own; own = own->outer) {
        for (unsigned i = 0; i < own->count; i++) {
            if (own->calls[i] == call)
                return true;
        }
    }
    return false;
}

void rpc_strand(struct rpc_transport *transport, int error)
{
    if (transport->sending || transport->withdrawing)
        return;
    rpc_receiver_reset(&transport->receiver);
    rpc_secure_unpark_all(transport);
    rpc_queue_again(transport, true);
    for (struct rpc_call *call = transport->unsent, *next; call; call = next) {
        next = call->next_unsent;
        rpc_call_fail(transport, call, error == -ELIBACC || rpc_is_own(call) ? error : -ENETDOWN);
    }
    transport->silent_since_ns = 0;
    transport->attempts = 0;
    transport->connect_after_ns = 0;
}
