/* What the parts of the directnfs command share. One thread, unless a function says otherwise. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cmd_exit {
    CMD_FINE = 0,
    CMD_NOT_FINE = 1,     /* what was checked or asked for is not fine */
    CMD_WRONG_USAGE = 2,  /* options or arguments make no sense */
    CMD_RUN_FAILED = 125, /* `run` itself failed, as in env(1) */
    CMD_NOT_EXECUTABLE = 126,
    CMD_NOT_FOUND = 127,
};

/* Prints "directnfs COMMAND: text" and where help is, on stderr. Returns CMD_WRONG_USAGE. */
int cmd_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints "directnfs COMMAND: text" on stderr, made printable. */
void cmd_complain(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The library that belongs to this command: beside it, as after a build; or in a directory for
 * libraries, as after an installation. False: there is none, or it may not be read. */
bool cmd_library(char path[PATH_MAX]);

/* Puts the library first into LD_PRELOAD, before what is preloaded already. 0, or -1 with errno. */
int cmd_preload(const char *library);

/*
 * Parses a whole decimal number within [low, high]; a fraction is allowed if `fraction`. False for
 * anything else, such as blanks, signs, or characters behind it.
 */
bool cmd_parse_number(const char *text, bool fraction, double low, double high, double *value);

#endif
