/* A registry that is removed while processes use it: they see it, and who makes a new one gives
 * them time for that. src/ledger/registry.c, src/run/directory.c. */
#include "ledger_test.h"
#include "ledger/world.h"
#include "run/directory.h"

#include <signal.h>

static int pipes[2][2]; /* to the child, and from it */

static int fresh(void **state)
{
    log_open("/dev/null");
    return make_run_directory(state);
}

static void tell(int pipe[2])
{
    must(write(pipe[1], "", 1) == 1);
}

static void await(int pipe[2])
{
    char byte;
    must(read(pipe[0], &byte, 1) == 1);
}

static bool becomes_gone(void)
{
    while (!ledger_registry_is_gone())
        sys_nanosleep_ms(1);
    return ledger_registry_was_gone();
}

/* With a registry open, until it is told to look. */
static int child_uses(void *unused)
{
    (void)unused;
    struct ledger_file file;
    must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
    attach(&file, 1);
    must(!ledger_world_is_kernel(&file));
    for (int i = 0; i < 50; i++) {
        must(!ledger_registry_is_gone());
        sys_nanosleep_ms(1);
    }
    tell(pipes[1]);
    await(pipes[0]);
    return becomes_gone() && ledger_world_is_kernel(&file) ? 0 : 1; /* others have it now */
}

static pid_t start(void)
{
    must(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    pid_t child = start_child(child_uses, NULL);
    await(pipes[1]);
    return child;
}

static void close_pipes(void)
{
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
}

static void end(pid_t child)
{
    tell(pipes[0]);
    assert_int_equal(end_child(child), 0);
    close_pipes();
}

static bool is_used(void)
{
    int run = run_make();
    bool used = run_is_used();
    run_close(run);
    return used;
}

UNIT_TEST(a_process_sees_that_its_registry_is_removed)
{
    pid_t child = start();
    remove_contents(test_directory);
    end(child);
}

UNIT_TEST(a_process_sees_that_the_directory_is_removed)
{
    pid_t child = start();
    remove_contents(test_directory);
    assert_int_equal(rmdir(test_directory), 0);
    end(child);
}

UNIT_TEST(a_directory_is_used_as_long_as_a_process_lives_that_used_it)
{
    assert_false(is_used());
    pid_t child = start();
    assert_true(is_used());
    remove_contents(test_directory);
    assert_int_equal(rmdir(test_directory), 0);
    assert_true(is_used());
    end(child);
    assert_false(is_used());
}

static int child_opens(void *unused)
{
    (void)unused;
    must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
    return ledger_registry_is_gone() ? 1 : 0;
}

UNIT_TEST(who_comes_later_has_a_new_one)
{
    pid_t child = start();
    remove_contents(test_directory);
    assert_int_equal(run_child(child_opens, NULL), 0);
    assert_true(count_run_files() > 0);
    end(child);
}

/* It waits for the other, which ends meanwhile. */
UNIT_TEST(who_comes_later_does_not_wait_for_the_dead)
{
    pid_t child = start();
    remove_contents(test_directory);
    pid_t later = start_child(child_opens, NULL);
    kill(child, SIGKILL);
    assert_int_equal(end_child(child), 128 + SIGKILL);
    assert_int_equal(end_child(later), 0);
    assert_false(is_used());
    close_pipes();
}

UNIT_TEST(a_child_of_fork_goes_on_to_use_it)
{
    must(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    pid_t child = fork();
    if (child == 0) {
        in_child = true;
        must(ledger_registry_open(UNCOMMITTED_MAX, 0) == 0);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            tell(pipes[1]);
            await(pipes[0]);
            _exit(0);
        }
        _exit(0);
    }
    assert_int_equal(end_child(child), 0);
    await(pipes[1]);
    assert_true(is_used());
    tell(pipes[0]);
    while (is_used())
        sys_nanosleep_ms(1);
    close_pipes();
}

int main(void)
{
    return unit_run(fresh, remove_run_directory);
}
