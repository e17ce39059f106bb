/* See unit.h. */
#include "unit.h"

struct unit unit;

void unit_add(unsigned line, struct CMUnitTest test)
{
    if (unit.count == UNIT_TESTS_MOST)
        abort();
    unsigned at = unit.count++;
    for (; at > 0 && unit.lines[at - 1] > line; at--) {
        unit.lines[at] = unit.lines[at - 1];
        unit.tests[at] = unit.tests[at - 1];
    }
    unit.lines[at] = line;
    unit.tests[at] = test;
}

int unit_run(CMFixtureFunction before, CMFixtureFunction after)
{
    cmocka_set_test_filter(getenv("TEST_FILTER"));
    return _cmocka_run_group_tests("tests", unit.tests, unit.count, before, after);
}
