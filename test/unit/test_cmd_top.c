/* What `directnfs top` makes of statistics, on screens of any size, and what keys do. */
#include <stdlib.h>
#include <string.h>

#include "../../src/cmd/files.c"
#include "../../src/cmd/index.c"
#include "../../src/cmd/mounts.c"
#include "../../src/cmd/path/list.c"
#include "../../src/cmd/print.c"
#include "../../src/cmd/table.c"
#include "../../src/cmd/top/grid.c"
#include "../../src/cmd/top/keys.c"
#include "../../src/cmd/top/model.c"
#include "../../src/cmd/top/table.c"
#include "../../src/cmd/top/view.c"
#include "unit.h"

/* ---- the rest of the command ---- */

static unsigned said;
static bool said_offline;

/* As if there was one run directory, in which everything works. */
int cmd_rundir_visit(const char *command, void (*visit)(void *argument), void *argument,
                     char problem[CMD_RUNDIR_PROBLEM])
{
    (void)command, (void)visit, (void)problem;
    struct saying *saying = argument;
    said++;
    said_offline = saying->offline;
    saying->told = 1;
    return 0;
}

bool cmd_rundir_make(const char *command)
{
    (void)command;
    return true;
}

/* Snapshots of these tests come from calloc(). */
void cmd_snapshot_free(struct cmd_snapshot *snapshot)
{
    for (unsigned i = 0; i < snapshot->stats.count; i++)
        free(snapshot->stats.processes[i]);
    free(snapshot->stats.processes);
    free(snapshot->offline);
    *snapshot = (struct cmd_snapshot){0};
}

/* ---- a host with two processes ---- */

static struct top_model model;
static struct top_ui ui;
static struct top_grid grid;
static struct cmd_table table;
static char *screen;

static void call(struct directnfs_stats *stats, unsigned procedure, unsigned count)
{
    struct directnfs_latency *latency = &stats->counters.procedures[procedure].latency;
    latency->calls += count;
    latency->total_ns += count * UINT64_C(200000);
    latency->max_ns = 200000;
    latency->histogram[8] += count;
    if (procedure == 6) {
        stats->files[0].reads += count;
        stats->files[0].read_bytes += count * UINT64_C(1000);
    }
    stats->paths[0].latency.calls += count;
    stats->paths[0].latency.max_ns = 200000;
    stats->paths[0].latency.total_ns += count * UINT64_C(200000);
    stats->paths[0].latency.histogram[8] += count;
}

static bool hangs; /* the server, over its first path, since 3 seconds */

static struct directnfs_stats *add_running(struct cmd_snapshot *snapshot, uint32_t pid,
                                           const char *program)
{
    struct directnfs_stats *stats = calloc(1, sizeof(*stats));
    unsigned count = snapshot->stats.count++;
    snapshot->stats.processes =
        reallocarray(snapshot->stats.processes, count + 1, sizeof(struct directnfs_stats *));
    snapshot->stats.processes[count] = stats;
    stats->pid = pid;
    stats->uid = 12345;
    strcpy(stats->program, program);
    stats->server_count = 1;
    stats->servers[0].slot = DIRECTNFS_SLOT_USED;
    strcpy(stats->servers[0].name, "nas");
    stats->path_count = 2;
    for (int i = 0; i < 2; i++) {
        stats->paths[i].slot = DIRECTNFS_SLOT_USED;
        stats->paths[i].state = i ? DIRECTNFS_CHANNEL_DOWN : DIRECTNFS_CHANNEL_UP;
        stats->paths[i].downs = (unsigned)i;
        strcpy(stats->paths[i].path, i ? "10.0.0.2" : "10.0.0.1");
    }
    strcpy(stats->paths[1].reason, "connection refused");
    if (hangs) {
        stats->paths[0].state = DIRECTNFS_CHANNEL_SILENT;
        stats->paths[0].oldest_ns = UINT64_C(3000000000);
    }
    stats->file_count = 2;
    for (int i = 0; i < 2; i++) {
        stats->files[i].slot = i ? DIRECTNFS_SLOT_CLOSED : DIRECTNFS_SLOT_USED;
        stats->files[i].state = i ? DIRECTNFS_FILE_KERNEL : DIRECTNFS_FILE_DIRECT;
        snprintf(stats->files[i].name, sizeof(stats->files[i].name), "/data/%s/%s", program,
                 i ? "mapped" : "table");
    }
    strcpy(stats->files[1].reason, "mmap");
    return stats;
}

