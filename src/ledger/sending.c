/*
 * Dirty data on its way to the server: runs of records that leave as one WRITE.
 */
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "ledger/stamp.h"
#include "ledger/orphans.h"
#include "ledger/proof.h"
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

/* May the record be sent now? UINT32_MAX: yes. Else what it waits for, as
 * ledger_range_in_the_way(). */
static uint32_t in_the_way(struct ledger_entry *entry, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    return ledger_range_in_the_way(entry, ledger_record_start(record), ledger_record_end(record),
                                   record->changed ? 0 : index);
}

/* Is the record to be sent? Strays are sent apart, if they are proven, and never with other data.
 */
static bool is_of(const struct ledger_sending *sending, const struct ledger_entry *entry,
                  const struct ledger_record *record)
{
    bool stray = atomic_load_explicit(&record->owner, memory_order_relaxed) == 0 &&
                 ledger_entry_has_strays(entry);
    return sending->strays ? stray && ledger_proof_is_of(entry, record) : !stray;
}

/* Is it a DIRTY record of the file that ends (`ends`) or begins at `offset`? */
static bool touches(uint32_t index, uint32_t file, uint64_t offset, bool ends)
{
    const struct ledger_record *record = ledger_record(index);
    return ledger_record_file(record) == file && ledger_record_is_dirty(record) &&
           (ends ? ledger_record_end(record) : ledger_record_start(record)) == offset;
}

/* The DIRTY record that ends (`ends`) or begins at `offset`, if it may be sent now; 0: none. It
 * mostly stands beside `edge`, the record on the other side of `offset`. */
static uint32_t neighbour(struct ledger_entry *entry, const struct ledger_sending *sending,
                          uint32_t edge, uint64_t offset, bool ends)
{
    uint32_t file = ledger_entry_index(entry), i = ledger_bucket_beside(edge, ends);
    if (!i || !touches(i, file, offset, ends)) {
        uint64_t at = ends ? offset - 1 : offset;
        if (ends && offset == 0)
            return 0;
        i = ledger_span_first(file, at, at + 1);
        while (i && !touches(i, file, offset, ends))
            i = ledger_span_next(i, at, at + 1);
    }
    bool may = i && is_of(sending, entry, ledger_record(i)) && in_the_way(entry, i) == UINT32_MAX;
    return may ? i : 0;
}

static void begin(struct ledger_entry *entry, uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    uint32_t length = ledger_record_length(record);
    ledger_record_unchain(&entry->dirty_first, &entry->dirty_last, index);
    ledger_record_lend(record, ledger_process_owner());
    record->changed = false;
    record->distrusted = 0;
    record->to_disk = LEDGER_NOT_TO_DISK;
    __atomic_store_n(&record->promised, true, __ATOMIC_RELEASE);
    ledger_record_set_state(record, LEDGER_RECORD_IN_FLIGHT);
    ledger_sent_list(entry, index);
    entry->sending += length;
}

/* A run: `count` records that follow one another, in the middle of `at`. */
struct run {
    uint32_t at[2 * LEDGER_WRITE_VECTORS];
    unsigned first, count;
    int vectors;
    bool full; /* there is a further record, for which the run has no room */
    uint64_t offset;
    size_t length;
};

static void run_begin(struct run *run, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    run->first = LEDGER_WRITE_VECTORS;
    run->count = 1;
    run->full = false;
    run->at[run->first] = index;
    run->vectors = ledger_record_vectors(record);
    run->offset = ledger_record_start(record);
    run->length = ledger_record_length(record);
}

/*
 * Cuts a DIRTY record that is longer than `room` in two, between chunks: what one WRITE has no room
 * for leaves with the next. Returns the part that fits, at the end of the record (`end`) or at its
 * beginning. If the record cannot be cut, returns the record itself.
 */
static uint32_t cut(struct ledger_entry *entry, uint32_t index, size_t room, bool end)
{
    const struct ledger_record *record = ledger_record(index);
    uint32_t from = ledger_record_from(record), to = ledger_record_to(record);
    if (to - from <= room || record->held_until || record->twins || record->changed)
        return index;
    uint32_t at = end ? to - (uint32_t)room + LEDGER_CHUNK - 1 : from + (uint32_t)room;
    at -= at % LEDGER_CHUNK;
    if (at <= from || at >= to)
        return index;
    uint32_t second = ledger_dirty_split(entry, index, record->base + at);
    return end && second ? second : index;
}

/* Adds the record before the run, or behind it. False: there is none, or the run would be too long.
 */
