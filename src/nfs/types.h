/*
 * What all versions of NFS share, as the rest of the engine sees it.
 *
 * All of these are plain values without pointers to anything they own. The code that declares one
 * owns it. If a `present` flag is false, the rest keeps its old content, so that the hot path
 * clears nothing.
 */
#ifndef NFS_TYPES_H
#define NFS_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NFS_PROGRAM     100003u
#define NFS_FH_MAX      128u /* NFS4_FHSIZE; version 3 has up to 64 */
#define NFS_NAME_MAX    255u /* longest file name that we send, as the kernel's NAME_MAX */
#define NFS_FLAVORS_MAX 16u  /* of security, that a server tells; more are dropped */

/* The procedures, by the numbers of NFSv3: calls of all versions are counted by these. */
enum nfs_procedure {
    NFS_PROC_NULL = 0,
    NFS_PROC_GETATTR = 1,
    NFS_PROC_SETATTR = 2,
    NFS_PROC_LOOKUP = 3,
    NFS_PROC_ACCESS = 4,
    NFS_PROC_READLINK = 5,
    NFS_PROC_READ = 6,
    NFS_PROC_WRITE = 7,
    NFS_PROC_CREATE = 8,
    NFS_PROC_MKDIR = 9,
    NFS_PROC_SYMLINK = 10,
    NFS_PROC_MKNOD = 11,
    NFS_PROC_REMOVE = 12,
    NFS_PROC_RMDIR = 13,
    NFS_PROC_RENAME = 14,
    NFS_PROC_LINK = 15,
    NFS_PROC_READDIR = 16,
    NFS_PROC_READDIRPLUS = 17,
    NFS_PROC_FSSTAT = 18,
    NFS_PROC_FSINFO = 19,
    NFS_PROC_PATHCONF = 20,
    NFS_PROC_COMMIT = 21,
    NFS_PROC_COUNT = 22,
};

/* ftype3, and the first values of nfs_ftype4 */
enum nfs_type {
    NFS_REG = 1,
    NFS_DIR = 2,
    NFS_BLK = 3,
    NFS_CHR = 4,
    NFS_LNK = 5,
    NFS_SOCK = 6,
    NFS_FIFO = 7,
};

/* stable_how of all versions, weakest promise first */
enum nfs_stable {
    NFS_UNSTABLE = 0,
    NFS_DATA_SYNC = 1,
    NFS_FILE_SYNC = 2,
};

/* time_how */
enum nfs_time_how {
    NFS_DONT_CHANGE = 0,
    NFS_SET_TO_SERVER_TIME = 1,
    NFS_SET_TO_CLIENT_TIME = 2,
};

/* Bits of ACCESS: RFC 1813 section 3.3.4, RFC 8881 section 18.1. */
enum nfs_access {
    NFS_ACCESS_READ = 0x01,
    NFS_ACCESS_LOOKUP = 0x02,
    NFS_ACCESS_MODIFY = 0x04,
    NFS_ACCESS_EXTEND = 0x08,
    NFS_ACCESS_DELETE = 0x10,
    NFS_ACCESS_EXECUTE = 0x20,
};

/* Bits of `properties` of FSINFO, RFC 1813 section 3.3.19. */
enum nfs_properties {
    NFS_FSF_LINK = 0x01,
    NFS_FSF_SYMLINK = 0x02,
    NFS_FSF_HOMOGENEOUS = 0x08,
    NFS_FSF_CANSETTIME = 0x10,
};

/* What a server calls a file: opaque. The first `len` bytes of `data` are valid. */
struct nfs_fh {
    uint32_t len; /* 1..NFS_FH_MAX */
    uint8_t data[NFS_FH_MAX];
};
static inline bool nfs_same_fh(const struct nfs_fh *a, const struct nfs_fh *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* Unsigned seconds since 1970, and nanoseconds, as the server sent them. */
struct nfs_time {
    uint32_t sec;
    uint32_t nsec;
};

/* What a server says of a file. */
struct nfs_attr {
    uint32_t type; /* enum nfs_type */
    uint32_t mode; /* the 12 permission bits only, no file type */
    uint32_t nlink;
    uint32_t uid;
    uint32_t gid;
    uint32_t rdev_major;
    uint32_t rdev_minor;
    uint64_t size; /* bytes */
    uint64_t used; /* bytes of disk space */
    uint64_t fsid;
    uint64_t fileid;
    uint64_t change; /* NFSv4.1: differs after each change of the file; NFSv3: 0 */
    struct nfs_time atime;
    struct nfs_time mtime;
    struct nfs_time ctime;
};

/* Attributes that come with the results of another procedure. `attr` is valid only if `present`. */
struct nfs_post_attr {
    bool present;
    struct nfs_attr attr;
};

/* What a change did. size, mtime and ctime are those before the call, and valid only if
 * `before_present`. */
struct nfs_wcc {
    bool before_present;
    uint64_t size;
    struct nfs_time mtime;
    struct nfs_time ctime;
    struct nfs_post_attr after;
};

/* What SETATTR changes. A value counts only if its set_ flag is true. */
struct nfs_sattr {
    bool set_mode;
    bool set_uid;
    bool set_gid;
    bool set_size;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint64_t size;
    uint32_t set_atime; /* enum nfs_time_how */
    uint32_t set_mtime; /* enum nfs_time_how */
    struct nfs_time atime;
    struct nfs_time mtime;
};

/* What a file system can do. */
struct nfs_fsinfo_res {
    uint32_t status;
    struct nfs_post_attr attr; /* always valid; the rest only if the status is OK */
    uint32_t rtmax;            /* bytes: largest READ */
    uint32_t rtpref;
    uint32_t rtmult;
    uint32_t wtmax; /* bytes: largest WRITE */
    uint32_t wtpref;
    uint32_t wtmult;
    uint32_t dtpref;
    uint64_t maxfilesize;
    struct nfs_time time_delta;
    uint32_t properties; /* enum nfs_properties bits */
    bool by_layouts;     /* not on the wire: its data is to be had by layouts (pNFS) */
};

#endif
