#include "cmd/top/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    GAP = 1,
    WIDE_MIN = 20, /* columns that a wide one keeps while others can be left out; */
    NAME_MIN = 30, /* that the name of a file or mount keeps then; */
    CUT_MIN = 4,   /* that a wide one keeps when no other can be left out */
    HISTORY_MIN = 8,
    HISTORY_MAX = 60,
    PRINT_WIDTH_MAX = 2000
};

/* The place of the next text. */
struct line {
    struct top_grid *grid;
    int row, column;
};

__attribute__((format(printf, 3, 4))) static void put(struct line *line, unsigned look,
                                                      const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    line->column +=
        top_grid_put(line->grid, line->row, line->column, line->grid->width, look, text);
}

/* ---- sparklines ---- */

/* Draws the last values, the newest at the right. */
static void put_bars(struct line line, int room, const struct top_history *history, float max)
{
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const plain[] = {".", ",", "-", "~", "=", "+", "*", "#"};
    int kept = !history ? 0 : history->count < TOP_HISTORY ? (int)history->count : TOP_HISTORY;
    int shown = kept < room ? kept : room;
    line.column += room - shown;
    for (int i = 0; i < shown; i++, line.column++) {
        float value = history->values[(history->count - (unsigned)(shown - i)) % TOP_HISTORY];
        int level = max > 0 ? (int)(value / max * 8) : 0;
        level = level > 7 ? 7 : level;
        if (value > 0)
            top_grid_put(line.grid, line.row, line.column, 1, TOP_LOOK_GOOD,
                         line.grid->wide ? bars[level] : plain[level]);
    }
}

/* ---- the head ---- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void put_title(struct line line, const struct top_model *model)
{
    unsigned down = 0, silent = 0, offline = 0, seen;
    unsigned processes = model->now.stats.count;
    const struct cmd_path_list *paths = &model->total.paths;
    char clock[16];
    struct tm local;
    time_t seconds = (time_t)(model->now.stats.taken_ns / 1000000000u);
    if (seconds == 0)
        time(&seconds); /* there was nothing to read */
    localtime_r(&seconds, &local);
    strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    for (size_t i = 0; i < paths->count; i++) {
        const char *state = cmd_path_state(&paths->paths[i], &seen);
        down += strcmp(state, "down") == 0;
        silent += strcmp(state, "silent") == 0;
        offline += paths->paths[i].offline;
    }
    put(&line, TOP_LOOK_STRONG, "directnfs %s  %u process%s, %zu path%s (%u down, ", clock,
        processes, processes == 1 ? "" : "es", paths->count, plural(paths->count), down);
    if (silent)
        put(&line, TOP_LOOK_BAD, "%u silent, ", silent);
    put(&line, TOP_LOOK_STRONG, "%u offline), %zu file%s (%zu kernel)", offline, model->files,
        plural(model->files), model->files_of_kernel);
}

/* "READ 12.3k/s 96.2MB/s 212us p99 900us" */
static void put_calls(struct line *line, const struct top_model *model, const char *name,
                      unsigned procedure, uint64_t bytes)
{
    const struct directnfs_latency *calls =
        &model->interval.sum->counters.procedures[procedure].latency;
    double seconds = model->interval.stats.seconds;
    char rate[CMD_BRIEF], volume[CMD_BRIEF], mean[CMD_BRIEF], p99[CMD_BRIEF];
    struct stats_latency latency;
    stats_latency(calls, &latency);
    put(line, TOP_LOOK_PLAIN, "%s %s/s %sB/s %s p99 %s", name,
        cmd_brief(rate, (double)calls->calls / seconds), cmd_brief(volume, (double)bytes / seconds),
        cmd_brief_time(mean, latency.mean), cmd_brief_time(p99, latency.p99));
    line->column += 2;
}

/* Shows what is not safe at a server yet, and what needs somebody. */
static void put_left(struct line *line, const struct stats_snapshot *now)
{
    char bytes[CMD_BRIEF], unsent[CMD_BRIEF];
    unsigned lacking = 0;
    for (unsigned i = 0; i < now->agent_count; i++)
        lacking += now->agents[i].lack[0] != '\0';
    if (now->uncommitted)
        put(line, TOP_LOOK_PLAIN, "uncommitted %sB", cmd_brief(bytes, (double)now->uncommitted));
    if (now->unsent)
        put(line, TOP_LOOK_PLAIN, " (unsent %sB)", cmd_brief(unsent, (double)now->unsent));
    line->column += now->uncommitted ? 2 : 0;
    if (now->stray_count)
        put(line, TOP_LOOK_BAD, "%u set aside  ", now->stray_count);
    if (lacking)
        put(line, TOP_LOOK_WARNING, "no agent");
}

