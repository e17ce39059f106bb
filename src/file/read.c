/* Reading. */
#include "file/ahead.h"
#include "file/cache.h"
#include "file/commit.h"
#include "file/flush.h"
#include "file/getattr.h"
#include "file/vectors.h"
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

/* Might the server lack what it has acknowledged? It may have restarted before the answer, or what
 * it lost may have been written again, or cut off, since the question. */
static bool may_lack(struct file_inode *inode, const struct ledger_stamp *stamp,
                     const struct nfs_transfer *transfer)
{
    uint64_t verifier;
    if (ledger_file_acknowledged(&inode->entry) > 0 &&
        (ledger_file_distrusted(&inode->entry) ||
         !file_server_verifier(inode->mount->server, transfer->connected_ns, &verifier) ||
         ledger_file_verifier_differs(&inode->entry, verifier)))
        return true;
    return !ledger_stamp_lasts(&inode->entry, stamp, LEDGER_STAMP_REWRITTEN, 0, 0);
}

enum file_answer file_answer_judge(struct file_inode *inode, const struct ledger_stamp *stamp,
                                   const struct nfs_transfer *transfer, uint64_t offset,
                                   size_t length, unsigned waived)
{
    if (!(waived & FILE_ANSWER_LACKS) && may_lack(inode, stamp, transfer))
        return FILE_ANSWER_LACKS;
    if (!(waived & FILE_ANSWER_MIXED) &&
        !ledger_stamp_lasts(&inode->entry, stamp, 0, offset, offset + length))
        return FILE_ANSWER_MIXED;
    if (!(waived & FILE_ANSWER_CUT) && transfer->length < length &&
        (stamp->size == 0 || offset + transfer->length < stamp->size))
        return FILE_ANSWER_CUT;
    return transfer->two_ends ? FILE_ANSWER_TWO_ENDS : FILE_ANSWER_GOOD;
}

/* A read under way. */
struct reading {
    struct file_open *open;
    const struct iovec *vectors;
    int count;
    uint64_t offset;
    size_t length, certain; /* bytes that the file has of it, as far as its size is known */
    bool buffered;          /* as through the page cache */
    bool flushed;           /* all of the file, as it ended too early */
    unsigned mixed;         /* times that it was, and was read again */
    unsigned waived;        /* of the last answer: see file_answer_judge() */
    struct file_ends ends;
    struct ledger_stamp *stamp;
    struct nfs_transfer *transfer;
};

/* What was written and is not sent yet. False: the server has the bytes. *result: bytes or -errno.
 */
static bool read_dirty(struct reading *r, ssize_t *result)
{
    struct file_inode *inode = r->open->inode;
    size_t done;
    *result = -EFAULT;
    if (file_bad_vectors(r->vectors, r->count))
        return true;
    enum ledger_dirty_found found =
        ledger_dirty_read(&inode->entry, r->offset, r->length, NULL, &done);
    bool fits = found == LEDGER_DIRTY_ALL && done <= READ_WHOLE_MOST;
    uint8_t *memory = fits ? sys_alloc(done) : NULL;
    /* As much as still is dirty, in one step. */
    bool all = memory &&
               ledger_dirty_read(&inode->entry, r->offset, done, memory, &done) == LEDGER_DIRTY_ALL;
    if (all && file_give(r->vectors, 0, memory, done) == 0)
        *result = (ssize_t)done;
    sys_free(memory);
    if (!all)
        *result = found != LEDGER_DIRTY_NONE
                      ? file_flush_range(inode, r->open->auth, r->offset, r->offset + r->length)
                      : 0;
    return all || *result != 0;
}

