/*
 * directnfs check --program: finds the file with the code that a name would run. Would ld.so heed
 * LD_PRELOAD for it? Nothing is executed.
 */
#include "cmd/check/program.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cmd/cmd.h"

enum { SCRIPT_LINE_MAX = 256 }; /* as in the kernel */

/* ---- names ---- */

bool program_find_in_path(const char *name, char path[PATH_MAX])
{
    if (strchr(name, '/') != NULL)
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    const char *list = getenv("PATH");
    for (const char *at = list && *list ? list : "/usr/bin:/bin";; at++) {
        size_t length = strcspn(at, ":");
        struct stat status;
        if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, at, length ? "/" : "", name) <
                PATH_MAX &&
            access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode))
            return true;
        at += length;
        if (*at == '\0')
            return false;
    }
}

static void say_open_error(const char *path, int error)
{
    if (error == -EISDIR || error == -EINVAL) {
        check_say(CHECK_ERROR, "program", "%s is %s", path,
                  error == -EISDIR ? "a directory" : "no regular file");
        check_remedy("name the program's file");
        return;
    }
    check_say(CHECK_ERROR, "program", "%s cannot be read: %s", path, strerror(-error));
    if (error == -EACCES || error == -EPERM)
        check_remedy("run check as root, or as a user who may read the file");
}

/* ---- scripts ---- */

/* Takes the first word off `line`. NULL: there is none. */
static char *next_word(char **line)
{
    char *word = *line + strspn(*line, " \t");
    size_t length = strcspn(word, " \t");
    *line = word + length + (word[length] != '\0');
    word[length] = '\0';
    return length ? word : NULL;
}

/* env(1) starts the first word that is neither an option nor an assignment. */
static bool skip_env(char *rest, char path[PATH_MAX])
{
    for (char *word; (word = next_word(&rest)) != NULL;)
        if (word[0] != '-' && strchr(word, '=') == NULL)
            return program_find_in_path(word, path);
    return false;
}

enum program_step program_follow_script(int fd, char path[PATH_MAX])
{
    char line[SCRIPT_LINE_MAX + 1];
    ssize_t length = pread(fd, line, SCRIPT_LINE_MAX, 0);
    if (length < 2 || memcmp(line, "#!", 2) != 0)
        return PROGRAM_HERE;
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    char *rest = line + 2;
    char *interpreter = next_word(&rest);
    if (interpreter == NULL)
        return PROGRAM_NO_INTERPRETER;
    const char *base = strrchr(interpreter, '/');
    bool env = strcmp(base ? base + 1 : interpreter, "env") == 0;
    bool found = env ? skip_env(rest, path) : program_find_in_path(interpreter, path);
    return found ? PROGRAM_ON : PROGRAM_INTERPRETER_MISSING;
}

/* Reports on a script, which led to the interpreter. */
static void say_script(enum program_step step, const char *script, const char *interpreter)
{
    if (step == PROGRAM_NO_INTERPRETER) {
        check_say(CHECK_ERROR, "script", "%s is a script without an interpreter", script);
        check_remedy("correct its first line");
    } else if (step == PROGRAM_INTERPRETER_MISSING) {
        check_say(CHECK_ERROR, "script", "the interpreter of %s is not found", script);
        check_remedy("correct its first line, or $PATH");
    } else if (step == PROGRAM_ON) {
        check_say(CHECK_INFO, "script",
                  "%s is a script for %s, which is looked at; what it starts has the library too, "
                  "and is to be checked by itself",
                  script, interpreter);
        check_word("interpreter", interpreter);
    }
}

/* ---- does ld.so heed LD_PRELOAD? ---- */

/* If the file gives a capability, the kernel calls the start secure, unless root starts it. */
static void check_capabilities(const struct program_object *object)
{
    struct vfs_ns_cap_data data = {0};
    ssize_t size = fgetxattr(object->fd, "security.capability", &data, sizeof(data));
    if (size < (ssize_t)sizeof(uint32_t))
        return;
    uint64_t permitted = data.data[0].permitted | (uint64_t)data.data[1].permitted << 32;
    uint64_t inheritable = data.data[0].inheritable | (uint64_t)data.data[1].inheritable << 32;
    bool effective = data.magic_etc & VFS_CAP_FLAGS_EFFECTIVE;
    if (permitted == 0 && inheritable == 0 && !effective)
        return;
    check_say(permitted || effective ? CHECK_ERROR : CHECK_WARNING, "capability",
              "%s has file capabilities (permitted %#jx, inheritable %#jx), for which ld.so "
              "ignores LD_PRELOAD unless root starts it",
              object->path, (uintmax_t)permitted, (uintmax_t)inheritable);
    check_remedy("setcap -r %s, and give the capability by AmbientCapabilities= of the systemd "
                 "unit, which does not switch preloading off",
                 object->path);
}

static void check_mode(const struct program_object *object)
{
    struct stat status;
    struct statvfs system;
    if (fstat(object->fd, &status) != 0)
        return;
    if ((status.st_mode & 0111) == 0) {
        check_say(CHECK_ERROR, "mode", "%s has no execute permission (mode %04o)", object->path,
                  status.st_mode & 07777u);
        check_remedy("chmod a+x %s, if it is a program", object->path);
    }
    if (fstatvfs(object->fd, &system) == 0 && (system.f_flag & ST_NOSUID))
        return; /* what follows has no effect there */
    if (status.st_mode & S_ISUID) {
        check_say(CHECK_ERROR, "mode",
                  "%s is set-user-ID to user %u, so ld.so ignores LD_PRELOAD for everybody else",
                  object->path, status.st_uid);
        check_remedy("chmod u-s %s, and start it as user %u", object->path, status.st_uid);
    }
    if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)) {
        check_say(CHECK_ERROR, "mode",
                  "%s is set-group-ID to group %u, so ld.so ignores LD_PRELOAD for who does not "
                  "have this as the first group",
                  object->path, status.st_gid);
        check_remedy("chmod g-s %s, and start it with group %u", object->path, status.st_gid);
    }
    check_capabilities(object);
}

