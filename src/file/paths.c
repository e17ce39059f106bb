/*
 * The paths of a server: what is wrong with them on this host, mounting over the first that
 * answers, and whether another leads to the same server.
 */
#include "file/facts.h"
#include "file/inode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run/offline.h"
#include "stats/count.h"
#include "nfs/mount3.h"
#include "reach/root.h"
#include "reach/server.h"
#include "net/health.h"
#include "net/pool.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    MOUNTING_MS = 10000, /* for mounting, over all paths together */
    BRIEFLY_MS = 500,    /* for the first attempt over each of several paths */
    RESETS_MAX = 5,      /* attempts more when the connection is reset, after */
    PAUSE_MS = 20
};

/* The paths of a server, in the order of the nfstab. */
struct paths {
    struct net_address addresses[CONF_PATHS_MAX]; /* without a port */
    int faults[CONF_PATHS_MAX]; /* 0, or why a path cannot be used: see find_paths() */
};

/* ---- what is wrong with them ---- */

_Static_assert(CONF_PATHS_MAX <= NET_PATHS_MAX && CONF_PATHS_MAX <= 32, "one bit each in blamed");

/* Says what is wrong with a path once, with its place, though each mount of the server asks. */
__attribute__((format(printf, 4, 5))) static void
blame(struct file_server *server, size_t index, struct conf_position at, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (atomic_fetch_or(&server->blamed, UINT32_C(1) << index) & UINT32_C(1) << index)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_error("%s:%u:%u: server %s: path %s %s", at.file, at.line, at.column, server->conf->name,
              server->conf->paths[index].peer, text);
}

/* The names of a path, for statistics and for administrators. */
static void name_path(const struct conf_path *path, struct net_address *address)
{
    snprintf(address->peer_text, sizeof(address->peer_text), "%.63s", path->peer);
    snprintf(address->local_text, sizeof(address->local_text), "%.63s", path->local);
    address->dontroute = path->dontroute;
}

/* An earlier path with the same addresses; -1: none. */
static int find_same(const struct paths *paths, size_t index)
{
    const struct net_address *address = &paths->addresses[index];
    for (size_t i = 0; i < index; i++) {
        const struct net_address *other = &paths->addresses[i];
        if (paths->faults[i] != -EHOSTUNREACH && conf_address_equal(&other->peer, &address->peer) &&
            conf_address_equal(&other->local, &address->local))
            return (int)i;
    }
    return -1;
}

static int find_path(struct file_server *server, size_t index, struct paths *paths)
{
    const struct conf_path *path = &server->conf->paths[index];
    struct net_address *address = &paths->addresses[index];
    struct conf_diagnostics d = {0};
    name_path(path, address);
    int result = conf_path_addresses(path, &address->peer, &address->local, &d);
    if (result != 0) {
        if (d.count > 0)
            blame(server, index, d.list[0].at, "is not used: %s", d.list[0].text);
        conf_diagnostics_free(&d);
        return result;
    }
    int same = find_same(paths, index);
    if (same >= 0) {
        const struct conf_path *first = &server->conf->paths[same];
        blame(server, index, path->at,
              "is not used: it leads to the same address as path %s in line %u, column %u. "
              "Give another address or another `local`, or remove it",
              first->peer, first->at.line, first->at.column);
        return -EEXIST;
    }
    if (!net_address_is_ours(&address->local)) {
        blame(server, index, path->local_at,
              "is not used while its local %s is no address of this host. Correct `local`, or give "
              "the address to an interface (ip address add)",
              path->local);
        return -EADDRNOTAVAIL;
    }
    return 0;
}

/*
 * Resolves the names of all paths, and finds those that cannot be used: -EHOSTUNREACH (a name does
 * not resolve), -EEXIST (the same as an earlier one), -EADDRNOTAVAIL (its local is no address of
 * this host, now). Each is said on the log once in the process.
 */
static void find_paths(struct file_server *server, struct paths *paths)
{
    memset(paths, 0, sizeof(*paths));
    for (size_t i = 0; i < server->conf->path_count; i++)
        paths->faults[i] = find_path(server, i, paths);
}

/* ---- mounting ---- */

/* At least 1. */
static int ms_until(uint64_t deadline_ns)
{
    uint64_t now = sys_now_ns();
    return deadline_ns > now + 1000000 ? (int)((deadline_ns - now) / 1000000) : 1;
}

