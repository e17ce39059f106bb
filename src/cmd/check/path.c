/* directnfs check: one path to a server: addresses, route, ports, round trip time. */
#include "cmd/check/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

enum { CALLS_TIMED = 9 };
#define TIMED_LONGEST_NS 1000000000u /* no more calls after this time */

/* ---- addresses ---- */

/* Uses an address for one end of the path. */
static void take(struct check_path *path, bool local, const struct sockaddr_storage *found)
{
    struct net_address *address = &path->address;
    char text[INET6_ADDRSTRLEN];
    *(local ? &address->local : &address->peer) = *found;
    snprintf(local ? address->local_text : address->peer_text, sizeof(address->peer_text), "%s",
             net_address_text(found, text));
}

/* Finds the addresses of one end of the path, and uses the first. False: reported. */
static bool resolve(struct check_path *path, bool local, struct conf_addresses *found)
{
    const struct conf_path *conf = path->conf;
    struct net_address *address = &path->address;
    const struct conf_position *at = local ? &conf->local_at : &conf->at;
    const char *name = local ? conf->local : conf->peer;
    int family = address->local.ss_family; /* the peer must have an address of the local's family */
    int error = check_resolve(name, family, path->check->timeout_ms, found);
    if (error) {
        check_say(CHECK_ERROR, local ? "local" : "path", "%s:%u:%u: '%s' cannot be resolved: %s",
                  at->file, at->line, at->column, name, gai_strerror(error));
        if (family != AF_UNSPEC)
            check_remedy("its local is of IPv%d, and so must be an address of it",
                         family == AF_INET6 ? 6 : 4);
        check_reason(REACH_NO_NAME);
        return false;
    }
    take(path, local, &found->peers[0]);
    return true;
}

/* If there are several addresses, uses the first that answers, as the library does. */
static void choose(struct check_path *path, const struct conf_addresses *found, unsigned port)
{
    enum net_port policy = reach_port_policy(&path->check->tunables);
    for (size_t i = 0; i < found->count && found->count > 1; i++) {
        take(path, false, &found->peers[i]);
        net_address_set_port(&path->address.peer, port);
        int fd = net_connect(&path->address, policy, path->check->timeout_ms);
        if (fd >= 0) {
            sys_close(fd);
            break;
        }
        check_say(CHECK_WARNING, "address", "%s, one of %zu that %s has: port %u: %s",
                  path->address.peer_text, found->count, path->conf->peer, port, strerror(-fd));
        if (i + 1 == found->count)
            take(path, false, &found->peers[0]);
    }
    net_address_set_port(&path->address.peer, 0);
}

/* Addresses such as 127.0.0.2 are ours, though no interface lists them. False: reported. */
static bool local_is_ours(const struct check_path *path)
{
    const struct conf_position *at = &path->conf->local_at;
    if (net_address_is_ours(&path->address.local))
        return true;
    check_say(CHECK_ERROR, "local", "%s:%u:%u: %s is no address of this host", at->file, at->line,
              at->column, path->address.local_text);
    check_reason(REACH_NO_LOCAL);
    return false;
}

/* ---- what went wrong ---- */

/* Explains why `service` at `port` gave no answer, and what to do. */
static void unreachable(const struct check_path *path, enum check_severity severity,
                        const char *label, const char *service, unsigned port, int error)
{
    if (path->tls && net_tls_is_error(error) && net_tls_errno(net_tls_fault(path->tls)) == error) {
        check_tls_fault(path, label, net_tls_fault(path->tls), NULL);
        return;
    }
    switch (-error) {
    case ECONNREFUSED:
        check_say(severity, label, "port %u refuses connections: no %s listens there", port,
                  service);
        check_remedy("start the %s on the server, or correct the port", service);
        break;
    case ETIMEDOUT:
        check_say(severity, label, "no answer from the %s on port %u within %g s", service, port,
                  path->check->timeout_ms / 1000.0);
        check_remedy("see whether the server runs and no firewall drops TCP port %u; --timeout "
                     "SECONDS waits longer",
                     port);
        break;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case EINVAL:
        check_say(severity, label, "port %u cannot be reached: %s", port, strerror(-error));
        check_remedy("correct `path` and `local` in the nfstab, or the route (ip route)");
        break;
    case ECONNRESET:
    case EBADMSG:
        check_say(severity, label, "what listens on port %u is no %s: %s", port, service,
                  error == -EBADMSG ? "its answer makes no sense" : "it hangs up");
        check_remedy("correct the port; ask the server with rpcinfo -p");
        break;
    case EPROTONOSUPPORT:
        check_say(severity, label, "the %s on port %u does not speak version %s", service, port,
                  check_has_sessions(path) ? "4.1" : "3");
        if (check_has_sessions(path))
            check_remedy(
                "allow NFS version 4.1 on the server, or take nfs_version out of the nfstab");
        else
            check_remedy("allow NFS version 3 on the server, or set nfs_version: nfsv4.1");
        break;
    case EKEYREJECTED:
        check_say(severity, label, "the %s on port %u refuses AUTH_SYS credentials", service, port);
        check_remedy("export with sec=sys");
        break;
    case EACCES:
        if (reach_why_call(REACH_NFS, error, &path->check->tunables) == REACH_LOW_PORT_FORBIDDEN) {
            check_say(severity, label,
                      "no source port below 1024 can be had, as privileged_port = \"yes\" "
                      "demands");
            check_reason(REACH_LOW_PORT_FORBIDDEN);
            break;
        }
        __attribute__((fallthrough));
    default:
        check_say(severity, label, "the %s on port %u cannot be asked: %s", service, port,
                  strerror(-error));
    }
}

