/* Between the two worlds: see ledger/world.h. */
#ifndef FILE_WORLD_H
#define FILE_WORLD_H

#include "file/inode.h"

/* Moves the file to the kernel's world: see file_demote(). The caller is not between enter and
 * leave. */
int file_inode_demote(struct file_inode *inode, const struct rpc_auth *auth, const char *reason);
/* Follows another process, which moved it there. */
void file_inode_follow(struct file_inode *inode);

/*
 * A descriptor that can write the file stays with the kernel, though it may never have been proven
 * which one it is on the server: all files with its number go to the kernel's world, and no process
 * adopts one of them as long as this one lives.
 */
void file_world_claim(const struct stat *status, const char *path, const char *reason);
/* For a process that cannot use the registry: waits until the server has what others wrote, or says
 * that it has not. */
void file_world_await_others(dev_t device, ino_t number, const char *path);
/* A descriptor of a file that is in the kernel's world already stays there. Returns why. */
const char *file_world_stay(struct file_inode *inode);
/* `fd` was just opened: may the engine serve the file? One in the kernel's world that nobody pins
 * any more comes back. */
bool file_world_is_ours(struct file_inode *inode, const struct rpc_auth *auth, int fd);

/*
 * After this, what was written through the engine is seen through the kernel. On a kernel NFS
 * mount this drops cached pages; the kernel would take them for good as long as anybody here has
 * the file open for writing. The kernel is told the size, if it knows another one; with `times`
 * also if it knows another time of change. Called where the promise is made: after COMMIT, after
 * synchronous writes, after a change of size, and at the close of a written file.
 */
void file_pages_drop(struct file_open *open, int fd, bool times);
/* The same for all that this process has written and not closed: at its end, and before exec. */
void file_pages_drop_all(void);
/*
 * Around the WRITEs of dirty data. Else the kernel would show its page in which the file ended,
 * with zeros behind that, as soon as it learns the new size. Between the two a reader may still
 * cache the old page; what it sees is put right by the second. Neither waits for the kernel's
 * client, whose server may be away: a page that is being read is left to the next of these, or to
 * fsync. `inode` NULL: this process has none. What the first returns is for the second: a
 * descriptor, or -1. It may be closed meanwhile, and the number be another file's: nothing is done
 * to it that matters to any file.
 */
int file_pages_sending(const struct file_inode *inode);
void file_pages_sent(int fd);
/* The same before a use of the descriptor that goes by the kernel; it learns the size as well.
 * `open` is NULL for a descriptor that is not managed. */
void file_pages_fresh(const struct file_mount *mount, struct file_open *open, int fd);

#endif
