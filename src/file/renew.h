/* Stale handles, and a file as a call needs it: its handle, the client and the ledger's entry. */
#ifndef FILE_RENEW_H
#define FILE_RENEW_H

#include "file/inode.h"
#include "mount/mounts.h"

/*
 * The handle that a call is made with. Around each call on the inode's handle:
 *    struct file_handle_use use = file_inode_use(inode);
 *    do
 *        result = nfs_...(&client, use.fh, ...);
 *    while (result == -ESTALE && file_inode_renew(inode, auth, &use));
 */
struct file_handle_use {
    const struct nfs_fh *fh; /* good as long as the inode is */
    unsigned renewals;
};
static inline struct file_handle_use file_inode_use(struct file_inode *inode)
{
    return (struct file_handle_use){.fh = atomic_load(&inode->fh)};
}

/*
 * The server says that the handle is stale.
 * True: the file was found again by name, with the proof that it is the same file, and has another
 * handle now. Make the call again.
 * False, after a few times and where there is no proof (the log says so): the file cannot be
 * reached.
 * Mounts again when the export's root is stale too, for up to half a minute.
 */
bool file_inode_renew(struct file_inode *inode, const struct rpc_auth *auth,
                      struct file_handle_use *use);

/* What a server says of a file, as the ledger has it. */
static inline void file_attributes_convert(const struct nfs_attr *attr,
                                           struct ledger_attributes *attributes)
{
    attributes->size = attr->size;
    attributes->used = attr->used;
    attributes->mtime = (struct timespec){attr->mtime.sec, attr->mtime.nsec};
    attributes->ctime = (struct timespec){attr->ctime.sec, attr->ctime.nsec};
}

/* A file at its server, and as which user the server is asked. */
struct file_target {
    struct mount *mount;
    struct nfs_client client;
    struct file_inode *inode; /* NULL: this process has none; the handle is all that is known */
    struct file_handle_use use;
    struct ledger_file *entry;
};
static inline struct file_target file_target_of(struct file_inode *inode,
                                                const struct rpc_auth *auth)
{
    return (struct file_target){inode->mount, mount_client(inode->mount, auth), inode,
                                file_inode_use(inode), &inode->entry};
}

/* After a call with to->use.fh: is it to be made again, with another handle? */
static inline bool file_target_again(struct file_target *to, int result)
{
    return result == -ESTALE && to->inode && file_inode_renew(to->inode, to->client.auth, &to->use);
}

/*
 * The handle of `entry` is stale for good. Is the file removed, so that nobody misses what was
 * written to it? If not, others may yet find it again. inode: NULL if this process has none.
 */
bool file_is_removed(struct mount *mount, const struct rpc_auth *auth,
                     const struct ledger_file *entry, const struct file_inode *inode);

#endif
