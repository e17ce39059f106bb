/*
 * System calls that a program makes itself, without the C library: no preloaded library sees them.
 */
#ifndef SYS_CODE_H
#define SYS_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/*
 * Looks through machine code for instructions that enter the kernel. It calls `seen` for each one
 * with the number of the call, or -1 if no instruction shortly before it loads one.
 *
 * On x86-64 that instruction is two bytes (0f 05), which occur in offsets and constants too. Places
 * that look like those are left out. A number counts only if whole instructions lead from the place
 * where it is loaded. What is found may still be chance, and what is left out may be a call, but
 * either is rare.
 */
void sys_code_scan_x86(const uint8_t *code, size_t start, size_t size,
                       void (*seen)(void *argument, int number), void *argument);
void sys_code_scan_arm(const uint8_t *code, size_t start, size_t size,
                       void (*seen)(void *argument, int number), void *argument);

/* Did the signal whose handler got this context end a wait in the kernel: for descriptors, a time,
 * a signal or a child? False if that cannot be told: glibc 2.41 and newer on x86-64. */
bool sys_code_waited(const ucontext_t *context);

enum { SYS_CODE_CALLS_MAX = 64 };

/* What sys_code_look() found. */
struct sys_code_calls {
    unsigned files[SYS_CODE_CALLS_MAX]; /* how often for each call of files; the index is that of
                                           sys_code_name() */
    unsigned total;                     /* their sum */
    unsigned others;                    /* calls with other numbers (futex, clock_gettime, ...) */
    unsigned unknown; /* calls without a number: chance, or a function like syscall(2) */
};

/* Adds what it finds in code for this machine, from `start` on. The code before `start` may load
 * the number of the first call. */
void sys_code_look(const uint8_t *code, size_t start, size_t size, struct sys_code_calls *calls);

/* The name of call `index` of `files`; NULL beyond the last. */
const char *sys_code_name(unsigned index);
/* Does this call move data of files past the library? */
bool sys_code_passes(unsigned index);
/* A bit for each call of `files` that was found and moves data past the library. */
uint64_t sys_code_passing(const struct sys_code_calls *calls);

/*
 * Are the system calls of a library with this name no sign of anything? That holds for the C
 * library, the sanitizers' libraries (they write reports), and this one. It holds for the libraries
 * of asynchronous I/O, too: their functions have wrappers.
 */
bool sys_code_is_known(const char *soname);

#endif
