#include "config/mountinfo.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/source.h"
#include "sys/alloc.h"
#include "sys/proc.h"

#define MOUNTINFO_SIZE_MAX (64 * 1024 * 1024)

static bool parse_number(const char *text, unsigned *number)
{
    uint64_t value = 0;
    if (text == NULL || *text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9' && value <= UINT_MAX; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    *number = (unsigned)value;
    return *text == '\0' && value <= UINT_MAX;
}

/* Unescapes in place. False: there would be a NUL byte in it. */
static bool unescape(char *field)
{
    bool has_nul;
    field[conf_unescape(field, strlen(field), &has_nul)] = '\0';
    return !has_nul;
}

/* The field up to the next `stop`, as strsep(3) takes it, but not for a set of bytes: that takes
 * five times as long. */
static char *take(char **line, char stop)
{
    char *field = *line, *end = field == NULL ? NULL : strchr(field, stop);
    *line = end == NULL ? NULL : end + 1;
    if (end != NULL)
        *end = '\0';
    return field;
}

/* id parent major:minor root mount-point options [optional fields] - type source super-options */
static bool parse_line(char *line, struct conf_mount *mount)
{
    char *id = take(&line, ' '), *parent = take(&line, ' '), *minor = take(&line, ' ');
    char *root = take(&line, ' '), *mount_point = take(&line, ' '), *field;
    char *options = take(&line, ' '), *major = take(&minor, ':');

    do {
        field = take(&line, ' ');
    } while (field != NULL && strcmp(field, "-") != 0);
    char *type = take(&line, ' '), *source = take(&line, ' ');
    char *super_options = take(&line, ' ');
    if (super_options == NULL || *super_options == '\0' || !parse_number(id, &mount->id) ||
        !parse_number(parent, &mount->parent) || !parse_number(major, &mount->major) ||
        !parse_number(minor, &mount->minor) || !unescape(root) || !unescape(mount_point) ||
        !unescape(options) || !unescape(type) || !unescape(source) || !unescape(super_options))
        return false;
    mount->root = root;
    mount->mount_point = mount_point;
    mount->options = options;
    mount->type = type;
    mount->source = source;
    mount->super_options = super_options;
    return true;
}

int conf_mountinfo_parse(struct conf_mountinfo *info, const char *text, size_t length)
{
    size_t lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    *info = (struct conf_mountinfo){.text = sys_alloc(length + 1),
                                    .mounts = sys_alloc(lines * sizeof(*info->mounts))};
    if (info->text == NULL || info->mounts == NULL) {
        conf_mountinfo_free(info);
        return -ENOMEM;
    }
    memcpy(info->text, text, length);
    info->text[length] = '\0';

    char *line = info->text, *end = info->text + length;
    for (unsigned number = 1; line < end; number++) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        char *stop = newline == NULL ? end : newline;
        struct conf_mount *mount = &info->mounts[info->count];

        *stop = '\0';
        mount->line = number;
        /* A NUL byte in a line ends the string early: the line is in another format. */
        if (strlen(line) == (size_t)(stop - line) && parse_line(line, mount))
            info->count++;
        else
            info->malformed++;
        line = stop + 1;
    }
    return 0;
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
    int result = conf_read_all(fd, MOUNTINFO_SIZE_MAX, &text, &length);
    sys_close(fd);
    if (result != 0)
        return result;
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
    bool found = false;

    for (const char *option = options, *end; *option != '\0'; option = end + (*end == ',')) {
        end = option + strcspn(option, ",");
        const char *stop = option + strcspn(option, "=,"); /* of its name */
        if ((size_t)(stop - option) != strlen(name) || memcmp(option, name, strlen(name)) != 0)
            continue;
        found = true;
        stop += *stop == '=';
        if (value != NULL)
            snprintf(value, size, "%.*s", (int)(end - stop), stop);
    }
    return found;
}

/* Is this the first line of the mount there? `device SOURCE mounted on POINT with fstype TYPE
 * ...` */
static bool is_mounted_on(char *line, const char *mount_point)
{
    static const char on[] = " mounted on ", with[] = " with fstype ";
    char *point = strstr(line, on);
    char *end = point == NULL ? NULL : strstr(point, with);
    if (end == NULL)
        return false;
    point += sizeof(on) - 1;
    *end = '\0';
    return unescape(point) && strcmp(point, mount_point) == 0;
}

bool conf_mount_layout(char *text, const char *mount_point, char *type, size_t size)
{
    static const char device[] = "device ", key[] = "pnfs=", none[] = "not configured";
    bool here = false, found = false;
    for (char *line; !found && (line = strsep(&text, "\n")) != NULL;) {
        if (strncmp(line, device, sizeof(device) - 1) == 0) {
            here = is_mounted_on(line, mount_point);
            continue;
        }
        char *value = here ? strstr(line, key) : NULL;
        if (value == NULL)
            continue;
        value += sizeof(key) - 1;
        value[strcspn(value, ",")] = '\0';
        found = strcmp(value, none) != 0;
        snprintf(type, size, "%s", value);
    }
    return found;
}

struct conf_mount_protection conf_mount_protection(const struct conf_mount *mount)
{
    struct conf_mount_protection found = {.security = CONF_SECURITY_SYS};
    char value[16];
    if (conf_mount_option(mount->super_options, "sec", value, sizeof(value))) {
        found.security = CONF_SECURITY_KRB5P;
        while (found.security != CONF_SECURITY_AUTO &&
               strcmp(value, conf_security_words[found.security]) != 0)
            found.security--;
    }
    if (conf_mount_option(mount->super_options, "xprtsec", value, sizeof(value)))
        found.tls = strcmp(value, "none") != 0;
    found.mutual = found.tls && strcmp(value, "mtls") == 0;
    return found;
}

enum conf_nfs conf_mount_nfs(const struct conf_mount *mount)
{
    static const struct {
        const char *word;
        enum conf_nfs version;
    } versions[] = {
        {"3", CONF_NFS_3}, {"4.0", CONF_NFS_40}, {"4.1", CONF_NFS_41}, {"4.2", CONF_NFS_41}};
    char word[8];
    if (strcmp(mount->type, "nfs") != 0 && strcmp(mount->type, "nfs4") != 0)
        return CONF_NFS_NONE;
    if (!conf_mount_option(mount->super_options, "vers", word, sizeof(word)))
        return CONF_NFS_OTHER;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        if (strcmp(word, versions[i].word) == 0)
            return versions[i].version;
    }
    return CONF_NFS_OTHER;
}

void conf_mountinfo_free(struct conf_mountinfo *info)
{
    sys_free(info->mounts);
    sys_free(info->text);
    *info = (struct conf_mountinfo){0};
}
