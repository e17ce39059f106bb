/* What the registry keeps of files that were read or written, and when it is not given out:
 * src/ledger/cache.c. */
#include <signal.h>
#include <sys/mman.h>

#include "ledger_test.h"

#include "ledger/cache.h"
#include "ledger/dirty.h"
#include "ledger/store/processes.h"
#include "ledger/stamp.h"
#include "ledger/world.h"

enum { PIECE = 8192, CACHE = 1 << 20, NOW = 1 };

static uint8_t got[LEDGER_STAMP_MAX];

static struct ledger_attributes times(time_t seconds)
{
    struct ledger_attributes attributes = {.size = MODEL_BYTES};
    attributes.mtime.tv_sec = attributes.ctime.tv_sec = seconds;
    return attributes;
}

#define SECOND UINT64_C(1000000000)

/* So much later the server is asked and written to. */
static uint64_t later_ns;

static void server_tells(struct ledger_file *file, time_t seconds)
{
    struct ledger_attributes attributes = times(seconds);
    ledger_file_learned(file, ledger_file_asking(file), &attributes, sys_now_ns() + later_ns);
}

static void keep(struct ledger_file *file, const struct ledger_stamp *stamp, uint64_t offset,
                 size_t length, uint8_t fill)
{
    struct iovec vectors[2] = {{buffer, length / 3}, {buffer + length / 3, length - length / 3}};
    memset(buffer, fill, length);
    ledger_cache_keep(file, stamp, offset, vectors, length);
}

static void read_in(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill)
{
    struct ledger_stamp stamp;
    must(ledger_stamp_take_quiet(file, offset, offset + length, &stamp));
    keep(file, &stamp, offset, length, fill);
}

/* How many bytes are given at `offset`, all of them `fill`. */
static size_t given(struct ledger_file *file, uint64_t offset, size_t length, uint8_t fill,
                    uint64_t since_ns)
{
    struct ledger_stamp stamp;
    size_t had = ledger_cache_copy(file, offset, length, got, &stamp);
    if (had == 0 ||
        ledger_cache_judge_copy(file, &stamp, offset, had, since_ns) != LEDGER_CACHE_GOOD)
        return 0;
    for (size_t i = 0; i < had; i++)
        must(got[i] == fill);
    return had;
}

/* A file that the server has told the times of, since it is watched. */
static void watched(struct ledger_file *file, uint64_t number)
{
    struct ledger_stamp stamp;
    later_ns = 0;
    attach(file, number);
    server_tells(file, 10);
    must(ledger_stamp_take_quiet(file, 0, 1, &stamp));
    server_tells(file, 10);
}

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

/* ---- what others do ---- */

UNIT_TEST(a_change_by_another_host_drops_all)
{
    struct ledger_file file;
    watched(&file, 310);
    read_in(&file, 0, PIECE, 1);
    server_tells(&file, 10);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    server_tells(&file, 11);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 2);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), PIECE);
    struct ledger_attributes older = times(9); /* a clock that was set */
    ledger_cache_told(&file, ledger_file_asking(&file), &older, sys_now_ns() + 1000000000);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), 0);
}

UNIT_TEST(nothing_is_given_that_was_not_confirmed_since)
{
    struct ledger_file file;
    struct ledger_stamp stamp;
    watched(&file, 311);
    read_in(&file, 0, PIECE, 1);
    uint64_t opened_ns = sys_now_ns();
    assert_int_equal(ledger_cache_copy(&file, 0, PIECE, got, &stamp), PIECE);
    assert_int_equal(ledger_cache_judge_copy(&file, &stamp, 0, PIECE, opened_ns),
                     LEDGER_CACHE_UNSEEN);
    server_tells(&file, 10);
    assert_int_equal(ledger_cache_judge_copy(&file, &stamp, 0, PIECE, opened_ns),
                     LEDGER_CACHE_GOOD);
    struct ledger_attributes same = times(10);
    opened_ns = sys_now_ns() + 1;
    ledger_file_confirmed(&file, &same, opened_ns); /* by the kernel, at an open */
    assert_int_equal(given(&file, 0, PIECE, 1, opened_ns), PIECE);
}

/* Its answers are of several WRITEs. */
static bool in_parts;

