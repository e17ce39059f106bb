/*
 * directnfs top: the terminal. The only place that knows curses.
 */
#ifndef CMD_TOP_SCREEN_H
#define CMD_TOP_SCREEN_H

#include "cmd/top/grid.h"

/* Takes over the terminal on standard input and output. CMD_FINE, or another exit status after a
 * complaint. */
int top_screen_begin(void);

/* Gives the terminal back; harmless without top_screen_begin(). */
void top_screen_end(void);

/* The terminal's size now. */
void top_screen_size(int *height, int *width);

/* Shows a grid of that size. `repair`: draws all of it again. */
void top_screen_show(const struct top_grid *grid, bool repair);

/* Keys that are not characters. Other keys are their ASCII codes. */
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
    TOP_KEY_NONE = -1,   /* no key came, or the size changed */
    TOP_KEY_GONE = -2,   /* the terminal is gone, or a signal asks to end */
};

/* Waits up to `seconds` for a key. */
int top_screen_key(double seconds);

#endif