/* ---- ports ---- */

/* A program that needs a port. */
struct service {
    const char *label, *key;
    unsigned configured, kernel; /* ports: from the nfstab, and of the kernel's mount; 0: none */
    uint32_t program;
    enum check_severity severity; /* if the port is not known */
};

/* Finds the port: as configured; else the kernel's; else from the port mapper. 0, or -errno after a
 * report. */
static int find_port(const struct check_path *path, const struct service *service, uint16_t *port)
{
    const char *label = service->label;
    *port = (uint16_t)(service->configured ? service->configured : service->kernel);
    if (*port != 0) {
        check_say(CHECK_INFO, label, "port %u (%s%s)", *port,
                  service->configured ? service->key
                  : path->kernel_port ? "of the kernel's mount"
                                      : "the usual one of NFSv4.1",
                  service->configured ? " of the nfstab" : "");
        return 0;
    }
    struct mount3_target mapper = path->target;
    mapper.port = 0;
    int error = mount3_portmap(&mapper, service->program, 3, port);
    if (error == 0) {
        check_say(CHECK_INFO, label, "port %u (from the port mapper)", *port);
        return 0;
    }
    if (error == -ENOENT) {
        check_say(service->severity, label, "the port mapper knows no %s version 3 over TCP",
                  label);
        check_remedy("start the service on the server, allow version 3 there, or set %s",
                     service->key);
    } else {
        unreachable(path, service->severity, label, "port mapper", PORTMAP_PORT, error);
        check_remedy("or set %s in the nfstab, which needs no port mapper", service->key);
    }
    return error;
}

/* ---- NFS ---- */

/* Reports why the NFS service gave no answer to its first call. */
static void no_answer(const struct check_path *path, unsigned port, int error)
{
    if (error != -ETIMEDOUT) {
        unreachable(path, CHECK_ERROR, "NFS", "NFS service", port, error);
        return;
    }
    check_say(CHECK_ERROR, "NFS",
              "port %u takes connections, but gives no answer of NFS within %g s", port,
              path->check->timeout_ms / 1000.0);
    check_remedy("see whether this is the port of the NFS service (rpcinfo -p), and whether the "
                 "service hangs");
}

