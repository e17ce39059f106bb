/* Durability: COMMIT, and room in the ledger. */
#ifndef FILE_COMMIT_H
#define FILE_COMMIT_H

#include "file/inode.h"

/*
 * COMMITs the file, and writes again what the server lost. Returns 0 when all data that any process
 * of this host had written before the call is on stable storage; -EIO when data is lost; -ESTALE
 * when the file is gone; or what the server said. *rewritten (may be NULL): bytes written again.
 */
int file_inode_commit(struct file_inode *inode, const struct rpc_auth *auth, uint64_t *rewritten);

/* Does a close, or the end of the process, COMMIT the file? See ledger_file_uncommitted_here(). */
bool file_inode_owes_commit(struct file_inode *inode);

/* At a close of what left data behind, and the last one of a file in this process: it tells what
 * fsync would, and does not keep it from telling that. As fsync. */
int file_commit_closing(struct file_open *open);
/* The same for what was sent and acknowledged, and no more. */
int file_inode_commit_acknowledged(struct file_inode *inode, const struct rpc_auth *auth);

/* Makes room in the ledger by committing files, this one first. */
void file_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth);

/*
 * The kernel is about to write the file. Nothing that the ledger has, or gets from writes in flight
 * in any process, may be written again over that: it is committed, and later writes are stable.
 * 0, or -errno of the COMMIT: then there is data left.
 */
int file_inode_commit_for_kernel(struct file_inode *inode, const struct rpc_auth *auth);
/* The same for a file of the registry. */
int file_commit_for_kernel(struct file_mount *mount, const struct rpc_auth *auth,
                           struct ledger_file *file);

/* COMMITs a file of which an entry in the registry is known, and perhaps no more: only one that
 * this process has open can get a new handle. As file_inode_commit(). */
int file_commit_entry(struct file_mount *mount, const struct rpc_auth *auth,
                      struct ledger_file *file);

/* The mount of this process that a file of the registry is of, after its first contact, and whom to
 * ask as; NULL: none, or, *unasked, one that it may be of cannot be used now. */
struct file_mount *file_commit_mount(const struct ledger_file *file, const struct rpc_auth **auth,
                                     bool *unasked);
/* COMMITs a file of the registry, on that mount. 0 or -errno as below; -EIO: there is none. */
int file_commit_known(struct ledger_file *file);
/* COMMITs all files that the key may name (ledger_file_find()). 0, or -errno of the first that
 * failed, as an application may hear it. */
int file_commit_named(const struct ledger_file_key *key);

/* Sends and commits what processes that are known to be dead left behind on a mount. 0, or -errno
 * of the first file of which something is left. */
int file_commit_dead(struct file_mount *mount, const struct rpc_auth *auth);
/* Sends what is old of all processes of the host, as its own process does not: that may be stopped.
 * 0, or -errno of the first file of which something is left. */
struct ledger_moments;
int file_flush_old(struct file_mount *mount, const struct rpc_auth *auth,
                   const struct ledger_moments *moments);
/* As file_commit_dead() for a mount that was just contacted, of all that are dead. */
void file_commit_orphans(struct file_mount *mount, const struct rpc_auth *auth);

/* Set at exit: no one will COMMIT any more. */
extern _Atomic bool file_finishing;

#endif
