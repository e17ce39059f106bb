/*
 * The proof that nobody but this host changed a file since what is dirty of it, or was sent, was
 * written: for strays (strays.h). Everything is under the stripe's lock.
 *
 * The proof is the server's time of change. A file has `proof.ctime`: as long as its ctime at the
 * server is that, nobody else changed it since `proof.since`, the first write that the proof is of.
 * It is the ctime that was known as that was written behind, or that its answer told. A WRITE of
 * this host whose answer says that the file had it before makes the proof go on with the ctime of
 * after it. Answers come in any order: of those that do not follow, `proof.links` keeps some, while
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
#ifndef LEDGER_PROOF_H
#define LEDGER_PROOF_H

#include "ledger/attributes.h"
#include "ledger/store/entry.h"

/* Is the proof of this one, that is dirty? */
bool ledger_proof_is_of(const struct ledger_entry *entry, const struct ledger_record *record);

/* Before a write behind with this sequence is dirty: the proof is of it. */
void ledger_proof_covers(struct ledger_entry *entry, uint64_t sequence);
/* Before it is learned, or acknowledged: a write of this host made this of
 * the file. 0: of before it nothing is known. False: the answer is older than others, and nothing
 * tells what came between; the proof skips the write once it is acknowledged. */
bool ledger_proof_goes_on(struct ledger_entry *entry, int64_t before_ctime,
                          const struct ledger_attributes *after);
/* The proof is of nothing that was written until now. */
void ledger_proof_skips(struct ledger_entry *entry, int64_t before_ctime);
/* Somebody died in the midst of it. */
void ledger_proof_end(struct ledger_entry *entry);

#endif
