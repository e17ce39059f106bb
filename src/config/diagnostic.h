/*
 * What the readers of configuration found wrong: a growing list with the place of each finding.
 * A reader never stops at the first mistake; it appends here and goes on, so that `directnfs check`
 * can show all of them and the library can log the first.
 */
#ifndef CONF_DIAGNOSTIC_H
#define CONF_DIAGNOSTIC_H

#include <stddef.h>

/* At most this many texts are kept; further ones are only counted, so that a file of garbage cannot
 * fill the memory of the application. */
#define CONF_DIAGNOSTICS_MAX 1000

enum conf_severity {
    CONF_NOTICE, /* the configuration is usable; something in it is ignored */
    CONF_ERROR,  /* the configuration is not usable as it is */
};

/*
 * A place in a file. line and column count from 1, columns in bytes; 0 means not known (a column in
 * a libconfig file, a line when the file could not be opened). The string `file` belongs to whoever
 * owns the structure that the position is part of.
 */
struct conf_position {
    const char *file;
    unsigned line;
    unsigned column;
};

struct conf_diagnostic {
    struct conf_position at;
    enum conf_severity severity;
    const char *text; /* what was found and what was expected; printable, without a newline */
};

/*
 * A collector. Zero-initialised is empty; owned by the caller of a reader, used by one thread,
 * freed by conf_diagnostics_free(). It keeps copies of all strings, so it outlives what was read.
 * The arrays hold min(errors + notices, CONF_DIAGNOSTICS_MAX) entries: `count`.
 */
struct conf_diagnostics {
    struct conf_diagnostic *list;
    size_t count;   /* entries in list */
    size_t errors;  /* all errors, also those that were not kept */
    size_t notices; /* all notices, likewise */
};

/* Appends one finding, text as printf would make it. `d` may be NULL: nothing happens. Without
 * memory the finding is counted but not kept. */
void conf_diagnostics_add(struct conf_diagnostics *d, enum conf_severity severity,
                          struct conf_position at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes one finding as "file:line:column: error: text" (parts that are not known left out), cut at
 * `size`, always terminated. Returns `buffer`. */
const char *conf_diagnostic_format(const struct conf_diagnostic *entry, char *buffer, size_t size);

/* Frees the list and leaves an empty collector. */
void conf_diagnostics_free(struct conf_diagnostics *d);

#endif
