#include "cmd/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

const char *cmd_brief(char text[CMD_BRIEF], double number)
{
    static const char units[] = " kMGTPE";
    unsigned unit = 0;
    while (number >= 999.5 && unit < sizeof(units) - 2) {
        number /= 1000;
        unit++;
    }
    int digits = unit == 0        ? number < 9.95 && number != (double)(int)number
                 : number < 9.995 ? 2
                                  : number < 99.95;
    int length = snprintf(text, CMD_BRIEF, "%.*f", digits, number);
    if (unit && length > 0 && length < CMD_BRIEF - 1)
        snprintf(text + length, (size_t)(CMD_BRIEF - length), "%c", units[unit]);
    return text;
}

const char *cmd_brief_time(char text[CMD_BRIEF], double microseconds)
{
    if (microseconds < 999.5)
        snprintf(text, CMD_BRIEF, "%.0fus", microseconds);
    else if (microseconds < 999500)
        snprintf(text, CMD_BRIEF, "%.*fms", microseconds < 9995 ? 2 : microseconds < 99950,
                 microseconds / 1000);
    else
        snprintf(text, CMD_BRIEF, "%.1fs", microseconds / 1e6);
    return text;
}

const char *cmd_mark_thousands(char text[CMD_MARKED], const char *digits)
{
    size_t whole = strspn(digits, "0123456789"), length = strlen(digits);
    if (whole == 0 || length + whole / 3 >= CMD_MARKED)
        return digits;
    char *to = text;
    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    strcpy(to, digits + whole);
    return text;
}

/* ---- filling ---- */

struct cmd_row *cmd_table_begin(struct cmd_table *table)
{
    /* The array grows when the count is a power of two, so its capacity need not be stored. */
    size_t count = table->count++;
    if ((count & (count - 1)) == 0)
        table->rows =
            cmd_need(reallocarray(table->rows, count ? 2 * count : 1, sizeof(*table->rows)));
    table->rows[count] = (struct cmd_row){
        .source = count, .cells = cmd_need(calloc(table->column_count, sizeof(struct cmd_cell)))};
    table->cell = 0;
    return &table->rows[count];
}

void cmd_table_cell(struct cmd_table *table, const char *text, size_t limit, double number)
{
    if (table->count == 0 || table->cell == table->column_count)
        cmd_table_begin(table);
    table->rows[table->count - 1].cells[table->cell++] =
        (struct cmd_cell){cmd_printable(text, limit), number};
}

void cmd_table_text(struct cmd_table *table, const char *text, size_t limit)
{
    cmd_table_cell(table, text, limit, 0);
}

void cmd_table_number(struct cmd_table *table, uint64_t number)
{
    char text[24];
    if (table->brief)
        cmd_brief(text, (double)number);
    else
        snprintf(text, sizeof(text), "%" PRIu64, number);
    cmd_table_cell(table, text, sizeof(text), (double)number);
}

void cmd_table_real(struct cmd_table *table, double number)
{
    char text[512];
    if (table->brief)
        cmd_brief(text, number);
    else
        snprintf(text, sizeof(text), "%.1f", number);
    cmd_table_cell(table, text, sizeof(text), number);
}

void cmd_table_count(struct cmd_table *table, uint64_t number)
{
    if (table->unknown)
        cmd_table_text(table, "-", 1);
    else if (table->seconds > 0)
        cmd_table_real(table, (double)number / table->seconds);
    else
        cmd_table_number(table, number);
}

void cmd_table_time(struct cmd_table *table, const struct directnfs_latency *counted,
                    enum stats_kind which)
{
    char text[CMD_BRIEF];
    struct stats_latency latency;
    stats_latency(counted, &latency);
    const double times[] = {latency.mean, latency.p50, latency.p90, latency.p99, latency.max};
    const double time = times[which - STATS_MEAN];
    if (!table->brief)
        cmd_table_real(table, time);
    else if (counted->calls && !table->unknown)
        cmd_table_cell(table, cmd_brief_time(text, time), sizeof(text), time);
    else
        cmd_table_text(table, "-", 1);
}

