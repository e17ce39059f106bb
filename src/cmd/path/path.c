/*
 * directnfs path: lists network paths, and takes them offline and online in all running processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/path/list.h"
#include "cmd/rundir.h"
#include "cmd/table.h"
#include "sys/log.h"
#include "sys/sys.h"

#define WAIT_DEFAULT   10 /* seconds */
#define DRAIN_PAUSE_US 100000

/* What was asked for. */
struct request {
    bool json, force;
    const char *user; /* NULL: not given */
    double wait;      /* seconds, until nothing is under way; -1: not given */
    struct cmd_path_name name;
};

/* What is known. */
struct known {
    struct cmd_snapshot snapshot;
    struct cmd_path_list list;
};

static void learn(struct known *known)
{
    struct conf_nfstab tab = {0};
    struct conf_sources sources;
    log_set_level(LOG_LEVEL_WARNING);
    conf_sources_default(&sources);
    bool usable = conf_nfstab_load(&tab, &sources, NULL) == 0;
    if (!usable)
        cmd_complain("path", "the nfstab is passed over: it has mistakes, see 'directnfs check'");
    cmd_snapshot_read("path", &known->snapshot, 2);
    if (known->snapshot.problem[0])
        cmd_complain("path", "%s", known->snapshot.problem);
    if (!cmd_path_list_make(&known->list, &known->snapshot, usable ? &tab : NULL))
        cmd_complain("path", "there is not enough memory: paths are missing");
    conf_nfstab_free(&tab);
}

static void forget(struct known *known)
{
    cmd_snapshot_free(&known->snapshot);
    free(known->list.paths);
}

/* ---- list ---- */

#define TEXT(member)   cmd_table_text(table, (member), sizeof(member))
#define NUMBER(number) cmd_table_number(table, (number))

#define COLUMNS(COLUMN)                                                               \
    COLUMN("SERVER", CMD_TEXT, TEXT(path->server))                                    \
    COLUMN("PATH", CMD_TEXT, TEXT(path->path))                                        \
    COLUMN("LOCAL", CMD_TEXT, TEXT(path->local))                                      \
    COLUMN("USER", CMD_TEXT, cmd_table_text(table, user, 64))                         \
    COLUMN("STATE", CMD_TEXT, cmd_table_text(table, state, 16))                       \
    COLUMN("AGREE", CMD_NUMBER, NUMBER(count))                                        \
    COLUMN("PROCESSES", CMD_NUMBER, NUMBER(path->processes))                          \
    COLUMN("CHANNELS", CMD_NUMBER, NUMBER(path->channels))                            \
    COLUMN("OUTSTANDING", CMD_NUMBER, NUMBER(path->outstanding))                      \
    COLUMN("OLDEST_US", CMD_NUMBER, NUMBER(age_us))                                   \
    COLUMN("CALLS", CMD_NUMBER, NUMBER(path->latency.calls))                          \
    COLUMN("MEAN_US", CMD_NUMBER, cmd_table_time(table, &path->latency, STATS_MEAN))  \
    COLUMN("P99_US", CMD_NUMBER, cmd_table_time(table, &path->latency, STATS_P99))    \
    COLUMN("REISSUED", CMD_NUMBER, NUMBER(path->reissued))                            \
    COLUMN("DOWNS", CMD_NUMBER, NUMBER(path->downs))                                  \
    COLUMN("SECURITY", CMD_TEXT, TEXT(security))                                      \
    COLUMN("TLS", CMD_TEXT, TEXT(path->tls))                                          \
    COLUMN("CERT_S", CMD_NUMBER, NUMBER(stats_seconds_until(path->peer_ends_ns)))     \
    COLUMN("OWN_CERT_S", CMD_NUMBER, NUMBER(stats_seconds_until(path->own_ends_ns)))  \
    COLUMN("TICKET_S", CMD_NUMBER, NUMBER(stats_seconds_until(path->ticket_ends_ns))) \
    COLUMN("SINCE", CMD_TEXT, TEXT(since))                                            \
    COLUMN("REASON", CMD_TEXT, TEXT(path->reason))

static void add_row(struct cmd_table *table, const struct cmd_path *path,
                    const struct stats_snapshot *snapshot)
{
    unsigned count;
    char since[CMD_TIME_BYTES] = "", security[STATS_SECURITY_BYTES];
    uint64_t age_us = stats_age(snapshot, path->oldest_ns) / 1000;
    if (path->since_ns)
        cmd_time(since, path->since_ns);
    stats_security_text(path->security, security);
    char number[CMD_USER_NUMBER];
    const char *state = cmd_path_state(path, &count), *user = cmd_user_name(path->user, number);
    COLUMNS(CMD_AS_CELL)
}

