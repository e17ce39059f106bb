/*
 * RPCSEC_GSS (RFC 2203) on a channel: inside src/rpc only.
 *
 *   call --> place of its identity --> context --> dressed: header, MIC, arguments --> socket
 *
 * A call waits in its place while there is no context, or while as many calls are under way as the
 * server's window has. So calls of other identities pass by. Threads of ours make contexts
 * (maker.c). Everything here is guarded by the lock of the transport, also the library's work with
 * a context that is made.
 */
#ifndef RPC_SECURE_SECURE_H
#define RPC_SECURE_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "rpc/secure/gss.h"
#include "rpc/secure/identity.h"

struct rpc_transport;

enum {
    RPC_PLACES = 16,      /* identities on a channel at a time */
    RPC_HANDLE_MAX = 256, /* bytes of a context's handle */
    RPC_WINDOW_MAX = 256, /* calls under way in a context */
    RPC_COPIES_KNOWN = 2, /* of a call: a reply to an earlier one is taken too */
    RPC_DENIALS_MAX = 4   /* how often a call is sent anew in another context, if no call of its
                             user was ever answered; or as no reply to it is believed */
};

/* A context. Freed with its last reference: that of a place, and those of calls. */
struct rpc_context {
    void *gss;
    unsigned references;
    unsigned under_way; /* calls that were sent and not answered */
    uint32_t window;    /* of sequence numbers that the server takes */
    uint32_t sequence;  /* the last one that was used */
    uint32_t oldest;    /* the lowest one that is not answered; none: sequence + 1 */
    uint64_t open[RPC_WINDOW_MAX / 64]; /* a bit for each that is not answered */
    uint32_t handle_length;
    uint8_t handle[RPC_HANDLE_MAX];
    uint64_t stands_ns;       /* since when `oldest` has not been answered */
    uint64_t ends_ns;         /* when its ticket ends (CLOCK_MONOTONIC); 0: not known */
    uint64_t renew_ns;        /* when another one is to be made; 0: never */
    bool proven;              /* a call was answered in it */
    struct rpc_context *next; /* in the list of those to be deleted */
};

/* An identity on this channel. In use while calls wait, or are under way, or it is `making`. */
struct rpc_place {
    const struct rpc_identity *identity; /* NULL: free */
    struct rpc_context *context;         /* NULL: there is none, or the server refused it */
    bool wanted;                         /* a context shall be made */
    bool making;                         /* a thread makes one */
    unsigned failures;                   /* in a row */
    uint64_t retry_ns;                   /* none is made before */
    uint64_t used_ns;                    /* when a call last came */
    uint32_t program, version;           /* what is called */
    struct rpc_call *parked, **parked_end;
};

/* How many calls may be sent in it now. A server reads calls of one connection with several
 * threads, in any order. It drops in silence what is below its window. So the numbers that are not
 * answered must all be in the window. */
static inline uint32_t rpc_context_room(const struct rpc_context *context)
{
    uint32_t span = context->sequence + 1 - context->oldest;
    return context->window > span ? context->window - span : 0;
}

/* A call as it is on the wire. */
struct rpc_dress {
    struct rpc_dress *next; /* in the list of those to be freed */
    struct {
        struct rpc_context *context; /* NULL: no copy */
        uint32_t sequence;
    } copies[RPC_COPIES_KNOWN]; /* the last one first */
    bool counted;               /* under way in the context of the last copy */
    bool destroys;              /* it ends its context: RPCSEC_GSS_DESTROY */
    unsigned denials;           /* how often the server denied it, */
    unsigned forgeries;         /* and how often a reply was not believed */
    size_t capacity;            /* of bytes[] */
    size_t own_length; /* bytes[]: record mark, header, verifier; with a service all of it */
    size_t length;     /* of the record on the wire, with its mark */
    uint8_t bytes[];
};

/* What a channel has. Made when first needed; lives as long as its transport. */
struct rpc_secure {
    struct rpc_transport *transport;
    struct rpc_place places[RPC_PLACES];
    struct rpc_call *homeless, **homeless_end; /* calls for which there is no place */
    struct rpc_dress *worn;                    /* to be freed when nothing is being sent */
    struct rpc_context *dead;                  /* to be deleted by a thread that may */
    /* Guarded by the lock of maker.c: */
    unsigned pins;  /* threads of ours that use the transport now */
    bool leaving;   /* the transport will be freed */
    unsigned users; /* the transport, and makers: the last one frees this */
    struct rpc_secure *next;
    char name[256]; /* of the server */
};

/* The identity of calls that make contexts. They are sent as they are. */
extern const struct rpc_identity rpc_identity_making;

/* Are arguments and results more than signed headers? Then they are taken as a whole. */
static inline bool rpc_is_wrapped(const struct rpc_call *call)
{
    return __builtin_expect(call->identity != NULL, false) &&
           call->identity->service != RPC_SERVICE_NONE;
}

/* ---- places.c ---- */

/*
 * The first call of the queue that may be sent now. Those before it are parked, or fail: AUTH_SYS
 * has no place on a secured channel. NULL: there is none.
 */
