/*
 * The process slots of the registry: who owns which record, and what happens to the records of
 * processes that died.
 */
#include "ledger/store/pocket.h"
#include "ledger/commits.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/mutex.h"
#include "ledger/offset.h"
#include "ledger/store/processes.h"
#include "ledger/registry.h"
#include "ledger/strays.h"
#include "ledger/world.h"
#include "sys/sys.h"
#include "sys/test_switch.h"
#include "run/identity.h"

enum { LOOKS_MAX = 4 };

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

/* What a record of a dead process will be: a flag of its file; 0: nothing that is owed. */
static uint32_t orphan_flag(const struct ledger_record *record)
{
    uint32_t state = ledger_record_state(record);
    if (state == LEDGER_RECORD_DIRTY || (state == LEDGER_RECORD_IN_FLIGHT && record->promised))
        return LEDGER_ENTRY_ORPHANED;
    return state == LEDGER_RECORD_ACKED || state == LEDGER_RECORD_REPLAY
               ? LEDGER_ENTRY_ORPHANED_SENT
               : 0;
}

/* Before a record of the file that was of a dead process is nobody's: what the dead left of it has
 * a carer, or none. */
static void orphan(struct ledger_entry *entry, const struct ledger_record *record, uint32_t slot)
{
    uint32_t flag = orphan_flag(record);
    if (flag)
        ledger_entry_orphan(entry, slot, flag);
}

/* Did the dead process send what others wrote that live, or that are dead, and have been noted? */
static bool is_of_others(const struct ledger_entry *entry, const struct ledger_record *record)
{
    uint32_t writer = atomic_load(&record->writer), flag = orphan_flag(record);
    return writer && (writer < LEDGER_PROCESSES || (atomic_load(&entry->flags) & flag) == flag);
}

/* What the dead process had sent of it may still be on its way to the server. */
static void end_sending(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t state = ledger_record_state(record);
    if (state != LEDGER_RECORD_IN_FLIGHT && state != LEDGER_RECORD_REPLAY)
        return;
    ledger_record_hold(index);
    ledger_entry_untold(entry);
    if (record->to_disk) /* it may have been told an error: see commits.c */
        ledger_records_distrust(ledger_entry_index(entry));
    if (state == LEDGER_RECORD_REPLAY) {
        ledger_record_set_state(record, LEDGER_RECORD_ACKED);
        return;
    }
    if (record->promised) {
        ledger_dirty_return(entry, index, garbage);
    } else {
        /* Has it made the file longer? Only the server knows. */
        if (ledger_record_end(record) > atomic_load(&entry->size))
            ledger_entry_forget_size(entry);
        ledger_record_drop(entry, index, garbage);
    }
    ledger_entry_count_change(entry);
}

/* A record of a dead process that is in the lists. */
static void give_back_listed(struct ledger_entry *entry, uint32_t index, uint32_t slot,
                             struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    bool others = is_of_others(entry, record);
    if (!others)
        orphan(entry, record, slot);
    if (ledger_record_is_dirty(record) && sys_test_unsafe(SYS_TEST_ORPHANS))
        ledger_record_drop(entry, index, garbage);
    else
        end_sending(entry, index, garbage);
    if (ledger_record_state(record) <= LEDGER_RECORD_PRIVATE)
        return;
    if (ledger_record_state(record) == LEDGER_RECORD_GHOST)
        atomic_store(&record->writer, 0);
    ledger_record_return(record);
    if (atomic_load(&record->owner) != slot)
        return;
    if (others) /* and it has newer bytes by now, which the dead process wrote */
        orphan(entry, record, slot);
    atomic_store(&record->owner, 0);
}

/* A record that is, or was, in the lists. */
static void give_back_linked(uint32_t index, uint32_t slot)
{
    struct ledger_record *record = ledger_record(index);
    struct ledger_garbage garbage = {0};
    uint32_t file = atomic_load(&record->file);
    if (file >= LEDGER_FILES)
        return;
    uint32_t stripe = ledger_stripe_of(file);
    ledger_stripe_lock(stripe);
    struct ledger_entry *entry = &ledger_map.entries[file];
    bool listed =
        atomic_load(&record->file) == file && ledger_record_state(record) > LEDGER_RECORD_PRIVATE;
    if (listed && atomic_load(&record->writer) == slot) { /* another process is sending it */
        orphan(entry, record, slot);
        atomic_store(&record->writer, LEDGER_PROCESSES);
    }
    if (listed && atomic_load(&record->owner) == slot)
        give_back_listed(entry, index, slot, &garbage);
    ledger_stripe_unlock(stripe);
    ledger_stripe_wake(stripe);
    ledger_arena_give(garbage.first);
}

