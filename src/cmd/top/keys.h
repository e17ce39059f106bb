/*
 * directnfs top: what keys do.
 */
#ifndef CMD_TOP_KEYS_H
#define CMD_TOP_KEYS_H

#include "cmd/top/view.h"

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
};

enum top_action {
    TOP_DRAW,   /* draw again */
    TOP_READ,   /* read a snapshot now, then draw */
    TOP_REPAIR, /* something else may have written on the terminal: read, draw all of it */
    TOP_QUIT,
};

/* Does what a key says. `table` is what was drawn last; it may not fit the model afterwards. */
enum top_action top_press(int key, struct top_ui *ui, struct top_model *model,
                          const struct cmd_table *table);

#endif
