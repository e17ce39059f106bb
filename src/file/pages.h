/*
 * What the kernel has cached of a file of ours: its pages, and its attributes. On a kernel NFS
 * mount it would believe both for good as long as anybody here has the file open for writing. So it
 * is told what was written through the engine, for who reads the file without the library. On other
 * mounts all of this does nothing.
 */
#ifndef FILE_PAGES_H
#define FILE_PAGES_H

#include "file/inode.h"

/*
 * What was written through the engine is seen through the kernel: size and bytes, and with `times`
 * the times. Called where the promise is made: after COMMIT, after a change of size, and at the
 * close of a written file. Bytes before it returns. The attributes too, as long as waiting for that
 * takes no more than a hundredth of the time: else about a hundredth of a second later. It waits a
 * second at most, and not at all while the kernel's client is silent.
 */
void file_pages_drop(struct file_open *open, int fd, bool times);
/* The same after a synchronous write. Waiting for that, too, takes no more than a hundredth of the
 * time: else pages that nobody reads or has mapped are dropped, and the rest is told in a round. */
void file_pages_written(struct file_open *open, int fd);
/* `fd` of a written file is about to be closed: the same, with the times. */
void file_pages_drop_closing(struct file_open *open, int fd);
/* The same for all that this process has written and not closed, and waits for all that is to be
 * told, a second at most for each mount: at its end, and before exec. */
void file_pages_drop_all(void);
/* Waits likewise for what is to be told: before a child is made. */
void file_pages_settle(void);

/*
 * Around the WRITEs of dirty data. Else the kernel would show its page in which the file ended,
 * with zeros behind that, as soon as it learns the new size. Between the two a reader may still
 * cache the old page; what it sees is put right by the second. Neither waits for the kernel's
 * client: a page that is being read is left to the next of these, or to fsync. `inode` NULL: this
 * process has none. What the first returns is for the second: a descriptor, or -1. It may be closed
 * meanwhile, and the number be another file's: nothing is done to it that matters to any file.
 */
int file_pages_sending(const struct file_inode *inode);
void file_pages_sent(int fd);

/*
 * Data has reached the server, and nobody waits until the kernel knows. file_write_judge() says
 * so, by which the answer to each WRITE goes that went well: of the program's own writes, however
 * they were made, of what was written behind, was lost and is written again, or was a stray. Bytes
 * and size are told in a round, about a tenth of a second later, and once more when nothing has
 * come for a second, since a page that is being read is not dropped. Rounds take a hundredth of the
 * time at most. Costs two loads while the next round is to come. Never waits.
 */
void file_pages_tell_soon(struct file_inode *inode);
static inline void file_pages_arrived(struct file_inode *inode)
{
    if (inode->mount->kernel_nfs && !atomic_load_explicit(&inode->arrived, memory_order_relaxed))
        file_pages_tell_soon(inode);
}
/* The inode is freed. */
void file_pages_forget(struct file_inode *inode);

/* Before a use of the descriptor that goes by the kernel: pages and attributes. It waits for the
 * kernel's client as that use will. `open` is NULL for a descriptor that is not managed. */
void file_pages_fresh(const struct file_mount *mount, struct file_open *open, int fd);

/* In the child of fork(), which has no thread of its parent's. */
void file_pages_fork_child(void);

#endif
