#include "sys/code.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

/* How many bytes before the instruction the number may be loaded; fewer if a register is cleared,
 * which code does all the time. */
#define LOOK_BACK      ((size_t)40)
#define LOOK_BACK_ZERO ((size_t)12)
#define NUMBER_MAX     1024u

/* clang-format off */
#define CALL(name)   {SYS_##name, #name, false},
#define PASSES(name) {SYS_##name, #name, true},
/*
 * Calls that can move data of files past the library. Some are only a sign of it and do not count:
 * opening a file; read(2), as its number 0 is a guess; and io_uring_enter(2), as a ring comes from
 * io_uring_setup(2).
 */
static const struct {
    int number;
    const char *name;
    bool passes;
} file_calls[] = {
#ifdef SYS_open
    CALL(open) CALL(creat)
#endif
    CALL(openat) CALL(openat2) CALL(open_by_handle_at) CALL(read) PASSES(write)
    PASSES(readv) PASSES(writev) PASSES(pread64) PASSES(pwrite64) PASSES(preadv)
    PASSES(pwritev) PASSES(preadv2) PASSES(pwritev2) PASSES(fsync) PASSES(fdatasync)
    PASSES(sync_file_range) PASSES(ftruncate) PASSES(truncate) PASSES(fallocate) PASSES(sendfile)
    PASSES(copy_file_range) PASSES(splice) CALL(io_setup) PASSES(io_submit) CALL(io_getevents)
    PASSES(io_uring_setup) CALL(io_uring_enter) CALL(io_uring_register)
};
/* clang-format on */

#define FILE_CALLS (sizeof(file_calls) / sizeof(file_calls[0]))
_Static_assert(FILE_CALLS <= SYS_CODE_CALLS_MAX, "room for each call");

const char *sys_code_name(unsigned index)
{
    return index < FILE_CALLS ? file_calls[index].name : NULL;
}

bool sys_code_passes(unsigned index)
{
    return index < FILE_CALLS && file_calls[index].passes;
}

