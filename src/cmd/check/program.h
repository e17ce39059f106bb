/*
 * directnfs check --program and --pid: would preloading work, and what would it not see? program.c
 * looks at a program, pid.c at a process. libraries.c finds what ld.so would load. calls.c says
 * what their calls mean. foreign.c looks for what Kerberos and TLS need. wrapped.c knows the
 * wrappers of the library.
 */
#ifndef CMD_CHECK_PROGRAM_H
#define CMD_CHECK_PROGRAM_H

#include <limits.h>

#include "cmd/check/elf.h"
#include "cmd/check/report.h"

/* The directory of libraries for this processor, below / and /usr. */
#if defined(__x86_64__)
#define PROGRAM_LIB "lib/x86_64-linux-gnu"
#else
#define PROGRAM_LIB "lib/aarch64-linux-gnu"
#endif

enum { PROGRAM_OBJECTS_MAX = 1024 };

struct program_object {
    char *name; /* as it is asked for: "libc.so.6"; for the program, its path */
    char *path; /* where it was found; NULL: nowhere */
    int fd;     /* -1: not found */
    const struct program_object *parent; /* the one that needs it; NULL for the program */
    bool deleted;                        /* in a process: the mapped file is not there any more */
    struct elf_file elf;
};

/* A program and its libraries. Zero it; program_free() frees it. Element 0 is the program. */
struct program {
    struct program_object *objects; /* PROGRAM_OBJECTS_MAX: they do not move */
    size_t count;
    bool too_many;
};

/* The whole report: on the program that execvp(3) would start for this name, or on the running
 * process. Return CMD_FINE or CMD_NOT_FINE. */
int check_program(const char *name, bool json);
int check_process(unsigned pid, bool json);

/* True, with a sentence in `why`: ld.so would not load the library into the program that execvp(3)
 * starts for this name. False: it would, or that is not known. Nothing is executed. */
enum { PROGRAM_WHY = 4400 };
bool program_is_unloadable(const char *name, char why[PROGRAM_WHY]);

/* Finds a file as execvp(3) does. False: there is none. */
bool program_find_in_path(const char *name, char path[PATH_MAX]);

/* If the open file is a script, puts the path of its interpreter in `path` (PROGRAM_ON). At most
 * PROGRAM_SCRIPTS_MAX scripts may start one another. */
enum { PROGRAM_SCRIPTS_MAX = 4 };
enum program_step { PROGRAM_HERE, PROGRAM_ON, PROGRAM_NO_INTERPRETER, PROGRAM_INTERPRETER_MISSING };
enum program_step program_follow_script(int fd, char path[PATH_MAX]);

/* Reports what the calls of a program and its libraries mean for the library. All are opened. */
void check_calls(const struct program *program);

/* Opens the ELF file of a program. Reports it if the kernel must serve its files: linked
 * statically, for another machine, damaged, or no program. False: nothing more can be said about
 * it. */
bool check_elf(struct program_object *object);

/* Reports whether the libraries for Kerberos and TLS would be found and could be used, if mounts of
 * a program that starts now need them. They become objects of the program. `secure`: ld.so heeds no
 * LD_LIBRARY_PATH for it. */
void check_foreign(struct program *program, bool secure);
/* The same for a process that has our library, `loader`; of what it has loaded it says that.
 * Libraries that it has not loaded are looked for in this process's directories. */
void check_foreign_of_process(struct program *program, const struct program_object *loader);
/* The same for a program into which nothing can be loaded. */
void check_foreign_nothing(void);

/* True if this object is the library itself. */
bool check_is_ours(const struct program_object *object);

/* The version in a libdirectnfs.so; free it by free(3). NULL: it has none. */
char *check_library_version(const struct elf_file *elf);

/* ---- libraries.c ---- */

/*
 * Opens a file for reading, without waiting for devices and pipes. Returns the descriptor of a
 * regular file, or:
 * -EISDIR: a directory.
 * -EINVAL: another thing that is not a regular file.
 * another -errno: from open(2) or fstat(2).
 */
int program_open(const char *path);

/* A file, or its first 16 MiB, with two NULs behind it; free it by free(3). NULL, with errno. */
char *program_read(const char *path, size_t *size);

/* Adds an object; takes over `fd`. NULL: there are too many; `fd` is closed. */
struct program_object *program_add(struct program *program, const char *name, const char *path,
                                   int fd, const struct program_object *parent);

/*
 * Finds the libraries that objects of the program need, as ld.so(8) would if the caller started the
 * program now. It looks at DT_RPATH, $LD_LIBRARY_PATH (not if `secure`), DT_RUNPATH, its cache, and
 * the directories of the system. Nothing is executed. Libraries that are not found are objects
 * without a path. Subdirectories for special processors (glibc-hwcaps) are not searched: they have
 * the same symbols.
 */
void program_find_libraries(struct program *program, bool secure);

/* Adds a library, and what it needs, as dlopen(3) would find it for `loader` in the program. It may
 * be there already. Without a path: it is not found. NULL: there are too many. */
const struct program_object *program_load(struct program *program,
                                          const struct program_object *loader, const char *name,
                                          bool secure);

/* The soname of an object, or its name without directories. */
const char *program_soname(const struct program_object *object);

/* The library with this soname, or with one that begins with it and a dot. NULL: there is none. */
const struct program_object *program_find(const struct program *program, const char *soname);

void program_free(struct program *program);

/* True if the library has a wrapper of this name. */
bool program_wrapped(const char *name);

#endif
