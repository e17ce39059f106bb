/* io_submit(): iocbs on managed descriptors go to the engine, all others to the kernel. */
#include <limits.h>

#include "durable/fsync.h"
#include "fd/stat.h"
#include "fd/world.h"
#include "file/table.h"
#include "preload/aio/context.h"

enum { BATCH = 128 };

static const char resfd_reason[] = "asynchronous I/O with an eventfd";

static bool is_sync(const struct iocb *iocb)
{
    return iocb->aio_lio_opcode == IOCB_CMD_FSYNC || iocb->aio_lio_opcode == IOCB_CMD_FDSYNC;
}

static bool is_on_mount(int fd)
{
    struct stat status;
    return sys_fstat(fd, &status) == 0 && fd_on_mount(status.st_dev);
}

/* Our part of an fsync of the kernel: others may have written to the file through the engine. */
static bool is_managed(const struct iocb *iocb)
{
    return !sys_bad_pointer(iocb) && (file_is_managed((int)iocb->aio_fildes) ||
                                      (is_sync(iocb) && is_on_mount((int)iocb->aio_fildes)));
}

/* ---- one iocb, checked as fs/aio.c does, in its order ---- */

static int prepare_transfer(struct preload_request *request, const struct iocb *iocb, int access)
{
    unsigned code = iocb->aio_lio_opcode;
    bool write = code == IOCB_CMD_PWRITE || code == IOCB_CMD_PWRITEV;
    bool vector = code == IOCB_CMD_PREADV || code == IOCB_CMD_PWRITEV;
    /* Allowed on a read, without effect. */
    int served = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND | FILE_NOAPPEND;
    int flags = (int)iocb->aio_rw_flags;
    if (flags & ~served)
        return -EOPNOTSUPP;
    if (access == (write ? O_RDONLY : O_WRONLY))
        return -EBADF;
    request->file.operation = write ? ASYNC_WRITE : ASYNC_READ;
    request->file.offset = iocb->aio_offset;
    request->file.flags = write ? flags : flags & RWF_HIPRI;
    int result = vector ? preload_request_vectors(request, iocb->aio_buf, iocb->aio_nbytes)
                        : preload_request_buffer(request, iocb->aio_buf, iocb->aio_nbytes);
    if (result != 0)
        return result;
    bool outside = iocb->aio_offset < 0 || iocb->aio_offset > SSIZE_MAX - (off_t)request->length;
    return outside ? -EINVAL : 0;
}

static int prepare_sync(struct preload_request *request, const struct iocb *iocb)
{
    if (iocb->aio_buf || iocb->aio_offset || iocb->aio_nbytes || iocb->aio_rw_flags)
        return -EINVAL;
    request->file.operation = ASYNC_SYNC;
    request->file.vectors = NULL;
    request->file.count = 0;
    request->file.offset = 0;
    request->file.flags = 0;
    return 0;
}

static int prepare_operation(struct preload_request *request, const struct iocb *iocb, int access)
{
    switch (iocb->aio_lio_opcode) {
    case IOCB_CMD_PREAD:
    case IOCB_CMD_PWRITE:
    case IOCB_CMD_PREADV:
    case IOCB_CMD_PWRITEV:
        return prepare_transfer(request, iocb, access);
    case IOCB_CMD_FSYNC:
    case IOCB_CMD_FDSYNC:
        return prepare_sync(request, iocb);
    default:
        return -EINVAL;
    }
}

/* For an fsync that is the kernel's. FILE_KERNEL: pass it on; 0: the request fails. */
static int prepare_kernel_sync(struct preload_request *request, const struct iocb *iocb)
{
    int error =
        prepare_sync(request, iocb) == 0 ? durable_fsynced_by_kernel((int)iocb->aio_fildes) : 0;
    if (error == 0)
        return FILE_KERNEL; /* the kernel also says what is wrong with it */
    request->file.open = NULL;
    request->file.result = error;
    return 0;
}

/*
 * Returns 0, -errno, or FILE_KERNEL. The kernel answers a poll, as it has the descriptor. It also
 * gets a file if an eventfd announces completions: the program may look for them in the kernel's
 * ring. See aio/context.h.
 */
