#include "nfs/nfs3_status.h"

#include <errno.h>
#include <stddef.h>

#include "nfs/nfs3_types.h"

/* The others mean EIO. */
static const struct {
    uint32_t status;
    int error;
} meanings[] = {
    {NFS3ERR_PERM, -EPERM},
    {NFS3ERR_NOENT, -ENOENT},
    {NFS3ERR_NXIO, -ENXIO},
    {NFS3ERR_ACCES, -EACCES},
    {NFS3ERR_EXIST, -EEXIST},
    {NFS3ERR_XDEV, -EXDEV},
    {NFS3ERR_NODEV, -ENODEV},
    {NFS3ERR_NOTDIR, -ENOTDIR},
    {NFS3ERR_ISDIR, -EISDIR},
    {NFS3ERR_INVAL, -EINVAL},
    {NFS3ERR_FBIG, -EFBIG},
    {NFS3ERR_NOSPC, -ENOSPC},
    {NFS3ERR_ROFS, -EROFS},
    {NFS3ERR_MLINK, -EMLINK},
    {NFS3ERR_NAMETOOLONG, -ENAMETOOLONG},
    {NFS3ERR_NOTEMPTY, -ENOTEMPTY},
    {NFS3ERR_DQUOT, -EDQUOT},
    {NFS3ERR_STALE, -ESTALE},
    {NFS3ERR_BADHANDLE, -ESTALE},
    {NFS3ERR_REMOTE, -EREMOTE},
    {NFS3ERR_NOTSUPP, -EOPNOTSUPP},
    {NFS3ERR_JUKEBOX, -EAGAIN},
};

int nfs3_status_errno(uint32_t status)
{
    if (status == NFS3_OK)
        return 0;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (meanings[i].status == status)
            return meanings[i].error;
    }
    return -EIO;
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
