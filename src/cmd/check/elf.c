#include "cmd/check/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_MAX = 256 << 20, /* most bytes of a table */
    SEGMENTS_MAX = 1024,
    SECTIONS_MAX = 65536,
    GLIBC_MINOR_MAX = 10000,
};

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER ELFDATA2LSB
#else
#define ORDER ELFDATA2MSB
#endif

void *elf_piece(const struct elf_file *file, uint64_t offset, uint64_t size)
{
    if (offset > file->size || size > file->size - offset || size > PIECE_MAX)
        return NULL;
    char *piece = malloc(size + 1);
    if (piece != NULL && pread(file->fd, piece, size, (off_t)offset) == (ssize_t)size) {
        piece[size] = '\0';
        return piece;
    }
    free(piece);
    return NULL;
}

/* No bytes: they cannot be read. */
static struct elf_strings read_strings(const struct elf_file *file, uint64_t offset, uint64_t size)
{
    char *text = elf_piece(file, offset, size);
    return (struct elf_strings){text, text ? size : 0};
}

/* Finds the place in the file of the bytes loaded at `address`, and how many follow there. */
static bool file_offset(const struct elf_file *file, uint64_t address, uint64_t *offset,
                        uint64_t *room)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr >= segment->p_filesz || segment->p_offset > file->size ||
            segment->p_filesz > file->size - segment->p_offset)
            continue;
        *offset = segment->p_offset + (address - segment->p_vaddr);
        *room = segment->p_filesz - (address - segment->p_vaddr);
        return true;
    }
    return false;
}

static bool find_entry(const struct elf_file *file, int64_t tag, uint64_t *value)
{
    for (size_t i = 0; i < file->entry_count; i++) {
        if (file->entries[i].d_tag != tag)
            continue;
        *value = file->entries[i].d_un.d_val;
        return true;
    }
    return false;
}

static const char *string_at(const struct elf_strings *strings, uint64_t offset)
{
    return offset < strings->size ? strings->text + offset : NULL;
}

static const char *find_string(const struct elf_file *file, int64_t tag)
{
    uint64_t offset;
    return find_entry(file, tag, &offset) ? string_at(&file->strings, offset) : NULL;
}

/* ---- symbols ---- */

/* The number of dynamic symbols is stored nowhere. The table ends, at the latest, where the next
 * table of the dynamic section begins. `room`: bytes that are loaded there. */
static uint64_t count_symbols(const struct elf_file *file, uint64_t address, uint64_t room)
{
    static const int64_t tables[] = {DT_STRTAB, DT_HASH,   DT_GNU_HASH, DT_RELA,
                                     DT_JMPREL, DT_VERSYM, DT_VERNEED,  DT_VERDEF};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        uint64_t next;
        if (find_entry(file, tables[i], &next) && next > address && next - address < room)
            room = next - address;
    }
    return room / sizeof(Elf64_Sym);
}

static bool read_symbols(struct elf_file *file)
{
    uint64_t address, offset, room;
    if (!find_entry(file, DT_SYMTAB, &address))
        return true;
    if (!file_offset(file, address, &offset, &room))
        return false;
    uint64_t count = count_symbols(file, address, room);
    Elf64_Sym *table = elf_piece(file, offset, count * sizeof(*table));
    file->symbols = calloc(count, sizeof(*file->symbols));
    for (uint64_t i = 0; table && file->symbols && i < count; i++) {
        unsigned type = ELF64_ST_TYPE(table[i].st_info);
        const char *name = string_at(&file->strings, table[i].st_name);
        if (name == NULL || *name == '\0')
            continue;
        file->symbols[file->symbol_count++] = (struct elf_symbol){
            .name = name,
            .defined = table[i].st_shndx != SHN_UNDEF,
            .function = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE,
        };
    }
    bool done = table && file->symbols;
    free(table);
    return done;
}

