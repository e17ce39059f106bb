/* Managed descriptors: taking and giving back references, and duplicates. inode.h has the rest of
 * table.c, for the engine. */
#ifndef FILE_TABLE_H
#define FILE_TABLE_H

#include "file/inode.h"

/* Takes a reference that keeps the file open until file_put(); NULL when not managed. */
struct file_open *file_get(int fd);
/* Takes one reference more, for a caller that has one. file_put() gives it back. */
void file_hold(struct file_open *open);
void file_put(struct file_open *open);
/* Gives back several references. */
void file_put_many(struct file_open *open, unsigned references);

/* Which file it is, by device and inode number as fstat(2) shows them. Returns O_RDONLY, O_WRONLY
 * or O_RDWR. */
int file_describe(const struct file_open *open, dev_t *device, ino_t *inode);

/* After the kernel made `to` a duplicate of `from` (dup, dup2, dup3, F_DUPFD). Before that `to` was
 * given to fd_closing(). */
void file_duplicated(int from, int to);

#endif
