/* Attributes: what is known, and asking for them. */
#ifndef FILE_GETATTR_H
#define FILE_GETATTR_H

#include "file/inode.h"

/* Attributes that the server told when it was asked at this time or later are fresh: actimeo. */
uint64_t file_fresh_since(struct file_inode *inode);
/* Asks for the attributes. 0 or -errno of GETATTR. */
int file_inode_ask(struct file_inode *inode, const struct rpc_auth *auth,
                   struct ledger_attributes *attributes);
/* Those that are known. False: none, or they are not fresh. */
bool file_inode_known(struct file_inode *inode, struct ledger_attributes *attributes);
/* Asks, if those that are known are not fresh. */
int file_inode_attributes(struct file_inode *inode, const struct rpc_auth *auth,
                          struct ledger_attributes *attributes);

#endif
