/*
 * COMMITs: which data they vouch for, and what must be written again.
 */
#ifndef LEDGER_COMMITS_H
#define LEDGER_COMMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/file.h"
#include "ledger/writes.h"

/*
 * A COMMIT of a file:
 *
 *   if (ledger_commit_begin(file, &commit)) {
 *       ... COMMIT ...
 *       either ledger_commit_failed() or ledger_commit_end()
 *   }
 *
 * `ledger_commit_begin` notes which acknowledged writes the COMMIT vouches for. It waits while
 * several COMMITs of the file are under way. False: no COMMIT is needed. Another one, of any
 * process, was sent meanwhile, and vouches for all that was acknowledged before the call.
 *
 * `ledger_commit_end` first waits for other COMMITs of the file, and for its writes that go to the
 * disk at once. It waits for a second at most, or for twice as long as this COMMIT took. If one of
 * them fails, the data that this COMMIT was to vouch for is lost. (Some are of this process: the
 * caller sees to it that their answers are received.) Then it drops the writes with the verifier
 * that came back. It returns how many bytes are lost or have another verifier. These must be
 * written again, one after the other:
 *
 *   while (ledger_replay_next(file, &commit, true, &write) == 1) {
 *       ... WRITE FILE_SYNC from ledger_write_data() ...
 *       ledger_write_end(file, ...);
 *   }
 *
 * If another process replays a record, it is waited for. A replay that ended with
 * LEDGER_WRITE_FAILED stays in the ledger, acknowledged as before, and is not offered again in this
 * commit. The fsync must then report EIO.
 */
struct ledger_commit {
    uint64_t sequence;
    bool vouches; /* it vouches for some data */
    bool again; /* result of the end: nothing is lost, but newer data took the place of older; only
                   another COMMIT tells whether it is safe */
    uint32_t replays;  /* ledger_file_replays() when it began */
    uint64_t began_ns; /* CLOCK_MONOTONIC */
    uint64_t ticket;   /* 0: the COMMIT is not noted */
    uint32_t place;    /* where it is noted: an index of `committing` */
    size_t most;       /* may be set after begin: records that follow one another are offered as one
                          replay, up to this many bytes */
    bool to_disk;      /* may be set, too: replays are written to the disk at once */
    uint64_t tried, tried_offset; /* replays were offered up to this record */
    uint64_t verifier;            /* that came back */
};
bool ledger_commit_begin(struct ledger_file *file, struct ledger_commit *commit);
uint64_t ledger_commit_end(struct ledger_file *file, struct ledger_commit *commit,
                           uint64_t verifier);
/*
 * The COMMIT failed, or may have failed: it was sent again, and the first answer is not known.
 * Servers tell an error of their disk once, and forget the data. A later COMMIT that succeeds says
 * nothing of that data. All that the server may have of the file by now must be written again.
 */
void ledger_commit_failed(struct ledger_file *file, const struct ledger_commit *commit);
/* Is a COMMIT of the file on its way, of any process? */
bool ledger_file_committing(struct ledger_file *file);
/* Might ledger_commit_end() wait for a write of the file that is on its way to the disk? */
bool ledger_file_to_disk(struct ledger_file *file);
/* 1: a replay has begun. 0: there is no more. -ENOSPC: there is more, but this process has no slot
 * to own it. -EAGAIN: something is in the way, and the caller does not `wait`. */
int ledger_replay_next(struct ledger_file *file, struct ledger_commit *commit, bool wait,
                       struct ledger_write *write);

/* A COMMIT succeeded. Waits for other COMMITs of the file that were sent before now, but not for
 * long: one without an answer then counts as failed. Call it without a lock. */
void ledger_commit_answered(struct ledger_file *file, const struct ledger_commit *commit);
/* Later: what became of the COMMIT. `vouches`: all that was acknowledged before it was sent is
 * safe. */
void ledger_commit_over(struct ledger_file *file, const struct ledger_commit *commit, bool vouches);
/* The process of this slot is dead: its COMMITs without an answer count as failed. */
void ledger_commits_of_dead(uint32_t slot);

#endif
