/*
 * What `directnfs check` says: findings with a severity and a remedy, below headings, as text for
 * people while it goes on, or as one JSON object:
 *
 *   {"checked": WHAT, "name": NAME, "findings": [
 *      {"severity": "info"|"warning"|"error", "where": [HEADING...], "label": L, "text": T,
 *       values that programs want..., "remedy": R}...],
 *    "errors": N, "warnings": N, "status": "fine"|"not fine", "verdict": SENTENCE}
 *
 * Texts may come from servers and files: they are made printable here. One thread.
 */
#ifndef CMD_CHECK_REPORT_H
#define CMD_CHECK_REPORT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/print.h"

/* An error keeps the library from its work; a warning costs speed, safety or part of the files. */
enum check_severity { CHECK_INFO, CHECK_WARNING, CHECK_ERROR };

enum { CHECK_DEPTH_MAX = 4 };

/* Set up by check_begin(), freed by check_end(). */
struct check_report {
    bool json;
    struct cmd_json writer;
    unsigned counts[CHECK_ERROR + 1];
    unsigned depth; /* headings that are open */
    char *headings[CHECK_DEPTH_MAX];
    bool open;    /* a JSON finding that may get values */
    char *remedy; /* of the finding that is open */
    char *worst;  /* the text of the first error */
};

/* `what` is checked: "nfstab", "program" or "process". */
void check_begin(struct check_report *report, bool json, const char *what, const char *name);

/* A heading, for what comes up to check_leave(); at most CHECK_DEPTH_MAX at a time. */
void check_enter(struct check_report *report, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_leave(struct check_report *report);

/* A finding. */
void check_say(struct check_report *report, enum check_severity severity, const char *label,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What can be done about the last finding. Several are several sentences. */
void check_remedy(struct check_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Values of the last finding, in JSON only. */
void check_number(struct check_report *report, const char *key, uint64_t number);
void check_word(struct check_report *report, const char *key, const char *word);

/* Names that belong to the last finding: below it in lines of some width, in JSON an array. */
void check_names(struct check_report *report, const char *key, const char *const *names,
                 size_t count);

/* The last line. Returns CMD_FINE, or CMD_NOT_FINE when there was an error. */
int check_end(struct check_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Is the path the directory, or below it? Both absolute and without "..". */
bool check_lies_in(const char *path, const char *directory);

#endif
