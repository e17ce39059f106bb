/* The server's side of the procedures of NFS version 3: gets arguments, puts results. As
 * nfs/v3/xdr.h. */
#ifndef NFS3_SERVER_H
#define NFS3_SERVER_H

#include "nfs/v3/parts.h"
#include "nfs/v3/xdr.h"

/*
 * Arguments, as the decoders (the server's side) return them. The encoders take the same values
 * one by one, so that a client never copies a file handle into a structure.
 */
struct nfs3_fh_args { /* GETATTR, FSINFO */
    struct nfs_fh fh;
};

struct nfs3_setattr_args {
    struct nfs_fh fh;
    struct nfs_sattr attr;
    bool guard; /* change only if the object's ctime is guard_ctime */
    struct nfs_time guard_ctime;
};

struct nfs3_lookup_args {
    struct nfs_fh dir;
    char name[NFS_NAME_MAX + 1]; /* terminated */
};

struct nfs3_access_args {
    struct nfs_fh fh;
    uint32_t access; /* enum nfs_access bits asked for */
};

struct nfs3_read_args {
    struct nfs_fh fh;
    uint64_t offset;
    uint32_t count;
};

struct nfs3_write_args {
    struct nfs_fh fh;
    uint64_t offset;
    uint32_t count;  /* bytes of data, which follow the arguments, padded to 4 */
    uint32_t stable; /* enum nfs_stable */
};

struct nfs3_commit_args {
    struct nfs_fh fh;
    uint64_t offset;
    uint32_t count; /* 0: to the end of the file */
};

static inline void put_verifier(struct xdr_writer *w, uint64_t verifier)
{
    xdr_put_fixed(w, &verifier, 8);
}

int nfs3_fh_args_get(struct xdr_reader *r, struct nfs3_fh_args *args);
int nfs3_getattr_res_put(struct xdr_writer *w, const struct nfs3_getattr_res *res);
int nfs3_setattr_args_get(struct xdr_reader *r, struct nfs3_setattr_args *args);
int nfs3_setattr_res_put(struct xdr_writer *w, const struct nfs3_setattr_res *res);
int nfs3_lookup_args_get(struct xdr_reader *r, struct nfs3_lookup_args *args);
int nfs3_lookup_res_put(struct xdr_writer *w, const struct nfs3_lookup_res *res);
int nfs3_access_args_get(struct xdr_reader *r, struct nfs3_access_args *args);
int nfs3_access_res_put(struct xdr_writer *w, const struct nfs3_access_res *res);
int nfs3_read_args_get(struct xdr_reader *r, struct nfs3_read_args *args);
int nfs3_read_res_put(struct xdr_writer *w, const struct nfs3_read_res *res);
int nfs3_write_args_get(struct xdr_reader *r, struct nfs3_write_args *args);
int nfs3_write_res_put(struct xdr_writer *w, const struct nfs3_write_res *res);
int nfs3_fsinfo_res_put(struct xdr_writer *w, const struct nfs_fsinfo_res *res);
int nfs3_commit_args_get(struct xdr_reader *r, struct nfs3_commit_args *args);
int nfs3_commit_res_put(struct xdr_writer *w, const struct nfs3_commit_res *res);

#endif
