#include "ledger/agent.h"

#include "ledger/care.h"
#include "ledger/store/processes.h"
#include "sys/sys.h"

/* How long a process may take to start an agent, before another process may try. */
#define STARTING_NS UINT64_C(1000000000)

uint32_t ledger_agent_self;

static struct ledger_agent *agent(void)
{
    return &ledger_map.shared->agent;
}

/* The kernel marks the robust lock of an owner that died, before a process can wait for the owner's
 * end. */
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

bool ledger_agent_knows(uint32_t number)
{
    uint32_t slot = ledger_process_slot_taken();
    const struct ledger_process *process = &ledger_map.shared->processes[slot];
    uint32_t watched = atomic_load_explicit(&process->watched, memory_order_relaxed);
    return slot && (watched & ~LEDGER_WATCH_ASKED) == number;
}

/* Another server may have the place by now, or may have had it meanwhile. */
bool ledger_agent_serves(uint32_t number, unsigned place, uint64_t key)
{
    struct ledger_agent_server *server = &agent()->servers[place];
    return atomic_load_explicit(&server->served, memory_order_acquire) == number &&
           atomic_load_explicit(&server->key, memory_order_acquire) == key &&
           atomic_load_explicit(&server->served, memory_order_relaxed) == number;
}

/* The place of the server with this key. -ENOSPC: there is none. */
static int known_place(uint64_t key)
{
    for (int i = 0; i < LEDGER_AGENT_SERVERS; i++) {
        if (atomic_load(&agent()->servers[i].key) == key)
            return i;
    }
    return -ENOSPC;
}

bool ledger_agent_serves_key(uint32_t number, uint64_t key)
{
    int place = known_place(key);
    return place >= 0 && ledger_agent_serves(number, (unsigned)place, key);
}

bool ledger_agent_vouches(uint32_t number, uint32_t user)
{
    return user < LEDGER_USERS && atomic_load_explicit(&ledger_map.shared->users[user].vouched,
                                                       memory_order_acquire) == number;
}

/* Makes a place for the server. Another process may do so at the same time. -ENOSPC: there is no
 * room. */
static int new_place(uint64_t key)
{
    for (int i = 0; i < LEDGER_AGENT_SERVERS; i++) {
        uint64_t free = 0;
        if (atomic_compare_exchange_strong(&agent()->servers[i].key, &free, key) || free == key)
            return i;
    }
    return -ENOSPC;
}

/* The place of a server; makes it if there is none. -ENOSPC: there is no room. */
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
    if (!slot)
        return -ENOSPC;
    int place = place_of(key, device);
    _Atomic uint32_t *watched = &ledger_map.shared->processes[slot].watched;
    uint32_t known = atomic_load(watched);
    while ((number == 0 || known != number) && /* the agent may answer another thread meanwhile */
           !atomic_compare_exchange_weak(watched, &known, LEDGER_WATCH_ASKED | number))
        ;
    ring();
    return place;
}

void ledger_agent_owes(void)
{
    if (ledger_agent_self == 0 && ledger_agent_number() != 0)
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
