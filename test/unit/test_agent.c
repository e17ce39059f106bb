/* The agent in shared memory, and data that nobody cares for: src/ledger/agent.c. */
#include <signal.h>

#include "dirty_scene.h"
#include "ledger/agent.h"

static struct ledger_file file;
static int ready[2]; /* a pipe: a child says that it is so far */

static void say_ready(void)
{
    must(write(ready[1], "", 1) == 1);
}

static void wait_ready(void)
{
    char byte;
    must(read(ready[0], &byte, 1) == 1);
}

/* Watches all that want it, and promises all servers. */
static void watch_all(void)
{
    uint64_t key, device;
    bool watched;
    int pid;
    for (uint32_t slot = 1; slot < ledger_process_count(); slot++) {
        if (ledger_agent_asked(slot, &pid, &watched) && !watched)
            ledger_agent_watch(slot, pid);
    }
    for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
        if (ledger_agent_server(place, &key, &device))
            ledger_agent_serve(place);
    }
}

static int is_agent(void *unused)
{
    uint32_t seen = 0;
    (void)unused;
    must(ledger_agent_become() == 0);
    ledger_agent_ready();
    watch_all();
    say_ready();
    for (;;) {
        ledger_agent_await(&seen);
        watch_all();
    }
}

static pid_t start_agent(void)
{
    pid_t agent = start_child(is_agent, NULL);
    wait_ready();
    return agent;
}

static void end_agent(pid_t agent)
{
    kill(agent, SIGKILL);
    assert_int_equal(end_child(agent), 128 + SIGKILL);
}

static void be_watched(void)
{
    int place = ledger_agent_ask(5, 77);
    must(place >= 0);
    for (;;) {
        uint32_t number = ledger_agent_number();
        if (number && ledger_agent_watches(number) && ledger_agent_serves(number, (unsigned)place, 5))
            return;
        usleep(1000);
    }
}

/* So that it is known what the file is at the server. */
static void learn(int64_t mtime)
{
    const struct ledger_attributes attributes = {
        .size = 1 << 20, .mtime = {.tv_nsec = mtime}, .ctime = {.tv_nsec = mtime}};
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
}

