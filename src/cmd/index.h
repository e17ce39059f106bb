/*
 * Finds things by a key of 64 bits, in a tree that libc keeps balanced: what other users wrote
 * decides how many there are and which, and must not make the command slow.
 */
#ifndef CMD_INDEX_H
#define CMD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CMD_INDEX_NONE SIZE_MAX

/* Zero-initialised; freed by cmd_index_free(). */
struct cmd_index {
    void *root; /* of tsearch(3) */
};

/* Goes on with a key: first with any number. */
uint64_t cmd_index_key(uint64_t key, const char *text);

/* The number that was added with this key, or CMD_INDEX_NONE. */
size_t cmd_index_find(const struct cmd_index *index, uint64_t key);

/* Adds a number below CMD_INDEX_NONE under a key that is not there. False without memory. */
bool cmd_index_add(struct cmd_index *index, uint64_t key, size_t number);

void cmd_index_free(struct cmd_index *index);

#endif
