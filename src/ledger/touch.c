#include "ledger/touch.h"

#include "ledger/processes.h"
#include "ledger/records.h"
#include "sys/sys.h"

/* A bit for each chunk: it was touched. NULL: nothing is known. Made again only where this process
 * has one thread. */
static _Atomic uint64_t *touched;
static size_t touched_size;

static _Atomic bool forbidden; /* sandboxes that forbid the call exist */

void ledger_touch_begin(uint32_t chunks)
{
    if (touched)
        sys_munmap(touched, touched_size);
    touched_size = (chunks / 64 + 1) * sizeof(*touched);
    touched =
        sys_mmap(NULL, touched_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_mmap_failed(touched))
        touched = NULL;
}

/* True: it was not yet. */
static bool touch(uint32_t chunk)
{
    _Atomic uint64_t *word = &touched[chunk / 64];
    uint64_t bit = UINT64_C(1) << chunk % 64;
    return !(atomic_load_explicit(word, memory_order_relaxed) & bit) &&
           !(atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit);
}

/* Has it a chunk that is new? From now on none is. */
static bool has_new(const struct ledger_write *write)
{
    bool new = false;
    uint32_t index = write->first_record;
    for (uint32_t i = 0; i < write->record_count; i++) {
        const struct ledger_record *record = ledger_record(index);
        for (int k = 0; k < ledger_end_chunk(ledger_record_to(record)); k++)
            new = touch(record->chunk[k]) || new;
        index = record->write_next;
    }
    return new;
}

bool ledger_touch_copy(const struct ledger_write *write, const struct iovec *data, int count)
{
    struct iovec chunks[LEDGER_WRITE_VECTORS];
    uint32_t slot = ledger_process_slot_taken();
    if (!touched || !slot || atomic_load_explicit(&forbidden, memory_order_relaxed) ||
        !has_new(write))
        return false;
    int vectors = ledger_write_data(write, 0, write->length, chunks);
    long copied = sys_call6(SYS_process_vm_writev, ledger_map.shared->processes[slot].pid,
                            (long)data, count, (long)chunks, vectors, 0);
    if (copied < 0 && copied != -EFAULT)
        atomic_store(&forbidden, true);
    return copied == (long)write->length;
}
