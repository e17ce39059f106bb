/*
 * directnfs report: makes one archive for the person that is asked for help. report.c makes it,
 * parts.c knows its content.
 */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

/*
 * One file of the report: what a child process prints. The list ends with a part without a
 * name. A child may hang on a dead server, or be led astray by what a user of this host left for
 * root to read. Then it is ended.
 */
struct report_part {
    const char *name;
    const char *holds; /* for people */
    const char *words; /* words of this command, separated by blanks; NULL: `print` is called */
    void (*print)(void);
};

/* Becomes this command with other words. Does not return. */
void report_become(const char *line);

extern const struct report_part report_parts[];

/* A file with lines of the library that the user names; NULL: none. Set before parts are made. */
extern const char *report_log;

#endif
