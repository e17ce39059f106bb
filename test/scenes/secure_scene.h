/*
 * Kerberos without Kerberos: functions of the GSS API with a toy for a mechanism, and a server of
 * RPCSEC_GSS that knows it. The server takes apart what the client sends as RFC 2203 has it, and
 * plays tricks.
 */
#ifndef TEST_SECURE_SCENE_H
#define TEST_SECURE_SCENE_H

#include "queries.h"
#include "rpc/secure/identity.h"

/* What is wrong with a reply. */
enum secure_trick {
    TRICK_NONE,
    TRICK_VERIFIER,      /* its MIC is wrong */
    TRICK_SEQUENCE,      /* its MIC is that of another sequence number */
    TRICK_NO_VERIFIER,   /* it has none */
    TRICK_BODY,          /* a byte of the results is changed */
    TRICK_BODY_SEQUENCE, /* the results have another sequence number */
    TRICK_TRUNCATED,     /* the results end too early */
    TRICK_CLEAR,         /* the results are in clear */
    TRICK_CREDPROBLEM,   /* the call is denied with such a status */
    TRICK_CTXPROBLEM,
    TRICK_TOOWEAK,
    TRICK_LOST,   /* there is none */
    TRICK_STATUS, /* it says GARBAGE_ARGS, though the call was executed */
    TRICKS
};

enum { SECURE_CONTEXTS = 512, SECURE_OVERHEAD = 32 };

/* How the library and the server behave, and what they saw. */
struct secure {
    /* the library */
    _Atomic bool no_ticket, expired, no_kdc; /* acquiring a credential fails so, */
    _Atomic uint32_t lucky;                  /* except for this user; 0: nobody. */
    _Atomic bool stalls;                     /* That of secure_auth_stalled(): as without a KDC. */
    _Atomic bool hangs;                      /* Or it does not return. */
    _Atomic bool late;                       /* a wrong MIC is called that of an ended context */
    _Atomic uint32_t lifetime_s;
    _Atomic unsigned acquired;
    /* the server */
    _Atomic uint32_t window;
    _Atomic enum secure_trick trick;
    _Atomic unsigned every;    /* with every so many replies; 0: never, */
    _Atomic unsigned tricks;   /* at most so many times */
    _Atomic bool forgets;      /* it knows no context that was made before */
    _Atomic bool refuses;      /* it makes no contexts */
    _Atomic uint32_t slow;     /* a call with this token takes long; 0: none */
    _Atomic unsigned contexts; /* that it made */
    _Atomic unsigned outside;  /* calls outside of the window, or repeated */
    _Atomic unsigned forged;   /* calls with a wrong MIC, or garbage in them */
    _Atomic unsigned in_clear; /* calls without a credential of the mechanism */
    _Atomic unsigned destroyed;
    /* a test's, see secure_channel.h */
    struct server *server;
    struct net_server *client;
};
extern struct secure secure;

/* Forgets everything, and puts the functions in the place of the library's. */
void secure_begin(void);

/* The server's way: script.answer of rpc_server.h. */
void secure_answer(struct server *server, const uint8_t *call, size_t length,
                   struct bytes *message);

/* A credential of this user and service. */
const struct rpc_auth *secure_auth(uint32_t uid, enum rpc_service service);
const struct rpc_auth *secure_auth_stalled(uint32_t uid, enum rpc_service service);

#endif
