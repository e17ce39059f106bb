/*
 * What `directnfs check` says: findings with a severity and a remedy, below headings, as text for
 * people while it goes on, or as one JSON object:
 *
 *   {"checked": WHAT, "name": NAME, "findings": [
 *      {"severity": "info"|"warning"|"error", "where": [HEADING...], "label": L, "text": T,
 *       values that programs want..., "remedy": R}...],
 *    "errors": N, "warnings": N, "status": "fine"|"not fine", "verdict": SENTENCE}
 *
 * Texts may come from servers and files: they are made printable here. One thread, one report.
 */
#ifndef CMD_CHECK_REPORT_H
#define CMD_CHECK_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reach/reason.h"

/* An error keeps the library from its work; a warning costs speed, safety or part of the files. */
enum check_severity { CHECK_INFO, CHECK_WARNING, CHECK_ERROR };

enum { CHECK_DEPTH_MAX = 4 };

/* Of what was said so far. Set by the functions below, up to check_end(). */
struct check_report {
    bool json;
    unsigned counts[CHECK_ERROR + 1];
    char *worst; /* the text of the first error */
};
extern struct check_report check_report;

/* `what` is checked: "nfstab", "program" or "process". */
void check_begin(bool as_json, const char *what, const char *name);

/* A heading, for what comes up to check_leave(); at most CHECK_DEPTH_MAX at a time. */
void check_enter(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_leave(void);

/* A finding. */
void check_say(enum check_severity severity, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What can be done about the last finding. Several are several sentences. */
void check_remedy(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last finding is this of the first contact: what it is called on the log and in `stat`, in
 * JSON only, and its remedy. */
void check_reason(enum reach_why why);

/* Values of the last finding, in JSON only. */
void check_number(const char *key, uint64_t number);
void check_word(const char *key, const char *word);

/* Names that belong to the last finding: below it in lines of some width, in JSON an array. */
void check_names(const char *key, const char *const *names, size_t count);

/* The last line. Returns CMD_FINE, or CMD_NOT_FINE when there was an error. */
int check_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
