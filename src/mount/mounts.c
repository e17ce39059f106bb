/* The mounts that there are. */
#include <stdio.h>
#include <string.h>

#include "mount/mount.h"
#include "mount/mounts.h"
#include "run/log_limit.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum { SAY_EVERY_S = 60 };

struct conf_tunables mount_tunables;

static struct mount *mounts[MOUNTS_MAX];
static _Atomic unsigned mount_count;                        /* may grow later: see watch.c */
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER; /* held briefly, while one is added */

bool mounts_add(struct mount *mount)
{
    pthread_mutex_lock(&growing);
    unsigned count = atomic_load(&mount_count);
    bool room = count < MOUNTS_MAX;
    if (room) {
        mounts[count] = mount;
        atomic_store_explicit(&mount_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&growing);
    if (room)
        return true;
    log_error("mount %s: more than %d mounts; the kernel serves it", mount->conf->mount,
              MOUNTS_MAX);
    sys_free(mount);
    return false;
}

unsigned mounts_count(void)
{
    return atomic_load_explicit(&mount_count, memory_order_acquire);
}

struct mount *mounts_at(unsigned index)
{
    return mounts[index];
}

struct mount *mount_of_device(dev_t device)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (mounts[i]->device == device)
            return mounts[i];
    }
    return NULL;
}

bool mount_has_device(dev_t device)
{
    return mount_of_device(device) != NULL;
}

bool mount_is_nfs_device(dev_t device)
{
    const struct mount *mount = mount_of_device(device);
    return mount && mount->kernel_nfs;
}

struct mount *mounts_find(dev_t device, const char *path)
{
    struct mount *best = NULL;
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts[i];
        if (mount->device != device || strncmp(path, mount->path, mount->path_length) != 0)
            continue;
        if (path[mount->path_length] != '/' && mount->path_length > 1)
            continue;
        if (!best || mount->path_length > best->path_length)
            best = mount;
    }
    return best;
}

struct nfs_client mount_client(const struct mount *mount, const struct rpc_auth *auth)
{
    /* AUTH_SYS here is a fault of ours: it must not reach the network. */
    if (__builtin_expect(mount->security >= CONF_SECURITY_KRB5, false) && auth && !auth->identity &&
        auth->length > rpc_auth_none.length)
        auth = &rpc_auth_barred;
    return (struct nfs_client){.version = mount->server->version,
                               .session = mount->server->session,
                               .server = mount->server->net,
                               .auth = auth,
                               .counted =
                                   atomic_load_explicit(&mount->counted, memory_order_relaxed),
                               .read_max = mount->read_max,
                               .write_max = mount->write_max,
                               .timeout_ms = mount_tunables.soft_timeout * 1000};
}

bool mount_may_say(const struct mount *mount, const char *what, int result)
{
    char subject[1024];
    bool of_mount = result == -EACCES || result == -EPERM || result == -ENOENT;
    snprintf(subject, sizeof(subject), "%s %d %.300s %.600s", what, result == 0,
             mount->server->conf->name, of_mount ? mount->path : "");
    return run_may_say(subject, SAY_EVERY_S);
}

int mount_learn_path(struct mount *mount, int fd)
{
    char link[32];
    snprintf(link, sizeof(link), "self/fd/%d", fd);
    ssize_t length = sys_proc_readlink(link, mount->path, sizeof(mount->path) - 1);
    if (length < 0)
        return (int)length;
    mount->path[length] = '\0';
    mount->path_length = (size_t)length;
    return 0;
}

void mount_root_prepare(int *held)
{
    unsigned count = mounts_count(); /* a mount that is added now is found below the new root */
    for (unsigned i = 0; i < MOUNTS_MAX; i++)
        held[i] = i < count ? sys_open(mounts[i]->path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0) : -1;
}

void mount_root_changed(int *held)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (held[i] < 0)
            continue;
        mount_learn_path(mounts[i], held[i]);
        sys_close(held[i]);
    }
}

void mounts_lock(void)
{
    pthread_mutex_lock(&growing);
    for (unsigned i = 0; i < mounts_count(); i++)
        pthread_mutex_lock(&mounts[i]->lock);
}

void mounts_unlock(void)
{
    for (unsigned i = 0; i < mounts_count(); i++)
        pthread_mutex_unlock(&mounts[i]->lock);
    pthread_mutex_unlock(&growing);
}
