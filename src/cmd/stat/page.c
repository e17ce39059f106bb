/* directnfs stat without a view: one page about everything. The views have the details. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/files.h"
#include "cmd/path/list.h"
#include "cmd/rundir.h"
#include "cmd/stat/view.h"

enum {
    SERVICES_SHOWN = 6,
    MOUNTS_SHOWN = 5,
    PATHS_SHOWN = 6,
    REASONS_SHOWN = 4,
    REASONS_TOLD_APART = 64,
    UNIT = 64
};

/* Prints the table, and how many rows are missing: that view has them. */
static void end_part(struct cmd_table *table, size_t all, const char *view, size_t width, FILE *out)
{
    struct cmd_column kept[STAT_COLUMNS];
    cmd_table_drop(table, kept, width);
    cmd_table_print(table, width, out);
    if (all > table->count)
        fprintf(out, "... and %zu more: directnfs stat %s\n", all - table->count, view);
    cmd_table_free(table);
    fputc('\n', out);
}

#define TABLE(list, nothing)                                                                     \
    {                                                                                            \
        .columns = (list), .column_count = sizeof(list) / sizeof((list)[0]), .for_people = true, \
        .brief = true, .none = (nothing)                                                         \
    }
#define TEXT(member)       cmd_table_text(table, (member), sizeof(member))
#define NUMBER(number)     cmd_table_number(table, (number))
#define TIME(latency)      cmd_table_time(table, &(latency), STATS_MEAN)
#define MEAN(microseconds) put_time(table, (microseconds))

static void put_time(struct cmd_table *table, double microseconds)
{
    char text[CMD_BRIEF] = "-";
    if (microseconds > 0)
        cmd_brief_time(text, microseconds);
    cmd_table_cell(table, text, sizeof(text), microseconds);
}

/* ---- services ---- */

/* Processes of one program, user, and unit of systemd. */
struct service {
    char unit[UNIT], program[DIRECTNFS_ADDRESS_BYTES];
    uint32_t uid;
    unsigned processes;
    struct directnfs_counters sum;
};

/* The unit of the process's control group, such as "postgresql@15-nfs". "-": there is none, or the
 * number belongs to another namespace. */
static void find_unit(const struct directnfs_stats *stats, char unit[UNIT])
{
    char path[64], line[4096] = "";
    struct stat own;
    strcpy(unit, "-");
    if (stats->pid_namespace &&
        (stat("/proc/self/ns/pid", &own) != 0 || own.st_ino != (ino_t)stats->pid_namespace))
        return;
    snprintf(path, sizeof(path), "/proc/%u/cgroup", stats->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        char *end = NULL, *rest = line;
        for (char *part; (part = strsep(&rest, "/\n")) != NULL;) {
            size_t length = strlen(part);
            if (length > 8 && strcmp(part + length - 8, ".service") == 0)
                end = part;
        }
        if (end)
            snprintf(unit, UNIT, "%.*s", (int)(strlen(end) - 8), end);
    }
    if (file)
        fclose(file);
}

static void add_to_service(struct service **list, size_t *count,
                           const struct directnfs_stats *stats, unsigned processes)
{
    struct service one = {.uid = stats->uid};
    if (processes == 1)
        find_unit(stats, one.unit);
    else
        strcpy(one.unit, "-");
    snprintf(one.program, sizeof(one.program), "%.*s", (int)sizeof(stats->program) - 1,
             processes == 1 ? stats->program : "(ended)");
    size_t i = 0;
    while (i < *count && ((*list)[i].uid != one.uid || strcmp((*list)[i].unit, one.unit) != 0 ||
                          strcmp((*list)[i].program, one.program) != 0))
        i++;
    if (i == *count) {
        *list = cmd_need(reallocarray(*list, i + 1, sizeof(**list)));
        (*list)[(*count)++] = one;
    }
    (*list)[i].processes += processes;
    stats_add_counters(&(*list)[i].sum, &stats->counters);
}

