/* See file_data.h. */
#include "file_data.h"

void data_fill(void *data, size_t length, uint64_t offset, unsigned version)
{
    uint8_t *to = data;
    uint64_t word = 0;
    for (size_t i = 0; i < length;) {
        uint64_t at = offset + i;
        size_t in_word = at % 8, part = 8 - in_word;
        if (part > length - i)
            part = length - i;
        word = (at / 8 + version * UINT64_C(0x10001)) * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(to + i, (const uint8_t *)&word + in_word, part);
        i += part;
    }
}

bool data_is(const void *data, size_t length, uint64_t offset, unsigned version)
{
    const uint8_t *bytes = data;
    uint8_t expected[4096];
    for (size_t i = 0; i < length; i += sizeof(expected)) {
        size_t part = length - i < sizeof(expected) ? length - i : sizeof(expected);
        data_fill(expected, part, offset + i, version);
        if (memcmp(expected, bytes + i, part) == 0)
            continue;
        size_t at = 0;
        while (expected[at] == bytes[i + at])
            at++;
        fprintf(stderr, "byte %llu is not of version %u\n", (unsigned long long)(offset + i + at),
                version);
        return false;
    }
    return true;
}
