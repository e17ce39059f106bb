/*
 * The file holds two tables. The lowest bit of the generation names the valid one. A writer, alone
 * by flock(), fills the other one, and then counts the generation up. So a writer that dies in the
 * middle has changed nothing. A reader that sees one generation before and after knows that nobody
 * wrote what it read.
 */
#include "run/offline.h"

#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "run/directory.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"

#define NAME  "paths"
#define MAGIC UINT64_C(0x6874617053464e44) /* "DNFSpath" in memory */

enum { LAYOUT = 1, LOCK_ATTEMPTS = 100, LOCK_PAUSE_MS = 5, READ_ATTEMPTS = 100 };

#define SECOND_NS     UINT64_C(1000000000)
#define LOOK_EVERY_NS (2 * SECOND_NS)

struct table {
    uint32_t count;
    uint32_t spare;
    struct run_offline paths[RUN_OFFLINE_MAX];
};

struct head {
    uint64_t magic;
    uint32_t layout;
    uint32_t size; /* of the file */
    _Atomic uint32_t generation;
    uint32_t spare;
};

struct file {
    struct head head;
    struct table tables[2];
};

static const _Atomic uint32_t nothing_said;
_Atomic(const _Atomic uint32_t *) run_offline_word = &nothing_said;

static _Atomic bool opened;
static const struct file *_Atomic mapped;

/* ---- the file ---- */

static int read_all(int fd, void *data, size_t size, size_t offset)
{
    ssize_t got;
    do
        got = sys_pread(fd, data, size, (off_t)offset);
    while (got == -EINTR);
    return got < 0 ? (int)got : (size_t)got == size ? 0 : -EBADMSG;
}

/* 0 or -errno. -EBADMSG: it is no file of ours, or only a part. -EPROTO: it has another layout. */
static int examine(int fd, struct head *head)
{
    struct stat status;
    int error = read_all(fd, head, sizeof(*head), 0);
    if (!error)
        error = sys_fstat(fd, &status);
    if (error)
        return error;
    if (head->magic != MAGIC)
        return -EBADMSG;
    if (head->layout != LAYOUT || head->size != sizeof(struct file))
        return -EPROTO;
    return status.st_size == sizeof(struct file) ? 0 : -EBADMSG;
}

/* Maps the file. */
static int map(int fd, int protection, struct file **file)
{
    struct head head;
    int error = examine(fd, &head);
    if (error)
        return error;
    *file = sys_mmap(NULL, sizeof(struct file), protection, MAP_SHARED, fd, 0);
    return sys_mmap_failed(*file) ? (int)(long)*file : 0;
}

static bool is_text(const char *field, size_t size)
{
    return field[0] != '\0' && memchr(field, '\0', size) != NULL;
}

static bool is_valid(const struct table *table)
{
    if (table->count > RUN_OFFLINE_MAX)
        return false;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct run_offline *path = &table->paths[i];
        if (!is_text(path->server, sizeof(path->server)) ||
            !is_text(path->peer, sizeof(path->peer)) ||
            !memchr(path->local, '\0', sizeof(path->local)))
            return false;
    }
    return true;
}

/* Makes a table valid, and wakes the processes that wait for the next generation. */
static void store(struct file *file, const struct table *table, uint32_t generation)
{
    file->tables[generation & 1] = *table;
    atomic_store(&file->head.generation, generation);
    sys_futex(&file->head.generation, FUTEX_WAKE, INT32_MAX, NULL);
}

/* Makes the file anew. Processes may have it mapped, so it is put in order in place. All of its
 * memory is reserved before: a page that is missing while /dev/shm is full would kill them. */
static int begin_anew(int fd)
{
    static const struct table none;
    const struct head head = {.magic = MAGIC, .layout = LAYOUT, .size = sizeof(struct file)};
    struct stat status;
    uint32_t generation = 0;
    int error = sys_fstat(fd, &status);
    if (!error)
        error = (int)sys_call2(SYS_fchmod, fd, 0600);
    if (!error)
        error = sys_fd_lengthen(fd, sizeof(struct file));
    if (!error)
        error = sys_fd_reserve(fd, 0, sizeof(struct file));
    if (error)
        return error;
    struct file *file = sys_mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sys_mmap_failed(file))
        return (int)(long)file;
    if (status.st_size) {
        /* Another one than is there now, and than it may have been before the damage. */
        generation = (uint32_t)(sys_now_ns() / 1000);
        generation += generation == file->head.generation || generation == 0 ? 2 : 0;
        log_warning("the file `paths` in the run directory was damaged and is begun anew: no path "
                    "is offline any more");
    }
    store(file, &none, generation);
    memcpy(&file->head, &head, offsetof(struct head, generation));
    sys_munmap(file, sizeof(*file));
    return 0;
}