/* The host at a time, in seconds: pg does 100 reads a second, my 50 writes. */
static void update_at(unsigned seconds)
{
    struct cmd_snapshot snapshot = {.stats = {.clock = seconds, .taken_ns = 1}};
    call(add_running(&snapshot, 100, "pg"), 6, 100 * seconds);
    call(add_running(&snapshot, 200, "my"), 7, 50 * seconds);
    assert_true(top_model_update(&model, &snapshot));
}

static int begin(void **state)
{
    (void)state;
    memset(&ui, 0, sizeof(ui));
    top_choice_begin(&ui.choice);
    ui.interval = 2;
    said = 0;
    hangs = false;
    return 0;
}

static int end(void **state)
{
    (void)state;
    top_model_free(&model);
    top_grid_free(&grid);
    cmd_table_free(&table);
    free(ui.box);
    free(screen);
    screen = NULL;
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, begin, end)

static const char *draw(int height, int width)
{
    size_t size;
    free(screen);
    cmd_table_free(&table);
    top_table_make(&table, &model, &ui.choice);
    assert_true(top_grid_begin(&grid, height, width));
    top_view_draw(&grid, &model, &table, &ui);
    FILE *out = open_memstream(&screen, &size);
    top_grid_print(&grid, out);
    fclose(out);
    return screen;
}

static enum top_action press(int key)
{
    draw(24, 80);
    return top_press(key, &ui, &model, &table);
}

static void shows(const char *text)
{
    if (!strstr(screen, text))
        fail_msg("no '%s' in:\n%s", text, screen);
}

static void hides(const char *text)
{
    if (strstr(screen, text))
        fail_msg("'%s' in:\n%s", text, screen);
}

/* ---- tests ---- */

TEST(numbers_are_short)
{
    static const struct {
        double number;
        const char *text;
    } numbers[] = {{0, "0"},        {0.25, "0.2"},    {7, "7"},         {7.5, "7.5"},
                   {123, "123"},    {999.4, "999"},   {999.6, "1.00k"}, {9994, "9.99k"},
                   {9996, "10.0k"}, {123456, "123k"}, {5e9, "5.00G"},   {1.9e19, "19.0E"}},
      times[] = {{0, "0us"},        {87.4, "87us"},   {999.6, "1.00ms"}, {45600, "45.6ms"},
                 {123456, "123ms"}, {999600, "1.0s"}, {61e6, "61.0s"}};
    char text[CMD_BRIEF];
    for (size_t i = 0; i < LENGTH(numbers); i++)
        assert_string_equal(cmd_brief(text, numbers[i].number), numbers[i].text);
    for (size_t i = 0; i < LENGTH(times); i++)
        assert_string_equal(cmd_brief_time(text, times[i].number), times[i].text);
}

TEST(rates_are_of_the_interval_and_totals_of_all)
{
    update_at(10);
    draw(24, 80);
    shows("measuring");
    update_at(12);
    draw(24, 80);
    shows("2 processes, 2 paths (1 down, 0 offline), 4 files (2 kernel)");
    shows("READ 100/s");
    shows("WRITE 50/s");
    shows("nas    10.0.0.1 up       0     150      0      0 200us 200us");
    draw(24, 160);
    shows("#\nnas"); /* its history: one update, at the full height */
    ui.choice.view = TOP_PROCESSES;
    draw(24, 80);
    shows("100 pg         100       0      0      0     100    0 200us");
    ui.choice.totals = true;
    draw(24, 80);
    shows("100 pg      1.20k");
    hides("READ/S");
    shows("READS");
}

TEST(a_server_that_hangs_is_red_with_the_age_of_its_oldest_call)
{
    hangs = true;
    update_at(9);
    update_at(10);
    draw(24, 100);
    shows("2 paths (1 down, 1 silent, 0 offline)");
    shows("OLDEST");
    shows("nas    10.0.0.1 silent    0   7.0s");
    assert_int_equal(table.rows[0].look, TOP_LOOK_BAD);
    hangs = false;
    update_at(11);
    draw(24, 100);
    shows("(1 down, 0 offline)");
    hides("OLDEST");
}

