/* The ledger of uncommitted data: src/host/ledger.c, records.c, arena.c, process.c. */
#include "host_test.h"
#include "rounds.h"

#include <pthread.h>

enum { MODEL_BYTES = 400000, UNCOMMITTED_MAX = 8 << 20 };

static const uint8_t first_verifier[8] = {1}, second_verifier[8] = {2};

static uint32_t seed;
static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * limit >> 28);
}

static int open_registry(void **state)
{
    if (make_run_directory(state))
        return -1;
    return host_registry_open(UNCOMMITTED_MAX, 0);
}

static uint8_t buffer[HOST_WRITE_MAX];

static int begin(struct host_file *file, uint64_t offset, size_t length, bool keep,
                 struct host_write *write)
{
    struct iovec vector = {buffer, length};
    return host_write_begin(file, offset, &vector, 1, length, keep, write);
}

static void write_kept(struct host_file *file, uint64_t offset, size_t length, uint8_t fill,
                       const uint8_t *verifier)
{
    struct host_write write;
    memset(buffer, fill, length);
    must(begin(file, offset, length, true, &write) == 0);
    host_write_end(file, &write, HOST_WRITE_UNSTABLE, verifier);
}

static void write_stable(struct host_file *file, uint64_t offset, size_t length)
{
    struct host_write write;
    assert_int_equal(begin(file, offset, length, false, &write), 0);
    host_write_end(file, &write, HOST_WRITE_STABLE, NULL);
}

static void data_is_kept_as_it_was_given(void **state)
{
    (void)state;
    struct host_file file;
    struct host_write write;
    struct iovec given[3], kept[HOST_WRITE_VECTORS];
    static uint8_t source[HOST_WRITE_MAX], copy[HOST_WRITE_MAX];
    attach(&file, 100);
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (uint8_t)(i * 7 + i / 251);
    given[0] = (struct iovec){source, 5};
    given[1] = (struct iovec){source + 5, 0};
    given[2] = (struct iovec){source + 5, sizeof(source) - 5};
    assert_int_equal(host_write_begin(&file, 12345, given, 3, sizeof(source), true, &write), 0);
    memset(copy, 0, sizeof(copy));
    int count = host_write_data(&write, 70000, sizeof(source) - 70001, kept);
    assert_in_range(count, 1, HOST_WRITE_VECTORS);
    size_t at = 70000;
    for (int i = 0; i < count; i++) {
        memcpy(copy + at, kept[i].iov_base, kept[i].iov_len);
        at += kept[i].iov_len;
    }
    assert_int_equal(at, sizeof(source) - 1);
    assert_memory_equal(copy + 70000, source + 70000, sizeof(source) - 70001);
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    assert_int_equal(host_file_uncommitted(&file), 0);
    check_invariants();
}

