/* Threads of the library's own: where nobody of the application waits. */
#ifndef SYS_THREAD_H
#define SYS_THREAD_H

#include <stdbool.h>

/*
 * Starts a detached thread with a small stack and all signals blocked, for ever in a critical
 * section: calls made there are the library's own. Says so on the log when it cannot; `purpose`
 * completes the sentence "no thread for ... could be started".
 */
bool sys_thread_start(void *(*function)(void *argument), void *argument, const char *purpose);

#endif
