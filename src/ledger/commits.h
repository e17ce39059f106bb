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
 * `ledger_commit_begin` notes which acknowledged writes the COMMIT vouches for. False: none need
 * be sent. While several COMMITs of the file were under way this call waited, and one that was
 * sent meanwhile, by whatever process, vouches for all that was acknowledged before the call.
 *
 * `ledger_commit_end` first waits for other COMMITs of the file that are under way, and for writes
 * of it that go to the disk at once, for a second at most or twice as long as this one took: if one
 * of them fails, the data that it was to vouch for is lost. (The caller sees to it that somebody
 * receives the answers to those of this process.) Then it drops the writes whose verifier is the
 * one that came back. It returns how many bytes are lost or have another verifier. These must be
 * written again, one after the other:
 *
 *   while (ledger_replay_next(file, &commit, true, &write) == 1) {
 *       ... WRITE FILE_SYNC from ledger_write_data() ...
 *       ledger_write_end(file, ...);
 *   }
 *
 * A record that another process is replaying is waited for. A replay that ended with
 * LEDGER_WRITE_FAILED stays in the ledger, acknowledged as before, and is not offered again in
 * this commit; the fsync must then report EIO.
 */
struct ledger_commit {
    uint64_t sequence;
    bool vouches;                 /* for any data */
    bool again;                   /* the end: nothing is lost, but only another COMMIT tells
                                     whether newer data is safe that took the place of older */
    uint32_t replays;             /* ledger_file_replays() when it began */
    uint64_t began_ns;            /* CLOCK_MONOTONIC */
    uint64_t ticket;              /* 0: it is not noted */
    uint32_t place;               /* where it is noted */
    size_t most;                  /* may be set after it began: records that follow one another are
                                     offered as one replay, up to so many bytes */
    bool to_disk;                 /* may be set, too: replays are written to the disk at once */
    uint64_t tried, tried_offset; /* replays offered up to this record */
    uint64_t verifier;            /* that came back */
};
bool ledger_commit_begin(struct ledger_file *file, struct ledger_commit *commit);
uint64_t ledger_commit_end(struct ledger_file *file, struct ledger_commit *commit,
                           uint64_t verifier);
/*
 * The COMMIT failed, or may have: it was sent again, and the first answer is not known. Servers
 * tell an error of their disk once, and forget the data: a later COMMIT that succeeds says nothing
 * of it. All that the server may have of the file by now must be written again.
 */
void ledger_commit_failed(struct ledger_file *file, const struct ledger_commit *commit);
/* Is a COMMIT of the file on its way, from any process? */
bool ledger_file_committing(struct ledger_file *file);
/* Might ledger_commit_end() wait for a write of the file that is on its way to the disk? */
bool ledger_file_to_disk(struct ledger_file *file);
/* 1; 0: no more; -ENOSPC: there is more, but this process cannot be noted as its owner; -EAGAIN
 * unless it may `wait`, as ledger_write_start(). */
int ledger_replay_next(struct ledger_file *file, struct ledger_commit *commit, bool wait,
                       struct ledger_write *write);

/* Without a lock: a COMMIT succeeded. Waits for others of the file that were sent before now,
 * but not for long: one without an answer then counts as failed. */
void ledger_commit_answered(struct ledger_file *file, const struct ledger_commit *commit);
/* The same, later: what became of it. `vouches`: all is safe that was acknowledged before it. */
void ledger_commit_over(struct ledger_file *file, const struct ledger_commit *commit, bool vouches);
/* The COMMITs of a process that is dead count as failed. */
void ledger_commits_of_dead(uint32_t slot);

#endif