static int prepare(struct preload_request *request, const struct iocb *iocb)
{
    int fd = (int)iocb->aio_fildes;
    if (iocb->aio_reserved2 || iocb->aio_nbytes > SSIZE_MAX)
        return -EINVAL;
    if (iocb->aio_lio_opcode == IOCB_CMD_POLL)
        return FILE_KERNEL;
    if (iocb->aio_flags & IOCB_FLAG_RESFD) {
        int result = fd_demote(fd, resfd_reason);
        if (result == 0 && is_sync(iocb))
            result = durable_fsynced_by_kernel(fd);
        return result < 0 ? result : FILE_KERNEL;
    }
    struct file_open *open = file_get(fd);
    if (open == NULL)
        return is_sync(iocb) ? prepare_kernel_sync(request, iocb) : FILE_KERNEL;
    int result = prepare_operation(request, iocb, preload_request_file(request, open, fd));
    if (result != 0) {
        file_put(open);
    } else if (PRELOAD_UNLIKELY(preload_request_lacks_memory(request))) {
        file_put(open); /* an error of the request, not of io_submit() */
        request->file.open = NULL;
        request->file.result = -EFAULT;
    }
    return result;
}

/* ---- a batch ---- */

struct batch {
    struct aio_context *context;
    aio_context_t id;
    unsigned wanted;                /* managed iocbs, as they were counted */
    struct preload_request *unused; /* requests for those: as many, or all that there are */
    int error;                      /* of the first iocb that was not accepted */
    unsigned managed, kernel;       /* how many of each */
    struct async_request *requests[BATCH];
    struct iocb *iocbs[BATCH];
    unsigned char request_at[BATCH], iocb_at[BATCH]; /* their places in the list */
};

static void add_managed(struct batch *batch, struct preload_request *request, struct iocb *iocb,
                        unsigned place)
{
    struct aio_request *aio = (struct aio_request *)request;
    iocb->aio_key = 0; /* as the kernel does: io_cancel() looks at it */
    request->file.done = aio_request_done;
    aio->context = batch->context;
    aio->object = (uint64_t)(uintptr_t)iocb;
    aio->data = iocb->aio_data;
    batch->request_at[batch->managed] = (unsigned char)place;
    batch->requests[batch->managed++] = &request->file;
}

static unsigned count_managed(struct iocb **list, long count)
{
    unsigned managed = 0;
    for (long i = 0; i < count && i < BATCH; i++)
        managed += is_managed(list[i]);
    return managed;
}

/* 0: managed, and added; FILE_KERNEL; or -errno. */
static int sort_one(struct batch *batch, struct iocb *iocb, unsigned place)
{
    /* There are more than were counted: another thread just made a descriptor managed. */
    if (batch->wanted == 0 || !is_managed(iocb))
        return FILE_KERNEL;
    struct preload_request *request = batch->unused;
    batch->wanted--;
    if (request == NULL)
        return -EAGAIN;
    int result = prepare(request, iocb);
    if (result == 0) {
        batch->unused = request->next;
        add_managed(batch, request, iocb, place);
    }
    return result;
}

/* Sorts the list up to the first faulty iocb. Returns how many there are before it. */
static unsigned sort(struct batch *batch, struct iocb **list, unsigned count)
{
    unsigned i;
    batch->managed = batch->kernel = 0;
    for (i = 0; i < count; i++) {
        int result = sort_one(batch, list[i], i);
        if (result == FILE_KERNEL) {
            batch->iocb_at[batch->kernel] = (unsigned char)i;
            batch->iocbs[batch->kernel++] = list[i];
        } else if (result < 0) {
            batch->error = result;
            break;
        }
    }
    aio_requests_give(batch->context, batch->unused);
    return i;
}

/* Returns how many the kernel took, or the error of the first. */
static long submit_kernel(struct aio_context *context, aio_context_t id, struct iocb **list,
                          long count)
{
    /* Before the call, as they may be reaped before it returns. */
    atomic_fetch_add(&context->kernel_in_flight, count);
    long taken = sys_call3(SYS_io_submit, id, count, list);
    long missing = count - (taken > 0 ? taken : 0);
    if (missing > 0)
        atomic_fetch_sub(&context->kernel_in_flight, missing);
    return taken;
}

/* Hides the ring from programs that look there for completions: see context.h. */
static void hide_ring(aio_context_t id)
{
    struct aio_ring *ring = (struct aio_ring *)id;
    if (__atomic_load_n(&ring->magic, __ATOMIC_RELAXED) != 0)
        __atomic_store_n(&ring->magic, 0, __ATOMIC_RELAXED);
}

