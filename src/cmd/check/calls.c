/*
 * directnfs check --program and --pid: which calls a program and its libraries make, and which of
 * them the library sees.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd.h"
#include "cmd/check/code.h"
#include "cmd/check/program.h"
#include "config/tunables.h"

#define VERSION_SECTION ".directnfs.version"

enum { NAMES_MAX = 1024 };

/* ---- which library is what ---- */

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

bool check_is_ours(const struct program_object *object)
{
    return begins(program_soname(object), "libdirectnfs.so");
}

static bool calls_are_its_own(const struct program_object *object)
{
    return sys_code_is_known(program_soname(object));
}

char *check_library_version(const struct elf_file *elf)
{
    const Elf64_Shdr *section = elf_section(elf, VERSION_SECTION);
    return section && section->sh_size < 256 ? elf_piece(elf, section->sh_offset, section->sh_size)
                                             : NULL;
}

/* ---- lists of names ---- */

/* Names of wrappers, or from the lists here. There are never more than NAMES_MAX. */
struct names {
    const char *list[NAMES_MAX];
    size_t count;
};

static bool has_name(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->list[i], name) == 0)
            return true;
    return false;
}

/* Adds a name once; the string stays the caller's. */
static void add_name(struct names *names, const char *name)
{
    if (!has_name(names, name) && names->count < NAMES_MAX)
        names->list[names->count++] = name;
}

static int by_name(const void *a, const void *b)
{
    const char *first = *(const char *const *)a, *second = *(const char *const *)b;
    return strcmp(first + strspn(first, "_"), second + strspn(second, "_"));
}

static void sort_names(struct names *names)
{
    qsort(names->list, names->count, sizeof(*names->list), by_name);
}

/* ---- imports ---- */

/* Names by which the C library itself works on files: no wrapper sees them. A name that gets a
 * wrapper is left out automatically. */
static const char *const escaping[] = {
    "_IO_file_attach", "_IO_file_fopen",     "_IO_file_open",    "_IO_file_read",
    "_IO_file_write",  "__libc_open",        "__libc_open64",    "__libc_read",
    "__libc_write",    "__libc_close",       "__libc_pread",     "__libc_pread64",
    "__libc_pwrite",   "__libc_pwrite64",    "__libc_lseek",     "__libc_lseek64",
    "__libc_fsync",    "__libc_fcntl",       "__open_nocancel",  "__open64_nocancel",
    "__read_nocancel", "__pread64_nocancel", "__write_nocancel", "__close_nocancel",
};

static bool escapes(const struct elf_symbol *symbol)
{
    for (size_t i = 0; i < sizeof(escaping) / sizeof(escaping[0]) && !symbol->defined; i++)
        if (strcmp(escaping[i], symbol->name) == 0)
            return !program_wrapped(symbol->name);
    return false;
}

static bool is_wrapped(const struct elf_symbol *symbol)
{
    return !symbol->defined && symbol->function && program_wrapped(symbol->name);
}

/* The program's own symbols come before those of a preloaded library. */
static bool goes_before(const struct elf_symbol *symbol)
{
    return symbol->defined && symbol->function && program_wrapped(symbol->name);
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

/* Adds the names of an object's symbols that are `wanted` and not in `but`. */
static void collect(struct names *names, const struct program_object *object,
                    bool (*wanted)(const struct elf_symbol *symbol), const struct names *but)
{
    for (size_t i = 0; i < object->elf.symbol_count; i++) {
        const struct elf_symbol *symbol = &object->elf.symbols[i];
        if (wanted(symbol) && !(but && has_name(but, symbol->name)))
            add_name(names, symbol->name);
    }
}

static void say_wrapped(const struct program *program)
{
    struct names own = {0}, more = {0};
    collect(&own, &program->objects[0], is_wrapped, NULL);
    for (size_t i = 1; i < program->count; i++)
        if (!calls_are_its_own(&program->objects[i]))
            collect(&more, &program->objects[i], is_wrapped, &own);
    sort_names(&own);
    sort_names(&more);
    check_say(CHECK_INFO, "wrapped", "it imports %zu calls that libdirectnfs.so wraps%s", own.count,
              own.count ? ":" : "");
    check_names("calls", own.list, own.count);
    if (more.count > 0) {
        check_say(CHECK_INFO, "wrapped", "its libraries import %zu more:", more.count);
        check_names("library_calls", more.list, more.count);
    }
}

static void say_escaping(const struct program *program)
{
    struct names names = {0};
    for (size_t i = 0; i < program->count; i++)
        if (!calls_are_its_own(&program->objects[i]))
            collect(&names, &program->objects[i], escapes, NULL);
    if (names.count > 0) {
        check_say(CHECK_WARNING, "escaping",
                  "file calls of the C library that have no wrapper, so that what is done by them "
                  "is the kernel's:");
        check_names("calls", names.list, names.count);
        check_remedy("see whether it uses them for its data: check --pid, stat files");
    }
}

/* Calls with a wrapper that leaves the file to the kernel. splice and tee make the program read and
 * write instead. */
static void say_left(const struct program *program)
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
        check_say(CHECK_INFO, "kernel",
                  "left to the kernel, if it does that with files of a mount: %s", text);
    if (any_imports(program, "dlvsym") || any_imports(program, "dlmopen"))
        check_say(CHECK_INFO, "not seen",
                  "functions that it looks up by version (dlvsym), and libraries in a namespace of "
                  "their own (dlmopen)");
}