static int lock_file(int fd)
{
    int error = 0;
    for (int i = 0; i < LOCK_ATTEMPTS; i++) {
        if (i)
            sys_nanosleep_ms(LOCK_PAUSE_MS);
        error = (int)sys_call2(SYS_flock, fd, LOCK_EX | LOCK_NB);
        if (error != -EAGAIN && error != -EINTR)
            return error;
    }
    return -ETIMEDOUT;
}

/* Unlocks first. close() alone would keep the lock while the file is mapped, or while a child that
 * was just forked has it open. */
static void close_locked(int fd)
{
    sys_call2(SYS_flock, fd, LOCK_UN);
    sys_close(fd);
}

/* Opens the file for writing, alone, mends it, and maps it. Returns a descriptor or -errno. */
static int open_locked(int run, struct file **file)
{
    const int protection = PROT_READ | PROT_WRITE;
    int fd = run_open_file(run, NAME, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    int error = lock_file(fd);
    if (!error)
        error = map(fd, protection, file);
    if (!error && !is_valid(&(*file)->tables[(*file)->head.generation & 1])) {
        sys_munmap(*file, sizeof(**file));
        error = -EBADMSG;
    }
    if (error == -EBADMSG) {
        error = begin_anew(fd);
        if (!error)
            error = map(fd, protection, file);
    }
    if (error)
        close_locked(fd);
    return error ? error : fd;
}

/* ---- in processes that use paths ---- */

static int open_and_map(int run, struct file **file)
{
    int fd = run_open_file(run, NAME, O_RDONLY);
    int error = fd < 0 ? fd : map(fd, PROT_READ, file);
    if (fd >= 0)
        sys_close(fd);
    return error;
}

static int map_file(int run)
{
    struct file *file;
    int error = open_and_map(run, &file);
    if (error == -ENOENT || error == -EBADMSG) {
        int fd = open_locked(run, &file);
        if (fd < 0)
            return fd;
        sys_munmap(file, sizeof(*file));
        close_locked(fd);
        error = open_and_map(run, &file);
    }
    if (error)
        return error;
    atomic_store(&mapped, file);
    atomic_store(&run_offline_word, &file->head.generation);
    return 0;
}

void run_offline_open(void)
{
    int run = atomic_exchange(&opened, true) ? -1 : run_make();
    if (run < 0)
        return;
    int error = map_file(run);
    run_close(run);
    if (error == -EPROTO)
        log_warning("the file `paths` in the run directory is of another version of directnfs: "
                    "paths cannot be taken offline in this process; remove the file when no "
                    "process of the other version runs, or set DIRECTNFS_RUN");
    else if (error)
        log_warning("paths cannot be taken offline in this process: the file `paths` in the run "
                    "directory cannot be used: %s",
                    strerror(-error));
}

void run_offline_move(void)
{
    /* The old mapping stays: a thread of ours may sleep on it. */
    if (atomic_exchange(&opened, false))
        run_offline_open();
}

/* The field is in shared memory and may hold anything. `text` may be too long for it: false
 * then. */
static bool same(const char *field, const char *text, size_t size)
{
    return strncmp(field, text, size) == 0 && strlen(text) < size;
}

static bool is_of(const struct run_offline *path, const char *server, const char *peer)
{
    return same(path->server, server, sizeof(path->server)) &&
           same(path->peer, peer, sizeof(path->peer));
}

static bool covers(const struct table *table, const char *server, const char *peer,
                   const char *local)
{
    uint32_t count = *(const volatile uint32_t *)&table->count;
    for (uint32_t i = 0; i < count && i < RUN_OFFLINE_MAX; i++) {
        const struct run_offline *path = &table->paths[i];
        if (is_of(path, server, peer) &&
            (path->local[0] == '\0' || same(path->local, local, sizeof(path->local))))
            return true;
    }
    return false;
}

bool run_is_offline(const char *server, const char *peer, const char *local)
{
    const struct file *file = atomic_load(&mapped);
    bool offline = false;
    /* If the generation changes all the time, any answer will do in the end. */
    for (int i = 0; file && i < READ_ATTEMPTS; i++) {
        uint32_t generation = atomic_load(&file->head.generation);
        offline = covers(&file->tables[generation & 1], server, peer, local ? local : "");
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&file->head.generation) == generation)
            break;
    }
    return offline;
}

