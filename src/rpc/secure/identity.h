/* As whom calls are made under Kerberos: an identity. */
#ifndef RPC_SECURE_IDENTITY_H
#define RPC_SECURE_IDENTITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* RFC 2203 section 5.3.1. */
enum rpc_service {
    RPC_SERVICE_NONE = 1,      /* krb5: headers are signed */
    RPC_SERVICE_INTEGRITY = 2, /* krb5i: arguments and results too */
    RPC_SERVICE_PRIVACY = 3    /* krb5p: these are encrypted */
};

enum { RPC_PRINCIPAL_MAX = 300 };

/*
 * A user, and a service of a server. Kept for ever, immutable but for atomics: equal ones are one.
 * The strings live as long as the process.
 */
struct rpc_identity {
    uint32_t uid;
    enum rpc_service service;
    char server[RPC_PRINCIPAL_MAX]; /* nfs@HOST */
    const char *keytab;             /* a keytab that gives tickets; NULL: the user's cache does */
    const char *principal;          /* whose keys of it; NULL: the first that it has */
    const char *cache;              /* the name of the cache; NULL: the user's usual one, */
    bool usual;                     /* which the library finds while the process is that user. The
                                       cache is of use only while it is */

    _Atomic(const char *) usual_name; /* as the library told it; NULL: not asked for yet */
    _Atomic bool acquiring;           /* a thread uses its keytab, or asks the KDC for its ticket */
    _Atomic unsigned memories; /* caches in memory for the keytab's tickets before this one */
    _Atomic bool worked;       /* a context of it was made */
    _Atomic bool answered;     /* and a call was answered in one */
    _Atomic uint64_t ends_s;   /* when its ticket ends (CLOCK_REALTIME); 0: not known */
    _Atomic uint32_t why;      /* enum rpc_gss_why: what came of the last attempt */
    _Atomic uint64_t retry_ns; /* a new place makes no context before */
    struct rpc_identity *next;
};

/* The identity of calls that were to have one, and have none: they fail. */
extern const struct rpc_identity rpc_identity_barred;

/* The identity that equals this one in what is constant. NULL: no memory. */
const struct rpc_identity *rpc_identity_of(const struct rpc_identity *like);
/* All that there are, newest first. */
const struct rpc_identity *rpc_identities(void);

#endif
