/*
 * The MOUNT protocol version 3 (RFC 1813 appendix I) and the port mapper (RFC 1833), over TCP.
 *
 * These calls run once per mount, before any I/O. Each opens its own connection, waits no longer
 * than target->timeout_ms altogether, and closes the connection with a reset so that no source
 * port stays in TIME_WAIT. They never raise SIGPIPE. Safe to call from several threads. They
 * allocate, so they are nothing for a signal handler.
 *
 * They return 0 or
 *   -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, ...  as connect() says
 *   -ETIMEDOUT     nobody answered in time
 *   -ECONNRESET    the connection broke before the answer came
 *   -EBADMSG       the answer cannot be understood, or the server did not understand the call
 *   -EPROTONOSUPPORT  the program or this version of it is not served there
 *   -EKEYREJECTED  the RPC layer of the server refused the credentials; some servers say so when
 *                  they want a source port below 1024
 *   -EREMOTEIO     the server failed by its own account
 *   -EAFNOSUPPORT  peer or local is neither IPv4 nor IPv6, or they are not of one family
 * and what the call itself adds.
 */
#ifndef NFS_V3_MOUNT_H
#define NFS_V3_MOUNT_H

#include "nfs/v3/types.h"
#include "rpc/rpc.h"

#define MOUNT3_PROGRAM     100005u
#define MOUNT3_VERSION     3u
#define MOUNT3_PATH_MAX    1024u /* MNTPATHLEN */
#define MOUNT3_NAME_MAX    255u  /* MNTNAMLEN */
#define MOUNT3_FLAVORS_MAX 16u   /* more in a reply are dropped */
#define PORTMAP_PORT       111u

/* Flavours of RPC authentication that MNT lists (RFC 5531 section 8.2). */
#define MOUNT3_AUTH_NONE 0u
#define MOUNT3_AUTH_SYS  1u

/* Whom to ask, and from where. Owned by the caller, only read. */
struct mount3_target {
    const struct net_address *address; /* its port is ignored */
    uint16_t port;                     /* of the service; for mount3_portmap() 0 means 111 */
    enum net_port ports;               /* the source port */
    int timeout_ms;                    /* for the whole call, connecting included; above 0 */
    const struct rpc_auth *auth;       /* who asks; NULL: no credentials (AUTH_NONE) */
};

/*
 * Asks the port mapper of the peer for the TCP port of an RPC program: PMAPPROC_GETPORT (version 2)
 * over IPv4, RPCBPROC_GETADDR (version 4, then 3) over IPv6. -ENOENT: not registered there.
 * target->ports and target->auth play no part: nobody asks for them here.
 */
int mount3_portmap(const struct mount3_target *target, uint32_t program, uint32_t version,
                   uint16_t *port);

/* Calls procedure NULL of the MOUNT service, without credentials. */
int mount3_null(const struct mount3_target *target);

/*
 * MNT: the root file handle of the exported directory `path`. *flavor_count is the capacity of
 * flavors[] going in and the number of flavours stored coming out; both may be NULL.
 * Adds -EACCES and -EPERM (refused: not in the export's list of clients, or a privileged source
 * port is demanded), -ENOENT, -ENOTDIR, -EIO, -EINVAL, -ENAMETOOLONG, -EOPNOTSUPP, -EREMOTEIO
 * (MNT3ERR_SERVERFAULT) for the values of mountstat3, -EIO for a value the RFC does not know.
 */
int mount3_mount(const struct mount3_target *target, const char *path, struct nfs_fh *root,
                 uint32_t *flavors, uint32_t *flavor_count);

/* UMNT: takes this client's entry for `path` out of the server's list; only informative there. */
int mount3_umount(const struct mount3_target *target, const char *path);

/*
 * EXPORT: calls found(arg, directory, groups) for each exported directory; `groups` is the list of
 * clients that may mount it, separated by spaces, empty for everybody, and cut short with " ..."
 * if it is very long. The strings die with the call. Entries may have been reported before an
 * error.
 */
typedef void mount3_export_found(void *arg, const char *directory, const char *groups);
int mount3_exports(const struct mount3_target *target, mount3_export_found *found, void *arg);

#endif
