/*
 * directnfs top: the rows of a view, as text and as numbers to sort by.
 */
#ifndef CMD_TOP_TABLE_H
#define CMD_TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/top_model.h"

enum top_view { TOP_PATHS, TOP_PROCESSES, TOP_FILES, TOP_CALLS, TOP_VIEWS };
enum { TOP_COLUMNS = 17 };

/* How a row or a word is to be seen. */
enum top_mark { TOP_PLAIN, TOP_GOOD, TOP_NOTICE, TOP_WARNING, TOP_BAD };

struct top_column {
    const char *name;
    const char *total; /* its name when totals are shown; NULL: the same */
    unsigned drop;     /* no room: those with the highest number go first, together; 0: never */
    bool number;       /* right-aligned; sorted with the highest first */
    bool wide;         /* takes what room is left */
    bool end;          /* when it is cut, its end is kept */
    bool history;      /* a sparkline instead of text */
    bool state;        /* shown as the row's mark says */
};

struct top_cell {
    char *text; /* printable */
    double number;
};

struct top_row {
    uint64_t key;  /* the same thing has the same key at each update */
    size_t source; /* index in the list that the rows were made of */
    uint32_t pid;  /* of the process; 0: of none */
    enum top_mark mark;
    const struct top_history *history; /* of the model; may be NULL */
    struct top_cell cells[TOP_COLUMNS];
};

/* What a view shows and how; `sort` is an index of its columns. */
struct top_choice {
    enum top_view view;
    bool totals; /* since the reset, instead of rates */
    struct {
        unsigned column;
        bool reverse;
    } sort[TOP_VIEWS];
};

/* Owned by the caller; freed by top_table_free(). Valid until the model is updated. */
struct top_table {
    const struct top_column *columns;
    unsigned column_count;
    struct top_row *rows;
    size_t count;
    const char *none; /* a sentence for a table without rows */
};

extern const char *const top_view_names[TOP_VIEWS]; /* in small letters */

/* The choice at the start. */
void top_choice_begin(struct top_choice *choice);

/* Fills the rows, sorted. Without memory some are missing. */
void top_table_make(struct top_table *table, const struct top_model *model,
                    const struct top_choice *choice);
void top_table_free(struct top_table *table);

/* Numbers for people, at most 6 characters: "0", "0.4", "123", "12.3k", "4.56G"; and times given in
 * microseconds: "87us", "1.23ms", "45.6s". */
enum { TOP_NUMBER = 16 };
const char *top_number(char text[TOP_NUMBER], double number);
const char *top_time(char text[TOP_NUMBER], double microseconds);

#endif
