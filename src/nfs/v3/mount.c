#include "nfs/v3/mount.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
/* libtirpc's parts one by one: its rpc/rpc.h has the name of a header of ours. */
#include <rpc/types.h>
#include <rpc/xdr.h>
#include <rpc/pmap_prot.h>

#include "nfs/v3/status.h"
#include "sys/alloc.h"
#include "sys/sys.h"

enum mount3_proc {
    MOUNT3_PROC_NULL = 0,
    MOUNT3_PROC_MNT = 1,
    MOUNT3_PROC_UMNT = 3,
    MOUNT3_PROC_EXPORT = 5,
};

/* ---- a call ---- */

/* One call, on the caller's stack. `xdrs` writes the arguments, then reads the results. */
struct exchange {
    struct rpc_call call;
    uint8_t *arguments;
    XDR xdrs;
    struct iovec path;
};

static void begin(struct exchange *exchange, const struct rpc_auth *auth, uint32_t program,
                  uint32_t version, uint32_t procedure)
{
    exchange->arguments = rpc_call_begin(&exchange->call, auth, program, version, procedure);
    xdrmem_create(&exchange->xdrs, (char *)exchange->arguments, RPC_ARGS_MAX, XDR_ENCODE);
}

/* Calls target->port. */
static int finish(struct exchange *exchange, const struct mount3_target *target)
{
    struct net_address address = *target->address;
    struct rpc_call *call = &exchange->call;
    rpc_call_end(call, exchange->arguments + XDR_GETPOS(&exchange->xdrs));
    net_address_set_port(&address.peer, target->port);
    int rc = rpc_call_once(&address, target->ports, target->tls, call, target->timeout_ms);
    xdrmem_create(&exchange->xdrs, (char *)call->results, (u_int)call->results_length, XDR_DECODE);
    if (rc == -EACCES && call->sent_ns != 0) /* it was sent: not the source port was denied */
        return -EKEYREJECTED;
    return rc == -EOPNOTSUPP ? -EPROTONOSUPPORT : rc;
}

/* ---- the port mapper (RFC 1833) ---- */

#define RPCBIND_VERSION_3    3u
#define RPCBIND_VERSION_4    4u
#define RPCBIND_PROC_GETADDR 3u
#define UADDR_MAX            64u /* an IPv6 address, a scope, two numbers for the port */

/* The port in a universal address "host.high.low" (RFC 5665 section 5.2.3.3), or -EBADMSG. */
static int uaddr_port(const char *uaddr)
{
    const char *low = strrchr(uaddr, '.');
    const char *high = low ? memrchr(uaddr, '.', (size_t)(low - uaddr)) : NULL;
    unsigned number[2];
    char more;
    if (!high || !isdigit((uint8_t)high[1]) || !isdigit((uint8_t)low[1]) ||
        sscanf(high, ".%3u.%3u%c", &number[0], &number[1], &more) != 2 || number[0] > 255 ||
        number[1] > 255)
        return -EBADMSG;
    return (int)(number[0] * 256 + number[1]);
}

static int portmap_getport(const struct mount3_target *mapper, uint32_t program, uint32_t version)
{
    struct pmap asked = {.pm_prog = program, .pm_vers = version, .pm_prot = IPPROTO_TCP};
    struct exchange exchange;
    u_int port;
    begin(&exchange, &rpc_auth_none, PMAPPROG, PMAPVERS, PMAPPROC_GETPORT);
    xdr_pmap(&exchange.xdrs, &asked);
    int rc = finish(&exchange, mapper);
    if (rc < 0)
        return rc;
    return xdr_u_int(&exchange.xdrs, &port) && port <= UINT16_MAX ? (int)port : -EBADMSG;
}

