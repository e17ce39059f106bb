#include "ahead/cache.h"

#include "ahead/ahead.h"
#include "file/attributes.h"
#include "file/vectors.h"
#include "io/io.h"
#include "ledger/cache.h"
#include "stats/count.h"
#include "sys/alloc.h"

enum { FILE_MAX = 256 << 10 }; /* of a file of which is kept what is read in sequence */

static bool is_on(const struct file_open *open, size_t length)
{
    return mount_tunables.read_cache_max > 0 && length <= LEDGER_CACHE_PIECE &&
           file_is_buffered(open);
}

/* How many bytes of [offset, offset + length) are a whole answer, if `had` bytes are there. 0: they
 * are none. */
static size_t whole(struct file_inode *inode, uint64_t offset, size_t length, size_t had)
{
    struct ledger_attributes attributes;
    if (had == length || had == 0)
        return had;
    if (!file_inode_known(inode, &attributes) || attributes.size > offset + had ||
        attributes.size <= offset)
        return 0;
    return (size_t)(attributes.size - offset);
}

/* Is the copy good? Asks the server, if need be. */
static bool is_good(struct file_open *open, const struct ledger_stamp *stamp, uint64_t offset,
                    size_t length)
{
    struct file_inode *inode = open->inode;
    struct ledger_attributes attributes;
    uint64_t since_ns = file_fresh_since(inode);
    enum ledger_cache_state state =
        ledger_cache_judge_copy(&inode->entry, stamp, offset, length, since_ns);
    if (state == LEDGER_CACHE_UNSEEN && file_inode_ask(inode, open->auth, &attributes) == 0)
        state = ledger_cache_judge_copy(&inode->entry, stamp, offset, length, since_ns);
    return state == LEDGER_CACHE_GOOD;
}

ssize_t ahead_cache_read(struct file_open *open, const struct iovec *vectors, int count,
                         size_t length, uint64_t offset)
{
    struct ledger_stamp stamp;
    struct file_inode *inode = open->inode;
    if (!is_on(open, length) || !ledger_cache_watches(&inode->entry) ||
        file_bad_vectors(vectors, count))
        return -EAGAIN;
    uint8_t *bytes = sys_alloc(length);
    if (!bytes)
        return -EAGAIN;
    size_t had = ledger_cache_copy(&inode->entry, offset, length, bytes, &stamp);
    ssize_t result = -EAGAIN;
    if (had > 0 && is_good(open, &stamp, offset, had) &&
        (had = whole(inode, offset, length, had)) > 0) {
        int error = file_give(vectors, 0, bytes, had);
        result = error != 0 ? error : (ssize_t)had;
    }
    sys_free(bytes);
    if (result == -EAGAIN) {
        stats_add(&stats_own->counters.cache_misses, 1);
    } else if (result > 0) {
        stats_add(&stats_own->counters.cache_hits, 1);
        stats_add(&stats_own->counters.cache_bytes, (uint64_t)result);
        stats_file_read(open->stats, (uint64_t)result, 0);
        ahead_note(open, offset, offset + (uint64_t)result);
    }
    return result;
}

void ahead_cache_keep(struct file_open *open, const struct ledger_stamp *stamp, uint64_t offset,
                      const struct iovec *data, bool streamed)
{
    struct ledger_file *file = &open->inode->entry;
    if (mount_tunables.read_cache_max == 0)
        return;
    if (!streamed || ledger_file_least_size(file) <= FILE_MAX)
        ledger_cache_keep(file, stamp, offset, data, data->iov_len);
    else
        ledger_cache_passed(file, offset, data->iov_len);
}

/* The server's bytes come into memory that nobody else writes: the program could change its own
 * before they are kept for all. */
ssize_t ahead_cache_fill(struct file_open *open, const struct iovec *vectors, int count,
                         size_t length, uint64_t offset)
{
    struct ledger_file *file = &open->inode->entry;
    struct ledger_stamp stamp;
    uint8_t *bytes = NULL;
    if (is_on(open, length) && ledger_cache_is_there() && !file_bad_vectors(vectors, count) &&
        ledger_stamp_take_quiet(file, offset, offset + length, &stamp))
        bytes = sys_alloc(length);
    if (!bytes) {
        ssize_t passed = io_read_at(open, vectors, count, length, (off_t)offset);
        if (passed > 0 && mount_tunables.read_cache_max > 0)
            ledger_cache_passed(file, offset, (size_t)passed);
        return passed;
    }
    struct iovec own = {bytes, length};
    ssize_t result = io_read_at(open, &own, 1, length, (off_t)offset);
    if (result > 0) {
        int error = file_give(vectors, 0, bytes, (size_t)result);
        ledger_cache_keep(file, &stamp, offset, &own, (size_t)result);
        result = error != 0 ? error : result;
    }
    sys_free(bytes);
    return result;
}