void run_offline_wait(_Atomic uint32_t *word, uint32_t value, uint32_t generation,
                      uint64_t limit_ns)
{
    const struct file *file = atomic_load(&mapped);
    uint64_t until_ns = sys_now_ns() + limit_ns;
    const struct futex_waitv words[] = {
        {.val = value, .uaddr = (uintptr_t)word, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
        {.val = generation,
         .uaddr = (uintptr_t)(file ? &file->head.generation : NULL),
         .flags = FUTEX_32}};
    struct timespec until = {(time_t)(until_ns / SECOND_NS), (long)(until_ns % SECOND_NS)};
    static _Atomic bool refused; /* by an old kernel, or by a filter of system calls */
    int error = refused ? -ENOSYS : sys_futex_wait_any(words, file ? 2 : 1, &until);
    if (error != -ENOSYS && error != -EPERM)
        return;
    refused = true;
    if (file && limit_ns > LOOK_EVERY_NS)
        limit_ns = LOOK_EVERY_NS;
    struct timespec limit = {(time_t)(limit_ns / SECOND_NS), (long)(limit_ns % SECOND_NS)};
    sys_futex(word, FUTEX_WAIT_PRIVATE, value, &limit);
}

/* ---- for the command ---- */

static bool fits(char *field, size_t size, const char *text)
{
    return snprintf(field, size, "%s", text) < (int)size;
}

/* Removes the path; with every local address if `local` is empty. True: there was one. */
static bool forget(struct table *table, const char *server, const char *peer, const char *local)
{
    uint32_t kept = 0, count = table->count;
    for (uint32_t i = 0; i < count; i++) {
        const struct run_offline *path = &table->paths[i];
        bool gone = is_of(path, server, peer) &&
                    (local[0] == '\0' || same(path->local, local, sizeof(path->local)));
        if (!gone && kept++ != i)
            table->paths[kept - 1] = *path;
    }
    table->count = kept;
    return kept != count;
}

/* 1: the table was changed; 0: there was nothing to do; or -errno. */
static int change(struct table *table, const struct run_offline *path, bool offline)
{
    bool covered = covers(table, path->server, path->peer, path->local);
    if (offline) {
        if (covered)
            return 0;
        forget(table, path->server, path->peer, path->local);
        if (table->count == RUN_OFFLINE_MAX)
            return -ENOSPC;
        table->paths[table->count++] = *path;
        return 1;
    }
    bool forgotten = forget(table, path->server, path->peer, path->local);
    if (covers(table, path->server, path->peer, path->local))
        return -EBUSY;
    return forgotten;
}

int run_offline_set(const char *server, const char *peer, const char *local, bool offline)
{
    struct file *file;
    struct timespec now;
    sys_clock_gettime(CLOCK_REALTIME, &now);
    struct run_offline path = {.since_ns =
                                   (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec};
    if (!fits(path.server, sizeof(path.server), server) ||
        !fits(path.peer, sizeof(path.peer), peer) ||
        !fits(path.local, sizeof(path.local), local ? local : ""))
        return -ENAMETOOLONG;
    if (!path.server[0] || !path.peer[0])
        return -EINVAL;
    int run = run_make();
    int fd = run < 0 ? run : open_locked(run, &file);
    run_close(run);
    if (fd < 0)
        return fd;
    uint32_t generation = file->head.generation;
    /* Only the copy counts: the file's owner may change the file, and root does not trust the
     * owner. */
    struct table table = file->tables[generation & 1];
    int changed = is_valid(&table) ? change(&table, &path, offline) : -EBADMSG;
    if (changed > 0)
        store(file, &table, generation + 1 ? generation + 1 : 2);
    sys_munmap(file, sizeof(*file));
    close_locked(fd);
    return changed < 0 ? changed : 0;
}

/* read(), not mmap(): a file that shrinks meanwhile must not cause a SIGBUS. */
static int read_table(int fd, struct table *table)
{
    struct head head, after;
    int error = examine(fd, &head);
    for (int i = 0; !error && i < READ_ATTEMPTS; i++, head = after) {
        size_t at = offsetof(struct file, tables) + (head.generation & 1) * sizeof(*table);
        error = read_all(fd, table, sizeof(*table), at);
        if (!error)
            error = read_all(fd, &after, sizeof(after), 0);
        if (!error && after.generation == head.generation)
            return is_valid(table) ? 0 : -EBADMSG;
    }
    return error ? error : -EAGAIN;
}

int run_offline_read(struct run_offline paths[RUN_OFFLINE_MAX])
{
    struct table table;
    int run = run_open();
    int fd = run < 0 ? run : run_open_file(run, NAME, O_RDONLY);
    run_close(run);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int error = read_table(fd, &table);
    sys_close(fd);
    if (error)
        return error;
    memcpy(paths, table.paths, table.count * sizeof(*paths));
    return (int)table.count;
}
