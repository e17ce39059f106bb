/* A program, and the libraries that ld.so would load with it. */
#include "cmd/check/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/print.h"

enum { TEXT_MAX = 16 << 20 };

#define CACHE       "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

#if defined(__x86_64__)
#define PLATFORM "x86_64"
enum { CACHE_FLAGS = 0x0303 };
#else
#define PLATFORM "aarch64"
enum { CACHE_FLAGS = 0x0a03 };
#endif

int program_open(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = fd < 0 || fstat(fd, &status) != 0 ? -errno
                : S_ISDIR(status.st_mode)         ? -EISDIR
                : S_ISREG(status.st_mode)         ? 0
                                                  : -EINVAL;
    if (error == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return error;
}

char *program_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *text = cmd_need(malloc(TEXT_MAX + 2));
    *size = fread(text, 1, TEXT_MAX, file);
    int error = ferror(file) ? errno : 0;
    fclose(file);
    text[*size] = text[*size + 1] = '\0';
    if (error == 0)
        return text;
    free(text);
    errno = error;
    return NULL;
}

struct program_object *program_add(struct program *program, const char *name, const char *path,
                                   int fd, const struct program_object *parent)
{
    if (program->objects == NULL)
        program->objects = cmd_need(calloc(PROGRAM_OBJECTS_MAX, sizeof(*program->objects)));
    if (program->count == PROGRAM_OBJECTS_MAX) {
        program->too_many = true;
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct program_object *object = &program->objects[program->count++];
    *object = (struct program_object){.name = cmd_need(strdup(name)),
                                      .path = path ? cmd_need(strdup(path)) : NULL,
                                      .fd = fd,
                                      .parent = parent};
    return object;
}

void program_free(struct program *program)
{
    for (size_t i = 0; i < program->count; i++) {
        struct program_object *object = &program->objects[i];
        free(object->name);
        free(object->path);
        if (object->fd >= 0)
            close(object->fd);
        elf_close(&object->elf);
    }
    free(program->objects);
    *program = (struct program){0};
}

const char *program_soname(const struct program_object *object)
{
    const char *name = object->elf.soname ? object->elf.soname : object->name;
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

const struct program_object *program_find(const struct program *program, const char *soname)
{
    size_t length = strlen(soname);
    for (size_t i = 1; i < program->count; i++) {
        const char *name = program_soname(&program->objects[i]);
        if (strncmp(name, soname, length) == 0 && (name[length] == '\0' || name[length] == '.'))
            return &program->objects[i];
    }
    return NULL;
}

/* ---- the cache of ld.so, written by ldconfig(8) ---- */

struct cache_header {
    char magic[sizeof(CACHE_MAGIC) - 1];
    uint32_t count, strings_size;
    uint8_t flags, padding[3];
    uint32_t extension, unused[3];
};

struct cache_entry {
    int32_t flags;
    uint32_t key, value; /* places of the name and the path in the file */
    uint32_t os_version;
    uint64_t hardware;
};

/* ---- the search ---- */

/* A library that is searched for. */
struct wanted {
    struct program *program;
    const struct program_object *parent;
    const char *name;
};

/* Takes the file if it is a library for this machine. Passes others over, as ld.so does. */
static bool take(const struct wanted *wanted, const char *path)
{
    const char *why;
    struct elf_file elf;
    int fd = program_open(path);
    if (fd < 0)
        return false;
    int error = elf_open(&elf, fd, &why);
    bool passed_over = error == -ENOEXEC || error == -EXDEV;
    struct program_object *object =
        passed_over ? NULL : program_add(wanted->program, wanted->name, path, fd, wanted->parent);
    if (object)
        object->elf = elf;
    else
        elf_close(&elf);
    if (passed_over)
        close(fd);
    return !passed_over;
}

static bool search_cache(const struct wanted *wanted)
{
    static char *text; /* the whole file, read once */
    static size_t size;
    struct cache_header header;
    if (text == NULL)
        text = program_read(CACHE, &size);
    if (text == NULL || size < sizeof(header))
        return false;
    memcpy(&header, text, sizeof(header));
    if (memcmp(header.magic, CACHE_MAGIC, sizeof(header.magic)) != 0 ||
        header.count > (size - sizeof(header)) / sizeof(struct cache_entry))
        return false;
    for (uint32_t i = 0; i < header.count; i++) {
        struct cache_entry entry;
        memcpy(&entry, text + sizeof(header) + i * sizeof(entry), sizeof(entry));
        if (entry.flags == CACHE_FLAGS && entry.key < size && entry.value < size &&
            strcmp(text + entry.key, wanted->name) == 0 && take(wanted, text + entry.value))
            return true;
    }
    return false;
}

/* Replaces $ORIGIN, ${ORIGIN}, $LIB and $PLATFORM in a path. False: the result is too long. */
static bool expand(const char *text, const char *origin, char result[PATH_MAX])
{
    static const char *const names[] = {"ORIGIN", "LIB", "PLATFORM"};
    const char *const values[] = {origin, PROGRAM_LIB, PLATFORM};
    size_t used = 0;
    while (*text) {
        const char *value = NULL;
        size_t skip = 1;
        for (size_t k = 0; text[0] == '$' && k < 3 && value == NULL; k++) {
            size_t name = strlen(names[k]);
            bool braces = text[1] == '{';
            if (strncmp(text + 1 + braces, names[k], name) == 0 &&
                (!braces || text[2 + name] == '}')) {
                value = values[k];
                skip = 1 + name + 2 * braces;
            }
        }
        size_t room = value ? strlen(value) : 1;
        if (used + room >= PATH_MAX)
            return false;
        memcpy(result + used, value ? value : text, room);
        used += room;
        text += skip;
    }
    result[used] = '\0';
    return true;
}

/* Looks in each directory of a list like $PATH. `origin` is the object that has the list. */
static bool search_list(const struct wanted *wanted, const char *list, const char *separators,
                        const struct program_object *origin)
{
    char directory[PATH_MAX] = "", written[2 * PATH_MAX], path[PATH_MAX];
    if (list == NULL)
        return false;
    if (origin->path != NULL && realpath(origin->path, directory) != NULL)
        *strrchr(directory, '/') = '\0';
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, separators);
        int size = snprintf(written, sizeof(written), "%.*s%s%s", (int)length, at,
                            length ? "/" : "", wanted->name);
        if (size < (int)sizeof(written) && expand(written, directory, path) && take(wanted, path))
            return true;
        at += length;
        if (*at == '\0')
            return false;
    }
}