/* Is it the process's, or will be? It may be lent, or returned, at the same time: both are stored
 * in the place where it goes before they go from the place where it was. */
static bool concerns(const struct ledger_record *record, uint32_t slot)
{
    if (atomic_load(&record->owner) == slot)
        return true;
    return ledger_record_state(record) != LEDGER_RECORD_PRIVATE &&
           (atomic_load(&record->writer) == slot || atomic_load(&record->owner) == slot);
}

/* Did it have any? */
static bool give_back_some(uint32_t slot)
{
    uint32_t end = atomic_load(&ledger_map.shared->next_record);
    bool found = false;
    for (uint32_t i = 1; i < end; i++) {
        const struct ledger_record *record = ledger_record(i);
        uint32_t state = ledger_record_state(record);
        if (state == LEDGER_RECORD_FREE || !concerns(record, slot))
            continue;
        if (state != LEDGER_RECORD_PRIVATE)
            give_back_linked(i, slot);
        if (ledger_record_state(record) == LEDGER_RECORD_PRIVATE &&
            atomic_load(&record->owner) == slot) {
            ledger_record(i)->write_next = 0;
            ledger_arena_give(i);
        }
        found = true;
    }
    return found;
}

/* Others that send what it wrote may have split a record meanwhile: more than once is rare. */
static void give_back_records(uint32_t slot)
{
    for (int i = 0; i < LOOKS_MAX && give_back_some(slot); i++)
        ;
}

/* Whether the size changed before the process died, or will, is not known in most cases. */
static void give_back_truncations(uint32_t slot)
{
    struct ledger_garbage garbage = {0};
    for (uint32_t set = 0; set < LEDGER_SETS; set++) {
        if (!atomic_load(&ledger_map.shared->set_state[set]))
            continue;
        for (uint32_t i = 0; i < LEDGER_SET_SIZE; i++) {
            struct ledger_entry *entry = &ledger_map.entries[set * LEDGER_SET_SIZE + i];
            uint32_t stripe = ledger_stripe_of(ledger_entry_index(entry));
            if (atomic_load(&entry->truncator) != slot)
                continue;
            ledger_stripe_lock(stripe);
            if (atomic_load(&entry->truncator) == slot && ledger_entry_is_appending(entry))
                ledger_entry_append_end(entry);
            else if (atomic_load(&entry->truncator) == slot)
                ledger_entry_hold_size(entry, &garbage);
            ledger_stripe_unlock(stripe);
            ledger_stripe_wake(stripe);
        }
    }
    ledger_arena_give(garbage.first);
}

/* Under process_lock. */
static void give_back(uint32_t slot)
{
    struct ledger_process *process = &ledger_map.shared->processes[slot];
    ledger_commits_of_dead(slot);
    ledger_offsets_of_dead(slot);
    if (atomic_load(&process->wrote))
        give_back_records(slot);
    if (atomic_load(&process->truncations))
        give_back_truncations(slot);
    atomic_store(&process->ahead, 0);
    atomic_store(&process->state, 0);
}

/* After unshare(CLONE_NEWPID) and fork() the numbers in the slots are not those that this process
 * sees, nor can others see its own: it gets no slot, and takes nobody for dead. */
bool ledger_process_is_foreign(void)
{
    return run_namespaces() != atomic_load(&ledger_map.shared->head.namespaces);
}

static struct run_identity identity_of(const struct ledger_process *process)
{
    return (struct run_identity){process->pid, process->starttime, process->image};
}

/* Of the same use of a slot? */
static bool same_identity(const struct run_identity *a, const struct run_identity *b)
{
    return a->pid == b->pid && a->starttime == b->starttime && a->image == b->image;
}

/* Who asks /proc may be stopped while it does, so that is done without the lock; what was found
 * holds for who has the slot still. */
static void give_back_if_dead(uint32_t slot)
{
    const struct ledger_process *process = &ledger_map.shared->processes[slot];
    if (!atomic_load(&process->state))
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

/* Looks at a few slots each time, so that no dead one stays for long. */
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
        /* This process before exec(): its threads and their writes are no more. But not another
         * copy of the library in this program, which goes on. */
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