bool elf_defines(const struct elf_file *file, const char *prefix)
{
    size_t length = strlen(prefix);
    for (size_t i = 0; i < file->symbol_count; i++)
        if (file->symbols[i].defined && strncmp(file->symbols[i].name, prefix, length) == 0)
            return true;
    for (size_t i = 0; i < file->section_count; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        if (section->sh_type != SHT_SYMTAB || section->sh_link >= file->section_count)
            continue;
        bool found = false;
        const Elf64_Shdr *text = &file->sections[section->sh_link];
        Elf64_Sym *table = elf_piece(file, section->sh_offset, section->sh_size);
        const struct elf_strings strings = read_strings(file, text->sh_offset, text->sh_size);
        for (uint64_t k = 0; table && k < section->sh_size / sizeof(*table); k++) {
            const char *name = string_at(&strings, table[k].st_name);
            found = found || (table[k].st_shndx != SHN_UNDEF && name != NULL &&
                              ELF64_ST_TYPE(table[k].st_info) == STT_FUNC &&
                              strncmp(name, prefix, length) == 0);
        }
        free(table);
        free(strings.text);
        return found; /* a file has at most one */
    }
    return false;
}

bool elf_exports(const struct elf_file *file, const char *name)
{
    for (size_t i = 0; i < file->symbol_count; i++)
        if (file->symbols[i].defined && file->symbols[i].function &&
            strcmp(file->symbols[i].name, name) == 0)
            return true;
    return false;
}

bool elf_has_versions(const struct elf_file *file)
{
    uint64_t address;
    return find_entry(file, DT_VERDEF, &address);
}

/* ---- headers ---- */

/* Section headers are for people and debuggers. Programs run without them, and with damaged ones,
 * so nothing is reported. */
static void read_sections(struct elf_file *file)
{
    const Elf64_Ehdr *header = &file->header;
    size_t count = header->e_shnum;
    if (count == 0 || header->e_shentsize != sizeof(Elf64_Shdr) || count > SECTIONS_MAX)
        return;
    file->sections = elf_piece(file, header->e_shoff, count * sizeof(Elf64_Shdr));
    if (file->sections == NULL)
        return;
    file->section_count = count;
    if (header->e_shstrndx < count) {
        const Elf64_Shdr *names = &file->sections[header->e_shstrndx];
        file->section_names = read_strings(file, names->sh_offset, names->sh_size);
    }
}

static int read_dynamic(struct elf_file *file, const Elf64_Phdr *segment, const char **why)
{
    *why = "its dynamic section lies outside of the file";
    file->dynamic = true;
    file->entries = elf_piece(file, segment->p_offset, segment->p_filesz);
    if (file->entries == NULL)
        return -EBADMSG;
    size_t most = segment->p_filesz / sizeof(*file->entries);
    while (file->entry_count < most && file->entries[file->entry_count].d_tag != DT_NULL)
        file->entry_count++;

    uint64_t address, size, offset, room;
    *why = "the strings of its dynamic section lie outside of the file";
    if (find_entry(file, DT_STRTAB, &address) && find_entry(file, DT_STRSZ, &size)) {
        if (!file_offset(file, address, &offset, &room) || size > room)
            return -EBADMSG;
        file->strings = read_strings(file, offset, size);
        if (file->strings.text == NULL)
            return -EBADMSG;
    }
    file->soname = find_string(file, DT_SONAME);
    file->rpath = find_string(file, DT_RPATH);
    file->runpath = find_string(file, DT_RUNPATH);
    if (!find_entry(file, DT_FLAGS_1, &file->flags_1))
        file->flags_1 = 0;
    *why = "its symbols lie outside of the file";
    return read_symbols(file) ? 0 : -EBADMSG;
}

