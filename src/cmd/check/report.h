/*
 * The output of `directnfs check`: findings with a severity and a remedy, under headings. It is
 * text for people, printed at once, or one JSON object:
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

/* An error keeps the library from its work. A warning costs speed, safety, or some of the files. */
enum check_severity { CHECK_INFO, CHECK_WARNING, CHECK_ERROR };

enum { CHECK_DEPTH_MAX = 4 };

/* What was reported so far. The functions below set it, up to check_end(). */
struct check_report {
    bool json;
    unsigned counts[CHECK_ERROR + 1];
    char *worst; /* the text of the first error */
};
extern struct check_report check_report;

/* Begins a report. `what` is checked: "nfstab", "program" or "process". */
void check_begin(bool as_json, const char *what, const char *name);

/* Opens a heading for all findings up to check_leave(). At most CHECK_DEPTH_MAX are open. */
void check_enter(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_leave(void);

/* Reports a finding. */
void check_say(enum check_severity severity, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What can be done about the last finding. Several remedies become several sentences. */
void check_remedy(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that the last finding is this reason of the first contact. Adds its name in the log and in
 * `stat` (in JSON only), and its remedy. */
void check_reason(enum reach_why why);

/* Adds a value to the last finding, in JSON only. */
void check_number(const char *key, uint64_t number);
void check_word(const char *key, const char *word);

/* Adds names to the last finding: in lines below it, or as an array in JSON. */
void check_names(const char *key, const char *const *names, size_t count);

/* Prints the last line. CMD_FINE, or CMD_NOT_FINE: there was an error. */
int check_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
