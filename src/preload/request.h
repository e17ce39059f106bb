/*
 * One asynchronous request, as libaio, POSIX AIO and io_uring have in flight with the engine: where
 * its memory is, which file it is for, and what becomes of it when the kernel has to serve it after
 * all. Functions are called in critical sections.
 */
#ifndef PRELOAD_REQUEST_H
#define PRELOAD_REQUEST_H

#include "async/async.h"
#include "file/table.h"
#include "preload/preload.h"

enum { PRELOAD_REQUEST_VECTORS = 8, PRELOAD_POOL_BLOCKS = 24 };

/*
 * The first part of what each interface keeps for a request. It belongs to a pool. Nothing of the
 * application's control block or array of vectors is needed after the submission.
 */
struct preload_request {
    struct async_request file;    /* first */
    struct preload_request *next; /* in the list that it is in */
    unsigned number;              /* in the pool; constant */
    int more_room;                /* vectors in `more` */
    size_t length;                /* of the transfer */
    dev_t device;                 /* which file it is */
    ino_t inode;
    struct iovec *more; /* for many; kept as long as the pool */
    struct iovec vectors[PRELOAD_REQUEST_VECTORS];
};

/* ---- pools ---- */

/*
 * Requests of `size` bytes, `most` of them, which are used again and again. All but
 * preload_pool_at() under a lock of the owner. A block of memory is twice as large as the one
 * before it, and is filled from the front, so that only what was used takes memory.
 */
struct preload_pool {
    size_t size;
    unsigned most;
    _Atomic unsigned made;
    struct preload_request *free;
    char *blocks[PRELOAD_POOL_BLOCKS];
};

/* For preload_pool_take(). A new request is cleared but for its number. */
struct preload_request *preload_pool_make(struct preload_pool *pool);

/* NULL: there are as many as there may be, or there is no memory. */
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

/* The request with a number, in use or not; NULL: there is none. Without a lock. */
struct preload_request *preload_pool_at(struct preload_pool *pool, uintptr_t number);
/* Gives back the memory of all. The pool is as new. */
void preload_pool_end(struct preload_pool *pool);

/* ---- a request ---- */

/* Sets the file, whose reference becomes the request's. Returns O_RDONLY, O_WRONLY or O_RDWR. */
static inline int preload_request_file(struct preload_request *request, struct file_open *open,
                                       int fd)
{
    request->file.open = open;
    request->file.fd = fd;
    return file_describe(open, &request->device, &request->inode);
}

/* Sets the memory, cut to what one call can move. 0, or -EFAULT for no address of a program. */
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

/* The same with a copy of an array of vectors. 0, -EINVAL, -EFAULT for an array that is not there,
 * or -ENOMEM. */
int preload_request_vectors(struct preload_request *request, uint64_t address, uint64_t count);
/* Is one of the vectors certainly no memory? What else is not there is found later. */
static inline bool preload_request_lacks_memory(const struct preload_request *request)
{
    const struct async_request *file = &request->file;
    for (int i = 0; i < file->count; i++)
        if (file->vectors[i].iov_len > 0 && sys_bad_pointer(file->vectors[i].iov_base))
            return true;
    return false;
}

/* The descriptor; -1 if it is another file by now. */
int preload_request_fd(const struct preload_request *request);
/*
 * Asks the kernel: the file was handed to it before the engine did anything. The result, or -ESTALE
 * when the descriptor leads to another file by now, as the one that was meant cannot be reached.
 */
ssize_t preload_request_by_kernel(const struct preload_request *request);

/* Waits until nothing is in flight. The section is left for handlers of signals meanwhile. */
void preload_settle(struct async_lane *lane);

#endif
