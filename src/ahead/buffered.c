/* A read: what was fetched, what the host's cache has, and the rest from the server. */
#include "ahead/buffered.h"
#include "ahead/ahead.h"
#include "ahead/cache.h"
#include "file/enter.h"
#include "io/io.h"
#include "rpc/message.h"
#include "stats/count.h"

/* As io_read_at(), but takes first what the host's cache has, or was read ahead. */
static ssize_t read_buffered(struct file_open *open, const struct iovec *vectors, int count,
                             size_t length, uint64_t offset)
{
    struct iovec own[RPC_VECTORS_MAX];
    struct ahead_gift ahead = {.length = 0};
    if (ahead_ends(open, offset)) {
        stats_file_read(open->stats, 0, 0);
        return 0;
    }
    ssize_t cached = ahead_streams(open, offset)
                         ? -EAGAIN
                         : ahead_cache_read(open, vectors, count, length, offset);
    if (cached != -EAGAIN)
        return cached;
    if (ahead_wants(open, offset) && count <= RPC_VECTORS_MAX)
        ahead_read(open, vectors, count, length, offset, &ahead);
    if (ahead.length > 0)
        stats_file_read(open->stats, ahead.length, 0);
    if (ahead.length == 0 && ahead.error != 0)
        return ahead.error;
    ssize_t rest = 0;
    if (ahead.length > 0 && ahead.length < length) {
        count = rpc_vectors_slice(vectors, count, ahead.length, length - ahead.length, own);
        vectors = own;
    }
    if (ahead.error == 0 && ahead.length < length)
        rest = ahead_cache_fill(open, vectors, count, length - ahead.length, offset + ahead.length);
    if (rest < 0 && (ahead.length == 0 || file_is_for_kernel(rest)))
        return rest;
    ssize_t result = (ssize_t)ahead.length + (rest > 0 ? rest : 0);
    if (result > 0 && !ahead.stream)
        ahead_note(open, offset, offset + (uint64_t)result);
    return result;
}

ssize_t ahead_preadv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                     off_t offset, int flags)
{
    (void)fd;
    ssize_t length = io_read_check(open, vectors, count, offset, flags);
    if (length <= 0)
        return length;
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    ssize_t result = file_is_buffered(open)
                         ? read_buffered(open, vectors, count, (size_t)length, (uint64_t)offset)
                         : io_read_at(open, vectors, count, (size_t)length, offset);
    return file_finish_call(open, result);
}
