/*
 * The functions of liburing that a program calls. Each calls the real one, and adds two things.
 * SQEs of ours leave the queue before the real one flushes it. A thread that waits for requests of
 * ours drives them.
 */
#include <link.h>

#include "preload/uring/uring.h"
#include "sys/log.h"

/* ---- which liburing ---- */

struct range {
    uintptr_t inside, low, high;
};

static int find_range(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct range *range = context;
    range->low = UINTPTR_MAX;
    range->high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + header->p_vaddr, to = from + header->p_memsz;
        if (header->p_type != PT_LOAD)
            continue;
        range->low = from < range->low ? from : range->low;
        range->high = to > range->high ? to : range->high;
    }
    return range->inside >= range->low && range->inside < range->high;
}

/* liburing's functions call one another through the dynamic linker. Such calls are its own. */
bool uring_by_liburing(const void *return_address)
{
    static _Atomic uintptr_t low, high;
    uintptr_t address = (uintptr_t)return_address;
    if (PRELOAD_UNLIKELY(atomic_load_explicit(&high, memory_order_acquire) == 0)) {
        struct range range = {.inside = (uintptr_t)preload_find(PRELOAD_io_uring_submit)};
        if (!dl_iterate_phdr(find_range, &range))
            return false;
        atomic_store(&low, range.low);
        atomic_store_explicit(&high, range.high, memory_order_release);
    }
    return address >= atomic_load_explicit(&low, memory_order_relaxed) &&
           address < atomic_load_explicit(&high, memory_order_relaxed);
}

bool uring_is_there(void)
{
    return preload_find(PRELOAD_io_uring_submit) != preload_missing_uring;
}

void *uring_real(enum preload_symbol symbol, const void *caller)
{
    void *function = preload_find(symbol);
    if (PRELOAD_LIKELY(function != preload_missing_uring))
        return function;
    if (preload_active()) {
        preload_raw_look();
        if (!uring_may_pass())
            return function;
    }
    void *own = preload_own_function(symbol, caller);
    return own ? own : function;
}

void uring_say_version(void)
{
    static atomic_bool said;
    if (atomic_exchange(&said, true))
        return;
    /* The library tells its version since 2.4. Earlier versions are known by their symbols. */
    int (*major)(void) = (int (*)(void))preload_lookup()(RTLD_DEFAULT, "io_uring_major_version");
    int (*minor)(void) = (int (*)(void))preload_lookup()(RTLD_DEFAULT, "io_uring_minor_version");
    if (major && minor)
        log_info("io_uring: liburing %d.%d (2.0 and newer are served)", major(), minor());
    else
        log_info("io_uring: liburing %s (2.0 and newer are served)",
                 preload_plugin_function("io_uring_enter")                   ? "2.3"
                 : preload_plugin_function("io_uring_register_files_sparse") ? "2.2"
                 : preload_plugin_function("io_uring_mlock_size")            ? "2.1"
                                                                             : "2.0");
}

/* True if an application makes the call, there are mounts, and its ring is one that is served. */
#define ACTIVE()                             \
    (preload_active() && uring_is_there() && \
     !uring_by_liburing(__builtin_extract_return_addr(__builtin_return_address(0))))

/* ---- begin and end ---- */

PRELOAD_EXPORT void io_uring_queue_exit(struct io_uring *ring)
{
    if (ACTIVE())
        uring_end(ring);
    URING_REAL(io_uring_queue_exit)(ring);
}

/* If `result` is a success, liburing made a ring. Returns `result`, or:
 * -ENOSYS: we cannot serve the ring; it is gone again.
 * -ENOMEM: there is no memory for its record; it is gone again. */
static int ring_made(struct io_uring *ring, int result)
{
    static atomic_bool said;
    if (result < 0)
        return result;
    /* An earlier ring in this place may have ended without a call: its record is void. */
    uring_end(ring);
    struct preload_stay stay = preload_stay_begin();
    uring_say_version();
    bool possible = uring_post_possible(ring->ring_fd);
    preload_stay_end(stay);
    if (possible && uring_get(ring))
        return result;
    if (!possible && !atomic_exchange(&said, true))
        log_warning("io_uring is refused to the application, because this kernel lacks "
                    "IORING_OP_MSG_RING (Linux 5.18)");
    URING_REAL(io_uring_queue_exit)(ring);
    return possible ? -ENOMEM : -ENOSYS;
}