static void bad_pointers_are_refused(void **state)
{
    (void)state;
    struct host_file file;
    struct host_write write;
    struct iovec vector = {NULL, 100};
    attach(&file, 101);
    assert_int_equal(host_write_begin(&file, 0, &vector, 1, 100, true, &write), -EFAULT);
    vector.iov_base = (void *)4095;
    assert_int_equal(host_write_begin(&file, 0, &vector, 1, 100, true, &write), -EFAULT);
    vector = (struct iovec){buffer, 99};
    assert_int_equal(host_write_begin(&file, 0, &vector, 1, 100, true, &write), -EINVAL);
    assert_int_equal(host_write_begin(&file, UINT64_MAX - 10, &vector, 1, 99, true, &write),
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
static int found[MODEL_BYTES];
static uint64_t found_verifiers[MODEL_BYTES];

static void compare(struct host_file *file)
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
    assert_int_equal(host_file_uncommitted(file), sum);
}

static void model_write(struct host_file *file, uint64_t verifier, uint8_t fill)
{
    struct host_write write;
    uint32_t longest = random_below(4) ? 3000 : 150000;
    size_t length = 1 + random_below(longest);
    uint64_t offset = random_below((uint32_t)(MODEL_BYTES - length));
    enum host_outcome outcome =
        random_below(5) ? HOST_WRITE_UNSTABLE : (enum host_outcome)random_below(2);
    bool keep = outcome == HOST_WRITE_UNSTABLE || random_below(2);
    memset(buffer, fill, length);
    assert_int_equal(begin(file, offset, length, keep, &write), 0);
    host_write_end(file, &write, outcome, (uint8_t *)&verifier);
    for (size_t i = offset; i < offset + length && outcome != HOST_WRITE_FAILED; i++) {
        model.bytes[i] = outcome == HOST_WRITE_UNSTABLE ? fill : -1;
        model.verifiers[i] = verifier;
    }
}

static void model_commit(struct host_file *file, uint64_t verifier)
{
    struct host_commit commit;
    struct host_write write;
    uint64_t differing = 0;
    host_commit_begin(file, &commit);
    uint64_t reported = host_commit_end(file, &commit, (uint8_t *)&verifier);
    for (size_t i = 0; i < MODEL_BYTES; i++) {
        if (model.bytes[i] >= 0 && model.verifiers[i] == verifier)
            model.bytes[i] = -1;
        differing += model.bytes[i] >= 0;
    }
    assert_int_equal(reported, differing);
    while (host_replay_next(file, &commit, &write)) {
        struct iovec vectors[HOST_WRITE_VECTORS];
        int count = host_write_data(&write, 0, write.length, vectors);
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
        host_write_end(file, &write, fine ? HOST_WRITE_STABLE : HOST_WRITE_FAILED, NULL);
    }
    assert_int_equal(differing, 0);
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    struct host_file file;
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
            host_file_truncate_begin(&file, size);
            bool done = random_below(2);
            host_file_truncate_end(&file, size, done);
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
    uint64_t left = host_file_uncommitted(&file);
    assert_int_equal(host_file_forget(&file), left);
    assert_int_equal(host_file_uncommitted(&file), 0);
    check_invariants();
}

static void a_hole_splits_a_record(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 103);
    write_kept(&file, 0, 65536, 'a', first_verifier);
    write_stable(&file, 100, 50);
    assert_int_equal(host_file_uncommitted(&file), 65536 - 50);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    assert_int_equal(found[99], 'a');
    assert_int_equal(found[100], -1);
    assert_int_equal(found[149], -1);
    assert_int_equal(found[150], 'a');
    check_invariants();
    host_file_forget(&file);
}

/* Without a free record a hole is filled in the older record (kept), or the write's own record
 * becomes the second half (not kept): no data is lost. */
static void a_full_arena_loses_nothing(void **state)
{
    (void)state;
    struct host_file file, fillers[16]; /* a file of many writes in flight takes long */
    uint32_t capacity = host_map.shared->record_count, count = 0;
    struct host_write *writes = calloc(capacity, sizeof(*writes)), write;
    attach(&file, 104);
    for (unsigned i = 0; i < 16; i++)
        attach(&fillers[i], 10500 + i);
    write_kept(&file, 0, 65536, 'a', first_verifier);
    while (begin(&fillers[count % 16], count, 1, false, &writes[count]) == 0)
        count++;
    assert_true(count > 1000);
    assert_int_equal(begin(&file, 10, 1, true, &write), -ENOSPC);
    count--;
    host_write_end(&fillers[count % 16], &writes[count], HOST_WRITE_FAILED, NULL);
    write_kept(&file, 1000, 10000, 'b', second_verifier);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(found[i], i >= 1000 && i < 11000 ? 'b' : 'a');
    write_stable(&file, 20000, 10000);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(found[i], i >= 20000 && i < 30000  ? -1
                                   : i >= 1000 && i < 11000 ? 'b'
                                                            : 'a');
    while (count-- > 0)
        host_write_end(&fillers[count % 16], &writes[count], HOST_WRITE_FAILED, NULL);
    host_file_forget(&file);
    check_invariants();
    free(writes);
}

