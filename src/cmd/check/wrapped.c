/*
 * The names of the wrappers, out of the list that the library itself is made of.
 */
#undef _FORTIFY_SOURCE /* the list wants headers that redirect nothing */
#undef _FILE_OFFSET_BITS
#include "preload/symbols.h"

#include <string.h>

#include "cmd/check/binary.h"

#define NAME(type, name, parameters, ...) #name,
static const char *const names[] = {PRELOAD_ALL(NAME, NAME)};

bool program_wrapped(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
