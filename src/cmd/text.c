#include "cmd/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "sys/text.h"

static void *need(void *memory)
{
    if (memory == NULL) {
        cmd_complain(NULL, "there is not enough memory");
        exit(CMD_NOT_FINE);
    }
    return memory;
}

char *cmd_printable(const char *text, size_t limit)
{
    size_t size = strnlen(text, limit);
    char *result = need(malloc(4 * size + 1));
    char *end = result;
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t length = sys_text_decode(bytes + i, size - i, &character);
        if (length > 0 && !sys_text_is_control(character)) {
            memcpy(end, bytes + i, length);
            end += length;
            i += length;
            continue;
        }
        for (size_t last = i + (length ? length : 1); i < last; i++)
            end += sprintf(end, "\\x%02x", bytes[i]);
    }
    *end = '\0';
    return need(realloc(result, (size_t)(end - result) + 1));
}

static void add_cell(struct cmd_table *table, char *cell)
{
    /* The array grows when the count is a power of two, so that its capacity need not be kept. */
    size_t count = table->cell_count;
    if ((count & (count - 1)) == 0)
        table->cells =
            need(reallocarray(table->cells, count ? 2 * count : 1, sizeof(*table->cells)));
    table->cells[table->cell_count++] = cell;
}

void cmd_table_text(struct cmd_table *table, const char *text, size_t limit)
{
    add_cell(table, cmd_printable(text, limit));
}

void cmd_table_number(struct cmd_table *table, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    add_cell(table, need(strdup(text)));
}

void cmd_table_real(struct cmd_table *table, double number)
{
    char *text;
    if (asprintf(&text, "%.1f", number) < 0)
        text = NULL;
    add_cell(table, need(text));
}

void cmd_table_count(struct cmd_table *table, uint64_t number)
{
    if (table->seconds > 0)
        cmd_table_real(table, (double)number / table->seconds);
    else
        cmd_table_number(table, number);
}

int cmd_column_find(const struct cmd_column *columns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(columns[i].name, name) == 0)
            return (int)i;
    return -1;
}

struct order {
    size_t column;
    bool number;
};

static int compare_rows(const void *a, const void *b, void *argument)
{
    const struct order *order = argument;
    const char *left = ((char *const *)a)[order->column];
    const char *right = ((char *const *)b)[order->column];
    if (!order->number)
        return strcmp(left, right);
    /* As text: doubles would not tell large counts apart. */
    size_t left_size = strcspn(left, "."), right_size = strcspn(right, ".");
    if (left_size != right_size)
        return left_size < right_size ? 1 : -1;
    return -strcmp(left, right);
}

void cmd_table_sort(struct cmd_table *table, const char *column)
{
    int place = cmd_column_find(table->columns, table->column_count, column);
    if (place < 0 || table->cell_count == 0)
        return;
    struct order order = {(size_t)place, table->columns[place].kind == CMD_NUMBER};
    qsort_r(table->cells, table->cell_count / table->column_count,
            table->column_count * sizeof(*table->cells), compare_rows, &order);
}

void cmd_table_free(struct cmd_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = 0;
}

/* Characters of printable text: its bytes but for those that continue a character. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

/* Text that is too long ends or begins with dots. `width` is 3 at least. */
static void print_text(const char *text, size_t width, enum cmd_kind kind, FILE *out)
{
    size_t length = characters(text);
    if (length <= width) {
        fputs(text, out);
        return;
    }
    size_t from = kind == CMD_CUT_START ? length - (width - 3) : 0, at = 0;
    if (kind == CMD_CUT_START)
        fputs("...", out);
    for (; *text; text++) {
        at += (*text & 0xc0) != 0x80;
        if (at > from && at <= from + width - 3)
            fputc(*text, out);
    }
    if (kind == CMD_CUT_END)
        fputs("...", out);
}

static void print_cell(const struct cmd_column *column, const char *text, size_t width, bool last,
                       FILE *out)
{
    size_t length = characters(text);
    int fill = length < width ? (int)(width - length) : 0;
    if (column->kind == CMD_NUMBER)
        fprintf(out, "%*s%s", fill, "", text);
    else
        print_text(text, width, column->kind, out);
    if (column->kind != CMD_NUMBER && !last)
        fprintf(out, "%*s", fill, "");
    fputs(last ? "\n" : "  ", out);
}

/* Prints the key columns and those of [first, end). */
static void print_part(const struct cmd_table *table, const size_t *widths, size_t first,
                       size_t end, FILE *out)
{
    size_t rows = table->cell_count / table->column_count;
    for (size_t line = 0; line <= rows; line++) {
        for (size_t i = 0; i < end; i++) {
            if (i >= table->key_columns && i < first)
                continue;
            const struct cmd_column *column = &table->columns[i];
            const char *text =
                line == 0 ? column->name : table->cells[(line - 1) * table->column_count + i];
            print_cell(column, text, widths[i], i == end - 1, out);
        }
    }
}

