/* directnfs check: the configuration, as a program that starts now would find it. */
#include "cmd/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/check/program.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/print.h"
#include "run/directory.h"
#include "stats/read.h"
#include "sys/log.h"

#define TIMEOUT_DEFAULT 5 /* seconds */

/* What was asked for. */
struct request {
    const char *nfstab;  /* NULL: the one that a program that starts now would find */
    const char *program; /* --program */
    unsigned pid;        /* --pid; 0: none */
    const char *read;    /* --read */
    struct check_as as;  /* --user, --unit */
    bool print, json;
    double timeout; /* seconds; 0: not given */
};

/* ---- the configuration ---- */

/* Reports a mistake in the form that editors know, one a line on standard error. In JSON it is a
 * finding. */
static void say_mistake(enum check_severity severity, const char *label, const char *line)
{
    if (check_report.json) {
        check_say(severity, label, "%s", line);
        return;
    }
    char *printable = cmd_printable(line, SIZE_MAX);
    fprintf(stderr, "%s\n", printable);
    free(printable);
}

static void say_diagnostics(const struct conf_diagnostics *found)
{
    for (size_t i = 0; i < found->count; i++) {
        char line[PATH_MAX + 1024];
        bool error = found->list[i].severity == CONF_ERROR;
        conf_diagnostic_format(&found->list[i], line, sizeof(line));
        say_mistake(error ? CHECK_ERROR : CHECK_WARNING, "mistake", line);
    }
    if (found->errors + found->notices > found->count && !check_report.json)
        fprintf(stderr, "... and %zu more\n", found->errors + found->notices - found->count);
}

static void say_overridden(const struct conf_nfstab *tab)
{
    for (size_t i = 0; i < tab->overridden_count; i++) {
        const struct conf_overridden *entry = &tab->overridden[i];
        char *line;
        if (asprintf(&line,
                     "%s:%u:%u: notice: not used: export %s of server %s at %s; %s:%u:%u goes "
                     "before",
                     entry->at.file, entry->at.line, entry->at.column, entry->directory,
                     entry->server, entry->mount, entry->by.file, entry->by.line,
                     entry->by.column) < 0)
            continue;
        say_mistake(CHECK_WARNING, "overridden", line);
        free(line);
    }
}

static void say_sources(const struct conf_nfstab *tab, const char *conf)
{
    struct stat unused;
    size_t mounts = 0;
    for (size_t i = 0; i < tab->server_count; i++)
        mounts += tab->servers[i].export_count;
    for (size_t i = 0; i < tab->file_count; i++)
        check_say(CHECK_INFO, "nfstab", "%s", tab->files[i]);
    check_say(CHECK_INFO, "tunables", "%s%s", conf,
              stat(conf, &unused) == 0 ? "" : " is not there: the defaults are used");
    check_say(CHECK_INFO, "found", "%zu server%s, %zu mount%s", tab->server_count,
              tab->server_count == 1 ? "" : "s", mounts, mounts == 1 ? "" : "s");
}

/* The registry is about as long as uncommitted_max. A process that cannot make a file of that size
 * needs a registry that is there. */
static void say_limit(struct check *check, const char *path, bool exists)
{
    const struct conf_tunables *tunables = &check->tunables;
    char registry[RUN_PATH_MAX + 16];
    struct rlimit limit;
    snprintf(registry, sizeof(registry), "%s/registry", path);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur > (rlim_t)tunables->uncommitted_max ||
        (exists && access(registry, F_OK) == 0))
        return;
    check_say(CHECK_ERROR, "run",
              "files of this process end at %ju bytes (RLIMIT_FSIZE), and the registry in the run "
              "directory is longer",
              (uintmax_t)limit.rlim_cur);
    check_reason(REACH_RUN_LIMIT);
    check->no_ledger = true;
}

/* Writes the reason why the registry cannot be used. Reports at once what was set aside. */
static int say_left(void *argument, const struct stats_left *left)
{
    char *why = argument;
    if (left->in_place) {
        snprintf(why, sizeof(left->text), "it %.180s", left->text);
        return 0;
    }
    check_say(CHECK_WARNING, "run", "%s: it %s", left->name, left->text);
    check_remedy("remove it by `directnfs flush --discard-registry`");
    return 0;
}

/*
 * Reports the run directory as a process of this user would find it. Is there room for what is kept
 * until the server has committed it?
 */
