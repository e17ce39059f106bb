/*
 * Small helpers that the readers of configuration share; not for other rooms.
 */
#ifndef CONF_TEXT_H
#define CONF_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define CONF_FILE_SIZE_MAX (1024 * 1024) /* bytes of a file that people write */

/* Room for what conf_quote() makes of any text. */
#define CONF_QUOTE_SIZE 200

/* Reads a whole regular file with raw system calls into memory for free(3), with a NUL behind the
 * `length` bytes. Returns 0, -EFBIG if it has more than `max` bytes, -EISDIR, -EINVAL if it is
 * neither regular nor a directory, -ENOMEM, or what open and read said. */
int conf_file_read(const char *file, size_t max, char **text, size_t *length);

/* Puts a piece of unknown text in quotes for a message: bytes that are not printable ASCII become
 * \xNN, and what is longer than a message should be is cut. Returns `out`. */
const char *conf_quote(char out[CONF_QUOTE_SIZE], const char *text, size_t length);

/* Undoes \ooo escapes (three octal digits, as in fstab(5) and mountinfo) in place. Returns the new
 * length. Sets *has_nul if an escape stood for a NUL byte. */
size_t conf_unescape(char *text, size_t length, bool *has_nul);

/*
 * Makes room for one more element in an array that only this function allocates: it doubles when
 * `count` is a power of two, so the capacity need not be kept. The new element is zeroed. Returns
 * it, or NULL without memory (the array is unchanged).
 */
void *conf_grow(void *array_pointer, size_t count, size_t element_size);

#endif
