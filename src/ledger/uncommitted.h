/*
 * Data that is written and not committed: how much, whose, and what became of it.
 */
#ifndef LEDGER_UNCOMMITTED_H
#define LEDGER_UNCOMMITTED_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/* Bytes that are not on stable storage in a file (by all processes of the host); and in all files:
 * dirty, or sent and not committed. No lock. */
uint64_t ledger_file_uncommitted(struct ledger_file *file);
uint64_t ledger_uncommitted(void);
/* Those of a file that were sent and acknowledged. */
uint64_t ledger_file_acknowledged(struct ledger_file *file);

/* Is some of a file at `size` or behind it? A few loads where none is uncommitted. */
bool ledger_file_uncommitted_beyond(struct ledger_file *file, uint64_t size);

/* Counts how often data of the file was written again, or written over, because the server may
 * have lost it. A read during which this changes may have missed the data. */
uint64_t ledger_file_replays(struct ledger_file *file);

/*
 * Has the file uncommitted data that this process answers for? That is what it wrote, or sent for
 * others. If it `wrote` the file, that is all there is: another process may have sent what this one
 * wrote, or have it in its own records. False in a child of fork() that wrote nothing itself.
 */
bool ledger_file_uncommitted_here(struct ledger_file *file, bool wrote);

/*
 * Is some uncommitted data of the file acknowledged with another verifier than this one? (Then the
 * server restarted since, and what it says of the file may lack that data.)
 */
bool ledger_file_verifier_differs(struct ledger_file *file, uint64_t verifier);

/* May the server have lost uncommitted data of the file, because a COMMIT failed? */
bool ledger_file_distrusted(struct ledger_file *file);

/*
 * Drops the uncommitted data of the file, which can go nowhere. Returns bytes. `missed`: the file
 * is not gone, so somebody may miss the data; all other processes that know the file learn of the
 * loss by ledger_file_lost().
 */
uint64_t ledger_file_forget(struct ledger_file *file, bool missed);
/* True once in a process after data was dropped that somebody may miss: its fsync must fail.
 * Also in a process that attached the file later, if nobody was told until then. */
bool ledger_file_lost(struct ledger_file *file);
/*
 * The same for one open file, of those that a process, or a process and its children, have of it.
 * Begin: what nobody was told until now is news for it. Move: *seen is at another place from now
 * on, which others may share.
 */
void ledger_seen_begin(struct ledger_file *file, struct ledger_seen *seen);
void ledger_seen_move(struct ledger_file *file, struct ledger_seen *_Atomic *seen,
                      struct ledger_seen *to);
bool ledger_file_lost_by(struct ledger_file *file, struct ledger_seen *_Atomic *seen);
/* Would ledger_file_lost_by() be true? */
bool ledger_file_loses_by(struct ledger_file *file, struct ledger_seen *_Atomic *seen);
/* errno of the last loss. */
int ledger_file_loss_error(struct ledger_file *file);
/* Would ledger_file_lost() be true? */
bool ledger_file_has_loss(struct ledger_file *file);

/*
 * Walks the files that have uncommitted data: of this `server` (0: of any); with `orphans` only
 * those that have data of processes that are known to be dead (ledger_process_sweep()), or had, and
 * another process sent it, who need not commit it. *cursor starts at 0. False at the end. For
 * committing the largest user when the ledger is full, what dead processes left behind, and sync().
 * Who commits for the dead says before that the file owes them nothing, and if it fails that it
 * does.
 */
void ledger_file_owes(struct ledger_file *file, bool owes);
bool ledger_uncommitted_next(uint32_t *cursor, uint64_t server, bool orphans,
                             struct ledger_file *file);

#endif