static void say_defined(const struct program *program)
{
    struct names names = {0};
    collect(&names, &program->objects[0], goes_before, NULL);
    sort_names(&names);
    if (names.count > 0) {
        check_say(CHECK_WARNING, "defined",
                  "%s defines calls itself, and its own go before those of the library:",
                  program->objects[0].name);
        check_names("calls", names.list, names.count);
        check_remedy("use a build without sanitizers or allocators that do so");
    }
    if (program_find(program, "libasan.so") != NULL ||
        program_find(program, "libtsan.so") != NULL) {
        check_say(CHECK_WARNING, "sanitizer",
                  "it is built with a sanitizer, whose library must come first");
        check_remedy("use an ordinary build");
    }
}

/* ---- asynchronous I/O ---- */

static void say_library(const struct program *program, const char *label, const char *soname)
{
    char path[PATH_MAX];
    const struct program_object *object = program_find(program, soname);
    if (object == NULL || object->path == NULL)
        return;
    bool old = strcmp(program_soname(object), "liburing.so.1") == 0;
    if (realpath(object->path, path) == NULL)
        snprintf(path, sizeof(path), "%s", object->path);
    check_say(old ? CHECK_WARNING : CHECK_INFO, label, "%s (%s): %s", program_soname(object), path,
              old ? "older than 2.0, which is not served" : "its requests are served");
    check_word("soname", program_soname(object));
    check_word("path", path);
    if (old)
        check_remedy("use a build with liburing 2.0 or newer, or another way of I/O");
}

/* Reports whether this host's kernel has io_uring: it may be too old, or forbid it. */
static void say_kernel(void)
{
    struct utsname system;
    unsigned major, minor;
    int disabled = 0;
    if (uname(&system) == 0 && sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
        (major < 5 || (major == 5 && minor < 18))) {
        check_say(CHECK_WARNING, "io_uring",
                  "this kernel (%s) is older than Linux 5.18, and cannot post results of served "
                  "files in rings: the program is told that there is no io_uring",
                  system.release);
        check_remedy("use a newer kernel, or set the program to another way of I/O");
    }
    FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    if (file != NULL && fscanf(file, "%d", &disabled) == 1 && disabled != 0)
        check_say(CHECK_INFO, "io_uring",
                  "this host forbids it to %s (kernel.io_uring_disabled = %d)",
                  disabled == 1 ? "most users" : "everybody", disabled);
    if (file != NULL)
        fclose(file);
}

static void say_asynchronous(const struct program *program)
{
    say_library(program, "libaio", "libaio.so");
    say_library(program, "io_uring", "liburing.so");
    if (program_find(program, "liburing.so") != NULL)
        say_kernel();
    for (size_t i = 0; i < program->count; i++) {
        const struct program_object *object = &program->objects[i];
        if (calls_are_its_own(object))
            continue;
        if (elf_defines(&object->elf, "io_uring_queue_init")) {
            check_say(CHECK_WARNING, "io_uring",
                      "liburing is linked into %s, so that its calls have no wrapper: requests in "
                      "its rings are the kernel's",
                      program_soname(object));
            check_remedy(
                "use a build with the shared liburing, or set the program to another way of I/O");
        }
        if (elf_defines(&object->elf, "io_queue_init"))
            check_say(CHECK_INFO, "libaio", "is linked into %s; it enters the kernel by %s",
                      program_soname(object),
                      imports(object, "syscall") ? "syscall(), which has a wrapper"
                                                 : "calls that are not seen");
    }
}

/* ---- system calls of its own ---- */

