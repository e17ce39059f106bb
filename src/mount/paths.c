/* The paths of a server: mounting over the first that answers. */
#include "mount/addresses.h"
#include "mount/credentials.h"
#include "mount/facts.h"
#include "mount/mounts.h"
#include "mount/paths.h"
#include "mount/probe.h"
#include "mount/protection.h"

#include <stdio.h>
#include <string.h>

#include "ledger/uncommitted.h"
#include "run/offline.h"
#include "stats/count.h"
#include "nfs/v3/mount.h"
#include "reach/root.h"
#include "reach/server.h"
#include "net/health.h"
#include "net/pool.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    MOUNTING_MS = 10000, /* for all paths together */
    BRIEFLY_MS = 500,    /* for the first attempt at each of several addresses */
    RESETS_MAX = 5,      /* further attempts when the connection is reset, after a pause */
    PAUSE_MS = 20
};

/* ---- mounting ---- */

/* Milliseconds until then; at least 1. */
static int ms_until(uint64_t deadline_ns)
{
    uint64_t now = sys_now_ns();
    return deadline_ns > now + 1000000 ? (int)((deadline_ns - now) / 1000000) : 1;
}

/* Asks for the ports that the nfstab does not have, until `deadline_ns`. The server gets both when
 * they are known: another mount of it may use them meanwhile. */
static int find_ports(struct mount_server *server, struct mount3_target *target,
                      uint64_t deadline_ns)
{
    const struct conf_server *conf = server->conf;
    int result = 0;
    uint16_t mntport = (uint16_t)conf->mntport, nfsport = (uint16_t)conf->nfsport;
    if (server->net_tls && conf->tls_direct && (!mntport || !nfsport))
        return -EDESTADDRREQ;
    if (!mntport)
        result = mount3_portmap(target, MOUNT3_PROGRAM, MOUNT3_VERSION, &mntport);
    target->timeout_ms = ms_until(deadline_ns);
    if (result == 0 && !nfsport)
        result = mount3_portmap(target, NFS_PROGRAM, server->version->number, &nfsport);
    target->timeout_ms = ms_until(deadline_ns);
    if (result != 0)
        return result;
    server->mntport = mntport;
    server->nfsport = nfsport;
    return 0;
}

/* Is the directory with this root handle the one at the mount point? -ESTALE: the server does not
 * know the handle, or as another directory. What cannot be decided here is left unproven. */
static int look_for_root(const struct nfs_client *client, struct mount *mount,
                         struct mount_root_found *root)
{
    struct reach_finding finding = {.what = REACH_SAME};
    root->asked_ns = sys_now_ns();
    int result = reach_prove_root(mount->path, reach_statx_now, NULL, client, &root->fh, &finding);
    root->proven = result == 0;
    root->attr = finding.attr;
    switch (finding.what) {
    case REACH_OTHER_TIME:
        return 0;
    case REACH_KERNEL_FAILED:
        return reach_root_known(client, &root->fh, mount->inode);
    default:
        return result == -EXDEV ? -ESTALE : result;
    }
}

/* The connection goes on as one of server->net, or is of no use. */
static void keep_if(bool keep, const struct nfs_client *client, struct mount_root_found *root)
{
    rpc_server_destroy(root->asked);
    root->asked = keep ? client->server : NULL;
    if (!keep)
        rpc_server_destroy(client->server);
}

/* After a call was refused for its security: asks which it takes, for the log. */
static void learn_flavors(struct mount *mount, const struct nfs_client *client)
{
    char text[REACH_FLAVORS_BYTES];
    mount->takes[0] = '\0';
    if (reach_flavors_ask(client, mount->conf->directory, text)[0])
        snprintf(mount->takes, sizeof(mount->takes), "it takes %s", text);
}

/* Does one path of the server lead to the directory with this root handle? On success *address has
 * the NFS port. -ESTALE: the server does not know the handle, or as another directory. */
static int ask_over(struct mount *mount, struct net_address *address, int timeout_ms,
                    struct mount_root_found *root)
{
    struct mount_server *server = mount->server;
    const struct rpc_auth *auth = mount_auth_now(mount);
    struct nfs_client client;
    if (!auth)
        return -ENOMEM;
    net_address_set_port(&address->peer, server->nfsport);
    int result = mount_probe_client(server, address, reach_port_policy(&mount_tunables), auth,
                                    timeout_ms, &client);
    if (result != 0)
        return result;
    result = look_for_root(&client, mount, root);
    if (result == -EKEYREJECTED)
        learn_flavors(mount, &client);
    keep_if(result == 0, &client, root);
    return result;
}

