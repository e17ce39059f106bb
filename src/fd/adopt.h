/* Adoption: which descriptors the engine serves, and the proof that the server has the same file.
 */
#ifndef FD_ADOPT_H
#define FD_ADOPT_H

#include "file/inode.h"

/* Adopts descriptors that came over exec. To be called once, from the constructor. */
void fd_adopt_inherited(void);

/*
 * After the kernel opened `fd` with these flags: adopts it, or leaves it to the kernel and records
 * the reason. Must be called for every open of a path, with O_TRUNC in the flags if it was used
 * (the ledger is told). 0; or -EIO: close it, as the mount has a fence (nfstab(5)) that this host
 * does not hold, or is closed (fd/closed.h) and the engine cannot serve the file, or as
 * fd_world_claim() says.
 */
int fd_opened(int fd, int flags);

/* Adopts a descriptor that came from another process, or over exec, as fd_opened() does: but it was
 * opened before, and is not refused. `reason` not NULL: it must stay with the kernel. */
void fd_received(int fd, int flags, const char *reason);

/* Like fd_opened(), for a descriptor that must stay with the kernel: `reason` is recorded. If it
 * can write, the file moves to the kernel's world, as by fd_demote(). 0, or -EIO: that cannot be,
 * and the kernel must not write the file. A closed mount has no such files, but for streams of libc
 * and standard descriptors. */
int fd_opened_for_stream(int fd, int flags, const char *reason);
int fd_opened_for_kernel(int fd, int flags, const char *reason);

#endif
