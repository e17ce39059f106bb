/* The proof that nobody else changed a file of which a dead process left something:
 * src/ledger/proof.c. */
#include "stray_scene.h"

UNIT_TEST(it_is_proven_by_the_ctime_that_the_file_had)
{
    open_file(605);
    leave(false);
    expect_proof_of_all(1000); /* and the time of modification is the same: that can be set */
    learn_times(1001);         /* somebody else wrote it, and this host saw that */
    assert_int_equal(prove(1001), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

UNIT_TEST(own_writes_are_part_of_the_proof_and_hide_no_change_that_was_seen_before_them)
{
    open_file(611);
    leave(false);
    write_at(500000, 1000, 1001);
    expect_proof_of_all(1001);
    learn_times(1002); /* somebody else's */
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
    learn_times(1001);
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
    learn_times(1002); /* somebody else's, or what was on its way: who knows */
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
