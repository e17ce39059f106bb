/*
 * Small helpers that the readers of configuration share, and src/cmd.
 */
#ifndef CONF_TEXT_H
#define CONF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "config/diagnostic.h"

#define CONF_FILE_SIZE_MAX (1024 * 1024) /* bytes of a file that people write */

/* Room for what conf_quote() makes of any text. */
#define CONF_QUOTE_SIZE 200

/*
 * Reads all of a descriptor with raw system calls into memory for sys_free(), with a NUL behind the
 * `length` bytes. Returns 0, -EFBIG if there are more than `max` bytes, -ENOMEM, or what read said.
 */
int conf_read_all(int fd, size_t max, char **text, size_t *length);

/* The same of a regular file. Adds -EISDIR, -EINVAL if it is neither regular nor a directory, and
 * what open said. */
int conf_file_read(const char *file, size_t max, char **text, size_t *length);

/*
 * The same of a file that people write, of CONF_FILE_SIZE_MAX bytes at most; `what` it should be
 * ("an nfstab"). Returns 1; 0 if it does not exist and is not `required`; -EINVAL after an error in
 * `d`; or -ENOMEM. `*text` is set only with 1.
 */
int conf_file_load(const char *file, bool required, const char *what, char **text, size_t *length,
                   struct conf_diagnostics *d);

/* The bytes to pass over at the start of a text: the byte order mark of a file saved on Windows. */
size_t conf_text_mark(const char *text, size_t length);

/*
 * Which of `count` names is most likely meant by a word that is none of them, or NULL if it is like
 * none. The names are the first members of structures of `size` bytes. Small and capital letters
 * are the same.
 */
const char *conf_nearest_name(const char *word, size_t length, const void *names, size_t count,
                              size_t size);

/* Puts a piece of unknown text in quotes for a message: bytes that are not printable ASCII become
 * \xNN, and what is longer than a message should be is cut. Returns `out`. */
const char *conf_quote(char out[CONF_QUOTE_SIZE], const char *text, size_t length);

/* The same of a string, in memory of the block that it stands in. */
#define CONF_QUOTED(text) conf_quote((char[CONF_QUOTE_SIZE]){0}, (text), strlen(text))

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
