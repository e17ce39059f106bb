/*
 * What a user may put into a run directory to harm who reads it:
 *
 *     intruder_files KIND COUNT        fills the current directory
 *     intruder_files exchange A B      exchanges two names until it is ended
 *     intruder_files sort COUNT        makes nothing: see below
 *
 * dead: segments of processes that do not exist, to be added up; sparse, with full tables.
 * sparse: such segments of another process namespace, whose processes cannot be asked for.
 * files, paths: the same, every file or path of which has a name of its own.
 * registry: COUNT does not matter; something is uncommitted in each of its files.
 * sort: sorts the names of the files of so many segments. What that costs says how fast the machine
 * is just now, and so how much a reader may cost.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directnfs/stats.h"
#include "ledger/store/layout.h"
#include "stats/segment.h"

static struct directnfs_stats stats;

static void must(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static void fill_files(unsigned number)
{
    for (unsigned i = 0; i < DIRECTNFS_FILES; i++) {
        stats.files[i].slot = DIRECTNFS_SLOT_USED;
        stats.files[i].inode = number * DIRECTNFS_FILES + i;
        snprintf(stats.files[i].name, sizeof(stats.files[i].name), "/a/%0400u.%u", number, i);
    }
    stats.file_count = DIRECTNFS_FILES;
}

static void fill_paths(unsigned number)
{
    for (unsigned i = 0; i < DIRECTNFS_PATHS; i++) {
        stats.paths[i].slot = DIRECTNFS_SLOT_USED;
        snprintf(stats.paths[i].path, sizeof(stats.paths[i].path), "%u.%u", number, i);
        snprintf(stats.paths[i].name, sizeof(stats.paths[i].name), "%050u.%u", number, i);
    }
    stats.path_count = DIRECTNFS_PATHS;
}

static void make_segment(const char *kind, unsigned number)
{
    char name[64];
    struct stat space;
    int sparse = strcmp(kind, "dead") == 0 || strcmp(kind, "sparse") == 0;
    must(stat("/proc/self/ns/pid", &space) == 0, "/proc/self/ns/pid");
    memset(&stats, 0, sizeof(stats));
    stats.magic = DIRECTNFS_STATS_MAGIC;
    stats.layout = DIRECTNFS_STATS_LAYOUT;
    stats.size = sizeof(stats);
    stats.pid = 2000000000 + number;
    stats.starttime = 1;
    stats.pid_namespace = strcmp(kind, "dead") == 0 ? space.st_ino : 1;
    if (sparse)
        stats.file_count = DIRECTNFS_FILES;
    else if (strcmp(kind, "files") == 0)
        fill_files(number);
    else
        fill_paths(number);
    snprintf(name, sizeof(name), "stats.%u.1", stats.pid);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0, name);
    size_t length = sparse             ? offsetof(struct directnfs_stats, servers)
                    : stats.file_count ? sizeof(stats)
                                       : offsetof(struct directnfs_stats, channels);
    must(write(fd, &stats, length) == (ssize_t)length, "write");
    must(ftruncate(fd, STATS_BYTES) == 0, "ftruncate");
    close(fd);
}

static void make_registry(void)
{
    static struct ledger_shared shared;
    static struct ledger_entry set[LEDGER_SET_SIZE];
    shared.head.magic = LEDGER_REGISTRY_MAGIC;
    shared.head.layout = LEDGER_REGISTRY_LAYOUT;
    shared.head.header_size = sizeof(shared);
    for (unsigned i = 0; i < LEDGER_STRIPES; i++)
        shared.stripes[i].uncommitted = 1;
    memset((void *)shared.set_state, 1, sizeof(shared.set_state));
    int fd = open("registry", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, &shared, sizeof(shared)) == (ssize_t)sizeof(shared), "registry");
    off_t at = ((off_t)sizeof(shared) + 4095) / 4096 * 4096; /* all counts are 0 */
    for (unsigned i = 0; i < LEDGER_SETS; i++) {
        for (unsigned k = 0; k < LEDGER_SET_SIZE; k++) {
            set[k].uncommitted = 1;
            set[k].inode = i * LEDGER_SET_SIZE + k;
        }
        must(pwrite(fd, set, sizeof(set), at + (off_t)(i * sizeof(set))) == (ssize_t)sizeof(set),
             "registry");
    }
    close(fd);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(unsigned count)
{
    size_t names = (size_t)count * DIRECTNFS_FILES;
    char(*text)[DIRECTNFS_FILE_NAME_BYTES] = malloc(names * sizeof(*text)),
    **sorted = malloc(names * sizeof(*sorted));
    must(text && sorted, "malloc");
    for (unsigned i = 0; i < count; i++) {
        fill_files(i * 7919 % count);
        for (size_t k = 0; k < DIRECTNFS_FILES; k++) {
            size_t to = i * (size_t)DIRECTNFS_FILES + k;
            sorted[to] = strcpy(text[to], stats.files[k].name);
        }
    }
    qsort(sorted, names, sizeof(*sorted), by_name);
}

int main(int argc, char **argv)
{
    if (argc == 4)
        for (;;)
            renameat2(AT_FDCWD, argv[2], AT_FDCWD, argv[3], RENAME_EXCHANGE);
    must(argc == 3, "intruder_files KIND COUNT");
    unsigned count = (unsigned)atoi(argv[2]);
    if (strcmp(argv[1], "registry") == 0)
        make_registry();
    else if (strcmp(argv[1], "sort") == 0)
        sort_names(count);
    else
        for (unsigned i = 0; i < count; i++)
            make_segment(argv[1], i);
    return 0;
}
