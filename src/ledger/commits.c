/*
 * COMMITs under way. A server may report an error of its disk to one COMMIT only, and forget the
 * data. Another COMMIT that it answers later then succeeds, though the data is gone. Perhaps the
 * failure of the first is not noted here yet. So each COMMIT is noted in the stripe until its
 * answer is known. A COMMIT that succeeded waits for those that were sent before its answer came.
 *
 * The server forgets all data that it had when it met the error. That includes writes that were
 * acknowledged after the COMMIT was sent, and some that have no answer yet.
 *
 * The server may also tell the error to a WRITE that was to reach the disk at once: a WRITE of a
 * program that wants it so, of an fsync, or of a replay. So such a WRITE is waited for in the same
 * way.
 *
 * Only a few COMMITs of one file are under way at a time, of all processes together. A thread that
 * comes then waits for the next one, which vouches for the data of all that wait. So many threads
 * that write do not fill the stripe's places. Nor do they make the server commit the same data
 * again and again.
 */
#include "ledger/commits.h"
#include "ledger/entries.h"
#include "ledger/store/processes.h"
#include "sys/sys.h"

enum { COMMITS_OF_A_FILE = 2 };

/* How long a COMMIT waits for the others: their process may be stopped, or their path be dead. But
 * a server that took longer for this COMMIT, or for the last one, may take as long for the others.
 */
#define LONGEST_NS    UINT64_C(1000000000)
#define LONGEST_TIMES 2

static uint64_t longest_ns(uint64_t took_ns)
{
    return took_ns * LONGEST_TIMES > LONGEST_NS ? took_ns * LONGEST_TIMES : LONGEST_NS;
}

/* The place of the COMMIT. NULL: it was never noted, or was given up since. */
static struct ledger_committing *place_of(struct ledger_stripe *stripe,
                                          const struct ledger_commit *commit)
{
    struct ledger_committing *place = &stripe->committing[commit->place];
    return commit->ticket && place->ticket == commit->ticket &&
                   place->state <= LEDGER_COMMIT_ANSWERED
               ? place
               : NULL;
}

/* No thread waits for its answer any more: the COMMIT counts as failed. */
static void give_up(struct ledger_committing *place)
{
    ledger_records_distrust(place->file);
    place->state = LEDGER_COMMIT_OVER;
}

/* The COMMITs of a file: the newest under way; how many were sent and have no answer; whether one
 * that began at `since` or later is over and vouches for all before it. */
struct others {
    struct ledger_committing *newest;
    unsigned sent;
    bool vouched;
};

static struct others look_around(struct ledger_stripe *stripe, uint32_t file, uint64_t since)
{
    struct others others = {0};
    for (uint32_t i = 0; i < stripe->commit_places; i++) {
        struct ledger_committing *place = &stripe->committing[i];
        if (place->file != file || place->state == LEDGER_COMMIT_OVER)
            continue;
        if (place->state == LEDGER_COMMIT_VOUCHES) {
            others.vouched = others.vouched || place->ticket >= since;
            continue;
        }
        others.sent += place->state == LEDGER_COMMIT_SENT;
        if (!others.newest || place->ticket > others.newest->ticket)
            others.newest = place;
    }
    return others;
}

static bool is_needed(const struct ledger_committing *place)
{
    return place->ticket && place->state <= LEDGER_COMMIT_ANSWERED;
}

/* A place for another COMMIT. In this order: that of a COMMIT that is over; the next that was never
 * used; the oldest that is not needed; the oldest. So there are no more places in use than there
 * were COMMITs at a time. */
static struct ledger_committing *find_place(struct ledger_stripe *stripe)
{
    struct ledger_committing *best = NULL;
    for (uint32_t i = 0; i < stripe->commit_places; i++) {
        struct ledger_committing *place = &stripe->committing[i];
        if (place->state == LEDGER_COMMIT_OVER)
            return place;
        if (!best ||
            (is_needed(place) != is_needed(best) ? is_needed(best) : place->ticket < best->ticket))
            best = place;
    }
    return stripe->commit_places < LEDGER_COMMITS ? &stripe->committing[stripe->commit_places]
                                                  : best;
}