static int portmap_getaddr(const struct mount3_target *mapper, uint32_t mapper_version,
                           uint32_t program, uint32_t version)
{
    struct exchange exchange;
    char uaddr[UADDR_MAX + 1], *text = uaddr, *netid = "tcp6", *nothing = "";
    begin(&exchange, &rpc_auth_none, PMAPPROG, mapper_version, RPCBIND_PROC_GETADDR);
    xdr_u_int(&exchange.xdrs, &program);
    xdr_u_int(&exchange.xdrs, &version);
    xdr_wrapstring(&exchange.xdrs, &netid);
    xdr_wrapstring(&exchange.xdrs, &nothing); /* address and owner do not matter */
    xdr_wrapstring(&exchange.xdrs, &nothing);
    int rc = finish(&exchange, mapper);
    if (rc < 0)
        return rc;
    if (!xdr_string(&exchange.xdrs, &text, UADDR_MAX))
        return -EBADMSG;
    return uaddr[0] == '\0' ? 0 : uaddr_port(uaddr);
}

int mount3_portmap(const struct mount3_target *target, uint32_t program, uint32_t version,
                   uint16_t *port)
{
    uint64_t begun = sys_now_ns();
    struct mount3_target mapper = *target;
    int rc;
    mapper.ports = NET_PORT_ANY;
    mapper.tls = NULL; /* RFC 9289 is not for it */
    mapper.port = target->port ? target->port : PORTMAP_PORT;
    if (target->address->peer.ss_family == AF_INET6) {
        rc = portmap_getaddr(&mapper, RPCBIND_VERSION_4, program, version);
        mapper.timeout_ms -= (int)((sys_now_ns() - begun) / 1000000);
        if (rc == -EPROTONOSUPPORT && mapper.timeout_ms > 0)
            rc = portmap_getaddr(&mapper, RPCBIND_VERSION_3, program, version);
    } else {
        rc = portmap_getport(&mapper, program, version);
    }
    if (rc <= 0)
        return rc < 0 ? rc : -ENOENT;
    *port = (uint16_t)rc;
    return 0;
}

/* ---- MOUNT (RFC 1813 appendix I) ---- */

/* mountstat3 (RFC 1813 appendix I section 5.1.3) has some of nfsstat3's numbers. */
static int mount_status_errno(uint32_t status)
{
    switch (status) {
    case NFS3_OK:
    case NFS3ERR_PERM:
    case NFS3ERR_NOENT:
    case NFS3ERR_ACCES:
    case NFS3ERR_NOTDIR:
    case NFS3ERR_INVAL:
    case NFS3ERR_NAMETOOLONG:
    case NFS3ERR_NOTSUPP:
        return nfs3_status_errno(status);
    case NFS3ERR_SERVERFAULT:
        return -EREMOTEIO;
    }
    return -EIO;
}

static void begin_mount(struct exchange *exchange, const struct rpc_auth *auth,
                        enum mount3_proc procedure)
{
    begin(exchange, auth ? auth : &rpc_auth_none, MOUNT3_PROGRAM, MOUNT3_VERSION,
          (uint32_t)procedure);
}

/* A path is longer than other arguments: it is sent after them, as payload. */
static int put_path(struct exchange *exchange, const char *path)
{
    u_int length = (u_int)strnlen(path, MOUNT3_PATH_MAX + 1);
    if (length > MOUNT3_PATH_MAX)
        return -ENAMETOOLONG;
    xdr_u_int(&exchange->xdrs, &length);
    exchange->path = (struct iovec){(void *)path, length};
    exchange->call.payload = &exchange->path;
    exchange->call.payload_count = 1;
    exchange->call.payload_length = length;
    return 0;
}

int mount3_null(const struct mount3_target *target)
{
    struct exchange exchange;
    begin_mount(&exchange, NULL, MOUNT3_PROC_NULL);
    return finish(&exchange, target);
}

/* Gets the handle, and at most `capacity` flavours. 0 or -errno. */
static int get_mnt(XDR *xdrs, struct nfs_fh *root, uint32_t *flavors, uint32_t capacity,
                   uint32_t *stored)
{
    u_int status, length, count, flavor;
    struct nfs_fh fh;
    if (!xdr_u_int(xdrs, &status))
        return -EBADMSG;
    if (status != NFS3_OK)
        return mount_status_errno(status);
    if (!xdr_u_int(xdrs, &length) || length == 0 || length > NFS3_FH_MAX ||
        !xdr_opaque(xdrs, (char *)fh.data, length) || !xdr_u_int(xdrs, &count))
        return -EBADMSG;
    for (u_int i = 0; i < count; i++) {
        if (!xdr_u_int(xdrs, &flavor))
            return -EBADMSG;
        if (*stored < capacity)
            flavors[(*stored)++] = flavor;
    }
    fh.len = length;
    *root = fh;
    return 0;
}

