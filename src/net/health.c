/*
 * Which paths of a server are fit for use.
 *
 * A thread that uses a path finds out that it fails (net_path_failed(), net_path_suspect()). A
 * thread of ours asks the rest: whether it works again, whether a further path leads to this
 * server, and whether other paths answer while one is silent. That thread starts when a server
 * first needs it: when one path is not enough, or fails. It asks several paths at once, each in a
 * thread that ends with its answer. So a dead path does not keep the others waiting.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>

#include "run/offline.h"
#include "run/log_limit.h"
#include "stats/count.h"
#include "net/balance.h"
#include "net/fewer.h"
#include "net/health.h"
#include "net/pool.h"
#include "net/protect.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    PROBE_FIRST_MS = 100,
    PROBE_PAUSE_MS = 3000,  /* at most, as a path that works again is wanted */
    SUSPECT_EVERY_MS = 500, /* doubled each time that none answered, */
    UNHEARD_MOST = 3,       /* so often */
    DRAIN_EVERY_MS = 100,
    SAY_EVERY_S = 60,
    DAY_S = 86400,
    SUBJECT_MAX = 512
};

#define MS_NS   UINT64_C(1000000)
#define AWAY_NS (2000 * MS_NS) /* a server that restarts is back at its address sooner */

/* `lock` guards `servers`, `running` and `visited`; held briefly. */
static struct {
    pthread_mutex_t lock;
    struct net_server *servers; /* those that can be probed */
    struct net_server *visited; /* by the thread, now */
    bool running;
    bool alone;             /* only for the thread: no further ones could be started */
    _Atomic uint32_t kicks; /* futex: there is something new to do */
} health = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Atomic bool net_health_late;

/* ---- what is known ---- */

static uint32_t path_state(const struct net_path *path)
{
    return atomic_load_explicit(&path->state, memory_order_relaxed);
}

bool net_path_usable(const struct net_path *path)
{
    return path_state(path) == NET_PATH_UP &&
           atomic_load_explicit(&path->proven, memory_order_relaxed) &&
           !atomic_load_explicit(&path->offline, memory_order_relaxed);
}

bool net_path_has_other(const struct net_path *path)
{
    const struct net_server *server = path->server;
    for (unsigned i = 0; i < server->path_count; i++) {
        if (i != path->index && net_path_usable(&server->paths[i]))
            return true;
    }
    return false;
}

bool net_path_other_heard(const struct net_path *path, uint64_t since_ns)
{
    const struct net_server *server = path->server;
    for (unsigned i = 0; i < server->path_count; i++) {
        const struct net_path *other = &server->paths[i];
        if (other != path && net_path_usable(other) &&
            atomic_load_explicit(&other->heard_ns, memory_order_relaxed) > since_ns)
            return true;
    }
    return false;
}

/* The subject of a message that all processes together say once. `number` tells occasions apart. */
static void name_subject(const struct net_path *path, const char *what, uint32_t number,
                         char *subject, size_t size)
{
    snprintf(subject, size, "%s %u: %s %s %s", what, number, path->server->name,
             path->address.peer_text, path->address.local_text);
}

static bool may_say_of(const struct net_path *path, const char *what, uint32_t number,
                       unsigned interval_s)
{
    char subject[SUBJECT_MAX];
    name_subject(path, what, number, subject, sizeof(subject));
    return !path->server->options.hidden && run_may_say(subject, interval_s);
}

/* May the log say that the path is down, or up? Once a minute, or if it said the opposite. */
static bool may_say_change(const struct net_path *path, bool down)
{
    char opposite[SUBJECT_MAX];
    if (!may_say_of(path, down ? "down" : "up", 0, SAY_EVERY_S))
        return false;
    name_subject(path, down ? "up" : "down", 0, opposite, sizeof(opposite));
    run_said_forget(opposite);
    return true;
}

void net_server_look_offline(struct net_server *server)
{
    uint32_t seen = run_offline_generation();
    if (atomic_load_explicit(&server->paths_seen, memory_order_acquire) == seen)
        return;
    for (unsigned i = 0; i < server->path_count; i++) {
        struct net_path *path = &server->paths[i];
        bool offline =
            run_is_offline(server->name, path->address.peer_text, path->address.local_text);
        if (atomic_exchange(&path->offline, offline) == offline)
            continue;
        if (may_say_of(path, offline ? "offline" : "online", seen, DAY_S))
            log_notice("server %s: path %s is %s by command", server->name, path->address.peer_text,
                       offline ? "offline" : "online again");
        net_path_show(path);
        if (offline)
            atomic_store(&server->draining, true);
    }
    atomic_store_explicit(&server->paths_seen, seen, memory_order_release);
}

