/* Reading and writing through the engine. */
#ifndef FILE_IO_H
#define FILE_IO_H

#include "file/inode.h"

/* The errors of the layers below, about the server and the way to it, as an application may get
 * them for a file. Other results stay as they are. */
static inline ssize_t file_posix_error(ssize_t result)
{
    switch (result) {
    case -EBADMSG:
    case -EBUSY: /* the name of this client is another's */
    case -EPROTO:
    case -EREMOTE:
    case -EREMOTEIO:
    case -ENONET: /* no connection from this network namespace, and no way to the kernel's world */
    case -EPROTONOSUPPORT:
        return -EIO;
    case -EKEYREJECTED:
        return -EACCES;
    case -ECONNREFUSED: /* connecting failed until soft_timeout was over */
    case -ECONNRESET:
    case -EHOSTUNREACH:
    case -EHOSTDOWN:
    case -ENETUNREACH:
    case -ENETDOWN:
    case -EADDRNOTAVAIL:
    case -EADDRINUSE:
        return -ETIMEDOUT;
    default:
        return result;
    }
}

/* The ledger cannot note a write, not even without its data: the file must go to the kernel. */
enum { FILE_NO_ROOM = -EXFULL };
extern const char file_no_room[];
/* Results for which the kernel makes the whole call again. */
static inline bool file_is_for_kernel(ssize_t result)
{
    return result == -ESTALE || result == FILE_NO_ROOM || result == LEDGER_OF_KERNEL;
}

/* The sum of the vectors, cut as the kernel does; -EINVAL, -EFAULT as readv(2). */
ssize_t file_total_length(const struct iovec *vectors, int count);
/* What a read or write with these arguments may do: its length, 0 for nothing, or -errno. */
int file_check_flags(int flags); /* RWF_*, for reads and writes alike. 0 or -errno */
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
    size_t taken;      /* result of one that appends and failed: the server has its beginning */
};
/* Writes all of it, between enter and leave. Returns its length, less if an error came after some
 * bytes, or -errno. `taken` changes. */
ssize_t file_write_at(struct file_open *open, struct file_piece *all, uint64_t offset,
                      enum nfs_stable stable);

/* Has the process a limit of file sizes (RLIMIT_FSIZE)? */
bool file_size_is_limited(void);
/* Bytes that it may write from `offset` on; none: -EFBIG, and the signal that goes with it. */
int64_t file_size_room(uint64_t offset);

/* The end of a call that entered: leaves. If the engine cannot serve the file (any more), that
 * goes to the kernel, and the result is FILE_KERNEL. Errors are made those that an application
 * may get. */
ssize_t file_finish_call(struct file_open *open, ssize_t result);
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
/* WRITE of all of it, from `vectors`. 0 or -errno. */
int file_write_send(struct file_open *open, struct ledger_write *write, const struct iovec *vectors,
                    int count, enum nfs_stable stable, struct nfs_transfer *transfer);
/*
 * Servers tell an error of their disk once, to the call that makes them write to it. May a WRITE
 * that was to reach the disk at once have been told one that concerns other data of the file?
 * `repeated`: it was sent more than once.
 */
static inline bool file_write_is_doubtful(enum nfs_stable stable, int result, bool repeated)
{
    bool failed = result != 0 && result != -ESTALE && result != -EAGAIN;
    return stable != NFS_UNSTABLE && (failed || repeated);
}
/* Notes for the end of a write what one of its answers says of older copies, and of that. */
static inline void file_write_note(struct ledger_write *write, enum nfs_stable stable, int result,
                                   const struct nfs_transfer *transfer)
{
    write->unsettled = write->unsettled || transfer->unsettled;
    write->doubtful = write->doubtful || file_write_is_doubtful(stable, result, transfer->repeated);
}
/* How a write that went well ends in the ledger, by what the server said to a WRITE of `asked_ns`;
 * file, write and epoch of the ending are set before. The kernel's client is told of it, if this
 * process has the file: else `inode` is NULL. Never waits. */
void file_write_ending(struct file_server *server, struct file_inode *inode,
                       const struct nfs_transfer *transfer, uint64_t asked_ns,
                       struct ledger_ending *ending);
/* The same, for what the program itself waits for. */
void file_write_judge(struct file_open *open, struct ledger_write *write,
                      const struct nfs_transfer *transfer, uint64_t asked_ns, uint64_t epoch,
                      struct ledger_ending *ending);
/* The same for one that may have failed, and ends it. Returns `result`. */
int file_write_conclude(struct file_open *open, struct ledger_write *write, int result,
                        const struct nfs_transfer *transfer, uint64_t asked_ns, uint64_t epoch);
/* After a write that went well: COMMITs the file if much of it waits for that, and nobody else
 * would; drops the kernel's pages of what is on stable storage. */
void file_written(struct file_open *open, int fd, enum nfs_stable stable);
/* COMMITs a file that has more uncommitted data than is good, or than the tunable allows. */
void file_commit_early(struct file_inode *inode, const struct rpc_auth *auth);

#endif
