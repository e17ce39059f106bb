/* directnfs check --program: ELF files of any content, and system calls in machine code. */
#include <gnu/libc-version.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../src/cmd/check/code.c"
#include "../../src/cmd/check/elf.c"
#include "unit.h"

/* ---- a program in memory ---- */

struct copy {
    unsigned char *bytes;
    size_t size;
    int fd;
};

static void copy_open(struct copy *copy, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    copy->size = (size_t)ftell(file);
    rewind(file);
    copy->bytes = malloc(copy->size);
    assert_non_null(copy->bytes);
    assert_int_equal(fread(copy->bytes, 1, copy->size, file), copy->size);
    fclose(file);
    copy->fd = memfd_create("elf", MFD_CLOEXEC);
    assert_true(copy->fd >= 0);
}

static void copy_write(const struct copy *copy, size_t size)
{
    assert_int_equal(ftruncate(copy->fd, 0), 0);
    assert_int_equal(pwrite(copy->fd, copy->bytes, size, 0), size);
}

static void copy_close(struct copy *copy)
{
    free(copy->bytes);
    close(copy->fd);
}

/* Asks everything that the command asks. */
static int ask(int fd)
{
    struct elf_file elf;
    struct code_calls calls;
    const char *why = NULL;
    size_t characters = 0;
    int error = elf_open(&elf, fd, &why);
    if (error == -EBADMSG)
        assert_non_null(why);
    assert_non_null(elf_machine_name(&elf));
    for (size_t i = 0; elf_needed(&elf, i) != NULL; i++)
        characters += strlen(elf_needed(&elf, i));
    for (size_t i = 0; i < elf.symbol_count; i++)
        characters += strlen(elf.symbols[i].name);
    characters += elf.interpreter ? strlen(elf.interpreter) : 0;
    characters += elf.soname ? strlen(elf.soname) : 0;
    characters += elf_glibc(&elf) < 10000;
    characters += elf.runpath ? strlen(elf.runpath) : 0;
    characters += elf_defines(&elf, "io_uring_queue_init");
    characters += elf_section(&elf, ".go.buildinfo") != NULL;
    code_search(&elf, &calls);
    assert_true(calls.bytes <= 2 * elf.size);
    assert_true(characters < 64 * elf.size + 64);
    elf_close(&elf);
    return error;
}

UNIT_TEST(program_is_read)
{
    struct copy copy;
    struct elf_file elf;
    const char *why;
    bool libc = false, imported = false;
    copy_open(&copy, "/bin/cat");
    copy_write(&copy, copy.size);
    assert_int_equal(elf_open(&elf, copy.fd, &why), 0);
    for (size_t i = 0; elf_needed(&elf, i) != NULL; i++)
        libc = libc || strcmp(elf_needed(&elf, i), "libc.so.6") == 0;
    for (size_t i = 0; i < elf.symbol_count; i++)
        imported =
            imported || (!elf.symbols[i].defined && strcmp(elf.symbols[i].name, "read") == 0);
    assert_true(libc);
    assert_true(imported);
    assert_true(elf.dynamic);
    assert_memory_equal(elf.interpreter, "/lib", 4);
    assert_non_null(elf_section(&elf, ".text"));
    assert_false(elf_defines(&elf, "io_uring_queue_init"));
    elf_close(&elf);
    copy_close(&copy);
}

/* A program whose section headers are gone runs, and its imports are found all the same. */
UNIT_TEST(sections_are_not_needed)
{
    struct copy copy;
    struct elf_file elf;
    struct code_calls calls;
    const char *why;
    copy_open(&copy, "/bin/cat");
    ((Elf64_Ehdr *)copy.bytes)->e_shoff = UINT64_MAX;
    copy_write(&copy, copy.size);
    assert_int_equal(elf_open(&elf, copy.fd, &why), 0);
    assert_int_equal(elf.section_count, 0);
    assert_true(elf.symbol_count > 20);
    code_search(&elf, &calls);
    assert_true(calls.bytes > 1000);
    elf_close(&elf);
    copy_close(&copy);
}

