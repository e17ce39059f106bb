/* Lengths of timeouts, and deadlines: src/sys/clock.c. */
#include "sys/sys.h"
#include "unit.h"

UNIT_TEST(a_timeout_is_the_sum_of_its_parts)
{
    assert_true(sys_nanoseconds(1, -500000000) == 500000000);
    assert_true(sys_nanoseconds(-1, 1500000000) == 500000000);
    assert_true(sys_nanoseconds(2, 3000000000) == 5000000000);
    assert_true(sys_nanoseconds(0, -1) == -1);
    assert_true(sys_nanoseconds(-3, 0) == -3000000000);
}

UNIT_TEST(what_is_too_long_stays_the_longest)
{
    assert_true(sys_nanoseconds(INT64_MAX, 0) == INT64_MAX);
    assert_true(sys_nanoseconds(INT64_MAX, -1) == INT64_MAX);
    assert_true(sys_nanoseconds(INT64_MIN, INT64_MAX) == INT64_MIN);
    assert_true(sys_nanoseconds(1, INT64_MAX) == INT64_MAX);
    assert_true(sys_nanoseconds(-1, INT64_MIN) == INT64_MIN);
    assert_true(sys_deadline(INT64_MAX) == 0);
}

UNIT_TEST(a_deadline_is_never_or_now_or_later)
{
    assert_false(sys_deadline_passed(0));
    assert_true(sys_deadline_passed(sys_deadline(0)));
    assert_true(sys_deadline_passed(sys_deadline(-1)));
    assert_true(sys_deadline_passed(sys_deadline(INT64_MIN)));
    uint64_t begin = sys_now_ns(), deadline = sys_deadline(1000000);
    assert_true(deadline >= begin + 1000000 && deadline <= sys_now_ns() + 1000000);
    assert_false(sys_deadline_passed(sys_deadline(INT64_MAX - 1)));
}

UNIT_TEST(the_time_left_is_bounded)
{
    struct timespec left;
    assert_null(sys_time_left(0, 0, &left));
    assert_non_null(sys_time_left(0, 2500000000, &left));
    assert_true(left.tv_sec == 2 && left.tv_nsec == 500000000);
    assert_non_null(sys_time_left(1, 0, &left));
    assert_true(left.tv_sec == 0 && left.tv_nsec == 0);
    assert_non_null(sys_time_left(sys_deadline(3600000000000), 1000, &left));
    assert_true(left.tv_sec == 0 && left.tv_nsec == 1000);
    assert_non_null(sys_time_left(sys_deadline(3600000000000), 0, &left));
    assert_true(left.tv_sec > 0 && left.tv_sec <= 3600);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
