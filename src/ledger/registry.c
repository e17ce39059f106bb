#include "ledger/store/pocket.h"
#include "ledger/cache.h"
#include "ledger/store/hold.h"
#include "ledger/store/left.h"
#include "ledger/store/processes.h"
#include "ledger/store/touch.h"
#include "ledger/world.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "run/identity.h"
#include "run/directory.h"
#include "run/log_limit.h"
#include "ledger/registry.h"

#define NAME "registry"

enum {
    ATTEMPTS = 400, /* of 5 ms */
    PATIENT = 200,
    SAY_EVERY_S = 60
};

bool ledger_registry_ready(void)
{
    return ledger_map.shared != NULL;
}

bool ledger_registry_was_gone(void)
{
    return ledger_map_is_gone();
}

/* The program may have closed the descriptor, and have another file with its number. */
static bool is_removed(void)
{
    struct stat status;
    return sys_fstat(ledger_map.fd, &status) == 0 && status.st_nlink == 0 &&
           status.st_dev == ledger_map.device && status.st_ino == ledger_map.inode;
}

bool ledger_registry_is_gone(void)
{
    uint64_t ticks = sys_ticks();
    if (__atomic_load_n(&ledger_map.looked, __ATOMIC_RELAXED) == ticks)
        return ledger_registry_was_gone();
    __atomic_store_n(&ledger_map.looked, ticks, __ATOMIC_RELAXED);
    if (ledger_registry_ready() && !ledger_registry_was_gone() && is_removed())
        __atomic_store_n(&ledger_map.gone, true, __ATOMIC_RELEASE);
    return ledger_registry_was_gone();
}

static int make_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (!error)
        error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (!error)
        error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (!error)
        error = pthread_mutex_init(mutex, &attributes);
    return -error;
}

/* How the registry is opened, and by which process. */
struct opening {
    int run;
    uint64_t uncommitted_max;
    uint64_t boot, namespaces;
    bool patient; /* it will try again */
};

/* Fills a new registry. All else in it is zero already. */
static int make_header(const struct opening *opening, struct ledger_shared *shared,
                       struct ledger_counts counts)
{
    uint64_t at[LEDGER_PARTS];
    shared->head = (struct ledger_head){
        .layout = LEDGER_REGISTRY_LAYOUT,
        .header_size = sizeof(struct ledger_shared),
        .boot_id = opening->boot,
        .namespaces = opening->namespaces,
        .sums_at = offsetof(struct ledger_shared, stripes),
        .sum_count = LEDGER_STRIPES,
        .sum_step = sizeof(struct ledger_stripe),
        .sum_offset = offsetof(struct ledger_stripe, uncommitted),
    };
    shared->chunk_count = counts.chunks;
    shared->record_count = counts.records;
    shared->bucket_count = counts.buckets;
    shared->group_count = counts.groups;
    shared->total_size = ledger_map_lay_out(counts, at);
    shared->process_count = 1;
    shared->process_cursor = 1;
    shared->next_chunk = shared->next_record = 1;
    int result = make_mutex(&shared->process_lock);
    if (!result)
        result = make_mutex(&shared->arena_lock);
    if (!result)
        result = make_mutex(&shared->agent.lock);
    for (int i = 0; i < LEDGER_STRIPES && !result; i++)
        result = make_mutex(&shared->stripes[i].lock);
    for (int i = 0; i < LEDGER_STRIPES && !result; i++)
        result = make_mutex(&shared->flags_locks[i]);
    for (int i = 0; i < LEDGER_CACHE_LOCKS && !result; i++)
        result = make_mutex(&shared->cache_locks[i]);
    shared->head.magic = LEDGER_REGISTRY_MAGIC;
    return result;
}

