/*
 * The MOUNT protocol version 3 (RFC 1813 appendix I) and the port mapper (RFC 1833), over TCP.
 *
 * These calls run once for each mount, before any I/O. Each opens its own connection, and waits no
 * longer than target->timeout_ms altogether. It closes the connection with a reset, so that no
 * source port stays in TIME_WAIT. They never raise SIGPIPE. Several threads may call them. They
 * allocate, so a signal handler may not.
 *
 * They return 0 or
 *   -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, ...  as connect() says
 *   -ETIMEDOUT     no answer came in time
 *   -ECONNRESET    the connection broke before the answer came
 *   -EBADMSG       the answer makes no sense, or the server did not understand the call
 *   -EPROTONOSUPPORT  the server lacks the program or this version of it
 *   -EKEYREJECTED  the server's RPC layer refused the credentials; some servers say so when they
 *                  want a source port below 1024
 *   -EREMOTEIO     the server says that it failed
 *   -EAFNOSUPPORT  peer or local is neither IPv4 nor IPv6, or their families differ
 * and what each call adds.
 */
#ifndef NFS_V3_MOUNT_H
#define NFS_V3_MOUNT_H

#include "nfs/v3/types.h"
#include "rpc/rpc.h"

#define MOUNT3_PROGRAM     100005u
#define MOUNT3_VERSION     3u
#define MOUNT3_PATH_MAX    1024u /* MNTPATHLEN */
#define MOUNT3_NAME_MAX    255u  /* MNTNAMLEN */
#define MOUNT3_FLAVORS_MAX 16u   /* further ones in a reply are dropped */
#define PORTMAP_PORT       111u

/* Flavours of RPC authentication that MNT lists (RFC 5531 section 8.2). */
#define MOUNT3_AUTH_NONE 0u
#define MOUNT3_AUTH_SYS  1u
#define MOUNT3_KRB5      390003u /* krb5i and krb5p follow: RFC 2623 section 2.2.3 */

/* Which server to ask, and from where. Owned by the caller, only read. */
struct mount3_target {
    const struct net_address *address; /* its port is ignored */
    uint16_t port;                     /* of the service; 0 for mount3_portmap(): 111 */
    enum net_port ports;               /* the source port */
    struct net_tls *tls; /* protects the MOUNT service's calls, not the port mapper's; NULL: none */
    int timeout_ms;      /* for the whole call, connecting included; above 0 */
    const struct rpc_auth *auth; /* the credential; NULL: none (AUTH_NONE) */
};

/*
 * Asks the peer's port mapper for the TCP port of an RPC program: PMAPPROC_GETPORT (version 2) over
 * IPv4, RPCBPROC_GETADDR (version 4, then 3) over IPv6. -ENOENT: it is not registered there.
 * target->ports and target->auth do not matter here.
 */
int mount3_portmap(const struct mount3_target *target, uint32_t program, uint32_t version,
                   uint16_t *port);

/* Calls procedure NULL of the MOUNT service, without credentials. */
int mount3_null(const struct mount3_target *target);

/*
 * MNT: the root file handle of the exported directory `path`. *flavor_count is the capacity of
 * flavors[]; then it is how many flavours were stored. Both may be NULL. Adds, for the values of
 * mountstat3:
 * -EACCES, -EPERM: refused. The export's list lacks this client, or a privileged source port is
 * needed.
 * -ENOENT, -ENOTDIR, -EIO, -EINVAL, -ENAMETOOLONG, -EOPNOTSUPP: as they say.
 * -EREMOTEIO: MNT3ERR_SERVERFAULT.
 * -EIO: a value that the RFC does not know.
 */
int mount3_mount(const struct mount3_target *target, const char *path, struct nfs_fh *root,
                 uint32_t *flavors, uint32_t *flavor_count);

/* UMNT: removes this client's entry for `path` from the server's list, which only informs
 * people. */
int mount3_umount(const struct mount3_target *target, const char *path);

/*
 * EXPORT: calls found(arg, directory, groups) for each exported directory. `groups` are the clients
 * that may mount it, separated by spaces; empty: all may. A very long list is cut with " ...". The
 * strings die with the call. Before an error, some entries may have been reported.
 */
typedef void mount3_export_found(void *arg, const char *directory, const char *groups);
int mount3_exports(const struct mount3_target *target, mount3_export_found *found, void *arg);

#endif
