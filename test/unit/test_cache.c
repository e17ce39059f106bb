/* What the registry keeps of files that were read or written, and when it is not given out:
 * src/ledger/cache.c. */
#include <signal.h>
#include <sys/mman.h>

#include "cache_test.h"
#include "ledger/dirty.h"
#include "ledger/store/processes.h"
#include "ledger/world.h"

struct asked {
    struct ledger_file *file;
    uint8_t fill;
};

static int child_reads(void *argument)
{
    struct asked *asked = argument;
    return given(asked->file, 0, PIECE, asked->fill, NOW) == PIECE ? 0 : 1;
}

static int child_writes(void *file)
{
    write_kept(file, 0, 100, 2, first_verifier);
    return 0;
}

UNIT_TEST(what_one_process_read_another_is_given)
{
    struct ledger_file file;
    watched(&file, 300);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 1);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    assert_int_equal(run_child(child_reads, &(struct asked){&file, 1}), 0);
    assert_int_equal(given(&file, 100, 2 * PIECE, 1, NOW), PIECE - 100);
    assert_int_equal(given(&file, PIECE, 1, 1, NOW), 0);
}

UNIT_TEST(a_write_drops_what_it_overlaps_and_no_more)
{
    struct ledger_file file;
    watched(&file, 301);
    read_in(&file, 0, 4 * PIECE, 1);
    assert_int_equal(run_child(child_writes, &file), 0);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    assert_int_equal(given(&file, 4096, PIECE, 1, NOW), PIECE);
    struct ledger_write write;
    assert_int_equal(begin(&file, 2 * PIECE, PIECE, true, &write), 0); /* in flight is enough */
    assert_int_equal(given(&file, PIECE, 2 * PIECE, 1, NOW), PIECE);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    assert_int_equal(given(&file, PIECE, 2 * PIECE, 1, NOW), PIECE);
}

UNIT_TEST(what_was_read_before_a_write_is_not_kept_after_it)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    watched(&file, 302);
    assert_true(ledger_stamp_take_quiet(&file, 0, PIECE, &stamp));
    write_stable(&file, 0, 100);
    keep(&file, &stamp, 0, PIECE, 1);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
}

/* Between the copy and its judgement. */
UNIT_TEST(a_copy_is_not_believed_after_a_write)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    watched(&file, 303);
    read_in(&file, 0, PIECE, 1);
    assert_int_equal(ledger_cache_copy(&file, 0, PIECE, got, &stamp), PIECE);
    assert_int_equal(run_child(child_writes, &file), 0);
    assert_int_equal(ledger_cache_judge_copy(&file, &stamp, 0, PIECE, NOW), LEDGER_CACHE_OLD);
}

static size_t after_size(uint64_t number, uint64_t size)
{
    struct ledger_file file;
    watched(&file, number);
    read_in(&file, 0, PIECE, 1);
    must(ledger_file_truncate_begin(&file, size) == 0);
    must(given(&file, 0, PIECE, 1, NOW) == 0);
    ledger_file_truncate_end(&file, size, true);
    return given(&file, 0, PIECE, 1, NOW);
}

UNIT_TEST(a_change_of_size_drops_all)
{
    assert_int_equal(after_size(304, 100), 0);
    assert_int_equal(after_size(305, MODEL_BYTES + 1), 0);
}

UNIT_TEST(what_was_read_past_it_is_not_given_as_it_was)
{
    struct ledger_file file;
    watched(&file, 307);
    read_in(&file, 0, 40 * PIECE, 1);
    ledger_cache_passed(&file, 100, 20 * PIECE); /* over several groups */
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    assert_int_equal(given(&file, 20 * PIECE, PIECE, 1, NOW), 0);
    assert_int_equal(given(&file, 21 * PIECE, PIECE, 1, NOW), PIECE);
}

