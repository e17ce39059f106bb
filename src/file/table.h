/* The table of descriptors, open file descriptions and inodes. */
#ifndef FILE_TABLE_H
#define FILE_TABLE_H

#include "file/inode.h"

/* Takes a reference that keeps the file open until file_put(); NULL when not managed. */
struct file_open *file_get(int fd);
/* One reference more, for who has one. */
void file_hold(struct file_open *open);
void file_put(struct file_open *open);
/* Gives back several references. */
void file_put_many(struct file_open *open, unsigned references);

/* Which file it is, as fstat(2) shows it; returns O_RDONLY, O_WRONLY or O_RDWR. */
int file_describe(const struct file_open *open, dev_t *device, ino_t *inode);

/* After the kernel made `to` a duplicate of `from` (dup, dup2, dup3, F_DUPFD): to's old file was
 * given to fd_closing() before. */
void file_duplicated(int from, int to);

#endif
