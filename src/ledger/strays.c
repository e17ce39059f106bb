#include "ledger/strays.h"

#include <string.h>

#include "ledger/agent.h"
#include "ledger/attributes.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/orphans.h"
#include "ledger/proof.h"
#include "ledger/store/pocket.h"
#include "ledger/uncommitted.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

bool ledger_file_has_strays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (!entry || !atomic_load_explicit(&entry->dirty, memory_order_acquire))
        return false;
    if (!ledger_entry_has_strays(entry) && ledger_agent_number() == 0)
        ledger_process_sweep(0); /* a process may be dead, and none has noticed */
    return ledger_entry_has_strays(entry);
}

bool ledger_file_has_sent_strays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    bool found = entry && ledger_entry_has_sent_orphans(entry) &&
                 !ledger_entry_sent_is_cared_for(entry) && !sys_test_unsafe(SYS_TEST_STRAY_PROOF);
    if (entry)
        ledger_entry_unlock(file);
    return found;
}

/* ---- is it proven? ---- */

/* For what was sent: is the file at the server neither newer nor longer than this host made it? It
 * may be older, as the server lost something, and have another ctime, as it recovered. */
static bool is_as_sent(const struct ledger_entry *entry, const struct ledger_attributes *now)
{
    return !(atomic_load(&entry->flags) & LEDGER_ENTRY_UNPROVEN) &&
           ledger_nanoseconds(&now->mtime) <= entry->proof.mtime &&
           now->size <= atomic_load(&entry->size);
}

/* Is something of this host in the way that has other bytes than the record, or may be? */
static bool is_in_the_way(struct ledger_entry *entry, uint32_t index)
{
    const struct ledger_record *record = ledger_record(index);
    return ledger_range_in_the_way(entry, ledger_record_start(record), ledger_record_end(record),
                                   record->changed ? 0 : index) != UINT32_MAX;
}

/* Could a stray not be sent at once? */
static bool is_blocked(struct ledger_entry *entry)
{
    for (uint32_t i = entry->dirty_first; i; i = ledger_record(i)->file_next) {
        if (ledger_record_is_orphan(ledger_record(i)) &&
            ledger_proof_is_of(entry, ledger_record(i)) && is_in_the_way(entry, i))
            return true;
    }
    return false;
}

static enum ledger_stray_proof prove_unsent(struct ledger_entry *entry, bool same_epoch,
                                            const struct ledger_attributes *now)
{
    if (entry->proof.ctime == LEDGER_NO_TIME)
        return LEDGER_STRAY_NOT_PROVEN;
    if (entry->proof.ctime == ledger_nanoseconds(&now->ctime))
        return is_blocked(entry) ? LEDGER_STRAY_ASK : LEDGER_STRAY_PROVEN;
    bool explained =
        same_epoch && !ledger_entry_truncator(entry) && !ledger_record_in_flight(entry);
    return explained ? LEDGER_STRAY_NOT_PROVEN : LEDGER_STRAY_ASK;
}

static enum ledger_stray_proof prove_sent(struct ledger_entry *entry, bool same_epoch,
                                          const struct ledger_attributes *now)
{
    if (!same_epoch || ledger_entry_truncator(entry) || ledger_record_pending(entry, UINT64_MAX))
        return LEDGER_STRAY_ASK;
    return is_as_sent(entry, now) ? LEDGER_STRAY_PROVEN : LEDGER_STRAY_NOT_PROVEN;
}

enum ledger_stray_proof ledger_file_prove_strays(struct ledger_file *file, uint64_t epoch,
                                                 const struct ledger_attributes *now, bool sent)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return LEDGER_STRAY_PROVEN; /* there are no strays any more */
    ledger_stripe_expire_now(ledger_stripe_of_file(file));
    bool same_epoch = ledger_entry_epoch(entry) == epoch;
    enum ledger_stray_proof proof =
        sent ? prove_sent(entry, same_epoch, now) : prove_unsent(entry, same_epoch, now);
    ledger_entry_unlock(file);
    return proof;
}

/* ---- after the proof, or without it ---- */

static bool is_sent_orphan(uint32_t index, uint64_t unused)
{
    (void)unused;
    return ledger_record_is_promised(ledger_record(index)) &&
           ledger_record_is_lent_by_nobody(ledger_record(index));
}

/* Are there promised records of dead processes, which are not in the list of dirty ones? */
static bool has_lent_orphans(const struct ledger_entry *entry)
{
    return entry->sending > 0 &&
           ledger_record_find_sent(ledger_entry_index(entry), is_sent_orphan, 0) != 0;
}

void ledger_file_end_strays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    bool left = has_lent_orphans(entry);
    for (uint32_t i = entry->dirty_first; i && !left; i = ledger_record(i)->file_next)
        left = ledger_record_is_orphan(ledger_record(i));
    if (!left)
        ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED);
    ledger_entry_unlock(file);
}

/* Counts a loss as told: the open files that exist now report it, and later ones do not. */
static void tell_loss(struct ledger_entry *entry)
{
    atomic_store(&entry->losses.told, atomic_fetch_add(&entry->losses.count, 1) + 1);
    entry->losses.error = EIO;
}

void ledger_file_tell_loss(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    tell_loss(entry);
    ledger_entry_unlock(file);
}

