/* directnfs top: what running programs do now, on a terminal or line by line. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/rundir.h"
#include "cmd/print.h"
#include "cmd/top/screen.h"
#include "cmd/top/view.h"
#include "sys/log.h"
#include "sys/sys.h"

#define FIRST_INTERVAL 0.3 /* seconds until the first rates, if the interval is longer */

/* What was asked for. */
struct request {
    double interval;
    bool batch, once;
    unsigned count;   /* updates; 0: no end */
    const char *user; /* NULL: not given */
    int view;         /* enum top_view; -1: not given */
};

static double clock_now(void)
{
    return (double)sys_now_ns() / 1e9;
}

static void update(struct top_model *model)
{
    struct cmd_snapshot snapshot;
    cmd_snapshot_read("top", &snapshot, 5);
    if (!top_model_update(model, &snapshot) && model->now.problem[0] == '\0')
        snprintf(model->now.problem, sizeof(model->now.problem),
                 "there is not enough memory: something is missing here");
}

static bool is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* ---- on a terminal ---- */

static void draw(struct top_grid *grid, const struct top_model *model, struct cmd_table *table,
                 struct top_ui *ui, bool repair)
{
    int height, width;
    cmd_table_free(table);
    top_table_make(table, model, &ui->choice);
    top_screen_size(&height, &width);
    if (!top_grid_begin(grid, height, width))
        return;
    top_view_draw(grid, model, table, ui);
    top_screen_show(grid, repair);
}

static int run_live(const struct request *request, struct top_model *model)
{
    struct top_ui ui = {.interval = request->interval};
    struct top_grid grid = {.wide = is_utf8()};
    struct cmd_table table = {0};
    int status = top_screen_begin();
    if (status != CMD_FINE)
        return status;
    top_choice_begin(&ui.choice);
    if (request->view >= 0)
        ui.choice.view = (enum top_view)request->view;
    update(model);
    double first = ui.interval < FIRST_INTERVAL ? ui.interval : FIRST_INTERVAL;
    double next = clock_now() + first;
    bool repair = false;
    for (unsigned updates = 0;;) {
        draw(&grid, model, &table, &ui, repair);
        repair = false;
        int key = top_screen_key(next - clock_now());
        enum top_action action = TOP_DRAW;
        if (key == TOP_KEY_GONE)
            break;
        if (key != TOP_KEY_NONE)
            action = top_press(key, &ui, model, &table);
        if (action == TOP_QUIT)
            break;
        repair = action == TOP_REPAIR;
        if (clock_now() < next && action == TOP_DRAW)
            continue;
        if (!ui.paused || action != TOP_DRAW)
            update(model);
        if (request->count && ++updates >= request->count)
            break;
        next = clock_now() + ui.interval;
    }
    top_screen_end();
    free(ui.box);
    cmd_table_free(&table);
    top_grid_free(&grid);
    return CMD_FINE;
}

/* ---- line by line ---- */

static int run_batch(const struct request *request, struct top_model *model)
{
    struct top_choice choice;
    top_choice_begin(&choice);
    choice.view = request->view >= 0 ? (enum top_view)request->view : TOP_PROCESSES;
    update(model);
    for (unsigned updates = 0; request->count == 0 || updates < request->count; updates++) {
        usleep((useconds_t)(request->interval * 1e6));
        update(model);
        if (model->now.problem[0])
            cmd_complain("top", "%s", model->now.problem);
        if (updates)
            putchar('\n');
        struct cmd_table table;
        top_table_make(&table, model, &choice);
        if (!top_view_print(model, &table, &choice, is_utf8(), stdout))
            cmd_complain("top", "there is not enough memory");
        cmd_table_free(&table);
        if (fflush(stdout) != 0)
            return CMD_NOT_FINE; /* main() reports it */
    }
    return model->now.stats.count ? CMD_FINE : CMD_NOT_FINE;
}

/* ---- options ---- */

static int show(const struct request *request)
{
    struct conf_nfstab tab = {0};
    struct conf_sources sources;
    struct top_model model = {0};
    log_set_level(LOG_LEVEL_ERROR);
    setlocale(LC_CTYPE, "");
    conf_sources_default(&sources);
    if (conf_nfstab_load(&tab, &sources, NULL) == 0)
        model.tab = &tab;
    int status = request->batch ? run_batch(request, &model) : run_live(request, &model);
    top_model_free(&model);
    conf_nfstab_free(&tab);
    return status;
}

static int find_view(const char *name)
{
    for (int i = 0; i < TOP_VIEWS; i++)
        if (strcmp(top_view_names[i], name) == 0)
            return i;
    return -1;
}

static int run(int argc, char **argv)
{
    struct request request = {.interval = 2, .view = -1};
    int status = cmd_options(&cmd_top, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (request.once) {
        request.batch = true;
        request.count = 1;
    }
    if (argc - optind > 1)
        return cmd_usage_error("top", "one view at a time; '%s' is too much", argv[optind + 1]);
    if (argc > optind && (request.view = find_view(argv[optind])) < 0)
        return cmd_usage_error(
            "top", "no view is called '%s'; there are paths, processes, files, calls and mounts",
            argv[optind]);
    if (request.user && cmd_rundir_choose("top", request.user) != CMD_FINE)
        return CMD_NOT_FINE;
    return show(&request);
}

static const struct cmd_option options[] = {
    CMD_NUMBER_OPTION("interval", 'd', interval, "SECONDS", 0.1, 3600, "0.1 to 3600 seconds",
                      "read as often (default 2)"),
    CMD_FLAG_OPTION("batch", 'b', batch,
                    "print tables, one after the other; no terminal is needed"),
    CMD_WHOLE_OPTION("count", 'n', count, "N", 1, UINT32_MAX, "a number from 1 on",
                     "end after N of them"),
    CMD_FLAG_OPTION("once", 0, once, "--batch --count 1"),
    CMD_TEXT_OPTION("user", 0, user, "USER", "as root: the processes of this user, not of all"),
};

const struct cmd_command cmd_top = {
    .name = "top",
    .usage = "top [--interval SECONDS] [--batch] [--count N] [--once] [--user USER]\n"
             "              [paths|processes|files|calls|mounts]\n",
    .purpose = "shows the same as it goes, with rates and histories, on the terminal",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
