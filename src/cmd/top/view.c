#include "cmd/top/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    GAP = 1,
    WIDE_MIN = 20, /* of a wide column, before others are left out */
    CUT_MIN = 4,   /* of a wide column when no other can be left out */
    HISTORY_MIN = 8,
    HISTORY_MAX = 60,
    PRINT_WIDTH_MAX = 2000
};

static unsigned look_of(enum top_mark mark)
{
    static const unsigned looks[] = {[TOP_PLAIN] = TOP_LOOK_PLAIN,
                                     [TOP_GOOD] = TOP_LOOK_GOOD,
                                     [TOP_NOTICE] = TOP_LOOK_NOTICE,
                                     [TOP_WARNING] = TOP_LOOK_WARNING,
                                     [TOP_BAD] = TOP_LOOK_BAD};
    return looks[mark];
}

/* ---- sparklines ---- */

/* Draws the last values, the newest at the right. */
static void put_bars(struct top_grid *grid, int row, int column, int room, unsigned look,
                     const struct top_history *history, float max)
{
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const plain[] = {".", ",", "-", "~", "=", "+", "*", "#"};
    int kept = !history ? 0 : history->count < TOP_HISTORY ? (int)history->count : TOP_HISTORY;
    int shown = kept < room ? kept : room;
    for (int i = 0; i < shown; i++) {
        float value = history->values[(history->count - (unsigned)(shown - i)) % TOP_HISTORY];
        int level = max > 0 ? (int)(value / max * 8) : 0;
        level = level > 7 ? 7 : level;
        if (value > 0)
            top_grid_put(grid, row, column + room - shown + i, 1, look, false,
                         grid->wide ? bars[level] : plain[level]);
    }
}

/* ---- the head ---- */

static void count_all(const struct top_model *model, char *text, size_t size)
{
    unsigned files = 0, kernel = 0, down = 0, offline = 0, seen;
    for (unsigned i = 0; i < model->now.stats.count; i++)
        top_count_files(model->now.stats.processes[i], &files, &kernel);
    for (size_t i = 0; i < model->total.paths.count; i++) {
        const struct cmd_path *path = &model->total.paths.paths[i];
        down += strcmp(cmd_path_state(path, &seen), "down") == 0;
        offline += path->offline;
    }
    snprintf(text, size, "%u process%s, %zu path%s (%u down, %u offline), %u file%s (%u kernel)",
             model->now.stats.count, model->now.stats.count == 1 ? "" : "es",
             model->total.paths.count, model->total.paths.count == 1 ? "" : "s", down, offline,
             files, files == 1 ? "" : "s", kernel);
}

static void put_title(struct top_grid *grid, int row, const struct top_model *model)
{
    char counts[128], line[192], clock[16];
    struct tm local;
    time_t seconds = (time_t)(model->now.stats.taken_ns / 1000000000u);
    if (seconds == 0)
        time(&seconds); /* there was nothing to read */
    localtime_r(&seconds, &local);
    strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    count_all(model, counts, sizeof(counts));
    snprintf(line, sizeof(line), "directnfs %s  %s", clock, counts);
    top_grid_put(grid, row, 0, grid->width, TOP_LOOK_STRONG, false, line);
}

/* "READ 12.3k/s 96.2MB/s 212us p99 900us" */
static int put_calls(struct top_grid *grid, int row, int column, const struct top_model *model,
                     const char *name, unsigned procedure, uint64_t bytes)
{
    const struct directnfs_latency *calls = &model->sum->counters.procedures[procedure].latency;
    double seconds = model->interval.seconds;
    char line[128], rate[CMD_BRIEF], volume[CMD_BRIEF], mean[CMD_BRIEF], p99[CMD_BRIEF];
    struct stats_latency latency;
    stats_latency(calls, &latency);
    snprintf(line, sizeof(line), "%s %s/s %sB/s %s p99 %s", name,
             cmd_brief(rate, (double)calls->calls / seconds),
             cmd_brief(volume, (double)bytes / seconds), cmd_brief_time(mean, latency.mean),
             cmd_brief_time(p99, latency.p99));
    return column +
           top_grid_put(grid, row, column, grid->width - column, TOP_LOOK_PLAIN, false, line);
}

