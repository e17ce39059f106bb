/*
 * COMMITs on their way. A server may tell an error of its disk to one COMMIT only, and forget the
 * data: the success of another, which it answered later, says nothing of that data, though the
 * failure may not have been noted yet. So each COMMIT is noted in the stripe until its answer is
 * known, and one that succeeded waits for those that were sent before its answer came.
 *
 * The data that is forgotten is all that the server had when it met the error. That includes writes
 * that were acknowledged after the COMMIT was sent, and some whose answer is yet to come.
 *
 * Of one file only a few COMMITs of all processes are on their way at once. Who comes then waits
 * for the next one, which vouches for the data of all who wait. So no number of writers fills the
 * stripe's places, or makes the server commit the same data again and again.
 */
#include "host/shared.h"
#include "sys/sys.h"

enum { COMMITS_OF_A_FILE = 2 };

/* So long others are waited for: their process may be stopped, or their path be dead. But a server
 * that took longer for this COMMIT, or for the last one, may take as long for those. */
#define LONGEST_NS    UINT64_C(1000000000)
#define LONGEST_TIMES 2

static uint64_t longest_ns(uint64_t took_ns)
{
    return took_ns * LONGEST_TIMES > LONGEST_NS ? took_ns * LONGEST_TIMES : LONGEST_NS;
}

/* NULL: the COMMIT is not noted, or not any more: it was given up. */
static struct host_committing *place_of(struct host_stripe *stripe,
                                        const struct host_commit *commit)
{
    struct host_committing *place = &stripe->committing[commit->place];
    return commit->ticket && place->ticket == commit->ticket && place->state <= HOST_COMMIT_ANSWERED
               ? place
               : NULL;
}

/* Its answer is not waited for: it counts as failed. */
static void give_up(struct host_committing *place)
{
    host_records_distrust(place->file);
    place->state = HOST_COMMIT_OVER;
}

/* What there is of a file: the newest that is under way, how many there are that were sent, and
 * whether one that began at `since` or later is over and vouches for all before it. */
struct others {
    struct host_committing *newest;
    unsigned sent;
    bool vouched;
};

static struct others look_around(struct host_stripe *stripe, uint32_t file, uint64_t since)
{
    struct others others = {0};
    for (uint32_t i = 0; i < stripe->commit_places; i++) {
        struct host_committing *place = &stripe->committing[i];
        if (place->file != file || place->state == HOST_COMMIT_OVER)
            continue;
        if (place->state == HOST_COMMIT_VOUCHES) {
            others.vouched = others.vouched || place->ticket >= since;
            continue;
        }
        others.sent += place->state == HOST_COMMIT_SENT;
        if (!others.newest || place->ticket > others.newest->ticket)
            others.newest = place;
    }
    return others;
}

static bool is_needed(const struct host_committing *place)
{
    return place->ticket && place->state <= HOST_COMMIT_ANSWERED;
}

/* One that is over, the next that was never used, the oldest of those that are not needed, or the
 * oldest: so there are no more in use than there were COMMITs together. */
static struct host_committing *find_place(struct host_stripe *stripe)
{
    struct host_committing *best = NULL;
    for (uint32_t i = 0; i < stripe->commit_places; i++) {
        struct host_committing *place = &stripe->committing[i];
        if (place->state == HOST_COMMIT_OVER)
            return place;
        if (!best ||
            (is_needed(place) != is_needed(best) ? is_needed(best) : place->ticket < best->ticket))
            best = place;
    }
    return stripe->commit_places < HOST_COMMITS ? &stripe->committing[stripe->commit_places] : best;
}

/* Who dies in it has sent nothing: its state comes last. */
static void take_place(struct host_stripe *stripe, struct host_committing *place, uint32_t file,
                       struct host_commit *commit)
{
    commit->place = (uint32_t)(place - stripe->committing);
    __atomic_store_n(&place->state, HOST_COMMIT_OVER, __ATOMIC_RELEASE);
    if (commit->place >= stripe->commit_places)
        __atomic_store_n(&stripe->commit_places, commit->place + 1, __ATOMIC_RELEASE);
    place->file = file;
    atomic_store_explicit(&place->slot, host_process_slot_taken(), memory_order_release);
    commit->ticket = ++stripe->commits;
    __atomic_store_n(&place->ticket, commit->ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&place->state, HOST_COMMIT_SENT, __ATOMIC_RELEASE);
}

