/* io_submit(): iocbs on managed descriptors to src/file, the others to the kernel. */
#include <limits.h>
#include <stdlib.h>

#include "preload/aio_context.h"

enum { BATCH = 128, TRANSFER_MAX = 0x7ffff000 };

static const char resfd_reason[] = "asynchronous I/O with an eventfd";

static bool is_sync(const struct iocb *iocb)
{
    return iocb->aio_lio_opcode == IOCB_CMD_FSYNC || iocb->aio_lio_opcode == IOCB_CMD_FDSYNC;
}

static bool is_on_mount(int fd)
{
    struct stat status;
    return sys_fstat(fd, &status) == 0 && file_on_mount(status.st_dev);
}

/* An fsync of the kernel's descriptor is ours, too: others may have written through the engine. */
static bool is_managed(const struct iocb *iocb)
{
    return !sys_bad_pointer(iocb) && (file_is_managed((int)iocb->aio_fildes) ||
                                      (is_sync(iocb) && is_on_mount((int)iocb->aio_fildes)));
}

/* ---- one iocb, checked as fs/aio.c does, in its order ---- */

/* The vectors are copied: the application's need not outlive io_submit(). */
static int copy_vectors(struct aio_request *request, const struct iocb *iocb)
{
    const struct iovec *from = (const struct iovec *)(uintptr_t)iocb->aio_buf;
    struct iovec *to = request->vectors;
    uint64_t count = iocb->aio_nbytes;
    size_t total = 0;
    if (count > IOV_MAX)
        return -EINVAL;
    if (count > 0 && sys_bad_pointer(from))
        return -EFAULT;
    if (count > AIO_VECTORS) {
        to = request->spilled = malloc(count * sizeof(*to));
        if (to == NULL)
            return -ENOMEM;
    }
    for (uint64_t i = 0; i < count; i++) {
        to[i] = from[i];
        if (to[i].iov_len > SSIZE_MAX)
            return -EINVAL;
        if (to[i].iov_len > TRANSFER_MAX - total)
            to[i].iov_len = TRANSFER_MAX - total;
        total += to[i].iov_len;
    }
    request->request.vectors = to;
    request->request.count = (int)count;
    return iocb->aio_offset < 0 || (size_t)iocb->aio_offset > SSIZE_MAX - total ? -EINVAL : 0;
}

static int one_vector(struct aio_request *request, const struct iocb *iocb)
{
    size_t size = iocb->aio_nbytes < TRANSFER_MAX ? iocb->aio_nbytes : TRANSFER_MAX;
    if (iocb->aio_buf > UINTPTR_MAX / 2)
        return -EFAULT;
    if (iocb->aio_offset < 0 || iocb->aio_offset > SSIZE_MAX - (off_t)size)
        return -EINVAL;
    request->vectors[0] = (struct iovec){(void *)(uintptr_t)iocb->aio_buf, size};
    request->request.vectors = request->vectors;
    request->request.count = 1;
    return 0;
}

static int prepare_transfer(struct aio_request *request, const struct iocb *iocb, bool write,
                            bool vector, int access)
{
    /* Without effect on a read, but allowed. */
    int served = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND | FILE_NOAPPEND;
    int flags = (int)iocb->aio_rw_flags;
    if (flags & ~served)
        return -EOPNOTSUPP;
    if (access == (write ? O_RDONLY : O_WRONLY))
        return -EBADF;
    request->request.operation = write ? FILE_WRITE : FILE_READ;
    request->request.offset = iocb->aio_offset;
    request->request.flags = write ? flags : flags & RWF_HIPRI;
    return vector ? copy_vectors(request, iocb) : one_vector(request, iocb);
}

static int prepare_sync(struct aio_request *request, const struct iocb *iocb)
{
    if (iocb->aio_buf || iocb->aio_offset || iocb->aio_nbytes || iocb->aio_rw_flags)
        return -EINVAL;
    request->request.operation = FILE_SYNC;
    request->request.vectors = NULL;
    request->request.count = 0;
    request->request.offset = 0;
    request->request.flags = 0;
    return 0;
}

static void name_request(struct aio_request *request, struct iocb *iocb)
{
    iocb->aio_key = 0; /* as the kernel does: io_cancel() looks at it */
    request->object = (uint64_t)(uintptr_t)iocb;
    request->data = iocb->aio_data;
}

