/* The lease of a session: a server forgets a client that is silent for so long. */
#include <errno.h>

#include "stats/count.h"
#include "nfs/v4/call.h"
#include "nfs/v4/session.h"
#include "sys/sys.h"

enum { CONTACT_MS = 1000 }; /* about the longest that a first contact takes */

static int third_of_lease_ms(const struct nfs_session *session)
{
    enum { LONGEST_S = 3600 };
    uint32_t lease_s = atomic_load(&session->lease_s);
    return (int)(lease_s < LONGEST_S ? lease_s : LONGEST_S) * 1000 / 3;
}

static int until_idle_ms(struct nfs_session *session)
{
    pthread_mutex_lock(&session->lock);
    uint64_t used_ns = session->used_ns;
    pthread_mutex_unlock(&session->lock);
    int64_t left_ms = third_of_lease_ms(session) - (int64_t)((sys_now_ns() - used_ns) / 1000000);
    return left_ms > 0 ? (int)left_ms : 0;
}

int nfs4_session_renew(const struct nfs_client *client)
{
    struct nfs_session *session = client->session;
    struct rpc_call call, *calls[] = {&call};
    struct xdr_reader results;
    struct xdr_writer w;
    bool at_once;
    int left_ms = until_idle_ms(session);
    if (left_ms > 0)
        return left_ms;
    if (atomic_load(&session->ready) == 0) /* the next call that needs one makes it */
        return third_of_lease_ms(session);
    if (!client->server)
        return CONTACT_MS;
    nfs4_slots_begin(&call, client, DIRECTNFS_PROCEDURE_SEQUENCE, false, 1, &w);
    nfs4_put_op(&w, NFS4_OP_PUTROOTFH);
    rpc_call_end(&call, w.p);
    nfs_call_run(client, calls, 1);
    if (client->auth->identity && (call.error == -EKEYEXPIRED || call.error == -EACCES))
        return -EKEYEXPIRED;
    nfs4_call_outcome(&call, NFS4_OP_PUTROOTFH, &results, &at_once);
    return third_of_lease_ms(session);
}