bool net_server_drain(struct net_server *server)
{
    bool busy = false, kept = false;
    if (!server->options.close_idle ||
        !atomic_load_explicit(&server->draining, memory_order_relaxed))
        return true;
    atomic_store(&server->draining, false); /* first, since it may be set again meanwhile */
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        if (!atomic_load(&channel->path->offline) || channel->fd < 0)
            continue;
        if (!net_path_has_other(channel->path))
            kept = true;
        else if (!server->options.close_idle(channel, 0))
            busy = true;
    }
    if (busy || kept)
        atomic_store(&server->draining, true);
    return !busy;
}

/* ---- what is said ---- */

void net_path_show(struct net_path *path)
{
    char was[DIRECTNFS_REASON_BYTES];
    pthread_mutex_lock(&path->server->lock);
    const char *why = path->why;
    uint64_t down_ns = path->down_since_ns, up_ns = path->up_ns;
    uint64_t silence_ns = path->silence_ns, silence_over_ns = path->silence_over_ns;
    uint64_t silent_ns = atomic_load(&path->silent_ns);
    unsigned answering = path->answering;
    pthread_mutex_unlock(&path->server->lock);
    enum directnfs_channel_state state = DIRECTNFS_CHANNEL_UP;
    const char *reason = "";
    if (path->offline) {
        state = DIRECTNFS_CHANNEL_OFFLINE;
        reason = "taken offline by command";
    } else if (path_state(path) != NET_PATH_UP) {
        state = DIRECTNFS_CHANNEL_DOWN;
        reason = path_state(path) == NET_PATH_REFUSED ? "leads to another server" : why;
    } else if (!path->proven) {
        state = DIRECTNFS_CHANNEL_PROBING;
        reason = "not needed yet";
    } else if (silent_ns != 0) {
        state = DIRECTNFS_CHANNEL_SILENT;
        reason = "calls wait, no reply";
    } else if (answering > 0) {
        snprintf(was, sizeof(was), "answers on %u connection%s only", answering,
                 answering == 1 ? "" : "s");
        reason = was;
    } else if (silence_over_ns > up_ns) {
        snprintf(was, sizeof(was), "was silent %.1f s", (double)silence_ns / 1e9);
        reason = was;
    } else if (why && up_ns > down_ns) {
        snprintf(was, sizeof(was), "was down %.1f s: %s", (double)(up_ns - down_ns) / 1e9, why);
        reason = was;
    }
    if (!path->stats)
        return;
    stats_path_state(path->stats, state, reason);
    if (state == DIRECTNFS_CHANNEL_SILENT) /* it was found out a little later than it began */
        stats_set(&path->stats->since_ns,
                  sys_clock_ns(CLOCK_REALTIME) - (sys_now_ns() - silent_ns));
}

bool net_server_may_say(struct net_server *server, unsigned interval_s)
{
    uint64_t now = sys_now_ns(), said = atomic_load(&server->said_ns);
    if (server->options.hidden || (said != 0 && now - said < interval_s * UINT64_C(1000000000)))
        return false;
    if (!atomic_compare_exchange_strong(&server->said_ns, &said, now))
        return false;
    return run_may_say(server->name, interval_s);
}

/* A path that is down is news of its own only if others work. Else the server is down, and a line
 * for each path would say less. Under server->lock; the line is written without it. */
enum news { NEWS_NONE, NEWS_PATH, NEWS_SERVER };

static enum news news_of(struct net_path *path)
{
    struct net_server *server = path->server;
    enum news news = NEWS_NONE;
    if (path->said || path_state(path) != NET_PATH_DOWN || path->why == net_no_port)
        return NEWS_NONE;
    if (net_path_other_heard(path, path->down_since_ns))
        news = NEWS_PATH;
    else if (!net_path_has_other(path) && net_server_may_say(server, SAY_EVERY_S))
        news = NEWS_SERVER;
    path->said = news != NEWS_NONE;
    return news;
}

