/*
 * directnfs stat: processes that have the library, but have not opened a file of a mount yet. Such
 * a process keeps no statistics: each program that never opens one would pay for them. So they are
 * found by what they have mapped, as far as the user of this command may look.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/check/program.h"
#include "cmd/stat/view.h"

#define LIBRARY "/libdirectnfs.so"

enum { LOADED_MAX = 2000 };

/* A file of /proc/PID. */
static FILE *open_proc(uint32_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    return fopen(path, "re");
}

static bool has_library(uint32_t pid)
{
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *maps = open_proc(pid, "maps");
    while (maps && !found && getline(&line, &size, maps) > 0)
        found = strstr(line, LIBRARY) != NULL;
    if (maps)
        fclose(maps);
    free(line);
    return found;
}

/* True if its statistics would be among those that are asked for. Each user has one run directory,
 * unless $DIRECTNFS_RUN chooses another. */
static bool is_of_directory(uint32_t pid)
{
    char path[64];
    size_t size;
    const char *wanted = getenv("DIRECTNFS_RUN"), *chosen = "";
    snprintf(path, sizeof(path), "/proc/%u/environ", pid);
    char *environment = program_read(path, &size);
    for (const char *at = environment; at && *at; at += strlen(at) + 1)
        if (strncmp(at, "DIRECTNFS_RUN=", 14) == 0)
            chosen = at + 14;
    bool same = strcmp(chosen, wanted ? wanted : "") == 0;
    free(environment);
    return same;
}

static bool is_counted(const struct stat_set *set, uint32_t pid)
{
    for (unsigned i = 0; i < set->snapshot->count; i++)
        if (set->snapshot->processes[i]->pid == pid)
            return true;
    return false;
}

static void add(struct stat_set *set, uint32_t pid)
{
    struct directnfs_stats *stats = cmd_need(calloc(1, sizeof(*stats)));
    set->loaded = cmd_need(reallocarray(set->loaded, set->loaded_count + 1, sizeof(*set->loaded)));
    set->loaded[set->loaded_count++] = stats;
    stats->pid = pid;
    FILE *name = open_proc(pid, "comm");
    struct stat status;
    if (name && fstat(fileno(name), &status) == 0)
        stats->uid = status.st_uid;
    if (name && fgets(stats->program, sizeof(stats->program), name))
        stats->program[strcspn(stats->program, "\n")] = '\0';
    if (name)
        fclose(name);
}

static int by_pid(const void *a, const void *b)
{
    const struct directnfs_stats *first = *(struct directnfs_stats *const *)a;
    const struct directnfs_stats *second = *(struct directnfs_stats *const *)b;
    return (first->pid > second->pid) - (first->pid < second->pid);
}

void stat_set_add_loaded(struct stat_set *set, const struct stat_filter *filter)
{
    struct dirent *entry;
    DIR *proc = filter->server || filter->last ? NULL : opendir("/proc");
    while (proc && set->loaded_count < LOADED_MAX && (entry = readdir(proc)) != NULL) {
        uint32_t pid = isdigit((unsigned char)entry->d_name[0])
                           ? (uint32_t)strtoul(entry->d_name, NULL, 10)
                           : 0;
        if (pid == 0 || (filter->pid != 0 && pid != filter->pid) || is_counted(set, pid))
            continue;
        if (has_library(pid) && is_of_directory(pid))
            add(set, pid);
    }
    if (proc)
        closedir(proc);
    if (set->loaded_count > 0)
        qsort(set->loaded, set->loaded_count, sizeof(*set->loaded), by_pid);
}
