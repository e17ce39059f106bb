/* Between the two worlds: see ledger/world.h. */
#ifndef FD_WORLD_H
#define FD_WORLD_H

#include "file/inode.h"

/* How long a process that is abroad (net_server_is_abroad()), or cannot ask the server, waits until
 * others have sent and committed what they wrote. Tests change it. */
extern unsigned fd_world_abroad_ms, fd_world_unasked_ms;

/*
 * Moves the file to the kernel's world: see fd_demote(). The caller is not between enter and leave.
 * 0: it is there.
 * -ENONET: it stays here, as this process is abroad (net_server_is_abroad()) and others have not
 * sent what they wrote; that would undo what the kernel writes. Not so in a process that left all
 * files to the kernel: there that data is given up. Or it stays as its mount is closed
 * (fd/closed.h), and the log says so.
 * Else -errno of the COMMIT: it is there, and data was lost.
 */
int fd_world_demote(struct file_inode *inode, const struct rpc_auth *auth, const char *reason);
/* The same for a stream of libc or a standard descriptor, also of a closed mount. But if that has
 * more descriptors of the file than `own`, the stream is refused (-ENONET): they would go along. */
int fd_world_demote_stream(struct file_inode *inode, const struct rpc_auth *auth,
                           const char *reason, unsigned own);
/* As fd_world_demote(), after another process that moved the file there. */
int fd_world_follow(struct file_inode *inode);
/* See struct file_upper. */
bool fd_world_cross(struct file_inode *inode, bool known);

/*
 * A descriptor that can write stays with the kernel, though it may never have been proven which
 * file of the server it is. So all files with its number go to the kernel's world, and no process
 * adopts one of them as long as this one lives.
 * 0: the kernel may write.
 * -EIO: the descriptor must not be used, as data of others is not sent, and this process is abroad,
 * or cannot ask the server.
 * `in_use`: it cannot be refused. Then that data is given up, as it would undo what the kernel
 * writes, and the processes that wrote it are told.
 */
int fd_world_claim(const struct stat *status, const char *path, const char *reason, bool in_use);
/* For a process that cannot use the registry: waits until the server has what others wrote. If it
 * does not come, the log says so. */
void fd_world_await_others(dev_t device, ino_t number, const char *path);
/* A file that is in the kernel's world already stays there for this process, too, unless its mount
 * is closed. Returns why. */
const char *fd_world_stay(struct file_inode *inode);
/* `fd` was just opened: may the engine serve the file? A file in the kernel's world that nobody
 * pins any more comes back. */
bool fd_world_is_ours(struct file_inode *inode, const struct rpc_auth *auth, int fd);

/*
 * Moves the file of a managed descriptor to the kernel's world. From now on its descriptors in all
 * processes of this host are the kernel's alone; what any of them wrote is committed before this
 * returns. The file comes back when all processes that pinned it have ended.
 * 0: so it is, or the descriptor is not managed.
 * -EIO: data was lost; or the descriptor is managed still, and the kernel must not write the file
 * now: see fd_world_demote().
 * Else -errno of the COMMIT.
 */
int fd_demote(int fd, const char *reason);

/* For a descriptor that libc's streams use from now on: as fd_demote(), if it can write. If it only
 * reads, it alone becomes the kernel's, with fresh pages. */
int fd_demote_stream(int fd, const char *reason);

/* Before a use of the kernel's pages that needs no coherence, such as a private map: they have what
 * was written until now. */
void fd_fresh(int fd);
/* The kernel is to read a file with this number through `fd`: as file_pages_fresh(), unless no
 * process of this user has written it, and the kernel knows what the engine knows of it (`open`),
 * or `fd` was just opened (NULL). */
void fd_show_kernel(const struct mount *mount, struct file_open *open, int fd, dev_t device,
                    ino_t number);

/* Before the kernel maps a descriptor that is not managed so that others see what is stored in the
 * map. */
void fd_shared_map(int fd);

#endif