/* Makes a registry under another name, and links it into place. The first process wins. */
static int create(const struct opening *opening)
{
    int run = opening->run;
    char temporary[32];
    uint64_t at[LEDGER_PARTS], wanted = opening->uncommitted_max / LEDGER_CHUNK + 1;
    struct ledger_counts counts = {.buckets = 16, .groups = ledger_cache_groups()};
    counts.chunks = wanted < LEDGER_CHUNKS_MIN   ? LEDGER_CHUNKS_MIN
                    : wanted > LEDGER_CHUNKS_MAX ? LEDGER_CHUNKS_MAX
                                                 : (uint32_t)wanted;
    counts.records = counts.chunks + LEDGER_RECORDS_EXTRA;
    while (counts.buckets * LEDGER_STRIPES < counts.records)
        counts.buckets *= 2;
    uint64_t size = ledger_map_lay_out(counts, at);

    snprintf(temporary, sizeof(temporary), NAME ".new.%d", (int)sys_gettid());
    sys_unlinkat(run, temporary, 0);
    int fd = run_open_file(run, temporary, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    int result = (int)sys_call2(SYS_fchmod, fd, 0600);
    if (!result)
        result = sys_fd_lengthen(fd, (off_t)size);
    if (!result)
        result = sys_fd_reserve(fd, 0, at[4]);
    if (!result) {
        void *memory = sys_mmap(NULL, at[4], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (sys_mmap_failed(memory)) {
            result = (int)(long)memory;
        } else {
            result = make_header(opening, memory, counts);
            sys_munmap(memory, at[4]);
        }
    }
    if (!result)
        result = (int)sys_call5(SYS_linkat, run, temporary, run, NAME, 0);
    sys_unlinkat(run, temporary, 0);
    sys_close(fd);
    return result == -EEXIST ? 0 : result;
}

static int lock_file(int fd, int operation)
{
    int result;
    do
        result = (int)sys_call2(SYS_flock, fd, operation);
    while (result == -EINTR);
    return result;
}

static bool same_file(int fd, int run)
{
    struct stat open, named;
    return sys_fstat(fd, &open) == 0 && sys_fstatat(run, NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/* Sets aside a registry that no version can use any more. No process has it open. */
static int set_aside(int run, const char *text)
{
    char aside[64], path[RUN_PATH_MAX];
    snprintf(aside, sizeof(aside), NAME ".unusable.%d.%llu", (int)sys_gettid(),
             (unsigned long long)sys_now_ns());
    int result = sys_renameat2(run, NAME, run, aside, 0);
    if (result)
        log_error("the registry in %s %s; it cannot be set aside: %s", run_name(path), text,
                  strerror(-result));
    else
        log_error("the registry in %s %s; it is set aside as %s, and what it may hold is lost; "
                  "'directnfs flush --discard-registry' removes it",
                  run_name(path), text, aside);
    return result;
}

/* What keeps processes from using the registry is logged by one of them, once in a while. */
static bool may_say(const char *what)
{
    char subject[64];
    snprintf(subject, sizeof(subject), "registry: %s", what);
    return run_may_say(subject, SAY_EVERY_S);
}

/*
 * This process cannot use the registry. 0: there is room for another one now. If a process of the
 * registry's own version could still send its data, it stays where it is.
 */
static int replace(int run, const struct ledger_left *left)
{
    char path[RUN_PATH_MAX], text[LEDGER_LEFT_TEXT];
    ledger_left_text(left, text);
    if (ledger_left_is_empty(left)) {
        log_notice("the registry in %s %s; it is removed", run_name(path), text);
        return sys_unlinkat(run, NAME, 0);
    }
    if (left->what != LEDGER_LEFT_OTHER_LAYOUT)
        return set_aside(run, text);
    if (may_say("left"))
        log_error("the registry in %s %s; it stays, and the kernel serves the files: run "
                  "'directnfs flush' of that version, or give the data up by 'directnfs flush "
                  "--discard-registry'",
                  run_name(path), text);
    return -EUCLEAN;
}

/* Opens the file, with a shared flock() on it. A descriptor; -EAGAIN: try again. */
static int open_file(const struct opening *opening)
{
    int run = opening->run, fd = run_open_file(run, NAME, O_RDWR);
    if (fd == -ENOENT) {
        /* Perhaps the registry was removed: its processes get time to see that, and to leave it. */
        int result = opening->patient && run_is_used() ? -EAGAIN : create(opening);
        return result ? result : -EAGAIN;
    }
    if (fd == -EBADMSG) {
        int result = set_aside(run, "is not a regular file");
        return result ? result : -EAGAIN;
    }
    if (fd < 0)
        return fd;
    if (lock_file(fd, LOCK_SH | LOCK_NB) != 0 || !same_file(fd, run)) {
        sys_close(fd);
        return -EAGAIN;
    }
    return fd;
}

static int map_file(int fd, uint64_t size)
{
    struct stat status;
    int error = sys_fstat(fd, &status);
    if (error)
        return error;
    void *memory = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sys_mmap_failed(memory))
        return (int)(long)memory;
    ledger_map.device = status.st_dev;
    ledger_map.inode = status.st_ino;
    ledger_map_set(memory, sys_fd_protect(fd));
    int mark = run_use();
    ledger_map.mark = mark < 0 ? mark : sys_fd_protect(mark);
    ledger_touch_begin(ledger_map.shared->chunk_count);
    return 0;
}

static int in_use(const struct ledger_left *left)
{
    char path[RUN_PATH_MAX], text[LEDGER_LEFT_TEXT];
    if (left->what == LEDGER_LEFT_USABLE && may_say("namespace"))
        log_error("the registry in %s is in use in another pid or time namespace (container): set "
                  "DIRECTNFS_RUN to another directory",
                  run_name(path));
    else if (left->what != LEDGER_LEFT_USABLE && may_say("used"))
        log_error("the registry in %s %s, and processes use it: end them, or set DIRECTNFS_RUN to "
                  "another directory",
                  run_name(path), ledger_left_text(left, text));
    return -EBUSY;
}

static bool is_ours(const struct opening *opening, const struct ledger_left *left)
{
    return left->what == LEDGER_LEFT_USABLE && left->namespaces == opening->namespaces;
}

/* All processes of the registry are dead, whatever namespace they were in. This process takes it
 * over. */
static void take_over(const struct opening *opening)
{
    ledger_process_sweep_all();
    atomic_store(&ledger_map.shared->head.namespaces, opening->namespaces);
    lock_file(ledger_map.fd, LOCK_SH);
}

static int use_file(const struct opening *opening, int fd)
{
    struct ledger_left left;
    int result = ledger_left_look(fd, &left);
    if (result == 0 && !is_ours(opening, &left)) /* what it holds counts, too */
        result = ledger_left_examine(fd, &left);
    if (result)
        return result;
    bool alone = !is_ours(opening, &left) && lock_file(fd, LOCK_EX | LOCK_NB) == 0;
    if (!alone && !is_ours(opening, &left))
        return in_use(&left);
    /* Now no process changes it. */
    if (alone && (!same_file(fd, opening->run) || ledger_left_examine(fd, &left) != 0))
        return -EAGAIN;
    if (left.what != LEDGER_LEFT_USABLE) {
        result = replace(opening->run, &left);
        return result ? result : -EAGAIN;
    }
    result = map_file(fd, left.size);
    if (!result && alone)
        take_over(opening);
    return result;
}

static int try_open(const struct opening *opening)
{
    int fd = open_file(opening);
    if (fd < 0)
        return fd;
    int result = use_file(opening, fd);
    if (result)
        sys_close(fd);
    return result;
}

static int open_at(struct opening *opening)
{
    int result = -EAGAIN;
    for (int i = 0; i < ATTEMPTS && result == -EAGAIN; i++) {
        if (i > 2)
            sys_nanosleep_ms(5);
        opening->patient = i < PATIENT;
        result = try_open(opening);
    }
    return result;
}

static void unmap(struct ledger_map *map)
{
    sys_munmap(map->shared, map->shared->total_size);
    sys_fd_close(map->fd);
    sys_fd_close(map->mark);
}

int ledger_registry_open(uint64_t uncommitted_max, uint64_t hold_ns)
{
    if (ledger_registry_ready())
        return 0;
    static _Atomic int said; /* the last failure, which is not logged again */
    char path[RUN_PATH_MAX];
    ledger_hold_set(hold_ns);
    /* First, as there may be no descriptor left for it later. */
    struct opening opening = {
        .uncommitted_max = uncommitted_max, .boot = run_boot_id(), .namespaces = run_namespaces()};
    opening.run = run_make();
    if (opening.run < 0)
        return opening.run;
    int result = opening.boot && opening.namespaces ? ledger_world_open() : -ENODATA;
    if (!result)
        result = open_at(&opening);
    if (!result)
        result = ledger_world_open(); /* a second time, as open_at() may have taken long */
    run_close(opening.run);
    if (!result && ledger_process_slot() == 0)
        result = -EUSERS;
    if (result && result != -EBUSY && result != -EUCLEAN && result != said)
        log_error("cannot open the registry in %s: %s%s", run_name(path),
                  result == -EUSERS    ? "no room for another process"
                  : result == -ENODATA ? "whether it is of this boot and namespace is not known"
                                       : strerror(-result),
                  result == -EUSERS ? ", or /proc cannot be read, or is that of another pid "
                                      "namespace; end some, set DIRECTNFS_RUN, or mount /proc"
                  : result == -ENODATA
                      ? ", as /proc cannot be read; mount it, or raise the limit of "
                        "descriptors (LimitNOFILE= in the systemd unit, ulimit -n)"
                  : result == -ENOSPC ? "; make room there, or set DIRECTNFS_RUN"
                  : result == -EFBIG  ? "; raise the limit of file sizes (LimitFSIZE= in the "
                                        "systemd unit, ulimit -f)"
                  : result == -ENOMEM ? "; raise the limit of address space (ulimit -v), or lower "
                                        "uncommitted_max for all processes"
                                      : "");
    said = result;
    if (result && ledger_registry_ready()) {
        struct ledger_map map = ledger_map;
        ledger_map.shared = NULL;
        unmap(&map);
    }
    return result;
}

int ledger_registry_move(uint64_t uncommitted_max, uint64_t hold_ns)
{
    struct ledger_map old = ledger_map;
    ledger_pocket_empty();
    uint32_t slot = ledger_process_exchange(0);
    ledger_map = (struct ledger_map){.fd = -1, .mark = -1};
    int result = ledger_registry_open(uncommitted_max, hold_ns);
    struct ledger_map moved = ledger_map;
    uint32_t moved_slot = ledger_process_exchange(slot);
    ledger_map = old;
    if (result)
        return result;
    ledger_process_leave();
    unmap(&old);
    ledger_map = moved;
    ledger_process_exchange(moved_slot);
    return 0;
}

bool ledger_registry_exists(void)
{
    struct stat status;
    if (ledger_registry_ready())
        return true;
    int run = run_open();
    bool exists = run >= 0 && sys_fstatat(run, NAME, &status, AT_SYMLINK_NOFOLLOW) == 0;
    run_close(run);
    return exists;
}

void ledger_registry_after_fork(void)
{
    ledger_pocket_after_fork();
    ledger_world_after_fork();
    ledger_process_exchange(0);
}
