#include "config/mountinfo.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config/source.h"
#include "sys/alloc.h"
#include "sys/proc.h"

#define MOUNTINFO_SIZE_MAX (64 * 1024 * 1024)

/* The next field of a line: separated by single blanks, terminated here. NULL at the end. */
static char *next_field(char **cursor)
{
    char *field = *cursor;
    if (field == NULL || *field == '\0')
        return NULL;
    char *blank = strchr(field, ' ');
    if (blank != NULL) {
        *blank = '\0';
        *cursor = blank + 1;
    } else {
        *cursor = NULL;
    }
    return field;
}

/* A decimal number that ends at `stop`. Returns what follows it, or NULL. */
static const char *parse_number(const char *text, char stop, unsigned *number)
{
    unsigned long value = 0;
    const char *c = text;

    for (; *c >= '0' && *c <= '9'; c++) {
        value = value * 10 + (unsigned long)(*c - '0');
        if (value > UINT_MAX)
            return NULL;
    }
    if (c == text || *c != stop)
        return NULL;
    *number = (unsigned)value;
    return c + 1;
}

static bool unescape_field(char *field)
{
    bool has_nul;
    if (field == NULL)
        return false;
    size_t length = conf_unescape(field, strlen(field), &has_nul);
    field[length] = '\0';
    return !has_nul;
}

/* id parent major:minor root mount-point options [optional fields] - type source super-options */
static bool parse_line(char *line, struct conf_mount *mount)
{
    char *id = next_field(&line), *parent = next_field(&line), *device = next_field(&line);
    char *root = next_field(&line), *mount_point = next_field(&line), *options = next_field(&line);
    char *field;

    if (options == NULL || !parse_number(id, '\0', &mount->id) ||
        !parse_number(parent, '\0', &mount->parent))
        return false;
    const char *minor = parse_number(device, ':', &mount->major);
    if (minor == NULL || !parse_number(minor, '\0', &mount->minor))
        return false;

    do {
        field = next_field(&line);
    } while (field != NULL && strcmp(field, "-") != 0);

    char *type = next_field(&line), *source = next_field(&line);
    char *super_options = next_field(&line);
    if (!unescape_field(root) || !unescape_field(mount_point) || !unescape_field(options) ||
        !unescape_field(type) || !unescape_field(source) || !unescape_field(super_options))
        return false;
    mount->root = root;
    mount->mount_point = mount_point;
    mount->options = options;
    mount->type = type;
    mount->source = source;
    mount->super_options = super_options;
    return true;
}

static bool add_mount(struct conf_mountinfo *info, const struct conf_mount *mount)
{
    if ((info->count & (info->count - 1)) == 0) {
        size_t room = info->count ? info->count * 2 : 1;
        struct conf_mount *larger = sys_realloc(info->mounts, room * sizeof(*larger));
        if (!larger)
            return false;
        info->mounts = larger;
    }
    info->mounts[info->count++] = *mount;
    return true;
}

int conf_mountinfo_parse(struct conf_mountinfo *info, const char *text, size_t length)
{
    *info = (struct conf_mountinfo){0};
    info->text = sys_alloc(length + 1);
    if (info->text == NULL)
        return -ENOMEM;
    memcpy(info->text, text, length);
    info->text[length] = '\0';

    char *line = info->text, *end = info->text + length;
    for (unsigned number = 1; line < end; number++) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        char *next = newline == NULL ? end : newline + 1;
        struct conf_mount mount = {.line = number};

        if (newline != NULL)
            *newline = '\0';
        /* A NUL byte inside of a line ends the string early: the line is not of the format. */
        if (memchr(line, '\0', (size_t)((newline == NULL ? end : newline) - line)) != NULL ||
            !parse_line(line, &mount)) {
            info->malformed++;
        } else {
            if (!add_mount(info, &mount)) {
                conf_mountinfo_free(info);
                return -ENOMEM;
            }
        }
        line = next;
    }
    return 0;
}

/* Not by malloc(): a file may be opened by a handler that interrupted that. */
static int read_table(int fd, char **text, size_t *length)
{
    size_t room = 0;
    *text = NULL;
    *length = 0;
    for (;;) {
        if (*length == room) {
            room = room ? room * 2 : 16384;
            char *larger = room > MOUNTINFO_SIZE_MAX ? NULL : sys_realloc(*text, room);
            if (!larger)
                return room > MOUNTINFO_SIZE_MAX ? -EFBIG : -ENOMEM;
            *text = larger;
        }
        ssize_t got = sys_read(fd, *text + *length, room - *length);
        if (got <= 0 && got != -EINTR)
            return (int)got;
        *length += got > 0 ? (size_t)got : 0;
    }
}

int conf_mountinfo_load(struct conf_mountinfo *info, const char *file)
{
    static const char proc[] = "/proc/";
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    char *text;
    size_t length;

    *info = (struct conf_mountinfo){0};
    int fd = strncmp(file, proc, sizeof(proc) - 1) == 0
                 ? sys_proc_open(file + sizeof(proc) - 1, flags)
                 : sys_open(file, flags, 0);
    if (fd < 0)
        return fd;
    int result = read_table(fd, &text, &length);
    sys_close(fd);
    if (result == 0)
        result = conf_mountinfo_parse(info, text, length);
    sys_free(text);
    return result;
}

const struct conf_mount *conf_mountinfo_at(const struct conf_mountinfo *info,
                                           const char *mount_point)
{
    for (size_t i = info->count; i > 0; i--)
        if (strcmp(info->mounts[i - 1].mount_point, mount_point) == 0)
            return &info->mounts[i - 1];
    return NULL;
}

bool conf_mount_option(const char *options, const char *name, char *value, size_t size)
{
    size_t name_length = strlen(name);
    bool found = false;

    for (const char *option = options; *option != '\0';) {
        size_t length = strcspn(option, ",");
        if (length >= name_length && strncmp(option, name, name_length) == 0 &&
            (length == name_length || option[name_length] == '=')) {
            found = true;
            if (value != NULL && size > 0) {
                const char *from = option + name_length + (length > name_length ? 1 : 0);
                size_t copied = (size_t)(option + length - from);
                if (copied >= size)
                    copied = size - 1;
                memcpy(value, from, copied);
                value[copied] = '\0';
            }
        }
        option += length;
        if (*option == ',')
            option++;
    }
    return found;
}

void conf_mountinfo_free(struct conf_mountinfo *info)
{
    sys_free(info->mounts);
    sys_free(info->text);
    *info = (struct conf_mountinfo){0};
}
