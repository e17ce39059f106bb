/* Data that nobody cares for, and the proof that nobody else changed its file:
 * src/ledger/strays.c. */
#include "agent_scene.h"
#include "ledger/commits.h"
#include "ledger/hold.h"
#include "ledger/strays.h"

static struct ledger_file file;

/* So that it is known what the file is at the server. */
static void learn(int64_t mtime)
{
    const struct ledger_attributes attributes = {
        .size = 1 << 20, .mtime = {.tv_nsec = mtime}, .ctime = {.tv_nsec = mtime}};
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
}

static enum ledger_stray_proof prove(int64_t ctime)
{
    const struct ledger_attributes now = {
        .size = 1 << 20, .mtime = {.tv_nsec = 1000}, .ctime = {.tv_nsec = ctime}};
    return ledger_file_prove_strays(&file, ledger_file_asking(&file), &now, false);
}

/* All that was left is proven if the file has this ctime, and nothing if it has another one. */
static void expect_proof_of_all(int64_t ctime)
{
    assert_int_equal(prove(ctime), LEDGER_STRAY_PROVEN);
    assert_int_equal(ledger_file_mark_strays(&file, LEDGER_STRAYS_UNPROVEN), 0);
    assert_int_equal(prove(ctime + 1), LEDGER_STRAY_NOT_PROVEN);
    assert_int_equal(prove(ctime - 1), LEDGER_STRAY_NOT_PROVEN);
}

/* *watched: it asks first. It leaves 8 KiB. */
static int dies_with_dirty_data(void *watched)
{
    if (*(bool *)watched)
        be_watched();
    write_dirty(&file, 0, 8192, 'd');
    kill(getpid(), SIGKILL);
    return 1;
}

static void leave(bool watched)
{
    assert_int_equal(run_child(dies_with_dirty_data, &watched), 128 + SIGKILL);
    ledger_process_sweep(0);
}

static void open_file(uint64_t inode)
{
    attach(&file, inode);
    learn(1000);
}

static void forget_file(void)
{
    ledger_file_forget(&file, false);
    check_invariants();
}

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

