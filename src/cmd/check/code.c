#include "cmd/check/code.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bytes of code before the instruction in which its number may be loaded; fewer where a register is
 * cleared, which is done all the time. */
#define LOOK_BACK      ((size_t)40)
#define LOOK_BACK_ZERO ((size_t)12)
#define NUMBER_MAX     1024u
#define CHUNK          ((size_t)1 << 20)

/* clang-format off */
#define CALL(name) {SYS_##name, #name},
/* Calls by which data of files would pass by. */
static const struct {
    int number;
    const char *name;
} file_calls[] = {
#ifdef SYS_open
    CALL(open) CALL(creat)
#endif
    CALL(openat) CALL(openat2) CALL(open_by_handle_at) CALL(read) CALL(write)
    CALL(readv) CALL(writev) CALL(pread64) CALL(pwrite64) CALL(preadv)
    CALL(pwritev) CALL(preadv2) CALL(pwritev2) CALL(fsync) CALL(fdatasync)
    CALL(sync_file_range) CALL(ftruncate) CALL(truncate) CALL(fallocate) CALL(sendfile)
    CALL(copy_file_range) CALL(splice) CALL(io_setup) CALL(io_submit) CALL(io_getevents)
    CALL(io_uring_setup) CALL(io_uring_enter) CALL(io_uring_register)
};
/* clang-format on */

#define FILE_CALLS (sizeof(file_calls) / sizeof(file_calls[0]))
_Static_assert(FILE_CALLS <= CODE_CALLS_MAX, "room for each call");

const char *code_name(unsigned index)
{
    return index < FILE_CALLS ? file_calls[index].name : NULL;
}

static uint32_t word_at(const uint8_t *code)
{
    uint32_t word;
    memcpy(&word, code, sizeof(word));
    return word;
}

/* The number in the register eax that the nearest instruction before `at` puts there, or -1. */
static int number_x86(const uint8_t *code, size_t at)
{
    size_t lowest = at > LOOK_BACK ? at - LOOK_BACK : 0;
    for (size_t i = at; i-- > lowest;) {
        const uint8_t *c = code + i;
        size_t room = at - i;
        /* mov $NUMBER,%eax, without a prefix that makes it another register */
        if (room >= 5 && c[0] == 0xb8 && word_at(c + 1) < NUMBER_MAX &&
            (i == 0 || (c[-1] & 0xf1) != 0x41))
            return (int)word_at(c + 1);
        /* mov $NUMBER,%rax */
        if (room >= 7 && c[0] == 0x48 && c[1] == 0xc7 && c[2] == 0xc0 &&
            word_at(c + 3) < NUMBER_MAX)
            return (int)word_at(c + 3);
        /* xor %eax,%eax */
        if (room >= 2 && room <= LOOK_BACK_ZERO && (c[0] == 0x31 || c[0] == 0x33) && c[1] == 0xc0)
            return 0;
    }
    return -1;
}

/*
 * Is the pair of bytes at `at` more likely part of an operand? Then it is an offset or a constant,
 * whose high bytes are 0 mostly, or what stands before it is an instruction that takes one: call,
 * jmp, a conditional jump, test, or an access relative to %rip.
 */
static bool is_operand_x86(const uint8_t *code, size_t at, size_t size)
{
    if (at + 2 < size && code[at + 2] == 0)
        return true;
    if (at < 3)
        return false;
    const uint8_t *c = code + at;
    bool negative = at + 2 < size && c[2] == 0xff;
    return c[-1] == 0xe8 || c[-1] == 0xe9 || (c[-1] & 0xc7) == 0x05 ||
           (c[-2] == 0x0f && (c[-1] & 0xf0) == 0x80) ||
           (negative && (c[-2] == 0xe8 || c[-2] == 0xe9)) || c[-1] == 0xa9 || c[-2] == 0xa9 ||
           c[-3] == 0xa9;
}

void code_scan_x86(const uint8_t *code, size_t start, size_t size,
                   void (*seen)(void *argument, int number), void *argument)
{
    static const uint8_t syscall_bytes[] = {0x0f, 0x05};
    const uint8_t *at = code + start, *end = code + size;
    while (at < end && (at = memmem(at, (size_t)(end - at), syscall_bytes, 2)) != NULL) {
        if (!is_operand_x86(code, (size_t)(at - code), size))
            seen(argument, number_x86(code, (size_t)(at - code)));
        at += 2;
    }
}

void code_scan_arm(const uint8_t *code, size_t start, size_t size,
                   void (*seen)(void *argument, int number), void *argument)
{
    for (size_t at = (start + 3) / 4 * 4; at + 4 <= size; at += 4) {
        if (word_at(code + at) != 0xd4000001) /* svc #0 */
            continue;
        int number = -1;
        for (size_t i = at; i >= 4 && at - i < LOOK_BACK && number < 0; i -= 4) {
            uint32_t word = word_at(code + i - 4);
            /* mov x8,#NUMBER or mov w8,#NUMBER */
            if ((word & 0x7fe0001f) == 0x52800008 && (word >> 5 & 0xffff) < NUMBER_MAX)
                number = (int)(word >> 5 & 0xffff);
        }
        seen(argument, number);
    }
}

static void count(void *argument, int number)
{
    struct code_calls *calls = argument;
    if (number < 0) {
        calls->unknown++;
        return;
    }
    for (unsigned i = 0; i < FILE_CALLS; i++) {
        if (file_calls[i].number == number) {
            calls->files[i]++;
            calls->total++;
            return;
        }
    }
    calls->others++;
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

/* A range of the file in pieces, with enough of the last one before each to see numbers. */
static void search_range(const struct elf_file *file, uint64_t offset, uint64_t size,
                         struct code_calls *calls)
{
    unsigned machine = file->header.e_machine;
    for (uint64_t done = 0, length; done < size; done += length) {
        uint64_t before = done < 2 * LOOK_BACK ? done : 2 * LOOK_BACK;
        length = size - done < CHUNK ? size - done : CHUNK;
        /* Two bytes of the next piece: no instruction is cut in two, and what follows is seen. */
        uint64_t after = size - done - length < 2 ? size - done - length : 2;
        uint64_t whole = before + length + after;
        uint8_t *code = elf_piece(file, offset + done - before, whole);
        if (code == NULL)
            continue;
        (machine == EM_X86_64 ? code_scan_x86 : code_scan_arm)(code, before, whole, count, calls);
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
