/*
 * Files registered with a ring (io_uring_register_files). The application may close the descriptor
 * afterwards. The slot keeps the file, in the kernel and here.
 */
#include <stdlib.h>
#include <string.h>

#include "file/table.h"
#include "preload/uring/uring.h"
#include "sys/log.h"

enum { EMPTY = -1, KEEP = -2 }; /* entries of an update that are not descriptors */

/* Under the record's lock. */
static void clear(struct uring_slot *slot)
{
    if (slot->open)
        file_put(slot->open);
    slot->open = NULL;
    slot->fd = -1;
    slot->lost = false;
}

static void clear_all(struct uring *record)
{
    for (unsigned i = 0; i < record->slot_count; i++)
        clear(&record->slots[i]);
    free(record->slots);
    record->slots = NULL;
    record->slot_count = 0;
    atomic_store(&record->has_slots, false);
}

void uring_files_updated(struct uring *record, unsigned offset, const int *files, unsigned count)
{
    if (!record)
        return;
    struct preload_stay stay = preload_stay_begin();
    pthread_mutex_lock(&record->lock);
    for (unsigned i = 0; i < count && offset + i < record->slot_count; i++) {
        struct uring_slot *slot = &record->slots[offset + i];
        int fd = files ? files[i] : EMPTY;
        if (fd == KEEP)
            continue;
        clear(slot);
        slot->open = fd >= 0 ? file_get(fd) : NULL;
        slot->fd = fd;
        if (slot->open)
            atomic_store(&record->has_slots, true);
    }
    pthread_mutex_unlock(&record->lock);
    preload_stay_end(stay);
}

void uring_files_made(struct uring *record, const int *files, unsigned count)
{
    if (!record)
        return;
    struct preload_stay stay = preload_stay_begin();
    pthread_mutex_lock(&record->lock);
    clear_all(record);
    record->slots = calloc(count, sizeof(*record->slots));
    if (record->slots)
        record->slot_count = count;
    pthread_mutex_unlock(&record->lock);
    preload_stay_end(stay);
    if (files && record->slots) {
        uring_files_updated(record, 0, files, count);
    } else if (files) { /* no memory: we cannot follow them, so they are the kernel's */
        for (unsigned i = 0; i < count; i++)
            preload_demote(files[i], "registered with a ring");
    }
}

void uring_files_gone(struct uring *record)
{
    if (!record)
        return;
    struct preload_stay stay = preload_stay_begin();
    pthread_mutex_lock(&record->lock);
    clear_all(record);
    pthread_mutex_unlock(&record->lock);
    preload_stay_end(stay);
}

struct file_open *uring_files_get(struct uring *record, unsigned slot, int *fd)
{
    struct file_open *open = NULL;
    pthread_mutex_lock(&record->lock);
    if (slot < record->slot_count && record->slots[slot].open) {
        open = record->slots[slot].open;
        file_hold(open);
        *fd = record->slots[slot].fd;
    }
    pthread_mutex_unlock(&record->lock);
    return open;
}

bool uring_files_managed(struct uring *record, unsigned slot)
{
    if (!atomic_load_explicit(&record->has_slots, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&record->lock);
    bool managed =
        slot < record->slot_count && (record->slots[slot].open || record->slots[slot].lost);
    pthread_mutex_unlock(&record->lock);
    return managed;
}

/* The engine has forgotten the references of this room. Files that are still open under their
 * number get a new one. For all others the kernel has a descriptor that cannot be reached. So they
 * cannot be demoted, and requests for them fail. */
void uring_files_child(struct uring *record)
{
    for (unsigned i = 0; i < record->slot_count; i++) {
        struct uring_slot *slot = &record->slots[i];
        if (!slot->open)
            continue;
        struct file_open *open = slot->fd >= 0 ? file_get(slot->fd) : NULL;
        if (open && open != slot->open) {
            file_put(open);
            open = NULL;
        }
        slot->open = open;
        slot->lost = !open;
    }
}
