/* Ranges of unknown fate: src/host/hold.c. */
#include "host_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define LONG_NS  UINT64_C(3600000000000) /* does not end within a test */
#define SHORT_NS UINT64_C(30000000)

static const uint8_t first_verifier[8] = {1}, second_verifier[8] = {2};
static uint8_t buffer[HOST_WRITE_MAX];

static int open_holding(void **state)
{
    if (make_run_directory(state))
        return -1;
    return host_registry_open(UNCOMMITTED_MAX, LONG_NS);
}

/* All holds end now. */
static void end_holds(void)
{
    for (uint32_t i = 1; i < host_map.shared->next_record; i++) {
        if (host_record(i)->held_until)
            host_record(i)->held_until = 1;
    }
    for (int i = 0; i < HOST_STRIPES; i++) {
        if (host_map.shared->stripes[i].held_check)
            host_map.shared->stripes[i].held_check = 1;
    }
    check_invariants();
}

static int clean_up(void **state)
{
    (void)state;
    host_process_sweep(0);
    end_holds();
    host_hold_set(LONG_NS);
    for (uint32_t i = 1; i < host_map.shared->next_record; i++)
        assert_int_not_equal(host_record(i)->state, HOST_RECORD_GHOST);
    return 0;
}

static int try_write(struct host_file *file, uint64_t offset, size_t length, bool keep,
                     struct host_write *write)
{
    struct iovec vector = {buffer, length};
    return host_write_try(file, offset, &vector, 1, length, keep, write);
}

static void write_unsettled(struct host_file *file, uint64_t offset, size_t length,
                            enum host_outcome outcome)
{
    struct host_write write;
    must(try_write(file, offset, length, true, &write) == 0);
    write.unsettled = true;
    host_write_end(file, &write, outcome, first_verifier);
}

static bool blocked(struct host_file *file, uint64_t offset, size_t length)
{
    struct host_write write;
    int result = try_write(file, offset, length, false, &write);
    if (result == 0)
        host_write_end(file, &write, HOST_WRITE_FAILED, NULL);
    must(result == 0 || result == -EAGAIN);
    return result == -EAGAIN;
}

static void whatever_the_outcome_the_range_is_held(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 1);
    for (int outcome = HOST_WRITE_FAILED; outcome <= HOST_WRITE_UNSTABLE; outcome++) {
        write_unsettled(&file, 100000, 100000, (enum host_outcome)outcome);
        assert_true(blocked(&file, 100000, 100000));
        assert_true(blocked(&file, 0, 100001));
        assert_true(blocked(&file, 199999, 1));
        assert_false(blocked(&file, 0, 100000));
        assert_false(blocked(&file, 200000, 100));
        assert_int_equal(host_file_uncommitted(&file), outcome == HOST_WRITE_UNSTABLE ? 100000 : 0);
        check_invariants();
        end_holds();
        assert_false(blocked(&file, 100000, 100000));
    }
    host_file_forget(&file, false);
}

static void without_a_hold_nothing_waits(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 2);
    host_hold_set(0);
    write_unsettled(&file, 0, 100, HOST_WRITE_STABLE);
    assert_false(blocked(&file, 0, 100));
    assert_int_equal(host_file_settle(&file), 0);
}

/* A hold that is longer than the older one, of a part of the range only, shortens neither. */
static void a_second_hold_keeps_the_first(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    struct host_write write;
    attach(&file, 3);
    write_unsettled(&file, 0, 10000, HOST_WRITE_UNSTABLE);
    struct host_file again;
    assert_true(host_file_truncated_by_kernel(NUMBER_KEY(3), 5000, &again));
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 5000);
    assert_int_equal(host_replay_next(&file, &commit, &write), 1);
    write.unsettled = true;
    host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    assert_int_equal(host_file_uncommitted(&file), 0);
    assert_true(blocked(&file, 0, 1));
    assert_true(blocked(&file, 9999, 1));
    assert_false(blocked(&file, 10000, 1));
}

static void a_commit_frees_the_data_and_not_the_range(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    attach(&file, 4);
    write_unsettled(&file, 0, 65536, HOST_WRITE_UNSTABLE);
    host_pocket_empty();
    uint32_t chunks = host_map.shared->free_chunks;
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(host_file_uncommitted(&file), 0);
    assert_int_equal(host_map.shared->free_chunks, chunks + 8);
    assert_true(blocked(&file, 65535, 1));
    check_invariants();
}

