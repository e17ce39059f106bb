/*
 * The types of NFS version 4, minor version 1 (RFC 8881; their XDR is in RFC 5662), as far as this
 * client uses them. What other versions have too is in nfs/types.h.
 *
 * All of these are plain values. Decoders set all fields, unless a comment says otherwise. After a
 * status other than NFS4_OK only the status counts.
 */
#ifndef NFS_V4_TYPES_H
#define NFS_V4_TYPES_H

#include "nfs/types.h"

#define NFS4_VERSION       4u
#define NFS4_MINOR         1u
#define NFS4_COMPOUND      1u /* the procedure; 0 is NULL, as everywhere */
#define NFS4_FH_MAX        128u
#define NFS4_OPAQUE_MAX    1024u /* NFS4_OPAQUE_LIMIT: for owners and scopes */
#define NFS4_SESSION_ID    16u
#define NFS4_STATEID       16u
#define NFS4_LEASE_LONGEST 3600u

/* Operations of a COMPOUND: RFC 8881 section 16.2. */
enum nfs4_op {
    NFS4_OP_ACCESS = 3,
    NFS4_OP_CLOSE = 4,
    NFS4_OP_COMMIT = 5,
    NFS4_OP_GETATTR = 9,
    NFS4_OP_GETFH = 10,
    NFS4_OP_LOOKUP = 15,
    NFS4_OP_OPEN = 18,
    NFS4_OP_PUTFH = 22,
    NFS4_OP_PUTROOTFH = 24,
    NFS4_OP_READ = 25,
    NFS4_OP_SECINFO = 33,
    NFS4_OP_SETATTR = 34,
    NFS4_OP_VERIFY = 37,
    NFS4_OP_WRITE = 38,
    NFS4_OP_BIND_CONN_TO_SESSION = 41,
    NFS4_OP_EXCHANGE_ID = 42,
    NFS4_OP_CREATE_SESSION = 43,
    NFS4_OP_DESTROY_SESSION = 44,
    NFS4_OP_SECINFO_NO_NAME = 52,
    NFS4_OP_SEQUENCE = 53,
    NFS4_OP_DESTROY_CLIENTID = 57,
    NFS4_OP_RECLAIM_COMPLETE = 58,
    NFS4_OP_ILLEGAL = 10044
};

