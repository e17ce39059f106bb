#include "run/command.h"

#include <stdio.h>
#include <string.h>

#include "sys/sys.h"

bool run_command_of(const char *library, char command[PATH_MAX])
{
    static const char *const places[] = {"directnfs", "../../bin/directnfs",
                                         "../../../bin/directnfs"};
    const char *slash = strrchr(library, '/');
    int length = slash ? (int)(slash - library) + 1 : 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(command, PATH_MAX, "%.*s%s", length, library, places[i]);
        if ((int)sys_call3(SYS_faccessat, AT_FDCWD, command, X_OK) == 0)
            return true;
    }
    return false;
}
