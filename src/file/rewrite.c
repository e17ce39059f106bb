/*
 * Writing again what a server lost. All of it is in the ledger, and nothing newer can overtake it.
 * What follows one another leaves as one WRITE, and many WRITEs are on their way together: a
 * program waits for it in its fsync.
 */
#include <string.h>

#include "file/async.h"
#include "file/getattr.h"
#include "file/io.h"
#include "file/rewrite.h"
#include "ledger/uncommitted.h"
#include "ledger/world.h"
#include "stats/count.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/test_switch.h"

enum {
    RUNS = 16 /* on their way together */
};

/* One WRITE. */
struct run {
    struct ledger_write write;
    struct nfs3_transfer transfer;
    int result;
    int vector_count;
    struct iovec vectors[LEDGER_WRITE_VECTORS];
    struct rpc_call call;
};

/* What could not be written again. */
struct failure {
    int result;
    uint64_t bytes, offset; /* of the first */
};

bool file_commit_again(struct committing *c, int result)
{
    return result == -ESTALE && c->inode && file_inode_renew(c->inode, c->auth, &c->use);
}

/* As ledger_replay_next(). A newer write in flight may be in the way, and may be this thread's own
 * to bring to its end. */
static int next_run(struct committing *c, struct ledger_commit *commit, struct ledger_write *write)
{
    int result;
    while ((result = ledger_replay_next(c->entry, commit, false, write)) == -EAGAIN) {
        if (!file_async_help(NULL))
            return ledger_replay_next(c->entry, commit, true, write);
    }
    return result;
}

/* Begins as many as there are and fit. Where none is under way it waits for what is in the way; the
 * ends of those that are cannot be waited for here. *next: as ledger_replay_next() for the last. */
static unsigned gather(struct committing *c, struct ledger_commit *commit, struct run *runs,
                       unsigned room, int *next)
{
    unsigned count = 0;
    *next = next_run(c, commit, &runs[0].write);
    while (*next == 1) {
        struct run *run = &runs[count++];
        run->vector_count = ledger_write_data(&run->write, 0, run->write.length, run->vectors);
        if (count == room)
            break;
        *next = ledger_replay_next(c->entry, commit, false, &runs[count].write);
    }
    return count;
}

static void send_together(struct committing *c, struct run *runs, unsigned count)
{
    struct nfs3_client client = file_mount_client(c->mount, c->auth);
    struct rpc_call *calls[RUNS];
    for (unsigned i = 0; i < count; i++) {
        struct run *run = &runs[i];
        const struct nfs3_data data = {
            .vectors = run->vectors, .count = run->vector_count, .length = run->write.length};
        nfs3_write_begin(&run->call, &client, c->use.fh, run->write.offset, &data, c->stable);
        calls[i] = &run->call;
    }
    nfs3_call_run(&client, calls, count);
    for (unsigned i = 0; i < count; i++) {
        struct run *run = &runs[i];
        run->result = nfs3_write_end(&run->call, c->stable, &run->transfer);
        if (run->result == 0 && run->transfer.length < run->write.length)
            run->result = -EAGAIN;
        file_write_note(&run->write, c->stable, run->result, &run->transfer);
    }
}

/* With all that a call may need: short replies, JUKEBOX, another handle. */
static void send_alone(struct committing *c, struct run *run)
{
    struct nfs3_client client = file_mount_client(c->mount, c->auth);
    const struct nfs3_data data = {
        .vectors = run->vectors, .count = run->vector_count, .length = run->write.length};
    do {
        run->result =
            nfs3_write(&client, c->use.fh, run->write.offset, &data, c->stable, &run->transfer);
        file_write_note(&run->write, c->stable, run->result, &run->transfer);
    } while (file_commit_again(c, run->result));
}

static void end(struct committing *c, struct run *run, struct failure *failure)
{
    uint64_t offset = run->write.offset, length = run->write.length;
    if (run->result != 0) {
        ledger_write_end(c->entry, &run->write, LEDGER_WRITE_FAILED, 0);
        if (failure->bytes == 0)
            *failure = (struct failure){.result = run->result, .offset = offset};
        failure->bytes += length;
        return;
    }
    bool unstable = run->transfer.committed == NFS3_UNSTABLE;
    ledger_write_end(c->entry, &run->write, unstable ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_STABLE,
                     run->transfer.verifier);
    stats_add(&stats_own->counters.rewritten_bytes, length);
    c->rewritten += length;
}

