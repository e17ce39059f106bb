/*
 * Strays: what a dead process left of a file, and what is in nobody's care, as the agent that
 * watched it is dead as well (agent.h). Who comes upon it may send it only after the proof that
 * nobody else changed the file (file/stray.h, proof.h).
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

#endif
