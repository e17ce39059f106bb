/* Reading and writing through the engine: what the files of this room, and those above, share. */
#ifndef IO_IO_H
#define IO_IO_H

#include "file/enter.h"
#include "durable/behind.h"
#include "durable/operation.h"
#include "file/vectors.h"

/* Checks the arguments of a read or write. Returns how many bytes it may move, 0 for nothing, or
 * -errno. *stable: how the write is to be sent. */
ssize_t io_read_check(const struct file_open *open, const struct iovec *vectors, int count,
                      off_t offset, int flags);
ssize_t io_write_check(const struct file_open *open, const struct iovec *vectors, int count,
                       off_t offset, int flags, enum nfs_stable *stable);

/* ---- answers to READ that say two things of where the file ends: eof_dispute.c ---- */

/* What was seen of two ends in one call of the program; zeros at its beginning. */
struct io_eof_dispute {
    unsigned tries;
    uint64_t told; /* the size that came with the last answer */
};

/*
 * nfs_read() found two ends. False, after a pause: read again.
 * True: *result is final: how many of the bytes that it read from `offset` on are the file's; -EIO:
 * data are missing (the log says so); or -errno of asking for the size.
 */
bool io_eof_dispute_decide(struct file_open *open, uint64_t offset,
                           const struct nfs_transfer *transfer, struct io_eof_dispute *ends,
                           ssize_t *result);

/* ---- writing ---- */

/* Writes all of a piece, between enter and leave. Returns its length, less if an error came after
 * some bytes, or -errno. `taken` and `unsettled` of the piece change. */
ssize_t io_write_at(struct file_open *open, struct durable_piece *all, uint64_t offset,
                    enum nfs_stable stable);

/* How many of `length` bytes at `offset` a file of this size has. */
static inline size_t io_bytes_within(uint64_t size, uint64_t offset, size_t length)
{
    uint64_t left = size > offset ? size - offset : 0;
    return left < length ? (size_t)left : length;
}
/* Reads what is dirty, or from the server; between enter and leave. Bytes or -errno. -ESTALE: the
 * file must go to the kernel. */
ssize_t io_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                   off_t offset);
/* Writes zeros at `offset`, up to `length` bytes, if the file does not reach farther. It overtakes
 * no write of this host. Returns how many were written; 0: the file does reach farther; or as
 * io_pwritev(). */
ssize_t io_extend(struct file_open *open, uint64_t offset, size_t length);
/* What an answer to READ is worth. Bits, so that a caller that knows better can waive some. */
enum io_answer {
    IO_ANSWER_GOOD = 0,
    IO_ANSWER_LACKS = 1,   /* maybe it lacks data that is not committed: a COMMIT finds out */
    IO_ANSWER_MIXED = 2,   /* maybe it has half of a write of this host that began meanwhile */
    IO_ANSWER_CUT = 4,     /* it ends early, maybe as what follows is dirty */
    IO_ANSWER_TWO_ENDS = 8 /* it says two things of where the file ends */
};
/* The first verdict that applies to an answer about [offset, offset + length), and is not waived.
 * The READ was sent after the stamp was taken. Never waits. */
enum io_answer io_answer_judge(struct file_inode *inode, const struct ledger_stamp *stamp,
                               const struct nfs_transfer *transfer, uint64_t offset, size_t length,
                               unsigned waived);

/*
 * Enters a write of at most LEDGER_WRITE_MAX bytes into the ledger, finding room by COMMITs.
 * *stable becomes FILE_SYNC when there is no room for the data. `keep` of the beginning is set
 * here.
 * 0: it is announced.
 * -EAGAIN: a write in flight is in the way, and the caller does not `wait`.
 * FILE_NO_ROOM, LEDGER_OF_KERNEL: the file must go to the kernel.
 * Else -errno.
 */
int io_write_announce(struct file_open *open, struct ledger_beginning *beginning,
                      enum nfs_stable *stable, bool wait);
/* Ends a write that the program waits for: in the ledger, and by io_write_counted() if it went
 * well. Returns its length, or `result`, if that is an error. */
ssize_t io_write_end(struct file_open *open, struct durable_write *write, int result,
                     struct ledger_ending *ending);
/* Notes a write that went well, for the statistics and for the close of the open file. `ns`: for so
 * long the server was waited for. */
void io_write_counted(struct file_open *open, uint64_t offset, size_t length, uint64_t ns);
/* After a write that went well: drops the kernel's pages of what is on stable storage. Else COMMITs
 * the file, if much of it waits for that and no sender would do so. */
void io_written(struct file_open *open, int fd, enum nfs_stable stable);

#endif
