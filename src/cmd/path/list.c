#include "cmd/path/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/index.h"
#include "cmd/rundir.h"

/* ---- putting together ---- */

struct making {
    struct cmd_path_list *list;
    struct cmd_index index; /* finds paths of the list */
    bool incomplete;        /* there was not enough memory */
};

/* Finds a path, or adds it. NULL: no memory. */
static struct cmd_path *entry(struct making *making, uid_t user, const struct cmd_path_name *name)
{
    struct cmd_path_list *list = making->list;
    uint64_t key =
        cmd_index_key(cmd_index_key(cmd_index_key(user, name->server), name->path), name->local);
    size_t found = cmd_index_find(&making->index, key);
    if (found != CMD_INDEX_NONE)
        return &list->paths[found];
    struct cmd_path *more = reallocarray(list->paths, list->count + 1, sizeof(*more));
    list->paths = more ? more : list->paths;
    if (more == NULL || !cmd_index_add(&making->index, key, list->count)) {
        making->incomplete = true;
        return NULL;
    }
    struct cmd_path *added = &more[list->count++];
    *added = (struct cmd_path){.user = user};
    snprintf(added->server, sizeof(added->server), "%s", name->server);
    snprintf(added->path, sizeof(added->path), "%s", name->path);
    snprintf(added->local, sizeof(added->local), "%s", name->local);
    return added;
}

static void add_seen(struct making *making, const struct directnfs_stats *stats,
                     const struct directnfs_path_stats *seen)
{
    const struct cmd_path_name name = {
        seen->server < stats->server_count ? stats->servers[seen->server].name : seen->name,
        seen->path, seen->local};
    struct cmd_path *path = entry(making, stats->uid, &name);
    if (path == NULL)
        return;
    const struct stats_sight shown = {path->worst, path->since_ns, path->reason};
    const struct stats_sight own = {seen->state, seen->since_ns, seen->reason};
    if (path->processes == 0 || stats_sight_is_better(&shown, &own)) {
        if (seen->reason[0] || seen->state != path->worst)
            memcpy(path->reason, seen->reason, sizeof(path->reason));
        path->worst = seen->state;
        path->since_ns = seen->since_ns;
    }
    path->oldest_ns = stats_older(path->oldest_ns, seen->oldest_ns);
    path->peer_ends_ns = stats_older(path->peer_ends_ns, seen->peer_ends_ns);
    path->own_ends_ns = stats_older(path->own_ends_ns, seen->own_ends_ns);
    path->ticket_ends_ns = stats_older(path->ticket_ends_ns, seen->ticket_ends_ns);
    path->processes++;
    path->seen[seen->state]++;
    path->lost += seen->state == DIRECTNFS_CHANNEL_DOWN && seen->downs > 0;
    path->reissued += seen->reissued;
    path->downs += seen->downs;
    stats_add_latency(&path->latency, &seen->latency);
}

static void add_channel(struct making *making, const struct directnfs_stats *stats,
                        const struct directnfs_channel_stats *channel)
{
    if (channel->server >= stats->server_count)
        return; /* the tables had no room for its server */
    const struct cmd_path_name name = {stats->servers[channel->server].name, channel->path,
                                       channel->local};
    struct cmd_path *path = entry(making, stats->uid, &name);
    if (path == NULL)
        return;
    path->channels += channel->state == DIRECTNFS_CHANNEL_UP;
    path->outstanding += channel->outstanding;
    if (channel->state == DIRECTNFS_CHANNEL_UP)
        path->security |= channel->security;
    if (channel->state == DIRECTNFS_CHANNEL_UP && !path->tls[0])
        memcpy(path->tls, channel->tls, sizeof(path->tls));
    path->sent_bytes += channel->sent_bytes;
    path->received_bytes += channel->received_bytes;
}

static void add_process(struct making *making, const struct directnfs_stats *stats)
{
    for (uint32_t i = 0; i < stats->path_count; i++)
        if (stats->paths[i].slot == DIRECTNFS_SLOT_USED)
            add_seen(making, stats, &stats->paths[i]);
    for (uint32_t i = 0; i < stats->channel_count; i++)
        if (stats->channels[i].slot == DIRECTNFS_SLOT_USED)
            add_channel(making, stats, &stats->channels[i]);
}

/* What was said without a local address applies to all paths to that address. */
static void add_said(struct making *making, const struct cmd_offline *said)
{
    const struct cmd_path_name name = {said->path.server, said->path.peer, said->path.local};
    bool found = false;
    for (size_t i = 0; i < making->list->count; i++) {
        struct cmd_path *path = &making->list->paths[i];
        if ((path->user != said->user && path->user != CMD_NO_USER) || !cmd_path_is(path, &name))
            continue;
        path->offline = found = true;
        path->user = said->user;
        path->since_ns = said->path.since_ns;
    }
    if (found)
        return;
    struct cmd_path *path = entry(making, said->user, &name);
    if (path == NULL)
        return;
    path->offline = true;
    path->since_ns = said->path.since_ns;
}

