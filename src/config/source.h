/*
 * Small helpers for the readers of configuration, and for src/cmd.
 */
#ifndef CONF_SOURCE_H
#define CONF_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "config/diagnostic.h"

#define CONF_FILE_SIZE_MAX (1024 * 1024) /* bytes in a file that people write */

/* Room for what conf_quote() makes of any text. */
#define CONF_QUOTE_SIZE 200

/* Reads all of a descriptor with raw system calls. The memory is for sys_free(), with a NUL after
 * the `length` bytes. 0; -EFBIG: there are more than `max` bytes; -ENOMEM; or what read said. */
int conf_read_all(int fd, size_t max, char **text, size_t *length);

/* conf_read_all() for a regular file. Adds -EISDIR, -EINVAL (it is neither regular nor a
 * directory), and what open said. */
int conf_file_read(const char *file, size_t max, char **text, size_t *length);

/*
 * conf_file_read() for a file that people write, of at most CONF_FILE_SIZE_MAX bytes. `what` it
 * should be ("an nfstab").
 * 1: it is read; only then *text is set.
 * 0: it does not exist, and is not `required`.
 * -EINVAL: an error was added to `d`.
 * -ENOMEM: there is no memory.
 */
int conf_file_load(const char *file, bool required, const char *what, char **text, size_t *length,
                   struct conf_diagnostics *d);

/* How many bytes to skip at the start of a text: the byte order mark of a file saved on Windows. */
size_t conf_text_mark(const char *text, size_t length);

/*
 * Which of `count` names is most likely meant by a word that is none of them? NULL: it is like
 * none. The names are the first members of structures of `size` bytes. Small and capital letters
 * are equal.
 */
const char *conf_nearest_name(const char *word, size_t length, const void *names, size_t count,
                              size_t size);

/* Quotes unknown text for a message. Bytes that are not printable ASCII become \xNN, and text that
 * is too long for a message is cut. Returns `out`. */
const char *conf_quote(char out[CONF_QUOTE_SIZE], const char *text, size_t length);

/* conf_quote() for a string, in memory of the enclosing block. */
#define CONF_QUOTED(text) conf_quote((char[CONF_QUOTE_SIZE]){0}, (text), strlen(text))

/* Undoes \ooo escapes (three octal digits, as in fstab(5) and mountinfo) in place. Returns the new
 * length. Sets *has_nul if an escape stood for a NUL byte. */
size_t conf_unescape(char *text, size_t length, bool *has_nul);

/*
 * Makes room for one more element in an array that only this function allocates, and zeroes it. The
 * array doubles when `count` is a power of two, so nobody need keep the capacity. Returns the
 * element. NULL: there is no memory, and the array is unchanged.
 */
void *conf_grow(void *array_pointer, size_t count, size_t element_size);

#endif
