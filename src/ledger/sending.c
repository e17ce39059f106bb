/*
 * Dirty data on its way to the server: runs of records.
 */
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/processes.h"
#include "ledger/quiet.h"
#include "sys/test_switch.h"

struct ledger_sending ledger_dirty_now(struct ledger_file *file, size_t most)
{
    struct ledger_sending sending = {.end = UINT64_MAX, .most = most};
    const struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (entry) {
        sending.sequence =
            atomic_load_explicit(&ledger_entry_stripe(entry)->sequence, memory_order_relaxed);
        ledger_entry_unlock(file);
    }
    return sending;
}

/* May it be sent now? UINT32_MAX: yes; else whom it waits for, as ledger_range_in_the_way(). */
static uint32_t in_the_way(struct ledger_entry *entry, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    return ledger_range_in_the_way(entry, ledger_record_start(record), ledger_record_end(record),
                                   record->changed ? 0 : index);
}

/* A DIRTY record that ends, or else begins, at `offset`, and may be sent now; 0: none. */
static uint32_t neighbour(struct ledger_entry *entry, uint64_t offset, bool ends)
{
    uint32_t file = ledger_entry_index(entry);
    if (ends && offset == 0)
        return 0;
    uint32_t i = ledger_bucket(file, ends ? offset - 1 : offset)->first;
    for (; i; i = ledger_record(i)->bucket_next) {
        const struct ledger_record *record = ledger_record(i);
        if (ledger_record_is_dirty(record) && ledger_record_file(record) == file &&
            (ends ? ledger_record_end(record) : ledger_record_start(record)) == offset)
            return in_the_way(entry, i) == UINT32_MAX ? i : 0;
    }
    return 0;
}

static int vectors_of(const struct ledger_record *record)
{
    return ledger_end_chunk(ledger_record_to(record)) -
           ledger_first_chunk(ledger_record_from(record));
}

static void begin(struct ledger_entry *entry, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t length = ledger_record_length(record);
    ledger_record_unchain(&entry->dirty_first, &entry->dirty_last, index);
    atomic_store(&record->owner, ledger_process_owner());
    record->changed = false;
    record->distrusted = 0;
    record->to_disk = LEDGER_NOT_TO_DISK;
    __atomic_store_n(&record->promised, true, __ATOMIC_RELEASE);
    ledger_record_set_state(record, LEDGER_RECORD_IN_FLIGHT);
    entry->sending += length;
}

/* Records that follow one another: `count` of them, in the middle of `at`. */
struct run {
    uint32_t at[2 * LEDGER_WRITE_VECTORS];
    unsigned first, count;
    int vectors;
    uint64_t offset;
    size_t length;
};

static void run_begin(struct run *run, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    run->first = LEDGER_WRITE_VECTORS;
    run->count = 1;
    run->at[run->first] = index;
    run->vectors = vectors_of(record);
    run->offset = ledger_record_start(record);
    run->length = ledger_record_length(record);
}

/* Adds the record before it, or behind it. False: there is none, or it would be too long. */
static bool run_extend(struct run *run, struct ledger_entry *entry, size_t most, bool before)
{
    uint32_t next = neighbour(entry, before ? run->offset : run->offset + run->length, before);
    if (!next || run->length + ledger_record_length(ledger_record(next)) > most ||
        run->vectors + vectors_of(ledger_record(next)) > LEDGER_WRITE_VECTORS)
        return false;
    run->at[before ? --run->first : run->first + run->count] = next;
    run->count++;
    run->vectors += vectors_of(ledger_record(next));
    run->length += ledger_record_length(ledger_record(next));
    if (before)
        run->offset -= ledger_record_length(ledger_record(next));
    return true;
}

/* From now on the run is in flight, from this process. */
static void run_take(const struct run *run, struct ledger_entry *entry, struct ledger_write *write)
{
    *write = (struct ledger_write){.offset = run->offset,
                                   .length = run->length,
                                   .kept = true,
                                   .first_record = run->at[run->first],
                                   .record_count = run->count};
    for (unsigned i = run->count; i-- > 0;) {
        begin(entry, run->at[run->first + i]);
        ledger_record(run->at[run->first + i])->write_next =
            i + 1 < run->count ? run->at[run->first + i + 1] : 0;
    }
}

