/*
 * The places of files in the registry, and who dies as he gives one to another file, takes one
 * back, or gives it another handle: src/ledger/entries.c. A process is killed after each store
 * that others see: between two of them no moment differs from the other.
 */
#include <sys/ptrace.h>

#include "dirty_scene.h"

enum { NOT_PERMITTED = 77, WATCHED_RECORDS = 64 };

/* ---- to die after a store ---- */

/* What the bodies below change: the places of one set, its stripe, and records. */
static struct {
    struct ledger_entry set[LEDGER_SET_SIZE];
    struct ledger_stripe stripe;
    struct ledger_record records[WATCHED_RECORDS];
} seen;

static void look(uint32_t set)
{
    memcpy(seen.set, &ledger_map.entries[set * LEDGER_SET_SIZE], sizeof(seen.set));
    memcpy(&seen.stripe, &ledger_map.shared->stripes[set % LEDGER_STRIPES], sizeof(seen.stripe));
    memcpy(seen.records, ledger_map.records, sizeof(seen.records));
}

static bool changed(uint32_t set)
{
    return memcmp(seen.set, &ledger_map.entries[set * LEDGER_SET_SIZE], sizeof(seen.set)) != 0 ||
           memcmp(&seen.stripe, &ledger_map.shared->stripes[set % LEDGER_STRIPES],
                  sizeof(seen.stripe)) != 0 ||
           memcmp(seen.records, ledger_map.records, sizeof(seen.records)) != 0;
}

struct death {
    void (*body)(void);
    bool slot; /* it has written before */
};

static int goes_step_by_step(void *argument)
{
    const struct death *death = argument;
    if (death->slot)
        ledger_process_slot();
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        return NOT_PERMITTED;
    raise(SIGSTOP);
    death->body();
    return 0;
}

/* False: it ended before so many stores. */
static bool dies_after(const struct death *death, uint32_t set, unsigned stores)
{
    int status;
    pid_t child = start_child(goes_step_by_step, (void *)(uintptr_t)death);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    look(set);
    while (!WIFEXITED(status) && stores > 0) {
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!changed(set))
            continue;
        look(set);
        stores--;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_PERMITTED) {
        print_message("ptrace(2) is not permitted here\n");
        skip();
    }
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return false;
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    return true;
}

static void skip_if_slow(void)
{
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
}

/* ---- files of one set ---- */

/* As home_set() of src/ledger/entries.c. */
static uint32_t set_of(uint64_t number)
{
    uint64_t hash = (number ^ 77 * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 31) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(hash >> 40) % LEDGER_SETS;
}

/* The number of a new file that belongs to the set. */
static uint64_t number_in(uint32_t set)
{
    static uint64_t last = 1000000;
    do
        last++;
    while (set_of(last) != set);
    return last;
}

/* A long handle, every byte of which says which one it is. */
static struct ledger_file_key long_key(uint64_t number, uint8_t handle, uint64_t root)
{
    struct ledger_file_key key;
    key_for(&key, number);
    key.root = root;
    key.handle_length = LEDGER_HANDLE_MAX;
    memset(key.handle, handle, sizeof(key.handle));
    return key;
}

static const struct timespec at_one = {1, 0};

static bool attach_key(struct ledger_file *file, const struct ledger_file_key *key)
{
    uint64_t lost;
    return ledger_file_attach(file, key, &at_one, &lost);
}

enum { SET = 77, LENGTH = 8192 };

/* Opens new files until each place of the set that may be given away was. All of them are empty,
 * and what they are given is theirs. */
static void fill_the_set(void)
{
    struct ledger_file files[LEDGER_SET_SIZE];
    for (int i = 0; i < LEDGER_SET_SIZE; i++) {
        attach(&files[i], number_in(SET));
        assert_int_equal(ledger_file_uncommitted(&files[i]), 0);
        write_dirty(&files[i], 0, LENGTH, (uint8_t)('A' + i));
    }
    for (int i = 0; i < LEDGER_SET_SIZE; i++) {
        expect_dirty(&files[i], 0, LENGTH, (uint8_t)('A' + i));
        assert_int_equal(ledger_file_uncommitted(&files[i]), LENGTH);
        ledger_file_forget(&files[i], false);
    }
}

