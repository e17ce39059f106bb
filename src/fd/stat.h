/* What the program is told of size and times. */
#ifndef FD_STAT_H
#define FD_STAT_H

#include "file/inode.h"

/* The attributes that are known, or asked for; `times`: also what is dirty is at the server before,
 * which tells them. 0, -errno or FILE_KERNEL. */
int fd_attributes_of(struct file_open *open, bool times, struct ledger_attributes *attributes);

#endif
