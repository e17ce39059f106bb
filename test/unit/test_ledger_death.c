/* The ledger of several processes, and after the death of one: src/ledger/dead.c,
 * records.c.
 */
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "ledger/append.h"
#include "ledger/rebuild.h"
#include "ledger/store/mutex.h"
#include "ledger_test.h"

static int child_writes(void *argument)
{
    struct ledger_file file;
    attach(&file, *(uint64_t *)argument);
    write_kept(&file, 500, 1000, 'c', first_verifier);
    return ledger_file_uncommitted_here(&file, false) ? 0 : 1;
}

UNIT_TEST(a_childs_data_is_seen_and_committed_by_others)
{
    struct ledger_file file, orphan;
    struct ledger_commit commit;
    uint64_t inode = 112;
    uint32_t cursor = 0;
    attach(&file, inode);
    assert_int_equal(run_child(child_writes, &inode), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 1000);
    assert_false(ledger_file_uncommitted_here(&file, false));
    ledger_process_sweep(0);
    assert_true(ledger_uncommitted_next(&cursor, 5, true, &orphan));
    assert_int_equal(orphan.key.inode, inode);
    assert_int_equal(orphan.key.handle_length, file.key.handle_length);
    assert_memory_equal(orphan.key.handle, file.key.handle, file.key.handle_length);
    assert_false(ledger_uncommitted_next(&cursor, 5, true, &orphan));
    cursor = 0;
    assert_false(ledger_uncommitted_next(&cursor, 6, false, &orphan));
    ledger_commit_begin(&orphan, &commit);
    assert_int_equal(ledger_commit_end(&orphan, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

UNIT_TEST(a_write_of_a_dead_process_is_dropped)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 113);
    write_kept(&file, 0, 5000, 'o', first_verifier);
    pid_t child = start_in_flight(&file, 100000);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    memset(buffer, 'n', 10);
    assert_int_equal(begin(&file, 2000, 10, true, &write), 0); /* finds it dead */
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(ledger_file_uncommitted(&file), 5000); /* the older data is still there */
    ledger_process_sweep(0);
    check_invariants();
    ledger_file_forget(&file, false);
}

static int child_dies_replaying(void *argument)
{
    struct ledger_file *file = argument;
    struct ledger_commit commit;
    struct ledger_write write;
    ledger_commit_begin(file, &commit);
    if (ledger_commit_end(file, &commit, second_verifier) != 700)
        return 1;
    return ledger_replay_next(file, &commit, true, &write) == 1 ? 0 : 2;
}

UNIT_TEST(a_replay_of_a_dead_process_is_done_by_another)
{
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 114);
    write_kept(&file, 0, 700, 'r', first_verifier);
    assert_int_equal(run_child(child_dies_replaying, &file), 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, second_verifier), 700);
    assert_int_equal(ledger_replay_next(&file, &commit, true, &write), 1);
    assert_int_equal(write.length, 700);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    check_invariants();
}

static int child_dies_with_stripe(void *argument)
{
    struct ledger_file *file = argument;
    int error;
    struct ledger_entry *entry = ledger_entry_lock(file, false, &error);
    if (!entry)
        return 1;
    /* In the middle of everything: lists, counters and attributes are half done. */
    uint32_t count = ledger_map.shared->bucket_count;
    memset(&ledger_map.buckets[ledger_stripe_of_file(file) * count], 0xee,
           count * sizeof(*ledger_map.buckets));
    ledger_record(entry->first)->file_next = 12345678;
    ledger_record(entry->first)->left = ledger_record(entry->first)->above = 12345678;
    ledger_record(entry->first)->reach = 0;
    entry->sent_first = 87654321;
    entry->last = 87654321;
    entry->records = 999;
    atomic_store(&entry->uncommitted, 1);
    ledger_entry_change(entry);
    kill(getpid(), SIGKILL);
    return 2;
}

