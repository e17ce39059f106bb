/* When what the registry keeps is as old as what the server tells: src/ledger/cache.c. */
#include "cache_test.h"

UNIT_TEST(a_change_by_another_host_drops_all)
{
    struct ledger_file file;
    watched(&file, 310);
    read_in(&file, 0, PIECE, 1);
    server_tells(&file, 10);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    server_tells(&file, 11);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 2);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), PIECE);
    struct ledger_attributes older = times(9); /* a clock that was set */
    ledger_cache_told(&file, ledger_file_asking(&file), &older, sys_now_ns() + 1000000000);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), 0);
}

UNIT_TEST(nothing_is_given_that_was_not_confirmed_since)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    watched(&file, 311);
    read_in(&file, 0, PIECE, 1);
    uint64_t opened_ns = sys_now_ns();
    assert_int_equal(ledger_cache_copy(&file, 0, PIECE, got, &stamp), PIECE);
    assert_int_equal(ledger_cache_judge_copy(&file, &stamp, 0, PIECE, opened_ns),
                     LEDGER_CACHE_UNSEEN);
    server_tells(&file, 10);
    assert_int_equal(ledger_cache_judge_copy(&file, &stamp, 0, PIECE, opened_ns),
                     LEDGER_CACHE_GOOD);
    struct ledger_attributes same = times(10);
    opened_ns = sys_now_ns() + 1;
    ledger_file_confirmed(&file, &same, opened_ns); /* by the kernel, at an open */
    assert_int_equal(given(&file, 0, PIECE, 1, opened_ns), PIECE);
}

/* Its answers are of several WRITEs. */
static bool in_parts;

/* It made the time `seconds` of `before`; 0: the server does not tell. */
static void end_told(struct ledger_file *file, struct ledger_write *write, int64_t before,
                     time_t seconds)
{
    struct ledger_ending ending = {.file = file,
                                   .write = write,
                                   .outcome = LEDGER_WRITE_STABLE,
                                   .attributes_known = true,
                                   .several = in_parts,
                                   .epoch = ledger_file_asking(file),
                                   .before_ctime = before * INT64_C(1000000000),
                                   .attributes = times(seconds),
                                   .asked_ns = sys_now_ns() + later_ns};
    ledger_writes_end(&ending, 1);
}

static void write_told(struct ledger_file *file, uint64_t offset, int64_t before, time_t seconds)
{
    struct ledger_write write;
    must(begin(file, offset, 100, true, &write) == 0);
    end_told(file, &write, before, seconds);
}

UNIT_TEST(writes_of_this_host_explain_the_times_that_they_made)
{
    struct ledger_file file;
    watched(&file, 312);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 10, 20);
    write_told(&file, 100000, 20, 21);
    uint64_t now_ns = sys_now_ns();
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 1, now_ns), PIECE);
    struct ledger_write write; /* one that nobody told the end of */
    assert_int_equal(begin(&file, 100000, 100, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    server_tells(&file, 22);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
}

UNIT_TEST(answers_to_writes_may_come_in_any_order)
{
    struct ledger_file file;
    struct ledger_write first, second;
    watched(&file, 320);
    read_in(&file, 0, PIECE, 1);
    must(begin(&file, 100000, 100, true, &first) == 0);
    must(begin(&file, 200000, 100, true, &second) == 0);
    end_told(&file, &second, 20, 21);
    end_told(&file, &first, 10, 20);
    uint64_t now_ns = sys_now_ns();
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 1, now_ns), PIECE);
}

/* Another host wrote before both. */
UNIT_TEST(answers_in_no_order_explain_what_this_host_did_and_no_more)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file file;
        struct ledger_write first, second;
        watched(&file, 330 + i);
        read_in(&file, 0, PIECE, 1);
        must(begin(&file, 100000, 100, true, &first) == 0);
        must(begin(&file, 200000, 100, true, &second) == 0);
        if (i == 0)
            end_told(&file, &first, 20, 21);
        end_told(&file, &second, 21, 22);
        if (i == 1)
            end_told(&file, &first, 20, 21);
        uint64_t now_ns = sys_now_ns();
        server_tells(&file, 22);
        assert_int_equal(given(&file, 0, PIECE, 1, now_ns), 0);
    }
}

/* Of three the one in the middle last, and first. */
UNIT_TEST(answers_to_three_writes_may_come_in_any_order)
{
    static const unsigned orders[][3] = {{2, 0, 1}, {2, 1, 0}, {0, 2, 1}, {0, 1, 2}};
    for (unsigned i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        struct ledger_file file;
        struct ledger_write writes[3];
        watched(&file, 340 + i);
        read_in(&file, 0, PIECE, 1);
        for (unsigned j = 0; j < 3; j++)
            must(begin(&file, 100000 * (j + 1), 100, true, &writes[j]) == 0);
        for (unsigned j = 0; j < 3; j++)
            end_told(&file, &writes[orders[i][j]], 10 + orders[i][j], 11 + (time_t)orders[i][j]);
        uint64_t now_ns = sys_now_ns();
        server_tells(&file, 13);
        assert_int_equal(given(&file, 0, PIECE, 1, now_ns), PIECE);
    }
}

