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
 * Finds the entry of the file, also if its place was recycled; makes it if `make`. Returns it with
 * its stripe locked. NULL: nothing is locked, and *result (may be NULL) is the reason:
 *   -ESTALE: an entry with another handle may be of the file, which must be looked up again.
 *   -ENOSPC: there is no room for an entry, or no registry.
 *   -ENOENT: there is none, and `make` is false.
 */
struct ledger_entry *ledger_entry_lock(struct ledger_file *file, bool make, int *result);
void ledger_entry_unlock(const struct ledger_file *file);
/* The entry, for single atomic loads without the lock; NULL: there is none. */
struct ledger_entry *ledger_entry_peek(struct ledger_file *file);
/* The stripe where the entry of such a file is, or would be. */
uint32_t ledger_stripe_of_inode(uint64_t device, uint64_t inode);
static inline uint32_t ledger_stripe_of_file(const struct ledger_file *file)
{
    return ledger_stripe_of_inode(file->key.device, file->key.inode);
}
/* The next entry with this device and inode after `last`; the first if `last` is NULL. NULL: no
 * more. They may be of several files. They stay only under the stripe's lock. */
struct ledger_entry *ledger_entry_next(uint64_t device, uint64_t inode,
                                       const struct ledger_entry *last);
/* The entry with this key, by its handle; NULL: none. Under the stripe's lock. */
struct ledger_entry *ledger_entry_find(const struct ledger_file_key *key);
/* The entry of a file, remembered or by its key; NULL: none. Under the stripe's lock. */
struct ledger_entry *ledger_entry_of(const struct ledger_file *file);
/* The entry that this process remembers, if it still is of the same file; else NULL. Generations
 * are unique in a stripe, so a torn pair of index and generation matches nothing. No lock. */
struct ledger_entry *ledger_entry_remembered(const struct ledger_file *file);

/* Fills in `file`, as the hold on this entry. Under the stripe's lock. */
void ledger_entry_name(const struct ledger_entry *entry, struct ledger_file *file);

#endif
