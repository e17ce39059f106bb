/*
 * The processes that torture.c starts: workers, for several rounds, and visitors, which come in the
 * midst of one. They are under the library if --run says how.
 */
#ifndef FAULT_PROCESSES_H
#define FAULT_PROCESSES_H

#include <sys/wait.h>

#include "control.h"
#include "visitor.h"

enum { PATIENCE_S = 60, VISIT_PATIENCE_S = 2 };

struct words {
    char *words[WORDS_MOST];
};

/* What begins every process: a program that this one is to be started by, and this one. */
struct starting {
    const struct words *run;
    const char *self, *journal;
};

static pid_t workers[SLOTS_MOST], visitors[VISITORS];
static unsigned killed;  /* workers, in this generation */
static unsigned orphans; /* visitors that were killed in it */

/* The words end with NULL. In the child `prepare` is called before. */
static pid_t process_start(const struct starting *how, const char *const *words,
                           void (*prepare)(void))
{
    char *arguments[32];
    unsigned count = 0;
    for (; how->run->words[count]; count++)
        arguments[count] = how->run->words[count];
    arguments[count++] = (char *)(uintptr_t)how->self;
    while (*words)
        arguments[count++] = (char *)(uintptr_t)*words++;
    arguments[count] = NULL;
    pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (prepare)
            prepare();
        execvp(arguments[0], arguments);
        _exit(127);
    }
    return child;
}

static pid_t worker_start(const struct starting *how, unsigned index)
{
    char text[16];
    snprintf(text, sizeof text, "%u", index);
    const char *words[] = {"--worker", how->journal, text, NULL};
    return process_start(how, words, NULL);
}

/* Its status, or -1: it does not end. */
static int process_wait(pid_t process)
{
    uint64_t limit = clock_ns() + milliseconds(PATIENCE_S * 1000);
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (clock_ns() > limit)
            return -1;
        usleep(2000);
    }
    return status;
}

/* Whatever threads [first, first + count) were at is done or not; others may go on with it. */
static void threads_gone(unsigned first, unsigned count)
{
    for (unsigned file = 0; file < SIZED; file++) {
        struct sized *sized = &journal->sized[file];
        uint32_t holder = atomic_load(&sized->holder);
        if (!holder || holder - 1 < first || holder - 1 >= first + count)
            continue;
        uint32_t number = atomic_load(&sized->under_way);
        enum change change = sized->history[number % HISTORY].change;
        journal->changes[CHANGE_killed] += number != 0;
        if (number && (change == CHANGE_shrink || change == CHANGE_o_trunc))
            atomic_store(&sized->half, number);
        atomic_store(&sized->under_way, 0);
        atomic_store(&sized->holder, 0);
    }
    for (unsigned log = 0; log < LOGS; log++)
        atomic_store(&journal->logs[log].burned, true);
}

/* False: there is none. */
static bool process_kill(pid_t *process)
{
    if (*process <= 0)
        return false;
    kill(*process, SIGKILL);
    waitpid(*process, NULL, 0);
    *process = 0;
    return true;
}

static void worker_kill(unsigned index)
{
    if (!process_kill(&workers[index]))
        return;
    killed++;
    threads_gone(index * journal->threads, journal->threads);
}

/* ---- visitors ---- */

static void narrow(void)
{
    const struct rlimit limit = {ADDRESS_SPACE, ADDRESS_SPACE};
    setrlimit(RLIMIT_AS, &limit);
}

static void visitor_start(const struct starting *how, unsigned index, unsigned round,
                          const char *name)
{
    char index_text[16], round_text[16];
    snprintf(index_text, sizeof index_text, "%u", index);
    snprintf(round_text, sizeof round_text, "%u", round);
    const char *words[] = {"--visitor", how->journal, index_text, round_text, name, NULL};
    atomic_store(&journal->visit_ends[index], false);
    atomic_store(&journal->visited[index], 0);
    atomic_fetch_add(&journal->visits, 1);
    visitors[index] = process_start(how, words, visit_find(name)->narrow ? narrow : NULL);
}

static void visitor_kill(unsigned index)
{
    if (!process_kill(&visitors[index]))
        return;
    orphans++;
    threads_gone(worker_slots() + index, 1);
}

/* It ends by itself, when it was told to or as the round ends. */
static bool visitor_end(unsigned index, unsigned round)
{
    int status = visitors[index] > 0 ? process_wait(visitors[index]) : 0;
    if (status < 0) {
        failed("round %u: visitor %u does not end", round, index);
        return false;
    }
    visitors[index] = 0;
    if (status != 0)
        failed("round %u: visitor %u ended with status %d%s", round, index, status,
               WIFSIGNALED(status) ? " (a signal)" : "");
    return status == 0;
}

static bool visitors_end(unsigned round)
{
    for (unsigned i = 0; i < VISITORS; i++) {
        if (!visitor_end(i, round))
            return false;
    }
    return true;
}

/* On a machine that has much to do a visitor may not yet have done anything. */
static void visitors_wait_busy(void)
{
    uint64_t limit = clock_ns() + milliseconds(VISIT_PATIENCE_S * 1000);
    for (unsigned i = 0; i < VISITORS; i++) {
        while (visitors[i] > 0 && atomic_load(&journal->visited[i]) < 2 * BUSY_ACTS &&
               !atomic_load(&journal->visit_ends[i]) && !atomic_load(&journal->failed) &&
               clock_ns() < limit)
            usleep(2000);
    }
}

static void processes_kill(void)
{
    for (unsigned i = 0; i < journal->processes; i++)
        worker_kill(i);
    for (unsigned i = 0; i < VISITORS; i++)
        visitor_kill(i);
}

#endif
