#include "ledger/store/touch.h"

#include <sys/mman.h>

#include "ledger/store/record.h"
#include "sys/sys.h"

enum { GROUP = 8 }; /* chunks that are mapped together */

/* A bit for each group: it was touched. NULL: nothing is known. It is made again only while this
 * process has one thread. */
static _Atomic uint64_t *touched;
static size_t touched_size;
static uint32_t chunk_count;

static _Atomic bool unknown; /* madvise() failed: Linux before 5.14 has no MADV_POPULATE_WRITE */

void ledger_touch_begin(uint32_t chunks)
{
    if (touched)
        sys_munmap(touched, touched_size);
    chunk_count = chunks;
    touched_size = (chunks / GROUP / 64 + 1) * sizeof(*touched);
    touched =
        sys_mmap(NULL, touched_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_mmap_failed(touched))
        touched = NULL;
}

static bool is_new(uint32_t group)
{
    _Atomic uint64_t *word = &touched[group / 64];
    uint64_t bit = UINT64_C(1) << group % 64;
    return !(atomic_load_explicit(word, memory_order_relaxed) & bit) &&
           !(atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit);
}

/* Maps only chunks that have memory in the file. For others memory would be taken, which may not be
 * there. */
static void map_group(uint32_t group)
{
    uint32_t first = group * GROUP, end = first + GROUP;
    uint32_t backed = atomic_load_explicit(&ledger_map.shared->backed_chunks, memory_order_relaxed);
    if (end > backed)
        end = backed;
    if (first < end && sys_call3(SYS_madvise, ledger_map.chunks + (uint64_t)first * LEDGER_CHUNK,
                                 (size_t)(end - first) * LEDGER_CHUNK, MADV_POPULATE_WRITE) != 0)
        atomic_store(&unknown, true);
}

void ledger_touch(uint32_t first_record, uint32_t count)
{
    uint32_t index = first_record;
    if (!touched || atomic_load_explicit(&unknown, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct ledger_record *record = ledger_record(index);
        for (int k = 0; k < ledger_end_chunk(ledger_record_to(record)); k++) {
            uint32_t chunk = record->chunk[k];
            if (chunk < chunk_count && is_new(chunk / GROUP))
                map_group(chunk / GROUP);
        }
        index = record->write_next;
    }
}
