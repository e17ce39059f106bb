#include "nfs/nfs3_status.h"

#include <errno.h>
#include "nfs/nfs3_types.h"

int nfs3_status_errno(uint32_t status)
{
    switch (status) {
    case NFS3_OK:
        return 0;
    case NFS3ERR_PERM:
        return -EPERM;
    case NFS3ERR_NOENT:
        return -ENOENT;
    case NFS3ERR_NXIO:
        return -ENXIO;
    case NFS3ERR_ACCES:
        return -EACCES;
    case NFS3ERR_EXIST:
        return -EEXIST;
    case NFS3ERR_XDEV:
        return -EXDEV;
    case NFS3ERR_NODEV:
        return -ENODEV;
    case NFS3ERR_NOTDIR:
        return -ENOTDIR;
    case NFS3ERR_ISDIR:
        return -EISDIR;
    case NFS3ERR_INVAL:
        return -EINVAL;
    case NFS3ERR_FBIG:
        return -EFBIG;
    case NFS3ERR_NOSPC:
        return -ENOSPC;
    case NFS3ERR_ROFS:
        return -EROFS;
    case NFS3ERR_MLINK:
        return -EMLINK;
    case NFS3ERR_NAMETOOLONG:
        return -ENAMETOOLONG;
    case NFS3ERR_NOTEMPTY:
        return -ENOTEMPTY;
    case NFS3ERR_DQUOT:
        return -EDQUOT;
    case NFS3ERR_STALE:
    case NFS3ERR_BADHANDLE:
        return -ESTALE;
    case NFS3ERR_REMOTE:
        return -EREMOTE;
    case NFS3ERR_NOTSUPP:
        return -EOPNOTSUPP;
    case NFS3ERR_JUKEBOX:
        return -EAGAIN;
    default: /* those that mean EIO, and those that the standard does not know */
        return -EIO;
    }
}

const char *nfs3_proc_name(uint32_t proc)
{
    static const char *const names[NFS3_PROC_COUNT] = {
        [NFS3_PROC_NULL] = "NULL",         [NFS3_PROC_GETATTR] = "GETATTR",
        [NFS3_PROC_SETATTR] = "SETATTR",   [NFS3_PROC_LOOKUP] = "LOOKUP",
        [NFS3_PROC_ACCESS] = "ACCESS",     [NFS3_PROC_READLINK] = "READLINK",
        [NFS3_PROC_READ] = "READ",         [NFS3_PROC_WRITE] = "WRITE",
        [NFS3_PROC_CREATE] = "CREATE",     [NFS3_PROC_MKDIR] = "MKDIR",
        [NFS3_PROC_SYMLINK] = "SYMLINK",   [NFS3_PROC_MKNOD] = "MKNOD",
        [NFS3_PROC_REMOVE] = "REMOVE",     [NFS3_PROC_RMDIR] = "RMDIR",
        [NFS3_PROC_RENAME] = "RENAME",     [NFS3_PROC_LINK] = "LINK",
        [NFS3_PROC_READDIR] = "READDIR",   [NFS3_PROC_READDIRPLUS] = "READDIRPLUS",
        [NFS3_PROC_FSSTAT] = "FSSTAT",     [NFS3_PROC_FSINFO] = "FSINFO",
        [NFS3_PROC_PATHCONF] = "PATHCONF", [NFS3_PROC_COMMIT] = "COMMIT",
    };

    return proc < NFS3_PROC_COUNT ? names[proc] : "unknown";
}
