/*
 * The process slots of the registry: which process has which, and which are dead.
 */
#include "ledger/store/processes.h"

#include "ledger/store/mutex.h"
#include "ledger/store/upper.h"
#include "run/identity.h"
#include "sys/sys.h"

static _Atomic uint32_t own_slot;

uint32_t ledger_process_count(void)
{
    uint32_t count = __atomic_load_n(&ledger_map.shared->process_count, __ATOMIC_RELAXED);
    return count == 0 ? 1 : count < LEDGER_PROCESSES ? count : LEDGER_PROCESSES;
}

static void lock_processes(void)
{
    /* A slot's `state` is written last when it is taken and when it is freed: nothing to mend. */
    if (ledger_mutex_lock(&ledger_map.shared->process_lock) == EOWNERDEAD)
        pthread_mutex_consistent(&ledger_map.shared->process_lock);
}

static void unlock_processes(void)
{
    ledger_mutex_unlock(&ledger_map.shared->process_lock);
}

/* Under process_lock. */
static void give_back(uint32_t slot)
{
    struct ledger_process *process = &ledger_map.shared->processes[slot];
    ledger_upper.give_back(slot);
    atomic_store(&process->ahead, 0);
    atomic_store(&process->state, 0);
}

/* After unshare(CLONE_NEWPID) and fork() this process sees other numbers than those in the slots,
 * and others cannot see its own. So it gets no slot, and takes no process for dead. */
bool ledger_process_is_foreign(void)
{
    return run_namespaces() != atomic_load(&ledger_map.shared->head.namespaces);
}

static struct run_identity identity_of(const struct ledger_process *process)
{
    return (struct run_identity){process->pid, process->starttime, process->image};
}

/* Are both of one use of a slot? */
static bool same_identity(const struct run_identity *a, const struct run_identity *b)
{
    return a->pid == b->pid && a->starttime == b->starttime && a->image == b->image;
}

/* /proc is asked without the lock, as this process may be stopped meanwhile. What was found holds
 * only if the same process still has the slot. */
static void give_back_if_dead(uint32_t slot)
{
    const struct ledger_process *process = &ledger_map.shared->processes[slot];
    if (!atomic_load(&process->state) || slot == ledger_process_slot_taken())
        return;
    lock_processes();
    struct run_identity identity = identity_of(process);
    bool used = atomic_load(&process->state);
    unlock_processes();
    if (!used || run_identity_alive(&identity) || ledger_process_is_foreign())
        return;
    lock_processes();
    struct run_identity now = identity_of(process);
    if (atomic_load(&process->state) && same_identity(&now, &identity))
        give_back(slot);
    unlock_processes();
}

void ledger_process_check(uint32_t slot)
{
    if (slot != 0 && slot < LEDGER_PROCESSES)
        give_back_if_dead(slot);
}

bool ledger_process_is_stopped(uint32_t slot)
{
    if (slot == 0 || slot >= LEDGER_PROCESSES)
        return false;
    const struct ledger_process *process = &ledger_map.shared->processes[slot];
    lock_processes();
    struct run_identity identity = identity_of(process);
    bool used = atomic_load(&process->state);
    unlock_processes();
    return used && run_identity_stopped(&identity) && !ledger_process_is_foreign();
}

void ledger_process_check_all(void)
{
    uint32_t count = ledger_process_count();
    for (uint32_t slot = 1; slot < count; slot++)
        give_back_if_dead(slot);
}

void ledger_process_sweep_all(void)
{
    struct ledger_shared *shared = ledger_map.shared;
    lock_processes();
    for (uint32_t slot = 1, count = ledger_process_count(); slot < count; slot++) {
        if (atomic_load(&shared->processes[slot].state))
            give_back(slot);
    }
    unlock_processes();
}

/* Looks at a few slots at each call, so that no dead process stays for long. */
static void check_some(struct ledger_shared *shared)
{
    uint32_t count = ledger_process_count();
    for (int i = 0; i < 4 && count > 1; i++) {
        uint32_t next = __atomic_add_fetch(&shared->process_cursor, 1, __ATOMIC_RELAXED);
        give_back_if_dead(1 + next % (count - 1));
    }
}

static uint32_t find_free(struct ledger_shared *shared)
{
    uint32_t count = ledger_process_count();
    for (uint32_t slot = 1; slot < count; slot++) {
        if (!atomic_load(&shared->processes[slot].state))
            return slot;
    }
    if (count == LEDGER_PROCESSES)
        return 0;
    __atomic_store_n(&shared->process_count, count + 1, __ATOMIC_RELAXED);
    return count;
}

/* Under process_lock. */
static uint32_t take_slot(const struct run_identity *self)
{
    struct ledger_shared *shared = ledger_map.shared;
    for (uint32_t slot = 1, count = ledger_process_count(); slot < count; slot++) {
        struct ledger_process *process = &shared->processes[slot];
        /* This is the process before exec(): its threads and their writes are gone. But another
         * copy of the library in this program goes on. */
        if (atomic_load(&process->state) && process->pid == self->pid &&
            process->starttime == self->starttime && process->program != run_program())
            give_back(slot);
    }
    uint32_t slot = find_free(shared);
    if (slot) {
        struct ledger_process *process = &shared->processes[slot];
        process->pid = self->pid;
        process->starttime = self->starttime;
        process->image = self->image;
        process->program = run_program();
        atomic_store(&process->wrote, 0);
        atomic_store(&process->truncations, 0);
        atomic_store(&process->watched, 0);
        atomic_store(&process->lack, 0);
        atomic_store(&process->state, 1);
    }
    return slot;
}

static uint32_t own_or_new(const struct run_identity *self)
{
    lock_processes();
    uint32_t slot = atomic_load(&own_slot);
    if (!slot) {
        slot = take_slot(self);
        atomic_store(&own_slot, slot);
    }
    unlock_processes();
    return slot;
}

uint32_t ledger_process_slot(void)
{
    struct run_identity self;
    uint32_t slot = atomic_load_explicit(&own_slot, memory_order_relaxed);
    if (slot || !ledger_map.shared || run_identity_self(&self) != 0 || ledger_process_is_foreign())
        return slot;
    check_some(ledger_map.shared);
    slot = own_or_new(&self);
    if (!slot) {
        ledger_process_check_all();
        slot = own_or_new(&self);
    }
    return slot;
}

uint32_t ledger_process_slot_taken(void)
{
    return atomic_load_explicit(&own_slot, memory_order_relaxed);
}

uint32_t ledger_process_exchange(uint32_t slot)
{
    return atomic_exchange(&own_slot, slot);
}

void ledger_process_leave(void)
{
    uint32_t slot = ledger_process_exchange(0);
    if (!slot)
        return;
    lock_processes();
    give_back(slot);
    unlock_processes();
}

uint32_t ledger_process_owner(void)
{
    uint32_t slot = ledger_process_slot_taken();
    struct ledger_process *self = &ledger_map.shared->processes[slot];
    if (slot && !atomic_load_explicit(&self->wrote, memory_order_relaxed))
        atomic_store(&self->wrote, 1);
    return slot;
}
