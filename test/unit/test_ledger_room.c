/* Where the ledger keeps its data, and what it costs: src/ledger/store/arena.c, pocket.c. */
#include "ledger_test.h"

#include <pthread.h>

/* A write into what is older, which may yet be executed again: nobody may write where it did. */
static void write_unsettled(struct ledger_file *file, uint64_t offset, size_t length)
{
    struct ledger_write write;
    uint32_t record;
    ledger_hold_set(10000000000);
    assert_int_equal(begin(file, offset, length, false, &write), 0);
    write.unsettled = true;
    ledger_write_end(file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(ledger_record_conflict(file->index, offset - 1, offset, 0), 0);
    assert_int_equal(ledger_record_conflict(file->index, offset + length, offset + length + 1, 0),
                     0);
    record = ledger_record_conflict(file->index, offset, offset + 1, 0);
    assert_int_not_equal(record, 0);
    assert_int_equal(ledger_record_conflict(file->index, offset + length - 1, offset + length, 0),
                     record);
    ledger_record(record)->held_until = 0;
    ledger_hold_set(0);
}

/* Without a free record a hole is filled in the older record (kept), or the write's own record
 * becomes the second half (not kept): no data is lost. */
UNIT_TEST(a_full_arena_loses_nothing)
{
    struct ledger_file file, fillers[16]; /* a file of many writes in flight takes long */
    uint32_t capacity = ledger_map.shared->record_count, count = 0;
    struct ledger_write *writes = calloc(capacity, sizeof(*writes)), write;
    struct ledger_commit commit;
    attach(&file, 104);
    for (unsigned i = 0; i < 16; i++)
        attach(&fillers[i], 10500 + i);
    write_kept(&file, 0, 65536, 'a', first_verifier);
    while (begin(&fillers[count % 16], count, 1, false, &writes[count]) == 0)
        count++;
    assert_true(count > 1000);
    assert_int_equal(begin(&file, 10, 1, true, &write), -ENOSPC);
    count--;
    ledger_write_end(&fillers[count % 16], &writes[count], LEDGER_WRITE_FAILED, 0);
    ledger_commit_begin(&file, &commit);
    write_kept(&file, 1000, 10000, 'b', second_verifier);
    ledger_commit_end(&file, &commit, first_verifier); /* it was sent before */
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(found[i], i >= 1000 && i < 11000 ? 'b' : 'a');
    write_unsettled(&file, 20000, 10000);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 65536; i++)
        assert_int_equal(found[i], i >= 20000 && i < 30000  ? -1
                                   : i >= 1000 && i < 11000 ? 'b'
                                                            : 'a');
    while (count-- > 0)
        ledger_write_end(&fillers[count % 16], &writes[count], LEDGER_WRITE_FAILED, 0);
    ledger_file_forget(&file, false);
    check_invariants();
    free(writes);
}

