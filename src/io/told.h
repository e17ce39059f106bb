/* What the answer to a READ tells besides the data. */
#ifndef IO_TOLD_H
#define IO_TOLD_H

#include "file/inode.h"

/* After a READ that was sent at `asked_ns`: notes the attributes that came with the answer. They
 * tell whether others changed the file since the stamp was taken. */
void io_told(struct file_inode *inode, const struct ledger_stamp *stamp, uint64_t asked_ns,
             uint64_t offset, const struct nfs_transfer *transfer);

/* The answer to a READ may also tell where the file ends. That is noted, and holds until a process
 * of this host changes or opens the file. It holds no longer than bytes that were read ahead may be
 * given out. */
void io_note_end(struct file_open *open, const struct ledger_stamp *stamp, uint64_t asked_ns,
                 uint64_t offset, const struct nfs_transfer *transfer);

#endif
