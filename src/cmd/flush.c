/*
 * directnfs flush: sends to the server what killed programs left in the run directory.
 *
 * Only the library knows how: which file has which handle, what must not overtake what, which data
 * may still be on its way. So this command starts itself for each run directory, with the library
 * preloaded, as the owner of the directory. There a syncfs(2) does all of it, or an open(2) and
 * fsync(2) of a file.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/print.h"
#include "cmd/rundir.h"
#include "cmd/strays.h"
#include "config/nfstab.h"
#include "stats/read.h"

/* ---- with the library ---- */

static void read_registry(struct stats_snapshot *snapshot)
{
    int run = run_open(), error = run == -ENOENT ? 0 : run;
    char problem[CMD_RUNDIR_PROBLEM];
    *snapshot = (struct stats_snapshot){0};
    if (run >= 0) {
        error = stats_read_uncommitted(run, snapshot);
        error = error ? error : stats_read_strays(run, NULL, snapshot);
        run_close(run);
    }
    if (error) {
        cmd_complain("flush", "%s", cmd_rundir_problem(error, problem));
        exit(CMD_NOT_FINE);
    }
}

/* 0 or -errno */
static int send_file(const struct cmd_stray_target *target)
{
    int fd = open(target->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int result = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

/* What belongs to one mount is sent together with all others. 0 or -errno. */
static int send_mount(const struct cmd_stray_target *target)
{
    int fd = open(target->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 || syncfs(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

static bool is_of(const struct cmd_stray_target *target, const struct stats_uncommitted *file)
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

static void name_of(const struct cmd_stray_target *target, const struct stats_uncommitted *file,
                    char name[PATH_MAX])
{
    if (target->file)
        snprintf(name, PATH_MAX, "%s", target->name);
    else
        snprintf(name, PATH_MAX, "%.3800s: file number %llu", target->name,
                 (unsigned long long)file->inode);
}

/* Bytes of the file that are set aside. */
static uint64_t aside_of(const struct stats_uncommitted *file, const struct stats_snapshot *at)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < at->stray_count; i++)
        if (at->strays[i].device == file->device && at->strays[i].inode == file->inode)
            bytes += at->strays[i].bytes;
    return bytes;
}

/* Says what became of a file. A running program may have written to it meanwhile. */
static bool say(const struct cmd_stray_target *target, const struct stats_uncommitted *file,
                const struct stats_snapshot *before, const struct stats_snapshot *after, int result)
{
    char name[PATH_MAX];
    uint64_t left = left_of(file, after), aside = aside_of(file, after) - aside_of(file, before);
    name_of(target, file, name);
    if (aside > 0 && result == 0) {
        cmd_complain("flush", "%s: of %llu bytes %llu are not sent, but set aside", name,
                     (unsigned long long)file->bytes, (unsigned long long)aside);
        return false;
    }
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

static bool send_target(const struct cmd_stray_target *target, const struct stats_snapshot *before)
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
            fine = say(target, &before->uncommitted_files[i], before, &after, result) && fine;
    stats_snapshot_free(&after);
    return fine;
}

/* Says what no mount of the configuration has. True: nothing. */
static bool nothing_else(const struct cmd_stray_target *targets, size_t count)
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

/* The target of a name, as it is. False after a complaint. */
static bool find_target(const char *name, struct cmd_stray_target *target)
{
    struct stat status;
    if (stat(name, &status) != 0)
        cmd_complain("flush", "%s: %m", name);
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        cmd_complain("flush", "%s: neither a file nor a directory", name);
    else {
        *target = (struct cmd_stray_target){.name = name,
                                            .device = status.st_dev,
                                            .inode = status.st_ino,
                                            .file = S_ISREG(status.st_mode)};
        return true;
    }
    return false;
}

static int send_named(char **names, int count)
{
    int status = CMD_FINE;
    for (int i = 0; i < count; i++) {
        struct cmd_stray_target target;
        struct stats_snapshot before;
        read_registry(&before); /* stat(2) sends what was written to a file */
        bool there = find_target(names[i], &target), sent = there && send_target(&target, &before);
        if (!sent || cmd_strays_say(&target) > 0)
            status = CMD_NOT_FINE;
        stats_snapshot_free(&before);
    }
    return status;
}

/* Sends for all mounts of the configuration that are there. */
static int send_all(void)
{
    struct conf_nfstab tab = {0};
    struct conf_sources sources = {0};
    struct cmd_stray_target targets[256];
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
                targets[count++] =
                    (struct cmd_stray_target){.name = mount, .device = status.st_dev};
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

/* ---- what was set aside ---- */

typedef bool stray_action(const struct cmd_stray_target *target);

static void say_not_found(const char *name, int error)
{
    cmd_complain("flush", "%s: %s", name,
                 error == -ENOENT ? "nothing was set aside of what is called so; 'directnfs flush' "
                                    "says what there is"
                 : error == -EISDIR ? "a directory: name a file, or what 'directnfs flush' names"
                                    : strerror(-error));
}

static int settle_named(char **names, int count, stray_action *action)
{
    int status = CMD_FINE;
    for (int i = 0; i < count; i++) {
        struct cmd_stray_target target;
        int error = cmd_strays_find(names[i], &target);
        if (error)
            say_not_found(names[i], error);
        if (error || !action(&target))
            status = CMD_NOT_FINE;
    }
    return status;
}

/* ---- without the library ---- */

enum what { SEND, FORCE, DISCARD };

struct starting {
    enum what what;
    char library[PATH_MAX], command[PATH_MAX];
    char **names;
    int count;
    unsigned *found; /* for each name: in how many run directories something of it was set aside, */
    int *errors;     /* or why none was found, if it is not -ENOENT */
    int status;
};

/* Of root's capabilities keeps only ports below 1024, also over exec. Most servers insist on such
 * ports, and the service that wrote the data has them. */
static bool keep_low_ports(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = 0}};
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    data[0].permitted &= 1u << CAP_NET_BIND_SERVICE;
    data[0].effective = data[0].inheritable = data[0].permitted;
    data[1].permitted = data[1].effective = data[1].inheritable = 0;
    if (syscall(SYS_capset, &header, data) != 0)
        return false;
    if (data[0].permitted) /* without it there may still be servers that accept other ports */
        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0);
    return true;
}

/* In the child: becomes the owner of the run directory, for good. */
static bool become(uid_t user, gid_t group)
{
    return seteuid(0) == 0 && setgroups(1, &group) == 0 && setresgid(group, group, group) == 0 &&
           prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setresuid(user, user, user) == 0 &&
           keep_low_ports();
}

static void start(const struct starting *starting, char **argv)
{
    uid_t user = geteuid();
    char path[RUN_PATH_MAX];
    run_name(path);
    if (user != getuid() && !become(user, getegid()))
        cmd_complain("flush", "cannot become user %u: %m", user);
    else if (setenv("DIRECTNFS_RUN", path, 1) != 0 || cmd_preload(starting->library) != 0)
        cmd_complain("flush", "%m");
    else {
        execv(starting->command, argv);
        cmd_complain("flush", "cannot start '%s': %m", starting->command);
    }
    _exit(CMD_NOT_FINE);
}

/* What was said about registries that this version cannot use. */
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

/* 0 or -errno */
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

/* Starts this command with the library, for these names. */
static void start_child(struct starting *starting, char **names, int count)
{
    char **argv = cmd_need(calloc((size_t)count + 5, sizeof(*argv))), **at = argv;
    int status;
    pid_t child;
    *at++ = (char *)"directnfs";
    *at++ = (char *)"flush";
    if (starting->what == FORCE)
        *at++ = (char *)"--force";
    *at++ = (char *)"--";
    memcpy(at, names, (size_t)count * sizeof(*names));
    fflush(stdout);
    child = fork();
    if (child == 0)
        start(starting, argv);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        cmd_complain("flush", "cannot start a process: %m");
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != CMD_FINE)
        starting->status = CMD_NOT_FINE;
    free(argv);
}

