/*
 * Some servers accept any number of connections, and answer each client only on a few of them.
 * Clouds do this to limit clients. A call on a connection that is silent would wait for ever.
 *
 * A thread gives such a connection up if it never brought an answer while others of the path do.
 * Then the channel is `silenced`: calls use others, and the pool does not grow. The thread of
 * health.c asks silenced channels whether they answer a ping, at once, and then more and more
 * rarely. No call waits for that. If the first ping gets no answer, the log and the statistics say
 * on how many connections the server answers.
 *
 * All processes of a client may share the limit. A starved process says so in the run directory.
 * Another process that is answered meanwhile, and has several connections, gives one up: its
 * channel is silenced, and asked again later.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "run/facts.h"
#include "run/log_limit.h"
#include "net/fewer.h"
#include "net/health.h"
#include "net/pool.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    ASK_TIMEOUT_MS = 1000,
    ASK_OPEN_MS = 100, /* for a connection that is open */
    OPEN_MOST = 3,     /* how many open ones are asked */
    SAY_EVERY_S = 3600,
    SUBJECT_MAX = 512
};

#define LOOK_EVERY_NS  UINT64_C(100000000) /* until they are idle */
#define RETRY_FIRST_NS UINT64_C(10000000000)
#define RETRY_MOST_NS  UINT64_C(600000000000)

#define LOOK_STARVED_NS UINT64_C(500000000)
#define STARVED_NS      UINT64_C(5000000000) /* it may be said every 3 seconds, and a little more */

/* The next channel of the path from `*index` on; *index moves behind it. NULL: there is none. */
static struct net_channel *next_of(const struct net_path *path, unsigned *index)
{
    const struct net_server *server = path->server;
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    while (*index < count) {
        struct net_channel *channel = server->channels[(*index)++];
        if (channel->path == path)
            return channel;
    }
    return NULL;
}

/* Did something come over the connection since it was made, and is it not silenced? */
static bool is_answering(const struct net_channel *channel)
{
    return net_channel_is_heard(channel, atomic_load(&channel->connected_ns)) &&
           !atomic_load(&channel->silenced);
}

static unsigned answering(const struct net_path *path)
{
    unsigned index = 0, count = 0;
    for (const struct net_channel *channel; (channel = next_of(path, &index));)
        count += is_answering(channel);
    return count;
}

static void silence(struct net_channel *channel, bool silenced)
{
    struct net_path *path = channel->path;
    pthread_mutex_lock(&path->server->lock);
    if (atomic_load(&channel->silenced) != silenced) {
        atomic_store(&channel->silenced, silenced);
        if (silenced && atomic_load(&path->silenced) == 0 && path->retries == 0)
            path->retry_ns = 0;
        atomic_fetch_add(&path->silenced, silenced ? 1u : -1u);
    }
    pthread_mutex_unlock(&path->server->lock);
}

void net_channel_silenced(struct net_channel *channel, uint64_t since_ns)
{
    unsigned index = 0;
    bool other = false;
    for (const struct net_channel *of; !other && (of = next_of(channel->path, &index));)
        other = is_answering(of) && net_channel_is_heard(of, since_ns);
    if (!other || !channel->server->options.answers)
        return;
    silence(channel, true);
    net_health_kick();
}

static bool may_say(const struct net_path *path, bool fewer)
{
    char subject[SUBJECT_MAX], opposite[SUBJECT_MAX];
    const char *words[] = {"all connections", "fewer connections"};
    snprintf(subject, sizeof(subject), "%s: %s %s", words[fewer], path->server->name,
             path->address.peer_text);
    snprintf(opposite, sizeof(opposite), "%s: %s %s", words[!fewer], path->server->name,
             path->address.peer_text);
    if (!run_may_say(subject, SAY_EVERY_S))
        return false;
    run_said_forget(opposite);
    return true;
}

/* Some are still silent: sets when to ask next, and tells the administrator. */
static void still_fewer(struct net_path *path)
{
    const struct net_server *server = path->server;
    unsigned count = answering(path);
    pthread_mutex_lock(&path->server->lock);
    uint64_t pause_ns = RETRY_FIRST_NS << (path->retries < 6 ? path->retries : 6);
    path->retries++;
    path->retry_ns = sys_now_ns() + (pause_ns < RETRY_MOST_NS ? pause_ns : RETRY_MOST_NS);
    path->answering = count;
    pthread_mutex_unlock(&path->server->lock);
    net_path_show(path);
    if (count > 0 && may_say(path, true))
        log_warning("server %s: it answers on %u connection%s over %s, and is silent on further "
                    "ones; calls use %s. If it limits the connections of a client, set "
                    "`connections = %u;` in directnfs.conf, or raise its limit",
                    server->name, count, count == 1 ? "" : "s", path->address.peer_text,
                    count == 1 ? "that one" : "those", count);
}

static void all_answer(struct net_path *path)
{
    pthread_mutex_lock(&path->server->lock);
    bool was_fewer = path->answering > 0;
    path->answering = path->retries = 0;
    pthread_mutex_unlock(&path->server->lock);
    if (!was_fewer)
        return;
    net_path_show(path);
    if (may_say(path, false))
        log_notice("server %s: it answers on further connections over %s again", path->server->name,
                   path->address.peer_text);
}

