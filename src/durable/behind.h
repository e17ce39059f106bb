/*
 * Write-behind: a buffered write(2) is over when its data is in the ledger. For each server a
 * thread of ours sends the data soon, in few WRITEs. Whatever needs it at the server, such as
 * fsync, close and readers, does not wait for that, but sends it itself.
 */
#ifndef DURABLE_BEHIND_H
#define DURABLE_BEHIND_H

#include "file/inode.h"

/* A write, or a part of one. */
struct durable_piece {
    const struct iovec *vectors;
    int count;
    size_t length;
    bool only_extends; /* write only if the file ends where the piece begins, or before */
    bool appends;      /* it is an append, and the caller has the turn */
    size_t taken;      /* result, if it appends and failed: so many bytes are at the server, */
    bool unsettled;    /* or the server may have all of it, or get it yet */
};

/* May this process write behind, to an open file with these flags? */
bool durable_behind_allows(int access, int flags);
/* Does this process write behind to this open file, as things are now? */
bool durable_behind_writes(const struct file_open *open);
/*
 * Writes a piece behind, at most LEDGER_WRITE_MAX bytes.
 * 0: it is in the ledger.
 * LEDGER_WRITE_NOW: it cannot be left behind, whatever the reason.
 * Else -errno.
 */
int durable_behind_write(struct file_open *open, const struct durable_piece *piece,
                         uint64_t offset);

/* A program said that it will want this file's data on the disk (sync_file_range): has what is
 * dirty sent soon, and made safe where an fsync would have to wait for that. Does not wait. */
void durable_behind_hurry(struct file_inode *inode);

/* Before a file of the mount that was opened with these flags becomes managed: starts the thread
 * that its server will need. (Here, as a write may come in a handler of a signal that interrupted
 * malloc().) */
void durable_behind_prepare(struct mount *mount, int access, int flags);
/* Before this process leaves its registry. It has one thread of the application, and nothing dirty.
 * Waits until the senders are out of the registry. */
void durable_behind_forget(void);

/* Around fork: nobody changes the lists. */
void durable_behind_fork_prepare(void);
void durable_behind_fork_parent(void);
/* In the child of fork(): the parent sends what it has. */
void durable_behind_fork_child(void);

#endif
