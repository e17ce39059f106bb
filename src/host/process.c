/*
 * The process slots of the registry: who owns which record, and what happens to the records of
 * processes that died.
 */
#include "host/shared.h"
#include "host/world.h"
#include "sys/sys.h"

static _Atomic uint32_t own_slot;

static void lock_processes(void)
{
    /* A slot's `state` is written last when it is taken and when it is freed: nothing to mend. */
    if (pthread_mutex_lock(&host_map.shared->process_lock) == EOWNERDEAD)
        pthread_mutex_consistent(&host_map.shared->process_lock);
}

static void unlock_processes(void)
{
    pthread_mutex_unlock(&host_map.shared->process_lock);
}

/* A record of a dead process that is, or was, in the lists. */
static void give_back_linked(uint32_t index, uint32_t slot)
{
    struct host_record *record = host_record(index);
    struct host_garbage garbage = {0};
    uint32_t file = atomic_load(&record->file);
    if (file >= HOST_FILES)
        return;
    uint32_t stripe = host_stripe_of(file);
    host_stripe_lock(stripe);
    uint32_t state = host_record_state(record);
    if (atomic_load(&record->owner) == slot && atomic_load(&record->file) == file) {
        struct host_entry *entry = &host_map.entries[file];
        /* What it had sent may still be on its way to the server. */
        if (state == HOST_RECORD_IN_FLIGHT || state == HOST_RECORD_REPLAY)
            host_record_hold(index);
        if (state == HOST_RECORD_IN_FLIGHT) {
            atomic_fetch_or(&entry->flags, HOST_ENTRY_UNTOLD);
            /* Has it made the file longer? Only the server knows. */
            if (host_record_end(record) > atomic_load(&entry->size))
                host_entry_forget_size(entry);
            host_record_drop(entry, index, &garbage);
            host_entry_count_change(entry);
        } else if (state == HOST_RECORD_REPLAY) {
            host_record_set_state(record, HOST_RECORD_ACKED);
        }
        if (state == HOST_RECORD_ACKED || state == HOST_RECORD_REPLAY || state == HOST_RECORD_GHOST)
            atomic_store(&record->owner, 0);
    }
    host_stripe_unlock(stripe);
    host_stripe_wake(stripe);
    host_arena_give(garbage.first);
}

static void give_back_records(uint32_t slot)
{
    uint32_t end = atomic_load(&host_map.shared->next_record);
    for (uint32_t i = 1; i < end; i++) {
        struct host_record *record = host_record(i);
        uint32_t state = host_record_state(record);
        if (state == HOST_RECORD_FREE || atomic_load(&record->owner) != slot)
            continue;
        if (state != HOST_RECORD_PRIVATE)
            give_back_linked(i, slot);
        if (host_record_state(record) == HOST_RECORD_PRIVATE &&
            atomic_load(&record->owner) == slot) {
            record->write_next = 0;
            host_arena_give(i);
        }
    }
}

/* Whether the size changed before the process died, or will, is not known in most cases. */
static void give_back_truncations(uint32_t slot)
{
    struct host_garbage garbage = {0};
    for (uint32_t set = 0; set < HOST_SETS; set++) {
        if (!atomic_load(&host_map.shared->set_state[set]))
            continue;
        for (uint32_t i = 0; i < HOST_SET_SIZE; i++) {
            struct host_entry *entry = &host_map.entries[set * HOST_SET_SIZE + i];
            uint32_t stripe = host_stripe_of(host_entry_index(entry));
            if (atomic_load(&entry->truncator) != slot)
                continue;
            host_stripe_lock(stripe);
            if (atomic_load(&entry->truncator) == slot && host_entry_is_appending(entry))
                host_entry_append_end(entry);
            else if (atomic_load(&entry->truncator) == slot)
                host_entry_hold_size(entry, &garbage);
            host_stripe_unlock(stripe);
            host_stripe_wake(stripe);
        }
    }
    host_arena_give(garbage.first);
}

/* Under process_lock. */
static void give_back(uint32_t slot)
{
    struct host_process *process = &host_map.shared->processes[slot];
    host_commits_of_dead(slot);
    host_offsets_of_dead(slot);
    if (atomic_load(&process->wrote))
        give_back_records(slot);
    if (atomic_load(&process->truncations))
        give_back_truncations(slot);
    atomic_store(&process->state, 0);
}

/* After unshare(CLONE_NEWPID) and fork() the numbers in the slots are not those that this process
 * sees, nor can others see its own: it gets no slot, and takes nobody for dead. */
static bool is_foreign(void)
{
    return host_pid_namespace() != atomic_load(&host_map.shared->pid_namespace);
}

static bool alive(const struct host_process *process)
{
    struct host_identity identity = {process->pid, process->starttime, process->image};
    return host_identity_alive(&identity) || is_foreign();
}

