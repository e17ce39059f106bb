/*
 * The cache of the host: bytes of files that were read, or written and sent, for all processes of
 * the host. They are in a bounded number of frames of the registry.
 *
 * A frame has what a READ would bring now, as far as this host goes. A write, when it is announced,
 * drops what it overlaps. A change of size, or a loss, drops all of the file. The times of the file
 * tell of writes by other hosts. Answers to writes of this host tell the times that those writes
 * made. Any other time, seen while nothing of this host is on its way, drops all of the file. So a
 * frame may be given out if the server was asked for the times lately, and since the file was
 * opened, and told nothing new. A lock of the file drops all of it, too: the times cannot tell
 * apart two changes within one tick of the server's clock.
 *
 * An answer to a write may hide a change by another host that came just before it: what the server
 * says that the write found need not be exact. Some do not say it at all: Linux's server, and all
 * of NFSv4.1. Then the write is assumed to have found the last known time, if the server told that
 * less than a second before. So an open after such a write drops all of the file, and so does a
 * look at the times half a minute later.
 */
#ifndef LEDGER_CACHE_H
#define LEDGER_CACHE_H

#include <sys/uio.h>

#include "ledger/entries.h"

struct ledger_stamp;

/* For a longer read a round trip is little, and a longer piece would push out what is read again.
 */
enum { LEDGER_CACHE_PIECE = 64 << 10 };

/* Sets how many bytes the cache gets in a registry that this process makes. Before
 * ledger_registry_open(). */
void ledger_cache_set(uint64_t bytes);
uint32_t ledger_cache_groups(void);

/* Has the registry room for a cache? */
static inline bool ledger_cache_is_there(void)
{
    return ledger_map.shared && ledger_map.shared->group_count > 0;
}
/* Might the cache have anything of the file? */
bool ledger_cache_watches(const struct ledger_file *file);

/* Copies the bytes at `offset`, as far as the frames have them without a gap, at most `length` and
 * LEDGER_STAMP_MAX. Takes the stamp by which ledger_cache_judge_copy() judges them. Returns how
 * many bytes; 0: none. */
size_t ledger_cache_copy(const struct ledger_file *file, uint64_t offset, size_t length,
                         uint8_t *bytes, struct ledger_stamp *stamp);
/*
 * Judges bytes that were copied.
 *   LEDGER_CACHE_OLD: this host, or another one, has changed the file.
 *   LEDGER_CACHE_UNSEEN: this host has not changed it; the server was not asked since `since_ns`.
 *   LEDGER_CACHE_GOOD: the file has these bytes, as far as this host goes. As far as others go, it
 *     had them at `since_ns`.
 */
enum ledger_cache_state { LEDGER_CACHE_OLD, LEDGER_CACHE_UNSEEN, LEDGER_CACHE_GOOD };
enum ledger_cache_state ledger_cache_judge_copy(const struct ledger_file *file,
                                                const struct ledger_stamp *stamp, uint64_t offset,
                                                size_t length, uint64_t since_ns);

/* Keeps what was read from the server, or written to it, unless something else happened to the file
 * since `stamp`. The stamp is of before the READ, or of when the WRITE was taken from the ledger.
 */
void ledger_cache_keep(struct ledger_file *file, const struct ledger_stamp *stamp, uint64_t offset,
                       const struct iovec *data, size_t length);

/* Bytes at `offset` were read from the server and are not kept: drops older ones. */
void ledger_cache_passed(struct ledger_file *file, uint64_t offset, size_t length);

/* The server told `now` together with data. The question was asked at `asked_ns`, when
 * ledger_file_asking() was `epoch`. */
void ledger_cache_told(struct ledger_file *file, uint64_t epoch,
                       const struct ledger_attributes *now, uint64_t asked_ns);
/* Drops all of the file: what was read or written until now is not given out any more. */
void ledger_cache_forget(struct ledger_file *file);
/* The file was opened. What others changed before `asked_ns` must be seen. */
void ledger_cache_opened(struct ledger_file *file, uint64_t asked_ns);

/* ---- under the stripe's lock ---- */

/* From now on the times of the file are watched. */
void ledger_cache_watch(struct ledger_entry *entry);
/* What is kept later is what the file has then. So no earlier change by others needs to be seen. */
static inline void ledger_cache_drop(struct ledger_entry *entry)
{
    atomic_store(&entry->frames, ++ledger_entry_stripe(entry)->births);
    entry->frames_assumed = 0;
}
/* A process writes [start, end): drops the frames there. */
void ledger_cache_broken(const struct ledger_entry *entry, uint64_t start, uint64_t end);
/* The server told the times `now` that a write of this host made, which was sent at `sent_ns`, and
 * the change time before that write (0: not told). If no write of this host made that earlier time,
 * another host did. */
void ledger_cache_wrote(struct ledger_entry *entry, const struct ledger_attributes *now,
                        int64_t before_ctime, uint64_t sent_ns);
/* The server told the times of the file. `same`: no write of this host began or ended since it was
 * asked. */
void ledger_cache_times(struct ledger_entry *entry, const struct ledger_attributes *now,
                        uint64_t asked_ns, bool same);

#endif