static int list_paths(const struct request *request)
{
    static const struct cmd_column columns[] = {COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table table = {
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .key_columns = 4,
        .for_people = !request->json,
        .none = "No path is known: no process uses directnfs, and no nfstab is found."};
    struct known known = {0};
    learn(&known);
    for (size_t i = 0; i < known.list.count; i++)
        add_row(&table, &known.list.paths[i], &known.snapshot.stats);
    if (request->json) {
        struct cmd_json json = {.out = stdout};
        cmd_json_table(&json, NULL, &table);
    } else {
        cmd_table_print(&table, cmd_terminal_width(), stdout);
    }
    int result = known.list.count && !known.snapshot.unread ? CMD_FINE : CMD_NOT_FINE;
    cmd_table_free(&table);
    forget(&known);
    return result;
}

/* ---- offline, online ---- */

/*
 * Complains that nothing has this name, and lists what there is: servers; or the paths of `server`;
 * or the local addresses of its `path`.
 */
static void complain_of_name(const struct known *known, const char *nothing, const char *name,
                             const char *server, const char *path)
{
    char *names = NULL;
    size_t size;
    FILE *out = open_memstream(&names, &size);
    const char *last = NULL; /* the list is sorted */
    for (size_t i = 0; out && i < known->list.count; i++) {
        const struct cmd_path *entry = &known->list.paths[i];
        const char *word = path ? entry->local : server ? entry->path : entry->server;
        if ((server && strcmp(entry->server, server) != 0) ||
            (path && strcmp(entry->path, path) != 0) || word[0] == '\0' ||
            (last && strcmp(last, word) == 0))
            continue;
        fprintf(out, "%s%s", last ? ", " : "", word);
        last = word;
    }
    if (out)
        fclose(out);
    cmd_complain("path", "%s '%s'; %s%s", nothing, name, last ? "there is " : "none is known",
                 last && names ? names : "");
    free(names);
}

/* True if there is such a path. Complains of the first word that names nothing. */
static bool find(const struct cmd_path_name *name, const struct known *known)
{
    bool server = false, path = false, found = false;
    for (size_t i = 0; i < known->list.count; i++) {
        const struct cmd_path *entry = &known->list.paths[i];
        bool of_server = strcmp(entry->server, name->server) == 0;
        server |= of_server;
        path |= of_server && strcmp(entry->path, name->path) == 0;
        found |= cmd_path_is(entry, name);
    }
    if (!server)
        complain_of_name(known, "no server is called", name->server, NULL, NULL);
    else if (!path)
        complain_of_name(known, "this server has no path", name->path, name->server, NULL);
    else if (!found)
        complain_of_name(known, "this path has no local address", name->local, name->server,
                         name->path);
    return found;
}

static unsigned processes_of(const struct cmd_path_name *name, const struct known *known)
{
    unsigned most = 0, sum = 0;
    uid_t user = CMD_NO_USER;
    /* Sorted by path and then by user: a process has several paths that differ in `local`. */
    for (size_t i = 0; i < known->list.count; i++) {
        const struct cmd_path *path = &known->list.paths[i];
        if (!cmd_path_is(path, name))
            continue;
        if (path->user != user) {
            sum += most;
            most = 0;
            user = path->user;
        }
        most = path->processes > most ? path->processes : most;
    }
    return sum + most;
}

static int tell(const struct cmd_path_name *name, bool offline, unsigned processes)
{
    unsigned told = 0;
    const char *state = offline ? "offline" : "online";
    if (!cmd_rundir_make("path"))
        return CMD_NOT_FINE;
    int error = cmd_path_say("path", CMD_NO_USER, name, offline, &told);
    if (error) {
        cmd_complain("path", "cannot take path %s of server %s %s: %s", name->path, name->server,
                     state, cmd_path_say_problem(error));
        return CMD_NOT_FINE;
    }
    if (told == 0) {
        cmd_complain("path", "no user has used directnfs on this host: name one with --user");
        return CMD_NOT_FINE;
    }
    printf("server %s: path %s%s%s is %s for %u running process%s and for those that start from "
           "now on\n",
           name->server, name->path, name->local[0] ? " from " : "", name->local, state, processes,
           processes == 1 ? "" : "es");
    fflush(stdout);
    return CMD_FINE;
}

struct load {
    uint64_t under_way, answered;
};

static struct load measure(const struct cmd_path_name *name)
{
    struct known known = {0};
    struct load load = {0};
    cmd_snapshot_read("path", &known.snapshot, 2);
    cmd_path_list_make(&known.list, &known.snapshot, NULL);
    for (size_t i = 0; i < known.list.count; i++) {
        if (cmd_path_is(&known.list.paths[i], name)) {
            load.under_way += known.list.paths[i].outstanding;
            load.answered += known.list.paths[i].latency.calls;
        }
    }
    forget(&known);
    return load;
}

/* Waits until two looks show nothing under way, and nothing was answered between them. */
static int drain(const struct request *request)
{
    uint64_t end = sys_now_ns() + (uint64_t)(request->wait * 1e9);
    for (struct load before = measure(&request->name), now;; before = now) {
        usleep(DRAIN_PAUSE_US);
        now = measure(&request->name);
        if (before.under_way == 0 && now.under_way == 0 && now.answered == before.answered)
            return CMD_FINE;
        if (sys_now_ns() >= end) {
            cmd_complain("path",
                         "after %g s calls still use path %s of server %s, %llu at this moment: "
                         "see 'directnfs path list'",
                         request->wait, request->name.path, request->name.server,
                         (unsigned long long)now.under_way);
            return CMD_NOT_FINE;
        }
    }
}

static int set_path(const struct request *request, bool offline)
{
    struct known known = {0};
    int result = CMD_NOT_FINE;
    bool drains = false;
    learn(&known);
    const struct cmd_path_name *name = &request->name;
    if (find(name, &known)) {
        unsigned processes = processes_of(name, &known);
        bool last = offline && cmd_path_is_last(&known.list, CMD_NO_USER, name);
        if (last && !request->force)
            cmd_complain("path",
                         "%s is the last path to server %s that is online and not down: its calls "
                         "could only stay on it. --force says it anyway: it is left when another "
                         "path works",
                         name->path, name->server);
        else
            result = tell(name, offline, processes);
        drains = offline && !last && processes > 0 && request->wait > 0;
    }
    forget(&known);
    return result == CMD_FINE && drains ? drain(request) : result;
}

static int act(int count, char **words, struct request *request)
{
    const char *verb = count ? words[0] : NULL;
    bool offline = verb && strcmp(verb, "offline") == 0;
    if (verb == NULL || (!offline && strcmp(verb, "online") != 0 && strcmp(verb, "list") != 0))
        return cmd_usage_error("path", "list, offline or online%s%s%s?", verb ? ", not '" : "",
                               verb ? verb : "", verb ? "'" : "");
    if (!offline && (request->force || request->wait >= 0))
        return cmd_usage_error("path", "%s is for offline only",
                               request->force ? "--force" : "--wait");
    if (request->wait < 0)
        request->wait = WAIT_DEFAULT;
    if (strcmp(verb, "list") == 0) {
        if (count > 1)
            return cmd_usage_error("path", "list shows all paths; '%s' is too much", words[1]);
        return list_paths(request);
    }
    if (request->json)
        return cmd_usage_error("path", "--json is for list only");
    if (count < 3 || count > 4)
        return cmd_usage_error("path", "%s takes a server, a path and perhaps a local address",
                               verb);
    request->name = (struct cmd_path_name){words[1], words[2], count > 3 ? words[3] : ""};
    return set_path(request, offline);
}

static int run(int argc, char **argv)
{
    struct request request = {.wait = -1};
    int status = cmd_options(&cmd_path, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (request.user && cmd_rundir_choose("path", request.user) != CMD_FINE)
        return CMD_NOT_FINE;
    return act(argc - optind, argv + optind, &request);
}

static const struct cmd_option options[] = {
    CMD_TEXT_OPTION("user", 0, user, "USER", "as root: the processes of this user, not of all"),
    CMD_FLAG_OPTION("json", 0, json, "list: print an array of objects"),
    CMD_FLAG_OPTION("force", 0, force, "offline: take the last path of a server too"),
    CMD_NUMBER_OPTION("wait", 0, wait, "SECONDS", 0, 86400, "seconds from 0 to 86400",
                      "offline: until no call uses the path any more (default 10, 0: not at all)"),
};

const struct cmd_command cmd_path = {
    .name = "path",
    .usage = "path list [--user USER] [--json]\n"
             "path offline [--user USER] [--force] [--wait SECONDS] SERVER PATH [LOCAL]\n"
             "path online [--user USER] SERVER PATH [LOCAL]\n",
    .purpose = "shows the network paths that running programs use, and takes one offline or\n"
               "         online in all of them",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
