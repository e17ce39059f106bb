/* See v41_attributes.h. */
#include "v41_attributes.h"

static void v41_put_time(struct bytes *out, struct timespec time)
{
    v41_put64(out, (uint64_t)time.tv_sec);
    put_word(out, (uint32_t)time.tv_nsec);
}

enum { V41_NUMBER_32, V41_NUMBER_64, V41_NUMBER_128 };

/* Those that are one number, as by RFC 8881 tables 4 and 5. */
struct v41_number {
    uint8_t attribute, width;
    uint64_t value;
};

enum { V41_NUMBERS = 33 };

static unsigned v41_numbers(const struct v41_call *call, const struct v41_node *node,
                            struct v41_number numbers[V41_NUMBERS])
{
    enum { SMALL = V41_NUMBER_32, LARGE = V41_NUMBER_64, TWICE = V41_NUMBER_128 };
    uint64_t most = atomic_load(&call->control->largest) - 4096, blocks = (node->size + 511) / 512;
    const struct v41_number values[] = {{1, SMALL, node->directory ? 2 : 1},
                                        {2, SMALL, 0},
                                        {3, LARGE, node->change},
                                        {4, LARGE, node->size},
                                        {5, SMALL, 0},
                                        {6, SMALL, 0},
                                        {7, SMALL, 0},
                                        {8, TWICE, 0x41},
                                        {9, SMALL, 1},
                                        {10, SMALL, atomic_load(&call->control->lease_s)},
                                        {11, SMALL, 0},
                                        {20, LARGE, node->id},
                                        {21, LARGE, 1000},
                                        {22, LARGE, 1000},
                                        {23, LARGE, 2000},
                                        {27, LARGE, INT64_MAX},
                                        {28, SMALL, 255},
                                        {29, SMALL, V41_NAME - 1},
                                        {30, LARGE, most},
                                        {31, LARGE, most},
                                        {33, SMALL, node->mode},
                                        {34, SMALL, 1},
                                        {35, SMALL, node->directory ? 2 : 1},
                                        {41, LARGE, 0},
                                        {42, LARGE, 1 << 30},
                                        {43, LARGE, 1 << 30},
                                        {44, LARGE, UINT64_C(1) << 31},
                                        {45, LARGE, blocks * 512},
                                        {55, LARGE, node->id}};
    _Static_assert(sizeof(values) / sizeof(*values) <= V41_NUMBERS, "room");
    memcpy(numbers, values, sizeof(values));
    return sizeof(values) / sizeof(*values);
}

