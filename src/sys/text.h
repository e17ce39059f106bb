/*
 * Text from others, for a terminal or a log.
 */
#ifndef SYS_TEXT_H
#define SYS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one character of UTF-8 (RFC 3629) from `size` bytes, which is at least 1. Returns its
 * length in bytes. 0: it is no character. Overlong forms and surrogates are none. */
size_t sys_text_decode(const unsigned char *bytes, size_t size, uint32_t *character);

/* True for characters that a terminal obeys instead of showing them: C0, DEL and C1, line
 * separators, and those that change the direction of the text after them. */
bool sys_text_is_control(uint32_t character);

/* Replaces control characters, and bytes that are no character, by '?'. */
void sys_text_clean(char *text);

#endif
