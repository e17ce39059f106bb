/*
 * Mounts that are made after the process began. Nothing tells a process of them but an open of a
 * file on a device that it has not seen. Then it reads the kernel's table of mounts. That a device
 * is none of ours is remembered for a while only, since the kernel uses numbers of devices again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mount/mount.h"
#include "mount/mounts.h"
#include "mount/places.h"
#include "mount/watch.h"
#include "sys/sys.h"

enum {
    STRANGERS = 64, /* a power of two */
    TENTH_NS = 100000000,
    LEAST_TENTHS = 10,  /* a stranger is remembered for so long, or */
    TIMES_LOOKED = 1000 /* for so many times as long as it took to find out */
};

/* Devices that are none of ours, in a hash table: major << 20 | minor, and until when that is
 * believed, in tenths of a second (CLOCK_MONOTONIC). */
static _Atomic uint64_t strangers[STRANGERS];
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER; /* held while the table is read */

void mount_watch_fork_child(void)
{
    pthread_mutex_init(&looking, NULL); /* the thread that held it does not exist here */
}

static bool covers(const char *mount_point, const char *path)
{
    size_t length = strlen(mount_point);
    return strncmp(mount_point, path, length) == 0 &&
           (length == 1 || path[length] == '/' || path[length] == '\0');
}

bool mount_watch_is_at(const struct conf_mountinfo *info, dev_t device, const char *path)
{
    const struct conf_mount *found = NULL;
    for (size_t i = 0; i < info->count; i++) {
        const struct conf_mount *mount = &info->mounts[i];
        if (covers(mount->mount_point, path) &&
            (!found || strlen(mount->mount_point) >= strlen(found->mount_point)))
            found = mount;
    }
    /* The table does not have the number that files of btrfs have. */
    return found &&
           (makedev(found->major, found->minor) == device || strcmp(found->type, "btrfs") == 0);
}

static bool look(dev_t device)
{
    struct conf_mountinfo info;
    if (conf_mountinfo_load(&info, "/proc/self/mountinfo") != 0)
        return false;
    bool arrived = mounts_arrived(device, &info);
    conf_mountinfo_free(&info);
    return arrived;
}

static uint32_t number_of(dev_t device)
{
    return (uint32_t)major(device) << 20 | (uint32_t)minor(device);
}

static _Atomic uint64_t *place_of(uint32_t number)
{
    return &strangers[(number * UINT32_C(0x9e3779b1)) >> 26];
}

void mount_watch_begin(const struct conf_mountinfo *info, uint64_t asked_ns)
{
    uint32_t until = (uint32_t)(asked_ns / TENTH_NS) + LEAST_TENTHS;
    for (size_t i = 0; i < info->count; i++) {
        uint32_t number = number_of(makedev(info->mounts[i].major, info->mounts[i].minor));
        if (conf_mount_nfs(&info->mounts[i]) != CONF_NFS_NONE)
            continue;
        atomic_store_explicit(place_of(number), (uint64_t)number << 32 | until,
                              memory_order_relaxed);
    }
}

bool mount_watch_arrived(dev_t device)
{
    uint32_t number = number_of(device);
    _Atomic uint64_t *stranger = place_of(number);
    uint64_t known = atomic_load_explicit(stranger, memory_order_relaxed), now = sys_now_ns();
    if (known >> 32 == number && (uint32_t)known > now / TENTH_NS)
        return false;
    pthread_mutex_lock(&looking);
    bool arrived = mount_has_device(device) || look(device); /* another thread may have found it */
    uint64_t ended = sys_now_ns();
    uint64_t until = (ended + (ended - now) * TIMES_LOOKED) / TENTH_NS + LEAST_TENTHS;
    if (!arrived)
        atomic_store_explicit(stranger, (uint64_t)number << 32 | (uint32_t)until,
                              memory_order_relaxed);
    pthread_mutex_unlock(&looking);
    return arrived;
}