static void chunks_run_out_with_enospc_and_come_back(void **state)
{
    (void)state;
    struct host_file file;
    struct host_write write;
    struct host_commit commit;
    uint64_t offset = 0;
    attach(&file, 106);
    while (begin(&file, offset, HOST_WRITE_MAX, true, &write) == 0) {
        host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
        offset += HOST_WRITE_MAX;
        assert_true(offset <= 2 * UNCOMMITTED_MAX);
    }
    assert_in_range(offset, UNCOMMITTED_MAX - HOST_WRITE_MAX, UNCOMMITTED_MAX);
    assert_int_equal(begin(&file, offset, 1 << 16, false, &write), 0);
    host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(host_file_uncommitted(&file), 0);
    assert_int_equal(begin(&file, 0, HOST_WRITE_MAX, true, &write), 0);
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    check_invariants();
}

/* ---- commit ---- */

static void commit_vouches_only_for_what_it_was_sent_after(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    attach(&file, 107);
    write_kept(&file, 0, 1000, 'a', first_verifier);
    host_commit_begin(&file, &commit);
    write_kept(&file, 5000, 300, 'b', first_verifier);
    assert_int_equal(host_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(host_file_uncommitted(&file), 300);
    host_file_forget(&file);
}

static void another_verifier_demands_writing_again(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    struct host_write write;
    attach(&file, 108);
    write_kept(&file, 0, 1000, 'a', first_verifier);
    assert_false(host_file_verifier_differs(&file, first_verifier));
    assert_true(host_file_verifier_differs(&file, second_verifier));
    write_kept(&file, 2000, 500, 'b', second_verifier);
    assert_true(host_file_verifier_differs(&file, second_verifier));
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 1000);
    assert_true(host_replay_next(&file, &commit, &write));
    assert_int_equal(write.offset, 0);
    assert_int_equal(write.length, 1000);
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    assert_false(host_replay_next(&file, &commit, &write)); /* not twice in one commit */
    assert_int_equal(host_file_uncommitted(&file), 1000);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 1000);
    assert_true(host_replay_next(&file, &commit, &write)); /* but in the next */
    host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    assert_false(host_replay_next(&file, &commit, &write));
    assert_int_equal(host_file_uncommitted(&file), 0);
    assert_false(host_file_verifier_differs(&file, second_verifier));
}

static void a_split_during_a_commit_is_replayed_whole(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    struct host_write write;
    uint64_t replayed = 0;
    attach(&file, 109);
    write_kept(&file, 0, 10000, 'a', first_verifier);
    host_commit_begin(&file, &commit);
    write_stable(&file, 4000, 1000);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 9000);
    while (host_replay_next(&file, &commit, &write)) {
        replayed += write.length;
        host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    }
    assert_int_equal(replayed, 9000);
}

/* ---- exclusion among threads ---- */

static struct host_file shared_file;
static _Atomic int inside;
static _Atomic int collisions;

static void *overlapping_writer(void *argument)
{
    uint32_t mine = (uint32_t)(uintptr_t)argument;
    struct host_write write;
    static const uint8_t zeros[100000];
    struct iovec vector = {(void *)zeros, sizeof(zeros)};
    for (int i = 0; i < 300; i++) {
        uint64_t offset = (mine * 31 + (uint32_t)i * 17) % 50000; /* all contain byte 60000 */
        if (host_write_begin(&shared_file, offset, &vector, 1, sizeof(zeros), i % 2, &write) != 0)
            return "begin failed";
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_fetch_add(&collisions, 1);
        if (i % 16 == 0)
            usleep(100);
        atomic_fetch_sub(&inside, 1);
        host_write_end(&shared_file, &write, i % 2 ? HOST_WRITE_UNSTABLE : HOST_WRITE_STABLE,
                       first_verifier);
    }
    return NULL;
}

