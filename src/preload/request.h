/*
 * One asynchronous request in flight with the engine, for libaio, POSIX AIO and io_uring. It has
 * the memory, the file, and what the kernel needs if it must serve the request after all. Functions
 * are called in critical sections.
 */
#ifndef PRELOAD_REQUEST_H
#define PRELOAD_REQUEST_H

#include "async/async.h"
#include "file/table.h"
#include "preload/preload.h"

enum { PRELOAD_REQUEST_VECTORS = 8, PRELOAD_POOL_BLOCKS = 24 };

/*
 * The first part of what each interface keeps for a request. It belongs to a pool. After the
 * submission, the application's control block and array of vectors are not needed any more.
 */
struct preload_request {
    struct async_request file;    /* first */
    struct preload_request *next; /* in its list */
    unsigned number;              /* in the pool; constant */
    int more_room;                /* vectors in `more` */
    size_t length;                /* of the transfer */
    dev_t device;                 /* identity of the file */
    ino_t inode;
    struct iovec *more; /* if there are many; kept as long as the pool */
    struct iovec vectors[PRELOAD_REQUEST_VECTORS];
};

/* ---- pools ---- */

/*
 * A pool of requests of `size` bytes each, at most `most`, which are used again and again. The
 * owner has a lock, and holds it for all functions but preload_pool_at(). Each block of memory is
 * twice as large as the one before it. It is filled from the front, so that only used requests take
 * memory.
 */
struct preload_pool {
    size_t size;
    unsigned most;
    _Atomic unsigned made;
    struct preload_request *free;
    char *blocks[PRELOAD_POOL_BLOCKS];
};

/* For preload_pool_take(). A new request is zero but for its number. */
struct preload_request *preload_pool_make(struct preload_pool *pool);

/* NULL: the pool has `most` requests, or there is no memory. */
static inline struct preload_request *preload_pool_take(struct preload_pool *pool)
{
    struct preload_request *request = pool->free;
    if (PRELOAD_UNLIKELY(request == NULL))
        return preload_pool_make(pool);
    pool->free = request->next;
    return request;
}

static inline void preload_pool_give(struct preload_pool *pool, struct preload_request *request)
{
    request->next = pool->free;
    pool->free = request;
}

/* The request with that number, in use or not. NULL: there is none. Needs no lock. */
struct preload_request *preload_pool_at(struct preload_pool *pool, uintptr_t number);
/* Gives back all memory. The pool is as new. */
void preload_pool_end(struct preload_pool *pool);

/* ---- a request ---- */

/* Sets the file; the request takes over the reference. Returns O_RDONLY, O_WRONLY or O_RDWR. */
static inline int preload_request_file(struct preload_request *request, struct file_open *open,
                                       int fd)
{
    request->file.open = open;
    request->file.fd = fd;
    return file_describe(open, &request->device, &request->inode);
}

/* Sets the memory, cut to what one call can move. 0, or -EFAULT: no program has such an address. */
static inline int preload_request_buffer(struct preload_request *request, uint64_t address,
                                         uint64_t size)
{
    request->length = size < FILE_TRANSFER_MAX ? size : FILE_TRANSFER_MAX;
    if (address > UINTPTR_MAX / 2 - request->length)
        return -EFAULT;
    request->vectors[0] = (struct iovec){(void *)(uintptr_t)address, request->length};
    request->file.vectors = request->vectors;
    request->file.count = 1;
    return 0;
}

/* Sets the memory by a copy of an array of vectors. 0 or:
 * -EINVAL: too many vectors, or too long a one.
 * -EFAULT: the array is not there, or no program has such an address.
 * -ENOMEM: no memory for the copy. */
int preload_request_vectors(struct preload_request *request, uint64_t address, uint64_t count);
/* True if one of the vectors is certainly no memory. What else is not there is found later. */
static inline bool preload_request_lacks_memory(const struct preload_request *request)
{
    const struct async_request *file = &request->file;
    for (int i = 0; i < file->count; i++)
        if (file->vectors[i].iov_len > 0 && sys_bad_pointer(file->vectors[i].iov_base))
            return true;
    return false;
}

/* The descriptor; -1: another file is on it by now. */
int preload_request_fd(const struct preload_request *request);
/*
 * Makes the kernel serve the request: it got the file before the engine did anything. Returns the
 * result, or:
 * -ESTALE: another file is on the descriptor by now, and this one cannot be reached.
 */
ssize_t preload_request_by_kernel(const struct preload_request *request);

/* Waits until nothing is in flight. It leaves the section for a moment if a handler must run. */
void preload_settle(struct async_lane *lane);

#endif
