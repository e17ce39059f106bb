/* directnfs check --pid: a running process, as /proc and its statistics show it. */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/check/check.h"
#include "cmd/check/program.h"
#include "cmd/cmd.h"
#include "cmd/print.h"
#include "cmd/rundir.h"
#include "cmd/snapshot.h"
#include "config/nfstab.h"
#include "stats/read.h"

#define DELETED  " (deleted)"
#define CLUSTERS "config_file=/etc/postgresql/"

enum { FILES_SHOWN = 20 };

struct process {
    unsigned pid;
    struct program program; /* element 0 is its executable */
    char *environment;      /* NAME=VALUE, each with a NUL, and one NUL more; NULL: not readable */
    bool secure, foreign;   /* AT_SECURE; in a container, with other numbers and files */
    char root[PATH_MAX];    /* root of its file system, as seen from here; empty: ours */
    const struct program_object *library; /* ours, if it is mapped */
    struct stats_snapshot snapshot;
    const struct directnfs_stats *stats; /* its own, in the snapshot */
    struct conf_nfstab tab;
};

/* The name of a file of /proc/PID, until the next call. */
static const char *proc_path(const struct process *process, const char *name)
{
    static char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "/proc/%u/%s", process->pid, name);
    return path;
}

static const char *variable(const struct process *process, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = process->environment; at && *at; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static void read_root(struct process *process)
{
    ssize_t length = readlink(proc_path(process, "root"), process->root, sizeof(process->root) - 1);
    process->root[length > 1 ? length : 0] = '\0';
}

/* The process's name for a file that is `path` here: it is shorter after chroot(2). */
static const char *name_inside(const struct process *process, const char *path)
{
    size_t length = strlen(process->root);
    return strncmp(path, process->root, length) == 0 && path[length] == '/' ? path + length : path;
}

/* Reports why nothing of the process can be seen. */
static void say_no_process(struct process *process, int error)
{
    struct stat status;
    if (stat(proc_path(process, ""), &status) != 0) {
        check_say(CHECK_ERROR, "process", "there is no process %u", process->pid);
        check_remedy("pgrep -a NAME lists processes; in a container the numbers differ");
    } else if (error == EACCES || error == EPERM) {
        check_say(CHECK_ERROR, "process",
                  "process %u belongs to user %u, and user %u may not look at it", process->pid,
                  status.st_uid, geteuid());
        check_remedy("run check as root, with CAP_SYS_PTRACE");
    } else {
        check_say(CHECK_ERROR, "process",
                  "process %u is a thread of the kernel, or has ended and waits for its parent",
                  process->pid);
    }
}

/* ---- what is mapped ---- */

static bool is_there(const struct program *program, const char *path)
{
    for (size_t i = 0; i < program->count; i++)
        if (strcmp(program->objects[i].path, path) == 0)
            return true;
    return false;
}

/* One line of maps: START-END PERMISSIONS OFFSET DEVICE INODE PATH. */
static void add_mapping(struct process *process, char *line)
{
    char range[64], permissions[8], entry[96], inside[PATH_MAX + 8];
    int at = 0;
    if (sscanf(line, "%63s %7s %*s %*s %*s %n", range, permissions, &at) < 2 || at == 0 ||
        permissions[2] != 'x' || line[at] != '/')
        return;
    char *path = line + at;
    size_t length = strlen(path);
    bool deleted =
        length > strlen(DELETED) && strcmp(path + length - strlen(DELETED), DELETED) == 0;
    if (deleted)
        path[length - strlen(DELETED)] = '\0';
    if (is_there(&process->program, path))
        return;
    /* The first way finds the mapped file, even if it is deleted; but only root may use it. */
    snprintf(entry, sizeof(entry), "map_files/%s", range);
    int fd = program_open(proc_path(process, entry));
    if (fd < 0 && !deleted) {
        snprintf(inside, sizeof(inside), "root%s", name_inside(process, path));
        fd = program_open(proc_path(process, inside));
    }
    struct program_object *object = program_add(&process->program, path, path, fd, NULL);
    const char *why;
    if (object == NULL)
        return;
    object->deleted = deleted;
    if (fd >= 0 && elf_open(&object->elf, fd, &why) != 0)
        elf_close(&object->elf);
}

/* Reads the executable, and all files with code. False: reported. */
static bool read_mappings(struct process *process)
{
    char target[PATH_MAX];
    size_t size;
    ssize_t length = readlink(proc_path(process, "exe"), target, sizeof(target) - 1);
    int fd = length < 0 ? -errno : program_open(proc_path(process, "exe"));
    char *maps = fd < 0 ? NULL : program_read(proc_path(process, "maps"), &size);
    if (maps == NULL) {
        say_no_process(process, fd < 0 ? -fd : errno);
        if (fd >= 0)
            close(fd);
        return false;
    }
    target[length] = '\0';
    char *deleted = strstr(target, DELETED);
    if (deleted)
        *deleted = '\0';
    program_add(&process->program, target, target, fd, NULL)->deleted = deleted != NULL;
    char *rest = maps;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        add_mapping(process, line);
    free(maps);
    for (size_t i = 1; i < process->program.count; i++)
        if (check_is_ours(&process->program.objects[i]))
            process->library = &process->program.objects[i];
    return true;
}

/* ---- how it was started ---- */

/* The parent, if it runs the same program. 0: it does not, or is not known. */
static unsigned parent_of(const struct process *process)
{
    char ours[PATH_MAX], theirs[PATH_MAX];
    size_t size;
    char *status = program_read(proc_path(process, "status"), &size);
    const char *line = status ? strstr(status, "\nPPid:") : NULL;
    struct process parent = {.pid = line ? (unsigned)strtoul(line + 6, NULL, 10) : 0};
    free(status);
    ssize_t length = readlink(proc_path(process, "exe"), ours, sizeof(ours));
    bool same = parent.pid != 0 && length > 0 &&
                readlink(proc_path(&parent, "exe"), theirs, sizeof(theirs)) == length &&
                memcmp(ours, theirs, (size_t)length) == 0;
    return same ? parent.pid : 0;
}

/*
 * Reads the environment. Servers overwrite theirs to show what they are busy with. Then it reads
 * that of the parent, if the parent runs the same program.
 */
static void read_environment(struct process *process)
{
    size_t size;
    process->environment = program_read(proc_path(process, "environ"), &size);
    if (process->environment == NULL || strchr(process->environment, '=') != NULL)
        return;
    struct process parent = {.pid = parent_of(process)};
    if (parent.pid != 0)
        parent.environment = program_read(proc_path(&parent, "environ"), &size);
    if (parent.environment == NULL)
        return;
    free(process->environment);
    process->environment = parent.environment;
    check_say(CHECK_INFO, "environment",
              "it wrote over its own; that of its parent, process %u:", parent.pid);
}

static void read_start(struct process *process)
{
    size_t size = 0;
    Elf64_auxv_t *vector = (Elf64_auxv_t *)program_read(proc_path(process, "auxv"), &size);
    for (size_t i = 0; vector && i < size / sizeof(*vector); i++)
        if (vector[i].a_type == AT_SECURE)
            process->secure = vector[i].a_un.a_val != 0;
    free(vector);
    read_environment(process);

    /* Services of systemd also have mount namespaces of their own, but only to hide a few paths. */
    struct stat ours, theirs;
    process->foreign = stat("/proc/self/ns/pid", &ours) == 0 &&
                       stat(proc_path(process, "ns/pid"), &theirs) == 0 &&
                       ours.st_ino != theirs.st_ino;
    if (process->foreign) {
        check_say(CHECK_WARNING, "container",
                  "it runs in another pid namespace: its files and statistics are not seen");
        check_remedy("run check where it runs, in the container, or by nsenter -t %u -a",
                     process->pid);
    }
}

static void say_environment(struct process *process)
{
    if (process->environment == NULL || strchr(process->environment, '=') == NULL) {
        check_say(CHECK_INFO, "environment", "%s",
                  process->environment ? "the process has none, or wrote over it"
                                       : "may not be read");
        return;
    }
    for (const char *at = process->environment; *at; at += strlen(at) + 1)
        if (strncmp(at, "LD_PRELOAD=", 11) == 0 || strncmp(at, "DIRECTNFS_", 10) == 0)
            check_say(CHECK_INFO, "environment", "%s", at);
    const char *off = variable(process, "DIRECTNFS_DISABLE");
    if (off != NULL && strcmp(off, "1") == 0) {
        check_say(CHECK_ERROR, "disabled", "DIRECTNFS_DISABLE=1 switches the library off");
        check_remedy("start it again without this variable");
    }
}

/*
 * Debian's scripts start PostgreSQL only with the variables of a file of the cluster. So LD_PRELOAD
 * in the systemd unit has no effect. The first process has the place of that file as an argument.
 * The others show there what they are busy with.
 */
static bool name_environment_file(const struct process *process)
{
    struct process first = {.pid = parent_of(process)};
    const struct process *asked[] = {process, &first};
    char library[PATH_MAX], cluster[PATH_MAX] = "";
    for (size_t i = 0; i < 2 && asked[i]->pid != 0 && cluster[0] == '\0'; i++) {
        size_t size = 0;
        char *words = program_read(proc_path(asked[i], "cmdline"), &size);
        for (const char *at = words; at && at < words + size; at += strlen(at) + 1)
            if (strncmp(at, CLUSTERS, strlen(CLUSTERS)) == 0)
                snprintf(cluster, sizeof(cluster), "%s", at + strlen("config_file="));
        free(words);
    }
    char *slash = strrchr(cluster, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    check_remedy("write LD_PRELOAD = '%s' into %s/environment, from where Debian's scripts take "
                 "the variables of a cluster, and restart it",
                 cmd_library(library) ? library : "libdirectnfs.so", cluster);
    return true;
}

/* Reports why the library is not mapped. */
static void say_absent(struct process *process)
{
    const char *preload = variable(process, "LD_PRELOAD");
    if (!process->program.objects[0].elf.dynamic)
        return; /* reported already */
    if (process->secure) {
        check_say(CHECK_ERROR, "library",
                  "it was started as set-user-ID, set-group-ID or with file capabilities "
                  "(AT_SECURE), so ld.so ignored LD_PRELOAD");
        check_remedy("check --program %s says what to change", process->program.objects[0].path);
    } else if (preload == NULL || strstr(preload, "libdirectnfs") == NULL) {
        check_say(CHECK_ERROR, "library", "it was started without libdirectnfs.so%s",
                  process->environment ? "" : ", as far as can be seen");
        if (!name_environment_file(process))
            check_remedy("start it by directnfs run, or with LD_PRELOAD in its systemd unit");
    } else {
        check_say(
            CHECK_ERROR, "library",
            "libdirectnfs.so is not mapped, though LD_PRELOAD names it: ld.so could not load it");
        check_remedy("see whether the file is there and the process's user may read it, and what "
                     "ld.so wrote to the standard error output at the start");
    }
}

static void say_library(struct process *process)
{
    const struct program_object *library = process->library;
    if (library == NULL) {
        say_absent(process);
        return;
    }
    char *version = check_library_version(&library->elf);
    bool same = version && strcmp(version, DIRECTNFS_VERSION) == 0;
    check_say(same || library->deleted || !version ? CHECK_INFO : CHECK_WARNING, "library",
              "%s is loaded, version %s%s%s", library->path, version ? version : "unknown",
              same || !version ? "" : "; this command is of version ",
              same || !version ? "" : DIRECTNFS_VERSION);
    check_word("version", version ? version : "");
    free(version);
    if (library->deleted) {
        check_say(CHECK_WARNING, "library",
                  "the file was replaced or removed since: the process runs the old one");
        check_remedy("restart it to use the new one");
    }
}

/* ---- its statistics and files ---- */

static const struct directnfs_stats *find_stats(struct process *process)
{
    cmd_stats_read("check", &process->snapshot, 1);
    for (unsigned i = 0; i < process->snapshot.count; i++)
        if (process->snapshot.processes[i]->pid == process->pid)
            return process->snapshot.processes[i];
    return NULL;
}

/* True if only the process's user, or root, can change the directory: what is in it may be
 * believed. */
static bool is_trusted(const struct process *process, const char *directory)
{
    struct stat owner, status;
    return stat(proc_path(process, ""), &owner) == 0 && lstat(directory, &status) == 0 &&
           S_ISDIR(status.st_mode) && status.st_uid == owner.st_uid && (status.st_mode & 077) == 0;
}

/* The environment of the process decides where its statistics and its nfstab are. */
static void adopt_variables(const struct process *process)
{
    static const char *const names[] = {"DIRECTNFS_NFSTAB", "DIRECTNFS_HOME", "DIRECTNFS_RUN"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = variable(process, names[i]);
        if (value != NULL && (i < 2 || is_trusted(process, value)))
            setenv(names[i], value, 1);
    }
}

static void say_stats(struct process *process)
{
    const struct directnfs_stats *stats = process->stats = find_stats(process);
    char directory[RUN_PATH_MAX];
    cmd_rundir_name(directory);
    if (stats == NULL) {
        check_say(CHECK_WARNING, "statistics",
                  "%s has none of this process: it has not opened a file of a mount, has no "
                  "configured mount, or may not use that directory",
                  directory);
        check_remedy("see the messages of the library (DIRECTNFS_LOG), and run directnfs check as "
                     "the process's user");
    } else {
        const struct directnfs_counters *sum = &stats->counters;
        check_say(CHECK_INFO, "statistics",
                  "in %s: %" PRIu64 " bytes read, %" PRIu64 " written, %" PRIu64
                  " files direct, %" PRIu64 " left to the kernel",
                  directory, sum->read_bytes, sum->write_bytes, sum->files_direct,
                  sum->files_kernel);
        check_number("read_bytes", sum->read_bytes);
        check_number("write_bytes", sum->write_bytes);
        check_number("files_direct", sum->files_direct);
        check_number("files_kernel", sum->files_kernel);
    }
}

static bool is_managed(const struct process *process, const char *path)
{
    for (size_t i = 0; process->stats && i < DIRECTNFS_SERVERS; i++)
        if (process->stats->servers[i].slot == DIRECTNFS_SLOT_USED &&
            check_lies_in(path, process->stats->servers[i].mount))
            return true;
    for (size_t i = 0; i < process->tab.server_count; i++)
        for (size_t k = 0; k < process->tab.servers[i].export_count; k++)
            if (check_lies_in(path, process->tab.servers[i].exports[k].mount))
                return true;
    return false;
}

/* The statistics of a file by its path. If the path is long, its beginning is missing there. A file
 * that was left to the kernel at once is not followed, so it is shown as closed. */
static const struct directnfs_file_stats *file_stats(const struct process *process,
                                                     const char *path)
{
    for (size_t i = 0; process->stats && i < DIRECTNFS_FILES; i++) {
        const struct directnfs_file_stats *file = &process->stats->files[i];
        size_t length = strlen(file->name), whole = strlen(path);
        bool cut = strncmp(file->name, "...", 3) == 0 && whole + 3 > length;
        if (file->slot != DIRECTNFS_SLOT_FREE &&
            (strcmp(file->name, path) == 0 ||
             (cut && strcmp(file->name + 3, path + whole + 3 - length) == 0)))
            return file;
    }
    return NULL;
}

/* Counts descriptors of regular files below mounts. Reports those that the kernel serves, and why.
 * Returns the number of the others. */
static unsigned say_descriptors(struct process *process)
{
    unsigned served = 0, kernel = 0;
    DIR *directory = opendir(proc_path(process, "fd"));
    if (directory == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char target[PATH_MAX];
        struct stat status;
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
        if (length <= 0 || target[0] != '/')
            continue;
        target[length] = '\0';
        const char *path = name_inside(process, target);
        if (!is_managed(process, path) ||
            fstatat(dirfd(directory), entry->d_name, &status, 0) != 0 || !S_ISREG(status.st_mode))
            continue;
        const struct directnfs_file_stats *file = file_stats(process, path);
        if (file != NULL && file->slot == DIRECTNFS_SLOT_USED &&
            file->state == DIRECTNFS_FILE_DIRECT) {
            served++;
            continue;
        }
        if (++kernel > FILES_SHOWN)
            continue;
        check_say(CHECK_INFO, "descriptor", "%s: %s: %s", entry->d_name, path,
                  file && file->reason[0] ? file->reason
                  : process->library ? "not in the statistics (inherited, or opened by means that "
                                       "the library does not see)"
                                     : "the library is not loaded");
        check_word("path", path);
    }
    closedir(directory);
    check_say(served == 0 && kernel > 0 ? CHECK_WARNING : CHECK_INFO, "files",
              "%u open file%s of configured mounts: %u direct, %u on the kernel%s", served + kernel,
              served + kernel == 1 ? "" : "s", served, kernel,
              kernel > FILES_SHOWN ? " (the first 20 are above)" : "");
    check_number("served", served);
    check_number("kernel", kernel);
    return served;
}

/* ---- all of it ---- */

static unsigned look(struct process *process)
{
    read_root(process);
    if (!read_mappings(process))
        return 0;
    struct program_object *object = &process->program.objects[0];
    check_say(CHECK_INFO, "process", "%u runs %s", process->pid, object->path);
    check_word("path", object->path);
    if (object->deleted) {
        check_say(CHECK_WARNING, "process",
                  "its program was replaced or removed since it was started");
        check_remedy("restart it to run the new one");
    }
    read_start(process);
    say_environment(process);
    bool sound = check_elf(object);
    say_library(process);
    unsigned served = 0;
    if (!process->foreign) {
        struct conf_sources sources;
        adopt_variables(process);
        conf_sources_default(&sources);
        conf_nfstab_load(&process->tab, &sources, NULL);
        if (process->library)
            say_stats(process);
        served = say_descriptors(process);
    }
    if (sound)
        check_calls(&process->program);
    if (process->library && !process->foreign && !process->root[0])
        check_foreign_of_process(&process->program, process->library);
    return served;
}

int check_process(unsigned pid, bool json)
{
    struct process process = {.pid = pid};
    char name[16];
    snprintf(name, sizeof(name), "%u", pid);
    check_begin(json, "process", name);
    unsigned served = look(&process);
    free(process.environment);
    stats_snapshot_free(&process.snapshot);
    conf_nfstab_free(&process.tab);
    program_free(&process.program);
    if (check_report.counts[CHECK_ERROR] > 0)
        return check_end("Process %u is not served: %s.", pid, check_report.worst);
    return check_end("Process %u has the library, and %u file%s open that %s direct.", pid, served,
                     served == 1 ? "" : "s", served == 1 ? "is" : "are");
}