UNIT_TEST(death_with_a_stripes_lock_is_mended)
{
    struct ledger_file file;
    struct ledger_attributes attributes = {.size = 1};
    uint64_t verified;
    attach(&file, 115);
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, 1);
    for (int i = 0; i < 40; i++)
        write_kept(&file, (uint64_t)i * 9000, 9000, (uint8_t)i, first_verifier);
    write_stable(&file, 30000, 50);
    uint32_t stripe = ledger_stripe_of_file(&file);
    uint64_t before = ledger_map.shared->stripes[stripe].recoveries;
    assert_int_equal(run_child(child_dies_with_stripe, &file), 128 + SIGKILL);
    assert_false(
        ledger_file_attributes(&file, &attributes, &verified)); /* half a change: unknown */
    assert_int_equal(ledger_map.shared->stripes[stripe].recoveries, before + 1);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 360000; i++)
        assert_int_equal(found[i], i >= 30000 && i < 30050 ? -1 : i / 9000);
    check_invariants();
    ledger_file_forget(&file, false);
}

static void *waits_for_a_stripe(void *stripe)
{
    ledger_stripe_lock(*(uint32_t *)stripe);
    ledger_stripe_unlock(*(uint32_t *)stripe);
    return NULL;
}

/* It was meant for a thread that was killed. */
UNIT_TEST(a_wake_that_is_lost_makes_nobody_wait_for_ever)
{
    uint32_t stripe = 7;
    int *word = &ledger_map.shared->stripes[stripe].lock.__data.__lock;
    pthread_t waiter;
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); /* the first process of the system has it */
    assert_int_equal(pthread_create(&waiter, NULL, waits_for_a_stripe, &stripe), 0);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 1) /* until it is marked: somebody waits */
        usleep(1000);
    usleep(10000);
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_join(waiter, NULL), 0);
}

