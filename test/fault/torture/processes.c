/* See processes.h. */
#include "processes.h"

pid_t workers[SLOTS_MOST], visitors[VISITORS];

unsigned killed;

unsigned orphans;

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

pid_t worker_start(const struct starting *how, unsigned index)
{
    char text[16];
    snprintf(text, sizeof text, "%u", index);
    const char *words[] = {"--worker", how->journal, text, NULL};
    return process_start(how, words, NULL);
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

void worker_kill(unsigned index)
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

void visitor_start(const struct starting *how, unsigned index, unsigned round, const char *name)
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

void visitor_kill(unsigned index)
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

bool visitors_end(unsigned round)
{
    for (unsigned i = 0; i < VISITORS; i++) {
        if (!visitor_end(i, round))
            return false;
    }
    return true;
}

void visitors_wait_busy(void)
{
    uint64_t limit = clock_ns() + milliseconds(VISIT_PATIENCE_S * 1000);
    for (unsigned i = 0; i < VISITORS; i++) {
        while (visitors[i] > 0 && atomic_load(&journal->visited[i]) < 2 * BUSY_ACTS &&
               !atomic_load(&journal->visit_ends[i]) && !atomic_load(&journal->failed) &&
               clock_ns() < limit)
            usleep(2000);
    }
}

void processes_kill(void)
{
    for (unsigned i = 0; i < journal->processes; i++)
        worker_kill(i);
    for (unsigned i = 0; i < VISITORS; i++)
        visitor_kill(i);
}
