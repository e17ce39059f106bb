#include "config/source.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/alloc.h"
#include "sys/sys.h"

#define READ_SIZE_FIRST 16384
#define NAME_LENGTH_MAX 32 /* of the names that conf_nearest_name() knows */

/* Not by malloc(): a signal handler that interrupted malloc() may open a file. */
int conf_read_all(int fd, size_t max, char **text, size_t *length)
{
    size_t room = READ_SIZE_FIRST, used = 0;
    char *buffer = sys_alloc(room), *larger;

    while (buffer != NULL) {
        ssize_t got = sys_read(fd, buffer + used, room - used - 1);
        if (got == -EINTR)
            continue;
        if (got < 0 || used + (size_t)got > max) {
            sys_free(buffer);
            return got < 0 ? (int)got : -EFBIG;
        }
        if (got == 0) {
            buffer[used] = '\0';
            *text = buffer;
            *length = used;
            return 0;
        }
        used += (size_t)got;
        if (used == room - 1) {
            larger = sys_realloc(buffer, room *= 2);
            if (larger == NULL)
                sys_free(buffer);
            buffer = larger;
        }
    }
    return -ENOMEM;
}

int conf_file_read(const char *file, size_t max, char **text, size_t *length)
{
    struct stat status;
    /* O_NONBLOCK: a FIFO in the place of a file must not hang the application's start. */
    int fd = sys_open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fd;

    int result = sys_fstat(fd, &status);
    if (result == 0 && S_ISDIR(status.st_mode))
        result = -EISDIR;
    else if (result == 0 && !S_ISREG(status.st_mode))
        result = -EINVAL;
    if (result == 0)
        result = conf_read_all(fd, max, text, length);
    sys_close(fd);
    return result;
}

int conf_file_load(const char *file, bool required, const char *what, char **text, size_t *length,
                   struct conf_diagnostics *d)
{
    struct conf_position at = {.file = file};
    char user[32] = "";

    int result = conf_file_read(file, CONF_FILE_SIZE_MAX, text, length);
    if (result == 0)
        return 1;
    if (!required && (result == -ENOENT || result == -ENOTDIR))
        return 0;
    if (result == -ENOMEM)
        return result;
    if (result == -EACCES)
        snprintf(user, sizeof(user), " by user %u", (unsigned)sys_call0(SYS_geteuid));
    if (result == -EFBIG)
        conf_diagnostics_add(d, CONF_ERROR, at, "found more than %d bytes, expected %s",
                             CONF_FILE_SIZE_MAX, what);
    else
        conf_diagnostics_add(d, CONF_ERROR, at, "cannot be read%s: %s, expected %s", user,
                             result == -EINVAL ? "not a regular file" : strerror(-result), what);
    return -EINVAL;
}

size_t conf_text_mark(const char *text, size_t length)
{
    return length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* How many letters must be added, left out, changed, or exchanged with a neighbour to turn one word
 * into the other. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][NAME_LENGTH_MAX + 1]; /* for the last letters of `a`, in turn */

    for (size_t k = 0; k <= b_length; k++)
        rows[0][k] = (unsigned)k;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= b_length; k++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[k - 1]);
            unsigned least = above[k - 1] + !same;
            least = above[k] + 1 < least ? above[k] + 1 : least;
            least = row[k - 1] + 1 < least ? row[k - 1] + 1 : least;
            if (i > 1 && k > 1 && tolower((unsigned char)a[i - 1]) == b[k - 2] &&
                tolower((unsigned char)a[i - 2]) == b[k - 1] && second[k - 2] + 1 < least)
                least = second[k - 2] + 1;
            row[k] = least;
        }
    }
    return rows[a_length % 3][b_length];
}

const char *conf_nearest_name(const char *word, size_t length, const void *names, size_t count,
                              size_t size)
{
    const char *nearest = NULL;
    unsigned least = length > 4 ? 3 : 2; /* it must be nearer than this */

    if (length > NAME_LENGTH_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)names + i * size, sizeof(name));
        size_t name_length = strlen(name);
        if (name_length > NAME_LENGTH_MAX)
            continue;
        unsigned far = distance(word, length, name, name_length);
        if (far < least) {
            least = far;
            nearest = name;
        }
    }
    return nearest;
}

const char *conf_quote(char out[CONF_QUOTE_SIZE], const char *text, size_t length)
{
    char *to = out;
    /* A byte takes at most 4; the closing quote and the mark of a cut take at most 5. */
    char *limit = out + CONF_QUOTE_SIZE - 9;

    *to++ = '\'';
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (to > limit) {
            memcpy(to, "...", 3);
            to += 3;
            break;
        }
        if (byte >= 0x20 && byte < 0x7f)
            *to++ = (char)byte;
        else
            to += sprintf(to, "\\x%02x", byte);
    }
    *to++ = '\'';
    *to = '\0';
    return out;
}

static bool is_octal(char c, char highest)
{
    return c >= '0' && c <= highest;
}

size_t conf_unescape(char *text, size_t length, bool *has_nul)
{
    size_t to = 0;

    *has_nul = false;
    if (!memchr(text, '\\', length))
        return length;
    for (size_t from = 0; from < length; from++) {
        const char *c = text + from;
        if (length - from >= 4 && c[0] == '\\' && is_octal(c[1], '3') && is_octal(c[2], '7') &&
            is_octal(c[3], '7')) {
            int byte = (c[1] - '0') * 64 + (c[2] - '0') * 8 + (c[3] - '0');
            if (byte == 0)
                *has_nul = true;
            text[to++] = (char)byte;
            from += 3;
        } else {
            text[to++] = *c;
        }
    }
    return to;
}

void *conf_grow(void *array_pointer, size_t count, size_t element_size)
{
    void **array = array_pointer;

    if ((count & (count - 1)) == 0) {
        void *larger = reallocarray(*array, count == 0 ? 1 : count * 2, element_size);
        if (larger == NULL)
            return NULL;
        *array = larger;
    }
    return memset((char *)*array + count * element_size, 0, element_size);
}