static void a_truncation_by_the_kernel_frees_the_data_and_not_the_range(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 5);
    write_unsettled(&file, 0, 10000, HOST_WRITE_UNSTABLE);
    struct host_file again;
    assert_true(host_file_truncated_by_kernel(NUMBER_KEY(5), 0, &again));
    assert_memory_equal(&again.key, &file.key,
                        offsetof(struct host_file_key, handle) + file.key.handle_length);
    assert_int_equal(host_file_uncommitted(&file), 0);
    assert_true(blocked(&file, 9999, 1));
    check_invariants();
}

/* ---- replays ---- */

static void a_truncation_by_the_kernel_is_undone_by_a_replay(void **state)
{
    (void)state;
    struct host_file file, again;
    struct host_commit commit;
    struct host_write write;
    attach(&file, 20);
    write_unsettled(&file, 0, 1000, HOST_WRITE_UNSTABLE);
    end_holds();
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(host_replay_try(&file, &commit, &write), 1);
    assert_true(host_file_truncated_by_kernel(NUMBER_KEY(20), 0, &again));
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    host_file_truncate_begin(&again, 0);
    host_file_truncate_end(&again, 0, true);
    assert_int_equal(host_file_uncommitted(&file), 0);
    check_invariants();
}

static void the_held_data_itself_is_written_again_at_once(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    struct host_write write;
    attach(&file, 6);
    write_unsettled(&file, 0, 1000, HOST_WRITE_UNSTABLE);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(host_replay_try(&file, &commit, &write), 1);
    host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    assert_true(blocked(&file, 0, 1));
}

static void a_replay_of_other_bytes_waits(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    struct host_write write;
    attach(&file, 7);
    assert_int_equal(try_write(&file, 0, 1000, true, &write), 0);
    host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
    write_unsettled(&file, 500, 10, HOST_WRITE_FAILED);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(host_replay_try(&file, &commit, &write), -EAGAIN);
    end_holds();
    assert_int_equal(host_replay_try(&file, &commit, &write), 1);
    write.unsettled = true; /* the replay itself moved to another path, and failed there */
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    assert_int_equal(host_file_uncommitted(&file), 1000);
    assert_true(blocked(&file, 999, 1));
    end_holds();
    host_file_forget(&file, false);
}

/* ---- who waits, waits long enough and not for ever ---- */

static void a_write_waits_until_the_hold_ends(void **state)
{
    (void)state;
    struct host_file file;
    struct host_write write;
    struct iovec vector = {buffer, 10};
    attach(&file, 8);
    host_hold_set(SHORT_NS);
    uint64_t start = sys_now_ns();
    write_unsettled(&file, 0, 10, HOST_WRITE_STABLE);
    assert_int_equal(host_write_begin(&file, 5, &vector, 1, 10, true, &write), 0);
    assert_true(sys_now_ns() - start >= SHORT_NS);
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
}

static void a_truncation_waits_only_for_what_it_cuts(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 9);
    write_unsettled(&file, 0, 1000, HOST_WRITE_STABLE);
    host_file_truncate_begin(&file, 1000); /* would wait for an hour */
    host_file_truncate_end(&file, 1000, true);
    end_holds();
    host_hold_set(SHORT_NS);
    uint64_t start = sys_now_ns();
    write_unsettled(&file, 0, 1000, HOST_WRITE_STABLE);
    host_file_truncate_begin(&file, 999);
    assert_true(sys_now_ns() - start >= SHORT_NS);
    host_file_truncate_end(&file, 999, true);
}

static void settling_waits_for_the_hold_and_for_writes_in_flight(void **state)
{
    (void)state;
    struct host_file file, other;
    struct host_write write;
    attach(&file, 10);
    attach(&other, 11);
    write_unsettled(&other, 0, 10, HOST_WRITE_STABLE);
    host_hold_set(SHORT_NS);
    assert_int_equal(host_file_settle(&file), 0);
    uint64_t start = sys_now_ns();
    write_unsettled(&file, 0, 10, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_file_settle(&file), 0);
    assert_true(sys_now_ns() - start >= SHORT_NS);
    host_file_forget(&file, false);
    assert_int_equal(try_write(&file, 0, 10, true, &write), 0);
    assert_int_equal(host_file_settle(&file), -ETIMEDOUT);
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    assert_int_equal(host_file_settle(&file), 0);
}

