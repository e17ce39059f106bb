/* See steps.h. */
#include "steps.h"

int child_runs(void *argument)
{
    struct operation *operation = argument;
    must(ledger_process_slot() != 0);
    if (operation->prepare)
        operation->prepare(&operation->file);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    operation->run(&operation->file);
    return 0;
}

bool is_held(const pthread_mutex_t *mutex, pid_t by)
{
    return (__atomic_load_n(&mutex->__data.__lock, __ATOMIC_SEQ_CST) & 0x3fffffff) == by;
}

bool holds_any(const struct ledger_file *file, pid_t child)
{
    struct ledger_shared *shared = ledger_map.shared;
    return is_held(&shared->stripes[ledger_stripe_of_file(file)].lock, child) ||
           is_held(&shared->arena_lock, child) || is_held(&shared->process_lock, child);
}

pid_t start_stopped(struct operation *operation)
{
    int status;
    pid_t child = start_child(child_runs, operation);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    return child;
}

bool step(pid_t child)
{
    int status;
    ptrace(PTRACE_SINGLESTEP, child, 0, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSTOPPED(status);
}
