/* COMMITs that nobody asked for. */
#ifndef DURABLE_EARLY_H
#define DURABLE_EARLY_H

#include "file/inode.h"

/* COMMITs a file that has more uncommitted data than is good, or than the tunable allows. */
void durable_commit_early(struct file_inode *inode, const struct rpc_auth *auth);

#endif
