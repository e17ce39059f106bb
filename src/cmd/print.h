/*
 * Output for people and for programs (JSON).
 *
 * Strings may come out of shared memory or from a server: nothing that a terminal would obey, and
 * nothing that is not UTF-8, is ever printed as it came.
 */
#ifndef CMD_PRINT_H
#define CMD_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Copies `text`, of at most `limit` bytes or up to its NUL, with control characters (C0, DEL, C1,
 * and those that reorder or hide text) and bytes that are no UTF-8 as \xNN. Returns memory for
 * free(3); never NULL (without memory the command ends).
 */
char *cmd_printable(const char *text, size_t limit);

/* Returns `memory`; without it the command ends. */
void *cmd_need(void *memory);

#define CMD_NO_USER ((uid_t)-1)

/* The user's name; their number, in `number`, if they have none; "-" for CMD_NO_USER. Until the
 * next call. */
enum { CMD_USER_NUMBER = 24 };
const char *cmd_user_name(uid_t user, char number[CMD_USER_NUMBER]);

/* "2026-11-21T20:59:35Z" */
enum { CMD_TIME_BYTES = 32 };
void cmd_time(char text[CMD_TIME_BYTES], uint64_t realtime_ns);

/* Columns of the terminal that standard output is; 0 if it is none. $COLUMNS goes before. */
size_t cmd_terminal_width(void);

/*
 * Writes JSON (RFC 8259) piece by piece. Zero-initialised, then `out` set. `key` is NULL inside of
 * arrays and at the top.
 */
struct cmd_json {
    FILE *out;
    unsigned depth;
    bool filled; /* the array or object that is open has an element */
};

void cmd_json_open(struct cmd_json *json, const char *key, char bracket); /* '[' or '{' */
void cmd_json_close(struct cmd_json *json, char bracket);                 /* ']' or '}' */
/* At most `limit` bytes, up to a NUL; what is no UTF-8 becomes U+FFFD. */
void cmd_json_text(struct cmd_json *json, const char *key, const char *text, size_t limit);
void cmd_json_number(struct cmd_json *json, const char *key, uint64_t number);
void cmd_json_real(struct cmd_json *json, const char *key, double number); /* three decimals */
void cmd_json_digits(struct cmd_json *json, const char *key, const char *digits); /* a number */

#endif
