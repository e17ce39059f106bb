/*
 * What the readers of configuration found wrong: a growing list with the place of each finding. A
 * reader never stops at the first mistake. It appends the mistake here and goes on. So `directnfs
 * check` can show all of them, and the library can log the first.
 */
#ifndef CONF_DIAGNOSTIC_H
#define CONF_DIAGNOSTIC_H

#include <stddef.h>

/* At most so many texts are kept. Further ones are only counted, so that a file of garbage cannot
 * fill the memory of the application. */
#define CONF_DIAGNOSTICS_MAX 1000

enum conf_severity {
    CONF_NOTICE, /* the configuration is usable; a part of it is ignored */
    CONF_ERROR,  /* the configuration is not usable as it is */
};

/*
 * A place in a file. line and column count from 1, columns in bytes. 0 means not known: a column in
 * a libconfig file, or a line if the file could not be opened. The owner of the structure with the
 * position owns the string `file`.
 */
struct conf_position {
    const char *file;
    unsigned line;
    unsigned column;
};

struct conf_diagnostic {
    struct conf_position at;
    enum conf_severity severity;
    const char *text; /* what was found, and what was expected; printable, without a newline */
};

/*
 * A collector; zero-initialised it is empty. The caller of a reader owns it, one thread uses it,
 * and conf_diagnostics_free() frees it. It keeps copies of all strings, so it outlives what was
 * read. It keeps the first CONF_DIAGNOSTICS_MAX findings.
 */
struct conf_diagnostics {
    struct conf_diagnostic *list;
    size_t count;   /* findings in `list` */
    size_t errors;  /* all errors, with those that are not in `list` */
    size_t notices; /* all notices, likewise */
};

/* Adds one finding, with text as printf makes it. Does nothing if `d` is NULL. Without memory it
 * counts the finding, and does not keep it. */
void conf_diagnostics_add(struct conf_diagnostics *d, enum conf_severity severity,
                          struct conf_position at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes one finding as "file:line:column: error: text", without the parts that are not known. Cuts
 * it at `size`, and always terminates it. Returns `buffer`. */
const char *conf_diagnostic_format(const struct conf_diagnostic *entry, char *buffer, size_t size);

/* Frees the list and leaves an empty collector. */
void conf_diagnostics_free(struct conf_diagnostics *d);

#endif
