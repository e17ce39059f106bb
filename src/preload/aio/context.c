/* Contexts of the kernel's AIO: finding, making and ending them, and what both worlds share. */
#include "preload/aio/context.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "sys/log.h"

enum { BUCKET_BITS = 7, BUCKETS = 1 << BUCKET_BITS };

/* Structs are added under table_lock and never taken out. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct aio_context *) table[BUCKETS];

static _Atomic(struct aio_context *) *bucket_of(aio_context_t id)
{
    return &table[((uint64_t)id >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BUCKET_BITS)];
}

/* ---- the light lock ---- */

static void take(struct aio_context *context)
{
    enum { YIELDS = 1000 };
    for (unsigned tries = 0;
         PRELOAD_UNLIKELY(atomic_exchange_explicit(&context->taken, true, memory_order_acquire));
         tries++) {
        if (tries < YIELDS)
            sys_call0(SYS_sched_yield);
        else /* the thread that has the lock may have a lower priority */
            sys_nanosleep_ms(1);
    }
}

static void let_go(struct aio_context *context)
{
    atomic_store_explicit(&context->taken, false, memory_order_release);
}

/* ---- unused requests ---- */

/* With the light lock. */
static void pool_take(struct aio_context *context, unsigned count, struct preload_request **end)
{
    for (; count > 0 && (*end = preload_pool_take(&context->pool)) != NULL; count--)
        end = &(*end)->next;
    *end = NULL;
}

void aio_requests_take(struct aio_context *context, unsigned count, struct preload_request **list)
{
    take(context);
    pool_take(context, count, list);
    let_go(context);
}

void aio_requests_give(struct aio_context *context, struct preload_request *list)
{
    if (list == NULL)
        return;
    take(context);
    for (struct preload_request *next; list != NULL; list = next) {
        next = list->next;
        preload_pool_give(&context->pool, list);
    }
    let_go(context);
}

/* ---- completions ---- */

__thread struct aio_submitting *aio_submitting;

static void wake_kernel_waiter(struct aio_context *context)
{
    uint64_t one = 1;
    sys_write(context->wake_fd, &one, sizeof(one));
}

void aio_request_done(struct async_request *first)
{
    struct preload_request *oldest = NULL, *newest = NULL;
    struct aio_context *context = ((struct aio_request *)first)->context;
    unsigned count = 0;
    while (first != NULL) {
        struct preload_request *request = (struct preload_request *)first;
        first = first->next;
        if (PRELOAD_UNLIKELY(request->file.result == FILE_KERNEL) && aio_submitting &&
            aio_submitting->context == context) {
            request->next = NULL;
            *aio_submitting->end = request;
            aio_submitting->end = &request->next;
            continue;
        }
        if (oldest == NULL)
            oldest = request;
        request->next = newest;
        newest = request;
        count++;
    }
    if (oldest == NULL)
        return;
    oldest->next = atomic_load_explicit(&context->arrived, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&context->arrived, &oldest->next, newest,
                                                  memory_order_release, memory_order_relaxed))
        ;
    atomic_fetch_add(&context->completed, count);
    if (atomic_load(&context->armed))
        wake_kernel_waiter(context);
}

/* With the light lock. Returns the next completion in order, but leaves it in. NULL: none. */
static struct preload_request *next_completion(struct aio_context *context)
{
    struct preload_request *request = context->ready;
    if (request == NULL) {
        struct preload_request *last = atomic_exchange(&context->arrived, NULL);
        while (last != NULL) {
            struct preload_request *before = last->next;
            last->next = request;
            request = last;
            last = before;
        }
    }
    context->ready = request;
    return request;
}

/*
 * With the light lock. Takes up to `room` completions out of the queue, and returns how many. Some
 * files may have been handed to the kernel meanwhile. If `redirected` is NULL, it stops at the
 * first of their requests. Else it lists them there, with the place of their event for `object`.
 */
static unsigned deliver(struct aio_context *context, struct io_event *events, unsigned room,
                        struct preload_request **redirected)
{
    unsigned count = 0;
    struct preload_request *request;
    while (count < room && (request = next_completion(context)) != NULL) {
        struct aio_request *aio = (struct aio_request *)request;
        bool kernel = PRELOAD_UNLIKELY(request->file.result == FILE_KERNEL);
        if (kernel && redirected == NULL)
            break;
        context->ready = request->next;
        struct io_event *event = &events[count++];
        *event = (struct io_event){aio->data, aio->object, request->file.result, 0};
        if (!kernel) {
            preload_pool_give(&context->pool, request);
            continue;
        }
        aio->object = (uint64_t)(uintptr_t)event;
        request->next = NULL; /* in order, as they may append */
        *redirected = request;
        redirected = &request->next;
    }
    atomic_store_explicit(&context->delivered,
                          atomic_load_explicit(&context->delivered, memory_order_relaxed) + count,
                          memory_order_release);
    return count;
}

