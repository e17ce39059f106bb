/*
 * A program and the libraries that ld.so would load with it.
 */
#include "cmd/check/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (fd < 0)
        return -errno;
    int error = 0;
    if (fstat(fd, &status) != 0)
        error = -errno;
    else if (S_ISDIR(status.st_mode))
        error = -EISDIR;
    else if (!S_ISREG(status.st_mode))
        error = -EINVAL;
    if (error == 0)
        return fd;
    close(fd);
    return error;
}

struct program_object *program_add(struct program *program, const char *name, const char *path,
                                   int fd, size_t parent)
{
    struct program_object *more = NULL;
    if (program->count < PROGRAM_OBJECTS_MAX)
        more = reallocarray(program->objects, program->count + 1, sizeof(*more));
    else
        program->too_many = true;
    if (more != NULL) {
        program->objects = more;
        struct program_object *object = &more[program->count];
        *object = (struct program_object){
            .name = strdup(name), .path = path ? strdup(path) : NULL, .fd = fd, .parent = parent};
        if (object->name != NULL && (path == NULL || object->path != NULL)) {
            program->count++;
            return object;
        }
        free(object->name);
        free(object->path);
    }
    if (fd >= 0)
        close(fd);
    return NULL;
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
    uint32_t key, value; /* where the name and the path stand in the file */
    uint32_t os_version;
    uint64_t hardware;
};

/* The whole file, a NUL behind it; read once. NULL: there is none. */
static const char *cache_text(size_t *size)
{
    static char *text;
    static size_t length;
    int fd = text ? -1 : program_open(CACHE);
    if (fd >= 0) {
        struct elf_file file = {.fd = fd};
        struct stat status;
        if (fstat(fd, &status) == 0) {
            file.size = length = (size_t)status.st_size;
            text = elf_piece(&file, 0, length);
        }
        close(fd);
    }
    *size = length;
    return text;
}

/* ---- the search ---- */

/* One library that is looked for. */
struct wanted {
    struct program *program;
    size_t parent;
    const char *name;
};

/* Takes the file if it is a library for this machine; others are passed over, as ld.so does. */
static bool take(struct wanted *wanted, const char *path)
{
    const char *why;
    struct elf_file elf;
    int fd = program_open(path);
    if (fd < 0)
        return false;
    int error = elf_open(&elf, fd, &why);
    if (error == -ENOEXEC || error == -EXDEV) {
        elf_close(&elf);
        close(fd);
        return false;
    }
    struct program_object *object =
        program_add(wanted->program, wanted->name, path, fd, wanted->parent);
    if (object == NULL)
        elf_close(&elf);
    else
        object->elf = elf;
    return true;
}

static bool search_cache(struct wanted *wanted)
{
    size_t size;
    const char *text = cache_text(&size);
    struct cache_header header;
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

/* Replaces $ORIGIN, ${ORIGIN}, $LIB and $PLATFORM in a directory. False: too long. */
static bool expand(const char *text, size_t length, const char *origin, char result[PATH_MAX])
{
    static const char *const names[] = {"ORIGIN", "LIB", "PLATFORM"};
    const char *const values[] = {origin, PROGRAM_LIB, PLATFORM};
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        const char *value = NULL;
        size_t skip = 1;
        for (size_t k = 0; text[i] == '$' && k < 3 && value == NULL; k++) {
            size_t name = strlen(names[k]);
            bool braces = i + 1 < length && text[i + 1] == '{';
            if (i + 1 + name + 2 * braces <= length &&
                memcmp(text + i + 1 + braces, names[k], name) == 0 &&
                (!braces || text[i + 2 + name] == '}')) {
                value = values[k];
                skip = 1 + name + 2 * braces;
            }
        }
        size_t room = value ? strlen(value) : 1;
        if (used + room >= PATH_MAX)
            return false;
        memcpy(result + used, value ? value : text + i, room);
        used += room;
        i += skip;
    }
    result[used] = '\0';
    return true;
}

/* Looks in each directory of a list like $PATH. `origin` is the object that the list stands in. */
static bool search_list(struct wanted *wanted, const char *list, const char *separators,
                        const struct program_object *origin)
{
    char directory[PATH_MAX] = "", expanded[PATH_MAX], path[2 * PATH_MAX];
    if (list == NULL)
        return false;
    if (origin->path != NULL && realpath(origin->path, directory) != NULL)
        *strrchr(directory, '/') = '\0';
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, separators);
        if (expand(at, length, directory, expanded)) {
            snprintf(path, sizeof(path), "%s%s%s", expanded, length ? "/" : "", wanted->name);
            if (take(wanted, path))
                return true;
        }
        at += length;
        if (*at == '\0')
            return false;
    }
}

/* DT_RPATH of the object that needs it and of those that brought that one, unless it has a
 * DT_RUNPATH, which is for its own needs only. */
static bool search_rpaths(struct wanted *wanted)
{
    const struct program *program = wanted->program;
    if (program->objects[wanted->parent].elf.runpath != NULL)
        return false;
    for (size_t i = wanted->parent;; i = program->objects[i].parent) {
        const struct program_object *object = &program->objects[i];
        if (object->elf.runpath == NULL && search_list(wanted, object->elf.rpath, ":", object))
            return true;
        if (i == 0)
            return false;
    }
}

static void search(struct program *program, size_t parent, const char *name, bool secure)
{
    static const char directories[] =
        "/" PROGRAM_LIB ":/usr/" PROGRAM_LIB ":/lib64:/usr/lib64:/lib:/usr/lib";
    /* The array moves when it grows, so objects are named by number and strings by pointer. */
    struct wanted wanted = {program, parent, name};
    struct program_object *object = &program->objects[parent];
    if (strchr(name, '/') != NULL) {
        char path[PATH_MAX], directory[PATH_MAX] = "";
        if (object->path != NULL && realpath(object->path, directory) != NULL)
            *strrchr(directory, '/') = '\0';
        if (expand(name, strlen(name), directory, path) && take(&wanted, path))
            return;
    } else if (search_rpaths(&wanted) ||
               (!secure && getenv("LD_LIBRARY_PATH") != NULL &&
                search_list(&wanted, getenv("LD_LIBRARY_PATH"), ":;", object)) ||
               search_list(&wanted, object->elf.runpath, ":", object)) {
        return;
    } else if ((object->elf.flags_1 & DF_1_NODEFLIB) == 0 &&
               (search_cache(&wanted) || search_list(&wanted, directories, ":", object))) {
        return;
    }
    program_add(program, name, NULL, -1, parent);
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
        const char *name;
        for (size_t k = 0; (name = elf_needed(&program->objects[i].elf, k)) != NULL; k++)
            if (!is_there(program, name))
                search(program, i, name, secure);
    }
}
