/* Reading: what is dirty, and else from the server. */
#include "durable/commit.h"
#include "durable/flush.h"
#include "file/attributes.h"
#include "file/enter.h"
#include "file/vectors.h"
#include "file/inode.h"
#include "io/io.h"
#include "file/renew.h"
#include "io/told.h"
#include "ledger/commits.h"
#include "ledger/dirty.h"
#include "ledger/stamp.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "mount/verifier.h"
#include "rpc/message.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/test_switch.h"

enum {
    READ_AGAIN_MOST = 2,
    READ_WHOLE_MOST = 1 << 20 /* bytes of a read that is not to see half of a write */
};

/* Might the answer lack what the server has acknowledged? The server may have restarted before the
 * answer. Or what it lost may have been written again, or cut off, since the question. */
static bool may_lack(struct file_inode *inode, const struct ledger_stamp *stamp,
                     const struct nfs_transfer *transfer)
{
    uint64_t verifier;
    if (ledger_file_acknowledged(&inode->entry) > 0 &&
        (ledger_file_distrusted(&inode->entry) ||
         !mount_server_verifier(inode->mount->server, transfer->connected_ns, &verifier) ||
         ledger_file_verifier_differs(&inode->entry, verifier)))
        return true;
    return !ledger_stamp_lasts(&inode->entry, stamp, LEDGER_STAMP_REWRITTEN, 0, 0);
}

enum io_answer io_answer_judge(struct file_inode *inode, const struct ledger_stamp *stamp,
                               const struct nfs_transfer *transfer, uint64_t offset, size_t length,
                               unsigned waived)
{
    if (!(waived & IO_ANSWER_LACKS) && may_lack(inode, stamp, transfer))
        return IO_ANSWER_LACKS;
    if (!(waived & IO_ANSWER_MIXED) &&
        !ledger_stamp_lasts(&inode->entry, stamp, 0, offset, offset + length))
        return IO_ANSWER_MIXED;
    if (!(waived & IO_ANSWER_CUT) && transfer->length < length &&
        (stamp->size == 0 || offset + transfer->length < stamp->size))
        return IO_ANSWER_CUT;
    return transfer->two_ends ? IO_ANSWER_TWO_ENDS : IO_ANSWER_GOOD;
}

/* A read under way. */
struct reading {
    struct file_open *open;
    const struct iovec *vectors;
    int count;
    uint64_t offset;
    size_t length, certain; /* bytes of it that the file has, as far as its size is known */
    bool buffered;          /* as through the page cache */
    bool flushed;           /* all of the file was flushed, as an answer ended too early */
    unsigned mixed;         /* how often the answer was mixed, and it was read again */
    unsigned waived;        /* for the next answer: see io_answer_judge() */
    struct io_eof_dispute ends;
    struct ledger_stamp *stamp;
    struct nfs_transfer *transfer;
};

/* Reads dirty bytes, or sends them. False: the server has the bytes. *result: bytes or -errno. */
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
    /* Copies as much as is still dirty, in one step. */
    bool all = memory &&
               ledger_dirty_read(&inode->entry, r->offset, done, memory, &done) == LEDGER_DIRTY_ALL;
    if (all && file_give(r->vectors, 0, memory, done) == 0)
        *result = (ssize_t)done;
    sys_free(memory);
    if (!all)
        *result = found != LEDGER_DIRTY_NONE
                      ? durable_flush_range(inode, r->open->auth, r->offset, r->offset + r->length)
                      : 0;
    return all || *result != 0;
}

/* Takes the stamp, and gives out what is dirty. True: that is the answer. */
static bool begin(struct reading *r, ssize_t *result)
{
    struct ledger_file *entry = &r->open->inode->entry;
    uint64_t offset = r->offset;
    /* The server may carry out a READ together with a WRITE that this host sent meanwhile. Then
     * some bytes of the answer are from before the WRITE, and some from after it. So it is asked
     * again; the next write may spoil that as well, so this is done a few times. Nobody expects it
     * of a longer read, or of one with O_DIRECT. */
    bool whole = r->buffered && r->length <= READ_WHOLE_MOST && r->mixed < READ_AGAIN_MOST;
    ledger_stamp_take(entry, offset, whole ? offset + r->length : offset, r->stamp);
    /* After the stamp. */
    bool dirty = ledger_file_dirty(entry) > 0 && !sys_test_unsafe(SYS_TEST_DIRTY);
    r->waived = whole ? 0 : IO_ANSWER_MIXED;
    if (!dirty || r->flushed) /* once: others may write on and on */
        r->waived |= IO_ANSWER_CUT;
    return dirty && read_dirty(r, result);
}