PRELOAD_EXPORT int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    if (!ACTIVE())
        return URING_REAL(io_uring_queue_init)(entries, ring, flags);
    if (flags & URING_REGISTERED_FD_ONLY)
        return -EINVAL;
    return ring_made(ring, URING_REAL(io_uring_queue_init)(entries, ring, flags));
}

PRELOAD_EXPORT int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                              struct io_uring_params *parameters)
{
    if (!ACTIVE())
        return URING_REAL(io_uring_queue_init_params)(entries, ring, parameters);
    if (parameters->flags & URING_REGISTERED_FD_ONLY)
        return -EINVAL;
    return ring_made(ring, URING_REAL(io_uring_queue_init_params)(entries, ring, parameters));
}

/* On success it returns how much of the memory it used. */
PRELOAD_EXPORT int io_uring_queue_init_mem(unsigned entries, struct io_uring *ring,
                                           struct io_uring_params *parameters, void *memory,
                                           size_t size)
{
    if (!ACTIVE())
        return URING_REAL(io_uring_queue_init_mem)(entries, ring, parameters, memory, size);
    if (parameters->flags & URING_REGISTERED_FD_ONLY)
        return -EINVAL;
    return ring_made(ring,
                     URING_REAL(io_uring_queue_init_mem)(entries, ring, parameters, memory, size));
}

PRELOAD_EXPORT int io_uring_queue_mmap(int fd, struct io_uring_params *parameters,
                                       struct io_uring *ring)
{
    int result = URING_REAL(io_uring_queue_mmap)(fd, parameters, ring);
    if (result == 0 && ACTIVE()) {
        uring_end(ring);
        uring_get(ring);
    }
    return result;
}

PRELOAD_EXPORT int io_uring_enable_rings(struct io_uring *ring)
{
    int result = URING_REAL(io_uring_enable_rings)(ring);
    struct uring *record = result >= 0 && ACTIVE() ? uring_find(ring) : NULL;
    if (record)
        atomic_store(&record->disabled, false);
    return result;
}

PRELOAD_EXPORT int io_uring_resize_rings(struct io_uring *ring, struct io_uring_params *parameters)
{
    struct uring *record = ACTIVE() ? uring_find(ring) : NULL;
    /* The new memory has another address. */
    if (record)
        uring_end(ring);
    int result = URING_REAL(io_uring_resize_rings)(ring, parameters);
    if (record)
        uring_get(ring);
    return result;
}

/* The number goes, the ring stays. So our ring for posting is made while there is a number. */
PRELOAD_EXPORT int io_uring_close_ring_fd(struct io_uring *ring)
{
    struct uring *record = ACTIVE() ? uring_get(ring) : NULL;
    if (record) {
        struct preload_stay stay = preload_stay_begin();
        uring_open(record, ring->ring_fd);
        preload_stay_end(stay);
    }
    return URING_REAL(io_uring_close_ring_fd)(ring);
}

/* ---- submitting ---- */

/* After the real submission of what was left. Returns the sum, as if all had gone to the kernel. */
static int submitted(struct uring *record, unsigned taken, int result)
{
    if (result > 0)
        atomic_fetch_add(&record->passed, (unsigned)result);
    if (result < 0)
        return taken > 0 ? (int)taken : result;
    return (int)taken + result;
}

/* Returns NULL if the call must stay as it is. */
static struct uring *begin_submit(struct io_uring *ring, unsigned *taken)
{
    struct uring *record = uring_get(ring);
    if (record)
        uring_count_anew(record, ring);
    *taken = record ? uring_dispatch(record, ring) : 0;
    return record;
}

PRELOAD_EXPORT int io_uring_submit(struct io_uring *ring)
{
    unsigned taken;
    struct uring *record = ACTIVE() ? begin_submit(ring, &taken) : NULL;
    int result = URING_REAL(io_uring_submit)(ring);
    return record ? submitted(record, taken, result) : result;
}

