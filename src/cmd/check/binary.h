/*
 * A program and the libraries that come with it, for `directnfs check --program` and `--pid`.
 */
#ifndef CMD_PROGRAM_H
#define CMD_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/check/elf.h"

/* The directory of libraries for this processor, below / and /usr. */
#if defined(__x86_64__)
#define PROGRAM_LIB "lib/x86_64-linux-gnu"
#else
#define PROGRAM_LIB "lib/aarch64-linux-gnu"
#endif

enum { PROGRAM_OBJECTS_MAX = 1024 };

struct program_object {
    char *name; /* as it is asked for: "libc.so.6"; of the program its path */
    char *path; /* where it was found; NULL if nowhere */
    int fd;     /* -1 if not found */
    size_t parent;
    bool deleted; /* of a process: the file that is mapped is no longer there */
    struct elf_file elf;
};

/* Zero-initialised; element 0 is the program. Freed by program_free(). */
struct program {
    struct program_object *objects;
    size_t count;
    bool too_many;
};

/*
 * Opens a file for reading, without waiting for devices and pipes. Returns the descriptor of a
 * regular file, or -errno: -EISDIR, -EINVAL for what else is no regular file.
 */
int program_open(const char *path);

/* Adds an object; takes over `fd`. NULL: no memory or too many, `fd` is closed. */
struct program_object *program_add(struct program *program, const char *name, const char *path,
                                   int fd, size_t parent);

/*
 * Finds the libraries that objects of the program need, as ld.so(8) does when the program is
 * started by the caller now: DT_RPATH, $LD_LIBRARY_PATH (not when `secure`), DT_RUNPATH, its cache,
 * and the directories of the system. Nothing is executed. Libraries that are not found are objects
 * without a path. Subdirectories for special processors (glibc-hwcaps) hold the same symbols and
 * are not looked at.
 */
void program_find_libraries(struct program *program, bool secure);

/* The object whose soname, or name without one, is `soname` or begins with it and a dot. */
const struct program_object *program_find(const struct program *program, const char *soname);

void program_free(struct program *program);

/* ---- symbols of the library ---- */

/* True if the library has a wrapper of this name. */
bool program_wrapped(const char *name);

#endif
