/*
 * directnfs check --program and --pid: which calls a program and its libraries make, and which of
 * them the library sees.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "cmd/check/program.h"
#include "cmd/check/code.h"

#define VERSION_SECTION ".directnfs.version"

/* ---- which library is what ---- */

static const char *base_name(const struct program_object *object)
{
    const char *name = object->elf.soname ? object->elf.soname : object->name;
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

bool check_is_ours(const struct program_object *object)
{
    return begins(base_name(object), "libdirectnfs.so");
}

/* The C library makes its system calls itself; so do those of asynchronous I/O, whose functions
 * have wrappers. */
static bool calls_are_its_own(const struct program_object *object)
{
    static const char *const names[] = {"ld-linux",        "libc.so.",   "libpthread.so.",
                                        "librt.so.",       "libaio.so.", "liburing.so.",
                                        "liburing-ffi.so."};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (begins(base_name(object), names[i]))
            return true;
    return check_is_ours(object);
}

char *check_library_version(const struct elf_file *elf)
{
    const Elf64_Shdr *section = elf_section(elf, VERSION_SECTION);
    return section && section->sh_size < 256 ? elf_piece(elf, section->sh_offset, section->sh_size)
                                             : NULL;
}

/* ---- lists of names ---- */

struct names {
    const char **list;
    size_t count;
};

/* Adds a name once; the string stays the caller's. Without memory it is missing. */
static void add_name(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->list[i], name) == 0)
            return;
    const char **more = reallocarray(names->list, names->count + 1, sizeof(*more));
    if (more == NULL)
        return;
    names->list = more;
    more[names->count++] = name;
}

static int by_name(const void *a, const void *b)
{
    const char *first = *(const char *const *)a, *second = *(const char *const *)b;
    return strcmp(first + strspn(first, "_"), second + strspn(second, "_"));
}

static void sort_names(struct names *names)
{
    if (names->count > 0)
        qsort(names->list, names->count, sizeof(*names->list), by_name);
}

/* ---- imports ---- */

/* By these the C library itself works on files, which no wrapper sees. Those that get one are left
 * out by themselves. */
static const char *const escaping[] = {
    "_IO_file_attach", "_IO_file_fopen",     "_IO_file_open",    "_IO_file_read",
    "_IO_file_write",  "__libc_open",        "__libc_open64",    "__libc_read",
    "__libc_write",    "__libc_close",       "__libc_pread",     "__libc_pread64",
    "__libc_pwrite",   "__libc_pwrite64",    "__libc_lseek",     "__libc_lseek64",
    "__libc_fsync",    "__libc_fcntl",       "__open_nocancel",  "__open64_nocancel",
    "__read_nocancel", "__pread64_nocancel", "__write_nocancel", "__close_nocancel",
};

static bool escapes(const char *name)
{
    for (size_t i = 0; i < sizeof(escaping) / sizeof(escaping[0]); i++)
        if (strcmp(escaping[i], name) == 0)
            return !program_wrapped(name);
    return false;
}

static bool imports(const struct program_object *object, const char *name)
{
    for (size_t i = 0; i < object->elf.symbol_count; i++)
        if (!object->elf.symbols[i].defined && strcmp(object->elf.symbols[i].name, name) == 0)
            return true;
    return false;
}

static bool any_imports(const struct program *program, const char *name)
{
    for (size_t i = 0; i < program->count; i++)
        if (!calls_are_its_own(&program->objects[i]) && imports(&program->objects[i], name))
            return true;
    return false;
}

/* Adds the imports of an object that have a wrapper, but for those in `but`. */
static void add_wrapped(struct names *names, const struct program_object *object,
                        const struct names *but)
{
    for (size_t i = 0; i < object->elf.symbol_count; i++) {
        const struct elf_symbol *symbol = &object->elf.symbols[i];
        bool known = symbol->defined || !symbol->function || !program_wrapped(symbol->name);
        for (size_t k = 0; but && k < but->count && !known; k++)
            known = strcmp(but->list[k], symbol->name) == 0;
        if (!known)
            add_name(names, symbol->name);
    }
}

static void say_wrapped(struct check_report *report, const struct program *program)
{
    struct names own = {0}, more = {0};
    add_wrapped(&own, &program->objects[0], NULL);
    for (size_t i = 1; i < program->count; i++)
        if (!calls_are_its_own(&program->objects[i]))
            add_wrapped(&more, &program->objects[i], &own);
    sort_names(&own);
    sort_names(&more);
    check_say(report, CHECK_INFO, "wrapped", "it imports %zu calls that libdirectnfs.so wraps%s",
              own.count, own.count ? ":" : "");
    check_names(report, "calls", own.list, own.count);
    if (more.count > 0) {
        check_say(report, CHECK_INFO, "wrapped", "its libraries import %zu more:", more.count);
        check_names(report, "library_calls", more.list, more.count);
    }
    free(own.list);
    free(more.list);
}

