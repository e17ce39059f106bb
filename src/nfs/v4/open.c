#include "nfs/v4/open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nfs/v4/call.h"
#include "run/log_limit.h"
#include "sys/alloc.h"
#include "sys/hash.h"
#include "sys/log.h"

enum { OPENS = 1024, REFUSALS_MAX = 64, SAY_EVERY_S = 3600 };

/* An open file. */
struct nfs4_open {
    uint32_t share; /* 0: there is none */
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

/* nfs4_open_state() under `opening`. */
static struct nfs4_stateid state_of(const struct nfs_client *client, const struct nfs_fh *fh,
                                    uint32_t share)
{
    struct nfs_session *session = client->session;
    if (!session->opens)
        session->opens = sys_alloc_zeroed(OPENS * sizeof(*session->opens));
    if (!session->opens)
        return nfs4_anonymous;
    struct nfs4_open *open = place_of(session, fh);
    uint32_t epoch = atomic_load(&session->epoch);
    bool same = is_of(open, fh) && open->epoch == epoch;
    if (same && (open->share & share) == share)
        return open->stateid;
    if (same)
        share |= open->share;
    else if (open->share != 0 && open->epoch == epoch)
        nfs4_close(client, &open->fh, &open->stateid);
    open->share = 0;
    open->fh = *fh;
    open->epoch = epoch;
    int error = nfs4_open(client, fh, share, &open->stateid);
    if (error != 0) {
        say_not_opened(client, error);
        return nfs4_anonymous;
    }
    open->share = share;
    return open->stateid;
}

struct nfs4_stateid nfs4_open_state(const struct nfs_client *client, const struct nfs_fh *fh,
                                    uint32_t share)
{
    struct nfs_session *session = client->session;
    if (__builtin_expect(!atomic_load_explicit(&session->insists, memory_order_relaxed), true))
        return nfs4_anonymous;
    pthread_mutex_lock(&session->opening);
    struct nfs4_stateid stateid = state_of(client, fh, share);
    pthread_mutex_unlock(&session->opening);
    return stateid;
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
    if (pthread_mutex_trylock(&session->opening) != 0)
        return;
    for (unsigned i = 0; session->opens && i < OPENS; i++) {
        struct nfs4_open *open = &session->opens[i];
        if (open->share != 0 && open->epoch == epoch &&
            nfs4_close(client, &open->fh, &open->stateid) == -ETIMEDOUT)
            break;
    }
    nfs4_open_forget(session);
    pthread_mutex_unlock(&session->opening);
}

void nfs4_open_forget(struct nfs_session *session)
{
    sys_free(session->opens);
    session->opens = NULL;
}