static void visit_to_find(void *argument)
{
    struct starting *starting = argument;
    for (int i = 0; i < starting->count; i++) {
        struct cmd_stray_target target;
        int error = cmd_strays_find(starting->names[i], &target);
        starting->found[i] += error == 0;
        if (error && error != -ENOENT)
            starting->errors[i] = error;
    }
}

static void visit(void *argument)
{
    struct starting *starting = argument;
    char **names = cmd_need(calloc((size_t)starting->count + 1, sizeof(*names)));
    struct cmd_stray_target target;
    int count = 0;
    for (int i = 0; i < starting->count; i++) {
        bool here = starting->what == SEND ||
                    (starting->found[i] == 1 && cmd_strays_find(starting->names[i], &target) == 0);
        if (here)
            names[count++] = starting->names[i];
    }
    if (starting->what == DISCARD && settle_named(names, count, cmd_strays_discard) != CMD_FINE)
        starting->status = CMD_NOT_FINE;
    struct said said = {false, false};
    if (starting->what == SEND && (visit_left(say_left, &said) != 0 || said.some))
        starting->status = CMD_NOT_FINE;
    if ((starting->what == SEND && !said.in_place) || (starting->what == FORCE && count > 0))
        start_child(starting, names, count);
    free(names);
}

static void visit_all(struct starting *starting, void (*function)(void *argument))
{
    char problem[CMD_RUNDIR_PROBLEM];
    if (cmd_rundir_visit("flush", function, starting, problem) == 0)
        return;
    cmd_complain("flush", "%s", problem);
    starting->status = CMD_NOT_FINE;
}