void net_path_ask_silenced(struct net_path *path, uint64_t *due)
{
    struct net_server *server = path->server;
    struct net_channel *channel;
    unsigned index = 0;
    if (atomic_load(&path->silenced) == 0)
        return;
    pthread_mutex_lock(&server->lock);
    uint64_t at = path->retry_ns;
    pthread_mutex_unlock(&server->lock);
    if (at > sys_now_ns()) {
        *due = at < *due ? at : *due;
        return;
    }
    bool silent = false;
    while (!silent && (channel = next_of(path, &index))) {
        bool idle = atomic_load(&channel->outstanding) == 0; /* else its calls are being moved */
        if (!idle || is_answering(channel))
            continue;
        silent = !server->options.answers(channel, true, ASK_TIMEOUT_MS);
        if (!silent)
            silence(channel, false);
    }
    if (silent)
        still_fewer(path);
    else if (atomic_load(&path->silenced) == 0)
        all_answer(path);
    uint64_t later = sys_now_ns() + LOOK_EVERY_NS;
    *due = later < *due ? later : *due;
}

/* ---- connections that others need more ---- */

/* By which processes tell each other: a key of run/facts.h. */
struct starved {
    char what[16], server[256], peer[64];
};

static void name_starved(const struct net_path *path, struct starved *key)
{
    memset(key, 0, sizeof(*key));
    snprintf(key->what, sizeof(key->what), "starved");
    snprintf(key->server, sizeof(key->server), "%s", path->server->name);
    snprintf(key->peer, sizeof(key->peer), "%s", path->address.peer_text);
}

bool net_path_is_starved(const struct net_path *path, int result, uint64_t since_ns)
{
    const struct net_channel *channel;
    unsigned index = 0;
    bool accepted = false;
    while (!accepted && (channel = next_of(path, &index)))
        accepted = atomic_load(&channel->fd) >= 0;
    return result == -ETIMEDOUT && accepted && answering(path) == 0 &&
           atomic_load(&path->heard_ns) < since_ns;
}

void net_path_starved(const struct net_path *path)
{
    struct starved key;
    name_starved(path, &key);
    if (!path->server->options.hidden)
        run_fact_put(&key, sizeof(key), "", 1);
}

/* The server may have been away for both processes, and answer this one first. Then this process
 * asked lately whether it answers. */
void net_path_look_starved(struct net_path *path, uint64_t now_ns)
{
    const struct net_server_options *options = &path->server->options;
    uint64_t looked = atomic_load(&path->starved_looked_ns), said_ns;
    struct starved key;
    char value;
    if (options->hidden || !options->answers || answering(path) < 2 ||
        now_ns - looked < LOOK_STARVED_NS ||
        !atomic_compare_exchange_strong(&path->starved_looked_ns, &looked, now_ns))
        return;
    name_starved(path, &key);
    if (!run_fact_get(&key, sizeof(key), &value, 1, &said_ns) || said_ns + STARVED_NS < now_ns ||
        atomic_load(&path->heard_ns) <= said_ns ||
        atomic_load(&path->server->suspected_ns) + STARVED_NS > said_ns)
        return;
    run_fact_forget(&key, sizeof(key)); /* one process that gives way is enough */
    atomic_store(&path->giving, true);
    net_health_kick();
}

/* The answering channel with the least to do. */
static struct net_channel *choose_given(const struct net_path *path)
{
    struct net_channel *best = NULL, *channel;
    unsigned index = 0;
    while ((channel = next_of(path, &index))) {
        if (is_answering(channel) &&
            (!best || atomic_load(&channel->outstanding) < atomic_load(&best->outstanding)))
            best = channel;
    }
    return best;
}

void net_path_share(struct net_path *path, uint64_t *due)
{
    struct net_server *server = path->server;
    uint64_t now = sys_now_ns(), later = now + LOOK_STARVED_NS;
    if (atomic_load(&path->silenced) > 0 && answering(path) > 1) {
        net_path_look_starved(path, now);
        *due = later < *due ? later : *due;
    }
    if (atomic_exchange(&path->giving, false) && !path->given && answering(path) > 1 &&
        (path->given = choose_given(path)) != NULL) {
        silence(path->given, true);
        pthread_mutex_lock(&server->lock);
        if (path->retry_ns < now + RETRY_FIRST_NS)
            path->retry_ns = now + RETRY_FIRST_NS;
        pthread_mutex_unlock(&server->lock);
        log_info("server %s: a connection over %s is given up for another process, which has none",
                 server->name, path->address.peer_text);
    }
    if (path->given && (atomic_load(&path->given->fd) < 0 || !atomic_load(&path->given->silenced) ||
                        server->options.close_idle(path->given, 0)))
        path->given = NULL;
    later = now + LOOK_EVERY_NS;
    if (path->given)
        *due = later < *due ? later : *due;
}

bool net_path_answers(const struct net_path *path)
{
    struct net_channel *channel;
    unsigned index = 0, asked = 0;
    bool answers = false;
    if (!path->server->options.answers)
        return false;
    while (!answers && asked < OPEN_MOST && (channel = next_of(path, &index))) {
        if (atomic_load(&channel->fd) < 0)
            continue;
        asked++;
        answers = path->server->options.answers(channel, false, ASK_OPEN_MS);
    }
    return answers;
}
