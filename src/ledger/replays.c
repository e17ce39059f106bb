/*
 * The end of a COMMIT: what it vouches for is dropped; what it does not vouch for is written again.
 */
#include "ledger/store/pocket.h"
#include "ledger/commits.h"
#include "ledger/entries.h"
#include "ledger/orphans.h"
#include "ledger/store/processes.h"
#include "ledger/strays.h"
#include "ledger/uncommitted.h"
#include "sys/test_switch.h"

enum { DROPS_AT_ONCE = 16 };

/* Does a COMMIT that returned `verifier` vouch for the record? */
static bool vouched(const struct ledger_record *record, uint64_t verifier)
{
    return (!record->distrusted || sys_test_unsafe(SYS_TEST_DISTRUST)) &&
           (record->verifier == verifier || sys_test_unsafe(SYS_TEST_VERIFIER));
}

/* Drops a number of records that the COMMIT vouches for. True if there may be more. */
static bool commit_some(struct ledger_file *file, const struct ledger_commit *commit,
                        uint64_t *differing)
{
    struct ledger_garbage garbage = {0};
    int dropped = 0;
    uint64_t bytes = 0;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    uint32_t next = entry->first;
    while (next && dropped < DROPS_AT_ONCE) {
        struct ledger_record *record = ledger_record(next);
        uint32_t index = next;
        if (record->sequence > commit->sequence)
            break;
        next = record->file_next;
        if (!vouched(record, commit->verifier)) {
            bytes += ledger_record_to(record) - ledger_record_from(record);
        } else if (ledger_record_state(record) == LEDGER_RECORD_ACKED) {
            ledger_record_drop(entry, index, &garbage);
            dropped++;
        }
    }
    bool more = dropped == DROPS_AT_ONCE;
    if (!more) {
        *differing = bytes;
        ledger_entry_verifiers(entry);
    }
    ledger_entry_unlock(file);
    ledger_arena_give(garbage.first);
    return more;
}

uint64_t ledger_commit_end(struct ledger_file *file, struct ledger_commit *commit,
                           uint64_t verifier)
{
    uint64_t differing = 0;
    commit->verifier = verifier;
    ledger_commit_answered(file, commit);
    while (commit_some(file, commit, &differing))
        ;
    commit->again = differing == 0 && (ledger_file_replays(file) != commit->replays ||
                                       ledger_file_verifier_differs(file, verifier));
    ledger_commit_over(file, commit, differing == 0 && !commit->again);
    return differing;
}

uint64_t ledger_file_mark_lost(struct ledger_file *file, const struct ledger_commit *commit)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return 0;
    uint64_t mark = ledger_stray_mark(entry);
    bool any = false;
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        struct ledger_record *record = ledger_record(i);
        if (record->sequence > commit->sequence)
            break;
        if (ledger_record_state(record) != LEDGER_RECORD_ACKED || vouched(record, commit->verifier))
            continue;
        record->aside = mark;
        any = true;
    }
    ledger_entry_unlock(file);
    return any ? mark : 0;
}

/* The first record that this commit must still write again; 0: none. */
static uint32_t next_to_replay(const struct ledger_entry *entry, const struct ledger_commit *commit)
{
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        const struct ledger_record *record = ledger_record(i);
        if (record->sequence > commit->sequence)
            return 0;
        bool tried = record->sequence < commit->tried ||
                     (record->sequence == commit->tried &&
                      ledger_record_start(record) <= commit->tried_offset);
        if (!vouched(record, commit->verifier) && !tried)
            return i;
    }
    return 0;
}

/* This process writes the record again. */
static void begin_replay(struct ledger_entry *entry, uint32_t index, struct ledger_commit *commit)
{
    struct ledger_record *record = ledger_record(index);
    ledger_record_lend(record, ledger_process_owner());
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_REPLAYED);
    if (record->distrusted) /* what is said from now on concerns the new copy, too */
        record->distrusted = LEDGER_DISTRUSTED_BEFORE;
    ledger_record_set_state(record, LEDGER_RECORD_REPLAY);
    record->write_next = 0;
    record->aside = 0; /* it is not lost any more */
    record->to_disk = LEDGER_NOT_TO_DISK;
    if (commit->to_disk)
        ledger_record_goes_to_disk(entry, record);
    commit->tried = record->sequence;
    commit->tried_offset = ledger_record_start(record);
}

/* Adds records that follow both in the list and in the file, as far as one WRITE reaches. */
static void extend_replay(struct ledger_entry *entry, struct ledger_commit *commit,
                          struct ledger_write *write)
{
    uint32_t last = write->first_record, next;
    int vectors = ledger_record_vectors(ledger_record(last));
    while ((next = ledger_record(last)->file_next)) {
        struct ledger_record *record = ledger_record(next);
        uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
        vectors += ledger_record_vectors(record);
        if (start != write->offset + write->length || end - write->offset > commit->most ||
            record->sequence > commit->sequence || vouched(record, commit->verifier) ||
            vectors > LEDGER_WRITE_VECTORS ||
            ledger_range_in_the_way(entry, start, end, next) != UINT32_MAX)
            return;
        begin_replay(entry, next, commit);
        ledger_record(last)->write_next = next;
        write->length += end - start;
        write->record_count++;
        last = next;
    }
}

int ledger_replay_next(struct ledger_file *file, struct ledger_commit *commit, bool wait,
                       struct ledger_write *write)
{
    uint32_t self = ledger_process_slot(), index;
    for (;;) {
        struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
        if (!entry)
            return 0;
        index = next_to_replay(entry, commit);
        if (!index || !self) {
            ledger_entry_unlock(file);
            return index ? -ENOSPC : 0;
        }
        struct ledger_record *record = ledger_record(index);
        uint64_t start = ledger_record_start(record), end = ledger_record_end(record);
        uint32_t owner = ledger_range_in_the_way(entry, start, end, index);
        if (owner == UINT32_MAX) {
            begin_replay(entry, index, commit);
            *write = (struct ledger_write){.offset = start,
                                           .length = end - start,
                                           .kept = true,
                                           .first_record = index,
                                           .record_count = 1};
            extend_replay(entry, commit, write);
            ledger_entry_unlock(file);
            return 1;
        }
        if (wait)
            ledger_stripe_wait(ledger_stripe_of(ledger_entry_index(entry)), owner);
        ledger_entry_unlock(file);
        if (!wait) {
            ledger_process_sweep(LEDGER_SWEEP_NS); /* a dead process may be in the way */
            return -EAGAIN;
        }
    }
}
