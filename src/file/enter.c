/* Entering the engine, and leaving it. */
#include "mount/mounts.h"
#include "mount/protection.h"
#include "mount/registry.h"
#include "file/inode.h"
#include "file/enter.h"
#include "file/upper.h"
#include "ledger/world.h"
#include "net/pool.h"
#include "net/ports.h"

/* Waits for a port, when ports are short and this process has none. It waits here, where it keeps
 * no range and no size from processes that have one. */
static void wait_for_port(const struct file_inode *inode)
{
    static const struct rpc_auth none = {.length = 16}; /* AUTH_NONE, twice */
    struct nfs_client client = mount_client(inode->mount, &none);
    nfs_null(&client);
}

bool file_inode_enter_many(struct file_inode *inode, unsigned calls)
{
    if (__builtin_expect(net_server_lacks_port(inode->mount->server->net), 0))
        wait_for_port(inode);
    for (bool stays = false, again = false;; again = true) {
        mount_registry_look();
        atomic_fetch_add(&inode->busy, calls); /* first: a demotion waits for that */
        bool known = atomic_load(&inode->demoted);
        if (!known && (stays || !ledger_world_is_kernel(&inode->entry)))
            return true;
        atomic_fetch_sub(&inode->busy, calls);
        if (!file_upper.cross(inode, known))
            return false;
        /* False: the file can go to the kernel now, as other threads have connections again. */
        stays = again || net_server_look_abroad(inode->mount->server->net);
    }
}

bool file_is_barred_now(struct file_inode *inode)
{
    return mount_is_lost(inode->mount) ||
           (mount_is_closed(inode->mount) && ledger_world_is_kernel(&inode->entry));
}

const char file_no_room[] = "no room in shared memory";

ssize_t file_finish_call(struct file_open *open, ssize_t result)
{
    int demoted = 0;
    file_inode_leave(open->inode);
    if (result == LEDGER_OF_KERNEL)
        demoted = file_upper.follow(open->inode);
    else if (result == FILE_NO_ROOM)
        demoted = file_upper.demote(open->inode, open->auth, file_no_room);
    else if (result == -ESTALE)
        demoted = file_upper.demote(open->inode, open->auth, "stale handle");
    else if (net_server_fails_abroad(open->inode->mount->server->net, result))
        demoted = file_upper.demote(open->inode, open->auth, reach_reason(REACH_ABROAD));
    else
        return file_posix_error(result);
    return demoted == -ENONET ? -EIO : FILE_KERNEL;
}

int file_check_flags(int flags)
{
    if (flags & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND | FILE_NOAPPEND))
        return -EOPNOTSUPP;
    return flags & RWF_APPEND && flags & FILE_NOAPPEND ? -EINVAL : 0;
}
