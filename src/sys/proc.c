#include "sys/proc.h"

#include <stdio.h>

#include "sys/fd.h"

enum { NAME_BYTES = 64 };

static int kept = -1; /* set once at start */
static ino_t home;    /* the network namespace of the process then; 0: not known */

/* Its number is not given to another one as long as a descriptor of it is open, which nobody needs
 * by name. */
static void keep_network(void)
{
    struct stat status;
    int fd = sys_proc_open("self/ns/net", O_RDONLY);
    if (fd >= 0)
        (void)sys_fd_protect(fd);
    if (sys_proc_stat("self/ns/net", &status) == 0)
        home = status.st_ino;
}

void sys_proc_keep(void)
{
    int fd = sys_open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0)
        kept = sys_fd_protect(fd);
    keep_network();
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

bool sys_network_is_home(void)
{
    struct stat here;
    return home == 0 || sys_proc_stat("thread-self/ns/net", &here) != 0 || here.st_ino == home;
}

ino_t sys_network_home(void)
{
    return home;
}