void cmd_table_free(struct cmd_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (size_t k = 0; k < table->column_count; k++)
            free(table->rows[i].cells[k].text);
        free(table->rows[i].cells);
    }
    free(table->rows);
    table->rows = NULL;
    table->count = table->cell = 0;
}

/* ---- order ---- */

int cmd_column_find(const struct cmd_column *columns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(columns[i].name, name) == 0 ||
            (columns[i].key && strcasecmp(columns[i].key, name) == 0))
            return (int)i;
    return -1;
}

struct order {
    size_t column;
    bool number, brief, reverse;
};

static int compare_rows(const void *a, const void *b, void *argument)
{
    const struct order *order = argument;
    const struct cmd_row *first = a, *second = b;
    const struct cmd_cell *left = &first->cells[order->column];
    const struct cmd_cell *right = &second->cells[order->column];
    /* Compares exact numbers as text: doubles would not tell large counts apart. */
    int result = !order->number ? strcmp(left->text, right->text)
                 : order->brief ? (left->number < right->number) - (left->number > right->number)
                                : strverscmp(right->text, left->text);
    if (order->reverse)
        result = -result;
    return result ? result : (first->source > second->source) - (first->source < second->source);
}

void cmd_table_sort(struct cmd_table *table, size_t column, bool reverse)
{
    const struct cmd_column *by = &table->columns[column];
    struct order order = {column, by->kind == CMD_NUMBER || by->history, table->brief, reverse};
    if (table->count)
        qsort_r(table->rows, table->count, sizeof(*table->rows), compare_rows, &order);
}

/* ---- printing ---- */

/* Number of characters in printable text: its bytes but those that continue a character. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

/* The place after `count` characters. */
static const char *skip(const char *text, size_t count)
{
    for (; *text && (count > 0 || (*text & 0xc0) == 0x80); text++)
        count -= (*text & 0xc0) != 0x80;
    return text;
}

/* Text that is too long begins or ends with dots; then `width` is at least 3. */
static void print_cell(const struct cmd_column *column, const char *text, size_t width, bool last,
                       FILE *out)
{
    size_t length = characters(text);
    int fill = length < width ? (int)(width - length) : 0;
    if (column->kind == CMD_NUMBER)
        fprintf(out, "%*s%s", fill, "", text);
    else if (length <= width)
        fprintf(out, "%s%*s", text, last ? 0 : fill, "");
    else if (column->kind == CMD_CUT_START)
        fprintf(out, "...%s", skip(text, length - (width - 3)));
    else
        fprintf(out, "%.*s...", (int)(skip(text, width - 3) - text), text);
    fputs(last ? "\n" : "  ", out);
}

/* What a cell shows. If that is not its text, it is in `marked`. */
static const char *shown(const struct cmd_table *table, const struct cmd_row *row, size_t column,
                         char marked[CMD_MARKED])
{
    const char *name = table->columns[column].name, *text = row->cells[column].text;
    size_t length = strlen(name);
    bool is_time = table->for_people && table->columns[column].kind == CMD_NUMBER && length > 3 &&
                   strcmp(name + length - 3, "_US") == 0;
    return is_time ? cmd_mark_thousands(marked, text) : text;
}

/* Prints the key columns and the columns of [first, end). */
static void print_part(const struct cmd_table *table, const size_t *widths, size_t first,
                       size_t end, FILE *out)
{
    for (size_t line = 0; line <= table->count; line++) {
        for (size_t i = 0; i < end; i++) {
            if (i >= table->key_columns && i < first)
                continue;
            const struct cmd_column *column = &table->columns[i];
            char marked[CMD_MARKED];
            const char *text =
                line == 0 ? column->name : shown(table, &table->rows[line - 1], i, marked);
            print_cell(column, text, widths[i], i == end - 1, out);
        }
    }
}

enum { NARROWEST = 24 }; /* no column is cut to less */

static size_t total_width(const size_t *widths, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += widths[i] + (i ? 2 : 0);
    return total;
}

