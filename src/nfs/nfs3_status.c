#include "nfs/nfs3_status.h"

#include <errno.h>
#include "nfs/nfs3_types.h"

/* One line per nfsstat3: its name and the errno value an application sees. */
#define STATUS_LIST(X)                   \
    X(NFS3_OK, 0)                        \
    X(NFS3ERR_PERM, EPERM)               \
    X(NFS3ERR_NOENT, ENOENT)             \
    X(NFS3ERR_IO, EIO)                   \
    X(NFS3ERR_NXIO, ENXIO)               \
    X(NFS3ERR_ACCES, EACCES)             \
    X(NFS3ERR_EXIST, EEXIST)             \
    X(NFS3ERR_XDEV, EXDEV)               \
    X(NFS3ERR_NODEV, ENODEV)             \
    X(NFS3ERR_NOTDIR, ENOTDIR)           \
    X(NFS3ERR_ISDIR, EISDIR)             \
    X(NFS3ERR_INVAL, EINVAL)             \
    X(NFS3ERR_FBIG, EFBIG)               \
    X(NFS3ERR_NOSPC, ENOSPC)             \
    X(NFS3ERR_ROFS, EROFS)               \
    X(NFS3ERR_MLINK, EMLINK)             \
    X(NFS3ERR_NAMETOOLONG, ENAMETOOLONG) \
    X(NFS3ERR_NOTEMPTY, ENOTEMPTY)       \
    X(NFS3ERR_DQUOT, EDQUOT)             \
    X(NFS3ERR_STALE, ESTALE)             \
    X(NFS3ERR_REMOTE, EREMOTE)           \
    X(NFS3ERR_BADHANDLE, ESTALE)         \
    X(NFS3ERR_NOT_SYNC, EIO)             \
    X(NFS3ERR_BAD_COOKIE, EIO)           \
    X(NFS3ERR_NOTSUPP, EOPNOTSUPP)       \
    X(NFS3ERR_TOOSMALL, EIO)             \
    X(NFS3ERR_SERVERFAULT, EIO)          \
    X(NFS3ERR_BADTYPE, EIO)              \
    X(NFS3ERR_JUKEBOX, EAGAIN)

int nfs3_status_errno(uint32_t status)
{
    switch (status) {
#define X(name, value) \
    case name:         \
        return -(value);
        STATUS_LIST(X)
#undef X
    }
    return -EIO;
}

const char *nfs3_status_name(uint32_t status)
{
    switch (status) {
#define X(name, value) \
    case name:         \
        return #name;
        STATUS_LIST(X)
#undef X
    }
    return "NFS3ERR_unknown";
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
