/*
 * To write the strays once more would make them stable, too. But somebody else may write there at
 * that moment, and that would undo those bytes. So a COMMIT has to vouch for what a READ has found:
 * one COMMIT before it and one after it, with the same verifier. Then the server did not restart
 * between them, and lose what was found.
 */
#include "durable/arrived.h"

#include <string.h>

#include "file/enter.h"
#include "ledger/commits.h"
#include "mount/mounts.h"
#include "mount/verifier.h"
#include "ledger/store/hold.h"
#include "sys/alloc.h"
#include "sys/sys.h"

enum { PAUSE_LEAST_MS = 20, PAUSE_MOST_MS = 300, RESTARTS = 3 };

struct look {
    struct committing *c;
    bool sent;
    uint64_t mark;
    bool found;     /* a stray that arrived */
    bool late;      /* a stray that did not, and may yet */
    uint8_t *bytes; /* a stray's, and behind them the server's */
};

/* Makes one COMMIT. True, with its verifier: it went well. */
static bool commit(struct committing *c, uint64_t *verifier)
{
    const struct ledger_commit unnoted = {0};
    uint64_t sent_ns;
    bool repeated;
    int result;
    do {
        sent_ns = sys_now_ns();
        result = nfs_commit(&c->to.client, c->to.use.fh, 0, 0, verifier, &repeated);
    } while (file_target_again(&c->to, result));
    if (result == 0)
        mount_server_saw(c->to.mount->server, *verifier, sent_ns, 0);
    /* It may have been told an error that no later COMMIT is told again. */
    if (result != 0 || repeated)
        ledger_commit_failed(c->to.entry, &unnoted);
    return result == 0 && !repeated;
}

static bool is_at_server(struct committing *c, const struct ledger_stray *stray, uint8_t *bytes)
{
    uint8_t *theirs = bytes + LEDGER_STRAY_MAX;
    const struct nfs_data data = {
        .vectors = &(struct iovec){theirs, stray->length}, .count = 1, .length = stray->length};
    struct nfs_transfer transfer;
    int result;
    do
        result = nfs_read(&c->to.client, c->to.use.fh, stray->offset, &data, &transfer);
    while (file_target_again(&c->to, result));
    return result == 0 && transfer.length == stray->length &&
           memcmp(theirs, bytes, stray->length) == 0;
}

static void look(struct look *look)
{
    struct ledger_stray stray;
    uint64_t from = 0;
    look->found = look->late = false;
    while ((stray = ledger_file_stray(look->c->to.entry, look->mark, look->sent, from, look->bytes))
               .length > 0) {
        bool arrived =
            is_at_server(look->c, &stray, look->bytes) &&
            ledger_file_stray_arrived(look->c->to.entry, look->mark, look->sent, stray.offset);
        look->found = look->found || arrived;
        look->late = look->late || (!arrived && stray.late);
        from = stray.offset + stray.length;
    }
}

/* Looks for strays that arrived, and drops them. False: the server does not vouch for what was
 * found. */
static bool look_and_drop(struct look *at)
{
    uint64_t before, after;
    if (!commit(at->c, &before))
        return false;
    look(at);
    if (!at->found)
        return true;
    if (!commit(at->c, &after) || after != before)
        return false;
    ledger_file_drop_arrived(at->c->to.entry, at->mark, at->sent);
    return true;
}

static uint64_t mark(struct committing *c, enum ledger_stray_set set)
{
    return set == LEDGER_STRAYS_LOST ? ledger_file_mark_lost(c->to.entry, c->lost)
                                     : ledger_file_mark_strays(c->to.entry, set);
}

uint64_t durable_strays_not_arrived(struct committing *c, enum ledger_stray_set set)
{
    uint64_t until_ns = sys_now_ns() + 2 * ledger_hold_ns();
    int pause_ms = PAUSE_LEAST_MS, restarts = 0;
    struct look at = {
        .c = c, .sent = set >= LEDGER_STRAYS_SENT, .bytes = sys_alloc(2 * LEDGER_STRAY_MAX)};
    while (at.bytes && (at.mark = mark(c, set)) != 0) {
        bool vouched = look_and_drop(&at);
        if (vouched ? !at.late || sys_now_ns() > until_ns : ++restarts == RESTARTS)
            break;
        sys_nanosleep_ms(pause_ms);
        pause_ms = pause_ms < PAUSE_MOST_MS ? 2 * pause_ms : pause_ms;
    }
    sys_free(at.bytes);
    return mark(c, set);
}