/* It made the time `seconds` of `before`; 0: the server does not tell. */
static void end_told(struct ledger_file *file, struct ledger_write *write, int64_t before,
                     time_t seconds)
{
    struct ledger_ending ending = {.file = file,
                                   .write = write,
                                   .outcome = LEDGER_WRITE_STABLE,
                                   .attributes_known = true,
                                   .several = in_parts,
                                   .epoch = ledger_file_asking(file),
                                   .before_ctime = before * INT64_C(1000000000),
                                   .attributes = times(seconds),
                                   .asked_ns = sys_now_ns() + later_ns};
    ledger_writes_end(&ending, 1);
}

static void write_told(struct ledger_file *file, uint64_t offset, int64_t before, time_t seconds)
{
    struct ledger_write write;
    must(begin(file, offset, 100, true, &write) == 0);
    end_told(file, &write, before, seconds);
}

UNIT_TEST(writes_of_this_host_explain_the_times_that_they_made)
{
    struct ledger_file file;
    watched(&file, 312);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 10, 20);
    write_told(&file, 100000, 20, 21);
    uint64_t now_ns = sys_now_ns();
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 1, now_ns), PIECE);
    struct ledger_write write; /* one that nobody told the end of */
    assert_int_equal(begin(&file, 100000, 100, true, &write), 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_STABLE, 0);
    server_tells(&file, 22);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
}

UNIT_TEST(answers_to_writes_may_come_in_any_order)
{
    struct ledger_file file;
    struct ledger_write first, second;
    watched(&file, 320);
    read_in(&file, 0, PIECE, 1);
    must(begin(&file, 100000, 100, true, &first) == 0);
    must(begin(&file, 200000, 100, true, &second) == 0);
    end_told(&file, &second, 20, 21);
    end_told(&file, &first, 10, 20);
    uint64_t now_ns = sys_now_ns();
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 1, now_ns), PIECE);
}

/* Another host wrote before both. */
UNIT_TEST(answers_in_no_order_explain_what_this_host_did_and_no_more)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file file;
        struct ledger_write first, second;
        watched(&file, 330 + i);
        read_in(&file, 0, PIECE, 1);
        must(begin(&file, 100000, 100, true, &first) == 0);
        must(begin(&file, 200000, 100, true, &second) == 0);
        if (i == 0)
            end_told(&file, &first, 20, 21);
        end_told(&file, &second, 21, 22);
        if (i == 1)
            end_told(&file, &first, 20, 21);
        uint64_t now_ns = sys_now_ns();
        server_tells(&file, 22);
        assert_int_equal(given(&file, 0, PIECE, 1, now_ns), 0);
    }
}

/* Of three the one in the middle last, and first. */
UNIT_TEST(answers_to_three_writes_may_come_in_any_order)
{
    static const unsigned orders[][3] = {{2, 0, 1}, {2, 1, 0}, {0, 2, 1}, {0, 1, 2}};
    for (unsigned i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        struct ledger_file file;
        struct ledger_write writes[3];
        watched(&file, 340 + i);
        read_in(&file, 0, PIECE, 1);
        for (unsigned j = 0; j < 3; j++)
            must(begin(&file, 100000 * (j + 1), 100, true, &writes[j]) == 0);
        for (unsigned j = 0; j < 3; j++)
            end_told(&file, &writes[orders[i][j]], 10 + orders[i][j], 11 + (time_t)orders[i][j]);
        uint64_t now_ns = sys_now_ns();
        server_tells(&file, 13);
        assert_int_equal(given(&file, 0, PIECE, 1, now_ns), PIECE);
    }
}

UNIT_TEST(a_write_that_met_a_time_that_none_of_this_host_made_explains_nothing)
{
    struct ledger_file file;
    watched(&file, 321);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 15, 20);
    uint64_t now_ns = sys_now_ns();
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, now_ns), 0);
}

/* Another host may have written between its parts, which the first time does not tell. */
UNIT_TEST(what_the_first_part_of_a_write_found_is_not_what_all_found)
{
    struct ledger_file file;
    watched(&file, 356);
    read_in(&file, 0, PIECE, 1);
    in_parts = true;
    later_ns = 2 * SECOND;
    write_told(&file, 100000, 10, 20);
    in_parts = false;
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
}

