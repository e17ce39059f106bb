/* Files in the registry: src/ledger/entries.c. */
#include "entries_scene.h"
#include "rounds.h"

/* Another file of that number. */
static void attach_twin(struct ledger_file *file, uint64_t inode, uint8_t which)
{
    struct ledger_file_key key;
    uint64_t lost;
    key_for(&key, inode);
    key.handle[15] = which;
    assert_true(ledger_file_attach(file, &key, &(struct timespec){1, 5}, &lost));
    assert_int_equal(lost, 0);
}

static unsigned files_of(const struct ledger_file_key *key)
{
    struct ledger_file file;
    uint32_t cursor = 0;
    unsigned count = 0;
    while (ledger_file_find(key, &cursor, &file))
        count++;
    return count;
}

UNIT_TEST(two_files_of_one_number_keep_what_is_theirs)
{
    struct ledger_file first, second, again;
    static uint8_t data[100];
    struct iovec vector = {data, 100};
    struct ledger_write in_flight;
    attach_learned(&first, 11, 5000, 1);
    write_bytes(&first, 0, 5000, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(ledger_write_begin(&first, 9000, &vector, 1, 100, true, &in_flight), 0);
    attach_twin(&second, 11, 1);
    assert_int_equal(ledger_file_uncommitted(&second), 0);
    assert_int_equal(size_of(&second), UINT64_MAX);
    write_bytes(&second, 0, 10, LEDGER_WRITE_UNSTABLE);
    ledger_write_end(&first, &in_flight, LEDGER_WRITE_UNSTABLE, verifier);
    assert_int_equal(ledger_file_uncommitted(&first), 5100);
    assert_int_equal(ledger_file_uncommitted(&second), 10);
    attach(&again, 11);
    assert_int_equal(again.index, first.index);
    assert_int_equal(files_of(NUMBER_KEY(11)), 2);
    assert_int_equal(files_of(&second.key), 1);
    assert_false(ledger_file_lost(&first) || ledger_file_lost(&second));
    assert_false(ledger_file_truncated_by_kernel(&second.key, 0, &again));
    assert_int_equal(again.index, second.index);
    assert_int_equal(ledger_file_uncommitted(&first), 5100);
    assert_int_equal(ledger_file_uncommitted(&second), 0);
    assert_int_equal(ledger_file_forget(&first, false), 5100);
    check_invariants();
}

UNIT_TEST(attributes_by_a_number_are_those_of_its_only_file)
{
    struct ledger_file first, second;
    struct ledger_attributes attributes;
    attach_learned(&first, 18, 100, 1);
    write_bytes(&first, 0, 10, LEDGER_WRITE_UNSTABLE);
    assert_true(ledger_file_peek(77, 18, &attributes));
    attach_twin(&second, 18, 1);
    learn_now(&second, 200, 1);
    assert_false(ledger_file_peek(77, 18, &attributes));
    ledger_file_forget(&first, false);
}

/* Numbers of removed files are used again all the time: that must not fill the registry. */
UNIT_TEST(a_file_that_has_nothing_gives_its_place_to_the_next_of_its_number)
{
    struct ledger_file first, second;
    struct ledger_attributes attributes;
    attach_learned(&first, 19, 100, 1);
    attach_twin(&second, 19, 1);
    assert_int_equal(second.index, first.index);
    assert_int_equal(size_of(&second), UINT64_MAX);
    learn_now(&second, 200, 1);
    assert_true(ledger_file_peek(77, 19, &attributes));
    assert_int_equal(attributes.size, 200);
    assert_int_equal(size_of(&first), UINT64_MAX); /* if it still is there, it finds another */
    write_bytes(&first, 0, 10, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(size_of(&second), 200);
    ledger_file_forget(&first, false);
    check_invariants();
}

/* ---- another handle for the same file ---- */

static const struct timespec at_one = {1, 5}, at_two = {2, 5}; /* as learn_now() */

/* The key that the file has since its server gave all files new handles. */
static struct ledger_file_key renamed_key(uint64_t inode)
{
    struct ledger_file_key key;
    key_for(&key, inode);
    key.handle[15] = 1;
    key.root = 1;
    return key;
}

UNIT_TEST(a_new_handle_of_the_same_file_keeps_its_data)
{
    struct ledger_file file, knows_it, later, forgot;
    struct ledger_file_key key = renamed_key(12);
    uint64_t lost;
    attach(&file, 12);
    attach(&knows_it, 12);
    attach(&forgot, 12);
    forgot.generation = 0;
    write_bytes(&file, 0, 100, LEDGER_WRITE_UNSTABLE);
    assert_true(ledger_file_rename(&file, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    write_bytes(&knows_it, 100, 100, LEDGER_WRITE_UNSTABLE);
    assert_true(ledger_file_attach(&later, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(ledger_file_uncommitted(&later), 200);
    assert_int_equal(ledger_file_uncommitted(&forgot), 0); /* it must rename first */
    assert_true(ledger_file_rename(&forgot, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(ledger_file_uncommitted(&forgot), 200);
    ledger_file_forget(&file, false);
    check_invariants();
}

static void attach_with_data(struct ledger_file *file, uint64_t inode)
{
    attach_learned(file, inode, 100, 1);
    write_bytes(file, 0, 100, LEDGER_WRITE_UNSTABLE);
}

UNIT_TEST(another_root_and_the_same_change_time_prove_the_same_file)
{
    struct ledger_file old, new;
    struct ledger_file_key key = renamed_key(13);
    uint64_t lost;
    attach_with_data(&old, 13);
    assert_true(ledger_file_attach(&new, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    assert_int_equal(ledger_file_uncommitted(&new), 100);
    assert_true(ledger_file_rename(&old, &key, &at_one, &lost));
    assert_int_equal(lost, 0);
    ledger_file_forget(&new, false);
    check_invariants();
}

UNIT_TEST(another_root_and_change_time_lose_the_data_aloud)
{
    struct ledger_file old, new;
    struct ledger_file_key key = renamed_key(14);
    uint64_t lost;
    attach_with_data(&old, 14);
    ledger_world_leave(&old, true);
    assert_true(ledger_file_attach(&new, &key, &at_two, &lost));
    assert_int_equal(lost, 100);
    assert_int_equal(ledger_file_uncommitted(&new), 0);
    assert_true(ledger_world_is_kernel(&new)); /* it may be the same file */
    assert_true(ledger_file_rename(&old, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ledger_file_lost(&old), i == 0);
        assert_int_equal(ledger_file_lost(&new), i == 0);
    }
    check_invariants();
}

/* As in snapshots: one number, one change time. */
UNIT_TEST(two_files_that_may_be_the_same_are_not_taken_for_it)
{
    struct ledger_file first, second, new;
    struct ledger_file_key key = renamed_key(20);
    uint64_t lost;
    attach(&first, 20);
    write_bytes(&first, 0, 100, LEDGER_WRITE_UNSTABLE);
    learn_now(&first, 100, 1);
    attach_twin(&second, 20, 2);
    write_bytes(&second, 0, 10, LEDGER_WRITE_UNSTABLE);
    learn_now(&second, 100, 1);
    assert_true(ledger_file_attach(&new, &key, &at_one, &lost));
    assert_int_equal(lost, 110);
    assert_int_equal(ledger_file_uncommitted(&new), 0);
    assert_int_equal(ledger_file_uncommitted(&first), 100);
    assert_int_equal(ledger_file_uncommitted(&second), 10);
    assert_true(ledger_file_rename(&first, &key, &at_one, &lost)); /* its user has a proof */
    assert_int_equal(lost, 100);
    assert_true(ledger_file_lost(&first));
    assert_int_equal(ledger_file_uncommitted(&second), 10);
    ledger_file_forget(&second, false);
    check_invariants();
}

UNIT_TEST(a_loss_that_nobody_was_told_survives_another_handle)
{
    struct ledger_file drops, later;
    struct ledger_file_key key = renamed_key(17);
    uint64_t lost;
    attach(&drops, 17);
    write_bytes(&drops, 0, 100, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(ledger_file_forget(&drops, true), 100);
    assert_true(ledger_file_attach(&later, &key, &at_two, &lost));
    assert_int_equal(lost, 0);
    assert_true(ledger_file_lost(&later));
    assert_true(ledger_file_attach(&later, &key, &at_two, &lost));
    assert_false(ledger_file_lost(&later));
}

UNIT_TEST(data_that_is_dropped_and_missed_is_told_to_all_once)
{
    struct ledger_file drops, hears, comes_later, comes_last;
    attach(&drops, 16);
    attach(&hears, 16);
    write_bytes(&hears, 0, 100, LEDGER_WRITE_UNSTABLE);
    assert_int_equal(ledger_file_forget(&drops, true), 100);
    attach(&comes_later, 16);
    assert_false(ledger_file_lost(&drops)); /* it knows */
    assert_true(ledger_file_lost(&hears));
    assert_false(ledger_file_lost(&hears));
    assert_true(ledger_file_lost(&comes_later)); /* nobody was told when it came */
    assert_false(ledger_file_lost(&comes_later));
    attach(&comes_last, 16);
    assert_false(ledger_file_lost(&comes_last));
    check_invariants();
}

UNIT_TEST(entries_without_data_are_recycled)
{
    struct ledger_file first, with_data, file;
    attach_learned(&first, 1000, 42, 1);
    attach(&with_data, 1001);
    write_bytes(&with_data, 0, 10, LEDGER_WRITE_UNSTABLE);
    uint64_t generation = first.generation;
    for (uint64_t i = 0; i < 2 * LEDGER_FILES; i++)
        attach(&file, 10000 + i);
    assert_int_equal(ledger_file_uncommitted(&with_data), 10);
    assert_int_equal(size_of(&first), UINT64_MAX);
    ledger_file_asking(&first); /* makes it again */
    assert_int_not_equal(first.generation, generation);
    learn_now(&first, 43, 2);
    assert_int_equal(size_of(&first), 43);
    ledger_file_forget(&with_data, false);
    check_invariants();
}

UNIT_TEST(a_full_set_overflows_to_the_next)
{
    enum { COUNT = 40 };
    static struct ledger_file files[COUNT];
    uint64_t inodes[COUNT];
    uint32_t count = 0, set = UINT32_MAX, elsewhere = 0;
    /* While they have no data, files that belong into one set recycle each other's places there. */
    for (uint64_t inode = 5000000; count < COUNT; inode++) {
        attach(&files[0], inode);
        if (set == UINT32_MAX)
            set = files[0].index / LEDGER_SET_SIZE;
        if (files[0].index / LEDGER_SET_SIZE == set)
            inodes[count++] = inode;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        attach(&files[i], inodes[i]);
        write_bytes(&files[i], 0, 1, LEDGER_WRITE_UNSTABLE);
        elsewhere += files[i].index / LEDGER_SET_SIZE != set;
        assert_int_equal(ledger_stripe_of(files[i].index), set % LEDGER_STRIPES);
    }
    assert_int_equal(elsewhere, COUNT - LEDGER_SET_SIZE);
    for (uint32_t i = 0; i < COUNT; i++) {
        files[i].generation = 0; /* find it again by its key */
        assert_int_equal(ledger_file_uncommitted(&files[i]), 1);
        ledger_file_forget(&files[i], false);
    }
    check_invariants();
}

static struct ledger_file race_file;
static _Atomic int stop;
/* Fills a stripe with files that must not be forgotten. */
UNIT_TEST(what_must_be_known_is_not_forgotten_for_room)
{
    enum { IN_A_STRIPE = LEDGER_FILES / LEDGER_STRIPES };
    struct ledger_file first, loser, file;
    struct ledger_file_key key;
    attach(&first, 6000000);
    ledger_world_leave(&first, false);
    uint32_t stripe = ledger_stripe_of_file(&first), count = 1;
    uint64_t inode = 6000000, lost;
    bool room = true;
    while (room) {
        while (ledger_stripe_of_inode(77, ++inode) != stripe)
            ;
        key_for(&key, inode);
        room = ledger_file_attach(&file, &key, &(struct timespec){0}, &lost);
        if (room && ++count % 2) {
            ledger_world_leave(&file, false);
        } else if (room) {
            loser = file;
            write_bytes(&file, 0, 10, LEDGER_WRITE_UNSTABLE);
            ledger_file_forget(&file, true);
            attach(&loser, inode); /* knows of no loss yet */
        }
        assert_true(count <= IN_A_STRIPE);
    }
    first.generation = 0; /* find it again by its key */
    assert_true(ledger_world_is_kernel(&first));
    assert_true(ledger_file_lost(&loser));
}

static void *read_attributes(void *argument)
{
    struct ledger_attributes attributes;
    uint64_t verified;
    (void)argument;
    while (!atomic_load(&stop)) {
        if (!ledger_file_attributes(&race_file, &attributes, &verified) ||
            attributes.used != attributes.size * 2 ||
            attributes.ctime.tv_sec != (time_t)attributes.size)
            return "torn";
    }
    return NULL;
}

UNIT_TEST(readers_without_a_lock_see_whole_attributes)
{
    pthread_t threads[2];
    void *result;
    attach_learned(&race_file, 12, 1, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_attributes, NULL), 0);
    for (long i = 2; i < rounds_of(50000); i++)
        learn_now(&race_file, (uint64_t)i, i);
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
}

/* As by who opened the file before the kernel wrote it, and had to wait for the server since. */
UNIT_TEST(a_size_of_before_the_file_came_back_is_not_learned)
{
    struct ledger_file file;
    attach(&file, 990001);
    struct ledger_attributes old = {.size = 100, .ctime = {5, 0}};
    uint64_t before = sys_now_ns();
    ledger_world_leave(&file, true);
    assert_true(ledger_world_arrived(&file));
    usleep(1000);
    assert_true(ledger_world_come_back(&file, ledger_world_pins(&file)));
    ledger_file_learned(&file, ledger_file_asking(&file), &old, before);
    assert_int_equal(size_of(&file), UINT64_MAX);
    ledger_file_learned(&file, ledger_file_asking(&file), &old, sys_now_ns());
    assert_int_equal(size_of(&file), 100);
}

/* ---- pins ---- */

enum { MANY_PINS = 2000 };

static int child_pins_many(void *end)
{
    char byte = 0;
    for (uint64_t inode = 0; inode < MANY_PINS; inode++)
        must(ledger_world_pin(99, inode, "test"));
    must(write(*(int *)end, &byte, 1) == 1);
    must(read(*(int *)end, &byte, 1) == 1);
    return 0;
}

static unsigned pinned_from(uint64_t first)
{
    unsigned count = 0;
    for (uint64_t inode = first; inode < first + MANY_PINS; inode++)
        count += ledger_world_is_pinned(99, inode);
    return count;
}

UNIT_TEST(a_process_pins_as_many_files_as_it_likes)
{
    int ends[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t child = start_child(child_pins_many, &ends[0]);
    close(ends[0]);
    assert_int_equal(read(ends[1], &byte, 1), 1);
    assert_int_equal(pinned_from(0), MANY_PINS);
    assert_int_equal(write(ends[1], &byte, 1), 1);
    assert_int_equal(end_child(child), 0);
    assert_int_equal(pinned_from(0), 0);
    close(ends[1]);
}

static int child_pins_one_more(void *unused)
{
    (void)unused;
    for (uint64_t inode = 0; inode <= 1024; inode++)
        must(ledger_world_pin(99, inode, "test"));
    must(pinned_from(MANY_PINS) < MANY_PINS / 20); /* of others hardly any */
    return 0;
}

UNIT_TEST(one_file_too_many_pins_few_others)
{
    assert_int_equal(run_child(child_pins_one_more, NULL), 0);
}

/* Another process has opened it by its new handle when there was nothing to lose yet. */
UNIT_TEST(what_is_written_and_moved_by_an_older_handle_concerns_who_has_the_newer_one)
{
    struct ledger_file old, new, gone;
    struct ledger_file_key key = renamed_key(992);
    struct ledger_write write;
    struct iovec vector = {&vector, 1};
    uint64_t lost;
    int result = 0;
    attach(&old, 992);
    gone = old;
    assert_int_equal(ledger_write_begin(&old, 0, &vector, 1, 1, true, &write), 0);
    assert_true(ledger_file_attach(&new, &key, &at_two, &lost));
    ledger_write_end(&old, &write, LEDGER_WRITE_UNSTABLE, verifier);
    ledger_world_leave(&old, true);
    assert_false(ledger_world_is_kernel(&new));
    assert_true(ledger_file_rename(&old, &key, &at_two, &lost));
    assert_int_equal(old.index, new.index);
    assert_true(ledger_file_lost(&new));
    assert_true(ledger_world_is_kernel(&new));
    /* Who has the older handle only cannot go on with it. */
    assert_null(ledger_entry_lock(&gone, true, &result));
    assert_int_equal(result, -ESTALE);
}

UNIT_TEST(a_file_is_not_the_kernels_while_a_write_of_it_is_in_flight)
{
    struct ledger_file file;
    struct ledger_write write;
    struct ledger_beginning beginning = {.length = 10, .write = &write};
    attach(&file, 991);
    assert_int_equal(ledger_write_start(&file, &beginning, false), 0);
    ledger_world_leave(&file, true);
    assert_false(ledger_world_arrived(&file));
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_truncate_begin(&file, 5), LEDGER_OF_KERNEL);
    assert_true(ledger_world_arrived(&file));
}

/* Between the two looks the kernel may have written it. */
UNIT_TEST(a_file_that_is_moved_again_meanwhile_does_not_come_back)
{
    struct ledger_file file;
    attach(&file, 990);
    ledger_world_leave(&file, true);
    assert_true(ledger_world_arrived(&file));
    uint32_t before = ledger_world_pins(&file);
    ledger_world_leave(&file, true);
    assert_false(ledger_world_come_back(&file, before));
    assert_true(ledger_world_is_kernel(&file));
    assert_true(ledger_world_come_back(&file, ledger_world_pins(&file)));
    assert_false(ledger_world_is_kernel(&file));
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
