/*
 * The types of NFS version 3 (RFC 1813) as the rest of the engine sees them.
 *
 * All of them are plain values without pointers to anything they own; whoever declares one owns
 * it. Only the fields named valid in a comment are set by the decoders: where a `present` flag is
 * false, or `status` is not NFS3_OK, the rest is left as it was, so that the hot path clears
 * nothing.
 */
#ifndef NFS_NFS3_TYPES_H
#define NFS_NFS3_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#define NFS3_PROGRAM  100003u
#define NFS3_VERSION  3u
#define NFS3_PORT     2049u
#define NFS3_FH_MAX   64u  /* NFS3_FHSIZE */
#define NFS3_NAME_MAX 255u /* longest file name sent: what the kernel's NAME_MAX allows */

enum nfs3_proc {
    NFS3_PROC_NULL = 0,
    NFS3_PROC_GETATTR = 1,
    NFS3_PROC_SETATTR = 2,
    NFS3_PROC_LOOKUP = 3,
    NFS3_PROC_ACCESS = 4,
    NFS3_PROC_READLINK = 5,
    NFS3_PROC_READ = 6,
    NFS3_PROC_WRITE = 7,
    NFS3_PROC_CREATE = 8,
    NFS3_PROC_MKDIR = 9,
    NFS3_PROC_SYMLINK = 10,
    NFS3_PROC_MKNOD = 11,
    NFS3_PROC_REMOVE = 12,
    NFS3_PROC_RMDIR = 13,
    NFS3_PROC_RENAME = 14,
    NFS3_PROC_LINK = 15,
    NFS3_PROC_READDIR = 16,
    NFS3_PROC_READDIRPLUS = 17,
    NFS3_PROC_FSSTAT = 18,
    NFS3_PROC_FSINFO = 19,
    NFS3_PROC_PATHCONF = 20,
    NFS3_PROC_COMMIT = 21,
    NFS3_PROC_COUNT = 22,
};

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

/* ftype3 */
enum nfs3_type {
    NFS3_REG = 1,
    NFS3_DIR = 2,
    NFS3_BLK = 3,
    NFS3_CHR = 4,
    NFS3_LNK = 5,
    NFS3_SOCK = 6,
    NFS3_FIFO = 7,
};

/* stable_how, in rising order of what is promised */
enum nfs3_stable {
    NFS3_UNSTABLE = 0,
    NFS3_DATA_SYNC = 1,
    NFS3_FILE_SYNC = 2,
};

/* time_how */
enum nfs3_time_how {
    NFS3_DONT_CHANGE = 0,
    NFS3_SET_TO_SERVER_TIME = 1,
    NFS3_SET_TO_CLIENT_TIME = 2,
};

/* Bits of ACCESS, RFC 1813 section 3.3.4. */
enum nfs3_access {
    NFS3_ACCESS_READ = 0x01,
    NFS3_ACCESS_LOOKUP = 0x02,
    NFS3_ACCESS_MODIFY = 0x04,
    NFS3_ACCESS_EXTEND = 0x08,
    NFS3_ACCESS_DELETE = 0x10,
    NFS3_ACCESS_EXECUTE = 0x20,
};

/* Bits of `properties` of FSINFO, RFC 1813 section 3.3.19. */
enum nfs3_properties {
    NFS3_FSF_LINK = 0x01,
    NFS3_FSF_SYMLINK = 0x02,
    NFS3_FSF_HOMOGENEOUS = 0x08,
    NFS3_FSF_CANSETTIME = 0x10,
};

/* nfs_fh3: opaque; the first `len` bytes of `data` are valid. */
struct nfs3_fh {
    uint32_t len; /* 1..NFS3_FH_MAX */
    uint8_t data[NFS3_FH_MAX];
};

/* nfstime3: unsigned seconds since 1970, and nanoseconds as the server sent them. */
struct nfs3_time {
    uint32_t sec;
    uint32_t nsec;
};

/* fattr3 */
struct nfs3_attr {
    uint32_t type; /* enum nfs3_type */
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
    struct nfs3_time atime;
    struct nfs3_time mtime;
    struct nfs3_time ctime;
};

/* post_op_attr: `attr` is valid only if `present`. */
struct nfs3_post_attr {
    bool present;
    struct nfs3_attr attr;
};

/* wcc_data: size, mtime and ctime are those before the call, valid only if `before_present`. */
struct nfs3_wcc {
    bool before_present;
    uint64_t size;
    struct nfs3_time mtime;
    struct nfs3_time ctime;
    struct nfs3_post_attr after;
};

/* sattr3: what SETATTR changes; a value counts only if its set_ flag says so. */
struct nfs3_sattr {
    bool set_mode;
    bool set_uid;
    bool set_gid;
    bool set_size;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint64_t size;
    uint32_t set_atime; /* enum nfs3_time_how */
    uint32_t set_mtime; /* enum nfs3_time_how */
    struct nfs3_time atime;
    struct nfs3_time mtime;
};

/*
 * Results. `status` is always valid; a status outside enum nfs3_status is passed on as it came.
 * Verifiers are eight opaque bytes kept in the order of the wire: compare them for equality only.
 */
struct nfs3_getattr_res {
    uint32_t status;
    struct nfs3_attr attr; /* if OK */
};

struct nfs3_setattr_res {
    uint32_t status;
    struct nfs3_wcc wcc; /* always */
};

struct nfs3_lookup_res {
    uint32_t status;
    struct nfs3_fh fh;              /* if OK */
    struct nfs3_post_attr attr;     /* if OK */
    struct nfs3_post_attr dir_attr; /* always */
};

struct nfs3_access_res {
    uint32_t status;
    uint32_t access;            /* granted bits, if OK */
    struct nfs3_post_attr attr; /* always */
};

struct nfs3_read_res {
    uint32_t status;
    uint32_t count;             /* bytes of data that follow, if OK */
    bool eof;                   /* if OK */
    struct nfs3_post_attr attr; /* always */
};

struct nfs3_write_res {
    uint32_t status;
    uint32_t count;      /* bytes written, if OK: 0..asked */
    uint32_t committed;  /* enum nfs3_stable, if OK */
    uint64_t verifier;   /* if OK */
    struct nfs3_wcc wcc; /* always */
};

struct nfs3_fsinfo_res {
    uint32_t status;
    struct nfs3_post_attr attr; /* always; the rest if OK */
    uint32_t rtmax;             /* bytes: largest READ */
    uint32_t rtpref;
    uint32_t rtmult;
    uint32_t wtmax; /* bytes: largest WRITE */
    uint32_t wtpref;
    uint32_t wtmult;
    uint32_t dtpref;
    uint64_t maxfilesize;
    struct nfs3_time time_delta;
    uint32_t properties; /* enum nfs3_properties bits */
};

struct nfs3_commit_res {
    uint32_t status;
    uint64_t verifier;   /* if OK */
    struct nfs3_wcc wcc; /* always */
};

#endif