static void say_escaping(struct check_report *report, const struct program *program)
{
    struct names names = {0};
    for (size_t i = 0; i < program->count; i++) {
        const struct program_object *object = &program->objects[i];
        for (size_t k = 0; k < object->elf.symbol_count && !calls_are_its_own(object); k++) {
            const struct elf_symbol *symbol = &object->elf.symbols[k];
            if (!symbol->defined && escapes(symbol->name))
                add_name(&names, symbol->name);
        }
    }
    if (names.count > 0) {
        check_say(report, CHECK_WARNING, "escaping",
                  "file calls of the C library that have no wrapper, so that what is done by them "
                  "is the kernel's:");
        check_names(report, "calls", names.list, names.count);
        check_remedy(report, "see whether it uses them for its data: check --pid, stat files");
    }
    free(names.list);
}

/* Calls that have a wrapper which leaves the file to the kernel. */
static void say_left(struct check_report *report, const struct program *program)
{
    static const struct {
        const char *symbols[5];
        const char *text;
    } groups[] = {
        {{"fopen", "fopen64", "freopen", "freopen64", "fdopen"}, "files used as stdio streams"},
        {{"mmap", "mmap64"}, "files that it maps"},
        {{"splice", "tee"}, "pipes fed by splice"},
    };
    char text[256] = "";
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        bool used = false;
        for (size_t k = 0; k < 5 && groups[i].symbols[k] && !used; k++)
            used = imports(&program->objects[0], groups[i].symbols[k]);
        if (used)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", text[0] ? ", " : "",
                     groups[i].text);
    }
    if (text[0])
        check_say(report, CHECK_INFO, "kernel",
                  "left to the kernel, if it does that with files of a mount: %s", text);
    if (any_imports(program, "dlvsym") || any_imports(program, "dlmopen"))
        check_say(report, CHECK_INFO, "not seen",
                  "functions that it looks up by version (dlvsym), and libraries in a namespace of "
                  "their own (dlmopen)");
}

/* The program's own symbols go before those of a preloaded library. */
static void say_defined(struct check_report *report, const struct program *program)
{
    struct names names = {0};
    const struct program_object *object = &program->objects[0];
    for (size_t i = 0; i < object->elf.symbol_count; i++) {
        const struct elf_symbol *symbol = &object->elf.symbols[i];
        if (symbol->defined && symbol->function && program_wrapped(symbol->name))
            add_name(&names, symbol->name);
    }
    if (names.count > 0) {
        sort_names(&names);
        check_say(
            report, CHECK_WARNING, "defined",
            "%s defines calls itself, and its own go before those of the library:", object->name);
        check_names(report, "calls", names.list, names.count);
        check_remedy(report, "use a build without sanitizers or allocators that do so");
    }
    free(names.list);
    if (program_find(program, "libasan.so") != NULL ||
        program_find(program, "libtsan.so") != NULL) {
        check_say(report, CHECK_WARNING, "sanitizer",
                  "it is built with a sanitizer, whose library must come first");
        check_remedy(report, "use an ordinary build");
    }
}

/* ---- asynchronous I/O ---- */

static void say_library(struct check_report *report, const struct program *program,
                        const char *label, const char *soname)
{
    char path[PATH_MAX];
    const struct program_object *object = program_find(program, soname);
    if (object == NULL || object->path == NULL)
        return;
    bool old = strcmp(base_name(object), "liburing.so.1") == 0;
    if (realpath(object->path, path) == NULL)
        snprintf(path, sizeof(path), "%s", object->path);
    check_say(report, old ? CHECK_WARNING : CHECK_INFO, label, "%s (%s): %s", base_name(object),
              path, old ? "older than 2.0, which is not served" : "its requests are served");
    check_word(report, "soname", base_name(object));
    check_word(report, "path", path);
    if (old)
        check_remedy(report, "use a build with liburing 2.0 or newer, or another way of I/O");
}

