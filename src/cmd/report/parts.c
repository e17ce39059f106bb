/*
 * What a report holds. It has names of files, hosts and users, but no contents of files. Some
 * things may hold secrets: an environment, comments of a configuration, a database's lines in a
 * log. Of these it takes only what is the library's own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/check/program.h"
#include "cmd/cmd.h"
#include "cmd/print.h"
#include "cmd/report/report.h"
#include "cmd/snapshot.h"
#include "config/nfstab.h"
#include "config/tunables.h"

enum {
    PROCESSES_MAX = 200,
    LOG_BYTES = 1 << 20, /* from the end of a log */
    LOGS_MAX = 16,
};

const char *report_log;

static void heading(const char *text)
{
    char *printable = cmd_printable(text, SIZE_MAX);
    printf("\n==== %s\n", printable);
    free(printable);
}

/* Opens a regular file without waiting. Anybody may have made it. */
static FILE *open_regular(const char *path)
{
    int fd = program_open(path);
    return fd >= 0 ? fdopen(fd, "r") : (errno = -fd, NULL);
}

/* Prints those lines of a file for which `wanted` is true; NULL: all. */
static void print_lines(const char *path, bool (*wanted)(const char *line))
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = open_regular(path);
    if (file == NULL) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    while (getline(&line, &room, file) > 0)
        if (wanted == NULL || wanted(line))
            fputs(line, stdout);
    free(line);
    fclose(file);
}

/* ---- the host ---- */

static bool is_name(const char *line)
{
    return strncmp(line, "PRETTY_NAME=", 12) == 0;
}

static bool is_memory(const char *line)
{
    return strncmp(line, "Mem", 3) == 0 || strncmp(line, "Shmem:", 6) == 0;
}

static void print_library(void)
{
    char path[PATH_MAX];
    const char *why;
    struct elf_file elf;
    struct stat status;
    int fd = cmd_library(path) ? program_open(path) : -1;
    if (fd < 0 || fstat(fd, &status) != 0) {
        puts("library: not found beside this command, nor where it is installed");
        return;
    }
    char *version = elf_open(&elf, fd, &why) == 0 ? check_library_version(&elf) : NULL;
    printf("library: %s, version %s, %jd bytes, needs glibc 2.%u\n", path,
           version ? version : "unknown", (intmax_t)status.st_size, elf_glibc(&elf));
    free(version);
    elf_close(&elf);
    close(fd);
}

static void print_system(void)
{
    static const char *const settings[] = {
        "kernel/io_uring_disabled",
        "kernel/yama/ptrace_scope",
        "kernel/pid_max",
        "fs/nr_open",
        "fs/file-nr",
        "fs/aio-nr",
        "fs/aio-max-nr",
        "vm/overcommit_memory",
        "net/ipv4/ip_unprivileged_port_start",
        "net/ipv4/tcp_rmem",
        "net/ipv4/tcp_wmem",
        "net/ipv4/conf/all/rp_filter",
    };
    struct utsname system;
    struct statvfs memory;
    puts("directnfs: " DIRECTNFS_VERSION);
    print_library();
    printf("glibc: %s\n", gnu_get_libc_version());
    if (uname(&system) == 0)
        printf("kernel: %s %s, %s, host %s\n", system.release, system.version, system.machine,
               system.nodename);
    print_lines("/etc/os-release", is_name);
    printf("user: %u, effective %u\nprocessors: %ld\n", getuid(), geteuid(),
           sysconf(_SC_NPROCESSORS_ONLN));
    print_lines("/proc/meminfo", is_memory);
    if (statvfs("/dev/shm", &memory) == 0)
        printf("/dev/shm: %ju of %ju KiB free\n",
               (uintmax_t)memory.f_bavail * memory.f_frsize / 1024,
               (uintmax_t)memory.f_blocks * memory.f_frsize / 1024);
    heading("settings of the kernel");
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "/proc/sys/%s", settings[i]);
        printf("%s: ", settings[i]);
        fflush(stdout);
        print_lines(path, NULL);
    }
}

