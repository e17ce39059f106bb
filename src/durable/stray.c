#include "durable/stray.h"

#include <stdio.h>
#include <string.h>

#include "durable/arrived.h"
#include "durable/operation.h"
#include "file/upper.h"
#include "durable/commit.h"
#include "file/attributes.h"
#include "ledger/attributes.h"
#include "ledger/dirty.h"
#include "mount/mounts.h"
#include "ledger/store/hold.h"
#include "ledger/store/processes.h"
#include "ledger/store/stripes.h"
#include "run/directory.h"
#include "run/strays.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { ASK_MS = 20, ATTEMPTS = 8 };

int durable_strays_ask(struct committing *c, uint64_t *epoch, struct nfs_attr *now)
{
    int result;
    do {
        *epoch = ledger_file_asking(c->to.entry);
        result = nfs_getattr(&c->to.client, c->to.use.fh, now);
    } while (file_target_again(&c->to, result));
    return result == -EAGAIN ? -EIO : result;
}

/* Is it proven that nobody else changed the file? Waits for what the dead had on its way. `told`:
 * the file's attributes. 0 or -errno. */
static int prove(struct committing *c, bool sent, bool *proven, struct nfs_attr *told)
{
    uint64_t until_ns = sys_now_ns() + 2 * ledger_hold_ns() + UINT64_C(1000000000), epoch;
    enum ledger_stray_proof proof;
    struct ledger_attributes now;
    for (;;) {
        /* An agent that is killed does not die at once: until then it has some of this on its way.
         */
        ledger_process_sweep(0);
        uint64_t asked_ns = sys_now_ns();
        int result = durable_strays_ask(c, &epoch, told);
        if (result != 0)
            return result;
        file_attributes_convert(told, &now);
        proof = ledger_file_prove_strays(c->to.entry, epoch, &now, sent);
        *proven = proof == LEDGER_STRAY_PROVEN;
        if (*proven) /* what a WRITE finds is compared with it */
            ledger_file_learned(c->to.entry, epoch, &now, asked_ns);
        if (proof != LEDGER_STRAY_ASK || sys_now_ns() > until_ns)
            return 0;
        if (!file_upper.help(NULL))
            sys_nanosleep_ms(ASK_MS);
    }
}

static int copy(struct committing *c, uint64_t mark, bool sent, struct run_stray_file *file)
{
    struct ledger_stray stray;
    uint64_t from = 0;
    uint8_t *bytes = sys_alloc(LEDGER_STRAY_MAX);
    int result = bytes ? 0 : -ENOMEM;
    while (!result &&
           (stray = ledger_file_stray(c->to.entry, mark, sent, from, bytes)).length > 0) {
        result = run_stray_piece(file, stray.offset, bytes, stray.length);
        from = stray.offset + stray.length;
    }
    sys_free(bytes);
    return result;
}

/* Copies the strays into a file of the run directory. *file has its name. 0 or -errno. */
static int save(struct committing *c, uint64_t mark, bool sent, struct run_stray_file *file)
{
    struct timespec now;
    sys_clock_gettime(CLOCK_REALTIME, &now);
    const struct run_stray stray = {.server = c->to.mount->server->conf->name,
                                    .mount = c->to.mount->path,
                                    .path = c->path,
                                    .device = c->to.entry->key.device,
                                    .inode = c->to.entry->key.inode,
                                    .since_s = (uint64_t)now.tv_sec};
    int result = run_stray_begin(file, &stray);
    if (!result)
        result = copy(c, mark, sent, file);
    int ended = run_stray_end(file, !result);
    return result ? result : ended;
}

/* Another process saw to the same strays at the same time: removes the file again. */
static void remove_again(const struct committing *c, const struct run_stray_file *file)
{
    int run = run_open();
    if (file->bytes > 0) /* the log said so */
        log_notice("%s: %s of the run directory is removed again, as another process has "
                   "seen to these bytes meanwhile",
                   c->path, file->name);
    if (run >= 0)
        run_stray_remove(run, file->name);
    run_close(run);
}

