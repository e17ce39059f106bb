/*
 * A session of NFSv4.1 with a server: RFC 8881 section 2.10.
 *
 * A process has its own client owner for each server, and with it a client id and one session. Each
 * call has a slot of the session from when it is first sent until it is answered. The bytes of the
 * call contain the slot and its sequence. So the server tells a copy, over any connection, the
 * answer that it has kept, and never carries it out late. A connection belongs to the session from
 * the first SEQUENCE over it.
 *
 * A restarted server, or one that has not heard of us for longer than the lease, no longer knows
 * the session. Then the next call makes a new one. It has another `generation`, and what was in
 * flight is begun again by its owner.
 */
#ifndef NFS_V4_SESSION_H
#define NFS_V4_SESSION_H

#include <pthread.h>

#include "nfs/nfs.h"
#include "nfs/v4/fence.h"
#include "nfs/v4/types.h"
#include "run/identity.h"

enum {
    NFS4_SLOTS = 64,         /* at most: one word has a bit for each */
    NFS4_OWNER_MAX = 256,    /* bytes of our client owner */
    NFS4_OPERATIONS_MAX = 8, /* in a COMPOUND */
    NFS4_OVERHEAD = 2048     /* bytes of a call or reply with a payload, besides that */
};

/* How a server knows us: RFC 8881 section 2.4. */
struct nfs4_owner {
    char name[NFS4_OWNER_MAX];
    uint32_t length;
};

struct nfs_session {
    struct rpc_exact exact;   /* first: the session is found by it */
    pthread_mutex_t making;   /* held while a session is made or ended: seconds */
    uint64_t verifier;        /* of this start of the process; with a fence: of its term */
    unsigned number;          /* which of the sessions of this process */
    struct run_identity self; /* this process, as the owner names it; pid 0: not known yet */
    uint64_t boot;            /* of the host, likewise */
    void (*made)(void *of);
    void *of;
    struct nfs4_fence fence;
    bool owned; /* there is a client id */

    /* Opens (v4/open.h). */
    pthread_mutex_t opening;          /* guards `opens`; held for a few instructions */
    struct nfs4_open *opens;          /* NULL: none yet */
    _Atomic bool insists;             /* the server wants files to be open */
    _Atomic uint32_t refusals, epoch; /* in a row; what was opened in an older epoch is bad */

    _Atomic uint32_t ready;      /* the generation that can be used; 0: none */
    _Atomic uint32_t read_most;  /* bytes of payload that fit into a reply */
    _Atomic uint32_t write_most; /* bytes of payload that fit into a call */
    _Atomic uint32_t lease_s;
    _Atomic bool lays_out; /* the server says that it gives layouts: pNFS */
    _Atomic bool moved;    /* the server said that a file system moved, and the log did too */

    pthread_mutex_t lock; /* guards what follows; held for a few instructions */
    struct nfs4_owner owner;
    uint64_t client;                 /* the client id; written under `making` too */
    struct nfs4_opaque major, scope; /* of the session's server; length 0: not known */
    uint64_t minor;                  /* of the session's server */
    uint32_t generation;             /* counts the sessions */
    uint8_t id[NFS4_SESSION_ID];
    bool shut;        /* until the host is found to have the fence once more: see v4/slots.h */
    uint64_t free;    /* a bit for each slot that no call has */
    uint64_t lost;    /* a bit for each slot of no use any more: its call ended without an answer */
    uint32_t aside;   /* how many calls have a slot, and go on when a thread waits for them */
    uint32_t granted; /* slots of the session */
    uint32_t used;    /* how many of them a call has */
    uint32_t target;  /* the highest slot that the server wants to be used */
    uint32_t sequences[NFS4_SLOTS];        /* for each slot, of the last call that the server
                                              executed */
    uint32_t flags;                        /* those that SEQUENCE told last */
    uint64_t used_ns;                      /* when the server last answered in it */
    struct directnfs_session_stats *shown; /* NULL: not in the statistics */
};

/* A session that is not made yet; it sends no packet. Each time that it is made, it calls
 * `made(of)` (may be NULL). NULL: there is no memory. */
struct nfs_session *nfs4_session_new(void (*made)(void *of), void *of);

/* In the child of fork(): it has no session, and the parent's is untouched. It knows the server
 * that the session is with. */
void nfs4_session_after_fork(struct nfs_session *session);

/*
 * Makes the session if none can be used, and binds a connection that the server said is not bound
 * to it. It waits for as long as the client may, also while the server asks to come back later, or
 * another thread makes the session. Returns 0 or
 *   -EPROTONOSUPPORT  the server does not speak version 4.1
 *   -EBUSY            another client has our owner
 *   -EIO              the host does not have the fence of the session
 *   -EBADMSG, -EPROTO the answer is impossible, or the session granted is of no use
 * or an error of the RPC layer, or the meaning of another status.
 */
int nfs4_session_prepare(const struct nfs_client *client);
struct nfs_patience;
/* For prepare.c: one attempt, with `making` held. */
int nfs4_session_prepare_locked(const struct nfs_client *client, struct nfs_patience *patience);

/* Has nfs4_session_prepare() nothing to do? */
static inline bool nfs4_session_is_ready(const struct nfs_client *client)
{
    return atomic_load_explicit(&client->session->ready, memory_order_acquire) != 0 &&
           atomic_load_explicit(&client->server->unbound, memory_order_relaxed) == NULL;
}

/* nfs4_session_prepare() for each call: mostly it has nothing to do. */
static inline int nfs4_session_ready(const struct nfs_client *client)
{
    return __builtin_expect(nfs4_session_is_ready(client), true) ? 0 : nfs4_session_prepare(client);
}

/* The longest payload of a call, or of a reply; 0: not known yet. */
uint32_t nfs4_session_most(const struct nfs_session *session, bool write);

/* The server no longer knows the session of this generation, or it is of no use. */
void nfs4_session_lost(struct nfs_session *session, uint32_t generation);

/*
 * Calls the server if nothing was called for a third of the lease (RFC 8881 section 8.3). If
 * client->server is NULL, there is no contact yet, and it calls nothing. Returns in how many
 * milliseconds to call this again. -EKEYEXPIRED: its user has no ticket; another one may do it.
 */
int nfs4_session_renew(const struct nfs_client *client);

/* Ends the session at the server, within the client's time, if there is one and no thread makes
 * one. */
void nfs4_session_end(const struct nfs_client *client);

/*
 * Does the client, which has a path of its own, lead to the session's server? The owner and the
 * scope that the server tells must be equal, as in RFC 8881 section 2.10.5. So must the minor id of
 * the owner: another node may know our client id, but none of our sessions. It takes no slot, so
 * that a path without an answer costs none.
 * 0: it does.
 * -EXDEV: it does not.
 * -ENOTCONN: there is no session yet.
 * Another -errno: it cannot be told.
 */
int nfs4_session_leads_here(const struct nfs_client *over);

/* Shows the session in the statistics from now on, with the server's name. */
void nfs4_session_show(struct nfs_session *session, const char *server);

/* False: there is no session that can be used. */
bool nfs4_session_facts(struct nfs_session *session, struct nfs_session_facts *facts);

#endif
