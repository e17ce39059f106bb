/*
 * What another process of this user has found out of a mount, and this one need not ask for again.
 * Inside src/file only. Below are the facts of run/facts.h that there are, and why they may be
 * used.
 */
#ifndef FILE_FACTS_H
#define FILE_FACTS_H

#include "file/proof.h"
#include "sys/sys.h"

/*
 * The root of a mount, and what MOUNT, the port mapper and FSINFO told of it. Who takes the handle
 * asks for it by GETATTR, and proves that it is the directory at the mount point, as after MOUNT.
 * Good for ten minutes.
 */
struct file_root_fact {
    struct nfs_fh root;
    uint16_t mntport, nfsport;
    uint32_t rtmax, wtmax;
    uint64_t maxfilesize;
};
bool file_fact_of_root(const struct file_mount *mount, struct file_root_fact *fact);
void file_fact_root_is(const struct file_mount *mount, const struct file_root_fact *fact);
void file_fact_root_forget(const struct file_mount *mount);

/* The address at which the server was last found by the name of a path (addresses.h). Who goes
 * there proves that it is the server, as at any address. */
bool file_fact_of_address(const struct conf_server *conf, const struct conf_path *path,
                          struct sockaddr_storage *peer);
/* It was found, or answered, at that address since so long. */
bool file_fact_is_recent(const struct conf_server *conf, const struct conf_path *path,
                         const struct sockaddr_storage *peer, uint64_t age_ns);
void file_fact_address_is(const struct conf_server *conf, const struct conf_path *path,
                          const struct sockaddr_storage *peer);
/* Another directory was found there. */
void file_fact_address_forget(const struct conf_server *conf, const struct conf_path *path);

/* The handle of a directory below a mount's root, by its path relative to it. As with those that a
 * process remembers itself, the file that is found in it must be proven. */
bool file_fact_of_directory(struct file_mount *mount, const struct rpc_auth *auth, const char *path,
                            size_t length, struct nfs_fh *fh);
void file_fact_directory_is(struct file_mount *mount, const struct rpc_auth *auth, const char *path,
                            size_t length, const struct nfs_fh *fh);

/*
 * A file that was proven to have this handle: the same inode of the kernel's, by the same path, for
 * the same credential. Numbers are used again; so an inode is the same if the kernel's handle of it
 * (name_to_handle_at(2)) and its time of birth are too.
 */
struct file_fact {
    struct nfs_fh fh;
    uint32_t access;         /* what ACCESS granted */
    uint64_t access_ns;      /* when it was asked; 0: it was not */
    uint32_t mode, uid, gid; /* that the file had before */
    bool same_inode;         /* not part of what is kept: the kernel tells inodes apart */
};
/* `seen` is what the kernel says of claim->fd now. */
bool file_fact_of_file(const struct file_claim *claim, const struct statx *seen,
                       struct file_fact *fact);
void file_fact_file_is(const struct file_claim *claim, const struct statx *seen,
                       const struct file_fact *fact);

/*
 * What ACCESS granted, as far as that still holds; else 0. As in the kernel's NFS client it does as
 * long as the file has the same mode, owner and group, for actimeo, and at most three seconds: the
 * server's administrator, or a list of access rights, may refuse what was granted before.
 */
uint32_t file_fact_access(const struct file_fact *fact, const struct statx *seen);

#endif
