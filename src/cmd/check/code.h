/* Finds system calls that a program makes itself in its file: see sys/code.h. */
#ifndef CMD_CODE_H
#define CMD_CODE_H

#include "cmd/check/elf.h"
#include "sys/code.h"

/* What was found in a file. */
struct code_calls {
    struct sys_code_calls calls;
    bool uring_number; /* it may call syscall(2) for io_uring_setup */
    uint64_t bytes;    /* of code */
};

/* Searches all code of the file. What cannot be read is left out. */
void code_search(const struct elf_file *file, struct code_calls *calls);

#endif
