/*
 * System calls that a program makes itself: see sys/code.h. Here they are looked for in its file.
 */
#ifndef CMD_CODE_H
#define CMD_CODE_H

#include "cmd/check/elf.h"
#include "sys/code.h"

/* What was found in a file. */
struct code_calls {
    struct sys_code_calls calls;
    bool uring_number; /* syscall(2) may be called for io_uring_setup */
    uint64_t bytes;    /* of code */
};

/* Reads all code of the file; what cannot be read is left out. */
void code_search(const struct elf_file *file, struct code_calls *calls);

#endif
