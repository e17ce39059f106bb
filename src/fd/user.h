/* A process that becomes another user, or gets another root directory. */
#ifndef FD_USER_H
#define FD_USER_H

#include "file/inode.h"

/* All files of the process, also those that are opened later, are the kernel's from now on.
 * `reason` lives for ever. */
void fd_leave_to_kernel(const char *reason);

/*
 * After setuid() and its like. If the process cannot become the owner of its run directory any more
 * (real, effective and saved user are others), what it wrote is committed, and it goes on in the
 * run directory of its new user.
 */
void fd_user_changed(void);

#endif
