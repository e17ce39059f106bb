/*
 * The proof that nobody but this host changed a file since its dirty data, or what was sent of it,
 * was written: for strays (strays.h). Everything is under the stripe's lock.
 *
 * The proof is the server's change time. A file has `proof.ctime`. As long as the server tells that
 * ctime, nobody else changed the file since `proof.since`. That is the first write that the proof
 * covers. The ctime is what was known when that write was left behind, or what the answer to it
 * told. The answer to a WRITE of this host may say that the file had `proof.ctime` before it. Then
 * the proof goes on with the ctime after it. Answers come in any order. Of those that do not
 * follow, `proof.links` keeps some, while something is dirty or not committed.
 *
 * The modification time is no proof: it can be set, as when a backup is restored. Nor is what a
 * GETATTR tells, or a later WRITE: others may have changed the file before it.
 *
 * An answer may not tell the ctime before the WRITE: in NFSv4.1, and from some servers in NFSv3. It
 * ends the proof, as others may have changed the file just before that WRITE. A GETATTR before it
 * in the same COMPOUND would not tell, as that is not atomic (RFC 8881 section 16.2). Nor would a
 * change attribute that has grown by one: many servers let it grow only once after it was looked
 * at. So a new proof begins, of that write and of what is written from then on.
 *
 * What was on its way when its process died ends nothing. If the server has carried it out, the
 * file has another ctime, and nobody can tell what else happened. If not, the file has the old
 * ctime.
 *
 * What was sent is proven by the same writes. But here the file may have the modification time that
 * they left, or an older one: the server lost something, and may have made the file anew as it
 * recovered. Answers that do not tell the ctime before mostly do not end this proof. They do if a
 * dead process has left something in nobody's care. Only then may another host have taken over, and
 * changed the file.
 */
#ifndef LEDGER_PROOF_H
#define LEDGER_PROOF_H

#include "ledger/attributes.h"
#include "ledger/store/entry.h"

/* Does the proof cover this dirty record? */
bool ledger_proof_is_of(const struct ledger_entry *entry, const struct ledger_record *record);

/* Call this before a write behind with this sequence becomes dirty: makes sure that the proof
 * covers it. */
void ledger_proof_covers(struct ledger_entry *entry, uint64_t sequence);
/* A write of this host made `after` of the file. The ctime before it was `before_ctime` (0: not
 * known). Call this before the attributes are learned and the write is acknowledged. False: the
 * answer is older than others, and nothing tells what came between. Then the caller calls
 * ledger_proof_skips() once the write is acknowledged. */
bool ledger_proof_goes_on(struct ledger_entry *entry, int64_t before_ctime,
                          const struct ledger_attributes *after);
/* From now on the proof covers nothing that was written until now. */
void ledger_proof_skips(struct ledger_entry *entry, int64_t before_ctime);
/* There is no proof any more, for example as a process died while it changed the stripe. */
void ledger_proof_end(struct ledger_entry *entry);

#endif
