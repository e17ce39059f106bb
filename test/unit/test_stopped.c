/*
 * A process that is stopped with a lock of the registry is guided out of it, wherever it stands,
 * and is as stopped as before: it does nothing beyond, its parent and it hear of nothing, and its
 * signals come.
 */
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "ledger/store/mutex.h"
#include "ledger/store/stopped.h"
#include "run/identity.h"
#include "steps.h"

enum { PAGE = 8192, PAGES = 16, NOBODY = 65534 };

/* What children say. */
static struct {
    _Atomic int over, signals;
} * told;

static void expect_stopped(pid_t child)
{
    for (int i = 0; !run_thread_stopped((uint32_t)child); i++) { /* a moment after it was let go */
        assert_true(i < 60000);
        sys_nanosleep_ms(1);
    }
}

/* Stops it, so many instructions after it has a lock, or the next that it has. -1: it had none any
 * more, and has ended. */
static pid_t stop_with_lock(struct operation *operation, unsigned instructions)
{
    int status;
    pid_t child = start_stopped(operation);
    for (unsigned held = 0; !holds_any(&operation->file, child) || held++ < instructions;) {
        if (!step(child))
            return -1;
    }
    assert_int_equal(ptrace(PTRACE_DETACH, child, 0, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    expect_stopped(child);
    return child;
}

static void expect_end(pid_t child)
{
    kill(child, SIGCONT);
    assert_int_equal(end_child(child), 0);
    assert_int_equal(atomic_load(&ledger_map.shared->guided), 0);
}

/* On a busy machine one attempt may not get on. */
static void release(const struct operation *operation, pid_t child)
{
    while (ledger_stopped_release() == 0 && holds_any(&operation->file, child))
        sys_nanosleep_ms(10);
    assert_false(holds_any(&operation->file, child));
}

/* An operation on a new file. */
static void prepare(struct operation *operation)
{
    static uint64_t number = 800;
    if (!COUNTS || getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    attach(&operation->file, number++);
    atomic_store(&told->over, 0);
    atomic_store(&told->signals, 0);
}

static void finish(struct operation *operation)
{
    ledger_process_sweep(0);
    ledger_file_forget(&operation->file, false);
    check_invariants();
}

static void write_page(struct ledger_file *file)
{
    write_dirty(file, 8 * PAGE, PAGE, 'p');
    atomic_store(&told->over, 1);
}

static void write_pages(struct ledger_file *file)
{
    for (uint64_t i = PAGES; i-- > 0;)
        write_dirty(file, i * PAGE, PAGE, 'q');
}

static struct ledger_write taken;

static void take_all(struct ledger_file *file)
{
    must(take(file, &taken) == 1);
    atomic_store(&told->over, 1);
}

static void take_and_end(struct ledger_file *file)
{
    take_all(file);
    ledger_write_end(file, &taken, LEDGER_WRITE_UNSTABLE, first_verifier);
}

/* Others do the same meanwhile. */
static void expect_guided_out(void (*before)(struct ledger_file *),
                              void (*run)(struct ledger_file *), unsigned step)
{
    struct operation operation = {before, run, {.index = 0}};
    pid_t child;
    prepare(&operation);
    for (unsigned n = 0; (child = stop_with_lock(&operation, n)) > 0; n += step) {
        atomic_store(&told->over, 0);
        release(&operation, child);
        expect_stopped(child);
        assert_int_equal(atomic_load(&told->over), 0);
        write_dirty(&operation.file, 8 * PAGE, PAGE, 'o');
        expect_dirty(&operation.file, 8 * PAGE, PAGE, 'o');
        expect_end(child);
        check_invariants();
    }
    finish(&operation);
}

UNIT_TEST(one_that_writes_a_page_again)
{
    expect_guided_out(write_page, write_page, 331);
}

UNIT_TEST(one_that_writes_over_a_page_of_many)
{
    expect_guided_out(write_pages, write_page, 283);
}

UNIT_TEST(one_that_sends_pages)
{
    expect_guided_out(write_pages, take_and_end, 3989);
}

UNIT_TEST(its_parent_is_not_told)
{
    struct operation operation = {NULL, write_page, {.index = 0}};
    int status;
    prepare(&operation);
    pid_t child = stop_with_lock(&operation, 50);
    release(&operation, child);
    expect_stopped(child);
    assert_int_equal(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG), 0);
    kill(child, SIGCONT);
    assert_int_equal(end_child(child), 0);
    finish(&operation);
}

static void count_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&told->signals, 1);
}

static void write_with_handler(struct ledger_file *file)
{
    signal(SIGUSR1, count_signal);
    write_page(file);
    must(atomic_load(&told->signals) == 1);
}

