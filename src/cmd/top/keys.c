#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rundir.h"
#include "cmd/top/screen.h"
#include "cmd/top/view.h"

static const char help[] =
    "1 2 3 4 5, Tab    paths, processes, files, calls, mounts\n"
    "Up Down k j       select a row; also page up and down, home, end\n"
    "< >               sort by the column to the left or right\n"
    "r                 reverse the order\n"
    "Enter             show what the selected process alone does\n"
    "Esc               show those of all processes again\n"
    "o                 take the selected path offline, or online again\n"
    "t                 totals instead of rates, and back\n"
    "z                 reset: totals, longest times and histories begin now\n"
    "space             pause, and go on\n"
    "+ -               a longer or shorter interval\n"
    "control L         draw the screen again\n"
    "q                 quit\n"
    "BUSY are calls under way, MEAN and P99 the time until the answer came, MOVED calls that went "
    "to another path. Files that are left to the kernel have the reason beside them.";

static void close_box(struct top_ui *ui)
{
    free(ui->box);
    ui->box = NULL;
    ui->box_first = 0;
    ui->confirms = false;
}

/* ---- offline and online ---- */

static void ask(struct top_ui *ui, const struct top_model *model, const struct cmd_table *table)
{
    if (ui->choice.view != TOP_PATHS || table->count == 0) {
        snprintf(ui->message, sizeof(ui->message), "o is for a path: select one in view 1");
        return;
    }
    size_t source = table->rows[ui->cursor[TOP_PATHS]].source;
    struct cmd_path_list list;
    if (source >= model->total.paths.count)
        return;
    ui->pending = model->total.paths.paths[source];
    const struct cmd_path *path = &ui->pending;
    cmd_path_list_make(&list, &model->now, model->tab);
    const struct cmd_path_name name = {path->server, path->path, path->local};
    bool last = !path->offline && cmd_path_is_last(&list, path->user, &name);
    free(list.paths);
    int length = asprintf(
        &ui->box, "%sTake path %s%s%s of server %s %s for %u running process%s? y or n",
        last ? "This is the LAST path to this server that is online and not down: its "
               "calls stay on it until another path works.\n"
             : "",
        path->path, path->local[0] ? " from " : "", path->local, path->server,
        path->offline ? "online" : "offline", path->processes, path->processes == 1 ? "" : "es");
    if (length < 0)
        ui->box = NULL;
    ui->confirms = ui->box != NULL;
}

static enum top_action take(struct top_ui *ui)
{
    const struct cmd_path *path = &ui->pending;
    unsigned told = 0;
    bool offline = !path->offline;
    const struct cmd_path_name name = {path->server, path->path, path->local};
    int error =
        !cmd_rundir_make("top") ? -ENOENT : cmd_path_say("top", path->user, &name, offline, &told);
    if (error || !told)
        snprintf(ui->message, sizeof(ui->message), "not %s: %.120s",
                 offline ? "taken offline" : "taken online",
                 error ? cmd_path_say_problem(error) : "no user has used directnfs here");
    else
        snprintf(ui->message, sizeof(ui->message), "path %s of server %.60s is %s", path->path,
                 path->server, offline ? "offline" : "online");
    return TOP_REPAIR;
}

static enum top_action press_in_box(int key, struct top_ui *ui)
{
    bool confirmed = ui->confirms && (key == 'y' || key == 'Y');
    if (key == TOP_KEY_DOWN || key == 'j' || key == TOP_KEY_PAGE_DOWN || key == ' ') {
        ui->box_first++;
        return TOP_DRAW;
    }
    if (key == TOP_KEY_UP || key == 'k' || key == TOP_KEY_PAGE_UP) {
        ui->box_first -= ui->box_first > 0;
        return TOP_DRAW;
    }
    if (key == TOP_KEY_OTHER)
        return TOP_DRAW;
    close_box(ui);
    return confirmed ? take(ui) : TOP_DRAW;
}

/* ---- moving about ---- */

