/* What a test's log says. */
#ifndef UNIT_LOG_LINES_H
#define UNIT_LOG_LINES_H

#include <stdio.h>
#include <string.h>

/* Lines of this file that have the text; 0 where there is none. */
unsigned lines_with(const char *log, const char *text);

#endif
