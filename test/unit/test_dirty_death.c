/* Dirty data of processes that die, or are stopped: src/ledger/dirty.c, twins.c. */
#include <sys/ptrace.h>

#include "dirty_scene.h"
#include "ledger/strays.h"

/* ---- a dead process ---- */

static int dies_with_dirty_data(void *argument)
{
    struct ledger_write write;
    write_dirty(argument, 0, 8192, 'f');
    must(take(argument, &write) == 1);
    write_dirty(argument, 20000, 8192, 'd');
    kill(getpid(), SIGKILL);
    return 1;
}

/* Else nothing is proven of what the dead leave. */
static void attach_known(struct ledger_file *file, uint64_t inode)
{
    const struct ledger_attributes attributes = {.size = 1 << 20, .ctime = {.tv_nsec = 1000}};
    attach(file, inode);
    ledger_file_learned(file, ledger_file_asking(file), &attributes, sys_now_ns());
}

UNIT_TEST(data_of_a_dead_process_is_sent_by_another)
{
    struct ledger_file file, orphan;
    struct ledger_write write;
    uint32_t cursor = 0;
    attach_known(&file, 511);
    assert_int_equal(run_child(dies_with_dirty_data, &file), 128 + SIGKILL);
    expect_dirty(&file, 0, 8192, 'f');
    ledger_process_sweep(0);
    assert_true(ledger_uncommitted_next(&cursor, 5, true, &orphan));
    uint64_t sum = 0;
    assert_int_equal(take_strays(&orphan, &write), 1);
    sum += write.length;
    ledger_write_end(&orphan, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(take_strays(&orphan, &write), 1);
    sum += write.length;
    ledger_write_end(&orphan, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(sum, 16384);
    assert_int_equal(take_strays(&orphan, &write), 0);
    check_invariants();
    ledger_file_forget(&file, false);
}

/* All that is done to dirty data, at one place. */
static int steps(void *argument)
{
    struct ledger_write write;
    write_dirty(argument, 0, 20000, '1');
    for (uint64_t i = 0; i < 24; i++) /* others of the tree */
        write_dirty(argument, 30000 + (i * 7 % 24) * 200, 24, 'o');
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    memset(buffer, '2', 3000);
    write_behind(argument, 5000, 3000);
    write_behind(argument, 18000, 3000);
    if (take(argument, &write) != 1)
        return 1;
    memset(buffer, '3', 3000);
    write_behind(argument, 6000, 3000);
    ledger_write_end(argument, &write, LEDGER_WRITE_FAILED, 0);
    return 0;
}

/* True: it ended before so many instructions. */
static bool killed_after(int (*body)(void *), struct ledger_file *file, unsigned instructions)
{
    pid_t child = start_child(body, file);
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    for (unsigned i = 0; i < instructions && !WIFEXITED(status); i++) {
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WIFEXITED(status))
        return true;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    return false;
}

/* What a byte may be, by what the steps write: the oldest and the newest. */
static bool may_be(uint64_t at, uint8_t byte)
{
    if (at < 20000 && byte == '1')
        return true;
    if (((at >= 5000 && at < 8000) || (at >= 18000 && at < 21000)) && byte == '2')
        return true;
    return at >= 6000 && at < 9000 && byte == '3';
}

UNIT_TEST(wherever_its_process_dies_nothing_is_lost)
{
    bool over = false;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
    for (unsigned n = 0; !over; n += 1499) {
        struct ledger_file file;
        size_t done = 0;
        attach(&file, 512);
        over = killed_after(steps, &file, n);
        ledger_process_sweep(0);
        check_invariants();
        assert_int_equal(read_dirty(&file, 0, 20000, &done), LEDGER_DIRTY_ALL);
        for (uint64_t i = 0; i < 20000; i++)
            assert_true(may_be(i, buffer[i]));
        for (uint64_t i = 0; i < 24; i++)
            expect_dirty(&file, 30000 + i * 200, 24, 'o');
        ledger_file_forget(&file, false);
        check_invariants();
    }
}

/* The end of a WRITE, by which data is the server's, or dirty again. */
static enum ledger_outcome outcome;

static int ends_a_run(void *argument)
{
    struct ledger_write write;
    write_dirty(argument, 0, 8192, '1');
    if (take(argument, &write) != 1)
        return 1;
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    ledger_write_end(argument, &write, outcome, first_verifier);
    return 0;
}

static void kill_at_the_end_of_a_run(enum ledger_outcome how)
{
    bool over = false;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    outcome = how;
    for (unsigned n = 0; !over; n += 11) {
        struct ledger_file file;
        attach(&file, 514);
        over = killed_after(ends_a_run, &file, n);
        assert_true(ledger_file_uncommitted(&file) >= 8192); /* for who looks without the lock */
        ledger_process_sweep(0);
        assert_int_equal(ledger_file_uncommitted(&file), 8192);
        check_invariants();
        ledger_file_forget(&file, false);
    }
}

UNIT_TEST(who_dies_as_a_run_fails_leaves_it_dirty)
{
    kill_at_the_end_of_a_run(LEDGER_WRITE_FAILED);
}

UNIT_TEST(who_dies_as_a_run_is_acknowledged_leaves_it_uncommitted)
{
    kill_at_the_end_of_a_run(LEDGER_WRITE_UNSTABLE);
}

/* ---- a process that is stopped ---- */

/* Has a run in flight, stops, and ends it when it goes on. */
static int stops_in_flight(void *argument)
{
    struct ledger_write write;
    for (uint64_t i = 0; i < 16; i++)
        write_dirty(argument, i * 8192, 8192, 's');
    must(take(argument, &write) == 1);
    must(write.length == 16 * 8192);
    raise(SIGSTOP);
    ledger_write_end(argument, &write, outcome, second_verifier);
    return 0;
}

static int stops_with_little_in_flight(void *argument)
{
    struct ledger_write write;
    write_dirty(argument, 0, 1000, 's');
    must(take(argument, &write) == 1);
    raise(SIGSTOP);
    ledger_write_end(argument, &write, outcome, second_verifier);
    return 0;
}

static pid_t start_and_stop(int (*body)(void *), struct ledger_file *file)
{
    int status;
    pid_t child = start_child(body, file);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static pid_t start_stopped(struct ledger_file *file)
{
    return start_and_stop(stops_in_flight, file);
}

/* All that is dirty, as a flush does. */
static void flush_some(struct ledger_file *file, uint8_t fill, bool strays)
{
    struct ledger_sending sending = ledger_dirty_now(file, MOST);
    struct ledger_write write;
    sending.strays = strays;
    while (ledger_dirty_take(file, &sending, true, &write) == 1) {
        struct iovec vectors[LEDGER_WRITE_VECTORS];
        int count = ledger_write_data(&write, 0, write.length, vectors);
        for (int i = 0; i < count; i++) {
            for (size_t k = 0; k < vectors[i].iov_len; k++)
                assert_int_equal(((uint8_t *)vectors[i].iov_base)[k], fill);
        }
        ledger_write_end(file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    }
}

/* What nothing is proven of, as somebody died in the midst of it, would be set aside: so many
 * bytes. */
static uint64_t set_aside(struct ledger_file *file, uint8_t fill)
{
    static uint8_t bytes[LEDGER_STRAY_MAX];
    uint64_t mark = ledger_file_mark_strays(file, LEDGER_STRAYS_UNSENT), from = 0;
    struct ledger_stray stray;
    while (mark && (stray = ledger_file_stray(file, mark, false, from, bytes)).length > 0) {
        for (uint32_t i = 0; i < stray.length; i++)
            assert_int_equal(bytes[i], fill);
        from = stray.offset + stray.length;
    }
    return ledger_file_drop_strays(file, mark, false);
}

/* How many bytes were set aside. */
static uint64_t flush(struct ledger_file *file, uint8_t fill)
{
    flush_some(file, fill, false);
    flush_some(file, fill, true);
    return set_aside(file, fill);
}

/* What the server has is what is acknowledged with the first verifier, whatever the late answer. */
static void go_on_late(enum ledger_outcome how)
{
    struct ledger_file file;
    struct ledger_write write;
    outcome = how;
    attach(&file, 520);
    pid_t child = start_stopped(&file);
    flush(&file, 's');
    assert_int_equal(ledger_file_dirty(&file), 0);
    assert_int_equal(ledger_file_acknowledged(&file), 16 * 8192);
    write_dirty(&file, 4096, 100, 'n');
    assert_int_equal(take(&file, &write), -EAGAIN); /* the late WRITE would undo it */
    kill(child, SIGCONT);
    assert_int_equal(end_child(child), 0);
    assert_false(ledger_file_has_loss(&file));
    assert_int_equal(ledger_file_acknowledged(&file), 16 * 8192);
    assert_false(ledger_file_verifier_differs(&file, first_verifier));
    flush(&file, 'n');
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_flush_does_not_wait_for_a_process_that_is_stopped)
{
    go_on_late(LEDGER_WRITE_UNSTABLE);
    go_on_late(LEDGER_WRITE_STABLE);
    go_on_late(LEDGER_WRITE_FAILED);
}

UNIT_TEST(a_stopped_process_may_be_killed)
{
    struct ledger_file file;
    attach(&file, 521);
    pid_t child = start_stopped(&file);
    flush(&file, 's');
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_int_equal(ledger_file_acknowledged(&file), 16 * 8192);
    write_dirty(&file, 0, 8192, 'n');
    flush(&file, 'n');
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_twin_that_fails_is_sent_again_beside_the_stopped_one)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 522);
    outcome = LEDGER_WRITE_FAILED;
    pid_t child = start_stopped(&file);
    struct ledger_sending sending = ledger_dirty_now(&file, MOST);
    assert_int_equal(ledger_dirty_take(&file, &sending, true, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(ledger_file_dirty(&file), 16 * 8192);
    expect_dirty(&file, 0, 16 * 8192, 's');
    flush(&file, 's');
    kill(child, SIGCONT);
    assert_int_equal(end_child(child), 0);
    assert_int_equal(ledger_file_acknowledged(&file), 16 * 8192);
    check_invariants();
    ledger_file_forget(&file, false);
}

/* A twin with newer bytes is as any newer data: not before the stopped one is over. */
UNIT_TEST(a_twin_that_is_written_over_waits_for_the_stopped_one)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 523);
    outcome = LEDGER_WRITE_STABLE;
    pid_t child = start_stopped(&file);
    struct ledger_sending sending = ledger_dirty_now(&file, MOST);
    assert_int_equal(ledger_dirty_take(&file, &sending, true, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    write_dirty(&file, 0, 16 * 8192, 'n');
    assert_int_equal(take(&file, &write), -EAGAIN);
    kill(child, SIGCONT);
    assert_int_equal(end_child(child), 0);
    flush(&file, 'n');
    check_invariants();
    ledger_file_forget(&file, false);
}

/* What is left of it must not take the newer bytes in: they would be sent beside the stopped one.
 */
UNIT_TEST(newer_bytes_behind_what_is_left_of_a_twin_wait_for_the_stopped_one)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 525);
    outcome = LEDGER_WRITE_STABLE;
    pid_t child = start_and_stop(stops_with_little_in_flight, &file);
    struct ledger_sending sending = ledger_dirty_now(&file, MOST);
    assert_int_equal(ledger_dirty_take(&file, &sending, true, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    write_dirty(&file, 500, 1000, 'n');
    /* The rest of the twin is harmless; then nothing more is sent. */
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.offset + write.length, 500);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(take(&file, &write), -EAGAIN);
    kill(child, SIGCONT);
    assert_int_equal(end_child(child), 0);
    flush(&file, 'n');
    assert_int_equal(ledger_file_acknowledged(&file), 1500);
    check_invariants();
    ledger_file_forget(&file, false);
}

static int flushes(void *argument)
{
    struct ledger_sending sending = ledger_dirty_now(argument, MOST);
    struct ledger_write write;
    ledger_process_slot();
    /* As a flush that found out. */
    sending.stopped = atomic_load(&ledger_record(1)->owner);
    for (uint32_t i = 1; i < atomic_load(&ledger_map.shared->next_record); i++) {
        if (ledger_record_is_promised(ledger_record(i)))
            sending.stopped = atomic_load(&ledger_record(i)->owner);
    }
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    if (ledger_dirty_take(argument, &sending, false, &write) != 1)
        return 1;
    ledger_write_end(argument, &write, outcome, first_verifier);
    return 0;
}

UNIT_TEST(wherever_who_makes_twins_dies_nothing_is_lost)
{
    bool over = false;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
    for (unsigned n = 0; !over; n += 997) {
        struct ledger_file file;
        attach_known(&file, 524);
        outcome = n % 2 ? LEDGER_WRITE_FAILED : LEDGER_WRITE_UNSTABLE;
        pid_t stopped = start_stopped(&file);
        over = killed_after(flushes, &file, n);
        ledger_process_sweep(0);
        check_invariants();
        outcome = n % 3 ? LEDGER_WRITE_FAILED : LEDGER_WRITE_UNSTABLE;
        if (n % 5 == 0)
            kill(stopped, SIGKILL);
        kill(stopped, SIGCONT);
        end_child(stopped);
        ledger_process_sweep(0);
        check_invariants();
        assert_true(ledger_file_uncommitted(&file) >= 16 * 8192); /* some of it twice */
        uint64_t aside = flush(&file, 's');
        assert_int_equal(ledger_file_acknowledged(&file) + aside, 16 * 8192);
        ledger_file_forget(&file, false);
        check_invariants();
    }
}

/* A flush right after the death: there is something to send or to wait for. */
UNIT_TEST(a_flush_after_a_death_between_verifier_and_state_overlooks_nothing)
{
    struct ledger_file file;
    struct ledger_write write;
    int status;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    outcome = LEDGER_WRITE_UNSTABLE;
    attach(&file, 516);
    pid_t child = start_child(ends_a_run, &file);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    uint32_t index = ledger_bucket(ledger_entry_index(ledger_entry_peek(&file)), 0)->root;
    while (!WIFEXITED(status) && ledger_record(index)->verifier != first_verifier) {
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_int_equal(ledger_record_state(ledger_record(index)), LEDGER_RECORD_IN_FLIGHT);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_not_equal(take(&file, &write), 0);
    ledger_process_sweep(0);
    ledger_file_forget(&file, false);
    check_invariants();
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