/* Asks for the ports that the nfstab does not have, until `deadline_ns`. */
static int find_ports(struct file_server *server, struct mount3_target *target,
                      uint64_t deadline_ns)
{
    const struct conf_server *conf = server->conf;
    int result = 0;
    server->mntport = (uint16_t)conf->mntport;
    server->nfsport = (uint16_t)conf->nfsport;
    if (!server->mntport)
        result = mount3_portmap(target, MOUNT3_PROGRAM, MOUNT3_VERSION, &server->mntport);
    target->timeout_ms = ms_until(deadline_ns);
    if (result == 0 && !server->nfsport)
        result = mount3_portmap(target, NFS_PROGRAM, server->version->number, &server->nfsport);
    target->timeout_ms = ms_until(deadline_ns);
    return result;
}

/* For calls over this path alone, on a connection of their own, from such a port: client->server is
 * to be destroyed. 0 or -errno. */
static int client_over(const struct file_server *server, const struct net_address *address,
                       enum net_port ports, const struct rpc_auth *auth, int timeout_ms,
                       struct nfs_client *client)
{
    *client = (struct nfs_client){.version = server->version,
                                  .session = server->session,
                                  .auth = auth,
                                  .timeout_ms = timeout_ms};
    return reach_over(address, ports, 1, &file_tunables, &client->server);
}

/* Is the directory with this root handle the one at the mount point? -ESTALE: the server does not
 * know it, or as another. What cannot be decided here is left unproven. */
static int look_for_root(const struct nfs_client *client, struct file_mount *mount,
                         struct file_root *root)
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

/* Does one path of the server lead to the directory with this root handle? On success *address has
 * the NFS port. -ESTALE: the server does not know it, or as another. */
static int ask_over(struct file_mount *mount, struct net_address *address, int timeout_ms,
                    struct file_root *root)
{
    struct file_server *server = mount->server;
    const struct rpc_auth *auth = file_auth_now(mount);
    struct nfs_client client;
    if (!auth)
        return -ENOMEM;
    net_address_set_port(&address->peer, server->nfsport);
    int result =
        client_over(server, address, reach_port_policy(&file_tunables), auth, timeout_ms, &client);
    if (result != 0)
        return result;
    result = look_for_root(&client, mount, root);
    rpc_server_destroy(client.server);
    return result;
}

/* As mount_over(), where the server itself tells the root handle. */
static int walk_over(struct file_mount *mount, struct net_address *address, int timeout_ms,
                     struct file_root *root, enum reach_service *service)
{
    struct file_server *server = mount->server;
    const struct rpc_auth *auth = file_auth_now(mount);
    struct nfs_client client;
    *service = REACH_NFS;
    server->nfsport = server->conf->nfsport ? (uint16_t)server->conf->nfsport : 2049;
    net_address_set_port(&address->peer, server->nfsport);
    int result = auth ? client_over(server, address, reach_port_policy(&file_tunables), auth,
                                    timeout_ms, &client)
                      : -ENOMEM;
    if (result != 0)
        return result;
    result = server->version->root(&client, mount->conf->directory, &root->fh);
    *service = reach_nfs_from(client.server);
    if (result == -ENOENT && *service == REACH_NFS_HIGH_PORT &&
        file_mount_may_say(mount, "port", result))
        log_warning("server %s: the call that looked for %s came from port %u, above 1023",
                    server->conf->name, mount->conf->directory, reach_port_of(client.server));
    rpc_server_destroy(client.server);
    return result;
}

/* Asks one path of the server for the root handle, or about it if it has a length; on success
 * *address has the NFS port. *service: who was asked last. */
static int mount_over(struct file_mount *mount, struct net_address *address, int timeout_ms,
                      struct file_root *root, enum reach_service *service)
{
    *service = root->fh.len > 0 ? REACH_NFS : REACH_MAPPER;
    if (root->fh.len > 0)
        return ask_over(mount, address, timeout_ms, root);
    struct file_server *server = mount->server;
    if (server->version->root)
        return walk_over(mount, address, timeout_ms, root, service);
    uint64_t deadline_ns = sys_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct mount3_target target = {.address = address,
                                   .ports = reach_port_policy(&file_tunables),
                                   .timeout_ms = timeout_ms,
                                   .auth = file_auth_now(mount)};
    int result = target.auth ? find_ports(server, &target, deadline_ns) : -ENOMEM;
    if (result != 0)
        return result;
    net_address_set_port(&address->peer, server->nfsport);
    target.port = server->mntport;
    *service = REACH_MOUNT;
    uint64_t asked_ns = sys_now_ns();
    result = mount3_mount(&target, mount->conf->directory, &root->fh, NULL, NULL);
    stats_call(DIRECTNFS_PROCEDURE_MOUNT, sys_now_ns() - asked_ns, result != 0);
    return result;
}