static void say_down(const struct net_path *path, enum news news, const char *why)
{
    const struct net_server *server = path->server;
    if (news == NEWS_PATH && may_say_change(path, true))
        log_warning("server %s: path %s is down: %s; its calls go over other paths", server->name,
                    path->address.peer_text, why);
    else if (news == NEWS_SERVER)
        log_warning("server %s: path %s is down: %s; trying again until %s works", server->name,
                    path->address.peer_text, why, server->path_count > 1 ? "some path" : "it");
}

/* ---- what happens ---- */

static void *run(void *unused);

void net_health_kick(void)
{
    pthread_mutex_lock(&health.lock);
    if (!health.running && !sys_critical_in_handler())
        health.running = sys_thread_start(run, NULL, "probing network paths");
    atomic_store(&net_health_late, !health.running);
    pthread_mutex_unlock(&health.lock);
    atomic_fetch_add(&health.kicks, 1);
    sys_futex(&health.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void net_server_want_more(struct net_server *server)
{
    if (server->path_count < 2 ||
        atomic_load_explicit(&server->more_wanted, memory_order_relaxed) ||
        atomic_exchange(&server->more_wanted, true))
        return;
    net_health_kick();
}

void net_path_suspect(struct net_path *path, uint64_t now_ns)
{
    struct net_server *server = path->server;
    uint64_t suspected = atomic_load(&server->suspected_ns);
    unsigned unheard = atomic_load(&server->unheard);
    uint64_t pause_ms = (uint64_t)SUSPECT_EVERY_MS
                        << (unheard < UNHEARD_MOST ? unheard : UNHEARD_MOST);
    if (pause_ms > PROBE_PAUSE_MS)
        pause_ms = PROBE_PAUSE_MS;
    if (!server->options.probe || now_ns - suspected < pause_ms * MS_NS ||
        !atomic_compare_exchange_strong(&server->suspected_ns, &suspected, now_ns))
        return;
    atomic_store(&server->more_wanted, server->path_count > 1);
    net_health_kick();
}

/* The only path has been down long. Is it known only now where else the server may be? */
static bool begins_elsewhere(struct net_path *path)
{
    struct net_server *server = path->server;
    return server->path_count == 1 && server->options.elsewhere &&
           !atomic_load(&server->elsewhere) && net_path_is_down_for(path, AWAY_NS) &&
           server->options.elsewhere(path) && !atomic_exchange(&server->elsewhere, true);
}

bool net_path_failed(struct net_path *path, const char *why)
{
    struct net_server *server = path->server;
    uint64_t now = sys_now_ns();
    pthread_mutex_lock(&server->lock);
    bool was_up = path_state(path) == NET_PATH_UP;
    if (path_state(path) != NET_PATH_REFUSED)
        atomic_store(&path->state, NET_PATH_DOWN);
    bool other_reason = path->why != why;
    path->why = why;
    if (was_up) {
        path->down_since_ns = now;
        path->probes = 0;
        path->probe_ns = now + PROBE_FIRST_MS * MS_NS;
        path->said = false;
    }
    enum news news = news_of(path);
    pthread_mutex_unlock(&server->lock);
    say_down(path, news, why);
    if (was_up || other_reason)
        net_path_show(path);
    if ((was_up && server->path_count > 1) || begins_elsewhere(path)) {
        atomic_store(&server->more_wanted, server->path_count > 1);
        net_health_kick();
    }
    return was_up;
}

void net_path_begin_down(struct net_path *path, const char *why)
{
    pthread_mutex_lock(&path->server->lock);
    atomic_store(&path->state, NET_PATH_DOWN);
    path->why = why;
    path->down_since_ns = sys_now_ns();
    path->said = true;
    pthread_mutex_unlock(&path->server->lock);
    net_path_show(path);
}

void net_path_works(struct net_path *path)
{
    struct net_server *server = path->server;
    if (path_state(path) != NET_PATH_DOWN)
        return;
    net_load_forget(path);
    pthread_mutex_lock(&server->lock);
    bool was_down = path_state(path) == NET_PATH_DOWN, said = path->said;
    double seconds = (double)(sys_now_ns() - path->down_since_ns) / 1e9;
    if (was_down) {
        atomic_store(&path->up_ns, sys_now_ns());
        atomic_store(&path->state, NET_PATH_UP);
    }
    path->said = false;
    pthread_mutex_unlock(&server->lock);
    if (!was_down)
        return;
    atomic_store(&server->elsewhere, false);
    net_path_show(path);
    if (said && may_say_change(path, false))
        log_warning("server %s: path %s is up again after %.1f s", server->name,
                    path->address.peer_text, seconds);
    else if (!said && !server->options.hidden)
        log_info("server %s: path %s works", server->name, path->address.peer_text);
}

/* ---- the thread ---- */

static int probe(struct net_path *path)
{
    struct net_server *server = path->server;
    bool proven = atomic_load(&path->proven);
    int result = !net_server_is_at_home(server)
                     ? -EAGAIN
                     : server->options.probe(path, proven, NET_PROBE_TIMEOUT_MS);
    if (result == -EADDRINUSE)
        result = -EAGAIN;
    if (result == 0) {
        atomic_store(&path->proven, true);
        net_path_heard(path, sys_now_ns());
        net_path_works(path);
        if (!proven) {
            net_path_show(path);
            log_info("server %s: path %s leads there too", server->name, path->address.peer_text);
        }
    } else if (result == -EXDEV) {
        pthread_mutex_lock(&server->lock);
        atomic_store(&path->state, NET_PATH_REFUSED);
        pthread_mutex_unlock(&server->lock);
        net_path_show(path);
        log_error("server %s: path %s leads to another server, or to another directory of it; it "
                  "is not used. Correct the nfstab",
                  server->name, path->address.peer_text);
    }
    return result;
}

/* Is it this path's turn to be probed? If its time comes later, but before *due, *due becomes that.
 * A server's only path is probed only if it may be elsewhere: a thread with calls connects it. */
static bool is_due(struct net_path *path, uint64_t now, uint64_t *due)
{
    if (path_state(path) == NET_PATH_REFUSED || atomic_load(&path->offline) ||
        !net_server_is_probed(path->server))
        return false;
    bool down = path_state(path) == NET_PATH_DOWN;
    if (!down && (atomic_load(&path->proven) || !atomic_load(&path->server->more_wanted)))
        return false;
    pthread_mutex_lock(&path->server->lock);
    uint64_t at = path->probe_ns;
    pthread_mutex_unlock(&path->server->lock);
    if (at > now && at < *due)
        *due = at;
    return at <= now;
}

/* A path that is asked, together with others. */
struct probing {
    struct net_path *path;
    bool open; /* one of its open connections will do */
    int result;
    _Atomic uint32_t *left; /* futex: how many are not done */
};

static void *probe_one(void *argument)
{
    struct probing *self = argument;
    _Atomic uint32_t *left = self->left;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    self->result = self->open && net_path_answers(self->path) ? 0 : probe(self->path);
    if (atomic_fetch_sub(left, 1) == 1)
        sys_futex(left, FUTEX_WAKE_PRIVATE, 1, NULL);
    return NULL;
}

/* Probes all at once; returns when all have their result. */
static void probe_all(struct probing *probings, unsigned count)
{
    _Atomic uint32_t left = count;
    uint32_t now;
    for (unsigned i = 0; i < count; i++) {
        probings[i].left = &left;
        if (i + 1 < count && !health.alone)
            health.alone = !sys_thread_start(probe_one, &probings[i], "probing network paths");
        if (i + 1 == count || health.alone)
            probe_one(&probings[i]);
    }
    while ((now = atomic_load(&left)) != 0)
        sys_futex(&left, FUTEX_WAIT_PRIVATE, now, NULL);
}

/* Notes the result for a path that was due. */
static void note_probe(struct net_path *path, int result)
{
    struct net_server *server = path->server;
    if (result == 0 || result == -EXDEV)
        return;
    if (result != -EAGAIN)
        net_path_failed(path, net_error_text(path->server, result));
    pthread_mutex_lock(&server->lock);
    int pause = net_reconnect_pause_ms(server, ++path->probes);
    if (pause > PROBE_PAUSE_MS)
        pause = PROBE_PAUSE_MS;
    path->probe_ns = sys_now_ns() + (uint64_t)pause * MS_NS;
    pthread_mutex_unlock(&server->lock);
}

/* Can the path be asked whether the server answers? The only path is asked even when it is down:
 * the server may accept a connection and be silent on it. */
static bool is_asked(const struct net_path *path)
{
    return net_path_usable(path) || path->server->path_count == 1;
}

/*
 * A path, or a connection of it, is silent. A path that is to take over its calls must have
 * answered since. An open, idle connection is asked, or else a new one. If another path answers, a
 * path that does not is down. If none answers, the server is silent.
 */
static void ask_others(struct net_server *server, uint64_t suspected_ns)
{
    struct probing probings[NET_PATHS_MAX];
    unsigned count = 0;
    bool heard = false;
    for (unsigned i = 0; i < server->path_count; i++) {
        struct net_path *path = &server->paths[i];
        if (!is_asked(path))
            continue;
        if (atomic_load(&path->heard_ns) >= suspected_ns) {
            heard = true;
            continue;
        }
        probings[count++] = (struct probing){.path = path, .open = true};
    }
    probe_all(probings, count);
    for (unsigned i = 0; i < count; i++)
        heard = heard || probings[i].result == 0;
    atomic_store(&server->unheard, heard ? 0 : atomic_load(&server->unheard) + 1);
    for (unsigned i = 0; i < count && !heard; i++) {
        if (net_path_is_starved(probings[i].path, probings[i].result, suspected_ns))
            net_path_starved(probings[i].path);
    }
    for (unsigned i = 0; i < count && heard; i++) {
        const struct probing *asked = &probings[i];
        if (asked->result != 0 && asked->result != -EAGAIN &&
            atomic_load(&asked->path->heard_ns) < suspected_ns)
            net_path_failed(asked->path, net_error_text(asked->path->server, asked->result));
    }
}

/* Does what is due for one server. If there is more to do before *due, *due becomes that time. */
static void visit(struct net_server *server, uint64_t *due)
{
    uint64_t suspected = atomic_load(&server->suspected_ns);
    net_server_look_offline(server);
    if (suspected != server->asked_ns) {
        server->asked_ns = suspected;
        ask_others(server, suspected);
    }
    struct probing probings[NET_PATHS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < server->path_count; i++) {
        net_path_ask_silenced(&server->paths[i], due);
        net_path_share(&server->paths[i], due);
        if (is_due(&server->paths[i], sys_now_ns(), due))
            probings[count++] = (struct probing){.path = &server->paths[i]};
    }
    probe_all(probings, count);
    for (unsigned i = 0; i < count; i++)
        note_probe(probings[i].path, probings[i].result);
    uint64_t later = sys_now_ns() + DRAIN_EVERY_MS * MS_NS;
    if (!net_server_drain(server) && later < *due)
        *due = later;
    if (count > 0)
        *due = 0; /* look again */
}

static struct net_server *next_server(struct net_server *before)
{
    pthread_mutex_lock(&health.lock);
    health.visited = before ? before->next : health.servers;
    struct net_server *server = health.visited;
    pthread_mutex_unlock(&health.lock);
    return server;
}

static void *run(void *unused)
{
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;) {
        uint32_t kicks = atomic_load(&health.kicks), generation = run_offline_generation();
        uint64_t due = UINT64_MAX, now;
        for (struct net_server *server = next_server(NULL); server; server = next_server(server))
            visit(server, &due);
        now = sys_now_ns();
        if (due <= now)
            continue;
        run_offline_wait(&health.kicks, kicks, generation,
                         due == UINT64_MAX ? UINT64_C(3600000000000) : due - now);
    }
    return unused;
}

/* ---- servers come and go ---- */

void net_health_enter(struct net_server *server)
{
    if (server->path_count > 1)
        run_offline_open();
    pthread_mutex_lock(&health.lock);
    server->next = health.servers;
    health.servers = server;
    pthread_mutex_unlock(&health.lock);
}

void net_health_leave(struct net_server *server)
{
    pthread_mutex_lock(&health.lock);
    struct net_server **at = &health.servers;
    while (*at && *at != server)
        at = &(*at)->next;
    if (*at)
        *at = server->next;
    /* Another server may leave while it is visited: the thread goes on from its `next`. */
    if (health.visited && health.visited->next == server)
        health.visited->next = server->next;
    while (health.visited == server) {
        pthread_mutex_unlock(&health.lock);
        sys_nanosleep_ms(1);
        pthread_mutex_lock(&health.lock);
    }
    pthread_mutex_unlock(&health.lock);
}

void net_fork_prepare(void)
{
    pthread_mutex_lock(&health.lock);
}

void net_fork_parent(void)
{
    pthread_mutex_unlock(&health.lock);
}

void net_fork_child(void)
{
    pthread_mutex_init(&health.lock, NULL);
    health.running = false;
    health.visited = NULL;
}