static enum ledger_stray_proof prove(int64_t mtime)
{
    const struct ledger_attributes now = {.size = 1 << 20, .mtime = {.tv_nsec = mtime}};
    return ledger_file_prove_strays(&file, ledger_file_asking(&file), &now, false);
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

/* ---- the agent ---- */

UNIT_TEST(there_is_no_agent_before_one_is_ready)
{
    assert_int_equal(ledger_agent_number(), 0);
    assert_false(ledger_agent_is_there());
    assert_int_equal(ledger_agent_become(), 0);
    assert_true(ledger_agent_is_there());
    assert_int_equal(ledger_agent_number(), 0);
    ledger_agent_ready();
    assert_int_not_equal(ledger_agent_number(), 0);
    ledger_agent_resign();
    assert_int_equal(ledger_agent_number(), 0);
    assert_false(ledger_agent_is_there());
}

static int cannot_be_it(void *unused)
{
    (void)unused;
    return ledger_agent_become() == -EBUSY ? 0 : 1;
}

UNIT_TEST(there_is_one_agent)
{
    pid_t agent = start_agent();
    assert_int_equal(run_child(cannot_be_it, NULL), 0);
    end_agent(agent);
}

UNIT_TEST(one_that_is_killed_is_none_from_then_on_and_its_promises_are_not_the_next_ones)
{
    pid_t agent = start_agent();
    uint32_t first = ledger_agent_number();
    be_watched();
    end_agent(agent);
    assert_false(ledger_agent_is_there());
    assert_int_equal(ledger_agent_number(), 0);
    assert_int_equal(ledger_agent_become(), 0);
    ledger_agent_ready();
    assert_int_not_equal(ledger_agent_number(), first);
    assert_false(ledger_agent_watches(ledger_agent_number()));
    watch_all(); /* who was watched before is watched again, without asking */
    assert_true(ledger_agent_watches(ledger_agent_number()));
    ledger_agent_resign();
}

static int child_is_watched(void *unused)
{
    (void)unused;
    return ledger_agent_watches(ledger_agent_number()) ? 1 : 0;
}

UNIT_TEST(a_child_is_watched_when_it_asks)
{
    pid_t agent = start_agent();
    be_watched();
    assert_int_equal(run_child(child_is_watched, NULL), 0);
    end_agent(agent);
}

/* ---- strays ---- */

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

UNIT_TEST(it_is_proven_by_the_time_that_the_file_had)
{
    open_file(605);
    leave(false);
    assert_int_equal(prove(1000), LEDGER_STRAY_PROVEN);
    assert_int_equal(prove(1001), LEDGER_STRAY_NOT_PROVEN);
    assert_int_equal(prove(999), LEDGER_STRAY_NOT_PROVEN); /* restored from a backup */
    learn(1001); /* somebody else wrote it, and this host saw that */
    assert_int_equal(prove(1001), LEDGER_STRAY_NOT_PROVEN);
    forget_file();
}

/* A write of this host at `offset`; the server tells the times of before and after it. */
static void write_at(uint64_t offset, int64_t before, int64_t after)
{
    struct ledger_write write;
    memset(buffer, 'w', 100);
    assert_int_equal(
        ledger_write_try(&file, offset, &(struct iovec){buffer, 100}, 1, 100, true, &write), 0);
    struct ledger_ending ending = {
        .file = &file,
        .write = &write,
        .outcome = LEDGER_WRITE_STABLE,
        .epoch = ledger_file_asking(&file),
        .asked_ns = sys_now_ns(),
        .before_ctime = before,
        .attributes_known = true,
        .attributes = {.size = 1 << 20, .mtime = {.tv_nsec = after}, .ctime = {.tv_nsec = after}}};
    ledger_writes_end(&ending, 1);
}

UNIT_TEST(own_writes_are_part_of_the_proof_and_hide_no_change_that_was_seen_before_them)
{
    open_file(611);
    leave(false);
    write_at(500000, 1000, 1001);
    assert_int_equal(prove(1001), LEDGER_STRAY_PROVEN);
    learn(1002); /* somebody else's */
    write_at(500000, 1002, 1003);
    assert_int_equal(prove(1003), LEDGER_STRAY_NOT_PROVEN);
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

UNIT_TEST(what_was_on_its_way_proves_nothing)
{
    open_file(606);
    assert_int_equal(run_child(dies_in_flight, NULL), 128 + SIGKILL);
    assert_true(ledger_file_has_strays(&file));
    assert_int_equal(prove(1000), LEDGER_STRAY_NOT_PROVEN);
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
    assert_int_equal(prove(1000), LEDGER_STRAY_ASK);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    forget_file();
}

static int takes_and_dies(void *unused)
{
    (void)unused;
    must(ledger_file_take_strays(&file));
    must(!ledger_file_has_strays(&file));
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(who_has_proven_it_has_it_as_long_as_he_lives)
{
    struct ledger_write write;
    open_file(608);
    leave(false);
    assert_int_equal(run_child(takes_and_dies, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_true(ledger_file_has_strays(&file));
    assert_true(ledger_file_take_strays(&file));
    assert_false(ledger_file_has_strays(&file));
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.length, 8192);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_dirty(&file), 0);
    forget_file();
}

UNIT_TEST(what_is_set_aside_is_what_the_dead_left_and_is_told_to_those_who_have_the_file)
{
    static uint8_t bytes[LEDGER_STRAY_MAX];
    struct ledger_seen own, *_Atomic seen = &own;
    struct ledger_file later;
    uint64_t offset = 0;
    open_file(609);
    ledger_seen_begin(&file, &own);
    leave(false);
    write_dirty(&file, 100000, 300, 'l'); /* of one that lives */
    uint64_t mark = ledger_file_mark_strays(&file, false);
    assert_int_equal(ledger_file_stray(&file, mark, false, 0, &offset, bytes), 8192);
    assert_int_equal(offset, 0);
    assert_int_equal(bytes[0], 'd');
    assert_int_equal(bytes[8191], 'd');
    assert_int_equal(ledger_file_stray(&file, mark, false, 8192, &offset, bytes), 0);
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
    uint64_t mark = ledger_file_mark_strays(&file, false);
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
    uint64_t mark = ledger_file_mark_strays(&file, false);
    assert_int_equal(run_child(writes_over_it, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_int_equal(ledger_file_drop_strays(&file, mark, false), 0);
    expect_dirty(&file, 1000, 100, 'n');
    assert_int_equal(ledger_file_dirty(&file), 8192);
    forget_file();
}

UNIT_TEST(of_two_who_set_them_aside_the_later_one_has_them_all)
{
    static uint8_t bytes[LEDGER_STRAY_MAX];
    uint64_t offset = 0;
    open_file(613);
    leave(false);
    uint64_t first = ledger_file_mark_strays(&file, false);
    assert_int_equal(ledger_file_stray(&file, first, false, 0, &offset, bytes), 8192);
    assert_int_equal(run_child(begins_later, NULL), 128 + SIGKILL);
    ledger_process_sweep(0);
    uint64_t second = ledger_file_mark_strays(&file, false);
    assert_int_equal(ledger_file_drop_strays(&file, first, false),
                     0); /* it does not have the later one */
    assert_int_equal(ledger_file_stray(&file, second, false, 0, &offset, bytes), 8192);
    assert_int_equal(ledger_file_stray(&file, second, false, 8192, &offset, bytes), 100);
    assert_int_equal(ledger_file_drop_strays(&file, second, false), 8292);
    assert_false(ledger_file_has_strays(&file));
    forget_file();
}

static int dies_with_acked_data(void *unused)
{
    struct ledger_write write;
    (void)unused;
    memset(buffer, 'a', 100);
    must(ledger_write_try(&file, 700000, &(struct iovec){buffer, 100}, 1, 100, true, &write) == 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, 5);
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

static int open_all(void **state)
{
    return pipe(ready) || open_registry(state);
}

int main(void)
{
    return unit_run(open_all, remove_run_directory);
}
