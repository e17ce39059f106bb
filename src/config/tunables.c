#include "config/tunables.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <libconfig.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/source.h"
#include "sys/alloc.h"

#define WORDS_MAX         5
#define INCLUDE_DEPTH_MAX 10 /* libconfig's */

/* A static libconfig uses these instead of libc's variables: see the Makefile. */
FILE *conf_stdin, *conf_stdout, *conf_stderr;

enum type {
    TYPE_INT,   /* an int */
    TYPE_SIZE,  /* an int: 0, or within the range */
    TYPE_BYTES, /* an int64_t */
    TYPE_FLOAT, /* a double */
    TYPE_WORD,  /* an enum: its values are the indexes of words[] */
};

/* What a key may hold, and where it goes. */
static const struct key {
    const char *name;
    size_t offset;
    enum type type;
    int64_t initial, minimum, maximum;
    const char *words[WORDS_MAX];
} keys[] = {
#define KEY(name, type, initial, minimum, maximum, ...) \
    {#name, offsetof(struct conf_tunables, name), type, initial, minimum, maximum, {__VA_ARGS__}},
#define INT(name, initial, minimum, maximum)   KEY(name, TYPE_INT, initial, minimum, maximum, 0)
#define SIZE(name, initial, minimum, maximum)  KEY(name, TYPE_SIZE, initial, minimum, maximum, 0)
#define BYTES(name, initial, minimum, maximum) KEY(name, TYPE_BYTES, initial, minimum, maximum, 0)
#define FLOAT(name, initial, minimum, maximum) KEY(name, TYPE_FLOAT, initial, minimum, maximum, 0)
#define WORD(of, name, initial, ...) \
    KEY(name, TYPE_WORD, initial, 0, \
        sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *) - 1, __VA_ARGS__)
    CONF_TUNABLES(INT, SIZE, BYTES, FLOAT, WORD)};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

/* A TYPE_WORD member is stored as the int that it is. */
#define NONE(...)
#define IS_INT(of, ...) _Static_assert(sizeof(enum of) == sizeof(int), "enums are ints");
CONF_TUNABLES(NONE, NONE, NONE, NONE, IS_INT)

/* All permitted values are exact as a double. */
static void store(struct conf_tunables *tunables, const struct key *key, double value)
{
    void *member = (char *)tunables + key->offset;

    if (key->type == TYPE_FLOAT)
        *(double *)member = value;
    else if (key->type == TYPE_BYTES)
        *(int64_t *)member = (int64_t)value;
    else
        *(int *)member = (int)value;
}

void conf_tunables_default(struct conf_tunables *tunables)
{
    memset(tunables, 0, sizeof(*tunables));
    for (size_t i = 0; i < KEY_COUNT; i++)
        store(tunables, &keys[i], (double)keys[i].initial);
}

void conf_tunables_print(const struct conf_tunables *tunables, FILE *out)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct key *key = &keys[i];
        const void *member = (const char *)tunables + key->offset;
        fprintf(out, "%s = ", key->name);
        if (key->type == TYPE_FLOAT)
            fprintf(out, "%.15g;\n", *(const double *)member);
        else if (key->type == TYPE_BYTES)
            fprintf(out, "%" PRId64 "L;\n", *(const int64_t *)member);
        else if (key->type == TYPE_WORD)
            fprintf(out, "\"%s\";\n", key->words[*(const int *)member]);
        else
            fprintf(out, "%d;\n", *(const int *)member);
    }
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* --- one setting ------------------------------------------------------------------------- */

/* The content of the setting, for a message. */
static const char *quote_setting(const config_setting_t *setting, char quoted[CONF_QUOTE_SIZE])
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        snprintf(quoted, CONF_QUOTE_SIZE, "%lld", config_setting_get_int64(setting));
        return quoted;
    case CONFIG_TYPE_FLOAT:
        snprintf(quoted, CONF_QUOTE_SIZE, "%g", config_setting_get_float(setting));
        if (quoted[strspn(quoted, "-0123456789")] == '\0')
            strcat(quoted, ".0");
        return quoted;
    case CONFIG_TYPE_BOOL:
        return config_setting_get_bool(setting) ? "true" : "false";
    case CONFIG_TYPE_STRING: {
        const char *text = config_setting_get_string(setting);
        conf_quote(quoted, text, strlen(text));
        quoted[0] = quoted[strlen(quoted) - 1] = '"'; /* as it is written in the file */
        return quoted;
    }
    default:
        return "a group or a list";
    }
}