struct rpc_call *rpc_secure_first(struct rpc_transport *transport);
/* The call leaves the table of those in flight. */
void rpc_secure_landed(struct rpc_transport *transport, struct rpc_call *call);
/* The call is over here: forgets how it was sent. */
void rpc_secure_over(struct rpc_transport *transport, struct rpc_call *call);
/* Takes a call out of its place, if it is parked. */
void rpc_secure_remove(struct rpc_transport *transport, struct rpc_call *call);
/* All parked calls go back to the queue. */
void rpc_secure_unpark_all(struct rpc_transport *transport);
/* Is any call parked? */
bool rpc_secure_waits(const struct rpc_transport *transport);
/* Is the call parked, as its place has no context that is of use? */
bool rpc_secure_lacks_context(const struct rpc_transport *transport, const struct rpc_call *call);
/* A parked call for which is(context, call) holds; or NULL. */
struct rpc_call *rpc_secure_find(const struct rpc_transport *transport,
                                 bool (*is)(const void *context, const struct rpc_call *call),
                                 const void *context);
/* Nothing is being sent any more: frees what calls wore. */
void rpc_secure_sent(struct rpc_transport *transport);
/* The server, or the library, does not take the context any more: another one is made, the later
 * the more often this call was denied before. */
void rpc_secure_refuse(struct rpc_transport *transport, const struct rpc_identity *identity,
                       struct rpc_context *context, unsigned denials);
/* A reply to the call was verified. */
void rpc_secure_proven(struct rpc_transport *transport, const struct rpc_call *call,
                       struct rpc_context *context);
bool rpc_context_is_good(const struct rpc_context *context, uint64_t now);
/* Numbers that nobody waits for leave the window. */
void rpc_context_advance(struct rpc_context *context);
/* Does it keep calls out of its window for long, as few of its calls are answered late? */
bool rpc_context_is_held_up(const struct rpc_context *context, uint64_t now);
void rpc_context_put(struct rpc_secure *secure, struct rpc_context *context);
/* Moves calls that wait in the place to the queue: all to its end, or those that fit in the window
 * to its head. */
void rpc_place_unpark(struct rpc_transport *transport, struct rpc_place *place, bool all);
/* Ends all calls that wait in the place with this error. */
void rpc_place_fail(struct rpc_transport *transport, struct rpc_place *place, int error);
/* The place's user lost its ticket: calls that wait there hold no slots that others need. */
void rpc_place_give_slots(struct rpc_place *place);
/* Calls for which there was no place go back to the queue: there may be one now. */
void rpc_secure_unpark_homeless(struct rpc_transport *transport);
/* The first call is parked in its place. */
void rpc_secure_park_first(struct rpc_transport *transport);

/* ---- dress.c ---- */

/* Makes the bytes of a call that is in flight, and so has its xid. 0, -EFAULT: memory of the
 * application is missing, -ENOMEM, -ETIMEDOUT: not in this handler, or -EKEYEXPIRED: its context is
 * of no use. */
int rpc_secure_dress(struct rpc_transport *transport, struct rpc_call *call);
/* For a call of procedure NULL that was not submitted yet: it ends its context. False: no memory.
 */
bool rpc_secure_destroys(struct rpc_transport *transport, struct rpc_call *call);
/* Vectors for a dressed call: at most payload_count + 3. */
int rpc_secure_vectors(const struct rpc_call *call, struct iovec *vectors);
size_t rpc_secure_length(const struct rpc_call *call);

/* ---- reply.c ---- */

/*
 * For the receiver: the whole reply to a call with an identity is here. It is verified, and the
 * call is answered, or sent again.
 * 0: that was done.
 * -EFAULT: memory of the application is missing.
 * -EBADMSG: it is garbage; -ECONNRESET: it is not believed, it is a refusal, or this thread cannot
 * look at it. The connection is given up.
 */
int rpc_secure_answered(void *transport, struct rpc_call *call, uint8_t *message, size_t length);
/* Is the verifier good, of a reply that is accepted, and there up to its results? 0, or
 * -ECONNRESET: the call may be over. */
int rpc_secure_verified(void *transport, struct rpc_call *call, const uint8_t *message,
                        size_t have);

/* ---- maker.c ---- */

/* What the transport has; made on first use. NULL: there is no memory now. */
struct rpc_secure *rpc_secure_of(struct rpc_transport *transport);
/* A place wants a context. */
void rpc_secure_kick(struct rpc_secure *secure);
/* A call is parked as the window is full: somebody looks in a moment whether the context is held
 * up. With more calls than the window has room for that is often so: it mostly costs no system
 * call. */
void rpc_secure_look_soon(struct rpc_secure *secure, uint64_t now);
/* Do threads of ours make contexts in this process? If not, threads that wait do. */
bool rpc_secure_is_looked_after(void);
/* Tells the server that the contexts are not needed any more. Waits for its answers, at most so
 * long. False: they did not come. Not under the lock. */
bool rpc_secure_end(struct rpc_transport *transport, int timeout_ms);
/* For a thread that waits, if no thread of ours can be started: makes a context that is wanted.
 * Frees the lock meanwhile, and gives up the lead, if it has it. */
void rpc_secure_make_here(struct rpc_transport *transport, bool *lead);
/* The transport will be freed. False: threads of ours use it yet; calls of rpc_identity_making are
 * to be withdrawn, and this asked again. Not under the lock. */
bool rpc_secure_leave(struct rpc_transport *transport);
void rpc_secure_free(struct rpc_transport *transport);
/* In the child of fork(). */
void rpc_secure_after_fork(void);

#endif
