/*
 * directnfs report: a child process makes each part, as a file in a private directory. tar packs
 * that.
 */
#include "cmd/report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/rundir.h"

enum { PART_SECONDS = 120, PART_BYTES = 64 << 20, WORDS_MAX = 8, NAME_BYTES = 128 };

struct request {
    const char *output, *log;
};

/* One report in the making. */
struct report {
    char name[NAME_BYTES]; /* of the archive without its ending; also of the directory in it */
    char archive[PATH_MAX];
    char work[PATH_MAX]; /* the private directory */
    int out;             /* the archive */
    int directory;       /* work/name */
};

/* Set by a handler: somebody wants to end the command. */
static volatile sig_atomic_t interrupted;

static void note_interruption(int number)
{
    interrupted = number;
}

/* ---- children ---- */

void report_become(const char *line)
{
    char copy[128], *words[WORDS_MAX + 1] = {"directnfs"}, *rest = copy, *word;
    size_t count = 1;
    snprintf(copy, sizeof(copy), "%s", line);
    while (count < WORDS_MAX && (word = strsep(&rest, " ")) != NULL)
        words[count++] = word;
    execv("/proc/self/exe", words);
    fprintf(stderr, "cannot start %s: %m\n", line);
    _exit(CMD_NOT_FINE);
}

/* In a child: prints the part to `fd`. */
static void make_part(const struct report_part *part, int fd)
{
    const struct rlimit most = {PART_BYTES, PART_BYTES};
    int nothing = open("/dev/null", O_RDONLY);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    setrlimit(RLIMIT_FSIZE, &most);
    setenv("COLUMNS", "200", 1);
    alarm(PART_SECONDS); /* it also limits the command that this becomes */
    if (part->words)
        report_become(part->words);
    part->print();
    fflush(stdout);
    _exit(CMD_FINE);
}

/* Waits for a child, even if interrupted. Returns its status as waitpid(2) does. */
static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
        else if (interrupted)
            kill(child, SIGTERM);
    return status;
}

/* Makes a part, and adds a line about it to `contents` and to standard output. False: it could not
 * be made, or the command was interrupted. */
