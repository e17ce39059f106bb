#include "cmd/check/code.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* Bytes of a piece, and the bytes before it that may load numbers. */
#define CHUNK  ((size_t)1 << 20)
#define BEFORE ((size_t)80)

static uint32_t word_at(const uint8_t *code)
{
    uint32_t word;
    memcpy(&word, code, sizeof(word));
    return word;
}

/* mov $SYS_io_uring_setup,%edi, or mov x0 and w0: the first argument of syscall(2). */
static bool loads_uring(const uint8_t *code, size_t start, size_t size, unsigned machine)
{
    if (machine == EM_X86_64) {
        const uint8_t bytes[] = {0xbf, SYS_io_uring_setup & 0xff, SYS_io_uring_setup >> 8, 0, 0};
        return memmem(code, size, bytes, sizeof(bytes)) != NULL;
    }
    for (size_t at = (start + 3) / 4 * 4; at + 4 <= size; at += 4)
        if ((word_at(code + at) & 0x7fffffff) == (0x52800000 | SYS_io_uring_setup << 5))
            return true;
    return false;
}

/* Searches a range of the file in pieces. Each gets enough of the one before to see numbers. */
static void search_range(const struct elf_file *file, uint64_t offset, uint64_t size,
                         struct code_calls *calls)
{
    unsigned machine = file->header.e_machine;
    for (uint64_t done = 0, length; done < size; done += length) {
        uint64_t before = done < BEFORE ? done : BEFORE;
        length = size - done < CHUNK ? size - done : CHUNK;
        /* Two bytes of the next piece: no instruction is cut, and what follows it is seen. */
        uint64_t after = size - done - length < 2 ? size - done - length : 2;
        uint64_t whole = before + length + after;
        uint8_t *code = elf_piece(file, offset + done - before, whole);
        if (code == NULL)
            continue;
        sys_code_look(code, before, whole, &calls->calls);
        calls->uring_number |= loads_uring(code, before, whole, machine);
        calls->bytes += length;
        free(code);
    }
}

void code_search(const struct elf_file *file, struct code_calls *calls)
{
    uint64_t offset, size;
    *calls = (struct code_calls){0};
    /* Damaged headers may name the same bytes many times. */
    for (size_t i = 0; calls->bytes <= file->size && elf_code(file, &i, &offset, &size);)
        search_range(file, offset, size, calls);
}
