/* The rings of the application, and waiting on them. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "preload/uring/uring.h"
#include "sys/log.h"

enum { BUCKETS = 64, SLICE_NS = 10000000 };

__thread struct uring *uring_driving;

/* Chains only grow. `rings_lock` is for making and reusing records. */
static _Atomic(struct uring *) buckets[BUCKETS];
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(struct uring *) *bucket_of(const unsigned *key)
{
    /* The address begins a page. */
    return &buckets[((uintptr_t)key >> 12) * 0x9e3779b97f4a7c15u >> 58];
}

struct uring *uring_find(const struct io_uring *ring)
{
    const unsigned *key = ring->sq.khead;
    struct uring *record = atomic_load_explicit(bucket_of(key), memory_order_acquire);
    while (record && atomic_load_explicit(&record->key, memory_order_acquire) != key)
        record = record->next;
    return record;
}

void uring_each(void (*visit)(struct uring *record, void *context), void *context)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct uring *record = atomic_load_explicit(&buckets[i], memory_order_acquire);
        for (; record; record = record->next) {
            if (atomic_load_explicit(&record->key, memory_order_acquire))
                visit(record, context);
        }
    }
}

struct by_fd {
    int fd;
    struct uring *found;
};

static void compare_fd(struct uring *record, void *context)
{
    struct by_fd *by_fd = context;
    if (record->made.ring_fd == by_fd->fd)
        by_fd->found = record;
}

struct uring *uring_find_fd(int ring_fd)
{
    struct by_fd by_fd = {ring_fd, NULL};
    uring_each(compare_fd, &by_fd);
    return by_fd.found;
}

/* In the child of fork() the ring's memory may be missing. So its tail is read only when the ring
 * is used. */
void uring_count_anew(struct uring *record, const struct io_uring *ring)
{
    if (PRELOAD_UNLIKELY(atomic_load_explicit(&record->inherited, memory_order_relaxed)) &&
        atomic_exchange(&record->inherited, false)) {
        atomic_store(&record->base, __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE));
        atomic_store(&record->passed, 0);
    }
}

/* Under rings_lock. */
static struct uring *make(const struct io_uring *ring)
{
    _Atomic(struct uring *) *bucket = bucket_of(ring->sq.khead);
    struct uring *record = atomic_load(bucket);
    while (record && atomic_load(&record->key))
        record = record->next;
    bool fresh = !record;
    if (fresh)
        record = calloc(1, sizeof(*record));
    if (!record)
        return NULL;
    if (fresh)
        pthread_mutex_init(&record->lock, NULL);
    record->pool.size = sizeof(struct uring_request);
    record->pool.most = UINT_MAX;
    record->made = *ring;
    atomic_store(&record->inherited, true);
    uring_count_anew(record, ring);
    atomic_store(&record->visits, 0);
    atomic_store(&record->eventfd, false);
    atomic_store(&record->barrier, false);
    atomic_store(&record->undrainable, false);
    atomic_store(&record->disabled, ring->flags & IORING_SETUP_R_DISABLED);
    record->in_flight_seen = false;
    if (fresh) {
        record->next = atomic_load(bucket);
        atomic_store(&record->key, ring->sq.khead);
        atomic_store_explicit(bucket, record, memory_order_release);
    } else {
        atomic_store_explicit(&record->key, ring->sq.khead, memory_order_release);
    }
    return record;
}

struct uring *uring_get(const struct io_uring *ring)
{
    struct uring *record = uring_find(ring);
    if (record)
        return record;
    struct preload_stay stay = preload_stay_begin();
    pthread_mutex_lock(&rings_lock);
    record = uring_find(ring);
    if (!record)
        record = make(ring);
    pthread_mutex_unlock(&rings_lock);
    preload_stay_end(stay);
    return record;
}

bool uring_open(struct uring *record, int ring_fd)
{
    if (atomic_load_explicit(&record->opened, memory_order_acquire))
        return true;
    pthread_mutex_lock(&record->lock);
    int result = 0;
    if (!atomic_load(&record->opened)) {
        struct async_lane *lane = async_lane_new();
        result = lane ? uring_post_open(&record->post, ring_fd) : -ENOMEM;
        if (result == 0) {
            record->lane = lane;
            atomic_store_explicit(&record->opened, true, memory_order_release);
        } else if (lane) {
            async_lane_free(lane);
        }
    }
    pthread_mutex_unlock(&record->lock);
    if (result < 0)
        log_warning("io_uring: no ring for completions can be made: %s; files used with this ring "
                    "are handed to the kernel",
                    strerrordesc_np(-result));
    else if (atomic_load(&record->eventfd) || (record->made.flags & IORING_SETUP_SQPOLL))
        async_lane_attend(record->lane);
    return result == 0;
}

void uring_end(const struct io_uring *ring)
{
    struct uring *record = uring_find(ring);
    if (!record)
        return;
    struct preload_stay stay = preload_stay_begin();
    if (atomic_load(&record->opened))
        preload_settle(record->lane);
    if (atomic_exchange(&record->opened, false))
        async_lane_free(record->lane);
    pthread_mutex_lock(&rings_lock);
    pthread_mutex_lock(&record->lock);
    uring_post_close(&record->post);
    preload_pool_end(&record->pool);
    pthread_mutex_unlock(&record->lock);
    uring_files_gone(record);
    atomic_store_explicit(&record->key, NULL, memory_order_release);
    pthread_mutex_unlock(&rings_lock);
    preload_stay_end(stay);
}

