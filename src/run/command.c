#include "run/command.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/sys.h"

/* Could only root, this user, or the library's owner have put the command there? Below the root
 * directory of a chroot(), and in places that all may write to, there are files of others, too. */
static bool is_trusted(const char *command, const char *library)
{
    const uid_t self = (uid_t)sys_call0(SYS_geteuid);
    struct stat status, beside;
    if (sys_fstatat(AT_FDCWD, command, &status, 0) != 0 || !S_ISREG(status.st_mode) ||
        status.st_mode & S_IWOTH)
        return false;
    return status.st_uid == 0 || status.st_uid == self ||
           (self != 0 && sys_fstatat(AT_FDCWD, library, &beside, 0) == 0 &&
            status.st_uid == beside.st_uid);
}

bool run_command_of(const char *library, char command[PATH_MAX])
{
    static const char *const places[] = {"directnfs", "../../bin/directnfs",
                                         "../../../bin/directnfs"};
    const char *slash = strrchr(library, '/');
    int length = slash ? (int)(slash - library) + 1 : 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(command, PATH_MAX, "%.*s%s", length, library, places[i]);
        if ((int)sys_call3(SYS_faccessat, AT_FDCWD, command, X_OK) == 0 &&
            is_trusted(command, library))
            return true;
    }
    return false;
}