int elf_open(struct elf_file *file, int fd, const char **why)
{
    struct stat status;
    *file = (struct elf_file){.fd = fd};
    if (fstat(fd, &status) != 0)
        return -errno;
    file->size = (uint64_t)status.st_size;

    Elf64_Ehdr *header = &file->header;
    ssize_t got = pread(fd, header, sizeof(*header), 0);
    if (got < 0)
        return -errno;
    if (got < EI_NIDENT || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    if (header->e_ident[EI_CLASS] != ELFCLASS64)
        return -EXDEV;
    *why = "its header is cut short";
    if ((size_t)got < sizeof(*header))
        return -EBADMSG;
    if (header->e_ident[EI_DATA] != ORDER || header->e_machine != MACHINE)
        return -EXDEV;

    *why = "its program headers lie outside of the file";
    if (header->e_phnum == 0 || header->e_phnum > SEGMENTS_MAX ||
        header->e_phentsize != sizeof(Elf64_Phdr))
        return -EBADMSG;
    file->segments = elf_piece(file, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
    if (file->segments == NULL)
        return -EBADMSG;
    file->segment_count = header->e_phnum;
    read_sections(file);

    int error = 0;
    for (size_t i = 0; i < file->segment_count && error == 0; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type == PT_INTERP && file->interpreter == NULL) {
            *why = "the name of its dynamic linker lies outside of the file";
            file->interpreter = elf_piece(file, segment->p_offset, segment->p_filesz);
            error = file->interpreter ? 0 : -EBADMSG;
        } else if (segment->p_type == PT_DYNAMIC && !file->dynamic) {
            error = read_dynamic(file, segment, why);
        }
    }
    return error;
}

void elf_close(struct elf_file *file)
{
    free(file->segments);
    free(file->sections);
    free(file->section_names.text);
    free(file->interpreter);
    free(file->entries);
    free(file->strings.text);
    free(file->symbols);
    *file = (struct elf_file){.fd = -1};
}

const char *elf_machine_name(const struct elf_file *file)
{
    if (file->header.e_ident[EI_CLASS] == ELFCLASS32)
        return "a 32-bit machine";
    switch (file->header.e_machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_PPC64:
        return "ppc64";
    case EM_S390:
        return "s390";
    case EM_RISCV:
        return "riscv";
    default:
        return "another machine";
    }
}

const char *elf_needed(const struct elf_file *file, size_t index)
{
    for (size_t i = 0; i < file->entry_count; i++) {
        if (file->entries[i].d_tag != DT_NEEDED)
            continue;
        const char *name = string_at(&file->strings, file->entries[i].d_un.d_val);
        if (name != NULL && *name != '\0' && index-- == 0)
            return name;
    }
    return NULL;
}

unsigned elf_glibc(const struct elf_file *file)
{
    static const char prefix[] = "GLIBC_2.";
    unsigned newest = 0;
    /* The names of versions are among the dynamic strings, each once. */
    for (size_t at = 0; at < file->strings.size; at += strlen(file->strings.text + at) + 1) {
        const char *name = file->strings.text + at;
        if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
            continue;
        unsigned long minor = strtoul(name + sizeof(prefix) - 1, NULL, 10);
        if (minor > newest && minor < GLIBC_MINOR_MAX)
            newest = (unsigned)minor;
    }
    return newest;
}

const Elf64_Shdr *elf_section(const struct elf_file *file, const char *name)
{
    for (size_t i = 0; i < file->section_count; i++) {
        const char *text = string_at(&file->section_names, file->sections[i].sh_name);
        if (text != NULL && strcmp(text, name) == 0)
            return &file->sections[i];
    }
    return NULL;
}

static bool is_code(const Elf64_Shdr *section)
{
    return section->sh_type == SHT_PROGBITS && (section->sh_flags & SHF_EXECINSTR);
}

bool elf_code(const struct elf_file *file, size_t *index, uint64_t *offset, uint64_t *size)
{
    /* Sections separate code from constants; segments may not. */
    bool sections = false;
    for (size_t i = 0; i < file->section_count; i++)
        sections = sections || is_code(&file->sections[i]);
    while (*index < (sections ? file->section_count : file->segment_count)) {
        size_t i = (*index)++;
        const Elf64_Shdr *section = sections ? &file->sections[i] : NULL;
        const Elf64_Phdr *segment = sections ? NULL : &file->segments[i];
        bool code =
            section ? is_code(section) : segment->p_type == PT_LOAD && (segment->p_flags & PF_X);
        *offset = section ? section->sh_offset : segment->p_offset;
        *size = section ? section->sh_size : segment->p_filesz;
        if (code && *offset < file->size) {
            *size = *size < file->size - *offset ? *size : file->size - *offset;
            return true;
        }
    }
    return false;
}
