#include "config/diagnostic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/source.h"

void conf_diagnostics_add(struct conf_diagnostics *d, enum conf_severity severity,
                          struct conf_position at, const char *format, ...)
{
    if (d == NULL)
        return;
    if (severity == CONF_ERROR)
        d->errors++;
    else
        d->notices++;
    if (d->count >= CONF_DIAGNOSTICS_MAX)
        return;

    struct conf_diagnostic *entry = conf_grow(&d->list, d->count, sizeof(*entry));
    if (entry == NULL)
        return;

    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    char *file = at.file == NULL ? NULL : strdup(at.file);
    if (file == NULL && at.file != NULL) {
        free(text);
        return;
    }
    at.file = file;
    *entry = (struct conf_diagnostic){at, severity, text};
    d->count++;
}

const char *conf_diagnostic_format(const struct conf_diagnostic *entry, char *buffer, size_t size)
{
    char place[32] = "";

    if (entry->at.line != 0 && entry->at.column != 0)
        snprintf(place, sizeof(place), ":%u:%u", entry->at.line, entry->at.column);
    else if (entry->at.line != 0)
        snprintf(place, sizeof(place), ":%u", entry->at.line);
    snprintf(buffer, size, "%s%s%s%s: %s", entry->at.file == NULL ? "" : entry->at.file, place,
             entry->at.file == NULL ? "" : ": ", entry->severity == CONF_ERROR ? "error" : "notice",
             entry->text);
    return buffer;
}

void conf_diagnostics_free(struct conf_diagnostics *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free((char *)d->list[i].at.file);
        free((char *)d->list[i].text);
    }
    free(d->list);
    *d = (struct conf_diagnostics){0};
}
