#include "ledger/care.h"

#include "ledger/agent.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/uncommitted.h"
#include "sys/sys.h"

static struct ledger_agent *agent(void)
{
    return &ledger_map.shared->agent;
}

int ledger_agent_become(void)
{
    int error = pthread_mutex_trylock(&agent()->lock);
    if (error == EOWNERDEAD)
        error = pthread_mutex_consistent(&agent()->lock);
    if (error)
        return -EBUSY;
    atomic_store(&agent()->number, 0);
    atomic_store(&agent()->pid, (uint32_t)sys_getpid());
    return 0;
}

void ledger_agent_ready(void)
{
    struct timespec now;
    uint32_t number;
    /* What the agent before this one had in its care is a stray for processes that look from now
     * on. */
    ledger_process_sweep(0);
    ledger_agent_give_back();
    do
        number = (atomic_fetch_add(&agent()->drawn, 1) + 1) & ~LEDGER_WATCH_ASKED;
    while (number == 0);
    sys_clock_gettime(CLOCK_REALTIME, &now);
    atomic_store(&agent()->since_s, (uint64_t)now.tv_sec);
    ledger_agent_self = number;
    atomic_store(&agent()->starting_ns, 0);
    atomic_store_explicit(&agent()->number, number, memory_order_release);
}

void ledger_agent_resign(void)
{
    atomic_store(&agent()->number, 0);
    pthread_mutex_unlock(&agent()->lock);
}

_Static_assert((int)LEDGER_MOMENTS == (int)LEDGER_STRIPES, "one each");

bool ledger_agent_is_any_dirty(void)
{
    for (uint32_t i = 0; i < LEDGER_STRIPES; i++) {
        if (atomic_load(&ledger_map.shared->stripes[i].dirty))
            return true;
    }
    return false;
}

bool ledger_agent_may_sleep(struct ledger_moments *moments)
{
    atomic_store(&agent()->sleeps, 1); /* before the look: see ledger_agent_stir() */
    if (!ledger_agent_is_any_dirty())
        return true;
    atomic_store(&agent()->sleeps, 0);
    for (uint32_t i = 0; i < LEDGER_STRIPES; i++) {
        atomic_store(&moments->before[i], moments->now[i]);
        moments->now[i] = atomic_load(&ledger_map.shared->stripes[i].sequence);
    }
    return false;
}

void ledger_agent_all_is_old(struct ledger_moments *moments)
{
    for (uint32_t i = 0; i < LEDGER_STRIPES; i++) {
        moments->now[i] = atomic_load(&ledger_map.shared->stripes[i].sequence);
        atomic_store(&moments->before[i], moments->now[i]);
    }
}

uint64_t ledger_file_moment(const struct ledger_file *file, const struct ledger_moments *moments)
{
    return atomic_load(&moments->before[ledger_stripe_of_file(file)]);
}

void ledger_agent_await(uint32_t *seen)
{
    while (atomic_load(&agent()->rings) == *seen)
        sys_futex(&agent()->rings, FUTEX_WAIT, *seen, NULL);
    *seen = atomic_load(&agent()->rings);
}

bool ledger_agent_asked(uint32_t slot, int *pid, bool *watched)
{
    const struct ledger_process *process = &ledger_map.shared->processes[slot];
    uint32_t by = atomic_load(&process->watched);
    if (!atomic_load(&process->state) || by == 0)
        return false;
    *watched = by == ledger_agent_self;
    *pid = (int)process->pid;
    return true;
}

bool ledger_agent_watch(uint32_t slot, int pid)
{
    struct ledger_process *process = &ledger_map.shared->processes[slot];
    ledger_process_check(slot); /* pids are used again: is the slot still that of the process? */
    if (!atomic_load(&process->state) || process->pid != (uint32_t)pid)
        return false;
    atomic_store(&process->lack, 0);
    atomic_store(&process->watched, ledger_agent_self);
    return true;
}

unsigned ledger_agent_watched(void)
{
    unsigned count = 0;
    for (uint32_t slot = 1, end = ledger_process_count(); slot < end; slot++) {
        bool watched = false;
        int pid;
        count += ledger_agent_asked(slot, &pid, &watched) && watched;
    }
    return count;
}

_Static_assert((int)LEDGER_AGENT_PLACES == (int)LEDGER_AGENT_SERVERS, "each");

bool ledger_agent_server(unsigned place, uint64_t *key, uint64_t *device)
{
    *key = atomic_load(&agent()->servers[place].key);
    *device = atomic_load(&agent()->servers[place].device);
    return *key != 0;
}

void ledger_agent_serve(unsigned place, bool serves)
{
    atomic_store(&agent()->servers[place].served, serves ? ledger_agent_self : 0);
}

void ledger_agent_vouch(uint32_t user)
{
    atomic_store_explicit(&ledger_map.shared->users[user].vouched, ledger_agent_self,
                          memory_order_release);
}

void ledger_agent_give_back(void)
{
    bool needed[LEDGER_AGENT_SERVERS] = {false};
    struct ledger_file file;
    uint32_t cursor = 0;
    while (ledger_uncommitted_next(&cursor, 0, false, &file)) {
        for (unsigned i = 0; i < LEDGER_AGENT_SERVERS; i++)
            needed[i] = needed[i] || atomic_load(&agent()->servers[i].key) == file.key.server ||
                        atomic_load(&agent()->servers[i].device) == file.key.device;
    }
    for (unsigned i = 0; i < LEDGER_AGENT_SERVERS; i++) {
        struct ledger_agent_server *server = &agent()->servers[i];
        if (needed[i] || atomic_load(&server->key) == 0)
            continue;
        atomic_store(&server->served, 0); /* in this order: see ledger_agent_serves() */
        atomic_store(&server->device, 0);
        atomic_store(&server->key, 0);
    }
}