/* 0: all that could be written was; -ENOSPC: this process cannot do it. */
static int rewrite(struct committing *c, struct ledger_commit *commit, struct run *runs,
                   unsigned room, struct failure *failure)
{
    int next = 1;
    unsigned count;
    while ((count = gather(c, commit, runs, room, &next)) > 0) {
        send_together(c, runs, count);
        for (unsigned i = 0; i < count; i++) {
            if (runs[i].result != -EAGAIN && runs[i].result != -ESTALE)
                end(c, &runs[i], failure);
        }
        for (unsigned i = 0; i < count; i++) {
            if (runs[i].write.record_count == 0)
                continue;
            send_alone(c, &runs[i]);
            end(c, &runs[i], failure);
        }
    }
    return next;
}

/* Did somebody else change the file since this host wrote it, and when by the server's clock? What
 * was lost may be what he wrote over. 0, or -errno: the server does not tell. */
static int look(struct committing *c, enum ledger_change *change, int64_t *changed)
{
    struct nfs3_client client = file_mount_client(c->mount, c->auth);
    struct ledger_attributes now;
    struct nfs3_attr attr;
    uint64_t epoch;
    int result;
    do {
        epoch = ledger_file_asking(c->entry);
        result = nfs3_getattr(&client, c->use.fh, &attr);
    } while (file_commit_again(c, result));
    if (result != 0)
        return result == -EAGAIN ? -EIO : result;
    file_attributes_convert(&attr, &now);
    *changed = ledger_nanoseconds(&now.mtime);
    *change = ledger_file_changed_by_other(c->entry, epoch, &now);
    return 0;
}

/*
 * A time alone is no proof: the server may have set it as it recovered. It is one if the server was
 * up then, and for files on their way to the kernel's world, where somebody is who said that he
 * writes them.
 */
static bool is_proof(struct committing *c, const struct ledger_commit *commit,
                     enum ledger_change change, int64_t changed)
{
    if (change != LEDGER_CHANGE_TIME || ledger_world_is_kernel(c->entry) ||
        file_server_was_up(c->mount->server, commit->verifier, changed, c->entry))
        return true;
    if (file_commit_may_say(c, "changed"))
        log_warning("%s: its time of change is later than this host wrote it: if that was not "
                    "server %s as it recovered, what somebody else wrote is written over now",
                    c->path, c->mount->server->conf->name);
    return false;
}

/* May what was lost be written again? 0, or -errno: it is forgotten, as somebody else changed the
 * file; or it stays in the ledger for another COMMIT, as the server does not tell. */
static int check_conflict(struct committing *c, const struct ledger_commit *commit)
{
    enum ledger_change change;
    int64_t changed;
    int result = look(c, &change, &changed);
    if (sys_test_unsafe(SYS_TEST_CONFLICT))
        return 0;
    if (result != 0) {
        if (result != -ESTALE && file_commit_may_say(c, "unknown"))
            log_error("%s: data that the server lost is not written again before server %s tells "
                      "whether somebody else changed the file: %s",
                      c->path, c->mount->server->conf->name, strerrordesc_np(-result));
        return result;
    }
    if (change == LEDGER_CHANGE_NONE || !is_proof(c, commit, change, changed))
        return 0;
    uint64_t lost = ledger_file_forget(c->entry, true);
    if (c->inode)
        atomic_store(&c->inode->loss_due, true);
    log_error("%s: %llu bytes that the server lost are not written again, as somebody else changed "
              "the file since: another host, or a process that cannot use the library; fsync fails",
              c->path, (unsigned long long)lost);
    return -EIO;
}

int file_commit_rewrite(struct committing *c, struct ledger_commit *commit)
{
    struct failure failure = {0};
    struct run alone;
    int result = check_conflict(c, commit);
    if (result != 0)
        return result;
    /* Not from the heap: this may run in a handler of a signal. */
    struct run *runs = sys_mmap(NULL, RUNS * sizeof(*runs), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool many = !sys_mmap_failed(runs);
    commit->most = c->mount->write_max < LEDGER_WRITE_MAX ? c->mount->write_max : LEDGER_WRITE_MAX;
    int next = rewrite(c, commit, many ? runs : &alone, many ? RUNS : 1, &failure);
    if (many)
        sys_munmap(runs, RUNS * sizeof(*runs));
    if (failure.bytes > 0)
        log_error("%s: %llu bytes from offset %llu on, which the server lost, cannot be written "
                  "again: %s",
                  c->path, (unsigned long long)failure.bytes, (unsigned long long)failure.offset,
                  strerrordesc_np(-failure.result));
    if (next < 0)
        log_error("%s: data that the server lost cannot be written again by this process: it has "
                  "no place in the registry",
                  c->path);
    return failure.bytes > 0 || next < 0 ? -EIO : 0;
}