/* Any wait for a futex by the time of day ends this process. */
static bool forbid_the_time_of_day(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FUTEX_CLOCK_REALTIME, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int waits_for_a_held_stripe(void *stripe)
{
    if (!forbid_the_time_of_day())
        return 77;
    must(ledger_mutex_lock_within(&ledger_map.shared->stripes[*(uint32_t *)stripe].lock, 1) ==
         ETIMEDOUT);
    return 0;
}

/* It jumps, and who waits by it might wait for hours. */
UNIT_TEST(who_waits_for_a_lock_does_not_go_by_the_time_of_day)
{
    uint32_t stripe = 7;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* valgrind and sanitizers have other ways to wait */
    ledger_stripe_lock(stripe);
    int status = run_child(waits_for_a_held_stripe, &stripe);
    ledger_stripe_unlock(stripe);
    if (status == 77)
        skip(); /* not permitted */
    assert_int_equal(status, 0);
}

static int take_a_turn(struct ledger_file *file, struct ledger_append *append)
{
    *append = (struct ledger_append){.length = 10};
    return ledger_append_begin(file, append, false);
}

static int child_takes_turns_until_killed(void *argument)
{
    struct ledger_file *file = argument;
    struct ledger_append append;
    for (;;) {
        if (take_a_turn(file, &append) != 0)
            return 1;
        ledger_append_end(file, &append, false);
    }
}

/* Who has its place afterwards would wait for itself. */
UNIT_TEST(a_turn_to_append_ends_with_its_process_whenever_that_is)
{
    struct ledger_file file;
    struct ledger_append append;
    struct ledger_attributes attributes = {.size = 1};
    attach(&file, 116);
    ledger_file_learned(&file, ledger_file_asking(&file), &attributes, 1);
    for (uint32_t round = 0; round < rounds_of(600); round++) {
        pid_t child = start_child(child_takes_turns_until_killed, &file);
        usleep(300 + round * 7919 % 500);
        kill(child, SIGKILL);
        assert_int_equal(end_child(child), 128 + SIGKILL);
        ledger_process_sweep(0);
        assert_int_equal(take_a_turn(&file, &append), 0);
        ledger_append_end(&file, &append, false);
    }
    ledger_file_forget(&file, false);
}

/* Dies when the newer write is acknowledged, but the older one was not shortened yet; before or
 * after the second half of that exists. */
struct split {
    struct ledger_file *file;
    bool halves;
};

static int child_dies_in_split(void *argument)
{
    const struct split *split = argument;
    struct ledger_file *file = split->file;
    struct ledger_write write;
    int error;
    memset(buffer, 'n', 1000);
    if (begin(file, 1000, 1000, true, &write) != 0)
        return 1;
    struct ledger_entry *entry = ledger_entry_lock(file, false, &error);
    if (split->halves) {
        uint32_t second = ledger_arena_share(entry->first, 2000, 65536, 0, ledger_process_slot());
        ledger_record(second)->sequence = ledger_record(entry->first)->sequence;
        ledger_record_set_state(ledger_record(second), LEDGER_RECORD_ACKED);
    }
    struct ledger_record *newer = ledger_record(write.first_record);
    newer->sequence = ++ledger_map.shared->stripes[ledger_stripe_of_file(file)].sequence;
    newer->verifier = first_verifier;
    ledger_record_set_state(newer, LEDGER_RECORD_ACKED);
    kill(getpid(), SIGKILL);
    return 2;
}

static int child_mends_without_a_slot(void *argument)
{
    uint32_t stripe = ledger_stripe_of_file(argument);
    ledger_stripe_lock(stripe);
    ledger_stripe_unlock(stripe);
    return ledger_process_slot_taken() == 0 ? 0 : 1;
}

UNIT_TEST(death_in_a_split_is_mended)
{
    for (int round = 0; round < 4; round++) {
        struct ledger_file file;
        struct split split = {.file = &file, .halves = round & 1};
        attach(&file, 117);
        write_kept(&file, 0, 65536, 'o', first_verifier);
        assert_int_equal(run_child(child_dies_in_split, &split), 128 + SIGKILL);
        if (round & 2)
            assert_int_equal(run_child(child_mends_without_a_slot, &file), 0);
        read_ledger(&file, found, NULL, MODEL_BYTES);
        for (int i = 0; i < 65536; i++)
            assert_int_equal(found[i], i >= 1000 && i < 2000 ? 'n' : 'o');
        check_invariants();
        ledger_file_forget(&file, false);
    }
}

/* Dies with a record of others in its hands, before it wrote anything itself. */
struct drop {
    struct ledger_file *file;
    bool slot;
};

static int child_dies_dropping(void *argument)
{
    const struct drop *drop = argument;
    struct ledger_garbage garbage = {0};
    int error;
    if (drop->slot && !ledger_process_slot())
        return 1;
    struct ledger_entry *entry = ledger_entry_lock(drop->file, false, &error);
    ledger_record_drop(entry, entry->first, &garbage);
    ledger_entry_unlock(drop->file);
    kill(getpid(), SIGKILL);
    return 2;
}

UNIT_TEST(what_a_dead_process_dropped_is_not_lost_room)
{
    for (int slot = 0; slot <= 1; slot++) {
        struct ledger_file file;
        struct drop drop = {.file = &file, .slot = slot};
        attach(&file, 118);
        write_kept(&file, 0, 1000, 'd', first_verifier);
        assert_int_equal(run_child(child_dies_dropping, &drop), 128 + SIGKILL);
        ledger_process_sweep(0);
        check_invariants();
        assert_int_equal(ledger_file_uncommitted(&file), 0);
        assert_int_equal(ledger_map.entries[file.index].records, 0);
    }
}

static int child_dies_with_arena(void *argument)
{
    (void)argument;
    struct ledger_shared *shared = ledger_map.shared;
    pthread_mutex_lock(&shared->arena_lock);
    shared->free_chunks = 3;
    shared->free_records = 1;
    memset(ledger_map.free_chunks, 0, 100);
    memset(ledger_map.chunk_users, 0x55, 100);
    kill(getpid(), SIGKILL);
    return 2;
}

UNIT_TEST(death_with_the_arenas_lock_is_mended)
{
    struct ledger_file file;
    attach(&file, 116);
    write_kept(&file, 0, 200000, 'a', first_verifier);
    write_stable(&file, 70000, 100); /* chunks with two users */
    uint64_t before = ledger_map.shared->arena_recoveries;
    assert_int_equal(run_child(child_dies_with_arena, NULL), 128 + SIGKILL);
    write_kept(&file, 300000, 50000, 'b', first_verifier);
    assert_int_equal(ledger_map.shared->arena_recoveries, before + 1);
    check_invariants();
    ledger_file_forget(&file, false);
}

/* Every byte written is a function of its place, so any mix-up of chunks shows. */
static uint8_t byte_at(uint64_t inode, uint64_t place)
{
    return (uint8_t)(inode * 31 + place / 7 + place / 8192);
}

static int child_works_until_killed(void *argument)
{
    struct ledger_file files[3];
    seed = *(uint32_t *)argument;
    for (uint64_t i = 0; i < 3; i++)
        attach(&files[i], 200 + i);
    for (;;) {
        uint32_t which = random_below(3);
        struct ledger_file *file = &files[which];
        struct ledger_write write;
        struct ledger_commit commit;
        if (random_below(20) == 0) {
            if (!ledger_commit_begin(file, &commit))
                continue;
            ledger_commit_end(file, &commit, random_below(2) ? first_verifier : second_verifier);
            commit.most = random_below(100000);
            while (ledger_replay_next(file, &commit, true, &write) == 1)
                ledger_write_end(file, &write, (enum ledger_outcome)random_below(3),
                                 second_verifier);
            continue;
        }
        /* Small ones that follow one another are joined. */
        static uint64_t follows;
        bool small = random_below(2);
        size_t length = 1 + random_below(small ? 1000 : 40000);
        uint64_t offset =
            small && follows < MODEL_BYTES - 40000 ? follows : random_below(MODEL_BYTES - 40000);
        follows = offset + length;
        bool keep = random_below(4) != 0;
        for (size_t i = 0; i < length && keep; i++)
            buffer[i] = byte_at(200 + which, offset + i);
        if (begin(file, offset, length, keep, &write) != 0)
            continue;
        write.unsettled = random_below(16) == 0;
        ledger_write_end(file, &write,
                         keep ? (enum ledger_outcome)random_below(3) : LEDGER_WRITE_STABLE,
                         random_below(2) ? first_verifier : second_verifier);
    }
    return 0;
}

UNIT_TEST(killing_at_random_moments_breaks_nothing)
{
    struct ledger_file file;
    ledger_hold_set(200000); /* holds begin and end all the time */
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
        ledger_process_sweep(0);
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
        ledger_file_forget(&file, false);
    }
    ledger_hold_set(0);
    assert_int_equal(ledger_uncommitted(), 0);
    check_invariants();
    uint64_t mended = ledger_map.shared->arena_recoveries;
    for (int i = 0; i < LEDGER_STRIPES; i++)
        mended += ledger_map.shared->stripes[i].recoveries;
    print_message("locks got from killed owners: %llu\n", (unsigned long long)mended);
}