PRELOAD_EXPORT int io_uring_submit_and_get_events(struct io_uring *ring)
{
    unsigned taken;
    struct uring *record = ACTIVE() ? begin_submit(ring, &taken) : NULL;
    int result = URING_REAL(io_uring_submit_and_get_events)(ring);
    if (!record)
        return result;
    uring_poll(record, ring);
    return submitted(record, taken, result);
}

PRELOAD_EXPORT int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr)
{
    unsigned taken;
    struct uring *record = ACTIVE() ? begin_submit(ring, &taken) : NULL;
    if (!record)
        return URING_REAL(io_uring_submit_and_wait)(ring, wait_nr);
    if (uring_in_flight(record) == 0 && taken == 0) {
        uring_block_begin(record);
        int result = URING_REAL(io_uring_submit_and_wait)(ring, wait_nr);
        uring_block_end(record);
        return submitted(record, 0, result);
    }
    int result = submitted(record, taken, URING_REAL(io_uring_submit)(ring));
    if (result < 0)
        return result;
    int waited = 0;
    switch (uring_wait(record, ring, wait_nr, 0)) {
    case URING_KERNEL:
        uring_block_begin(record);
        waited = URING_REAL(io_uring_submit_and_wait)(ring, wait_nr);
        uring_block_end(record);
        break;
    case URING_SIGNAL:
        waited = -EINTR;
        break;
    default:
        break;
    }
    /* As in the kernel: if something was submitted, the result says how much. */
    return result == 0 && waited < 0 ? waited : result;
}

/* ---- waiting ---- */

/*
 * Waits as long as all requests in flight are ours. True: call the real function, between
 * uring_block_begin() and uring_block_end(), to find what is there or to wait for the rest.
 */
static bool wait_ours(struct uring *record, struct io_uring *ring, unsigned wait_nr,
                      uint64_t deadline_ns)
{
    if (wait_nr == 0) {
        if (uring_ready(ring) == 0)
            uring_poll(record, ring);
        return true;
    }
    return uring_wait(record, ring, wait_nr, deadline_ns) != URING_SIGNAL;
}

static uint64_t deadline_of(const struct __kernel_timespec *limit)
{
    return limit ? sys_deadline(sys_nanoseconds(limit->tv_sec, limit->tv_nsec)) : 0;
}

static int interrupted(struct io_uring_cqe **cqe)
{
    *cqe = NULL;
    return -EINTR;
}

PRELOAD_EXPORT int __io_uring_get_cqe(struct io_uring *ring, struct io_uring_cqe **cqe,
                                      unsigned submit, unsigned wait_nr, sigset_t *mask)
{
    struct uring *record = ACTIVE() ? uring_find(ring) : NULL;
    if (!record)
        return URING_REAL(__io_uring_get_cqe)(ring, cqe, submit, wait_nr, mask);
    if (!mask && !wait_ours(record, ring, wait_nr, 0))
        return interrupted(cqe);
    uring_block_begin(record);
    int result = URING_REAL(__io_uring_get_cqe)(ring, cqe, submit, wait_nr, mask);
    uring_block_end(record);
    return result;
}

PRELOAD_EXPORT int io_uring_wait_cqes(struct io_uring *ring, struct io_uring_cqe **cqe,
                                      unsigned wait_nr, struct __kernel_timespec *limit,
                                      sigset_t *mask)
{
    struct uring *record = ACTIVE() ? uring_find(ring) : NULL;
    if (!record)
        return URING_REAL(io_uring_wait_cqes)(ring, cqe, wait_nr, limit, mask);
    uint64_t deadline_ns = deadline_of(limit);
    struct __kernel_timespec rest;
    struct timespec left;
    if (!mask && !wait_ours(record, ring, wait_nr, deadline_ns))
        return interrupted(cqe);
    if (sys_time_left(deadline_ns, 0, &left)) {
        rest = (struct __kernel_timespec){left.tv_sec, left.tv_nsec};
        limit = &rest;
    }
    uring_block_begin(record);
    int result = URING_REAL(io_uring_wait_cqes)(ring, cqe, wait_nr, limit, mask);
    uring_block_end(record);
    return result;
}

PRELOAD_EXPORT int io_uring_wait_cqe_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                             struct __kernel_timespec *limit)
{
    if (!ACTIVE())
        return URING_REAL(io_uring_wait_cqe_timeout)(ring, cqe, limit);
    return io_uring_wait_cqes(ring, cqe, 1, limit, NULL);
}

