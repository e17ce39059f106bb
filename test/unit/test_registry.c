/* Files in the registry, their sizes and attributes: src/host/entry.c, attributes.c. */
#include "host_test.h"

#include <pthread.h>

static const uint8_t verifier[8] = {1};

static void write_bytes(struct host_file *file, uint64_t offset, size_t length,
                        enum host_outcome outcome)
{
    static uint8_t data[65536];
    struct iovec vector = {data, length};
    struct host_write write;
    must(host_write_begin(file, offset, &vector, 1, length, true, &write) == 0);
    host_write_end(file, &write, outcome, verifier);
}

static uint64_t size_of(struct host_file *file)
{
    struct host_attributes attributes;
    uint64_t verified;
    return host_file_attributes(file, &attributes, &verified) ? attributes.size : UINT64_MAX;
}

static void learn(struct host_file *file, uint64_t epoch, uint64_t size, long ctime)
{
    struct host_attributes attributes = {
        .size = size, .used = size * 2, .ctime = {ctime, 5}, .mtime = {ctime, 7}};
    host_file_learned(file, epoch, &attributes, (uint64_t)ctime);
}

static void learn_now(struct host_file *file, uint64_t size, long ctime)
{
    learn(file, host_file_asking(file), size, ctime);
}

/* ---- attributes ---- */

static void what_was_learned_is_known_to_all(void **state)
{
    (void)state;
    struct host_file file, other;
    struct host_attributes attributes;
    uint64_t verified;
    attach(&file, 1);
    assert_false(host_file_attributes(&file, &attributes, &verified));
    assert_false(host_file_peek(77, 1, &attributes));
    learn_now(&file, 1234, 100);
    attach(&other, 1);
    assert_true(host_file_attributes(&other, &attributes, &verified));
    assert_int_equal(attributes.size, 1234);
    assert_int_equal(attributes.used, 2468);
    assert_int_equal(attributes.ctime.tv_sec, 100);
    assert_int_equal(attributes.ctime.tv_nsec, 5);
    assert_int_equal(attributes.mtime.tv_nsec, 7);
    assert_int_equal(verified, 100);
    assert_true(host_file_peek(77, 1, &attributes));
    assert_int_equal(attributes.size, 1234);
    assert_false(host_file_peek(78, 1, &attributes));
}

static void the_size_grows_with_a_write_that_succeeds(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 2);
    learn_now(&file, 100, 1);
    write_bytes(&file, 50, 10, HOST_WRITE_STABLE);
    assert_int_equal(size_of(&file), 100);
    write_bytes(&file, 100, 10, HOST_WRITE_STABLE);
    assert_int_equal(size_of(&file), 110);
    write_bytes(&file, 200, 10, HOST_WRITE_FAILED);
    assert_int_equal(size_of(&file), 110);
}

static void a_reply_from_before_a_write_does_not_shrink(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 3);
    learn_now(&file, 100, 1);
    uint64_t epoch = host_file_asking(&file);
    write_bytes(&file, 100, 50, HOST_WRITE_STABLE);
    learn(&file, epoch, 100, 2);
    assert_int_equal(size_of(&file), 150);
    epoch = host_file_asking(&file);
    write_bytes(&file, 0, 1, HOST_WRITE_STABLE);
    learn(&file, epoch, 400, 3);
    assert_int_equal(size_of(&file), 400);
    learn_now(&file, 80, 4); /* nothing of ours meanwhile: someone elsewhere truncated it */
    assert_int_equal(size_of(&file), 80);
}

static void a_reply_from_before_a_truncation_changes_no_size(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 4);
    learn_now(&file, 1000, 1);
    uint64_t epoch = host_file_asking(&file);
    host_file_truncate_begin(&file, 10);
    host_file_truncate_end(&file, 10, true);
    assert_int_equal(size_of(&file), 10);
    learn(&file, epoch, 1000, 2);
    assert_int_equal(size_of(&file), 10);
}

static void after_a_truncation_that_failed_the_size_is_asked_for(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 81);
    learn_now(&file, 10, 1);
    host_file_truncate_begin(&file, 5);
    host_file_truncate_end(&file, 5, false);
    assert_int_equal(size_of(&file), UINT64_MAX);
    struct host_attributes attributes = {.size = 5, .ctime = {2, 0}};
    host_file_learned(&file, host_file_asking(&file), &attributes, sys_now_ns());
    assert_int_equal(size_of(&file), 5);
}

