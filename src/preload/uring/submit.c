/*
 * Submission: which SQEs are ours, and what becomes of them.
 *
 * Reads and writes of managed files are submitted to the engine together. Some operations the
 * engine can only do at once (fsync, fallocate, close, ...): it does them before io_uring_submit()
 * returns. Chains (IOSQE_IO_LINK) of our requests are done so, too, in order. A file is demoted if
 * the engine cannot serve a use of it, or if a chain has other descriptors, too.
 */
#include <string.h>

#include "durable/fsync.h"
#include "fd/world.h"
#include "file/table.h"
#include "preload/uring/uring.h"
#include "sys/log.h"

enum { BATCH = 64 };

/* One call of uring_dispatch(); on its stack. */
struct dispatch {
    struct uring *record;
    struct io_uring *ring;
    uint64_t number;
    unsigned mask, shift;
    unsigned end;  /* next free place of the queue: SQEs that stay move to the front */
    unsigned kept; /* SQEs that stay */
    unsigned count;
    struct async_request *requests[BATCH];
    struct preload_request *returned, **returned_end; /* by the engine to the kernel, in order */
};

static _Atomic uint64_t dispatches;
static __thread struct dispatch *dispatching;

static struct io_uring_sqe *sqe_at(const struct dispatch *dispatch, unsigned index)
{
    return &dispatch->ring->sq.sqes[(index & dispatch->mask) << dispatch->shift];
}

/* ---- completion ---- */

static void post(struct uring *record, const struct io_uring_sqe *sqe, ssize_t result,
                 bool complete)
{
    if (complete && (sqe->flags & IOSQE_CQE_SKIP_SUCCESS))
        return;
    uring_post_add(&record->post, sqe->user_data, (int32_t)result);
    /* A thread that drives this ring sends them together. If a thread waits in the kernel, each is
     * sent at once. */
    if (uring_driving != record || atomic_load(&record->waiters) > 0)
        uring_post_send(&record->post);
}

static void post_now(struct dispatch *dispatch, const struct io_uring_sqe *sqe, ssize_t result,
                     bool complete)
{
    struct uring *record = dispatch->record;
    pthread_mutex_lock(&record->lock);
    post(record, sqe, result, complete);
    pthread_mutex_unlock(&record->lock);
}

/* Runs in any thread. */
static void one_done(struct preload_request *request)
{
    struct uring_request *uring = (struct uring_request *)request;
    struct uring *record = uring->record;
    ssize_t result = request->file.result;
    if (result == FILE_KERNEL) {
        if (dispatching && dispatching->number == uring->dispatch) {
            request->next = NULL;
            *dispatching->returned_end = request;
            dispatching->returned_end = &request->next;
            return;
        }
        result = preload_request_by_kernel(request);
    }
    pthread_mutex_lock(&record->lock);
    post(record, &uring->sqe, result, result >= 0 && (size_t)result == request->length);
    preload_pool_give(&record->pool, request);
    pthread_mutex_unlock(&record->lock);
}

static void request_done(struct async_request *first)
{
    while (first) {
        struct async_request *next = first->next;
        one_done((struct preload_request *)first);
        first = next;
    }
}

/* ---- requests ---- */

static struct preload_request *take_request(struct uring *record)
{
    pthread_mutex_lock(&record->lock);
    struct preload_request *request = preload_pool_take(&record->pool);
    pthread_mutex_unlock(&record->lock);
    return request;
}

static void give_back(struct uring *record, struct preload_request *request)
{
    pthread_mutex_lock(&record->lock);
    preload_pool_give(&record->pool, request);
    pthread_mutex_unlock(&record->lock);
}

static void send_batch(struct dispatch *dispatch)
{
    if (dispatch->count == 0)
        return;
    dispatching = dispatch;
    async_submit(dispatch->record->lane, dispatch->requests, dispatch->count);
    dispatching = NULL;
    dispatch->count = 0;
}

/* An fsync by the kernel also vouches for what others of this host wrote through the engine. If
 * that cannot be committed, the SQE is changed to one that the kernel refuses. */
static void sync_of_others(struct io_uring_sqe *sqe)
{
    if (sqe->opcode == IORING_OP_FSYNC && !(sqe->flags & IOSQE_FIXED_FILE) &&
        durable_fsynced_by_kernel(sqe->fd) != 0)
        sqe->opcode = UINT8_MAX;
}