static void put_totals(struct top_grid *grid, int row, const struct top_model *model)
{
    if (!model->sum || model->interval.seconds <= 0) {
        top_grid_put(grid, row, 0, grid->width, TOP_LOOK_PLAIN, false, "measuring");
        return;
    }
    char rate[CMD_BRIEF], line[64];
    const struct directnfs_counters *counters = &model->sum->counters;
    double seconds = model->interval.seconds;
    uint64_t errors = stats_errors(counters);
    int column = 0;
    if (errors) {
        snprintf(line, sizeof(line), "errors %s/s", cmd_brief(rate, (double)errors / seconds));
        column = 2 + top_grid_put(grid, row, 0, grid->width, TOP_LOOK_WARNING, false, line);
    }
    column = put_calls(grid, row, column, model, "READ", 6, counters->read_bytes);
    column = put_calls(grid, row, column + 2, model, "WRITE", 7, counters->write_bytes);
    snprintf(line, sizeof(line), "COMMIT %s/s",
             cmd_brief(rate, (double)counters->procedures[21].latency.calls / seconds));
    column += 2;
    column +=
        2 + top_grid_put(grid, row, column, grid->width - column, TOP_LOOK_PLAIN, false, line);
    if (model->now.stats.uncommitted) {
        snprintf(line, sizeof(line), "uncommitted %sB",
                 cmd_brief(rate, (double)model->now.stats.uncommitted));
        top_grid_put(grid, row, column, grid->width - column, TOP_LOOK_PLAIN, false, line);
    }
}

static void put_graph(struct top_grid *grid, int row, const struct top_model *model)
{
    char line[64], rate[CMD_BRIEF];
    const struct top_history *history = top_history_of(model, top_key('a', 0, "", ""));
    float max = history ? top_history_max(history) : 0;
    snprintf(line, sizeof(line), "calls/s, at most %s: ", cmd_brief(rate, max));
    int column = top_grid_put(grid, row, 0, grid->width, TOP_LOOK_PLAIN, false, line);
    int room = grid->width - column < TOP_HISTORY ? grid->width - column : TOP_HISTORY;
    put_bars(grid, row, column, room, TOP_LOOK_GOOD, history, max);
}

static void put_tabs(struct top_grid *grid, int row, const struct top_model *model,
                     const struct top_ui *ui)
{
    int column = 0;
    char line[96];
    for (unsigned i = 0; i < TOP_VIEWS; i++) {
        unsigned look =
            i == (unsigned)ui->choice.view ? TOP_LOOK_STRONG | TOP_REVERSE : TOP_LOOK_PLAIN;
        snprintf(line, sizeof(line), "%u %s", i + 1, top_view_names[i]);
        column += 1 + top_grid_put(grid, row, column, grid->width - column, look, false, line);
    }
    line[0] = '\0';
    if (model->pid)
        snprintf(line, sizeof(line), "  process %u only", model->pid);
    if (ui->choice.totals)
        strcat(line, model->has_base ? "  totals since the reset" : "  totals");
    if (ui->paused)
        strcat(line, "  paused");
    top_grid_put(grid, row, column, grid->width - column, TOP_LOOK_NOTICE, false, line);
}

/* ---- the rows ---- */

struct column_place {
    int at, room; /* room 0: not shown */
};

static bool is_empty(const struct cmd_table *table, unsigned column)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->columns[column].history || table->rows[i].cells[column].text[0])
            return false;
    return table->count && table->columns[column].drop > 0;
}

static const char *column_name(const struct cmd_column *column, bool totals)
{
    return totals && column->total ? column->total : column->name;
}

/* Finds the room for each column of the rows [first, end). */
static void place_columns(const struct top_grid *grid, const struct cmd_table *table,
                          const struct top_ui *ui, size_t first, size_t end,
                          struct column_place places[TOP_COLUMNS])
{
    int wanted[TOP_COLUMNS], sum = -GAP;
    for (unsigned i = 0; i < table->column_count; i++) {
        const struct cmd_column *column = &table->columns[i];
        wanted[i] = (int)strlen(column_name(column, ui->choice.totals));
        for (size_t k = first; k < end; k++) {
            int width = top_grid_width(grid, table->rows[k].cells[i].text);
            wanted[i] = width > wanted[i] ? width : wanted[i];
        }
        if (column->history)
            wanted[i] = ui->lines ? 0 : HISTORY_MAX;
        int least = column->history ? HISTORY_MIN : WIDE_MIN;
        places[i].room = column->wide && wanted[i] > least ? least : wanted[i];
        if (is_empty(table, i))
            places[i].room = 0;
        sum += places[i].room ? places[i].room + GAP : 0;
    }
    while (sum > grid->width) {
        int worst = -1;
        for (unsigned i = 0; i < table->column_count; i++)
            if (places[i].room && table->columns[i].drop &&
                (worst < 0 || table->columns[i].drop >= table->columns[worst].drop))
                worst = (int)i;
        if (worst < 0)
            break;
        for (unsigned i = 0; i < table->column_count; i++) {
            if (!places[i].room || table->columns[i].drop != table->columns[worst].drop)
                continue;
            sum -= places[i].room + GAP;
            places[i].room = 0;
        }
    }
    for (unsigned i = 0; i < table->column_count; i++)
        while (sum > grid->width && table->columns[i].wide && places[i].room > CUT_MIN) {
            places[i].room--;
            sum--;
        }
    int at = 0, left = grid->width - sum;
    for (unsigned i = 0; i < table->column_count; i++) {
        if (!places[i].room)
            continue;
        if (table->columns[i].wide && left > 0) {
            int more = wanted[i] - places[i].room < left ? wanted[i] - places[i].room : left;
            places[i].room += more;
            left -= more;
        }
        places[i].at = at;
        at += places[i].room + GAP;
    }
}

