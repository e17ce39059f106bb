#include "ledger/arena.h"
#include "ledger/cache.h"
#include "ledger/hold.h"
#include "ledger/processes.h"
#include "ledger/touch.h"
#include "ledger/world.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "run/identity.h"
#include "run/directory.h"
#include "ledger/registry.h"

#define NAME "registry"

enum {
    PAGE = 4096,
    CHUNKS_MIN = 256,
    CHUNKS_MAX = 1 << 22,
    RECORDS_EXTRA = 16384, /* for writes without chunks, and for halves of split records */
    ATTEMPTS = 200,
    PARTS = 9
};

struct ledger_map ledger_map = {.fd = -1};

bool ledger_registry_ready(void)
{
    return ledger_map.shared != NULL;
}

static uint64_t align_page(uint64_t value)
{
    return (value + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* What there is room for. */
struct counts {
    uint32_t chunks, records, buckets, groups;
};

static struct counts counts_of(const struct ledger_shared *head)
{
    return (struct counts){head->chunk_count, head->record_count, head->bucket_count,
                           head->group_count};
}

/* Where the parts are in a file with these counts. Returns its size. */
static uint64_t lay_out(struct counts counts, uint64_t at[PARTS])
{
    uint64_t chunks = counts.chunks, records = counts.records, groups = counts.groups;
    at[0] = align_page(sizeof(struct ledger_shared));
    at[1] = at[0] +
            align_page((uint64_t)LEDGER_STRIPES * counts.buckets * sizeof(struct ledger_bucket));
    at[2] = at[1] + align_page(chunks * sizeof(uint32_t));
    at[3] = at[2] + align_page(records * sizeof(uint32_t));
    at[4] = at[3] + align_page(chunks * sizeof(uint16_t));
    at[5] = at[4] + (uint64_t)LEDGER_FILES * sizeof(struct ledger_entry);
    at[6] = at[5] + align_page(records * sizeof(struct ledger_record));
    at[7] = align_page(at[6] + chunks * LEDGER_CHUNK);
    at[8] = at[7] + groups * LEDGER_GROUP_FRAMES * sizeof(struct ledger_frame);
    return at[8] + groups * LEDGER_GROUP;
}

uint64_t ledger_registry_entries_at(const struct ledger_shared *shared)
{
    uint64_t at[PARTS];
    lay_out(counts_of(shared), at);
    return at[4];
}

int ledger_registry_back(uint64_t offset, uint64_t length)
{
    int result = sys_fd_reserve(ledger_map.fd, offset, length);
    return result ? -ENOSPC : 0;
}

static void set_map(struct ledger_shared *shared, int fd)
{
    uint64_t at[PARTS];
    uint8_t *base = (uint8_t *)shared;
    lay_out(counts_of(shared), at);
    ledger_map.buckets = (struct ledger_bucket *)(base + at[0]);
    ledger_map.free_chunks = (uint32_t *)(base + at[1]);
    ledger_map.free_records = (uint32_t *)(base + at[2]);
    ledger_map.chunk_users = (uint16_t *)(base + at[3]);
    ledger_map.entries = (struct ledger_entry *)(base + at[4]);
    ledger_map.records = (struct ledger_record *)(base + at[5]);
    ledger_map.chunks = base + at[6];
    ledger_map.entries_at = at[4];
    ledger_map.records_at = at[5];
    ledger_map.chunks_at = at[6];
    ledger_map.frames = (struct ledger_frame *)(base + at[7]);
    ledger_map.frame_bytes = base + at[8];
    ledger_map.frames_at = at[7];
    ledger_map.frame_bytes_at = at[8];
    ledger_map.fd = fd;
    __atomic_store_n(&ledger_map.shared, shared, __ATOMIC_RELEASE);
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

/* Fills a new registry. All else in it is zero already. */
static int make_header(struct ledger_shared *shared, struct counts counts)
{
    uint64_t at[PARTS];
    shared->layout = LEDGER_REGISTRY_LAYOUT;
    shared->header_size = sizeof(struct ledger_shared);
    shared->chunk_count = counts.chunks;
    shared->record_count = counts.records;
    shared->bucket_count = counts.buckets;
    shared->group_count = counts.groups;
    shared->total_size = lay_out(counts, at);
    shared->boot_id = run_boot_id();
    shared->namespaces = run_namespaces();
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
    shared->magic = LEDGER_REGISTRY_MAGIC;
    return result;
}

/* Builds a registry under another name and links it into place: whoever is first wins. */
static int create(int run, uint64_t uncommitted_max)
{
    char temporary[32];
    uint64_t at[PARTS], wanted = uncommitted_max / LEDGER_CHUNK + 1;
    struct counts counts = {.buckets = 16, .groups = ledger_cache_groups()};
    counts.chunks = wanted < CHUNKS_MIN   ? CHUNKS_MIN
                    : wanted > CHUNKS_MAX ? CHUNKS_MAX
                                          : (uint32_t)wanted;
    counts.records = counts.chunks + RECORDS_EXTRA;
    while (counts.buckets * LEDGER_STRIPES < counts.records)
        counts.buckets *= 2;
    uint64_t size = lay_out(counts, at);

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
            result = make_header(memory, counts);
            sys_munmap(memory, at[4]);
        }
    }
    if (!result)
        result = (int)sys_call5(SYS_linkat, run, temporary, run, NAME, 0);
    sys_unlinkat(run, temporary, 0);
    sys_close(fd);
    return result == -EEXIST ? 0 : result;
}

/* NULL if the file is a registry that this program can use, else what is wrong with it. */
static const char *examine(int fd, struct ledger_shared *head)
{
    struct stat status;
    uint64_t at[PARTS];
    size_t wanted = offsetof(struct ledger_shared, process_lock);
    memset(head, 0, wanted);
    if (sys_fstat(fd, &status) != 0 || sys_pread(fd, head, wanted, 0) != (ssize_t)wanted ||
        head->magic != LEDGER_REGISTRY_MAGIC)
        return "is not a registry";
    if (head->layout != LEDGER_REGISTRY_LAYOUT || head->header_size != sizeof(struct ledger_shared))
        return "is of another version of directnfs";
    if (head->chunk_count < CHUNKS_MIN || head->chunk_count > CHUNKS_MAX ||
        head->record_count != head->chunk_count + RECORDS_EXTRA || head->bucket_count < 16 ||
        head->bucket_count > (1u << 24) || (head->bucket_count & (head->bucket_count - 1)) ||
        head->group_count > LEDGER_GROUPS_MAX || head->total_size != lay_out(counts_of(head), at) ||
        (uint64_t)status.st_size != head->total_size)
        return "is damaged";
    if (head->boot_id != run_boot_id())
        return "is of before the last boot";
    return NULL;
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

static void set_aside(int run, const char *reason)
{
    char aside[64], path[RUN_PATH_MAX];
    snprintf(aside, sizeof(aside), NAME ".unusable.%d.%llu", (int)sys_gettid(),
             (unsigned long long)sys_now_ns());
    int result = sys_renameat2(run, NAME, run, aside, 0);
    if (result)
        log_error("the registry in %s %s and cannot be set aside: %s", run_name(path), reason,
                  strerror(-result));
    else
        log_warning(
            "the registry in %s %s and no process uses it: set aside as %s (remove it at will)",
            run_name(path), reason, aside);
}

/* Opens the file, with a shared flock() on it. A descriptor; -EAGAIN: try again. */
static int open_file(int run, uint64_t uncommitted_max)
{
    int fd = run_open_file(run, NAME, O_RDWR);
    if (fd == -ENOENT) {
        int result = create(run, uncommitted_max);
        return result ? result : -EAGAIN;
    }
    if (fd == -EBADMSG) {
        set_aside(run, "is not a regular file");
        return -EAGAIN;
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
    void *memory = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sys_mmap_failed(memory))
        return (int)(long)memory;
    set_map(memory, sys_fd_protect(fd));
    ledger_touch_begin(ledger_map.shared->chunk_count);
    return 0;
}

static int try_open(int run, uint64_t uncommitted_max, struct ledger_shared *head)
{
    char path[RUN_PATH_MAX];
    int fd = open_file(run, uncommitted_max);
    if (fd < 0)
        return fd;
    const char *wrong = examine(fd, head);
    bool foreign = !wrong && head->namespaces != run_namespaces();
    bool alone = (wrong || foreign) && lock_file(fd, LOCK_EX | LOCK_NB) == 0;
    if (wrong) {
        if (alone && same_file(fd, run))
            set_aside(run, wrong);
        else if (!alone)
            log_error("the registry in %s %s, and processes use it: end them, or set DIRECTNFS_RUN "
                      "to another directory",
                      run_name(path), wrong);
        sys_close(fd);
        return alone ? -EAGAIN : -EBUSY;
    }
    if (foreign && (!alone || !same_file(fd, run))) {
        sys_close(fd);
        if (alone)
            return -EAGAIN;
        log_error("the registry in %s is in use in another pid or time namespace (container): set "
                  "DIRECTNFS_RUN to another directory",
                  run_name(path));
        return -EBUSY;
    }
    int result = map_file(fd, head->total_size);
    if (result) {
        sys_close(fd);
        return result;
    }
    if (foreign) {
        ledger_process_sweep_all();
        atomic_store(&ledger_map.shared->namespaces, run_namespaces());
        lock_file(ledger_map.fd, LOCK_SH);
    }
    return 0;
}

static int open_at(int run, uint64_t uncommitted_max)
{
    /* Only its beginning is used; it is large, and a thread of the application may have a small
     * stack. */
    struct ledger_shared *head =
        sys_mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_mmap_failed(head))
        return (int)(long)head;
    int result = -EAGAIN;
    for (int i = 0; i < ATTEMPTS && result == -EAGAIN; i++) {
        if (i > 2)
            sys_nanosleep_ms(5);
        result = try_open(run, uncommitted_max, head);
    }
    sys_munmap(head, sizeof(*head));
    return result;
}

static void unmap(struct ledger_map *map)
{
    sys_munmap(map->shared, map->shared->total_size);
    sys_fd_close(map->fd);
}

int ledger_registry_open(uint64_t uncommitted_max, uint64_t hold_ns)
{
    if (ledger_registry_ready())
        return 0;
    static _Atomic int said; /* the reason of the last failure, which is not said again */
    char path[RUN_PATH_MAX];
    ledger_hold_set(hold_ns);
    int run = run_make();
    if (run < 0)
        return run;
    int result = ledger_world_open();
    if (!result)
        result = open_at(run, uncommitted_max);
    run_close(run);
    if (!result && ledger_process_slot() == 0)
        result = -EUSERS;
    if (result && result != -EBUSY && result != said)
        log_error("cannot open the registry in %s: %s%s", run_name(path),
                  result == -EUSERS ? "no room for another process" : strerror(-result),
                  result == -EUSERS   ? ", or /proc cannot be read, or is that of another pid "
                                        "namespace; end some, set DIRECTNFS_RUN, or mount /proc"
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
    ledger_map = (struct ledger_map){.fd = -1};
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