/* The state is written last: a process that dies before has sent nothing. */
static void take_place(struct ledger_stripe *stripe, struct ledger_committing *place, uint32_t file,
                       struct ledger_commit *commit)
{
    commit->place = (uint32_t)(place - stripe->committing);
    __atomic_store_n(&place->state, LEDGER_COMMIT_OVER, __ATOMIC_RELEASE);
    if (commit->place >= stripe->commit_places)
        __atomic_store_n(&stripe->commit_places, commit->place + 1, __ATOMIC_RELEASE);
    place->file = file;
    atomic_store_explicit(&place->slot, ledger_process_slot_taken(), memory_order_release);
    commit->ticket = ++stripe->commits;
    __atomic_store_n(&place->ticket, commit->ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&place->state, LEDGER_COMMIT_SENT, __ATOMIC_RELEASE);
}

bool ledger_commit_begin(struct ledger_file *file, struct ledger_commit *commit)
{
    uint32_t number = ledger_stripe_of_file(file);
    *commit = (struct ledger_commit){.began_ns = sys_now_ns()};
    uint64_t since = 0, deadline = 0, joined = 0;
    bool waited = false;
    struct ledger_entry *entry;
    ledger_process_slot();
    while ((entry = ledger_entry_lock(file, false, NULL))) {
        struct ledger_stripe *stripe = &ledger_map.shared->stripes[number];
        stripe->commit_waiters -= waited; /* a thread that is killed while it waits stays counted */
        waited = false;
        if (since == 0) {
            since = stripe->commits + 1;
            deadline = commit->began_ns + longest_ns(stripe->commit_took_ns);
        }
        struct others others = look_around(stripe, ledger_entry_index(entry), since);
        struct ledger_committing *place = find_place(stripe), *wait_for = NULL;
        bool taken = is_needed(place);
        commit->began_ns = sys_now_ns();
        commit->vouches = entry->first != 0;
        if (others.vouched) {
            ledger_entry_unlock(file);
            return false;
        }
        if (others.newest && (others.newest->ticket >= since || others.sent >= COMMITS_OF_A_FILE))
            wait_for = others.newest;
        else if (taken)
            wait_for = place;
        if (!joined && wait_for && wait_for->ticket >= since) { /* it gets all its time */
            joined = wait_for->ticket;
            deadline = commit->began_ns + longest_ns(stripe->commit_took_ns);
        }
        /* The COMMIT that was joined drops the records before it is over. */
        if ((commit->vouches || joined) && wait_for && commit->began_ns < deadline) {
            stripe->commit_waiters++;
            waited = true;
            ledger_stripe_wait(number, atomic_load(&wait_for->slot));
            ledger_entry_unlock(file);
            continue;
        }
        commit->sequence = atomic_load_explicit(&stripe->sequence, memory_order_relaxed);
        commit->replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
        if (commit->vouches && taken)
            give_up(place);
        if (commit->vouches || !taken)
            take_place(stripe, place, ledger_entry_index(entry), commit);
        ledger_entry_unlock(file);
        break;
    }
    return true;
}

void ledger_commit_failed(struct ledger_file *file, const struct ledger_commit *commit)
{
    if (!ledger_map.shared)
        return;
    uint32_t number = ledger_stripe_of_file(file);
    ledger_stripe_lock(number);
    struct ledger_committing *place = place_of(&ledger_map.shared->stripes[number], commit);
    const struct ledger_entry *entry = ledger_entry_of(file);
    if (place)
        place->state = LEDGER_COMMIT_OVER;
    if (entry)
        ledger_records_distrust(ledger_entry_index(entry));
    ledger_stripe_unlock(number);
    ledger_stripe_wake(number);
}

/* A COMMIT of the file without an answer, with this ticket or an earlier one; NULL: there is none.
 */
static struct ledger_committing *sent_before(struct ledger_stripe *stripe, uint32_t file,
                                             uint64_t ticket)
{
    for (uint32_t i = 0; i < stripe->commit_places; i++) {
        struct ledger_committing *place = &stripe->committing[i];
        if (place->ticket <= ticket && place->file == file && place->state == LEDGER_COMMIT_SENT)
            return place;
    }
    return NULL;
}

/* A look for the records of a file that are TO_DISK. */
struct to_disk {
    uint64_t last; /* ticket */
    bool any;
};

static bool goes_before(uint32_t index, uint64_t argument)
{
    struct to_disk *look = (struct to_disk *)(uintptr_t)argument;
    const struct ledger_record *record = ledger_record(index);
    uint32_t state = ledger_record_state(record);
    if (record->to_disk != LEDGER_TO_DISK ||
        (state != LEDGER_RECORD_IN_FLIGHT && state != LEDGER_RECORD_REPLAY))
        return false;
    look->any = true;
    return record->began <= look->last;
}

/* A record of the file that is on its way to the disk since this ticket, or before; 0: there is
 * none. */
