/*
 * Strays: what a dead process left of a file, in nobody's care: the agent that watched the process
 * is dead as well (agent.h). Another process may send a stray only after the proof that nobody else
 * changed the file (durable/stray.h, proof.h).
 */
#ifndef LEDGER_STRAYS_H
#define LEDGER_STRAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/file.h"

/*
 * ledger_file_has_strays(): has the file dirty data in nobody's care? Mostly loads.
 * ledger_file_has_sent_strays(): has it such data that was sent, and that no COMMIT vouches for?
 * That is a stray for a process that would write it again, should the server have lost it. What
 * follows is for one kind or for the other (`sent`).
 */
bool ledger_file_has_strays(struct ledger_file *file);
bool ledger_file_has_sent_strays(struct ledger_file *file);

/*
 * The server has just told `now`, in answer to a question asked at `epoch`. Has nobody but this
 * host changed the file since the data that the proof covers was written? LEDGER_STRAY_ASK:
 * something of this host is in the way, or an answer may yet explain the time; ask again.
 */
enum ledger_stray_proof { LEDGER_STRAY_PROVEN, LEDGER_STRAY_NOT_PROVEN, LEDGER_STRAY_ASK };
struct ledger_attributes;
enum ledger_stray_proof ledger_file_prove_strays(struct ledger_file *file, uint64_t epoch,
                                                 const struct ledger_attributes *now, bool sent);
/* Call this after the proven strays were sent (ledger_sending.strays), or when none were found:
 * notes it if none is left. */
void ledger_file_end_strays(struct ledger_file *file);
/* Some data of the file may be lost: tells the open files that exist now, and no later ones. */
void ledger_file_tell_loss(struct ledger_file *file);

/*
 * The caller sees to strays of the file. It marks them, with a number of its own (0: there are
 * none). It looks at each one, first with `from` = 0, then behind the last one. `bytes`: at most
 * LEDGER_STRAY_MAX of them; length 0: there are no more. Then it drops those that still have its
 * mark, as they are safe elsewhere, or as the server has them. That returns their bytes. Strays
 * lose the mark to a process that marks them later, or that writes there.
 */
enum ledger_stray_set {
    LEDGER_STRAYS_UNPROVEN, /* dirty strays that the proof does not cover */
    LEDGER_STRAYS_UNSENT,   /* all dirty strays */
    LEDGER_STRAYS_SENT,
    LEDGER_STRAYS_LOST /* no strays: ledger_file_mark_lost() */
};
enum { LEDGER_STRAY_MAX = 1 << 16 };
struct ledger_stray {
    uint64_t offset;
    uint32_t length;
    bool late; /* the data at the server may yet change, as something of this host is on its way */
};
uint64_t ledger_file_mark_strays(struct ledger_file *file, enum ledger_stray_set set);
struct ledger_stray ledger_file_stray(struct ledger_file *file, uint64_t mark, bool sent,
                                      uint64_t from, uint8_t *bytes);
/* The server has the very bytes of the marked stray that begins at `offset`. False: it has no mark
 * any more, or a write of this host on its way may undo that. */
bool ledger_file_stray_arrived(struct ledger_file *file, uint64_t mark, bool sent, uint64_t offset);
/*
 * Marks what the COMMIT does not vouch for, whoever wrote it: the server lost it, and it is not
 * written again, as somebody else changed the file. For the other functions it is `sent`. drop_lost
 * drops what is marked, as ledger_file_drop_strays() does. But the loss is not told yet: the next
 * fsync does, of whoever opens the file later, too. The caller knows of it.
 */
struct ledger_commit;
uint64_t ledger_file_mark_lost(struct ledger_file *file, const struct ledger_commit *commit);
uint64_t ledger_file_drop_lost(struct ledger_file *file, uint64_t mark);
/* drop_strays: drops the marked strays that have not arrived, as they are set aside. The loss is
 * told to the open files that exist now, and to no later ones. drop_arrived: drops those that have
 * arrived, and that a COMMIT vouches for. They are no loss. But what is `distrusted` stays, as no
 * COMMIT can vouch for it. */
uint64_t ledger_file_drop_strays(struct ledger_file *file, uint64_t mark, bool sent);
uint64_t ledger_file_drop_arrived(struct ledger_file *file, uint64_t mark, bool sent);

#endif
