/* See hosts_processes.h. */
#include "hosts_processes.h"

struct host hosts[HOSTS];

const char *self_name, *journal_name;

void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

/* ---- starting ---- */

static pid_t process_start(const struct host *host, const char *const *words)
{
    char *arguments[32];
    unsigned count = 0;
    for (; host->words[count]; count++)
        arguments[count] = host->words[count];
    arguments[count++] = (char *)(uintptr_t)self_name;
    while (*words)
        arguments[count++] = (char *)(uintptr_t)*words++;
    arguments[count] = NULL;
    pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(arguments[0], arguments);
        _exit(127);
    }
    return child;
}

void program_start(unsigned host, unsigned index)
{
    char host_text[16], index_text[16];
    snprintf(host_text, sizeof host_text, "%u", host);
    snprintf(index_text, sizeof index_text, "%u", index);
    atomic_store(&journal->programs[host][index].is_warm, false);
    const char *words[] = {"--program", journal_name, host_text, index_text, NULL};
    hosts[host].programs[index] = process_start(&hosts[host], words);
}

void visitor_start(unsigned host)
{
    const char *words[] = {"--visit", journal_name, NULL};
    hosts[host].visitor = process_start(&hosts[host], words);
}

bool visitor_end(unsigned host)
{
    pid_t visitor = hosts[host].visitor;
    int status = visitor > 0 ? process_wait(visitor) : 0;
    hosts[host].visitor = 0;
    if (status != 0)
        failed("a visitor of host %u %s %d", host, status < 0 ? "hangs" : "ended with status",
               status);
    return status == 0;
}

/* ---- finding ---- */

static unsigned processes_find(unsigned host, bool agent, pid_t found[PROCESSES_MOST])
{
    return run_find(hosts[host].run, agent, found);
}

pid_t agent_find(unsigned host)
{
    pid_t found[PROCESSES_MOST];
    return processes_find(host, true, found) > 0 ? found[0] : 0;
}

bool agent_comes(unsigned host)
{
    pid_t found[PROCESSES_MOST];
    unsigned unknown = 0;
    for (unsigned count = processes_find(host, false, found), i = 0; i < count; i++) {
        bool known = found[i] == hosts[host].visitor || is_agent(found[i]);
        for (unsigned p = 0; p < PROGRAMS; p++)
            known = known || found[i] == hosts[host].programs[p];
        unknown += !known;
    }
    return unknown > 0;
}

/* ---- ending ---- */

/* It is dead when this returns. A zombie has no environment. */
static void wait_until_gone(unsigned host, pid_t pid)
{
    while (waitpid(pid, NULL, WNOHANG) <= 0 && runs_in(pid, hosts[host].run))
        usleep(200);
}

void program_kill(unsigned host, unsigned index)
{
    pid_t *program = &hosts[host].programs[index];
    if (*program <= 0)
        return;
    kill(*program, SIGKILL);
    waitpid(*program, NULL, 0);
    *program = 0;
}

void programs_kill(unsigned host)
{
    for (unsigned i = 0; i < PROGRAMS; i++)
        program_kill(host, i);
}

void agent_kill(unsigned host)
{
    pid_t agent = agent_find(host);
    for (unsigned i = 0; i < PROGRAMS; i++)
        atomic_store(&journal->programs[host][i].is_warm, false);
    if (agent > 0) {
        kill(agent, SIGKILL);
        wait_until_gone(host, agent);
    }
}

void host_kill(unsigned host)
{
    pid_t found[PROCESSES_MOST];
    unsigned count = 0, before;
    do {
        before = count;
        count = processes_find(host, false, found);
        for (unsigned i = 0; i < count; i++)
            kill(found[i], SIGSTOP);
    } while (count != before);
    for (unsigned i = 0; i < count; i++)
        kill(found[i], SIGKILL);
    programs_kill(host);
    if (hosts[host].visitor > 0)
        waitpid(hosts[host].visitor, NULL, 0);
    hosts[host].visitor = 0;
    for (unsigned i = 0; i < count; i++)
        wait_until_gone(host, found[i]);
}

void reap_agents(void)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
        for (unsigned i = 0; i < HOSTS * PROGRAMS; i++) {
            if (hosts[i / PROGRAMS].programs[i % PROGRAMS] == info.si_pid)
                return; /* that is a failure, which others see */
        }
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}
