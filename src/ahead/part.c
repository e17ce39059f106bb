#include "ahead/part.h"

#include <string.h>

#include "ledger/store/quota.h"
#include "stats/count.h"
#include "sys/alloc.h"

enum {
    FILES = 4,            /* a process has room for so many files at the tunable's bound */
    HOST_MAX = 256 << 20, /* bytes, for all processes of a user */
    KINDS = 5,            /* 64 KiB, twice as much, ... */
    HEAD = (sizeof(struct ahead_part) + 63) & ~63u
};
_Static_assert(AHEAD_PART_LEAST << (KINDS - 1) == AHEAD_PART_MOST, "the last kind is the longest");

static _Atomic size_t bytes_ahead; /* of all open files of this process */

/* ---- memory ---- */

/* The memory of the last parts is used for the next ones: to get memory from the kernel, page by
 * page, takes about as long as to receive into it. */
static struct {
    pthread_mutex_t lock;
    struct ahead_part *first[KINDS];
    size_t bytes;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t room_of(unsigned kind)
{
    return (size_t)AHEAD_PART_LEAST << kind;
}

/* Gets memory from the kernel, and counts it; the second gives it back. */
static struct ahead_part *memory_get(unsigned kind)
{
    size_t most = (size_t)mount_tunables.read_ahead_max * FILES, cost = HEAD + room_of(kind);
    struct ahead_part *part = NULL;
    if (atomic_fetch_add(&bytes_ahead, cost) + cost <= most && ledger_quota_take(cost, HOST_MAX)) {
        part = sys_alloc(cost);
        if (!part)
            ledger_quota_give(cost);
    }
    if (part)
        part->kind = kind;
    else
        atomic_fetch_sub(&bytes_ahead, cost);
    return part;
}

static void memory_return(struct ahead_part *part)
{
    size_t cost = HEAD + room_of(part->kind);
    sys_free(part);
    ledger_quota_give(cost);
    atomic_fetch_sub(&bytes_ahead, cost);
}

/* Gives memory back until `bytes` are left, the shortest first. Under the lock. */
static void shrink(size_t bytes)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        while (spare.first[kind] && spare.bytes > bytes) {
            struct ahead_part *part = spare.first[kind];
            spare.first[kind] = part->next_spare;
            spare.bytes -= room_of(kind);
            memory_return(part);
        }
    }
}

void ahead_part_trim(void)
{
    pthread_mutex_lock(&spare.lock);
    shrink(0);
    pthread_mutex_unlock(&spare.lock);
}

static struct ahead_part *memory_take(size_t length)
{
    unsigned kind = 0;
    while (room_of(kind) < length)
        kind++;
    pthread_mutex_lock(&spare.lock);
    unsigned fits = kind;
    while (fits < KINDS - 1 && !spare.first[fits])
        fits++;
    struct ahead_part *part = spare.first[fits];
    bool others = spare.bytes > 0;
    if (part) {
        spare.first[fits] = part->next_spare;
        spare.bytes -= room_of(fits);
    }
    pthread_mutex_unlock(&spare.lock);
    if (!part)
        part = memory_get(kind);
    if (!part && others) {
        ahead_part_trim();
        part = memory_get(kind);
    }
    return part;
}

static void memory_give(struct ahead_part *part)
{
    pthread_mutex_lock(&spare.lock);
    size_t most = (size_t)mount_tunables.read_ahead_max; /* while files are read */
    shrink(most > room_of(part->kind) ? most - room_of(part->kind) : 0);
    part->next_spare = spare.first[part->kind];
    spare.first[part->kind] = part;
    spare.bytes += room_of(part->kind);
    pthread_mutex_unlock(&spare.lock);
}

void ahead_part_fork_child(void)
{
    bool whole = pthread_mutex_trylock(&spare.lock) == 0;
    pthread_mutex_init(&spare.lock, NULL);
    for (unsigned kind = 0; kind < KINDS && whole; kind++) {
        for (struct ahead_part *part = spare.first[kind], *next; part; part = next) {
            next = part->next_spare;
            sys_free(part);
        }
    }
    memset(spare.first, 0, sizeof(spare.first));
    spare.bytes = 0;
    atomic_store(&bytes_ahead, 0);
}

/* ---- parts ---- */

/* `done` of the parts' requests. After it the lane is still looked at, but no part. */
static void parts_done(struct async_request *first)
{
    while (first) {
        struct ahead_part *part = (struct ahead_part *)first;
        first = first->next;
        if (part->request.result > 0)
            stats_add(&stats_own->counters.read_ahead_bytes, (uint64_t)part->request.result);
        atomic_store_explicit(&part->done, true, memory_order_release);
    }
}

bool ahead_part_is_done(void *part)
{
    return atomic_load_explicit(&((struct ahead_part *)part)->done, memory_order_acquire);
}

struct ahead_part *ahead_part_new(struct file_open *open, uint64_t offset, size_t length)
{
    struct ahead_part *part = memory_take(length);
    if (!part)
        return NULL;
    part->vector = (struct iovec){(uint8_t *)part + HEAD, length};
    part->request.operation = ASYNC_READ_AHEAD;
    part->request.open = open;
    part->request.fd = -1;
    part->request.vectors = &part->vector;
    part->request.count = 1;
    part->request.offset = (off_t)offset;
    part->request.flags = 0;
    part->request.done = parts_done;
    part->announced = part->around = part->proven = part->removed = false;
    part->users = 0;
    part->used = 0;
    atomic_store_explicit(&part->done, false, memory_order_relaxed);
    return part;
}

void ahead_part_free(struct ahead_part *part)
{
    size_t length = part->vector.iov_len, used = part->used < length ? part->used : length;
    stats_add(&stats_own->counters.read_ahead_used, used);
    memory_give(part);
}
