/* The handle of a mount's root. It may become stale, as those of files (file/renew.h). */
#include <string.h>

#include "mount/mount.h"
#include "mount/mounts.h"
#include "mount/paths.h"
#include "mount/root.h"
#include "net/pool.h"
#include "reach/root.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { ROOT_TRIES = 30, PAUSE_MS = 1000 };

struct nfs_fh mount_root(struct mount *mount)
{
    pthread_mutex_lock(&mount->lock);
    struct nfs_fh root = mount->root;
    pthread_mutex_unlock(&mount->lock);
    return root;
}

void mount_set_root(struct mount *mount, const struct nfs_fh *root, const struct nfs_attr *attr,
                    uint64_t asked_ns)
{
    pthread_mutex_lock(&mount->look);
    mount->root_attr = *attr;
    mount->looked_ns = asked_ns;
    mount->look_result = 0;
    pthread_mutex_unlock(&mount->look);
    pthread_mutex_lock(&mount->lock);
    mount->root = *root;
    for (unsigned i = 0; i < MOUNT_DIRECTORIES && mount->has_directories; i++) {
        sys_free(mount->directories[i].path);
        mount->directories[i].path = NULL;
    }
    pthread_mutex_unlock(&mount->lock);
}

/* Mounts again, and proves that it is the same directory. Where the kernel's own mount is stale
 * too, the file number must do: each file below is proven by itself. */
static int mount_again(struct mount *mount, const struct rpc_auth *auth, struct nfs_fh *root,
                       struct nfs_attr *attr)
{
    struct nfs_client client = mount_client(mount, auth);
    struct reach_finding finding = {0};
    struct mount_root_found found;
    int result = mount_over_paths(mount, NULL, &found);
    *root = found.fh;
    *attr = found.attr;
    if (result == 0 && !found.proven) {
        result = reach_prove_root(mount->path, reach_statx_now, NULL, &client, root, &finding);
        *attr = finding.attr;
    }
    if (result != -ESTALE)
        return result;
    result = nfs_getattr(&client, root, attr);
    if (result == 0 && (attr->type != NFS_DIR || attr->fileid != mount->inode))
        result = -EXDEV;
    return result;
}

int mount_root_renew(struct mount *mount, const struct rpc_auth *auth)
{
    struct nfs_client client = mount_client(mount, auth);
    struct nfs_fh old = mount_root(mount), root;
    struct nfs_attr attr;
    int result = nfs_getattr(&client, &old, &attr);
    if (result != 0 && !net_server_is_at_home(mount->server->net))
        return -ENONET; /* this thread might ask another server */
    if (result != 0 && sys_now_ns() < mount->retry_ns)
        return result; /* all files of the mount ask, one after the other */
    for (int i = 0; result != 0 && result != -EXDEV && i < ROOT_TRIES; i++) {
        if (i == 1 && mount_may_say(mount, "root", result))
            log_warning(
                "mount %s: server %s does not know the export's root any more, and mounting "
                "%s again failed: %s; trying for %d s",
                mount->conf->mount, mount->server->conf->name, mount->conf->directory,
                strerrordesc_np(-result), ROOT_TRIES * PAUSE_MS / 1000);
        if (i > 0)
            sys_nanosleep_ms(PAUSE_MS);
        uint64_t asked_ns = sys_now_ns();
        result = mount_again(mount, auth, &root, &attr);
        if (result != 0)
            continue;
        mount_set_root(mount, &root, &attr, asked_ns);
        if (!nfs_same_fh(&root, &old))
            log_notice("mount %s: server %s exports %s with new file handles; files are looked up "
                       "again by name",
                       mount->conf->mount, mount->server->conf->name, mount->conf->directory);
    }
    mount->retry_ns = result == 0 ? 0 : sys_now_ns() + (uint64_t)ROOT_TRIES * PAUSE_MS * 1000000;
    return result;
}

int mount_renew(struct mount *mount, const struct rpc_auth *auth)
{
    pthread_mutex_lock(&mount->contact);
    int result = mount_root_renew(mount, auth);
    pthread_mutex_unlock(&mount->contact);
    return result;
}
