/*
 * directnfs run: would ld.so load the library into the program? It looks for the common obstacles
 * only, in a few system calls, as the program's user waits. check --program finds all.
 */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cmd/check/program.h"

/* Says how the file gives other rights than the user that starts it has. Then the kernel calls the
 * start secure, and ld.so ignores LD_PRELOAD. NULL: it gives none. */
static const char *gives_rights(int fd)
{
    struct vfs_ns_cap_data data = {0};
    struct stat status;
    struct statvfs system;
    if (fstat(fd, &status) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
        (fstatvfs(fd, &system) == 0 && (system.f_flag & ST_NOSUID)))
        return NULL;
    if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
        return "set-user-ID";
    if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != getgid())
        return "set-group-ID";
    bool gained =
        fgetxattr(fd, "security.capability", &data, sizeof(data)) >= (ssize_t)sizeof(uint32_t) &&
        (data.data[0].permitted || data.data[1].permitted ||
         (data.magic_etc & VFS_CAP_FLAGS_EFFECTIVE));
    return gained && getuid() != 0 ? "with file capabilities" : NULL;
}

static bool is_unloadable(const char *path, int fd, char why[PROGRAM_WHY])
{
    struct elf_file elf = {0};
    const char *unused, *rights = gives_rights(fd);
    if (rights) {
        snprintf(why, PROGRAM_WHY, "%s is %s, so ld.so ignores LD_PRELOAD", path, rights);
        return true;
    }
    int error = elf_open(&elf, fd, &unused);
    bool fixed = error == 0 && elf.interpreter == NULL;
    if (fixed)
        snprintf(why, PROGRAM_WHY, "%s is linked statically", path);
    else if (error == -EXDEV)
        snprintf(why, PROGRAM_WHY, "%s is a program for %s, and the library is not", path,
                 elf_machine_name(&elf));
    elf_close(&elf);
    return fixed || error == -EXDEV;
}

bool program_is_unloadable(const char *name, char why[PROGRAM_WHY])
{
    char path[PATH_MAX];
    if (!program_find_in_path(name, path))
        return false;
    for (int scripts = 0; scripts <= PROGRAM_SCRIPTS_MAX; scripts++) {
        int fd = program_open(path);
        if (fd < 0)
            return false;
        enum program_step step = program_follow_script(fd, path);
        bool unloadable = step == PROGRAM_HERE && is_unloadable(path, fd, why);
        close(fd);
        if (step != PROGRAM_ON)
            return unloadable;
    }
    return false;
}