static void say_run_directory(struct check *check)
{
    const struct conf_tunables *tunables = &check->tunables;
    char path[RUN_PATH_MAX], parent[RUN_PATH_MAX], why[RUN_WHY];
    char left[sizeof(((struct stats_left *)0)->text)] = "";
    struct statvfs system;
    check->no_ledger = true;
    if (run_path(path) != 0) {
        check_say(CHECK_ERROR, "run", "the run directory's name is too long");
        check_remedy("set DIRECTNFS_RUN to a shorter one");
        return;
    }
    int run = run_open_at(AT_FDCWD, path, geteuid(), why);
    bool exists = run >= 0;
    int unusable = exists ? stats_registry_usable(run) : 0;
    if (exists) {
        stats_left_visit(run, NULL, say_left, left);
        close(run);
    }
    if (unusable) {
        check_say(CHECK_ERROR, "run",
                  "the registry in %s cannot be used (%s%s%s), so no file is served", path, left,
                  *left && unusable == -EBUSY ? "; " : "",
                  *left && unusable != -EBUSY ? "" : strerror(-unusable));
        check_reason(reach_why_run(unusable));
        return;
    }
    if (!exists && run != -ENOENT) {
        check_say(CHECK_ERROR, "run", "the run directory %s %s, so no file is served", path, why);
        check_reason(REACH_RUN_FOREIGN);
        return;
    }
    snprintf(parent, sizeof(parent), "%s", path);
    if (!exists)
        dirname(parent);
    if (!exists && access(parent, W_OK | X_OK) != 0) {
        check_say(CHECK_ERROR, "run", "the run directory %s cannot be made: %s", path,
                  strerror(errno));
        check_remedy("make it with mode 0700 for user %u, or set DIRECTNFS_RUN", geteuid());
        return;
    }
    check->no_ledger = false;
    say_limit(check, path, exists);
    if (statvfs(parent, &system) != 0)
        return;
    uint64_t room = (uint64_t)system.f_bavail * system.f_frsize >> 20;
    uint64_t wanted = (uint64_t)tunables->uncommitted_max >> 20;
    check_say(room < wanted ? CHECK_WARNING : CHECK_INFO, "run",
              "%s%s, %" PRIu64 " MiB free; up to %" PRIu64 " MiB are kept there for writing again",
              path, exists ? "" : " (will be made)", room, wanted);
    if (room < wanted)
        check_remedy("enlarge the file system (a container: --shm-size), or lower uncommitted_max");
}

/* Asks all servers, and sums up. Returns the exit status. */
static int contact(struct check *check, const struct conf_nfstab *tab, const char *conf)
{
    say_sources(tab, conf);
    check_say_as(check->as);
    say_run_directory(check);
    check_agent(check);
    if (tab->server_count == 0) {
        check_say(CHECK_ERROR, "servers", "none is configured");
        check_remedy("name one in %s, see nfstab(5)",
                     tab->file_count ? tab->files[0] : "/etc/directnfs/nfstab");
        return check_end("No mount is configured, so all files are the kernel's.");
    }
    for (size_t i = 0; i < tab->server_count; i++)
        check_server(check, &tab->servers[i]);
    if (check->read && !check->read_found) {
        check_say(CHECK_ERROR, "read", "%s was not read: no mount that was granted has it",
                  check->read);
        check_remedy("name a file by its path below a mount of the nfstab");
    }
    if (check->no_ledger)
        check->served = 0;
    unsigned errors = check_report.counts[CHECK_ERROR],
             warnings = check_report.counts[CHECK_WARNING];
    char rest[128] = "";
    if (errors > 0)
        snprintf(rest, sizeof(rest), "; %u thing%s not fine", errors,
                 errors == 1 ? " is" : "s are");
    if (warnings > 0)
        snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "; %u warning%s", warnings,
                 warnings == 1 ? "" : "s");
    return check_end("%u of %u mount%s would be served by directnfs%s.", check->served,
                     check->mounts, check->mounts == 1 ? "" : "s", rest);
}

static int print_effective(const struct conf_nfstab *tab)
{
    char *text = cmd_need(conf_nfstab_print(tab));
    fputs(text, stdout);
    free(text);
    return CMD_FINE;
}

/* Without a configuration that the library would use, no server is contacted. */
static int say_mistakes(size_t tab_errors, const char *conf, size_t conf_errors)
{
    static const char text[] =
        "%s has %zu mistake%s: a program started with it leaves all files to "
        "the kernel. No server was contacted.";
    if (check_report.json)
        return check_end(text, "the configuration", tab_errors + conf_errors,
                         tab_errors + conf_errors == 1 ? "" : "s");
    if (tab_errors)
        cmd_complain("check", text, "the nfstab", tab_errors, tab_errors == 1 ? "" : "s");
    if (conf_errors)
        cmd_complain("check", text, conf, conf_errors, conf_errors == 1 ? "" : "s");
    return CMD_NOT_FINE;
}

