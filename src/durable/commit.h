/* Durability: COMMIT, and room in the ledger. */
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

/* At a close of what left data behind, and the last one of a file in this process: it tells what
 * fsync would, and does not keep it from telling that. As fsync. */
int durable_commit_closing(struct file_open *open);
/* The same for what was sent and acknowledged, and no more. */
int durable_commit_acknowledged(struct file_inode *inode, const struct rpc_auth *auth);

/* Makes room in the ledger by committing files, this one first. */
void durable_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth);

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
/* Sends what is old of all processes of the host, as its own process does not: that may be stopped.
 * 0, or -errno of the first file of which something is left. */
struct ledger_moments;
int durable_flush_old(struct mount *mount, const struct rpc_auth *auth,
                      const struct ledger_moments *moments);
/* As durable_commit_dead() for a mount that was just contacted, of all that are dead. */
void durable_commit_orphans(struct mount *mount, const struct rpc_auth *auth);

/* Set at exit: no one will COMMIT any more. */
extern _Atomic bool durable_finishing;

#endif
