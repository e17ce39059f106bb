/* Adoption: which descriptors the engine serves, and the proof that it is the same file. */
#ifndef FD_ADOPT_H
#define FD_ADOPT_H

#include "file/inode.h"

/* Adopts descriptors that came over exec: once, from the constructor. */
void fd_adopt_inherited(void);

/*
 * After the kernel opened `fd` with these flags: adopts it, or leaves it to the kernel and records
 * the reason. Must be called for every open of a path, O_TRUNC in the flags included (the ledger is
 * told). 0; or -EIO: it is to be closed, as the mount has a fence (nfstab(5)) that this host does
 * not have.
 */
int fd_opened(int fd, int flags);

/* The same for a descriptor that came from another process, or over exec: it was opened before, and
 * is not refused. `reason` not NULL: it must stay with the kernel. */
void fd_received(int fd, int flags, const char *reason);

/* Like fd_opened(), for a descriptor that must stay with the kernel, e.g. fopen(): `reason` is
 * recorded. If it can write the file that moves to the kernel's world, as by fd_demote(). 0, or
 * -EIO: that cannot be, and the kernel must not write it. */
int fd_opened_for_kernel(int fd, int flags, const char *reason);

#endif
