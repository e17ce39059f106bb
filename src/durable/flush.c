#include "durable/flush.h"

#include <stdio.h>
#include <string.h>

#include "durable/sync.h"
#include "mount/vouch.h"
#include "durable/behind.h"
#include "durable/commit.h"
#include "file/pages.h"
#include "durable/runs.h"
#include "durable/stray.h"
#include "ledger/dirty.h"
#include "ledger/strays.h"
#include "ledger/uncommitted.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    SOME_BYTES = 64 << 20, /* durable_flush_some() sends about so much */
    OTHERS_MS = 5000,      /* wait so long for others to send what this process cannot */
    KEPT_MAX = 8 << 20     /* bytes of a file of which the host's cache keeps all that is sent */
};

/* ---- runs ---- */

struct flushing {
    struct durable_runs runs;
    struct ledger_sending sending;
    bool stored; /* the last run was all there is, and it is stable */
    bool stuck;  /* the server does not answer, or may take it later */
    int result;  /* the first error */
    bool sends;  /* data was taken: file_pages_sending() was called */
    int fd;      /* what it returned */
};

static int next_dirty(struct durable_runs *runs, bool wait, struct durable_run *run)
{
    struct flushing *flushing = (struct flushing *)runs;
    if (flushing->stuck)
        return flushing->result; /* else it would be sent again and again */
    run->write.to = &runs->c->to;
    run->stamp.generation = 0;
    flushing->sending.stamp = &run->stamp;
    int result =
        ledger_dirty_take(runs->c->to.entry, &flushing->sending, wait, &run->write.announced);
    if (result == 1 && !flushing->sends) {
        flushing->sends = true;
        flushing->fd = file_pages_sending(runs->c->to.inode);
    }
    run->write.stable =
        flushing->sending.syncs && flushing->sending.all ? NFS_FILE_SYNC : NFS_UNSTABLE;
    return result;
}

static void lose(struct committing *c, const struct ledger_write *write, int error)
{
    if (durable_committing_may_say(c, "refused"))
        log_error("%s: server %s refuses %llu bytes at offset %llu that were written, and are "
                  "lost: %s; the next fsync or close says so",
                  c->path, c->to.mount->server->conf->name, (unsigned long long)write->length,
                  (unsigned long long)write->offset, strerrordesc_np(error));
}

static void end_badly(struct flushing *flushing, struct durable_run *run, int result,
                      struct ledger_ending *ending)
{
    const struct ledger_write *write = &run->write.announced;
    int error = result == -EAGAIN ? -ETIMEDOUT
                : result == -ENONET || result == -ELIBACC || result == -ELIBSCN
                    ? result /* others can send it */
                    : (int)file_posix_error(result);
    bool refused = durable_commit_is_refusal(result);
    bool one =
        write->record_count == 1 && (write->length <= LEDGER_CHUNK || flushing->sending.most == 1);
    if (refused && one) {
        ending->outcome = LEDGER_WRITE_LOST;
        ending->error = -error;
        lose(flushing->runs.c, write, -error);
    }
    ledger_writes_end(ending, 1);
    if (refused && !one) {
        flushing->sending.most = 1; /* the server may take some of its chunks: one by one */
        return;
    }
    if (!refused && run->write.stable == NFS_FILE_SYNC) {
        flushing->sending.syncs = false; /* the server may not be able to: without, then */
        return;
    }
    flushing->stuck = flushing->stuck || !refused;
    if (!refused || flushing->result == 0)
        flushing->result = error;
}

/* The server has the bytes of this write, which were taken from the ledger at `stamp`: the host's
 * cache keeps them. But not much at once of a long file: that would push out what is read again. */
static void keep(struct ledger_file *file, const struct ledger_write *write,
                 const struct ledger_stamp *stamp)
{
    struct iovec kept[LEDGER_WRITE_VECTORS];
    if (mount_tunables.read_cache_max == 0 || mount_tunables.actimeo == 0 ||
        stamp->generation == 0 || !ledger_cache_is_there() || write->length == 0 ||
        (write->length > LEDGER_CACHE_PIECE && ledger_file_least_size(file) > KEPT_MAX))
        return;
    ledger_write_data(write, 0, write->length, kept);
    ledger_cache_keep(file, stamp, write->offset, kept, write->length);
}

static void end(struct durable_runs *runs, struct durable_run *run, int result,
                struct ledger_ending *ending)
{
    struct flushing *flushing = (struct flushing *)runs;
    const struct ledger_write *write = &run->write.announced;
    flushing->stored = result == 0 && run->write.stable == NFS_FILE_SYNC;
    if (result != 0) {
        end_badly(flushing, run, result, ending);
        return;
    }
    stats_add(&stats_own->counters.gathered_writes, 1);
    stats_add(&stats_own->counters.gathered_bytes, write->length);
    keep(runs->c->to.entry, write, &run->stamp); /* while the ledger has the bytes */
    ledger_writes_end(ending, 1);
}

static void prepare(struct flushing *flushing, struct committing *c)
{
    durable_commit_as_writer(c);
    *flushing = (struct flushing){
        .runs = {.c = c, .next = next_dirty, .end = end, .bytes = SOME_BYTES},
        .sending = ledger_dirty_now(c->to.entry, durable_longest_write(c->to.mount))};
}

