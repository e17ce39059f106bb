#include "config/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

#define READ_SIZE_FIRST 16384

static int read_all(int fd, size_t max, char **text, size_t *length)
{
    size_t capacity = READ_SIZE_FIRST, used = 0;
    char *buffer = malloc(capacity);

    while (buffer != NULL) {
        ssize_t got = sys_read(fd, buffer + used, capacity - used - 1);
        if (got == -EINTR)
            continue;
        if (got < 0 || used + (size_t)got > max) {
            free(buffer);
            return got < 0 ? (int)got : -EFBIG;
        }
        if (got == 0) {
            buffer[used] = '\0';
            *text = buffer;
            *length = used;
            return 0;
        }
        used += (size_t)got;
        if (used == capacity - 1) {
            char *larger = realloc(buffer, capacity * 2);
            if (larger == NULL)
                free(buffer);
            buffer = larger;
            capacity *= 2;
        }
    }
    return -ENOMEM;
}

int conf_file_read(const char *file, size_t max, char **text, size_t *length)
{
    struct stat status;
    /* O_NONBLOCK: a FIFO put in the place of a file must not hang the application's start. */
    int fd = sys_open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fd;

    int result = sys_fstat(fd, &status);
    if (result == 0 && S_ISDIR(status.st_mode))
        result = -EISDIR;
    else if (result == 0 && !S_ISREG(status.st_mode))
        result = -EINVAL;
    if (result == 0)
        result = read_all(fd, max, text, length);
    sys_close(fd);
    return result;
}

const char *conf_quote(char out[CONF_QUOTE_SIZE], const char *text, size_t length)
{
    char *to = out;
    /* A byte takes at most 4, the closing quote and the mark of a cut at most 5. */
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