void host_process_check(uint32_t slot)
{
    if (slot == 0 || slot >= HOST_PROCESSES)
        return;
    struct host_process *process = &host_map.shared->processes[slot];
    lock_processes();
    if (atomic_load(&process->state) && !alive(process))
        give_back(slot);
    unlock_processes();
}

void host_process_sweep(uint64_t interval_ns)
{
    struct host_shared *shared = host_map.shared;
    uint64_t now = sys_now_ns();
    if (now - atomic_load(&shared->swept_ns) < interval_ns)
        return;
    lock_processes();
    /* Of many that wait for the lock one looks at all processes, for all who came before. */
    bool done = atomic_load(&shared->swept_ns) > now;
    uint64_t began = sys_now_ns();
    for (uint32_t slot = 1; slot < shared->process_count && !done; slot++) {
        struct host_process *process = &shared->processes[slot];
        if (atomic_load(&process->state) && !alive(process))
            give_back(slot);
    }
    if (!done)
        atomic_store(&shared->swept_ns, began); /* last: who dies before has not done it */
    unlock_processes();
    for (uint32_t i = 0; i < HOST_STRIPES; i++) {
        if (atomic_load(&shared->stripes[i].held_check)) {
            host_stripe_lock(i); /* frees ghosts whose time is over */
            host_stripe_unlock(i);
        }
    }
}

void host_process_sweep_all(void)
{
    struct host_shared *shared = host_map.shared;
    lock_processes();
    for (uint32_t slot = 1; slot < shared->process_count; slot++) {
        if (atomic_load(&shared->processes[slot].state))
            give_back(slot);
    }
    unlock_processes();
}

/* Under process_lock. Looks at a few slots each time, so that no dead one stays for long. */
static void check_some(struct host_shared *shared)
{
    for (int i = 0; i < 4 && shared->process_count > 1; i++) {
        if (shared->process_cursor >= shared->process_count)
            shared->process_cursor = 1;
        struct host_process *process = &shared->processes[shared->process_cursor];
        if (atomic_load(&process->state) && !alive(process))
            give_back(shared->process_cursor);
        shared->process_cursor++;
    }
}

static uint32_t find_free(struct host_shared *shared)
{
    for (uint32_t slot = 1; slot < shared->process_count; slot++) {
        if (!atomic_load(&shared->processes[slot].state))
            return slot;
    }
    return shared->process_count < HOST_PROCESSES ? shared->process_count++ : 0;
}

static uint32_t take_slot(const struct host_identity *self)
{
    struct host_shared *shared = host_map.shared;
    if (is_foreign())
        return 0;
    check_some(shared);
    for (uint32_t slot = 1; slot < shared->process_count; slot++) {
        struct host_process *process = &shared->processes[slot];
        /* This process before exec(): its threads and their writes are no more. */
        if (atomic_load(&process->state) && process->pid == self->pid &&
            process->starttime == self->starttime)
            give_back(slot);
    }
    uint32_t slot = find_free(shared);
    if (slot == 0) {
        for (uint32_t i = 1; i < shared->process_count; i++) {
            if (atomic_load(&shared->processes[i].state) && !alive(&shared->processes[i]))
                give_back(i);
        }
        slot = find_free(shared);
    }
    if (slot) {
        struct host_process *process = &shared->processes[slot];
        process->pid = self->pid;
        process->starttime = self->starttime;
        process->image = self->image;
        atomic_store(&process->wrote, 0);
        atomic_store(&process->truncations, 0);
        atomic_store(&process->state, 1);
    }
    return slot;
}

uint32_t host_process_slot(void)
{
    struct host_identity self;
    uint32_t slot = atomic_load_explicit(&own_slot, memory_order_relaxed);
    if (slot || !host_map.shared || host_identity_self(&self) != 0)
        return slot;
    lock_processes();
    slot = atomic_load(&own_slot);
    if (!slot) {
        slot = take_slot(&self);
        atomic_store(&own_slot, slot);
    }
    unlock_processes();
    return slot;
}

uint32_t host_process_slot_taken(void)
{
    return atomic_load_explicit(&own_slot, memory_order_relaxed);
}

uint32_t host_process_exchange(uint32_t slot)
{
    return atomic_exchange(&own_slot, slot);
}

void host_process_leave(void)
{
    uint32_t slot = host_process_exchange(0);
    if (!slot)
        return;
    lock_processes();
    give_back(slot);
    unlock_processes();
}

uint32_t host_process_owner(void)
{
    uint32_t slot = host_process_slot_taken();
    struct host_process *self = &host_map.shared->processes[slot];
    if (slot && !atomic_load_explicit(&self->wrote, memory_order_relaxed))
        atomic_store(&self->wrote, 1);
    return slot;
}

void host_process_after_fork(void)
{
    host_pocket_after_fork();
    host_world_after_fork();
    atomic_store(&own_slot, 0);
}
