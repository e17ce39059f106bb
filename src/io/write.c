/* Writing: in pieces, each left behind or sent. */
#include "durable/sync.h"
#include "durable/agent.h"
#include "durable/early.h"
#include "file/flags.h"
#include "io/append.h"
#include "file/upper.h"
#include "durable/behind.h"
#include "durable/commit.h"
#include "durable/flush.h"
#include "file/attributes.h"
#include "file/enter.h"
#include "io/io.h"
#include "file/pages.h"
#include "file/renew.h"
#include "io/write.h"
#include "ledger/commits.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "mount/verifier.h"
#include "rpc/message.h"
#include "stats/count.h"
#include "sys/sys.h"

/* The greatest length of a piece, which has at most RPC_VECTORS_MAX vectors. A piece that appends
 * is one WRITE: when it fails nothing behind it was written. */
static size_t longest_piece(const struct file_open *open, bool appends)
{
    return appends ? durable_longest_write(open->inode->mount) : LEDGER_WRITE_MAX;
}

/* Cuts the piece of `all` that begins at `from`, `length` bytes at most. */
static void piece_cut(struct durable_piece *piece, struct iovec own[RPC_VECTORS_MAX],
                      const struct durable_piece *all, size_t from, size_t length)
{
    piece->count = rpc_vectors_cut(all->vectors, all->count, from, &length, own);
    piece->vectors = own;
    piece->length = length;
}

int io_write_announce(struct file_open *open, struct ledger_beginning *beginning,
                      enum nfs_stable *stable, bool wait)
{
    for (int attempt = 0;;) {
        beginning->keep = *stable == NFS_UNSTABLE;
        if (beginning->keep)
            durable_agent_meet(open->inode->mount);
        int result = ledger_write_start(&open->inode->entry, beginning, wait);
        if (result == LEDGER_IS_DIRTY &&
            (result = durable_flush_range(open->inode, open->auth, beginning->offset,
                                          beginning->offset + beginning->length)) == 0)
            continue;
        if (result != -ENOSPC || attempt > 2)
            return result == -ENOSPC ? FILE_NO_ROOM : result;
        if (attempt++ == 1)
            *stable = NFS_FILE_SYNC;
        else
            durable_commit_for_room(open->inode, open->auth);
    }
}

void io_write_counted(struct file_open *open, uint64_t offset, size_t length, uint64_t ns)
{
    file_inode_note_written(open->inode);
    stats_file_written(open->stats, length, ns);
    if (offset + length > stats_get(&open->stats->size))
        stats_set(&open->stats->size, offset + length);
}

ssize_t io_write_end(struct file_open *open, struct durable_write *write, int result,
                     struct ledger_ending *ending)
{
    if (result == 0)
        io_write_counted(open, write->announced.offset, write->announced.length, write->ns);
    ledger_writes_end(ending, 1);
    return result != 0 ? result : (ssize_t)write->announced.length;
}

/* Is it beyond the end of the file, now that no other process of the host writes there? 1, 0 or
 * -errno. */
static int is_beyond_end(struct file_open *open, uint64_t offset)
{
    struct ledger_attributes attributes;
    int result = file_inode_attributes(open->inode, open->auth, &attributes);
    return result == 0 ? attributes.size <= offset : result;
}

/* Writes one piece, and waits for the server. Returns its length, or -errno; 0: it would not only
 * extend the file. */
static ssize_t write_now(struct file_open *open, struct durable_piece *piece, uint64_t offset,
                         enum nfs_stable stable)
{
    struct durable_write write = {
        .stable = stable, .count = piece->count, .vectors = piece->vectors};
    struct ledger_beginning beginning = durable_write_beginning(&write, offset, piece->length);
    struct ledger_ending ending;
    bool wait = false;
    int result;
    beginning.appends = piece->appends;
    /* What is in the way may be in flight from this thread: nobody else would see its end. */
    while ((result = io_write_announce(open, &beginning, &write.stable, wait)) == -EAGAIN)
        wait = !file_upper.help(NULL);
    if (result != 0)
        return result;
    if (piece->only_extends && (result = is_beyond_end(open, offset)) != 1) {
        ledger_write_end(&open->inode->entry, &write.announced, LEDGER_WRITE_FAILED, 0);
        return result;
    }
    struct file_target to = file_target_of(open->inode, open->auth);
    write.to = &to;
    result = durable_write_now(&write, &ending);
    piece->unsettled = result != 0 && write.announced.unsettled;
    if (result != 0 && piece->appends && !write.announced.unsettled && write.taken < piece->length)
        piece->taken = write.taken;
    return io_write_end(open, &write, result, &ending);
}

/* Writes one piece: leaves it behind if it may be left, else as write_now(). */
static ssize_t write_piece(struct file_open *open, struct durable_piece *piece, uint64_t offset,
                           enum nfs_stable stable)
{
    int result = LEDGER_WRITE_NOW;
    piece->taken = 0;
    piece->unsettled = false;
    if (stable == NFS_UNSTABLE && durable_behind_writes(open) && !piece->only_extends)
        result = durable_behind_write(open, piece, offset);
    if (result == LEDGER_WRITE_NOW)
        return write_now(open, piece, offset, stable);
    if (result == 0)
        io_write_counted(open, offset, piece->length, 0);
    return result != 0 ? result : (ssize_t)piece->length;
}

