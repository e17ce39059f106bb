/* Data of a file is written to a file of the run directory, which keeps it. */
#include <errno.h>
#include <string.h>

#include "ledger/cache.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/orphans.h"
#include "ledger/store/pocket.h"
#include "ledger/strays.h"
#include "ledger/uncommitted.h"
#include "run/directory.h"
#include "run/strays.h"
#include "sys/alloc.h"

enum { ROUNDS = 4 };

int ledger_file_copy_strays(struct ledger_file *file, uint64_t mark, bool sent,
                            struct run_stray_file *to)
{
    struct ledger_stray stray;
    uint64_t from = 0;
    uint8_t *bytes = sys_alloc(LEDGER_STRAY_MAX);
    int result = bytes ? 0 : -ENOMEM;
    while (!result && (stray = ledger_file_stray(file, mark, sent, from, bytes)).length > 0) {
        result = run_stray_piece(to, stray.offset, bytes, stray.length);
        from = stray.offset + stray.length;
    }
    sys_free(bytes);
    return result;
}

/* ---- all that is not committed ---- */

static void mark_list(uint32_t first, uint32_t state, uint64_t mark, bool *any)
{
    for (uint32_t i = first; i; i = ledger_record(i)->file_next) {
        if (ledger_record_state(ledger_record(i)) != state)
            continue;
        ledger_record(i)->aside = mark;
        *any = true;
    }
}

/* Marks what is dirty; what is acknowledged gets the number behind. So a record that changes from
 * one to the other meanwhile has no mark. 0: there is nothing. */
static uint64_t mark_all(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    bool any = false;
    if (!entry)
        return 0;
    uint64_t mark = ledger_stray_mark(entry);
    mark_list(entry->dirty_first, LEDGER_RECORD_DIRTY, mark, &any);
    mark_list(entry->first, LEDGER_RECORD_ACKED, mark + 1, &any);
    ledger_entry_unlock(file);
    return any ? mark : 0;
}

static uint64_t drop_list(struct ledger_entry *entry, uint32_t first, uint32_t state, uint64_t mark,
                          struct ledger_garbage *garbage)
{
    uint64_t bytes = 0;
    for (uint32_t i = first, next; i; i = next) {
        const struct ledger_record *record = ledger_record(i);
        next = record->file_next;
        if (record->aside != mark || ledger_record_state(record) != state)
            continue;
        bytes += ledger_record_length(record);
        ledger_record_drop(entry, i, garbage);
    }
    return bytes;
}

/* Drops what still has its mark, and tells the loss. Returns the bytes. */
static uint64_t drop_all(struct ledger_file *file, uint64_t mark)
{
    struct ledger_garbage garbage = {0};
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return 0;
    uint64_t dirty = drop_list(entry, entry->dirty_first, LEDGER_RECORD_DIRTY, mark, &garbage);
    uint64_t acked = drop_list(entry, entry->first, LEDGER_RECORD_ACKED, mark + 1, &garbage);
    if (acked > 0)
        atomic_fetch_add_explicit(&entry->cuts, 1, memory_order_release);
    if (dirty > 0)
        ledger_dirty_lost(entry);
    if (dirty + acked > 0) {
        ledger_entry_outdate(entry);
        ledger_cache_drop(entry);
        ledger_entry_missed(entry, file);
    }
    ledger_entry_unlock(file);
    ledger_stripe_wake(ledger_stripe_of_file(file));
    ledger_arena_give(garbage.first);
    return dirty + acked;
}

/* What is acknowledged comes first: dirty bytes are newer. 0 or -errno. */
static int save(struct ledger_file *file, uint64_t mark, const struct run_stray *stray,
                struct run_stray_file *to)
{
    int result = run_stray_begin(to, stray);
    if (!result)
        result = ledger_file_copy_strays(file, mark + 1, true, to);
    if (!result)
        result = ledger_file_copy_strays(file, mark, false, to);
    int ended = run_stray_end(to, !result);
    return result ? result : ended;
}

/* Another process saw to the same data meanwhile. */
static void remove_again(const struct run_stray_file *saved)
{
    int run = run_open();
    if (run >= 0)
        run_stray_remove(run, saved->name);
    run_close(run);
}

int ledger_file_set_aside(struct ledger_file *file, const struct run_stray *stray,
                          struct ledger_aside *aside)
{
    uint64_t mark;
    *aside = (struct ledger_aside){.bytes = 0};
    /* What other processes write meanwhile goes into another file. */
    for (int i = 0; i < ROUNDS && (mark = mark_all(file)) != 0; i++) {
        struct run_stray_file saved;
        int result = save(file, mark, stray, &saved);
        if (result != 0)
            return result;
        uint64_t dropped = drop_all(file, mark);
        if (dropped == 0)
            remove_again(&saved);
        else
            memcpy(aside->name, saved.name, sizeof(aside->name));
        aside->bytes += dropped;
    }
    return 0;
}
