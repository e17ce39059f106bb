/* What the fuzzers share: they are more than a search for crashes, each checks what must hold. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Of libFuzzer: one input; -1 keeps it out of the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition) ((condition) ? (void)0 : fuzz_wrong(__FILE__, __LINE__, #condition))

_Noreturn static inline void fuzz_wrong(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: must be, and is not: %s\n", file, line, condition);
    abort();
}

/* Text made for people: terminated, and no byte of it controls a terminal. */
static inline void must_be_printable(const char *text, size_t size)
{
    size_t i = 0;
    for (; i < size && text[i] != '\0'; i++)
        must((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
    must(i < size);
}

#endif
