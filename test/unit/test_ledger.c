/* The ledger of uncommitted data: src/ledger/writes.c, records.c. */
#include "ledger_test.h"

#include <pthread.h>

UNIT_TEST(data_is_kept_as_it_was_given)
{
    struct ledger_file file;
    struct ledger_write write;
    struct iovec given[3], kept[LEDGER_WRITE_VECTORS];
    static uint8_t source[LEDGER_WRITE_MAX], copy[LEDGER_WRITE_MAX];
    attach(&file, 100);
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (uint8_t)(i * 7 + i / 251);
    given[0] = (struct iovec){source, 5};
    given[1] = (struct iovec){source + 5, 0};
    given[2] = (struct iovec){source + 5, sizeof(source) - 5};
    assert_int_equal(ledger_write_begin(&file, 12345, given, 3, sizeof(source), true, &write), 0);
    memset(copy, 0, sizeof(copy));
    int count = ledger_write_data(&write, 70000, sizeof(source) - 70001, kept);
    assert_in_range(count, 1, LEDGER_WRITE_VECTORS);
    size_t at = 70000;
    for (int i = 0; i < count; i++) {
        memcpy(copy + at, kept[i].iov_base, kept[i].iov_len);
        at += kept[i].iov_len;
    }
    assert_int_equal(at, sizeof(source) - 1);
    assert_memory_equal(copy + 70000, source + 70000, sizeof(source) - 70001);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

UNIT_TEST(bad_pointers_are_refused)
{
    struct ledger_file file;
    struct ledger_write write;
    struct iovec vector = {NULL, 100};
    attach(&file, 101);
    assert_int_equal(ledger_write_begin(&file, 0, &vector, 1, 100, true, &write), -EFAULT);
    vector.iov_base = (void *)4095;
    assert_int_equal(ledger_write_begin(&file, 0, &vector, 1, 100, true, &write), -EFAULT);
    vector = (struct iovec){buffer, 99};
    assert_int_equal(ledger_write_begin(&file, 0, &vector, 1, 100, true, &write), -EINVAL);
    assert_int_equal(ledger_write_begin(&file, UINT64_MAX - 10, &vector, 1, 99, true, &write),
                     -EINVAL);
    check_invariants();
}

/* ---- against a model that knows for each byte what must be there ---- */

struct model {
    int bytes[MODEL_BYTES];
    uint64_t verifiers[MODEL_BYTES];
    uint64_t size;
};
static struct model model;
static uint64_t found_verifiers[MODEL_BYTES];

static void compare(struct ledger_file *file)
{
    read_ledger(file, found, found_verifiers, MODEL_BYTES);
    uint64_t sum = 0;
    for (size_t i = 0; i < MODEL_BYTES; i++) {
        if (model.bytes[i] != found[i])
            fail_msg("byte %zu: ledger %d, model %d", i, found[i], model.bytes[i]);
        if (found[i] >= 0 && model.verifiers[i] != found_verifiers[i])
            fail_msg("verifier of byte %zu differs", i);
        sum += found[i] >= 0;
    }
    assert_int_equal(ledger_file_uncommitted(file), sum);
}

static void model_write(struct ledger_file *file, uint64_t verifier, uint8_t fill)
{
    struct ledger_write write;
    uint32_t longest = random_below(4) ? 3000 : 150000;
    size_t length = 1 + random_below(longest);
    uint64_t offset = random_below((uint32_t)(MODEL_BYTES - length));
    enum ledger_outcome outcome =
        random_below(5) ? LEDGER_WRITE_UNSTABLE : (enum ledger_outcome)random_below(2);
    bool keep = outcome == LEDGER_WRITE_UNSTABLE || random_below(2);
    memset(buffer, fill, length);
    assert_int_equal(begin(file, offset, length, keep, &write), 0);
    ledger_write_end(file, &write, outcome, verifier);
    for (size_t i = offset; i < offset + length && outcome != LEDGER_WRITE_FAILED; i++) {
        model.bytes[i] = outcome == LEDGER_WRITE_UNSTABLE ? fill : -1;
        model.verifiers[i] = verifier;
    }
}

static void model_commit(struct ledger_file *file, uint64_t verifier)
{
    struct ledger_commit commit;
    struct ledger_write write;
    uint64_t differing = 0;
    ledger_commit_begin(file, &commit);
    uint64_t reported = ledger_commit_end(file, &commit, verifier);
    for (size_t i = 0; i < MODEL_BYTES; i++) {
        if (model.bytes[i] >= 0 && model.verifiers[i] == verifier)
            model.bytes[i] = -1;
        differing += model.bytes[i] >= 0;
    }
    assert_int_equal(reported, differing);
    while (ledger_replay_next(file, &commit, true, &write) == 1) {
        struct iovec vectors[LEDGER_WRITE_VECTORS];
        int count = ledger_write_data(&write, 0, write.length, vectors);
        size_t at = write.offset;
        for (int i = 0; i < count; i++) {
            for (size_t k = 0; k < vectors[i].iov_len; k++, at++)
                assert_int_equal(((uint8_t *)vectors[i].iov_base)[k], model.bytes[at]);
        }
        assert_int_equal(at, write.offset + write.length);
        differing -= write.length;
        bool fine = random_below(3) != 0;
        for (size_t i = write.offset; fine && i < at; i++)
            model.bytes[i] = -1;
        ledger_write_end(file, &write, fine ? LEDGER_WRITE_STABLE : LEDGER_WRITE_FAILED, 0);
    }
    assert_int_equal(differing, 0);
}

UNIT_TEST(random_operations_agree_with_a_model)
{
    struct ledger_file file;
    uint64_t verifier = 1;
    seed = 4711;
    attach(&file, 102);
    for (size_t i = 0; i < MODEL_BYTES; i++)
        model.bytes[i] = -1;
    for (unsigned round = 0; round < rounds_of(6000); round++) {
        uint32_t choice = random_below(100);
        if (choice < 1) {
            verifier++;
        } else if (choice < 3) {
            model_commit(&file, verifier);
        } else if (choice < 4) {
            uint64_t size = random_below(MODEL_BYTES);
            ledger_file_truncate_begin(&file, size);
            bool done = random_below(2);
            ledger_file_truncate_end(&file, size, done);
            for (size_t i = size; i < MODEL_BYTES && done; i++)
                model.bytes[i] = -1;
        } else {
            model_write(&file, verifier, (uint8_t)round);
        }
        if (round % 40 == 0) {
            compare(&file);
            check_invariants();
        }
    }
    compare(&file);
    uint64_t left = ledger_file_uncommitted(&file);
    assert_int_equal(ledger_file_forget(&file, false), left);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

UNIT_TEST(a_hole_splits_a_record)
{
    struct ledger_file file;
    attach(&file, 103);
    write_kept(&file, 0, 65536, 'a', first_verifier);
    write_stable(&file, 100, 50);
    assert_int_equal(ledger_file_uncommitted(&file), 65536 - 50);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    assert_int_equal(found[99], 'a');
    assert_int_equal(found[100], -1);
    assert_int_equal(found[149], -1);
    assert_int_equal(found[150], 'a');
    check_invariants();
    ledger_file_forget(&file, false);
}

/* ---- commit ---- */

UNIT_TEST(commit_vouches_only_for_what_it_was_sent_after)
{
    struct ledger_file file;
    struct ledger_commit commit;
    attach(&file, 107);
    write_kept(&file, 0, 1000, 'a', first_verifier);
    ledger_commit_begin(&file, &commit);
    write_kept(&file, 5000, 300, 'b', first_verifier);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 300);
    ledger_file_forget(&file, false);
}

UNIT_TEST(another_verifier_demands_writing_again)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 108);
    write_kept(&file, 0, 1000, 'a', first_verifier);
    assert_false(ledger_file_verifier_differs(&file, first_verifier));
    assert_true(ledger_file_verifier_differs(&file, second_verifier));
    write_kept(&file, 2000, 500, 'b', second_verifier);
    assert_true(ledger_file_verifier_differs(&file, second_verifier));
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 1);
    assert_int_equal(write.offset, 0);
    assert_int_equal(write.length, 1000);
    struct iovec newer = {buffer, 10}; /* nothing but the replay is in its way */
    assert_int_equal(ledger_write_try(&file, 995, &newer, 1, 10, true, &(struct ledger_write){0}),
                     -EAGAIN);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(ledger_replay_next(&file, &commit, true, &write),
                     0); /* not twice in one commit */
    assert_int_equal(ledger_file_uncommitted(&file), 1000);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 1000);
    assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 1); /* but in the next */
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    assert_false(ledger_file_verifier_differs(&file, second_verifier));
}