UNIT_TEST(it_is_proven_by_the_ctime_that_the_file_had)
{
    open_file(605);
    leave(false);
    expect_proof_of_all(1000); /* and the time of modification is the same: that can be set */
    learn(1001);               /* somebody else wrote it, and this host saw that */
    assert_int_equal(prove(1001), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

/* A write of this host at `offset`. */
static void begin_write(uint64_t offset, struct ledger_write *write)
{
    memset(buffer, 'w', 100);
    must(ledger_write_try(&file, offset, &(struct iovec){buffer, 100}, 1, 100, true, write) == 0);
}

/* The server tells the ctimes of before and after it. */
static void end_write_as(struct ledger_write *write, enum ledger_outcome outcome, int64_t before,
                         int64_t after)
{
    struct ledger_ending ending = {
        .file = &file,
        .write = write,
        .outcome = outcome,
        .verifier = 5,
        .epoch = ledger_file_asking(&file),
        .asked_ns = sys_now_ns(),
        .before_ctime = before,
        .attributes_known = true,
        .attributes = {.size = 1 << 20, .mtime = {.tv_nsec = after}, .ctime = {.tv_nsec = after}}};
    ledger_writes_end(&ending, 1);
}

static void end_write(struct ledger_write *write, int64_t before, int64_t after)
{
    end_write_as(write, LEDGER_WRITE_STABLE, before, after);
}

static void write_at(uint64_t offset, int64_t before, int64_t after)
{
    struct ledger_write write;
    begin_write(offset, &write);
    end_write(&write, before, after);
}

UNIT_TEST(own_writes_are_part_of_the_proof_and_hide_no_change_that_was_seen_before_them)
{
    open_file(611);
    leave(false);
    write_at(500000, 1000, 1001);
    expect_proof_of_all(1001);
    learn(1002); /* somebody else's */
    write_at(500000, 1002, 1003);
    assert_int_equal(prove(1003), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(nor_one_that_nobody_saw)
{
    open_file(631);
    leave(false);
    write_at(500000, 1001, 1002);
    assert_int_equal(prove(1002), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(their_answers_may_come_in_any_order)
{
    static const uint8_t orders[][4] = {{3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}, {3, 1, 2, 0}};
    for (unsigned i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        struct ledger_write writes[4];
        open_file(640 + i);
        leave(false);
        for (unsigned k = 0; k < 4; k++)
            begin_write(500000 + 1000 * k, &writes[k]);
        for (unsigned k = 0; k < 4; k++) {
            assert_int_not_equal(prove(1004), LEDGER_STRAY_PROVEN);
            end_write(&writes[orders[i][k]], 1000 + orders[i][k], 1001 + orders[i][k]);
        }
        expect_proof_of_all(1004);
        forget_file();
    }
}

UNIT_TEST(a_change_between_them_is_seen_in_any_order)
{
    struct ledger_write writes[2];
    open_file(632);
    leave(false);
    begin_write(500000, &writes[0]);
    begin_write(600000, &writes[1]);
    end_write(&writes[1], 1002, 1003); /* from 1001 to 1002 it was somebody else */
    end_write(&writes[0], 1000, 1001);
    assert_int_equal(prove(1003), LEDGER_STRAY_NOT_PROVEN);
    assert_int_equal(prove(1002), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(a_clock_that_stands_still_ends_no_proof)
{
    open_file(633);
    leave(false);
    write_at(500000, 1000, 1000);
    write_at(500000, 0, 1000);
    write_at(500000, 1000, 1001);
    expect_proof_of_all(1001);
    forget_file();
}

/* The proof, if there is one, is of nothing that was left. */
static void expect_no_proof(int64_t ctime)
{
    static uint8_t bytes[LEDGER_STRAY_MAX];
    if (prove(ctime) == LEDGER_STRAY_NOT_PROVEN)
        return;
    assert_int_equal(prove(ctime), LEDGER_STRAY_PROVEN);
    uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNPROVEN);
    assert_int_equal(ledger_file_stray(&file, mark, false, 0, bytes).length, 8192);
}

UNIT_TEST(a_transfer_of_several_writes_may_have_had_another_one_in_its_midst)
{
    struct ledger_write write;
    open_file(634);
    leave(false);
    begin_write(500000, &write);
    struct ledger_ending ending = {
        .file = &file,
        .write = &write,
        .outcome = LEDGER_WRITE_STABLE,
        .epoch = ledger_file_asking(&file),
        .asked_ns = sys_now_ns(),
        .before_ctime = 1000,
        .several = true,
        .attributes_known = true,
        .attributes = {.size = 1 << 20, .mtime = {.tv_nsec = 1002}, .ctime = {.tv_nsec = 1002}}};
    ledger_writes_end(&ending, 1);
    expect_no_proof(1002);
    forget_file();
}

static uint8_t bytes[LEDGER_STRAY_MAX];

/* The first one that is marked, from an offset on. */
static void expect_stray(uint64_t mark, uint64_t from, uint64_t offset, uint32_t length)
{
    struct ledger_stray stray = ledger_file_stray(&file, mark, false, from, bytes);
    assert_int_equal(stray.length, length);
    assert_int_equal(stray.offset, offset);
}

static int dies_with_more(void *unused)
{
    (void)unused;
    write_dirty(&file, 100000, 300, 'm');
    kill(getpid(), SIGKILL);
    return 1;
}

/* 8 KiB at 0 are not proven, and 300 bytes at 100000 are, by this ctime. */
static void expect_proof_of_the_second(int64_t ctime)
{
    struct ledger_write write;
    assert_int_equal(run_child(dies_with_more, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_int_equal(prove(ctime), LEDGER_STRAY_PROVEN);
    uint64_t mark = ledger_file_mark_strays(&file, LEDGER_STRAYS_UNPROVEN);
    expect_stray(mark, 0, 0, 8192);
    expect_stray(mark, 8192, 0, 0);
    assert_int_equal(take_strays(&file, &write), 1); /* takes the other */
    assert_int_equal(write.offset, 100000);
    assert_int_equal(write.length, 300);
    assert_int_equal(ledger_file_drop_strays(&file, mark, false), 8192);
    assert_true(ledger_file_has_strays(&file)); /* it is on its way */
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    ledger_file_end_strays(&file);
    assert_false(ledger_file_has_strays(&file));
    assert_int_equal(ledger_file_dirty(&file), 0);
}

UNIT_TEST(an_answer_that_does_not_tell_the_ctime_of_before_ends_it_for_what_is_older)
{
    open_file(635);
    leave(false);
    write_at(500000, 0, 1001);
    expect_no_proof(1001);
    expect_proof_of_the_second(1001);
    forget_file();
}

UNIT_TEST(what_is_written_after_a_change_by_others_was_seen_is_proven_from_then_on)
{
    open_file(636);
    leave(false);
    learn(1001);
    expect_proof_of_the_second(1001);
    forget_file();
}

static int dies_in_flight(void *unused)
{
    struct ledger_write write;
    (void)unused;
    write_dirty(&file, 0, 8192, 'f');
    write_dirty(&file, 20000, 8192, 'd');
    must(take(&file, &write) == 1);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(what_was_on_its_way_spoils_the_proof_only_if_it_arrived)
{
    open_file(606);
    assert_int_equal(run_child(dies_in_flight, NULL), 128 + SIGKILL);
    assert_true(ledger_file_has_strays(&file));
    expect_proof_of_all(1000);
    forget_file();
}

UNIT_TEST(an_own_write_on_its_way_is_waited_for)
{
    struct ledger_write write;
    open_file(607);
    leave(false);
    memset(buffer, 'n', 100);
    assert_int_equal(
        ledger_write_try(&file, 500000, &(struct iovec){buffer, 100}, 1, 100, true, &write), 0);
    assert_int_equal(prove(1000), LEDGER_STRAY_PROVEN); /* it is elsewhere */
    assert_int_equal(prove(1001), LEDGER_STRAY_ASK);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
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

static int dies_with_acked_data(void *in_flight)
{
    struct ledger_write write, other;
    begin_write(700000, &write);
    end_write_as(&write, LEDGER_WRITE_UNSTABLE, 1000, 1001);
    if (in_flight)
        begin_write(800000, &other);
    kill(getpid(), SIGKILL);
    return 1;
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

static enum ledger_stray_proof prove_sent(int64_t ctime)
{
    const struct ledger_attributes now = {
        .size = 1 << 20, .mtime = {.tv_nsec = ctime}, .ctime = {.tv_nsec = ctime}};
    return ledger_file_prove_strays(&file, ledger_file_asking(&file), &now, true);
}

static void leave_sent(uint64_t inode, bool in_flight)
{
    open_file(inode);
    assert_int_equal(run_child(dies_with_acked_data, in_flight ? &file : NULL), 128 + SIGKILL);
}

UNIT_TEST(what_was_sent_may_be_written_again_if_the_file_is_not_newer_than_this_host_made_it)
{
    leave_sent(621, false);
    ledger_process_sweep(0);
    assert_true(ledger_file_has_sent_strays(&file));
    assert_int_equal(prove_sent(1001), LEDGER_STRAY_PROVEN);
    assert_int_equal(prove_sent(900), LEDGER_STRAY_PROVEN);
    assert_int_equal(prove_sent(1002), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(a_later_write_of_this_host_hides_no_change_by_others_from_that_proof)
{
    leave_sent(622, false); /* and nobody knows that it is dead */
    write_at(500000, 1002, 1003);
    ledger_process_sweep(0);
    assert_int_equal(prove_sent(1003), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(nor_does_a_question_after_a_write_without_an_answer)
{
    leave_sent(623, true);
    ledger_process_sweep(0);
    learn(1002); /* somebody else's, or what was on its way: who knows */
    assert_int_equal(prove_sent(1002), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

/* Two answers, the later one first. They tell the ctime of before, or do not. */
static int dies_with_two_answers(void *told)
{
    struct ledger_write writes[2];
    begin_write(700000, &writes[0]);
    begin_write(800000, &writes[1]);
    end_write_as(&writes[1], LEDGER_WRITE_UNSTABLE, told ? 1002 : 0, 1003);
    end_write_as(&writes[0], LEDGER_WRITE_UNSTABLE, told ? 1000 : 0, 1002);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(it_is_of_all_that_a_process_sent_in_whatever_order_the_answers_came)
{
    for (int told = 0; told < 2; told++) {
        open_file(624 + (uint64_t)told);
        write_at(500000, 0, 1000);
        assert_int_equal(run_child(dies_with_two_answers, told ? &file : NULL), 128 + SIGKILL);
        ledger_process_sweep(0);
        assert_int_equal(prove_sent(1003), LEDGER_STRAY_PROVEN);
        assert_int_equal(prove_sent(1004), LEDGER_STRAY_NOT_PROVEN);
        forget_file();
    }
}

UNIT_TEST(without_the_ctime_of_before_it_ends_with_a_write_after_the_death)
{
    leave_sent(627, false);
    ledger_process_sweep(0);
    write_at(500000, 0, 1005);
    assert_int_equal(prove_sent(1005), LEDGER_STRAY_NOT_PROVEN);
    assert_int_equal(prove_sent(1001), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(what_was_committed_since_is_no_matter_to_it)
{
    struct ledger_commit commit;
    struct ledger_write write;
    open_file(626);
    begin_write(500000, &write);
    end_write_as(&write, LEDGER_WRITE_UNSTABLE, 900, 950); /* somebody else was there */
    begin_write(500000, &write);
    end_write_as(&write, LEDGER_WRITE_UNSTABLE, 990, 1000);
    assert_true(ledger_commit_begin(&file, &commit));
    assert_int_equal(ledger_commit_end(&file, &commit, 5), 0);
    leave_sent(626, false);
    ledger_process_sweep(0);
    assert_int_equal(prove_sent(1001), LEDGER_STRAY_PROVEN);
    forget_file();
}

int main(void)
{
    return unit_run(open_all, remove_run_directory);
}
