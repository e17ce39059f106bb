/*
 * directnfs top: the content of a screen. It is a grid of characters, which a terminal, a file or a
 * test can take.
 */
#ifndef CMD_TOP_GRID_H
#define CMD_TOP_GRID_H

#include <stdbool.h>
#include <stdio.h>

/* The look of a character; TOP_REVERSE may be added. Text that is too long loses its end; with
 * TOP_CUT_START it loses its beginning. */
enum top_look {
    TOP_LOOK_PLAIN,
    TOP_LOOK_STRONG,
    TOP_LOOK_GOOD,
    TOP_LOOK_NOTICE,
    TOP_LOOK_WARNING,
    TOP_LOOK_BAD,
    TOP_REVERSE = 0x80,
    TOP_CUT_START = 0x100,
};

struct top_place {
    char text[8];       /* one character; empty: the right half of a wide one */
    unsigned char look; /* enum top_look */
};

/* Zero it; top_grid_free() frees it. */
struct top_grid {
    int height, width;
    bool wide; /* the terminal shows UTF-8 */
    struct top_place *places;
};

/* Makes the grid that large, and blank. False: no memory, and it has no places. */
bool top_grid_begin(struct top_grid *grid, int height, int width);
void top_grid_free(struct top_grid *grid);

/*
 * Writes printable text from (row, column) on, in at most `room` columns. A `~` shows that
 * something is missing. It writes nothing outside of the grid. Returns the columns that it took.
 */
int top_grid_put(struct top_grid *grid, int row, int column, int room, unsigned look,
                 const char *text);

/* Changes the look of a part of a row, and not its text. */
void top_grid_look(struct top_grid *grid, int row, int column, int room, unsigned look);

/* Columns that top_grid_put() needs for the text. */
int top_grid_width(const struct top_grid *grid, const char *text);

/* Prints the rows, without looks and without blanks at their ends. */
void top_grid_print(const struct top_grid *grid, FILE *out);

#endif
