#include "ledger/proof.h"

#include <string.h>

#include "ledger/orphans.h"

static bool is_committed(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&entry->uncommitted, memory_order_relaxed) == 0;
}

/* Others may have changed the file under what is acknowledged. Acknowledged records are joined with
 * later ones, so the proof covers all of them or none. */
static void doubt_acknowledged(struct ledger_entry *entry)
{
    if (is_committed(entry))
        ledger_entry_clear(entry, LEDGER_ENTRY_UNPROVEN);
    else
        atomic_fetch_or(&entry->flags, LEDGER_ENTRY_UNPROVEN);
}

static void begin_proof(struct ledger_entry *entry, int64_t ctime, int64_t mtime, uint64_t since)
{
    memset(entry->proof.links, 0, sizeof(entry->proof.links));
    entry->proof.since = since;
    entry->proof.ctime = ctime;
    entry->proof.mtime = mtime;
}

void ledger_proof_end(struct ledger_entry *entry)
{
    doubt_acknowledged(entry);
    begin_proof(entry, LEDGER_NO_TIME, LEDGER_NO_TIME, 0);
}

/* Is the known ctime another one, and is nothing dirty on its way that may explain it? */
static bool is_out_of_date(const struct ledger_entry *entry)
{
    uint32_t flags = atomic_load_explicit(&entry->flags, memory_order_relaxed);
    return flags & LEDGER_ENTRY_KNOWN && entry->sending == 0 &&
           atomic_load_explicit(&entry->ctime, memory_order_relaxed) != entry->proof.ctime;
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

/* Takes away a link that has one end in common with this one, and makes this one longer by it.
 * False: none. */
static bool lengthen(struct ledger_entry *entry, struct ledger_link *link)
{
    for (int i = 0; i < LEDGER_LINKS; i++) {
        struct ledger_link *other = &entry->proof.links[i];
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

/* Keeps the link of an answer that does not follow yet. False: there is no room. */
static bool keep(struct ledger_entry *entry, struct ledger_link link)
{
    while (lengthen(entry, &link))
        ;
    for (int i = 0; i < LEDGER_LINKS; i++) {
        if (is_link(&entry->proof.links[i]))
            continue;
        entry->proof.links[i] = link;
        return true;
    }
    return false;
}

static void go_on(struct ledger_entry *entry, int64_t ctime, int64_t mtime)
{
    struct ledger_link link = {entry->proof.ctime, ctime};
    while (lengthen(entry, &link))
        ;
    entry->proof.ctime = link.to;
    if (link.to != ctime)
        mtime = link.to; /* a WRITE sets both times */
    if (mtime > entry->proof.mtime)
        entry->proof.mtime = mtime;
}

static uint64_t next_sequence(const struct ledger_entry *entry)
{
    return atomic_load_explicit(&ledger_entry_stripe(entry)->sequence, memory_order_relaxed) + 1;
}

/* Has a dead process left something that was sent, and that is in nobody's care? */
static bool has_left_sent(struct ledger_entry *entry)
{
    return ledger_entry_has_sent_orphans(entry) && !ledger_entry_sent_is_cared_for(entry);
}

/* An answer does not follow. If it tells the ctime before it, others seem to have changed the file.
 * If it does not, they may have, once a host has lost a process. */
static void is_interrupted(struct ledger_entry *entry, int64_t before_ctime)
{
    bool proven = !(atomic_load(&entry->flags) & LEDGER_ENTRY_UNPROVEN);
    if (before_ctime != 0 || (proven && has_left_sent(entry)))
        doubt_acknowledged(entry);
}

void ledger_proof_skips(struct ledger_entry *entry, int64_t before_ctime)
{
    is_interrupted(entry, before_ctime);
    entry->proof.since = next_sequence(entry);
}

bool ledger_proof_goes_on(struct ledger_entry *entry, int64_t before_ctime,
                          const struct ledger_attributes *after)
{
    int64_t ctime = ledger_nanoseconds(&after->ctime), mtime = ledger_nanoseconds(&after->mtime);
    bool some = entry->proof.ctime != LEDGER_NO_TIME;
    bool needed = atomic_load_explicit(&entry->dirty, memory_order_relaxed) || !is_committed(entry);
    if (is_committed(entry)) /* all before this write is committed */
        doubt_acknowledged(entry);
    if (some && ctime == entry->proof.ctime)
        return true;
    if (some && before_ctime == entry->proof.ctime) {
        go_on(entry, ctime, mtime);
        return true;
    }
    if (some && before_ctime != 0 && needed) {
        if (before_ctime != ctime && !keep(entry, (struct ledger_link){before_ctime, ctime}))
            ledger_proof_end(entry);
        return true;
    }
    if (some && ctime < entry->proof.ctime)
        return false;
    is_interrupted(entry, before_ctime);
    begin_proof(entry, ctime, mtime > entry->proof.mtime ? mtime : entry->proof.mtime,
                next_sequence(entry));
    return true;
}

bool ledger_proof_is_of(const struct ledger_entry *entry, const struct ledger_record *record)
{
    return entry->proof.ctime != LEDGER_NO_TIME && record->since >= entry->proof.since;
}
