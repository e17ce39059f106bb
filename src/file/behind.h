/*
 * Write-behind: a buffered write(2) is over when its data is in the ledger. A thread of ours for
 * each server sends it soon, in few WRITEs; fsync, close and whoever needs it at the server do not
 * wait for that.
 */
#ifndef FILE_BEHIND_H
#define FILE_BEHIND_H

#include "file/inode.h"

/* May this process write behind, to an open file with these flags? */
bool file_behind_allows(int access, int flags);
/* Does it, as things are? */
bool file_behind_writes(const struct file_open *open);
/* A piece of a write, not longer than LEDGER_WRITE_MAX. 0; LEDGER_WRITE_NOW, whatever
 * the reason; or -errno. */
struct file_piece;
int file_behind_write(struct file_open *open, const struct file_piece *piece, uint64_t offset);

/* What is dirty of the file is sent soon: nobody waits for it. */
void file_behind_hurry(struct file_inode *inode);

/* Before a file of the mount is entered that is opened with these flags: starts the thread that its
 * server will need (here, as a write may come in a handler of a signal that interrupted malloc()).
 */
void file_behind_prepare(struct file_mount *mount, int access, int flags);
/* Before this process leaves its registry, with one thread of the application, and nothing dirty:
 * waits until the threads are out of it. */
void file_behind_forget(void);

void file_behind_fork_prepare(void);
void file_behind_fork_parent(void);
/* In the child of fork(): the parent sends what it has. */
void file_behind_fork_child(void);

#endif
