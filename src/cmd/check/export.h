/*
 * One export on one path, for check_server.c.
 */
#ifndef CMD_CHECK_EXPORT_H
#define CMD_CHECK_EXPORT_H

#include "cmd/check/path.h"

/* What the first path that granted an export showed of it. The library uses the others if they lead
 * to the same directory. */
struct check_root {
    const struct check_path *path; /* NULL: none has granted it */
    bool served;                   /* the library would serve it */
    struct nfs3_fh handle;
    struct nfs3_fh told;  /* the handle that the kernel tells; of no bytes: none */
    ino_t inode;          /* of the mount point, and */
    uint16_t kernel_port; /* the port of NFS there; if told */
    uint64_t verifier;    /* of writes, as --read saw it over that path; 0: not known */
};

/* Do the times of a file lie between steps of so many nanoseconds? Then FSINFO (RFC 1813 section
 * 3.3.19) tells longer steps than there are: the Linux kernel's server always says a second. */
static inline bool check_times_are_finer(const struct nfs3_attr *attr, int64_t step)
{
    const struct nfs3_time times[] = {attr->atime, attr->mtime, attr->ctime};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (((int64_t)times[i].sec * 1000000000 + times[i].nsec) % step != 0)
            return true;
    }
    return false;
}

/* What the kernel tells of the mount point, as it does to the library, which needs no MOUNT then.
 */
void check_told(struct check *check, const struct conf_export *export, struct check_root *root);

/* Mounts the export, asks what it grants, and tells how its files would be served. */
void check_export(struct check *check, const struct conf_server *conf,
                  const struct conf_export *export, struct check_path *path,
                  struct check_root *root);

#endif