unsigned aio_deliver(struct aio_context *context, struct io_event *events, unsigned room)
{
    struct preload_request *redirected = NULL;
    if (aio_queued(context) == 0)
        return 0;
    take(context);
    unsigned count = deliver(context, events, room, &redirected);
    let_go(context);
    for (struct preload_request *request = redirected; request != NULL; request = request->next) {
        uint64_t event = ((struct aio_request *)request)->object;
        ((struct io_event *)(uintptr_t)event)->res = preload_request_by_kernel(request);
    }
    aio_requests_give(context, redirected);
    return count;
}

/* ---- waking threads that wait in the kernel ---- */

bool aio_context_arm(struct aio_context *context)
{
    if (atomic_load(&context->armed))
        return true;
    pthread_mutex_lock(&context->lock);
    if (context->wake_fd < 0) {
        int fd = (int)sys_call2(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (fd >= 0)
            context->wake_fd = sys_fd_protect(fd);
    }
    if (context->wake_fd >= 0 && !atomic_load(&context->armed)) {
        struct iocb *wake = &context->wake;
        memset(wake, 0, sizeof(*wake));
        wake->aio_lio_opcode = IOCB_CMD_POLL;
        wake->aio_fildes = (uint32_t)context->wake_fd;
        wake->aio_buf = POLLIN;
        /* Before the submission, as it may be done and reaped before the call returns. */
        atomic_store(&context->armed, true);
        if (sys_call3(SYS_io_submit, atomic_load(&context->id), 1, &wake) != 1)
            atomic_store(&context->armed, false);
    }
    bool armed = atomic_load(&context->armed);
    pthread_mutex_unlock(&context->lock);
    return armed;
}

long aio_context_filter(struct aio_context *context, struct io_event *events, long count)
{
    long kept = 0;
    for (long i = 0; i < count; i++) {
        if (events[i].obj != (uint64_t)(uintptr_t)&context->wake) {
            if (kept != i)
                events[kept] = events[i];
            kept++;
            continue;
        }
        uint64_t value;
        pthread_mutex_lock(&context->lock);
        sys_read(context->wake_fd, &value, sizeof(value));
        atomic_store(&context->armed, false);
        pthread_mutex_unlock(&context->lock);
    }
    if (kept > 0)
        atomic_fetch_sub(&context->kernel_in_flight, kept);
    return kept;
}

void aio_context_pass_on(struct aio_context *context)
{
    bool managed = aio_in_flight(context) > 0, queued = aio_queued(context) > 0;
    if (!managed && !queued && atomic_load(&context->kernel_in_flight) <= 0)
        return;
    if (atomic_load(&context->sleepers) > 0) {
        atomic_fetch_add(&context->activity, 1);
        sys_futex(&context->activity, FUTEX_WAKE_PRIVATE, 1, NULL);
    }
    if ((!managed && !queued) || atomic_load(&context->kernel_waiters) == 0)
        return;
    async_lane_attend_busy(context->lane);
    if (aio_context_arm(context) && aio_queued(context) > 0)
        wake_kernel_waiter(context);
}

/* ---- life of contexts ---- */

/* The struct of a context, with the light lock taken. NULL: there is none. */
static struct aio_context *context_take(aio_context_t id)
{
    if (id == 0)
        return NULL;
    for (struct aio_context *context = atomic_load_explicit(bucket_of(id), memory_order_acquire);
         context != NULL; context = context->next) {
        if (atomic_load_explicit(&context->id, memory_order_relaxed) != id)
            continue;
        take(context);
        if (atomic_load_explicit(&context->id, memory_order_relaxed) == id)
            return context;
        let_go(context);
    }
    return NULL;
}

/* With the light lock. */
static void context_enter(struct aio_context *context, uint64_t user)
{
    uint64_t entered = atomic_load_explicit(&context->entered, memory_order_relaxed);
    atomic_store_explicit(&context->entered, entered + user, memory_order_relaxed);
}

/* As aio_context_get(), but makes none. */
static struct aio_context *context_find(aio_context_t id, uint64_t user)
{
    struct aio_context *context = context_take(id);
    if (context != NULL) {
        context_enter(context, user);
        let_go(context);
    }
    return context;
}

/* At least the number of users now. */
static uint64_t context_users(const struct aio_context *context)
{
    uint64_t left = atomic_load(&context->left);
    return atomic_load(&context->entered) - left;
}

/* From now on nobody finds it. A thread that found it before counts as a user. */
static void context_hide(struct aio_context *context, aio_context_t id)
{
    take(context);
    if (atomic_load_explicit(&context->id, memory_order_relaxed) == id)
        atomic_store(&context->id, 0);
    let_go(context);
}

void aio_context_put(struct aio_context *context, uint64_t user)
{
    atomic_fetch_add(&context->left, user);
}

unsigned aio_deliver_now(aio_context_t id, struct io_event *events, unsigned least, unsigned most)
{
    struct aio_context *context = context_take(id);
    unsigned count = 0;
    if (context == NULL)
        return 0;
    bool simple = !atomic_load(&context->ending) && atomic_load(&context->kernel_in_flight) <= 0 &&
                  atomic_load(&context->sleepers) == 0 &&
                  atomic_load(&context->kernel_waiters) == 0 && aio_queued(context) >= least;
    if (simple)
        count = deliver(context, events, most, NULL);
    atomic_store_explicit(&context->reaped, true, memory_order_relaxed);
    let_go(context);
    return count;
}

/* Gives back what an ended context held. It has no user, or only the caller. */
static void context_release(struct aio_context *context)
{
    struct async_lane *lane = context->lane;
    context->lane = NULL; /* first: a child of fork() gives back what it finds here */
    if (lane != NULL)
        async_lane_free(lane);
    atomic_store(&context->arrived, NULL);
    atomic_store(&context->delivered, atomic_load(&context->completed));
    atomic_store(&context->kernel_in_flight, 0);
    context->ready = NULL;
    preload_pool_end(&context->pool);
}

/* Under table_lock. An unused struct of the bucket, or a new one. */
static struct aio_context *context_make(_Atomic(struct aio_context *) *bucket)
{
    struct aio_context *first = atomic_load(bucket), *context = first;
    while (context != NULL && (atomic_load(&context->id) != 0 || context_users(context) > 0))
        context = context->next;
    if (context != NULL) {
        context_release(context);
    } else {
        context = calloc(1, sizeof(*context));
        if (context == NULL)
            return NULL;
        context->wake_fd = -1;
        context->next = first;
        pthread_mutex_init(&context->lock, NULL);
        atomic_store(bucket, context);
    }
    context->lane = async_lane_new();
    return context->lane != NULL ? context : NULL;
}

PRELOAD_SLOW static struct aio_context *context_add(aio_context_t id, uint64_t user)
{
    /* It submits no request: it asks if there is such a context. */
    if (id == 0 || sys_call3(SYS_io_submit, id, 0, NULL) != 0)
        return NULL;
    pthread_mutex_lock(&table_lock);
    struct aio_context *context = context_find(id, user);
    if (context == NULL && (context = context_make(bucket_of(id))) != NULL) {
        const struct aio_ring *ring = (const struct aio_ring *)id;
        context->pool.size = sizeof(struct aio_request);
        context->pool.most = ring->nr > 1 ? ring->nr - 1 : 1;
        atomic_store(&context->armed, false);
        atomic_store(&context->ending, false);
        take(context);
        context_enter(context, user);
        atomic_store(&context->id, id);
        let_go(context);
    }
    pthread_mutex_unlock(&table_lock);
    return context;
}

struct aio_context *aio_context_get(aio_context_t id, uint64_t user, unsigned count,
                                    struct preload_request **list)
{
    struct aio_context *context = context_take(id);
    if (PRELOAD_UNLIKELY(context == NULL)) {
        context = context_add(id, user);
        if (context != NULL && count > 0)
            aio_requests_take(context, count, list);
        return context;
    }
    context_enter(context, user);
    if (count > 0)
        pool_take(context, count, list);
    let_go(context);
    return context;
}

/* ---- io_setup and io_destroy ---- */

long aio_io_setup(unsigned count, aio_context_t *id)
{
    long result = sys_call2(SYS_io_setup, count, id);
    if (result != 0 || !preload_active())
        return result;
    /* A struct of this address is stale: its context ended unseen, or is just ending. */
    sys_critical_enter();
    struct aio_context *stale = context_find(*id, 1);
    if (stale != NULL) {
        atomic_store(&stale->ending, true);
        context_hide(stale, *id);
        aio_context_put(stale, 1);
    }
    sys_critical_leave();
    return 0;
}

long aio_io_destroy(aio_context_t id)
{
    if (!preload_active())
        return sys_call1(SYS_io_destroy, id);
    sys_critical_enter();
    struct aio_context *context = context_find(id, 1);
    if (context == NULL) {
        sys_critical_leave();
        return sys_call1(SYS_io_destroy, id);
    }
    long result = -EINVAL; /* another thread is ending it already */
    if (!atomic_exchange(&context->ending, true)) {
        atomic_fetch_add(&context->activity, 1);
        sys_futex(&context->activity, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
        while (context_users(context) >= AIO_SUBMITTER)
            sys_call0(SYS_sched_yield);
        preload_settle(context->lane);
        result = sys_call1(SYS_io_destroy, id);
        pthread_mutex_lock(&table_lock);
        context_hide(context, id);
        if (atomic_load(&context->id) == 0 && context_users(context) == 1)
            context_release(context);
        pthread_mutex_unlock(&table_lock);
    }
    aio_context_put(context, 1);
    sys_critical_leave();
    return result;
}

/* Threads of the parent may have held locks and requests. The engine has forgotten the requests. */
void aio_fork_child(void)
{
    pthread_mutex_init(&table_lock, NULL);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct aio_context *context = atomic_load(&table[i]); context != NULL;
             context = context->next) {
            pthread_mutex_init(&context->lock, NULL);
            sys_fd_close(context->wake_fd);
            context->wake_fd = -1;
            atomic_store(&context->id, 0);
            atomic_store(&context->taken, false);
            atomic_store(&context->left, atomic_load(&context->entered));
            atomic_store(&context->sleepers, 0);
            atomic_store(&context->kernel_waiters, 0);
            atomic_store(&context->armed, false);
            context_release(context);
        }
    }
}
