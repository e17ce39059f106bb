/*
 * directnfs check: one server, asked on each of its paths as the library would ask it.
 */
#include "cmd/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/check_export.h"
#include "sys/sys.h"

/* ---- who asks ---- */

/* The identity of the calls: the caller's, unless the nfstab has another. Its groups are freed by
 * the caller. */
static gid_t *caller_identity(const struct conf_server *server, struct mount3_identity *identity)
{
    identity->uid = server->uid != CONF_ID_PROCESS ? server->uid : geteuid();
    identity->gid = server->gid != CONF_ID_PROCESS ? server->gid : getegid();
    identity->groups = NULL;
    identity->group_count = 0;
    int count = getgroups(0, NULL);
    gid_t *groups = count > 0 ? calloc((size_t)count, sizeof(*groups)) : NULL;
    if (groups == NULL)
        return NULL;
    count = getgroups(count, groups);
    if (count > 0) {
        identity->groups = groups;
        identity->group_count = (uint32_t)count;
    }
    return groups;
}

/* ---- addresses ---- */

static void address_text(const struct sockaddr_storage *address, socklen_t length, char *text,
                         size_t size)
{
    if (getnameinfo((const struct sockaddr *)address, length, text, (socklen_t)size, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(text, size, "?");
}

static void address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

static bool resolve(struct check *check, const char *label, const char *text, int family,
                    const struct conf_position *at, struct sockaddr_storage *address,
                    socklen_t *length)
{
    int error = check_resolve(text, family, check->timeout_ms, address, length);
    if (error == 0)
        return true;
    check_say(&check->report, CHECK_ERROR, label, "%s:%u:%u: '%s' cannot be resolved: %s", at->file,
              at->line, at->column, text, gai_strerror(error));
    check_remedy(&check->report, "correct the name, or write the address in its place");
    return false;
}

/* Resolves the pair of addresses of a path. False: reported. */
static bool resolve_path(struct check *check, const struct conf_path *path,
                         struct net_address *address)
{
    socklen_t length;
    memset(address, 0, sizeof(*address));
    address->dontroute = path->dontroute;
    if (!resolve(check, "path", path->peer, AF_UNSPEC, &path->at, &address->peer, &length))
        return false;
    address_text(&address->peer, length, address->peer_text, sizeof(address->peer_text));
    if (path->local[0] == '\0')
        return true;
    if (!resolve(check, "local", path->local, address->peer.ss_family, &path->local_at,
                 &address->local, &length))
        return false;
    address_text(&address->local, length, address->local_text, sizeof(address->local_text));
    return true;
}

/* ---- what went wrong ---- */

/* Explains why `service` at `port` gave no answer, and what to do about it. */
static void unreachable(struct check *check, const char *label, const char *service, unsigned port,
                        int error)
{
    switch (-error) {
    case ECONNREFUSED:
        check_say(&check->report, CHECK_ERROR, label,
                  "port %u refuses connections: no %s listens there", port, service);
        check_remedy(&check->report, "start the %s on the server, or correct the port", service);
        break;
    case ETIMEDOUT:
        check_say(&check->report, CHECK_ERROR, label,
                  "no answer from the %s on port %u within %g s", service, port,
                  check->timeout_ms / 1000.0);
        check_remedy(&check->report,
                     "see whether the server runs and no firewall drops TCP port %u; "
                     "--timeout SECONDS waits longer",
                     port);
        break;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case EINVAL:
        check_say(&check->report, CHECK_ERROR, label, "port %u cannot be reached: %s", port,
                  strerror(-error));
        check_remedy(&check->report,
                     "correct `path` and `local` in the nfstab, or the route (ip route)");
        break;
    case ECONNRESET:
    case EBADMSG:
        check_say(&check->report, CHECK_ERROR, label, "what listens on port %u is no %s: %s", port,
                  service, error == -EBADMSG ? "its answer makes no sense" : "it hangs up");
        check_remedy(&check->report, "correct the port; ask the server with rpcinfo -p");
        break;
    case EPROTONOSUPPORT:
        check_say(&check->report, CHECK_ERROR, label, "the %s on port %u does not speak version 3",
                  service, port);
        check_remedy(&check->report,
                     "allow NFS version 3 on the server (NFSv4 alone is not enough)");
        break;
    case EKEYREJECTED:
        check_say(&check->report, CHECK_ERROR, label,
                  "the %s on port %u refuses AUTH_SYS credentials", service, port);
        check_remedy(&check->report, "export with sec=sys");
        break;
    default:
        check_say(&check->report, CHECK_ERROR, label, "the %s on port %u cannot be asked: %s",
                  service, port, strerror(-error));
    }
}

/* ---- ports ---- */

/* Finds the port of a program: as configured, else as the port mapper says. False: reported. */
static bool find_port(struct check *check, const struct mount3_target *target, unsigned configured,
                      const char *key, const char *label, uint32_t program, uint16_t *port)
{
    if (configured != 0) {
        *port = (uint16_t)configured;
        check_say(&check->report, CHECK_INFO, label, "port %u (%s of the nfstab)", configured, key);
        return true;
    }
    struct mount3_target mapper = *target;
    mapper.port = 0;
    int error = mount3_portmap(&mapper, program, 3, port);
    if (error == 0) {
        check_say(&check->report, CHECK_INFO, label, "port %u (from the port mapper)", *port);
        return true;
    }
    if (error == -ENOENT) {
        check_say(&check->report, CHECK_ERROR, label,
                  "the port mapper knows no %s version 3 over TCP", label);
        check_remedy(&check->report,
                     "start the service on the server, allow version 3 there, or set %s", key);
    } else {
        unreachable(check, label, "port mapper", PORTMAP_PORT, error);
        check_remedy(&check->report, "or set %s in the nfstab, which needs no port mapper", key);
    }
    return false;
}

/* ---- NFS ---- */

/* Connects and calls NULL. Returns the server for the calls of NFS, or NULL: reported. */
static struct net_server *connect_nfs(struct check *check, const struct conf_server *conf,
                                      const struct net_address *address, unsigned port,
                                      const struct rpc_auth *auth)
{
    const struct conf_tunables *tunables = check->tunables;
    enum net_port policy = tunables->privileged_port == CONF_PRIVILEGED_PORT_AUTO ? NET_PORT_AUTO
                           : tunables->privileged_port == CONF_PRIVILEGED_PORT_YES
                               ? NET_PORT_PRIVILEGED
                               : NET_PORT_ANY;
    /* One attempt tells why it fails; the engine would try again until the time is over. */
    int fd = net_connect(address, policy, check->timeout_ms);
    if (fd == -EACCES && policy == NET_PORT_PRIVILEGED) {
        check_say(&check->report, CHECK_ERROR, "NFS",
                  "no source port below 1024 can be had, as privileged_port "
                  "= \"yes\" demands");
        check_remedy(&check->report,
                     "give CAP_NET_BIND_SERVICE, or set privileged_port to \"auto\"");
        return NULL;
    }
    if (fd < 0) {
        unreachable(check, "NFS", "NFS service", port, fd);
        return NULL;
    }
    sys_close(fd);

    struct net_server_options options = {
        .name = conf->name,
        .connections_max = 1,
        .port_policy = policy,
        .reconnect_max_s = (unsigned)tunables->reconnect_max,
        .retransmit_timeout_s = (unsigned)tunables->retransmit_timeout,
    };
    struct net_server *server;
    int error = net_server_create(&options, address, 1, &server);
    if (error) {
        check_say(&check->report, CHECK_ERROR, "NFS", "%s", strerror(-error));
        return NULL;
    }
    struct nfs3_client client = {.server = server, .auth = auth, .timeout_ms = check->timeout_ms};
    uint64_t before = sys_now_ns();
    error = nfs3_null(&client);
    if (error) {
        if (error == -ETIMEDOUT) {
            check_say(&check->report, CHECK_ERROR, "NFS",
                      "port %u takes connections, but gives no answer of NFS within %g s", port,
                      check->timeout_ms / 1000.0);
            check_remedy(&check->report,
                         "see whether this is the port of the NFS service (rpcinfo -p), "
                         "and whether the service hangs");
        } else {
            unreachable(check, "NFS", "NFS service", port, error);
        }
        rpc_server_release(server);
        net_server_destroy(server);
        return NULL;
    }
    check_say(&check->report, CHECK_INFO, "", "NFS answers, connecting included, in %.1f ms",
              (double)(sys_now_ns() - before) / 1e6);
    return server;
}

/* ---- a path ---- */

static void check_path(struct check *check, const struct conf_server *conf, size_t number,
                       const struct mount3_identity *identity, const struct rpc_auth *auth,
                       struct check_root *roots)
{
    const struct conf_path *path = &conf->paths[number];
    check_enter(&check->report, "", "path %zu of %zu: %s%s%s%s", number + 1, conf->path_count,
                path->peer, path->local[0] ? " from local " : "", path->local,
                path->dontroute ? ", dontroute" : "");
    struct net_address address;
    if (!resolve_path(check, path, &address))
        return;
    if (strcmp(address.peer_text, path->peer) != 0)
        check_say(&check->report, CHECK_INFO, "address", "%s", address.peer_text);

    struct mount3_target target = {
        .peer = (struct sockaddr *)&address.peer,
        .local = path->local[0] ? (struct sockaddr *)&address.local : NULL,
        .privileged = check->tunables->privileged_port != CONF_PRIVILEGED_PORT_NO,
        .timeout_ms = check->timeout_ms,
        .identity = identity,
    };
    uint16_t nfsport, mntport;
    struct net_server *server = NULL;
    if (find_port(check, &target, conf->nfsport, "nfsport", "NFS", NFS3_PROGRAM, &nfsport)) {
        address_set_port(&address.peer, nfsport);
        server = connect_nfs(check, conf, &address, nfsport, auth);
    }
    /* Also without NFS: the administrator wants to see all that is wrong at once. */
    if (find_port(check, &target, conf->mntport, "mntport", "MOUNT", MOUNT3_PROGRAM, &mntport)) {
        target.port = mntport;
        int error = mount3_null(&target);
        if (error) {
            unreachable(check, "MOUNT", "MOUNT service", mntport, error);
        } else {
            struct nfs3_client client = {
                .server = server, .auth = auth, .timeout_ms = check->timeout_ms};
            for (size_t i = 0; i < conf->export_count; i++) {
                check_enter(&check->report, "export", "%s at %s", conf->exports[i].directory,
                            conf->exports[i].mount);
                check_export(check, conf, &conf->exports[i], &target, server ? &client : NULL,
                             &roots[i]);
                check_leave(&check->report);
            }
        }
    }
    if (server) {
        rpc_server_release(server);
        net_server_destroy(server);
    }
}

void check_server(struct check *check, const struct conf_server *conf)
{
    struct mount3_identity identity;
    gid_t *groups = caller_identity(conf, &identity);
    char machine[256] = "";
    gethostname(machine, sizeof(machine) - 1);
    struct rpc_auth auth;
    rpc_auth_sys(&auth, machine, identity.uid, identity.gid, identity.groups, identity.group_count);
    struct check_root *roots = calloc(conf->export_count, sizeof(*roots));
    if (roots == NULL) {
        check_say(&check->report, CHECK_ERROR, "server", "there is not enough memory for %s",
                  conf->name);
        free(groups);
        return;
    }
    check_enter(&check->report, "server", "%s", conf->name);
    for (size_t i = 0; i < conf->path_count; i++) {
        check_path(check, conf, i, &identity, &auth, roots);
        check_leave(&check->report);
    }
    if (conf->path_count > 1)
        check_say(&check->report, CHECK_INFO, "note",
                  "this release uses one path: the first above that grants MOUNT.");
    for (size_t i = 0; i < conf->export_count; i++) {
        check->mounts++;
        check->served += roots[i].served;
    }
    check_leave(&check->report);
    free(roots);
    free(groups);
}
