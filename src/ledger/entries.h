/*
 * Entries of files in the registry.
 */
#ifndef LEDGER_ENTRIES_H
#define LEDGER_ENTRIES_H

#include "ledger/attributes.h"
#include "ledger/store/hold.h"
#include "ledger/store/lists.h"
#include "ledger/store/records.h"
#include "ledger/store/stripes.h"

/*
 * Finds the entry again if it was recycled, making it if `make`, and returns it with its stripe
 * locked; NULL, with nothing locked, if there is none: in *result (may be NULL) -ESTALE if there is
 * one with another handle that may be of the same file, so that this one must be looked up again;
 * -ENOSPC if there is no room; -ENOENT.
 */
struct ledger_entry *ledger_entry_lock(struct ledger_file *file, bool make, int *result);
void ledger_entry_unlock(const struct ledger_file *file);
/* The entry without a lock, for single atomic loads; NULL: there is none. */
struct ledger_entry *ledger_entry_peek(struct ledger_file *file);
/* The stripe of a file's entry, whether there is one or not. */
uint32_t ledger_stripe_of_inode(uint64_t device, uint64_t inode);
static inline uint32_t ledger_stripe_of_file(const struct ledger_file *file)
{
    return ledger_stripe_of_inode(file->key.device, file->key.inode);
}
/* The entries with this device and inode, which may be of several files: the next after `last`, or
 * the first if that is NULL; NULL: no more. They stay only under the stripe's lock. */
struct ledger_entry *ledger_entry_next(uint64_t device, uint64_t inode,
                                       const struct ledger_entry *last);
/* Under the stripe's lock: the entry that has this key, by its handle; NULL: none. */
struct ledger_entry *ledger_entry_find(const struct ledger_file_key *key);
/* Under the stripe's lock: the entry of a file, remembered or by its key; NULL: none. */
struct ledger_entry *ledger_entry_of(const struct ledger_file *file);
/* The entry that a process remembers, if it still is of the same file. Generations are unique in a
 * stripe, so a torn pair of index and generation matches nothing. No lock. */
struct ledger_entry *ledger_entry_remembered(const struct ledger_file *file);

/* Fills in whose entry it is. Under the stripe's lock. */
void ledger_entry_name(const struct ledger_entry *entry, struct ledger_file *file);

#endif