static int prepare_operation(struct aio_request *request, struct iocb *iocb)
{
    int access = file_describe(request->request.open, &request->device, &request->inode);
    name_request(request, iocb);
    switch (iocb->aio_lio_opcode) {
    case IOCB_CMD_PREAD:
        return prepare_transfer(request, iocb, false, false, access);
    case IOCB_CMD_PWRITE:
        return prepare_transfer(request, iocb, true, false, access);
    case IOCB_CMD_PREADV:
        return prepare_transfer(request, iocb, false, true, access);
    case IOCB_CMD_PWRITEV:
        return prepare_transfer(request, iocb, true, true, access);
    case IOCB_CMD_FSYNC:
    case IOCB_CMD_FDSYNC:
        return prepare_sync(request, iocb);
    default:
        return -EINVAL;
    }
}

/* An error of the request, not of io_submit(). Memory elsewhere that is not there is found later.
 */
static bool lacks_memory(const struct file_request *request)
{
    for (int i = 0; i < request->count; i++)
        if (request->vectors[i].iov_len > 0 && sys_bad_pointer(request->vectors[i].iov_base))
            return true;
    return false;
}

/* An fsync that is the kernel's: FILE_KERNEL, or 0 for a request that fails. */
static int prepare_kernel_sync(struct aio_request *request, struct iocb *iocb)
{
    int error =
        prepare_sync(request, iocb) == 0 ? file_fsynced_by_kernel((int)iocb->aio_fildes) : 0;
    if (error == 0)
        return FILE_KERNEL; /* which also says what is wrong with it */
    name_request(request, iocb);
    request->request.open = NULL;
    request->request.result = error;
    return 0;
}

/*
 * 0; -errno; or FILE_KERNEL. A poll is the kernel's to answer, which has the descriptor, too. A
 * completion that is announced by eventfd may be looked for in the kernel's ring: see
 * aio_context.h.
 */
static int prepare(struct aio_request *request, struct iocb *iocb)
{
    int fd = (int)iocb->aio_fildes;
    if (iocb->aio_reserved2 || iocb->aio_nbytes > SSIZE_MAX)
        return -EINVAL;
    if (iocb->aio_lio_opcode == IOCB_CMD_POLL)
        return FILE_KERNEL;
    if (iocb->aio_flags & IOCB_FLAG_RESFD) {
        int result = file_demote(fd, resfd_reason);
        if (result == 0 && is_sync(iocb))
            result = file_fsynced_by_kernel(fd);
        return result < 0 ? result : FILE_KERNEL;
    }
    struct file_open *open = file_get(fd);
    if (open == NULL)
        return is_sync(iocb) ? prepare_kernel_sync(request, iocb) : FILE_KERNEL;
    request->request.open = open;
    request->request.fd = fd;
    int result = prepare_operation(request, iocb);
    if (result != 0) {
        file_put(open);
    } else if (PRELOAD_UNLIKELY(lacks_memory(&request->request))) {
        file_put(open);
        request->request.open = NULL;
        request->request.result = -EFAULT;
    }
    return result;
}

/* ---- a batch ---- */

struct batch {
    unsigned managed, kernel; /* how many of each */
    struct file_request *requests[BATCH];
    struct iocb *iocbs[BATCH];
    unsigned char request_at[BATCH], iocb_at[BATCH]; /* their places in the list */
};

static void free_all(struct aio_context *context, struct aio_request *unused)
{
    while (unused != NULL) {
        struct aio_request *next = unused->next;
        aio_request_free(context, unused);
        unused = next;
    }
}

static unsigned count_managed(struct iocb **list, long count)
{
    unsigned managed = 0;
    for (long i = 0; i < count && i < BATCH; i++)
        managed += is_managed(list[i]);
    return managed;
}

/*
 * Sorts the list up to the first iocb that is in error, into `unused` requests, which are as many
 * as are wanted, or all that there are. Returns how many there are before it.
 */
