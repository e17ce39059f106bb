/* Durability of one file: COMMIT. */
#ifndef DURABLE_COMMIT_H
#define DURABLE_COMMIT_H

#include "file/inode.h"

/*
 * COMMITs the file, and writes again what the server lost. Returns 0 when all data that any process
 * of this host had written before the call is on stable storage; -EIO when data is lost; -ESTALE
 * when the file is gone; or what the server said. *rewritten (may be NULL): bytes written again.
 */
int durable_commit(struct file_inode *inode, const struct rpc_auth *auth, uint64_t *rewritten);

/* Does a close, or the end of the process, COMMIT the file? See ledger_file_uncommitted_here(). */
bool durable_owes_commit(struct file_inode *inode);
/* As durable_commit(), for what was sent and acknowledged, and no more. */
int durable_commit_acknowledged(struct file_inode *inode, const struct rpc_auth *auth);

/*
 * The kernel is about to write the file. Nothing that the ledger has, or gets from writes in flight
 * in any process, may be written again over that: it is committed, and later writes are stable.
 * 0, or -errno of the COMMIT: then there is data left.
 */
int durable_commit_inode_for_kernel(struct file_inode *inode, const struct rpc_auth *auth);
/* The same for a file of the registry. */
int durable_commit_for_kernel(struct mount *mount, const struct rpc_auth *auth,
                              struct ledger_file *file);

/* COMMITs a file of which an entry in the registry is known, and perhaps no more: only one that
 * this process has open can get a new handle. As durable_commit(). */
int durable_commit_entry(struct mount *mount, const struct rpc_auth *auth,
                         struct ledger_file *file);

/* Set at exit: no one will COMMIT any more. */
extern _Atomic bool durable_finishing;

#endif