UNIT_TEST(pieces_of_a_block_become_one)
{
    struct ledger_file file;
    watched(&file, 306);
    read_in(&file, 100, 50, 1);
    assert_int_equal(given(&file, 100, 100, 1, NOW), 50);
    assert_int_equal(given(&file, 99, 100, 1, NOW), 0);
    read_in(&file, 150, 50, 1);
    read_in(&file, 50, 60, 1);
    assert_int_equal(given(&file, 50, PIECE, 1, NOW), 150);
    read_in(&file, 1000, 50, 3); /* not beside it: the latest stays */
    assert_int_equal(given(&file, 50, 1, 1, NOW), 0);
    assert_int_equal(given(&file, 1000, PIECE, 3, NOW), 50);
}

/* ---- what is written behind ---- */

UNIT_TEST(what_was_sent_is_kept_unless_it_is_written_again)
{
    for (unsigned again = 0; again < 2; again++) {
        struct ledger_file file;
        struct ledger_write write, taken;
        struct ledger_stamp stamp = {.generation = 0};
        struct iovec vector = {buffer, PIECE}, vectors[LEDGER_WRITE_VECTORS];
        struct ledger_beginning beginning = {
            .offset = 0, .data = &vector, .count = 1, .length = PIECE, .keep = true};
        uint64_t dirty;
        watched(&file, 320 + again);
        memset(buffer, 5, PIECE);
        beginning.write = &write;
        assert_int_equal(ledger_write_behind(&file, &beginning, false, &dirty), 0);
        struct ledger_sending sending = ledger_dirty_now(&file, 1 << 20);
        sending.stamp = &stamp;
        assert_int_equal(ledger_dirty_take(&file, &sending, false, &taken), 1);
        if (again)
            assert_int_equal(ledger_write_behind(&file, &beginning, false, &dirty), 0);
        ledger_write_data(&taken, 0, PIECE, vectors);
        ledger_cache_keep(&file, &stamp, 0, vectors, PIECE);
        ledger_write_end(&file, &taken, LEDGER_WRITE_STABLE, 0);
        assert_int_equal(given(&file, 0, PIECE, 5, NOW), again ? 0 : PIECE);
    }
}

/* ---- room ---- */

UNIT_TEST(there_is_room_for_so_much_and_what_was_used_last_stays)
{
    enum { PIECES = 3 * CACHE / PIECE };
    struct ledger_file file;
    size_t kept = 0;
    watched(&file, 330);
    for (unsigned i = 0; i < PIECES; i++) {
        read_in(&file, (uint64_t)i * PIECE, PIECE, (uint8_t)i);
        assert_int_equal(given(&file, (uint64_t)i * PIECE, PIECE, (uint8_t)i, NOW), PIECE);
    }
    for (unsigned i = 0; i < PIECES; i++)
        kept += given(&file, (uint64_t)i * PIECE, PIECE, (uint8_t)i, NOW);
    assert_true(kept <= CACHE);
    assert_true(kept >= CACHE / 4);
    assert_int_equal(given(&file, (PIECES - 1) * PIECE, PIECE, (uint8_t)(PIECES - 1), NOW), PIECE);
}

/* Whatever is in shared memory, nothing is read or written beyond it. */
UNIT_TEST(nonsense_in_shared_memory_does_no_harm)
{
    struct ledger_file file;
    watched(&file, 331);
    for (unsigned round = 0; round < rounds_of(200); round++) {
        for (unsigned i = 0; i < 16; i++)
            read_in(&file, (uint64_t)i * PIECE, PIECE, 7);
        for (uint32_t group = 0; group < ledger_map.shared->group_count; group++) {
            struct ledger_frame *frames = &ledger_map.frames[group * LEDGER_GROUP_FRAMES];
            for (unsigned i = 0; ledger_map.shared->group_ways[group] && i < LEDGER_GROUP_FRAMES;
                 i++) {
                frames[i].from = random_below(3) ? random_below(5000) : UINT32_MAX;
                frames[i].to = random_below(3) ? random_below(5000) : UINT32_MAX - random_below(9);
                frames[i].valid = random_below(3);
            }
        }
        for (unsigned i = 0; i < 40; i++) {
            struct ledger_stamp stamp;
            uint64_t offset = random_below(16 * PIECE);
            size_t length = 1 + random_below(4 * PIECE);
            must(ledger_cache_copy(&file, offset, length, got, &stamp) <= length);
            read_in(&file, offset, length, 7);
        }
    }
    ledger_cache_forget(&file);
}