static uint64_t calls_of(const struct service *service)
{
    uint64_t calls = 0;
    for (unsigned i = 0; i < DIRECTNFS_PROCEDURES; i++)
        calls += service->sum.procedures[i].latency.calls;
    return calls;
}

static int by_calls(const void *a, const void *b)
{
    const struct service *first = a, *second = b;
    uint64_t one = calls_of(first), other = calls_of(second);
    if (one != other)
        return one < other ? 1 : -1;
    return strcmp(first->program, second->program);
}

#define SERVICE_COLUMNS(COLUMN)                                                    \
    COLUMN("SERVICE", CMD_CUT_END, TEXT(service->unit))                            \
    COLUMN("PROGRAM", CMD_CUT_END, TEXT(service->program), .drop = 1)              \
    COLUMN("USER", CMD_TEXT, cmd_table_text(table, user, SIZE_MAX), .drop = 2)     \
    COLUMN("PROCESSES", CMD_NUMBER, NUMBER(service->processes))                    \
    COLUMN("READS", CMD_NUMBER, NUMBER(service->sum.procedures[6].latency.calls))  \
    COLUMN("BYTES", CMD_NUMBER, NUMBER(service->sum.read_bytes), .drop = 4)        \
    COLUMN("MEAN", CMD_NUMBER, TIME(service->sum.procedures[6].latency))           \
    COLUMN("WRITES", CMD_NUMBER, NUMBER(service->sum.procedures[7].latency.calls)) \
    COLUMN("BYTES", CMD_NUMBER, NUMBER(service->sum.write_bytes), .drop = 4)       \
    COLUMN("MEAN", CMD_NUMBER, TIME(service->sum.procedures[7].latency))           \
    COLUMN("ERRORS", CMD_NUMBER, NUMBER(stats_errors(&service->sum)), .drop = 3)