/* It is sent to the disk at once. */
static void run_goes_to_disk(const struct run *run, struct ledger_entry *entry)
{
    for (unsigned i = 0; i < run->count; i++)
        ledger_record_goes_to_disk(entry, ledger_record(run->at[run->first + i]));
}

static bool wanted(const struct ledger_record *record, const struct ledger_sending *sending)
{
    if (sys_test_unsafe(SYS_TEST_OTHERS) && sending->end == UINT64_MAX &&
        atomic_load(&record->owner) != ledger_process_slot_taken())
        return false;
    return record->since <= sending->sequence && ledger_record_start(record) < sending->end &&
           sending->start < ledger_record_end(record);
}

static bool is_wanted_promise(uint32_t index, uint64_t argument)
{
    return ledger_record_is_promised(ledger_record(index)) &&
           wanted(ledger_record(index), (const struct ledger_sending *)(uintptr_t)argument);
}

static bool is_stopped_promise(uint32_t index, uint64_t argument)
{
    const struct ledger_sending *sending = (const struct ledger_sending *)(uintptr_t)argument;
    return is_wanted_promise(index, argument) &&
           atomic_load(&ledger_record(index)->owner) == sending->stopped;
}

/* What a stopped process has in flight of what is to be sent, as twins. */
static bool take_twins(struct ledger_entry *entry, const struct ledger_sending *sending,
                       struct ledger_write *write)
{
    uint32_t first =
        sending->stopped && entry->sending > 0
            ? ledger_record_find(ledger_entry_index(entry), is_stopped_promise, (uintptr_t)sending)
            : 0;
    return first && ledger_twins_take(entry, first, sending->most, write);
}

/* Looks for a run to be sent. False: there is none now; *owner: whom to wait for; UINT32_MAX:
 * nobody. */
static bool look(struct ledger_entry *entry, const struct ledger_sending *sending, struct run *run,
                 uint32_t *owner)
{
    *owner = UINT32_MAX;
    for (uint32_t i = entry->dirty_first; i; i = ledger_record(i)->file_next) {
        if (!wanted(ledger_record(i), sending))
            continue;
        uint32_t other = in_the_way(entry, i);
        if (other != UINT32_MAX) {
            *owner = other;
            continue;
        }
        run_begin(run, i);
        while (run_extend(run, entry, sending->most, true))
            ;
        while (run_extend(run, entry, sending->most, false))
            ;
        if (run->length >= sending->least)
            return true;
    }
    if (*owner == UINT32_MAX && entry->sending > 0) {
        uint32_t sent =
            ledger_record_find(ledger_entry_index(entry), is_wanted_promise, (uintptr_t)sending);
        if (sent)
            *owner = atomic_load(&ledger_record(sent)->owner);
    }
    return false;
}

int ledger_dirty_take(struct ledger_file *file, struct ledger_sending *sending, bool wait,
                      struct ledger_write *write)
{
    uint32_t self = ledger_process_slot(), owner;
    struct run run;
    sending->all = false;
    for (;;) {
        struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
        if (!entry)
            return 0;
        if (!atomic_load_explicit(&entry->dirty, memory_order_relaxed)) {
            ledger_entry_unlock(file);
            return 0;
        }
        bool found = look(entry, sending, &run, &owner);
        if (found && !self) {
            ledger_entry_unlock(file);
            return -ENOSPC;
        }
        if (found) {
            run_take(&run, entry, write);
            if (sending->quiet)
                ledger_quiet_look(entry, write->offset, write->offset + write->length,
                                  sending->quiet);
            sending->all =
                atomic_load_explicit(&entry->dirty, memory_order_relaxed) == write->length &&
                !entry->first;
            if (sending->syncs && sending->all)
                run_goes_to_disk(&run, entry);
            ledger_entry_count_change(entry);
            ledger_entry_unlock(file);
            return 1;
        }
        if (take_twins(entry, sending, write)) {
            ledger_entry_unlock(file);
            return 1;
        }
        if (owner != UINT32_MAX && wait)
            ledger_stripe_wait(ledger_stripe_of(ledger_entry_index(entry)), owner);
        ledger_entry_unlock(file);
        if (owner == UINT32_MAX)
            return 0;
        if (!wait) {
            ledger_process_sweep(LEDGER_SWEEP_NS);
            return -EAGAIN;
        }
        sending->stopped = ledger_process_is_stopped(owner) ? owner : 0;
    }
}
