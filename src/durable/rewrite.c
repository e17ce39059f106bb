/*
 * Writing again what a server lost. All of it is in the ledger, and nothing newer can be overtaken
 * by it. Pieces that follow one another leave as one WRITE, and many WRITEs are on their way
 * together, since a program waits in its fsync.
 */
#include <string.h>

#include "durable/operation.h"
#include "file/attributes.h"
#include "durable/rewrite.h"
#include "durable/runs.h"
#include "durable/stray.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "mount/mounts.h"
#include "mount/verifier.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

/* A rewrite, and what could not be written again. */
struct rewriting {
    struct durable_runs runs;
    struct ledger_commit *commit;
    int result;
    uint64_t bytes, offset; /* how much, and where the first of it begins */
};

static int next_lost(struct durable_runs *runs, bool wait, struct durable_run *run)
{
    struct rewriting *rewriting = (struct rewriting *)runs;
    run->write.to = &runs->c->to;
    run->write.stable = runs->c->stable;
    return ledger_replay_next(runs->c->to.entry, rewriting->commit, wait, &run->write.announced);
}

static void end(struct durable_runs *runs, struct durable_run *run, int result,
                struct ledger_ending *ending)
{
    struct rewriting *rewriting = (struct rewriting *)runs;
    uint64_t offset = run->write.announced.offset, length = run->write.announced.length;
    ledger_writes_end(ending, 1);
    if (result == 0) {
        stats_add(&stats_own->counters.rewritten_bytes, length);
        runs->c->rewritten += length;
        return;
    }
    if (rewriting->bytes == 0) {
        rewriting->result = result;
        rewriting->offset = offset;
    }
    rewriting->bytes += length;
}

/* Did somebody else change the file since this host wrote it, and when by the server's clock? Then
 * what was lost may be what that other wrote over. 0, or -errno: the server does not tell. */
static int look(struct committing *c, enum ledger_change *change, int64_t *changed)
{
    struct ledger_attributes now;
    struct nfs_attr attr;
    uint64_t epoch;
    int result = durable_strays_ask(c, &epoch, &attr);
    if (result != 0)
        return result;
    file_attributes_convert(&attr, &now);
    *changed = ledger_nanoseconds(&now.mtime);
    *change = ledger_file_changed_by_other(c->to.entry, epoch, &now);
    return 0;
}

/*
 * Is the change proven? A time alone is no proof: the server may have set it as it recovered. It is
 * a proof if the server was up then; and for a file on its way to the kernel's world, where some
 * process has said that it writes the file.
 */
static bool is_proof(struct committing *c, const struct ledger_commit *commit,
                     enum ledger_change change, int64_t changed)
{
    if (change != LEDGER_CHANGE_TIME || ledger_world_is_kernel(c->to.entry) ||
        mount_server_was_up(c->to.mount->server, commit->verifier, changed, c->to.entry))
        return true;
    if (durable_committing_may_say(c, "changed"))
        log_warning("%s: its time of change is later than this host wrote it: if that was not "
                    "server %s as it recovered, what somebody else wrote is written over now",
                    c->path, c->to.mount->server->conf->name);
    return false;
}

/* May what was lost be written again? 0: yes. *aside: no, as somebody else changed the file; as
 * durable_strays_set_lost_aside(). -errno: the server does not tell, and it stays in the ledger for
 * another COMMIT. */
static int check_conflict(struct committing *c, const struct ledger_commit *commit, bool *aside)
{
    enum ledger_change change;
    int64_t changed;
    int result = look(c, &change, &changed);
    if (sys_test_unsafe(SYS_TEST_CONFLICT))
        return 0;
    if (result != 0) {
        if (result != -ESTALE && durable_committing_may_say(c, "unknown"))
            log_error("%s: data that the server lost is not written again before server %s tells "
                      "whether somebody else changed the file: %s",
                      c->path, c->to.mount->server->conf->name, strerrordesc_np(-result));
        return result;
    }
    if (change == LEDGER_CHANGE_NONE || !is_proof(c, commit, change, changed))
        return 0;
    *aside = true;
    return durable_strays_set_lost_aside(c, commit);
}

int durable_commit_rewrite(struct committing *c, struct ledger_commit *commit)
{
    int result = durable_strays_settle_sent(c);
    if (result != 0)
        return result < 0 ? result : 0;
    bool aside = false;
    result = check_conflict(c, commit, &aside);
    if (result != 0 || aside)
        return result; /* another COMMIT sees to what is left */
    struct rewriting rewriting = {
        .runs = {.c = c, .next = next_lost, .end = end, .bytes = SIZE_MAX}, .commit = commit};
    commit->most = durable_longest_write(c->to.mount);
    int next;
    while ((next = durable_runs_send(&rewriting.runs, true)) > 0)
        ;
    if (rewriting.bytes > 0)
        log_error("%s: %llu bytes from offset %llu on, which the server lost, cannot be written "
                  "again: %s",
                  c->path, (unsigned long long)rewriting.bytes,
                  (unsigned long long)rewriting.offset, strerrordesc_np(-rewriting.result));
    if (next < 0)
        log_error("%s: data that the server lost cannot be written again by this process: it has "
                  "no place in the registry",
                  c->path);
    if (rewriting.bytes > 0 && rewriting.result == -ENONET)
        return -ENONET; /* others can write it */
    return rewriting.bytes > 0 || next < 0 ? -EIO : 0;
}