/* A mount of this server whose root is known; NULL: none yet. */
static struct file_mount *ready_mount(const struct net_server *server)
{
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        if (atomic_load_explicit(&mount->state, memory_order_acquire) == FILE_MOUNT_READY &&
            mount->server->net == server)
            return mount;
    }
    return NULL;
}

static bool is_same_file(const struct nfs_attr *a, const struct nfs_attr *b)
{
    return a->fileid == b->fileid && a->fsid == b->fsid;
}

/* GETATTR of the mount's root over this path alone, from such a port. */
static int look_from(const struct net_path *path, enum net_port ports, struct file_mount *mount,
                     const struct rpc_auth *auth, int timeout_ms, struct nfs_attr *attr)
{
    struct nfs_fh root = file_mount_root(mount);
    struct nfs_client client;
    int result = client_over(mount->server, &path->address, ports, auth, timeout_ms, &client);
    if (result != 0)
        return result;
    result = nfs_getattr(&client, &root, attr);
    rpc_server_destroy(client.server);
    return result;
}

/* Does the server answer calls for all that is mounted from it whatever port they come from? (It is
 * an option of each export.) See struct net_server_options. */
static bool takes_any_port(struct net_path *path, int timeout_ms)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        struct nfs_attr attr;
        if (atomic_load_explicit(&mount->state, memory_order_acquire) != FILE_MOUNT_READY ||
            mount->server->net != path->server)
            continue;
        const struct rpc_auth *auth = file_auth_now(mount);
        if (!auth || look_from(path, NET_PORT_ANY, mount, auth, timeout_ms, &attr) != 0)
            return false;
        answered++;
    }
    return answered > 0;
}

static const struct net_path *usable_other(const struct net_path *path)
{
    for (unsigned i = 0; i < path->server->path_count; i++) {
        const struct net_path *other = &path->server->paths[i];
        if (other != path && net_path_usable(other))
            return other;
    }
    return NULL;
}

/* Who asks whether a path leads to the mount's root. */
struct asker {
    const struct net_path *path;
    struct file_mount *mount;
    const struct rpc_auth *auth;
    int timeout_ms;
};

/* As reach_root_look says. Asks a path that is proven, if nobody did; who comes meanwhile waits for
 * that answer: one look does for all paths that are asked, since what the others carry may keep it
 * waiting. */
static int look_at_root(void *context, uint64_t since_ns, struct nfs_attr *attr)
{
    const struct asker *asker = context;
    struct file_mount *mount = asker->mount;
    pthread_mutex_lock(&mount->look);
    if (mount->looked_ns < since_ns) {
        const struct net_path *other = usable_other(asker->path);
        struct nfs_attr seen;
        mount->looked_ns = sys_now_ns();
        mount->look_result = other ? look_from(other, net_port_policy(other->server), mount,
                                               asker->auth, asker->timeout_ms, &seen)
                                   : -ENETDOWN;
        if (mount->look_result == 0 && !is_same_file(&seen, &mount->root_attr))
            mount->look_result = -ESTALE;
        if (mount->look_result == 0)
            mount->root_attr = seen;
    }
    int result = mount->look_result;
    *attr = mount->root_attr;
    pthread_mutex_unlock(&mount->look);
    return result;
}

/*
 * Does the path lead to the server that the session is with? 0; -EXDEV: to another one; -EAGAIN, or
 * -errno. Where no other path works, and this one once led there, the other server may have taken
 * its place: then the session is made anew there.
 */
static int ask_whose(const struct nfs_client *client, const struct net_path *path, bool proven)
{
    int result = client->version->leads_here(client);
    if (result == -ENOTCONN)
        return proven ? nfs_null(client) : -EAGAIN;
    return result == -EXDEV && proven && !usable_other(path) ? 0 : result;
}

/* By reach_prove_path(). Calls that wait for this very path may have all slots of the session: then
 * it is asked in one of its own. */
static int prove_path(const struct nfs_client *client, const struct nfs_fh *root,
                      struct asker *asker)
{
    const struct nfs_version *version = client->version;
    struct nfs_client asking = *client;
    struct nfs_session_facts facts;
    struct reach_finding finding;
    bool full =
        client->session && version->session_facts(client->session, &facts) && facts.free == 0;
    if (full && !(asking.session = version->session_new(NULL, NULL)))
        return -ENOMEM;
    int result = reach_prove_path(&asking, root, look_at_root, asker, &finding);
    if (full) {
        version->session_end(&asking);
        sys_free(asking.session);
    }
    return result;
}

