// What the programs of the tests have in common: numbers on the command line, a clock, random
// numbers.
#ifndef TEST_TOOL_H
#define TEST_TOOL_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

// For the array of getopt_long().
#define OPTION(name, letter)                  \
    {                                         \
        name, required_argument, NULL, letter \
    }

#define FLAG(name, letter)              \
    {                                   \
        name, no_argument, NULL, letter \
    }

// A number with an optional suffix k, m or g (powers of 1024), in least..most; anything else ends
// the program with exit code 2.
uint64_t number_option(const char *name, const char *text, uint64_t least, uint64_t most);

// Seconds, with a fraction if need be, from a millisecond to a day; in nanoseconds.
uint64_t seconds_option(const char *name, const char *text);
uint64_t clock_ns(void);

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