static void put_totals(struct line line, const struct top_model *model)
{
    double seconds = model->interval.stats.seconds;
    if (!model->interval.sum || seconds <= 0) {
        put(&line, TOP_LOOK_PLAIN, "measuring");
        return;
    }
    char rate[CMD_BRIEF];
    const struct directnfs_counters *counters = &model->interval.sum->counters;
    uint64_t errors = stats_errors(counters);
    if (errors) {
        put(&line, TOP_LOOK_WARNING, "errors %s/s", cmd_brief(rate, (double)errors / seconds));
        line.column += 2;
    }
    put_calls(&line, model, "READ", 6, counters->read_bytes);
    put_calls(&line, model, "WRITE", 7, counters->write_bytes);
    put(&line, TOP_LOOK_PLAIN, "COMMIT %s/s",
        cmd_brief(rate, (double)counters->procedures[21].latency.calls / seconds));
    line.column += 2;
    put_left(&line, &model->now.stats);
}

static void put_graph(struct line line, const struct top_model *model)
{
    char rate[CMD_BRIEF];
    const struct top_history *history = top_history_of(model, top_key('a', 0));
    float max = history ? top_history_max(history) : 0;
    put(&line, TOP_LOOK_PLAIN, "calls/s, at most %s: ", cmd_brief(rate, max));
    int room = line.grid->width - line.column;
    put_bars(line, room < TOP_HISTORY ? room : TOP_HISTORY, history, max);
}

static void put_tabs(struct line line, const struct top_model *model, const struct top_ui *ui)
{
    char process[32] = "";
    for (unsigned i = 0; i < TOP_VIEWS; i++, line.column++)
        put(&line, i == (unsigned)ui->choice.view ? TOP_LOOK_STRONG | TOP_REVERSE : TOP_LOOK_PLAIN,
            "%u %s", i + 1, top_view_names[i]);
    if (model->pid)
        snprintf(process, sizeof(process), "  process %u only", model->pid);
    put(&line, TOP_LOOK_NOTICE, "%s%s%s", process,
        !ui->choice.totals ? ""
        : model->has_base  ? "  totals since the reset"
                           : "  totals",
        ui->paused ? "  paused" : "");
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
        int least = column->history                 ? HISTORY_MIN
                    : column->kind == CMD_CUT_START ? NAME_MIN
                                                    : WIDE_MIN;
        places[i].room = column->wide && wanted[i] > least ? least : wanted[i];
        if (is_empty(table, i))
            places[i].room = 0;
        sum += places[i].room ? places[i].room + GAP : 0;
    }
    for (unsigned drop = TOP_COLUMNS; drop > 0 && sum > grid->width; drop--)
        for (unsigned i = 0; i < table->column_count; i++)
            if (places[i].room && table->columns[i].drop == drop) {
                sum -= places[i].room + GAP;
                places[i].room = 0;
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
        int room = places[i].room;
        int shift = column->kind == CMD_NUMBER ? room - (int)strlen(name) : 0;
        unsigned look = i == ui->choice.sort[ui->choice.view].column ? TOP_LOOK_STRONG : 0;
        if (room)
            top_grid_put(grid, row, places[i].at + (shift > 0 ? shift : 0), room,
                         look | TOP_REVERSE, name);
    }
}

static void put_row(struct top_grid *grid, int line, const struct cmd_table *table,
                    const struct cmd_row *row, const struct column_place *places, float max)
{
    for (unsigned i = 0; i < table->column_count; i++) {
        const struct cmd_column *column = &table->columns[i];
        const char *text = row->cells[i].text;
        int room = places[i].room, width = top_grid_width(grid, text);
        int shift = column->kind == CMD_NUMBER && width < room ? room - width : 0;
        unsigned look = (column->state ? row->look : TOP_LOOK_PLAIN) |
                        (column->kind == CMD_CUT_START ? TOP_CUT_START : 0);
        if (room && column->history)
            put_bars((struct line){grid, line, places[i].at}, room, row->history, max);
        else if (room)
            top_grid_put(grid, line, places[i].at + shift, room - shift, look, text);
    }
}

/* One scale for all rows: so they can be compared. */
static float common_max(const struct cmd_table *table)
{
    float max = 0;
    for (size_t i = 0; i < table->count; i++) {
        float one = table->rows[i].history ? top_history_max(table->rows[i].history) : 0;
        max = one > max ? one : max;
    }
    return max;
}

/* Finds the selected row again, and moves the window of `page` rows to it. */
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
    for (size_t i = first; i < last; i++, line++) {
        put_row(grid, line, table, &table->rows[i], places, max);
        if (i == ui->cursor[ui->choice.view])
            top_grid_look(grid, line, 0, grid->width, TOP_LOOK_STRONG | TOP_REVERSE);
    }
    if (table->count == 0 && line < end)
        top_grid_put(grid, line, 0, grid->width, TOP_LOOK_PLAIN, table->none);
}

