/* See hex.h. */
#include "hex.h"

#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

size_t hex_bytes(const char *hex, const uint8_t *xid, uint8_t *to)
{
    size_t count = 0;
    while (*hex) {
        if (*hex == ' ') {
            hex++;
        } else if (*hex == 'X') {
            memcpy(to + count, xid, 4);
            count += 4;
            hex++;
        } else {
            to[count++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
            hex += 2;
        }
    }
    return count;
}

struct exact hex_exact(const char *hex)
{
    uint8_t *all = malloc(strlen(hex) / 2 + 1);
    if (!all)
        abort();
    struct exact exact = {NULL, hex_bytes(hex, NULL, all)};
    exact.data = malloc(exact.size ? exact.size : 1);
    if (!exact.data)
        abort();
    memcpy(exact.data, all, exact.size);
    free(all);
    return exact;
}