static uint32_t to_disk_before(uint32_t file, uint64_t ticket)
{
    struct ledger_entry *entry = &ledger_map.entries[file];
    struct to_disk look = {.last = ticket};
    if (!(atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_TO_DISK))
        return 0;
    uint32_t found = ledger_record_find_busy(file, goes_before, (uintptr_t)&look);
    if (!look.any)
        ledger_entry_clear(entry, LEDGER_ENTRY_TO_DISK);
    return found;
}

/* No thread waits for their answers any more: they count as failed. */
static void give_up_to_disk(uint32_t file, uint64_t ticket)
{
    uint32_t index;
    ledger_records_distrust(file);
    while ((index = to_disk_before(file, ticket)))
        ledger_record(index)->to_disk = LEDGER_TO_DISK_GIVEN_UP;
}

bool ledger_file_to_disk(struct ledger_file *file)
{
    const struct ledger_entry *entry = ledger_entry_peek(file);
    return entry &&
           atomic_load_explicit(&entry->flags, memory_order_relaxed) & LEDGER_ENTRY_TO_DISK;
}

/* Locks the file's stripe. Returns the place of the COMMIT there; NULL: it has none any more. */
static struct ledger_committing *lock_place(struct ledger_file *file,
                                            const struct ledger_commit *commit, uint32_t *number)
{
    *number = ledger_stripe_of_file(file);
    ledger_stripe_lock(*number);
    return place_of(&ledger_map.shared->stripes[*number], commit);
}

void ledger_commit_answered(struct ledger_file *file, const struct ledger_commit *commit)
{
    if (!commit->ticket)
        return;
    uint32_t number;
    struct ledger_committing *place = lock_place(file, commit, &number);
    if (place) {
        struct ledger_stripe *stripe = &ledger_map.shared->stripes[number];
        uint64_t last = stripe->commits, now = sys_now_ns();
        uint64_t deadline = now + longest_ns(now - commit->began_ns);
        uint32_t entry = place->file;
        stripe->commit_took_ns = now - commit->began_ns;
        place->state = LEDGER_COMMIT_ANSWERED; /* two with answers do not wait for each other */
        while (commit->vouches && (place = sent_before(stripe, entry, last))) {
            if (sys_now_ns() >= deadline)
                give_up(place);
            else
                ledger_stripe_wait(number, atomic_load(&place->slot));
        }
        for (uint32_t index; commit->vouches && (index = to_disk_before(entry, last));) {
            if (sys_now_ns() >= deadline)
                give_up_to_disk(entry, last);
            else
                ledger_stripe_wait(number, atomic_load(&ledger_record(index)->owner));
        }
    }
    ledger_stripe_unlock(number);
    ledger_stripe_wake(number);
}

void ledger_commit_over(struct ledger_file *file, const struct ledger_commit *commit, bool vouches)
{
    if (!commit->ticket)
        return;
    uint32_t number;
    struct ledger_committing *place = lock_place(file, commit, &number);
    if (ledger_map.shared->stripes[number].commit_waiters == 0)
        vouches = false; /* no thread needs to know */
    if (place)
        place->state = vouches ? LEDGER_COMMIT_VOUCHES : LEDGER_COMMIT_OVER;
    ledger_stripe_unlock(number);
    ledger_stripe_wake(number);
}

bool ledger_file_committing(struct ledger_file *file)
{
    const struct ledger_entry *entry = ledger_entry_peek(file);
    bool found = false;
    if (!entry)
        return false;
    uint32_t number = ledger_stripe_of_file(file);
    ledger_stripe_lock(number);
    found = sent_before(&ledger_map.shared->stripes[number], ledger_entry_index(entry), UINT64_MAX);
    ledger_stripe_unlock(number);
    return found;
}

void ledger_commits_of_dead(uint32_t slot)
{
    for (uint32_t number = 0; number < LEDGER_STRIPES; number++) {
        struct ledger_stripe *stripe = &ledger_map.shared->stripes[number];
        for (uint32_t i = 0; i < stripe->commit_places; i++) {
            struct ledger_committing *place = &stripe->committing[i];
            if (atomic_load_explicit(&place->slot, memory_order_relaxed) != slot)
                continue;
            ledger_stripe_lock(number);
            if (atomic_load(&place->slot) == slot) {
                if (place->state == LEDGER_COMMIT_SENT)
                    give_up(place);
                else if (place->state == LEDGER_COMMIT_ANSWERED)
                    place->state = LEDGER_COMMIT_OVER;
            }
            ledger_stripe_unlock(number);
            ledger_stripe_wake(number);
        }
    }
}
