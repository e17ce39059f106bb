/* Reading. */
#include "file/ahead.h"
#include "file/cache.h"
#include "file/commit.h"
#include "file/flush.h"
#include "file/getattr.h"
#include "file/give.h"
#include "file/inode.h"
#include "file/io.h"
#include "file/renew.h"
#include "ledger/commits.h"
#include "ledger/dirty.h"
#include "ledger/stamp.h"
#include "ledger/uncommitted.h"
#include "rpc/message.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/test_switch.h"

enum {
    READ_AGAIN_MOST = 2,
    READ_WHOLE_MOST = 1 << 20 /* bytes of a read that is not to be half of a write */
};

bool file_read_is_suspect(struct file_inode *inode, const struct nfs_transfer *transfer,
                          const struct ledger_stamp *stamp)
{
    uint64_t verifier;
    if (ledger_file_acknowledged(&inode->entry) > 0 &&
        (ledger_file_distrusted(&inode->entry) ||
         !file_server_verifier(inode->mount->server, transfer->connected_ns, &verifier) ||
         ledger_file_verifier_differs(&inode->entry, verifier)))
        return true;
    return !ledger_stamp_lasts(&inode->entry, stamp, LEDGER_STAMP_REWRITTEN, 0, 0);
}

/* [offset, offset + length) was found to be dirty: as much as still is, in one step, or -EFAULT;
 * -EAGAIN: not all of it, or it is too much for that. */
static ssize_t give_dirty(struct file_inode *inode, const struct iovec *vectors, size_t length,
                          uint64_t offset)
{
    size_t done;
    uint8_t *memory = length <= READ_WHOLE_MOST ? sys_alloc(length) : NULL;
    if (!memory)
        return -EAGAIN;
    ssize_t result = -EAGAIN;
    if (ledger_dirty_read(&inode->entry, offset, length, memory, &done) == LEDGER_DIRTY_ALL)
        result = (ssize_t)done;
    if (result > 0 && file_give(vectors, 0, memory, done) != 0)
        result = -EFAULT;
    sys_free(memory);
    return result;
}

/* What was written and is not sent yet. -EAGAIN: the server has the bytes. */
static ssize_t read_dirty(struct file_open *open, const struct iovec *vectors, int count,
                          size_t length, uint64_t offset)
{
    struct file_inode *inode = open->inode;
    size_t done;
    if (file_bad_vectors(vectors, count))
        return -EFAULT;
    enum ledger_dirty_found found = ledger_dirty_read(&inode->entry, offset, length, NULL, &done);
    ssize_t result = -EAGAIN;
    if (found == LEDGER_DIRTY_ALL)
        result = give_dirty(inode, vectors, done, offset);
    if (found != LEDGER_DIRTY_NONE && result == -EAGAIN) {
        int error = file_flush_range(inode, open->auth, offset, offset + length);
        result = error != 0 ? error : -EAGAIN;
    }
    return result;
}