static void v41_supported(struct v41_bitmap *map)
{
    const unsigned attributes[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 19, 20,
                                   21, 22, 23, 27, 28, 29, 30, 31, 33, 34, 35, 36, 37, 41,
                                   42, 43, 44, 45, 47, 48, 51, 52, 53, 54, 55, 75};
    for (unsigned i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
        v41_add(map, attributes[i]);
}

void v41_put_attributes(struct v41_call *call, const struct v41_node *node,
                        const struct v41_bitmap *asked)
{
    struct v41_number numbers[V41_NUMBERS];
    struct v41_bitmap all = {{0}}, told;
    struct bytes values = {0};
    unsigned count = v41_numbers(call, node, numbers);
    v41_supported(&all);
    if (atomic_load(&call->control->layouts))
        v41_add(&all, 62);
    for (int i = 0; i < 3; i++)
        told.words[i] = all.words[i] & asked->words[i];
    if (atomic_load(&call->control->lie) == V41_NO_SIZE)
        told.words[0] &= ~(1u << 4);
    told.words[1] &= ~(1u << 16 | 1u << 22); /* times can be set by these two, and not be got */
    for (unsigned attribute = 0; attribute < 96; attribute++) {
        if (!v41_has(&told, attribute))
            continue;
        for (unsigned i = 0; i < count; i++) {
            if (numbers[i].attribute != attribute)
                continue;
            if (numbers[i].width == V41_NUMBER_32)
                put_word(&values, (uint32_t)numbers[i].value);
            else
                v41_put64(&values, numbers[i].value);
            if (numbers[i].width == V41_NUMBER_128)
                v41_put64(&values, 0);
        }
        switch (attribute) {
        case 0:
            v41_put_bitmap(&values, &all);
            break;
        case 19:
            v41_put_handle(&values, call->control, node);
            break;
        case 36:
        case 37:
            v41_put_opaque(&values, "0", 1);
            break;
        case 62:
            put_word(&values, atomic_load(&call->control->layouts));
            for (uint32_t i = 0; i < atomic_load(&call->control->layouts); i++)
                put_word(&values, i + 1);
            break;
        case 47:
            v41_put_time(&values, node->atime);
            break;
        case 51:
            v41_put_time(&values, (struct timespec){0, 1});
            break;
        case 52:
            v41_put_time(&values, node->ctime);
            break;
        case 53:
            v41_put_time(&values, node->mtime);
            break;
        case 75:
            v41_put_bitmap(&values, &(struct v41_bitmap){{1 << 4, 1 << 1, 0}});
            break;
        default:
            break;
        }
    }
    v41_put_bitmap(&call->out, &told);
    v41_put_opaque(&call->out, values.data, values.length);
    free(values.data);
}

uint32_t v41_getattr(struct v41_call *call)
{
    struct v41_bitmap asked = v41_bitmap(&call->in);
    if (call->in.bad)
        return V41_BADXDR;
    if (!call->current)
        return V41_NOFILEHANDLE;
    v41_put_attributes(call, call->current, &asked);
    return V41_OK;
}

static struct timespec v41_set_time(struct v41_in *in)
{
    struct timespec time;
    if (v41_u32(in) == 0)
        clock_gettime(CLOCK_REALTIME, &time);
    else
        time.tv_sec = (time_t)v41_u64(in), time.tv_nsec = v41_u32(in);
    return time;
}

void v41_get_changes(struct v41_in *in, struct v41_changes *changes)
{
    *changes = (struct v41_changes){.set = v41_bitmap(in)};
    struct v41_bytes bytes = v41_opaque(in, 4096);
    struct v41_in values = {bytes.data, bytes.data + ((bytes.length + 3) & ~3u), in->bad};
    if (v41_has(&changes->set, 4))
        changes->size = v41_u64(&values);
    if (v41_has(&changes->set, 33))
        changes->mode = v41_u32(&values);
    if (v41_has(&changes->set, 36))
        v41_opaque(&values, 255);
    if (v41_has(&changes->set, 37))
        v41_opaque(&values, 255);
    if (v41_has(&changes->set, 48))
        changes->atime = v41_set_time(&values);
    if (v41_has(&changes->set, 54))
        changes->mtime = v41_set_time(&values);
    in->bad = in->bad || values.bad || values.at != values.end;
}

void v41_change(struct v41_node *node, const struct v41_changes *changes)
{
    if (v41_has(&changes->set, 4))
        v41_node_cut(node, changes->size);
    else
        node->change++, clock_gettime(CLOCK_REALTIME, &node->ctime);
    if (v41_has(&changes->set, 33))
        node->mode = changes->mode;
    if (v41_has(&changes->set, 48))
        node->atime = changes->atime;
    if (v41_has(&changes->set, 54))
        node->mtime = changes->mtime;
}

uint32_t v41_verify(struct v41_call *call)
{
    struct v41_bitmap asked = v41_bitmap(&call->in);
    struct v41_bytes values = v41_opaque(&call->in, 8);
    struct v41_in in = {values.data, values.data + values.length, false};
    uint64_t change = v41_u64(&in);
    if (call->in.bad || in.bad)
        return V41_BADXDR;
    if (!call->current)
        return V41_NOFILEHANDLE;
    if (!v41_has(&asked, 3))
        return V41_NOTSUPP;
    return change == call->current->change ? V41_OK : V41_NOT_SAME;
}