static void overlapping_writes_of_threads_exclude_each_other(void **state)
{
    (void)state;
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
    host_file_forget(&shared_file);
    check_invariants();
}

static void disjoint_writes_do_not_wait(void **state)
{
    (void)state;
    struct host_file file;
    struct host_write left, right;
    attach(&file, 111);
    assert_int_equal(begin(&file, 0, 100, true, &left), 0);
    assert_int_equal(begin(&file, 100, 100, true, &right), 0);
    host_write_end(&file, &left, HOST_WRITE_FAILED, NULL);
    host_write_end(&file, &right, HOST_WRITE_FAILED, NULL);
}

/* ---- several processes ---- */

static int child_writes(void *argument)
{
    struct host_file file;
    attach(&file, *(uint64_t *)argument);
    write_kept(&file, 500, 1000, 'c', first_verifier);
    return host_file_uncommitted_here(&file) ? 0 : 1;
}

static void a_childs_data_is_seen_and_committed_by_others(void **state)
{
    (void)state;
    struct host_file file, orphan;
    struct host_commit commit;
    uint64_t inode = 112;
    uint32_t cursor = 0;
    attach(&file, inode);
    assert_int_equal(run_child(child_writes, &inode), 0);
    assert_int_equal(host_file_uncommitted(&file), 1000);
    assert_false(host_file_uncommitted_here(&file));
    assert_true(host_uncommitted_next(&cursor, 5, true, &orphan));
    assert_int_equal(orphan.key.inode, inode);
    assert_int_equal(orphan.key.handle_length, file.key.handle_length);
    assert_memory_equal(orphan.key.handle, file.key.handle, file.key.handle_length);
    assert_false(host_uncommitted_next(&cursor, 5, true, &orphan));
    cursor = 0;
    assert_false(host_uncommitted_next(&cursor, 6, false, &orphan));
    host_commit_begin(&orphan, &commit);
    assert_int_equal(host_commit_end(&orphan, &commit, first_verifier), 0);
    assert_int_equal(host_file_uncommitted(&file), 0);
    check_invariants();
}

struct in_flight {
    struct host_file *file;
    int ready[2];
};

static int child_dies_in_flight(void *argument)
{
    struct in_flight *in_flight = argument;
    struct host_write write;
    if (begin(in_flight->file, 0, 100000, true, &write) != 0)
        return 1;
    if (sys_write(in_flight->ready[1], "x", 1) != 1)
        return 2;
    pause();
    return 3;
}

