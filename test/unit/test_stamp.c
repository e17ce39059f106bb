/* What of a file was read before it is wanted, and may be given out: src/ledger/stamp.c; and how
 * much: quota.c. */
#include "ledger_test.h"

#include "ledger/dirty.h"
#include "ledger/stamp.h"
#include "ledger/store/quota.h"
#include "ledger/store/stripes.h"
#include "ledger/world.h"

enum { MOST = 1000000, AHEAD = LEDGER_STAMP_SIZE | LEDGER_STAMP_FRESH };

static struct ledger_attributes attributes_at(time_t seconds)
{
    struct ledger_attributes attributes = {.size = MODEL_BYTES};
    attributes.mtime.tv_sec = attributes.ctime.tv_sec = seconds;
    return attributes;
}

static void server_tells(struct ledger_file *file, time_t seconds)
{
    struct ledger_attributes attributes = attributes_at(seconds);
    ledger_file_learned(file, ledger_file_asking(file), &attributes, sys_now_ns());
}

static void data_tell(struct ledger_file *file, time_t seconds)
{
    struct ledger_attributes attributes = attributes_at(seconds);
    ledger_file_saw(file, ledger_file_asking(file), &attributes, sys_now_ns());
}

static void begin_stamp(struct ledger_file *file, struct ledger_stamp *stamp)
{
    assert_true(ledger_stamp_take_quiet(file, 0, LEDGER_STAMP_MAX, stamp));
    assert_true(ledger_stamp_lasts(file, stamp, AHEAD, 0, LEDGER_STAMP_MAX));
}

static int child_refreshes(void *file)
{
    ledger_file_refresh(file);
    return 0;
}

UNIT_TEST(who_opens_a_file_makes_what_all_have_of_it_old)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    attach(&file, 200);
    begin_stamp(&file, &stamp);
    assert_int_equal(run_child(child_refreshes, &file), 0);
    assert_false(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, 1));
    begin_stamp(&file, &stamp);
}

static int child_writes_it(void *file)
{
    write_kept(file, 0, 100, 2, first_verifier);
    return 0;
}

/* The kernel's pages of it are fresh, then: fd_show_kernel(). */
UNIT_TEST(it_is_known_whether_a_process_has_written_it)
{
    struct ledger_file file;
    attach(&file, 220);
    assert_false(ledger_number_written(file.key.device, file.key.inode)); /* it may have no entry */
    server_tells(&file, 10);
    assert_false(ledger_number_written(file.key.device, file.key.inode));
    assert_int_equal(run_child(child_writes_it, &file), 0);
    assert_true(ledger_number_written(file.key.device, file.key.inode));
    attach(&file, 221);
    server_tells(&file, 10);
    must(ledger_file_truncate_begin(&file, 100) == 0);
    ledger_file_truncate_end(&file, 100, true);
    assert_true(ledger_number_written(file.key.device, file.key.inode));
}

/* Other files take the place of one that was written. */
UNIT_TEST(what_was_written_and_forgotten_is_not_called_unwritten)
{
    struct ledger_file file, other;
    attach(&file, 222);
    write_stable(&file, 0, 100);
    uint64_t generation = file.generation;
    for (uint64_t number = 100000; ledger_entry_remembered(&file); number++) {
        attach(&other, number);
        server_tells(&other, 10);
    }
    must(generation != 0);
    assert_true(ledger_number_written(file.key.device, file.key.inode));
}