UNIT_TEST(a_split_during_a_commit_is_replayed_whole)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    uint64_t replayed = 0;
    attach(&file, 109);
    write_kept(&file, 0, 10000, 'a', first_verifier);
    ledger_commit_begin(&file, &commit);
    write_stable(&file, 4000, 1000);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 9000);
    while (ledger_replay_next(&file, &commit, true, &write) == 1) {
        replayed += write.length;
        ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    }
    assert_int_equal(replayed, 9000);
}

/* A read that the server answered before it had the data again is looked at afterwards. */
UNIT_TEST(what_is_written_again_shows_to_reads_from_before)
{
    const enum ledger_outcome outcomes[] = {LEDGER_WRITE_STABLE, LEDGER_WRITE_UNSTABLE};
    for (int i = 0; i < 2; i++) {
        struct ledger_file file;
        struct ledger_commit commit;
        struct ledger_write write;
        attach(&file, 160 + (uint64_t)i);
        write_kept(&file, 0, 1000, 'a', first_verifier);
        ledger_commit_begin(&file, &commit);
        assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 1000);
        uint64_t replays = ledger_file_replays(&file);
        assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 1);
        ledger_write_end(&file, &write, outcomes[i], second_verifier);
        assert_int_not_equal(ledger_file_replays(&file), replays);
        ledger_file_forget(&file, false);
    }
}