static void a_write_of_a_dead_process_is_dropped(void **state)
{
    (void)state;
    struct host_file file;
    struct in_flight in_flight = {.file = &file};
    struct host_write write;
    char byte;
    attach(&file, 113);
    write_kept(&file, 0, 5000, 'o', first_verifier);
    assert_int_equal(pipe(in_flight.ready), 0);
    pid_t child = start_child(child_dies_in_flight, &in_flight);
    assert_int_equal(read(in_flight.ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    memset(buffer, 'n', 10);
    assert_int_equal(begin(&file, 2000, 10, true, &write), 0); /* finds it dead */
    host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(host_file_uncommitted(&file), 5000); /* the older data is still there */
    host_process_sweep(0);
    check_invariants();
    host_file_forget(&file);
    close(in_flight.ready[0]);
    close(in_flight.ready[1]);
}

static int child_dies_replaying(void *argument)
{
    struct host_file *file = argument;
    struct host_commit commit;
    struct host_write write;
    host_commit_begin(file, &commit);
    if (host_commit_end(file, &commit, second_verifier) != 700)
        return 1;
    return host_replay_next(file, &commit, &write) ? 0 : 2;
}

static void a_replay_of_a_dead_process_is_done_by_another(void **state)
{
    (void)state;
    struct host_file file;
    struct host_commit commit;
    struct host_write write;
    attach(&file, 114);
    write_kept(&file, 0, 700, 'r', first_verifier);
    assert_int_equal(run_child(child_dies_replaying, &file), 0);
    host_commit_begin(&file, &commit);
    assert_int_equal(host_commit_end(&file, &commit, second_verifier), 700);
    assert_true(host_replay_next(&file, &commit, &write));
    assert_int_equal(write.length, 700);
    host_write_end(&file, &write, HOST_WRITE_STABLE, NULL);
    assert_int_equal(host_file_uncommitted(&file), 0);
    check_invariants();
}

static int child_dies_with_stripe(void *argument)
{
    struct host_file *file = argument;
    int error;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    if (!entry)
        return 1;
    /* In the middle of everything: lists, counters and attributes are half done. */
    uint32_t count = host_map.shared->bucket_count;
    memset(&host_map.buckets[host_stripe_of_file(file) * count], 0xee, count * sizeof(uint32_t));
    host_record(entry->first)->file_next = 12345678;
    entry->last = 87654321;
    entry->records = 999;
    atomic_store(&entry->uncommitted, 1);
    host_entry_change(entry);
    kill(getpid(), SIGKILL);
    return 2;
}

static void death_with_a_stripes_lock_is_mended(void **state)
{
    (void)state;
    struct host_file file;
    struct host_attributes attributes = {.size = 1};
    uint64_t verified;
    attach(&file, 115);
    host_file_learned(&file, host_file_asking(&file), &attributes, 1);
    for (int i = 0; i < 40; i++)
        write_kept(&file, (uint64_t)i * 9000, 9000, (uint8_t)i, first_verifier);
    write_stable(&file, 30000, 50);
    uint32_t stripe = host_stripe_of_file(&file);
    uint64_t before = host_map.shared->stripes[stripe].recoveries;
    assert_int_equal(run_child(child_dies_with_stripe, &file), 128 + SIGKILL);
    assert_false(host_file_attributes(&file, &attributes, &verified)); /* half a change: unknown */
    assert_int_equal(host_map.shared->stripes[stripe].recoveries, before + 1);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 360000; i++)
        assert_int_equal(found[i], i >= 30000 && i < 30050 ? -1 : i / 9000);
    check_invariants();
    host_file_forget(&file);
}

/* Dies when the newer write is acknowledged and the second half of the older one exists, but the
 * older one was not shortened yet. */
static int child_dies_in_split(void *argument)
{
    struct host_file *file = argument;
    struct host_write write;
    int error;
    memset(buffer, 'n', 1000);
    if (begin(file, 1000, 1000, true, &write) != 0)
        return 1;
    struct host_entry *entry = host_entry_lock(file, false, &error);
    uint32_t second = host_arena_share(entry->first, 2000, 65536, 0, host_process_slot());
    host_record(second)->sequence = host_record(entry->first)->sequence;
    host_record_set_state(host_record(second), HOST_RECORD_ACKED);
    struct host_record *newer = host_record(write.first_record);
    newer->sequence = ++host_map.shared->stripes[host_stripe_of_file(file)].sequence;
    memcpy(&newer->verifier, first_verifier, sizeof(newer->verifier));
    host_record_set_state(newer, HOST_RECORD_ACKED);
    kill(getpid(), SIGKILL);
    return 2;
}

static void death_in_a_split_is_mended(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 117);
    write_kept(&file, 0, 65536, 'o', first_verifier);
    assert_int_equal(run_child(child_dies_in_split, &file), 128 + SIGKILL);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(found[i], i >= 1000 && i < 2000 ? 'n' : 'o');
    check_invariants();
    host_file_forget(&file);
}