/*
 * The kernel gets the SQE unchanged, after `before` others of this submission. One with
 * IOSQE_IO_DRAIN is over when the kernel has completed all that it got, up to that one. Later
 * requests wait for that. If completions are skipped, the kernel refuses it.
 */
static void is_kernels(const struct dispatch *dispatch, struct io_uring_sqe *sqe, unsigned before)
{
    struct uring *record = dispatch->record;
    sync_of_others(sqe);
    if (sqe->flags & IOSQE_CQE_SKIP_SUCCESS)
        atomic_store(&record->undrainable, true);
    if (!(sqe->flags & IOSQE_IO_DRAIN) || atomic_load(&record->undrainable))
        return;
    atomic_store(&record->passed_by, uring_barrier_after(record, dispatch->ring, before));
    atomic_store(&record->barrier, true);
}

static void keep(struct dispatch *dispatch, const struct io_uring_sqe *sqe)
{
    struct io_uring_sqe *place = sqe_at(dispatch, dispatch->end++);
    if (place != sqe)
        memmove(place, sqe, sizeof(*sqe) << dispatch->shift);
    is_kernels(dispatch, place, dispatch->kept);
    dispatch->kept++;
}

/* True if the kernel has a request with IOSQE_IO_DRAIN: nothing later may overtake it. */
static bool behind_barrier(struct dispatch *dispatch)
{
    struct uring *record = dispatch->record;
    if (PRELOAD_LIKELY(!atomic_load(&record->barrier)))
        return false;
    if (uring_barrier_passed(record, dispatch->ring))
        atomic_store(&record->barrier, false);
    return atomic_load(&record->barrier);
}

/* Takes over the reference to `open`. */
static void start_transfer(struct dispatch *dispatch, const struct io_uring_sqe *sqe,
                           struct file_open *open, int fd)
{
    struct preload_request *request = take_request(dispatch->record);
    if (!request) {
        file_put(open);
        post_now(dispatch, sqe, -ENOMEM, false);
        return;
    }
    struct uring_request *uring = (struct uring_request *)request;
    uring->record = dispatch->record;
    uring->dispatch = dispatch->number;
    uring->sqe = *sqe;
    preload_request_file(request, open, fd);
    int result = (int64_t)sqe->off < 0 ? -EINVAL : uring_memory(request, sqe);
    if (result < 0) {
        file_put(open);
        give_back(dispatch->record, request);
        post_now(dispatch, sqe, result, false);
        return;
    }
    struct async_request *file = &request->file;
    file->operation = uring_is_write(sqe->opcode) ? ASYNC_WRITE : ASYNC_READ;
    file->offset = (off_t)sqe->off;
    file->flags = (int)sqe->rw_flags;
    file->done = request_done;
    if (dispatch->count == BATCH)
        send_batch(dispatch);
    dispatch->requests[dispatch->count++] = file;
}

/* ---- one SQE, one chain ---- */

/* The file of an SQE, with a reference. NULL: it is the kernel's. */
static struct file_open *file_of(struct uring *record, const struct io_uring_sqe *sqe, int *fd)
{
    *fd = sqe->fd;
    if (sqe->flags & IOSQE_FIXED_FILE)
        return uring_files_get(record, (unsigned)sqe->fd, fd);
    return file_get(sqe->fd);
}

/* Changes the SQE to one that the kernel refuses. Logged once. */
static void refuse(struct io_uring_sqe *sqe, const char *why)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_notice("io_uring: a request (operation %u) is refused to the application: %s",
                   sqe->opcode, why);
    sqe->opcode = UINT8_MAX;
}

static const char no_descriptor[] =
    "it is for a registered file of which this process has no descriptor any more";

static const char engines[] = "the kernel must not have its file now";

/* True if this process cannot reach the file. */
static bool is_lost(struct uring *record, const struct io_uring_sqe *sqe)
{
    return sqe->flags & IOSQE_FIXED_FILE && uring_files_managed(record, (unsigned)sqe->fd);
}

/* Demotes the file of an SQE. If that fails, refuses the SQE. */
static void hand_over(struct uring *record, struct io_uring_sqe *sqe, const char *reason)
{
    int fd;
    struct file_open *open = file_of(record, sqe, &fd);
    if (!open) {
        if (is_lost(record, sqe))
            refuse(sqe, no_descriptor);
        return;
    }
    struct file_open *named = file_get(fd);
    if (named)
        file_put(named);
    if (named != open)
        refuse(sqe, no_descriptor);
    else if (fd_demote(fd, reason) < 0 && file_is_managed(fd))
        refuse(sqe, engines);
    file_put(open);
}