/* What of io_uring this host's kernel has: it may be too old, or forbid it. */
static void say_kernel(struct check_report *report)
{
    struct utsname system;
    unsigned major, minor;
    int disabled = 0;
    if (uname(&system) == 0 && sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
        (major < 5 || (major == 5 && minor < 18))) {
        check_say(report, CHECK_WARNING, "io_uring",
                  "this kernel (%s) is older than Linux 5.18, and cannot post results of served "
                  "files in rings: the program is told that there is no io_uring",
                  system.release);
        check_remedy(report, "use a newer kernel, or set the program to another way of I/O");
    }
    FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    if (file != NULL && fscanf(file, "%d", &disabled) == 1 && disabled != 0)
        check_say(report, CHECK_INFO, "io_uring",
                  "this host forbids it to %s (kernel.io_uring_disabled = %d)",
                  disabled == 1 ? "most users" : "everybody", disabled);
    if (file != NULL)
        fclose(file);
}

static void say_asynchronous(struct check_report *report, const struct program *program)
{
    say_library(report, program, "libaio", "libaio.so");
    say_library(report, program, "io_uring", "liburing.so");
    if (program_find(program, "liburing.so") != NULL)
        say_kernel(report);
    for (size_t i = 0; i < program->count; i++) {
        const struct program_object *object = &program->objects[i];
        if (calls_are_its_own(object))
            continue;
        if (elf_defines(&object->elf, "io_uring_queue_init")) {
            check_say(report, CHECK_WARNING, "io_uring",
                      "liburing is linked into %s, so that its calls have no wrapper: requests in "
                      "its rings are the kernel's",
                      base_name(object));
            check_remedy(report, "use a build with the shared liburing, or set the program to "
                                 "another way of I/O");
        }
        if (elf_defines(&object->elf, "io_queue_init"))
            check_say(report, CHECK_INFO, "libaio", "is linked into %s; it enters the kernel by %s",
                      base_name(object),
                      imports(object, "syscall") ? "syscall(), which has a wrapper"
                                                 : "calls that are not seen");
    }
}

/* ---- system calls of its own ---- */

static void say_inline(struct check_report *report, const struct program_object *object)
{
    struct code_calls calls;
    code_search(&object->elf, &calls);
    const char *name = base_name(object);
    if (elf_section(&object->elf, ".go.buildinfo") != NULL && calls.total + calls.unknown > 0) {
        check_say(report, CHECK_ERROR, "inline",
                  "%s is a Go program, which makes its system calls itself", name);
        check_remedy(report, "there is none: let the kernel serve it");
        return;
    }
    if (calls.total > 0) {
        struct names names = {0};
        for (unsigned i = 0; code_name(i) != NULL; i++)
            if (calls.files[i] > 0)
                add_name(&names, code_name(i));
        check_say(report, CHECK_WARNING, "inline",
                  "%s seems to make %u system call%s on files itself, which no wrapper sees:", name,
                  calls.total, calls.total == 1 ? "" : "s");
        check_names(report, "calls", names.list, names.count);
        check_number(report, "instructions", calls.total);
        check_remedy(report, "see whether it uses them for its data (strace), and set it to "
                             "another way of I/O then");
        free(names.list);
    }
    if (calls.unknown > 0)
        check_say(report, CHECK_INFO, "inline",
                  "%s has %u place%s in %ju bytes of code that may be a system call of unknown "
                  "number, or chance",
                  name, calls.unknown, calls.unknown == 1 ? "" : "s", (uintmax_t)calls.bytes);
    if (calls.others > 0)
        check_say(report, CHECK_INFO, "inline",
                  "%s seems to make %u system call%s itself that are not about data of files", name,
                  calls.others, calls.others == 1 ? "" : "s");
    if (calls.uring_number && imports(object, "syscall")) {
        check_say(report, CHECK_WARNING, "io_uring",
                  "%s may make rings by syscall() without liburing: that is refused with ENOSYS "
                  "while mounts are configured",
                  name);
        check_remedy(report, "set the program to another way of I/O if it does not choose one");
    }
}

void check_calls(struct check_report *report, const struct program *program)
{
    const struct program_object *libc = program_find(program, "libc.so.6");
    if (libc == NULL) {
        check_say(report, CHECK_ERROR, "libc",
                  "it does not use the GNU C library (libc.so.6), which the library needs");
        check_remedy(report, "use a build for glibc");
    }
    say_wrapped(report, program);
    say_defined(report, program);
    say_escaping(report, program);
    say_left(report, program);
    say_asynchronous(report, program);
    for (size_t i = 0; i < program->count; i++)
        if (program->objects[i].path != NULL && !calls_are_its_own(&program->objects[i]))
            say_inline(report, &program->objects[i]);
}