/* A read that the restarted server answered without the older bytes is looked at after a stable
 * write took their place: only the count of replays can still tell. */
UNIT_TEST(a_write_over_what_a_restart_lost_counts_as_a_replay)
{
    const uint64_t verifiers[] = {first_verifier, second_verifier};
    struct ledger_file file;
    attach(&file, 110);
    for (int i = 0; i < 2; i++) {
        struct ledger_write write;
        write_kept(&file, 0, 1000, 'a', first_verifier);
        uint64_t replays = ledger_file_replays(&file);
        assert_int_equal(begin(&file, 0, 1000, false, &write), 0);
        ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, verifiers[i]);
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        assert_int_equal(ledger_file_replays(&file) != replays, i);
    }
}

/* ---- exclusion among threads ---- */

static struct ledger_file shared_file;
static _Atomic int inside;
static _Atomic int collisions;

static void *overlapping_writer(void *argument)
{
    uint32_t mine = (uint32_t)(uintptr_t)argument;
    struct ledger_write write;
    static const uint8_t zeros[100000];
    struct iovec vector = {(void *)zeros, sizeof(zeros)};
    for (int i = 0; i < 300; i++) {
        uint64_t offset = (mine * 31 + (uint32_t)i * 17) % 50000; /* all contain byte 60000 */
        if (ledger_write_begin(&shared_file, offset, &vector, 1, sizeof(zeros), i % 2, &write) != 0)
            return "begin failed";
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_fetch_add(&collisions, 1);
        if (i % 16 == 0)
            usleep(100);
        atomic_fetch_sub(&inside, 1);
        ledger_write_end(&shared_file, &write, i % 2 ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_STABLE,
                         first_verifier);
    }
    return NULL;
}

UNIT_TEST(overlapping_writes_of_threads_exclude_each_other)
{
    pthread_t threads[4];
    void *result;
    attach(&shared_file, 110);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, overlapping_writer, (void *)i), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    assert_int_equal(collisions, 0);
    ledger_file_forget(&shared_file, false);
    check_invariants();
}

UNIT_TEST(disjoint_writes_do_not_wait)
{
    struct ledger_file file;
    struct ledger_write left, right;
    attach(&file, 111);
    assert_int_equal(begin(&file, 0, 100, true, &left), 0);
    assert_int_equal(begin(&file, 100, 100, true, &right), 0);
    ledger_write_end(&file, &left, LEDGER_WRITE_FAILED, 0);
    ledger_write_end(&file, &right, LEDGER_WRITE_FAILED, 0);
}

static unsigned records_of(const struct ledger_file *own)
{
    return ledger_map.entries[own->index].records;
}

UNIT_TEST(small_writes_that_follow_one_another_are_few_records)
{
    enum { SMALL_WRITES = 100000 };
    struct ledger_file file;
    attach(&file, 140);
    for (uint64_t i = 0; i < SMALL_WRITES; i++)
        write_kept(&file, 1000 + i, 1, (uint8_t)(i / 3), first_verifier);
    assert_int_equal(ledger_file_uncommitted(&file), SMALL_WRITES);
    assert_true(records_of(&file) <= SMALL_WRITES / LEDGER_CHUNK + 3);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < SMALL_WRITES; i++)
        assert_int_equal(found[1000 + i], (uint8_t)(i / 3));
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(small_writes_from_behind_are_few_records)
{
    struct ledger_file file;
    attach(&file, 141);
    for (uint64_t i = 5000; i > 0; i--)
        write_kept(&file, i * 10, 10, (uint8_t)i, first_verifier);
    assert_true(records_of(&file) < 20);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 1; i <= 5000; i++)
        assert_int_equal(found[i * 10], (uint8_t)i);
    check_invariants();
    ledger_file_forget(&file, false);
}

