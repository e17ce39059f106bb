/*
 * What is uncommitted, and the agent, read from the registry's file. The reader is no process of
 * the registry.
 */
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "ledger/agent.h"
#include "ledger/store/left.h"
#include "ledger/store/stripes.h"
#include "run/identity.h"
#include "stats/segment.h"
#include "sys/sys.h"

#define REGISTRY "registry"

/* read(), not mmap(): a file that shrinks meanwhile ends the reading, without a SIGBUS. */
static bool usable(int fd, struct ledger_shared *shared)
{
    return stats_read_at(fd, shared, offsetof(struct ledger_shared, processes), 0) == 0 &&
           shared->head.magic == LEDGER_REGISTRY_MAGIC &&
           shared->head.layout == LEDGER_REGISTRY_LAYOUT &&
           shared->head.header_size == sizeof(*shared);
}

/* Has no process the file open? If so, none changes it from here on; what was read before may be
 * old. */
static bool is_alone(int fd)
{
    return (int)sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0;
}

/* 0, or -EUCLEAN: it holds data that only another version can send. */
static int examine_alone(int fd, struct ledger_left *left)
{
    int error = ledger_left_examine(fd, left);
    return !error && left->what == LEDGER_LEFT_OTHER_LAYOUT && !ledger_left_is_empty(left)
               ? -EUCLEAN
               : error;
}

