/*
 * directnfs top: the terminal. The only place that knows curses.
 */
#ifndef CMD_TOP_SCREEN_H
#define CMD_TOP_SCREEN_H

#include "cmd/top/grid.h"

/* Takes over the terminal that standard input and output are. CMD_FINE, or a complaint and another
 * exit status. */
int top_screen_begin(void);

/* Gives the terminal back; harmless without top_screen_begin(). */
void top_screen_end(void);

/* Its size now. */
void top_screen_size(int *height, int *width);

/* Shows a grid of that size; all of it anew if `repair`. */
void top_screen_show(const struct top_grid *grid, bool repair);

/* Keys that are no characters; others are their ASCII codes. */
enum top_key_code {
    TOP_KEY_UP = 0x100,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_BACK_TAB,
    TOP_KEY_OTHER,
    TOP_KEY_TAB = '\t',
    TOP_KEY_ENTER = '\n',
    TOP_KEY_ESCAPE = 27,
    TOP_KEY_REDRAW = 12, /* control L */
    TOP_KEY_NONE = -1,   /* none came, or the size changed */
    TOP_KEY_GONE = -2,   /* the terminal went away, or a signal asks to end */
};

/* Waits for a key for up to `seconds`. */
int top_screen_key(double seconds);

#endif