/* Adds to `waited_ns` how long it waited for the server. */
static ssize_t read_at(struct file_open *open, const struct iovec *vectors, int count,
                       size_t length, off_t offset, uint64_t *waited_ns)
{
    struct file_inode *inode = open->inode;
    struct nfs_client client = file_mount_client(inode->mount, open->auth);
    struct nfs_data data = {.vectors = vectors, .count = count, .length = length};
    struct nfs_transfer transfer;
    struct ledger_attributes attributes;
    struct ledger_stamp stamp;
    struct file_ends ends = {0};
    uint64_t start = (uint64_t)offset;
    bool buffered = file_ahead_allowed(open), flushed = false;
    /* The server may carry out a READ while it carries out a WRITE that this host sent meanwhile,
     * and give some bytes from before it and some from after it. Then it is asked again, which the
     * next write may spoil as well: a few times. Of a longer read, and of what is not read as
     * through the page cache, nobody expects it. */
    uint64_t end = buffered && length <= READ_WHOLE_MOST ? start + length : start;
    unsigned again = 0;
    for (;;) {
        ledger_stamp_take(&inode->entry, start, end, &stamp); /* before `dirty` is looked at */
        struct file_handle_use use = file_inode_use(inode);
        bool dirty = ledger_file_dirty(&inode->entry) > 0 && !sys_test_unsafe(SYS_TEST_DIRTY);
        ssize_t given = dirty ? read_dirty(open, vectors, count, length, start) : -EAGAIN;
        int result;
        if (given != -EAGAIN)
            return given;
        data.certain = file_bytes_within(stamp.size, start, length);
        do
            result = nfs_read(&client, use.fh, start, &data, &transfer);
        while (result == -ESTALE && file_inode_renew(inode, open->auth, &use));
        if (result == -ESTALE || (result != 0 && transfer.length == 0))
            return result;
        *waited_ns += nfs_transfer_ns(&transfer);
        if (file_read_is_suspect(inode, &transfer, &stamp)) {
            uint64_t rewritten;
            if (ledger_file_acknowledged(&inode->entry) > 0 &&
                (result = file_inode_commit(inode, open->auth, &rewritten)) != 0)
                return result == -ESTALE ? result : -EIO;
            if (!ledger_stamp_lasts(&inode->entry, &stamp, LEDGER_STAMP_REWRITTEN, 0, 0))
                continue; /* else the server had it all */
        }
        if (start < end && again < READ_AGAIN_MOST &&
            !ledger_stamp_lasts(&inode->entry, &stamp, 0, start, end)) {
            again++;
            continue;
        }
        /* The server may not know where the file ends, if it ends behind what it gave. */
        if (dirty && !flushed && transfer.length < length &&
            (stamp.size == 0 || start + transfer.length < stamp.size)) {
            flushed = true; /* once: others may write on and on */
            result = file_flush_range(inode, open->auth, 0, UINT64_MAX);
            if (result != 0)
                return result;
            continue;
        }
        if (buffered) {
            file_ahead_told(inode, &stamp, transfer.sent_ns, start, &transfer);
            file_ahead_note_end(open, &stamp, transfer.sent_ns, start, &transfer);
        }
        if (transfer.length != data.certain) /* the next read shall know better */
            file_inode_attributes(inode, open->auth, &attributes);
        ssize_t done = transfer.two_ends ? file_ends_decide(open, start, &transfer, &ends)
                                         : (ssize_t)transfer.length;
        if (done != -EAGAIN)
            return done;
    }
}

ssize_t file_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                     off_t offset)
{
    uint64_t waited_ns = 0;
    ssize_t result = read_at(open, vectors, count, length, offset, &waited_ns);
    if (result >= 0)
        stats_file_read(open->stats, (uint64_t)result, waited_ns);
    return result;
}

/* As file_read_at(), with what was read ahead first. */
static ssize_t read_buffered(struct file_open *open, const struct iovec *vectors, int count,
                             size_t length, uint64_t offset)
{
    struct iovec own[RPC_VECTORS_MAX];
    struct file_gift ahead = {.length = 0};
    if (file_ahead_ends(open, offset)) {
        stats_file_read(open->stats, 0, 0);
        return 0;
    }
    ssize_t cached = file_cache_read(open, vectors, count, length, offset);
    if (cached != -EAGAIN)
        return cached;
    if (file_ahead_wants(open, offset) && count <= RPC_VECTORS_MAX)
        file_ahead_read(open, vectors, count, length, offset, &ahead);
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
        rest = file_cache_fill(open, vectors, count, length - ahead.length, offset + ahead.length);
    if (rest < 0 && (ahead.length == 0 || file_is_for_kernel(rest)))
        return rest;
    ssize_t result = (ssize_t)ahead.length + (rest > 0 ? rest : 0);
    if (result > 0 && !ahead.stream)
        file_ahead_note(open, offset, offset + (uint64_t)result);
    return result;
}

ssize_t file_read_check(const struct file_open *open, const struct iovec *vectors, int count,
                        off_t offset, int flags)
{
    if (open->access == O_WRONLY)
        return -EBADF;
    if (offset < 0)
        return -EINVAL;
    if (file_mount_is_lost(open->inode->mount))
        return -EIO;
    ssize_t length = file_total_length(vectors, count);
    if (length > 0 && offset > INT64_MAX - length)
        return -EINVAL;
    int result =
        length > 0 ? file_check_flags(flags) : 0; /* without bytes the kernel asks nothing */
    return result < 0 ? result : length;
}

ssize_t file_preadv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                    off_t offset, int flags)
{
    (void)fd;
    ssize_t length = file_read_check(open, vectors, count, offset, flags);
    if (length <= 0)
        return length;
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    ssize_t result = file_ahead_allowed(open)
                         ? read_buffered(open, vectors, count, (size_t)length, (uint64_t)offset)
                         : file_read_at(open, vectors, count, (size_t)length, offset);
    return file_finish_call(open, result);
}
