/*
 * Bytes of files that were read, or written and sent, for all processes of the host: in frames of
 * the registry, a bounded number of them.
 *
 * What a frame has is what a READ would bring now, as far as this host goes: a write drops what it
 * overlaps when it is announced, a change of size or a loss drops all of the file. What other hosts
 * write is told by the times of the file. Answers to writes of this host tell the times that those
 * made; any other time, seen while nothing of this host is on its way, drops all of the file. So a
 * frame may be given out while the server has been asked for the times since the file was opened,
 * and lately, and there was nothing new. After a lock all of the file is dropped: two changes
 * within one tick of the server's clock cannot be told apart.
 */
#ifndef LEDGER_CACHE_H
#define LEDGER_CACHE_H

#include <sys/uio.h>

#include "ledger/entries.h"

struct ledger_stamp;

/* How much a registry that this process makes has for it. Before ledger_registry_open(). */
void ledger_cache_set(uint64_t bytes);
uint32_t ledger_cache_groups(void);

/* Has the registry room for it? */
static inline bool ledger_cache_is_there(void)
{
    return ledger_map.shared && ledger_map.shared->group_count > 0;
}
/* Might there be anything of the file? */
bool ledger_cache_watches(const struct ledger_file *file);

/* The bytes at `offset`, as far as the frames have them without a gap, at most `length` and
 * LEDGER_STAMP_MAX; and what is to be known to judge them. 0: none. */
size_t ledger_cache_copy(const struct ledger_file *file, uint64_t offset, size_t length,
                         uint8_t *bytes, struct ledger_stamp *stamp);
/* Are they still what the file has, as far as this host goes, and, as far as others go, what it had
 * at `since_ns`? */
enum ledger_cache_state { LEDGER_CACHE_OLD, LEDGER_CACHE_UNSEEN, LEDGER_CACHE_GOOD };
enum ledger_cache_state ledger_cache_judge_copy(const struct ledger_file *file,
                                                const struct ledger_stamp *stamp, uint64_t offset,
                                                size_t length, uint64_t since_ns);

/* What was read from the server, or written to it, is kept, unless something else happened to the
 * file since `stamp`, which is of before the READ, or of when the WRITE was taken from the ledger.
 */
void ledger_cache_keep(struct ledger_file *file, const struct ledger_stamp *stamp, uint64_t offset,
                       const struct iovec *data, size_t length);

/* The server told `now` beside some data: asked for at `asked_ns`, as ledger_file_asking() was
 * `epoch`. */
void ledger_cache_told(struct ledger_file *file, uint64_t epoch,
                       const struct ledger_attributes *now, uint64_t asked_ns);
/* Nothing of the file is given out that was read or written until now. */
void ledger_cache_forget(struct ledger_file *file);

/* ---- under the stripe's lock ---- */

/* From now on the times of the file are watched. */
void ledger_cache_watch(struct ledger_entry *entry);
static inline void ledger_cache_drop(struct ledger_entry *entry)
{
    atomic_store(&entry->frames, ++ledger_entry_stripe(entry)->births);
}
/* Somebody writes [start, end). */
void ledger_cache_broken(const struct ledger_entry *entry, uint64_t start, uint64_t end);
/* The server told the times that a write of this host made of those before it (0: not known). If
 * none of this host made those, another host did. */
void ledger_cache_wrote(struct ledger_entry *entry, const struct ledger_attributes *now,
                        int64_t before_ctime);
/* It told the times of the file. `same`: no write of this host began or ended meanwhile. */
void ledger_cache_times(struct ledger_entry *entry, const struct ledger_attributes *now,
                        uint64_t asked_ns, bool same);

#endif