static void say(struct committing *c, const struct run_stray_file *file, int result)
{
    const char *server = c->to.mount->server->conf->name;
    if (result == 0)
        log_error("%s: %llu bytes that a killed process wrote are not sent to server %s, as the "
                  "file may have been changed by another host or program since: they are in %s of "
                  "the run directory; `directnfs flush --force FILE` writes them to the file, "
                  "`directnfs flush --discard FILE` removes them",
                  c->path, (unsigned long long)file->bytes, server, file->name);
    else if (durable_committing_may_say(c, "stray"))
        log_error("%s: what a killed process wrote is not sent to server %s, as the file may have "
                  "been changed since, and cannot be set aside in the run directory: %s; make room "
                  "there",
                  c->path, server, strerrordesc_np(-result));
}

static int set_aside(struct committing *c, enum ledger_stray_set set)
{
    struct run_stray_file file;
    bool sent = set == LEDGER_STRAYS_SENT;
    uint64_t mark = durable_strays_not_arrived(c, set);
    if (mark == 0)
        return 0;
    int result = save(c, mark, sent, &file);
    if (result != 0 || file.bytes > 0) /* before it drops them: it may be killed */
        say(c, &file, result);
    if (result == 0 && ledger_file_drop_strays(c->to.entry, mark, sent) == 0)
        remove_again(c, &file);
    return result ? -EIO : 0;
}

static void say_lost(struct committing *c, const struct run_stray_file *file, int result)
{
    if (result == 0)
        log_error("%s: %llu bytes that the server lost are not written again, as somebody else "
                  "changed the file since: another host, or a process that cannot use the library; "
                  "fsync fails. They are in %s of the run directory; `directnfs flush --force "
                  "FILE` writes them to the file, `directnfs flush --discard FILE` removes them",
                  c->path, (unsigned long long)file->bytes, file->name);
    else if (durable_committing_may_say(c, "lost"))
        log_error("%s: what the server lost is not written again, as somebody else changed the "
                  "file since, and cannot be set aside in the run directory: %s; make room there",
                  c->path, strerrordesc_np(-result));
}

int durable_strays_set_lost_aside(struct committing *c, const struct ledger_commit *commit)
{
    struct run_stray_file file;
    c->lost = commit;
    uint64_t mark = durable_strays_not_arrived(c, LEDGER_STRAYS_LOST);
    c->lost = NULL;
    if (mark == 0)
        return 0;
    int result = save(c, mark, true, &file);
    if (result != 0 || file.bytes > 0)
        say_lost(c, &file, result);
    if (result != 0)
        return -EIO;
    if (ledger_file_drop_lost(c->to.entry, mark) == 0) {
        remove_again(c, &file);
        return 0;
    }
    if (c->to.inode)
        atomic_store(&c->to.inode->loss_due, true);
    c->is_lost = true;
    return 0;
}

/* ---- sending ---- */

/* The server has only these bytes, and nobody can tell what the other host wrote there. */
static void say_overtaken(struct committing *c, const struct ledger_write *write)
{
    ledger_file_tell_loss(c->to.entry);
    log_error("%s: another host or program changed the file at the very moment at which %llu bytes "
              "at offset %llu, which a killed process wrote, were sent to server %s; what it wrote "
              "there meanwhile is lost",
              c->path, (unsigned long long)write->length, (unsigned long long)write->offset,
              c->to.mount->server->conf->name);
}

/* Did the file differ, just before the WRITE, from what was expected, and from what a write of this
 * host made of it meanwhile? */
static bool is_overtaken(const struct nfs_transfer *transfer, const struct nfs_time *expected,
                         const struct ledger_ending *ending)
{
    return ending->overtaken && !transfer->repeated &&
           (transfer->before.sec != expected->sec || transfer->before.nsec != expected->nsec);
}

