/*
 * The files of the torture program as the kernel sees them, in a process without the library.
 */
#ifndef FAULT_CHECK_H
#define FAULT_CHECK_H

#include <dirent.h>
#include <sys/stat.h>

#include "records.h"

extern unsigned checks;

/* What must be there; taken before what may be lost. */
struct bounds {
    uint32_t least[FILES][BLOCKS];
    struct sized_view sized[SIZED];
    struct log_view logs[LOGS];
};

bool check_files(const struct bounds *bounds, const char *when);
const struct bounds *bounds_now(enum bound bound);
bool check_now(enum bound bound, unsigned round, const char *when);
void files_make(void);

/* ---- sabotage ---- */

/* Is there something to damage? */
bool sabotage_ready(void);
void sabotage(const char *how);

#endif
