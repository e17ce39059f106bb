/*
 * Segments in the run directory: reading and writing their files, and adding up those of processes
 * that ended.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "stats/read.h"
#include "stats/segment.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"

/* Whole words, which other threads may be counting in. */
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

static int read_at(int fd, void *buffer, size_t size, size_t offset)
{
    while (size) {
        ssize_t got = sys_pread(fd, buffer, size, (off_t)offset);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            return got ? (int)got : -EBADMSG;
        buffer = (uint8_t *)buffer + got;
        size -= (size_t)got;
        offset += (size_t)got;
    }
    return 0;
}

/* Whole pages: the tables lie apart. */
static bool take_room(size_t *room, size_t size)
{
    size_t pages = (size + 2 * STATS_PAGE - 2) / STATS_PAGE * STATS_PAGE;
    if (!room || size == 0)
        return true;
    if (*room < pages)
        return false;
    *room -= pages;
    return true;
}

static int read_segment(int fd, struct directnfs_stats *stats, size_t *room)
{
    const size_t head = offsetof(struct directnfs_stats, servers);
    int error = take_room(room, head) ? read_at(fd, stats, head, 0) : -E2BIG;
    if (!error && stats->magic == 0)
        return -EAGAIN;
    if (!error && (stats->magic != DIRECTNFS_STATS_MAGIC ||
                   stats->layout != DIRECTNFS_STATS_LAYOUT || stats->size != sizeof(*stats)))
        return -EBADMSG;
    for (unsigned i = 0; !error && i < STATS_TABLES; i++) {
        const struct stats_table *table = &stats_tables[i];
        if (*stats_count(stats, table) > table->slots)
            return -EBADMSG;
        size_t used = stats_used(stats, table);
        error = take_room(room, used)
                    ? read_at(fd, (uint8_t *)stats + table->offset, used, table->offset)
                    : -E2BIG;
    }
    return error;
}

int stats_read_raw(int run, const char *name, struct directnfs_stats *stats, size_t *room)
{
    struct stat status;
    /* read(), not mmap(): a file that shrinks meanwhile must not be a SIGBUS. */
    int fd = run_open_file(run, name, O_RDONLY);
    if (fd < 0)
        return fd;
    int error = sys_fstat(fd, &status);
    if (!error && status.st_size == 0)
        error = -EAGAIN;
    else if (!error && status.st_size != STATS_BYTES)
        error = -EBADMSG;
    if (!error)
        error = read_segment(fd, stats, room);
    sys_close(fd);
    return error;
}

static int write_at(int fd, const void *data, size_t size, size_t offset)
{
    while (size) {
        ssize_t put = sys_call4(SYS_pwrite64, fd, data, size, offset);
        if (put == -EINTR)
            continue;
        if (put <= 0)
            return put ? (int)put : -EIO;
        data = (const uint8_t *)data + put;
        size -= (size_t)put;
        offset += (size_t)put;
    }
    return 0;
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
    /* A child that another thread forked meanwhile has the descriptor too: closing would not do. */
    sys_call2(SYS_flock, fd, LOCK_UN);
    sys_close(fd);
}

/* The other tables of the last process that had files are kept. */
static void take_tables(struct directnfs_stats *ended, const struct directnfs_stats *stats)
{
    ended->pid = stats->pid;
    ended->uid = stats->uid;
    ended->starttime = stats->starttime;
    ended->pid_namespace = stats->pid_namespace;
    memcpy(ended->program, stats->program, sizeof(ended->program));
    ended->started_ns = stats->started_ns;
    ended->updated_ns = stats_get(&stats->updated_ns);
    ended->ended_ns = stats->ended_ns;
    ended->server_count = stats->server_count;
    ended->channel_count = stats->channel_count;
    ended->file_count = stats->file_count;
    memcpy(ended->servers, stats->servers, stats->server_count * sizeof(stats->servers[0]));
    memcpy(ended->channels, stats->channels, stats->channel_count * sizeof(stats->channels[0]));
    memcpy(ended->files, stats->files, stats->file_count * sizeof(stats->files[0]));
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
        error = sys_renameat2(run, "stats.new", run, "stats.ended", 0);
    if (error)
        sys_unlinkat(run, "stats.new", 0);
    return error;
}