static unsigned sort(struct aio_context *context, struct batch *batch, struct iocb **list,
                     unsigned count, unsigned wanted, struct aio_request *unused, int *error)
{
    unsigned i;
    batch->managed = batch->kernel = 0;
    for (i = 0; i < count && *error == 0; i++) {
        int result = FILE_KERNEL;
        /* Beyond what was counted: another thread makes a descriptor managed just now. */
        if (wanted > 0 && is_managed(list[i])) {
            wanted--;
            struct aio_request *request = unused;
            if (request == NULL) {
                *error = -EAGAIN;
                break;
            }
            unused = request->next;
            result = prepare(request, list[i]);
            if (result == 0) {
                batch->request_at[batch->managed] = (unsigned char)i;
                batch->requests[batch->managed++] = &request->request;
            } else {
                aio_request_free(context, request);
            }
        }
        if (result == FILE_KERNEL) {
            batch->iocb_at[batch->kernel] = (unsigned char)i;
            batch->iocbs[batch->kernel++] = list[i];
        } else if (result < 0) {
            *error = result;
            break;
        }
    }
    free_all(context, unused);
    return i;
}

/* Returns how many the kernel took, or the error of the first. */
static long submit_kernel(struct aio_context *context, aio_context_t id, struct iocb **list,
                          long count)
{
    /* Before, since they may be reaped before the call returns. */
    atomic_fetch_add(&context->kernel_in_flight, count);
    long taken = sys_call3(SYS_io_submit, id, count, list);
    long missing = count - (taken > 0 ? taken : 0);
    if (missing > 0)
        atomic_fetch_sub(&context->kernel_in_flight, missing);
    return taken;
}

/* With the result that it has. */
static void fail(struct file_request *request)
{
    request->next = NULL;
    aio_request_done(request);
}

static void submit_managed(struct aio_context *context, struct batch *batch, unsigned accepted)
{
    unsigned count = batch->managed;
    while (count > 0 && batch->request_at[count - 1] >= accepted) {
        struct file_request *request = batch->requests[--count];
        if (request->open != NULL)
            file_put(request->open);
        aio_request_free(context, (struct aio_request *)request);
    }
    if (count == 0)
        return;
    aio_context_prepare(context);
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++) {
        if (PRELOAD_LIKELY(batch->requests[i]->open != NULL))
            batch->requests[kept++] = batch->requests[i];
        else
            fail(batch->requests[i]);
    }
    /* A program that looks for completions after each submission may have some sent together. */
    bool reaped = atomic_load_explicit(&context->reaped, memory_order_relaxed);
    atomic_store_explicit(&context->reaped, false, memory_order_relaxed);
    if (reaped)
        file_submit_later(&context->lane, batch->requests, kept);
    else
        file_submit(&context->lane, batch->requests, kept);
}

/* Up to BATCH of the list. Returns how many were accepted; fewer than all: see *error. */
static unsigned submit_batch(struct aio_context *context, aio_context_t id, struct iocb **list,
                             unsigned count, unsigned wanted, struct aio_request *unused,
                             int *error)
{
    struct batch batch;
    unsigned accepted = sort(context, &batch, list, count, wanted, unused, error);
    if (batch.kernel > 0) {
        long taken = submit_kernel(context, id, batch.iocbs, batch.kernel);
        if (taken < (long)batch.kernel) {
            /* The error of one that is not the first is told when it is submitted again. */
            *error = taken < 0 ? (int)taken : -EAGAIN;
            accepted = batch.iocb_at[taken > 0 ? taken : 0];
        }
    }
    submit_managed(context, &batch, accepted);
    return accepted;
}

/* `wanted` and `unused` are for the first BATCH. */
static long submit(struct aio_context *context, aio_context_t id, long count, struct iocb **list,
                   unsigned wanted, struct aio_request *unused)
{
    long done = 0;
    int error = 0;
    while (done < count && error == 0) {
        unsigned part = count - done < BATCH ? (unsigned)(count - done) : BATCH;
        if (done > 0 && (wanted = count_managed(list + done, part)) > 0)
            aio_requests_take(context, wanted, &unused);
        done += submit_batch(context, id, list + done, part, wanted, unused, &error);
        unused = NULL;
    }
    aio_context_pass_on(context);
    return done > 0 ? done : error;
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
    struct aio_request *unused = NULL;
    struct aio_context *context = aio_context_get(id, 1 + AIO_SUBMITTER, wanted, &unused);
    long result;
    if (context == NULL) {
        result = sys_call3(SYS_io_submit, id, count, list);
    } else {
        if (atomic_load(&context->ending)) {
            free_all(context, unused);
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