enum { NARROWEST = 24 }; /* that a column is cut to */

/* Takes from the widest columns that may be cut, until the table fits or none is wide. */
static void cut_columns(const struct cmd_table *table, size_t *widths, size_t width)
{
    size_t total = 0;
    for (size_t i = 0; i < table->column_count; i++)
        total += widths[i] + (i ? 2 : 0);
    while (total > width) {
        size_t *widest = NULL;
        for (size_t i = 0; i < table->column_count; i++)
            if (table->columns[i].kind >= CMD_CUT_END && widths[i] > NARROWEST &&
                (widest == NULL || widths[i] > *widest))
                widest = &widths[i];
        if (widest == NULL)
            return;
        --*widest;
        total--;
    }
}

void cmd_table_print(const struct cmd_table *table, size_t width, const char *none, FILE *out)
{
    if (table->cell_count == 0) {
        fprintf(out, "%s\n", none);
        return;
    }
    size_t *widths = need(calloc(table->column_count, sizeof(*widths)));
    for (size_t i = 0; i < table->column_count; i++)
        widths[i] = strlen(table->columns[i].name);
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t *widest = &widths[i % table->column_count];
        size_t length = characters(table->cells[i]);
        *widest = length > *widest ? length : *widest;
    }
    if (width != 0)
        cut_columns(table, widths, width);
    size_t keys = 0;
    for (size_t i = 0; i < table->key_columns; i++)
        keys += widths[i] + 2;

    for (size_t first = table->key_columns, end; first < table->column_count; first = end) {
        size_t used = keys + widths[first];
        for (end = first + 1; end < table->column_count; end++) {
            used += 2 + widths[end];
            if (width != 0 && used > width)
                break;
        }
        if (first > table->key_columns)
            fputc('\n', out);
        print_part(table, widths, first, end, out);
    }
    free(widths);
}

size_t cmd_terminal_width(void)
{
    const char *columns = getenv("COLUMNS");
    double number;
    if (columns && cmd_parse_number(columns, false, 1, 10000, &number))
        return (size_t)number;
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        return size.ws_col;
    return 0;
}

/* ---- JSON ---- */

static void json_string(FILE *out, const char *text, size_t limit, bool lower)
{
    size_t size = strnlen(text, limit);
    const unsigned char *bytes = (const unsigned char *)text;
    fputc('"', out);
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t length = sys_text_decode(bytes + i, size - i, &character);
        if (length == 0) {
            fputs("\\ufffd", out);
            i++;
            continue;
        }
        if (sys_text_is_control(character))
            fprintf(out, "\\u%04x", character);
        else if (character == '"' || character == '\\')
            fprintf(out, "\\%c", (int)character);
        else if (lower && character < 0x80)
            fputc(tolower((int)character), out);
        else
            fwrite(bytes + i, 1, length, out);
        i += length;
    }
    fputc('"', out);
}

/* What stands before an element: comma, line, indentation, key. */
static void json_element(struct cmd_json *json, const char *key)
{
    if (json->filled)
        fputc(',', json->out);
    if (json->depth > 0)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    json->filled = true;
    if (key) {
        json_string(json->out, key, SIZE_MAX, true);
        fputs(": ", json->out);
    }
}

void cmd_json_open(struct cmd_json *json, const char *key, char bracket)
{
    json_element(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->filled = false;
}

void cmd_json_close(struct cmd_json *json, char bracket)
{
    json->depth--;
    if (json->filled)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    fputc(bracket, json->out);
    json->filled = true;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void cmd_json_text(struct cmd_json *json, const char *key, const char *text, size_t limit)
{
    json_element(json, key);
    json_string(json->out, text, limit, false);
}

void cmd_json_number(struct cmd_json *json, const char *key, uint64_t number)
{
    json_element(json, key);
    fprintf(json->out, "%" PRIu64, number);
}

void cmd_json_real(struct cmd_json *json, const char *key, double number)
{
    json_element(json, key);
    fprintf(json->out, "%.3f", number);
}

void cmd_json_table(struct cmd_json *json, const char *key, const struct cmd_table *table)
{
    cmd_json_open(json, key, '[');
    for (size_t i = 0; i < table->cell_count; i++) {
        const struct cmd_column *column = &table->columns[i % table->column_count];
        if (i % table->column_count == 0)
            cmd_json_open(json, NULL, '{');
        json_element(json, column->name);
        if (column->kind == CMD_NUMBER)
            fputs(table->cells[i], json->out);
        else
            json_string(json->out, table->cells[i], SIZE_MAX, false);
        if (i % table->column_count == table->column_count - 1)
            cmd_json_close(json, '}');
    }
    cmd_json_close(json, ']');
}
