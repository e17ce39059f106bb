#include "file/flush.h"

#include <stdio.h>
#include <string.h>

#include "file/vouch.h"
#include "file/behind.h"
#include "file/cache.h"
#include "file/commit.h"
#include "file/io.h"
#include "file/pages.h"
#include "file/runs.h"
#include "file/stray.h"
#include "ledger/dirty.h"
#include "ledger/strays.h"
#include "ledger/uncommitted.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    SOME_BYTES = 64 << 20, /* that file_flush_some() sends */
    OTHERS_MS = 5000       /* for what this process cannot send */
};

/* ---- runs ---- */

struct flushing {
    struct file_runs runs;
    struct ledger_sending sending;
    bool stored; /* the last run was all there is, and is */
    bool stuck;  /* the server does not answer, or not to that */
    int result;  /* the first error */
    bool sends;  /* it has taken data: the kernel's pages are seen to */
    int fd;      /* for that */
};

static int next_dirty(struct file_runs *runs, bool wait, struct file_run *run)
{
    struct flushing *flushing = (struct flushing *)runs;
    if (flushing->stuck)
        return flushing->result; /* it would be sent again and again */
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
    if (file_commit_may_say(c, "refused"))
        log_error("%s: server %s refuses %llu bytes at offset %llu that were written, and are "
                  "lost: %s; the next fsync or close says so",
                  c->path, c->to.mount->server->conf->name, (unsigned long long)write->length,
                  (unsigned long long)write->offset, strerrordesc_np(error));
}

static void end_badly(struct flushing *flushing, struct file_run *run, int result,
                      struct ledger_ending *ending)
{
    const struct ledger_write *write = &run->write.announced;
    int error = result == -EAGAIN   ? -ETIMEDOUT
                : result == -ENONET ? -ENONET /* others can send it */
                                    : (int)file_posix_error(result);
    bool refused = file_commit_is_refusal(result);
    bool one =
        write->record_count == 1 && (write->length <= LEDGER_CHUNK || flushing->sending.most == 1);
    if (refused && one) {
        ending->outcome = LEDGER_WRITE_LOST;
        ending->error = -error;
        lose(flushing->runs.c, write, -error);
    }
    ledger_writes_end(ending, 1);
    if (refused && !one) {
        flushing->sending.most = 1; /* some of its chunks may be taken: one by one */
        return;
    }
    if (!refused && run->write.stable == NFS_FILE_SYNC) {
        flushing->sending.syncs = false; /* a server that cannot do that does without */
        return;
    }
    flushing->stuck = flushing->stuck || !refused;
    if (!refused || flushing->result == 0)
        flushing->result = error;
}

static void end(struct file_runs *runs, struct file_run *run, int result,
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
    file_cache_wrote(runs->c->to.entry, write, &run->stamp); /* while the bytes are there */
    ledger_writes_end(ending, 1);
}

static void prepare(struct flushing *flushing, struct committing *c)
{
    file_commit_as_writer(c);
    *flushing = (struct flushing){
        .runs = {.c = c, .next = next_dirty, .end = end, .bytes = SOME_BYTES},
        .sending = ledger_dirty_now(c->to.entry, file_longest_write(c->to.mount))};
}

/* ---- flushing ---- */

/* Nobody is told of it by an error of a call, but it is not lost either. */
static void say_forbidden(struct committing *c, int error)
{
    if (file_commit_may_say(c, "forbidden"))
        log_error("%s: server %s refuses %llu bytes that a killed process wrote to the file with "
                  "inode %llu: %s; they stay in shared memory, and are sent again",
                  c->path, c->to.mount->server->conf->name,
                  (unsigned long long)ledger_file_dirty(c->to.entry),
                  (unsigned long long)c->to.entry->key.inode, strerrordesc_np(-error));
}

/* This process may not send it: those who wrote it do. 0, or `result` if they do not. */
static int await_others(struct committing *c, int result)
{
    if (file_vouch_is_agent()) {
        say_forbidden(c, result);
        return result;
    }
    for (int i = 0; i < OTHERS_MS && ledger_file_dirty(c->to.entry) > 0; i += 10)
        sys_nanosleep_ms(10);
    return ledger_file_dirty(c->to.entry) > 0 ? result : 0;
}

