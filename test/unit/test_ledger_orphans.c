/* What a process leaves that ends in the middle of something, while others are at work. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>

#include "ledger_test.h"

/* Records that cannot be joined, in few buckets. */
enum { MANY = 12000, APART = 3 };

static int child_dies_with_many(void *argument)
{
    struct ledger_file file;
    int error;
    attach(&file, *(uint64_t *)argument);
    for (uint64_t i = 0; i < MANY; i++)
        write_kept(&file, i * APART, 1, (uint8_t)i, first_verifier);
    must(ledger_entry_lock(&file, false, &error) != NULL);
    kill(getpid(), SIGKILL);
    return 2;
}

static int many_are_put_in_order(void *unused)
{
    struct ledger_file file;
    uint64_t inode = 402;
    (void)unused;
    if (ledger_registry_open((uint64_t)2 * MANY * LEDGER_CHUNK, 0) != 0)
        return 1;
    pid_t child = start_child(child_dies_with_many, &inode);
    int status;
    must(waitpid(child, &status, 0) == child);
    must(WIFSIGNALED(status));
    uint64_t began_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    attach(&file, inode);
    uint64_t took_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
    must(ledger_file_uncommitted(&file) == MANY);
    must(ledger_map.entries[file.index].records == MANY);
    must(took_ns < 2000000000); /* it was 14 s */
    if (getenv("MEASURE"))
        fprintf(stderr, "    %.1f ms\n", (double)took_ns / 1e6);
    return 0;
}

/* A registry of its own: the first test, while there is none. */
UNIT_TEST(many_records_of_a_dead_process_are_soon_in_order)
{
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    run_afresh(many_are_put_in_order, NULL);
}

static int step(pid_t child, bool kill_it)
{
    int status;
    if (kill_it)
        kill(child, SIGKILL);
    else
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The server did it, and said so. */
static int child_ends_truncation(void *argument)
{
    if (ledger_file_truncate_begin(argument, 1000) != 0)
        return 1;
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    ledger_file_truncate_end(argument, 1000, true);
    return 0;
}

/* True: it ended before so many instructions. */
static bool killed_after(struct ledger_file *file, unsigned instructions)
{
    pid_t child = start_child(child_ends_truncation, file);
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    for (unsigned i = 0; i < instructions && !WIFEXITED(status); i++)
        status = step(child, false);
    if (WIFEXITED(status))
        return true;
    step(child, true);
    return false;
}

static int open_there(void **state)
{
    (void)state;
    return ledger_registry_open(UNCOMMITTED_MAX, 0);
}

UNIT_TEST_WITH(a_truncation_that_ended_at_the_server_is_not_half_done_here, open_there, NULL)
{
    bool over = false;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
    for (unsigned n = 0; !over; n += 7) {
        struct ledger_file file;
        struct ledger_attributes attributes = {.size = 5000};
        uint64_t verified;
        attach(&file, 400);
        ledger_file_learned(&file, ledger_file_asking(&file), &attributes, sys_now_ns());
        write_kept(&file, 0, 5000, 'o', first_verifier);
        over = killed_after(&file, n);
        ledger_process_sweep(0);
        if (ledger_file_attributes(&file, &attributes, &verified)) {
            assert_int_equal(attributes.size, 1000);
            assert_int_equal(ledger_file_uncommitted(&file), 1000);
        }
        ledger_file_forget(&file, false);
        assert_int_equal(ledger_file_truncate_begin(&file, 0), 0);
        ledger_file_truncate_end(&file, 0, true);
    }
    check_invariants();
}

static _Atomic bool waits, went_on;

static void *wait_for_range(void *file)
{
    static uint8_t data[512];
    struct iovec vector = {data, sizeof(data)};
    struct ledger_write write;
    must(ledger_write_try(file, 0, &vector, 1, sizeof(data), true, &write) == -EAGAIN);
    waits = true;
    must(ledger_write_begin(file, 0, &vector, 1, sizeof(data), true, &write) == 0);
    went_on = true;
    ledger_write_end(file, &write, LEDGER_WRITE_FAILED, 0);
    return NULL;
}

UNIT_TEST(who_waits_for_a_dead_process_goes_on_while_others_write)
{
    struct ledger_file file, own;
    pthread_t thread;
    attach(&file, 401);
    attach(&own, 401);
    pid_t child = start_in_flight(&file, 8192);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_range, &own), 0);
    while (!waits)
        usleep(1000);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    /* Each write wakes who waits, long before it would look by itself. */
    for (int i = 0; i < 30000 && !went_on; i++) {
        write_kept(&file, 200000 + (uint64_t)(i % 8) * 8192, 8192, (uint8_t)i, first_verifier);
        usleep(2000);
    }
    assert_true(went_on);
    pthread_join(thread, NULL);
    ledger_file_forget(&file, false);
    check_invariants();
}

static int begin_now(struct ledger_file *file, uint64_t offset, size_t length,
                     struct ledger_write *write)
{
    struct iovec vector = {buffer, length};
    return ledger_write_try(file, offset, &vector, 1, length, true, write);
}

static int child_executes_in_flight(void *argument)
{
    struct in_flight *in_flight = argument;
    struct ledger_write write;
    /* By where its stack begins it is known for another program. Where tools have switched off that
     * the kernel draws a place, this is another one for certain. */
    static char other_place[4096];
    memset(other_place, 'x', sizeof(other_place) - 1);
    if (begin(in_flight->file, 0, 8192, true, &write) != 0)
        return 1;
    execle("/bin/sleep", "sleep", "60", (char *)NULL, (char *[]){other_place, NULL});
    return 2;
}

/* The new program has nothing to do with the library. */
UNIT_TEST(what_was_in_flight_at_an_exec_is_given_back)
{
    struct ledger_file file;
    struct in_flight in_flight = {.file = &file};
    struct ledger_write write;
    int result = -EAGAIN;
    char byte;
    attach(&file, 403);
    assert_int_equal(pipe2(in_flight.ready, O_CLOEXEC), 0);
    pid_t child = start_child(child_executes_in_flight, &in_flight);
    close(in_flight.ready[1]);
    assert_int_equal(read(in_flight.ready[0], &byte, 1), 0); /* exec() closed the pipe */
    for (int i = 0; i < 6000 && result == -EAGAIN; i++) {
        ledger_process_sweep(0);
        result = begin_now(&file, 0, 10, &write);
        usleep(result ? 10000 : 0);
    }
    assert_int_equal(kill(child, SIGKILL), 0); /* it lives */
    assert_int_equal(end_child(child), 128 + SIGKILL);
    assert_int_equal(result, 0);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    close(in_flight.ready[0]);
    check_invariants();
}

/* A program may have the library in it, and be preloaded with it. */
UNIT_TEST(another_copy_of_the_library_in_a_program_takes_nothing_away)
{
    struct ledger_file file;
    struct ledger_write write;
    attach(&file, 700);
    assert_int_equal(begin(&file, 0, 100, true, &write), 0);
    uint32_t first = ledger_process_exchange(0), second = ledger_process_slot();
    assert_int_not_equal(first, second);
    assert_int_equal(ledger_record_state(ledger_record(write.first_record)),
                     LEDGER_RECORD_IN_FLIGHT);
    ledger_process_leave();
    ledger_process_exchange(first);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(ledger_file_uncommitted(&file), 100);
    ledger_file_forget(&file, false);
    check_invariants();
}

int main(void)
{
    return unit_run(make_run_directory, remove_run_directory);
}