/* Not inlined: a write of one piece needs less stack. */
__attribute__((noinline)) static ssize_t write_in_pieces(struct file_open *open,
                                                         struct durable_piece *all, uint64_t offset,
                                                         enum nfs_stable stable)
{
    struct iovec own[RPC_VECTORS_MAX];
    struct durable_piece piece = {.appends = all->appends};
    size_t done = 0, length = all->length, most = longest_piece(open, all->appends);
    while (done < length) {
        piece_cut(&piece, own, all, done, length - done < most ? length - done : most);
        ssize_t written = write_piece(open, &piece, offset + done, stable);
        if (written < 0 && piece.taken > 0 && done + piece.taken < length) {
            length = done + piece.taken; /* the server has room for this: once more, to be sure */
            continue;
        }
        all->unsettled = piece.unsettled;
        if (written < 0)
            return done > 0 && (all->appends || !file_is_for_kernel(written)) ? (ssize_t)done
                                                                              : written;
        done += (size_t)written;
    }
    return (ssize_t)length;
}

ssize_t io_write_at(struct file_open *open, struct durable_piece *all, uint64_t offset,
                    enum nfs_stable stable)
{
    bool one = all->count <= RPC_VECTORS_MAX && all->length <= longest_piece(open, all->appends) &&
               !file_size_is_limited();
    ssize_t written =
        one ? write_piece(open, all, offset, stable) : write_in_pieces(open, all, offset, stable);
    if (one && written < 0 && all->taken > 0) {
        all->length = all->taken;
        written = write_in_pieces(open, all, offset, stable);
    }
    return written;
}

ssize_t io_write_check(const struct file_open *open, const struct iovec *vectors, int count,
                       off_t offset, int flags, enum nfs_stable *stable)
{
    if (open->access == O_RDONLY)
        return -EBADF;
    if (offset < 0)
        return -EINVAL;
    if (file_is_barred(open->inode))
        return -EIO;
    *stable = open->stable;
    if (flags & RWF_SYNC || atomic_load_explicit(&durable_finishing, memory_order_relaxed))
        *stable = NFS_FILE_SYNC;
    else if (flags & RWF_DSYNC && *stable == NFS_UNSTABLE)
        *stable = NFS_DATA_SYNC;
    ssize_t length = file_total_length(vectors, count);
    if (length > 0 && offset > INT64_MAX - length)
        return -EINVAL;
    int result =
        length > 0 ? file_check_flags(flags) : 0; /* without bytes the kernel asks nothing */
    if (result < 0)
        return result;
    uint64_t most = open->inode->mount->size_max;
    if (length > 0 && (uint64_t)offset >= most)
        return -EFBIG;
    if (length > 0 && (uint64_t)length > most - (uint64_t)offset)
        length = (ssize_t)(most - (uint64_t)offset);
    if (length <= 0 || !file_size_is_limited())
        return length;
    int64_t room = file_size_room((uint64_t)offset);
    return room < length ? (ssize_t)room : length;
}

void io_written(struct file_open *open, int fd, enum nfs_stable stable)
{
    if (stable != NFS_UNSTABLE)
        file_pages_written(open, fd);
    else if (!durable_behind_writes(open))
        durable_commit_early(open->inode, open->auth);
}

ssize_t io_pwritev(struct file_open *open, int fd, const struct iovec *vectors, int count,
                   off_t offset, int flags)
{
    enum nfs_stable stable;
    if (file_appends(open, fd, flags)) {
        ssize_t whole = file_total_length(vectors, count);
        if (whole > 0 && offset > INT64_MAX - whole && open->access != O_RDONLY)
            return -EINVAL; /* as the kernel does, though it does not write there */
        return io_append(open, fd, vectors, count, flags, false);
    }
    ssize_t length = io_write_check(open, vectors, count, offset, flags, &stable);
    if (length <= 0)
        return length;
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    struct durable_piece all = {vectors, count, (size_t)length, .appends = false};
    ssize_t written = io_write_at(open, &all, (uint64_t)offset, stable);
    if (written > 0)
        io_written(open, fd, stable);
    return file_finish_call(open, written);
}

ssize_t io_extend(struct file_open *open, uint64_t offset, size_t length)
{
    static const uint8_t zeros[65536];
    struct iovec vector = {(void *)zeros, length < sizeof(zeros) ? length : sizeof(zeros)};
    enum nfs_stable stable;
    ssize_t result = io_write_check(open, &vector, 1, (off_t)offset, 0, &stable);
    if (result <= 0)
        return result;
    vector.iov_len = (size_t)result;
    struct durable_piece piece = {&vector, 1, vector.iov_len, .only_extends = true};
    if (!file_inode_enter(open->inode))
        return FILE_KERNEL;
    result = write_piece(open, &piece, offset, stable);
    if (stable == NFS_UNSTABLE)
        durable_commit_early(open->inode, open->auth);
    return file_finish_call(open, result);
}