/* nfsstat4: RFC 8881 section 15.1. */
enum nfs4_status {
    NFS4_OK = 0,
    NFS4ERR_PERM = 1,
    NFS4ERR_NOENT = 2,
    NFS4ERR_IO = 5,
    NFS4ERR_NXIO = 6,
    NFS4ERR_ACCESS = 13,
    NFS4ERR_EXIST = 17,
    NFS4ERR_XDEV = 18,
    NFS4ERR_NOTDIR = 20,
    NFS4ERR_ISDIR = 21,
    NFS4ERR_INVAL = 22,
    NFS4ERR_FBIG = 27,
    NFS4ERR_NOSPC = 28,
    NFS4ERR_ROFS = 30,
    NFS4ERR_MLINK = 31,
    NFS4ERR_NAMETOOLONG = 63,
    NFS4ERR_NOTEMPTY = 66,
    NFS4ERR_DQUOT = 69,
    NFS4ERR_STALE = 70,
    NFS4ERR_BADHANDLE = 10001,
    NFS4ERR_BAD_COOKIE = 10003,
    NFS4ERR_NOTSUPP = 10004,
    NFS4ERR_TOOSMALL = 10005,
    NFS4ERR_SERVERFAULT = 10006,
    NFS4ERR_BADTYPE = 10007,
    NFS4ERR_DELAY = 10008,
    NFS4ERR_SAME = 10009,
    NFS4ERR_DENIED = 10010,
    NFS4ERR_EXPIRED = 10011,
    NFS4ERR_LOCKED = 10012,
    NFS4ERR_GRACE = 10013,
    NFS4ERR_FHEXPIRED = 10014,
    NFS4ERR_SHARE_DENIED = 10015,
    NFS4ERR_WRONGSEC = 10016,
    NFS4ERR_CLID_INUSE = 10017,
    NFS4ERR_RESOURCE = 10018,
    NFS4ERR_MOVED = 10019,
    NFS4ERR_NOFILEHANDLE = 10020,
    NFS4ERR_MINOR_VERS_MISMATCH = 10021,
    NFS4ERR_STALE_CLIENTID = 10022,
    NFS4ERR_STALE_STATEID = 10023,
    NFS4ERR_OLD_STATEID = 10024,
    NFS4ERR_BAD_STATEID = 10025,
    NFS4ERR_BAD_SEQID = 10026,
    NFS4ERR_NOT_SAME = 10027,
    NFS4ERR_LEASE_MOVED = 10031,
    NFS4ERR_ATTRNOTSUPP = 10032,
    NFS4ERR_BADXDR = 10036,
    NFS4ERR_OPENMODE = 10038,
    NFS4ERR_BADNAME = 10041,
    NFS4ERR_OP_ILLEGAL = 10044,
    NFS4ERR_ADMIN_REVOKED = 10047,
    NFS4ERR_BADIOMODE = 10049,
    NFS4ERR_BADSESSION = 10052,
    NFS4ERR_BADSLOT = 10053,
    NFS4ERR_COMPLETE_ALREADY = 10054,
    NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055,
    NFS4ERR_BACK_CHAN_BUSY = 10057,
    NFS4ERR_SEQ_MISORDERED = 10063,
    NFS4ERR_SEQUENCE_POS = 10064,
    NFS4ERR_REQ_TOO_BIG = 10065,
    NFS4ERR_REP_TOO_BIG = 10066,
    NFS4ERR_REP_TOO_BIG_TO_CACHE = 10067,
    NFS4ERR_RETRY_UNCACHED_REP = 10068,
    NFS4ERR_TOO_MANY_OPS = 10070,
    NFS4ERR_OP_NOT_IN_SESSION = 10071,
    NFS4ERR_CLIENTID_BUSY = 10074,
    NFS4ERR_SEQ_FALSE_RETRY = 10076,
    NFS4ERR_BAD_HIGH_SLOT = 10077,
    NFS4ERR_DEADSESSION = 10078,
    NFS4ERR_NOT_ONLY_OP = 10081,
    NFS4ERR_WRONG_CRED = 10082,
    NFS4ERR_WRONG_TYPE = 10083
};

/* Attributes that we ask for, as bits of a bitmap4: RFC 8881 sections 5.8.1 and 5.8.2. */
enum nfs4_attribute {
    NFS4_ATTR_TYPE = 1,
    NFS4_ATTR_CHANGE = 3,
    NFS4_ATTR_SIZE = 4,
    NFS4_ATTR_FSID = 8,
    NFS4_ATTR_LEASE_TIME = 10,
    NFS4_ATTR_FILEID = 20,
    NFS4_ATTR_MAXFILESIZE = 27,
    NFS4_ATTR_MAXREAD = 30,
    NFS4_ATTR_MAXWRITE = 31,
    NFS4_ATTR_SPACE_USED = 45,
    NFS4_ATTR_TIME_ACCESS = 47,
    NFS4_ATTR_TIME_DELTA = 51,
    NFS4_ATTR_TIME_METADATA = 52,
    NFS4_ATTR_TIME_MODIFY = 53,
    NFS4_ATTR_MOUNTED_ON_FILEID = 55,
    NFS4_ATTR_FS_LAYOUT_TYPES = 62
};
#define NFS4_BIT(attribute) (UINT64_C(1) << (attribute))

/* Attributes of a file, with each operation; those that are indispensable; those of a file
 * system. */
#define NFS4_OF_FILE                                                                          \
    (NFS4_BIT(NFS4_ATTR_TYPE) | NFS4_BIT(NFS4_ATTR_CHANGE) | NFS4_BIT(NFS4_ATTR_SIZE) |       \
     NFS4_BIT(NFS4_ATTR_FSID) | NFS4_BIT(NFS4_ATTR_FILEID) | NFS4_BIT(NFS4_ATTR_SPACE_USED) | \
     NFS4_BIT(NFS4_ATTR_TIME_ACCESS) | NFS4_BIT(NFS4_ATTR_TIME_METADATA) |                    \
     NFS4_BIT(NFS4_ATTR_TIME_MODIFY))