static bool of_interest(struct uring *record, const struct io_uring_sqe *sqe)
{
    enum uring_kind kind = uring_kind(sqe);
    if (kind == URING_PASS)
        return false;
    if (kind == URING_NAME || kind == URING_TABLE ||
        (kind == URING_COPY && uring_source_managed(record, sqe)))
        return true;
    if (sqe->flags & IOSQE_FIXED_FILE)
        return uring_files_managed(record, (unsigned)sqe->fd);
    return file_is_managed(sqe->fd);
}

/* Before the kernel carries the SQE out: it must not pass the engine by. */
static void to_kernel(struct uring *record, struct io_uring_sqe *sqe, const char *reason)
{
    enum uring_kind kind = uring_kind(sqe);
    if ((kind == URING_NAME || kind == URING_TABLE) && !uring_name_to_kernel(sqe))
        refuse(sqe, "the kernel would open or look at what the engine has");
    else if (kind == URING_COPY && uring_source_managed(record, sqe))
        refuse(sqe, "the kernel cannot read what the engine has");
    else if (kind == URING_TABLE) {
        if (!uring_table_changes(record, sqe))
            refuse(sqe, engines);
    } else if (kind != URING_NAME && of_interest(record, sqe))
        hand_over(record, sqe, reason);
}

/* Waits until no request of this ring is in flight, including those before this SQE. */
static void settle(struct dispatch *dispatch)
{
    struct async_lane *lane = dispatch->record->lane;
    send_batch(dispatch);
    bool before = sys_critical_set_patient(true);
    while (uring_in_flight(dispatch->record) > 0)
        async_lane_wait(lane, NULL, NULL, 0);
    sys_critical_set_patient(before);
}

static bool drained(struct dispatch *dispatch, const struct io_uring_sqe *sqe)
{
    if (!(sqe->flags & IOSQE_IO_DRAIN))
        return true;
    settle(dispatch);
    return dispatch->kept == 0 && uring_in_flight(dispatch->record) == 0 &&
           uring_kernel_idle(dispatch->record, dispatch->ring);
}

static void treat_one(struct dispatch *dispatch, struct io_uring_sqe *sqe)
{
    struct uring *record = dispatch->record;
    if (!of_interest(record, sqe)) {
        if (sqe->flags & IOSQE_IO_DRAIN)
            settle(dispatch);
        keep(dispatch, sqe);
        return;
    }
    enum uring_kind kind = uring_kind(sqe);
    if (kind == URING_TABLE || kind == URING_OTHER || (sqe->flags & IOSQE_BUFFER_SELECT) ||
        (kind == URING_NAME && sqe->personality) || behind_barrier(dispatch) ||
        !drained(dispatch, sqe)) {
        to_kernel(record, sqe, "a request of io_uring that is not supported");
        keep(dispatch, sqe);
        return;
    }
    int fd = sqe->fd;
    struct file_open *open = kind == URING_NAME ? NULL : file_of(record, sqe, &fd);
    if (!open && kind != URING_NAME && kind != URING_COPY) {
        if (is_lost(record, sqe))
            refuse(sqe, no_descriptor);
        keep(dispatch, sqe); /* it was just closed or demoted */
        return;
    }
    bool positioned = (int64_t)sqe->off != -1;
    if (kind == URING_TRANSFER && positioned && !(sqe->flags & IOSQE_IO_DRAIN)) {
        start_transfer(dispatch, sqe, open, fd);
        return;
    }
    bool complete = true;
    send_batch(dispatch); /* earlier requests must be under way first */
    ssize_t result = uring_now(sqe, open, fd, &complete);
    if (open)
        file_put(open);
    if (result == FILE_KERNEL)
        keep(dispatch, sqe);
    else
        post_now(dispatch, sqe, result, complete && result >= 0);
}