/* Takes the stamp, and gives what is dirty. True: that is the answer. */
static bool begin(struct reading *r, ssize_t *result)
{
    struct ledger_file *entry = &r->open->inode->entry;
    uint64_t offset = r->offset;
    /* The server may carry out a READ while it carries out a WRITE that this host sent meanwhile,
     * and give some bytes from before it and some from after it. Then it is asked again, which the
     * next write may spoil as well: a few times. Of a longer read, and of what is not read as
     * through the page cache, nobody expects it. */
    bool whole = r->buffered && r->length <= READ_WHOLE_MOST && r->mixed < READ_AGAIN_MOST;
    ledger_stamp_take(entry, offset, whole ? offset + r->length : offset, r->stamp);
    bool dirty = ledger_file_dirty(entry) > 0 && !sys_test_unsafe(SYS_TEST_DIRTY); /* after that */
    r->waived = whole ? 0 : FILE_ANSWER_MIXED;
    if (!dirty || r->flushed) /* once: others may write on and on */
        r->waived |= FILE_ANSWER_CUT;
    return dirty && read_dirty(r, result);
}

/* Asks the server. 0; -errno: there is nothing. */
static int ask(struct reading *r)
{
    struct file_inode *inode = r->open->inode;
    struct nfs_client client = file_mount_client(inode->mount, r->open->auth);
    struct file_handle_use use = file_inode_use(inode);
    r->certain = file_bytes_within(r->stamp->size, r->offset, r->length);
    const struct nfs_data data = {r->vectors, r->count, r->length, r->certain};
    int result;
    do
        result = nfs_read(&client, use.fh, r->offset, &data, r->transfer);
    while (result == -ESTALE && file_inode_renew(inode, r->open->auth, &use));
    return result == -ESTALE || r->transfer->length == 0 ? result : 0;
}

/* Does what the verdict asks for. False: it is to be read again. *result: bytes, or -errno. */
static bool settle(struct reading *r, ssize_t *result)
{
    struct file_inode *inode = r->open->inode;
    const struct nfs_transfer *transfer = r->transfer;
    struct ledger_attributes attributes;
    uint64_t rewritten;
    switch (file_answer_judge(inode, r->stamp, transfer, r->offset, r->length, r->waived)) {
    case FILE_ANSWER_LACKS:
        *result = ledger_file_acknowledged(&inode->entry) > 0
                      ? file_inode_commit(inode, r->open->auth, &rewritten)
                      : 0;
        if (*result != 0) {
            *result = *result == -ESTALE ? -ESTALE : -EIO;
            return true;
        }
        if (!ledger_stamp_lasts(&inode->entry, r->stamp, LEDGER_STAMP_REWRITTEN, 0, 0))
            return false;
        r->waived |= FILE_ANSWER_LACKS; /* the server had it all */
        return settle(r, result);
    case FILE_ANSWER_MIXED:
        r->mixed++;
        return false;
    case FILE_ANSWER_CUT:
        r->flushed = true;
        *result = file_flush_range(inode, r->open->auth, 0, UINT64_MAX);
        return *result != 0;
    case FILE_ANSWER_TWO_ENDS:
    case FILE_ANSWER_GOOD:
        break;
    }
    if (r->buffered) {
        file_ahead_told(inode, r->stamp, transfer->sent_ns, r->offset, transfer);
        file_ahead_note_end(r->open, r->stamp, transfer->sent_ns, r->offset, transfer);
    }
    if (transfer->length != r->certain) /* the next read shall know better */
        file_inode_attributes(inode, r->open->auth, &attributes);
    *result = (ssize_t)transfer->length;
    return !transfer->two_ends || file_ends_decide(r->open, r->offset, transfer, &r->ends, result);
}

ssize_t file_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                     off_t offset)
{
    struct ledger_stamp stamp;
    struct nfs_transfer transfer;
    struct reading r = {.open = open,
                        .vectors = vectors,
                        .count = count,
                        .offset = (uint64_t)offset,
                        .length = length,
                        .buffered = file_ahead_allowed(open),
                        .stamp = &stamp,
                        .transfer = &transfer};
    uint64_t waited_ns = 0; /* for the server */
    ssize_t result;
    while (!begin(&r, &result) && (result = ask(&r)) == 0) {
        waited_ns += nfs_transfer_ns(&transfer);
        if (settle(&r, &result))
            break;
    }
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
