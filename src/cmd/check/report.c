#include "cmd/check/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/print.h"

enum { LABEL_WIDTH = 12, LINE_WIDTH = 100 };

struct check_report check_report;

static struct cmd_json json;
static unsigned depth; /* headings that are open */
static char *headings[CHECK_DEPTH_MAX];
static bool finding; /* in JSON: a finding is open, and may get values */
static char *remedy; /* of that finding */

/* Formats a text and makes it printable. Free it by free(3); it is never NULL. */
static char *text_of(const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        cmd_need(NULL);
    char *printable = cmd_printable(text, SIZE_MAX);
    free(text);
    return printable;
}

static void print_line(const char *label, const char *mark, const char *text)
{
    printf("%*s%-*s%s%s\n", (int)(2 * depth), "", label[0] ? LABEL_WIDTH : 0, label, mark, text);
    fflush(stdout); /* the next question may take seconds */
}

static void close_finding(void)
{
    if (!finding)
        return;
    if (remedy)
        cmd_json_text(&json, "remedy", remedy, SIZE_MAX);
    cmd_json_close(&json, '}');
    free(remedy);
    remedy = NULL;
    finding = false;
}

void check_begin(bool as_json, const char *what, const char *name)
{
    check_report = (struct check_report){.json = as_json};
    json = (struct cmd_json){.out = stdout};
    if (!as_json)
        return;
    cmd_json_open(&json, NULL, '{');
    cmd_json_text(&json, "checked", what, SIZE_MAX);
    cmd_json_text(&json, "name", name, SIZE_MAX);
    cmd_json_open(&json, "findings", '[');
}

void check_enter(const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    if (!check_report.json) {
        if (depth == 0)
            putchar('\n');
        print_line(label, "", text);
    }
    close_finding();
    if (asprintf(&headings[depth++], "%s%s%s", label, label[0] ? " " : "", text) < 0)
        cmd_need(NULL);
    free(text);
}

void check_leave(void)
{
    close_finding();
    free(headings[--depth]);
}

void check_say(enum check_severity severity, const char *label, const char *format, ...)
{
    static const char *const marks[] = {"", "WARNING: ", "NOT FINE: "};
    static const char *const names[] = {"info", "warning", "error"};
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    check_report.counts[severity]++;
    close_finding();
    if (check_report.json) {
        cmd_json_open(&json, NULL, '{');
        cmd_json_text(&json, "severity", names[severity], SIZE_MAX);
        cmd_json_open(&json, "where", '[');
        for (unsigned i = 0; i < depth; i++)
            cmd_json_text(&json, NULL, headings[i], SIZE_MAX);
        cmd_json_close(&json, ']');
        cmd_json_text(&json, "label", label, SIZE_MAX);
        cmd_json_text(&json, "text", text, SIZE_MAX);
        finding = true;
    } else {
        print_line(label, marks[severity], text);
    }
    if (severity == CHECK_ERROR && check_report.worst == NULL)
        check_report.worst = text;
    else
        free(text);
}

void check_remedy(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    if (!check_report.json) {
        print_line("remedy", "", text);
        free(text);
        return;
    }
    if (remedy == NULL) {
        remedy = text;
        return;
    }
    char *both;
    if (asprintf(&both, "%s. %s", remedy, text) >= 0) {
        free(remedy);
        remedy = both;
    }
    free(text);
}

void check_reason(enum reach_why why)
{
    check_word("reason", reach_reason(why));
    if (*reach_remedy(why))
        check_remedy("%s", reach_remedy(why));
}

void check_number(const char *key, uint64_t number)
{
    if (finding)
        cmd_json_number(&json, key, number);
}

void check_word(const char *key, const char *word)
{
    if (finding)
        cmd_json_text(&json, key, word, SIZE_MAX);
}

void check_names(const char *key, const char *const *names, size_t count)
{
    if (finding) {
        cmd_json_open(&json, key, '[');
        for (size_t i = 0; i < count; i++)
            cmd_json_text(&json, NULL, names[i], SIZE_MAX);
        cmd_json_close(&json, ']');
    }
    if (check_report.json)
        return;
    size_t indent = 2 * depth + LABEL_WIDTH, column = 0;
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

int check_end(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = text_of(format, arguments);
    va_end(arguments);
    bool fine = check_report.counts[CHECK_ERROR] == 0;
    close_finding();
    while (depth > 0)
        check_leave();
    if (check_report.json) {
        cmd_json_close(&json, ']');
        cmd_json_number(&json, "errors", check_report.counts[CHECK_ERROR]);
        cmd_json_number(&json, "warnings", check_report.counts[CHECK_WARNING]);
        cmd_json_text(&json, "status", fine ? "fine" : "not fine", SIZE_MAX);
        cmd_json_text(&json, "verdict", text, SIZE_MAX);
        cmd_json_close(&json, '}');
    } else {
        printf("\n%s\n", text);
    }
    free(text);
    free(check_report.worst);
    return fine ? CMD_FINE : CMD_NOT_FINE;
}
