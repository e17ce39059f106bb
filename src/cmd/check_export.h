/*
 * One export on one path, for check_server.c.
 */
#ifndef CMD_CHECK_EXPORT_H
#define CMD_CHECK_EXPORT_H

#include "cmd/check.h"
#include "nfs/mount3.h"
#include "nfs/nfs3_xdr.h"
#include "rpc/rpc.h"

/* A connection to the NFS service of a path. Owned by check_path(). */
struct check_nfs {
    struct net_server *server; /* NULL: it does not answer */
    const struct rpc_auth *auth;
    int timeout_ms;
};

/* What the first path that granted an export showed of it; the others must agree. */
struct check_root {
    unsigned paths;  /* on which it was tried */
    unsigned served; /* of these: would serve it */
    bool known;      /* `handle` is valid */
    struct nfs3_fh handle;
};

/* Starts a call of NFSv3; its arguments go to the writer. */
void check_nfs_begin(const struct check_nfs *nfs, uint32_t procedure, struct rpc_call *call,
                     struct xdr_writer *arguments);

/* Sends it and waits for the answer, bounded. 0 or -errno of RPC; the reader is at the results. */
int check_nfs_call(const struct check_nfs *nfs, struct rpc_call *call,
                   const struct xdr_writer *arguments, struct xdr_reader *results);

/* Mounts the export, asks what it grants, and tells how its files would be served. */
void check_export(struct check *check, const struct conf_server *conf,
                  const struct conf_export *export, const struct mount3_target *target,
                  const struct check_nfs *nfs, struct check_root *root);

#endif
