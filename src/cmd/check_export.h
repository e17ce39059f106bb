/*
 * One export on one path, for check_server.c.
 */
#ifndef CMD_CHECK_EXPORT_H
#define CMD_CHECK_EXPORT_H

#include "cmd/check.h"
#include "nfs/mount3.h"
#include "nfs/nfs3_proc.h"

/* What the first path that granted an export showed of it. That path is the one that the library
 * uses; the others must lead to the same directory. */
struct check_root {
    bool known;  /* `handle` is valid */
    bool served; /* over that path the library would serve it */
    struct nfs3_fh handle;
};

/* Mounts the export, asks what it grants, and tells how its files would be served. `client` is NULL
 * when the NFS service of the path does not answer. */
void check_export(struct check *check, const struct conf_server *conf,
                  const struct conf_export *export, const struct mount3_target *target,
                  const struct nfs3_client *client, struct check_root *root);

#endif
