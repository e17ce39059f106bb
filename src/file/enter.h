/* What the program's calls on a file have in common: the check of flags, the limit of file sizes
 * (limits.c), and the end, with its errors. They begin with file_inode_enter() of inode.h. */
#ifndef FILE_ENTER_H
#define FILE_ENTER_H

#include "file/inode.h"

/* Makes an error of the rooms below, about the server and the way to it, one that an application
 * may get for a file. Other results stay as they are. */
static inline ssize_t file_posix_error(ssize_t result)
{
    switch (result) {
    case -EBADMSG:
    case -EBUSY: /* another client has this client's name */
    case -EPROTO:
    case -EREMOTE:
    case -EREMOTEIO:
    case -ENONET: /* no connection from this network namespace, and no way to the kernel's world */
    case -EPROTONOSUPPORT:
    case -ELIBSCN:
    case -ELIBACC: /* TLS cannot be had in this process: see net/tls/tls.h */
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
    case -ENOKEY: /* and what net/tls/tls.h has beside it */
    case -ENOPROTOOPT:
    case -EPFNOSUPPORT:
    case -EKEYREVOKED:
    case -EBADRQC:
        return -ETIMEDOUT;
    default:
        return result;
    }
}

/* The ledger cannot note a write, not even without its data: the file must go to the kernel. */
enum { FILE_NO_ROOM = FILE_KERNEL - 1 };
extern const char file_no_room[];
/* Is it a result after which the kernel makes the whole call again? */
static inline bool file_is_for_kernel(ssize_t result)
{
    return result == -ESTALE || result == FILE_NO_ROOM || result == LEDGER_OF_KERNEL;
}

/* Checks RWF_*, of a read or a write. 0 or -errno. */
int file_check_flags(int flags);

/* The end of a call that entered: leaves. FILE_KERNEL: the engine cannot serve the file (any more),
 * and has moved it to the kernel. Other errors become those that an application may get. */
ssize_t file_finish_call(struct file_open *open, ssize_t result);
/* Is the file to be neither read nor written? Its mount is lost or barred, or it is a file of a
 * closed mount in the kernel's world. */
bool file_is_barred_now(struct file_inode *inode);
static inline bool file_is_barred(struct file_inode *inode)
{
    return __builtin_expect(inode->mount->lost != NULL, false) && file_is_barred_now(inode);
}
/* Does the process have a limit of file sizes (RLIMIT_FSIZE)? */
bool file_size_is_limited(void);
/* How many bytes the limit allows from `offset` on. -EFBIG: none; the signal SIGXFSZ is sent. */
int64_t file_size_room(uint64_t offset);

#endif
