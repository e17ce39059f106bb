/* Bytes that a test writes down in hexadecimal, with spaces wherever it likes. */
#ifndef TEST_HEX_H
#define TEST_HEX_H

#include <stddef.h>
#include <stdint.h>

/* A block of just this size: a sanitizer, or valgrind, sees what is read behind it. */
struct exact {
    uint8_t *data;
    size_t size;
};

struct exact hex_exact(const char *hex);

/* To a place with room for them. An "X" stands for the four bytes at `xid`. Their number. */
size_t hex_bytes(const char *hex, const uint8_t *xid, uint8_t *to);

#endif