UNIT_TEST(a_write_that_met_a_time_that_none_of_this_host_made_explains_nothing)
{
    struct ledger_file file;
    watched(&file, 321);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 15, 20);
    uint64_t now_ns = sys_now_ns();
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, now_ns), 0);
}

/* Another host may have written between its parts, which the first time does not tell. */
UNIT_TEST(what_the_first_part_of_a_write_found_is_not_what_all_found)
{
    struct ledger_file file;
    watched(&file, 356);
    read_in(&file, 0, PIECE, 1);
    in_parts = true;
    later_ns = 2 * SECOND;
    write_told(&file, 100000, 10, 20);
    in_parts = false;
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
}

/* The server does not tell what a write found. */
UNIT_TEST(a_write_is_assumed_to_find_what_was_known_a_second_ago)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file file;
        watched(&file, 350 + i);
        read_in(&file, 0, PIECE, 1);
        write_told(&file, 100000, 0, 20);
        later_ns = i == 0 ? SECOND / 2 : 2 * SECOND;
        write_told(&file, 100000, 0, 21);
        server_tells(&file, 21);
        assert_int_equal(given(&file, 0, PIECE, 1, NOW), i == 0 ? PIECE : 0);
        later_ns = 0;
    }
}

UNIT_TEST(an_assumption_lasts_half_a_minute)
{
    struct ledger_file file;
    watched(&file, 352);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 0, 20);
    later_ns = 28 * SECOND;
    server_tells(&file, 20);
    write_told(&file, 100000, 0, 21); /* it is the first one that counts */
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    later_ns = 33 * SECOND;
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 2);
    later_ns = 66 * SECOND; /* nothing is assumed of what was read since */
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), PIECE);
    later_ns = 0;
}

UNIT_TEST(who_opens_a_file_is_given_nothing_of_before_a_write)
{
    struct ledger_file file;
    struct ledger_write write;
    watched(&file, 353);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 0, 20);
    ledger_cache_opened(&file, sys_now_ns());
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);

    watched(&file, 357); /* the server told what the write found, as well as it could */
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 10, 20);
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    ledger_cache_opened(&file, sys_now_ns());
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);

    watched(&file, 354); /* a write is on its way then */
    read_in(&file, 0, PIECE, 1);
    must(begin(&file, 100000, 100, true, &write) == 0);
    ledger_cache_opened(&file, sys_now_ns() + 1);
    end_told(&file, &write, 0, 20);
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);

    watched(&file, 355); /* the server has told since that nothing had changed */
    read_in(&file, 0, PIECE, 1);
    ledger_cache_opened(&file, sys_now_ns());
    server_tells(&file, 10);
    write_told(&file, 100000, 0, 20);
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
}

/* The answer that explains a time may be on its way, or there may be none. */
UNIT_TEST(a_time_that_is_seen_during_a_write_is_doubtful)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file file;
        struct ledger_write write;
        watched(&file, 313 + i);
        read_in(&file, 0, PIECE, 1);
        assert_int_equal(begin(&file, 100000, 100, true, &write), 0);
        uint64_t asked_ns = sys_now_ns();
        server_tells(&file, 30);
        assert_int_equal(given(&file, 0, PIECE, 1, asked_ns), 0); /* not confirmed */
        end_told(&file, &write, 10, i == 0 ? 30 : 31);
        server_tells(&file, i == 0 ? 30 : 31);
        assert_int_equal(given(&file, 0, PIECE, 1, asked_ns), i == 0 ? PIECE : 0);
    }
}

UNIT_TEST(a_lock_drops_all)
{
    struct ledger_file file;
    watched(&file, 316);
    read_in(&file, 0, PIECE, 1);
    ledger_cache_forget(&file);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 2);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), PIECE);
}

UNIT_TEST(nothing_is_kept_of_a_file_that_the_kernel_has)
{
    struct ledger_file file;
    watched(&file, 317);
    read_in(&file, 0, PIECE, 1);
    struct ledger_stamp stamp;
    assert_true(ledger_stamp_take_quiet(&file, PIECE, 2 * PIECE, &stamp));
    ledger_world_leave(&file, true);
    keep(&file, &stamp, PIECE, PIECE, 1);
    assert_true(ledger_world_arrived(&file));
    assert_true(ledger_world_come_back(&file, ledger_world_pins(&file)));
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    assert_int_equal(given(&file, PIECE, PIECE, 1, NOW), 0);
}

int main(void)
{
    return unit_run(open_with_cache, remove_run_directory);
}