/* True if this member of a chain can be done here. */
static bool chainable(struct uring *record, const struct io_uring_sqe *sqe)
{
    enum uring_kind kind = uring_kind(sqe);
    if (sqe->opcode == IORING_OP_NOP || sqe->opcode == IORING_OP_LINK_TIMEOUT)
        return true;
    if (kind == URING_NAME)
        return !sqe->personality;
    return (kind == URING_TRANSFER || kind == URING_AT_ONCE) &&
           !(sqe->flags & IOSQE_BUFFER_SELECT) && of_interest(record, sqe);
}

/*
 * Carries the members out one after the other. A member that fails, or transfers too little,
 * cancels all that follow, unless it is linked hard: io_uring_enter(2). A timeout for a member is
 * cancelled when that ends, as always if the request is faster.
 */
static void run_chain(struct dispatch *dispatch, unsigned first, unsigned count)
{
    struct uring *record = dispatch->record;
    bool broken = false, quiet = false; /* the first member that failed was to post nothing */
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *sqe = sqe_at(dispatch, first + i);
        bool complete = true;
        ssize_t result = -ECANCELED;
        int fd = sqe->fd;
        if (!broken && sqe->opcode == IORING_OP_NOP) {
            result = 0;
        } else if (!broken && sqe->opcode != IORING_OP_LINK_TIMEOUT) {
            bool by_name = uring_kind(sqe) == URING_NAME;
            struct file_open *open = by_name ? NULL : file_of(record, sqe, &fd);
            result = open || by_name ? uring_now(sqe, open, fd, &complete) : FILE_KERNEL;
            if (open)
                file_put(open);
        }
        if (result == FILE_KERNEL) { /* the rest of the chain is the kernel's */
            for (; i < count; i++) {
                sqe = sqe_at(dispatch, first + i);
                to_kernel(record, sqe, "linked to a request of the kernel");
                keep(dispatch, sqe);
            }
            return;
        }
        bool timeout = sqe->opcode == IORING_OP_LINK_TIMEOUT;
        complete = complete && result >= 0;
        if (!quiet || !broken)
            post_now(dispatch, sqe, result, complete || timeout);
        if (!complete && !timeout && !broken && !(sqe->flags & IOSQE_IO_HARDLINK)) {
            broken = true;
            quiet = sqe->flags & IOSQE_CQE_SKIP_SUCCESS;
        }
    }
}

static void treat_chain(struct dispatch *dispatch, unsigned first, unsigned count)
{
    struct uring *record = dispatch->record;
    bool ours = false, all = true, drain = false;
    for (unsigned i = 0; i < count; i++) {
        const struct io_uring_sqe *sqe = sqe_at(dispatch, first + i);
        ours |= of_interest(record, sqe);
        all &= chainable(record, sqe);
        drain |= sqe->flags & IOSQE_IO_DRAIN;
    }
    if (drain)
        settle(dispatch);
    if (ours && all && !behind_barrier(dispatch) &&
        (!drain || (dispatch->kept == 0 && uring_kernel_idle(record, dispatch->ring)))) {
        send_batch(dispatch);
        run_chain(dispatch, first, count);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *sqe = sqe_at(dispatch, first + i);
        to_kernel(record, sqe, "linked to a request of the kernel");
        keep(dispatch, sqe);
    }
}

/* ---- the queue ---- */

/* Number of SQEs, from `at` on, that belong together. */
static unsigned chain_length(const struct dispatch *dispatch, unsigned at, unsigned tail)
{
    unsigned count = 1;
    while (at + count != tail &&
           (sqe_at(dispatch, at + count - 1)->flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK)))
        count++;
    return count;
}

static bool anything_of_interest(const struct dispatch *dispatch)
{
    const struct uring_sq *sq = &dispatch->ring->sq;
    for (unsigned at = sq->sqe_head; at != sq->sqe_tail; at++) {
        const struct io_uring_sqe *sqe = sqe_at(dispatch, at);
        if (of_interest(dispatch->record, sqe) ||
            ((sqe->flags & IOSQE_IO_DRAIN) && uring_in_flight(dispatch->record) > 0))
            return true;
    }
    return false;
}

/* What the engine gave back goes to the kernel after all. There is room, as it was taken from
 * here. */
static void keep_returned(struct dispatch *dispatch)
{
    while (dispatch->returned) {
        struct preload_request *request = dispatch->returned;
        dispatch->returned = request->next;
        struct io_uring_sqe *place = sqe_at(dispatch, dispatch->end++);
        memcpy(place, &((struct uring_request *)request)->sqe, sizeof(*place));
        dispatch->kept++;
        give_back(dispatch->record, request);
    }
}