/* ---- the ELF file ---- */

bool check_elf(struct program_object *object)
{
    const char *why = "", *path = object->path;
    struct elf_file *elf = &object->elf;
    int error = elf_open(elf, object->fd, &why);
    bool program = elf->header.e_type == ET_EXEC || elf->header.e_type == ET_DYN;
    if (error == 0 && program && elf->interpreter != NULL && elf->dynamic)
        return true;
    if (error == -ENOEXEC) {
        check_say(CHECK_ERROR, "program", "%s is neither an ELF program nor a script", path);
        check_remedy("name the program itself");
    } else if (error == -EXDEV) {
        check_say(CHECK_ERROR, "program",
                  "%s is a program for %s, and the library is for 64-bit programs of this machine",
                  path, elf_machine_name(elf));
        check_remedy("use the build for this machine");
    } else if (error == -EBADMSG) {
        check_say(CHECK_ERROR, "program", "%s is damaged: %s", path, why);
        check_remedy("install it again");
    } else if (error) {
        check_say(CHECK_ERROR, "program", "%s cannot be read: %s", path, strerror(-error));
    } else if (!program) {
        check_say(CHECK_ERROR, "program", "%s is an ELF file, but no program", path);
        check_remedy("name the program itself");
    } else if (elf->dynamic && !(elf->flags_1 & DF_1_PIE)) {
        check_say(CHECK_ERROR, "program", "%s is a shared library, no program", path);
        check_remedy("name the program that uses it");
    } else {
        check_say(CHECK_ERROR, "linked",
                  "%s is linked statically%s: there is no ld.so that could load a library into it",
                  path, elf->dynamic ? " (static-pie)" : "");
        check_remedy("use a build that is linked dynamically");
    }
    return false;
}

static void say_libraries(const struct program *program)
{
    for (size_t i = 1; i < program->count; i++) {
        const struct program_object *object = &program->objects[i];
        if (object->path != NULL)
            continue;
        check_say(CHECK_ERROR, "library",
                  "%s, which %s needs, is not found: the program would not start", object->name,
                  object->parent->name);
        check_remedy("install it, or set LD_LIBRARY_PATH as for the program");
    }
    if (program->too_many)
        check_say(CHECK_WARNING, "library", "more than %d libraries: the rest is not seen",
                  PROGRAM_OBJECTS_MAX);
}

/* Follows scripts to the program. True: `program` has it, opened and sound. */
static bool open_program(const char *name, struct program *program)
{
    char path[PATH_MAX], script[PATH_MAX];
    if (!program_find_in_path(name, path)) {
        check_say(CHECK_ERROR, "program", "%s is not found in $PATH", name);
        check_remedy("name it with its directory");
        return false;
    }
    for (int scripts = 0;; scripts++) {
        int fd = program_open(path);
        if (fd < 0) {
            say_open_error(path, fd);
            return false;
        }
        memcpy(script, path, PATH_MAX);
        enum program_step step = program_follow_script(fd, path);
        say_script(step, script, path);
        if (step == PROGRAM_HERE)
            return program_add(program, path, path, fd, NULL) != NULL &&
                   (check_mode(&program->objects[0]), check_elf(&program->objects[0]));
        close(fd);
        if (step != PROGRAM_ON)
            return false;
        if (scripts == PROGRAM_SCRIPTS_MAX) {
            check_say(CHECK_ERROR, "script", "too many scripts start one another");
            return false;
        }
    }
}

int check_program(const char *name, bool json)
{
    struct program program = {0};
    check_begin(json, "program", name);
    bool sound = open_program(name, &program);
    if (!sound && program.count > 0)
        check_foreign_nothing();
    if (sound) {
        const struct elf_file *elf = &program.objects[0].elf;
        const char *path = program.objects[0].path;
        if (access(elf->interpreter, X_OK) != 0) {
            check_say(CHECK_ERROR, "linked", "%s is not there, which %s needs to be started: %s",
                      elf->interpreter, path, strerror(errno));
            check_remedy("use a build for this system");
        }
        bool secure = check_report.counts[CHECK_ERROR] > 0;
        program_find_libraries(&program, secure);
        check_say(CHECK_INFO, "program", "%s: for %s, linked dynamically, with %zu libraries", path,
                  elf_machine_name(elf), program.count - 1);
        check_word("path", path);
        check_number("libraries", program.count - 1);
        say_libraries(&program);
        check_calls(&program);
        check_foreign(&program, secure);
        check_say(
            CHECK_INFO, "not seen",
            "what the program loads while it runs (dlopen): check --pid looks at a running one");
    }
    program_free(&program);
    if (check_report.counts[CHECK_ERROR] > 0)
        return check_end("%s: the kernel serves its files: %s.", name, check_report.worst);
    if (check_report.counts[CHECK_WARNING] > 0)
        return check_end("%s can be served, but for what the warning%s above say%s.", name,
                         check_report.counts[CHECK_WARNING] > 1 ? "s" : "",
                         check_report.counts[CHECK_WARNING] > 1 ? "" : "s");
    return check_end("%s can be served: directnfs run %s", name, name);
}
