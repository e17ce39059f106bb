/*
 * What another process of this user has found out about a mount, and this process need not ask
 * again. Inside the engine only. Here are all facts that run/facts.h keeps, and why they may be
 * used.
 */
#ifndef MOUNT_FACTS_H
#define MOUNT_FACTS_H

#include "mount/proof.h"
#include "sys/sys.h"

/*
 * The root of a mount, and what MOUNT, the port mapper and FSINFO said of it. A process that takes
 * the handle asks for it by GETATTR, and proves that it is the directory at the mount point, as
 * after MOUNT. Good for ten minutes. Of each kind of fact, `_of_` reads it, `_is` stores it, and
 * `_forget` drops it.
 */
struct mount_root_fact {
    struct nfs_fh root;
    uint16_t mntport, nfsport;
    uint32_t rtmax, wtmax;
    uint64_t maxfilesize;
};
bool mount_fact_of_root(const struct mount *mount, struct mount_root_fact *fact);
void mount_fact_root_is(const struct mount *mount, const struct mount_root_fact *fact);
void mount_fact_root_forget(const struct mount *mount);

/* The address at which the server was last found by the name of a path (addresses.h). A process
 * that goes there proves that it is the server, as at any address. */
bool mount_fact_of_address(const struct conf_server *conf, const struct conf_path *path,
                           struct sockaddr_storage *peer);
/* Was the server found, or did it answer, at this address less than `age_ns` ago? */
bool mount_fact_is_recent(const struct conf_server *conf, const struct conf_path *path,
                          const struct sockaddr_storage *peer, uint64_t age_ns);
void mount_fact_address_is(const struct conf_server *conf, const struct conf_path *path,
                           const struct sockaddr_storage *peer);
/* Another directory was found at that address. */
void mount_fact_address_forget(const struct conf_server *conf, const struct conf_path *path);

/* The handle of a directory below a mount's root, by its path relative to the root. A file that is
 * found in it must be proven, as with directory handles that a process remembers itself. */
bool mount_fact_of_directory(struct mount *mount, const struct rpc_auth *auth, const char *path,
                             size_t length, struct nfs_fh *fh);
void mount_fact_directory_is(struct mount *mount, const struct rpc_auth *auth, const char *path,
                             size_t length, const struct nfs_fh *fh);

/*
 * A file that was proven to have this handle. The key is the kernel's inode, the path and the
 * credential. Inode numbers are used again; so an inode is the same only if the kernel's handle of
 * it (name_to_handle_at(2)) and its time of birth are too.
 */
struct mount_fact {
    struct nfs_fh fh;
    uint32_t access;         /* what ACCESS granted */
    uint64_t access_ns;      /* when it was asked; 0: it was not */
    uint32_t mode, uid, gid; /* which the file had then */
    bool same_inode;         /* not kept: the kernel told that it is the same inode */
};
/* `seen`: what the kernel says of claim->fd now. */
bool mount_fact_of_file(const struct mount_claim *claim, const struct statx *seen,
                        struct mount_fact *fact);
void mount_fact_file_is(const struct mount_claim *claim, const struct statx *seen,
                        const struct mount_fact *fact);

/*
 * What ACCESS granted, if that still holds; else 0. As in the kernel's NFS client, it holds while
 * the file has the same mode, owner and group, for actimeo, and at most three seconds: the server's
 * administrator, or a list of access rights, may refuse what was granted before.
 */
uint32_t mount_fact_access(const struct mount_fact *fact, const struct statx *seen);

#endif
