/* Losses of data, and which of them an open file has told. */
#ifndef FILE_LOSS_H
#define FILE_LOSS_H

#include "file/inode.h"

/* Bytes that were not committed are lost: the log says so, and the next fsync fails. */
void file_loss_report(struct file_inode *inode, uint64_t bytes);

/* Which losses an open file has told. All are called under file_lock but the first, which is for a
 * new open file. file_seen_fork_prepare() is for the descriptors below `table_end`. */
void file_seen_open(struct file_open *open);
void file_seen_close(struct file_open *open);
void file_seen_fork_prepare(int table_end);
void file_seen_fork_child(void);

#endif
