/* Dirty data that another process than its writer sends, the agent for one, as one of them dies. */
#include <sys/ptrace.h>
#include <sys/user.h>

#include "dirty_scene.h"
#include "ledger/agent.h"
#include "ledger/care.h"
#include "ledger/strays.h"
#include "ledger/store/users.h"

enum { PAGE = 8192 };

static struct ledger_file file;
static enum ledger_outcome outcome;

/* Of the process that looks: it lives. */
static uint32_t owner_of_first(void)
{
    const struct ledger_entry *entry = ledger_entry_of(&file);
    uint32_t first = entry->dirty_first ? entry->dirty_first : entry->first;
    return first ? atomic_load(&ledger_record(first)->owner) : UINT32_MAX;
}

static void expect_own(void)
{
    ledger_process_sweep(0);
    check_invariants();
    assert_int_equal(owner_of_first(), ledger_process_slot());
    assert_false(ledger_file_has_strays(&file));
    assert_false(ledger_file_has_sent_strays(&file));
}

static void leave_dirty(uint64_t inode)
{
    attach(&file, inode);
    write_dirty(&file, 0, PAGE, 'd');
}

static void forget_file(void)
{
    ledger_file_forget(&file, false);
    check_invariants();
}

static int takes_it_and_dies(void *unused)
{
    struct ledger_write write;
    (void)unused;
    must(take(&file, &write) == 1);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(who_dies_as_he_sends_what_another_wrote_makes_no_stray_of_it)
{
    leave_dirty(701);
    assert_int_equal(run_child(takes_it_and_dies, NULL), 128 + SIGKILL);
    expect_own();
    expect_dirty(&file, 0, PAGE, 'd');
    forget_file();
}

static int sends(void *unused)
{
    struct ledger_write write;
    (void)unused;
    must(take(&file, &write) == 1);
    ledger_write_end(&file, &write, outcome, first_verifier);
    return 0;
}

UNIT_TEST(what_another_has_sent_is_its_writers_as_before)
{
    for (int i = 0; i < 2; i++) {
        outcome = i ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_FAILED;
        leave_dirty(702);
        assert_int_equal(run_child(sends, NULL), 0);
        assert_int_equal(ledger_file_acknowledged(&file), i ? PAGE : 0);
        expect_own();
        forget_file();
    }
}

/* Lets a stopped child go on until it enters a function. */
static void go_to(pid_t child, const void *function)
{
#ifdef __x86_64__
    enum { TRAP = 0xcc };
    struct user_regs_struct registers;
    int status;
    long word = ptrace(PTRACE_PEEKTEXT, child, function, 0);
    ptrace(PTRACE_POKETEXT, child, function, (word & ~0xffL) | TRAP);
    ptrace(PTRACE_CONT, child, 0, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    ptrace(PTRACE_POKETEXT, child, function, word);
    ptrace(PTRACE_GETREGS, child, 0, &registers);
    registers.rip--;
    ptrace(PTRACE_SETREGS, child, 0, &registers);
#else
    (void)child; /* from where it is */
    (void)function;
#endif
}

/* Lets the child do so many instructions, from a function on if there is one, and kills it. True:
 * it ended before. */
static bool killed_after(int (*body)(void *), const void *function, unsigned instructions)
{
    pid_t child = start_child(body, NULL);
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    if (function)
        go_to(child, function);
    for (unsigned i = 0; i < instructions && !WIFEXITED(status); i++) {
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WIFEXITED(status))
        return true;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    return false;
}

static int sends_by_steps(void *unused)
{
    must(ledger_process_slot() != 0);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    return sends(unused);
}

UNIT_TEST(wherever_the_one_that_sends_dies_it_is_its_writers)
{
    bool over;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    for (int i = 0; i < 2; i++) {
        outcome = i ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_FAILED;
        over = false;
        for (unsigned n = 0; !over; n += 71) {
            leave_dirty(703);
            over = killed_after(sends_by_steps, NULL, n);
            expect_own();
            assert_int_equal(ledger_file_uncommitted(&file), PAGE);
            forget_file();
        }
    }
}

static int writes_again_and_dies(void *unused)
{
    struct ledger_commit commit;
    struct ledger_write write;
    (void)unused;
    must(ledger_commit_begin(&file, &commit));
    must(ledger_commit_end(&file, &commit, second_verifier) == PAGE);
    must(ledger_replay_next(&file, &commit, false, &write) == 1);
    kill(getpid(), SIGKILL);
    return 1;
}

UNIT_TEST(nor_does_who_dies_as_he_writes_again_what_the_server_lost)
{
    struct ledger_write write;
    leave_dirty(704);
    assert_int_equal(take(&file, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    assert_int_equal(run_child(writes_again_and_dies, NULL), 128 + SIGKILL);
    expect_own();
    forget_file();
}

enum { USER = 7 };

static int writes_as_user_by_steps(void *unused)
{
    struct iovec vector = {buffer, PAGE};
    struct ledger_write write;
    uint64_t dirty;
    const struct ledger_beginning beginning = {
        .data = &vector, .count = 1, .length = PAGE, .keep = true, .write = &write, .user = USER};
    (void)unused;
    must(ledger_process_slot() != 0);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    return ledger_write_behind(&file, &beginning, false, &dirty);
}

UNIT_TEST(of_who_is_killed_as_he_writes_it_is_known_as_whom)
{
    bool over = false;
    if (getenv("DIRECTNFS_TEST_SHORT"))
        skip();
    for (unsigned n = 0; !over; n += 23) {
        attach(&file, 707 + n); /* nobody has written to it before */
        over = killed_after(writes_as_user_by_steps, (const void *)ledger_dirty_enter, n);
        ledger_process_sweep(0);
        check_invariants();
        if (ledger_file_dirty(&file) > 0)
            assert_int_equal(ledger_file_user(&file), USER);
        forget_file();
    }
}

/* ---- its writer dies first ---- */

static int told[2];

static void tell(void)
{
    must(write(told[1], "", 1) == 1);
}

static int writes_and_waits(void *unused)
{
    (void)unused;
    must(ledger_agent_ask(5, 77) >= 0);
    while (!ledger_agent_watches(ledger_agent_number()))
        usleep(1000);
    write_dirty(&file, 0, PAGE, 'd');
    tell();
    must(pause() == -1);
    return 0;
}

static int is_agent(void *unused)
{
    uint32_t seen = 0;
    uint64_t key, device;
    bool watched;
    int pid;
    (void)unused;
    must(ledger_agent_become() == 0);
    ledger_agent_ready();
    tell();
    for (;;) {
        ledger_agent_await(&seen);
        for (uint32_t slot = 1; slot < ledger_process_count(); slot++) {
            if (ledger_agent_asked(slot, &pid, &watched))
                ledger_agent_watch(slot, pid);
        }
        for (unsigned place = 0; place < LEDGER_AGENT_PLACES; place++) {
            if (ledger_agent_server(place, &key, &device))
                ledger_agent_serve(place, true);
        }
    }
}

static void hear(void)
{
    char byte;
    assert_int_equal(read(told[0], &byte, 1), 1);
}

static int takes_it_and_waits(void *unused)
{
    struct ledger_write write;
    (void)unused;
    must(take(&file, &write) == 1);
    tell();
    must(pause() == -1);
    return 0;
}

static void end_by_kill(pid_t process)
{
    int status;
    kill(process, SIGKILL);
    assert_int_equal(waitpid(process, &status, 0), process);
    ledger_process_sweep(0);
}

UNIT_TEST(what_a_dead_process_left_stays_in_the_agents_care_when_who_sends_it_dies)
{
    struct ledger_write write;
    attach(&file, 705);
    pid_t agent = start_child(is_agent, NULL);
    hear();
    pid_t writer = start_child(writes_and_waits, NULL);
    hear();
    pid_t sender = start_child(takes_it_and_waits, NULL); /* nobody watches it */
    hear();
    end_by_kill(writer);
    end_by_kill(sender);
    bool strays = ledger_file_has_strays(&file);
    assert_int_equal(take(&file, &write), 1);
    assert_int_equal(write.length, PAGE);
    ledger_write_end(&file, &write, LEDGER_WRITE_FAILED, 0);
    bool later = ledger_file_has_strays(&file);
    end_by_kill(agent);
    assert_false(strays);
    assert_false(later);
    assert_true(ledger_file_has_strays(&file));
    forget_file();
}

UNIT_TEST(what_was_sent_of_it_is_in_the_same_care)
{
    struct ledger_write write;
    attach(&file, 706);
    pid_t agent = start_child(is_agent, NULL);
    hear();
    pid_t writer = start_child(writes_and_waits, NULL);
    hear();
    end_by_kill(writer);
    assert_int_equal(take(&file, &write), 1);
    ledger_write_end(&file, &write, LEDGER_WRITE_UNSTABLE, first_verifier);
    bool stray = ledger_file_has_sent_strays(&file);
    end_by_kill(agent);
    assert_false(stray);
    assert_true(ledger_file_has_sent_strays(&file));
    forget_file();
}

static int begin_all(void **state)
{
    return open_registry(state) != 0 ? -1 : pipe(told);
}

static int leaves_and_waits(void *ready)
{
    write_dirty(&file, 0, PAGE, 'd');
    must(sys_write(*(int *)ready, "x", 1) == 1);
    pause();
    return 1;
}

UNIT_TEST(what_is_being_sent_as_its_writer_dies_is_nobodys_after_that)
{
    struct ledger_write write;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        attach(&file, 708);
        pid_t writer = start_child(leaves_and_waits, &ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        assert_int_equal(take(&file, &write), 1);
        kill(writer, SIGKILL);
        end_child(writer);
        ledger_process_sweep(0);
        ledger_write_end(&file, &write, i ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_FAILED,
                         first_verifier);
        assert_int_equal(owner_of_first(), 0);
        assert_true(i ? ledger_file_has_sent_strays(&file) : ledger_file_has_strays(&file));
        forget_file();
    }
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    return unit_run(begin_all, remove_run_directory);
}
