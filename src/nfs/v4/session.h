/*
 * A session of NFSv4.1 with a server: RFC 8881 section 2.10.
 *
 * A process has a client owner of its own for each server, and with it a client id and one session.
 * Each call has a slot of the session from when it is first sent until it is answered. Slot and
 * sequence are in its bytes, so that a copy of it, which may go over any connection, is told the
 * answer that the server has kept, and is never carried out late. A connection belongs to the
 * session from the first SEQUENCE over it on.
 *
 * A server that was started again, or has not heard of us for longer than the lease, knows the
 * session no more. Then a new one is made, by whoever calls next. It has another `generation`, and
 * what was in flight is begun again by its owner.
 */
#ifndef NFS_V4_SESSION_H
#define NFS_V4_SESSION_H

#include <pthread.h>

#include "nfs/nfs.h"
#include "nfs/v4/fence.h"
#include "nfs/v4/types.h"
#include "run/identity.h"

enum {
    NFS4_SLOTS = 64,         /* at most: of one word of bits */
    NFS4_OWNER_MAX = 256,    /* bytes of our client owner */
    NFS4_OPERATIONS_MAX = 8, /* of a COMPOUND */
    NFS4_OVERHEAD = 2048     /* of a call or reply with a payload, without that */
};

/* How a server knows us: RFC 8881 section 2.4. */
struct nfs4_owner {
    char name[NFS4_OWNER_MAX];
    uint32_t length;
};

struct nfs_session {
    struct rpc_exact exact;   /* first: it is found by it */
    pthread_mutex_t making;   /* held while a session is made or ended: seconds */
    uint64_t verifier;        /* of this start of the process */
    unsigned number;          /* of the sessions of this process */
    struct run_identity self; /* this process, as its owner has it; pid 0: not known yet, and */
    uint64_t boot;            /* the boot of the host */
    void (*made)(void *of);
    void *of;
    struct nfs4_fence fence;
    bool owned; /* there is a client id */

    /* Opens (v4/open.h). */
    pthread_mutex_t opening;          /* held while a file is opened or closed: seconds; guards */
    struct nfs4_open *opens;          /* NULL: none yet */
    _Atomic bool insists;             /* the server wants files to be open */
    _Atomic uint32_t refusals, epoch; /* in a row; and what was opened in an older one is bad */

    _Atomic uint32_t ready;      /* the generation that can be used; 0: none */
    _Atomic uint32_t read_most;  /* bytes of payload that fit into a reply, */
    _Atomic uint32_t write_most; /* and into a call */
    _Atomic uint32_t lease_s;
    _Atomic bool lays_out; /* the server says that it gives layouts: pNFS */
    _Atomic bool moved;    /* the server said so of a file system, and so did we */

    pthread_mutex_t lock; /* guards what follows; held for instructions */
    struct nfs4_owner owner;
    uint64_t client;                 /* the client id; written under `making` too */
    struct nfs4_opaque major, scope; /* of the server that the session is with; no length: none */
    uint64_t minor;                  /* likewise */
    uint32_t generation;             /* counts the sessions */
    uint8_t id[NFS4_SESSION_ID];
    bool shut;        /* until the host is found to have the fence once more: see v4/slots.h */
    uint64_t free;    /* slots that no call has: a bit each */
    uint64_t lost;    /* slots of calls that ended without an answer: of no use any more */
    uint32_t aside;   /* calls that have one, and go on when somebody waits for them */
    uint32_t granted; /* slots of the session */
    uint32_t used;    /* that a call has */
    uint32_t target;  /* the highest that the server wants to be used */
    uint32_t sequences[NFS4_SLOTS];        /* of the last call that the server executed */
    uint32_t flags;                        /* that SEQUENCE told last */
    uint64_t used_ns;                      /* when the server last answered in it */
    struct directnfs_session_stats *shown; /* NULL: not in the statistics */
};

/* One that is not made yet: no packet is sent. `made(of)` (may be NULL) is called each time that it
 * was made. NULL: no memory. */
struct nfs_session *nfs4_session_new(void (*made)(void *of), void *of);

/* In the child of fork(): it has none, and the parent's is untouched. It knows who the server is.
 */
void nfs4_session_after_fork(struct nfs_session *session);

/*
 * Makes the session if there is none that can be used, and binds a connection that the server said
 * is not bound to it. Waits for as long as the client may, also while the server asks to come back
 * later, or another thread makes it. 0 or
 *   -EPROTONOSUPPORT  it does not speak version 4.1
 *   -EBUSY            another client has our owner
 *   -EIO              the host does not have the fence of the session
 *   -EBADMSG, -EPROTO it says what cannot be, or grants a session that is of no use
 * or what the RPC layer says, or another status means.
 */
int nfs4_session_prepare(const struct nfs_client *client);

/* The same, for each call: mostly there is nothing to be done. */
static inline int nfs4_session_ready(const struct nfs_client *client)
{
    bool ready = atomic_load_explicit(&client->session->ready, memory_order_acquire) != 0 &&
                 atomic_load_explicit(&client->server->unbound, memory_order_relaxed) == NULL;
    return __builtin_expect(ready, true) ? 0 : nfs4_session_prepare(client);
}

/* The longest payload of a call, or of a reply; 0: not known yet. */
static inline uint32_t nfs4_session_most(const struct nfs_session *session, bool write)
{
    return atomic_load_explicit(write ? &session->write_most : &session->read_most,
                                memory_order_relaxed);
}

/* The server does not know the session of this generation any more, or it is of no use. */
void nfs4_session_lost(struct nfs_session *session, uint32_t generation);

/*
 * Says something to the server if nothing was for a third of the lease (RFC 8881 section 8.3); not
 * to one that is not there yet (NULL). Returns when it is to be asked again: milliseconds.
 */
int nfs4_session_renew(const struct nfs_client *client);

/* Ends it at the server, within the client's time, if there is one, and nobody makes one. */
void nfs4_session_end(const struct nfs_client *client);

/*
 * Does the client, which has a path of its own, lead to the server that its session is with? By the
 * owner and the scope that the server tells, as RFC 8881 section 2.10.5 has it: with another minor
 * id of the owner it may be a node that knows our client id, but none of our sessions. Takes no
 * slot, so that a path which does not answer costs none. 0; -EXDEV; -ENOTCONN: there is no session
 * yet; or -errno.
 */
int nfs4_session_leads_here(const struct nfs_client *over);

/* Shows it in the statistics from now on, as that with the server of this name. */
void nfs4_session_show(struct nfs_session *session, const char *server);

/* False: there is none that can be used. */
bool nfs4_session_facts(struct nfs_session *session, struct nfs_session_facts *facts);

#endif
