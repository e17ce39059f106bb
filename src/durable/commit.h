/* Durability of one file: COMMIT. */
#ifndef DURABLE_COMMIT_H
#define DURABLE_COMMIT_H

#include "file/inode.h"

/*
 * COMMITs the file, and writes again what the server lost. *rewritten (may be NULL): bytes written
 * again.
 * 0: all data that any process of this host had written before the call is on stable storage.
 * -EIO: data is lost.
 * -ESTALE: the file is gone.
 * Else what the server said.
 */
int durable_commit(struct file_inode *inode, const struct rpc_auth *auth, uint64_t *rewritten);

/* Does a close, or the end of the process, have to COMMIT the file? See
 * ledger_file_uncommitted_here(). */
bool durable_owes_commit(struct file_inode *inode);
/* As durable_commit(), where no program waits for it. What it finds lost stays to be found by the
 * next fsync or close, which tells it. */
int durable_commit_unasked(struct file_inode *inode, const struct rpc_auth *auth);
/* The same only for what was sent and acknowledged. */
int durable_commit_acknowledged(struct file_inode *inode, const struct rpc_auth *auth);

/*
 * Before the kernel writes the file. Nothing that the ledger has, or gets from writes in flight in
 * any process, may be written again over that. So it is committed, and later writes are stable. 0,
 * or -errno of the COMMIT: then there is data left.
 */
int durable_commit_inode_for_kernel(struct file_inode *inode, const struct rpc_auth *auth);
/* As durable_commit_inode_for_kernel(), for a file of the registry. */
int durable_commit_for_kernel(struct mount *mount, const struct rpc_auth *auth,
                              struct ledger_file *file);

/* As durable_commit(), for a file of which perhaps only the entry in the registry is known. Only a
 * file that this process has open can get a new handle. */
int durable_commit_entry(struct mount *mount, const struct rpc_auth *auth,
                         struct ledger_file *file);

/* Set at exit: nobody will COMMIT any more. */
extern _Atomic bool durable_finishing;

#endif