static void submit_managed(struct batch *batch, unsigned accepted)
{
    struct aio_context *context = batch->context;
    unsigned count = batch->managed;
    while (count > 0 && batch->request_at[count - 1] >= accepted) {
        struct async_request *request = batch->requests[--count];
        if (request->open != NULL)
            file_put(request->open);
        ((struct preload_request *)request)->next = NULL;
        aio_requests_give(context, (struct preload_request *)request);
    }
    if (count == 0)
        return;
    hide_ring(batch->id);
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++) {
        struct async_request *request = batch->requests[i];
        if (PRELOAD_LIKELY(request->open != NULL)) {
            batch->requests[kept++] = request;
        } else { /* it has its result */
            request->next = NULL;
            aio_request_done(request);
        }
    }
    /* If a program reaps after each submission, some requests may leave together. */
    bool reaped = atomic_load_explicit(&context->reaped, memory_order_relaxed);
    atomic_store_explicit(&context->reaped, false, memory_order_relaxed);
    struct aio_submitting submitting = {.context = context, .end = &submitting.first};
    aio_submitting = &submitting;
    (reaped ? async_submit_later : async_submit)(context->lane, batch->requests, kept);
    aio_submitting = NULL;
    for (struct preload_request *request = submitting.first, *next; request; request = next) {
        next = request->next;
        request->file.result = preload_request_by_kernel(request);
        request->file.next = NULL;
        aio_request_done(&request->file);
    }
}

/* Submits up to BATCH iocbs of the list. Returns how many were accepted. If these are not all,
 * batch->error says why. */
static unsigned submit_batch(struct batch *batch, struct iocb **list, unsigned count)
{
    unsigned accepted = sort(batch, list, count);
    if (batch->kernel > 0) {
        long taken = submit_kernel(batch->context, batch->id, batch->iocbs, batch->kernel);
        if (taken < (long)batch->kernel) {
            /* If a later one is faulty, its error is told when it is submitted again. */
            batch->error = taken < 0 ? (int)taken : -EAGAIN;
            accepted = batch->iocb_at[taken > 0 ? taken : 0];
        }
    }
    submit_managed(batch, accepted);
    return accepted;
}

/* `wanted` and `unused` are for the first BATCH. */
static long submit(struct aio_context *context, aio_context_t id, long count, struct iocb **list,
                   unsigned wanted, struct preload_request *unused)
{
    struct batch batch;
    long done = 0;
    batch.context = context;
    batch.id = id;
    batch.wanted = wanted;
    batch.unused = unused;
    batch.error = 0;
    while (done < count && batch.error == 0) {
        unsigned part = count - done < BATCH ? (unsigned)(count - done) : BATCH;
        if (done > 0) {
            batch.wanted = count_managed(list + done, part);
            aio_requests_take(context, batch.wanted, &batch.unused);
        }
        done += submit_batch(&batch, list + done, part);
    }
    aio_context_pass_on(context);
    return done > 0 ? done : batch.error;
}

static bool any_managed(struct iocb **list, long count)
{
    for (long i = 0; i < count; i++)
        if (is_managed(list[i]))
            return true;
    return false;
}

long aio_io_submit(aio_context_t id, long count, struct iocb **list)
{
    if (!preload_active() || count <= 0 || sys_bad_pointer(list))
        return sys_call3(SYS_io_submit, id, count, list);
    sys_critical_enter();
    unsigned wanted = count_managed(list, count);
    struct preload_request *unused = NULL;
    struct aio_context *context = aio_context_get(id, 1 + AIO_SUBMITTER, wanted, &unused);
    long result;
    if (context == NULL) {
        result = sys_call3(SYS_io_submit, id, count, list);
    } else {
        if (atomic_load(&context->ending)) {
            aio_requests_give(context, unused);
            result = -EINVAL;
        } else if (wanted == 0 && (count <= BATCH || !any_managed(list + BATCH, count - BATCH))) {
            result = submit_kernel(context, id, list, count);
            aio_context_pass_on(context);
        } else {
            result = submit(context, id, count, list, wanted, unused);
        }
        aio_context_put(context, 1 + AIO_SUBMITTER);
    }
    sys_critical_leave();
    return result;
}
