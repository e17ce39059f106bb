/*
 * A program of tests. A test is written once, with UNIT_TEST(); main() runs all of them in the
 * order in which they stand in the file.
 */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

enum { UNIT_TESTS_MOST = 100 };

struct unit {
    unsigned count;
    unsigned lines[UNIT_TESTS_MOST];
    struct CMUnitTest tests[UNIT_TESTS_MOST];
};
extern struct unit unit;

/* Constructors run in no order that is promised: the lines tell it. */
void unit_add(unsigned line, struct CMUnitTest test);

/* A test with what is to be done before and after it; NULL: nothing. */
#define UNIT_TEST_WITH(name, before, after)                                        \
    static void name(void **state);                                                \
    __attribute__((constructor)) static void name##_add(void)                      \
    {                                                                              \
        unit_add(__LINE__, (struct CMUnitTest){#name, name, before, after, NULL}); \
    }                                                                              \
    static void name(__attribute__((unused)) void **state)

#define UNIT_TEST(name) UNIT_TEST_WITH(name, NULL, NULL)
/* With what is to be done before the first test and after the last. $TEST_FILTER is a pattern of
 * the names of those that are to run. */
int unit_run(CMFixtureFunction before, CMFixtureFunction after);

#endif
