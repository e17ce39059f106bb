/*
 * What is said on the log only now and then, by all processes of one user on this host together: a
 * server that hundreds of processes wait for is one piece of news. Processes whose logs are in
 * different places each say it.
 */
#ifndef RUN_SAID_H
#define RUN_SAID_H

#include <stdbool.h>

/*
 * True once in `interval_s` for this subject, any text. Kept in the file `said` of the run
 * directory; of this process alone where that cannot be used. Always true once hundreds of
 * subjects were said lately.
 */
bool run_may_say(const char *subject, unsigned interval_s);

/* It is no longer so: the next time is news. */
void run_said_forget(const char *subject);

/* The run directory is another one. */
void run_said_move(void);

#endif
