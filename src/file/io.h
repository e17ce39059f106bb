/* Reading and writing through the engine. */
#ifndef FILE_IO_H
#define FILE_IO_H

#include "file/enter.h"
#include "file/operation.h"
#include "file/vectors.h"

/* What a read or write with these arguments may do: its length, 0 for nothing, or -errno. */
ssize_t file_read_check(const struct file_open *open, const struct iovec *vectors, int count,
                        off_t offset, int flags);
ssize_t file_write_check(const struct file_open *open, const struct iovec *vectors, int count,
                         off_t offset, int flags, enum nfs_stable *stable);

/* ---- answers to READ that say two things of where the file ends: ends.c ---- */

/* What was seen of them in one call; zeros at its beginning. */
struct file_ends {
    unsigned tries;
    uint64_t told; /* the size that came with the last one */
};

/*
 * nfs_read() found two ends. False: after a pause, it is to be read again. Else *result: how many
 * of the bytes that it read from `offset` on are the file's; -EIO: data are missing (said on the
 * log); or the error of asking for the size.
 */
bool file_ends_decide(struct file_open *open, uint64_t offset, const struct nfs_transfer *transfer,
                      struct file_ends *ends, ssize_t *result);

/* ---- writing ---- */

/* A write, or a part of one. */
struct file_piece {
    const struct iovec *vectors;
    int count;
    size_t length;
    bool only_extends; /* only if the file ends where the piece begins, or before */
    bool appends;      /* the caller has the turn */
    size_t taken;      /* result of one that appends and failed: the server has its beginning; */
    bool unsettled;    /* or it may have all of it, or get it yet */
};
/* Writes all of it, between enter and leave. Returns its length, less if an error came after some
 * bytes, or -errno. `taken` and `unsettled` change. */
ssize_t file_write_at(struct file_open *open, struct file_piece *all, uint64_t offset,
                      enum nfs_stable stable);

/* Of so many bytes at `offset` those that a file of this size has. */
static inline size_t file_bytes_within(uint64_t size, uint64_t offset, size_t length)
{
    uint64_t left = size > offset ? size - offset : 0;
    return left < length ? (size_t)left : length;
}
/* Reads, between enter and leave. -ESTALE: see file_inode_demote(). */
ssize_t file_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                     off_t offset);
/* Writes zeros at `offset`, up to `length` bytes, if the file does not reach farther. No write
 * of this host is overtaken. Returns how many were written, 0 if the file does reach farther, or
 * as file_pwritev(). */
ssize_t file_extend(struct file_open *open, uint64_t offset, size_t length);
/* What an answer to READ is worth. Bits, so that who knows better can waive some. */
enum file_answer {
    FILE_ANSWER_GOOD = 0,
    FILE_ANSWER_LACKS = 1,   /* maybe, what is acknowledged and not committed: the server may have
                                restarted. A COMMIT finds out, and it is written again */
    FILE_ANSWER_MIXED = 2,   /* maybe, half of a write of this host that began meanwhile */
    FILE_ANSWER_CUT = 4,     /* the server may not know that the file goes on, as that is dirty */
    FILE_ANSWER_TWO_ENDS = 8 /* it says two things of where the file ends */
};
/* The first that is so, of the answer to what was asked for in [offset, offset + length), since the
 * stamp was taken: also of the writes there, unless FILE_ANSWER_MIXED is waived. Never waits. */
enum file_answer file_answer_judge(struct file_inode *inode, const struct ledger_stamp *stamp,
                                   const struct nfs_transfer *transfer, uint64_t offset,
                                   size_t length, unsigned waived);

/*
 * Enters a write of at most LEDGER_WRITE_MAX bytes into the ledger, finding room by COMMITs;
 * *stable becomes FILE_SYNC when there is none. `keep` of the beginning is set here. -EAGAIN: a
 * write in flight is in the way, and the caller does not `wait`. FILE_NO_ROOM. LEDGER_OF_KERNEL.
 */
int file_write_announce(struct file_open *open, struct ledger_beginning *beginning,
                        enum nfs_stable *stable, bool wait);
/* The end of one that the program waits for, in the ledger and if it went well as below. Returns
 * its length, or `result`, if that is an error. */
ssize_t file_write_end(struct file_open *open, struct file_write *write, int result,
                       struct ledger_ending *ending);
/* What the statistics and the close of an open file know of a write that went well. */
void file_write_counted(struct file_open *open, uint64_t offset, size_t length, uint64_t ns);
/* After a write that went well: COMMITs the file if much of it waits for that, and nobody else
 * would; drops the kernel's pages of what is on stable storage. */
void file_written(struct file_open *open, int fd, enum nfs_stable stable);
/* COMMITs a file that has more uncommitted data than is good, or than the tunable allows. */
void file_commit_early(struct file_inode *inode, const struct rpc_auth *auth);

#endif