static void a_reply_that_was_overtaken_changes_no_size(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 82);
    learn_now(&file, 100, 1);
    learn_now(&file, 200, 3); /* someone elsewhere writes to it */
    learn_now(&file, 100, 2);
    assert_int_equal(size_of(&file), 200);
    uint64_t epoch = host_file_asking(&file);
    write_bytes(&file, 0, 1, HOST_WRITE_STABLE);
    learn_now(&file, 50, 4); /* and cuts it */
    learn(&file, epoch, 200, 3);
    assert_int_equal(size_of(&file), 50);
}

static void the_size_never_falls_below_uncommitted_data(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    attach(&file, 5);
    learn_now(&file, 0, 1);
    write_bytes(&file, 1000, 24, HOST_WRITE_UNSTABLE);
    learn_now(&file, 0, 2); /* the server was restarted and lost it */
    assert_int_equal(size_of(&file), 1024);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, verifier), 0);
    learn_now(&file, 7, 3);
    assert_int_equal(size_of(&file), 7);
}

static void times_follow_the_later_ctime(void **state)
{
    (void)state;
    struct host_file file;
    struct host_attributes attributes;
    uint64_t verified;
    attach(&file, 6);
    learn_now(&file, 1, 50);
    learn_now(&file, 2, 40); /* a reply that was overtaken */
    assert_true(host_file_attributes(&file, &attributes, &verified));
    assert_int_equal(attributes.ctime.tv_sec, 50);
    assert_int_equal(verified, 50);
}

static void a_truncation_drops_data_beyond(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 7);
    write_bytes(&file, 0, 30000, HOST_WRITE_UNSTABLE);
    host_file_truncate_begin(&file, 10000);
    host_file_truncate_end(&file, 10000, true);
    assert_int_equal(host_file_uncommitted(&file), 10000);
    uint64_t epoch = host_file_read_epoch(&file), replays = host_file_replays(&file);
    struct host_file again;
    assert_false(host_file_truncated_by_kernel(NUMBER_KEY(7), 0, &again));
    assert_int_equal(again.index, file.index);
    assert_int_equal(host_file_uncommitted(&file), 0);
    /* Who reads now finds no trace of what a server that restarted has lost. */
    assert_int_not_equal(host_file_read_epoch(&file), epoch);
    assert_int_equal(host_file_replays(&file), replays);
    assert_false(host_file_truncated_by_kernel(NUMBER_KEY(4711), 0, &again));
    assert_int_equal(again.generation, 0);
    check_invariants();
}

static _Atomic int wrote;
static void *write_beyond(void *argument)
{
    write_bytes(argument, 500, 10, HOST_WRITE_STABLE);
    atomic_store(&wrote, 1);
    return NULL;
}

static void writes_beyond_wait_for_a_truncation(void **state)
{
    (void)state;
    struct host_file file;
    pthread_t thread;
    attach(&file, 8);
    host_file_truncate_begin(&file, 100);
    assert_int_equal(pthread_create(&thread, NULL, write_beyond, &file), 0);
    write_bytes(&file, 0, 100, HOST_WRITE_STABLE); /* below it does not wait */
    usleep(150000);
    assert_int_equal(wrote, 0);
    host_file_truncate_end(&file, 100, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrote, 1);
}

static int child_dies_truncating(void *argument)
{
    host_file_truncate_begin(argument, 0);
    return 0;
}

static void a_dead_process_truncates_no_more(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 9);
    learn_now(&file, 100, 1);
    assert_int_equal(run_child(child_dies_truncating, &file), 0);
    write_bytes(&file, 0, 10, HOST_WRITE_STABLE); /* does not wait for ever */
    assert_int_equal(size_of(&file), UINT64_MAX); /* and the size must be asked for */
}

static uint64_t verified_at(struct host_file *file)
{
    struct host_attributes attributes;
    uint64_t verified = 0;
    assert_true(host_file_attributes(file, &attributes, &verified));
    return verified;
}

