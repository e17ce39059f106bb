/*
 * directnfs flush: what programs left in the run directory without a server having it, as they were
 * killed, goes to the server.
 *
 * Only the library knows how to do that: which file has which handle, what must not overtake what,
 * which data may still be on its way. So for each run directory this command starts itself with the
 * library preloaded, as the owner of the directory; there a syncfs(2), or an open(2) and fsync(2)
 * of a file, does all of it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/print.h"
#include "cmd/rundir.h"
#include "config/nfstab.h"
#include "stats/read.h"

/* ---- with the library ---- */

/* What a name on the command line, or a mount of the configuration, stands for. */
struct target {
    const char *name;
    dev_t device;
    ino_t inode;
    bool file;
};

static void read_registry(struct stats_snapshot *snapshot)
{
    int run = run_open(), error = run == -ENOENT ? 0 : run;
    char problem[CMD_RUNDIR_PROBLEM];
    *snapshot = (struct stats_snapshot){0};
    if (run >= 0) {
        error = stats_read_uncommitted(run, snapshot);
        run_close(run);
    }
    if (error) {
        cmd_complain("flush", "%s", cmd_rundir_problem(error, problem));
        exit(CMD_NOT_FINE);
    }
}

/* -errno */
static int send_file(const struct target *target)
{
    int fd = open(target->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int result = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

/* What is of one mount goes with what is of all others. */
static int send_mount(const struct target *target)
{
    int fd = open(target->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 || syncfs(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

static bool is_of(const struct target *target, const struct stats_uncommitted *file)
{
    return file->device == target->device && (!target->file || file->inode == target->inode);
}

static uint64_t left_of(const struct stats_uncommitted *file, const struct stats_snapshot *after)
{
    for (unsigned i = 0; i < after->uncommitted_count; i++)
        if (after->uncommitted_files[i].device == file->device &&
            after->uncommitted_files[i].inode == file->inode)
            return after->uncommitted_files[i].bytes;
    return 0;
}

static void name_of(const struct target *target, const struct stats_uncommitted *file,
                    char name[PATH_MAX])
{
    if (target->file)
        snprintf(name, PATH_MAX, "%s", target->name);
    else
        snprintf(name, PATH_MAX, "%.3800s: file number %llu", target->name,
                 (unsigned long long)file->inode);
}

/* Says what became of a file. A program that runs may have written to it meanwhile. */
static bool say(const struct target *target, const struct stats_uncommitted *file,
                const struct stats_snapshot *after, int result)
{
    char name[PATH_MAX];
    uint64_t left = left_of(file, after);
    name_of(target, file, name);
    if (result == 0 && left >= file->bytes) {
        cmd_complain("flush",
                     "%s: %llu bytes are not sent: they are of another mount than the "
                     "configuration has there, or a program goes on writing",
                     name, (unsigned long long)left);
        return false;
    }
    if (result == 0) {
        char *printable = cmd_printable(name, PATH_MAX);
        printf("%s: %llu bytes sent\n", printable, (unsigned long long)file->bytes);
        free(printable);
        return true;
    }
    if (left == 0)
        cmd_complain("flush", "%s: of %llu bytes%s some were refused, or dropped, and are lost: %s",
                     name, (unsigned long long)file->bytes,
                     target->file ? "" : " (or those of another file)", strerror(-result));
    else
        cmd_complain("flush", "%s: %llu bytes are not sent: %s", name, (unsigned long long)left,
                     strerror(-result));
    return false;
}

static bool send_target(const struct target *target, const struct stats_snapshot *before)
{
    struct stats_snapshot after;
    bool fine = true, some = false;
    int result = 0;
    for (unsigned i = 0; i < before->uncommitted_count; i++)
        some = some || is_of(target, &before->uncommitted_files[i]);
    if (some)
        result = target->file ? send_file(target) : send_mount(target);
    read_registry(&after);
    for (unsigned i = 0; i < before->uncommitted_count; i++)
        if (is_of(target, &before->uncommitted_files[i]))
            fine = say(target, &before->uncommitted_files[i], &after, result) && fine;
    stats_snapshot_free(&after);
    return fine;
}

/* Says what no mount of the configuration has. */
static bool nothing_else(const struct target *targets, size_t count)
{
    struct stats_snapshot snapshot;
    uint64_t bytes = 0;
    unsigned files = 0;
    read_registry(&snapshot);
    for (unsigned i = 0; i < snapshot.uncommitted_count; i++) {
        bool known = false;
        for (size_t t = 0; t < count; t++)
            known = known || is_of(&targets[t], &snapshot.uncommitted_files[i]);
        files += !known;
        bytes += known ? 0 : snapshot.uncommitted_files[i].bytes;
    }
    if (files > 0)
        cmd_complain("flush",
                     "%llu bytes of %u file%s are not sent: no mount of the configuration is there "
                     "that has them; DIRECTNFS_NFSTAB and DIRECTNFS_CONF must be those of the "
                     "programs that wrote them",
                     (unsigned long long)bytes, files, files == 1 ? "" : "s");
    stats_snapshot_free(&snapshot);
    return files == 0;
}

/* Of names, as they are; false after a complaint. */
static bool find_target(const char *name, struct target *target)
{
    struct stat status;
    if (stat(name, &status) != 0)
        cmd_complain("flush", "%s: %m", name);
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        cmd_complain("flush", "%s: neither a file nor a directory", name);
    else {
        *target = (struct target){name, status.st_dev, status.st_ino, S_ISREG(status.st_mode)};
        return true;
    }
    return false;
}

static int send_named(char **names, int count)
{
    int status = CMD_FINE;
    for (int i = 0; i < count; i++) {
        struct target target;
        struct stats_snapshot before;
        read_registry(&before); /* stat(2) sends what was written to a file */
        if (!find_target(names[i], &target) || !send_target(&target, &before))
            status = CMD_NOT_FINE;
        stats_snapshot_free(&before);
    }
    return status;
}

/* All mounts of the configuration that are there. */
static int send_all(void)
{
    struct conf_nfstab tab = {0};
    struct conf_sources sources = {0};
    struct target targets[256];
    size_t count = 0;
    struct stat status;
    bool fine = true;
    conf_sources_default(&sources);
    if (conf_nfstab_load(&tab, &sources, NULL) != 0) {
        cmd_complain("flush", "the nfstab has mistakes; 'directnfs check' shows them");
        return CMD_NOT_FINE;
    }
    for (size_t s = 0; s < tab.server_count; s++)
        for (size_t e = 0; e < tab.servers[s].export_count; e++) {
            const char *mount = tab.servers[s].exports[e].mount;
            if (count < sizeof(targets) / sizeof(targets[0]) && stat(mount, &status) == 0)
                targets[count++] = (struct target){mount, status.st_dev, 0, false};
        }
    for (size_t i = 0; i < count; i++) {
        struct stats_snapshot before;
        read_registry(&before);
        fine = send_target(&targets[i], &before) && fine;
        stats_snapshot_free(&before);
    }
    fine = nothing_else(targets, count) && fine;
    conf_nfstab_free(&tab);
    return fine ? CMD_FINE : CMD_NOT_FINE;
}

/* ---- without it ---- */

struct request {
    bool discard;
};

struct starting {
    char library[PATH_MAX], command[PATH_MAX];
    char **argv;
    int status;
};

/* In the child: for good who is the owner of the run directory. */
static bool become(uid_t user, gid_t group)
{
    return seteuid(0) == 0 && setgroups(1, &group) == 0 && setresgid(group, group, group) == 0 &&
           setresuid(user, user, user) == 0;
}

static void start(const struct starting *starting)
{
    uid_t user = geteuid();
    char path[RUN_PATH_MAX];
    run_name(path);
    if (user != getuid() && !become(user, getegid()))
        cmd_complain("flush", "cannot become user %u: %m", user);
    else if (setenv("DIRECTNFS_RUN", path, 1) != 0 || cmd_preload(starting->library) != 0)
        cmd_complain("flush", "%m");
    else {
        execv(starting->command, starting->argv);
        cmd_complain("flush", "cannot start '%s': %m", starting->command);
    }
    _exit(CMD_NOT_FINE);
}

/* What was said of registries that this version cannot use. */
struct said {
    bool some, in_place;
};

static int say_left(void *argument, const struct stats_left *left)
{
    char path[RUN_PATH_MAX];
    struct said *said = argument;
    said->in_place |= left->in_place;
    if (left->empty)
        return 0;
    said->some = true;
    if (!left->in_place)
        cmd_complain("flush",
                     "%s/%s: it %s; no version sends that: 'directnfs flush --discard-registry' "
                     "removes it",
                     run_name(path), left->name, left->text);
    else if (left->used)
        cmd_complain("flush",
                     "%s/%s: it %s; processes of that version use it: run 'directnfs flush' of "
                     "that version",
                     run_name(path), left->name, left->text);
    else
        cmd_complain("flush",
                     "%s/%s: it %s: run 'directnfs flush' of that version; then, or to give the "
                     "data up, 'directnfs flush --discard-registry'",
                     run_name(path), left->name, left->text);
    return 0;
}

static int remove_left(void *argument, const struct stats_left *left)
{
    char path[RUN_PATH_MAX];
    int *status = argument, run = run_open();
    int error = run < 0 ? run : stats_left_remove(run, left);
    run_close(run);
    if (error) {
        cmd_complain("flush", "%s/%s: it %s; it cannot be removed: %s", run_name(path), left->name,
                     left->text, error == -EBUSY ? "processes use it" : strerror(-error));
        *status = CMD_NOT_FINE;
        return 0;
    }
    char *name = cmd_printable(left->name, sizeof(left->name));
    printf("%s/%s: removed; it %s\n", run_name(path), name, left->text);
    free(name);
    return 0;
}

/* -errno */
static int visit_left(stats_left_visitor *visitor, void *argument)
{
    int run = run_open();
    int error = run == -ENOENT ? 0 : run < 0 ? run : stats_left_visit(run, NULL, visitor, argument);
    run_close(run);
    return error;
}

static void discard(void *argument)
{
    int *status = argument;
    if (visit_left(remove_left, status) != 0)
        *status = CMD_NOT_FINE;
}

static int discard_all(void)
{
    char problem[CMD_RUNDIR_PROBLEM];
    int status = CMD_FINE;
    if (cmd_rundir_visit("flush", discard, &status, problem) != 0) {
        cmd_complain("flush", "%s", problem);
        status = CMD_NOT_FINE;
    }
    return status;
}

static void visit(void *argument)
{
    struct starting *starting = argument;
    int status;
    pid_t child;
    struct said said = {false, false};
    if (visit_left(say_left, &said) != 0 || said.some)
        starting->status = CMD_NOT_FINE;
    if (said.in_place)
        return;
    fflush(stdout);
    child = fork();
    if (child == 0)
        start(starting);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        cmd_complain("flush", "cannot start a process: %m");
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != CMD_FINE)
        starting->status = CMD_NOT_FINE;
}

static int start_all(char **names, int count)
{
    struct starting starting = {.status = CMD_FINE};
    char problem[CMD_RUNDIR_PROBLEM];
    ssize_t length = readlink("/proc/self/exe", starting.command, PATH_MAX - 1);
    starting.argv = cmd_need(calloc((size_t)count + 4, sizeof(*starting.argv)));
    memcpy(starting.argv, (char *[]){"directnfs", "flush", "--"}, 3 * sizeof(*starting.argv));
    memcpy(starting.argv + 3, names, (size_t)count * sizeof(*names));
    if (length < 0 || !cmd_library(starting.library)) {
        cmd_complain("flush", "libdirectnfs.so is not found beside this command");
        starting.status = CMD_NOT_FINE;
    } else if (cmd_rundir_visit("flush", visit, &starting, problem) != 0) {
        cmd_complain("flush", "%s", problem);
        starting.status = CMD_NOT_FINE;
    }
    free(starting.argv);
    return starting.status;
}

/* Whose syncfs() is it that is called here? */
static bool has_library(void)
{
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "syncfs");
    return function && dladdr(function, &info) && strstr(info.dli_fname, "libdirectnfs.so");
}

static int run(int argc, char **argv)
{
    const char *preloaded = getenv("LD_PRELOAD");
    char library[PATH_MAX];
    struct request request = {false};
    int status = cmd_options(&cmd_flush, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (request.discard && optind < argc)
        return cmd_usage_error("flush", "--discard-registry takes no file");
    if (request.discard)
        return discard_all();
    if (has_library())
        return optind < argc ? send_named(argv + optind, argc - optind) : send_all();
    if (preloaded && cmd_library(library) && strstr(preloaded, library)) {
        cmd_complain("flush", "%s cannot be loaded", library);
        return CMD_NOT_FINE;
    }
    return start_all(argv + optind, argc - optind);
}

static const struct cmd_option options[] = {
    CMD_FLAG_OPTION("discard-registry", 0, discard,
                    "remove what another version left and this one cannot send"),
};

const struct cmd_command cmd_flush = {
    .name = "flush",
    .usage = "flush [MOUNT|FILE...]\n"
             "flush --discard-registry\n",
    .purpose = "sends to the servers what programs wrote and did not live to send",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