/* Not inlined: only callers with strays need so much stack. */
__attribute__((noinline)) static int send_one(struct committing *c, struct durable_write *write,
                                              struct nfs_attr *expected)
{
    const struct ledger_write *announced = &write->announced;
    struct iovec kept[LEDGER_WRITE_VECTORS];
    struct nfs_transfer transfer;
    struct ledger_ending ending;
    const struct nfs_data data = durable_write_data(write, kept);
    const struct nfs_time ctime = expected->ctime;
    write->epoch = ledger_file_asking(c->to.entry);
    int result =
        nfs_write_if(&c->to.client, c->to.use.fh, announced->offset, &data, expected, &transfer);
    durable_write_judge(write, result, &transfer, &ending);
    ledger_writes_end(&ending, 1);
    if (is_overtaken(&transfer, &ctime, &ending))
        say_overtaken(c, announced);
    if (file_target_again(&c->to, result)) /* another handle: is it still the same file? */
        return -ECANCELED;
    return ending.overtaken ? -ECANCELED : result;
}

/* Takes the next strays. This thread may have to bring to its end what is in their way. */
static int take(struct committing *c, struct ledger_sending *sending, struct ledger_write *write)
{
    bool wait = false;
    int result;
    while ((result = ledger_dirty_take(c->to.entry, sending, wait, write)) == -EAGAIN)
        wait = !file_upper.help(NULL);
    return result == -ENOSPC ? -EIO : result; /* this process has no slot in the registry */
}

/* Sends strays one after the other, as long as the file is as expected. 0; -ECANCELED: it is not,
 * or nobody knows; or -errno. */
static int send_all(struct committing *c, struct nfs_attr *expected)
{
    struct ledger_sending sending =
        ledger_dirty_now(c->to.entry, durable_longest_write(c->to.mount));
    struct durable_write write = {.to = &c->to, .stable = NFS_FILE_SYNC};
    int result = 0;
    sending.strays = true;
    while (!result && (result = take(c, &sending, &write.announced)) == 1)
        result = send_one(c, &write, expected);
    if (!result)
        ledger_file_end_strays(c->to.entry);
    return result;
}

/* ---- settling ---- */

static int settle(struct committing *c)
{
    struct nfs_attr expected;
    bool proven;
    int result = prove(c, false, &proven, &expected);
    if (result != 0)
        return result;
    if (!proven) {
        result = set_aside(c, LEDGER_STRAYS_UNSENT);
        if (!result) /* they were overwritten, or another process sends them */
            ledger_file_end_strays(c->to.entry);
        return result;
    }
    if (ledger_file_mark_strays(c->to.entry, LEDGER_STRAYS_UNPROVEN) != 0)
        return set_aside(c, LEDGER_STRAYS_UNPROVEN);
    durable_commit_as_writer(c);
    result = send_all(c, &expected);
    if (durable_commit_is_refusal(result))
        return set_aside(c, LEDGER_STRAYS_UNSENT);
    return result != -ECANCELED ? result : 0; /* else the caller asks whether it is still proven */
}

int durable_strays_settle(struct committing *c)
{
    int result = 0;
    for (int i = 0; !result && ledger_file_has_strays(c->to.entry); i++) {
        if (i > 0) /* others died meanwhile, or another process does this now */
            sys_nanosleep_ms(ASK_MS << i);
        result = i < ATTEMPTS ? settle(c) : -EIO;
    }
    return result;
}

int durable_strays_settle_sent(struct committing *c)
{
    struct nfs_attr told;
    bool proven;
    if (!ledger_file_has_sent_strays(c->to.entry))
        return 0;
    int result = prove(c, true, &proven, &told);
    if (result == 0 && !proven)
        result = set_aside(c, LEDGER_STRAYS_SENT);
    return result != 0 ? result : !proven;
}
