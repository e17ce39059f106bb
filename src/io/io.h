/* Reading and writing through the engine. */
#ifndef IO_IO_H
#define IO_IO_H

#include "file/enter.h"
#include "durable/behind.h"
#include "durable/operation.h"
#include "file/vectors.h"

/* What a read or write with these arguments may do: its length, 0 for nothing, or -errno. */
ssize_t io_read_check(const struct file_open *open, const struct iovec *vectors, int count,
                      off_t offset, int flags);
ssize_t io_write_check(const struct file_open *open, const struct iovec *vectors, int count,
                       off_t offset, int flags, enum nfs_stable *stable);

/* ---- answers to READ that say two things of where the file ends: eof_dispute.c ---- */

/* What was seen of them in one call; zeros at its beginning. */
struct io_eof_dispute {
    unsigned tries;
    uint64_t told; /* the size that came with the last one */
};

/*
 * nfs_read() found two ends. False: after a pause, it is to be read again. Else *result: how many
 * of the bytes that it read from `offset` on are the file's; -EIO: data are missing (said on the
 * log); or the error of asking for the size.
 */
bool io_eof_dispute_decide(struct file_open *open, uint64_t offset,
                           const struct nfs_transfer *transfer, struct io_eof_dispute *ends,
                           ssize_t *result);

/* ---- writing ---- */

/* Writes all of it, between enter and leave. Returns its length, less if an error came after some
 * bytes, or -errno. `taken` and `unsettled` change. */
ssize_t io_write_at(struct file_open *open, struct durable_piece *all, uint64_t offset,
                    enum nfs_stable stable);

/* Of so many bytes at `offset` those that a file of this size has. */
static inline size_t io_bytes_within(uint64_t size, uint64_t offset, size_t length)
{
    uint64_t left = size > offset ? size - offset : 0;
    return left < length ? (size_t)left : length;
}
/* Reads, between enter and leave. -ESTALE: see fd_world_demote(). */
ssize_t io_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                   off_t offset);
/* Writes zeros at `offset`, up to `length` bytes, if the file does not reach farther. No write
 * of this host is overtaken. Returns how many were written, 0 if the file does reach farther, or
 * as io_pwritev(). */
ssize_t io_extend(struct file_open *open, uint64_t offset, size_t length);
/* What an answer to READ is worth. Bits, so that who knows better can waive some. */
enum io_answer {
    IO_ANSWER_GOOD = 0,
    IO_ANSWER_LACKS = 1,   /* maybe, what is acknowledged and not committed: the server may have
                                restarted. A COMMIT finds out, and it is written again */
    IO_ANSWER_MIXED = 2,   /* maybe, half of a write of this host that began meanwhile */
    IO_ANSWER_CUT = 4,     /* the server may not know that the file goes on, as that is dirty */
    IO_ANSWER_TWO_ENDS = 8 /* it says two things of where the file ends */
};
/* The first that is so, of the answer to what was asked for in [offset, offset + length), since the
 * stamp was taken: also of the writes there, unless IO_ANSWER_MIXED is waived. Never waits. */
enum io_answer io_answer_judge(struct file_inode *inode, const struct ledger_stamp *stamp,
                               const struct nfs_transfer *transfer, uint64_t offset, size_t length,
                               unsigned waived);

/*
 * Enters a write of at most LEDGER_WRITE_MAX bytes into the ledger, finding room by COMMITs;
 * *stable becomes FILE_SYNC when there is none. `keep` of the beginning is set here. -EAGAIN: a
 * write in flight is in the way, and the caller does not `wait`. FILE_NO_ROOM. LEDGER_OF_KERNEL.
 */
int io_write_announce(struct file_open *open, struct ledger_beginning *beginning,
                      enum nfs_stable *stable, bool wait);
/* The end of one that the program waits for, in the ledger and if it went well as below. Returns
 * its length, or `result`, if that is an error. */
ssize_t io_write_end(struct file_open *open, struct durable_write *write, int result,
                     struct ledger_ending *ending);
/* What the statistics and the close of an open file know of a write that went well. */
void io_write_counted(struct file_open *open, uint64_t offset, size_t length, uint64_t ns);
/* After a write that went well: COMMITs the file if much of it waits for that, and nobody else
 * would; drops the kernel's pages of what is on stable storage. */
void io_written(struct file_open *open, int fd, enum nfs_stable stable);

#endif