static void print_services(const struct stat_set *set, size_t width, FILE *out)
{
    static const struct cmd_column columns[] = {SERVICE_COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table rows = TABLE(columns, "No process uses directnfs."), *table = &rows;
    struct service *list = NULL;
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        add_to_service(&list, &count, set->processes[i],
                       set->last ? (unsigned)set->processes[i]->processes : 1);
    for (size_t i = 0; i < set->loaded_count; i++)
        add_to_service(&list, &count, set->loaded[i], 1);
    if (count)
        qsort(list, count, sizeof(*list), by_calls);
    for (size_t i = 0; i < count && i < SERVICES_SHOWN; i++) {
        const struct service *service = &list[i];
        char number[CMD_USER_NUMBER];
        const char *user = cmd_user_name(service->uid, number);
        SERVICE_COLUMNS(CMD_AS_CELL)
    }
    end_part(table, count, "processes", width, out);
    free(list);
}

/* ---- mounts ---- */

#define MOUNT_COLUMNS(COLUMN)                                                             \
    COLUMN("MOUNT", CMD_CUT_START, TEXT(mount->sum.mount))                                \
    COLUMN("SERVER", CMD_CUT_END, TEXT(mount->sum.name), .drop = 2)                       \
    COLUMN("USER", CMD_TEXT, cmd_table_text(table, user, SIZE_MAX), .drop = 1)            \
    COLUMN("PROCESSES", CMD_NUMBER, NUMBER(mount->processes), .drop = 3)                  \
    COLUMN("READS", CMD_NUMBER, NUMBER(reads->calls))                                     \
    COLUMN("MEAN", CMD_NUMBER, MEAN(cmd_operation(reads).exe_us))                         \
    COLUMN("WRITES", CMD_NUMBER, NUMBER(writes->calls))                                   \
    COLUMN("MEAN", CMD_NUMBER, MEAN(cmd_operation(writes).exe_us))                        \
    COLUMN("RESENT", CMD_NUMBER, NUMBER(reads->resent + writes->resent + others->resent), \
           .drop = 4)                                                                     \
    COLUMN("ERRORS", CMD_NUMBER, NUMBER(reads->errors + writes->errors + others->errors))

static void print_mounts(const struct stat_set *set, size_t width, FILE *out)
{
    static const struct cmd_column columns[] = {MOUNT_COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table rows = TABLE(columns, "No mount was used."), *table = &rows;
    for (size_t i = 0; i < set->mounts.count && i < MOUNTS_SHOWN; i++) {
        const struct cmd_mount *mount = &set->mounts.list[i];
        const struct directnfs_operation_stats *reads = &mount->sum.operations[DIRECTNFS_READ];
        const struct directnfs_operation_stats *writes = &mount->sum.operations[DIRECTNFS_WRITE];
        const struct directnfs_operation_stats *others = &mount->sum.operations[DIRECTNFS_OTHER];
        char number[CMD_USER_NUMBER];
        const char *user = cmd_user_name(mount->user, number);
        MOUNT_COLUMNS(CMD_AS_CELL)
    }
    end_part(table, set->mounts.count, "mounts", width, out);
}

/* ---- network paths ---- */

#define PATH_COLUMNS(COLUMN)                                            \
    COLUMN("PATH", CMD_TEXT, TEXT(path->path))                          \
    COLUMN("LOCAL", CMD_TEXT, TEXT(path->local), .drop = 2)             \
    COLUMN("SERVER", CMD_CUT_END, TEXT(path->server), .drop = 1)        \
    COLUMN("STATE", CMD_TEXT, TEXT(state))                              \
    COLUMN("CALLS", CMD_NUMBER, NUMBER(path->latency.calls), .drop = 5) \
    COLUMN("MEAN", CMD_NUMBER, TIME(path->latency), .drop = 3)          \
    COLUMN("DOWNS", CMD_NUMBER, NUMBER(path->downs), .drop = 4)         \
    COLUMN("SINCE", CMD_TEXT, TEXT(since))                              \
    COLUMN("REASON", CMD_CUT_END, TEXT(path->reason))

static void print_paths(const struct stat_set *set, size_t width, FILE *out)
{
    static const struct cmd_column columns[] = {PATH_COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table rows = TABLE(columns, "No network path was used."), *table = &rows;
    struct cmd_snapshot seen = {.stats = {.processes = (struct directnfs_stats **)set->processes,
                                          .count = (unsigned)set->count}};
    struct cmd_path_list paths;
    cmd_need(cmd_path_list_make(&paths, &seen, NULL) ? &paths : NULL);
    for (size_t i = 0; i < paths.count && i < PATHS_SHOWN; i++) {
        const struct cmd_path *path = &paths.paths[i];
        char since[CMD_TIME_BYTES] = "", state[48];
        unsigned agree;
        const char *word = cmd_path_state(path, &agree);
        snprintf(state, sizeof(state), agree && agree < path->processes ? "%s %u/%u" : "%s", word,
                 agree, path->processes);
        if (path->since_ns)
            cmd_time(since, path->since_ns);
        PATH_COLUMNS(CMD_AS_CELL)
    }
    end_part(table, paths.count, "paths", width, out);
    free(paths.paths);
}

/* ---- files of the kernel ---- */

/* Files that the kernel serves for one reason. */
struct reason {
    const struct cmd_file *example;
    unsigned files;
};

static int by_files(const void *a, const void *b)
{
    const struct reason *first = a, *second = b;
    return (first->files < second->files) - (first->files > second->files);
}

#define REASON_COLUMNS(COLUMN)                                  \
    COLUMN("FILES", CMD_NUMBER, NUMBER(reason->files))          \
    COLUMN("WHY ON THE KERNEL", CMD_CUT_END, TEXT(sum->reason)) \
    COLUMN("SUCH AS", CMD_CUT_START, TEXT(sum->name))

static void print_files(const struct stat_set *set, size_t width, FILE *out)
{
    static const struct cmd_column columns[] = {REASON_COLUMNS(CMD_AS_COLUMN)};
    struct cmd_table rows = TABLE(columns, ""), *table = &rows;
    struct cmd_files files = {0};
    bool listed = true;
    for (size_t i = 0; listed && i < set->count; i++)
        listed = cmd_files_add(&files, set->processes[i], NULL);
    /* Other users decide how many reasons there are: the last place stands for the rest. */
    struct reason list[REASONS_TOLD_APART] = {{0}};
    size_t count = 0;
    unsigned kernel = 0, open = 0;
    for (size_t i = 0; i < files.count; i++) {
        const struct cmd_file *file = &files.list[i];
        size_t k = 0;
        open += file->kernel == 0 && file->sum.slot == DIRECTNFS_SLOT_USED;
        if (file->kernel == 0)
            continue;
        kernel++;
        while (k < count && strncmp(list[k].example->sum.reason, file->sum.reason,
                                    sizeof(file->sum.reason)) != 0)
            k++;
        if (k == REASONS_TOLD_APART)
            k--;
        else if (k == count)
            list[count++].example = file;
        list[k].files++;
    }
    qsort(list, count, sizeof(*list), by_files);
    fprintf(out, "Files: %u open and direct, %u left to the kernel%s\n", open, kernel,
            kernel ? "" : "\n");
    for (size_t i = 0; i < count && i < REASONS_SHOWN; i++) {
        const struct reason *reason = &list[i];
        const struct directnfs_file_stats *sum = &reason->example->sum;
        REASON_COLUMNS(CMD_AS_CELL)
    }
    if (kernel)
        end_part(table, count, "files", width, out);
    cmd_files_free(&files);
}

/* ---- what is not safe yet ---- */

static void measure(void *argument)
{
    cmd_rundir_measure(argument);
}

static void print_safety(const struct stat_set *set, FILE *out)
{
    const struct stats_snapshot *snapshot = set->snapshot;
    struct cmd_rundir_memory memory = {0};
    char bytes[CMD_BRIEF], unsent[CMD_BRIEF], used[CMD_BRIEF], left[CMD_BRIEF];
    char problem[CMD_RUNDIR_PROBLEM];
    cmd_rundir_visit("stat", measure, &memory, problem);
    fprintf(out, "Not on a server's disk yet: %sB, of which %sB are not sent",
            cmd_brief(bytes, (double)snapshot->uncommitted),
            cmd_brief(unsent, (double)snapshot->unsent));
    if (snapshot->losses)
        fprintf(out, "; data was lost %llu time%s", (unsigned long long)snapshot->losses,
                snapshot->losses == 1 ? "" : "s");
    fputc('\n', out);
    uint64_t aside = 0;
    for (unsigned i = 0; i < snapshot->stray_count; i++)
        aside += snapshot->strays[i].bytes;
    if (snapshot->stray_count)
        fprintf(out, "Set aside, as others may have changed the files: %sB. See directnfs flush.\n",
                cmd_brief(bytes, (double)aside));
    fprintf(out, "Memory in the run directory: %sB, %sB are free there.",
            cmd_brief(used, (double)memory.used), cmd_brief(left, (double)memory.left));
    unsigned alive = 0;
    const char *lack = NULL;
    for (unsigned i = 0; i < snapshot->agent_count; i++) {
        alive += snapshot->agents[i].state == STATS_AGENT_ALIVE;
        if (snapshot->agents[i].lack[0])
            lack = snapshot->agents[i].lack;
    }
    if (lack) {
        char *why = cmd_printable(lack, sizeof(snapshot->agents[0].lack));
        fprintf(out, " No agent: %s\n", why);
        free(why);
    } else {
        fprintf(out, " Agents: %u\n", alive);
    }
}

/* ---- all of it ---- */

void stat_page_print(const struct stat_set *set, size_t width, FILE *out)
{
    char time[CMD_TIME_BYTES], host[64] = "";
    gethostname(host, sizeof(host) - 1);
    cmd_time(time, set->snapshot->taken_ns);
    fprintf(out, "%s, %s: %zu process%s, %llu ended\n\n", host, time,
            set->last ? 0 : set->count + set->loaded_count,
            set->count + set->loaded_count == 1 && !set->last ? "" : "es",
            (unsigned long long)set->sum->processes);
    print_services(set, width, out);
    print_mounts(set, width, out);
    if (!set->last)
        print_paths(set, width, out);
    if (set->last)
        return;
    print_files(set, width, out);
    print_safety(set, out);
}