/* Linkers leave out of the hash table what a program only wants from elsewhere: it may be empty. */
UNIT_TEST(imports_are_found_beside_an_empty_hash_table)
{
    struct copy copy;
    struct elf_file elf;
    const char *why;
    uint64_t address = 0, offset = 0, room;
    static const uint32_t empty[] = {1, 1, 1, 0, 0, 0, 0};
    copy_open(&copy, "/bin/cat");
    copy_write(&copy, copy.size);
    assert_int_equal(elf_open(&elf, copy.fd, &why), 0);
    size_t before = elf.symbol_count;
    assert_true(find_entry(&elf, DT_GNU_HASH, &address));
    assert_true(file_offset(&elf, address, &offset, &room));
    elf_close(&elf);
    memcpy(copy.bytes + offset, empty, sizeof(empty));
    copy_write(&copy, copy.size);
    memset(&elf, 0, sizeof(elf));
    assert_int_equal(elf_open(&elf, copy.fd, &why), 0);
    bool imported = false;
    for (size_t i = 0; i < elf.symbol_count; i++)
        imported |= strcmp(elf.symbols[i].name, "read") == 0;
    assert_true(imported && elf.symbol_count > 20 && elf.symbol_count <= before);
    elf_close(&elf);
    copy_close(&copy);
}

/* By the strings alone: what stands in them may be anything. */
UNIT_TEST(newest_version_of_glibc)
{
    static char text[] = "\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0GLIBC_2.\0"
                         "GLIBC_2.99999999999999999999\0xGLIBC_2.77\0GLIBC_ABI_DT_RELR\0GLIBC_2";
    struct elf_file elf = {.strings = {text, sizeof(text) - 1}};
    assert_int_equal(elf_glibc(&elf), 34);
    elf.strings.size = 1;
    assert_int_equal(elf_glibc(&elf), 0);
    elf.strings.size = 0;
    assert_int_equal(elf_glibc(&elf), 0);
}

UNIT_TEST(truncated_program)
{
    struct copy copy;
    copy_open(&copy, "/bin/cat");
    copy_write(&copy, 0);
    assert_int_equal(ask(copy.fd), -ENOEXEC);
    copy_write(&copy, 30);
    assert_int_equal(ask(copy.fd), -EBADMSG);
    copy_write(&copy, 80);
    assert_int_equal(ask(copy.fd), -EBADMSG);
    for (size_t size = 64; size < copy.size; size += copy.size / 50) {
        copy_write(&copy, size);
        ask(copy.fd);
    }
    copy_close(&copy);
}

/* Headers, tables and strings with bytes of chance in them: every answer is one of the known. */
UNIT_TEST(mutated_programs)
{
    enum { ROUNDS = 400, CHANGES = 4 };
    struct copy copy;
    copy_open(&copy, "/bin/cat");
    unsigned char *original = malloc(copy.size);
    assert_non_null(original);
    memcpy(original, copy.bytes, copy.size);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)original;
    size_t sections = header->e_shoff;
    unsigned seed = 12345;
    unsigned read = 0, refused = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < CHANGES; i++) {
            /* What stands in the first pages and in the section headers decides; the rest is code
             * and text. */
            size_t at = (size_t)rand_r(&seed) % (round % 2 ? 4096 : 1024);
            if (round % 4 == 0)
                at = sections + (size_t)rand_r(&seed) % (copy.size - sections);
            /* The first bytes say that it is ELF. */
            copy.bytes[at < 20 ? 20 : at] = round % 3 ? (unsigned char)rand_r(&seed) : 0xff;
        }
        copy_write(&copy, copy.size);
        int error = ask(copy.fd);
        assert_true(error == 0 || error == -EBADMSG || error == -ENOMEM);
        *(error ? &refused : &read) += 1;
        memcpy(copy.bytes, original, copy.size);
    }
    assert_true(read > 0);
    assert_true(refused > 0);
    free(original);
    copy_close(&copy);
}

