/* Ranges of unknown fate: src/ledger/store/hold.c. */
#include "host_test.h"
#include "ledger/append.h"
#include "ledger/await.h"
#include "ledger/store/pocket.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define LONG_NS  UINT64_C(3600000000000) /* does not end within a test */
#define SHORT_NS UINT64_C(30000000)

static const uint64_t first_verifier = 1, second_verifier = 2;
static uint8_t buffer[LEDGER_WRITE_MAX];

static int open_holding(void **state)
{
    if (make_run_directory(state))
        return -1;
    return ledger_registry_open(UNCOMMITTED_MAX, LONG_NS);
}

/* All holds end now. */
static void end_holds(void)
{
    for (uint32_t i = 1; i < ledger_map.shared->next_record; i++) {
        if (ledger_record(i)->held_until)
            ledger_record(i)->held_until = 1;
    }
    for (int i = 0; i < LEDGER_STRIPES; i++) {
        if (ledger_map.shared->stripes[i].held_check)
            ledger_map.shared->stripes[i].held_check = 1;
    }
    check_invariants();
}

static int clean_up(void **state)
{
    (void)state;
    ledger_process_sweep(0);
    end_holds();
    ledger_hold_set(LONG_NS);
    for (uint32_t i = 1; i < ledger_map.shared->next_record; i++)
        assert_int_not_equal(ledger_record(i)->state, LEDGER_RECORD_GHOST);
    return 0;
}

#define TEST(name) UNIT_TEST_WITH(name, NULL, clean_up)

static int try_write(struct ledger_file *file, uint64_t offset, size_t length, bool keep,
                     struct ledger_write *write)
{
    struct iovec vector = {buffer, length};
    return ledger_write_try(file, offset, &vector, 1, length, keep, write);
}

static void write_unsettled(struct ledger_file *file, uint64_t offset, size_t length,
                            enum ledger_outcome outcome)
{
    struct ledger_write write;
    must(try_write(file, offset, length, true, &write) == 0);
    write.unsettled = true;
    ledger_write_end(file, &write, outcome, first_verifier);
}

static bool blocked(struct ledger_file *file, uint64_t offset, size_t length)
{
    struct ledger_write write;
    int result = try_write(file, offset, length, false, &write);
    if (result == 0)
        ledger_write_end(file, &write, LEDGER_WRITE_FAILED, 0);
    must(result == 0 || result == -EAGAIN);
    return result == -EAGAIN;
}

TEST(whatever_the_outcome_the_range_is_held)
{
    struct ledger_file file;
    attach(&file, 1);
    for (int outcome = LEDGER_WRITE_FAILED; outcome <= LEDGER_WRITE_UNSTABLE; outcome++) {
        write_unsettled(&file, 100000, 100000, (enum ledger_outcome)outcome);
        assert_true(blocked(&file, 100000, 100000));
        assert_true(blocked(&file, 0, 100001));
        assert_true(blocked(&file, 199999, 1));
        assert_false(blocked(&file, 0, 100000));
        assert_false(blocked(&file, 200000, 100));
        assert_int_equal(ledger_file_uncommitted(&file),
                         outcome == LEDGER_WRITE_UNSTABLE ? 100000 : 0);
        check_invariants();
        end_holds();
        assert_false(blocked(&file, 100000, 100000));
    }
    ledger_file_forget(&file, false);
}

TEST(what_is_held_is_not_joined)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 30);
    write_unsettled(&file, 0, 100, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(try_write(&file, 100, 100, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    write_unsettled(&file, 200, 100, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(ledger_map.entries[file.index].records, 3);
    assert_true(blocked(&file, 99, 1) && !blocked(&file, 100, 100) && blocked(&file, 200, 1));
    ledger_file_forget(&file, false);
}

TEST(without_a_hold_nothing_waits)
{
    struct ledger_file file;
    attach(&file, 2);
    ledger_hold_set(0);
    write_unsettled(&file, 0, 100, LEDGER_WRITE_STABLE);
    assert_false(blocked(&file, 0, 100));
    assert_int_equal(ledger_file_await_writes(&file), 0);
}

/* A hold that is longer than the older one, of a part of the range only, shortens neither. */
TEST(a_second_hold_keeps_the_first)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 3);
    write_unsettled(&file, 0, 10000, LEDGER_WRITE_UNSTABLE);
    struct ledger_file again;
    assert_true(ledger_file_truncated_by_kernel(NUMBER_KEY(3), 5000, &again));
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 5000);
    assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 1);
    write.unsettled = true;
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    assert_true(blocked(&file, 0, 1));
    assert_true(blocked(&file, 9999, 1));
    assert_false(blocked(&file, 10000, 1));
}

