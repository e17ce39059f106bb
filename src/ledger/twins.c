/*
 * Twins: data in flight of a process that is stopped (SIGSTOP, a debugger). Nobody knows whether
 * the server has its WRITE. It may get it when the process goes on, in a second or in a day. A
 * process that flushes does not wait for that. It sends the same bytes itself, as a twin of the
 * record, with the same chunks and the same sequence. From then on the twin is promised. The
 * outcome of the old record does not matter: its WRITE has the same bytes, late or not.
 *
 * The old record stays in flight. Newer bytes in the same place are not sent before it is over, as
 * the late WRITE would undo them. Only they wait for the stopped process.
 */
#include "ledger/store/arena.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"

/* A record of the file that is promised, belongs to that process, and begins at `offset`; 0: none.
 */
static uint32_t next_of(const struct ledger_entry *entry, uint32_t owner, uint64_t offset)
{
    uint32_t i = ledger_span_first(ledger_entry_index(entry), offset, offset + 1);
    for (; i; i = ledger_span_next(i, offset, offset + 1)) {
        const struct ledger_record *record = ledger_record(i);
        if (ledger_record_is_promised(record) && atomic_load(&record->owner) == owner &&
            ledger_record_start(record) == offset)
            return i;
    }
    return 0;
}

/* In this order: a process that dies here leaves two promised records, or the twin alone. 0: no
 * room. */
static uint32_t make_twin(struct ledger_entry *entry, uint32_t old, uint32_t self)
{
    struct ledger_record *record = ledger_record(old);
    uint32_t index =
        ledger_arena_share(old, ledger_record_from(record), ledger_record_to(record), 0, self);
    if (!index)
        return 0;
    struct ledger_record *twin = ledger_record(index);
    uint32_t writer = atomic_load_explicit(&record->writer, memory_order_relaxed);
    if (!writer)
        writer = atomic_load_explicit(&record->owner, memory_order_relaxed);
    atomic_store_explicit(&twin->writer, (uint16_t)writer, memory_order_release);
    twin->twins = LEDGER_TWIN_NEW;
    record->twins |= LEDGER_TWIN_OLD;
    twin->to_disk = LEDGER_NOT_TO_DISK;
    if (record->to_disk) /* no COMMIT waits for a stopped process */
        record->to_disk = LEDGER_TO_DISK_GIVEN_UP;
    ledger_record_link(index);
    ledger_sent_list(entry, index);
    __atomic_store_n(&twin->promised, true, __ATOMIC_RELEASE);
    ledger_record_set_state(twin, LEDGER_RECORD_IN_FLIGHT);
    __atomic_store_n(&record->promised, false, __ATOMIC_RELEASE);
    return index;
}

bool ledger_twins_take(struct ledger_entry *entry, uint32_t first, size_t most,
                       struct ledger_write *write)
{
    uint32_t self = ledger_process_owner(), old = first, last = 0;
    uint32_t owner = atomic_load(&ledger_record(first)->owner);
    int vectors = 0;
    *write =
        (struct ledger_write){.offset = ledger_record_start(ledger_record(first)), .kept = true};
    while (self && old) {
        const struct ledger_record *record = ledger_record(old);
        uint32_t length = ledger_record_length(record);
        vectors += ledger_record_vectors(record);
        if (last && (write->length + length > most || vectors > LEDGER_WRITE_VECTORS))
            break;
        uint32_t twin = make_twin(entry, old, self);
        if (!twin)
            break;
        *(last ? &ledger_record(last)->write_next : &write->first_record) = twin;
        write->record_count++;
        write->length += length;
        last = twin;
        old = next_of(entry, owner, write->offset + write->length);
    }
    return write->record_count > 0;
}
