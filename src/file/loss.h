/* Losses, and which of them an open file has told. */
#ifndef FILE_LOSS_H
#define FILE_LOSS_H

#include "file/inode.h"

/* Bytes that were not committed are lost: said on the log, and by the next fsync. */
void file_loss_report(struct file_inode *inode, uint64_t bytes);

/* Which losses the open file has told. All under file_lock but the first, which is for a new one;
 * prepare is for the descriptors below `table_end`. */
void file_seen_open(struct file_open *open);
void file_seen_close(struct file_open *open);
void file_seen_fork_prepare(int table_end);
void file_seen_fork_child(void);

#endif