/* ---- flushing ---- */

/* No call tells anybody of it by an error, but it is not lost either. */
static void say_forbidden(struct committing *c, int error)
{
    if (durable_committing_may_say(c, "forbidden"))
        log_error("%s: server %s refuses %llu bytes that a killed process wrote to the file with "
                  "inode %llu: %s; they stay in shared memory, and are sent again",
                  c->path, c->to.mount->server->conf->name,
                  (unsigned long long)ledger_file_dirty(c->to.entry),
                  (unsigned long long)c->to.entry->key.inode, strerrordesc_np(-error));
}

/* This process may not send it: waits until the processes that wrote it do. 0, or `result` if they
 * do not. */
static int await_others(struct committing *c, int result)
{
    if (mount_vouch_is_agent()) {
        say_forbidden(c, result);
        return result;
    }
    for (int i = 0; i < OTHERS_MS && ledger_file_dirty(c->to.entry) > 0; i += 10)
        sys_nanosleep_ms(10);
    return ledger_file_dirty(c->to.entry) > 0 ? result : 0;
}

/* As durable_runs_send(), and the kernel shows what was sent. */
static int send_runs(struct flushing *flushing, bool wait)
{
    int next = durable_runs_send(&flushing->runs, wait);
    if (flushing->sends)
        file_pages_sent(flushing->fd);
    flushing->sends = false;
    return next;
}

/* Sends until nothing is dirty. 0, or -errno of what stays dirty. */
static int flush(struct flushing *flushing)
{
    struct committing *c = flushing->runs.c;
    int next;
    if (net_server_is_abroad(c->to.mount->server->net))
        return -ENONET; /* nor does it wait for others that send some of it */
    do {
        while ((next = send_runs(flushing, true)) > 0)
            ;
    } while (next == 0 && !flushing->stuck && ledger_file_has_strays(c->to.entry) &&
             (next = durable_strays_settle(c)) == 0); /* of processes that died meanwhile */
    if (flushing->stuck)
        next = flushing->result;
    if (next == -EACCES || next == -EPERM)
        next = await_others(c, next);
    if (next == -ENOSPC) /* this process has no slot in the registry */
        next = await_others(c, -EIO);
    return next;
}

int durable_flush_all(struct committing *c)
{
    struct flushing flushing;
    int result = durable_strays_settle(c);
    c->stored = false;
    if (result != 0 || !ledger_file_dirty(c->to.entry))
        return result;
    prepare(&flushing, c);
    flushing.sending.syncs = true;
    result = flush(&flushing);
    c->stored = flushing.result == 0 && flushing.stored;
    return result != 0 || flushing.stuck ? result : flushing.result;
}

int durable_flush_until(struct committing *c, uint64_t sequence)
{
    struct flushing flushing;
    int result = durable_strays_settle(c);
    if (result != 0)
        return result;
    prepare(&flushing, c);
    flushing.sending.sequence = sequence;
    return flush(&flushing);
}

int durable_flush_range(struct file_inode *inode, const struct rpc_auth *auth, uint64_t start,
                        uint64_t end)
{
    if (!ledger_file_dirty(&inode->entry))
        return 0;
    struct committing c = durable_committing_of(inode, auth);
    struct flushing flushing;
    int result = durable_strays_settle(&c);
    if (result != 0)
        return result;
    prepare(&flushing, &c);
    flushing.sending.start = start;
    flushing.sending.end = end;
    return flush(&flushing);
}

int durable_flush_some(struct file_inode *inode, const struct rpc_auth *auth, size_t least,
                       bool wait)
{
    struct committing c = durable_committing_of(inode, auth);
    struct flushing flushing;
    int result = durable_strays_settle(&c);
    if (result != 0)
        return result;
    prepare(&flushing, &c);
    flushing.sending.least = least;
    int next = send_runs(&flushing, wait);
    return flushing.stuck ? flushing.result : next;
}

int durable_flush_number(dev_t device, uint64_t number)
{
    struct ledger_file_key key = {.device = device, .inode = number};
    struct file_inode *inode = NULL;
    if (!ledger_number_dirty(device, number))
        return 0;
    while ((inode = file_inode_next(device, number, inode))) {
        const struct rpc_auth *auth = file_inode_auth(inode);
        if (auth && file_inode_enter(inode)) {
            (void)durable_flush_range(inode, auth, 0, UINT64_MAX);
            file_inode_leave(inode);
        }
    }
    /* The rest only other processes have open. */
    return ledger_number_dirty(device, number) ? durable_commit_named(&key) : 0;
}

void durable_write_out(struct file_open *open, off_t offset, off_t length, bool wait)
{
    uint64_t end = length ? (uint64_t)offset + (uint64_t)length : UINT64_MAX;
    if (!ledger_file_dirty(&open->inode->entry) || !file_inode_enter(open->inode))
        return;
    if (wait)
        (void)durable_flush_range(open->inode, open->auth, (uint64_t)offset, end);
    else
        durable_behind_hurry(open->inode);
    file_inode_leave(open->inode);
}
