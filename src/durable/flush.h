/*
 * Dirty data: sending what write(2) left in the ledger (ledger/dirty.h). Callers have entered the
 * inode, or know that nobody else can take the file away.
 */
#ifndef DURABLE_FLUSH_H
#define DURABLE_FLUSH_H

#include "durable/committing.h"

/*
 * Sends all that is dirty of the file now, also what other processes wrote, and waits until all of
 * it is acknowledged. c->stored: nothing of the file is left that a COMMIT would have to make safe.
 * 0; or -errno of data that the server refused, and that is lost, or of data that stays dirty:
 * -ESTALE, or the server did not answer in time.
 */
int durable_flush_all(struct committing *c);
/* Sends what was written up to `sequence` (struct ledger_sending). 0, or -errno of what stays
 * dirty. */
int durable_flush_until(struct committing *c, uint64_t sequence);
/* Sends what is dirty in [start, end), UNSTABLE. 0, or -errno of what stays dirty. What the server
 * refused is no error here: it is not dirty any more, and fsync tells. */
int durable_flush_range(struct file_inode *inode, const struct rpc_auth *auth, uint64_t start,
                        uint64_t end);
/* Sends what is dirty of all files that have this number, for a caller that asks for a file by
 * name. 0, or -errno: this process cannot send what others wrote. */
int durable_flush_number(dev_t device, uint64_t number);
/*
 * Sends some of what is dirty, UNSTABLE, in runs of at least `least` bytes. If there is none but
 * some in flight, it waits for that, if `wait`.
 * 1: there may be more.
 * 0: there is no more.
 * -EAGAIN: there is more, and something is in the way.
 * Else -errno of what stays dirty.
 */
int durable_flush_some(struct file_inode *inode, const struct rpc_auth *auth, size_t least,
                       bool wait);

/* Has what was written to [offset, offset + length) sent to the server: now if `wait`, else soon.
 * length 0: up to the end. It vouches for nothing. */
void durable_write_out(struct file_open *open, off_t offset, off_t length, bool wait);

#endif