UNIT_TEST(another_machine)
{
    struct copy copy;
    struct elf_file elf;
    const char *why;
    copy_open(&copy, "/bin/cat");
    ((Elf64_Ehdr *)copy.bytes)->e_machine = EM_S390;
    copy_write(&copy, copy.size);
    assert_int_equal(elf_open(&elf, copy.fd, &why), -EXDEV);
    assert_string_equal(elf_machine_name(&elf), "s390");
    elf_close(&elf);
    copy.bytes[EI_CLASS] = ELFCLASS32;
    copy_write(&copy, copy.size);
    assert_int_equal(elf_open(&elf, copy.fd, &why), -EXDEV);
    assert_string_equal(elf_machine_name(&elf), "a 32-bit machine");
    elf_close(&elf);
    copy_close(&copy);
}

/* ---- code ---- */

struct seen {
    int numbers[8];
    unsigned count;
};

static void note(void *argument, int number)
{
    struct seen *seen = argument;
    assert_true(seen->count < 8);
    seen->numbers[seen->count++] = number;
}

#define X86(seen, ...)                                           \
    do {                                                         \
        static const uint8_t code[] = {__VA_ARGS__};             \
        (seen).count = 0;                                        \
        sys_code_scan_x86(code, 0, sizeof(code), note, &(seen)); \
    } while (0)

UNIT_TEST(x86_numbers)
{
    struct seen seen;
    X86(seen, 0xb8, 0xaa, 0x01, 0x00, 0x00, 0x0f, 0x05, 0xc3); /* mov $426,%eax; syscall; ret */
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.numbers[0], 426);
    X86(seen, 0x48, 0xc7, 0xc0, 0x11, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xc3); /* mov $17,%rax */
    assert_int_equal(seen.numbers[0], 17);
    X86(seen, 0x31, 0xc0, 0x31, 0xff, 0x0f, 0x05, 0xc3); /* xor %eax,%eax; xor %edi,%edi */
    assert_int_equal(seen.numbers[0], 0);
    X86(seen, 0x41, 0xb8, 0x11, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xc3); /* mov $17,%r8d */
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.numbers[0], -1);
    X86(seen, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xb8, 0x02, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xc3);
    assert_int_equal(seen.numbers[0], 2); /* the nearest */
    X86(seen, 0xb8, 0x12, 0, 0, 0, 0x48, 0x8b, 0x74, 0x24, 0x08, 0x41, 0xba, 0x0f, 0, 0, 0, 0x0f,
        5);
    assert_int_equal(seen.numbers[0], 18); /* mov $18,%eax; mov 8(%rsp),%rsi; mov $15,%r10d */
    X86(seen, 0x0f, 0x05);
    assert_int_equal(seen.numbers[0], -1);
    X86(seen, 0x0f);
    assert_int_equal(seen.count, 0);
}

