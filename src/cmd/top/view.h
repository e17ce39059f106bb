/*
 * directnfs top: draws a model on a grid of any size.
 */
#ifndef CMD_TOP_VIEW_H
#define CMD_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/top/grid.h"
#include "cmd/top/table.h"

/* What the person at the keyboard has chosen. */
struct top_ui {
    struct top_choice choice;
    uint64_t selected[TOP_VIEWS]; /* key of the selected row; 0: the first */
    size_t cursor[TOP_VIEWS];     /* where it was last */
    size_t first[TOP_VIEWS];      /* row at the top of the screen */
    size_t page;                  /* rows that fit; set by top_view_draw() */
    double interval;              /* seconds */
    bool paused;
    bool lines;        /* for programs and logs: without histories */
    char message[160]; /* what the last key did; empty: nothing to say */
    char *box;         /* text over the rows that waits for a key; NULL: none */
    size_t box_first;  /* its line at the top */
    bool confirms;     /* `y` in the box does what `pending` says */
    struct cmd_path pending;
};

/* Draws everything. Moves the selection with its row, and to where one is. */
void top_view_draw(struct top_grid *grid, const struct top_model *model,
                   const struct cmd_table *table, struct top_ui *ui);

/* Prints totals and a table of any width, for programs and logs. */
bool top_view_print(const struct top_model *model, const struct cmd_table *table,
                    const struct top_choice *choice, bool wide, FILE *out);

#endif