int stats_registry_usable(int run)
{
    struct ledger_left left;
    int fd = run_open_file(run, REGISTRY, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT || fd == -EBADMSG ? 0 : fd;
    int error = ledger_left_examine(fd, &left);
    /* A process that starts removes it, sets it aside, or takes it over, unless another one uses
     * it. */
    if (!error && (left.what != LEDGER_LEFT_USABLE || left.namespaces != run_namespaces()))
        error = is_alone(fd) ? examine_alone(fd, &left) : -EBUSY;
    sys_close(fd);
    return error;
}

/* ---- what is left of registries ---- */

struct leaving {
    int run;
    stats_left_visitor *visit;
    void *argument;
};

static bool is_registry(const char *name)
{
    return strcmp(name, REGISTRY) == 0;
}

static int visit_left(void *argument, const char *name)
{
    const struct leaving *leaving = argument;
    struct stats_left found = {.in_place = is_registry(name)};
    struct ledger_left left = {.what = LEDGER_LEFT_STRANGE};
    if (!found.in_place && strncmp(name, REGISTRY ".unusable.", sizeof(REGISTRY ".unusable")) != 0)
        return 0;
    snprintf(found.name, sizeof(found.name), "%s", name);
    int fd = run_open_file(leaving->run, name, O_RDONLY);
    int error = fd < 0 ? fd : ledger_left_examine(fd, &left);
    if (!error && !(found.in_place && left.what == LEDGER_LEFT_USABLE)) {
        found.used = !is_alone(fd);
        error = ledger_left_examine(fd, &left);
    }
    if (fd >= 0)
        sys_close(fd);
    if (error == -ENOENT)
        return 0;
    if (error)
        snprintf(found.text, sizeof(found.text), "cannot be read: %s", strerror(-error));
    else
        ledger_left_text(&left, found.text);
    found.empty = !error && ledger_left_is_empty(&left);
    bool usable_one = !error && found.in_place && left.what == LEDGER_LEFT_USABLE;
    if (usable_one || (found.empty && !found.used))
        return 0;
    return leaving->visit(leaving->argument, &found);
}

int stats_left_visit(int run, const struct stats_bounds *bounds, stats_left_visitor *visit,
                     void *argument)
{
    return stats_walk(run, bounds, visit_left, &(struct leaving){run, visit, argument});
}

int stats_left_remove(int run, const struct stats_left *left)
{
    struct ledger_left now;
    struct stat open, named;
    int fd = run_open_file(run, left->name, O_RDONLY);
    if (fd == -EBADMSG) /* it is no regular file */
        return sys_unlinkat(run, left->name, 0);
    if (fd < 0)
        return fd;
    int error = is_alone(fd) ? ledger_left_examine(fd, &now) : -EBUSY;
    if (!error)
        error = sys_fstat(fd, &open);
    if (!error)
        error = sys_fstatat(run, left->name, &named, AT_SYMLINK_NOFOLLOW);
    /* Another process may have put a usable one there meanwhile. */
    if (!error && (open.st_ino != named.st_ino ||
                   (is_registry(left->name) && now.what == LEDGER_LEFT_USABLE)))
        error = -EBUSY;
    if (!error)
        error = sys_unlinkat(run, left->name, 0);
    sys_close(fd);
    return error;
}

/* ---- what is uncommitted ---- */

static int add_file(struct stats_snapshot *snapshot, const struct ledger_entry *entry)
{
    unsigned count = snapshot->uncommitted_count;
    struct stats_uncommitted *more =
        reallocarray(snapshot->uncommitted_files, count + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    snapshot->uncommitted_files = more;
    more[snapshot->uncommitted_count++] = (struct stats_uncommitted){
        entry->device, entry->inode, entry->uncommitted + entry->dirty, entry->dirty};
    return 0;
}

static uint64_t of_stripe(const struct ledger_stripe *stripe)
{
    return stripe->uncommitted + stripe->dirty;
}

/* ---- the agent ---- */

/* Is a process that the registry names surely dead? */
static bool is_dead(const struct ledger_shared *shared, uint32_t pid)
{
    return pid == 0 || pid > INT32_MAX ||
           (shared->head.namespaces == run_namespaces() && sys_call2(SYS_kill, pid, 0) == -ESRCH);
}

static bool is_alive(const struct ledger_shared *shared)
{
    int word = shared->agent.lock.__data.__lock;
    return (word & FUTEX_TID_MASK) && !(word & FUTEX_OWNER_DIED) && shared->agent.number != 0 &&
           !is_dead(shared, shared->agent.pid);
}

static void put_lack(uint32_t lack, char text[], size_t size)
{
    static const char *const words[] = {
        [LEDGER_AGENT_LACKS_COMMAND] =
            "beside the library is no command directnfs that can be trusted",
        [LEDGER_AGENT_LACKS_PROCESS] = "a process cannot be started",
        [LEDGER_AGENT_LACKS_REASON] = "directnfs agent ended at once; its log says why",
        [LEDGER_AGENT_LACKS_READY] = "one has begun, and is not ready: is it stopped?",
        [LEDGER_AGENT_LACKS_ANSWER] =
            "it does not answer a process, or is not in contact with a server: its log says why",
        [LEDGER_AGENT_LACKS_PLACE] = "it has no place for another server",
        [LEDGER_AGENT_LACKS_VOUCHER] =
            "it does not know that it may send as a process's user and groups",
    };
    uint32_t which = lack & 0xff, error = lack >> 8;
    const char *what = which < sizeof(words) / sizeof(words[0]) ? words[which] : NULL;
    snprintf(text, size, "%s%s%s", what ? what : "not known", error ? ": " : "",
             error ? strerror((int)error) : "");
}

/* Adds the agent, if there ever was one or a process lacks one. *added may be NULL without an
 * error. */
static int add_agent(struct stats_snapshot *snapshot, struct ledger_shared *shared, int fd,
                     struct stats_agent **added)
{
    const struct ledger_agent *from = &shared->agent;
    uint32_t lack = 0, count = shared->process_count < LEDGER_PROCESSES ? shared->process_count
                                                                        : LEDGER_PROCESSES;
    *added = NULL;
    if (stats_read_at(fd, shared->processes, count * sizeof(shared->processes[0]),
                      offsetof(struct ledger_shared, processes)) != 0)
        return -EBADMSG;
    for (uint32_t i = 1; i < count && !lack; i++) {
        const struct ledger_process *process = &shared->processes[i];
        lack = process->state && !is_dead(shared, process->pid) ? process->lack : 0;
    }
    if (from->drawn == 0 && lack == 0)
        return 0;
    struct stats_agent *agent =
        reallocarray(snapshot->agents, snapshot->agent_count + 1, sizeof(*agent));
    if (!agent)
        return -ENOMEM;
    snapshot->agents = agent;
    agent += snapshot->agent_count++;
    *agent = (struct stats_agent){.uid = (uint32_t)sys_call0(SYS_geteuid),
                                  .state = is_alive(shared) ? STATS_AGENT_ALIVE : STATS_AGENT_NONE,
                                  .pid = from->pid,
                                  .since_ns = from->since_s * 1000000000};
    for (uint32_t i = 1; i < count; i++) {
        const struct ledger_process *process = &shared->processes[i];
        agent->watched += process->state && process->watched != 0 &&
                          process->watched == from->number && agent->state == STATS_AGENT_ALIVE;
    }
    for (uint32_t i = 0; i < LEDGER_AGENT_SERVERS && agent->state == STATS_AGENT_ALIVE; i++)
        agent->servers += from->servers[i].key != 0 && from->servers[i].served == from->number;
    if (lack)
        put_lack(lack, agent->lack, sizeof(agent->lack));
    if (lack && agent->state == STATS_AGENT_NONE)
        agent->state = STATS_AGENT_LACKING;
    *added = agent;
    return 0;
}

/* Adds what dead processes left of the file: to the agent, or to no one. */
static void add_left(struct stats_agent *agent, const struct ledger_shared *shared,
                     const struct ledger_entry *entry)
{
    if (!agent || !(entry->flags & LEDGER_ENTRY_ORPHANED))
        return;
    bool cared = agent->state == STATS_AGENT_ALIVE && entry->carer == shared->agent.number;
    *(cared ? &agent->unsent : &agent->strays) += entry->dirty;
}

/* ---- all of it ---- */

/* Reads the sets in use, of stripes with something uncommitted, as ledger_uncommitted_next()
 * does. */
static int read_entries(struct stats_snapshot *snapshot, int fd, const struct ledger_shared *shared,
                        struct stats_agent *agent)
{
    struct ledger_entry set[LEDGER_SET_SIZE];
    uint64_t at = ledger_registry_entries_at(shared);
    int error = 0;
    for (uint32_t i = 0; !error && i < LEDGER_SETS; i++) {
        if (!shared->set_state[i] ||
            !of_stripe(&shared->stripes[ledger_stripe_of(i * LEDGER_SET_SIZE)]))
            continue;
        if (stats_read_at(fd, set, sizeof(set), at + i * sizeof(set)) != 0)
            return -EBADMSG;
        for (int k = 0; !error && k < LEDGER_SET_SIZE; k++) {
            if (set[k].uncommitted + set[k].dirty)
                error = add_file(snapshot, &set[k]);
            add_left(agent, shared, &set[k]);
        }
    }
    return error;
}

int stats_read_uncommitted(int run, struct stats_snapshot *snapshot)
{
    struct stats_agent *agent = NULL;
    int fd = run_open_file(run, REGISTRY, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd == -EPERM ? -EBADMSG : fd;
    struct ledger_left left;
    struct ledger_shared *shared = malloc(sizeof(*shared));
    int error = shared ? 0 : -ENOMEM;
    if (!error && usable(fd, shared)) {
        for (int i = 0; i < LEDGER_STRIPES; i++) {
            snapshot->uncommitted += of_stripe(&shared->stripes[i]);
            snapshot->unsent += shared->stripes[i].dirty;
        }
        snapshot->losses += shared->losses;
        error = add_agent(snapshot, shared, fd, &agent);
        if (!error)
            error = read_entries(snapshot, fd, shared, agent);
    } else if (!error &&
               !(is_alone(fd) && examine_alone(fd, &left) == 0 && ledger_left_is_empty(&left))) {
        error = -EBADMSG;
    }
    free(shared);
    sys_close(fd);
    return error;
}