TEST(a_reset_begins_totals_anew)
{
    update_at(10);
    update_at(12);
    assert_int_equal(press('z'), TOP_DRAW);
    update_at(13);
    ui.choice.view = TOP_CALLS;
    ui.choice.totals = true;
    draw(24, 80);
    shows("totals since the reset");
    shows("READ    100 ");
    shows("WRITE    50 ");
}

TEST(rates_of_files_are_shown)
{
    update_at(10);
    update_at(12);
    ui.choice.view = TOP_FILES;
    draw(24, 100);
    shows("/data/pg/table     0 direct    1     0    100       0      0    -   100k      0");
    ui.choice.totals = true;
    draw(24, 100);
    shows("READS WRITES SYNCS SYNC  RD-B WR-B");
    shows(" 1.20k      0     0    - 1.20M    0");
}

TEST(a_file_is_one_row_whoever_uses_it)
{
    struct cmd_snapshot snapshot = {.stats = {.clock = 3, .taken_ns = 1}};
    add_running(&snapshot, 100, "pg")->files[0].opens = 2;
    add_running(&snapshot, 300, "pg")->files[0].opens = 1;
    assert_true(top_model_update(&model, &snapshot));
    press('5');
    assert_int_equal(ui.choice.view, TOP_MOUNTS);
    press('3');
    draw(24, 100);
    shows("2 files (1 kernel)");
    shows("/data/pg/table     0 direct    2     3 ");
    assert_int_equal(table.count, 2);
    press(TOP_KEY_ENTER);
    assert_int_equal(model.pid, 0); /* of which of the two? */
}

TEST(the_reason_of_a_file_on_the_kernel_is_shown_first)
{
    update_at(1);
    ui.choice.view = TOP_FILES;
    draw(24, 80);
    shows("/data/pg/mapped");
    shows("mmap");
    assert_true(strstr(screen, "mapped") < strstr(screen, "table"));
}

TEST(it_fits_every_screen)
{
    update_at(1);
    update_at(2);
    static const int heights[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 15, 16, 24, 60};
    static const int widths[] = {1, 2, 3, 4, 5, 9, 19, 20, 40, 79, 80, 81, 132, 250};
    for (size_t h = 0; h < LENGTH(heights); h++) {
        for (size_t w = 0; w < LENGTH(widths); w++) {
            int height = heights[h], width = widths[w];
            for (unsigned view = 0; view < TOP_VIEWS; view++) {
                ui.choice.view = (enum top_view)view;
                draw(height, width);
                int lines = 0;
                for (const char *at = screen; *at; at = strchr(at, '\n') + 1, lines++)
                    assert_true(strchr(at, '\n') - at <= width);
                assert_int_equal(lines, height);
            }
        }
    }
    ui.choice.view = TOP_PATHS;
    draw(5, 20);
    shows("10.0.0.1 up");
    shows("10.0.0.2 do");
    ui.choice.view = TOP_FILES;
    draw(5, 20);
    shows("kernel");
    shows("direct");
}

TEST(the_selection_stays_with_its_row)
{
    update_at(1);
    update_at(2);
    ui.choice.view = TOP_PROCESSES;
    press(TOP_KEY_DOWN); /* my */
    draw(24, 80);
    assert_int_equal(table.rows[ui.cursor[TOP_PROCESSES]].pid, 200);
    press('r');
    draw(24, 80);
    assert_int_equal(ui.cursor[TOP_PROCESSES], 0);
    assert_int_equal(table.rows[0].pid, 200);
    /* It is scrolled into a window of one row. */
    press(TOP_KEY_END);
    draw(2, 80);
    shows("100 pg");
    hides("200 my");
}

