/*
 * A server that hangs keeps its connections: nothing fails, and calls wait. The thread that waits
 * looks several times a second how long the oldest call does (rpc/failover.c), and tells it here.
 *
 * A path is silent when a call has waited a second, and longer than usual for its like. Nothing
 * must have come meanwhile. The statistics show that; it changes nothing else. When a server is
 * silent for `silence_warning` over all its paths, the log says so, and later that it is over. It
 * says each once for all processes of the host.
 */
#include <stdio.h>

#include "net/health.h"
#include "net/silence.h"
#include "run/log_limit.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"

#define HEARD_NS UINT64_C(1000000000) /* so often options.heard() is told */

enum { SAY_EVERY_S = 60, SUBJECT_MAX = 300 };

/* Under server->lock: since when the oldest call of all channels of the path waits. */
static uint64_t oldest_of(const struct net_path *path, unsigned *calls)
{
    const struct net_server *server = path->server;
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    uint64_t oldest_ns = 0;
    *calls = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct net_channel *channel = server->channels[i];
        if (channel->path != path)
            continue;
        *calls += atomic_load_explicit(&channel->outstanding, memory_order_relaxed);
        if (channel->oldest_ns != 0 && (oldest_ns == 0 || channel->oldest_ns < oldest_ns))
            oldest_ns = channel->oldest_ns;
    }
    return oldest_ns;
}

/* May the log say that the server is silent, or answers? Once a minute, or if it said the
 * opposite. */
static bool may_say(const struct net_server *server, bool silent)
{
    char subject[SUBJECT_MAX], opposite[SUBJECT_MAX];
    snprintf(subject, sizeof(subject), "%s: %s", silent ? "silent" : "answers", server->name);
    snprintf(opposite, sizeof(opposite), "%s: %s", silent ? "answers" : "silent", server->name);
    if (!run_may_say(subject, SAY_EVERY_S))
        return false;
    run_said_forget(opposite);
    return true;
}

static void say_silent(struct net_path *path, unsigned calls, uint64_t now_ns)
{
    struct net_server *server = path->server;
    uint64_t since_ns = atomic_load(&path->silent_ns), none = 0;
    uint64_t limit_ns = server->options.silence_warning_ms * UINT64_C(1000000);
    if (limit_ns == 0 || since_ns == 0 || now_ns - since_ns < limit_ns ||
        net_path_other_heard(path, since_ns) ||
        !atomic_compare_exchange_strong(&server->waiting_ns, &none, since_ns))
        return;
    if (may_say(server, true))
        log_warning("server %s: no reply over %s for %.1f s; %u call%s", server->name,
                    path->address.peer_text, (double)(now_ns - since_ns) / 1e9, calls,
                    calls == 1 ? " waits" : "s wait");
}

void net_path_heard(struct net_path *path, uint64_t now_ns)
{
    atomic_store_explicit(&path->heard_ns, now_ns, memory_order_relaxed);
}

void net_channel_heard(struct net_channel *channel, uint64_t now_ns)
{
    struct net_path *path = channel->path;
    atomic_store_explicit(&channel->heard_ns, now_ns, memory_order_relaxed);
    net_path_heard(path, now_ns);
    if (__builtin_expect(path->server->options.heard != NULL, false) &&
        now_ns - atomic_load_explicit(&path->told_ns, memory_order_relaxed) >= HEARD_NS) {
        atomic_store_explicit(&path->told_ns, now_ns, memory_order_relaxed);
        path->server->options.heard(path, &channel->peer);
    }
}

void net_channel_waits(struct net_channel *channel, uint64_t oldest_ns, uint64_t usual_ns,
                       uint64_t now_ns)
{
    struct net_path *path = channel->path;
    struct net_server *server = path->server;
    unsigned calls;
    if (server->options.hidden)
        return;
    pthread_mutex_lock(&server->lock);
    channel->oldest_ns = oldest_ns;
    if (channel->stats)
        stats_set(&channel->stats->oldest_ns, oldest_ns);
    uint64_t oldest = oldest_of(path, &calls), heard = atomic_load(&path->heard_ns);
    if (path->stats)
        stats_set(&path->stats->oldest_ns, oldest);
    uint64_t since = oldest > heard ? oldest : heard, was = atomic_load(&path->silent_ns);
    bool unusual = was != 0 || (oldest_ns != 0 && now_ns - oldest_ns >= usual_ns);
    bool silent = oldest != 0 && unusual && now_ns >= since + NET_WAITS_LONG_NS &&
                  atomic_load(&path->state) == NET_PATH_UP;
    if (was != 0 && !silent) {
        path->silence_ns = now_ns - was;
        path->silence_over_ns = now_ns;
    }
    atomic_store(&path->silent_ns, !silent ? 0 : was ? was : since);
    pthread_mutex_unlock(&server->lock);
    /* Compare with what is shown, not with what was known: two threads may have crossed. */
    if (path->stats && (stats_get(&path->stats->state) == DIRECTNFS_CHANNEL_SILENT) != silent)
        net_path_show(path);
    if (silent)
        say_silent(path, calls, now_ns);
}

void net_server_waited_for(struct net_server *server, uint64_t since_ns)
{
    char subject[SUBJECT_MAX];
    snprintf(subject, sizeof(subject), "answers: %s", server->name);
    atomic_store(&server->waiting_ns, since_ns);
    run_said_forget(subject);
}

void net_server_answers(struct net_server *server)
{
    uint64_t waiting_ns = atomic_exchange(&server->waiting_ns, 0);
    if (waiting_ns != 0 && may_say(server, false))
        log_warning("server %s: answers again after %.1f s", server->name,
                    (double)(sys_now_ns() - waiting_ns) / 1e9);
}
