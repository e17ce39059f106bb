/*
 * What a process left in the registry when it died, or gave its slot back.
 */
#include "ledger/dead.h"

#include "ledger/commits.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/offset.h"
#include "ledger/store/pocket.h"
#include "ledger/orphans.h"
#include "sys/test_switch.h"

enum { LOOKS_MAX = 4 };

/* The flag that its file gets for a record of a dead process; 0: none, nothing of it is owed. */
static uint32_t orphan_flag(const struct ledger_record *record)
{
    uint32_t state = ledger_record_state(record);
    if (state == LEDGER_RECORD_DIRTY || (state == LEDGER_RECORD_IN_FLIGHT && record->promised))
        return LEDGER_ENTRY_ORPHANED;
    return state == LEDGER_RECORD_ACKED || state == LEDGER_RECORD_REPLAY
               ? LEDGER_ENTRY_ORPHANED_SENT
               : 0;
}

/* Call this before a record of a dead process loses its owner: notes whether an agent has it in its
 * care. */
static void orphan(struct ledger_entry *entry, const struct ledger_record *record, uint32_t slot)
{
    uint32_t flag = orphan_flag(record);
    if (flag)
        ledger_entry_orphan(entry, slot, flag);
}

/* Did the dead process send the record for another one, which lives, or which is dead and was
 * noted? */
static bool is_of_others(const struct ledger_entry *entry, const struct ledger_record *record)
{
    uint32_t writer = atomic_load(&record->writer), flag = orphan_flag(record);
    return writer && (writer < LEDGER_PROCESSES || (atomic_load(&entry->flags) & flag) == flag);
}

/* What the dead process had sent of the record may still be on its way to the server. */
static void end_sending(struct ledger_entry *entry, uint32_t index, struct ledger_garbage *garbage)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t state = ledger_record_state(record);
    if (state != LEDGER_RECORD_IN_FLIGHT && state != LEDGER_RECORD_REPLAY)
        return;
    ledger_record_hold(index);
    ledger_entry_untold(entry);
    if (record->to_disk) /* its answer may have told an error: see commits.c */
        ledger_records_distrust(ledger_entry_index(entry));
    if (state == LEDGER_RECORD_REPLAY) {
        ledger_record_set_state(record, LEDGER_RECORD_ACKED);
        return;
    }
    if (record->promised) {
        ledger_dirty_return(entry, index, garbage);
    } else {
        /* Only the server knows whether it made the file longer. */
        if (ledger_record_end(record) > atomic_load(&entry->size))
            ledger_entry_forget_size(entry);
        ledger_record_drop(entry, index, garbage);
    }
    ledger_entry_count_change(entry);
}

/* Gives back a record of a dead process that is linked. */
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
    if (others) /* it has newer bytes by now, which the dead process wrote */
        orphan(entry, record, slot);
    atomic_store(&record->owner, 0);
}

/* Gives back a record that is linked, or was when the caller looked. */
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

/* Is the record the process's, or will it be? It may be lent or returned at the same time. Then the
 * slot is stored in the new place before it leaves the old one. */
static bool concerns(const struct ledger_record *record, uint32_t slot)
{
    if (atomic_load(&record->owner) == slot)
        return true;
    return ledger_record_state(record) != LEDGER_RECORD_PRIVATE &&
           (atomic_load(&record->writer) == slot || atomic_load(&record->owner) == slot);
}

/* Gives back all records that are found. Were there any? */
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

/* Other processes that send what it wrote may have split a record meanwhile. That is rare: one look
 * is enough mostly. */
static void give_back_records(uint32_t slot)
{
    for (int i = 0; i < LOOKS_MAX && give_back_some(slot); i++)
        ;
}

/* Ends its turns and its changes of size. Mostly it is not known whether the size changed, or still
 * will. */
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

void ledger_dead_give_back(uint32_t slot)
{
    const struct ledger_process *process = &ledger_map.shared->processes[slot];
    ledger_commits_of_dead(slot);
    ledger_offsets_of_dead(slot);
    if (atomic_load(&process->wrote))
        give_back_records(slot);
    if (atomic_load(&process->truncations))
        give_back_truncations(slot);
}