/* ---- a place is given to another file ---- */

static struct ledger_file_key wanted;

static void opens_wanted(void)
{
    struct ledger_file file;
    must(attach_key(&file, &wanted));
}

UNIT_TEST(whoever_dies_as_he_takes_an_idle_place_gives_nobodys_data_to_another_file)
{
    const struct death death = {.body = opens_wanted};
    bool died = true;
    skip_if_slow();
    for (unsigned stores = 1; died; stores++) {
        struct ledger_file idle[LEDGER_SET_SIZE], file;
        for (int i = 0; i < LEDGER_SET_SIZE; i++) {
            attach(&idle[i], number_in(SET));
            assert_int_equal(idle[i].index / LEDGER_SET_SIZE, SET);
        }
        key_for(&wanted, number_in(SET));
        died = dies_after(&death, SET, stores);
        /* Who has them open goes on. */
        for (int i = 0; i < LEDGER_SET_SIZE; i++)
            write_dirty(&idle[i], 0, LENGTH, (uint8_t)('a' + i));
        fill_the_set();
        assert_true(attach_key(&file, &wanted));
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        for (int i = 0; i < LEDGER_SET_SIZE; i++) {
            expect_dirty(&idle[i], 0, LENGTH, (uint8_t)('a' + i));
            assert_int_equal(ledger_file_uncommitted(&idle[i]), LENGTH);
            assert_false(ledger_file_lost(&idle[i]));
            ledger_file_forget(&idle[i], false);
        }
        check_invariants();
    }
}

/* A file that got the number of one that is gone. */
UNIT_TEST(whoever_dies_as_he_takes_the_place_of_a_file_of_the_same_number_mixes_nothing)
{
    const struct death death = {.body = opens_wanted};
    bool died = true;
    skip_if_slow();
    for (unsigned stores = 1; died; stores++) {
        uint64_t number = number_in(SET);
        const struct ledger_file_key key = long_key(number, 'g', 0);
        struct ledger_file gone, file;
        assert_true(attach_key(&gone, &key));
        wanted = long_key(number, 'w', 0);
        died = dies_after(&death, SET, stores);
        write_dirty(&gone, 0, LENGTH, 'g');
        assert_true(attach_key(&file, &wanted));
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        write_dirty(&file, 0, LENGTH, 'w');
        fill_the_set();
        expect_dirty(&gone, 0, LENGTH, 'g');
        expect_dirty(&file, 0, LENGTH, 'w');
        ledger_file_forget(&gone, false);
        ledger_file_forget(&file, false);
        check_invariants();
    }
}

/* ---- a place is taken back ---- */

static struct ledger_file retired;

static void finds_the_same_file_twice(void)
{
    struct ledger_file file = retired;
    uint64_t lost;
    must(ledger_file_rename(&file, &wanted, &at_one, &lost));
}

