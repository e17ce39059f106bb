/* From paths to handles, below a mount's root. */
#include <string.h>

#include "mount/facts.h"
#include "mount/lookup.h"
#include "mount/mount.h"
#include "mount/mounts.h"
#include "mount/root.h"
#include "sys/alloc.h"
#include "sys/hash.h"

static struct mount_directory *directory_slot(struct mount *mount, const char *path, size_t length)
{
    uint64_t hash = sys_hash(SYS_HASH_NONE, path, length);
    return &mount->directories[(hash >> 20) % MOUNT_DIRECTORIES];
}

static bool directory_known(struct mount *mount, const char *path, size_t length, struct nfs_fh *fh)
{
    pthread_mutex_lock(&mount->lock);
    struct mount_directory *slot = directory_slot(mount, path, length);
    bool known =
        slot->path && strlen(slot->path) == length && memcmp(slot->path, path, length) == 0;
    if (known)
        *fh = slot->fh;
    pthread_mutex_unlock(&mount->lock);
    return known;
}

static void directory_remember(struct mount *mount, const char *path, size_t length,
                               const struct nfs_fh *fh)
{
    char *copy = sys_alloc(length + 1);
    if (copy) {
        memcpy(copy, path, length);
        copy[length] = '\0';
    }
    pthread_mutex_lock(&mount->lock);
    struct mount_directory *slot = directory_slot(mount, path, length);
    sys_free(slot->path);
    slot->path = copy;
    slot->fh = *fh;
    mount->has_directories = true;
    pthread_mutex_unlock(&mount->lock);
}

/* Is the handle known, to this process or from another? */
static bool directory_found(struct mount *mount, const struct rpc_auth *auth, const char *path,
                            size_t length, struct nfs_fh *fh)
{
    if (directory_known(mount, path, length, fh))
        return true;
    if (!mount_fact_of_directory(mount, auth, path, length, fh))
        return false;
    directory_remember(mount, path, length, fh);
    return true;
}

static void directory_learn(struct mount *mount, const struct rpc_auth *auth, const char *path,
                            size_t length, const struct nfs_fh *fh)
{
    directory_remember(mount, path, length, fh);
    mount_fact_directory_is(mount, auth, path, length, fh);
}

int mount_lookup(struct mount *mount, const struct rpc_auth *auth, const char *path, bool fresh,
                 struct nfs_fh *fh, struct nfs_post_attr *attr)
{
    struct nfs_client client = mount_client(mount, auth);
    const char *relative = path + mount->path_length;
    while (*relative == '/')
        relative++;
    struct nfs_fh directory = mount_root(mount);
    const char *at = relative;

    /* Begins at the deepest directory on the way that is known. */
    for (const char *slash = strrchr(relative, '/'); slash && !fresh;
         slash = memrchr(relative, '/', (size_t)(slash - relative))) {
        if (directory_found(mount, auth, relative, (size_t)(slash - relative), &directory)) {
            at = slash + 1;
            break;
        }
    }
    for (;;) {
        size_t length = strcspn(at, "/");
        char name[NFS_NAME_MAX + 1];
        if (length == 0 || length > NFS_NAME_MAX)
            return length == 0 ? -ENOENT : -ENAMETOOLONG;
        memcpy(name, at, length);
        name[length] = '\0';
        int result = nfs_lookup(&client, &directory, name, fh, attr);
        if (result != 0)
            return result;
        at += length;
        if (*at == '\0')
            return 0;
        directory_learn(mount, auth, relative, (size_t)(at - relative), fh);
        directory = *fh;
        at++;
    }
}