/* A record may be used again for the bytes behind its own: see split(). */
TEST(a_second_hold_of_other_bytes_keeps_the_first)
{
    struct ledger_file file;
    attach(&file, 31);
    write_unsettled(&file, 0, 100, LEDGER_WRITE_UNSTABLE);
    uint32_t index = ledger_entry_lock(&file, false, NULL)->first;
    atomic_store(&ledger_record(index)->range, ledger_range(200, 300));
    ledger_record_hold(index);
    ledger_entry_unlock(&file);
    assert_true(blocked(&file, 0, 1));
    assert_true(blocked(&file, 299, 1));
    assert_false(blocked(&file, 300, 1));
    ledger_file_forget(&file, false);
}

TEST(a_commit_frees_the_data_and_not_the_range)
{
    struct ledger_file file;
    struct ledger_commit commit;
    attach(&file, 4);
    write_unsettled(&file, 0, 65536, LEDGER_WRITE_UNSTABLE);
    ledger_pocket_empty();
    uint32_t chunks = ledger_map.shared->free_chunks;
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    assert_int_equal(ledger_map.shared->free_chunks, chunks + 8);
    assert_true(blocked(&file, 65535, 1));
    check_invariants();
}

TEST(a_truncation_by_the_kernel_frees_the_data_and_not_the_range)
{
    struct ledger_file file;
    attach(&file, 5);
    write_unsettled(&file, 0, 10000, LEDGER_WRITE_UNSTABLE);
    struct ledger_file again;
    assert_true(ledger_file_truncated_by_kernel(NUMBER_KEY(5), 0, &again));
    assert_memory_equal(&again.key, &file.key,
                        offsetof(struct ledger_file_key, handle) + file.key.handle_length);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    assert_true(blocked(&file, 9999, 1));
    check_invariants();
}

/* What is held is found though the record ends before it; check_invariants() looks at the tree. */
TEST(a_record_that_is_cut_holds_what_it_had)
{
    struct ledger_file file, again;
    attach(&file, 28);
    write_unsettled(&file, 0, 10000, LEDGER_WRITE_UNSTABLE);
    assert_true(ledger_file_truncated_by_kernel(NUMBER_KEY(28), 4000, &again));
    check_invariants();
    assert_int_equal(ledger_file_uncommitted(&file), 4000);
    assert_true(blocked(&file, 9999, 1));
    assert_false(blocked(&file, 10000, 1));
    end_holds();
    assert_false(blocked(&file, 9999, 1));
    assert_int_equal(ledger_file_uncommitted(&file), 4000);
}

/* ---- replays ---- */

TEST(a_truncation_by_the_kernel_is_undone_by_a_replay)
{
    struct ledger_file file, again;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 20);
    write_unsettled(&file, 0, 1000, LEDGER_WRITE_UNSTABLE);
    end_holds();
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(ledger_replay_next(&file, &commit, false, &write), 1);
    assert_true(ledger_file_truncated_by_kernel(NUMBER_KEY(20), 0, &again));
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    ledger_file_truncate_begin(&again, 0);
    ledger_file_truncate_end(&again, 0, true);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

