/*
 * What is done under a lock of the registry is short, and no system call: a process that is stopped
 * in it (SIGSTOP, a debugger, a frozen cgroup) stops all others. One operation is done instruction
 * by instruction, and those are counted that a lock is held for at a time.
 */
#include <sys/user.h>

#include "steps.h"

#ifdef __x86_64__
static bool is_system_call(pid_t child)
{
    struct user_regs_struct registers;
    enum { SYSCALL = 0x050f };
    assert_int_equal(ptrace(PTRACE_GETREGS, child, 0, &registers), 0);
    return (ptrace(PTRACE_PEEKTEXT, child, registers.rip, 0) & 0xffff) == SYSCALL;
}

/* The most instructions for which a lock is held at a time; *calls: system calls made then. */
static unsigned longest_hold(struct operation *operation, unsigned *calls)
{
    unsigned longest = 0, held = 0;
    pid_t child = start_stopped(operation);
    do {
        held = holds_any(&operation->file, child) ? held + 1 : 0;
        longest = held > longest ? held : longest;
        *calls += held > 0 && is_system_call(child);
    } while (step(child));
    return longest;
}

/* Stops it after so many instructions, or where it has no lock, for `meanwhile`. True: it had ended
 * before. */
static bool interrupt_after(struct operation *operation, unsigned instructions,
                            void (*meanwhile)(struct ledger_file *))
{
    pid_t child = start_stopped(operation);
    for (unsigned i = 0; i < instructions || holds_any(&operation->file, child); i++) {
        if (!step(child))
            return true;
    }
    meanwhile(&operation->file);
    ptrace(PTRACE_CONT, child, 0, 0);
    assert_int_equal(end_child(child), 0);
    return false;
}
#else
static unsigned longest_hold(struct operation *operation, unsigned *calls)
{
    (void)operation, (void)calls, (void)child_runs;
    return 0;
}

static bool interrupt_after(struct operation *operation, unsigned instructions,
                            void (*meanwhile)(struct ledger_file *))
{
    (void)operation, (void)instructions, (void)meanwhile;
    return true;
}
#endif

