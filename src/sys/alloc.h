/*
 * Memory of the library's own, apart from malloc().
 *
 * A handler of a signal may call open(), read() or close() while the program is inside malloc(),
 * whose locks its thread then holds. In the library handlers do not run (sys/critical.h), so the
 * lock here is never held by who is interrupted. Nothing of it is inherited half done by fork().
 */
#ifndef SYS_ALLOC_H
#define SYS_ALLOC_H

#include <stddef.h>

/* As malloc(), calloc() with one element, realloc() and free(). NULL: there is no memory. */
void *sys_alloc(size_t size);
void *sys_alloc_zeroed(size_t size);
void *sys_realloc(void *memory, size_t size);
void sys_free(void *memory);

/* Around fork(), as the last lock and the first. */
void sys_alloc_fork_prepare(void);
void sys_alloc_fork_done(void);

#endif
