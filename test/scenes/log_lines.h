/* What a test's log says. */
#ifndef UNIT_LOG_LINES_H
#define UNIT_LOG_LINES_H

#include <stdio.h>
#include <string.h>

/* Lines of this file that have the text; 0 where there is none. */
static inline unsigned lines_with(const char *log, const char *text)
{
    char line[1100];
    unsigned count = 0;
    FILE *file = fopen(log, "re");
    while (file && fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return count;
}

#endif
