#include "ledger/strays.h"

#include <string.h>

#include "ledger/agent.h"
#include "ledger/store/pocket.h"
#include "ledger/attributes.h"
#include "ledger/dirty.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

/* ---- the proof ---- */

static bool is_committed(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->uncommitted, memory_order_relaxed) == 0;
}

/* Others may have changed the file under what is acknowledged. That is joined with what is later:
 * so the proof is of all of it, or of none. */
static void doubt_acknowledged(struct ledger_entry *entry)
{
    if (is_committed(entry))
        ledger_entry_clear(entry, LEDGER_ENTRY_UNPROVEN);
    else
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_UNPROVEN);
}

static void begin_proof(struct ledger_entry *entry, int64_t ctime, int64_t mtime, uint64_t since)
{
    memset(entry->proof_links, 0, sizeof(entry->proof_links));
    entry->proof_since = since;
    entry->proof_ctime = ctime;
    entry->proof_mtime = mtime;
}

void ledger_proof_end(struct ledger_entry *entry)
{
    doubt_acknowledged(entry);
    begin_proof(entry, LEDGER_NO_TIME, LEDGER_NO_TIME, 0);
}

/* The time that is known is another one, and nothing dirty is on its way whose answer may explain
 * it. */
static bool is_out_of_date(const struct ledger_entry *entry)
{
    uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
    return flags & LEDGER_ENTRY_KNOWN && entry->sending == 0 &&
           atomic_load_explicit(&entry->ctime, memory_order_relaxed) != entry->proof_ctime;
}

void ledger_proof_covers(struct ledger_entry *entry, uint64_t sequence)
{
    if (!is_out_of_date(entry))
        return;
    doubt_acknowledged(entry);
    begin_proof(entry, atomic_load_explicit(&entry->ctime, memory_order_relaxed),
                atomic_load_explicit(&entry->mtime, memory_order_relaxed), sequence);
}

static bool is_link(const struct ledger_link *link)
{
    return link->from != link->to;
}

/* Takes a link that has one end in common with this one, and makes this one longer by it. */
static bool lengthen(struct ledger_entry *entry, struct ledger_link *link)
{
    for (int i = 0; i < LEDGER_LINKS; i++) {
        struct ledger_link *other = &entry->proof_links[i];
        if (!is_link(other) || (other->to != link->from && other->from != link->to))
            continue;
        if (other->to == link->from)
            link->from = other->from;
        else
            link->to = other->to;
        *other = (struct ledger_link){0};
        return true;
    }
    return false;
}

/* Of an answer that does not follow yet. False: there is no room. */
static bool keep(struct ledger_entry *entry, struct ledger_link link)
{
    while (lengthen(entry, &link))
        ;
    for (int i = 0; i < LEDGER_LINKS; i++) {
        if (is_link(&entry->proof_links[i]))
            continue;
        entry->proof_links[i] = link;
        return true;
    }
    return false;
}

static void go_on(struct ledger_entry *entry, int64_t ctime, int64_t mtime)
{
    struct ledger_link link = {entry->proof_ctime, ctime};
    while (lengthen(entry, &link))
        ;
    entry->proof_ctime = link.to;
    if (link.to != ctime)
        mtime = link.to; /* a WRITE sets both times */
    if (mtime > entry->proof_mtime)
        entry->proof_mtime = mtime;
}

static uint64_t next_sequence(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&ledger_entry_stripe(entry)->sequence, memory_order_relaxed) + 1;
}

/* Will the agent that lives see to what the dead left? */
static bool is_cared_for(const _Atomic uint32_t *carer)
{
    uint32_t number = atomic_load_explicit(carer, memory_order_acquire);
    return number != 0 && number == ledger_agent_number();
}

static bool is_orphan(const struct ledger_record *record)
{
    return (ledger_record_is_dirty(record) || ledger_record_state(record) == LEDGER_RECORD_ACKED) &&
           atomic_load(&record->owner) == 0;
}

/* Under the stripe's lock. The flag may be older than all that is there. */
static bool has_sent_orphans(struct ledger_entry *entry)
{
    if (!(atomic_load(&entry->flags) & LEDGER_ENTRY_ORPHANED_SENT))
        return false;
    for (uint32_t i = entry->first; i; i = ledger_record(i)->file_next) {
        if (is_orphan(ledger_record(i)) || ledger_record_is_lent_by_nobody(ledger_record(i)))
            return true;
    }
    ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED_SENT);
    return false;
}

