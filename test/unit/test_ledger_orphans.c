/* What a process leaves that ends in the middle of something, while others are at work. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>

#include "ledger_test.h"

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
    if (host_file_truncate_begin(argument, 1000) != 0)
        return 1;
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    host_file_truncate_end(argument, 1000, true);
    return 0;
}

/* True: it ended before so many instructions. */
static bool killed_after(struct host_file *file, unsigned instructions)
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
    return host_registry_open(UNCOMMITTED_MAX, 0);
}

static void a_truncation_that_ended_at_the_server_is_not_half_done_here(void **state)
{
    bool over = false;
    (void)state;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* every instruction is many */
    for (unsigned n = 0; !over; n += 7) {
        struct host_file file;
        struct host_attributes attributes = {.size = 5000};
        uint64_t verified;
        attach(&file, 400);
        host_file_learned(&file, host_file_asking(&file), &attributes, sys_now_ns());
        write_kept(&file, 0, 5000, 'o', first_verifier);
        over = killed_after(&file, n);
        host_process_sweep(0);
        if (host_file_attributes(&file, &attributes, &verified)) {
            assert_int_equal(attributes.size, 1000);
            assert_int_equal(host_file_uncommitted(&file), 1000);
        }
        host_file_forget(&file, false);
        assert_int_equal(host_file_truncate_begin(&file, 0), 0);
        host_file_truncate_end(&file, 0, true);
    }
    check_invariants();
}

struct in_flight {
    struct host_file *file;
    int ready[2];
};

static int child_is_killed_in_flight(void *argument)
{
    struct in_flight *in_flight = argument;
    struct host_write write;
    if (begin(in_flight->file, 0, 8192, true, &write) != 0 ||
        sys_write(in_flight->ready[1], "x", 1) != 1)
        return 1;
    pause();
    return 2;
}

static _Atomic bool waits, went_on;

static void *wait_for_range(void *file)
{
    static uint8_t data[512];
    struct iovec vector = {data, sizeof(data)};
    struct host_write write;
    must(host_write_try(file, 0, &vector, 1, sizeof(data), true, &write) == -EAGAIN);
    waits = true;
    must(host_write_begin(file, 0, &vector, 1, sizeof(data), true, &write) == 0);
    went_on = true;
    host_write_end(file, &write, HOST_WRITE_FAILED, NULL);
    return NULL;
}

static void who_waits_for_a_dead_process_goes_on_while_others_write(void **state)
{
    struct host_file file, own;
    struct in_flight in_flight = {.file = &file};
    pthread_t thread;
    char byte;
    (void)state;
    attach(&file, 401);
    attach(&own, 401);
    assert_int_equal(pipe(in_flight.ready), 0);
    pid_t child = start_child(child_is_killed_in_flight, &in_flight);
    assert_int_equal(read(in_flight.ready[0], &byte, 1), 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_range, &own), 0);
    while (!waits)
        usleep(1000);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    /* Each write wakes who waits, long before it would look by itself. */
    for (int i = 0; i < 3000 && !went_on; i++) {
        write_kept(&file, 200000 + (uint64_t)(i % 8) * 8192, 8192, (uint8_t)i, first_verifier);
        usleep(2000);
    }
    assert_true(went_on);
    pthread_join(thread, NULL);
    host_file_forget(&file, false);
    close(in_flight.ready[0]);
    close(in_flight.ready[1]);
    check_invariants();
}

static int begin_now(struct host_file *file, uint64_t offset, size_t length,
                     struct host_write *write)
{
    struct iovec vector = {buffer, length};
    return host_write_try(file, offset, &vector, 1, length, true, write);
}

static int child_executes_in_flight(void *argument)
{
    struct in_flight *in_flight = argument;
    struct host_write write;
    if (begin(in_flight->file, 0, 8192, true, &write) != 0)
        return 1;
    execl("/bin/sleep", "sleep", "60", (char *)NULL); /* closes the pipe */
    return 2;
}

/* The new program has nothing to do with the library. */
static void what_was_in_flight_at_an_exec_is_given_back(void **state)
{
    struct host_file file;
    struct in_flight in_flight = {.file = &file};
    struct host_write write;
    int result = -EAGAIN;
    char byte;
    (void)state;
    attach(&file, 403);
    assert_int_equal(pipe2(in_flight.ready, O_CLOEXEC), 0);
    pid_t child = start_child(child_executes_in_flight, &in_flight);
    close(in_flight.ready[1]);
    assert_int_equal(read(in_flight.ready[0], &byte, 1), 0);
    for (int i = 0; i < 100 && result == -EAGAIN; i++) {
        host_process_sweep(0);
        result = begin_now(&file, 0, 10, &write);
        usleep(result ? 50000 : 0);
    }
    assert_int_equal(kill(child, SIGKILL), 0); /* it lives */
    assert_int_equal(end_child(child), 128 + SIGKILL);
    assert_int_equal(result, 0);
    host_write_end(&file, &write, HOST_WRITE_FAILED, NULL);
    close(in_flight.ready[0]);
    check_invariants();
}

/* Records that cannot be joined, in few buckets. */
enum { MANY = 12000, APART = 3 };

static int child_dies_with_many(void *argument)
{
    struct host_file file;
    int error;
    attach(&file, *(uint64_t *)argument);
    for (uint64_t i = 0; i < MANY; i++)
        write_kept(&file, i * APART, 1, (uint8_t)i, first_verifier);
    must(host_entry_lock(&file, false, &error) != NULL);
    kill(getpid(), SIGKILL);
    return 2;
}

static int many_are_put_in_order(void *unused)
{
    struct host_file file;
    uint64_t inode = 402;
    (void)unused;
    if (host_registry_open((uint64_t)2 * MANY * HOST_CHUNK, 0) != 0)
        return 1;
    pid_t child = start_child(child_dies_with_many, &inode);
    int status;
    must(waitpid(child, &status, 0) == child);
    must(WIFSIGNALED(status));
    uint64_t began_ns = sys_now_ns();
    attach(&file, inode);
    uint64_t took_ns = sys_now_ns() - began_ns;
    must(host_file_uncommitted(&file) == MANY);
    must(host_map.entries[file.index].records == MANY);
    must(took_ns < 2000000000); /* it was 14 s */
    if (getenv("MEASURE"))
        fprintf(stderr, "    %.1f ms\n", (double)took_ns / 1e6);
    return 0;
}

static void many_records_of_a_dead_process_are_soon_in_order(void **state)
{
    (void)state;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    run_afresh(many_are_put_in_order, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            many_records_of_a_dead_process_are_soon_in_order), /* a registry of its own */
        cmocka_unit_test_setup(a_truncation_that_ended_at_the_server_is_not_half_done_here,
                               open_there),
        cmocka_unit_test(who_waits_for_a_dead_process_goes_on_while_others_write),
        cmocka_unit_test(what_was_in_flight_at_an_exec_is_given_back),
    };
    return cmocka_run_group_tests(tests, make_run_directory, remove_run_directory);
}