int mount3_mount(const struct mount3_target *target, const char *path, struct nfs_fh *root,
                 uint32_t *flavors, uint32_t *flavor_count)
{
    struct exchange exchange;
    uint32_t stored = 0;
    begin_mount(&exchange, target->auth, MOUNT3_PROC_MNT);
    int rc = put_path(&exchange, path);
    if (rc == 0)
        rc = finish(&exchange, target);
    if (rc == 0)
        rc = get_mnt(&exchange.xdrs, root, flavors, flavors && flavor_count ? *flavor_count : 0,
                     &stored);
    if (flavor_count)
        *flavor_count = rc == 0 ? stored : 0;
    return rc;
}

int mount3_umount(const struct mount3_target *target, const char *path)
{
    struct exchange exchange;
    begin_mount(&exchange, target->auth, MOUNT3_PROC_UMNT);
    int rc = put_path(&exchange, path);
    return rc == 0 ? finish(&exchange, target) : rc;
}

/* xdr_bool() takes any number for true; this takes only 0 and 1. */
static bool get_bool(XDR *xdrs, bool *value)
{
    u_int number;

    if (!xdr_u_int(xdrs, &number) || number > 1)
        return false;
    *value = number != 0;
    return true;
}

/* Collects the groups of one export. If there is no room for all, it ends with " ...". */
static bool get_groups(XDR *xdrs, char *groups, size_t size)
{
    static const char more[] = " ...";
    char name[MOUNT3_NAME_MAX + 1], *text = name;
    size_t used = 0;
    bool follows, full = false;

    groups[0] = '\0';
    for (;;) {
        if (!get_bool(xdrs, &follows))
            return false;
        if (!follows)
            return true;
        if (!xdr_string(xdrs, &text, MOUNT3_NAME_MAX))
            return false;
        if (full)
            continue;
        if (used + 1 + strlen(name) + sizeof(more) > size) {
            memcpy(groups + used, more, sizeof(more));
            full = true;
            continue;
        }
        used += (size_t)snprintf(groups + used, size - used, "%s%s", used ? " " : "", name);
    }
}

static bool get_exports(XDR *xdrs, mount3_export_found *found, void *arg)
{
    char directory[MOUNT3_PATH_MAX + 1], *text = directory;
    char groups[4096];
    bool follows;

    for (;;) {
        if (!get_bool(xdrs, &follows))
            return false;
        if (!follows)
            return true;
        if (!xdr_string(xdrs, &text, MOUNT3_PATH_MAX) || !get_groups(xdrs, groups, sizeof(groups)))
            return false;
        if (found)
            found(arg, directory, groups);
    }
}

/* A list of exports is longer than other results: it is received as payload (rpc_payload_find). */
static int find_exports(const uint8_t *results, size_t have, size_t *head, uint32_t *length)
{
    XDR xdrs;
    xdrmem_create(&xdrs, (char *)results, (u_int)have, XDR_DECODE);
    bool whole = get_exports(&xdrs, NULL, NULL);
    *head = 0;
    *length = XDR_GETPOS(&xdrs);
    return whole;
}

int mount3_exports(const struct mount3_target *target, mount3_export_found *found, void *arg)
{
    struct exchange exchange;
    struct iovec list = {sys_alloc(RPC_PAYLOAD_MAX), RPC_PAYLOAD_MAX};
    if (!list.iov_base)
        return -ENOMEM;
    begin_mount(&exchange, target->auth, MOUNT3_PROC_EXPORT);
    exchange.call.find_payload = find_exports;
    exchange.call.destination = &list;
    exchange.call.destination_count = 1;
    exchange.call.destination_length = list.iov_len;
    int rc = finish(&exchange, target);
    xdrmem_create(&exchange.xdrs, list.iov_base, (u_int)exchange.call.received, XDR_DECODE);
    if (rc == 0 && !get_exports(&exchange.xdrs, found, arg))
        rc = -EBADMSG;
    sys_free(list.iov_base);
    return rc;
}
