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

#include "host/stats_read.h"
#include "host/stats_segment.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"

#define TABLE(member, count)                                                               \
    {                                                                                      \
        offsetof(struct directnfs_stats, member), offsetof(struct directnfs_stats, count), \
            sizeof(((struct directnfs_stats *)0)->member[0]),                              \
            sizeof(((struct directnfs_stats *)0)->member) /                                \
                sizeof(((struct directnfs_stats *)0)->member[0])                           \
    }

const struct host_stats_table host_stats_tables[HOST_STATS_TABLES] = {
    TABLE(servers, server_count), TABLE(paths, path_count), TABLE(channels, channel_count),
    TABLE(files, file_count)};

enum { LOCK_ATTEMPTS = 2000 }; /* of a millisecond each */

/* Whole words, which other threads may be counting in. */
static void copy_words(struct directnfs_stats *to, const struct directnfs_stats *from,
                       size_t offset, size_t size)
{
    for (size_t at = offset; at < offset + size; at += sizeof(uint64_t))
        *(uint64_t *)((uint8_t *)to + at) =
            host_stats_get((const uint64_t *)((const uint8_t *)from + at));
}

void host_stats_copy_used(struct directnfs_stats *to, const struct directnfs_stats *from)
{
    copy_words(to, from, 0, offsetof(struct directnfs_stats, servers));
    for (unsigned i = 0; i < HOST_STATS_TABLES; i++) {
        const struct host_stats_table *table = &host_stats_tables[i];
        copy_words(to, from, table->offset, host_stats_used(to, table));
    }
}

int host_stats_segment_path(char path[HOST_RUN_PATH_MAX], const struct host_identity *process)
{
    char name[64];
    snprintf(name, sizeof(name), "stats.%u.%llu", process->pid,
             (unsigned long long)process->starttime);
    return host_run_path(path, name);
}

