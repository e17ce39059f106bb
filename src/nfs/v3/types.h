/*
 * The types of NFS version 3 (RFC 1813) as the rest of the engine sees them.
 *
 * All of these are plain values without pointers to anything they own. The code that declares one
 * owns it. Decoders set only the fields that a comment calls valid. If a `present` flag is false,
 * or `status` is not NFS3_OK, the rest keeps its old content, so that the hot path clears nothing.
 */
#ifndef NFS_V3_TYPES_H
#define NFS_V3_TYPES_H

#include "nfs/types.h"

#define NFS3_VERSION 3u
#define NFS3_FH_MAX  64u /* NFS3_FHSIZE */

/* nfsstat3, RFC 1813 section 2.6. */
enum nfs3_status {
    NFS3_OK = 0,
    NFS3ERR_PERM = 1,
    NFS3ERR_NOENT = 2,
    NFS3ERR_IO = 5,
    NFS3ERR_NXIO = 6,
    NFS3ERR_ACCES = 13,
    NFS3ERR_EXIST = 17,
    NFS3ERR_XDEV = 18,
    NFS3ERR_NODEV = 19,
    NFS3ERR_NOTDIR = 20,
    NFS3ERR_ISDIR = 21,
    NFS3ERR_INVAL = 22,
    NFS3ERR_FBIG = 27,
    NFS3ERR_NOSPC = 28,
    NFS3ERR_ROFS = 30,
    NFS3ERR_MLINK = 31,
    NFS3ERR_NAMETOOLONG = 63,
    NFS3ERR_NOTEMPTY = 66,
    NFS3ERR_DQUOT = 69,
    NFS3ERR_STALE = 70,
    NFS3ERR_REMOTE = 71,
    NFS3ERR_BADHANDLE = 10001,
    NFS3ERR_NOT_SYNC = 10002,
    NFS3ERR_BAD_COOKIE = 10003,
    NFS3ERR_NOTSUPP = 10004,
    NFS3ERR_TOOSMALL = 10005,
    NFS3ERR_SERVERFAULT = 10006,
    NFS3ERR_BADTYPE = 10007,
    NFS3ERR_JUKEBOX = 10008,
};

/* Results. `status` is always valid; a status outside enum nfs3_status is passed on unchanged.
 * Verifiers are eight opaque bytes in the order of the wire: only compare them for equality. */
struct nfs3_getattr_res {
    uint32_t status;
    struct nfs_attr attr; /* if OK */
};

struct nfs3_setattr_res {
    uint32_t status;
    struct nfs_wcc wcc; /* always */
};

struct nfs3_lookup_res {
    uint32_t status;
    struct nfs_fh fh;              /* if OK */
    struct nfs_post_attr attr;     /* if OK */
    struct nfs_post_attr dir_attr; /* always */
};

struct nfs3_access_res {
    uint32_t status;
    uint32_t access;           /* granted bits, if OK */
    struct nfs_post_attr attr; /* always */
};

struct nfs3_read_res {
    uint32_t status;
    uint32_t count;            /* bytes of data that follow, if OK */
    bool eof;                  /* if OK */
    struct nfs_post_attr attr; /* always */
};

struct nfs3_write_res {
    uint32_t status;
    uint32_t count;     /* bytes written, if OK: 0..asked */
    uint32_t committed; /* enum nfs_stable, if OK */
    uint64_t verifier;  /* if OK */
    struct nfs_wcc wcc; /* always */
};

struct nfs3_commit_res {
    uint32_t status;
    uint64_t verifier;  /* if OK */
    struct nfs_wcc wcc; /* always */
};

#endif