/* ---- several processes, and death ---- */

/* A word that all bytes of a block have: what is given is of one write. */
__attribute__((noreturn)) static int child_keeps_and_writes(void *argument)
{
    struct ledger_file *file = argument;
    seed = (uint32_t)getpid();
    for (;;) {
        struct ledger_stamp stamp;
        uint64_t offset = (uint64_t)random_below(16) * PIECE;
        if (random_below(4) == 0)
            write_kept(file, offset, PIECE, (uint8_t)random_below(256), first_verifier);
        else if (ledger_stamp_take_quiet(file, offset, offset + PIECE, &stamp))
            keep(file, &stamp, offset, PIECE, (uint8_t)random_below(256));
    }
}

UNIT_TEST(killed_processes_leave_no_half_of_anything)
{
    struct ledger_file file;
    pid_t children[3];
    watched(&file, 340);
    for (unsigned i = 0; i < 3; i++)
        children[i] = start_child(child_keeps_and_writes, &file);
    size_t whole = 0;
    for (unsigned round = 0; round < rounds_of(150) || whole == 0; round++) {
        for (unsigned i = 0; i < 300; i++) {
            struct ledger_stamp stamp;
            uint64_t offset = (uint64_t)random_below(16) * PIECE;
            size_t had = ledger_cache_copy(&file, offset, 4096, got, &stamp);
            if (had != 4096 ||
                ledger_cache_judge_copy(&file, &stamp, offset, had, NOW) != LEDGER_CACHE_GOOD)
                continue;
            for (size_t k = 1; k < had; k++)
                must(got[k] == got[0]);
            whole++;
        }
        unsigned i = round % 3;
        kill(children[i], SIGKILL);
        end_child(children[i]);
        children[i] = start_child(child_keeps_and_writes, &file);
    }
    for (unsigned i = 0; i < 3; i++) {
        kill(children[i], SIGKILL);
        end_child(children[i]);
    }
    ledger_process_sweep(0);
    for (unsigned i = 0; i < 16; i++) { /* every lock is free again */
        write_stable(&file, (uint64_t)i * PIECE, PIECE);
        read_in(&file, (uint64_t)i * PIECE, PIECE, 9);
        assert_int_equal(given(&file, (uint64_t)i * PIECE, PIECE, 9, NOW), PIECE);
    }
}

/* Its memory is not all there: it is killed when half of the bytes are in the frame. */
static int dies_as_it_keeps(void *argument)
{
    struct ledger_file *file = argument;
    struct ledger_stamp stamp;
    void *missing = mmap(NULL, LEDGER_FRAME, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec vectors[2] = {{buffer, LEDGER_FRAME / 2}, {missing, LEDGER_FRAME / 2}};
    memset(buffer, 2, LEDGER_FRAME / 2);
    must(missing != MAP_FAILED);
    must(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
    must(ledger_stamp_take_quiet(file, 0, PIECE, &stamp));
    ledger_cache_keep(file, &stamp, 0, vectors, LEDGER_FRAME);
    return 2;
}

UNIT_TEST(what_was_half_kept_by_who_died_is_not_given)
{
    struct ledger_file file;
    watched(&file, 390);
    read_in(&file, 0, PIECE, 1);
    assert_int_equal(run_child(dies_as_it_keeps, &file), 128 + SIGSEGV);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 1);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
}

int main(void)
{
    return unit_run(open_with_cache, remove_run_directory);
}
