#include "nfs/v4/status.h"

#include <errno.h>
#include <stddef.h>

#include "nfs/v4/types.h"

/* Statuses without an errno value of their own mean EIO. */
#define STATUS(name, meaning)                     \
    {                                             \
        NFS4ERR_##name, meaning, "NFS4ERR_" #name \
    }
static const struct {
    uint32_t status;
    int error;
    const char *name;
} statuses[] = {
    STATUS(PERM, -EPERM),
    STATUS(NOENT, -ENOENT),
    STATUS(IO, -EIO),
    STATUS(NXIO, -ENXIO),
    STATUS(ACCESS, -EACCES),
    STATUS(EXIST, -EEXIST),
    STATUS(XDEV, -EXDEV),
    STATUS(NOTDIR, -ENOTDIR),
    STATUS(ISDIR, -EISDIR),
    STATUS(INVAL, -EINVAL),
    STATUS(FBIG, -EFBIG),
    STATUS(NOSPC, -ENOSPC),
    STATUS(ROFS, -EROFS),
    STATUS(MLINK, -EMLINK),
    STATUS(NAMETOOLONG, -ENAMETOOLONG),
    STATUS(NOTEMPTY, -ENOTEMPTY),
    STATUS(DQUOT, -EDQUOT),
    STATUS(STALE, -ESTALE),
    STATUS(BADHANDLE, -ESTALE),
    STATUS(FHEXPIRED, -ESTALE),
    STATUS(NOTSUPP, -EOPNOTSUPP),
    STATUS(ATTRNOTSUPP, -EOPNOTSUPP),
    STATUS(OP_ILLEGAL, -EOPNOTSUPP),
    STATUS(SERVERFAULT, -EIO),
    STATUS(DELAY, -EAGAIN),
    STATUS(GRACE, -EAGAIN),
    STATUS(SHARE_DENIED, -EACCES),
    STATUS(LOCKED, -EACCES),
    STATUS(WRONGSEC, -EKEYREJECTED),
    STATUS(WRONG_CRED, -EACCES),
    STATUS(WRONG_TYPE, -EINVAL),
    STATUS(MOVED, -EREMOTE),
    STATUS(LEASE_MOVED, -EREMOTE),
    STATUS(MINOR_VERS_MISMATCH, -EPROTONOSUPPORT),
    STATUS(CLID_INUSE, -EBUSY),
    STATUS(CLIENTID_BUSY, -EBUSY),
    STATUS(BADXDR, -EBADMSG),
    STATUS(BAD_COOKIE, -EIO),
    STATUS(TOOSMALL, -EIO),
    STATUS(BADTYPE, -EIO),
    STATUS(SAME, -EIO),
    STATUS(NOT_SAME, -ECANCELED),
    STATUS(DENIED, -EIO),
    STATUS(EXPIRED, -EIO),
    STATUS(RESOURCE, -EIO),
    STATUS(NOFILEHANDLE, -EIO),
    STATUS(STALE_CLIENTID, -EIO),
    STATUS(STALE_STATEID, -EIO),
    STATUS(OLD_STATEID, -EIO),
    STATUS(BAD_STATEID, -EIO),
    STATUS(BAD_SEQID, -EIO),
    STATUS(OPENMODE, -EIO),
    STATUS(BADNAME, -EINVAL),
    STATUS(ADMIN_REVOKED, -EIO),
    STATUS(BADIOMODE, -EIO),
    STATUS(BADSESSION, -EIO),
    STATUS(BADSLOT, -EIO),
    STATUS(COMPLETE_ALREADY, -EIO),
    STATUS(CONN_NOT_BOUND_TO_SESSION, -EIO),
    STATUS(BACK_CHAN_BUSY, -EIO),
    STATUS(SEQ_MISORDERED, -EIO),
    STATUS(SEQUENCE_POS, -EIO),
    STATUS(REQ_TOO_BIG, -EIO),
    STATUS(REP_TOO_BIG, -EIO),
    STATUS(REP_TOO_BIG_TO_CACHE, -EIO),
    STATUS(RETRY_UNCACHED_REP, -EIO),
    STATUS(TOO_MANY_OPS, -EIO),
    STATUS(OP_NOT_IN_SESSION, -EIO),
    STATUS(SEQ_FALSE_RETRY, -EIO),
    STATUS(BAD_HIGH_SLOT, -EIO),
    STATUS(DEADSESSION, -EIO),
    STATUS(NOT_ONLY_OP, -EIO),
};

enum nfs4_reaction nfs4_status_reaction(uint32_t status, bool by_sequence)
{
    switch (status) {
    case NFS4ERR_DELAY:
    case NFS4ERR_GRACE:
        return NFS4_LATER;
    case NFS4ERR_BADSESSION:
    case NFS4ERR_DEADSESSION:
    case NFS4ERR_STALE_CLIENTID:
    case NFS4ERR_EXPIRED: /* the lease is over, and the server has not cleared it away yet */
        return NFS4_RENEW;
    case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
        return by_sequence ? NFS4_BIND : NFS4_DONE;
    case NFS4ERR_RETRY_UNCACHED_REP: /* some servers say it after SEQUENCE: 2.10.6.1.3 */
        return NFS4_AGAIN;
    case NFS4ERR_BADSLOT: /* the server and we disagree about the slots */
    case NFS4ERR_BAD_HIGH_SLOT:
    case NFS4ERR_SEQ_MISORDERED:
    case NFS4ERR_SEQ_FALSE_RETRY:
        return by_sequence ? NFS4_RENEW : NFS4_DONE;
    default:
        return NFS4_DONE;
    }
}

int nfs4_status_errno(uint32_t status)
{
    if (status == NFS4_OK)
        return 0;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (statuses[i].status == status)
            return statuses[i].error;
    }
    return -EIO;
}

const char *nfs4_status_name(uint32_t status)
{
    if (status == NFS4_OK)
        return "NFS4_OK";
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (statuses[i].status == status)
            return statuses[i].name;
    }
    return "an unknown status";
}
