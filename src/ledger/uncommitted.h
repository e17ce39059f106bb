/*
 * Data that is written and not committed: how much there is, which process answers for it, and what
 * became of it.
 */
#ifndef LEDGER_UNCOMMITTED_H
#define LEDGER_UNCOMMITTED_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/* Bytes that are dirty, or sent and not committed: of a file, by all processes of the host; and of
 * all files. No lock. */
uint64_t ledger_file_uncommitted(struct ledger_file *file);
uint64_t ledger_uncommitted(void);
/* Is nothing of the file dirty, on its way or acknowledged? Takes the stripe's lock. False: not
 * known. */
bool ledger_file_is_settled(struct ledger_file *file);
/* The bytes of a file that are acknowledged and not committed. */
uint64_t ledger_file_acknowledged(struct ledger_file *file);

/* Has the file uncommitted data at `size` or behind it? A few loads if it has no uncommitted data.
 */
bool ledger_file_uncommitted_beyond(struct ledger_file *file, uint64_t size);

/* How often data of the file was written again, or written over, because the server may have lost
 * it. If this changes during a read, the read may have missed the data. */
uint64_t ledger_file_replays(struct ledger_file *file);

/*
 * Has the file uncommitted data that this process answers for? That is what it has in records of
 * its own. It is also all that is dirty: the records of others may have bytes of this process. If
 * it `wrote` the file, it answers for all uncommitted data: another process may have sent what it
 * wrote. False if it has no slot, as a child of fork() that wrote nothing itself.
 */
bool ledger_file_uncommitted_here(struct ledger_file *file, bool wrote);

/*
 * Is some uncommitted data of the file acknowledged with another verifier than this one? Then the
 * server restarted since, and may tell of the file without that data.
 */
bool ledger_file_verifier_differs(struct ledger_file *file, uint64_t verifier);

/* May the server have lost uncommitted data of the file, because a COMMIT failed? */
bool ledger_file_distrusted(struct ledger_file *file);

/*
 * Drops the uncommitted data of the file, which can go nowhere. Returns how many bytes. `missed`:
 * the file is not gone, so somebody may miss the data. Then all other processes that know the file
 * learn of the loss by ledger_file_lost().
 */
uint64_t ledger_file_forget(struct ledger_file *file, bool missed);
struct ledger_entry;
/* The same for data that was dropped otherwise. Under the stripe's lock. `file`: of the caller, who
 * knows of the loss. */
void ledger_entry_missed(struct ledger_entry *entry, struct ledger_file *file);
/* True once in a process, after data was dropped that somebody may miss: its fsync must fail. True
 * also in a process that attached the file later, if nobody had been told until then. */
bool ledger_file_lost(struct ledger_file *file);
/*
 * As ledger_file_lost(), for one open file. A process, or a process and its children, may have
 * several of one file. Begin: a loss that nobody was told of is news for this open file. Move:
 * *seen is at another place from now on, which other processes may share.
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
 * Walks the files that have uncommitted data: of this `server`, or of any (0). `orphans`: only
 * files with data of processes that are known to be dead (ledger_process_sweep()). Another process
 * may have sent such data since; it need not commit it. *cursor starts at 0. False at the end. Used
 * to commit the file with most data when the ledger is full, to commit what dead processes left,
 * and by sync().
 *
 * ledger_file_owes(): before a process commits for the dead, it notes that the file owes them
 * nothing. If it fails, it notes that the file does.
 */
void ledger_file_owes(struct ledger_file *file, bool owes);
bool ledger_uncommitted_next(uint32_t *cursor, uint64_t server, bool orphans,
                             struct ledger_file *file);

#endif
