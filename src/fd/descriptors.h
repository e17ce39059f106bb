/* The life of descriptors. */
#ifndef FD_DESCRIPTORS_H
#define FD_DESCRIPTORS_H

#include "file/inode.h"

/* Enters a new open file description at `fd`. Takes over the caller's use of the inode. 0/-ENOMEM
 */
int fd_descriptor_enter(int fd, struct file_inode *inode, const struct rpc_auth *auth, int flags);

#endif
