/* Making many files safe: those of a mount, of a dead process, of this process, or all. */
#ifndef DURABLE_SYNC_H
#define DURABLE_SYNC_H

#include "file/inode.h"

/* COMMITs what this process wrote, before exec and exit. Leaves all descriptors as they are. 0 or
 * -errno. */
int durable_commit_all(void);
/* Before another program starts, which may read through the kernel: sends what this process wrote,
 * or one that it was forked from. Costs a load for each mount, if nothing was ever written behind.
 */
void durable_write_out_all(void);
/* sync(2): COMMITs every file of this host that has uncommitted data. 0, or -errno of one that
 * failed. */
int durable_sync_all(void);

/* Makes room in the ledger: commits this file or, if it has nothing uncommitted, all of its mount.
 */
void durable_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth);

/* The mount of this process that a file of the registry belongs to, after its first contact. *auth:
 * as which user to ask. NULL: there is none; *unasked: a mount that it may belong to cannot be used
 * now. */
struct mount *durable_commit_mount(const struct ledger_file *file, const struct rpc_auth **auth,
                                   bool *unasked);
/* COMMITs a file of the registry, on that mount. 0, or -errno that an application may get; -EIO:
 * there is no such mount. */
int durable_commit_known(struct ledger_file *file);
/* COMMITs all files that the key may name (ledger_file_find()). 0, or -errno of the first that
 * failed, as durable_commit_known(). */
int durable_commit_named(const struct ledger_file_key *key);
/* COMMITs what this process has open of files with this number. Errors: fsync tells them. */
void durable_commit_own(dev_t device, uint64_t number);

/* Sends and commits what processes that are known to be dead left on a mount. 0, or -errno of the
 * first file of which something is left. */
int durable_commit_dead(struct mount *mount, const struct rpc_auth *auth);
struct ledger_moments;
/* Sends what is old, of all processes of the host: the process that wrote it may be stopped, and
 * not send it. 0, or -errno of the first file of which something is left. */
int durable_flush_old(struct mount *mount, const struct rpc_auth *auth,
                      const struct ledger_moments *moments);
/* For a mount that was just contacted: finds all dead processes, and does as durable_commit_dead().
 * The next sync tells an error. */
void durable_commit_orphans(struct mount *mount, const struct rpc_auth *auth);

#endif