static bool add_part(const struct report *report, const struct report_part *part, FILE *contents)
{
    char end[64] = "";
    int fd = openat(report->directory, part->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fflush(stdout);
    pid_t child = fd >= 0 ? fork() : -1;
    if (child < 0) {
        cmd_complain("report", "cannot make '%s': %m", part->name);
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (child == 0)
        make_part(part, fd);
    close(fd);
    int status = wait_for(child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(end, sizeof(end), "; ended after %d s", PART_SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(end, sizeof(end), "; ended by signal %d", WTERMSIG(status));
    else if (part->words && WEXITSTATUS(status) != 0)
        snprintf(end, sizeof(end), "; exit status %d", WEXITSTATUS(status));
    printf("  %-10s %s%s\n", part->name, part->holds, end);
    fprintf(contents, "%-10s %s%s\n", part->name, part->holds, end);
    return !interrupted;
}

/* ---- the archive ---- */

static bool begin(struct report *report, const char *output)
{
    struct utsname system = {0};
    char moment[32], inside[PATH_MAX + NAME_BYTES];
    const char *parent = getenv("TMPDIR");
    time_t now = time(NULL);
    uname(&system);
    system.nodename[strcspn(system.nodename, "/.")] = '\0';
    strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", localtime(&now));
    snprintf(report->name, sizeof(report->name), "directnfs-report-%.64s-%s", system.nodename,
             moment);
    if (output)
        snprintf(report->archive, sizeof(report->archive), "%s", output);
    else
        snprintf(report->archive, sizeof(report->archive), "%s.tar.gz", report->name);
    report->out = open(report->archive, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (report->out < 0) {
        cmd_complain("report", "cannot make '%s': %m", report->archive);
        return false;
    }
    snprintf(report->work, sizeof(report->work), "%.*s/directnfs.XXXXXX", PATH_MAX - 32,
             parent && parent[0] == '/' ? parent : "/tmp");
    if (mkdtemp(report->work) == NULL) {
        cmd_complain("report", "cannot make the directory '%s': %m", report->work);
        report->work[0] = '\0';
        return false;
    }
    snprintf(inside, sizeof(inside), "%s/%s", report->work, report->name);
    report->directory = mkdir(inside, 0700) == 0
                            ? open(inside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                            : -1;
    if (report->directory < 0)
        cmd_complain("report", "cannot make the directory '%s': %m", inside);
    return report->directory >= 0;
}

/* Packs what was collected. False after a complaint. *missing: there is no tar. */
static bool pack(const struct report *report, bool *missing)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(report->out, STDOUT_FILENO);
        execlp("tar", "tar", "-C", report->work, "-czf", "-", report->name, (char *)NULL);
        cmd_complain("report", "cannot start tar: %m");
        _exit(CMD_NOT_FOUND);
    }
    int status = child > 0 ? wait_for(child) : -1;
    *missing = child < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == CMD_NOT_FOUND);
    if (status == 0 && fsync(report->out) == 0)
        return true;
    if (!*missing && !interrupted)
        cmd_complain("report", "cannot write '%s': tar failed", report->archive);
    return false;
}

static void end(struct report *report, bool packed, bool keep)
{
    char inside[PATH_MAX + NAME_BYTES];
    snprintf(inside, sizeof(inside), "%s/%s", report->work, report->name);
    for (const struct report_part *part = report_parts; part->name && !keep; part++)
        if (report->directory >= 0)
            unlinkat(report->directory, part->name, 0);
    if (report->directory >= 0 && !keep)
        unlinkat(report->directory, "contents", 0);
    if (report->directory >= 0)
        close(report->directory);
    if (report->work[0] && !keep) {
        rmdir(inside);
        rmdir(report->work);
    }
    if (report->out >= 0)
        close(report->out);
    if (report->out >= 0 && !packed)
        unlink(report->archive);
}

static void count(void *argument)
{
    ++*(unsigned *)argument;
}

/* Says what all parts will lack, and why. False: something may not be read. */
static bool look_for_statistics(void)
{
    char problem[CMD_RUNDIR_PROBLEM], path[RUN_PATH_MAX];
    unsigned directories = 0;
    if (cmd_rundir_visit("report", count, &directories, problem) != 0) {
        cmd_complain("report", "%s", problem);
        return false;
    }
    cmd_rundir_name(path);
    if (directories == 0)
        cmd_complain("report",
                     "there is no run directory (%s): no program has used the library as this "
                     "user, so there are no statistics",
                     path);
    return true;
}

static bool collect(struct report *report)
{
    int fd = openat(report->directory, "contents", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *contents = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool good = contents != NULL;
    if (!good) {
        cmd_complain("report", "cannot write in '%s': %m", report->work);
        return false;
    }
    printf("%s holds\n", report->archive);
    for (const struct report_part *part = report_parts; part->name && good; part++)
        good = add_part(report, part, contents);
    if (fclose(contents) != 0 && good) {
        cmd_complain("report", "cannot write in '%s': %m", report->work);
        return false;
    }
    return good;
}

static int run(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = note_interruption};
    struct request request = {0};
    struct report report = {.out = -1, .directory = -1};
    bool missing = false;
    int status = cmd_options(&cmd_report, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (optind < argc)
        return cmd_usage_error("report", "'%s' is too much", argv[optind]);
    if (request.log && (request.log[0] != '/' || access(request.log, R_OK) != 0))
        return cmd_usage_error("report", "cannot read the log '%s': %s", request.log,
                               request.log[0] != '/' ? "name it from / on" : strerror(errno));
    report_log = request.log;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    unsetenv("LD_PRELOAD");

    bool begun = begin(&report, request.output);
    bool whole = begun && look_for_statistics();
    bool packed = begun && collect(&report) && pack(&report, &missing);
    end(&report, packed, missing);
    if (missing)
        cmd_complain("report", "what it would hold is in %s", report.work);
    if (interrupted)
        cmd_complain("report", "interrupted");
    if (packed)
        printf("Names of files, hosts and users are in it, contents of files are not. Look "
               "through it\nbefore you give it away: tar -xzf %s\n",
               report.archive);
    return packed && whole ? CMD_FINE : CMD_NOT_FINE;
}

static const struct cmd_option options[] = {
    CMD_TEXT_OPTION("log", 'l', log, "FILE", "take the library's lines of this log too"),
    CMD_TEXT_OPTION("output", 'o', output, "FILE", "the archive; it must not be there yet"),
};

const struct cmd_command cmd_report = {
    .name = "report",
    .usage = "report [--log FILE] [--output FILE]\n",
    .purpose = "puts all that whoever helps will ask for into one archive",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