/* ---- waiting ---- */

static unsigned completed_by_kernel(struct uring *record, const struct io_uring *ring)
{
    unsigned tail = __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE);
    return tail - atomic_load(&record->base) - atomic_load(&record->post.posted);
}

unsigned uring_barrier_after(struct uring *record, const struct io_uring *ring, unsigned before)
{
    unsigned waiting = __atomic_load_n(ring->sq.ktail, __ATOMIC_RELAXED) -
                       __atomic_load_n(ring->sq.khead, __ATOMIC_ACQUIRE);
    unsigned completed = completed_by_kernel(record, ring) + 1;
    unsigned passed = atomic_load(&record->passed) + waiting + before + 1;
    /* Multishot requests complete more than was passed. */
    return (int)(completed - passed) > 0 ? completed : passed;
}

bool uring_barrier_passed(struct uring *record, const struct io_uring *ring)
{
    return (int)(completed_by_kernel(record, ring) - atomic_load(&record->passed_by)) >= 0;
}

/*
 * True if the kernel has nothing of this ring in flight: it has completed as many SQEs as it took.
 * The numbers say nothing with multishot requests, skipped CQEs, overflow, or another process on
 * the ring. Then they mostly differ. If they agree by chance, a wait is only one slice of time
 * longer.
 */
bool uring_kernel_idle(struct uring *record, const struct io_uring *ring)
{
    return completed_by_kernel(record, ring) == atomic_load(&record->passed);
}

struct wanted {
    struct uring *record;
    const struct io_uring *ring;
    unsigned count;
};

/* True if enough CQEs are posted, or this thread will post them. It is a hint, so it takes no lock;
 * the caller looks again. */
static bool enough(void *context)
{
    const struct wanted *wanted = context;
    unsigned queued = __atomic_load_n(&wanted->record->post.queued, __ATOMIC_RELAXED);
    return uring_ready(wanted->ring) + queued >= wanted->count;
}

/* True if a signal waits for its handler. */
static bool drive(struct uring *record, bool (*satisfied)(void *context), void *context,
                  uint64_t deadline_ns)
{
    struct preload_stay stay = preload_stay_begin();
    atomic_fetch_add(&record->visits, 1);
    atomic_fetch_add(&record->drivers, 1);
    uring_driving = record;
    async_lane_wait(record->lane, satisfied, context, deadline_ns);
    uring_driving = NULL;
    pthread_mutex_lock(&record->lock);
    uring_post_send(&record->post);
    pthread_mutex_unlock(&record->lock);
    atomic_fetch_sub(&record->drivers, 1);
    bool deferred = sys_critical_interrupts();
    preload_stay_end(stay);
    return deferred;
}

enum uring_wait uring_wait(struct uring *record, const struct io_uring *ring, unsigned count,
                           uint64_t deadline_ns)
{
    struct wanted wanted = {record, ring, count};
    for (;;) {
        if (uring_ready(ring) >= count)
            return URING_READY;
        if (uring_in_flight(record) == 0 || async_lane_is_attended(record->lane) ||
            !uring_kernel_idle(record, ring))
            return URING_KERNEL;
        uint64_t slice = sys_now_ns() + SLICE_NS;
        if (sys_deadline_passed(deadline_ns))
            return URING_READY;
        /* In slices, since another thread may give the kernel something meanwhile. */
        if (drive(record, enough, &wanted,
                  deadline_ns && deadline_ns < slice ? deadline_ns : slice) &&
            uring_ready(ring) < count)
            return URING_SIGNAL;
    }
}

void uring_poll(struct uring *record, const struct io_uring *ring)
{
    struct wanted wanted = {record, ring, 1};
    if (uring_in_flight(record) > 0 && !async_lane_is_attended(record->lane))
        drive(record, enough, &wanted, 1);
}

void uring_block_begin(struct uring *record)
{
    /* Either this thread sees the request, or the thread that submits it sees this one. */
    atomic_fetch_add(&record->waiters, 1);
    if (uring_in_flight(record) == 0 || async_lane_is_attended(record->lane))
        return;
    struct preload_stay stay = preload_stay_begin();
    async_lane_attend(record->lane);
    preload_stay_end(stay);
}

void uring_block_end(struct uring *record)
{
    atomic_fetch_sub(&record->waiters, 1);
}

/* ---- fork ---- */

void uring_fork_prepare(void)
{
    pthread_mutex_lock(&rings_lock);
}

void uring_fork_parent(void)
{
    pthread_mutex_unlock(&rings_lock);
}

/* What was in flight is the parent's. */
static void forget_parent(struct uring *record, void *context)
{
    (void)context;
    pthread_mutex_init(&record->lock, NULL);
    preload_pool_end(&record->pool);
    uring_files_child(record);
    if (record->post.opened) {
        sys_fd_close(record->post.fd);
        sys_fd_close(record->post.target);
    }
    memset(&record->post, 0, sizeof(record->post));
    if (atomic_exchange(&record->opened, false))
        async_lane_free(record->lane);
    atomic_store(&record->inherited, true);
    atomic_store(&record->waiters, 0);
    atomic_store(&record->drivers, 0);
}

void uring_fork_child(void)
{
    pthread_mutex_init(&rings_lock, NULL);
    uring_driving = NULL;
    uring_each(forget_parent, NULL);
    uring_watch_child();
}