/* Has a dead process, for which nobody cares, left something that was sent? */
static bool has_left_sent(struct ledger_entry *entry)
{
    return !is_cared_for(&entry->sent_carer) && has_sent_orphans(entry);
}

/* An answer does not follow. If it tells what was before it others were there, it seems. If it does
 * not they may have been there, once a host has lost a process. */
static void is_interrupted(struct ledger_entry *entry, int64_t before_ctime)
{
    bool proven = !(atomic_load(&entry->flags) & LEDGER_ENTRY_UNPROVEN);
    if (before_ctime != 0 || (proven && has_left_sent(entry)))
        doubt_acknowledged(entry);
}

void ledger_proof_skips(struct ledger_entry *entry, int64_t before_ctime)
{
    is_interrupted(entry, before_ctime);
    entry->proof_since = next_sequence(entry);
}

bool ledger_proof_goes_on(struct ledger_entry *entry, int64_t before_ctime,
                          const struct ledger_attributes *after)
{
    int64_t ctime = ledger_nanoseconds(&after->ctime), mtime = ledger_nanoseconds(&after->mtime);
    bool some = entry->proof_ctime != LEDGER_NO_TIME;
    bool needed = atomic_load_explicit(&entry->dirty, memory_order_relaxed) || !is_committed(entry);
    if (is_committed(entry)) /* up to this one */
        doubt_acknowledged(entry);
    if (some && ctime == entry->proof_ctime)
        return true;
    if (some && before_ctime == entry->proof_ctime) {
        go_on(entry, ctime, mtime);
        return true;
    }
    if (some && before_ctime != 0 && needed) {
        if (before_ctime != ctime && !keep(entry, (struct ledger_link){before_ctime, ctime}))
            ledger_proof_end(entry);
        return true;
    }
    if (some && ctime < entry->proof_ctime)
        return false;
    is_interrupted(entry, before_ctime);
    begin_proof(entry, ctime, mtime > entry->proof_mtime ? mtime : entry->proof_mtime,
                next_sequence(entry));
    return true;
}

bool ledger_proof_is_of(const struct ledger_entry *entry, const struct ledger_record *record)
{
    return entry->proof_ctime != LEDGER_NO_TIME && record->since >= entry->proof_since;
}

/* ---- in whose care ---- */

void ledger_entry_orphan(struct ledger_entry *entry, uint32_t slot, uint32_t flag)
{
    bool sent = flag == LEDGER_ENTRY_ORPHANED_SENT;
    bool some = sent ? has_sent_orphans(entry) : atomic_load(&entry->flags) & LEDGER_ENTRY_ORPHANED;
    uint32_t number = ledger_agent_number();
    bool watched = number && atomic_load(&ledger_map.shared->processes[slot].watched) == number;
    _Atomic uint32_t *carer = sent ? &entry->sent_carer : &entry->carer;
    if (!watched || (some && !is_cared_for(carer))) /* nobody cares for all of it */
        atomic_store(carer, 0);
    else
        atomic_store(carer, number);
    atomic_fetch_or(&entry->flags, flag | LEDGER_ENTRY_OWED);
}

void ledger_entry_orphan_sent(struct ledger_entry *entry, const struct ledger_record *record)
{
    if (!ledger_record_is_lent_by_nobody(record))
        return;
    bool cared = is_cared_for(&entry->carer) &&
                 (!has_sent_orphans(entry) || is_cared_for(&entry->sent_carer));
    atomic_store(&entry->sent_carer, cared ? ledger_agent_number() : 0);
    atomic_fetch_or(&entry->flags, LEDGER_ENTRY_ORPHANED_SENT | LEDGER_ENTRY_OWED);
}

bool ledger_entry_has_strays(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->flags, memory_order_acquire) & LEDGER_ENTRY_ORPHANED &&
           atomic_load_explicit(&entry->dirty, memory_order_acquire) &&
           !is_cared_for(&entry->carer) && !sys_test_unsafe(SYS_TEST_STRAY_PROOF);
}

bool ledger_file_has_strays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_peek(file);
    if (!entry || !atomic_load_explicit(&entry->dirty, memory_order_acquire))
        return false;
    if (!ledger_entry_has_strays(entry) && ledger_agent_number() == 0)
        ledger_process_sweep(0); /* somebody may be dead, and nobody saw it */
    return ledger_entry_has_strays(entry);
}

bool ledger_file_has_sent_strays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    bool found = entry && has_sent_orphans(entry) && !is_cared_for(&entry->sent_carer) &&
                 !sys_test_unsafe(SYS_TEST_STRAY_PROOF);
    if (entry)
        ledger_entry_unlock(file);
    return found;
}

