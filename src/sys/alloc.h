/*
 * The library's own memory, apart from malloc().
 *
 * A signal handler may call open(), read() or close() while the program is inside malloc(). Its
 * thread then holds malloc()'s locks. No handler runs inside the library (sys/critical.h). So the
 * lock here is never held by the code that a handler interrupts. fork() inherits nothing half done.
 */
#ifndef SYS_ALLOC_H
#define SYS_ALLOC_H

#include <stddef.h>

/* As malloc(), calloc() with one element, realloc() and free(). NULL: there is no memory. */
void *sys_alloc(size_t size);
void *sys_alloc_zeroed(size_t size);
void *sys_realloc(void *memory, size_t size);
void sys_free(void *memory);

/* Around fork(): the last lock to take, and the first to release. */
void sys_alloc_fork_prepare(void);
void sys_alloc_fork_done(void);

#endif
