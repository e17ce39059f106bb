/* Data that nobody cares for: src/ledger/strays.c. */
#include "stray_scene.h"
#include "ledger/care.h"

UNIT_TEST(what_a_dead_process_left_is_no_stray_while_its_agent_lives)
{
    open_file(601);
    pid_t agent = start_agent();
    leave(true);
    assert_false(ledger_file_has_strays(&file));
    end_agent(agent);
    assert_true(ledger_file_has_strays(&file));
    agent = start_agent(); /* another one promised nothing of it */
    assert_true(ledger_file_has_strays(&file));
    end_agent(agent);
    forget_file();
}

UNIT_TEST(what_nobody_watched_is_a_stray)
{
    open_file(602);
    pid_t agent = start_agent();
    leave(false);
    assert_true(ledger_file_has_strays(&file));
    end_agent(agent);
    forget_file();
}

UNIT_TEST(some_of_it_without_a_carer_is_all_of_it)
{
    open_file(603);
    pid_t agent = start_agent();
    leave(false);
    leave(true);
    assert_true(ledger_file_has_strays(&file));
    end_agent(agent);
    forget_file();
}

UNIT_TEST(one_that_nobody_knows_to_be_dead_is_found_when_it_matters)
{
    bool watched = true;
    open_file(604);
    pid_t agent = start_agent();
    assert_int_equal(run_child(dies_with_dirty_data, &watched), 128 + SIGKILL);
    end_agent(agent);
    assert_true(ledger_file_has_strays(&file));
    forget_file();
}

UNIT_TEST(an_agent_that_comes_later_finds_it_before_it_is_ready)
{
    bool watched = true;
    open_file(614);
    pid_t agent = start_agent();
    assert_int_equal(run_child(dies_with_dirty_data, &watched), 128 + SIGKILL);
    end_agent(agent);
    assert_int_equal(ledger_agent_become(), 0);
    ledger_agent_ready();
    assert_true(ledger_file_has_strays(&file));
    ledger_agent_resign();
    forget_file();
}

