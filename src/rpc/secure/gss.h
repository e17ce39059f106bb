/*
 * Kerberos by the GSS API (RFC 2743, 4121): what src/rpc/secure asks of libgssapi_krb5.
 *
 * The library is loaded when a mount first asks for it. All of its functions are called here,
 * inside the gate of sys/foreign.h. Only those with a context may be called in a handler: another
 * thread does the work then (aside.c).
 */
#ifndef RPC_SECURE_GSS_H
#define RPC_SECURE_GSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/secure/identity.h"

enum {
    RPC_GSS_MIC_MAX = 256,   /* the longest MIC that is sent or taken */
    RPC_GSS_WRAP_MORE = 512, /* so many bytes a wrapped message is longer, at most */
    RPC_GSS_TEXT = 320       /* room for a sentence of rpc_gss_fault */
};

/* Why there is no context. */
enum rpc_gss_why {
    RPC_GSS_WELL,
    RPC_GSS_NO_LIBRARY, /* libgssapi_krb5 cannot be loaded */
    RPC_GSS_NO_TICKET,  /* the user has no ticket */
    RPC_GSS_EXPIRED,    /* its ticket has ended */
    RPC_GSS_KEYTAB,     /* the keytab cannot be read, lacks the principal, or has an old key */
    RPC_GSS_NO_SERVICE, /* the KDC does not know the server's principal */
    RPC_GSS_NO_CLIENT,  /* the KDC does not know the user's principal */
    RPC_GSS_NO_KDC,     /* no KDC of the realm answers */
    RPC_GSS_SKEW,       /* the clocks differ */
    RPC_GSS_REFUSED,    /* the server refuses the context */
    RPC_GSS_NO_SERVER,  /* the server did not answer */
    RPC_GSS_LOST,       /* another thread was in the library when the process was forked */
    RPC_GSS_OTHER
};

struct rpc_gss_fault {
    enum rpc_gss_why why;
    char text[RPC_GSS_TEXT]; /* what the library says, one line */
};

/* What it is and what to do: for people. Static texts. */
const char *rpc_gss_reason(enum rpc_gss_why why);
const char *rpc_gss_remedy(enum rpc_gss_why why);

/* Loads the library, once. False: see `fault`. */
bool rpc_gss_load(struct rpc_gss_fault *fault);
/* The functions that the library must have, by index. NULL: there are fewer. Static. */
const char *rpc_gss_function(size_t index);
/* The functions that no other object may define in their place, without a version. Likewise. */
const char *rpc_gss_alone(size_t index);
/* Is it loaded, and of use in this process? */
bool rpc_gss_is_loaded(void);

/* A context while it is made. All zeros; rpc_gss_making_end() frees what it has. */
struct rpc_gss_making {
    void *credential, *target, *context;
    const struct rpc_identity *identity;
    int cache; /* a descriptor plus 1, or 0: the cache of another user, which was looked at */
    uint64_t lifetime_s; /* RPC_GSS_FOREVER: it does not end */
};

#define RPC_GSS_FOREVER UINT64_MAX

/* Gets the credential of the identity. False: see `fault`. Takes as long as a KDC needs. */
bool rpc_gss_acquire(struct rpc_gss_making *making, const struct rpc_identity *identity,
                     struct rpc_gss_fault *fault);
/*
 * One step: takes the server's token (none at first) and gives ours, which the caller frees by
 * rpc_gss_token_free(). 1: a token of the server must follow. 0: the context is made. -1: see
 * `fault`.
 */
struct rpc_gss_token {
    void *bytes;
    size_t length;
};
int rpc_gss_step(struct rpc_gss_making *making, const void *token, size_t length,
                 struct rpc_gss_token *ours, struct rpc_gss_fault *fault);
void rpc_gss_token_free(struct rpc_gss_token *token);
/* What the server says with its codes. */
void rpc_gss_say(uint32_t major, uint32_t minor, struct rpc_gss_fault *fault);
void rpc_gss_making_end(struct rpc_gss_making *making);

/* Who the credential is of, and for how many seconds it lasts: for check and statistics. */
bool rpc_gss_whose(const struct rpc_gss_making *making, char *name, size_t size,
                   uint64_t *lifetime_s);

/* ---- with a context ---- */

/* Can this thread have work done with a context? Not in a handler in which it just failed: the
 * handler may have interrupted malloc(), for which the other thread waits. */
bool rpc_gss_can(void);
/* For a handler: its calls wait for a context that is not made in time. It can no longer. */
void rpc_gss_give_up(void);

/* 0, -EKEYEXPIRED: the context is over, -ETIMEDOUT: no other thread could do it, or -EIO.
 * *mic_length: the room, then the length. */
int rpc_gss_mic(void *context, const void *message, size_t length, uint8_t *mic,
                size_t *mic_length);
/* 0, -EBADMSG: it is forged, or -ETIMEDOUT. */
int rpc_gss_verify(void *context, const void *message, size_t length, const void *mic,
                   size_t mic_length);
/*
 * Encrypts. rpc_gss_wrap_room() says how many bytes go before and after the message of `length`
 * bytes, together at most RPC_GSS_WRAP_MORE. The message is at token + *before, and the token takes
 * its place. 0 or -errno as rpc_gss_mic().
 */
int rpc_gss_wrap_room(void *context, size_t length, size_t *before, size_t *after);
int rpc_gss_wrap(void *context, uint8_t *token, size_t before, size_t length, size_t after);
/* Decrypts in place. 0, -EBADMSG: it is forged, or was not encrypted, or -ETIMEDOUT. */
int rpc_gss_unwrap(void *context, void *token, size_t token_length, uint8_t **message,
                   size_t *length);
/* Forgets a context. */
void rpc_gss_delete(void *context);

/* In the child of fork(). */
void rpc_gss_after_fork(void);

/* ---- for aside.c ---- */

/* The same, not in a handler. */
int rpc_gss_now_mic(void *context, const void *message, size_t length, uint8_t *mic,
                    size_t *mic_length);
bool rpc_gss_now_verify(void *context, const void *message, size_t length, const void *mic,
                        size_t mic_length);
int rpc_gss_now_wrap_room(void *context, size_t length, size_t *before, size_t *after);
int rpc_gss_now_wrap(void *context, uint8_t *token, size_t before, size_t length, size_t after);
bool rpc_gss_now_unwrap(void *context, void *token, size_t token_length, uint8_t **message,
                        size_t *length);
/* A thread may be using some context for ever: no context is deleted any more. */
extern _Atomic bool rpc_gss_leaks;

#endif