#define NFS4_NEEDED                                                                              \
    (NFS4_BIT(NFS4_ATTR_TYPE) | NFS4_BIT(NFS4_ATTR_CHANGE) | NFS4_BIT(NFS4_ATTR_SIZE) |          \
     NFS4_BIT(NFS4_ATTR_FSID) | NFS4_BIT(NFS4_ATTR_FILEID) | NFS4_BIT(NFS4_ATTR_TIME_METADATA) | \
     NFS4_BIT(NFS4_ATTR_TIME_MODIFY))
#define NFS4_OF_FILE_SYSTEM                                          \
    (NFS4_BIT(NFS4_ATTR_MAXFILESIZE) | NFS4_BIT(NFS4_ATTR_MAXREAD) | \
     NFS4_BIT(NFS4_ATTR_MAXWRITE) | NFS4_BIT(NFS4_ATTR_TIME_DELTA) | \
     NFS4_BIT(NFS4_ATTR_FS_LAYOUT_TYPES))

/* fattr4. What `present` names is valid. */
struct nfs4_attributes {
    uint64_t present; /* NFS4_BIT() */
    uint64_t mounted_on;
    uint64_t maxread, maxwrite, maxfilesize;
    uint32_t lease_s;
    uint32_t layouts; /* how many types of layouts (pNFS) the file system has */
    struct nfs_time time_delta;
    struct nfs_attr attr; /* no mode, links, owner and device */
};

struct nfs4_stateid {
    uint8_t bytes[NFS4_STATEID];
};

/* SEQUENCE: RFC 8881 section 18.46. */
struct nfs4_sequence {
    uint8_t session[NFS4_SESSION_ID];
    uint32_t sequence, slot, highest;
    bool keep;       /* arguments: the server shall keep the reply, for copies of the call */
    uint32_t target; /* results: the highest slot that the client should use */
    uint32_t flags;  /* results: enum nfs4_session_flag */
};

/* sr_status_flags */
enum nfs4_session_flag {
    NFS4_CB_PATH_DOWN = 0x1,
    NFS4_EXPIRED_ALL_STATE = 0x8,
    NFS4_EXPIRED_SOME_STATE = 0x10,
    NFS4_ADMIN_STATE_REVOKED = 0x20,
    NFS4_RECALLABLE_STATE_REVOKED = 0x40,
    NFS4_LEASE_MOVED = 0x80,
    NFS4_RESTART_RECLAIM_NEEDED = 0x100,
    NFS4_CB_PATH_DOWN_SESSION = 0x200,
    NFS4_BACKCHANNEL_FAULT = 0x400
};

/* Flags of EXCHANGE_ID: RFC 8881 section 18.35. */
enum { NFS4_USE_NON_PNFS = 0x10000, NFS4_USE_PNFS_MDS = 0x20000, NFS4_CONFIRMED = (int)0x80000000 };

/* An opaque value from the server, to compare. */
struct nfs4_opaque {
    uint32_t length;
    uint8_t data[NFS4_OPAQUE_MAX];
};

struct nfs4_exchange_id {
    uint64_t client;
    uint32_t sequence, flags;
    uint64_t minor; /* the server owner's */
    struct nfs4_opaque major, scope;
};

/* channel_attrs4 of the fore channel */
struct nfs4_channel {
    uint32_t request_max, response_max, cached_max, operations, requests;
};

struct nfs4_create_session {
    uint8_t session[NFS4_SESSION_ID];
    uint32_t sequence, flags;
    struct nfs4_channel fore;
};

/* OPEN by handle (CLAIM_FH) without creation, which denies nothing to others. */
enum nfs4_share { NFS4_SHARE_READ = 1, NFS4_SHARE_WRITE = 2, NFS4_SHARE_NO_DELEGATION = 0x400 };

#endif
