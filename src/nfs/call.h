/* What the versions of NFS share below their procedures: inside src/nfs only. */
#ifndef NFS_CALL_H
#define NFS_CALL_H

#include "nfs/nfs.h"

/* Counts an answered call and its outcome for the statistics. If the answer was garbage, the log
 * says so. */
void nfs_call_count(const struct rpc_call *call, int error);

/* The answer says that the call went well, and something impossible: `what`. The log says so once a
 * minute for each server. */
void nfs_call_senseless(const struct rpc_call *call, const char *what);

/* The call was answered with a status that programs see only as EIO. The log says so once a minute
 * for each server and status. */
void nfs_call_refused(const struct rpc_call *call, const char *status);

/* What the call asked for is at another server now. The log says so once a minute for each
 * server. */
void nfs_call_moved(const struct rpc_call *call);

/* May the server have carried out the call more than once? Then only the last answer is known. */
bool nfs_call_repeated(const struct rpc_call *call);

/* How long a caller goes on calling again, until it gets a final answer. */
struct nfs_patience {
    unsigned turns, waits; /* how often it called again, and how often after a pause */
    uint64_t until_ns;     /* the client's time limit; 0: not looked up yet */
};

/* The time limit counts from here. Without this it counts from the first call that is made
 * again. */
void nfs_patience_begin(const struct nfs_client *client, struct nfs_patience *patience);

/*
 * To be called before a call is made again: makes the pause after JUKEBOX or DELAY. `at_once`: it
 * is another answer, and the first time needs no pause. 0, or -ETIMEDOUT: the client has no time
 * left.
 */
int nfs_call_again(const struct nfs_client *client, struct nfs_patience *patience, bool at_once);

#endif