static void settling_waits_for_a_change_of_size(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 18);
    host_hold_set(SHORT_NS);
    host_file_truncate_begin(&file, 1000);
    assert_int_equal(host_file_settle(&file), -ETIMEDOUT);
    host_file_truncate_end(&file, 1000, true);
    assert_int_equal(host_file_settle(&file), 0);
}

static void ghosts_give_their_records_back(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 12);
    for (uint64_t i = 0; i < 500; i++)
        write_unsettled(&file, i * 70000, 10, (enum host_outcome)(i % 2));
    check_invariants();
    assert_true(blocked(&file, 499 * 70000, 1));
    host_pocket_empty();
    uint32_t before = host_map.shared->free_records;
    end_holds(); /* takes the lock of the stripe, and that is enough */
    assert_int_equal(host_map.shared->free_records, before + 500);
}

static void another_file_under_the_number_is_not_held(void **state)
{
    (void)state;
    struct host_file file;
    struct host_file_key key;
    attach(&file, 13);
    write_unsettled(&file, 0, 10, HOST_WRITE_STABLE);
    write_unsettled(&file, 100, 10, HOST_WRITE_UNSTABLE);
    key_for(&key, 13);
    key.handle[9] = 1;
    host_file_attach(&file, &key, &(struct timespec){0}, &(uint64_t){0});
    assert_false(blocked(&file, 0, 200));
    check_invariants();
}

/* ---- several processes ---- */

static int child_leaves_unsettled(void *argument)
{
    write_unsettled(argument, 0, 10, HOST_WRITE_STABLE);
    write_unsettled(argument, 100, 10, HOST_WRITE_UNSTABLE);
    return 0;
}

static void a_hold_outlives_its_process(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 14);
    assert_int_equal(run_child(child_leaves_unsettled, &file), 0);
    host_process_sweep(0);
    assert_true(blocked(&file, 0, 1));
    assert_true(blocked(&file, 109, 1));
    check_invariants();
    end_holds();
    assert_false(blocked(&file, 0, 200));
    host_file_forget(&file, false);
}

static int child_dies_writing(void *argument)
{
    struct host_write write;
    must(try_write(argument, 0, 100000, true, &write) == 0);
    kill(getpid(), SIGKILL);
    return 0;
}

static int child_dies_replaying(void *argument)
{
    struct host_commit commit;
    struct host_write write;
    host_commit_begin(argument, &commit);
    host_commit_end(argument, &commit, second_verifier);
    must(host_replay_next(argument, &commit, &write) == 1);
    kill(getpid(), SIGKILL);
    return 0;
}

static void what_a_killed_process_had_in_flight_is_held(void **state)
{
    (void)state;
    struct host_file file;
    struct host_write write;
    attach(&file, 15);
    assert_int_equal(run_child(child_dies_writing, &file), 128 + SIGKILL);
    host_process_sweep(0);
    assert_true(blocked(&file, 99999, 1));
    assert_false(blocked(&file, 100000, 1));
    check_invariants();
    end_holds();
    assert_int_equal(try_write(&file, 0, 100, true, &write), 0);
    host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(run_child(child_dies_replaying, &file), 128 + SIGKILL);
    host_process_sweep(0);
    assert_true(blocked(&file, 99, 1));
    assert_int_equal(host_file_uncommitted(&file), 100);
    end_holds();
    host_file_forget(&file, false);
}

static int child_dies_truncating(void *argument)
{
    host_file_truncate_begin(argument, 1000);
    kill(getpid(), SIGKILL);
    return 0;
}

