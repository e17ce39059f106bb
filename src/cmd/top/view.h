/*
 * directnfs top: the views of a model. table.c makes their rows, view.c draws them on a grid of any
 * size, keys.c does what keys say.
 */
#ifndef CMD_TOP_VIEW_H
#define CMD_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/table.h"
#include "cmd/top/grid.h"
#include "cmd/top/model.h"

enum top_view { TOP_PATHS, TOP_PROCESSES, TOP_FILES, TOP_CALLS, TOP_MOUNTS, TOP_VIEWS };
enum { TOP_COLUMNS = 24 };

/* What a view shows and how. `sort` has an index of its columns. */
struct top_choice {
    enum top_view view;
    bool totals; /* since the reset; else rates */
    struct {
        unsigned column;
        bool reverse;
    } sort[TOP_VIEWS];
};

extern const char *const top_view_names[TOP_VIEWS]; /* in small letters */

/* The choice at the start. */
void top_choice_begin(struct top_choice *choice);

/* Makes the rows, sorted. Valid until the model is updated; free them by cmd_table_free(). */
void top_table_make(struct cmd_table *table, const struct top_model *model,
                    const struct top_choice *choice);

/* The choices of the person at the keyboard. */
struct top_ui {
    struct top_choice choice;
    uint64_t selected[TOP_VIEWS]; /* key of the selected row; 0: the first */
    size_t cursor[TOP_VIEWS];     /* its last place */
    size_t first[TOP_VIEWS];      /* row at the top of the screen */
    size_t page;                  /* rows that fit; set by top_view_draw() */
    double interval;              /* seconds */
    bool paused;
    bool lines;        /* for programs and logs: without histories */
    char message[160]; /* the effect of the last key; may be empty */
    char *box;         /* text over the rows that waits for a key; NULL: none */
    size_t box_first;  /* number of its line at the top */
    bool confirms;     /* `y` in the box does what `pending` says */
    struct cmd_path pending;
};

/* Draws everything. The selection follows its row; if that is gone, it moves to another one. */
void top_view_draw(struct top_grid *grid, const struct top_model *model,
                   const struct cmd_table *table, struct top_ui *ui);

/* Prints totals and a table of any width, for programs and logs. */
bool top_view_print(const struct top_model *model, const struct cmd_table *table,
                    const struct top_choice *choice, bool wide, FILE *out);

enum top_action {
    TOP_DRAW,   /* draw again */
    TOP_REPAIR, /* the terminal may have been written to: read again, and draw all of it */
    TOP_QUIT,
};

/* Does what a key says. `table` was drawn last; afterwards it may not fit the model. */
enum top_action top_press(int key, struct top_ui *ui, struct top_model *model,
                          const struct cmd_table *table);

#endif