static void what_the_kernel_was_told_is_as_good_as_asked_for(void **state)
{
    (void)state;
    struct host_file file;
    struct host_attributes same = {.size = 100, .ctime = {1, 5}}, other = same;
    attach(&file, 21);
    host_file_confirmed(&file, &same, 1);
    assert_int_equal(size_of(&file), UINT64_MAX); /* nothing was known */
    host_file_learned(&file, host_file_asking(&file), &same, 1);
    host_file_confirmed(&file, &same, 10);
    assert_int_equal(verified_at(&file), 10);
    other.ctime.tv_nsec = 6;
    host_file_confirmed(&file, &other, 20);
    other = same;
    other.size = 101;
    host_file_confirmed(&file, &other, 20);
    host_file_confirmed(&file, &same, 5);
    assert_int_equal(verified_at(&file), 10);
    /* An answer that is on its way since before that still tells what is newer. */
    other.ctime.tv_nsec = 7;
    host_file_learned(&file, host_file_asking(&file), &other, 9);
    assert_int_equal(size_of(&file), 101);
}

/* ---- entries ---- */

/* Another file of that number. */
static void attach_twin(struct host_file *file, uint64_t inode, uint8_t which)
{
    struct host_file_key key;
    uint64_t lost;
    key_for(&key, inode);
    key.handle[15] = which;
    assert_true(host_file_attach(file, &key, &(struct timespec){1, 5}, &lost));
    assert_int_equal(lost, 0);
}

static unsigned files_of(const struct host_file_key *key)
{
    struct host_file file;
    uint32_t cursor = 0;
    unsigned count = 0;
    while (host_file_find(key, &cursor, &file))
        count++;
    return count;
}

static void two_files_of_one_number_keep_what_is_theirs(void **state)
{
    (void)state;
    struct host_file first, second, again;
    static uint8_t data[100];
    struct iovec vector = {data, 100};
    struct host_write in_flight;
    attach(&first, 11);
    learn_now(&first, 5000, 1);
    write_bytes(&first, 0, 5000, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_write_begin(&first, 9000, &vector, 1, 100, true, &in_flight), 0);
    attach_twin(&second, 11, 1);
    assert_int_equal(host_file_uncommitted(&second), 0);
    assert_int_equal(size_of(&second), UINT64_MAX);
    write_bytes(&second, 0, 10, HOST_WRITE_UNSTABLE);
    host_write_end(&first, &in_flight, HOST_WRITE_UNSTABLE, verifier);
    assert_int_equal(host_file_uncommitted(&first), 5100);
    assert_int_equal(host_file_uncommitted(&second), 10);
    attach(&again, 11);
    assert_int_equal(again.index, first.index);
    assert_int_equal(files_of(NUMBER_KEY(11)), 2);
    assert_int_equal(files_of(&second.key), 1);
    assert_false(host_file_lost(&first) || host_file_lost(&second));
    assert_false(host_file_truncated_by_kernel(&second.key, 0, &again));
    assert_int_equal(again.index, second.index);
    assert_int_equal(host_file_uncommitted(&first), 5100);
    assert_int_equal(host_file_uncommitted(&second), 0);
    assert_int_equal(host_file_forget(&first, false), 5100);
    check_invariants();
}

static void attributes_by_a_number_are_those_of_its_only_file(void **state)
{
    (void)state;
    struct host_file first, second;
    struct host_attributes attributes;
    attach(&first, 18);
    learn_now(&first, 100, 1);
    write_bytes(&first, 0, 10, HOST_WRITE_UNSTABLE);
    assert_true(host_file_peek(77, 18, &attributes));
    attach_twin(&second, 18, 1);
    learn_now(&second, 200, 1);
    assert_false(host_file_peek(77, 18, &attributes));
    host_file_forget(&first, false);
}

/* Numbers of removed files are used again all the time: that must not fill the registry. */
static void a_file_that_has_nothing_gives_its_place_to_the_next_of_its_number(void **state)
{
    (void)state;
    struct host_file first, second;
    struct host_attributes attributes;
    attach(&first, 19);
    learn_now(&first, 100, 1);
    attach_twin(&second, 19, 1);
    assert_int_equal(second.index, first.index);
    assert_int_equal(size_of(&second), UINT64_MAX);
    learn_now(&second, 200, 1);
    assert_true(host_file_peek(77, 19, &attributes));
    assert_int_equal(attributes.size, 200);
    assert_int_equal(size_of(&first), UINT64_MAX); /* if it still is there, it finds another */
    write_bytes(&first, 0, 10, HOST_WRITE_UNSTABLE);
    assert_int_equal(size_of(&second), 200);
    host_file_forget(&first, false);
    check_invariants();
}