static int child_of_a_storm(void *argument)
{
    struct ledger_file file;
    uint64_t inode = 300 + *(uint64_t *)argument % 7;
    attach(&file, inode);
    for (uint64_t i = 0; i < 20; i++)
        write_kept(&file, (*(uint64_t *)argument % 20) * 1000, 900, (uint8_t)i, first_verifier);
    return ledger_process_slot() ? 0 : 1;
}

UNIT_TEST(many_children_at_once)
{
    pid_t children[200];
    const unsigned count = rounds_of(200);
    struct ledger_file file;
    uint32_t cursor = 0;
    for (uint64_t i = 0; i < count; i++)
        children[i] = start_child(child_of_a_storm, &i);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(end_child(children[i]), 0);
    ledger_process_sweep(0);
    while (ledger_uncommitted_next(&cursor, 0, true, &file))
        ledger_file_forget(&file, false);
    assert_int_equal(ledger_uncommitted(), 0);
    check_invariants();
}

/* As the first process of another namespace of process numbers, in which no number is right. */
static int sees_nobody(void *argument)
{
    struct ledger_commit commit;
    struct ledger_write write;
    ledger_process_sweep(0);
    must(begin(argument, 100000, 10, true, &write) == -ENOSPC);
    ledger_commit_begin(argument, &commit);
    must(ledger_commit_end(argument, &commit, second_verifier) == 100);
    must(ledger_file_truncate_begin(argument, 50) == -ENOSPC);
    must(ledger_replay_next(argument, &commit, false, &write) <
         0); /* 0 would mean that all is well */
    return 0;
}