/* ---- boxes ---- */

/* The end of the line of `text` that fits `width`: its newline, or the end of a word. */
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

/* The next line. A word that was cut continues there. */
static const char *line_after(const char *end)
{
    return *end == ' ' || *end == '\n' ? end + 1 : end;
}

/* Draws `count` lines of the text in the box, from number `first` on, at the foot of the screen.
 * Returns how many lines it has. */
static size_t put_lines(struct top_grid *grid, const char *text, size_t first, size_t count)
{
    size_t number = 0;
    for (const char *at = text, *end; *at && grid->width > 0; at = line_after(end), number++) {
        end = line_end(at, grid->width);
        if (number < first || number >= first + count)
            continue;
        struct line line = {grid, grid->height - (int)(first + count - number), 0};
        put(&line, TOP_LOOK_STRONG, "%.*s", (int)(end - at), at);
        for (; line.column < grid->width; line.column++)
            top_grid_put(grid, line.row, line.column, 1, TOP_LOOK_PLAIN, " ");
    }
    return number;
}

/* Draws a text over the lower part of the screen. It is ASCII. */
static void put_box(struct top_grid *grid, struct top_ui *ui)
{
    size_t lines = put_lines(grid, ui->box, 0, 0);
    size_t room = (size_t)(grid->height > 1 ? grid->height - 1 : grid->height);
    size_t shown = lines < room ? lines : room;
    if (ui->box_first + shown > lines)
        ui->box_first = lines - shown;
    put_lines(grid, ui->box, ui->box_first, shown);
    static const char rule[] = "----------------------------------------";
    for (int i = 0; i < grid->width; i += (int)sizeof(rule) - 1)
        top_grid_put(grid, grid->height - (int)shown - 1, i, sizeof(rule) - 1, TOP_LOOK_PLAIN,
                     rule);
}

static void put_foot(struct line line, const struct top_model *model, const struct top_ui *ui)
{
    if (ui->message[0])
        put(&line, TOP_LOOK_NOTICE, "%s", ui->message);
    else if (model->now.problem[0])
        put(&line, TOP_LOOK_BAD, "%s", model->now.problem);
    else
        put(&line, TOP_LOOK_PLAIN,
            "q quit  h help  Tab view  <> sort  Enter process  o offline/online  z reset");
}

/* ---- all of it ---- */

void top_view_draw(struct top_grid *grid, const struct top_model *model,
                   const struct cmd_table *table, struct top_ui *ui)
{
    int height = grid->height, row = 0, end = height;
    /* On a low screen the rows have priority. */
    if (height >= 4)
        put_title((struct line){grid, row++, 0}, model);
    if (height >= 10)
        put_totals((struct line){grid, row++, 0}, model);
    if (height >= 16)
        put_graph((struct line){grid, row++, 0}, model);
    if (height >= 7)
        put_tabs((struct line){grid, row++, 0}, model, ui);
    if (height >= 5 && (height >= 7 || ui->message[0] || model->now.problem[0]))
        put_foot((struct line){grid, --end, 0}, model, ui);
    put_rows(grid, row, end, table, ui);
    if (ui->box)
        put_box(grid, ui);
}

static void print_line(struct top_grid *grid, FILE *out)
{
    top_grid_print(grid, out);
    top_grid_begin(grid, grid->height, grid->width);
}

/* Prints a line at a time, as there may be many. */
bool top_view_print(const struct top_model *model, const struct cmd_table *table,
                    const struct top_choice *choice, bool wide, FILE *out)
{
    struct top_ui ui = {.choice = *choice, .lines = true};
    struct top_grid grid = {.wide = wide};
    struct column_place places[TOP_COLUMNS];
    const struct line line = {&grid, 0, 0};
    if (!top_grid_begin(&grid, 1, PRINT_WIDTH_MAX))
        return false;
    put_title(line, model);
    print_line(&grid, out);
    put_totals(line, model);
    print_line(&grid, out);
    place_columns(&grid, table, &ui, 0, table->count, places);
    put_heading(&grid, 0, table, &ui, places);
    print_line(&grid, out);
    for (size_t i = 0; i < table->count; i++) {
        put_row(&grid, 0, table, &table->rows[i], places, 0); /* there are no histories */
        print_line(&grid, out);
    }
    if (table->count == 0) {
        put(&(struct line){&grid, 0, 0}, TOP_LOOK_PLAIN, "%s", table->none);
        print_line(&grid, out);
    }
    top_grid_free(&grid);
    return true;
}