static bool move(int key, struct top_ui *ui, const struct cmd_table *table)
{
    size_t row = ui->cursor[ui->choice.view], page = ui->page ? ui->page : 1;
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        row -= row > 0;
        break;
    case TOP_KEY_DOWN:
    case 'j':
        row++;
        break;
    case TOP_KEY_PAGE_UP:
        row -= row < page ? row : page;
        break;
    case TOP_KEY_PAGE_DOWN:
        row += page;
        break;
    case TOP_KEY_HOME:
        row = 0;
        break;
    case TOP_KEY_END:
        row = table->count;
        break;
    default:
        return false;
    }
    if (table->count) {
        row = row < table->count ? row : table->count - 1;
        ui->cursor[ui->choice.view] = row;
        ui->selected[ui->choice.view] = table->rows[row].key;
    }
    return true;
}

static void sort_by(struct top_ui *ui, const struct cmd_table *table, int step)
{
    unsigned *column = &ui->choice.sort[ui->choice.view].column;
    unsigned count = (unsigned)table->column_count;
    *column = (*column + count + (unsigned)step) % count;
    ui->choice.sort[ui->choice.view].reverse = false;
    const struct cmd_column *by = &table->columns[*column];
    snprintf(ui->message, sizeof(ui->message), "sorted by %s",
             ui->choice.totals && by->total ? by->total : by->name);
}

static void set_interval(struct top_ui *ui, double factor)
{
    double interval = ui->interval * factor;
    ui->interval = interval < 0.1 ? 0.1 : interval > 3600 ? 3600 : interval;
    snprintf(ui->message, sizeof(ui->message), "every %.3g s", ui->interval);
}

static void select_process(struct top_ui *ui, struct top_model *model,
                           const struct cmd_table *table)
{
    uint32_t pid = table->count ? table->rows[ui->cursor[ui->choice.view]].pid : 0;
    if (pid == 0) {
        snprintf(ui->message, sizeof(ui->message), "Enter is for a process: select one in view 2");
        return;
    }
    top_model_select(model, pid);
    snprintf(ui->message, sizeof(ui->message), "process %u only; Esc shows all again", pid);
}

enum top_action top_press(int key, struct top_ui *ui, struct top_model *model,
                          const struct cmd_table *table)
{
    ui->message[0] = '\0';
    if (ui->box)
        return press_in_box(key, ui);
    if (move(key, ui, table))
        return TOP_DRAW;
    switch (key) {
    case 'q':
    case 'Q':
        return TOP_QUIT;
    case 'h':
    case '?':
        ui->box = strdup(help);
        break;
    case '1' ... '5':
        ui->choice.view = (enum top_view)(key - '1');
        break;
    case TOP_KEY_TAB:
        ui->choice.view = (enum top_view)((ui->choice.view + 1) % TOP_VIEWS);
        break;
    case TOP_KEY_BACK_TAB:
        ui->choice.view = (enum top_view)((ui->choice.view + TOP_VIEWS - 1) % TOP_VIEWS);
        break;
    case '<':
        sort_by(ui, table, -1);
        break;
    case '>':
        sort_by(ui, table, 1);
        break;
    case 'r':
        ui->choice.sort[ui->choice.view].reverse ^= true;
        break;
    case 't':
        ui->choice.totals ^= true;
        break;
    case 'z':
        top_model_reset(model);
        snprintf(ui->message, sizeof(ui->message), "totals begin now; t shows them");
        break;
    case ' ':
        ui->paused ^= true;
        break;
    case '+':
        set_interval(ui, 2);
        break;
    case '-':
        set_interval(ui, 0.5);
        break;
    case TOP_KEY_ENTER:
        select_process(ui, model, table);
        break;
    case TOP_KEY_ESCAPE:
        top_model_select(model, 0);
        break;
    case 'o':
        ask(ui, model, table);
        break;
    case TOP_KEY_REDRAW:
        return TOP_REPAIR;
    default:
        snprintf(ui->message, sizeof(ui->message), "h shows what keys do");
        break;
    }
    return TOP_DRAW;
}