/* What file_runs_send() does, and what is sent can be seen without the library. */
static int send_runs(struct flushing *flushing, bool wait)
{
    int next = file_runs_send(&flushing->runs, wait);
    if (flushing->sends)
        file_pages_sent(flushing->fd);
    flushing->sends = false;
    return next;
}

/* 0, or -errno of what stays dirty. */
static int flush(struct flushing *flushing)
{
    struct committing *c = flushing->runs.c;
    int next;
    if (net_server_is_abroad(c->to.mount->server->net))
        return -ENONET; /* nor are those waited for who send some of it */
    do {
        while ((next = send_runs(flushing, true)) > 0)
            ;
    } while (next == 0 && !flushing->stuck && ledger_file_has_strays(c->to.entry) &&
             (next = file_strays_settle(c)) == 0); /* of who died meanwhile */
    if (flushing->stuck)
        next = flushing->result;
    if (next == -EACCES || next == -EPERM)
        next = await_others(c, next);
    if (next == -ENOSPC) /* it has no place in the registry */
        next = await_others(c, -EIO);
    return next;
}

int file_flush_all(struct committing *c)
{
    struct flushing flushing;
    int result = file_strays_settle(c);
    c->stored = false;
    if (result != 0 || !ledger_file_dirty(c->to.entry))
        return result;
    prepare(&flushing, c);
    flushing.sending.syncs = true;
    result = flush(&flushing);
    c->stored = flushing.result == 0 && flushing.stored;
    return result != 0 || flushing.stuck ? result : flushing.result;
}

int file_flush_until(struct committing *c, uint64_t sequence)
{
    struct flushing flushing;
    int result = file_strays_settle(c);
    if (result != 0)
        return result;
    prepare(&flushing, c);
    flushing.sending.sequence = sequence;
    return flush(&flushing);
}

int file_flush_range(struct file_inode *inode, const struct rpc_auth *auth, uint64_t start,
                     uint64_t end)
{
    if (!ledger_file_dirty(&inode->entry))
        return 0;
    struct committing c = file_committing_of(inode, auth);
    struct flushing flushing;
    int result = file_strays_settle(&c);
    if (result != 0)
        return result;
    prepare(&flushing, &c);
    flushing.sending.start = start;
    flushing.sending.end = end;
    return flush(&flushing);
}

int file_flush_some(struct file_inode *inode, const struct rpc_auth *auth, size_t least, bool wait)
{
    struct committing c = file_committing_of(inode, auth);
    struct flushing flushing;
    int result = file_strays_settle(&c);
    if (result != 0)
        return result;
    prepare(&flushing, &c);
    flushing.sending.least = least;
    int next = send_runs(&flushing, wait);
    return flushing.stuck ? flushing.result : next;
}

int file_flush_number(dev_t device, uint64_t number)
{
    struct ledger_file_key key = {.device = device, .inode = number};
    struct file_inode *inode = NULL;
    if (!ledger_number_dirty(device, number))
        return 0;
    while ((inode = file_inode_next(device, number, inode))) {
        const struct rpc_auth *auth = file_inode_auth(inode);
        if (auth && file_inode_enter(inode)) {
            (void)file_flush_range(inode, auth, 0, UINT64_MAX);
            file_inode_leave(inode);
        }
    }
    /* Only others have it open. */
    return ledger_number_dirty(device, number) ? file_commit_named(&key) : 0;
}

void file_write_out(struct file_open *open, off_t offset, off_t length, bool wait)
{
    uint64_t end = length ? (uint64_t)offset + (uint64_t)length : UINT64_MAX;
    if (!ledger_file_dirty(&open->inode->entry) || !file_inode_enter(open->inode))
        return;
    if (wait)
        (void)file_flush_range(open->inode, open->auth, (uint64_t)offset, end);
    else
        file_behind_hurry(open->inode);
    file_inode_leave(open->inode);
}