/* Whether a path answers (struct net_server_options). All over connections of their own: giving up
 * waiting on one that is in use would break it. */
static int probe_path(struct net_path *path, bool proven, int timeout_ms)
{
    struct file_mount *mount = ready_mount(path->server);
    struct asker asker = {path, mount, mount ? file_auth_now(mount) : NULL, timeout_ms};
    struct nfs_client client;
    struct nfs_attr attr;
    if (!asker.auth)
        return -EAGAIN;
    struct nfs_fh root = file_mount_root(mount);
    int result = client_over(mount->server, &path->address, net_port_policy(path->server),
                             asker.auth, timeout_ms, &client);
    if (result != 0)
        return result;
    bool sessions = client.version->leads_here != NULL;
    if (sessions)
        result = ask_whose(&client, path, proven);
    else if (proven)
        result = nfs_getattr(&client, &root, &attr);
    if (result == 0 && !proven)
        result = prove_path(&client, &root, &asker);
    rpc_server_destroy(client.server);
    return proven && !sessions && reach_is_answer(result) ? 0 : result;
}

/* The server as src/net sees it: the path that was mounted over first, then all others. */
static int make_server(struct file_server *server, unsigned stats_id, size_t mounted,
                       const struct paths *paths)
{
    struct net_address addresses[NET_PATHS_MAX];
    uint32_t absent = 0;
    unsigned count = 0;
    addresses[count++] = paths->addresses[mounted];
    for (size_t i = 0; i < server->conf->path_count; i++) {
        if (i == mounted || (paths->faults[i] != 0 && paths->faults[i] != -EADDRNOTAVAIL))
            continue;
        if (paths->faults[i] == -EADDRNOTAVAIL)
            absent |= UINT32_C(1) << count;
        addresses[count] = paths->addresses[i];
        net_address_set_port(&addresses[count++].peer, server->nfsport);
    }
    struct net_server_options options = {
        .name = server->conf->name,
        .id = stats_id,
        .connections_max = server->conf->connections ? server->conf->connections
                                                     : (unsigned)file_tunables.connections,
        .port_policy = reach_port_policy(&file_tunables),
        .reconnect_max_s = (unsigned)file_tunables.reconnect_max,
        .retransmit_timeout_s = (unsigned)file_tunables.retransmit_timeout,
        .path_timeout_ms = (unsigned)(file_tunables.path_timeout * 1000),
        .silence_warning_ms = (unsigned)(file_tunables.silence_warning * 1000),
        .soft_timeout_s = (unsigned)file_tunables.soft_timeout,
        .nfs_version = server->version->number,
        .probe = probe_path,
        .close_idle = rpc_close_idle,
        .answers = rpc_answers,
        .takes_any_port = takes_any_port,
    };
    struct net_server *net;
    int result = net_server_create(&options, addresses, count, &net);
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
    return 0;
}

/* Mounting over the paths of a server. */
struct attempt {
    size_t order[CONF_PATHS_MAX]; /* the paths that can be used, as they are tried */
    size_t count;
    int results[CONF_PATHS_MAX]; /* what became of each, by its place in the nfstab, */
    enum reach_service services[CONF_PATHS_MAX]; /* and who said so */
    size_t mounted;                              /* result: the one that gave the root handle */
};

/* Those that are offline come last. */
static void attempt_begin(struct attempt *attempt, const struct file_server *server,
                          const struct paths *paths)
{
    *attempt = (struct attempt){.count = 0};
    run_offline_open();
    for (int offline = 0; offline < 2; offline++) {
        for (size_t i = 0; i < server->conf->path_count; i++) {
            const struct net_address *address = &paths->addresses[i];
            if (paths->faults[i] == 0 && run_is_offline(server->conf->name, address->peer_text,
                                                        address->local_text) == offline)
                attempt->order[attempt->count++] = i;
        }
    }
}

/*
 * Tries one path after the other; first all of them for a short time only. A path that works
 * answers at once then, and need not wait until dead ones are given up.
 */