/* The server does not tell what a write found. */
UNIT_TEST(a_write_is_assumed_to_find_what_was_known_a_second_ago)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file file;
        watched(&file, 350 + i);
        read_in(&file, 0, PIECE, 1);
        write_told(&file, 100000, 0, 20);
        later_ns = i == 0 ? SECOND / 2 : 2 * SECOND;
        write_told(&file, 100000, 0, 21);
        server_tells(&file, 21);
        assert_int_equal(given(&file, 0, PIECE, 1, NOW), i == 0 ? PIECE : 0);
        later_ns = 0;
    }
}

UNIT_TEST(an_assumption_lasts_half_a_minute)
{
    struct ledger_file file;
    watched(&file, 352);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 0, 20);
    later_ns = 28 * SECOND;
    server_tells(&file, 20);
    write_told(&file, 100000, 0, 21); /* it is the first one that counts */
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    later_ns = 33 * SECOND;
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 2);
    later_ns = 66 * SECOND; /* nothing is assumed of what was read since */
    server_tells(&file, 21);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), PIECE);
    later_ns = 0;
}

UNIT_TEST(who_opens_a_file_is_given_nothing_of_before_a_write)
{
    struct ledger_file file;
    struct ledger_write write;
    watched(&file, 353);
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 0, 20);
    ledger_cache_opened(&file, sys_now_ns());
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);

    watched(&file, 357); /* the server told what the write found, as well as it could */
    read_in(&file, 0, PIECE, 1);
    write_told(&file, 100000, 10, 20);
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
    ledger_cache_opened(&file, sys_now_ns());
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);

    watched(&file, 354); /* a write is on its way then */
    read_in(&file, 0, PIECE, 1);
    must(begin(&file, 100000, 100, true, &write) == 0);
    ledger_cache_opened(&file, sys_now_ns() + 1);
    end_told(&file, &write, 0, 20);
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);

    watched(&file, 355); /* the server has told since that nothing had changed */
    read_in(&file, 0, PIECE, 1);
    ledger_cache_opened(&file, sys_now_ns());
    server_tells(&file, 10);
    write_told(&file, 100000, 0, 20);
    server_tells(&file, 20);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), PIECE);
}

/* The answer that explains a time may be on its way, or there may be none. */
UNIT_TEST(a_time_that_is_seen_during_a_write_is_doubtful)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger_file file;
        struct ledger_write write;
        watched(&file, 313 + i);
        read_in(&file, 0, PIECE, 1);
        assert_int_equal(begin(&file, 100000, 100, true, &write), 0);
        uint64_t asked_ns = sys_now_ns();
        server_tells(&file, 30);
        assert_int_equal(given(&file, 0, PIECE, 1, asked_ns), 0); /* not confirmed */
        end_told(&file, &write, 10, i == 0 ? 30 : 31);
        server_tells(&file, i == 0 ? 30 : 31);
        assert_int_equal(given(&file, 0, PIECE, 1, asked_ns), i == 0 ? PIECE : 0);
    }
}

UNIT_TEST(a_lock_drops_all)
{
    struct ledger_file file;
    watched(&file, 316);
    read_in(&file, 0, PIECE, 1);
    ledger_cache_forget(&file);
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    read_in(&file, 0, PIECE, 2);
    assert_int_equal(given(&file, 0, PIECE, 2, NOW), PIECE);
}

UNIT_TEST(nothing_is_kept_of_a_file_that_the_kernel_has)
{
    struct ledger_file file;
    watched(&file, 317);
    read_in(&file, 0, PIECE, 1);
    struct ledger_stamp stamp;
    assert_true(ledger_stamp_take_quiet(&file, PIECE, 2 * PIECE, &stamp));
    ledger_world_leave(&file, true);
    keep(&file, &stamp, PIECE, PIECE, 1);
    assert_true(ledger_world_arrived(&file));
    assert_true(ledger_world_come_back(&file, ledger_world_pins(&file)));
    assert_int_equal(given(&file, 0, PIECE, 1, NOW), 0);
    assert_int_equal(given(&file, PIECE, PIECE, 1, NOW), 0);
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

static int open_with_cache(void **state)
{
    ledger_cache_set(CACHE);
    return open_registry(state);
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