bool sys_code_is_known(const char *soname)
{
    static const char *const names[] = {
        "ld-linux",     "libc.so.",         "libpthread.so.", "librt.so.",    "libaio.so.",
        "liburing.so.", "libasan.so.",      "libtsan.so.",    "libubsan.so.", "liblsan.so.",
        "libclang_rt.", "liburing-ffi.so.", "libdirectnfs.so"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(soname, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static uint32_t word_at(const uint8_t *code)
{
    uint32_t word;
    memcpy(&word, code, sizeof(word));
    return word;
}

/* What follows the opcode of an instruction: a byte that names registers or memory (MODRM), and so
 * many bytes of a number. LONG: 4, or 2 with the prefix 66. */
enum { NONE = 0, BYTE = 1, LONG = 4, MODRM = 16, BAD = 64 };

/* clang-format off */
static int form_of_one(uint8_t opcode)
{
    if (opcode < 0x40)
        return (opcode & 7) < 4 ? MODRM : (opcode & 7) == 4 ? BYTE : (opcode & 7) == 5 ? LONG : BAD;
    switch (opcode) {
    case 0x50 ... 0x5f: case 0x90 ... 0x99: case 0x9b ... 0x9f: case 0xa4 ... 0xa7:
    case 0xaa ... 0xaf: case 0xc3: case 0xc9: case 0xcc: case 0xf4: case 0xf5: case 0xf8 ... 0xfd:
        return NONE;
    case 0x63: case 0x84 ... 0x8f: case 0xd0 ... 0xd3: case 0xd8 ... 0xdf: case 0xfe: case 0xff:
    case 0xf6: case 0xf7:
        return MODRM;
    case 0x6b: case 0x80: case 0x83: case 0xc0: case 0xc1: case 0xc6:
        return MODRM | BYTE;
    case 0x69: case 0x81: case 0xc7:
        return MODRM | LONG;
    case 0x6a: case 0x70 ... 0x7f: case 0xa8: case 0xb0 ... 0xb7: case 0xcd: case 0xe0 ... 0xe3:
    case 0xeb:
        return BYTE;
    case 0x68: case 0xa9: case 0xb8 ... 0xbf: case 0xe8: case 0xe9:
        return LONG;
    default:
        return BAD;
    }
}

/* Opcodes after 0f. */
static int form_of_two(uint8_t opcode)
{
    switch (opcode) {
    case 0x05: case 0x0b: case 0x31: case 0x77: case 0xa2: case 0xc8 ... 0xcf:
        return NONE;
    case 0x80 ... 0x8f:
        return LONG;
    case 0x70 ... 0x73: case 0xa4: case 0xac: case 0xba: case 0xc2: case 0xc4 ... 0xc6:
        return MODRM | BYTE;
    case 0x10 ... 0x1f: case 0x28 ... 0x2f: case 0x40 ... 0x6f: case 0x74 ... 0x76:
    case 0x7c ... 0x7f: case 0x90 ... 0x9f: case 0xa3: case 0xa5: case 0xab: case 0xad ... 0xb9:
    case 0xbb ... 0xc1: case 0xc3: case 0xc7: case 0xd0 ... 0xfe:
        return MODRM;
    default:
        return BAD;
    }
}

/* clang-format on */

/* The length of the byte MODRM and of what it asks for. */
static size_t modrm_length(const uint8_t *code, size_t room)
{
    uint8_t mode = code[0] >> 6, memory = code[0] & 7;
    size_t length = 1;
    if (mode == 3)
        return length;
    bool base = memory == 5;
    if (memory == 4) {
        base = room > 1 && (code[1] & 7) == 5;
        length++;
    }
    return length + (mode == 1 ? 1 : mode == 2 || base ? 4 : 0);
}

/* The length of the instruction there; 0: no such instruction comes before a system call. */
static size_t length_x86(const uint8_t *code, size_t room)
{
    size_t at = 0;
    bool small = false, wide = false;
    while (at < room && (code[at] == 0x66 || code[at] == 0xf2 || code[at] == 0xf3 ||
                         code[at] == 0x64 || code[at] == 0x2e))
        small |= code[at++] == 0x66;
    if (at < room && (code[at] & 0xf0) == 0x40)
        wide = code[at++] & 8;
    if (at + 1 >= room)
        return at < room && form_of_one(code[at]) == NONE ? at + 1 : 0;
    uint8_t opcode = code[at++];
    int form = opcode == 0x0f ? form_of_two(code[at++]) : form_of_one(opcode);
    if (form == BAD || ((form & MODRM) && at >= room))
        return 0;
    if ((opcode == 0xf6 || opcode == 0xf7) && (code[at] & 0x30) == 0) /* test */
        form |= opcode == 0xf6 ? BYTE : LONG;
    if (form & MODRM)
        at += modrm_length(code + at, room - at);
    size_t number = form & (BYTE | LONG);
    if (number == LONG && small)
        number = 2;
    if (wide && opcode >= 0xb8 && opcode <= 0xbf)
        number = 8;
    return at + number <= room ? at + number : 0;
}

/* Do whole instructions lead from `from` to `at`? */
static bool leads_to(const uint8_t *code, size_t from, size_t at)
{
    for (size_t length; from < at; from += length)
        if ((length = length_x86(code + from, at - from)) == 0)
            return false;
    return true;
}

/* The number that the nearest instruction before `at` puts into the register eax; -1: none. */
static int number_x86(const uint8_t *code, size_t at)
{
    size_t lowest = at > LOOK_BACK ? at - LOOK_BACK : 0;
    for (size_t i = at; i-- > lowest;) {
        const uint8_t *c = code + i;
        size_t room = at - i;
        int number = -1;
        /* mov $NUMBER,%eax, without a prefix that makes it another register */
        if (room >= 5 && c[0] == 0xb8 && word_at(c + 1) < NUMBER_MAX &&
            (i == 0 || (c[-1] & 0xf1) != 0x41))
            number = (int)word_at(c + 1);
        /* mov $NUMBER,%rax */
        else if (room >= 7 && c[0] == 0x48 && c[1] == 0xc7 && c[2] == 0xc0 &&
                 word_at(c + 3) < NUMBER_MAX)
            number = (int)word_at(c + 3);
        /* xor %eax,%eax */
        else if (room >= 2 && room <= LOOK_BACK_ZERO && (c[0] == 0x31 || c[0] == 0x33) &&
                 c[1] == 0xc0)
            number = 0;
        if (number >= 0 && leads_to(code, i, at))
            return number;
    }
    return -1;
}

/*
 * Is the pair of bytes at `at` more likely a part of an operand? The high bytes of an offset or a
 * constant are mostly 0. Or the instruction before it takes one: call, jmp, a conditional jump,
 * test, or an access relative to %rip.
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

void sys_code_scan_x86(const uint8_t *code, size_t start, size_t size,
                       void (*seen)(void *argument, int number), void *argument)
{
    /* Search for the second byte, which is the rarer one. */
    const uint8_t *at = code + start, *end = code + size;
    while (at < end && (at = memchr(at, 0x05, (size_t)(end - at))) != NULL) {
        size_t place = (size_t)(at++ - code) - 1;
        if (place + 1 > start && code[place] == 0x0f && !is_operand_x86(code, place, size))
            seen(argument, number_x86(code, place));
    }
}

void sys_code_scan_arm(const uint8_t *code, size_t start, size_t size,
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
    struct sys_code_calls *calls = argument;
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

void sys_code_look(const uint8_t *code, size_t start, size_t size, struct sys_code_calls *calls)
{
#if defined(__x86_64__)
    sys_code_scan_x86(code, start, size, count, calls);
#elif defined(__aarch64__)
    sys_code_scan_arm(code, start, size, count, calls);
#else
    (void)code, (void)start, (void)size, (void)calls, (void)count;
#endif
}

static bool is_wait(long number)
{
    switch (number) {
#ifdef SYS_select
    case SYS_select:
    case SYS_poll:
    case SYS_epoll_wait:
    case SYS_pause:
#endif
    case SYS_pselect6:
    case SYS_ppoll:
    case SYS_epoll_pwait:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_wait4:
    case SYS_waitid:
        return true;
    default:
        return false;
    }
}

#if defined(__x86_64__)
static void last(void *argument, int number)
{
    *(int *)argument = number;
}

bool sys_code_waited(const ucontext_t *context)
{
    enum { PAGE = 4096, BEFORE = 32, INSTRUCTION = 2 };
    const uint8_t *at = (const uint8_t *)context->uc_mcontext.gregs[REG_RIP]; /* behind the call */
    size_t size = (uintptr_t)at % PAGE < BEFORE ? (uintptr_t)at % PAGE : BEFORE;
    int number = -1;
    if (context->uc_mcontext.gregs[REG_RAX] != -EINTR || size < INSTRUCTION)
        return false;
    sys_code_scan_x86(at - size, size - INSTRUCTION, size, last, &number);
    return is_wait(number);
}
#elif defined(__aarch64__)
bool sys_code_waited(const ucontext_t *context)
{
    enum { SUPERVISOR_CALL = 0xd4000001 };
    uint32_t before = *(const uint32_t *)(context->uc_mcontext.pc - 4);
    return (long)context->uc_mcontext.regs[0] == -EINTR && before == SUPERVISOR_CALL &&
           is_wait((long)context->uc_mcontext.regs[8]);
}
#else
bool sys_code_waited(const ucontext_t *context)
{
    (void)context;
    return false;
}
#endif

uint64_t sys_code_passing(const struct sys_code_calls *calls)
{
    uint64_t passing = 0;
    for (unsigned i = 0; i < FILE_CALLS; i++)
        if (calls->files[i] > 0 && file_calls[i].passes)
            passing |= UINT64_C(1) << i;
    return passing;
}
