/* What tests write into files and expect there. */
#ifndef TEST_FILE_DATA_H
#define TEST_FILE_DATA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes that tell where they belong, and of which version they are: eight by eight, for tests that
 * run under valgrind. */
void data_fill(void *data, size_t length, uint64_t offset, unsigned version);
bool data_is(const void *data, size_t length, uint64_t offset, unsigned version);

#endif
