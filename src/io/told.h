/* What the answer to a READ tells besides the data. */
#ifndef IO_TOLD_H
#define IO_TOLD_H

#include "file/inode.h"

/* After a READ that was sent at `asked_ns`: what came with the answer tells whether others changed
 * the file since the stamp was taken. */
void io_told(struct file_inode *inode, const struct ledger_stamp *stamp, uint64_t asked_ns,
             uint64_t offset, const struct nfs_transfer *transfer);

/* The answer of a READ may also tell where the file ends: then that is known, until somebody of
 * this host changes or opens the file, and as long as bytes that were fetched may be given out. */
void io_note_end(struct file_open *open, const struct ledger_stamp *stamp, uint64_t asked_ns,
                 uint64_t offset, const struct nfs_transfer *transfer);

#endif
