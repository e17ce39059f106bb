#include "sys/proc.h"

#include <stdio.h>

#include "sys/fd.h"

enum { NAME_BYTES = 64 };

static int kept = -1; /* set once at start */

void sys_proc_keep(void)
{
    int fd = sys_open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0)
        kept = sys_fd_protect(fd);
}

/* What the name is relative to; *name is changed to a full one if that is the working directory. */
static int base(const char **name, char full[NAME_BYTES])
{
    if (kept >= 0)
        return kept;
    snprintf(full, NAME_BYTES, "/proc/%s", *name);
    *name = full;
    return AT_FDCWD;
}

int sys_proc_open(const char *name, int flags)
{
    char full[NAME_BYTES];
    int directory = base(&name, full);
    return sys_openat(directory, name, flags | O_CLOEXEC, 0);
}

ssize_t sys_proc_readlink(const char *name, char *buffer, size_t size)
{
    char full[NAME_BYTES];
    int directory = base(&name, full);
    return sys_call4(SYS_readlinkat, directory, name, buffer, size);
}

int sys_proc_stat(const char *name, struct stat *status)
{
    char full[NAME_BYTES];
    int directory = base(&name, full);
    return sys_fstatat(directory, name, status, 0);
}

uint64_t sys_network_namespace(void)
{
    struct stat status;
    return sys_proc_stat("thread-self/ns/net", &status) == 0 ? status.st_ino : 0;
}