static int check_configuration(const struct request *request)
{
    struct conf_nfstab tab = {0};
    struct conf_diagnostics found = {0}, found_conf = {0};
    struct conf_sources sources = {0};
    double timeout = request->timeout ? request->timeout : TIMEOUT_DEFAULT;
    struct check check = {
        .as = &request->as, .timeout_ms = (int)(timeout * 1000), .read = request->read};
    char conf[PATH_MAX];
    int status;

    check_begin(request->json, "nfstab", request->nfstab ? request->nfstab : "");
    if (request->nfstab)
        snprintf(sources.only, sizeof(sources.only), "%s", request->nfstab);
    else
        conf_sources_default(&sources);
    int tab_error = conf_nfstab_load(&tab, &sources, &found);
    int required = conf_tunables_file(conf);
    int conf_error = conf_tunables_load(&check.tunables, conf, required, &found_conf);
    say_diagnostics(&found);
    say_diagnostics(&found_conf);
    say_overridden(&tab);
    if (tab_error || conf_error) {
        status =
            say_mistakes(tab_error ? found.errors : 0, conf, conf_error ? found_conf.errors : 0);
        if (request->print && !tab_error)
            print_effective(&tab);
    } else if (request->print) {
        status = print_effective(&tab);
    } else {
        status = contact(&check, &tab, conf);
    }
    conf_diagnostics_free(&found);
    conf_diagnostics_free(&found_conf);
    conf_nfstab_free(&tab);
    return status;
}

/* ---- options ---- */

static int run(int argc, char **argv)
{
    struct request request = {0};
    int status = cmd_options(&cmd_check, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (request.read && request.read[0] != '/')
        return cmd_usage_error("check", "--read takes an absolute path, not '%s'", request.read);
    if (argc - optind > 1)
        return cmd_usage_error("check", "one nfstab at a time; '%s' is too much", argv[optind + 1]);
    if (argc > optind && (argv[optind][0] == '\0' || strlen(argv[optind]) >= PATH_MAX))
        return cmd_usage_error("check", "the nfstab's name is empty or too long");
    request.nfstab = argv[optind];
    if ((request.nfstab != NULL || request.print || request.read) + (request.program != NULL) +
            (request.pid != 0) >
        1)
        return cmd_usage_error("check", "an nfstab, --program and --pid are checked one at a time");
    if (request.print && (request.json || request.read))
        return cmd_usage_error("check", "--print gives an nfstab, and takes no --json or --read");
    if (request.timeout && (request.program || request.pid))
        return cmd_usage_error("check", "--timeout is for servers: it goes with an nfstab only");
    if (request.program && (request.program[0] == '\0' || strlen(request.program) >= PATH_MAX))
        return cmd_usage_error("check", "the program's name is empty or too long");
    if ((request.as.user || request.as.unit) && (request.program || request.pid))
        return cmd_usage_error("check", "--user and --unit are for servers: they go with an nfstab "
                                        "only");
    log_set_level(LOG_LEVEL_ERROR); /* the report has what goes wrong on a path */
    if ((request.as.user || request.as.unit) && check_become(&request.as) != CMD_FINE)
        return CMD_NOT_FINE;
    return request.program ? check_program(request.program, request.json)
           : request.pid   ? check_process(request.pid, request.json)
                           : check_configuration(&request);
}

static const struct cmd_option options[] = {
    CMD_FLAG_OPTION("print", 0, print,
                    "print the effective configuration as an nfstab; contact nobody"),
    CMD_NUMBER_OPTION("timeout", 0, timeout, "SECONDS", 0.001, 3600, "seconds from 0.001 to 3600",
                      "wait no longer than this for each answer (default 5)"),
    CMD_TEXT_OPTION("user", 0, as.user, "USER",
                    "as root: ask as a service of this user with the drop-in will"),
    CMD_TEXT_OPTION("unit", 0, as.unit, "UNIT",
                    "as root: ask with the user and capabilities of this unit"),
    CMD_TEXT_OPTION("read", 0, read, "FILE",
                    "measure the throughput of each path to this file, for a second"),
    CMD_TEXT_OPTION("program", 0, program, "PROGRAM",
                    "which calls of it the library would see, without running it"),
    CMD_WHOLE_OPTION("pid", 0, pid, "PID", 1, INT32_MAX, "a process number",
                     "whether the library is in this process, and what it serves"),
    CMD_FLAG_OPTION("json", 0, json, "print one object with all findings"),
};

const struct cmd_command cmd_check = {
    .name = "check",
    .usage =
        "check [--user USER] [--unit UNIT] [--json] [--read FILE] [--timeout SECONDS] [NFSTAB]\n"
        "check --print [NFSTAB]\n"
        "check [--json] --program PROGRAM | --pid PID\n",
    .purpose = "shows every mistake in the nfstab and the tunables, then contacts each server\n"
               "         on each path and says what would be used and how; or shows whether a "
               "program's\n"
               "         files can be served, or those of a running process are",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
