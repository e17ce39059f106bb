/*
 * ELF files, as far as `directnfs check` needs them: what a program needs, imports and contains. A
 * file may be anything, so every offset and count is checked. Pieces are read and never mapped: a
 * file that becomes shorter must not end the command. Nothing in it is executed.
 *
 * Only 64-bit files for this kind of machine.
 */
#ifndef CMD_ELF_H
#define CMD_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_symbol {
    const char *name;
    bool defined;  /* in this file; else it comes from elsewhere */
    bool function; /* or without a type, as many imports are */
};

/* Texts, found by offset, with a NUL behind them. No bytes: there are none. */
struct elf_strings {
    char *text;
    size_t size;
};

/* Zero it, then elf_open(); elf_close() frees it. Strings point into it. */
struct elf_file {
    int fd; /* the caller's */
    uint64_t size;
    Elf64_Ehdr header;
    Elf64_Phdr *segments;
    size_t segment_count;
    Elf64_Shdr *sections; /* none if stripped or damaged */
    size_t section_count;
    struct elf_strings section_names;

    char *interpreter; /* PT_INTERP; NULL: there is none */
    bool dynamic;      /* has a dynamic section */
    Elf64_Dyn *entries;
    size_t entry_count;
    struct elf_strings strings;           /* of the dynamic section */
    const char *soname, *rpath, *runpath; /* NULL: there is none */
    uint64_t flags_1;                     /* DT_FLAGS_1 */

    struct elf_symbol *symbols; /* dynamic ones */
    size_t symbol_count;
};

/*
 * Reads the headers and the dynamic section of the regular file `fd`, which must stay open. Call
 * elf_close() in any case.
 * 0: done.
 * -ENOEXEC: no ELF file.
 * -EXDEV: for another machine; see elf_machine_name().
 * -EBADMSG: damaged; `why` says where.
 * -ENOMEM, or an error of read(2).
 */
int elf_open(struct elf_file *file, int fd, const char **why);
void elf_close(struct elf_file *file);

/* "x86-64" and so on. The header of the ELF file must have been read. */
const char *elf_machine_name(const struct elf_file *file);

/* The needed library number `index`. NULL: there are fewer. */
const char *elf_needed(const struct elf_file *file, size_t index);

/* The newest minor version of glibc among the file's symbol versions. The file needs it; a libc has
 * it itself. 0: there is none. */
unsigned elf_glibc(const struct elf_file *file);

/* A section by name. NULL: there is none. */
const Elf64_Shdr *elf_section(const struct elf_file *file, const char *name);

/* `size` bytes at `offset`, with a NUL behind them; free them by free(3). NULL: they are not in the
 * file, too many, or not readable. */
void *elf_piece(const struct elf_file *file, uint64_t offset, uint64_t size);

/* True if the dynamic symbol table defines a function with a name that begins with `prefix`. The
 * table of all symbols counts, too; a stripped file has none. */
bool elf_defines(const struct elf_file *file, const char *prefix);

/* True if others that are loaded with the file find this function in it. */
bool elf_exports(const struct elf_file *file, const char *name);

/* True if what the file defines has versions. */
bool elf_has_versions(const struct elf_file *file);

/* The next range of the file that has code, from *index on (0 at first). False: there is no
 * more. */
bool elf_code(const struct elf_file *file, size_t *index, uint64_t *offset, uint64_t *size);

#endif