/* The value for this key. -1, which no key allows: the type or the word is wrong. */
static double value_of(const struct key *key, const config_setting_t *setting)
{
    int type = config_setting_type(setting);
    const char *text = config_setting_get_string(setting); /* NULL for another type */

    if (key->type == TYPE_WORD) {
        int word = (int)key->maximum;
        while (word >= 0 && (text == NULL || strcmp(text, key->words[word]) != 0))
            word--;
        return word;
    }
    if (type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64)
        return (double)config_setting_get_int64(setting);
    return type == CONFIG_TYPE_FLOAT && key->type == TYPE_FLOAT ? config_setting_get_float(setting)
                                                                : -1;
}

static const char *quote_expected(const struct key *key, char expected[CONF_QUOTE_SIZE])
{
    int used = 0;

    if (key->type == TYPE_WORD)
        for (int i = 0; i <= key->maximum; i++)
            used += snprintf(expected + used, CONF_QUOTE_SIZE - (size_t)used, "%s\"%s\"",
                             i == 0 ? "" : " or ", key->words[i]);
    else
        snprintf(expected, CONF_QUOTE_SIZE, "%sa %snumber from %lld to %lld",
                 key->type == TYPE_SIZE ? "0 or " : "", key->type == TYPE_FLOAT ? "" : "whole ",
                 (long long)key->minimum, (long long)key->maximum);
    return expected;
}

static bool take_setting(struct conf_tunables *tunables, const config_setting_t *setting,
                         struct conf_position at, struct conf_diagnostics *d)
{
    char found[CONF_QUOTE_SIZE], expected[CONF_QUOTE_SIZE];
    const char *name = config_setting_name(setting);
    const struct key *key = find_key(name);

    if (key == NULL) {
        const char *near = conf_nearest_name(name, strlen(name), keys, KEY_COUNT, sizeof(*keys));
        conf_diagnostics_add(d, CONF_ERROR, at, "found the unknown key %s, expected %s%s%s",
                             CONF_QUOTED(name), near != NULL ? "'" : "",
                             near != NULL ? near : "one of directnfs.conf(5)",
                             near != NULL ? "'" : "");
        return false;
    }
    double value = value_of(key, setting);
    if (!(value >= (double)key->minimum && value <= (double)key->maximum) &&
        !(key->type == TYPE_SIZE && value == 0)) {
        conf_diagnostics_add(d, CONF_ERROR, at, "found %s for '%s', expected %s",
                             quote_setting(setting, found), key->name,
                             quote_expected(key, expected));
        return false;
    }
    store(tunables, key, value);
    return true;
}

/* --- a file ------------------------------------------------------------------------------ */

/* Skips a comment or a string. */
static const char *skip_prose(const char *c)
{
    const char *end = NULL;
    if (*c == '#' || (c[0] == '/' && c[1] == '/'))
        return c + strcspn(c, "\n");
    if (c[0] == '/' && c[1] == '*')
        return (end = strstr(c + 2, "*/")) != NULL ? end + 2 : c + strlen(c);
    if (*c != '"')
        return c;
    for (c++; *c != '\0' && *c != '"'; c++)
        c += *c == '\\' && c[1] != '\0';
    return c + (*c == '"');
}

/*
 * Older versions of libconfig cut a whole number without an L to 32 bits, and do not say so. It
 * would be another number, perhaps even a valid one. False, with an error: there is such a number
 * in the text, or in a file that it includes.
 */
static bool check_numbers(const char *file, const char *directory, const char *text, int depth,
                          struct conf_diagnostics *d)
{
    struct conf_position at = {.file = file, .line = 1};
    const char *counted = text;
    bool fine = true;

