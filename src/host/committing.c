/*
 * COMMITs on their way. A server may tell an error of its disk to one COMMIT only, and forget the
 * data: the success of another, which it answered later, says nothing of that data, though the
 * failure may not have been noted yet. So each COMMIT is noted in the stripe until its answer is
 * known, and one that succeeded waits for those that were sent before its answer came.
 */
#include "host/shared.h"
#include "sys/sys.h"

#define LONGEST_NS UINT64_C(1000000000) /* a process may be stopped, or a path be dead */

/* NULL: the COMMIT is not noted any more: it was given up. */
static struct host_committing *place_of(struct host_stripe *stripe,
                                        const struct host_commit *commit)
{
    struct host_committing *place = &stripe->committing[commit->place];
    return place->ticket == commit->ticket ? place : NULL;
}

/* It failed, or its answer is not waited for: what it was to vouch for counts as lost. */
static void give_up(struct host_committing *place)
{
    const struct host_entry *entry = &host_map.entries[place->file];
    for (uint32_t i = entry->first; i; i = host_record(i)->file_next) {
        if (host_record(i)->sequence > place->sequence)
            break;
        host_record(i)->distrusted = 1;
    }
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
    uint64_t deadline = sys_now_ns() + LONGEST_NS;
    int error;
    *commit = (struct host_commit){0};
    struct host_entry *entry;
    while ((entry = host_entry_lock(file, false, &error))) {
        struct host_stripe *stripe = &host_map.shared->stripes[number];
        struct host_committing *place = find_place(stripe);
        commit->sequence = atomic_load_explicit(&stripe->sequence, memory_order_relaxed);
        if (entry->first && place->ticket && sys_now_ns() < deadline) {
            host_stripe_wait(number, atomic_load(&place->slot));
            host_entry_unlock(file);
            continue;
        }
        if (entry->first) {
            if (place->ticket)
                give_up(place);
            place->file = host_entry_index(entry);
            place->sequence = commit->sequence;
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
    if (!commit->ticket)
        return;
    uint32_t number = host_stripe_of_file(file);
    host_stripe_lock(number);
    struct host_committing *place = place_of(&host_map.shared->stripes[number], commit);
    if (place)
        give_up(place);
    host_stripe_unlock(number);
    host_stripe_wake(number);
}

/* One of the file's that was sent up to this ticket, and would take data along if it failed; NULL:
 * none. */
static struct host_committing *sent_before(struct host_stripe *stripe, uint32_t file,
                                           uint64_t ticket)
{
    uint32_t first = host_map.entries[file].first;
    for (int i = 0; i < HOST_COMMITS && first; i++) {
        struct host_committing *place = &stripe->committing[i];
        if (place->ticket && place->ticket <= ticket && place->file == file &&
            host_record(first)->sequence <= place->sequence)
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
        uint64_t last = stripe->commits, deadline = sys_now_ns() + LONGEST_NS;
        uint32_t entry = place->file;
        place->ticket = 0; /* two that were answered do not wait for each other */
        while ((place = sent_before(stripe, entry, last))) {
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