/* As mount_over(), for NFSv4.1: the server itself tells the root handle. */
static int walk_over(struct mount *mount, struct net_address *address, int timeout_ms,
                     struct mount_root_found *root, enum reach_service *service)
{
    struct mount_server *server = mount->server;
    const struct rpc_auth *auth = mount_auth_now(mount);
    struct nfs_client client;
    *service = REACH_NFS;
    server->nfsport = server->conf->nfsport ? (uint16_t)server->conf->nfsport : 2049;
    net_address_set_port(&address->peer, server->nfsport);
    int result = auth ? mount_probe_client(server, address, reach_port_policy(&mount_tunables),
                                           auth, timeout_ms, &client)
                      : -ENOMEM;
    if (result != 0)
        return result;
    result = server->version->root(&client, mount->conf->directory, &root->fh);
    *service = reach_nfs_from(client.server);
    if (result == -EKEYREJECTED)
        learn_flavors(mount, &client);
    if (result == -ENOENT && *service == REACH_NFS_HIGH_PORT &&
        mount_may_say(mount, "port", result))
        log_warning("server %s: the call that looked for %s came from port %u, above 1023",
                    server->conf->name, mount->conf->directory, reach_port_of(client.server));
    keep_if(result == 0, &client, root);
    return result;
}

/* Asks one path of the server for the root handle, or about the handle, if root->fh has a length.
 * On success *address has the NFS port. *service: what was asked last. */
static int mount_over(struct mount *mount, struct net_address *address, int timeout_ms,
                      struct mount_root_found *root, enum reach_service *service)
{
    *service = root->fh.len > 0 ? REACH_NFS : REACH_MAPPER;
    if (root->fh.len > 0)
        return ask_over(mount, address, timeout_ms, root);
    struct mount_server *server = mount->server;
    if (server->version->root)
        return walk_over(mount, address, timeout_ms, root, service);
    uint64_t deadline_ns = sys_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct mount3_target target = {.address = address,
                                   .ports = reach_port_policy(&mount_tunables),
                                   .timeout_ms = timeout_ms,
                                   .tls = server->net_tls,
                                   .auth = mount_auth_now(mount)};
    int result = target.auth ? find_ports(server, &target, deadline_ns) : -ENOMEM;
    if (result != 0)
        return result;
    net_address_set_port(&address->peer, server->nfsport);
    target.port = server->mntport;
    *service = REACH_MOUNT;
    uint64_t asked_ns = sys_now_ns();
    result = mount3_mount(&target, mount->conf->directory, &root->fh, NULL, NULL);
    /* Some servers' MOUNT knows AUTH_SYS only, as knfsd's. The root is proven by secured calls. */
    if (result == -EKEYREJECTED && target.auth->identity && (target.auth = mount_auth_plain(mount)))
        result = mount3_mount(&target, mount->conf->directory, &root->fh, NULL, NULL);
    stats_call(DIRECTNFS_PROCEDURE_MOUNT, sys_now_ns() - asked_ns, result != 0);
    return result;
}

/* Makes the server as src/net sees it: the path that was mounted over first, then all others.
 * `asked`: has the connection to the first one that was asked over; may be NULL. */
static int make_server(struct mount_server *server, unsigned stats_id, size_t mounted,
                       const struct mount_addresses *addresses, struct net_server *asked)
{
    struct net_address paths[NET_PATHS_MAX];
    uint32_t absent = 0;
    unsigned count = 0;
    bool named = false;
    paths[count++] = addresses->paths[mounted];
    for (size_t i = 0; i < server->conf->path_count; i++) {
        named = named || mount_address_is_name(&server->conf->paths[i]);
        if (i == mounted || (addresses->faults[i] != 0 && addresses->faults[i] != -EADDRNOTAVAIL))
            continue;
        if (addresses->faults[i] == -EADDRNOTAVAIL)
            absent |= UINT32_C(1) << count;
        paths[count] = addresses->paths[i];
        net_address_set_port(&paths[count++].peer, server->nfsport);
    }
    bool moves = named && server->version->leads_here && !server->conf->fence;
    struct net_server_options options = {
        .name = server->conf->name,
        .kerberos_only = mount_protection_by_kerberos(server, true),
        .kerberos = mount_protection_by_kerberos(server, false),
        .id = stats_id,
        .connections_max = server->conf->connections ? server->conf->connections
                                                     : (unsigned)mount_tunables.connections,
        .port_policy = reach_port_policy(&mount_tunables),
        .reconnect_max_s = (unsigned)mount_tunables.reconnect_max,
        .retransmit_timeout_s = (unsigned)mount_tunables.retransmit_timeout,
        .path_timeout_ms = (unsigned)(mount_tunables.path_timeout * 1000),
        .silence_warning_ms = (unsigned)(mount_tunables.silence_warning * 1000),
        .soft_timeout_s = (unsigned)mount_tunables.soft_timeout,
        .nfs_version = server->version->number,
        .tls = server->net_tls,
        .elsewhere = moves ? mount_probe_elsewhere : NULL,
        .heard = named ? mount_probe_heard : NULL,
        .probe = mount_probe_path,
        .close_idle = rpc_close_idle,
        .answers = rpc_answers,
        .takes_any_port = mount_probe_any_port,
    };
    struct net_server *net;
    int result = net_server_create(&options, paths, count, &net);
    if (result != 0)
        return result;
    for (unsigned i = 0; i < count; i++) {
        if (absent >> i & 1)
            net_path_begin_down(&net->paths[i], "its local is no address of this host");
    }
    pthread_mutex_lock(&server->lock);
    if (!server->net) {
        server->net = net;
        net = NULL;
    }
    pthread_mutex_unlock(&server->lock);
    if (net)
        net_server_destroy(net);
    else if (asked)
        rpc_hand_over(asked, server->net);
    return 0;
}

