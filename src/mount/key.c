/* How the kernel and the registry name a file of a mount. */
#include "mount/key.h"

#include <string.h>

#include "mount/mounts.h"
#include "mount/root.h"
#include "reach/kernel.h"
#include "sys/hash.h"
#include "sys/proc.h"

/* Makes "self/fd/NUMBER". Each open calls this, and snprintf() takes ten times as long. */
static void name_link(int fd, char link[32])
{
    static const char before[] = "self/fd/";
    char digits[12], *to = link + sizeof(before) - 1;
    int count = 0;
    memcpy(link, before, sizeof(before));
    do
        digits[count++] = (char)('0' + fd % 10);
    while (fd /= 10);
    while (count > 0)
        *to++ = digits[--count];
    *to = '\0';
}

bool mount_path_of(int fd, char path[PATH_MAX])
{
    char link[32];
    name_link(fd, link);
    ssize_t length = sys_proc_readlink(link, path, PATH_MAX - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    /* The kernel's mark of a path outside of the root directory that chroot() set for this process.
     */
    static const char outside[] = "(unreachable)/";
    return path[0] == '/' || strncmp(path, outside, sizeof(outside) - 1) == 0;
}

struct ledger_file_key mount_registry_key(dev_t device, ino_t number, struct mount *mount,
                                          const struct nfs_fh *fh)
{
    struct nfs_fh root = mount_root(mount);
    struct ledger_file_key key = {
        .device = device, .inode = number, .server = mount->registry_key, .handle_length = fh->len};
    memcpy(key.handle, fh->data, fh->len);
    key.root = sys_hash(SYS_HASH_NONE, root.data, root.len);
    return key;
}

struct ledger_file_key mount_key_of(int fd, const char *path, const struct stat *status)
{
    struct ledger_file_key key = {.device = status->st_dev, .inode = status->st_ino};
    struct mount *mount = mount_of_device(status->st_dev);
    struct nfs_fh fh;
    if (mount && mount_has_handles(mount) && reach_kernel_handle(fd, path, status, &fh) == 0)
        key = mount_registry_key(status->st_dev, status->st_ino, mount, &fh);
    return key;
}
