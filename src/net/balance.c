/*
 * Which path the next call takes: the one on which it should be over first.
 *
 * The time is estimated as (bytes in flight there + its own) times the service time of a byte. That
 * is measured as replies come. While calls wait, the time between two replies is what the path
 * needed for the later one. That holds whatever limits the path: a slow link, or a busy server. So
 * links of different speed are each kept busy, and the faster ones get more.
 *
 * An estimate that is not confirmed for a while fades to that of the best path. So a path that was
 * slow once is tried again.
 */
#include "net/balance.h"
#include "net/health.h"
#include "sys/sys.h"

enum {
    UNIT = 65536,            /* bytes that `ns_per_unit` is for */
    OVERHEAD = 512,          /* bytes of a call and its reply besides data, with the headers of all
                                layers */
    WINDOW_BYTES = 4 * UNIT, /* bytes of a measurement, which lasts WINDOW_NS or longer */
    WINDOW_LEAST = UNIT / 2, /* bytes that are enough after SLOW_NS */
    JUMP = 4                 /* the most by which one measurement may exceed the last estimate */
};
#define WINDOW_NS  UINT64_C(10000000)
#define SLOW_NS    UINT64_C(50000000)
#define FADE_NS    UINT64_C(200000000) /* half of an old difference is forgotten in this time */
#define FADE_STEPS 20

/* Only counts what others may have to wait for: with one path, only long calls. */
static bool counts(const struct net_channel *channel, size_t bytes)
{
    return channel->server->path_count > 1 || bytes >= NET_BULK;
}

void net_load_add(struct net_channel *channel, size_t bytes)
{
    if (!counts(channel, bytes))
        return;
    atomic_fetch_add_explicit(&channel->outstanding_bytes, bytes + OVERHEAD, memory_order_relaxed);
    atomic_fetch_add_explicit(&channel->path->load.outstanding_bytes, bytes + OVERHEAD,
                              memory_order_relaxed);
}

void net_load_remove(struct net_channel *channel, size_t bytes)
{
    if (!counts(channel, bytes))
        return;
    atomic_fetch_sub_explicit(&channel->outstanding_bytes, bytes + OVERHEAD, memory_order_relaxed);
    atomic_fetch_sub_explicit(&channel->path->load.outstanding_bytes, bytes + OVERHEAD,
                              memory_order_relaxed);
}

/* The least service time of a usable path; 0: none is known. */
static uint64_t best_service(const struct net_server *server)
{
    uint64_t best = 0;
    for (unsigned i = 0; i < server->path_count; i++) {
        uint64_t own =
            atomic_load_explicit(&server->paths[i].load.ns_per_unit, memory_order_relaxed);
        if (own && net_path_usable(&server->paths[i]) && (!best || own < best))
            best = own;
    }
    return best;
}

/* What is believed of a path's service time now. */
static uint64_t believed_service(const struct net_path *path, uint64_t best, uint64_t now_ns)
{
    uint64_t own = atomic_load_explicit(&path->load.ns_per_unit, memory_order_relaxed);
    uint64_t measured_ns = atomic_load_explicit(&path->load.measured_ns, memory_order_relaxed);
    if (own <= best)
        return best;
    uint64_t steps = now_ns > measured_ns ? (now_ns - measured_ns) / FADE_NS : 0;
    return best + (steps < FADE_STEPS ? (own - best) >> steps : 0);
}

/* Is the window full? Replies may come in bursts, many at one time. By bytes alone, one burst would
 * fill a window, and seem to have taken no time. */
static bool is_measured(const struct net_load *load)
{
    return load->window_ns >= WINDOW_NS &&
           (load->window_bytes >= WINDOW_BYTES ||
            (load->window_ns >= SLOW_NS && load->window_bytes >= WINDOW_LEAST));
}

/* Learns from a full window. It counts as much as the old estimate. If that has faded, anything
 * between the faded and the old value counts as it. Under the lock of the load. */
static void learn(struct net_path *path, uint64_t now_ns)
{
    struct net_load *load = &path->load;
    uint64_t sample = load->window_ns * UNIT / load->window_bytes + 1;
    uint64_t most = atomic_load_explicit(&load->ns_per_unit, memory_order_relaxed);
    uint64_t least = believed_service(path, best_service(path->server), now_ns);
    if (least > most)
        least = most;
    if (most && sample > JUMP * most) /* a hiccup, or the first of many */
        sample = JUMP * most;
    uint64_t old = sample < least ? least : sample > most ? most : sample;
    atomic_store_explicit(&load->ns_per_unit, most ? (old + sample) / 2 : sample,
                          memory_order_relaxed);
    atomic_store_explicit(&load->measured_ns, now_ns, memory_order_relaxed);
    load->window_ns = load->window_bytes = 0;
}

void net_load_answered(struct net_channel *channel, size_t bytes, uint64_t sent_ns, uint64_t now_ns)
{
    struct net_load *load = &channel->path->load;
    if (channel->server->path_count < 2)
        return;
    pthread_mutex_lock(&load->lock);
    bool alone = sent_ns >= load->departed_ns;
    uint64_t since = alone ? sent_ns : load->departed_ns;
    if (now_ns > since)
        load->window_ns += now_ns - since;
    if (now_ns > load->departed_ns)
        load->departed_ns = now_ns;
    /* A short call that was alone tells more of latency than of speed. A path that gets only such
     * calls shall not seem slow. */
    load->window_bytes += alone && bytes < UNIT ? UNIT : bytes + OVERHEAD;
    if (is_measured(load))
        learn(channel->path, now_ns);
    pthread_mutex_unlock(&load->lock);
}

void net_load_forget(struct net_path *path)
{
    struct net_load *load = &path->load;
    pthread_mutex_lock(&load->lock);
    load->window_ns = load->window_bytes = 0;
    atomic_store_explicit(&load->ns_per_unit, 0, memory_order_relaxed);
    pthread_mutex_unlock(&load->lock);
}

struct net_path *net_balance(struct net_server *server, size_t bytes, const uint64_t *held)
{
    struct net_path *chosen = NULL;
    uint64_t least = 0, now_ns = sys_now_ns(), best = best_service(server);
    for (unsigned i = 0; i < server->path_count; i++) {
        struct net_path *path = &server->paths[i];
        if (!net_path_usable(path))
            continue;
        uint64_t waiting =
            atomic_load_explicit(&path->load.outstanding_bytes, memory_order_relaxed) +
            (held ? held[i] : 0);
        /* In nanoseconds times UNIT. If nothing is known it is 1 for a byte, so that bytes
         * decide. */
        uint64_t time = (waiting + bytes + OVERHEAD) * (believed_service(path, best, now_ns) + 1);
        if (!chosen || time < least) {
            chosen = path;
            least = time;
        }
    }
    return chosen;
}
