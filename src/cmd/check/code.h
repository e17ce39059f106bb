/*
 * System calls that a program makes itself, without the C library: no preloaded library sees them.
 */
#ifndef CMD_CODE_H
#define CMD_CODE_H

#include "cmd/check/elf.h"

/*
 * Looks through machine code for instructions that enter the kernel. `seen` is called for each with
 * the number of the call, or -1 when no instruction shortly before it loads one.
 *
 * The search is linear and knows no instruction boundaries. On x86-64 an instruction is two bytes
 * (0f 05), which stand in offsets and constants too: places that look like those are left out. What
 * is left may be chance still, and what is left out may be a call, but either is rare.
 */
void code_scan_x86(const uint8_t *code, size_t start, size_t size,
                   void (*seen)(void *argument, int number), void *argument);
void code_scan_arm(const uint8_t *code, size_t start, size_t size,
                   void (*seen)(void *argument, int number), void *argument);

enum { CODE_CALLS_MAX = 64 };

/* What was found in a file. */
struct code_calls {
    unsigned files[CODE_CALLS_MAX]; /* for code_name(): calls of files, how often */
    unsigned total;                 /* their sum */
    unsigned others;                /* other numbers (futex, clock_gettime, ...) */
    unsigned unknown;               /* without a number: chance, or a function like syscall(2) */
    bool uring_number;              /* syscall(2) may be called for io_uring_setup */
    uint64_t bytes;                 /* of code */
};

/* The name of call `index` of `files`; NULL beyond the last. */
const char *code_name(unsigned index);

/* Reads all code of the file; what cannot be read is left out. */
void code_search(const struct elf_file *file, struct code_calls *calls);

#endif
