/*
 * Output for people (tables) and for programs (JSON).
 *
 * Strings may come out of shared memory or from a server: nothing that a terminal would obey, and
 * nothing that is not UTF-8, is ever printed as it came.
 */
#ifndef CMD_TEXT_H
#define CMD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Copies `text`, of at most `limit` bytes or up to its NUL, with control characters (C0, DEL, C1,
 * and those that reorder or hide text) and bytes that are no UTF-8 as \xNN. Returns memory for
 * free(3); never NULL (without memory the command ends).
 */
char *cmd_printable(const char *text, size_t limit);

/*
 * A table that is filled row by row. Zero-initialised, then `columns` set; owned by the caller,
 * freed by cmd_table_free(). When the terminal is too narrow, texts of columns that may be cut are
 * shortened, and if that is not enough the first `key_columns` are repeated in parts that fit.
 */
enum cmd_kind {
    CMD_TEXT,
    CMD_NUMBER,    /* right-aligned; without quotes in JSON */
    CMD_CUT_END,   /* text that may lose its end, */
    CMD_CUT_START, /* or its start */
};

struct cmd_column {
    const char *name; /* as people see it; JSON has it in lower case */
    enum cmd_kind kind;
};

struct cmd_table {
    const struct cmd_column *columns;
    size_t column_count;
    size_t key_columns;
    bool for_people; /* not for cmd_json_table(): numbers may be words */
    double seconds;  /* counts are shown per second, as of so many; 0: as they are */
    char **cells;    /* row by row, printable */
    size_t cell_count;
};

/* The next cell of the current row; a row is complete when every column has its cell. */
void cmd_table_text(struct cmd_table *table, const char *text, size_t limit);
void cmd_table_number(struct cmd_table *table, uint64_t number);
void cmd_table_real(struct cmd_table *table, double number);    /* with one decimal */
void cmd_table_count(struct cmd_table *table, uint64_t number); /* see `seconds` */

/* The place of a column by its name, in upper or lower case; -1: there is none. */
int cmd_column_find(const struct cmd_column *columns, size_t count, const char *name);
/* Sorts the rows that are there: numbers from the largest, texts from A. */
void cmd_table_sort(struct cmd_table *table, const char *column);

/* Prints a heading and the rows in `width` columns (0: no limit). Without rows it prints `none` as
 * a sentence. */
void cmd_table_print(const struct cmd_table *table, size_t width, const char *none, FILE *out);

void cmd_table_free(struct cmd_table *table);

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
/* The table as an array of objects. */
void cmd_json_table(struct cmd_json *json, const char *key, const struct cmd_table *table);

#endif
