/* Between the two worlds: see ledger/world.h. */
#ifndef FD_WORLD_H
#define FD_WORLD_H

#include "file/inode.h"

/* How long who is abroad (net_server_is_abroad()), or cannot ask the server, waits until others
 * have sent and committed what they wrote. Tests change it. */
extern unsigned fd_world_abroad_ms, fd_world_unasked_ms;

/* Moves the file to the kernel's world: see fd_demote(). The caller is not between enter and
 * leave. -ENONET: it stays here, as this process is abroad (net_server_is_abroad()) and others have
 * not sent what they wrote; that would undo what the kernel writes. Not in a process that left all
 * files to the kernel: there that data is given up. */
int fd_world_demote(struct file_inode *inode, const struct rpc_auth *auth, const char *reason);
/* Follows another process, which moved it there. Likewise. */
int fd_world_follow(struct file_inode *inode);
/* See struct file_upper. */
bool fd_world_cross(struct file_inode *inode, bool known);

/*
 * A descriptor that can write the file stays with the kernel, though it may never have been proven
 * which one it is on the server: all files with its number go to the kernel's world, and no process
 * adopts one of them as long as this one lives. 0; -EIO: it must not be used, as data of others is
 * not sent, and this process is abroad, or cannot ask the server. `in_use`: it cannot be refused;
 * then that data is given up, as it would undo what the kernel writes, and its writers are told.
 */
int fd_world_claim(const struct stat *status, const char *path, const char *reason, bool in_use);
/* For a process that cannot use the registry: waits until the server has what others wrote, or says
 * that it has not. */
void fd_world_await_others(dev_t device, ino_t number, const char *path);
/* A descriptor of a file that is in the kernel's world already stays there. Returns why. */
const char *fd_world_stay(struct file_inode *inode);
/* `fd` was just opened: may the engine serve the file? One in the kernel's world that nobody pins
 * any more comes back. */
bool fd_world_is_ours(struct file_inode *inode, const struct rpc_auth *auth, int fd);

/*
 * Moves the file to the kernel's world: the descriptors of it that processes of this host have are
 * the kernel's alone from now on; what any of them wrote is committed before this returns. It comes
 * back when all of them have ended. No-op on unmanaged descriptors. 0, or -errno of the COMMIT; or
 * -EIO, and it is managed still: the kernel must not write the file now, see fd/world.h.
 */
int fd_demote(int fd, const char *reason);

/* For a descriptor that libc's streams use from now on: the same; but one that can only be read
 * moves nothing. It alone is the kernel's then, with fresh pages. */
int fd_demote_stream(int fd, const char *reason);

/* Before a use of the kernel's pages that needs no coherence, as a private map: what was written
 * until now will be there. */
void fd_fresh(int fd);

/* Before the kernel maps an unmanaged descriptor so that others see what is stored there. */
void fd_shared_map(int fd);

#endif
