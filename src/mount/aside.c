#include "mount/aside.h"

#include "mount/mounts.h"
#include "sys/sys.h"

struct run_stray mount_stray(const struct mount *mount, const char *path,
                             const struct ledger_file *file)
{
    struct timespec now;
    sys_clock_gettime(CLOCK_REALTIME, &now);
    return (struct run_stray){.server = mount ? mount->server->conf->name : "",
                              .mount = mount ? mount->path : "",
                              .path = path,
                              .device = file->key.device,
                              .inode = file->key.inode,
                              .since_s = (uint64_t)now.tv_sec};
}

int mount_set_aside(const struct mount *mount, const char *path, struct ledger_file *file,
                    struct ledger_aside *aside)
{
    const struct run_stray stray = mount_stray(mount, path, file);
    return ledger_file_set_aside(file, &stray, aside);
}