static bool run_extend(struct run *run, struct ledger_entry *entry,
                       const struct ledger_sending *sending, bool before)
{
    size_t most = sending->most;
    uint32_t edge = run->at[before ? run->first : run->first + run->count - 1];
    uint32_t next =
        neighbour(entry, sending, edge, before ? run->offset : run->offset + run->length, before);
    if (next && run->length < most && !sending->strays)
        next = cut(entry, next, most - run->length, before);
    run->full =
        next && (run->length + ledger_record_length(ledger_record(next)) > most ||
                 run->vectors + ledger_record_vectors(ledger_record(next)) > LEDGER_WRITE_VECTORS);
    if (!next || run->full)
        return false;
    run->at[before ? --run->first : run->first + run->count] = next;
    run->count++;
    run->vectors += ledger_record_vectors(ledger_record(next));
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

/* The run is sent to the disk at once. */
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

/* Takes, as twins, what a stopped process has in flight of the data that is to be sent. */
static bool take_twins(struct ledger_entry *entry, const struct ledger_sending *sending,
                       struct ledger_write *write)
{
    uint32_t first = sending->stopped && entry->sending > 0
                         ? ledger_record_find_sent(ledger_entry_index(entry), is_stopped_promise,
                                                   (uintptr_t)sending)
                         : 0;
    return first && ledger_twins_take(entry, first, sending->most, write);
}

enum { SHORT_RUNS = 8 };

/* The last runs that were too short: their records need no second look. */
struct short_runs {
    unsigned count;
    struct {
        uint64_t start, end;
    } runs[SHORT_RUNS];
};

static void short_add(struct short_runs *known, const struct run *run)
{
    known->runs[known->count % SHORT_RUNS].start = run->offset;
    known->runs[known->count++ % SHORT_RUNS].end = run->offset + run->length;
}

static bool short_has(const struct short_runs *known, const struct ledger_record *record)
{
    uint64_t start = ledger_record_start(record);
    for (unsigned i = 0; i < SHORT_RUNS && i < known->count; i++) {
        if (start >= known->runs[i].start && start < known->runs[i].end)
            return true;
    }
    return false;
}

/* A DIRTY record behind `index`, or the first one, if that is 0; 0: there is none. All that is to
 * be sent is found so: if that is few bytes, by their places, as the list may be long. */
static uint32_t candidate(const struct ledger_entry *entry, const struct ledger_sending *sending,
                          uint32_t index)
{
    if (sending->end - sending->start > LEDGER_WRITE_MAX)
        return index ? ledger_record(index)->file_next : entry->dirty_first;
    uint64_t at = index ? ledger_record(index)->base : sending->start;
    while (at < sending->end) {
        uint64_t unit_end = ((at >> LEDGER_UNIT_SHIFT) + 1) << LEDGER_UNIT_SHIFT;
        uint64_t from =
            unit_end - LEDGER_UNIT > sending->start ? unit_end - LEDGER_UNIT : sending->start;
        uint64_t to = unit_end < sending->end ? unit_end : sending->end;
        index = index ? ledger_span_next(index, from, to)
                      : ledger_span_first(ledger_entry_index(entry), from, to);
        while (index && !ledger_record_is_dirty(ledger_record(index)))
            index = ledger_span_next(index, from, to);
        if (index)
            return index;
        at = unit_end;
    }
    return 0;
}

/* Looks for a run to be sent. False: there is none now. *owner: the process to wait for;
 * UINT32_MAX: none. */
static bool look(struct ledger_entry *entry, const struct ledger_sending *sending, struct run *run,
                 uint32_t *owner)
{
    struct short_runs known = {0};
    *owner = UINT32_MAX;
    for (uint32_t i = 0; (i = candidate(entry, sending, i));) {
        const struct ledger_record *record = ledger_record(i);
        if (!wanted(record, sending) || !is_of(sending, entry, record) || short_has(&known, record))
            continue;
        uint32_t other = in_the_way(entry, i);
        if (other != UINT32_MAX) {
            *owner = *owner == UINT32_MAX ? other : *owner;
            continue;
        }
        if (!sending->strays)
            (void)cut(entry, i, sending->most > LEDGER_CHUNK ? sending->most : LEDGER_CHUNK, false);
        run_begin(run, i);
        while (run_extend(run, entry, sending, true))
            ;
        while (!run->full && run_extend(run, entry, sending, false))
            ;
        if (run->full || run->length >= sending->least)
            return true;
        short_add(&known, run);
    }
    if (*owner == UINT32_MAX && entry->sending > 0 && !sending->strays) {
        uint32_t sent = ledger_record_find_sent(ledger_entry_index(entry), is_wanted_promise,
                                                (uintptr_t)sending);
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
            if (sending->stamp) {
                ledger_cache_watch(entry);
                ledger_stamp_look(entry, write->offset, write->offset + write->length,
                                  sending->stamp);
            }
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
