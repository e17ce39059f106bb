/* The library's own threads: they work where no thread of the application waits. */
#ifndef SYS_THREAD_H
#define SYS_THREAD_H

#include <stdbool.h>

/*
 * Starts a detached thread with a small stack and all signals blocked. `function` begins with
 * sys_critical_enter(), so that its calls are the library's own. `purpose` completes the sentence
 * "no thread for ... could be started".
 *
 * False: there is no thread. The log says so if one cannot be made, and none is tried for the next
 * half minute. None is started from another network namespace than the process began in, as it
 * could connect to nothing.
 */
bool sys_thread_start(void *(*function)(void *argument), void *argument, const char *purpose);

/* The first thread of the process is about to end. libc ends the process with its last thread, but
 * ours never end. From now on exit(3) ends the process when only ours are left. */
void sys_thread_first_ends(void);

/* Has the process only one thread besides ours? Its first one counts as long as it lives. False
 * without /proc, as it is not known then. */
bool sys_thread_alone(void);

/* In the child of fork(): it has no thread of ours. */
void sys_thread_fork_child(void);

/* No thread can be started from now on. For a child that libc did not fork: another thread of the
 * parent may have held the locks of malloc(). */
void sys_thread_forbid(void);

#endif