/* ---- another handle for the same file ---- */

static const struct timespec at_one = {1, 5}, at_two = {2, 5}; /* as learn_now() */

/* The key that the file has since its server gave all files new handles. */
static struct host_file_key renamed_key(uint64_t inode)
{
    struct host_file_key key;
    key_for(&key, inode);
    key.handle[15] = 1;
    key.root = 1;
    return key;
}

static void a_new_handle_of_the_same_file_keeps_its_data(void **state)
{
    (void)state;
    struct host_file file, knows_it, later, forgot;
    struct host_file_key key = renamed_key(12);
    uint64_t lost;
    attach(&file, 12);
    attach(&knows_it, 12);
    attach(&forgot, 12);
    forgot.generation = 0;
    write_bytes(&file, 0, 100, HOST_WRITE_UNSTABLE);
    assert_true(host_file_rename(&file, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    write_bytes(&knows_it, 100, 100, HOST_WRITE_UNSTABLE);
    assert_true(host_file_attach(&later, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&later), 200);
    assert_int_equal(host_file_uncommitted(&forgot), 0); /* it must rename first */
    assert_true(host_file_rename(&forgot, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&forgot), 200);
    host_file_forget(&file, false);
    check_invariants();
}

static void another_root_and_the_same_change_time_prove_the_same_file(void **state)
{
    (void)state;
    struct host_file old, new;
    struct host_file_key key = renamed_key(13);
    uint64_t lost;
    attach(&old, 13);
    learn_now(&old, 100, 1);
    write_bytes(&old, 0, 100, HOST_WRITE_UNSTABLE);
    assert_true(host_file_attach(&new, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&new), 100);
    assert_true(host_file_rename(&old, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    host_file_forget(&new, false);
    check_invariants();
}

static void another_root_and_change_time_lose_the_data_aloud(void **state)
{
    (void)state;
    struct host_file old, new;
    struct host_file_key key = renamed_key(14);
    uint64_t lost;
    attach(&old, 14);
    learn_now(&old, 100, 1);
    write_bytes(&old, 0, 100, HOST_WRITE_UNSTABLE);
    host_world_leave(&old, true);
    assert_true(host_file_attach(&new, &key, &at_two, &lost));
    assert_int_equal(lost, 100);
    assert_int_equal(host_file_uncommitted(&new), 0);
    assert_true(host_world_is_kernel(&new)); /* it may be the same file */
    assert_true(host_file_rename(&old, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(host_file_lost(&old), i == 0);
        assert_int_equal(host_file_lost(&new), i == 0);
    }
    check_invariants();
}

/* As in snapshots: one number, one change time. */
static void two_files_that_may_be_the_same_are_not_taken_for_it(void **state)
{
    (void)state;
    struct host_file first, second, new;
    struct host_file_key key = renamed_key(20);
    uint64_t lost;
    attach(&first, 20);
    write_bytes(&first, 0, 100, HOST_WRITE_UNSTABLE);
    learn_now(&first, 100, 1);
    attach_twin(&second, 20, 2);
    write_bytes(&second, 0, 10, HOST_WRITE_UNSTABLE);
    learn_now(&second, 100, 1);
    assert_true(host_file_attach(&new, &key, &at_one, &lost));
    assert_int_equal(lost, 110);
    assert_int_equal(host_file_uncommitted(&new), 0);
    assert_int_equal(host_file_uncommitted(&first), 100);
    assert_int_equal(host_file_uncommitted(&second), 10);
    assert_true(host_file_rename(&first, &key, &at_one, &lost)); /* its user has a proof */
    assert_int_equal(lost, 100);
    assert_true(host_file_lost(&first));
    assert_int_equal(host_file_uncommitted(&second), 10);
    host_file_forget(&second, false);
    check_invariants();
}

static void a_loss_that_nobody_was_told_survives_another_handle(void **state)
{
    (void)state;
    struct host_file drops, later;
    struct host_file_key key = renamed_key(17);
    uint64_t lost;
    attach(&drops, 17);
    write_bytes(&drops, 0, 100, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_file_forget(&drops, true), 100);
    assert_true(host_file_attach(&later, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_true(host_file_lost(&later));
    assert_true(host_file_attach(&later, &key, &at_two, &lost));
    assert_false(host_file_lost(&later));
}

/* The process that was replacing the handle died. */
static void half_a_handle_is_of_no_file(void **state)
{
    (void)state;
    struct host_file file, again;
    struct host_write write;
    static uint8_t data[10];
    struct iovec vector = {data, 10};
    struct host_file_key key = renamed_key(15);
    uint64_t lost;
    attach(&file, 15);
    learn_now(&file, 100, 1);
    write_bytes(&file, 0, 100, HOST_WRITE_UNSTABLE);
    atomic_fetch_or(&host_map.entries[file.index].flags, HOST_ENTRY_RENAMING);
    again = file;
    again.generation = 0;
    assert_int_equal(host_write_begin(&again, 0, &vector, 10, 10, true, &write), -ESTALE);
    assert_true(host_file_rename(&file, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&file), 100);
    assert_true(host_file_attach(&again, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(host_file_uncommitted(&again), 100);
    host_file_forget(&file, false);
    check_invariants();
}

static void data_that_is_dropped_and_missed_is_told_to_all_once(void **state)
{
    (void)state;
    struct host_file drops, hears, comes_later, comes_last;
    attach(&drops, 16);
    attach(&hears, 16);
    write_bytes(&hears, 0, 100, HOST_WRITE_UNSTABLE);
    assert_int_equal(host_file_forget(&drops, true), 100);
    attach(&comes_later, 16);
    assert_false(host_file_lost(&drops)); /* it knows */
    assert_true(host_file_lost(&hears));
    assert_false(host_file_lost(&hears));
    assert_true(host_file_lost(&comes_later)); /* nobody was told when it came */
    assert_false(host_file_lost(&comes_later));
    attach(&comes_last, 16);
    assert_false(host_file_lost(&comes_last));
    check_invariants();
}

static void entries_without_data_are_recycled(void **state)
{
    (void)state;
    struct host_file first, with_data, file;
    attach(&first, 1000);
    learn_now(&first, 42, 1);
    attach(&with_data, 1001);
    write_bytes(&with_data, 0, 10, HOST_WRITE_UNSTABLE);
    uint64_t generation = first.generation;
    for (uint64_t i = 0; i < 2 * HOST_FILES; i++)
        attach(&file, 10000 + i);
    assert_int_equal(host_file_uncommitted(&with_data), 10);
    assert_int_equal(size_of(&first), UINT64_MAX);
    host_file_asking(&first); /* makes it again */
    assert_int_not_equal(first.generation, generation);
    learn_now(&first, 43, 2);
    assert_int_equal(size_of(&first), 43);
    host_file_forget(&with_data, false);
    check_invariants();
}

static void a_full_set_overflows_to_the_next(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    static struct host_file files[COUNT];
    uint64_t inodes[COUNT];
    uint32_t count = 0, set = UINT32_MAX, elsewhere = 0;
    /* While they have no data, files that belong into one set recycle each other's places there. */
    for (uint64_t inode = 5000000; count < COUNT; inode++) {
        attach(&files[0], inode);
        if (set == UINT32_MAX)
            set = files[0].index / HOST_SET_SIZE;
        if (files[0].index / HOST_SET_SIZE == set)
            inodes[count++] = inode;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        attach(&files[i], inodes[i]);
        write_bytes(&files[i], 0, 1, HOST_WRITE_UNSTABLE);
        elsewhere += files[i].index / HOST_SET_SIZE != set;
        assert_int_equal(host_stripe_of(files[i].index), set % HOST_STRIPES);
    }
    assert_int_equal(elsewhere, COUNT - HOST_SET_SIZE);
    for (uint32_t i = 0; i < COUNT; i++) {
        files[i].generation = 0; /* find it again by its key */
        assert_int_equal(host_file_uncommitted(&files[i]), 1);
        host_file_forget(&files[i], false);
    }
    check_invariants();
}

static struct host_file race_file;
static _Atomic int stop;
/* Fills a stripe with files that must not be forgotten. */
static void what_must_be_known_is_not_forgotten_for_room(void **state)
{
    enum { IN_A_STRIPE = HOST_FILES / HOST_STRIPES };
    struct host_file first, loser, file;
    struct host_file_key key;
    (void)state;
    attach(&first, 6000000);
    host_world_leave(&first, false);
    uint32_t stripe = host_stripe_of_file(&first), count = 1;
    uint64_t inode = 6000000, lost;
    bool room = true;
    while (room) {
        while (host_stripe_of_inode(77, ++inode) != stripe)
            ;
        key_for(&key, inode);
        room = host_file_attach(&file, &key, &(struct timespec){0}, &lost);
        if (room && ++count % 2) {
            host_world_leave(&file, false);
        } else if (room) {
            loser = file;
            write_bytes(&file, 0, 10, HOST_WRITE_UNSTABLE);
            host_file_forget(&file, true);
            attach(&loser, inode); /* knows of no loss yet */
        }
        assert_true(count <= IN_A_STRIPE);
    }
    first.generation = 0; /* find it again by its key */
    assert_true(host_world_is_kernel(&first));
    assert_true(host_file_lost(&loser));
}

static void *read_attributes(void *argument)
{
    struct host_attributes attributes;
    uint64_t verified;
    (void)argument;
    while (!atomic_load(&stop)) {
        if (!host_file_attributes(&race_file, &attributes, &verified) ||
            attributes.used != attributes.size * 2 ||
            attributes.ctime.tv_sec != (time_t)attributes.size)
            return "torn";
    }
    return NULL;
}

static void readers_without_a_lock_see_whole_attributes(void **state)
{
    (void)state;
    pthread_t threads[2];
    void *result;
    attach(&race_file, 12);
    learn_now(&race_file, 1, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_attributes, NULL), 0);
    for (long i = 2; i < 50000; i++)
        learn_now(&race_file, (uint64_t)i, i);
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
}

/* As by who opened the file before the kernel wrote it, and had to wait for the server since. */
static void a_size_of_before_the_file_came_back_is_not_learned(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 990001);
    struct host_attributes old = {.size = 100, .ctime = {5, 0}};
    uint64_t before = sys_now_ns();
    host_world_leave(&file, true);
    assert_true(host_world_arrived(&file));
    usleep(1000);
    assert_true(host_world_come_back(&file, host_world_pins(&file)));
    host_file_learned(&file, host_file_asking(&file), &old, before);
    assert_int_equal(size_of(&file), UINT64_MAX);
    host_file_learned(&file, host_file_asking(&file), &old, sys_now_ns());
    assert_int_equal(size_of(&file), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_learned_is_known_to_all),
        cmocka_unit_test(the_size_grows_with_a_write_that_succeeds),
        cmocka_unit_test(a_reply_from_before_a_write_does_not_shrink),
        cmocka_unit_test(a_reply_from_before_a_truncation_changes_no_size),
        cmocka_unit_test(after_a_truncation_that_failed_the_size_is_asked_for),
        cmocka_unit_test(a_reply_that_was_overtaken_changes_no_size),
        cmocka_unit_test(the_size_never_falls_below_uncommitted_data),
        cmocka_unit_test(times_follow_the_later_ctime),
        cmocka_unit_test(a_truncation_drops_data_beyond),
        cmocka_unit_test(writes_beyond_wait_for_a_truncation),
        cmocka_unit_test(a_dead_process_truncates_no_more),
        cmocka_unit_test(a_size_of_before_the_file_came_back_is_not_learned),
        cmocka_unit_test(what_the_kernel_was_told_is_as_good_as_asked_for),
        cmocka_unit_test(two_files_of_one_number_keep_what_is_theirs),
        cmocka_unit_test(attributes_by_a_number_are_those_of_its_only_file),
        cmocka_unit_test(a_file_that_has_nothing_gives_its_place_to_the_next_of_its_number),
        cmocka_unit_test(two_files_that_may_be_the_same_are_not_taken_for_it),
        cmocka_unit_test(a_new_handle_of_the_same_file_keeps_its_data),
        cmocka_unit_test(another_root_and_the_same_change_time_prove_the_same_file),
        cmocka_unit_test(another_root_and_change_time_lose_the_data_aloud),
        cmocka_unit_test(half_a_handle_is_of_no_file),
        cmocka_unit_test(data_that_is_dropped_and_missed_is_told_to_all_once),
        cmocka_unit_test(a_loss_that_nobody_was_told_survives_another_handle),
        cmocka_unit_test(entries_without_data_are_recycled),
        cmocka_unit_test(a_full_set_overflows_to_the_next),
        cmocka_unit_test(readers_without_a_lock_see_whole_attributes),
        cmocka_unit_test(what_must_be_known_is_not_forgotten_for_room),
    };
    return cmocka_run_group_tests(tests, open_registry, remove_run_directory);
}