/* True if the library serves the files of a program that passes it by. */
static bool serves_raw_calls(void)
{
    char file[PATH_MAX];
    struct conf_tunables tunables;
    struct conf_diagnostics found = {0};
    conf_tunables_load(&tunables, file, conf_tunables_file(file), &found);
    conf_diagnostics_free(&found);
    return tunables.raw_calls == CONF_RAW_CALLS_SERVE;
}

/* Reports calls on files. If data passes by through some of them, only those. */
static void say_file_calls(const struct program_object *object, const struct sys_code_calls *calls)
{
    const char *name = program_soname(object);
    bool passes = sys_code_passing(calls) != 0, serves = passes && serves_raw_calls();
    bool go = elf_section(&object->elf, ".go.buildinfo") != NULL;
    struct names names = {0};
    for (unsigned i = 0; sys_code_name(i) != NULL; i++)
        if (calls->files[i] > 0 && (!passes || sys_code_passes(i)))
            add_name(&names, sys_code_name(i));
    check_say(passes && !serves ? CHECK_ERROR : CHECK_WARNING, "inline",
              "%s %s system calls on files itself, which no wrapper sees%s", name,
              go ? "is a Go program, and makes" : "seems to make",
              passes && !serves ? ": all files of the program are left to the kernel" : ":");
    check_names("calls", names.list, names.count);
    check_number("instructions", calls->total);
    if (!passes || serves)
        check_remedy("see whether it uses them for its data (strace), and set it to another way of "
                     "I/O then");
    else if (go)
        check_remedy("there is none, unless only its C code writes files of mounts: then set "
                     "raw_calls = \"serve\" in directnfs.conf(5)");
    else
        check_remedy("see whether it uses them for its data (strace); if not, set raw_calls = "
                     "\"serve\" in directnfs.conf(5)");
}

static void say_inline(const struct program_object *object)
{
    struct code_calls searched;
    code_search(&object->elf, &searched);
    const struct sys_code_calls calls = searched.calls;
    const char *name = program_soname(object);
    if (calls.total > 0)
        say_file_calls(object, &calls);
    if (calls.unknown > 0)
        check_say(CHECK_INFO, "inline",
                  "%s has %u place%s in %ju bytes of code that may be a system call of unknown "
                  "number, or chance",
                  name, calls.unknown, calls.unknown == 1 ? "" : "s", (uintmax_t)searched.bytes);
    if (calls.others > 0)
        check_say(CHECK_INFO, "inline",
                  "%s seems to make %u system call%s itself that are not about data of files", name,
                  calls.others, calls.others == 1 ? "" : "s");
    if (searched.uring_number && imports(object, "syscall")) {
        check_say(CHECK_WARNING, "io_uring",
                  "%s may make rings by syscall() without liburing: that is refused with ENOSYS "
                  "while mounts are configured",
                  name);
        check_remedy("set the program to another way of I/O if it does not choose one");
    }
}

/* ---- the C library ---- */

/* The version that this command's library needs. 0: no such library, or it is already loaded. */
static unsigned needed_glibc(const struct program *program)
{
    char path[PATH_MAX];
    const char *why;
    struct elf_file elf;
    for (size_t i = 0; i < program->count; i++)
        if (check_is_ours(&program->objects[i]))
            return 0;
    int fd = cmd_library(path) ? program_open(path) : -1;
    if (fd < 0)
        return 0;
    unsigned needed = elf_open(&elf, fd, &why) == 0 ? elf_glibc(&elf) : 0;
    elf_close(&elf);
    close(fd);
    return needed;
}

static void say_libc(const struct program *program)
{
    const struct program_object *libc = program_find(program, "libc.so.6");
    if (libc == NULL) {
        check_say(CHECK_ERROR, "libc",
                  "it does not use the GNU C library (libc.so.6), which the library needs");
        check_remedy("use a build for glibc");
        return;
    }
    unsigned has = elf_glibc(&libc->elf), needed = needed_glibc(program);
    if (has == 0 || needed == 0)
        return;
    check_say(has < needed ? CHECK_ERROR : CHECK_INFO, "libc",
              "glibc 2.%u (%s); libdirectnfs.so needs 2.%u or newer", has, libc->path, needed);
    if (has < needed)
        check_remedy("build the library on a system with this glibc or an older one");
}

void check_calls(const struct program *program)
{
    say_libc(program);
    say_wrapped(program);
    say_defined(program);
    say_escaping(program);
    say_left(program);
    say_asynchronous(program);
    for (size_t i = 0; i < program->count; i++)
        if (program->objects[i].path != NULL && !calls_are_its_own(&program->objects[i]))
            say_inline(&program->objects[i]);
}
