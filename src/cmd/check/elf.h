/*
 * ELF files as far as `directnfs check` asks: what a program needs, imports and contains. The file
 * may be anything: every offset and count is checked, pieces are read and never mapped (a file that
 * is cut while it is looked at must not end the command), and nothing of it is executed.
 *
 * 64-bit files of this machine's kind only.
 */
#ifndef CMD_ELF_H
#define CMD_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_symbol {
    const char *name;
    bool defined;  /* here; else wanted from elsewhere */
    bool function; /* or of no type, as in many imports */
};

/* Texts by their offset, and a NUL behind them; none: of no bytes. */
struct elf_strings {
    char *text;
    size_t size;
};

/* Zero-initialised, then elf_open(); freed by elf_close(). Strings lie in it. */
struct elf_file {
    int fd; /* the caller's */
    uint64_t size;
    Elf64_Ehdr header;
    Elf64_Phdr *segments;
    size_t segment_count;
    Elf64_Shdr *sections; /* none when stripped, or damaged */
    size_t section_count;
    struct elf_strings section_names;

    char *interpreter; /* PT_INTERP, NULL if there is none */
    bool dynamic;      /* has a dynamic section */
    Elf64_Dyn *entries;
    size_t entry_count;
    struct elf_strings strings;           /* of the dynamic section */
    const char *soname, *rpath, *runpath; /* NULL if absent */
    uint64_t flags_1;                     /* DT_FLAGS_1 */

    struct elf_symbol *symbols; /* dynamic ones */
    size_t symbol_count;
};

/*
 * Reads the headers and the dynamic section of the regular file `fd`, which must stay open. Returns
 * 0, -ENOEXEC (no ELF file), -EXDEV (of another machine, see elf_machine_name()), -EBADMSG
 * (damaged: `why` says where), -ENOMEM or what read(2) said. elf_close() in any case.
 */
int elf_open(struct elf_file *file, int fd, const char **why);
void elf_close(struct elf_file *file);

/* "x86-64" and so on; of an ELF file whose header was read. */
const char *elf_machine_name(const struct elf_file *file);

/* The needed library number `index`, NULL beyond the last. */
const char *elf_needed(const struct elf_file *file, size_t index);

/* The minor number of the newest version of glibc among the symbol versions: of those that the file
 * needs, or that a libc has itself. 0: there is none. */
unsigned elf_glibc(const struct elf_file *file);

/* A section by name; NULL if there is none. */
const Elf64_Shdr *elf_section(const struct elf_file *file, const char *name);

/* `size` bytes at `offset` and a NUL behind them, in memory for free(3). NULL: not in the file, too
 * much, or not readable. */
void *elf_piece(const struct elf_file *file, uint64_t offset, uint64_t size);

/* True if the table of all symbols (not in stripped files) or the dynamic one defines a function
 * whose name begins with `prefix`. */
bool elf_defines(const struct elf_file *file, const char *prefix);

/* The next range of the file that holds code, from *index on (0 first). False: no more. */
bool elf_code(const struct elf_file *file, size_t *index, uint64_t *offset, uint64_t *size);

#endif
