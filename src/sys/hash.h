/* A hash of bytes: FNV-1a of 64 bits. It spreads names over tables, and keeps no secret. */
#ifndef SYS_HASH_H
#define SYS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SYS_HASH_NONE UINT64_C(0xcbf29ce484222325) /* of no bytes */

/* Of the bytes behind those whose hash is `before`. */
static inline uint64_t sys_hash(uint64_t before, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < length; i++)
        before = (before ^ bytes[i]) * UINT64_C(0x100000001b3);
    return before;
}

#endif