bool stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats)
{
    return ended->last_pid == stats->pid && ended->last_starttime == stats->starttime &&
           ended->last_started_ns == stats->started_ns;
}

/* Whoever added the last one may have died before it removed the file. It goes now: only of the
 * last one it is known that it was added. */
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

/* Under the lock. */
static int fold_into(int run, const struct directnfs_stats *stats, struct directnfs_stats *ended)
{
    char path[RUN_PATH_MAX];
    int error = stats_read_raw(run, "stats.ended", ended, NULL);
    if (error == -EBADMSG || error == -EAGAIN || error == -EPERM)
        log_warning("the statistics of ended processes in %s (stats.ended) are unusable: starting "
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
        if (error == -EAGAIN || error == -EBADMSG)
            sys_unlinkat(run, name, 0); /* died while making it; or nobody's */
    }
    if (!error)
        error = fold_into(run, copy, ended);
    if (!error)
        error = sys_unlinkat(run, name, 0);
    stats_release(copy);
    stats_release(ended);
    stats_unlock(fd);
    return error;
}

/* Of another pid namespace the pid says nothing. */
static bool may_reap(int run, const struct run_identity *process, struct directnfs_stats *scratch)
{
    char name[STATS_NAME];
    if (run_identity_alive(process))
        return false;
    stats_segment_name(name, process);
    return stats_read_raw(run, name, scratch, NULL) != 0 ||
           scratch->pid_namespace == run_pid_namespace();
}

static uint64_t cpu_time(void)
{
    struct timespec now;
    sys_clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t stats_deadline(const struct stats_bounds *bounds)
{
    return bounds ? cpu_time() + bounds->cpu_ns : UINT64_MAX;
}

bool stats_late(uint64_t deadline)
{
    return deadline != UINT64_MAX && cpu_time() >= deadline;
}

/* False: no more for now. */
static bool reap_one(int run, const char *name, struct directnfs_stats *scratch,
                     const struct stats_bounds *bounds)
{
    struct run_identity process;
    if (!stats_parse_name(name, &process) || !may_reap(run, &process, scratch))
        return true;
    int error = stats_fold(run, &process, NULL, bounds ? bounds->lock_ms : STATS_LOCK_MS);
    return !(bounds && error == -ETIMEDOUT);
}

void stats_reap(int run, const struct stats_bounds *bounds)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
    } * entry;
    char buffer[4096] __attribute__((aligned(8)));
    struct directnfs_stats *scratch = stats_allocate();
    int fd = sys_openat(run, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    const uint64_t deadline = stats_deadline(bounds);
    bool more = scratch && fd >= 0;
    ssize_t length;
    while (more && (length = sys_getdents64(fd, buffer, sizeof(buffer))) > 0) {
        for (ssize_t at = 0; more && at < length; at += entry->length) {
            entry = (struct entry *)(buffer + at);
            more = reap_one(run, entry->name, scratch, bounds) && !stats_late(deadline);
        }
    }
    if (fd >= 0)
        sys_close(fd);
    stats_release(scratch);
}

void stats_reap_at_start(int run)
{
    struct stat status;
    struct timespec now;
    sys_clock_gettime(CLOCK_REALTIME, &now);
    if (sys_fstatat(run, "stats.lock", &status, AT_SYMLINK_NOFOLLOW) == 0) {
        if (status.st_mtim.tv_sec <= now.tv_sec && status.st_mtim.tv_sec >= now.tv_sec - 1)
            return;
        sys_call4(SYS_utimensat, run, "stats.lock", NULL, AT_SYMLINK_NOFOLLOW);
    }
    stats_reap(run, NULL);
}