UNIT_TEST(a_signal_that_came_while_it_was_stopped_is_not_lost)
{
    struct operation operation = {NULL, write_with_handler, {.index = 0}};
    prepare(&operation);
    pid_t child = stop_with_lock(&operation, 50);
    kill(child, SIGUSR1);
    release(&operation, child);
    expect_stopped(child);
    expect_end(child);
    assert_int_equal(atomic_load(&told->signals), 1);
    finish(&operation);
}

UNIT_TEST(one_that_goes_on_or_is_killed_needs_nobody)
{
    struct operation operation = {NULL, write_page, {.index = 0}};
    prepare(&operation);
    pid_t child = stop_with_lock(&operation, 50);
    expect_end(child);
    assert_int_equal(ledger_stopped_release(), 0);
    child = stop_with_lock(&operation, 50);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    assert_int_equal(ledger_stopped_release(), 0);
    finish(&operation);
}

UNIT_TEST(one_that_has_no_lock_is_left_alone)
{
    struct operation operation = {NULL, write_page, {.index = 0}};
    int status;
    prepare(&operation);
    pid_t child = start_stopped(&operation);
    ptrace(PTRACE_DETACH, child, 0, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    expect_stopped(child);
    assert_int_equal(ledger_stopped_release(), 0);
    expect_end(child);
    finish(&operation);
}

static int stops_with_lock(void *lock)
{
    must(ledger_mutex_lock(lock) == 0);
    raise(SIGSTOP);
    ledger_mutex_unlock(lock);
    return 0;
}

/* It may be the debugger's own doing that a thread has a lock. */
UNIT_TEST(one_that_a_debugger_has_is_left_alone)
{
    struct operation operation = {NULL, write_page, {.index = 0}};
    prepare(&operation);
    pid_t child = start_stopped(&operation);
    while (!holds_any(&operation.file, child))
        assert_true(step(child));
    assert_int_equal(ledger_stopped_release(), 0);
    assert_true(holds_any(&operation.file, child));
    ptrace(PTRACE_DETACH, child, 0, 0);
    expect_end(child);
    finish(&operation);
}

/* An agent that cannot do it: it lives on, and the other has its lock. */
static void expect_refused(pthread_mutex_t *lock)
{
    int status;
    pid_t child = start_child(stops_with_lock, lock);
    must(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    must(ledger_stopped_release() == 0);
    must(is_held(lock, child));
    kill(child, SIGCONT);
    must(waitpid(child, &status, 0) == child && status == 0);
}

static int may_not_trace(void *lock)
{
    must(geteuid() != 0 || (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                            setresuid(NOBODY, NOBODY, NOBODY) == 0));
    must(prctl(PR_SET_DUMPABLE, 0) == 0);
    expect_refused(lock);
    return 0;
}

static int is_killed_if_it_traces(void *lock)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    expect_refused(lock);
    expect_refused(lock);
    return 0;
}

UNIT_TEST(an_agent_that_may_not_trace_lives_on)
{
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* memcheck stops no process as the kernel does */
    assert_int_equal(run_child(may_not_trace, &ledger_map.shared->arena_lock), 0);
    assert_int_equal(run_child(is_killed_if_it_traces, &ledger_map.shared->arena_lock), 0);
}

/* The agent may be killed while it guides one: that is stopped again, and pauses once when it goes
 * on. */
UNIT_TEST(one_whom_the_agent_did_not_live_to_let_go_goes_on)
{
    pthread_mutex_t *lock = &ledger_map.shared->arena_lock;
    int status;
    pid_t child = start_child(stops_with_lock, lock);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    atomic_store(&ledger_map.shared->guided, (uint32_t)child);
    ledger_mutex_lock(&ledger_map.shared->process_lock);
    ledger_mutex_unlock(&ledger_map.shared->process_lock); /* that is no matter of others */
    assert_int_equal(atomic_load(&ledger_map.shared->guided), child);
    expect_end(child);
}

static void *be_agent(void *released)
{
    while (*(unsigned *)released == 0) {
        ledger_stopped_await();
        *(unsigned *)released += ledger_stopped_release();
    }
    return NULL;
}

UNIT_TEST(who_waits_tells_the_agent)
{
    struct operation operation = {NULL, write_page, {.index = 0}};
    pthread_t agent;
    unsigned released = 0;
    prepare(&operation);
    pid_t child = stop_with_lock(&operation, 50);
    assert_int_equal(pthread_create(&agent, NULL, be_agent, &released), 0);
    write_dirty(&operation.file, 8 * PAGE, PAGE, 'o');
    pthread_join(agent, NULL);
    assert_int_equal(released, 1);
    expect_stopped(child);
    expect_end(child);
    finish(&operation);
}

static int open_all(void **state)
{
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return told == MAP_FAILED ? -1 : open_registry(state);
}

int main(void)
{
    return unit_run(open_all, remove_run_directory);
}