/* Mounting over the paths of a server. */
struct attempt {
    size_t order[CONF_PATHS_MAX]; /* the usable paths, in the order of attempts */
    size_t count;
    int results[CONF_PATHS_MAX]; /* what came of each, by its place in the nfstab, */
    enum reach_service services[CONF_PATHS_MAX]; /* and which service said so */
    size_t mounted;                              /* result: the one that gave the root handle */
};

/* Paths that are offline come last. */
static void attempt_begin(struct attempt *attempt, const struct mount_server *server,
                          const struct mount_addresses *addresses)
{
    *attempt = (struct attempt){.count = 0};
    run_offline_open();
    for (int offline = 0; offline < 2; offline++) {
        for (size_t i = 0; i < server->conf->path_count; i++) {
            const struct net_address *address = &addresses->paths[i];
            if (addresses->faults[i] == 0 && run_is_offline(server->conf->name, address->peer_text,
                                                            address->local_text) == offline)
                attempt->order[attempt->count++] = i;
        }
    }
}

/* Mounts over one path, at each address of its name in turn, each for `longest_ms` at most. Of
 * several failures the result is the one that matters: -ESTALE, else -ETIMEDOUT, else the first. */
static int try_path(struct mount *mount, struct mount_addresses *addresses, size_t path,
                    int longest_ms, struct attempt *attempt, struct mount_root_found *root)
{
    const struct conf_addresses *found = &addresses->found[path];
    struct net_address *address = &addresses->paths[path];
    enum reach_service *service = &attempt->services[path];
    int result, worst = -EHOSTUNREACH;
    for (size_t i = 0; i < found->count; i++) {
        address->peer = found->peers[i];
        result = mount_over(mount, address, longest_ms, root, service);
        /* A server that restarts resets connections, and then answers. */
        for (int again = 0; result == -ECONNRESET && again < RESETS_MAX; again++) {
            sys_nanosleep_ms(PAUSE_MS);
            result = mount_over(mount, address, longest_ms, root, service);
        }
        if (result == 0)
            return 0;
        if (i == 0 || result == -ESTALE || (result == -ETIMEDOUT && worst != -ESTALE))
            worst = result;
    }
    address->peer = found->peers[0];
    return worst;
}

/*
 * Tries one path after the other: first all of them, and all addresses of each, for a short time
 * only. So a path that works answers at once, and need not wait until dead ones are given up.
 */
static int try_paths(struct mount *mount, struct mount_addresses *addresses,
                     struct attempt *attempt, struct mount_root_found *root)
{
    uint64_t limit_ms = (uint64_t)mount->server->conf->mnt_timeout * 1000;
    if (limit_ms > MOUNTING_MS)
        limit_ms = MOUNTING_MS;
    uint64_t deadline_ns = sys_now_ns() + limit_ms * 1000000;
    size_t count = attempt->count, all = 0;
    memset(attempt->results, 0, sizeof(attempt->results));
    for (size_t i = 0; i < count; i++)
        all += addresses->found[attempt->order[i]].count;
    for (size_t turn = all > 1 ? 0 : count; turn < 2 * count; turn++) {
        size_t i = attempt->order[turn % count], tried = addresses->found[i].count;
        int *result = &attempt->results[i];
        int most_ms = turn < count ? BRIEFLY_MS : MOUNT_CONTACT_TIMEOUT_MS;
        int share_ms = ms_until(deadline_ns) / (int)((2 * count - turn) * tried) + 1;
        if (turn >= count && all > 1 && *result != -ETIMEDOUT)
            continue;
        *result =
            try_path(mount, addresses, i, share_ms < most_ms ? share_ms : most_ms, attempt, root);
        if (*result == 0) {
            attempt->mounted = i;
            return 0;
        }
    }
    size_t last = attempt->order[count - 1];
    mount->why = reach_why_as(attempt->services[last], attempt->results[last], &mount_tunables,
                              mount_auth_now(mount));
    return attempt->results[last];
}

