/*
 * Fences: a standby host takes the sessions of the former one away.
 *
 * All processes that serve a stanza with a fence have one client owner, whatever host they run on.
 * The verifier that they tell with it is that of the last time that their host took the fence, so
 * that processes of one host share a client id, in which each has a session of its own. Who takes
 * the fence makes a session with another verifier, and with that the server ends the sessions of
 * all others: RFC 8881 section 18.35.4, case 5. What of theirs is still on its way is answered
 * NFS4ERR_BADSESSION.
 *
 * A server that was started again knows no owner any more, and whoever came first would have the
 * fence. So a token, a small file in the export, says who took it last, and with which verifier. It
 * is written before the sessions of the others end, and read, through a session of another owner,
 * before a session is made and once more when it is. A host that lost the fence so never makes a
 * session that anything is done in.
 *
 * Sequence numbers of CREATE_SESSION count for the client id: the processes of a host make their
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
    char host[NFS4_TOKEN_WORD]; /* who took it, */
    char time[NFS4_TOKEN_WORD]; /* and when, by its clock */
};

/* The part of a session that has a fence; under its `making`, but for what is atomic. */
struct nfs4_fence {
    struct nfs_fence of; /* name NULL: it has none */
    /* The verifier that this process, and its children, began with; 0: none yet. Another one is of
     * another time: what they know of files is not true then. */
    _Atomic uint64_t term;
    _Atomic bool lost;          /* another has it: for good */
    _Atomic bool failed;        /* no session now, as it is not known who has it */
    bool taking;                /* by the command, which has the lock and writes the token itself */
    int locked;                 /* the lock's descriptor; -1: none */
    struct nfs_session *asking; /* of another owner, to read the token */
};

/* The credential that all sessions of a fence are made with: one owner is of one principal. */
void nfs4_fence_auth(struct rpc_auth *auth);

const _Atomic bool *nfs4_fence_set(struct nfs_session *session, const struct nfs_fence *fence);
int nfs4_fence_hold(struct nfs_session *session, uint64_t *term);
/* In the child of fork(): it has the fence as its parent has it. */
void nfs4_fence_after_fork(struct nfs4_fence *fence);

/*
 * Around the making of a session, with `making` held. Begin: 0 if the host has the fence, and the
 * token says so; then the lock is held. Or -EIO, after it was said, another -errno, or
 * NFS4ERR_DELAY: it cannot be told now, as nothing can be opened. Proven, when it is made: without
 * the lock, the same once more. End: always, whatever begin said.
 */
int nfs4_fence_begin(const struct nfs_client *client);
int nfs4_fence_proven(const struct nfs_client *client);
void nfs4_fence_end(const struct nfs_client *client);

/* Is there no hope of a session, so that calls end with EIO? */
static inline bool nfs4_fence_is_shut(const struct nfs4_fence *fence)
{
    return atomic_load_explicit(&fence->lost, memory_order_relaxed) ||
           atomic_load_explicit(&fence->failed, memory_order_relaxed);
}

/* The name of the token's file in the directory of the fence. */
void nfs4_token_name(const char *fence, char name[NFS4_TOKEN_NAME]);
/* Its text, of NFS4_TOKEN_SIZE bytes. */
void nfs4_token_print(const struct nfs4_token *token, char text[NFS4_TOKEN_SIZE]);
bool nfs4_token_parse(const char *text, size_t length, struct nfs4_token *token);
/* As the server has it, by a client whose session is no fence's. 0, -ENOENT, -EBADMSG if it makes
 * no sense, or another -errno. */
int nfs4_token_read(const struct nfs_client *client, const struct nfs_fence *fence,
                    struct nfs4_token *token);
/* Has this host the fence? `error` and `token` are of nfs4_token_read(). */
enum run_fence_state nfs4_fence_state(const struct nfs_fence *fence, int error,
                                      const struct nfs4_token *token);

/*
 * For the command, which has the lock, and has written the token: ends the sessions of all others
 * at the server that the client leads to, whose session must be a new one. 0 or -errno.
 */
int nfs4_fence_take(const struct nfs_client *client, const struct nfs_fence *fence,
                    uint64_t verifier);

#endif