static int try_paths(struct file_mount *mount, struct paths *paths, struct attempt *attempt,
                     struct file_root *root)
{
    uint64_t limit_ms = (uint64_t)mount->server->conf->mnt_timeout * 1000;
    if (limit_ms > MOUNTING_MS)
        limit_ms = MOUNTING_MS;
    uint64_t deadline_ns = sys_now_ns() + limit_ms * 1000000;
    size_t count = attempt->count;
    memset(attempt->results, 0, sizeof(attempt->results));
    for (size_t turn = count > 1 ? 0 : count; turn < 2 * count; turn++) {
        size_t i = attempt->order[turn % count];
        int *result = &attempt->results[i];
        enum reach_service *service = &attempt->services[i];
        int most_ms = turn < count ? BRIEFLY_MS : FILE_CONTACT_TIMEOUT_MS;
        int share_ms = ms_until(deadline_ns) / (int)(2 * count - turn) + 1;
        if (turn >= count && count > 1 && *result != -ETIMEDOUT)
            continue;
        if (share_ms > most_ms)
            share_ms = most_ms;
        *result = mount_over(mount, &paths->addresses[i], share_ms, root, service);
        /* So does a server that restarts, and then answers. */
        for (int again = 0; *result == -ECONNRESET && again < RESETS_MAX; again++) {
            sys_nanosleep_ms(PAUSE_MS);
            *result = mount_over(mount, &paths->addresses[i], share_ms, root, service);
        }
        if (*result == 0) {
            attempt->mounted = i;
            return 0;
        }
    }
    size_t last = attempt->order[count - 1];
    mount->why = reach_why_call(attempt->services[last], attempt->results[last], &file_tunables);
    return attempt->results[last];
}

/* Says which paths failed. `result`: what came of all. */
static void say_failures(const struct file_mount *mount, const struct attempt *attempt, int result)
{
    const struct conf_server *conf = mount->server->conf;
    bool say = false;
    for (size_t i = 0; i < conf->path_count && !say; i++)
        say = attempt->results[i] != 0 && file_mount_may_say(mount, "path", result);
    for (size_t i = 0; i < conf->path_count && say; i++) {
        int failure = attempt->results[i];
        enum reach_why why = reach_why_call(attempt->services[i], failure, &file_tunables);
        const char *remedy = reach_remedy(why);
        if (failure != 0)
            log_warning("server %s: mounting %s over path %s failed: %s%s%s%s%s%s", conf->name,
                        mount->conf->directory, conf->paths[i].peer,
                        why == REACH_NO_ANSWER ? "" : reach_reason(why),
                        why == REACH_NO_ANSWER ? "" : ": ", strerrordesc_np(-failure),
                        *remedy ? " (" : "", remedy, *remedy ? ")" : "");
    }
}

/* By the handle that the kernel tells, or that another process has found. -ESTALE: there is none,
 * or it is not good any more. */
static int mount_by_handle(struct file_mount *mount, const struct file_root_fact *fact,
                           struct paths *paths, struct attempt *attempt, struct file_root *root)
{
    struct file_server *server = mount->server;
    int result = -ESTALE;
    if (file_mount_has_handles(mount) &&
        reach_root_told(mount->path, mount->device, mount->inode, &root->fh) == 0) {
        server->nfsport =
            server->conf->nfsport ? (uint16_t)server->conf->nfsport : mount->kernel.port;
        result = try_paths(mount, paths, attempt, root);
        root->told = result == 0;
    }
    if (result == -ESTALE && fact) {
        *root = (struct file_root){.fh = fact->root};
        server->mntport = fact->mntport;
        server->nfsport = fact->nfsport;
        result = try_paths(mount, paths, attempt, root);
        if (result != 0)
            file_fact_root_forget(mount);
        /* The server may have moved to another port, for one. */
        if (result != 0 && result != -ETIMEDOUT)
            result = -ESTALE;
    }
    return result;
}

int file_paths_mount(struct file_mount *mount, const struct file_root_fact *fact,
                     struct file_root *root)
{
    struct file_server *server = mount->server;
    struct attempt attempt;
    struct paths *paths = sys_alloc(sizeof(*paths));
    mount->why = REACH_NO_MEMORY;
    *root = (struct file_root){.told = false};
    if (!paths)
        return -ENOMEM;
    find_paths(server, paths);
    mount->why = reach_why_path(paths->faults[0]);
    attempt_begin(&attempt, server, paths);
    int result = paths->faults[0];
    if (attempt.count > 0)
        result = mount_by_handle(mount, fact, paths, &attempt, root);
    if (result == -ESTALE && attempt.count > 0) {
        *root = (struct file_root){.told = false};
        result = try_paths(mount, paths, &attempt, root);
    }
    say_failures(mount, &attempt, result);
    pthread_mutex_lock(&server->lock);
    bool known = server->net != NULL;
    pthread_mutex_unlock(&server->lock);
    if (result == 0)
        mount->why = REACH_NO_MEMORY;
    if (result == 0 && !known)
        result = make_server(server, mount->stats_id, attempt.mounted, paths);
    sys_free(paths);
    return result;
}