static void put_heading(struct top_grid *grid, int row, const struct cmd_table *table,
                        const struct top_ui *ui, const struct column_place *places)
{
    top_grid_look(grid, row, 0, grid->width, TOP_REVERSE);
    for (unsigned i = 0; i < table->column_count; i++) {
        const struct cmd_column *column = &table->columns[i];
        const char *name = column_name(column, ui->choice.totals);
        int room = places[i].room,
            shift = column->kind == CMD_NUMBER ? room - (int)strlen(name) : 0;
        unsigned look = i == ui->choice.sort[ui->choice.view].column ? TOP_LOOK_STRONG : 0;
        if (room)
            top_grid_put(grid, row, places[i].at + (shift > 0 ? shift : 0), room,
                         look | TOP_REVERSE, false, name);
    }
}

static void put_row(struct top_grid *grid, int line, const struct cmd_table *table,
                    const struct cmd_row *row, bool selected, const struct column_place *places,
                    float max)
{
    for (unsigned i = 0; i < table->column_count; i++) {
        const struct cmd_column *column = &table->columns[i];
        const char *text = row->cells[i].text;
        int room = places[i].room, width = top_grid_width(grid, text);
        int shift = column->kind == CMD_NUMBER && width < room ? room - width : 0;
        unsigned look = column->state ? look_of(row->mark) : TOP_LOOK_PLAIN;
        if (!room)
            continue;
        if (column->history)
            put_bars(grid, line, places[i].at, room, TOP_LOOK_GOOD, row->history, max);
        else
            top_grid_put(grid, line, places[i].at + shift, room - shift, look,
                         column->kind == CMD_CUT_START, text);
    }
    if (selected)
        top_grid_look(grid, line, 0, grid->width, TOP_LOOK_STRONG | TOP_REVERSE);
}

/* One scale for all rows, so that they compare. */
static float common_max(const struct cmd_table *table)
{
    float max = 0;
    for (size_t i = 0; i < table->count; i++) {
        float one = table->rows[i].history ? top_history_max(table->rows[i].history) : 0;
        max = one > max ? one : max;
    }
    return max;
}

/* Finds the selected row again, and puts it into the window of `page` rows. */
static void follow_selection(const struct cmd_table *table, struct top_ui *ui)
{
    enum top_view view = ui->choice.view;
    size_t cursor = ui->cursor[view];
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].key == ui->selected[view])
            cursor = i;
    if (cursor >= table->count)
        cursor = table->count ? table->count - 1 : 0;
    ui->cursor[view] = cursor;
    ui->selected[view] = table->count ? table->rows[cursor].key : 0;
    size_t *first = &ui->first[view];
    if (cursor < *first)
        *first = cursor;
    if (ui->page && cursor >= *first + ui->page)
        *first = cursor - ui->page + 1;
    if (*first + ui->page > table->count)
        *first = table->count > ui->page ? table->count - ui->page : 0;
}

static void put_rows(struct top_grid *grid, int line, int end, const struct cmd_table *table,
                     struct top_ui *ui)
{
    struct column_place places[TOP_COLUMNS];
    ui->page = end > line + 1 ? (size_t)(end - line - 1) : 0;
    follow_selection(table, ui);
    size_t first = ui->first[ui->choice.view], last = first + ui->page;
    last = last < table->count ? last : table->count;
    place_columns(grid, table, ui, first, last, places);
    put_heading(grid, line++, table, ui, places);
    float max = common_max(table);
    for (size_t i = first; i < last; i++)
        put_row(grid, line++, table, &table->rows[i], i == ui->cursor[ui->choice.view], places,
                max);
    if (table->count == 0 && line < end)
        top_grid_put(grid, line, 0, grid->width, TOP_LOOK_PLAIN, false, table->none);
}

/* ---- boxes ---- */