static void a_change_of_size_of_a_killed_process_is_held(void **state)
{
    (void)state;
    struct host_file file, again;
    struct host_attributes attributes = {.size = 5000};
    uint64_t verified;
    attach(&file, 19);
    write_unsettled(&file, 0, 100, HOST_WRITE_UNSTABLE);
    end_holds();
    assert_int_equal(run_child(child_dies_truncating, &file), 128 + SIGKILL);
    host_process_sweep(0);
    assert_true(blocked(&file, 1000, 1));
    assert_true(blocked(&file, 0, 1001));
    assert_false(blocked(&file, 0, 1000));
    assert_true(host_file_truncated_by_kernel(NUMBER_KEY(19), 1000, &again));
    /* It may change at any time until the hold is over. */
    host_file_learned(&file, host_file_asking(&file), &attributes, 1);
    assert_false(host_file_attributes(&file, &attributes, &verified));
    host_entry_peek(&file)->truncate_held = 1;
    assert_false(blocked(&file, 0, 2000));
    assert_false(host_file_attributes(&file, &attributes, &verified));
    assert_int_equal(host_file_least_size(&file), 100);
    host_file_learned(&file, host_file_asking(&file), &attributes, sys_now_ns());
    assert_true(host_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.size, 5000);
    host_file_forget(&file, false);
}

static int child_dies_with_the_lock(void *argument)
{
    struct host_file *file = argument;
    uint32_t stripe = host_stripe_of_file(file);
    write_unsettled(file, 0, 10, HOST_WRITE_FAILED);
    write_unsettled(file, 70000, 10, HOST_WRITE_UNSTABLE);
    host_stripe_lock(stripe);
    memset(&host_map.buckets[stripe * host_map.shared->bucket_count], 0,
           host_map.shared->bucket_count * sizeof(uint32_t));
    host_map.shared->stripes[stripe].held_check = 0;
    kill(getpid(), SIGKILL);
    return 0;
}

static void a_hold_outlives_the_lists_it_was_in(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 16);
    assert_int_equal(run_child(child_dies_with_the_lock, &file), 128 + SIGKILL);
    assert_true(blocked(&file, 9, 1));
    assert_true(blocked(&file, 70009, 1));
    check_invariants();
    end_holds();
    assert_false(blocked(&file, 0, 80000));
    host_file_forget(&file, false);
}

static int child_overwrites(void *argument)
{
    return blocked(argument, 5, 1) ? 7 : 0;
}

static void another_process_waits_too(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 17);
    write_unsettled(&file, 0, 10, HOST_WRITE_STABLE);
    assert_int_equal(run_child(child_overwrites, &file), 7);
    end_holds();
    assert_int_equal(run_child(child_overwrites, &file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whatever_the_outcome_the_range_is_held, clean_up),
        cmocka_unit_test_teardown(without_a_hold_nothing_waits, clean_up),
        cmocka_unit_test_teardown(a_second_hold_keeps_the_first, clean_up),
        cmocka_unit_test_teardown(a_commit_frees_the_data_and_not_the_range, clean_up),
        cmocka_unit_test_teardown(a_truncation_by_the_kernel_frees_the_data_and_not_the_range,
                                  clean_up),
        cmocka_unit_test_teardown(a_truncation_by_the_kernel_is_undone_by_a_replay, clean_up),
        cmocka_unit_test_teardown(the_held_data_itself_is_written_again_at_once, clean_up),
        cmocka_unit_test_teardown(a_replay_of_other_bytes_waits, clean_up),
        cmocka_unit_test_teardown(a_write_waits_until_the_hold_ends, clean_up),
        cmocka_unit_test_teardown(a_truncation_waits_only_for_what_it_cuts, clean_up),
        cmocka_unit_test_teardown(settling_waits_for_the_hold_and_for_writes_in_flight, clean_up),
        cmocka_unit_test_teardown(settling_waits_for_a_change_of_size, clean_up),
        cmocka_unit_test_teardown(a_change_of_size_of_a_killed_process_is_held, clean_up),
        cmocka_unit_test_teardown(ghosts_give_their_records_back, clean_up),
        cmocka_unit_test_teardown(another_file_under_the_number_is_not_held, clean_up),
        cmocka_unit_test_teardown(a_hold_outlives_its_process, clean_up),
        cmocka_unit_test_teardown(what_a_killed_process_had_in_flight_is_held, clean_up),
        cmocka_unit_test_teardown(a_hold_outlives_the_lists_it_was_in, clean_up),
        cmocka_unit_test_teardown(another_process_waits_too, clean_up),
    };
    return cmocka_run_group_tests(tests, open_holding, remove_run_directory);
}