/* The same two bytes in operands, as compilers write them. */
UNIT_TEST(x86_chance)
{
    struct seen seen;
    X86(seen, 0x31, 0xc0, 0x48, 0x8d, 0x35, 0x53, 0x0f, 0x05, 0x00, 0x48); /* lea 0x50f53(%rip) */
    assert_int_equal(seen.count, 0);
    X86(seen, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xe8, 0x0f, 0x05, 0xd8, 0xff); /* call */
    assert_int_equal(seen.count, 0);
    X86(seen, 0x90, 0x90, 0xa9, 0x0f, 0x05, 0x20, 0x5b); /* test $0x5b20050f,%eax */
    assert_int_equal(seen.count, 0);
    X86(seen, 0x48, 0x03, 0x15, 0x0f, 0x05, 0x2f, 0x12); /* add 0x122f050f(%rip),%rdx */
    assert_int_equal(seen.count, 0);
    X86(seen, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xa9, 0xfc, 0xff, 0x0f, 0x05, 0x0f); /* the same */
    assert_int_equal(seen.count, 0);
    X86(seen, 0x31, 0xff, 0xe8, 0xef, 0x0f, 0x05, 0xff, 0x49); /* call backwards */
    assert_int_equal(seen.count, 0);
    X86(seen, 0x90, 0x0f, 0x84, 0x0f, 0x05, 0x11, 0x12); /* je */
    assert_int_equal(seen.count, 0);
    X86(seen, 0xb8, 0x01, 0, 0, 0, 0xb9, 0x11, 0x0f, 0x05, 0x11); /* mov $1,%eax; mov $N,%ecx */
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.numbers[0], -1);
    X86(seen, 0xb8, 0x01, 0, 0, 0, 0x48, 0x8d, 0x84, 0x24, 0x11, 0x0f, 0x05,
        0x11); /* lea N(%rsp) */
    assert_int_equal(seen.numbers[0], -1);
}

UNIT_TEST(arm_numbers)
{
    struct seen seen = {0};
    static const uint32_t code[] = {
        0xd2803548, /* mov x8,#426 */
        0xaa0203e3, /* mov x3,x2 */
        0xd4000001, /* svc #0 */
        0xd65f03c0, /* ret */
        0x528007e8, /* mov w8,#63 */
        0xd4000001,
    };
    sys_code_scan_arm((const uint8_t *)code, 0, sizeof(code), note, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.numbers[0], 426);
    assert_int_equal(seen.numbers[1], 63);
    seen.count = 0;
    sys_code_scan_arm((const uint8_t *)code, 12, sizeof(code), note, &seen);
    assert_int_equal(seen.count, 1);
}

/* ---- what a signal interrupted ---- */

static _Atomic unsigned waited; /* handlers that saw a wait that ended */

static void see(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    atomic_fetch_add(&waited, sys_code_waited(context));
}

static void *wait_for_a_time(void *unused)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 100}, NULL);
    return unused;
}

static void *wait_for_a_descriptor(void *ends)
{
    struct pollfd look = {.fd = *(int *)ends, .events = POLLIN};
    poll(&look, 1, 100000);
    return ends;
}

/* As a lock of malloc() is waited for: the kernel returns EINTR, too, but the thread is amidst
 * something. */
static void *wait_for_a_lock(void *unused)
{
    static int word;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return unused;
}

static void *compute(void *over)
{
    while (!atomic_load((_Atomic bool *)over))
        ;
    return over;
}

/* Sends signals to a thread that does this until it ends, or for `enough` signals. Has any of their
 * handlers seen a wait that ended? Signals that come before the wait have not. */
static bool interrupted(void *(*does)(void *), void *argument, unsigned enough, _Atomic bool *over)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, does, argument), 0);
    atomic_store(&waited, 0);
    for (unsigned i = 0; pthread_tryjoin_np(thread, NULL) != 0; i++) {
        if (i >= enough)
            atomic_store(over, true);
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    return atomic_load(&waited) > 0;
}

UNIT_TEST(a_signal_that_ends_a_wait_is_told_from_others)
{
    _Atomic bool over = false;
    int ends[2];
    struct sigaction action = {.sa_sigaction = see, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pipe(ends), 0);
    bool time = interrupted(wait_for_a_time, NULL, UINT_MAX, NULL);
    bool descriptor = interrupted(wait_for_a_descriptor, ends, UINT_MAX, NULL);
    bool told = strverscmp(gnu_get_libc_version(), "2.41") < 0; /* see sys_code_waited() */
#ifdef __SANITIZE_THREAD__                                      /* calls handlers later */
    told = false;
#endif
    assert_true(!told || (time && descriptor));
    assert_false(interrupted(wait_for_a_lock, NULL, UINT_MAX, NULL));
    assert_false(interrupted(compute, &over, 50, &over));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
