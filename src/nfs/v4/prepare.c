/* Whose turn it is to make a session. */
#include "nfs/v4/session.h"

#include <errno.h>

#include "nfs/call.h"
#include "rpc/rpc.h"
#include "sys/sys.h"

enum { TURN_PAUSE_MS = 500 };

/* False: it is held for longer. It tries again and again: ThreadSanitizer does not know
 * pthread_mutex_clocklock(), and the clock of pthread_mutex_timedlock() jumps. */
static bool lock_until(pthread_mutex_t *lock, uint64_t until_ns)
{
    enum { PAUSE_MS = 2 };
    if (until_ns == UINT64_MAX)
        return pthread_mutex_lock(lock) == 0;
    while (pthread_mutex_trylock(lock) != 0) {
        if (sys_now_ns() >= until_ns)
            return false;
        sys_nanosleep_ms(PAUSE_MS);
    }
    return true;
}

/* A user whose ticket has ended gives way to others for a while, and then tries again. */
int nfs4_session_prepare(const struct nfs_client *client)
{
    struct nfs_session *session = client->session;
    struct nfs_client asking = *client;
    struct nfs_patience patience = {.turns = 0};
    nfs_patience_begin(client, &patience);
    if (client->auth->identity && client->timeout_ms == 0)
        asking.timeout_ms = NFS_IN_TURN;
    for (;;) {
        if (!lock_until(&session->making, patience.until_ns))
            return -ETIMEDOUT;
        int result = nfs4_session_prepare_locked(&asking, &patience);
        pthread_mutex_unlock(&session->making);
        if (result != -EKEYEXPIRED || asking.timeout_ms != NFS_IN_TURN ||
            client->timeout_ms == NFS_IN_TURN)
            return result;
        rpc_pause(TURN_PAUSE_MS);
        if (nfs4_session_is_ready(client))
            return 0;
    }
}
