/*
 * directnfs top: the rows of a view, as text and as numbers to sort by.
 */
#ifndef CMD_TOP_TABLE_H
#define CMD_TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/table.h"
#include "cmd/top/grid.h"
#include "cmd/top/model.h"

enum top_view { TOP_PATHS, TOP_PROCESSES, TOP_FILES, TOP_CALLS, TOP_VIEWS };
enum { TOP_COLUMNS = 17 };

/* What a view shows and how; `sort` is an index of its columns. */
struct top_choice {
    enum top_view view;
    bool totals; /* since the reset, instead of rates */
    struct {
        unsigned column;
        bool reverse;
    } sort[TOP_VIEWS];
};

extern const char *const top_view_names[TOP_VIEWS]; /* in small letters */

/* The choice at the start. */
void top_choice_begin(struct top_choice *choice);

/* Makes the rows, sorted. Freed by cmd_table_free(); valid until the model is updated. */
void top_table_make(struct cmd_table *table, const struct top_model *model,
                    const struct top_choice *choice);

#endif
