/*
 * Text that somebody else wrote, for a terminal or a log.
 */
#ifndef SYS_TEXT_H
#define SYS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes one character of UTF-8 (RFC 3629) from at most `size` bytes, which are one at least.
 * Returns its length, or 0 for bytes that are none: overlong forms and surrogates included.
 */
size_t sys_text_decode(const unsigned char *bytes, size_t size, uint32_t *character);

/* True for what makes a terminal do something other than show a character: C0, DEL and C1, what
 * separates lines, and what changes the direction of the text behind it. */
bool sys_text_is_control(uint32_t character);

/* Makes control characters, and bytes that are no character, '?'. */
void sys_text_clean(char *text);

#endif
