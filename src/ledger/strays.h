/*
 * Strays: what a dead process left of a file, and what is in nobody's care, as the agent that
 * watched it is dead as well (agent.h). Who comes upon it may send it only after the proof that
 * nobody else changed the file (durable/stray.h).
 *
 * The proof is the server's time of change. A file has `proof_ctime`: as long as its ctime at the
 * server is that, nobody else changed it since `proof_since`, the first write that the proof is of.
 * It is the ctime that was known as that was written behind, or that its answer told. A WRITE of
 * this host whose answer says that the file had it before makes the proof go on with the ctime of
 * after it. Answers come in any order: of those that do not follow, `proof_links` keeps some, while
 * something is dirty or not committed. (Not the time of modification: that can be set, as a backup
 * is restored. Nor what a GETATTR tells, or a later WRITE, as others may have changed the file
 * before it.)
 *
 * An answer that does not tell the ctime of before, as in NFSv4.1 and of some servers in NFSv3,
 * ends the proof: others may have changed the file just before that WRITE. A GETATTR before it in
 * the same COMPOUND would not tell, as that is not atomic (RFC 8881 section 16.2). Nor would a
 * change attribute that has grown by one: many servers let it grow only once after it was looked
 * at. So a new proof begins, of that write and of what is written from then on.
 *
 * What was on its way as its process died ends nothing. If the server has carried it out the file
 * has another ctime, and nobody can tell what else happened; if it has not, it has the old one.
 *
 * What was sent is proven by the same writes, but by the time of modification that they left, or an
 * older one: the server lost something, and may have made the file anew as it recovered. Answers
 * that do not tell the ctime of before do not end that proof, unless a dead process has left
 * something for which nobody cares: only then may another host have taken over, and been there.
 */
#ifndef LEDGER_STRAYS_H
#define LEDGER_STRAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/*
 * Has the file dirty data in the care of nobody? Loads, for most files. And data that was sent, and
 * that no COMMIT vouches for: it is a stray for who would write it again, should the server have
 * lost it. What follows is of one or of the other (`sent`).
 */
bool ledger_file_has_strays(struct ledger_file *file);
bool ledger_file_has_sent_strays(struct ledger_file *file);

/*
 * The server has just told `now`, in answer to a question asked at `epoch`: has nobody but this
 * host changed the file since what the proof is of was written? LEDGER_STRAY_ASK: something of this
 * host is in its way, or an answer may yet explain the time; ask again.
 */
enum ledger_stray_proof { LEDGER_STRAY_PROVEN, LEDGER_STRAY_NOT_PROVEN, LEDGER_STRAY_ASK };
struct ledger_attributes;
enum ledger_stray_proof ledger_file_prove_strays(struct ledger_file *file, uint64_t epoch,
                                                 const struct ledger_attributes *now, bool sent);
/* After those that the proof is of were sent (ledger_sending.strays), or none were found: none may
 * be left. */
void ledger_file_end_strays(struct ledger_file *file);
/* Some of what the file had may be lost: that is told to those who have it open now. */
void ledger_file_tell_loss(struct ledger_file *file);

/*
 * The caller sees to strays of the file: it marks them, with a number of its own (0: there are
 * none), and looks at each, beginning with `from` = 0 and going on behind the last one (`bytes`: at
 * most LEDGER_STRAY_MAX; length 0: there are no more). It drops those that have its mark still, as
 * they are safe elsewhere, or as the server has them: which returns their bytes. Others have lost
 * it: to a process that marked them later, or to one that wrote there.
 */
enum ledger_stray_set {
    LEDGER_STRAYS_UNPROVEN, /* those that the proof is not of */
    LEDGER_STRAYS_UNSENT,   /* all that are dirty */
    LEDGER_STRAYS_SENT
};
enum { LEDGER_STRAY_MAX = 1 << 16 };
struct ledger_stray {
    uint64_t offset;
    uint32_t length;
    bool late; /* what is at the server may yet change, as of this host something is on its way */
};
uint64_t ledger_file_mark_strays(struct ledger_file *file, enum ledger_stray_set set);
struct ledger_stray ledger_file_stray(struct ledger_file *file, uint64_t mark, bool sent,
                                      uint64_t from, uint8_t *bytes);
/* The server has the very bytes of the marked one that begins there. False: it has no mark, or a
 * write of this host that is on its way may undo that. */
bool ledger_file_stray_arrived(struct ledger_file *file, uint64_t mark, bool sent, uint64_t offset);
/* Those that are marked, and have not arrived, are set aside: the loss is told to those who have
 * the file open now, and not to those who open it later. Those that arrived, and that a COMMIT
 * vouches for, are no loss; but what is `distrusted` stays, as no COMMIT can. */
uint64_t ledger_file_drop_strays(struct ledger_file *file, uint64_t mark, bool sent);
uint64_t ledger_file_drop_arrived(struct ledger_file *file, uint64_t mark, bool sent);

/* ---- under a lock ---- */

struct ledger_entry;
/* Under the stripe's lock, before records of the file that were of `slot` are nobody's: that
 * process is dead. `flag`: LEDGER_ENTRY_ORPHANED, or ORPHANED_SENT. */
void ledger_entry_orphan(struct ledger_entry *entry, uint32_t slot, uint32_t flag);

/* Under the stripe's lock, before a record of the file is acknowledged: if nobody has it, it is
 * with the agent that had it in its care. */
struct ledger_record;
void ledger_entry_orphan_sent(struct ledger_entry *entry, const struct ledger_record *record);
/* Under the stripe's lock, or a look without: see ledger_file_has_strays(). */
bool ledger_entry_has_strays(const struct ledger_entry *entry);
/* Under the stripe's lock: is the proof of this one, that is dirty? */
bool ledger_proof_is_of(const struct ledger_entry *entry, const struct ledger_record *record);

/* Under the stripe's lock, before a write behind with this sequence is dirty: the proof is of it.
 */
void ledger_proof_covers(struct ledger_entry *entry, uint64_t sequence);
/* Under the stripe's lock, before it is learned, or acknowledged: a write of this host made this of
 * the file. 0: of before it nothing is known. False: the answer is older than others, and nothing
 * tells what came between; the proof skips the write once it is acknowledged. */
bool ledger_proof_goes_on(struct ledger_entry *entry, int64_t before_ctime,
                          const struct ledger_attributes *after);
/* Under the stripe's lock: the proof is of nothing that was written until now. */
void ledger_proof_skips(struct ledger_entry *entry, int64_t before_ctime);
/* Under the stripe's lock: somebody died in the midst of it. */
void ledger_proof_end(struct ledger_entry *entry);

#endif