static int child_dies_with_arena(void *argument)
{
    (void)argument;
    struct host_shared *shared = host_map.shared;
    pthread_mutex_lock(&shared->arena_lock);
    shared->free_chunks = 3;
    shared->free_records = 1;
    memset(host_map.free_chunks, 0, 100);
    memset(host_map.chunk_users, 0x55, 100);
    kill(getpid(), SIGKILL);
    return 2;
}

static void death_with_the_arenas_lock_is_mended(void **state)
{
    (void)state;
    struct host_file file;
    attach(&file, 116);
    write_kept(&file, 0, 200000, 'a', first_verifier);
    write_stable(&file, 70000, 100); /* chunks with two users */
    uint64_t before = host_map.shared->arena_recoveries;
    assert_int_equal(run_child(child_dies_with_arena, NULL), 128 + SIGKILL);
    write_kept(&file, 300000, 50000, 'b', first_verifier);
    assert_int_equal(host_map.shared->arena_recoveries, before + 1);
    check_invariants();
    host_file_forget(&file);
}

/* Every byte written is a function of its place, so any mix-up of chunks shows. */
static uint8_t byte_at(uint64_t inode, uint64_t place)
{
    return (uint8_t)(inode * 31 + place / 7 + place / 8192);
}

static int child_works_until_killed(void *argument)
{
    struct host_file files[3];
    seed = *(uint32_t *)argument;
    for (uint64_t i = 0; i < 3; i++)
        attach(&files[i], 200 + i);
    for (;;) {
        uint32_t which = random_below(3);
        struct host_file *file = &files[which];
        struct host_write write;
        struct host_commit commit;
        if (random_below(20) == 0) {
            host_commit_begin(file, &commit);
            host_commit_end(file, &commit, random_below(2) ? first_verifier : second_verifier);
            while (host_replay_next(file, &commit, &write))
                host_write_end(file, &write, (enum host_outcome)random_below(2), NULL);
            continue;
        }
        size_t length = 1 + random_below(40000);
        uint64_t offset = random_below(MODEL_BYTES - 40000);
        bool keep = random_below(4) != 0;
        for (size_t i = 0; i < length && keep; i++)
            buffer[i] = byte_at(200 + which, offset + i);
        if (begin(file, offset, length, keep, &write) != 0)
            continue;
        write.unsettled = random_below(16) == 0;
        host_write_end(file, &write, keep ? (enum host_outcome)random_below(3) : HOST_WRITE_STABLE,
                       random_below(2) ? first_verifier : second_verifier);
    }
    return 0;
}

