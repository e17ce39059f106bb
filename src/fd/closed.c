#include "fd/closed.h"

#include <errno.h>
#include <stdio.h>

#include "file/table.h"
#include "file/inode.h"
#include "mount/mounts.h"
#include "run/log_limit.h"
#include "sys/log.h"

enum { SAY_EVERY_S = 60 };

/* Once in a while, for all processes. */
static bool may_say(const struct mount *mount, const char *what, const char *reason)
{
    char subject[1024];
    snprintf(subject, sizeof(subject), "closed %s %.200s %.700s", what, reason, mount->path);
    return run_may_say(subject, SAY_EVERY_S);
}

int fd_closed_refuse(const struct mount *mount, const char *path, const char *reason)
{
    if (mount->security == CONF_SECURITY_AUTO) {
        if (may_say(mount, "refused", ""))
            log_error(
                "%s: EIO: the configuration has mistakes, and asks for Kerberos or TLS, which "
                "the kernel's mount %s has not: no program that runs with the library can open "
                "its files. See `directnfs check`",
                path, mount->conf->mount);
    } else if (may_say(mount, "refused", reason)) {
        log_error(
            "%s: EIO: the kernel would have to serve it (%s), and its mount protects less than "
            "the nfstab asks for (%s). Mount %s with that protection, or ask for less",
            path, reason, mount_protection_text(mount), mount->conf->mount);
    }
    return -EIO;
}

void fd_closed_is_open(const struct mount *mount, const char *path, const char *reason)
{
    if (may_say(mount, "open", reason))
        log_warning(
            "%s: the kernel serves it (%s), and its mount protects less than the nfstab asks "
            "for (%s): such files, names and attributes of mount %s pass the network like "
            "that",
            path, reason, mount_protection_text(mount), mount->conf->mount);
}

static const struct mount *closed_on(dev_t device)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (mounts_at(i)->device == device && mount_is_closed(mounts_at(i)))
            return mounts_at(i);
    }
    return NULL;
}

bool fd_closed_has_device(dev_t device)
{
    return closed_on(device) != NULL;
}

int fd_closed_elsewhere(dev_t device, const char *path)
{
    const struct mount *mount = closed_on(device);
    return mount ? fd_closed_refuse(mount, path, "it is below no mount of the nfstab") : 0;
}

bool fd_is_closed(int fd)
{
    struct file_open *open = file_get(fd);
    bool closed = open && mount_is_closed(open->inode->mount);
    if (open)
        file_put(open);
    return closed;
}
