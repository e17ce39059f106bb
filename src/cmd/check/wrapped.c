/* The names of the wrappers, from the list that the library itself is made of. */
#include "preload/symbols.h"

#include <string.h>

#include "cmd/check/program.h"

#define SYMBOL(name, ...)  #name,
#define TWIN(name, target) #name,
static const char *const names[] = {PRELOAD_ALL(SYMBOL, TWIN)};

bool program_wrapped(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}
