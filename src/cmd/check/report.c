#include "cmd/check/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

enum { LABEL_WIDTH = 12, LINE_WIDTH = 100 };

/* Formats, and makes it printable. Memory for free(3), never NULL. */
static char *text_of(const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        return cmd_printable("", 0);
    char *printable = cmd_printable(text, strlen(text));
    free(text);
    return printable;
}

static void print_line(const struct check_report *report, const char *label, const char *mark,
                       const char *text)
{
    printf("%*s%-*s%s%s\n", (int)(2 * report->depth), "", label[0] ? LABEL_WIDTH : 0, label, mark,
           text);
    fflush(stdout); /* the next question may take seconds */
}

static void close_finding(struct check_report *report)
{
    if (!report->open)
        return;
    if (report->remedy)
        cmd_json_text(&report->writer, "remedy", report->remedy, SIZE_MAX);
    cmd_json_close(&report->writer, '}');
    free(report->remedy);
    report->remedy = NULL;
    report->open = false;
}

void check_begin(struct check_report *report, bool json, const char *what, const char *name)
{
    *report = (struct check_report){.json = json, .writer = {.out = stdout}};
    if (!json)
        return;
    cmd_json_open(&report->writer, NULL, '{');
    cmd_json_text(&report->writer, "checked", what, SIZE_MAX);
    cmd_json_text(&report->writer, "name", name, SIZE_MAX);
    cmd_json_open(&report->writer, "findings", '[');
}

void check_enter(struct check_report *report, const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    if (!report->json) {
        if (report->depth == 0)
            putchar('\n');
        print_line(report, label, "", text);
    }
    char *heading = NULL;
    if (asprintf(&heading, "%s%s%s", label, label[0] ? " " : "", text) < 0)
        heading = NULL;
    free(text);
    close_finding(report);
    report->headings[report->depth++] = heading;
}

void check_leave(struct check_report *report)
{
    close_finding(report);
    free(report->headings[--report->depth]);
}

void check_say(struct check_report *report, enum check_severity severity, const char *label,
               const char *format, ...)
{
    static const char *const marks[] = {"", "WARNING: ", "NOT FINE: "};
    static const char *const names[] = {"info", "warning", "error"};
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    report->counts[severity]++;
    close_finding(report);
    if (report->json) {
        struct cmd_json *json = &report->writer;
        cmd_json_open(json, NULL, '{');
        cmd_json_text(json, "severity", names[severity], SIZE_MAX);
        cmd_json_open(json, "where", '[');
        for (unsigned i = 0; i < report->depth; i++)
            cmd_json_text(json, NULL, report->headings[i] ? report->headings[i] : "", SIZE_MAX);
        cmd_json_close(json, ']');
        cmd_json_text(json, "label", label, SIZE_MAX);
        cmd_json_text(json, "text", text, SIZE_MAX);
        report->open = true;
    } else {
        print_line(report, label, marks[severity], text);
    }
    if (severity == CHECK_ERROR && report->worst == NULL)
        report->worst = text;
    else
        free(text);
}

void check_remedy(struct check_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    if (!report->json) {
        print_line(report, "remedy", "", text);
        free(text);
        return;
    }
    if (report->remedy == NULL) {
        report->remedy = text;
        return;
    }
    char *both;
    if (asprintf(&both, "%s. %s", report->remedy, text) >= 0) {
        free(report->remedy);
        report->remedy = both;
    }
    free(text);
}

void check_number(struct check_report *report, const char *key, uint64_t number)
{
    if (report->open)
        cmd_json_number(&report->writer, key, number);
}

void check_word(struct check_report *report, const char *key, const char *word)
{
    if (report->open)
        cmd_json_text(&report->writer, key, word, SIZE_MAX);
}

void check_names(struct check_report *report, const char *key, const char *const *names,
                 size_t count)
{
    if (report->open) {
        cmd_json_open(&report->writer, key, '[');
        for (size_t i = 0; i < count; i++)
            cmd_json_text(&report->writer, NULL, names[i], SIZE_MAX);
        cmd_json_close(&report->writer, ']');
    }
    if (report->json)
        return;
    size_t indent = 2 * report->depth + LABEL_WIDTH, column = 0;
    for (size_t i = 0; i < count; i++) {
        char *name = cmd_printable(names[i], SIZE_MAX);
        size_t length = strlen(name) + (i + 1 < count);
        if (column > 0 && column + 1 + length > LINE_WIDTH) {
            putchar('\n');
            column = 0;
        }
        column +=
            (size_t)(column == 0 ? printf("%*s%s", (int)indent, "", name) : printf(" %s", name));
        if (i + 1 < count)
            column += (size_t)printf(",");
        free(name);
    }
    if (column > 0)
        putchar('\n');
}

int check_end(struct check_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    bool fine = report->counts[CHECK_ERROR] == 0;
    close_finding(report);
    while (report->depth > 0)
        check_leave(report);
    if (report->json) {
        struct cmd_json *json = &report->writer;
        cmd_json_close(json, ']');
        cmd_json_number(json, "errors", report->counts[CHECK_ERROR]);
        cmd_json_number(json, "warnings", report->counts[CHECK_WARNING]);
        cmd_json_text(json, "status", fine ? "fine" : "not fine", SIZE_MAX);
        cmd_json_text(json, "verdict", text, SIZE_MAX);
        cmd_json_close(json, '}');
    } else {
        printf("\n%s\n", text);
    }
    free(text);
    free(report->worst);
    return fine ? CMD_FINE : CMD_NOT_FINE;
}

bool check_lies_in(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    while (length > 0 && directory[length - 1] == '/')
        length--;
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}
