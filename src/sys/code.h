/*
 * System calls that a program makes itself, without the C library: no preloaded library sees them.
 */
#ifndef SYS_CODE_H
#define SYS_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looks through machine code for instructions that enter the kernel. `seen` is called for each with
 * the number of the call, or -1 when no instruction shortly before it loads one.
 *
 * On x86-64 that instruction is two bytes (0f 05), which stand in offsets and constants too: places
 * that look like those are left out, and a number counts only if whole instructions lead from where
 * it is loaded to the place. What is left may be chance still, and what is left out may be a call,
 * but either is rare.
 */
void sys_code_scan_x86(const uint8_t *code, size_t start, size_t size,
                       void (*seen)(void *argument, int number), void *argument);
void sys_code_scan_arm(const uint8_t *code, size_t start, size_t size,
                       void (*seen)(void *argument, int number), void *argument);

enum { SYS_CODE_CALLS_MAX = 64 };

/* What was found. */
struct sys_code_calls {
    unsigned files[SYS_CODE_CALLS_MAX]; /* for sys_code_name(): calls of files, how often */
    unsigned total;                     /* their sum */
    unsigned others;                    /* other numbers (futex, clock_gettime, ...) */
    unsigned unknown; /* without a number: chance, or a function like syscall(2) */
};

/* Adds what is found in code of this machine, from `start` on; what stands before it may have the
 * number of the first call. */
void sys_code_look(const uint8_t *code, size_t start, size_t size, struct sys_code_calls *calls);

/* The name of call `index` of `files`; NULL beyond the last. */
const char *sys_code_name(unsigned index);
/* Does data of files pass the library by with this call? */
bool sys_code_passes(unsigned index);
/* A bit for each call of `files` that was found and passes. */
uint64_t sys_code_passing(const struct sys_code_calls *calls);

/* Does a library of this name make system calls that are no sign of anything? That is the C
 * library; those of asynchronous I/O, whose functions have wrappers; the sanitizers', which write
 * reports; and this one. */
bool sys_code_is_known(const char *soname);

#endif