static void hand_over_all(struct dispatch *dispatch, unsigned head, unsigned tail)
{
    for (unsigned at = head; at != tail; at++) {
        struct io_uring_sqe *sqe = sqe_at(dispatch, at);
        to_kernel(dispatch->record, sqe, "a ring of a kind that is not supported");
        is_kernels(dispatch, sqe, at - head);
    }
}

/* For a queue that is all the kernel's. */
static void pass(const struct dispatch *dispatch)
{
    const struct uring_sq *sq = &dispatch->ring->sq;
    for (unsigned at = sq->sqe_head; at != sq->sqe_tail; at++) {
        struct io_uring_sqe *sqe = sqe_at(dispatch, at);
        if (sqe->opcode != IORING_OP_FSYNC &&
            !(sqe->flags & (IOSQE_IO_DRAIN | IOSQE_CQE_SKIP_SUCCESS)))
            continue;
        struct preload_stay stay = preload_stay_begin();
        is_kernels(dispatch, sqe, at - sq->sqe_head);
        preload_stay_end(stay);
    }
}

unsigned uring_dispatch(struct uring *record, struct io_uring *ring)
{
    /* It is known what these flags do to the queue. With others, SQEs cannot be rearranged. */
    const unsigned known = URING_CQE_MIXED * 2 - 1;
    struct uring_sq *sq = &ring->sq;
    struct dispatch dispatch = {.record = record,
                                .ring = ring,
                                .mask = *sq->kring_mask,
                                .shift = ring->flags & IORING_SETUP_SQE128 ? 1 : 0,
                                .end = sq->sqe_head};
    dispatch.returned_end = &dispatch.returned;
    if (sq->sqe_head == sq->sqe_tail)
        return 0;
    if (!anything_of_interest(&dispatch)) {
        pass(&dispatch);
        return 0;
    }

    struct preload_stay stay = preload_stay_begin();
    unsigned head = sq->sqe_head, tail = sq->sqe_tail;
    /* If a ring is disabled, what is submitted stays in its queue, for the kernel. */
    if ((ring->flags & ~known) || atomic_load(&record->disabled) ||
        !uring_open(record, ring->ring_fd)) {
        hand_over_all(&dispatch, head, tail);
        preload_stay_end(stay);
        return 0;
    }
    dispatch.number = atomic_fetch_add(&dispatches, 1) + 1;
    atomic_fetch_add(&record->drivers, 1);
    uring_driving = record;
    for (unsigned at = head; at != tail;) {
        unsigned count = chain_length(&dispatch, at, tail);
        if (count == 1)
            treat_one(&dispatch, sqe_at(&dispatch, at));
        else
            treat_chain(&dispatch, at, count);
        at += count;
    }
    send_batch(&dispatch);
    keep_returned(&dispatch);
    sq->sqe_tail = dispatch.end;
    uring_driving = NULL;
    pthread_mutex_lock(&record->lock);
    uring_post_send(&record->post);
    pthread_mutex_unlock(&record->lock);
    atomic_fetch_sub(&record->drivers, 1);

    if (uring_in_flight(record) > 0 && !async_lane_is_attended(record->lane)) {
        if (atomic_load(&record->waiters) > 0)
            async_lane_attend(record->lane);
        else
            uring_watch(record);
    }
    preload_stay_end(stay);
    return tail - head - dispatch.kept;
}

void uring_hand_over(struct uring *record)
{
    const struct uring_sq *sq = &record->made.sq;
    struct dispatch dispatch = {.record = record,
                                .ring = &record->made,
                                .mask = *sq->kring_mask,
                                .shift = record->made.flags & IORING_SETUP_SQE128 ? 1 : 0};
    struct preload_stay stay = preload_stay_begin();
    unsigned head = __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE);
    unsigned tail = __atomic_load_n(sq->ktail, __ATOMIC_ACQUIRE);
    if (sq->array && tail - head <= dispatch.mask + 1) {
        for (unsigned at = head; at != tail; at++) {
            unsigned index = sq->array[at & dispatch.mask];
            if (index <= dispatch.mask)
                hand_over_all(&dispatch, index, index + 1);
        }
    } else {
        hand_over_all(&dispatch, 0, dispatch.mask + 1);
    }
    preload_stay_end(stay);
}
