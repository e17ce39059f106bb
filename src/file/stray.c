#include "file/stray.h"

#include <stdio.h>
#include <string.h>

#include "file/arrived.h"
#include "file/flush.h"
#include "file/getattr.h"
#include "file/io.h"
#include "ledger/attributes.h"
#include "ledger/hold.h"
#include "run/directory.h"
#include "run/strays.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum { ASK_MS = 20, ATTEMPTS = 8 };

/* What the server says of the file, asked at *epoch. 0 or -errno. */
static int ask(struct committing *c, uint64_t *epoch, struct ledger_attributes *now)
{
    struct nfs_client client = file_mount_client(c->mount, c->auth);
    struct nfs_attr attr;
    int result;
    do {
        *epoch = ledger_file_asking(c->entry);
        result = nfs_getattr(&client, c->use.fh, &attr);
    } while (file_commit_again(c, result));
    if (result == 0)
        file_attributes_convert(&attr, now);
    return result == -EAGAIN ? -EIO : result;
}

/* Is it proven that nobody else changed it? What the dead had on its way is waited for. */
static int prove(struct committing *c, bool sent, bool *proven)
{
    uint64_t until_ns = sys_now_ns() + 2 * ledger_hold_ns() + UINT64_C(1000000000), epoch;
    enum ledger_stray_proof proof;
    struct ledger_attributes now;
    for (;;) {
        int result = ask(c, &epoch, &now);
        if (result != 0)
            return result;
        proof = ledger_file_prove_strays(c->entry, epoch, &now, sent);
        *proven = proof == LEDGER_STRAY_PROVEN;
        if (proof != LEDGER_STRAY_ASK || sys_now_ns() > until_ns)
            return 0;
        sys_nanosleep_ms(ASK_MS);
    }
}

static int copy(struct committing *c, uint64_t mark, bool sent, struct run_stray_file *file)
{
    struct ledger_stray stray;
    uint64_t from = 0;
    uint8_t *bytes = sys_alloc(LEDGER_STRAY_MAX);
    int result = bytes ? 0 : -ENOMEM;
    while (!result && (stray = ledger_file_stray(c->entry, mark, sent, from, bytes)).length > 0) {
        result = run_stray_piece(file, stray.offset, bytes, stray.length);
        from = stray.offset + stray.length;
    }
    sys_free(bytes);
    return result;
}

/* Into a file of the run directory, and its name. 0, or -errno. */
static int save(struct committing *c, uint64_t mark, bool sent, struct run_stray_file *file)
{
    struct timespec now;
    sys_clock_gettime(CLOCK_REALTIME, &now);
    const struct run_stray stray = {.server = c->mount->server->conf->name,
                                    .mount = c->mount->path,
                                    .path = c->path,
                                    .device = c->entry->key.device,
                                    .inode = c->entry->key.inode,
                                    .since_s = (uint64_t)now.tv_sec};
    int result = run_stray_begin(file, &stray);
    if (!result)
        result = copy(c, mark, sent, file);
    int ended = run_stray_end(file, !result);
    return result ? result : ended;
}

/* Another process does so at the same time. */
static void remove_again(const struct run_stray_file *file)
{
    int run = run_open();
    if (run >= 0)
        run_stray_remove(run, file->name);
    run_close(run);
}

static void say(struct committing *c, const struct run_stray_file *file, int result)
{
    const char *server = c->mount->server->conf->name;
    if (result == 0)
        log_error("%s: %llu bytes that a killed process wrote are not sent to server %s, as the "
                  "file may have been changed by another host or program since: they are in %s of "
                  "the run directory; `directnfs flush --force FILE` writes them to the file, "
                  "`directnfs flush --discard FILE` removes them",
                  c->path, (unsigned long long)file->bytes, server, file->name);
    else if (file_commit_may_say(c, "stray"))
        log_error("%s: what a killed process wrote is not sent to server %s, as the file may have "
                  "been changed since, and cannot be set aside in the run directory: %s; make room "
                  "there",
                  c->path, server, strerrordesc_np(-result));
}

static int set_aside(struct committing *c, enum ledger_stray_set set)
{
    struct run_stray_file file;
    bool sent = set == LEDGER_STRAYS_SENT;
    uint64_t mark = file_strays_not_arrived(c, set);
    if (mark == 0)
        return 0;
    int result = save(c, mark, sent, &file);
    if (result == 0 && ledger_file_drop_strays(c->entry, mark, sent) == 0)
        remove_again(&file);
    else
        say(c, &file, result);
    return result ? -EIO : 0;
}

static int settle(struct committing *c)
{
    bool proven;
    int result = prove(c, false, &proven);
    if (result != 0)
        return result;
    if (!proven)
        return set_aside(c, LEDGER_STRAYS_UNSENT);
    if (ledger_file_mark_strays(c->entry, LEDGER_STRAYS_UNPROVEN) != 0)
        return set_aside(c, LEDGER_STRAYS_UNPROVEN);
    return ledger_file_take_strays(c->entry) ? 0 : -EIO;
}

int file_strays_settle(struct committing *c)
{
    int result = 0, i = 0;
    for (; !result && ledger_file_has_strays(c->entry); i++) {
        if (i > 0) /* others died meanwhile, or somebody else is about it */
            sys_nanosleep_ms(ASK_MS << i);
        result = i < ATTEMPTS ? settle(c) : -EIO;
    }
    if (i > 0 && result == 0) /* at once: a proof is as old as its question */
        result = file_flush_all(c);
    return result;
}

int file_strays_settle_sent(struct committing *c)
{
    bool proven;
    if (!ledger_file_has_sent_strays(c->entry))
        return 0;
    int result = prove(c, true, &proven);
    if (result == 0 && !proven)
        result = set_aside(c, LEDGER_STRAYS_SENT);
    return result != 0 ? result : !proven;
}
