/* A process that becomes another user, or leaves all files to the kernel. */
#ifndef FD_USER_H
#define FD_USER_H

#include "file/inode.h"

/* Leaves all files of the process to the kernel from now on, also those that are opened later.
 * `reason` lives for ever. */
void fd_leave_to_kernel(const char *reason);

/*
 * After setuid() and the like. Its real, effective and saved user may all be others than the owner
 * of its run directory. Then it cannot become the owner again: what it wrote is committed, and it
 * goes on in the run directory of its new user.
 */
void fd_user_changed(void);

#endif