static int by_value(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* If there are several paths, the library gives up one that answers too late. */
static void check_patience(const struct check_path *path)
{
    uint64_t silence_us = (uint64_t)(path->check->tunables.path_timeout * 1e6);
    uint64_t probe_us = NET_PROBE_TIMEOUT_MS * 1000;
    uint64_t limit_us = silence_us != 0 && silence_us < probe_us ? silence_us : probe_us;
    if (path->stanza->path_count == 1 || path->rtt_us <= limit_us)
        return;
    check_say(
        CHECK_ERROR, "NFS",
        "that is too late: a path that gives no answer for %g s%s is not used while another works",
        (double)limit_us / 1e6, limit_us == silence_us ? " (path_timeout)" : "");
    check_remedy("see what is slow in the network%s",
                 limit_us == silence_us ? ", or raise path_timeout in directnfs.conf" : "");
}

int check_time(int (*call)(void *), void *argument, uint64_t *median_us)
{
    uint64_t times[CALLS_TIMED], start = sys_now_ns();
    int count = 0;
    while (count < CALLS_TIMED && (count == 0 || sys_now_ns() - start < TIMED_LONGEST_NS)) {
        uint64_t before = sys_now_ns();
        int error = call(argument);
        if (error)
            return error;
        times[count++] = sys_now_ns() - before;
    }
    qsort(times, (size_t)count, sizeof(times[0]), by_value);
    *median_us = times[count / 2] / 1000;
    return count;
}

static int call_null(void *client)
{
    return nfs_null(client);
}

/* Calls NULL a few times on the connection, and reports the median. 0 or -errno. */
static int time_calls(struct check_path *path, uint64_t connecting_ns)
{
    int count = check_time(call_null, &path->client, &path->rtt_us);
    if (count < 0)
        return count;
    check_say(CHECK_INFO, "NFS",
              "answers in %" PRIu64 " us (median of %d calls), connecting in %" PRIu64 " us",
              path->rtt_us, count, connecting_ns / 1000);
    check_number("rtt_us", path->rtt_us);
    check_number("connect_us", connecting_ns / 1000);
    check_patience(path);
    return 0;
}

/* Connects and calls NULL. Sets path->client.server; if it stays NULL, the reason is reported.
 * -errno: it cannot connect. */
static int connect_nfs(struct check_path *path, unsigned port)
{
    const struct conf_tunables *tunables = &path->check->tunables;
    enum net_port policy = reach_port_policy(tunables);
    /* One attempt shows why it fails. The engine would try again until the time is over. */
    uint64_t before = sys_now_ns();
    int fd = net_connect(&path->address, policy, path->check->timeout_ms);
    uint64_t connecting_ns = sys_now_ns() - before;
    if (fd < 0) {
        unreachable(path, CHECK_ERROR, "NFS", "NFS service", port, fd);
        return fd;
    }
    if (!path->tls)
        sys_close(fd);
    else if (!check_tls(path, fd))
        return 0;

    if (reach_over(&path->address, policy, 1, tunables, path->tls, &path->client.server) != 0) {
        check_say(CHECK_ERROR, "NFS", "there is not enough memory");
        return 0;
    }
    int error = nfs_null(&path->client);
    if (error == 0)
        error = time_calls(path, connecting_ns);
    if (error) {
        no_answer(path, port, error);
        rpc_server_destroy(path->client.server);
        path->client.server = NULL;
    }
    return 0;
}

/* ---- the path ---- */

static bool mount_is_there(const struct check_path *path, enum check_severity severity)
{
    int error = mount3_null(&path->target);
    if (error)
        unreachable(path, severity, "MOUNT", "MOUNT service", path->target.port, error);
    return error == 0;
}

void check_path(struct check_path *path)
{
    struct net_address *address = &path->address;
    const struct conf_server *conf = path->stanza;
    unsigned usual = check_has_sessions(path) ? NFS4_PORT : 0; /* it needs no port mapper */
    struct conf_addresses found;
    address->dontroute = path->conf->dontroute;
    if ((path->conf->local[0] != '\0' && !resolve(path, true, &found)) ||
        !resolve(path, false, &found))
        return;
    choose(path, &found,
           conf->nfsport       ? conf->nfsport
           : path->kernel_port ? path->kernel_port
           : usual             ? usual
                               : PORTMAP_PORT);
    if (strcmp(address->peer_text, path->conf->peer) != 0)
        check_say(CHECK_INFO, "address", "%s", address->peer_text);
    if (!local_is_ours(path))
        return;
    check_route_find(address, &path->route);
    if (!check_route_say(address, &path->route))
        return;

    path->target = (struct mount3_target){.address = address,
                                          .ports = reach_port_policy(&path->check->tunables),
                                          .timeout_ms = path->check->timeout_ms,
                                          .tls = path->tls,
                                          .auth = path->client.auth};
    address->written = reach_tls_written(conf, path->conf);
    const struct service nfs = {"NFS",         "nfsport",
                                conf->nfsport, path->kernel_port ? path->kernel_port : usual,
                                NFS_PROGRAM,   CHECK_ERROR};
    const struct service mount = {"MOUNT",        "mntport",
                                  conf->mntport,  0,
                                  MOUNT3_PROGRAM, path->needs_mount ? CHECK_ERROR : CHECK_WARNING};
    uint16_t nfsport;
    int error = find_port(path, &nfs, &nfsport);
    if (error == 0) {
        net_address_set_port(&address->peer, nfsport);
        error = connect_nfs(path, nfsport);
    } else if (conf->mntport != 0) {
        error = 0; /* MOUNT does not need the port mapper */
    }
    /* MOUNT is asked even without NFS: the administrator wants to see all faults at once. But if no
     * answer comes back at all, that is the fault. */
    if (check_has_sessions(path))
        check_say(CHECK_INFO, "MOUNT", "not asked: NFSv4.1 needs none");
    else if (error == -ETIMEDOUT || error == -EHOSTUNREACH)
        check_say(CHECK_INFO, "MOUNT", "not asked, since there was no answer");
    else if (find_port(path, &mount, &path->target.port) == 0)
        path->mounts = mount_is_there(path, mount.severity);
}