/* So many instructions at most, of an operation on a new file. */
static void expect_short(void (*prepare)(struct ledger_file *), void (*run)(struct ledger_file *),
                         unsigned most)
{
    static uint64_t number = 700;
    struct operation operation = {prepare, run, {.index = 0}};
    if (!COUNTS || getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
    attach(&operation.file, number++);
    unsigned calls = 0, longest = longest_hold(&operation, &calls);
    assert_int_equal(calls, 0);
    if (longest > most)
        fail_msg("a lock is held for %u instructions, %u at most are expected", longest, most);
    ledger_process_sweep(0);
    ledger_file_forget(&operation.file, false);
    check_invariants();
}

enum { FEW = 1000, PAGE = 8192, PAGES = 128 };

static void write_page(struct ledger_file *file)
{
    write_dirty(file, 8 * PAGE, PAGE, 'p');
}

static void write_pages(struct ledger_file *file)
{
    for (uint64_t i = 0; i < PAGES; i++)
        write_dirty(file, i * PAGE, PAGE, 'q');
}

UNIT_TEST(a_write_of_a_page)
{
    expect_short(NULL, write_page, FEW);
}

UNIT_TEST(a_write_over_a_dirty_page)
{
    expect_short(write_page, write_page, FEW);
}

UNIT_TEST(a_write_over_a_page_of_many)
{
    expect_short(write_pages, write_page, FEW);
}

static void write_some(struct ledger_file *file)
{
    write_dirty(file, 5 * PAGE + 1000, 3 * PAGE, 's');
}

UNIT_TEST(a_write_over_parts_of_pages)
{
    expect_short(write_pages, write_some, 3 * FEW);
}

static void append_few(struct ledger_file *file)
{
    write_dirty(file, PAGES * PAGE, 24, '1');
    write_dirty(file, PAGES * PAGE + 24, 24, '2');
    write_dirty(file, PAGES * PAGE + 48, 24, '3');
}

UNIT_TEST(small_writes_that_follow_one_another)
{
    expect_short(write_pages, append_few, 2 * FEW);
}

static void read_pages(struct ledger_file *file)
{
    size_t done;
    must(read_dirty(file, 0, 32 * PAGE, &done) == LEDGER_DIRTY_ALL);
}

UNIT_TEST(a_read_of_dirty_pages)
{
    expect_short(write_pages, read_pages, 10 * FEW);
}

static void read_page(struct ledger_file *file)
{
    size_t done = 0;
    must(read_dirty(file, 8 * PAGE, PAGE, &done) == LEDGER_DIRTY_ALL && done == PAGE);
    must(memchr("pxy", buffer[0], 3) && memcmp(buffer, buffer + 1, PAGE - 1) == 0);
}

/* The chunk that the page had is used for the other one. */
static void write_it_and_another(struct ledger_file *file)
{
    write_dirty(file, 8 * PAGE, PAGE, 'x');
    write_dirty(file, 20 * PAGE, PAGE, 'z');
    write_dirty(file, 8 * PAGE, PAGE, 'y');
    write_dirty(file, 21 * PAGE, PAGE, 'z');
}

UNIT_TEST(a_read_that_writes_come_between_is_not_half_of_one)
{
    bool over = false;
    if (!COUNTS || getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    for (unsigned n = 0; !over; n += 1009) {
        struct operation operation = {NULL, read_page, {.index = 0}};
        attach(&operation.file, 690);
        write_page(&operation.file);
        over = interrupt_after(&operation, n, write_it_and_another);
        ledger_file_forget(&operation.file, false);
    }
    ledger_process_sweep(0);
    check_invariants();
}

static struct ledger_write taken;

static void write_backwards(struct ledger_file *file)
{
    for (uint64_t i = PAGES; i-- > 0;)
        write_dirty(file, i * PAGE, PAGE, 'b');
}

static void take_all(struct ledger_file *file)
{
    must(take(file, &taken) == 1);
}

UNIT_TEST(taking_a_mebibyte_to_send_it)
{
    expect_short(write_pages, take_all, 10 * FEW);
}

UNIT_TEST(taking_a_mebibyte_of_single_pages)
{
    expect_short(write_backwards, take_all, 60 * FEW);
}

static void write_and_take(struct ledger_file *file)
{
    write_backwards(file);
    take_all(file);
    ledger_write_end(file, &taken, LEDGER_WRITE_UNSTABLE, first_verifier);
    write_backwards(file);
    take_all(file);
}

static void end_all(struct ledger_file *file)
{
    ledger_write_end(file, &taken, LEDGER_WRITE_UNSTABLE, first_verifier);
}

UNIT_TEST(the_end_of_a_write_of_many_records)
{
    expect_short(write_and_take, end_all, 10 * FEW);
}

static void write_and_end(struct ledger_file *file)
{
    write_and_take(file);
    end_all(file);
}

static void commit_all(struct ledger_file *file)
{
    struct ledger_commit commit;
    must(ledger_commit_begin(file, &commit));
    must(ledger_commit_end(file, &commit, first_verifier) == 0);
}

UNIT_TEST(a_commit_of_many_records)
{
    expect_short(write_and_end, commit_all, 5 * FEW);
}

/* In 64 KiB, with bytes between them. */
static void write_small(struct ledger_file *file)
{
    for (uint64_t i = 0; i < 600; i++)
        write_dirty(file, i % 30 * 1440 + i / 30 * 72, 24, 'm');
}

static void write_one_more(struct ledger_file *file)
{
    write_dirty(file, 300 * 72 + 36, 24, 'n');
}

UNIT_TEST(a_write_among_many_small_ones)
{
    expect_short(write_small, write_one_more, 2 * FEW);
}

static void write_over_some(struct ledger_file *file)
{
    write_dirty(file, 300 * 72 + 12, 72, 'o');
}

UNIT_TEST(a_write_over_some_of_many_small_ones)
{
    expect_short(write_small, write_over_some, 5 * FEW);
}

static void read_one(struct ledger_file *file)
{
    size_t done;
    must(read_dirty(file, 300 * 72, 24, &done) == LEDGER_DIRTY_ALL);
}

UNIT_TEST(a_read_of_one_of_many_small_writes)
{
    expect_short(write_small, read_one, 2 * FEW);
}

static void take_and_end_some(struct ledger_file *file)
{
    struct ledger_write writes[20];
    for (int i = 0; i < 20; i++)
        must(take(file, &writes[i]) == 1);
    for (int i = 0; i < 20; i++)
        ledger_write_end(file, &writes[i], LEDGER_WRITE_UNSTABLE, first_verifier);
}

UNIT_TEST(sending_of_many_small_writes)
{
    expect_short(write_small, take_and_end_some, 5 * FEW);
}

static void look_for_dead(struct ledger_file *file)
{
    (void)file;
    ledger_process_sweep(0);
}

UNIT_TEST(a_look_for_dead_processes)
{
    expect_short(NULL, look_for_dead, FEW);
}

int main(void)
{
    return unit_run(open_registry, remove_run_directory);
}