UNIT_TEST(a_change_by_others_makes_it_old)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    attach(&file, 201);
    server_tells(&file, 10);
    begin_stamp(&file, &stamp);
    server_tells(&file, 10);
    data_tell(&file, 10);
    data_tell(&file, 9); /* from a cache */
    assert_true(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
    server_tells(&file, 11);
    assert_false(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
    begin_stamp(&file, &stamp);
    data_tell(&file, 12);
    assert_false(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
    begin_stamp(&file, &stamp);
    data_tell(&file, 12);
    assert_true(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
}

/* The answers to READ come with the times that a write of this host made. */
UNIT_TEST(a_write_of_this_host_elsewhere_does_not)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    struct ledger_write write;
    attach(&file, 202);
    server_tells(&file, 10);
    begin_stamp(&file, &stamp);
    assert_int_equal(begin(&file, 2 * LEDGER_STAMP_MAX, 100, true, &write), 0);
    data_tell(&file, 11);
    assert_true(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
}

/* They may be one file, and writes to the other entry are not seen in this one. */
UNIT_TEST(what_is_read_of_several_files_of_one_number_is_not_given_out)
{
    struct ledger_file file, twin;
    struct ledger_stamp stamp;
    struct ledger_file_key key = {.device = 1, .inode = 203, .handle_length = 1};
    uint64_t lost;
    assert_true(ledger_file_attach(&file, &key, &(struct timespec){0}, &lost));
    write_kept(&file, 2 * LEDGER_STAMP_MAX, 100, 'w', first_verifier); /* it keeps its place */
    begin_stamp(&file, &stamp);
    key.handle[0] = 1;
    assert_true(ledger_file_attach(&twin, &key, &(struct timespec){0}, &lost));
    assert_false(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
    assert_false(ledger_stamp_take_quiet(&file, 0, LEDGER_STAMP_MAX, &stamp));
    assert_false(ledger_stamp_take_quiet(&twin, 0, LEDGER_STAMP_MAX, &stamp));
    ledger_file_forget(&file, false);
}

static int child_dies_with_the_lock(void *file)
{
    must(ledger_entry_lock(file, false, NULL) != NULL);
    kill(getpid(), SIGKILL);
    return 2;
}

/* The process that died may have had a write there half announced. */
UNIT_TEST(what_was_read_before_a_death_with_the_lock_is_not_given_out)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    attach(&file, 204);
    begin_stamp(&file, &stamp);
    assert_int_equal(run_child(child_dies_with_the_lock, &file), 128 + SIGKILL);
    ledger_stripe_lock(ledger_stripe_of_file(&file));
    ledger_stripe_unlock(ledger_stripe_of_file(&file));
    assert_false(ledger_stamp_lasts(&file, &stamp, 0, 0, LEDGER_STAMP_MAX));
    begin_stamp(&file, &stamp);
}

UNIT_TEST(what_was_read_before_the_kernel_had_the_file_is_old)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    attach(&file, 205);
    server_tells(&file, 10);
    begin_stamp(&file, &stamp);
    ledger_world_leave(&file, true);
    assert_true(ledger_world_arrived(&file));
    assert_true(ledger_world_come_back(&file, ledger_world_pins(&file)));
    assert_false(ledger_stamp_lasts(&file, &stamp, AHEAD, 0, LEDGER_STAMP_MAX));
    assert_false(ledger_stamp_end_lasts(&file, &stamp, MODEL_BYTES));
}

static int child_takes(void *ready)
{
    must(!ledger_quota_take(MOST / 4 + 1, MOST));
    must(ledger_quota_take(MOST / 4, MOST));
    must(!ledger_quota_take(1, MOST));
    must(sys_write(*(int *)ready, "x", 1) == 1);
    pause();
    return 2;
}

/* No process gets more than it leaves. */
UNIT_TEST(what_is_read_ahead_is_bounded_for_the_host)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    assert_true(ledger_quota_take(10, MOST));
    assert_false(ledger_quota_take(MOST / 2 - 9, MOST));
    assert_true(ledger_quota_take(MOST / 2 - 10, MOST));
    ledger_quota_give(10);
    assert_true(ledger_quota_take(10, MOST));
    pid_t child = start_child(child_takes, &ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    ledger_quota_give(MOST / 4);
    assert_false(ledger_quota_take(MOST / 4, MOST));
    kill(child, SIGKILL);
    end_child(child);
    for (unsigned i = 0; !ledger_quota_take(MOST / 4, MOST); i++) { /* it is dead */
        assert_in_range(i, 0, 1000);
        usleep(10000);
    }
    assert_int_equal(atomic_load(&ledger_map.shared->ahead), MOST / 2);
    ledger_quota_give(MOST / 2);
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