UNIT_TEST(chunks_run_out_with_enospc_and_come_back)
{
    struct ledger_file file;
    struct ledger_write write;
    struct ledger_commit commit;
    uint64_t offset = 0;
    attach(&file, 106);
    while (begin(&file, offset, LEDGER_WRITE_MAX, true, &write) == 0) {
        ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
        offset += LEDGER_WRITE_MAX;
        assert_true(offset <= 2 * UNCOMMITTED_MAX);
    }
    assert_in_range(offset, UNCOMMITTED_MAX - LEDGER_WRITE_MAX, UNCOMMITTED_MAX);
    assert_int_equal(begin(&file, offset, 1 << 16, false, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    ledger_commit_begin(&file, &commit);
    assert_int_equal(ledger_commit_end(&file, &commit, first_verifier), 0);
    assert_int_equal(ledger_file_uncommitted(&file), 0);
    assert_int_equal(begin(&file, 0, LEDGER_WRITE_MAX, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    check_invariants();
}

/* ---- the pocket ---- */

static int child_is_killed_with_a_pocket(void *argument)
{
    struct ledger_file *file = argument;
    struct ledger_commit commit;
    for (uint64_t i = 0; i < 40; i++)
        write_kept(file, i * 8192, 8192, 'c', first_verifier);
    ledger_commit_begin(file, &commit);
    ledger_commit_end(file, &commit, first_verifier);
    uint32_t in_pocket = 0;
    for (uint32_t i = 1; i < ledger_map.shared->next_record; i++)
        in_pocket += ledger_record(i)->state == LEDGER_RECORD_PRIVATE &&
                     ledger_record(i)->owner == ledger_process_slot();
    must(in_pocket > 1);
    kill(getpid(), SIGKILL);
    return 0;
}

UNIT_TEST(the_pocket_of_a_dead_process_is_found)
{
    struct ledger_file file;
    attach(&file, 120);
    assert_int_equal(run_child(child_is_killed_with_a_pocket, &file), 128 + SIGKILL);
    ledger_process_sweep(0);
    check_invariants();
    assert_int_equal(ledger_map.shared->free_records, ledger_map.shared->next_record - 1);
}

static int child_writes_beside(void *argument)
{
    struct ledger_file file;
    attach(&file, *(uint64_t *)argument);
    for (uint64_t i = 0; i < 30; i++)
        write_kept(&file, i * 8192, 8192, 'c', first_verifier);
    return 0;
}

UNIT_TEST(a_childs_pocket_is_not_its_parents)
{
    struct ledger_file file, other;
    uint64_t inode = 122;
    attach(&file, 121);
    attach(&other, inode);
    write_kept(&file, 0, 8192, 'p', first_verifier); /* fills the pocket */
    pid_t child = start_child(child_writes_beside, &inode);
    for (uint64_t i = 1; i < 30; i++)
        write_kept(&file, i * 8192, 8192, 'p', first_verifier);
    assert_int_equal(end_child(child), 0);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 30 * 8192; i++)
        assert_int_equal(found[i], 'p');
    read_ledger(&other, found, NULL, MODEL_BYTES);
    for (int i = 0; i < 30 * 8192; i++)
        assert_int_equal(found[i], 'c');
    ledger_process_sweep(0);
    check_invariants();
    ledger_file_forget(&file, false);
    ledger_file_forget(&other, false);
}

static void *writer_of_a_region(void *argument)
{
    enum { REGION = 90000 };
    uint8_t which = (uint8_t)(uintptr_t)argument, data[17000];
    struct iovec vector = {data, 0};
    struct ledger_file file;
    struct ledger_commit commit;
    struct ledger_write write;
    attach(&file, 125);
    memset(data, which, sizeof(data));
    for (unsigned i = 0; i < rounds_of(3000); i++) {
        vector.iov_len = 1 + i * 7919 % sizeof(data);
        uint64_t offset = which * (uint64_t)REGION + i * 104729 % (REGION - sizeof(data));
        bool keep = i % 3 != 0;
        if (ledger_write_begin(&file, offset, &vector, 1, vector.iov_len, keep, &write) != 0)
            return "begin failed";
        ledger_write_end(&file, &write, keep ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_STABLE,
                         first_verifier);
        if (i % 100 == 0) {
            ledger_commit_begin(&file, &commit);
            ledger_commit_end(&file, &commit, i % 200 ? first_verifier : second_verifier);
        }
    }
    return NULL;
}

UNIT_TEST(threads_share_a_pocket)
{
    pthread_t threads[4];
    struct ledger_file file;
    void *result;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, writer_of_a_region, (void *)i), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    attach(&file, 125);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 0; i < MODEL_BYTES; i++)
        assert_true(found[i] == -1 || found[i] == i / 90000);
    check_invariants();
    ledger_file_forget(&file, false);
}

UNIT_TEST(a_chunk_of_two_records_is_in_no_pocket)
{
    struct ledger_file file;
    attach(&file, 123);
    write_kept(&file, 0, 8192, 'o', first_verifier);
    write_stable(&file, 100, 100); /* both halves have the chunk */
    write_stable(&file, 0, 100);   /* one goes */
    for (uint64_t i = 1; i < 40; i++)
        write_kept(&file, i * 8192, 8192, 'n', first_verifier);
    read_ledger(&file, found, NULL, MODEL_BYTES);
    for (int i = 200; i < 8192; i++)
        assert_int_equal(found[i], 'o');
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(the_last_chunk_can_be_used)
{
    struct ledger_file file;
    struct ledger_write write;
    uint64_t count = 0;
    attach(&file, 124);
    while (begin(&file, count * 8192, 8192, true, &write) == 0) {
        ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
        count++;
    }
    assert_int_equal(count, ledger_map.shared->chunk_count - 1);
    ledger_file_forget(&file, false);
    check_invariants();
}

UNIT_TEST(the_cost_of_a_kept_write_is_reported)
{
    struct ledger_file file;
    static uint8_t block[8192], target[64][8192];
    struct iovec vector = {block, sizeof(block)};
    struct ledger_write write;
    attach(&file, 400);
    const unsigned rounds = rounds_of(50000);
    for (int warm = 0; warm < 2; warm++) {
        uint64_t start = sys_now_ns();
        for (unsigned i = 0; i < rounds; i++) {
            /* 900 places again and again: each acknowledgement replaces an older record */
            assert_int_equal(ledger_write_begin(&file, (uint64_t)(i % 900) * 8192, &vector, 1, 8192,
                                                true, &write),
                             0);
            ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
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
    ledger_file_forget(&file, false);
    check_invariants();
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