TEST(the_held_data_itself_is_written_again_at_once)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 6);
    write_unsettled(&file, 0, 1000, LEDGER_WRITE_UNSTABLE);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(ledger_replay_next(&file, &commit, false, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_true(blocked(&file, 0, 1));
}

TEST(a_replay_of_other_bytes_waits)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 7);
    assert_int_equal(try_write(&file, 0, 1000, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    write_unsettled(&file, 500, 10, LEDGER_WRITE_FAILED);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(ledger_replay_next(&file, &commit, false, &write), -EAGAIN);
    end_holds();
    assert_int_equal(ledger_replay_next(&file, &commit, false, &write), 1);
    write.unsettled = true; /* the replay itself moved to another path, and failed there */
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(ledger_file_uncommitted(&file), 1000);
    assert_true(blocked(&file, 999, 1));
    end_holds();
    ledger_file_forget(&file, false);
}

/* ---- who waits, waits long enough and not for ever ---- */

TEST(a_write_waits_until_the_hold_ends)
{
    struct ledger_file file;
    struct ledger_write write;
    struct iovec vector = {buffer, 10};
    attach(&file, 8);
    ledger_hold_set(SHORT_NS);
    uint64_t start = sys_now_ns();
    write_unsettled(&file, 0, 10, LEDGER_WRITE_STABLE);
    assert_int_equal(ledger_write_begin(&file, 5, &vector, 1, 10, true, &write), 0);
    assert_true(sys_now_ns() - start >= SHORT_NS);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
}

TEST(a_truncation_waits_only_for_what_it_cuts)
{
    struct ledger_file file;
    attach(&file, 9);
    write_unsettled(&file, 0, 1000, LEDGER_WRITE_STABLE);
    ledger_file_truncate_begin(&file, 1000); /* would wait for an hour */
    ledger_file_truncate_end(&file, 1000, true);
    end_holds();
    ledger_hold_set(SHORT_NS);
    uint64_t start = sys_now_ns();
    write_unsettled(&file, 0, 1000, LEDGER_WRITE_STABLE);
    ledger_file_truncate_begin(&file, 999);
    assert_true(sys_now_ns() - start >= SHORT_NS);
    ledger_file_truncate_end(&file, 999, true);
}

TEST(settling_waits_for_the_hold_and_for_writes_in_flight)
{
    struct ledger_file file, other;
    struct ledger_write write;
    attach(&file, 10);
    attach(&other, 11);
    write_unsettled(&other, 0, 10, LEDGER_WRITE_STABLE);
    ledger_hold_set(SHORT_NS);
    assert_int_equal(ledger_file_await_writes(&file), 0);
    uint64_t start = sys_now_ns();
    write_unsettled(&file, 0, 10, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(ledger_file_await_writes(&file), 0);
    assert_true(sys_now_ns() - start >= SHORT_NS);
    ledger_file_forget(&file, false);
    assert_int_equal(try_write(&file, 0, 10, true, &write), 0);
    assert_int_equal(ledger_file_await_writes(&file), -ETIMEDOUT);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(ledger_file_await_writes(&file), 0);
}

TEST(settling_waits_for_a_change_of_size)
{
    struct ledger_file file;
    attach(&file, 18);
    ledger_hold_set(SHORT_NS);
    ledger_file_truncate_begin(&file, 1000);
    assert_int_equal(ledger_file_await_writes(&file), -ETIMEDOUT);
    ledger_file_truncate_end(&file, 1000, true);
    assert_int_equal(ledger_file_await_writes(&file), 0);
}

TEST(ghosts_give_their_records_back)
{
    struct ledger_file file;
    attach(&file, 12);
    for (uint64_t i = 0; i < 500; i++)
        write_unsettled(&file, i * 70000, 10, (enum ledger_outcome)(i % 2));
    check_invariants();
    assert_true(blocked(&file, 499 * 70000, 1));
    ledger_pocket_empty();
    uint32_t before = ledger_map.shared->free_records;
    end_holds(); /* takes the lock of the stripe, and that is enough */
    assert_int_equal(ledger_map.shared->free_records, before + 500);
}

TEST(another_file_under_the_number_is_not_held)
{
    struct ledger_file file;
    struct ledger_file_key key;
    attach(&file, 13);
    write_unsettled(&file, 0, 10, LEDGER_WRITE_STABLE);
    write_unsettled(&file, 100, 10, LEDGER_WRITE_UNSTABLE);
    key_for(&key, 13);
    key.handle[9] = 1;
    ledger_file_attach(&file, &key, &(struct timespec){0}, &(uint64_t){0});
    assert_false(blocked(&file, 0, 200));
    check_invariants();
}

/* ---- several processes ---- */

static void is_free_after_the_holds(struct ledger_file *file, uint64_t size)
{
    check_invariants();
    end_holds();
    assert_false(blocked(file, 0, size));
    ledger_file_forget(file, false);
}

static int child_leaves_unsettled(void *argument)
{
    write_unsettled(argument, 0, 10, LEDGER_WRITE_STABLE);
    write_unsettled(argument, 100, 10, LEDGER_WRITE_UNSTABLE);
    return 0;
}

TEST(a_hold_outlives_its_process)
{
    struct ledger_file file;
    attach(&file, 14);
    assert_int_equal(run_child(child_leaves_unsettled, &file), 0);
    ledger_process_sweep(0);
    assert_true(blocked(&file, 0, 1));
    assert_true(blocked(&file, 109, 1));
    is_free_after_the_holds(&file, 200);
}

static int child_dies_writing(void *argument)
{
    struct ledger_write write;
    must(try_write(argument, 0, 100000, true, &write) == 0);
    kill(getpid(), SIGKILL);
    return 0;
}

static int child_dies_replaying(void *argument)
{
    struct ledger_commit commit;
    struct ledger_write write;
    ledger_commit_begin(argument, &commit);
    ledger_commit_end(argument, &commit, second_verifier);
    must(ledger_replay_next(argument, &commit, true, &write) == 1);
    kill(getpid(), SIGKILL);
    return 0;
}

TEST(what_a_killed_process_had_in_flight_is_held)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 15);
    assert_int_equal(run_child(child_dies_writing, &file), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_true(blocked(&file, 99999, 1));
    assert_false(blocked(&file, 100000, 1));
    check_invariants();
    end_holds();
    assert_int_equal(try_write(&file, 0, 100, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(run_child(child_dies_replaying, &file), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_true(blocked(&file, 99, 1));
    assert_int_equal(ledger_file_uncommitted(&file), 100);
    end_holds();
    ledger_file_forget(&file, false);
}

static int child_dies_truncating(void *argument)
{
    ledger_file_truncate_begin(argument, 1000);
    kill(getpid(), SIGKILL);
    return 0;
}

TEST(a_change_of_size_of_a_killed_process_is_held)
{
    struct ledger_file file, again;
    struct ledger_attributes attributes = {.size = 5000};
    uint64_t verified;
    attach(&file, 19);
    write_unsettled(&file, 0, 100, LEDGER_WRITE_UNSTABLE);
    end_holds();
    assert_int_equal(run_child(child_dies_truncating, &file), 128 + SIGKILL);
    ledger_process_sweep(0);
    assert_true(blocked(&file, 1000, 1));
    assert_true(blocked(&file, 0, 1001));
    assert_false(blocked(&file, 0, 1000));
    assert_true(ledger_file_truncated_by_kernel(NUMBER_KEY(19), 1000, &again));
    /* It may change at any time until the hold is over. */
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
    assert_false(ledger_file_attributes(&file, &attributes, &verified));
    ledger_entry_peek(&file)->truncate.held = 1;
    assert_false(blocked(&file, 0, 2000));
    assert_false(ledger_file_attributes(&file, &attributes, &verified));
    assert_int_equal(ledger_file_least_size(&file), 100);
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
    assert_true(ledger_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.size, 5000);
    ledger_file_forget(&file, false);
}

/* It may have made the file longer. The end of a hold is noticed a second late otherwise. */
TEST(who_appends_after_a_hold_asks_for_the_size)
{
    struct ledger_file file;
    struct ledger_attributes attributes = {.size = 100};
    struct ledger_append append = {.length = 10};
    attach(&file, 33);
    write_unsettled(&file, 100, 100, LEDGER_WRITE_FAILED);
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
    assert_int_equal(ledger_file_least_size(&file), 100);
    for (uint32_t i = 1; i < ledger_map.shared->next_record; i++) {
        if (ledger_record(i)->held_until)
            ledger_record(i)->held_until = 1;
    }
    assert_int_equal(ledger_append_begin(&file, &append, false), -ENODATA);
}

static int child_dies_with_the_lock(void *argument)
{
    struct ledger_file *file = argument;
    uint32_t stripe = ledger_stripe_of_file(file);
    write_unsettled(file, 0, 10, LEDGER_WRITE_FAILED);
    write_unsettled(file, 70000, 10, LEDGER_WRITE_UNSTABLE);
    ledger_stripe_lock(stripe);
    memset(&ledger_map.buckets[stripe * ledger_map.shared->bucket_count], 0,
           ledger_map.shared->bucket_count * sizeof(*ledger_map.buckets));
    ledger_map.shared->stripes[stripe].held_check = 0;
    kill(getpid(), SIGKILL);
    return 0;
}

TEST(a_hold_outlives_the_lists_it_was_in)
{
    struct ledger_file file;
    attach(&file, 16);
    assert_int_equal(run_child(child_dies_with_the_lock, &file), 128 + SIGKILL);
    assert_true(blocked(&file, 9, 1));
    assert_true(blocked(&file, 70009, 1));
    is_free_after_the_holds(&file, 80000);
}

static int child_overwrites(void *argument)
{
    return blocked(argument, 5, 1) ? 7 : 0;
}

TEST(another_process_waits_too)
{
    struct ledger_file file;
    attach(&file, 17);
    write_unsettled(&file, 0, 10, LEDGER_WRITE_STABLE);
    assert_int_equal(run_child(child_overwrites, &file), 7);
    end_holds();
    assert_int_equal(run_child(child_overwrites, &file), 0);
}

int main(void)
{
    return unit_run(open_holding, remove_run_directory);
}