bool host_stats_parse_name(const char *name, struct host_identity *process)
{
    char *end;
    if (strncmp(name, "stats.", 6) != 0 || name[6] < '1' || name[6] > '9')
        return false;
    unsigned long long pid = strtoull(name + 6, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9' || pid > INT32_MAX)
        return false;
    process->pid = (uint32_t)pid;
    process->starttime = strtoull(end + 1, &end, 10);
    return *end == '\0';
}

struct directnfs_stats *host_stats_allocate(void)
{
    void *memory = sys_mmap(NULL, HOST_STATS_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return sys_mmap_failed(memory) ? NULL : memory;
}

void host_stats_release(struct directnfs_stats *stats)
{
    if (stats)
        sys_munmap(stats, HOST_STATS_BYTES);
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

static int read_segment(int fd, struct directnfs_stats *stats)
{
    int error = read_at(fd, stats, offsetof(struct directnfs_stats, servers), 0);
    if (!error && stats->magic == 0)
        return -EAGAIN;
    if (!error && (stats->magic != DIRECTNFS_STATS_MAGIC ||
                   stats->layout != DIRECTNFS_STATS_LAYOUT || stats->size != sizeof(*stats)))
        return -EBADMSG;
    for (unsigned i = 0; !error && i < HOST_STATS_TABLES; i++) {
        const struct host_stats_table *table = &host_stats_tables[i];
        if (*host_stats_count(stats, table) > table->slots)
            return -EBADMSG;
        error = read_at(fd, (uint8_t *)stats + table->offset, host_stats_used(stats, table),
                        table->offset);
    }
    return error;
}

int host_stats_read_raw(const char *path, struct directnfs_stats *stats)
{
    struct stat status;
    /* read(), not mmap(): a file that shrinks meanwhile must not be a SIGBUS. */
    int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fd == -ELOOP ? -EBADMSG : fd;
    int error = sys_fstat(fd, &status);
    if (!error && !S_ISREG(status.st_mode))
        error = -EBADMSG;
    else if (!error && status.st_uid != (uid_t)sys_call0(SYS_geteuid))
        error = -EPERM;
    else if (!error && status.st_size == 0)
        error = -EAGAIN;
    else if (!error && status.st_size != HOST_STATS_BYTES)
        error = -EBADMSG;
    if (!error)
        error = read_segment(fd, stats);
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

int host_stats_write_raw(int fd, const struct directnfs_stats *stats)
{
    int error = 0;
    for (unsigned i = 0; !error && i < HOST_STATS_TABLES; i++) {
        const struct host_stats_table *table = &host_stats_tables[i];
        error = write_at(fd, (const uint8_t *)stats + table->offset, host_stats_used(stats, table),
                         table->offset);
    }
    if (!error)
        error = write_at(fd, stats, offsetof(struct directnfs_stats, servers), 0);
    return error;
}

/* ---- adding up ---- */

int host_stats_lock(void)
{
    char path[HOST_RUN_PATH_MAX];
    int error = host_run_path(path, "stats.lock");
    if (error)
        return error;
    int fd = sys_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    for (int i = 0; i < LOCK_ATTEMPTS; i++) {
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

void host_stats_unlock(int fd)
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
    ended->updated_ns = host_stats_get(&stats->updated_ns);
    ended->ended_ns = stats->ended_ns;
    ended->server_count = stats->server_count;
    ended->channel_count = stats->channel_count;
    ended->file_count = stats->file_count;
    memcpy(ended->servers, stats->servers, stats->server_count * sizeof(stats->servers[0]));
    memcpy(ended->channels, stats->channels, stats->channel_count * sizeof(stats->channels[0]));
    memcpy(ended->files, stats->files, stats->file_count * sizeof(stats->files[0]));
}

static int replace_ended(const char *path, const struct directnfs_stats *ended)
{
    char temporary[HOST_RUN_PATH_MAX];
    int error = host_run_path(temporary, "stats.new");
    if (error)
        return error;
    sys_unlink(temporary);
    int fd = sys_open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    error = sys_fd_lengthen(fd, HOST_STATS_BYTES);
    if (!error)
        error = host_stats_write_raw(fd, ended);
    sys_close(fd);
    if (!error)
        error = sys_renameat2(temporary, path, 0);
    if (error)
        sys_unlink(temporary);
    return error;
}

bool host_stats_added(const struct directnfs_stats *ended, const struct directnfs_stats *stats)
{
    return ended->last_pid == stats->pid && ended->last_starttime == stats->starttime &&
           ended->last_started_ns == stats->started_ns;
}

/* Whoever added the last one may have died before it removed the file. It goes now: only of the
 * last one it is known that it was added. */
static void remove_last(const struct directnfs_stats *ended)
{
    char path[HOST_RUN_PATH_MAX];
    struct host_identity last = {(uint32_t)ended->last_pid, ended->last_starttime};
    struct directnfs_stats *stats = host_stats_allocate();
    if (stats && host_stats_segment_path(path, &last) == 0 &&
        host_stats_read_raw(path, stats) == 0 && host_stats_added(ended, stats))
        sys_unlink(path);
    host_stats_release(stats);
}

/* Under the lock. */
static int fold_into(const struct directnfs_stats *stats, struct directnfs_stats *ended)
{
    char path[HOST_RUN_PATH_MAX];
    int error = host_run_path(path, "stats.ended");
    if (!error)
        error = host_stats_read_raw(path, ended);
    if (error == -EBADMSG || error == -EAGAIN || error == -EPERM)
        log_warning("the statistics of ended processes in %s are unusable: starting again", path);
    else if (error && error != -ENOENT)
        return error;
    if (error) {
        memset(ended, 0, sizeof(*ended));
        ended->magic = DIRECTNFS_STATS_MAGIC;
        ended->layout = DIRECTNFS_STATS_LAYOUT;
        ended->size = sizeof(*ended);
    }
    if (host_stats_added(ended, stats))
        return 0;
    if (!error)
        remove_last(ended);
    host_stats_add_counters(&ended->counters, &stats->counters);
    host_stats_add_paths(ended, stats);
    if (stats->file_count || !ended->file_count)
        take_tables(ended, stats);
    ended->processes++;
    ended->last_pid = stats->pid;
    ended->last_starttime = stats->starttime;
    ended->last_started_ns = stats->started_ns;
    return replace_ended(path, ended);
}

int host_stats_fold(const struct host_identity *process, const struct directnfs_stats *stats)
{
    char path[HOST_RUN_PATH_MAX];
    int error = host_stats_segment_path(path, process);
    int fd = error ? error : host_stats_lock();
    if (fd < 0)
        return fd;
    struct directnfs_stats *ended = host_stats_allocate(), *copy = host_stats_allocate();
    error = ended && copy ? 0 : -ENOMEM;
    if (!error && stats) {
        host_stats_copy_used(copy, stats);
    } else if (!error) {
        error = host_stats_read_raw(path, copy);
        if (!error && (copy->pid != process->pid || copy->starttime != process->starttime))
            error = -EBADMSG;
        if (error == -EAGAIN || error == -EBADMSG)
            sys_unlink(path); /* died while making it; or nobody's */
    }
    if (!error)
        error = fold_into(copy, ended);
    if (!error)
        error = sys_unlink(path);
    host_stats_release(copy);
    host_stats_release(ended);
    host_stats_unlock(fd);
    return error;
}

/* Of another pid namespace the pid says nothing. */
static bool may_reap(const struct host_identity *process, struct directnfs_stats *scratch)
{
    char path[HOST_RUN_PATH_MAX];
    if (host_identity_alive(process) || host_stats_segment_path(path, process) != 0)
        return false;
    return host_stats_read_raw(path, scratch) != 0 ||
           scratch->pid_namespace == host_pid_namespace();
}

void host_stats_reap(void)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
    } * entry;
    char path[HOST_RUN_PATH_MAX], buffer[4096] __attribute__((aligned(8)));
    struct host_identity process;
    struct directnfs_stats *scratch = host_stats_allocate();
    int fd = host_run_path(path, "") ? -1 : sys_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    ssize_t length;
    while (scratch && fd >= 0 && (length = sys_getdents64(fd, buffer, sizeof(buffer))) > 0) {
        for (ssize_t at = 0; at < length; at += entry->length) {
            entry = (struct entry *)(buffer + at);
            if (host_stats_parse_name(entry->name, &process) && may_reap(&process, scratch))
                host_stats_fold(&process, NULL);
        }
    }
    if (fd >= 0)
        sys_close(fd);
    host_stats_release(scratch);
}

void host_stats_reap_at_start(void)
{
    char path[HOST_RUN_PATH_MAX];
    struct stat status;
    struct timespec now;
    sys_clock_gettime(CLOCK_REALTIME, &now);
    if (host_run_path(path, "stats.lock") == 0 &&
        sys_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        if (status.st_mtim.tv_sec <= now.tv_sec && status.st_mtim.tv_sec >= now.tv_sec - 1)
            return;
        sys_call4(SYS_utimensat, AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
    }
    host_stats_reap();
}