/* What joined after a COMMIT was sent is not safe when that is answered. */
UNIT_TEST(a_commit_vouches_for_nothing_that_joined_later)
{
    struct ledger_file file;
    struct ledger_commit commit;
    attach(&file, 142);
    write_kept(&file, 0, 100, 'a', first_verifier);
    ledger_commit_begin(&file, &commit);
    write_kept(&file, 100, 100, 'b', first_verifier);
    assert_int_equal(records_of(&file), 1);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 200);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

static int write_behind(void *file)
{
    write_kept(file, 300, 100, 'd', second_verifier);
    return 0;
}

/* Of another process: when that ends it commits what it wrote, and when it is killed its data waits
 * for others. */
UNIT_TEST(what_has_another_fate_is_not_joined)
{
    struct ledger_file file;
    struct ledger_commit commit;
    attach(&file, 143);
    write_kept(&file, 0, 100, 'a', first_verifier);
    write_kept(&file, 100, 100, 'b', second_verifier);
    assert_int_equal(records_of(&file), 2);
    ledger_commit_begin(&file, &commit);
    ledger_commit_failed(&file, &commit);
    write_kept(&file, 200, 100, 'c', second_verifier); /* after the failure */
    assert_int_equal(records_of(&file), 3);
    assert_int_equal(run_child(write_behind, &file), 0);
    assert_int_equal(records_of(&file), 4);
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(several_writes_begin_up_to_one_that_cannot)
{
    enum { COUNT = 5, LENGTH = 10000 };
    struct ledger_file file;
    struct ledger_write writes[COUNT], other;
    struct iovec data[COUNT], kept[LEDGER_WRITE_VECTORS];
    struct ledger_beginning list[COUNT];
    attach(&file, 112);
    memset(buffer, 0, sizeof(buffer));
    for (int i = 0; i < COUNT; i++) {
        memset(buffer + i * LENGTH, i + 1, LENGTH);
        data[i] = (struct iovec){buffer + i * LENGTH, LENGTH};
        list[i] = (struct ledger_beginning){.offset = (uint64_t)i * LENGTH,
                                            .data = &data[i],
                                            .count = 1,
                                            .length = LENGTH,
                                            .keep = i != 1,
                                            .write = &writes[i]};
    }
    list[3].offset = LENGTH / 2; /* over the first two */
    assert_int_equal(ledger_writes_try(&file, list, COUNT), 3);
    for (int i = 0; i < 3; i++) {
        struct iovec one = {buffer, 1};
        assert_int_equal(ledger_write_try(&file, list[i].offset, &one, 1, 1, false, &other),
                         -EAGAIN);
        assert_int_equal(writes[i].kept, i != 1);
    }
    int count = ledger_write_data(&writes[2], 0, LENGTH, kept);
    for (size_t i = 0, at = 0; i < (size_t)count; at += kept[i++].iov_len)
        assert_memory_equal(kept[i].iov_base, (uint8_t *)data[2].iov_base + at, kept[i].iov_len);
    uint32_t records = atomic_load(&ledger_map.shared->next_record);
    for (int i = 0; i < 1000; i++) /* what was prepared is given back */
        assert_int_equal(ledger_writes_try(&file, list + 3, 2), 0);
    assert_in_range(atomic_load(&ledger_map.shared->next_record), records, records + 100);
    for (int i = 0; i < 3; i++)
        ledger_write_end(&file, &writes[i], i == 1 ? LEDGER_WRITE_STABLE : LEDGER_WRITE_UNSTABLE,
                         first_verifier);
    assert_int_equal(ledger_file_uncommitted(&file), 2 * LENGTH);
    data[4].iov_base = NULL;
    assert_int_equal(ledger_writes_try(&file, list + 3, 2), 1);
    ledger_write_end(&file, &writes[3], LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(ledger_file_uncommitted(&file), 2 * LENGTH + LENGTH / 2);
    assert_int_equal(ledger_file_forget(&file, false), 2 * LENGTH + LENGTH / 2);
    check_invariants();
}

/* ---- whose change it was ---- */

static struct ledger_attributes at_time(int64_t ns)
{
    return (struct ledger_attributes){
        .size = 10000, .mtime = {.tv_nsec = ns}, .ctime = {.tv_nsec = ns}};
}

static enum ledger_change change_at(struct ledger_file *file, int64_t ns)
{
    struct ledger_attributes now = at_time(ns);
    return ledger_file_changed_by_other(file, ledger_file_asking(file), &now);
}

static void end_told(struct ledger_file *file, struct ledger_write *write, uint64_t epoch,
                     int64_t ns)
{
    struct ledger_ending ending = {.file = file,
                                   .write = write,
                                   .outcome = LEDGER_WRITE_UNSTABLE,
                                   .attributes_known = true,
                                   .epoch = epoch,
                                   .asked_ns = 1,
                                   .attributes = at_time(ns)};
    ledger_writes_end(&ending, 1);
}

UNIT_TEST(what_is_written_again_ends_before_a_write_in_flight)
{
    enum { LENGTH = 10000 };
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write over, again;
    attach(&file, 142);
    write_kept(&file, 0, LENGTH, 'a', first_verifier);
    write_kept(&file, LENGTH, LENGTH, 'b', first_verifier);
    assert_int_equal(begin(&file, LENGTH + 10, 10, true, &over), 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 2 * LENGTH);
    commit.most = MODEL_BYTES;
    assert_int_equal(ledger_replay_next(&file, &commit, false, &again), 1);
    assert_int_equal(again.length, LENGTH);
    ledger_write_end(&file, &again, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_replay_next(&file, &commit, false, &again), -EAGAIN);
    ledger_write_end(&file, &over, LEDGER_WRITE_STABLE, 0);
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(answers_out_of_order_tell_of_the_last_change)
{
    struct ledger_file file;
    struct ledger_write one, other;
    struct ledger_attributes first = at_time(10);
    attach(&file, 140);
    assert_int_equal(change_at(&file, 1000), LEDGER_CHANGE_NONE);
    ledger_file_learned(&file, ledger_file_asking(&file), &first, 1);
    assert_int_equal(change_at(&file, 10), LEDGER_CHANGE_NONE);
    assert_int_equal(change_at(&file, 11), LEDGER_CHANGE_TIME);

    assert_int_equal(begin(&file, 0, 100, true, &one), 0);
    uint64_t epoch = ledger_file_asking(&file);
    assert_int_equal(begin(&file, 1000, 100, true, &other), 0);
    end_told(&file, &other, ledger_file_asking(&file), 30);
    assert_int_equal(change_at(&file, 40), LEDGER_CHANGE_NONE);
    end_told(&file, &one, epoch, 20);
    assert_int_equal(change_at(&file, 30), LEDGER_CHANGE_NONE);
    assert_int_equal(change_at(&file, 31), LEDGER_CHANGE_TIME);
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(after_a_write_without_an_answer_the_server_must_be_asked)
{
    struct ledger_file file;
    struct ledger_write write;
    struct ledger_attributes first = at_time(10), later = at_time(50);
    attach(&file, 141);
    ledger_file_learned(&file, ledger_file_asking(&file), &first, 1);
    uint64_t epoch = ledger_file_asking(&file);
    assert_int_equal(begin(&file, 0, 100, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    assert_int_equal(change_at(&file, 50), LEDGER_CHANGE_NONE);
    ledger_file_learned(&file, epoch, &first, 2); /* asked before */
    assert_int_equal(change_at(&file, 50), LEDGER_CHANGE_NONE);
    ledger_file_learned(&file, ledger_file_asking(&file), &later, 3);
    assert_int_equal(change_at(&file, 50), LEDGER_CHANGE_NONE);
    assert_int_equal(change_at(&file, 51), LEDGER_CHANGE_TIME);
    check_invariants();
}

UNIT_TEST(what_was_forgotten_while_it_was_written_again_is_a_change_by_this_host)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write again;
    struct ledger_attributes first = at_time(10);
    attach(&file, 143);
    write_kept(&file, 0, 100, 'a', first_verifier);
    ledger_file_learned(&file, ledger_file_asking(&file), &first, 1);
    assert_int_equal(change_at(&file, 11), LEDGER_CHANGE_TIME);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 100);
    commit.most = MODEL_BYTES;
    assert_int_equal(ledger_replay_next(&file, &commit, false, &again), 1);
    assert_int_equal(ledger_file_forget(&file, true), 100);
    end_told(&file, &again, ledger_file_asking(&file), 50);
    assert_int_equal(change_at(&file, 50), LEDGER_CHANGE_NONE);
    check_invariants();
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
