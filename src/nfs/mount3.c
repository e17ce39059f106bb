#include "nfs/mount3.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "nfs/mount3_call.h"
#include <rpc/pmap_prot.h> /* leans on libtirpc headers that mount3_call.h includes */

enum mount3_proc {
    MOUNT3_PROC_NULL = 0,
    MOUNT3_PROC_MNT = 1,
    MOUNT3_PROC_UMNT = 3,
    MOUNT3_PROC_EXPORT = 5,
};

/* mountstat3, RFC 1813 appendix I section 5.1.3 */
enum mount3_status {
    MNT3_OK = 0,
    MNT3ERR_PERM = 1,
    MNT3ERR_NOENT = 2,
    MNT3ERR_IO = 5,
    MNT3ERR_ACCES = 13,
    MNT3ERR_NOTDIR = 20,
    MNT3ERR_INVAL = 22,
    MNT3ERR_NAMETOOLONG = 63,
    MNT3ERR_NOTSUPP = 10004,
    MNT3ERR_SERVERFAULT = 10006,
};

/* The port mapper (RFC 1833). */

#define RPCBIND_VERSION_3    3u
#define RPCBIND_VERSION_4    4u
#define RPCBIND_PROC_GETADDR 3u
#define NETID_MAX            15u
#define UADDR_MAX            64u /* an IPv6 address, a scope, two numbers for the port */

struct getaddr_args {
    u_int program;
    u_int version;
    char netid[NETID_MAX + 1];
};

struct getaddr_result {
    char address[UADDR_MAX + 1];
};

static bool put_pmap(XDR *xdrs, void *args)
{
    return xdr_pmap(xdrs, args);
}

static bool get_port(XDR *xdrs, void *results)
{
    return xdr_u_int(xdrs, results);
}

/* struct rpcb: program, version, network, address, owner; the last two play no part in GETADDR. */
static bool put_rpcb(XDR *xdrs, void *args)
{
    struct getaddr_args *asked = args;
    char *netid = asked->netid, *nothing = asked->netid + strlen(asked->netid);

    return xdr_u_int(xdrs, &asked->program) && xdr_u_int(xdrs, &asked->version) &&
           xdr_string(xdrs, &netid, NETID_MAX) && xdr_string(xdrs, &nothing, NETID_MAX) &&
           xdr_string(xdrs, &nothing, NETID_MAX);
}

static bool get_address(XDR *xdrs, void *results)
{
    struct getaddr_result *result = results;
    char *text = result->address;

    return xdr_string(xdrs, &text, UADDR_MAX);
}

/* A number 0..255 that ends at *end, a dot before it; moves *end to the dot. -1 if it is not so. */
static int uaddr_number(const char *start, const char **end)
{
    const char *p = *end;
    int value = 0, scale = 1;

    while (p > start && p[-1] >= '0' && p[-1] <= '9' && scale <= 100) {
        value += (*--p - '0') * scale;
        scale *= 10;
    }
    if (p == *end || p == start || p[-1] != '.' || value > 255)
        return -1;
    *end = p - 1;
    return value;
}

/* The port in a universal address "host.high.low" (RFC 5665 section 5.2.3.3), or -EBADMSG. */
static int uaddr_port(const char *uaddr)
{
    const char *end = uaddr + strlen(uaddr);
    int low = uaddr_number(uaddr, &end);
    int high = low < 0 ? -1 : uaddr_number(uaddr, &end);

    return high < 0 ? -EBADMSG : high * 256 + low;
}

static int portmap_getport(const struct mount3_target *target, uint16_t port, uint64_t deadline,
                           uint32_t program, uint32_t version)
{
    struct pmap asked = {.pm_prog = program, .pm_vers = version, .pm_prot = IPPROTO_TCP};
    u_int answer = 0;
    struct mount3_exchange exchange = {
        .program = PMAPPROG,
        .version = PMAPVERS,
        .procedure = PMAPPROC_GETPORT,
        .put_args = put_pmap,
        .args = &asked,
        .get_results = get_port,
        .results = &answer,
    };
    int rc = mount3_call(target, port, false, deadline, &exchange);

    if (rc < 0)
        return rc;
    return answer > UINT16_MAX ? -EBADMSG : (int)answer;
}

static int portmap_getaddr(const struct mount3_target *target, uint16_t port, uint64_t deadline,
                           uint32_t program, uint32_t version)
{
    struct getaddr_args asked = {program, version, "tcp6"};
    struct getaddr_result answer = {""};
    struct mount3_exchange exchange = {
        .program = PMAPPROG,
        .version = RPCBIND_VERSION_4,
        .procedure = RPCBIND_PROC_GETADDR,
        .put_args = put_rpcb,
        .args = &asked,
        .get_results = get_address,
        .results = &answer,
    };
    int rc = mount3_call(target, port, false, deadline, &exchange);

    if (rc == -EPROTONOSUPPORT) {
        exchange.version = RPCBIND_VERSION_3;
        rc = mount3_call(target, port, false, deadline, &exchange);
    }
    if (rc < 0)
        return rc;
    return answer.address[0] == '\0' ? 0 : uaddr_port(answer.address);
}