bool host_commit_begin(struct host_file *file, struct host_commit *commit)
{
    uint32_t number = host_stripe_of_file(file);
    *commit = (struct host_commit){.began_ns = sys_now_ns()};
    uint64_t since = 0, deadline = 0, joined = 0;
    bool waited = false;
    int error;
    struct host_entry *entry;
    host_process_slot();
    while ((entry = host_entry_lock(file, false, &error))) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        stripe->commit_waiters -= waited; /* one that is killed while it waits is counted on */
        waited = false;
        if (since == 0) {
            since = stripe->commits + 1;
            deadline = commit->began_ns + longest_ns(stripe->commit_took_ns);
        }
        struct others others = look_around(stripe, host_entry_index(entry), since);
        struct host_committing *place = find_place(stripe), *wait_for = NULL;
        bool taken = is_needed(place);
        commit->began_ns = sys_now_ns();
        commit->vouches = entry->first != 0;
        if (others.vouched) {
            host_entry_unlock(file);
            return false;
        }
        if (others.newest && (others.newest->ticket >= since || others.sent >= COMMITS_OF_A_FILE))
            wait_for = others.newest;
        else if (taken)
            wait_for = place;
        if (!joined && wait_for && wait_for->ticket >= since) { /* this one has all its time */
            joined = wait_for->ticket;
            deadline = commit->began_ns + longest_ns(stripe->commit_took_ns);
        }
        if (commit->vouches && wait_for && commit->began_ns < deadline) {
            stripe->commit_waiters++;
            waited = true;
            host_stripe_wait(number, atomic_load(&wait_for->slot));
            host_entry_unlock(file);
            continue;
        }
        commit->sequence = atomic_load_explicit(&stripe->sequence, memory_order_relaxed);
        commit->replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
        if (commit->vouches && taken)
            give_up(place);
        if (commit->vouches || !taken)
            take_place(stripe, place, host_entry_index(entry), commit);
        host_entry_unlock(file);
        break;
    }
    return true;
}

void host_commit_failed(struct host_file *file, const struct host_commit *commit)
{
    if (!host_map.shared)
        return;
    uint32_t number = host_stripe_of_file(file);
    host_stripe_lock(number);
    struct host_committing *place = place_of(&host_map.shared->stripes[number], commit);
    const struct host_entry *entry = host_entry_of(file);
    if (place)
        place->state = HOST_COMMIT_OVER;
    if (entry)
        host_records_distrust(host_entry_index(entry));
    host_stripe_unlock(number);
    host_stripe_wake(number);
}

/* One of the file's that was sent up to this ticket; NULL: none. */
static struct host_committing *sent_before(struct host_stripe *stripe, uint32_t file,
                                           uint64_t ticket)
{
    for (uint32_t i = 0; i < stripe->commit_places; i++) {
        struct host_committing *place = &stripe->committing[i];
        if (place->ticket <= ticket && place->file == file && place->state == HOST_COMMIT_SENT)
            return place;
    }
    return NULL;
}

void host_commit_answered(struct host_file *file, const struct host_commit *commit)
{
    if (!commit->ticket)
        return;
    uint32_t number = host_stripe_of_file(file);
    struct host_stripe *stripe = &host_map.shared->stripes[number];
    host_stripe_lock(number);
    struct host_committing *place = place_of(stripe, commit);
    if (place) {
        uint64_t last = stripe->commits, now = sys_now_ns();
        uint64_t deadline = now + longest_ns(now - commit->began_ns);
        uint32_t entry = place->file;
        stripe->commit_took_ns = now - commit->began_ns;
        place->state = HOST_COMMIT_ANSWERED; /* two that were do not wait for each other */
        while (commit->vouches && (place = sent_before(stripe, entry, last))) {
            if (sys_now_ns() >= deadline)
                give_up(place);
            else
                host_stripe_wait(number, atomic_load(&place->slot));
        }
    }
    host_stripe_unlock(number);
    host_stripe_wake(number);
}

void host_commit_over(struct host_file *file, const struct host_commit *commit, bool vouches)
{
    if (!commit->ticket)
        return;
    uint32_t number = host_stripe_of_file(file);
    struct host_stripe *stripe = &host_map.shared->stripes[number];
    host_stripe_lock(number);
    struct host_committing *place = place_of(stripe, commit);
    vouches = vouches && stripe->commit_waiters > 0; /* else nobody needs to know */
    if (place)
        place->state = vouches ? HOST_COMMIT_VOUCHES : HOST_COMMIT_OVER;
    host_stripe_unlock(number);
    host_stripe_wake(number);
}

bool host_file_committing(struct host_file *file)
{
    const struct host_entry *entry = host_entry_peek(file);
    bool found = false;
    if (!entry)
        return false;
    uint32_t number = host_stripe_of_file(file);
    host_stripe_lock(number);
    found = sent_before(&host_map.shared->stripes[number], host_entry_index(entry), UINT64_MAX);
    host_stripe_unlock(number);
    return found;
}

void host_commits_of_dead(uint32_t slot)
{
    for (uint32_t number = 0; number < HOST_STRIPES; number++) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        for (uint32_t i = 0; i < stripe->commit_places; i++) {
            struct host_committing *place = &stripe->committing[i];
            if (atomic_load_explicit(&place->slot, memory_order_relaxed) != slot)
                continue;
            host_stripe_lock(number);
            if (atomic_load(&place->slot) == slot) {
                if (place->state == HOST_COMMIT_SENT)
                    give_up(place);
                else if (place->state == HOST_COMMIT_ANSWERED)
                    place->state = HOST_COMMIT_OVER;
            }
            host_stripe_unlock(number);
            host_stripe_wake(number);
        }
    }
}
