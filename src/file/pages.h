/*
 * What the kernel has cached of a file of ours: its pages, and its attributes. On a kernel NFS
 * mount it believes both as long as anybody here has the file open for writing. So it is told what
 * was written through the engine, for programs that read the file without the library. On other
 * mounts all of this does nothing.
 */
#ifndef FILE_PAGES_H
#define FILE_PAGES_H

#include "file/inode.h"

/*
 * Makes what was written through the engine visible through the kernel: size and bytes, and with
 * `times` the times. Called where the promise is made: after COMMIT, after a change of size, and at
 * the close of a written file. Bytes are told before it returns. So are attributes, as long as
 * waiting for that takes no more than a hundredth of the time; else about a hundredth of a second
 * later. It waits a second at most, and not at all while the kernel's client is silent.
 */
void file_pages_drop(struct file_open *open, int fd, bool times);
/* As file_pages_drop(), after a synchronous write. Waiting for that, too, takes no more than a
 * hundredth of the time. Beyond that only pages that nobody reads or has mapped are dropped, and
 * the rest is told in a round. */
void file_pages_written(struct file_open *open, int fd);
/* As file_pages_drop(), with the times, before `fd` of a written file is closed. */
void file_pages_drop_closing(struct file_open *open, int fd);
/* As file_pages_drop(), for all files that this process has written and not closed: at its end, and
 * before exec. Then waits for all that is to be told, a second at most for each mount. */
void file_pages_drop_all(void);
/* Waits for all that is to be told, a second at most for each mount: before a child is made. */
void file_pages_settle(void);

/*
 * Around the WRITEs of dirty data. Without this the kernel would show its old page in which the
 * file ended, with zeros behind that, as soon as it learns the new size. Between the two a reader
 * may still cache the old page; the second puts right what it sees. Neither waits for the kernel's
 * client: a page that is being read is left to the next call, or to fsync. `inode` NULL: this
 * process has none. The second takes what the first returns: a descriptor, or -1. It may be closed
 * meanwhile, and the number be another file's: nothing is done to it that matters to any file.
 */
int file_pages_sending(const struct file_inode *inode);
void file_pages_sent(int fd);

/*
 * Data has reached the server, and nobody waits until the kernel knows. durable_write_judge() calls
 * this for each WRITE that went well: of the program's own writes, of what was written behind, of
 * what was lost and is written again, and of strays. Bytes and size are told in a round, about a
 * tenth of a second later. They are told once more when nothing has come for a second, since a page
 * that is being read is not dropped. Rounds take a hundredth of the time at most, unless one takes
 * longer than a tenth of a second. Costs two loads while the next round is to come. Never waits.
 */
void file_pages_tell_soon(struct file_inode *inode);
static inline void file_pages_arrived(struct file_inode *inode)
{
    if (inode->mount->kernel_nfs && !atomic_load_explicit(&inode->arrived, memory_order_relaxed))
        file_pages_tell_soon(inode);
}
/* Before the inode is freed. */
void file_pages_forget(struct file_inode *inode);

/* Before a use of the descriptor through the kernel: makes pages and attributes fresh. It waits for
 * the kernel's client, as that use will. `open`: NULL for a descriptor that is not managed. */
void file_pages_fresh(const struct mount *mount, struct file_open *open, int fd);

/* In the child of fork(), where the parent's threads do not exist. */
void file_pages_fork_child(void);

#endif