/* If several users have something for a name, nobody knows which of them wrote last. */
static void find_all(struct starting *starting)
{
    visit_all(starting, visit_to_find);
    for (int i = 0; i < starting->count; i++) {
        if (starting->found[i] == 1)
            continue;
        starting->status = CMD_NOT_FINE;
        if (starting->found[i] == 0)
            say_not_found(starting->names[i], starting->errors[i] ? starting->errors[i] : -ENOENT);
        else
            cmd_complain("flush",
                         "%s: something of it was set aside in %u run directories; name what is "
                         "meant as 'directnfs flush' does",
                         starting->names[i], starting->found[i]);
    }
}

static int start_all(enum what what, char **names, int count)
{
    struct starting starting = {.what = what, .names = names, .count = count, .status = CMD_FINE};
    ssize_t length = readlink("/proc/self/exe", starting.command, PATH_MAX - 1);
    if (what != DISCARD && (length < 0 || !cmd_library(starting.library))) {
        cmd_complain("flush", "libdirectnfs.so is not found beside this command");
        return CMD_NOT_FINE;
    }
    starting.found = cmd_need(calloc((size_t)count + 1, sizeof(*starting.found)));
    starting.errors = cmd_need(calloc((size_t)count + 1, sizeof(*starting.errors)));
    if (what != SEND)
        find_all(&starting);
    visit_all(&starting, visit);
    free(starting.found);
    free(starting.errors);
    return starting.status;
}

/* True if the library's syncfs() is called here. */
static bool has_library(void)
{
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "syncfs");
    return function && dladdr(function, &info) && strstr(info.dli_fname, "libdirectnfs.so");
}

static int work(enum what what, char **names, int count)
{
    if (what != SEND)
        return settle_named(names, count, what == FORCE ? cmd_strays_force : cmd_strays_discard);
    if (count > 0)
        return send_named(names, count);
    int status = send_all();
    return cmd_strays_say(NULL) > 0 ? CMD_NOT_FINE : status;
}

struct request {
    bool force, discard, discard_registry;
};

static int run(int argc, char **argv)
{
    struct request request = {0};
    const char *preloaded = getenv("LD_PRELOAD");
    char library[PATH_MAX];
    int status = cmd_options(&cmd_flush, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    enum what what = request.force ? FORCE : request.discard ? DISCARD : SEND;
    if (request.force + request.discard + request.discard_registry > 1)
        return cmd_usage_error("flush",
                               "--force, --discard and --discard-registry do not go together");
    if (request.discard_registry && optind < argc)
        return cmd_usage_error("flush", "--discard-registry takes no file");
    if (request.discard_registry)
        return discard_all();
    if (what != SEND && optind == argc)
        return cmd_usage_error("flush", "--%s of which files? 'directnfs flush' names them",
                               what == FORCE ? "force" : "discard");
    if (has_library())
        return work(what, argv + optind, argc - optind);
    if (preloaded && cmd_library(library) && strstr(preloaded, library)) {
        cmd_complain("flush", "%s cannot be loaded", library);
        return CMD_NOT_FINE;
    }
    return start_all(what, argv + optind, argc - optind);
}

static const struct cmd_option options[] = {
    CMD_FLAG_OPTION("force", 0, force, "write what was set aside of these files to them"),
    CMD_FLAG_OPTION("discard", 0, discard, "remove what was set aside of these files"),
    CMD_FLAG_OPTION("discard-registry", 0, discard_registry,
                    "remove what another version left and this one cannot send"),
};

const struct cmd_command cmd_flush = {
    .name = "flush",
    .usage = "flush [MOUNT|FILE...]\n"
             "flush --force|--discard FILE...\n"
             "flush --discard-registry\n",
    .purpose = "sends to the servers what programs wrote and did not live to send; says what was\n"
               "         set aside, as others may have changed the file, writes it, or removes it",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
