/* What the versions of NFS have in common below their procedures: inside src/nfs only. */
#ifndef NFS_CALL_H
#define NFS_CALL_H

#include "nfs/nfs.h"
#include "nfs/v3/types.h"

/* Counts an answered call, for the statistics, and what came of it. That the answer was garbage is
 * said on the log. */
void nfs_call_count(const struct rpc_call *call, int error);

/* The answer says that it went well, and something that cannot be: `what`. Said on the log once a
 * minute for a server. */
void nfs_call_senseless(const struct rpc_call *call, const char *what);

/* It was answered with a status that no program is told, but EIO. Says so once a minute for a
 * server and a status. */
void nfs_call_refused(const struct rpc_call *call, const char *status);

/* What was asked for is at another server now. Says so once a minute for a server. */
void nfs_call_moved(const struct rpc_call *call);

/* Was the call sent more than once? Then the server may have carried it out more than once, and
 * only the last answer is known. */
bool nfs_call_repeated(const struct rpc_call *call);

/* Of one that calls until it is answered for good. */
struct nfs_patience {
    unsigned turns, waits; /* how often it called again, and after a pause */
    uint64_t until_ns;     /* the client's time limit; 0: it was not asked for yet */
};

/* The time limit counts from here, else from the first call that is made again. */
void nfs_patience_begin(const struct nfs_client *client, struct nfs_patience *patience);

/*
 * Before a call is made again: the pause after JUKEBOX, or DELAY. With `at_once`, after another
 * answer, there is none the first time. 0, or -ETIMEDOUT: the client has no more time.
 */
int nfs_call_again(const struct nfs_client *client, struct nfs_patience *patience, bool at_once);

#endif
