/*
 * COMMITs on their way. A server may tell an error of its disk to one COMMIT only, and forget the
 * data: the success of another, which it answered later, says nothing of that data, though the
 * failure may not have been noted yet. So each COMMIT is noted in the stripe until its answer is
 * known, and one that succeeded waits for those that were sent before its answer came.
 *
 * The data that is forgotten is all that the server had when it met the error. That includes writes
 * that were acknowledged after the COMMIT was sent, and some whose answer is yet to come.
 */
#include "host/shared.h"
#include "sys/sys.h"

/* So long others are waited for: their process may be stopped, or their path be dead. But a server
 * that took longer for this COMMIT may take as long for those. */
#define LONGEST_NS    UINT64_C(1000000000)
#define LONGEST_TIMES 2

/* NULL: the COMMIT is not noted, or not any more: it was given up. */
static struct host_committing *place_of(struct host_stripe *stripe,
                                        const struct host_commit *commit)
{
    struct host_committing *place = &stripe->committing[commit->place];
    return commit->ticket && place->ticket == commit->ticket ? place : NULL;
}

/* Its answer is not waited for: it counts as failed. */
static void give_up(struct host_committing *place)
{
    host_records_distrust(place->file);
    place->ticket = 0;
}

/* A free place, or that of the oldest. */
static struct host_committing *find_place(struct host_stripe *stripe)
{
    struct host_committing *best = stripe->committing;
    for (int i = 1; i < HOST_COMMITS; i++) {
        if (stripe->committing[i].ticket < best->ticket)
            best = &stripe->committing[i];
    }
    return best;
}

void host_commit_begin(struct host_file *file, struct host_commit *commit)
{
    uint32_t slot = host_process_slot(), number = host_stripe_of_file(file);
    *commit = (struct host_commit){.began_ns = sys_now_ns()};
    uint64_t deadline = commit->began_ns + LONGEST_NS;
    int error;
    struct host_entry *entry;
    while ((entry = host_entry_lock(file, false, &error))) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        struct host_committing *place = find_place(stripe);
        commit->sequence = atomic_load_explicit(&stripe->sequence, memory_order_relaxed);
        commit->vouches = entry->first != 0;
        if (commit->vouches && place->ticket && sys_now_ns() < deadline) {
            host_stripe_wait(number, atomic_load(&place->slot));
            host_entry_unlock(file);
            continue;
        }
        if (commit->vouches && place->ticket)
            give_up(place);
        if (!place->ticket) {
            place->file = host_entry_index(entry);
            atomic_store_explicit(&place->slot, slot, memory_order_relaxed);
            commit->place = (uint32_t)(place - stripe->committing);
            commit->ticket = ++stripe->commits;
            __atomic_store_n(&place->ticket, commit->ticket, __ATOMIC_RELEASE);
        }
        host_entry_unlock(file);
        return;
    }
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
        place->ticket = 0;
    if (entry)
        host_records_distrust(host_entry_index(entry));
    host_stripe_unlock(number);
    host_stripe_wake(number);
}

/* One of the file's that was sent up to this ticket; NULL: none. */
static struct host_committing *sent_before(struct host_stripe *stripe, uint32_t file,
                                           uint64_t ticket)
{
    for (int i = 0; i < HOST_COMMITS; i++) {
        struct host_committing *place = &stripe->committing[i];
        if (place->ticket && place->ticket <= ticket && place->file == file)
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
        uint64_t took = (now - commit->began_ns) * LONGEST_TIMES;
        uint64_t deadline = now + (took > LONGEST_NS ? took : LONGEST_NS);
        uint32_t entry = place->file;
        place->ticket = 0; /* two that were answered do not wait for each other */
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

void host_commits_of_dead(uint32_t slot)
{
    for (uint32_t number = 0; number < HOST_STRIPES; number++) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        for (int i = 0; i < HOST_COMMITS; i++) {
            struct host_committing *place = &stripe->committing[i];
            if (atomic_load_explicit(&place->slot, memory_order_relaxed) != slot)
                continue;
            host_stripe_lock(number);
            if (place->ticket && atomic_load(&place->slot) == slot)
                give_up(place);
            host_stripe_unlock(number);
            host_stripe_wake(number);
        }
    }
}
