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

enum { TOP_SCREEN_NONE = -1, TOP_SCREEN_GONE = -2 };
/* Waits for a key for up to `seconds`. A key (cmd/top/keys.h); TOP_SCREEN_NONE: none came, or the
 * size changed; TOP_SCREEN_GONE: the terminal went away, or a signal asks to end. */
int top_screen_key(double seconds);

#endif
