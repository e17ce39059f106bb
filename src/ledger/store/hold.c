/*
 * Ranges of unknown fate. A WRITE was sent over a connection that died. The server may execute it
 * later: after it was answered over another path, after it was given up, or after its process was
 * killed. For a while no other write may overlap it, or the old copy could undo that write.
 *
 * The hold is noted in the record of the write. It lasts whatever becomes of the data: acknowledged
 * data stays in the ledger as usual. A record that has no data, or no more, becomes a GHOST: a
 * place in its bucket, without data and without an owner. Holds end by the clock.
 *
 * A change of size may likewise be carried out after its process was killed. As long as that is
 * possible, no process changes the size, or writes beyond the size that was asked for. (A process
 * that lives waits itself: ledger_hold_wait().)
 */
#include "ledger/store/hold.h"

#include "ledger/store/pocket.h"
#include "ledger/store/processes.h"
#include "ledger/store/records.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

#define EXPIRE_INTERVAL_NS UINT64_C(1000000000)

static uint64_t hold_ns; /* set before any record is touched, then constant */

void ledger_hold_set(uint64_t length_ns)
{
    hold_ns = length_ns;
}

uint64_t ledger_hold_ns(void)
{
    return sys_test_unsafe(SYS_TEST_HOLD) ? 0 : hold_ns;
}

void ledger_record_hold(uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    struct ledger_stripe *stripe =
        &ledger_map.shared
             ->stripes[ledger_stripe_of(atomic_load_explicit(&record->file, memory_order_relaxed))];
    uint64_t now = sys_now_ns(), until = now + ledger_hold_ns();
    if (until == now)
        return;
    bool held = record->held_until > now;
    if (!held || ledger_record_from(record) < record->held_from)
        record->held_from = ledger_record_from(record);
    if (!held || ledger_record_to(record) > record->held_to)
        record->held_to = ledger_record_to(record);
    __atomic_store_n(&record->held_until, until, __ATOMIC_RELEASE);
    ledger_span_fit(index);
    if (atomic_load_explicit(&stripe->held_check, memory_order_relaxed) == 0)
        atomic_store_explicit(&stripe->held_check, until, memory_order_relaxed);
}

/* The write may have been executed at any time until now, after the server last told the size. */
static void hold_ended(uint32_t index)
{
    struct ledger_record *record = ledger_record(index);
    struct ledger_entry *entry =
        &ledger_map.entries[atomic_load_explicit(&record->file, memory_order_relaxed)];
    ledger_record_hold_over(record);
    ledger_span_fit(index);
    if (record->base + record->held_to > atomic_load(&entry->size))
        ledger_entry_forget_size(entry);
}

void ledger_stripe_expire(uint32_t stripe)
{
    struct ledger_stripe *s = &ledger_map.shared->stripes[stripe];
    uint32_t count = ledger_map.shared->bucket_count, self = ledger_process_slot_taken();
    uint64_t now = sys_now_ns(), first = 0;
    struct ledger_garbage garbage = {0};
    if (!self || now < atomic_load_explicit(&s->held_check, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = ledger_bucket_first(&ledger_map.buckets[stripe * count + i]), next;
        for (; index; index = next) {
            struct ledger_record *record = ledger_record(index);
            next = ledger_bucket_beside(index, false);
            if (record->held_until > now) {
                if (!first || record->held_until < first)
                    first = record->held_until;
                continue;
            }
            if (record->held_until != 0)
                hold_ended(index);
            if (ledger_record_state(record) == LEDGER_RECORD_GHOST)
                ledger_record_drop(&ledger_map.entries[ledger_record_file(record)], index,
                                   &garbage);
        }
    }
    if (first && first < now + EXPIRE_INTERVAL_NS)
        first = now + EXPIRE_INTERVAL_NS;
    atomic_store_explicit(&s->held_check, first, memory_order_relaxed);
    ledger_arena_give(garbage.first);
}

void ledger_entry_hold_size(struct ledger_entry *entry, struct ledger_garbage *garbage)
{
    uint64_t length = ledger_hold_ns();
    if (atomic_load(&entry->flags) & LEDGER_ENTRY_TRUNCATED) { /* it died while it cut */
        ledger_entry_set_size(entry, entry->truncate.size, garbage);
        atomic_fetch_and(&entry->flags, ~(uint32_t)LEDGER_ENTRY_TRUNCATED);
        atomic_store(&entry->truncator, 0);
        return;
    }
    ledger_entry_forget_size(entry);
    entry->truncate.held = sys_now_ns() + length;
    atomic_store(&entry->truncator, length ? LEDGER_TRUNCATOR_HELD : 0);
}

uint32_t ledger_entry_truncator_slowly(struct ledger_entry *entry)
{
    if (sys_now_ns() < entry->truncate.held)
        return LEDGER_TRUNCATOR_HELD;
    ledger_entry_forget_size(entry); /* it may have changed at any time */
    atomic_store(&entry->truncator, 0);
    return 0;
}

void ledger_hold_wait(void)
{
    uint64_t until = sys_now_ns() + ledger_hold_ns(), now;
    while ((now = sys_now_ns()) < until)
        sys_nanosleep_ms((int)((until - now) / 1000000) + 1);
}

uint32_t ledger_range_user(const struct ledger_entry *entry, uint64_t start, uint64_t end,
                           uint32_t own)
{
    uint32_t record = ledger_record_conflict(ledger_entry_index(entry), start, end, own);
    return record ? atomic_load_explicit(&ledger_record(record)->owner, memory_order_relaxed)
                  : UINT32_MAX;
}

uint32_t ledger_range_in_the_way(struct ledger_entry *entry, uint64_t start, uint64_t end,
                                 uint32_t own)
{
    uint32_t truncator = ledger_entry_truncator(entry);
    if (truncator && end > entry->truncate.size)
        return truncator;
    return ledger_range_user(entry, start, end, own);
}
