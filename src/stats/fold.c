/*
 * Segments in the run directory: reading and writing their files, and adding up those of processes
 * that ended.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "stats/read.h"
#include "stats/segment.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"

/* Copies whole words, as other threads may count in them. */
static void copy_words(struct directnfs_stats *to, const struct directnfs_stats *from,
                       size_t offset, size_t size)
{
    for (size_t at = offset; at < offset + size; at += sizeof(uint64_t))
        *(uint64_t *)((uint8_t *)to + at) =
            stats_get((const uint64_t *)((const uint8_t *)from + at));
}

void stats_copy_used(struct directnfs_stats *to, const struct directnfs_stats *from)
{
    copy_words(to, from, 0, offsetof(struct directnfs_stats, servers));
    for (unsigned i = 0; i < STATS_TABLES; i++) {
        const struct stats_table *table = &stats_tables[i];
        copy_words(to, from, table->offset, stats_used(to, table));
    }
}

void stats_segment_name(char name[STATS_NAME], const struct run_identity *process)
{
    snprintf(name, STATS_NAME, "stats.%u.%llu", process->pid,
             (unsigned long long)process->starttime);
}

bool stats_parse_name(const char *name, struct run_identity *process)
{
    char *end;
    if (strncmp(name, "stats.", 6) != 0 || name[6] < '1' || name[6] > '9')
        return false;
    unsigned long long pid = strtoull(name + 6, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9' || pid > INT32_MAX)
        return false;
    process->pid = (uint32_t)pid;
    process->image = 0;
    process->starttime = strtoull(end + 1, &end, 10);
    return *end == '\0';
}

struct directnfs_stats *stats_allocate(void)
{
    void *memory =
        sys_mmap(NULL, STATS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return sys_mmap_failed(memory) ? NULL : memory;
}

void stats_release(struct directnfs_stats *stats)
{
    if (stats)
        sys_munmap(stats, STATS_BYTES);
}

/* pread() or pwrite() of all bytes. */
static int transfer(long call, int fd, const void *data, size_t size, size_t offset)
{
    while (size) {
        ssize_t done = sys_call4(call, fd, data, size, offset);
        if (done == -EINTR)
            continue;
        if (done <= 0)
            return done ? (int)done : -EBADMSG;
        data = (const uint8_t *)data + done;
        size -= (size_t)done;
        offset += (size_t)done;
    }
    return 0;
}

int stats_read_at(int fd, void *buffer, size_t size, size_t offset)
{
    return transfer(SYS_pread64, fd, buffer, size, offset);
}

static int write_at(int fd, const void *data, size_t size, size_t offset)
{
    return transfer(SYS_pwrite64, fd, data, size, offset);
}

static int read_part(int fd, struct directnfs_stats *stats, size_t offset, size_t size,
                     size_t *room)
{
    /* Counts whole pages, since the tables lie apart. */
    size_t pages = size ? (size + 2 * STATS_PAGE - 2) / STATS_PAGE * STATS_PAGE : 0;
    if (room && *room < pages)
        return -E2BIG;
    if (room)
        *room -= pages;
    return stats_read_at(fd, (uint8_t *)stats + offset, size, offset);
}

static int read_segment(int fd, off_t size, struct directnfs_stats *stats, size_t *room)
{
    int error = read_part(fd, stats, 0, offsetof(struct directnfs_stats, servers), room);
    if (!error && stats->magic == 0)
        return -EAGAIN;
    if (!error && stats->magic != DIRECTNFS_STATS_MAGIC)
        return -EBADMSG;
    if (!error && stats->layout != DIRECTNFS_STATS_LAYOUT)
        return -EPROTO;
    if (!error && (stats->size != sizeof(*stats) || size != STATS_BYTES))
        return -EBADMSG;
    for (unsigned i = 0; !error && i < STATS_TABLES; i++) {
        const struct stats_table *table = &stats_tables[i];
        if (*stats_count(stats, table) > table->slots)
            return -EBADMSG;
        error = read_part(fd, stats, table->offset, stats_used(stats, table), room);
    }
    return error;
}

int stats_read_raw(int run, const char *name, struct directnfs_stats *stats, size_t *room)
{
    struct stat status;
    /* read(), not mmap(): a file that shrinks meanwhile must not cause a SIGBUS. */
    int fd = run_open_file(run, name, O_RDONLY);
    if (fd < 0)
        return fd;
    int error = sys_fstat(fd, &status);
    if (!error && status.st_size == 0)
        error = -EAGAIN;
    if (!error)
        error = read_segment(fd, status.st_size, stats, room);
    sys_close(fd);
    return error;
}

int stats_write_raw(int fd, const struct directnfs_stats *stats)
{
    int error = 0;
    for (unsigned i = 0; !error && i < STATS_TABLES; i++) {
        const struct stats_table *table = &stats_tables[i];
        error = write_at(fd, (const uint8_t *)stats + table->offset, stats_used(stats, table),
                         table->offset);
    }
    if (!error)
        error = write_at(fd, stats, offsetof(struct directnfs_stats, servers), 0);
    return error;
}

/* ---- adding up ---- */

int stats_lock(int run, int limit_ms)
{
    int fd = run_open_file(run, "stats.lock", O_RDWR | O_CREAT), error = -EWOULDBLOCK;
    if (fd < 0)
        return fd;
    for (int i = 0; i < limit_ms; i++) {
        error = (int)sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB);
        if (error != -EWOULDBLOCK && error != -EINTR)
            break;
        sys_nanosleep_ms(1);
    }
    if (!error)
        return fd;
    sys_close(fd);
    return error == -EWOULDBLOCK ? -ETIMEDOUT : error;
}

void stats_unlock(int fd)
{
    /* Closing would not do: a child that another thread forked meanwhile has the descriptor too. */
    sys_call2(SYS_flock, fd, LOCK_UN);
    sys_close(fd);
}

/* Keeps all tables but mounts and paths; `stats` is the last process that had files. */
static void take_tables(struct directnfs_stats *ended, const struct directnfs_stats *stats)
{
    const size_t process = offsetof(struct directnfs_stats, pid);
    memcpy((uint8_t *)ended + process, (const uint8_t *)stats + process,
           offsetof(struct directnfs_stats, processes) - process);
    for (unsigned i = 0; i < STATS_TABLES; i++) {
        const struct stats_table *table = &stats_tables[i];
        if (i == STATS_PATHS || i == STATS_MOUNTS)
            continue;
        *stats_count(ended, table) = *stats_count(stats, table);
        memcpy(stats_slot(ended, table, 0), stats_slot(stats, table, 0), stats_used(stats, table));
    }
}

static int replace_ended(int run, const struct directnfs_stats *ended)
{
    sys_unlinkat(run, "stats.new", 0);
    int fd = run_open_file(run, "stats.new", O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    int error = sys_fd_lengthen(fd, STATS_BYTES);
    if (!error)
        error = stats_write_raw(fd, ended);
    sys_close(fd);
    if (!error)
        error = sys_renameat2(run, "stats.new", run, DIRECTNFS_STATS_ENDED, 0);
    if (error)
        sys_unlinkat(run, "stats.new", 0);
    return error;
}

bool stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats)
{
    return ended->last_pid == stats->pid && ended->last_starttime == stats->starttime &&
           ended->last_started_ns == stats->started_ns;
}

/* The process that added the last one may have died before it removed the file. Remove that file
 * now: only for the last process is it known that it was added. */
static void remove_last(int run, const struct directnfs_stats *ended)
{
    char name[STATS_NAME];
    struct run_identity last = {(uint32_t)ended->last_pid, ended->last_starttime, 0};
    struct directnfs_stats *stats = stats_allocate();
    stats_segment_name(name, &last);
    if (stats && stats_read_raw(run, name, stats, NULL) == 0 && stats_added(ended, stats))
        sys_unlinkat(run, name, 0);
    stats_release(stats);
}

void stats_waits_for_nothing(struct directnfs_stats *stats)
{
    for (unsigned i = 0; i < stats->path_count && i < DIRECTNFS_PATHS; i++) {
        struct directnfs_path_stats *path = &stats->paths[i];
        path->oldest_ns = path->ticket_ends_ns = 0;
        if (path->state != DIRECTNFS_CHANNEL_SILENT)
            continue;
        path->state = DIRECTNFS_CHANNEL_UP;
        path->reason[0] = '\0';
    }
    for (unsigned i = 0; i < stats->channel_count && i < DIRECTNFS_CHANNELS; i++)
        stats->channels[i].oldest_ns = 0;
}

void stats_sessions_end(struct directnfs_stats *stats)
{
    for (unsigned i = 0; i < stats->session_count && i < DIRECTNFS_SESSIONS; i++) {
        struct directnfs_session_stats *session = &stats->sessions[i];
        session->slots = session->used = session->lost = session->lease_s = 0;
        session->client = 0;
    }
}

/* Under the lock: adds `stats` to the sum, unless it was added last. */
static int fold_into(int run, const struct directnfs_stats *stats, struct directnfs_stats *ended)
{
    char path[RUN_PATH_MAX];
    int error = stats_read_raw(run, DIRECTNFS_STATS_ENDED, ended, NULL);
    if (error == -EBADMSG || error == -EPROTO || error == -EAGAIN || error == -EPERM)
        log_warning("the statistics of ended processes in %s (" DIRECTNFS_STATS_ENDED
                    ") are unusable: starting "
                    "again",
                    run_name(path));
    else if (error && error != -ENOENT)
        return error;
    if (error) {
        memset(ended, 0, sizeof(*ended));
        ended->magic = DIRECTNFS_STATS_MAGIC;
        ended->layout = DIRECTNFS_STATS_LAYOUT;
        ended->size = sizeof(*ended);
    }
    if (stats_added(ended, stats))
        return 0;
    if (!error)
        remove_last(run, ended);
    stats_add_counters(&ended->counters, &stats->counters);
    stats_add_mounts(ended, stats);
    stats_add_paths(ended, stats);
    if (stats->file_count || !ended->file_count)
        take_tables(ended, stats);
    ended->processes++;
    ended->last_pid = stats->pid;
    ended->last_starttime = stats->starttime;
    ended->last_started_ns = stats->started_ns;
    return replace_ended(run, ended);
}

int stats_fold(int run, const struct run_identity *process, const struct directnfs_stats *stats,
               int limit_ms)
{
    char name[STATS_NAME];
    int fd = stats_lock(run, limit_ms);
    if (fd < 0)
        return fd;
    stats_segment_name(name, process);
    struct directnfs_stats *ended = stats_allocate(), *copy = stats_allocate();
    int error = ended && copy ? 0 : -ENOMEM;
    if (!error && stats) {
        stats_copy_used(copy, stats);
    } else if (!error) {
        error = stats_read_raw(run, name, copy, NULL);
        if (!error && (copy->pid != process->pid || copy->starttime != process->starttime))
            error = -EBADMSG;
        if (error == -EAGAIN || error == -EBADMSG || error == -EPROTO)
            sys_unlinkat(run, name, 0); /* its process died while making it, or it is another's, or
                                           no sum takes its layout */
    }
    if (!error) {
        stats_waits_for_nothing(copy);
        stats_sessions_end(copy);
        error = fold_into(run, copy, ended);
    }
    if (!error)
        error = sys_unlinkat(run, name, 0);
    stats_release(copy);
    stats_release(ended);
    stats_unlock(fd);
    return error;
}

struct walking {
    const struct stats_bounds *bounds;
    uint64_t began_ns;
    stats_walker *visit;
    void *argument;
};

static int walk_one(void *argument, const char *name)
{
    const struct walking *walking = argument;
    const struct stats_bounds *bounds = walking->bounds;
    int result = walking->visit(walking->argument, name);
    if (!result && bounds &&
        sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - walking->began_ns >= bounds->cpu_ns)
        result = -ETIME;
    return result;
}

int stats_walk(int run, const struct stats_bounds *bounds, stats_walker *visit, void *argument)
{
    struct walking walking = {bounds, sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID), visit, argument};
    return run_list(run, walk_one, &walking);
}