static void killing_at_random_moments_breaks_nothing(void **state)
{
    (void)state;
    struct host_file file;
    host_hold_set(200000); /* holds begin and end all the time */
    for (uint32_t round = 0; round < rounds_of(120); round++) {
        uint32_t seeds[3] = {round * 3 + 1, round * 3 + 2, round * 3 + 3};
        pid_t children[3];
        for (int i = 0; i < 3; i++)
            children[i] = start_child(child_works_until_killed, &seeds[i]);
        for (int i = 0; i < 3; i++) {
            usleep(1000 + round * 7919 % 4000);
            kill(children[i], SIGKILL);
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(end_child(children[i]), 128 + SIGKILL);
        host_process_sweep(0);
        for (uint64_t inode = 200; inode < 203; inode++) {
            attach(&file, inode);
            read_ledger(&file, found, NULL, MODEL_BYTES);
            for (size_t i = 0; i < MODEL_BYTES; i++) {
                if (found[i] >= 0)
                    assert_int_equal(found[i], byte_at(inode, i));
            }
        }
        check_invariants();
    }
    for (uint64_t inode = 200; inode < 203; inode++) {
        attach(&file, inode);
        host_file_forget(&file);
    }
    host_hold_set(0);
    assert_int_equal(host_uncommitted(), 0);
    check_invariants();
    uint64_t mended = host_map.shared->arena_recoveries;
    for (int i = 0; i < HOST_STRIPES; i++)
        mended += host_map.shared->stripes[i].recoveries;
    print_message("locks got from killed owners: %llu\n", (unsigned long long)mended);
}

static int child_of_a_storm(void *argument)
{
    struct host_file file;
    uint64_t inode = 300 + *(uint64_t *)argument % 7;
    attach(&file, inode);
    for (uint64_t i = 0; i < 20; i++)
        write_kept(&file, (*(uint64_t *)argument % 20) * 1000, 900, (uint8_t)i, first_verifier);
    return host_process_slot() ? 0 : 1;
}

static void two_hundred_children_at_once(void **state)
{
    (void)state;
    pid_t children[200];
    struct host_file file;
    uint32_t cursor = 0;
    for (uint64_t i = 0; i < 200; i++)
        children[i] = start_child(child_of_a_storm, &i);
    for (int i = 0; i < 200; i++)
        assert_int_equal(end_child(children[i]), 0);
    while (host_uncommitted_next(&cursor, 0, true, &file))
        host_file_forget(&file);
    assert_int_equal(host_uncommitted(), 0);
    check_invariants();
}

static void the_cost_of_a_kept_write_is_reported(void **state)
{
    (void)state;
    struct host_file file;
    static uint8_t block[8192], target[64][8192];
    struct iovec vector = {block, sizeof(block)};
    struct host_write write;
    attach(&file, 400);
    const unsigned rounds = rounds_of(50000);
    for (int warm = 0; warm < 2; warm++) {
        uint64_t start = sys_now_ns();
        for (unsigned i = 0; i < rounds; i++) {
            /* 900 places again and again: each acknowledgement replaces an older record */
            assert_int_equal(
                host_write_begin(&file, (uint64_t)(i % 900) * 8192, &vector, 1, 8192, true, &write),
                0);
            host_write_end(&file, &write, HOST_WRITE_UNSTABLE, first_verifier);
        }
        uint64_t ledger = sys_now_ns() - start;
        start = sys_now_ns();
        for (unsigned i = 0; i < rounds; i++) {
            memcpy(target[i % 64], block, 8192);
            __asm__ volatile("" ::"r"(target) : "memory");
        }
        uint64_t copying = sys_now_ns() - start;
        if (warm)
            print_message("begin+end of a kept 8 KiB write: %llu ns, of which memcpy %llu ns\n",
                          (unsigned long long)ledger / rounds,
                          (unsigned long long)copying / rounds);
    }
    host_file_forget(&file);
    check_invariants();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_kept_as_it_was_given),
        cmocka_unit_test(bad_pointers_are_refused),
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(a_hole_splits_a_record),
        cmocka_unit_test(a_full_arena_loses_nothing),
        cmocka_unit_test(chunks_run_out_with_enospc_and_come_back),
        cmocka_unit_test(commit_vouches_only_for_what_it_was_sent_after),
        cmocka_unit_test(another_verifier_demands_writing_again),
        cmocka_unit_test(a_split_during_a_commit_is_replayed_whole),
        cmocka_unit_test(overlapping_writes_of_threads_exclude_each_other),
        cmocka_unit_test(disjoint_writes_do_not_wait),
        cmocka_unit_test(a_childs_data_is_seen_and_committed_by_others),
        cmocka_unit_test(a_write_of_a_dead_process_is_dropped),
        cmocka_unit_test(a_replay_of_a_dead_process_is_done_by_another),
        cmocka_unit_test(death_with_a_stripes_lock_is_mended),
        cmocka_unit_test(death_in_a_split_is_mended),
        cmocka_unit_test(death_with_the_arenas_lock_is_mended),
        cmocka_unit_test(killing_at_random_moments_breaks_nothing),
        cmocka_unit_test(two_hundred_children_at_once),
        cmocka_unit_test(the_cost_of_a_kept_write_is_reported),
    };
    return cmocka_run_group_tests(tests, open_registry, remove_run_directory);
}
