/* Threads of the library's own: where nobody of the application waits. */
#ifndef SYS_THREAD_H
#define SYS_THREAD_H

#include <stdbool.h>

/*
 * Starts a detached thread with a small stack and all signals blocked. `function` begins with
 * sys_critical_enter(), so that calls made there are the library's own. Says so on the log when it
 * cannot, and tries no more for half a minute; not in another network namespace than the process
 * began in, where it could connect to nothing. `purpose` completes the sentence "no thread for ...
 * could be started".
 */
bool sys_thread_start(void *(*function)(void *argument), void *argument, const char *purpose);

/*
 * The first thread of the process is about to end without it: libc ends the process with the last
 * thread, but ours never end. From now on it is ended, by exit(3), when only ours are left.
 */
void sys_thread_first_ends(void);

/* Has the process no thread but one and ours? (Its first one counts as long as it lives.) Where
 * /proc cannot be had it is not known to be so. */
bool sys_thread_alone(void);

/* In the child of fork(), which has no thread of ours. */
void sys_thread_fork_child(void);

/* None can be started from now on: in a child that libc did not fork, whose malloc() another thread
 * of the parent may have locked. */
void sys_thread_forbid(void);

#endif