/* Asks the server. 0: there is an answer, or the file has no bytes there; else -errno. */
static int ask(struct reading *r)
{
    struct file_inode *inode = r->open->inode;
    struct nfs_client client = mount_client(inode->mount, r->open->auth);
    struct file_handle_use use = file_inode_use(inode);
    r->certain = io_bytes_within(r->stamp->size, r->offset, r->length);
    const struct nfs_data data = {r->vectors, r->count, r->length, r->certain};
    int result;
    do
        result = nfs_read(&client, use.fh, r->offset, &data, r->transfer);
    while (result == -ESTALE && file_inode_renew(inode, r->open->auth, &use));
    return result == -ESTALE || r->transfer->length == 0 ? result : 0;
}

/* Does what the verdict asks for. False: read again. *result: bytes, or -errno. */
static bool settle(struct reading *r, ssize_t *result)
{
    struct file_inode *inode = r->open->inode;
    const struct nfs_transfer *transfer = r->transfer;
    struct ledger_attributes attributes;
    uint64_t rewritten;
    switch (io_answer_judge(inode, r->stamp, transfer, r->offset, r->length, r->waived)) {
    case IO_ANSWER_LACKS:
        *result = ledger_file_acknowledged(&inode->entry) > 0
                      ? durable_commit(inode, r->open->auth, &rewritten)
                      : 0;
        if (*result != 0) {
            *result = *result == -ESTALE ? -ESTALE : -EIO;
            return true;
        }
        if (!ledger_stamp_lasts(&inode->entry, r->stamp, LEDGER_STAMP_REWRITTEN, 0, 0))
            return false;
        r->waived |= IO_ANSWER_LACKS; /* the server had it all */
        return settle(r, result);
    case IO_ANSWER_MIXED:
        r->mixed++;
        return false;
    case IO_ANSWER_CUT:
        r->flushed = true;
        *result = durable_flush_range(inode, r->open->auth, 0, UINT64_MAX);
        return *result != 0;
    case IO_ANSWER_TWO_ENDS:
    case IO_ANSWER_GOOD:
        break;
    }
    if (r->buffered) {
        io_told(inode, r->stamp, transfer->sent_ns, r->offset, transfer);
        io_note_end(r->open, r->stamp, transfer->sent_ns, r->offset, transfer);
    }
    if (transfer->length != r->certain) /* so that the next read knows better */
        file_inode_attributes(inode, r->open->auth, &attributes);
    *result = (ssize_t)transfer->length;
    return !transfer->two_ends ||
           io_eof_dispute_decide(r->open, r->offset, transfer, &r->ends, result);
}

ssize_t io_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                   off_t offset)
{
    struct ledger_stamp stamp;
    struct nfs_transfer transfer;
    struct reading r = {.open = open,
                        .vectors = vectors,
                        .count = count,
                        .offset = (uint64_t)offset,
                        .length = length,
                        .buffered = file_is_buffered(open),
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

ssize_t io_read_check(const struct file_open *open, const struct iovec *vectors, int count,
                      off_t offset, int flags)
{
    if (open->access == O_WRONLY)
        return -EBADF;
    if (offset < 0)
        return -EINVAL;
    if (file_is_barred(open->inode))
        return -EIO;
    ssize_t length = file_total_length(vectors, count);
    if (length > 0 && offset > INT64_MAX - length)
        return -EINVAL;
    int result =
        length > 0 ? file_check_flags(flags) : 0; /* without bytes the kernel asks nothing */
    return result < 0 ? result : length;
}
