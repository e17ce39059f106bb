/*
 * Where the command directnfs is that belongs to a library.
 */
#ifndef RUN_COMMAND_H
#define RUN_COMMAND_H

#include <limits.h>
#include <stdbool.h>

/* Beside the library, as a build leaves it, or where `make install` and packages put it. False:
 * there is none that this process may start, or can trust: root only what is root's. */
bool run_command_of(const char *library, char command[PATH_MAX]);

#endif
