/*
 * What `directnfs check --program` reads of a program. The input is the file. Strings end, and no
 * more code is looked at than is there.
 */
#include <string.h>
#include <sys/mman.h>

#include "../../src/cmd/check/code.c"
#include "../../src/cmd/check/elf.c"
#include "fuzz.h"

static size_t characters;

static void see(const char *text)
{
    if (text)
        characters += strlen(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct elf_file elf;
    struct code_calls calls;
    const char *why = NULL, *needed;
    if (fd < 0)
        fd = memfd_create("elf", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);

    int error = elf_open(&elf, fd, &why);
    must(error == 0 || error == -ENOEXEC || error == -EXDEV || error == -EBADMSG ||
         error == -ENOMEM);
    must(error != -EBADMSG || why != NULL);
    must(elf_machine_name(&elf) != NULL);
    characters = 0;
    for (size_t i = 0; (needed = elf_needed(&elf, i)) != NULL; i++)
        see(needed);
    for (size_t i = 0; i < elf.symbol_count; i++)
        see(elf.symbols[i].name);
    see(elf.interpreter);
    see(elf.soname);
    see(elf.rpath);
    see(elf.runpath);
    elf_defines(&elf, "io_uring_queue_init");
    elf_section(&elf, ".go.buildinfo");
    code_search(&elf, &calls);
    must(calls.bytes <= 2 * elf.size);
    unsigned total = 0;
    for (unsigned i = 0; i < SYS_CODE_CALLS_MAX; i++)
        total += calls.calls.files[i];
    must(total == calls.calls.total);
    elf_close(&elf);
    return 0;
}