static void add_configured(struct making *making, const struct conf_server *server,
                           const struct conf_path *configured)
{
    char name[DIRECTNFS_NAME_BYTES], peer[DIRECTNFS_ADDRESS_BYTES], local[DIRECTNFS_ADDRESS_BYTES];
    /* Cut as the processes do it. */
    snprintf(name, sizeof(name), "%s", server->name);
    snprintf(peer, sizeof(peer), "%.63s", configured->peer);
    snprintf(local, sizeof(local), "%.63s", configured->local);
    uid_t user = CMD_NO_USER;
    bool found = false;
    for (size_t i = 0; i < making->list->count; i++) {
        struct cmd_path *path = &making->list->paths[i];
        if (strcmp(path->server, name) != 0)
            continue;
        user = path->user; /* it belongs to the processes that have the server's other paths */
        bool same = strcmp(path->path, peer) == 0 && strcmp(path->local, local) == 0;
        path->configured |= same;
        found |= same;
    }
    if (found)
        return;
    const struct cmd_path_name whole = {name, peer, local};
    struct cmd_path *path = entry(making, user, &whole);
    if (path != NULL)
        path->configured = true;
}

static int by_name(const void *a, const void *b)
{
    const struct cmd_path *first = a, *second = b;
    int order = strcmp(first->server, second->server);
    if (order == 0)
        order = strcmp(first->path, second->path);
    if (order == 0)
        order = strcmp(first->local, second->local);
    return order ? order : (first->user > second->user) - (first->user < second->user);
}

bool cmd_path_list_make(struct cmd_path_list *list, const struct cmd_snapshot *snapshot,
                        const struct conf_nfstab *tab)
{
    struct making making = {.list = list};
    *list = (struct cmd_path_list){0};
    for (size_t i = 0; i < snapshot->stats.count; i++)
        add_process(&making, snapshot->stats.processes[i]);
    for (size_t i = 0; tab && i < tab->server_count; i++)
        for (size_t k = 0; k < tab->servers[i].path_count; k++)
            add_configured(&making, &tab->servers[i], &tab->servers[i].paths[k]);
    for (size_t i = 0; i < snapshot->offline_count; i++)
        add_said(&making, &snapshot->offline[i]);
    cmd_index_free(&making.index);
    if (list->count)
        qsort(list->paths, list->count, sizeof(*list->paths), by_name);
    return !making.incomplete;
}

/* ---- what is to say of one ---- */

const char *cmd_path_state(const struct cmd_path *path, unsigned *count)
{
    unsigned state = path->offline ? (unsigned)DIRECTNFS_CHANNEL_OFFLINE : path->worst;
    *count = path->seen[state];
    if (path->offline && path->outstanding)
        return "draining";
    return path->offline || path->processes ? stats_state_name(state) : "unused";
}

bool cmd_path_usable(const struct cmd_path *path)
{
    return !path->offline && (path->lost == 0 || path->seen[DIRECTNFS_CHANNEL_UP] > 0);
}

bool cmd_path_is(const struct cmd_path *path, const struct cmd_path_name *name)
{
    return strcmp(path->server, name->server) == 0 && strcmp(path->path, name->path) == 0 &&
           (name->local[0] == '\0' || strcmp(path->local, name->local) == 0);
}

bool cmd_path_is_last(const struct cmd_path_list *list, uid_t user,
                      const struct cmd_path_name *name)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct cmd_path *gone = &list->paths[i];
        bool other = false;
        if (!cmd_path_is(gone, name) || gone->offline ||
            (user != CMD_NO_USER && gone->user != user))
            continue;
        for (size_t k = 0; k < list->count && !other; k++) {
            const struct cmd_path *left = &list->paths[k];
            other = strcmp(left->server, name->server) == 0 &&
                    (left->user == gone->user || left->user == CMD_NO_USER) &&
                    !cmd_path_is(left, name) && cmd_path_usable(left);
        }
        if (!other)
            return true;
    }
    return false;
}

/* ---- saying ---- */

struct saying {
    uid_t user;
    const struct cmd_path_name *name;
    bool offline;
    int error;
    unsigned told;
};

static void say(void *argument)
{
    struct saying *saying = argument;
    const struct cmd_path_name *name = saying->name;
    if (saying->user != CMD_NO_USER && saying->user != geteuid())
        return;
    int error = run_offline_set(name->server, name->path, name->local, saying->offline);
    saying->told += error == 0;
    if (error && !saying->error)
        saying->error = error;
}

int cmd_path_say(const char *command, uid_t user, const struct cmd_path_name *name, bool offline,
                 unsigned *told)
{
    struct saying saying = {.user = user, .name = name, .offline = offline};
    char problem[CMD_RUNDIR_PROBLEM];
    int error = cmd_rundir_visit(command, say, &saying, problem);
    *told = saying.told;
    return saying.error ? saying.error : error;
}

const char *cmd_path_say_problem(int error)
{
    switch (error) {
    case -EBUSY:
        return "it is offline with every local address: bring it online without naming one";
    case -ENOSPC:
        return "too many paths are offline, or the run directory is full";
    case -EBADMSG:
        return "`paths` in the run directory is no file that directnfs made: remove it";
    case -EPROTO:
        return "the file `paths` in the run directory is of another version of directnfs: remove "
               "it when no process of that version runs";
    case -ETIMEDOUT:
        return "another command holds the file `paths` in the run directory: end it";
    default:
        return strerror(-error);
    }
}
