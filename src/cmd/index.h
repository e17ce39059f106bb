/*
 * Finds numbers by a key of 64 bits, in a tree that libc keeps balanced. Other users decide how
 * many keys there are, and which: that must not make the command slow.
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

/* Makes a key from a text and another key; the first key is any number. */
uint64_t cmd_index_key(uint64_t key, const char *text);

/* The number that was added under this key, or CMD_INDEX_NONE. */
size_t cmd_index_find(const struct cmd_index *index, uint64_t key);

/* Adds a number below CMD_INDEX_NONE under a new key. False: no memory. */
bool cmd_index_add(struct cmd_index *index, uint64_t key, size_t number);

void cmd_index_free(struct cmd_index *index);

#endif
