/* The life of descriptors: entered, closed, their flags changed, inherited by fork. */
#ifndef FD_DESCRIPTORS_H
#define FD_DESCRIPTORS_H

#include "file/inode.h"

/* Enters a new open file description at `fd`. Takes over the caller's user of the inode. 0 or
 * -ENOMEM. */
int fd_descriptor_enter(int fd, struct file_inode *inode, const struct rpc_auth *auth, int flags);

/* Handlers for pthread_atfork(). */
void fd_fork_prepare(void);
void fd_fork_parent(void);
void fd_fork_child(void);

/*
 * Before the kernel closes or replaces `fd` (close, dup2 onto it, close_range). COMMITs, if it was
 * the last descriptor of a file that this process wrote, or left data behind. 0, or -errno (-EIO,
 * -ENOSPC) that close() must report after the kernel's close.
 */
int fd_closing(int fd);

/* Brackets fcntl(F_SETFL, flags) of any descriptor. */
struct fd_flags_change {
    struct file_open *open; /* held; NULL: not managed */
    bool shared, appends;   /* other processes are kept away; O_APPEND changes */
};
void fd_flags_begin(struct fd_flags_change *change, int fd, int flags);
void fd_flags_end(struct fd_flags_change *change);

#endif
