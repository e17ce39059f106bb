#include "cmd/index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct cmd_index_slot {
    uint64_t key;
    size_t behind; /* the number and one; 0: free */
};

uint64_t cmd_index_key(uint64_t key, const char *text)
{
    for (; *text; text++)
        key = (key ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (key ^ 0x100) * UINT64_C(0x100000001b3);
}

/* Random, so that nobody can choose keys that all come to one place. */
static uint64_t factor(void)
{
    static uint64_t random;
    const void *bytes = (const void *)getauxval(AT_RANDOM);
    if (random == 0 && bytes)
        memcpy(&random, bytes, sizeof(random));
    return random |= 1;
}

static struct cmd_index_slot *place(const struct cmd_index *index, uint64_t key)
{
    size_t at = (size_t)((key * factor()) >> 32) & (index->size - 1);
    while (index->slots[at].behind && index->slots[at].key != key)
        at = (at + 1) & (index->size - 1);
    return &index->slots[at];
}

size_t cmd_index_find(const struct cmd_index *index, uint64_t key)
{
    return index->size ? place(index, key)->behind - 1 : CMD_INDEX_NONE;
}

static bool grow(struct cmd_index *index)
{
    struct cmd_index larger = {.size = index->size ? 2 * index->size : 64, .used = index->used};
    larger.slots = calloc(larger.size, sizeof(*larger.slots));
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < index->size; i++)
        if (index->slots[i].behind)
            *place(&larger, index->slots[i].key) = index->slots[i];
    free(index->slots);
    *index = larger;
    return true;
}

bool cmd_index_add(struct cmd_index *index, uint64_t key, size_t number)
{
    if (index->used >= index->size / 2 && !grow(index))
        return false;
    *place(index, key) = (struct cmd_index_slot){key, number + 1};
    index->used++;
    return true;
}

void cmd_index_free(struct cmd_index *index)
{
    free(index->slots);
    *index = (struct cmd_index){0};
}
