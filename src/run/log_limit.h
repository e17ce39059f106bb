/*
 * Messages that the log gets only now and then, from all processes of one user on this host
 * together: a server that hundreds of processes wait for is one piece of news. Processes with logs
 * in different places each say it.
 */
#ifndef RUN_LOG_LIMIT_H
#define RUN_LOG_LIMIT_H

#include <stdbool.h>

/*
 * True once in `interval_s` for this subject, which is any text. The file `said` of the run
 * directory remembers it, or this process alone if the file cannot be used. With hundreds of
 * subjects said lately it may be true each time.
 */
bool run_may_say(const char *subject, unsigned interval_s);

/*
 * Would run_may_say() be false, as far as the file tells at one look? False if it does not. Costs
 * less than that for a process that asks only once.
 */
bool run_was_said(const char *subject, unsigned interval_s);

/* The subject is over: the next time it is news. */
void run_said_forget(const char *subject);

/* The run directory has changed. */
void run_said_move(void);

#endif
