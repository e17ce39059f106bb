/*
 * directnfs top: what stands where on a screen. A grid of characters, which a terminal, a file or a
 * test takes as it is.
 */
#ifndef CMD_TOP_GRID_H
#define CMD_TOP_GRID_H

#include <stdbool.h>
#include <stdio.h>

/* How a character looks; one of these, and perhaps TOP_REVERSE. Text that is too long loses its
 * end, with TOP_CUT_START its beginning. */
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

/* Zero-initialised; freed by top_grid_free(). */
struct top_grid {
    int height, width;
    bool wide; /* the terminal shows UTF-8 */
    struct top_place *places;
};

/* Makes it that large, and blank. False without memory; it has no places then. */
bool top_grid_begin(struct top_grid *grid, int height, int width);
void top_grid_free(struct top_grid *grid);

/*
 * Writes printable text from (row, column) on, in at most `room` columns; a `~` says that something
 * is missing. Outside of the grid nothing is written. Returns the columns it took.
 */
int top_grid_put(struct top_grid *grid, int row, int column, int room, unsigned look,
                 const char *text);

/* Makes a part of a row look so, without changing what it says. */
void top_grid_look(struct top_grid *grid, int row, int column, int room, unsigned look);

/* Columns that text takes, as top_grid_put() writes it. */
int top_grid_width(const struct top_grid *grid, const char *text);

/* Prints the rows, without looks and without blanks at their ends. */
void top_grid_print(const struct top_grid *grid, FILE *out);

#endif
