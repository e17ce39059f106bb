/* How often a test repeats what it does with other random numbers. */
#ifndef UNIT_ROUNDS_H
#define UNIT_ROUNDS_H

#include <stdlib.h>

/* `many`; a tenth of it where every instruction is slow ($DIRECTNFS_TEST_SHORT): under valgrind and
 * sanitizers. */
static inline unsigned rounds_of(unsigned many)
{
    return getenv("DIRECTNFS_TEST_SHORT") ? (many + 9) / 10 : many;
}

#endif