PRELOAD_EXPORT int io_uring_submit_and_wait_timeout(struct io_uring *ring,
                                                    struct io_uring_cqe **cqe, unsigned wait_nr,
                                                    struct __kernel_timespec *limit, sigset_t *mask)
{
    unsigned taken;
    struct uring *record = ACTIVE() ? begin_submit(ring, &taken) : NULL;
    if (!record)
        return URING_REAL(io_uring_submit_and_wait_timeout)(ring, cqe, wait_nr, limit, mask);
    if (taken == 0) {
        unsigned before = __atomic_load_n(ring->sq.khead, __ATOMIC_ACQUIRE);
        uring_block_begin(record);
        int result = URING_REAL(io_uring_submit_and_wait_timeout)(ring, cqe, wait_nr, limit, mask);
        uring_block_end(record);
        atomic_fetch_add(&record->passed,
                         __atomic_load_n(ring->sq.khead, __ATOMIC_ACQUIRE) - before);
        return result;
    }
    int result = submitted(record, taken, URING_REAL(io_uring_submit)(ring));
    if (result < 0) {
        *cqe = NULL;
        return result;
    }
    int waited = io_uring_wait_cqes(ring, cqe, wait_nr, limit, mask);
    return waited < 0 ? waited : result;
}

/* These wait in ways of their own. Meanwhile attendants complete our requests. */

PRELOAD_EXPORT int io_uring_submit_and_wait_min_timeout(struct io_uring *ring,
                                                        struct io_uring_cqe **cqe, unsigned wait_nr,
                                                        struct __kernel_timespec *limit,
                                                        unsigned min_wait, sigset_t *mask)
{
    unsigned taken;
    struct uring *record = ACTIVE() ? begin_submit(ring, &taken) : NULL;
    if (!record)
        return URING_REAL(io_uring_submit_and_wait_min_timeout)(ring, cqe, wait_nr, limit, min_wait,
                                                                mask);
    int result = submitted(record, taken, URING_REAL(io_uring_submit)(ring));
    uring_block_begin(record);
    int waited =
        URING_REAL(io_uring_submit_and_wait_min_timeout)(ring, cqe, wait_nr, limit, min_wait, mask);
    uring_block_end(record);
    return waited < 0 ? waited : result;
}

PRELOAD_EXPORT int io_uring_wait_cqes_min_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                                  unsigned wait_nr, struct __kernel_timespec *limit,
                                                  unsigned min_wait, sigset_t *mask)
{
    struct uring *record = ACTIVE() ? uring_find(ring) : NULL;
    if (record)
        uring_block_begin(record);
    int result =
        URING_REAL(io_uring_wait_cqes_min_timeout)(ring, cqe, wait_nr, limit, min_wait, mask);
    if (record)
        uring_block_end(record);
    return result;
}

PRELOAD_EXPORT int io_uring_submit_and_wait_reg(struct io_uring *ring, struct io_uring_cqe **cqe,
                                                unsigned wait_nr, int index)
{
    unsigned taken;
    struct uring *record = ACTIVE() ? begin_submit(ring, &taken) : NULL;
    if (!record)
        return URING_REAL(io_uring_submit_and_wait_reg)(ring, cqe, wait_nr, index);
    int result = submitted(record, taken, URING_REAL(io_uring_submit)(ring));
    uring_block_begin(record);
    int waited = URING_REAL(io_uring_submit_and_wait_reg)(ring, cqe, wait_nr, index);
    uring_block_end(record);
    return waited < 0 ? waited : result;
}

PRELOAD_EXPORT unsigned io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
                                                unsigned count)
{
    struct uring *record = ACTIVE() ? uring_find(ring) : NULL;
    if (record && uring_ready(ring) == 0)
        uring_poll(record, ring);
    return URING_REAL(io_uring_peek_batch_cqe)(ring, cqes, count);
}

PRELOAD_EXPORT int io_uring_get_events(struct io_uring *ring)
{
    struct uring *record = ACTIVE() ? uring_find(ring) : NULL;
    if (record)
        uring_poll(record, ring);
    return URING_REAL(io_uring_get_events)(ring);
}