/* Looks in DT_RPATH of the object that needs the library, and of those that brought that object. An
 * object with DT_RUNPATH uses that instead, for its own needs only. */
static bool search_rpaths(const struct wanted *wanted)
{
    const struct program_object *object = wanted->parent->elf.runpath ? NULL : wanted->parent;
    for (; object; object = object->parent)
        if (object->elf.runpath == NULL && search_list(wanted, object->elf.rpath, ":", object))
            return true;
    return false;
}

static bool search(const struct wanted *wanted, bool secure)
{
    static const char directories[] =
        "/" PROGRAM_LIB ":/usr/" PROGRAM_LIB ":/lib64:/usr/lib64:/lib:/usr/lib";
    const struct program_object *parent = wanted->parent;
    if (strchr(wanted->name, '/') != NULL)
        return search_list(wanted, "", ":", parent);
    return search_rpaths(wanted) ||
           (!secure && search_list(wanted, getenv("LD_LIBRARY_PATH"), ":;", parent)) ||
           search_list(wanted, parent->elf.runpath, ":", parent) ||
           ((parent->elf.flags_1 & DF_1_NODEFLIB) == 0 &&
            (search_cache(wanted) || search_list(wanted, directories, ":", parent)));
}

static bool is_there(const struct program *program, const char *name)
{
    for (size_t i = 1; i < program->count; i++) {
        const struct program_object *object = &program->objects[i];
        if (strcmp(object->name, name) == 0 ||
            (object->elf.soname != NULL && strcmp(object->elf.soname, name) == 0))
            return true;
    }
    return false;
}

void program_find_libraries(struct program *program, bool secure)
{
    for (size_t i = 0; i < program->count && !program->too_many; i++) {
        struct wanted wanted = {program, &program->objects[i], NULL};
        for (size_t k = 0; (wanted.name = elf_needed(&program->objects[i].elf, k)) != NULL; k++)
            if (!is_there(program, wanted.name) && !search(&wanted, secure))
                program_add(program, wanted.name, NULL, -1, wanted.parent);
    }
}

const struct program_object *program_load(struct program *program,
                                          const struct program_object *loader, const char *name,
                                          bool secure)
{
    struct wanted wanted = {program, loader, name};
    if (!is_there(program, name) && !search(&wanted, secure))
        program_add(program, name, NULL, -1, loader);
    program_find_libraries(program, secure);
    return program_find(program, name);
}
