/*
 * The processes that torture.c starts: workers, for several rounds, and visitors, which come in the
 * midst of one. They are under the library if --run says how.
 */
#ifndef FAULT_PROCESSES_H
#define FAULT_PROCESSES_H

#include <sys/wait.h>

#include "agents.h"
#include "control.h"
#include "visitor.h"

enum { VISIT_PATIENCE_S = 2 };

struct words {
    char *words[WORDS_MOST];
};

/* What begins every process: a program that this one is to be started by, and this one. */
struct starting {
    const struct words *run;
    const char *self, *journal;
};

extern pid_t workers[SLOTS_MOST], visitors[VISITORS];

extern unsigned killed; /* workers, in this generation */

extern unsigned orphans; /* visitors that were killed in it */

pid_t worker_start(const struct starting *how, unsigned index);

void worker_kill(unsigned index);

/* ---- visitors ---- */

void visitor_start(const struct starting *how, unsigned index, unsigned round, const char *name);
void visitor_kill(unsigned index);
bool visitors_end(unsigned round);

/* On a machine that has much to do a visitor may not yet have done anything. */
void visitors_wait_busy(void);
void processes_kill(void);

#endif
