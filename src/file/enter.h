/* What all calls of the program have in common that use the engine: file_inode_enter() of inode.h
 * comes first. */
#ifndef FILE_ENTER_H
#define FILE_ENTER_H

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
enum { FILE_NO_ROOM = FILE_KERNEL - 1 };
extern const char file_no_room[];
/* Results for which the kernel makes the whole call again. */
static inline bool file_is_for_kernel(ssize_t result)
{
    return result == -ESTALE || result == FILE_NO_ROOM || result == LEDGER_OF_KERNEL;
}

/* RWF_*, for reads and writes alike. 0 or -errno. */
int file_check_flags(int flags);

/* The end of a call that entered: leaves. If the engine cannot serve the file (any more), that
 * goes to the kernel, and the result is FILE_KERNEL. Errors are made those that an application
 * may get. */
ssize_t file_finish_call(struct file_open *open, ssize_t result);
/* Has the process a limit of file sizes (RLIMIT_FSIZE)? */
bool file_size_is_limited(void);
/* Bytes that it may write from `offset` on; none: -EFBIG, and the signal that goes with it. */
int64_t file_size_room(uint64_t offset);

#endif