/* ---- is it proven? ---- */

/* Of what was sent: is the file at the server not newer, and not longer, than this host made it? It
 * may be older, as the server lost something; and have another ctime, as it recovered. */
static bool is_as_sent(const struct ledger_entry *entry, const struct ledger_attributes *now)
{
    return !(atomic_load(&entry->flags) & LEDGER_ENTRY_UNPROVEN) &&
           ledger_nanoseconds(&now->mtime) <= entry->proof_mtime &&
           now->size <= atomic_load(&entry->size);
}

/* Is something of this host on its way, or may be, that has other bytes than the record? */
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
        if (is_orphan(ledger_record(i)) && ledger_proof_is_of(entry, ledger_record(i)) &&
            is_in_the_way(entry, i))
            return true;
    }
    return false;
}

static enum ledger_stray_proof prove_unsent(struct ledger_entry *entry, bool same_epoch,
                                            const struct ledger_attributes *now)
{
    if (entry->proof_ctime == LEDGER_NO_TIME)
        return LEDGER_STRAY_NOT_PROVEN;
    if (entry->proof_ctime == ledger_nanoseconds(&now->ctime))
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
        return LEDGER_STRAY_PROVEN; /* there are none any more */
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

/* Are there any but those that are in the list of what is dirty? */
static bool has_lent_orphans(const struct ledger_entry *entry)
{
    return entry->sending > 0 &&
           ledger_record_find(ledger_entry_index(entry), is_sent_orphan, 0) != 0;
}

void ledger_file_end_strays(struct ledger_file *file)
{
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return;
    bool left = has_lent_orphans(entry);
    for (uint32_t i = entry->dirty_first; i && !left; i = ledger_record(i)->file_next)
        left = is_orphan(ledger_record(i));
    if (!left)
        ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED);
    ledger_entry_unlock(file);
}

/* To those who have the file open now, and not to those who open it later. */
static void tell_loss(struct ledger_entry *entry)
{
    atomic_store(&entry->losses_told, atomic_fetch_add(&entry->losses, 1) + 1);
    entry->loss_error = EIO;
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
    uint64_t mark = ledger_entry_stripe(entry)->commits + 1;
    bool any = false;
    ledger_entry_stripe(entry)->commits += 2; /* the other is of those that arrived */
    for (uint32_t i = first_of(entry, set == LEDGER_STRAYS_SENT); i;
         i = ledger_record(i)->file_next) {
        if (!is_orphan(ledger_record(i)) ||
            (set == LEDGER_STRAYS_UNPROVEN && ledger_proof_is_of(entry, ledger_record(i))))
            continue;
        ledger_record(i)->aside = mark;
        any = true;
    }
    ledger_entry_unlock(file);
    return any ? mark : 0;
}

static bool is_marked(const struct ledger_record *record, uint64_t mark)
{
    return is_orphan(record) && record->aside == mark;
}

/* The bytes of a record. */
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

/* The first marked one from an offset on; 0: none. */
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

static uint64_t drop(struct ledger_file *file, uint64_t mark, bool sent, bool arrived)
{
    struct ledger_garbage garbage = {0};
    uint64_t bytes = 0;
    struct ledger_entry *entry = ledger_entry_lock(file, false, NULL);
    if (!entry)
        return 0;
    bool left = has_lent_orphans(entry);
    for (uint32_t i = first_of(entry, sent), next; i; i = next) {
        const struct ledger_record *record = ledger_record(i);
        next = record->file_next;
        if (!is_marked(record, mark + arrived) || (arrived && record->distrusted)) {
            left = left || is_orphan(record);
            continue;
        }
        bytes += ledger_record_length(record);
        ledger_record_drop(entry, i, &garbage);
    }
    if (!left && !sent)
        ledger_entry_clear(entry, LEDGER_ENTRY_ORPHANED);
    if (bytes > 0) {
        if (!sent)
            ledger_dirty_lost(entry);
        ledger_entry_outdate(entry);
    }
    if (bytes > 0 && !arrived)
        tell_loss(entry);
    ledger_entry_unlock(file);
    ledger_stripe_wake(ledger_stripe_of_file(file));
    ledger_arena_give(garbage.first);
    return bytes;
}

uint64_t ledger_file_drop_strays(struct ledger_file *file, uint64_t mark, bool sent)
{
    return drop(file, mark, sent, false);
}

uint64_t ledger_file_drop_arrived(struct ledger_file *file, uint64_t mark, bool sent)
{
    return drop(file, mark, sent, true);
}