TEST(a_process_that_ends_is_not_missed)
{
    struct cmd_snapshot snapshot = {.stats = {.clock = 3, .taken_ns = 1}};
    update_at(1);
    update_at(2);
    ui.choice.view = TOP_PROCESSES;
    press(TOP_KEY_DOWN);
    press(TOP_KEY_ENTER);
    assert_int_equal(model.pid, 200);
    ui.choice.view = TOP_FILES;
    draw(24, 80);
    shows("process 200 only");
    shows("/data/my/table");
    hides("/data/pg/table");
    add_running(&snapshot, 100, "pg");
    assert_true(top_model_update(&model, &snapshot));
    draw(24, 80);
    shows("No file of a configured mount");
    ui.choice.view = TOP_PATHS;
    draw(24, 80);
    shows("No network path is in use.");
    press(TOP_KEY_ESCAPE);
    draw(24, 80);
    shows("10.0.0.1");
}

TEST(nothing_runs)
{
    struct cmd_snapshot snapshot = {.problem = "a run directory cannot be read: Permission denied"};
    assert_true(top_model_update(&model, &snapshot));
    for (unsigned view = 0; view < TOP_VIEWS; view++) {
        ui.choice.view = (enum top_view)view;
        draw(24, 80);
        shows("No ");
        shows("Permission denied");
        for (int key = 0; key < TOP_KEY_OTHER; key++)
            press(key);
    }
    assert_int_equal(said, 0);
}

TEST(sorting_goes_through_the_columns)
{
    update_at(1);
    update_at(2);
    ui.choice.view = TOP_PROCESSES;
    draw(24, 80);
    assert_int_equal(table.rows[0].pid, 100); /* most calls first */
    while (ui.choice.sort[TOP_PROCESSES].column != 2)
        press('<');
    draw(24, 80);
    shows("sorted by PROGRAM");
    assert_int_equal(table.rows[0].pid, 200); /* my before pg */
    press('>');
    press('>');
    draw(24, 80);
    shows("sorted by WRITE/S");
    assert_int_equal(table.rows[0].pid, 200);
}

TEST(a_path_goes_offline_only_when_confirmed)
{
    update_at(1);
    update_at(2);
    press('o'); /* 10.0.0.1; the other one is down */
    draw(24, 80);
    shows("This is the LAST path");
    shows("Take path 10.0.0.1 of server nas offline for 2 running processes?");
    press('n');
    assert_null(ui.box);
    assert_int_equal(said, 0);
    press(TOP_KEY_DOWN);
    press('o');
    draw(24, 80);
    shows("Take path 10.0.0.2");
    hides("LAST");
    assert_int_equal(press('y'), TOP_REPAIR);
    assert_int_equal(said, 1);
    assert_true(said_offline);
    draw(24, 80);
    shows("path 10.0.0.2 of server nas is offline");
    draw(5, 20);
    hides("Take");

    /* In another view there is no path to take. */
    press('2');
    press('o');
    draw(24, 80);
    shows("o is for a path");
}

TEST(help_is_scrolled_on_a_small_screen)
{
    update_at(1);
    press('h');
    draw(6, 30);
    shows("1 2 3 4 5, Tab");
    for (int i = 0; i < 60; i++)
        top_press(TOP_KEY_DOWN, &ui, &model, &table), draw(6, 30);
    shows("reason beside them.");
    press('q');
    assert_null(ui.box);
    assert_int_equal(press('q'), TOP_QUIT);
}

TEST(names_do_what_they_want)
{
    struct cmd_snapshot snapshot = {.stats = {.clock = 3, .taken_ns = 1}};
    struct directnfs_stats *stats = add_running(&snapshot, 1, "\xff\xe4\xb8\xad");
    memset(stats->files[0].name, 'x', sizeof(stats->files[0].name) - 1);
    strcpy(stats->files[1].name, "/a/\x1b[31m\xe2\x80\xae\xff");
    assert_true(top_model_update(&model, &snapshot));
    for (unsigned view = 0; view < TOP_VIEWS; view++) {
        ui.choice.view = (enum top_view)view;
        draw(24, 80);
        for (const char *at = screen; *at; at++)
            assert_true(*at == '\n' || (*at >= ' ' && *at < 0x7f));
    }
    ui.choice.view = TOP_FILES;
    draw(24, 200);
    shows("[31m\\xe2\\x80\\xae\\xff");
    draw(24, 80);
    shows("~xxxxxx");
}

int main(void)
{
    return unit_run(NULL, NULL);
}