/* ---- configuration ---- */

static void print_tunables(void)
{
    char file[PATH_MAX];
    struct conf_tunables tunables;
    struct conf_diagnostics mistakes = {0};
    bool required = conf_tunables_file(file);
    int error = conf_tunables_load(&tunables, file, required, &mistakes);
    printf("# %s%s\n", file,
           error                     ? ": it has mistakes, see check"
           : access(file, F_OK) == 0 ? ""
                                     : ": not there, all have their defaults");
    conf_tunables_print(&tunables, stdout);
    conf_diagnostics_free(&mistakes);
}

/* ---- mounts ---- */

static bool is_mount(const char *line)
{
    const char *type = strstr(line, " - ");
    return type != NULL && (strncmp(type + 3, "nfs", 3) == 0 || strstr(line, " /dev/shm ") != NULL);
}

/* In /proc/self/mountstats, lines about a device follow the device's own line. */
static bool is_of_nfs(const char *line)
{
    static bool inside;
    if (strncmp(line, "device ", 7) == 0)
        inside = strstr(line, " with fstype nfs") != NULL;
    return inside;
}

static void print_mounts(void)
{
    print_lines("/proc/self/mountinfo", is_mount);
    heading("what the kernel's NFS client counts");
    print_lines("/proc/self/mountstats", is_of_nfs);
}

/* ---- processes ---- */