/* The end of the line of `text` that fits `width`: at its newline, or behind a word. */
static const char *line_end(const char *text, int width)
{
    const char *newline = strchrnul(text, '\n'), *end = text;
    if (newline - text <= width)
        return newline;
    for (const char *at = text; at < text + width + 1; at++)
        if (*at == ' ')
            end = at;
    return end > text ? end : text + width;
}

/* The line behind; a word that was cut goes on there. */
static const char *line_after(const char *end)
{
    return *end == ' ' || *end == '\n' ? end + 1 : end;
}

/* Text over the lower part of the screen; it is ASCII. */
static void put_box(struct top_grid *grid, struct top_ui *ui)
{
    size_t lines = 0, room = (size_t)(grid->height > 1 ? grid->height - 1 : grid->height);
    for (const char *at = ui->box, *end; *at && grid->width > 0; at = line_after(end), lines++)
        end = line_end(at, grid->width);
    if (ui->box_first + room > lines)
        ui->box_first = lines > room ? lines - room : 0;
    size_t shown = lines < room ? lines : room, number = 0;
    int top = grid->height - (int)shown;
    for (const char *at = ui->box, *end; *at && grid->width > 0; at = line_after(end)) {
        end = line_end(at, grid->width);
        if (number >= ui->box_first && number < ui->box_first + shown) {
            char *line = strndup(at, (size_t)(end - at));
            int row = top + (int)(number - ui->box_first);
            top_grid_put(grid, row, 0, grid->width, TOP_LOOK_PLAIN, false, "");
            for (int i = 0; i < grid->width; i++)
                top_grid_put(grid, row, i, 1, TOP_LOOK_PLAIN, false, " ");
            top_grid_put(grid, row, 0, grid->width, TOP_LOOK_STRONG, false, line ? line : "");
            free(line);
        }
        number++;
    }
    if (top > 0) {
        static const char rule[] = "----------------------------------------";
        for (int i = 0; i < grid->width; i += (int)sizeof(rule) - 1)
            top_grid_put(grid, top - 1, i, (int)sizeof(rule) - 1, TOP_LOOK_PLAIN, false, rule);
    }
}

static void put_foot(struct top_grid *grid, int row, const struct top_model *model,
                     const struct top_ui *ui)
{
    const char *text = ui->message[0] ? ui->message
                       : model->now.problem[0]
                           ? model->now.problem
                           : "q quit  h help  Tab view  <> sort  Enter process  "
                             "o offline/online  z reset";
    unsigned look = ui->message[0]          ? TOP_LOOK_NOTICE
                    : model->now.problem[0] ? TOP_LOOK_BAD
                                            : TOP_LOOK_PLAIN;
    top_grid_put(grid, row, 0, grid->width, look, false, text);
}

/* ---- all of it ---- */

void top_view_draw(struct top_grid *grid, const struct top_model *model,
                   const struct cmd_table *table, struct top_ui *ui)
{
    int height = grid->height, line = 0, end = height;
    /* Of a low screen the rows come first. */
    if (height >= 4)
        put_title(grid, line++, model);
    if (height >= 10)
        put_totals(grid, line++, model);
    if (height >= 16)
        put_graph(grid, line++, model);
    if (height >= 7)
        put_tabs(grid, line++, model, ui);
    if (height >= 5 && (height >= 7 || ui->message[0] || model->now.problem[0]))
        put_foot(grid, --end, model, ui);
    put_rows(grid, line, end, table, ui);
    if (ui->box)
        put_box(grid, ui);
}

static void print_line(struct top_grid *grid, FILE *out)
{
    top_grid_print(grid, out);
    top_grid_begin(grid, grid->height, grid->width);
}

/* A line at a time: there may be many. */
bool top_view_print(const struct top_model *model, const struct cmd_table *table,
                    const struct top_choice *choice, bool wide, FILE *out)
{
    struct top_ui ui = {.choice = *choice, .lines = true};
    struct top_grid grid = {.wide = wide};
    struct column_place places[TOP_COLUMNS];
    if (!top_grid_begin(&grid, 1, PRINT_WIDTH_MAX))
        return false;
    put_title(&grid, 0, model);
    print_line(&grid, out);
    put_totals(&grid, 0, model);
    print_line(&grid, out);
    place_columns(&grid, table, &ui, 0, table->count, places);
    put_heading(&grid, 0, table, &ui, places);
    print_line(&grid, out);
    float max = common_max(table);
    for (size_t i = 0; i < table->count; i++) {
        put_row(&grid, 0, table, &table->rows[i], i == 0, places, max);
        print_line(&grid, out);
    }
    if (table->count == 0) {
        top_grid_put(&grid, 0, 0, grid.width, TOP_LOOK_PLAIN, false, table->none);
        print_line(&grid, out);
    }
    top_grid_free(&grid);
    return true;
}
