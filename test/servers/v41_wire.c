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

/* ---- writing: memory grows ---- */

uint8_t *v41_room(struct v41_out *out, size_t length)
{
    if (out->length + length > out->room) {
        out->room = (out->length + length) * 2 + 256;
        out->data = realloc(out->data, out->room);
        if (!out->data)
            abort();
    }
    out->length += length;
    return out->data + out->length - length;
}

void v41_set_word(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

void v41_put(struct v41_out *out, uint32_t value)
{
    v41_set_word(v41_room(out, 4), value);
}

void v41_put64(struct v41_out *out, uint64_t value)
{
    v41_put(out, (uint32_t)(value >> 32));
    v41_put(out, (uint32_t)value);
}

void v41_put_fixed(struct v41_out *out, const void *data, size_t length)
{
    size_t padded = (length + 3) & ~(size_t)3;
    uint8_t *at = v41_room(out, padded);
    memset(at, 0, padded);
    if (length > 0)
        memcpy(at, data, length);
}

void v41_put_opaque(struct v41_out *out, const void *data, size_t length)
{
    v41_put(out, (uint32_t)length);
    v41_put_fixed(out, data, length);
}

void v41_put_bitmap(struct v41_out *out, const struct v41_bitmap *map)
{
    uint32_t count = map->words[2] ? 3 : map->words[1] ? 2 : map->words[0] ? 1 : 0;
    v41_put(out, count);
    for (uint32_t i = 0; i < count; i++)
        v41_put(out, map->words[i]);
}
