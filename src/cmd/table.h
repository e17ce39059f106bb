/*
 * Tables: what `directnfs stat`, `top` and `path list` show.
 */
#ifndef CMD_TABLE_H
#define CMD_TABLE_H

#include "cmd/print.h"
#include "stats/read.h"

enum cmd_kind {
    CMD_TEXT,
    CMD_NUMBER,    /* right-aligned; the largest first; no quotes in JSON */
    CMD_CUT_END,   /* text that may lose its end, */
    CMD_CUT_START, /* or its start */
};

struct cmd_column {
    const char *name; /* for people; JSON has it in lower case */
    enum cmd_kind kind;
    const char *key; /* its name in JSON; NULL: as `name` */
    unsigned drop; /* without room, columns with the highest number go first, together; 0: never */
    /* On the screen of `directnfs top`: */
    const char *total; /* its name when totals are shown; NULL: as `name` */
    bool wide;         /* takes the room that is left */
    bool history;      /* a sparkline instead of text */
    bool state;        /* shows the row's look */
};

/* The columns of a table may be a list of COLUMN(name, kind, cell, ...): what fills a cell, and how
 * the column looks on the screen. Such a list makes both the columns and a row. */
#define CMD_AS_COLUMN(title, is, cell, ...) {.name = (title), .kind = (is), __VA_ARGS__},
#define CMD_AS_CELL(title, is, cell, ...)   cell;

struct cmd_cell {
    char *text; /* printable */
    double number;
};

/* A row, and for `directnfs top` the thing that it shows. */
struct cmd_row {
    size_t source;                     /* orders equal rows; its number, or what top sets */
    uint64_t key;                      /* one thing has one key at all updates */
    uint32_t pid;                      /* its process; 0: none */
    unsigned look;                     /* shows its state; enum top_look */
    const struct top_history *history; /* in the model; may be NULL */
    struct cmd_cell *cells;
};

/*
 * A table that is filled row by row. Zero it, then set `columns`. The caller owns it, and frees it
 * by cmd_table_free(). If the terminal is too narrow, columns that may be cut become shorter. If
 * that is not enough, the table is printed in parts that fit; each part repeats the first
 * `key_columns`.
 */
struct cmd_table {
    const struct cmd_column *columns;
    size_t column_count;
    size_t key_columns;
    size_t first_part; /* without room: columns in the first part; 0: those that fit */
    const char *none;  /* a sentence for a table without rows */
    bool for_people; /* not for cmd_json_table(): numbers may be words, and thousands are marked in
                        columns of microseconds */
    bool brief;      /* numbers have at most 6 characters: cmd_brief() */
    bool unknown;    /* counts and times are not known yet; shows "-" */
    double seconds;  /* counts are divided by so many seconds; 0: they are not */
    struct cmd_row *rows;
    size_t count;
    size_t cell; /* the next cell of the last row */
};

/* Begins a row. A cell after a complete row does it, too. */
struct cmd_row *cmd_table_begin(struct cmd_table *table);
/* Sets the next cell. A row is complete when every column has its cell. */
void cmd_table_cell(struct cmd_table *table, const char *text, size_t limit, double number);
void cmd_table_text(struct cmd_table *table, const char *text, size_t limit);
void cmd_table_number(struct cmd_table *table, uint64_t number);
void cmd_table_real(struct cmd_table *table, double number);    /* with one decimal */
void cmd_table_count(struct cmd_table *table, uint64_t number); /* see `seconds` */
/* Microseconds, made of what was counted: the mean, or another time of enum stats_kind. */
void cmd_table_time(struct cmd_table *table, const struct directnfs_latency *counted,
                    enum stats_kind which);

/* The place of a column by its name or key, in upper or lower case. -1: there is none. */
int cmd_column_find(const struct cmd_column *columns, size_t count, const char *name);
/* Sorts the rows: numbers from the largest, texts from A; or in reverse. */
void cmd_table_sort(struct cmd_table *table, size_t column, bool reverse);

/* Leaves out columns that have no room, as `drop` says. The others go to `kept`, which has room for
 * all columns. `width` 0: no limit. */
void cmd_table_drop(struct cmd_table *table, struct cmd_column *kept, size_t width);
/* Prints a heading and the rows in `width` columns (0: no limit), or `none`. */
void cmd_table_print(const struct cmd_table *table, size_t width, FILE *out);
/* Writes the table as an array of objects. */
void cmd_json_table(struct cmd_json *json, const char *key, const struct cmd_table *table);

void cmd_table_free(struct cmd_table *table);

/* Numbers for people, at most 6 characters: "0", "0.4", "123", "12.3k", "4.56G". Times are given in
 * microseconds: "87us", "1.23ms", "45.6s". */
enum { CMD_BRIEF = 16 };
const char *cmd_brief(char text[CMD_BRIEF], double number);
const char *cmd_brief_time(char text[CMD_BRIEF], double microseconds);
/* "1,234,567.8", from digits and perhaps a point and more digits. Other text is unchanged. */
enum { CMD_MARKED = 40 };
const char *cmd_mark_thousands(char text[CMD_MARKED], const char *digits);

#endif
