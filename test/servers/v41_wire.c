/* See v41_wire.h. */
#include "v41_wire.h"

/* ---- reading: beyond the end everything is 0, and `bad` stays ---- */

const uint8_t *v41_take(struct v41_in *in, size_t length)
{
    static const uint8_t nothing[16];
    size_t padded = (length + 3) & ~(size_t)3;
    if (in->bad || (size_t)(in->end - in->at) < padded) {
        in->bad = true;
        return length <= sizeof(nothing) ? nothing : NULL;
    }
    in->at += padded;
    return in->at - padded;
}

uint32_t v41_u32(struct v41_in *in)
{
    return v41_word_at(v41_take(in, 4));
}

uint64_t v41_u64(struct v41_in *in)
{
    uint64_t high = v41_u32(in);
    return high << 32 | v41_u32(in);
}

bool v41_bool(struct v41_in *in)
{
    uint32_t word = v41_u32(in);
    in->bad = in->bad || word > 1;
    return word == 1;
}

struct v41_bytes v41_opaque(struct v41_in *in, uint32_t most)
{
    uint32_t length = v41_u32(in);
    in->bad = in->bad || length > most;
    const uint8_t *data = v41_take(in, in->bad ? 0 : length);
    return in->bad ? (struct v41_bytes){(const uint8_t *)"", 0} : (struct v41_bytes){data, length};
}

struct v41_bitmap v41_bitmap(struct v41_in *in)
{
    struct v41_bitmap map = {{0}};
    uint32_t count = v41_u32(in);
    in->bad = in->bad || count > 16;
    for (uint32_t i = 0; !in->bad && i < count; i++) {
        uint32_t word = v41_u32(in);
        if (i < 3)
            map.words[i] = word;
    }
    return map;
}

/* ---- writing ---- */

void v41_set_word(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

void v41_put64(struct bytes *out, uint64_t value)
{
    put_word(out, (uint32_t)(value >> 32));
    put_word(out, (uint32_t)value);
}

void v41_put_fixed(struct bytes *out, const void *data, size_t length)
{
    size_t padded = (length + 3) & ~(size_t)3;
    uint8_t *at = bytes_add(out, padded);
    memset(at, 0, padded);
    if (length > 0)
        memcpy(at, data, length);
}

void v41_put_opaque(struct bytes *out, const void *data, size_t length)
{
    put_word(out, (uint32_t)length);
    v41_put_fixed(out, data, length);
}

void v41_put_bitmap(struct bytes *out, const struct v41_bitmap *map)
{
    uint32_t count = map->words[2] ? 3 : map->words[1] ? 2 : map->words[0] ? 1 : 0;
    put_word(out, count);
    for (uint32_t i = 0; i < count; i++)
        put_word(out, map->words[i]);
}
