/*
 * Fences: a standby host takes the sessions of the former one away.
 *
 * All processes that serve a stanza with a fence have one client owner, on any host. With it they
 * tell a verifier: that of the last time that their host took the fence. So the processes of one
 * host share a client id, in which each has a session of its own. A host that takes the fence makes
 * a session with another verifier. With that, the server ends the sessions of all others: RFC 8881
 * section 18.35.4, case 5. Their calls that are in flight are answered NFS4ERR_BADSESSION.
 *
 * A restarted server knows no owner any more, and the first host to come would have the fence. So a
 * token, a small file in the export, says which host took it last, and with which verifier. It is
 * written before the sessions of the others end. It is read, through a session of another owner,
 * before a session is made, and once more after that. So a host that lost the fence never does
 * anything in a new session.
 *
 * Sequence numbers of CREATE_SESSION belong to the client id. So the processes of a host make their
 * sessions one after the other, under a lock in the run directory (run/fence.h).
 */
#ifndef NFS_V4_FENCE_H
#define NFS_V4_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "nfs/nfs.h"
#include "run/fence.h"

enum { NFS4_TOKEN_SIZE = 256, NFS4_TOKEN_WORD = 65, NFS4_TOKEN_NAME = 96 };

/* What a token says. */
struct nfs4_token {
    uint64_t verifier;
    char host[NFS4_TOKEN_WORD]; /* the host that took it, */
    char time[NFS4_TOKEN_WORD]; /* and when, by that host's clock */
};

/* The part of a session that belongs to its fence; under the session's `making`, except for
 * atomics. */
struct nfs4_fence {
    struct nfs_fence of; /* name NULL: it has no fence */
    /* The verifier that this process, and its children, began with; 0: none yet. Another one
     * belongs to another term: what they know of files is not true then. */
    _Atomic uint64_t term;
    _Atomic bool lost;          /* another host has it: for good */
    _Atomic bool failed;        /* no session now, as it is not known which host has it */
    bool taking;                /* by the command, which has the lock and writes the token itself */
    int locked;                 /* the lock's descriptor; -1: it is not locked */
    struct nfs_session *asking; /* with another owner, to read the token */
};

/* The credential that all sessions with a fence are made with: one owner belongs to one
 * principal. */
void nfs4_fence_auth(struct rpc_auth *auth);
/* The client calls with it, in *auth, unless it has Kerberos: then its own user does for all. */
void nfs4_fence_anybody(struct nfs_client *client, struct rpc_auth *auth);

const _Atomic bool *nfs4_fence_set(struct nfs_session *session, const struct nfs_fence *fence);
int nfs4_fence_hold(struct nfs_session *session, uint64_t *term);
/* In the child of fork(): it has the fence if its parent has it. */
void nfs4_fence_after_fork(struct nfs4_fence *fence);

/*
 * Around the making of a session, with `making` held.
 *
 * nfs4_fence_begin():
 * 0: the host has the fence, the token says so, and the lock is held.
 * -EIO: the host does not have it, or that is not known; the log says so.
 * NFS4ERR_DELAY: it cannot be told now, as nothing can be opened.
 * -ETIMEDOUT: the server did not answer in time, or the lock was not free in time.
 *
 * nfs4_fence_proven(), when the session is made: gives the lock back, and asks the token once
 * more. 0, -EIO or -ETIMEDOUT, as above.
 *
 * nfs4_fence_end(): always, whatever nfs4_fence_begin() returned.
 */
int nfs4_fence_begin(const struct nfs_client *client);
int nfs4_fence_proven(const struct nfs_client *client);
void nfs4_fence_end(const struct nfs_client *client);

/* Is a session impossible, so that calls end with EIO? */
static inline bool nfs4_fence_is_shut(const struct nfs4_fence *fence)
{
    return atomic_load_explicit(&fence->lost, memory_order_relaxed) ||
           atomic_load_explicit(&fence->failed, memory_order_relaxed);
}

/* The name of the token's file in the directory of the fence. */
void nfs4_token_name(const char *fence, char name[NFS4_TOKEN_NAME]);
/* The token's text, which has NFS4_TOKEN_SIZE bytes. */
void nfs4_token_print(const struct nfs4_token *token, char text[NFS4_TOKEN_SIZE]);
bool nfs4_token_parse(const char *text, size_t length, struct nfs4_token *token);
/* Reads the token from the server. The client's session must have no fence. 0, -ENOENT, -EBADMSG:
 * it makes no sense, or another -errno. */
int nfs4_token_read(const struct nfs_client *client, const struct nfs_fence *fence,
                    struct nfs4_token *token);
/* Does this host have the fence? `error` and `token` come from nfs4_token_read(). */
enum run_fence_state nfs4_fence_state(const struct nfs_fence *fence, int error,
                                      const struct nfs4_token *token);

/* For the command, which has the lock and has written the token: ends the sessions of all others at
 * the client's server. The client's session must be a new one. 0 or -errno. */
int nfs4_fence_take(const struct nfs_client *client, const struct nfs_fence *fence,
                    uint64_t verifier);

#endif
