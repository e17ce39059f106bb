#include "ledger/agent.h"

#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/uncommitted.h"
#include "sys/sys.h"

/* That a process has to start one before another process may. */
#define STARTING_NS UINT64_C(1000000000)

static uint32_t own_number;

static struct ledger_agent *agent(void)
{
    return &ledger_map.shared->agent;
}

/* ---- the writer ---- */

/* The kernel itself marks a robust lock whose owner died, before anybody can wait for its end. */
bool ledger_agent_is_there(void)
{
    if (!ledger_map.shared)
        return false;
    int word = __atomic_load_n(&agent()->lock.__data.__lock, __ATOMIC_ACQUIRE);
    return (word & FUTEX_TID_MASK) && !(word & FUTEX_OWNER_DIED);
}

uint32_t ledger_agent_number(void)
{
    if (!ledger_agent_is_there())
        return 0;
    return atomic_load_explicit(&agent()->number, memory_order_acquire);
}

uint32_t ledger_agent_pid(void)
{
    if (!ledger_agent_is_there() || ledger_process_is_foreign())
        return 0;
    return atomic_load_explicit(&agent()->pid, memory_order_acquire);
}

bool ledger_agent_watches(uint32_t number)
{
    uint32_t slot = ledger_process_slot_taken();
    return slot && atomic_load_explicit(&ledger_map.shared->processes[slot].watched,
                                        memory_order_acquire) == number;
}

/* The place may be another server's by now, or have been meanwhile. */
bool ledger_agent_serves(uint32_t number, unsigned place, uint64_t key)
{
    struct ledger_agent_server *server = &agent()->servers[place];
    return atomic_load_explicit(&server->served, memory_order_acquire) == number &&
           atomic_load_explicit(&server->key, memory_order_acquire) == key &&
           atomic_load_explicit(&server->served, memory_order_relaxed) == number;
}

bool ledger_agent_vouches(uint32_t number, uint32_t user)
{
    return user < LEDGER_USERS && atomic_load_explicit(&ledger_map.shared->users[user].vouched,
                                                       memory_order_acquire) == number;
}

/* -ENOSPC: there is none. */
static int known_place(uint64_t key)
{
    for (int i = 0; i < LEDGER_AGENT_SERVERS; i++) {
        if (atomic_load(&agent()->servers[i].key) == key)
            return i;
    }
    return -ENOSPC;
}

/* Another process may make one for it at the same time. */
static int new_place(uint64_t key)
{
    for (int i = 0; i < LEDGER_AGENT_SERVERS; i++) {
        uint64_t free = 0;
        if (atomic_compare_exchange_strong(&agent()->servers[i].key, &free, key) || free == key)
            return i;
    }
    return -ENOSPC;
}

/* The place of a server, which is made if there is none. -ENOSPC. */
static int place_of(uint64_t key, uint64_t device)
{
    int place = known_place(key);
    if (place < 0)
        place = new_place(key);
    if (place >= 0)
        atomic_store(&agent()->servers[place].device, device);
    return place;
}

static void ring(void)
{
    atomic_fetch_add(&agent()->rings, 1);
    sys_futex(&agent()->rings, FUTEX_WAKE, 1, NULL);
}

int ledger_agent_ask(uint64_t key, uint64_t device)
{
    uint32_t slot = ledger_process_slot(), number = ledger_agent_number();
    int place = slot ? place_of(key, device) : -ENOSPC;
    if (place < 0)
        return place;
    _Atomic uint32_t *watched = &ledger_map.shared->processes[slot].watched;
    if (number == 0 || atomic_load(watched) != number)
        atomic_store(watched, LEDGER_WATCH_WANTED);
    ring();
    return place;
}

void ledger_agent_owes(void)
{
    if (own_number == 0 && ledger_agent_number() != 0)
        ring();
}

bool ledger_agent_may_start(void)
{
    uint64_t now = sys_now_ns(), before = atomic_load(&agent()->starting_ns);
    return (before == 0 || now - before > STARTING_NS) &&
           atomic_compare_exchange_strong(&agent()->starting_ns, &before, now);
}

void ledger_agent_not_started(void)
{
    atomic_store(&agent()->starting_ns, 0);
}

void ledger_agent_stir(void)
{
    if (atomic_load_explicit(&agent()->sleeps, memory_order_seq_cst) &&
        atomic_exchange(&agent()->sleeps, 0))
        ring();
}

void ledger_agent_lack(enum ledger_agent_lack what, int error)
{
    uint32_t slot = ledger_process_slot_taken();
    if (slot)
        atomic_store(&ledger_map.shared->processes[slot].lack,
                     (uint32_t)what | (uint32_t)error << 8);
}

/* ---- the agent ---- */

/* Of the agent that this process is: what is in shared memory may have been changed by who should
 * not. */

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
    /* What the one before had in its care is a stray for those who look from now on. */
    ledger_process_sweep(0);
    ledger_agent_give_back();
    do
        number = atomic_fetch_add(&agent()->drawn, 1) + 1;
    while (number == 0 || number == LEDGER_WATCH_WANTED);
    sys_clock_gettime(CLOCK_REALTIME, &now);
    atomic_store(&agent()->since_s, (uint64_t)now.tv_sec);
    own_number = number;
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
    *watched = by == own_number;
    *pid = (int)process->pid;
    return true;
}

bool ledger_agent_watch(uint32_t slot, int pid)
{
    struct ledger_process *process = &ledger_map.shared->processes[slot];
    ledger_process_check(slot); /* a pid is used again: is it the process that has the slot? */
    if (!atomic_load(&process->state) || process->pid != (uint32_t)pid)
        return false;
    atomic_store(&process->lack, 0);
    atomic_store(&process->watched, own_number);
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
    atomic_store(&agent()->servers[place].served, serves ? own_number : 0);
}

void ledger_agent_vouch(uint32_t user)
{
    atomic_store_explicit(&ledger_map.shared->users[user].vouched, own_number,
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