static void die_as_an_entry_is_retired(bool slot, unsigned stride)
{
    const struct death death = {.body = finds_the_same_file_twice, .slot = slot};
    bool died = true;
    skip_if_slow();
    for (unsigned stores = 1; died; stores += stride) {
        uint64_t number = number_in(SET);
        const struct ledger_file_key key = long_key(number, 'o', 0);
        struct ledger_file file;
        struct ledger_write write;
        assert_true(attach_key(&retired, &key));
        write_kept(&retired, 0, LENGTH, 'o', first_verifier);
        write_dirty(&retired, 100, 100, 'o');
        memset(buffer, 'o', LENGTH);
        assert_int_equal(begin(&retired, 2 * LENGTH, LENGTH, true, &write), 0);
        wanted = long_key(number, 'n', 1);
        assert_true(attach_key(&file, &wanted));
        died = dies_after(&death, SET, stores);
        /* Who has it open by its older handle goes on with that, or is told that it is old. */
        memset(buffer, 'O', LENGTH);
        bool written = write_behind(&retired, 4 * LENGTH, LENGTH) == 0;
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        fill_the_set();
        ledger_write_end(&retired, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
        fill_the_set();
        if (written)
            expect_dirty(&retired, 4 * LENGTH, LENGTH, 'O');
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        assert_true(ledger_file_lost(&file));
        ledger_file_forget(&retired, false);
        ledger_process_sweep(0);
        check_invariants();
    }
}

UNIT_TEST(whoever_dies_as_he_takes_a_place_back_leaves_no_data_for_another_file)
{
    die_as_an_entry_is_retired(true, 1);
}

UNIT_TEST(so_does_a_process_that_has_no_slot)
{
    die_as_an_entry_is_retired(false, 4);
}

/* ---- a file gets another handle ---- */

static struct ledger_file renamed;

static void renames(void)
{
    struct ledger_file file = renamed;
    uint64_t lost;
    must(ledger_file_rename(&file, &wanted, &at_one, &lost));
}

static bool is_named(const struct ledger_file *file, const struct ledger_file_key *key)
{
    return file->key.root == key->root && file->key.handle_length == key->handle_length &&
           memcmp(file->key.handle, key->handle, key->handle_length) == 0;
}

/* Who finds the data is told a handle that the file has, or had: another would be called stale. */
UNIT_TEST(whoever_dies_as_he_renames_a_file_leaves_a_whole_handle)
{
    const struct death death = {.body = renames};
    bool died = true;
    skip_if_slow();
    for (unsigned stores = 1; died; stores++) {
        uint64_t number = number_in(SET), lost;
        const struct ledger_file_key key = long_key(number, 'o', 0);
        struct ledger_file found_file, again;
        uint32_t cursor = 0;
        assert_true(attach_key(&renamed, &key));
        write_kept(&renamed, 0, LENGTH, 'o', first_verifier);
        write_dirty(&renamed, LENGTH, LENGTH, 'o');
        wanted = long_key(number, 'n', 1);
        wanted.handle_length = 100;
        died = dies_after(&death, SET, stores);
        assert_true(ledger_uncommitted_next(&cursor, 0, false, &found_file));
        assert_true(is_named(&found_file, &key) || is_named(&found_file, &wanted));
        assert_true(ledger_file_attach(&again, &found_file.key, &at_one, &lost));
        assert_int_equal(lost, 0);
        assert_int_equal(ledger_file_uncommitted(&again), 2 * LENGTH);
        assert_true(ledger_file_rename(&renamed, &wanted, &at_one, &lost));
        assert_int_equal(lost, 0);
        assert_true(attach_key(&again, &wanted));
        assert_int_equal(ledger_file_uncommitted(&again), 2 * LENGTH);
        assert_false(ledger_file_lost(&again));
        fill_the_set();
        expect_dirty(&again, LENGTH, LENGTH, 'o');
        ledger_file_forget(&again, false);
        check_invariants();
    }
}

static struct ledger_file older;

/* It may be the same file by another handle, which nothing proves: its data counts as lost. */
UNIT_TEST(whoever_dies_as_he_opens_a_file_by_another_handle_forgets_no_loss)
{
    const struct death death = {.body = opens_wanted, .slot = true};
    bool died = true;
    skip_if_slow();
    for (unsigned stores = 1; died; stores++) {
        uint64_t number = number_in(SET);
        const struct ledger_file_key key = long_key(number, 'o', 0);
        struct ledger_file file;
        assert_true(attach_key(&older, &key));
        write_dirty(&older, 0, LENGTH, 'o');
        wanted = long_key(number, 'n', 1);
        died = dies_after(&death, SET, stores);
        assert_true(attach_key(&file, &wanted));
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        assert_true(ledger_file_lost(&file));
        fill_the_set();
        expect_dirty(&older, 0, LENGTH, 'o');
        ledger_file_forget(&older, false);
        ledger_file_lost(&older);
        check_invariants();
    }
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
