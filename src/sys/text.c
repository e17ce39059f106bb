#include "sys/text.h"

#include <string.h>

size_t sys_text_decode(const unsigned char *bytes, size_t size, uint32_t *character)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = bytes[0] < 0x80   ? 1
                    : bytes[0] < 0xc2 ? 0
                    : bytes[0] < 0xe0 ? 2
                    : bytes[0] < 0xf0 ? 3
                    : bytes[0] < 0xf5 ? 4
                                      : 0;
    if (length == 0 || length > size)
        return 0;
    *character = length == 1 ? bytes[0] : bytes[0] & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *character = *character << 6 | (bytes[i] & 0x3f);
    }
    if (*character < lowest[length] || *character > 0x10ffff ||
        (*character >= 0xd800 && *character < 0xe000))
        return 0;
    return length;
}

bool sys_text_is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c ||
           (character >= 0x200b && character <= 0x200f) ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069) || character == 0xfeff;
}

void sys_text_clean(char *text)
{
    for (size_t left = strlen(text), length; left; left -= length, text += length) {
        uint32_t character;
        length = sys_text_decode((const unsigned char *)text, left, &character);
        if (length == 0 || sys_text_is_control(character))
            memset(text, '?', length = length ? length : 1);
    }
}