static bool is_status(const char *line)
{
    static const char *const names[] = {"Name:",  "State:",  "Uid:",    "Threads:", "VmSize:",
                                        "VmRSS:", "CapEff:", "CapAmb:", "NSpid:",   "Seccomp:"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static const char *proc_name(uint32_t pid, const char *name)
{
    static char path[64];
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    return path;
}

static void print_link(uint32_t pid, const char *name)
{
    char target[PATH_MAX];
    ssize_t length = readlink(proc_name(pid, name), target, sizeof(target) - 1);
    if (length < 0) {
        printf("%s: %s\n", name, strerror(errno));
        return;
    }
    target[length] = '\0';
    char *printable = cmd_printable(target, SIZE_MAX);
    printf("%s: %s\n", name, printable);
    free(printable);
}

/* Goes through the library's variables in the environment that a process started with. */
static char *next_variable(char *environment, size_t size, char *variable)
{
    for (variable = variable ? variable + strlen(variable) + 1 : environment;
         variable < environment + size; variable += strlen(variable) + 1)
        if (strncmp(variable, "DIRECTNFS_", 10) == 0 || strncmp(variable, "LD_PRELOAD=", 11) == 0)
            return variable;
    return NULL;
}

static void print_process(const struct directnfs_stats *process)
{
    static const char *const links[] = {"exe", "root", "ns/mnt", "ns/net", "ns/pid"};
    char title[64];
    size_t size;
    snprintf(title, sizeof(title), "process %u", process->pid);
    heading(title);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        print_link(process->pid, links[i]);
    char *environment = program_read(proc_name(process->pid, "environ"), &size);
    for (char *at = NULL; environment && (at = next_variable(environment, size, at)) != NULL;) {
        char *printable = cmd_printable(at, SIZE_MAX);
        puts(printable);
        free(printable);
    }
    free(environment);
    print_lines(proc_name(process->pid, "status"), is_status);
    print_lines(proc_name(process->pid, "cgroup"), NULL);
    print_lines(proc_name(process->pid, "limits"), NULL);
}

static void print_processes(void)
{
    struct stats_snapshot snapshot;
    cmd_stats_read("report", &snapshot, 1);
    printf("%u processes have statistics\n", snapshot.count);
    for (unsigned i = 0; i < snapshot.count && i < PROCESSES_MAX; i++)
        print_process(snapshot.processes[i]);
    stats_snapshot_free(&snapshot);
}

/* ---- the run directory ---- */

static void list_directory(void *argument)
{
    char path[RUN_PATH_MAX];
    int run = run_open(), copy = run >= 0 ? openat(run, ".", O_RDONLY | O_DIRECTORY) : -1;
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    (void)argument;
    heading(run_name(path));
    if (directory == NULL)
        printf("cannot be read: %s\n", strerror(run < 0 ? -run : errno));
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        struct stat status;
        char *printable = cmd_printable(entry->d_name, SIZE_MAX);
        if (fstatat(run, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
            printf("%06o %5u %5u %12jd (%jd KiB) %jd %s\n", status.st_mode, status.st_uid,
                   status.st_gid, (intmax_t)status.st_size, (intmax_t)status.st_blocks / 2,
                   (intmax_t)status.st_mtime, printable);
        free(printable);
    }
    if (directory)
        closedir(directory);
    run_close(run);
}

static void print_run_directory(void)
{
    char problem[CMD_RUNDIR_PROBLEM] = "";
    puts("mode, user, group, bytes, room, changed, name");
    if (cmd_rundir_visit("report", list_directory, NULL, problem) != 0)
        puts(problem);
}

/* ---- the log ---- */

/* Other lines of the log may hold what must not leave the host. */
static bool is_ours(const char *line)
{
    const char *tag = strstr(line, "directnfs[");
    return tag != NULL && strspn(tag + 10, "0123456789") > 0;
}

/* Prints our lines from the end of a log. It may be any file, of any size. */
static void print_log(const char *path)
{
    struct stat status;
    heading(path);
    int fd = program_open(path);
    char *text = cmd_need(malloc(LOG_BYTES + 1)), *rest = text;
    if (fd < 0 || fstat(fd, &status) != 0) {
        printf("cannot be read: %s\n", strerror(fd < 0 ? -fd : errno));
        free(text);
        return;
    }
    off_t from = status.st_size > LOG_BYTES ? status.st_size - LOG_BYTES : 0;
    ssize_t length = pread(fd, text, LOG_BYTES, from);
    text[length > 0 ? length : 0] = '\0';
    if (from > 0)
        strsep(&rest, "\n"); /* it may be the rest of a line */
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *printable = is_ours(line) ? cmd_printable(line, SIZE_MAX) : NULL;
        if (printable)
            puts(printable);
        free(printable);
    }
    free(text);
    close(fd);
}

/* Prints each log once. */
static void print_new_log(const char *path, char *seen[LOGS_MAX], size_t *count)
{
    if (path == NULL || path[0] != '/' || *count == LOGS_MAX)
        return;
    for (size_t i = 0; i < *count; i++)
        if (strcmp(seen[i], path) == 0)
            return;
    seen[(*count)++] = cmd_need(strdup(path));
    print_log(path);
}

/* The agent has no program's standard error output: it writes to the run directory. */
static void print_agent_log(void *unused)
{
    char run[RUN_PATH_MAX], path[RUN_PATH_MAX + 16];
    struct stat status;
    (void)unused;
    snprintf(path, sizeof(path), "%s/agent.log", run_name(run));
    if (lstat(path, &status) == 0)
        print_log(path);
}

static void print_logs(void)
{
    char *seen[LOGS_MAX], problem[CMD_RUNDIR_PROBLEM] = "";
    size_t count = 0, size;
    struct stats_snapshot snapshot;
    print_new_log(report_log, seen, &count);
    print_new_log(getenv("DIRECTNFS_LOG"), seen, &count);
    cmd_stats_read("report", &snapshot, 1);
    for (unsigned i = 0; i < snapshot.count && i < PROCESSES_MAX; i++) {
        char *environment = program_read(proc_name(snapshot.processes[i]->pid, "environ"), &size);
        for (char *at = NULL; environment && (at = next_variable(environment, size, at)) != NULL;)
            if (strncmp(at, "DIRECTNFS_LOG=", 14) == 0)
                print_new_log(at + 14, seen, &count);
        free(environment);
    }
    stats_snapshot_free(&snapshot);
    if (cmd_rundir_visit("report", print_agent_log, NULL, problem) != 0)
        puts(problem);
    while (count > 0)
        free(seen[--count]);
    heading("the journal");
    fflush(stdout);
    execlp("journalctl", "journalctl", "-q", "--no-pager", "--since=-7d", "-n", "1000",
           "--grep=directnfs\\[[0-9]+\\]: ", (char *)NULL);
    printf("journalctl cannot be started: %s\n", strerror(errno));
}

/* ---- configurations ---- */

enum { NFSTABS_MAX = 8, COMMAND_SECONDS = 50 };

/* An nfstab that a running process was given, for example by `directnfs run -t`. */
struct given {
    char *name;
    uint32_t pid, uid;
};

/* Returns the number of different ones. */
static size_t find_given(struct given list[NFSTABS_MAX])
{
    const char *own = getenv("DIRECTNFS_NFSTAB");
    struct stats_snapshot snapshot;
    size_t count = 0, size;
    cmd_stats_read("report", &snapshot, 1);
    for (unsigned i = 0; i < snapshot.count && i < PROCESSES_MAX && count < NFSTABS_MAX; i++) {
        const struct directnfs_stats *stats = snapshot.processes[i];
        char *environment = program_read(proc_name(stats->pid, "environ"), &size);
        for (char *at = NULL; environment && (at = next_variable(environment, size, at)) != NULL;) {
            size_t k = 0;
            if (strncmp(at, "DIRECTNFS_NFSTAB=", 17) != 0 || strcmp(at + 17, own ? own : "") == 0)
                continue;
            while (k < count && (list[k].uid != stats->uid || strcmp(list[k].name, at + 17) != 0))
                k++;
            if (k == count)
                list[count++] = (struct given){strdup(at + 17), stats->pid, stats->uid};
            break;
        }
        free(environment);
    }
    stats_snapshot_free(&snapshot);
    return count;
}

/* Runs this command with the configuration of this process, then with each one that running
 * processes were given. If a process belongs to another user, its nfstab is read as that user. */
static void run_for_each(const char *line)
{
    struct given list[NFSTABS_MAX];
    size_t count = find_given(list);
    for (size_t i = 0; i <= count; i++) {
        const struct given *one = i ? &list[i - 1] : NULL;
        char words[96], text[PATH_MAX];
        snprintf(words, sizeof(words), "%s", line);
        if (one) {
            snprintf(text, sizeof(text), "with DIRECTNFS_NFSTAB=%s, as process %u has it",
                     one->name, one->pid);
            heading(text);
            if (one->uid != geteuid())
                snprintf(words, sizeof(words), "%s --user %u", line, one->uid);
        }
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (one && one->name)
                setenv("DIRECTNFS_NFSTAB", one->name, 1);
            alarm(COMMAND_SECONDS);
            report_become(words);
        }
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    while (count > 0)
        free(list[--count].name);
}

static void print_nfstabs(void)
{
    run_for_each("check --print");
}

static void print_checks(void)
{
    run_for_each("check");
}

const struct report_part report_parts[] = {
    {"system", "versions, the host, settings of its kernel", NULL, print_system},
    {"nfstab", "the configured mounts, without comments", NULL, print_nfstabs},
    {"tunables", "the tunables that apply", NULL, print_tunables},
    {"check", "what directnfs check finds", NULL, print_checks},
    {"mounts", "mounts by NFS, and what the kernel counts for them", NULL, print_mounts},
    {"processes", "processes that have the library: limits, variables of the library", NULL,
     print_processes},
    {"stat", "the tables of directnfs stat all", "stat all", NULL},
    {"stat.json", "the same for programs", "stat --json", NULL},
    {"latency", "histograms of the time that calls took", "stat latency", NULL},
    {"last", "the tables of processes that have ended", "stat all --last", NULL},
    {"metrics", "the metrics", "stat --prometheus", NULL},
    {"paths", "network paths", "path list", NULL},
    {"top", "rates of one second", "top --once -d 1", NULL},
    {"run", "the run directory: names, sizes, owners", NULL, print_run_directory},
    {"log", "the last lines of the library, as far as they are found", NULL, print_logs},
    {NULL, NULL, NULL, NULL},
};