struct visiting {
    stats_visitor *visit;
    void *argument;
};

static int visit_segment(void *argument, const char *name)
{
    const struct visiting *visiting = argument;
    struct run_identity process;
    return stats_parse_name(name, &process) ? visiting->visit(visiting->argument, name, &process)
                                            : 0;
}

int stats_visit(int run, const struct stats_bounds *bounds, stats_visitor *visit, void *argument)
{
    return stats_walk(run, bounds, visit_segment, &(struct visiting){visit, argument});
}

struct reaping {
    int run;
    const struct stats_bounds *bounds;
    struct directnfs_stats *scratch;
};

static int reap_one(void *argument, const char *name, const struct run_identity *process)
{
    const struct reaping *reaping = argument;
    const struct stats_bounds *bounds = reaping->bounds;
    if (run_identity_alive(process))
        return 0;
    /* In another pid namespace the pid says nothing. The head is the same in all layouts. */
    int error = stats_read_raw(reaping->run, name, reaping->scratch, NULL);
    if ((error == 0 || error == -EPROTO) && reaping->scratch->pid_namespace != run_pid_namespace())
        return 0;
    error = stats_fold(reaping->run, process, NULL, bounds ? bounds->lock_ms : STATS_LOCK_MS);
    return bounds && error == -ETIMEDOUT ? error : 0;
}

void stats_reap(int run, const struct stats_bounds *bounds)
{
    struct reaping reaping = {run, bounds, stats_allocate()};
    if (reaping.scratch)
        stats_visit(run, bounds, reap_one, &reaping);
    stats_release(reaping.scratch);
}

void stats_reap_at_start(int run)
{
    struct stat status;
    if (sys_fstatat(run, "stats.lock", &status, AT_SYMLINK_NOFOLLOW) == 0) {
        time_t now = (time_t)(sys_clock_ns(CLOCK_REALTIME) / 1000000000u);
        if (status.st_mtim.tv_sec <= now && status.st_mtim.tv_sec >= now - 1)
            return;
        sys_call4(SYS_utimensat, run, "stats.lock", NULL, AT_SYMLINK_NOFOLLOW);
    }
    stats_reap(run, NULL);
}
