/* Making many files safe: of a mount, of a process that is dead, of this one, or of all. */
#ifndef DURABLE_SYNC_H
#define DURABLE_SYNC_H

#include "file/inode.h"

/* COMMITs what this process wrote, before exec and exit. Keeps all descriptors as they are. */
int durable_commit_all(void);
/* Before another program starts, which may read by the kernel: what this process wrote, or one that
 * it was forked from, is at the server. A load for each mount, if it never wrote behind. */
void durable_write_out_all(void);
/* sync(): COMMITs every file of this host that has uncommitted data. 0, or -errno of one that
 * failed. */
int durable_sync_all(void);

/* Makes room in the ledger by committing files, this one first. */
void durable_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth);

/* The mount of this process that a file of the registry is of, after its first contact, and whom to
 * ask as; NULL: none, or, *unasked, one that it may be of cannot be used now. */
struct mount *durable_commit_mount(const struct ledger_file *file, const struct rpc_auth **auth,
                                   bool *unasked);
/* COMMITs a file of the registry, on that mount. 0 or -errno as below; -EIO: there is none. */
int durable_commit_known(struct ledger_file *file);
/* COMMITs all files that the key may name (ledger_file_find()). 0, or -errno of the first that
 * failed, as an application may hear it. */
int durable_commit_named(const struct ledger_file_key *key);

/* Sends and commits what processes that are known to be dead left behind on a mount. 0, or -errno
 * of the first file of which something is left. */
int durable_commit_dead(struct mount *mount, const struct rpc_auth *auth);
struct ledger_moments;
/* Sends what is old of all processes of the host, as its own process does not: that may be stopped.
 * 0, or -errno of the first file of which something is left. */
int durable_flush_old(struct mount *mount, const struct rpc_auth *auth,
                      const struct ledger_moments *moments);
/* As durable_commit_dead() for a mount that was just contacted, of all that are dead. */
void durable_commit_orphans(struct mount *mount, const struct rpc_auth *auth);

#endif