static int sends_a_stray_and_dies(void *watched)
{
    struct ledger_write write;
    if (*(bool *)watched)
        be_watched();
    must(take_strays(&file, &write) == 1);
    must(take_strays(&file, &write) == 0);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(strays_are_strays_until_they_are_sent)
{
    struct ledger_write write;
    bool watched = true;
    open_file(608);
    leave(false);
    pid_t agent = start_agent(); /* it does not care for what the dead had taken from the dead */
    assert_int_equal(run_child(sends_a_stray_and_dies, &watched), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_true(ledger_file_has_strays(&file));
    end_agent(agent);
    assert_int_equal(take_strays(&file, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    ledger_file_end_strays(&file);
    assert_true(ledger_file_has_strays(&file));
    assert_int_equal(take(&file, &write), 0);
    assert_int_equal(take_strays(&file, &write), 1);
    assert_int_equal(write.length, 8192);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    ledger_file_end_strays(&file);
    assert_false(ledger_file_has_strays(&file));
    assert_int_equal(ledger_file_dirty(&file), 0);
    forget_file();
}

UNIT_TEST(what_lives_is_not_sent_with_them_and_they_are_not_sent_with_it)
{
    struct ledger_write write;
    open_file(618);
    leave(false);
    write_dirty(&file, 8192, 100, 'l');
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.offset, 8192);
    assert_int_equal(write.length, 100);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(take_strays(&file, &write), 1);
    assert_int_equal(write.offset, 0);
    assert_int_equal(write.length, 8192);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    ledger_file_end_strays(&file);
    assert_false(ledger_file_has_strays(&file));
    expect_dirty(&file, 8192, 100, 'l');
    forget_file();
}

UNIT_TEST(what_was_written_over_is_none)
{
    open_file(620);
    leave(false);
    write_dirty(&file, 0, 8192, 'n');
    assert_int_equal(ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT), 0);
    ledger_file_end_strays(&file);
    assert_false(ledger_file_has_strays(&file));
    expect_dirty(&file, 0, 8192, 'n');
    forget_file();
}

UNIT_TEST(who_finds_another_time_than_is_known_was_overtaken)
{
    struct ledger_write write;
    struct ledger_ending ending = {.file = &file,
                                   .write = &write,
                                   .outcome = LEDGER_WRITE_STABLE,
                                   .attributes_known = true,
                                   .before_ctime = 1000};
    open_file(619);
    for (int round = 0; round < 2; round++) { /* the second finds what it was before the first */
        ending.attributes = (struct ledger_attributes){.size = 1 << 20,
                                                       .mtime = {.tv_nsec = 2000 + round},
                                                       .ctime = {.tv_nsec = 2000 + round}};
        write_dirty(&file, 0, 100, 'o');
        assert_int_equal(take(&file, &write), 1);
        ending.epoch = ledger_file_asking(&file);
        ending.asked_ns = sys_now_ns();
        ledger_writes_end(&ending, 1);
        assert_int_equal(ending.overtaken, round > 0);
    }
    forget_file();
}

UNIT_TEST(nobody_was_overtaken_of_whose_file_nothing_is_known_any_more)
{
    struct ledger_file later;
    struct ledger_file_key key;
    struct ledger_write write;
    struct ledger_ending ending = {.file = &file,
                                   .write = &write,
                                   .outcome = LEDGER_WRITE_STABLE,
                                   .before_ctime = 1001,
                                   .overtaken = true, /* a result counts once it is set */
                                   .is_old = true};
    uint64_t lost;
    open_file(630);
    write_dirty(&file, 0, 100, 'o');
    assert_int_equal(take(&file, &write), 1);
    key_for(&key, 630);
    key.handle[8] = 1; /* the server gave it another one */
    assert_true(ledger_file_attach(&later, &key, &(struct timespec){0}, &lost));
    assert_true(ledger_file_rename(&file, &key, &(struct timespec){0}, &lost));
    ledger_writes_end(&ending, 1);
    assert_false(ending.overtaken || ending.is_old);
    forget_file();
}

UNIT_TEST(what_is_set_aside_is_what_the_dead_left_and_is_told_to_those_who_have_the_file)
{
    struct ledger_seen own, *_Atomic seen = &own;
    struct ledger_file later;
    open_file(609);
    ledger_seen_begin(&file, &own);
    leave(false);
    write_dirty(&file, 100000, 300, 'l'); /* of one that lives */
    uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
    expect_stray(mark, 0, 0, 8192);
    assert_int_equal(bytes[0], 'd');
    assert_int_equal(bytes[8191], 'd');
    expect_stray(mark, 8192, 0, 0);
    assert_int_equal(ledger_file_drop_strays(&file, mark, false), 8192);
    assert_int_equal(ledger_file_drop_strays(&file, mark, false), 0);
    assert_false(ledger_file_has_strays(&file));
    expect_dirty(&file, 100000, 300, 'l');
    assert_int_equal(ledger_file_dirty(&file), 300);
    assert_true(ledger_file_lost_by(&file, &seen));
    attach(&later, 609);
    assert_false(ledger_file_lost(&later));
    forget_file();
}

static int begins_later(void *unused)
{
    (void)unused;
    write_dirty(&file, 30000, 100, 'n');
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(who_dies_while_they_are_set_aside_loses_nothing)
{
    open_file(610);
    leave(false);
    uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
    assert_int_equal(run_child(begins_later, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_int_equal(ledger_file_drop_strays(&file, mark, false), 8192);
    assert_true(ledger_file_has_strays(&file));
    expect_dirty(&file, 30000, 100, 'n');
    forget_file();
}

static int writes_over_it(void *unused)
{
    (void)unused;
    write_dirty(&file, 1000, 100, 'n');
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(nor_does_who_writes_there_meanwhile)
{
    open_file(612);
    leave(false);
    uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
    assert_int_equal(run_child(writes_over_it, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_int_equal(ledger_file_drop_strays(&file, mark, false), 0);
    expect_dirty(&file, 1000, 100, 'n');
    assert_int_equal(ledger_file_dirty(&file), 8192);
    forget_file();
}

UNIT_TEST(of_two_who_set_them_aside_the_later_one_has_them_all)
{
    open_file(613);
    leave(false);
    uint64_t first = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
    expect_stray(first, 0, 0, 8192);
    assert_int_equal(run_child(begins_later, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    uint64_t second = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
    assert_int_equal(ledger_file_drop_strays(&file, first, false),
                     0); /* it does not have the later one */
    expect_stray(second, 0, 0, 8192);
    expect_stray(second, 8192, 30000, 100);
    assert_int_equal(ledger_file_drop_strays(&file, second, false), 8292);
    assert_false(ledger_file_has_strays(&file));
    forget_file();
}

static int dies_in_flight_with_newer_bytes(void *unused)
{
    struct ledger_write write;
    (void)unused;
    write_dirty(&file, 0, 8192, 'f');
    write_dirty(&file, 200000, 8192, 'f');
    must(take(&file, &write) == 1 && write.offset == 0);
    must(take(&file, &write) == 1 && write.offset == 200000);
    write_dirty(&file, 200100, 100, 'n');
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(what_is_on_its_way_and_has_other_bytes_may_undo_what_was_found)
{
    open_file(637);
    ledger_hold_set(600 * UINT64_C(1000000000));
    assert_int_equal(run_child(dies_in_flight_with_newer_bytes, NULL), 128 + SIGKILL);
    assert_true(ledger_file_has_strays(&file));
    uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
    struct ledger_stray same = ledger_file_stray(&file, mark, false, 0, bytes);
    struct ledger_stray other = ledger_file_stray(&file, mark, false, 8192, bytes);
    assert_true(same.late);
    assert_true(other.late);
    assert_int_equal(other.offset, 200000);
    assert_true(ledger_file_stray_arrived(&file, mark, false, 0));
    assert_false(ledger_file_stray_arrived(&file, mark, false, 200000));
    assert_int_equal(ledger_file_drop_arrived(&file, mark, false), 8192);
    assert_int_equal(ledger_file_dirty(&file), 8192);
    assert_false(ledger_file_lost(&file));
    ledger_hold_set(0);
    forget_file();
}

UNIT_TEST(a_record_that_is_used_again_has_no_mark_of_its_former_life)
{
    for (uint64_t inode = 700; inode < 760; inode++) { /* whose stripes draw the same numbers */
        open_file(inode);
        leave(false);
        for (uint64_t mark = 1; mark < 10; mark++) {
            assert_int_equal(ledger_file_drop_strays(&file, mark, false), 0);
            assert_int_equal(ledger_file_drop_arrived(&file, mark, false), 0);
        }
        uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNSENT);
        assert_int_equal(ledger_file_drop_strays(&file, mark, false), 8192);
        forget_file();
    }
}

UNIT_TEST(what_an_unwatched_process_had_sent_takes_nobody_from_what_a_watched_one_left)
{
    open_file(620);
    pid_t agent = start_agent();
    assert_int_equal(run_child(dies_with_acked_data, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    leave(true);
    bool strays = ledger_file_has_strays(&file), sent = ledger_file_has_sent_strays(&file);
    end_agent(agent);
    assert_false(strays);
    assert_true(sent);
    forget_file();
}

static int asks_sends_and_dies(void *asks)
{
    if (asks)
        must(ledger_agent_ask(5, 77) >= 0);
    return dies_with_acked_data(NULL);
}

/* A process that asks, or does not, sends something and dies. */
static void send_and_die(uint64_t inode, bool asks)
{
    open_file(inode);
    assert_int_equal(run_child(asks_sends_and_dies, asks ? &file : NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
}

/* Is what was sent in nobody's care, as another process sees it? */
static bool is_nobodys(void)
{
    uint32_t self = ledger_agent_self;
    ledger_agent_self = 0;
    bool nobodys = ledger_file_has_sent_strays(&file);
    ledger_agent_self = self;
    return nobodys;
}

/* The agent is this process, and answers nobody. */
UNIT_TEST(what_was_sent_is_in_the_care_of_an_agent_that_was_asked_and_can_commit_it)
{
    assert_int_equal(ledger_agent_become(), 0);
    ledger_agent_ready();
    int place = ledger_agent_ask(5, 77);
    assert_true(place >= 0);
    send_and_die(626, true);
    ledger_agent_serve((unsigned)place, false); /* it may never be in contact with the server */
    assert_true(is_nobodys());
    ledger_agent_serve((unsigned)place, true);
    assert_false(is_nobodys());
    forget_file();
    send_and_die(628, false);
    assert_true(is_nobodys());
    forget_file();
    send_and_die(627, true);
    ledger_agent_resign();
    assert_true(is_nobodys());
    forget_file();
}

int main(void)
{
    return unit_run(open_all, remove_run_directory);
}