int mount3_portmap(const struct mount3_target *target, uint32_t program, uint32_t version,
                   uint16_t *port)
{
    uint64_t deadline = mount3_deadline(target->timeout_ms);
    uint16_t mapper = target->port ? target->port : PORTMAP_PORT;
    int rc;

    if (target->peer->sa_family == AF_INET6)
        rc = portmap_getaddr(target, mapper, deadline, program, version);
    else
        rc = portmap_getport(target, mapper, deadline, program, version);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return -ENOENT;
    *port = (uint16_t)rc;
    return 0;
}

/* MOUNT (RFC 1813 appendix I). */

static int mount_status_errno(uint32_t status)
{
    switch (status) {
    case MNT3_OK:
        return 0;
    case MNT3ERR_PERM:
        return -EPERM;
    case MNT3ERR_NOENT:
        return -ENOENT;
    case MNT3ERR_IO:
        return -EIO;
    case MNT3ERR_ACCES:
        return -EACCES;
    case MNT3ERR_NOTDIR:
        return -ENOTDIR;
    case MNT3ERR_INVAL:
        return -EINVAL;
    case MNT3ERR_NAMETOOLONG:
        return -ENAMETOOLONG;
    case MNT3ERR_NOTSUPP:
        return -EOPNOTSUPP;
    case MNT3ERR_SERVERFAULT:
        return -EREMOTEIO;
    }
    return -EIO;
}

static bool put_path(XDR *xdrs, void *args)
{
    char *path = args;

    return xdr_string(xdrs, &path, MOUNT3_PATH_MAX);
}

struct mnt_result {
    uint32_t status;
    struct nfs3_fh *root;
    uint32_t *flavors;
    uint32_t capacity;
    uint32_t stored;
};

static bool get_mnt(XDR *xdrs, void *results)
{
    struct mnt_result *result = results;
    u_int length, count, flavor;

    if (!xdr_u_int(xdrs, &result->status))
        return false;
    if (result->status != MNT3_OK)
        return true;
    if (!xdr_u_int(xdrs, &length) || length == 0 || length > NFS3_FH_MAX ||
        !xdr_opaque(xdrs, (char *)result->root->data, length))
        return false;
    result->root->len = length;
    if (!xdr_u_int(xdrs, &count))
        return false;
    for (u_int i = 0; i < count; i++) {
        if (!xdr_u_int(xdrs, &flavor))
            return false;
        if (result->stored < result->capacity)
            result->flavors[result->stored++] = flavor;
    }
    return true;
}

static struct mount3_exchange mount_exchange(enum mount3_proc procedure,
                                             const struct mount3_identity *identity)
{
    return (struct mount3_exchange){
        .program = MOUNT3_PROGRAM,
        .version = MOUNT3_VERSION,
        .procedure = procedure,
        .identity = identity,
    };
}

static int call_mount(const struct mount3_target *target, const struct mount3_exchange *exchange)
{
    return mount3_call(target, target->port, target->privileged,
                       mount3_deadline(target->timeout_ms), exchange);
}

int mount3_null(const struct mount3_target *target)
{
    struct mount3_exchange exchange = mount_exchange(MOUNT3_PROC_NULL, NULL);

    return call_mount(target, &exchange);
}

int mount3_mount(const struct mount3_target *target, const char *path, struct nfs3_fh *root,
                 uint32_t *flavors, uint32_t *flavor_count)
{
    struct mount3_exchange exchange = mount_exchange(MOUNT3_PROC_MNT, target->identity);
    struct mnt_result result = {.root = root, .flavors = flavors};
    int rc;

    if (strlen(path) > MOUNT3_PATH_MAX)
        return -ENAMETOOLONG;
    if (flavors && flavor_count)
        result.capacity = *flavor_count;
    exchange.put_args = put_path;
    exchange.args = (void *)path;
    exchange.get_results = get_mnt;
    exchange.results = &result;
    rc = call_mount(target, &exchange);
    if (rc == 0)
        rc = mount_status_errno(result.status);
    if (flavor_count)
        *flavor_count = rc == 0 ? result.stored : 0;
    return rc;
}

int mount3_umount(const struct mount3_target *target, const char *path)
{
    struct mount3_exchange exchange = mount_exchange(MOUNT3_PROC_UMNT, target->identity);

    if (strlen(path) > MOUNT3_PATH_MAX)
        return -ENAMETOOLONG;
    exchange.put_args = put_path;
    exchange.args = (void *)path;
    return call_mount(target, &exchange);
}

/* xdr_bool() takes any number for true. */
static bool get_bool(XDR *xdrs, bool *value)
{
    u_int number;

    if (!xdr_u_int(xdrs, &number) || number > 1)
        return false;
    *value = number != 0;
    return true;
}

struct export_results {
    void (*found)(void *arg, const char *directory, const char *groups);
    void *arg;
};

/* Collects the groups of one export; what does not fit becomes " ...". */
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

static bool get_exports(XDR *xdrs, void *results)
{
    struct export_results *list = results;
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
        list->found(list->arg, directory, groups);
    }
}

int mount3_exports(const struct mount3_target *target,
                   void (*found)(void *arg, const char *directory, const char *groups), void *arg)
{
    struct mount3_exchange exchange = mount_exchange(MOUNT3_PROC_EXPORT, target->identity);
    struct export_results list = {.found = found, .arg = arg};

    exchange.get_results = get_exports;
    exchange.results = &list;
    return call_mount(target, &exchange);
}
