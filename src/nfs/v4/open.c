#include "nfs/v4/open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/v4/call.h"
#include "nfs/xdr.h"
#include "run/log_limit.h"
#include "sys/alloc.h"
#include "sys/hash.h"
#include "sys/log.h"

enum { NFS4_STATEID_COUNT = 4 /* its first bytes */ };
enum { OPENS = 1024, REFUSALS_MAX = 64, SAY_EVERY_S = 3600 };

/* An open file. */
struct nfs4_open {
    uint32_t share; /* enum nfs4_share. 0: there is none */
    uint32_t epoch; /* session->epoch when it was opened */
    struct nfs_fh fh;
    struct nfs4_stateid stateid;
};

static struct nfs4_open *place_of(struct nfs_session *session, const struct nfs_fh *fh)
{
    uint64_t hash = sys_hash(SYS_HASH_NONE, fh->data, fh->len);
    return &session->opens[(hash >> 20) % OPENS];
}

static bool is_of(const struct nfs4_open *open, const struct nfs_fh *fh)
{
    return open->share != 0 && nfs_same_fh(&open->fh, fh);
}

/* Without this line only the error of the READ or WRITE that follows would be known. */
static void say_not_opened(const struct nfs_client *client, int error)
{
    char subject[320];
    snprintf(subject, sizeof(subject), "not opened: %s", client->server->name);
    if ((error == -ENOSPC || error == -EIO || error == -EDQUOT) &&
        run_may_say(subject, SAY_EVERY_S))
        log_warning("server %s: it insists that files are open, and opens no more: %s. It may have "
                    "as many open files as it allows: let programs use fewer, or raise its limit",
                    client->server->name, strerrordesc_np(-error));
}

/* Under `opening`. The place of the file, or NULL: there is no memory. */
static struct nfs4_open *find(struct nfs_session *session, const struct nfs_fh *fh)
{
    if (!session->opens)
        session->opens = sys_alloc_zeroed(OPENS * sizeof(*session->opens));
    return session->opens ? place_of(session, fh) : NULL;
}

/* Is `a` of the same open as `b`, and not older? The server counts what it makes of one. */
static bool is_newer(const struct nfs4_stateid *a, const struct nfs4_stateid *b)
{
    return memcmp(a->bytes + NFS4_STATEID_COUNT, b->bytes + NFS4_STATEID_COUNT,
                  NFS4_STATEID - NFS4_STATEID_COUNT) == 0 &&
           (int32_t)(xdr_load_u32(a->bytes) - xdr_load_u32(b->bytes)) >= 0;
}

/* Takes the open of another file out of the place. *former: its share is 0 if it need not be
 * closed. */
static void empty(struct nfs4_open *open, uint32_t epoch, struct nfs4_open *former)
{
    *former = *open;
    if (open->epoch != epoch)
        former->share = 0;
    open->share = 0;
}

/* Is the file open so? True, with its state. Else, or where there is no memory, false, with what
 * has to be closed before. */
static bool look(struct nfs_session *session, const struct nfs4_open *wanted,
                 struct nfs4_stateid *stateid, struct nfs4_open *former)
{
    former->share = 0;
    pthread_mutex_lock(&session->opening);
    struct nfs4_open *open = find(session, &wanted->fh);
    bool same = open && is_of(open, &wanted->fh) && open->epoch == wanted->epoch;
    bool enough = same && (open->share & wanted->share) == wanted->share;
    if (enough)
        *stateid = open->stateid;
    else if (open && !same)
        empty(open, wanted->epoch, former);
    pthread_mutex_unlock(&session->opening);
    return enough;
}

/* Keeps what was opened just now, perhaps as other threads opened the file as well. *former: as
 * look(). */
static void keep(struct nfs_session *session, const struct nfs4_open *opened,
                 struct nfs4_open *former)
{
    former->share = 0;
    pthread_mutex_lock(&session->opening);
    struct nfs4_open *open = find(session, &opened->fh);
    bool same = open && is_of(open, &opened->fh) && open->epoch == opened->epoch;
    if (same && is_newer(&open->stateid, &opened->stateid)) {
        open->share |= opened->share;
    } else if (same) {
        uint32_t share = is_newer(&opened->stateid, &open->stateid) ? open->share : 0;
        *open = *opened;
        open->share |= share;
    } else if (open && (open->share == 0 || (int32_t)(opened->epoch - open->epoch) >= 0)) {
        empty(open, opened->epoch, former);
        *open = *opened;
    }
    pthread_mutex_unlock(&session->opening);
}

static void close_former(const struct nfs_client *client, const struct nfs4_open *former)
{
    if (former->share != 0)
        nfs4_close(client, &former->fh, &former->stateid);
}

struct nfs4_stateid nfs4_open_state(const struct nfs_client *client, const struct nfs_fh *fh,
                                    uint32_t share)
{
    struct nfs_session *session = client->session;
    if (__builtin_expect(!atomic_load_explicit(&session->insists, memory_order_relaxed), true))
        return nfs4_anonymous;
    struct nfs4_open opened = {.share = share, .epoch = atomic_load(&session->epoch), .fh = *fh},
                     former;
    if (!look(session, &opened, &opened.stateid, &former)) {
        /* A user without credentials waits here: no other waits for that. The server joins what one
         * owner opens of a file, and counts it: RFC 8881 sections 9.1.2 and 18.16.3. */
        close_former(client, &former);
        int error = nfs4_open(client, fh, share, &opened.stateid);
        if (error != 0) {
            say_not_opened(client, error);
            return nfs4_anonymous;
        }
        keep(session, &opened, &former);
        close_former(client, &former);
    }
    /* Count 0 is the newest, whoever opens the file meanwhile: section 8.2.2. */
    memset(opened.stateid.bytes, 0, NFS4_STATEID_COUNT);
    return opened.stateid;
}

bool nfs4_open_refused(struct nfs_session *session, uint32_t status)
{
    if (status != NFS4ERR_BAD_STATEID && status != NFS4ERR_OPENMODE &&
        status != NFS4ERR_STALE_STATEID && status != NFS4ERR_OLD_STATEID &&
        status != NFS4ERR_ADMIN_REVOKED)
        return false;
    if (atomic_fetch_add(&session->refusals, 1) >= REFUSALS_MAX)
        return false;
    atomic_fetch_add(&session->epoch, 1);
    if (!atomic_exchange(&session->insists, true) && run_may_say("a server insists", SAY_EVERY_S))
        log_notice("a server of NFSv4.1 refuses to read or write files that are not open: each is "
                   "opened there by its handle");
    return true;
}

void nfs4_open_end(const struct nfs_client *client)
{
    struct nfs_session *session = client->session;
    uint32_t epoch = atomic_load(&session->epoch);
    pthread_mutex_lock(&session->opening);
    struct nfs4_open *opens = session->opens;
    session->opens = NULL;
    pthread_mutex_unlock(&session->opening);
    for (unsigned i = 0; opens && i < OPENS; i++) {
        if (opens[i].share != 0 && opens[i].epoch == epoch &&
            nfs4_close(client, &opens[i].fh, &opens[i].stateid) == -ETIMEDOUT)
            break;
    }
    sys_free(opens);
}

void nfs4_open_forget(struct nfs_session *session)
{
    sys_free(session->opens);
    session->opens = NULL;
}
