#include "nfs/v3/status.h"

#include <errno.h>
#include <stddef.h>

#include "nfs/v3/types.h"

/* All others mean EIO. */
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