/* Narrows the widest of the columns that may be cut, until all fit or none is wide. */
static void cut_columns(const struct cmd_table *table, size_t count, size_t *widths, size_t width)
{
    size_t total = total_width(widths, count);
    while (total > width) {
        size_t *widest = NULL;
        for (size_t i = 0; i < count; i++)
            if (table->columns[i].kind >= CMD_CUT_END && widths[i] > NARROWEST &&
                (widest == NULL || widths[i] > *widest))
                widest = &widths[i];
        if (widest == NULL)
            return;
        --*widest;
        total--;
    }
}

/* The widths of all columns; free them by free(). */
static size_t *measure_columns(const struct cmd_table *table)
{
    size_t *widths = cmd_need(calloc(table->column_count, sizeof(*widths)));
    for (size_t i = 0; i < table->column_count; i++) {
        widths[i] = strlen(table->columns[i].name);
        for (size_t k = 0; k < table->count; k++) {
            char marked[CMD_MARKED];
            size_t length = characters(shown(table, &table->rows[k], i, marked));
            widths[i] = length > widths[i] ? length : widths[i];
        }
    }
    return widths;
}

static bool fits(const struct cmd_table *table, size_t width)
{
    size_t *widths = measure_columns(table);
    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].kind >= CMD_CUT_END && widths[i] > NARROWEST)
            widths[i] = NARROWEST;
    bool result = total_width(widths, table->column_count) <= width;
    free(widths);
    return result;
}

static void remove_column(struct cmd_table *table, struct cmd_column *columns, size_t column)
{
    size_t behind = --table->column_count - column;
    memmove(&columns[column], &columns[column + 1], behind * sizeof(*columns));
    for (size_t k = 0; k < table->count; k++) {
        struct cmd_cell *cells = table->rows[k].cells;
        free(cells[column].text);
        memmove(&cells[column], &cells[column + 1], behind * sizeof(*cells));
    }
    table->cell = table->column_count;
}

void cmd_table_drop(struct cmd_table *table, struct cmd_column *kept, size_t width)
{
    memcpy(kept, table->columns, table->column_count * sizeof(*kept));
    table->columns = kept;
    while (width != 0 && !fits(table, width)) {
        unsigned first = 0;
        for (size_t i = 0; i < table->column_count; i++)
            first = kept[i].drop > first ? kept[i].drop : first;
        if (first == 0)
            return;
        for (size_t i = table->column_count; i-- > 0;)
            if (kept[i].drop == first)
                remove_column(table, kept, i);
    }
}

void cmd_table_print(const struct cmd_table *table, size_t width, FILE *out)
{
    if (table->count == 0) {
        fprintf(out, "%s\n", table->none);
        return;
    }
    size_t *widths = measure_columns(table);
    bool parts =
        width != 0 && table->first_part != 0 && total_width(widths, table->column_count) > width;
    if (width != 0)
        cut_columns(table, parts ? table->first_part : table->column_count, widths, width);
    size_t keys = 0;
    for (size_t i = 0; i < table->key_columns; i++)
        keys += widths[i] + 2;

    for (size_t first = table->key_columns, end; first < table->column_count; first = end) {
        size_t used = keys + widths[first];
        for (end = first + 1; end < table->column_count; end++) {
            used += 2 + widths[end];
            if ((width != 0 && used > width) || (parts && end == table->first_part))
                break;
        }
        if (first > table->key_columns)
            fputc('\n', out);
        print_part(table, widths, first, end, out);
    }
    free(widths);
}

void cmd_json_table(struct cmd_json *json, const char *key, const struct cmd_table *table)
{
    cmd_json_open(json, key, '[');
    for (size_t i = 0; i < table->count; i++) {
        cmd_json_open(json, NULL, '{');
        for (size_t k = 0; k < table->column_count; k++) {
            const struct cmd_column *column = &table->columns[k];
            const char *key = column->key ? column->key : column->name;
            const char *text = table->rows[i].cells[k].text;
            if (column->kind == CMD_NUMBER)
                cmd_json_digits(json, key, text);
            else
                cmd_json_text(json, key, text, SIZE_MAX);
        }
        cmd_json_close(json, '}');
    }
    cmd_json_close(json, ']');
}
