/* Size and attributes of a file: what is known, and asking the server. */
#ifndef FILE_ATTRIBUTES_H
#define FILE_ATTRIBUTES_H

#include "file/inode.h"

/* Attributes are fresh if the server was asked for them at this time or later: see actimeo, and the
 * last open. */
uint64_t file_fresh_since(struct file_inode *inode);
/* Asks the server for the attributes. 0 or -errno of GETATTR. */
int file_inode_ask(struct file_inode *inode, const struct rpc_auth *auth,
                   struct ledger_attributes *attributes);
/* The attributes that are known. False: there are none, or they are not fresh. */
bool file_inode_known(struct file_inode *inode, struct ledger_attributes *attributes);
/* The attributes that are known; asks, if they are not fresh. 0 or -errno of GETATTR. */
int file_inode_attributes(struct file_inode *inode, const struct rpc_auth *auth,
                          struct ledger_attributes *attributes);

#endif
