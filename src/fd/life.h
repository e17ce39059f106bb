/* Start and end of the process; what the configuration allows; locks. */
#ifndef FD_LIFE_H
#define FD_LIFE_H

#include "file/inode.h"

/*
 * Reads the configuration. To be called once, before any other function of the engine (the face
 * does so on the first call that could matter). Mistakes in it go to the log, and leave everything
 * to the kernel. No traffic yet.
 */
void fd_start(void);

/* Is any mount configured? If not, no call needs more than the real function. */
bool fd_enabled(void);

/* May the program make io_uring rings by system call? The engine does not see their requests. */
bool fd_allows_raw_io_uring(void);
/* Are the program's files served though it makes system calls on files itself? */
bool fd_allows_raw_calls(void);

/* At exit: COMMITs what this process wrote, ends its sessions, and folds its statistics. Writes
 * after it are FILE_SYNC. */
void fd_finish(void);

/* Before a lock is asked for or given back: gives the kernel the offset, where the lock may begin,
 * and sends what was written. Does nothing for a descriptor that is not managed. */
void fd_locking(int fd);
/* After a lock was got: what others wrote under it is seen from now on, as by the kernel's NFS
 * client. */
void fd_locked(struct file_open *open);
/* Did this process lock a file with this number? Then the close of any descriptor of the file, also
 * of one that only the library has, would end its locks: fcntl_locking(2). */
bool fd_is_locked(dev_t device, ino_t number);
/* Has this process moved the file to the kernel, for as long as it lives? Its locks are not known
 * then. */
bool fd_is_left_to_kernel(dev_t device, ino_t number);

#endif