/* Says on the log which paths failed. `result`: what came of all. */
static void say_failures(const struct mount *mount, const struct attempt *attempt, int result)
{
    const struct conf_server *conf = mount->server->conf;
    bool say = false;
    for (size_t i = 0; i < conf->path_count && !say; i++)
        say = attempt->results[i] != 0 && mount_may_say(mount, "path", result);
    for (size_t i = 0; i < conf->path_count && say; i++) {
        int failure = attempt->results[i];
        enum reach_why why =
            reach_why_as(attempt->services[i], failure, &mount_tunables, mount_auth_now(mount));
        const char *remedy = mount_error_remedy(mount->server, failure, why);
        if (failure != 0)
            log_warning("server %s: mounting %s over path %s failed: %s%s%s%s%s%s", conf->name,
                        mount->conf->directory, conf->paths[i].peer,
                        why == REACH_NO_ANSWER ? "" : reach_reason(why),
                        why == REACH_NO_ANSWER ? "" : ": ", mount_refusal_text(mount, failure),
                        *remedy ? " (" : "", remedy, *remedy ? ")" : "");
    }
}

/* Mounts by the handle that the kernel tells, or that another process has found. -ESTALE: there is
 * none, or it is not good any more. */
static int mount_by_handle(struct mount *mount, const struct mount_root_fact *fact,
                           struct mount_addresses *addresses, struct attempt *attempt,
                           struct mount_root_found *root)
{
    struct mount_server *server = mount->server;
    int result = -ESTALE;
    if (mount_has_handles(mount) &&
        reach_root_told(mount->path, mount->device, mount->inode, &root->fh) == 0) {
        server->nfsport =
            server->conf->nfsport ? (uint16_t)server->conf->nfsport : mount->kernel.port;
        result = try_paths(mount, addresses, attempt, root);
        root->told = result == 0;
    }
    if (result == -ESTALE && fact) {
        *root = (struct mount_root_found){.fh = fact->root};
        server->mntport = fact->mntport;
        server->nfsport = fact->nfsport;
        result = try_paths(mount, addresses, attempt, root);
        if (result != 0)
            mount_fact_root_forget(mount);
        /* The server may have moved to another port, for one: so the caller asks for the handle. */
        if (result != 0 && result != -ETIMEDOUT)
            result = -ESTALE;
    }
    return result;
}

/* Is uncommitted data of the server in the registry? It would be sent to another address as well,
 * which may be of a copy. So a process that comes anew then looks for the server where it was. */
static bool has_data(const struct mount_server *server)
{
    bool data = false;
    for (unsigned i = 0; i < mounts_count() && !data; i++) {
        const struct mount *mount = mounts_at(i);
        uint32_t cursor = 0;
        struct ledger_file file;
        while (mount->server == server && !data &&
               ledger_uncommitted_next(&cursor, mount->registry_key, false, &file))
            data = file.key.device == mount->device;
    }
    return data;
}

static bool has_net(struct mount_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool has = server->net != NULL;
    pthread_mutex_unlock(&server->lock);
    return has;
}

int mount_over_paths(struct mount *mount, const struct mount_root_fact *fact,
                     struct mount_root_found *root)
{
    struct mount_server *server = mount->server;
    struct attempt attempt;
    struct mount_addresses *addresses = sys_alloc(sizeof(*addresses));
    mount->why = REACH_NO_MEMORY;
    *root = (struct mount_root_found){.told = false};
    if (!addresses)
        return -ENOMEM;
    mount_addresses_find(server, has_data(server), addresses);
    mount->why = reach_why_path(addresses->faults[0]);
    attempt_begin(&attempt, server, addresses);
    int result = addresses->faults[0];
    if (attempt.count > 0)
        result = mount_by_handle(mount, fact, addresses, &attempt, root);
    if (result == -ESTALE && attempt.count > 0) {
        *root = (struct mount_root_found){.told = false};
        result = try_paths(mount, addresses, &attempt, root);
    }
    say_failures(mount, &attempt, result);
    if (result == 0)
        mount->why = REACH_NO_MEMORY;
    if (result == 0 && !has_net(server))
        result = make_server(server, mount->stats_id, attempt.mounted, addresses, root->asked);
    rpc_server_destroy(root->asked);
    root->asked = NULL;
    if (result == 0) {
        const struct conf_path *path = &server->conf->paths[attempt.mounted];
        const struct sockaddr_storage *peer = &addresses->paths[attempt.mounted].peer;
        /* What is proven at one address is not proven at another, where this process has the
         * server. */
        bool there = mount_address_is_used(server, path, peer);
        root->proven = root->proven && there;
        root->path = there ? path : NULL;
        root->peer = *peer;
    }
    sys_free(addresses);
    return result;
}
