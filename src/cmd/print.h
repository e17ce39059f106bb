/*
 * Output for people and for programs (JSON).
 *
 * Strings may come from shared memory or from a server. So what a terminal would obey, and what is
 * not UTF-8, is never printed unchanged.
 */
#ifndef CMD_PRINT_H
#define CMD_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Copies `text`: up to its NUL, at most `limit` bytes. These become \xNN: control characters (C0,
 * DEL, C1, and those that reorder or hide text), and bytes that are not UTF-8. Free the result by
 * free(3). It is never NULL: without memory the command ends.
 */
char *cmd_printable(const char *text, size_t limit);

/* Returns `memory`. If it is NULL, the command ends. */
void *cmd_need(void *memory);

#define CMD_NO_USER ((uid_t)-1)

/* The user's name. A user without a name gives the number, in `number`. CMD_NO_USER gives "-".
 * Valid until the next call. */
enum { CMD_USER_NUMBER = 24 };
const char *cmd_user_name(uid_t user, char number[CMD_USER_NUMBER]);

/* "2026-11-21T20:59:35Z" */
enum { CMD_TIME_BYTES = 32 };
void cmd_time(char text[CMD_TIME_BYTES], uint64_t realtime_ns);

/* Columns of the terminal on standard output. 0: it is no terminal. $COLUMNS overrides it. */
size_t cmd_terminal_width(void);

/*
 * Writes JSON (RFC 8259) piece by piece. Zero it, then set `out`. `key` is NULL in arrays and at
 * the top.
 */
struct cmd_json {
    FILE *out;
    unsigned depth;
    bool filled; /* the open array or object has an element */
};

void cmd_json_open(struct cmd_json *json, const char *key, char bracket); /* '[' or '{' */
void cmd_json_close(struct cmd_json *json, char bracket);                 /* ']' or '}' */
/* At most `limit` bytes, up to a NUL. Bytes that are not UTF-8 become U+FFFD. */
void cmd_json_text(struct cmd_json *json, const char *key, const char *text, size_t limit);
void cmd_json_number(struct cmd_json *json, const char *key, uint64_t number);
void cmd_json_real(struct cmd_json *json, const char *key, double number); /* with three decimals */
void cmd_json_digits(struct cmd_json *json, const char *key, const char *digits); /* a number */

#endif
