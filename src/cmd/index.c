#include "cmd/index.h"

#include <search.h>
#include <stdlib.h>

struct node {
    uint64_t key;
    size_t number;
};

uint64_t cmd_index_key(uint64_t key, const char *text)
{
    for (; *text; text++)
        key = (key ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (key ^ 0x100) * UINT64_C(0x100000001b3);
}

static int by_key(const void *a, const void *b)
{
    const struct node *first = a, *second = b;
    return (first->key > second->key) - (first->key < second->key);
}

size_t cmd_index_find(const struct cmd_index *index, uint64_t key)
{
    const struct node wanted = {.key = key};
    const struct node *const *found = tfind(&wanted, &index->root, by_key);
    return found ? (*found)->number : CMD_INDEX_NONE;
}

bool cmd_index_add(struct cmd_index *index, uint64_t key, size_t number)
{
    struct node *node = malloc(sizeof(*node));
    if (node == NULL)
        return false;
    *node = (struct node){key, number};
    if (tsearch(node, &index->root, by_key) != NULL)
        return true;
    free(node);
    return false;
}

void cmd_index_free(struct cmd_index *index)
{
    tdestroy(index->root, free);
    index->root = NULL;
}
