/*
 * The directnfs command: what its parts share. One thread, unless a function says otherwise.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cmd_exit {
    CMD_FINE = 0,
    CMD_NOT_FINE = 1,     /* what was checked or asked for is not fine */
    CMD_WRONG_USAGE = 2,  /* options or arguments that make no sense */
    CMD_RUN_FAILED = 125, /* `run` itself failed, as env(1) says it */
    CMD_NOT_EXECUTABLE = 126,
    CMD_NOT_FOUND = 127,
};

/* Says "directnfs COMMAND: text" and where help is, on stderr. Returns CMD_WRONG_USAGE. */
int cmd_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says "directnfs COMMAND: text" on stderr, made printable. */
void cmd_complain(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The library that belongs to this command: beside it, as a build leaves it, or in one of the
 * directories for libraries, as it is installed. False: there is none, or it may not be read. */
bool cmd_library(char path[PATH_MAX]);

/* Puts the library first into LD_PRELOAD, and keeps what others preload behind it. 0 or -1 with
 * errno. */
int cmd_preload(const char *library);

/*
 * Parses a whole decimal number within [low, high]; a fraction is allowed if `fraction`. Returns
 * false for anything else, such as blanks, signs, or characters that follow.
 */
bool cmd_parse_number(const char *text, bool fraction, double low, double high, double *value);

#endif
