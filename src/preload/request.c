/* One asynchronous request: see request.h. */
#include "preload/request.h"

#include <limits.h>
#include <stdlib.h>

enum { FIRST_BLOCK = 16 };

/* ---- pools ---- */

/* Block k begins with number FIRST_BLOCK * (2^k - 1), and has FIRST_BLOCK * 2^k requests. */
static unsigned block_of(unsigned number)
{
    return 31 - (unsigned)__builtin_clz(number / FIRST_BLOCK + 1);
}

static unsigned block_first(unsigned block)
{
    return FIRST_BLOCK * ((1U << block) - 1);
}

static size_t block_size(const struct preload_pool *pool, unsigned block)
{
    return ((size_t)FIRST_BLOCK << block) * pool->size;
}

static struct preload_request *request_at(const struct preload_pool *pool, unsigned number)
{
    unsigned block = block_of(number);
    return (struct preload_request *)(pool->blocks[block] +
                                      (number - block_first(block)) * pool->size);
}

PRELOAD_SLOW struct preload_request *preload_pool_make(struct preload_pool *pool)
{
    unsigned number = atomic_load_explicit(&pool->made, memory_order_relaxed);
    unsigned block = block_of(number);
    if (number >= pool->most || block >= PRELOAD_POOL_BLOCKS)
        return NULL;
    if (pool->blocks[block] == NULL) {
        char *memory = sys_mmap(NULL, block_size(pool, block), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (sys_mmap_failed(memory))
            return NULL;
        pool->blocks[block] = memory;
    }
    struct preload_request *request = request_at(pool, number);
    request->number = number;
    atomic_store_explicit(&pool->made, number + 1, memory_order_release);
    return request;
}

struct preload_request *preload_pool_at(struct preload_pool *pool, uintptr_t number)
{
    if (number >= atomic_load_explicit(&pool->made, memory_order_acquire))
        return NULL;
    return request_at(pool, (unsigned)number);
}

void preload_pool_end(struct preload_pool *pool)
{
    /* First: then a child that another thread forks meanwhile does not do it again. */
    unsigned made = atomic_exchange(&pool->made, 0);
    pool->free = NULL;
    for (unsigned i = 0; i < made; i++)
        free(request_at(pool, i)->more);
    for (unsigned i = 0; i < PRELOAD_POOL_BLOCKS; i++) {
        char *block = pool->blocks[i];
        __atomic_store_n(&pool->blocks[i], NULL, __ATOMIC_SEQ_CST);
        if (block != NULL)
            sys_munmap(block, block_size(pool, i));
    }
}

/* ---- memory ---- */

/* Room for `count` vectors. NULL: no memory. */
static struct iovec *room_for(struct preload_request *request, int count)
{
    if (count <= PRELOAD_REQUEST_VECTORS)
        return request->vectors;
    if (count > request->more_room) {
        free(request->more);
        request->more = malloc((size_t)count * sizeof(struct iovec));
        request->more_room = request->more != NULL ? count : 0;
    }
    return request->more;
}

int preload_request_vectors(struct preload_request *request, uint64_t address, uint64_t count)
{
    const struct iovec *from = (const struct iovec *)(uintptr_t)address;
    if (count > IOV_MAX)
        return -EINVAL;
    struct iovec *to = room_for(request, (int)count);
    if (to == NULL)
        return -ENOMEM;
    if (count > 0 && preload_get(to, from, count * sizeof(*to)) != 0)
        return -EFAULT;
    size_t total = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (to[i].iov_len > SSIZE_MAX)
            return -EINVAL;
        if ((uintptr_t)to[i].iov_base > UINTPTR_MAX / 2 - to[i].iov_len)
            return -EFAULT;
        if (to[i].iov_len > FILE_TRANSFER_MAX - total)
            to[i].iov_len = FILE_TRANSFER_MAX - total;
        total += to[i].iov_len;
    }
    request->length = total;
    request->file.vectors = to;
    request->file.count = (int)count;
    return 0;
}

/* ---- the file ---- */

int preload_request_fd(const struct preload_request *request)
{
    struct stat status;
    bool same = sys_fstat(request->file.fd, &status) == 0 && status.st_dev == request->device &&
                status.st_ino == request->inode;
    return same ? request->file.fd : -1;
}

PRELOAD_SLOW ssize_t preload_request_by_kernel(const struct preload_request *request)
{
    const struct async_request *file = &request->file;
    int fd = preload_request_fd(request);
    if (fd < 0)
        return -ESTALE;
    if (file->operation == ASYNC_SYNC)
        return sys_fsync(fd);
    return sys_call6(file->operation == ASYNC_READ ? SYS_preadv2 : SYS_pwritev2, fd,
                     (long)file->vectors, file->count, file->offset, 0, file->flags);
}

void preload_settle(struct async_lane *lane)
{
    while (async_lane_in_flight(lane) > 0) {
        async_lane_wait(lane, NULL, NULL, 0);
        if (sys_critical_interrupts()) {
            sys_critical_leave();
            sys_critical_enter();
        }
    }
}