static int goes_to_another_namespace(void *argument)
{
    if (unshare(CLONE_NEWPID) != 0)
        return 77;
    pid_t child = start_child(sees_nobody, argument);
    int status;
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 2;
}

UNIT_TEST(processes_of_another_namespace_are_not_taken_for_dead)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 119);
    write_kept(&file, 1000, 100, 'k', first_verifier);
    assert_int_equal(begin(&file, 0, 10, true, &write), 0);
    int status = run_child(goes_to_another_namespace, &file);
    if (status == 77)
        skip(); /* not permitted */
    assert_int_equal(status, 0);
    assert_int_equal(ledger_record_state(ledger_record(write.first_record)),
                     LEDGER_RECORD_IN_FLIGHT);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    ledger_file_forget(&file, false);
    check_invariants();
}

static int puts_in_order(void *argument)
{
    struct iovec vector = {buffer, 100};
    struct ledger_write write;
    uint32_t stripe = ledger_stripe_of_file(argument);
    uint64_t dirty;
    const struct ledger_beginning beginning = {
        .data = &vector, .count = 1, .length = 100, .keep = true, .write = &write};
    must(ledger_write_behind(argument, &beginning, false, &dirty) == 0);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    ledger_stripe_lock(stripe);
    ledger_stripe_rebuild(stripe);
    ledger_stripe_unlock(stripe);
    return 0;
}

/* By whoever looks without the lock, as a read and a sync do before all else. */
UNIT_TEST(dirty_data_is_counted_while_a_stripe_is_put_in_order)
{
    struct ledger_file file;
    unsigned missed = 0;
    int status;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
    attach(&file, 520);
    pid_t child = start_child(puts_in_order, &file);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    while (!WIFEXITED(status)) {
        missed += ledger_file_dirty(&file) == 0 || ledger_uncommitted() == 0;
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_int_equal(missed, 0);
    assert_int_equal(ledger_file_dirty(&file), 100);
    check_invariants();
    ledger_file_forget(&file, false);
    assert_int_equal(ledger_uncommitted(), 0);
}

static _Atomic bool rebuilt;

static void *rebuilds(void *argument)
{
    uint32_t stripe = ledger_stripe_of_file(argument);
    for (unsigned i = 0; i < rounds_of(10000); i++) {
        ledger_stripe_lock(stripe);
        ledger_stripe_rebuild(stripe);
        ledger_stripe_unlock(stripe);
    }
    atomic_store(&rebuilt, true);
    return NULL;
}

/* A read asks without the lock whether the server may have lost what is acknowledged. */
UNIT_TEST(what_is_uncommitted_is_seen_while_a_stripe_is_put_in_order)
{
    struct ledger_file file;
    pthread_t thread;
    attach(&file, 612);
    write_kept(&file, 0, 100, 'a', first_verifier);
    assert_int_equal(pthread_create(&thread, NULL, rebuilds, &file), 0);
    do {
        assert_true(ledger_file_acknowledged(&file) > 0);
        assert_true(ledger_file_verifier_differs(&file, second_verifier));
    } while (!atomic_load(&rebuilt));
    pthread_join(thread, NULL);
    assert_int_equal(ledger_file_acknowledged(&file), 100);
    assert_false(ledger_file_verifier_differs(&file, first_verifier));
    check_invariants();
    ledger_file_forget(&file, false);
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
