/*
 * Why a mount is not served, as the first contact found out: one list for the log, for `directnfs
 * stat` and for `directnfs check`.
 */
#ifndef REACH_REASON_H
#define REACH_REASON_H

#include "config/tunables.h"
#include "rpc/rpc.h"
#include "rpc/secure/gss.h"

enum reach_why {
    REACH_FINE,
    /* This process cannot keep a ledger. */
    REACH_RUN_UNUSABLE,
    REACH_RUN_FOREIGN,
    REACH_RUN_BUSY,
    REACH_RUN_FULL,
    REACH_RUN_LIMIT,
    REACH_RUN_CROWDED,
    REACH_RUN_LEFT,
    REACH_RUN_UNKNOWN,
    REACH_RUN_DESCRIPTORS,
    /* It cannot call. */
    REACH_NO_MEMORY,
    REACH_NO_NAME,
    REACH_NO_LOCAL,
    REACH_NO_PORT,
    REACH_LOW_PORT_FORBIDDEN,
    REACH_NO_TLS,
    REACH_IN_HANDLER,
    /* The server does not answer, or refuses. */
    REACH_ABROAD,
    REACH_NO_ANSWER,
    REACH_NO_SERVICE,
    REACH_MOUNT_REFUSED,
    REACH_MOUNT_REFUSED_HIGH_PORT,
    REACH_NFS_REFUSED,
    REACH_NFS_REFUSED_HIGH_PORT,
    REACH_OTHER_SECURITY,
    REACH_TLS_FILES,
    REACH_TLS_PORTS,
    REACH_TLS_REFUSED,
    REACH_TLS_NO_MOUNT,
    REACH_TLS_NONE,
    REACH_TLS_CERTIFICATE,
    REACH_TLS_UNWELCOME,
    REACH_NO_EXPORT,
    REACH_NO_EXPORT_HIGH_PORT,
    REACH_ELSEWHERE,
    REACH_NAME_IN_USE,
    REACH_NONSENSE,
    /* Kerberos: one for each of enum rpc_gss_why, in its order. */
    REACH_KERBEROS,
    REACH_KERBEROS_LAST = REACH_KERBEROS + RPC_GSS_OTHER,
    /* The mount cannot be served this way. */
    REACH_LAYOUTS,
    /* Another host may use it. */
    REACH_FENCE_SECURITY,
    REACH_NOT_HELD,
    /* It is another directory. */
    REACH_NOT_THE_EXPORT,
    REACH_WHYS
};

/* reach_reason(): in a few words, as `stat files` shows it. reach_remedy(): what to do, a sentence
 * or "". */
const char *reach_reason(enum reach_why why);
const char *reach_remedy(enum reach_why why);

/* Is it that this process cannot keep a ledger? The server was not asked then. */
static inline bool reach_is_run(enum reach_why why)
{
    return why >= REACH_RUN_UNUSABLE && why <= REACH_RUN_DESCRIPTORS;
}

/* The reason for an -errno of the run directory or the registry in it. */
enum reach_why reach_why_run(int error);

/* The reason for an -errno of a path that cannot be used: see conf_path_addresses(). */
enum reach_why reach_why_path(int error);

/* The reason for an -errno of a call to a service of the server. The call came from a port as the
 * tunables say, or it is known to have come from one above 1023 (reach_nfs_from()). */
enum reach_service { REACH_MAPPER, REACH_MOUNT, REACH_NFS, REACH_NFS_HIGH_PORT };
enum reach_why reach_why_call(enum reach_service service, int error,
                              const struct conf_tunables *tunables);
/* The same as reach_why_call(), if calls with this credential fail for want of Kerberos. */
enum reach_why reach_why_as(enum reach_service service, int error,
                            const struct conf_tunables *tunables, const struct rpc_auth *auth);

#endif