    for (const char *c = text, *next; *c != '\0'; c = next) {
        char name[PATH_MAX], path[2 * PATH_MAX];
        next = skip_prose(c);
        if (next != c)
            continue;
        next = c + 1;
        if (*c == '@' && sscanf(c, "@include \"%4095[^\"\n]\"", name) == 1) {
            char *more;
            size_t length;
            snprintf(path, sizeof(path), "%s/%s", *name == '/' ? "" : directory, name);
            if (depth < INCLUDE_DEPTH_MAX &&
                conf_file_read(path, CONF_FILE_SIZE_MAX, &more, &length) == 0) {
                fine &= check_numbers(path, directory, more, depth + 1, d);
                sys_free(more);
            }
        } else if (isalnum((unsigned char)*c) || *c == '_') {
            next =
                c + strspn(c, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.");
            char *end;
            errno = 0;
            bool hex = c[0] == '0' && (c[1] == 'x' || c[1] == 'X');
            unsigned long long number = strtoull(c, &end, hex ? 16 : 10);
            if (!isdigit((unsigned char)*c) || end != next || (number <= INT32_MAX && errno == 0))
                continue;
            for (; counted < c; counted++)
                at.line += *counted == '\n';
            conf_diagnostics_add(d, CONF_ERROR, at,
                                 "found %.*s, expected %.*sL: a number above %d "
                                 "ends in L",
                                 (int)(next - c > 40 ? 40 : next - c), c,
                                 (int)(next - c > 40 ? 40 : next - c), c, INT32_MAX);
            fine = false;
        }
    }
    return fine;
}

/* Reports what libconfig did not like, and what would have been right. */
static void say_syntax(const config_t *config, struct conf_position at, struct conf_diagnostics *d)
{
    const char *text = config_error_text(config);
    const char *expected = "";

    if (config_error_file(config) != NULL)
        at.file = config_error_file(config);
    at.line = (unsigned)config_error_line(config);
    if (strcmp(text, "syntax error") == 0)
        expected = ", expected settings such as 'connections = 4;' or 'stability = \"stable\";'";
    else if (strncmp(text, "duplicate", 9) == 0)
        expected = ", expected each key once";
    else if (strstr(text, "include") != NULL)
        expected = ", expected '@include' of a file in the same directory that does not include "
                   "this one";
    conf_diagnostics_add(d, CONF_ERROR, at, "%s%s", text, expected);
}

int conf_tunables_parse(struct conf_tunables *tunables, const char *file, const char *text,
                        size_t length, struct conf_diagnostics *d)
{
    struct conf_position at = {.file = file};
    int result = 0;
    config_t config;

    conf_tunables_default(tunables);
    const char *nul = memchr(text, '\0', length);
    if (nul != NULL) {
        at.line = 1;
        for (const char *c = text; c < nul; c++)
            at.line += *c == '\n';
        conf_diagnostics_add(d, CONF_ERROR, at, "found a NUL byte, expected text");
        return -EINVAL;
    }
    size_t mark = conf_text_mark(text, length);
    char *copy = strndup(text + mark, length - mark), directory[PATH_MAX];
    if (copy == NULL)
        return -ENOMEM;
    const char *slash = strrchr(file, '/');
    snprintf(directory, sizeof(directory), "%.*s",
             slash == NULL || slash == file ? 1 : (int)(slash - file), slash == NULL ? "." : file);

    conf_stdin = stdin;
    conf_stdout = stdout;
    conf_stderr = stderr;
    config_init(&config);
    config_set_include_dir(&config, directory);
    if (config_read_string(&config, copy) != CONFIG_TRUE) {
        say_syntax(&config, at, d);
        result = -EINVAL;
    } else if (!check_numbers(file, directory, copy, 0, d)) {
        result = -EINVAL;
    } else {
        config_setting_t *root = config_root_setting(&config);
        for (int i = 0; i < config_setting_length(root); i++) {
            const config_setting_t *setting = config_setting_get_elem(root, (unsigned)i);
            const char *included = config_setting_source_file(setting);
            at.file = included != NULL ? included : file;
            at.line = config_setting_source_line(setting);
            if (!take_setting(tunables, setting, at, d))
                result = -EINVAL;
        }
    }
    config_destroy(&config);
    free(copy);
    return result;
}

int conf_tunables_file(char file[PATH_MAX])
{
    const char *chosen = secure_getenv("DIRECTNFS_CONF");
    bool asked_for = chosen != NULL && *chosen != '\0';

    snprintf(file, PATH_MAX, "%s", asked_for ? chosen : "/etc/directnfs/directnfs.conf");
    return asked_for;
}

int conf_tunables_load(struct conf_tunables *tunables, const char *file, int required,
                       struct conf_diagnostics *d)
{
    char *text;
    size_t length;

    conf_tunables_default(tunables);
    int result = conf_file_load(file, required, "a directnfs.conf", &text, &length, d);
    if (result != 1)
        return result;
    result = conf_tunables_parse(tunables, file, text, length, d);
    sys_free(text);
    return result;
}
