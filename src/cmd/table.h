/*
 * Tables: what `directnfs stat`, `top` and `path list` show.
 */
#ifndef CMD_TABLE_H
#define CMD_TABLE_H

#include "cmd/print.h"
#include "stats/read.h"

enum cmd_kind {
    CMD_TEXT,
    CMD_NUMBER,    /* right-aligned; the largest comes first; without quotes in JSON */
    CMD_CUT_END,   /* text that may lose its end, */
    CMD_CUT_START, /* or its start */
};

struct cmd_column {
    const char *name; /* as people see it; JSON has it in lower case */
    enum cmd_kind kind;
    const char *key; /* its name in JSON; NULL: the same */
    unsigned drop;   /* no room: those with the highest number go first, together; 0: never */
    /* On the screen of `directnfs top`: */
    const char *total; /* its name when totals are shown; NULL: the same */
    bool wide;         /* takes what room is left */
    bool history;      /* a sparkline instead of text */
    bool state;        /* has the row's look */
};

/* The columns of a table may be a list of COLUMN(name, kind, cell, ...): what a cell gets, and how
 * the column is on the screen. Such a list makes both the columns and a row. */
#define CMD_AS_COLUMN(title, is, cell, ...) {.name = (title), .kind = (is), __VA_ARGS__},
#define CMD_AS_CELL(title, is, cell, ...)   cell;

struct cmd_cell {
    char *text; /* printable */
    double number;
};

/* A row, and for `directnfs top` the thing that it shows. */
struct cmd_row {
    size_t source; /* rows that are equal stand in this order; its number, or what top sets */
    uint64_t key;  /* the same thing has the same key at each update */
    uint32_t pid;  /* of the process; 0: of none */
    unsigned look; /* of its state; enum top_look */
    const struct top_history *history; /* of the model; may be NULL */
    struct cmd_cell *cells;
};

/*
 * A table that is filled row by row. Zero-initialised, then `columns` set; owned by the caller,
 * freed by cmd_table_free(). When the terminal is too narrow, texts of columns that may be cut are
 * shortened, and if that is not enough the first `key_columns` are repeated in parts that fit.
 */
struct cmd_table {
    const struct cmd_column *columns;
    size_t column_count;
    size_t key_columns;
    size_t first_part; /* where it has no room: columns in the first part; 0: those that fit */
    const char *none;  /* a sentence for a table without rows */
    bool for_people;   /* not for cmd_json_table(): numbers may be words, and in columns of
                          microseconds thousands are marked */
    bool brief;        /* numbers have 6 characters at most, see cmd_brief() */
    bool unknown;      /* counts and times are not known yet: "-" */
    double seconds;    /* counts are shown per second, as of so many; 0: as they are */
    struct cmd_row *rows;
    size_t count;
    size_t cell; /* of the last row: the next one */
};

/* Begins a row; the first cell behind a complete row does it, too. */
struct cmd_row *cmd_table_begin(struct cmd_table *table);
/* The next cell; a row is complete when every column has its cell. */
void cmd_table_cell(struct cmd_table *table, const char *text, size_t limit, double number);
void cmd_table_text(struct cmd_table *table, const char *text, size_t limit);
void cmd_table_number(struct cmd_table *table, uint64_t number);
void cmd_table_real(struct cmd_table *table, double number);    /* with one decimal */
void cmd_table_count(struct cmd_table *table, uint64_t number); /* see `seconds` */
/* Microseconds out of what was counted: the mean, or another time of enum stats_kind. */
void cmd_table_time(struct cmd_table *table, const struct directnfs_latency *counted,
                    enum stats_kind which);

/* The place of a column by its name or key, in upper or lower case; -1: there is none. */
int cmd_column_find(const struct cmd_column *columns, size_t count, const char *name);
/* Sorts the rows that are there: numbers from the largest, texts from A; or reverse. */
void cmd_table_sort(struct cmd_table *table, size_t column, bool reverse);

/* Leaves out columns where there is no room, as `drop` says; the rest is in `kept`, which has room
 * for all of them. No limit if `width` is 0. */
void cmd_table_drop(struct cmd_table *table, struct cmd_column *kept, size_t width);
/* Prints a heading and the rows in `width` columns (0: no limit), or `none`. */
void cmd_table_print(const struct cmd_table *table, size_t width, FILE *out);
/* The table as an array of objects. */
void cmd_json_table(struct cmd_json *json, const char *key, const struct cmd_table *table);

void cmd_table_free(struct cmd_table *table);

/* Numbers for people, at most 6 characters: "0", "0.4", "123", "12.3k", "4.56G"; and times given in
 * microseconds: "87us", "1.23ms", "45.6s". */
enum { CMD_BRIEF = 16 };
const char *cmd_brief(char text[CMD_BRIEF], double number);
const char *cmd_brief_time(char text[CMD_BRIEF], double microseconds);
/* "1,234,567.8", of digits and perhaps a point and more digits; what is none stays as it is. */
enum { CMD_MARKED = 40 };
const char *cmd_mark_thousands(char text[CMD_MARKED], const char *digits);

#endif
