/* The first screen of `directnfs stat`: one page, however much there is. */
#include <stdlib.h>
#include <string.h>

#include "../../src/cmd/files.c"
#include "../../src/cmd/index.c"
#include "../../src/cmd/mounts.c"
#include "../../src/cmd/path/list.c"
#include "../../src/cmd/print.c"
#include "../../src/cmd/stat/page.c"
#include "../../src/cmd/stat/set.c"
#include "../../src/cmd/table.c"
#include "unit.h"

enum { PROCESSES = 60, LINES = 40, WIDE = 100, NARROW = 60 };

int cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM])
{
    (void)command, (void)problem;
    visit(argument);
    return 0;
}

void cmd_rundir_measure(struct cmd_rundir_memory *memory)
{
    memory->used += 5000000;
    memory->left = 1000000000;
}

static struct directnfs_stats *processes[PROCESSES];
static struct stats_snapshot snapshot;
static struct stat_set set;
static char *page;

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        processes[i] = calloc(1, sizeof(*processes[i]));
        processes[i]->pid = (uint32_t)i + 1;
        processes[i]->pid_namespace = 1; /* another one: /proc is not looked at */
    }
    snapshot = (struct stats_snapshot){.processes = processes, .count = PROCESSES};
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++)
        free(processes[i]);
    stat_set_free(&set);
    set = (struct stat_set){0};
    free(page);
    page = NULL;
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, begin, end)

static void print(size_t width)
{
    size_t size;
    free(page);
    stat_set_free(&set);
    FILE *out = open_memstream(&page, &size);
    stat_set_make(&set, &snapshot, &(struct stat_filter){0});
    stat_page_print(&set, width, out);
    fclose(out);
}

static void has(const char *text)
{
    if (strstr(page, text) == NULL)
        fail_msg("'%s' is not in:\n%s", text, page);
}

static void fits_screen(size_t width)
{
    unsigned lines = 0;
    for (const char *at = page, *next; (next = strchr(at, '\n')) != NULL; at = next + 1, lines++)
        assert_true(next - at <= (ptrdiff_t)width);
    assert_true(lines <= LINES);
}

TEST(a_service_is_one_row)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct directnfs_stats *one = processes[i];
        strcpy(one->program, "postgres");
        one->counters.procedures[6].latency =
            (struct directnfs_latency){.calls = 2, .total_ns = 400000};
        one->counters.read_bytes = 16384;
        one->path_count = 1;
        one->paths[0] = (struct directnfs_path_stats){.slot = DIRECTNFS_SLOT_USED,
                                                      .state = DIRECTNFS_CHANNEL_UP,
                                                      .name = "filer",
                                                      .path = "192.0.2.10"};
        one->file_count = 2;
        one->files[0] =
            (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_USED, .name = "/srv/table"};
        one->files[1] = (struct directnfs_file_stats){.slot = DIRECTNFS_SLOT_CLOSED,
                                                      .state = DIRECTNFS_FILE_KERNEL,
                                                      .reason = "stdio",
                                                      .name = "/srv/conf"};
    }
    snapshot.uncommitted = 2000000;
    snapshot.unsent = 1000;
    print(WIDE);
    fits_screen(WIDE);
    has(" 60 processes, 0 ended");
    has("postgres  root         60    120   983k  200us");
    has("192.0.2.10         filer   up");
    has("Files: 1 open and direct, 1 left to the kernel");
    has("    1  stdio              /srv/conf");
    has("disk yet: 2.00MB, of which 1.00kB are not sent\n");
    has("run directory: 5.00MB, 1.00GB are free");
    snapshot.losses = 2;
    /* Where there is no room what is less important goes. */
    print(NARROW);
    has("not sent; data was lost 2 times\n");
    has("\nSERVICE  PROGRAM   PROCESSES  READS   MEAN  WRITES  MEAN\n");
    has("\nPATH        LOCAL  SERVER  STATE  MEAN  DOWNS  SINCE");
}

/* As much of everything as there can be, all of it different. */
TEST(it_is_one_page_however_much_there_is)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct directnfs_stats *one = processes[i];
        snprintf(one->program, sizeof(one->program), "program%0*d", 50, i);
        one->mount_count = DIRECTNFS_MOUNTS;
        one->path_count = DIRECTNFS_PATHS;
        one->file_count = DIRECTNFS_FILES;
        for (unsigned k = 0; k < DIRECTNFS_MOUNTS; k++) {
            one->mounts[k].slot = DIRECTNFS_SLOT_USED;
            snprintf(one->mounts[k].mount, DIRECTNFS_NAME_BYTES, "/%0*u", 200, k);
        }
        for (unsigned k = 0; k < DIRECTNFS_PATHS; k++) {
            one->paths[k].slot = DIRECTNFS_SLOT_USED;
            snprintf(one->paths[k].path, DIRECTNFS_ADDRESS_BYTES, "192.0.2.%u", k);
            memset(one->paths[k].reason, 'r', DIRECTNFS_REASON_BYTES - 1);
        }
        for (unsigned k = 0; k < DIRECTNFS_FILES; k++) {
            struct directnfs_file_stats *file = &one->files[k];
            file->slot = DIRECTNFS_SLOT_USED;
            file->state = DIRECTNFS_FILE_KERNEL;
            snprintf(file->reason, sizeof(file->reason), "reason %0*u", 80, k % 40);
            snprintf(file->name, sizeof(file->name), "%0*u", 400, k);
        }
    }
    print(WIDE);
    unsigned lines = 0;
    for (const char *at = page; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_true(lines <= LINES);
    has("... and 54 more: directnfs stat processes");
    has("... and 58 more: directnfs stat paths");
    has("... and 36 more: directnfs stat files");
}

int main(void)
{
    return unit_run(NULL, NULL);
}
