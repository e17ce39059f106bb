/*
 * Finds the command directnfs that belongs to a library.
 */
#ifndef RUN_COMMAND_H
#define RUN_COMMAND_H

#include <limits.h>
#include <stdbool.h>

/*
 * Looks beside the library, where a build leaves the command, and where `make install` and packages
 * put it. False: there is none that this process may start and can trust. root trusts only root's
 * files.
 */
bool run_command_of(const char *library, char command[PATH_MAX]);

#endif
