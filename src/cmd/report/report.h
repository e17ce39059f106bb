/*
 * directnfs report: one archive for whoever is asked for help. report.c makes it, parts.c knows
 * what goes into it.
 */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

/*
 * One file of the report: what a child process prints. A child may hang on a server that is dead,
 * or be led astray by what a user of this host left for root to read: it is ended then.
 */
struct report_part {
    const char *name;
    const char *holds; /* for people */
    const char *words; /* of this command, separated by blanks; NULL: `print` is called */
    void (*print)(void);
};

/* Ended by one without a name. */
/* Becomes this command with other words. Does not return. */
void report_become(const char *line);

extern const struct report_part report_parts[];

/* A file with lines of the library, which the user names; NULL: none. Set before parts are made. */
extern const char *report_log;

#endif