static uint32_t first_of(const struct ledger_entry *entry, bool sent)
{
    return sent ? entry->first : entry->dirty_first;
}

uint64_t ledger_file_mark_strays(struct ledger_file *file, enum ledger_stray_set set)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return 0;
    uint64_t mark = ledger_stray_mark(entry);
    bool any = false;
    for (uint32_t i = first_of(entry, set == LEDGER_STRAYS_SENT); i;
         i = ledger_record(i)->file_next) {
        if (!ledger_record_is_orphan(ledger_record(i)) ||
            (set == LEDGER_STRAYS_UNPROVEN && ledger_proof_is_of(entry, ledger_record(i))))
            continue;
        ledger_record(i)->aside = mark;
        any = true;
    }
    ledger_entry_unlock(file);
    return any ? mark : 0;
}

/* What is lost has an owner mostly. */
static bool is_marked(const struct ledger_record *record, uint64_t mark)
{
    return record->aside == mark &&
           (ledger_record_is_orphan(record) || ledger_record_state(record) == LEDGER_RECORD_ACKED);
}

/* Copies the bytes of a record. */
static void copy(const struct ledger_record *record, uint8_t *to)
{
    uint32_t at = ledger_record_from(record), end = ledger_record_to(record), length;
    for (; at < end; at += length, to += length) {
        length = LEDGER_CHUNK - at % LEDGER_CHUNK;
        length = length < end - at ? length : end - at;
        memcpy(to,
               ledger_map.chunks + (uint64_t)record->chunk[at / LEDGER_CHUNK] * LEDGER_CHUNK +
                   at % LEDGER_CHUNK,
               length);
    }
}

/* The first marked stray at offset `from` or behind it; 0: none. */
static uint32_t find_marked(const struct ledger_entry *entry, uint64_t mark, bool sent,
                            uint64_t from)
{
    uint32_t found = 0;
    for (uint32_t i = first_of(entry, sent); i; i = ledger_record(i)->file_next) {
        uint64_t start = ledger_record_start(ledger_record(i));
        if (is_marked(ledger_record(i), mark) && start >= from &&
            (!found || start < ledger_record_start(ledger_record(found))))
            found = i;
    }
    return found;
}

struct ledger_stray ledger_file_stray(struct ledger_file *file, uint64_t mark, bool sent,
                                      uint64_t from, uint8_t *bytes)
{
    struct ledger_stray stray = {0};
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return stray;
    ledger_stripe_expire_now(ledger_stripe_of_file(file));
    uint32_t found = find_marked(entry, mark, sent, from);
    if (found) {
        const struct ledger_record *record = ledger_record(found);
        stray.offset = ledger_record_start(record);
        stray.length = ledger_record_length(record);
        stray.late = ledger_record_held(record, sys_now_ns()) || is_in_the_way(entry, found);
        copy(record, bytes);
    }
    ledger_entry_unlock(file);
    return stray;
}

bool ledger_file_stray_arrived(struct ledger_file *file, uint64_t mark, bool sent, uint64_t offset)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return false;
    uint32_t found = find_marked(entry, mark, sent, offset);
    struct ledger_record *record = ledger_record(found);
    bool arrived = found && ledger_record_start(record) == offset && !is_in_the_way(entry, found);
    if (arrived)
        record->aside = mark + 1;
    ledger_entry_unlock(file);
    return arrived;
}

/* Why something is dropped. */
enum why { ARRIVED, SET_ASIDE, LOST };

static uint64_t drop(struct ledger_file *file, uint64_t mark, bool sent, enum why why)
{
    struct ledger_garbage garbage = {0};
    uint64_t bytes = 0;
    bool arrived = why == ARRIVED;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return 0;
    bool left = has_lent_orphans(entry);
    for (uint32_t i = first_of(entry, sent), next; i; i = next) {
        const struct ledger_record *record = ledger_record(i);
        next = record->file_next;
        if (!is_marked(record, mark + arrived) || (arrived && record->distrusted)) {
            left = left || ledger_record_is_orphan(record);
            continue;
        }
        bytes += ledger_record_length(record);
        if (sent && !arrived)
            atomic_fetch_add_explicit(&entry->cuts, 1, memory_order_release);
        ledger_record_drop(entry, i, &garbage);
    }
    if (!left && !sent)
        ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED);
    if (bytes > 0) {
        if (!sent)
            ledger_dirty_lost(entry);
        ledger_entry_outdate(entry);
    }
    if (bytes > 0 && why == SET_ASIDE)
        tell_loss(entry);
    if (bytes > 0 && why == LOST)
        ledger_entry_missed(entry, file);
    ledger_entry_unlock(file);
    ledger_stripe_wake(ledger_stripe_of_file(file));
    ledger_arena_give(garbage.first);
    return bytes;
}

uint64_t ledger_file_drop_strays(struct ledger_file *file, uint64_t mark, bool sent)
{
    return drop(file, mark, sent, SET_ASIDE);
}

uint64_t ledger_file_drop_arrived(struct ledger_file *file, uint64_t mark, bool sent)
{
    return drop(file, mark, sent, ARRIVED);
}

uint64_t ledger_file_drop_lost(struct ledger_file *file, uint64_t mark)
{
    return drop(file, mark, true, LOST);
}
