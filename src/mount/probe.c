/* Does a further path, or a path at another address, lead to the server that was mounted? */
#include "mount/probe.h"

#include "mount/addresses.h"
#include "mount/credentials.h"
#include "mount/facts.h"
#include "mount/mounts.h"
#include "mount/protection.h"
#include "mount/root.h"
#include "reach/root.h"
#include "reach/server.h"
#include "net/health.h"
#include "net/pool.h"
#include "net/tls/tls.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

#define AWAY_NS UINT64_C(2000000000) /* a server that restarts is soon at its address again */

int mount_probe_client(const struct mount_server *server, const struct net_address *address,
                       enum net_port ports, const struct rpc_auth *auth, int timeout_ms,
                       struct nfs_client *client)
{
    *client = (struct nfs_client){.version = server->version,
                                  .session = server->session,
                                  .auth = auth,
                                  .timeout_ms = timeout_ms};
    int result = reach_over(address, ports, 1, &mount_tunables, server->net_tls, &client->server);
    if (result == 0)
        client->server->options.kerberos_only = auth->identity != NULL;
    if (result == 0)
        client->server->options.kerberos = mount_protection_by_kerberos(server, false);
    return result;
}

/* A mount of this server whose root is known; NULL: none yet. */
static struct mount *ready_mount(const struct net_server *server)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        if (atomic_load_explicit(&mount->state, memory_order_acquire) == MOUNT_READY &&
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
static int look_from(struct net_path *path, enum net_port ports, struct mount *mount,
                     const struct rpc_auth *auth, int timeout_ms, struct nfs_attr *attr)
{
    struct nfs_fh root = mount_root(mount);
    struct nfs_client client;
    struct net_address address;
    net_path_address(path, &address);
    int result = mount_probe_client(mount->server, &address, ports, auth, timeout_ms, &client);
    if (result != 0)
        return result;
    result = nfs_getattr(&client, &root, attr);
    rpc_server_destroy(client.server);
    return result;
}

bool mount_probe_any_port(struct net_path *path, int timeout_ms)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        struct nfs_attr attr;
        if (atomic_load_explicit(&mount->state, memory_order_acquire) != MOUNT_READY ||
            mount->server->net != path->server)
            continue;
        const struct rpc_auth *auth = mount_auth_now(mount);
        if (!auth || look_from(path, NET_PORT_ANY, mount, auth, timeout_ms, &attr) != 0)
            return false;
        answered++;
    }
    return answered > 0;
}

static struct net_path *usable_other(const struct net_path *path)
{
    for (unsigned i = 0; i < path->server->path_count; i++) {
        struct net_path *other = &path->server->paths[i];
        if (other != path && net_path_usable(other))
            return other;
    }
    return NULL;
}

/* What look_at_root() needs to know of the probe that asks. */
struct asker {
    const struct net_path *path;
    struct mount *mount;
    const struct rpc_auth *auth;
    int timeout_ms;
};

/* As reach_root_look says. Asks over another path, which is proven, unless an answer from after
 * `since_ns` is there. A thread that comes meanwhile waits for that answer: one look does for all
 * paths that are probed, since other calls on that path may keep it waiting. */
static int look_at_root(void *context, uint64_t since_ns, struct nfs_attr *attr)
{
    const struct asker *asker = context;
    struct mount *mount = asker->mount;
    pthread_mutex_lock(&mount->look);
    if (mount->looked_ns < since_ns) {
        struct net_path *other = usable_other(asker->path);
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
 * Does the path lead to the server that the session is with?
 * 0: it does. If no other path works, and this one was proven, also: another server has taken its
 * place, and the session is made anew there.
 * -EXDEV: it leads to another server.
 * -EAGAIN: that cannot be told now.
 * Else -errno.
 */
static int ask_whose(const struct nfs_client *client, const struct net_path *path, bool proven)
{
    int result = client->version->leads_here(client);
    if (result == -ENOTCONN)
        return proven ? nfs_null(client) : -EAGAIN;
    return result == -EXDEV && proven && !usable_other(path) ? 0 : result;
}

/* Proves the path by reach_prove_path(). Calls that wait for this very path may have all slots of
 * the session. Then the path is asked in a session of its own; likewise if `elsewhere`, as the
 * server there may not know the session. */
static int prove_path(const struct nfs_client *client, const struct nfs_fh *root,
                      struct asker *asker, bool elsewhere)
{
    const struct nfs_version *version = client->version;
    struct nfs_client asking = *client;
    struct nfs_session_facts facts;
    struct reach_finding finding;
    bool full = client->session &&
                (elsewhere || (version->session_facts(client->session, &facts) && facts.free == 0));
    if (full && !(asking.session = version->session_new(NULL, NULL)))
        return -ENOMEM;
    int result = reach_prove_path(&asking, root, look_at_root, asker, &finding);
    if (full) {
        version->session_end(&asking);
        sys_free(asking.session);
    }
    return result;
}

/* Does the path answer at this address and, unless it is `proven`, lead to the same server?
 * `elsewhere`: it is not the address that the path had. Over a connection of its own: giving up
 * waiting on one that is in use would break it. */
static int probe_at(struct net_path *path, const struct net_address *address, bool proven,
                    bool elsewhere, int timeout_ms)
{
    struct mount *mount = ready_mount(path->server);
    struct asker asker = {path, mount, mount ? mount_auth_now(mount) : NULL, timeout_ms};
    struct nfs_client client;
    struct nfs_attr attr;
    if (!asker.auth)
        return -EAGAIN;
    struct nfs_fh root = mount_root(mount);
    int result = mount_probe_client(mount->server, address, net_port_policy(path->server),
                                    asker.auth, timeout_ms, &client);
    if (result != 0)
        return result;
    bool sessions = client.version->leads_here != NULL;
    if (sessions)
        result = ask_whose(&client, path, proven);
    else if (proven)
        result = nfs_getattr(&client, &root, &attr);
    if (result == 0 && !proven)
        result = prove_path(&client, &root, &asker, elsewhere);
    rpc_server_destroy(client.server);
    return proven && !sessions && reach_is_answer(result) ? 0 : result;
}

/* The stanza of a path that is given by a name; NULL: it is not. */
static const struct conf_server *name_of(struct net_path *path, const struct conf_path **conf)
{
    const struct mount *mount = ready_mount(path->server);
    const struct conf_server *server = mount ? mount->server->conf : NULL;
    *conf = server ? mount_address_path(server, &path->address) : NULL;
    return *conf && mount_address_is_name(*conf) ? server : NULL;
}

/* As name_of(), if another address may be taken for the path. Only NFSv4.1 proves that the server
 * there is the same, by its owner: a copy has the same root, and the same handles. Not with a fence
 * either: that is taken at the addresses that there were. */
static const struct conf_server *may_move(struct net_path *path, const struct conf_path **conf)
{
    const struct conf_server *server = name_of(path, conf);
    return server && !server->fence && ready_mount(path->server)->server->version->leads_here
               ? server
               : NULL;
}

bool mount_probe_elsewhere(struct net_path *path)
{
    const struct conf_path *conf;
    const struct conf_server *server = may_move(path, &conf);
    struct net_address address;
    net_path_address(path, &address);
    return server && mount_address_next(server, conf, &address.peer);
}

void mount_probe_heard(struct net_path *path, const struct sockaddr_storage *peer)
{
    const struct conf_path *conf;
    const struct conf_server *server = name_of(path, &conf);
    if (server)
        mount_fact_address_is(server, conf, peer);
}

/* A path by name that does not answer may have another address by now, or several. 0: it leads to
 * another one from now on. Not while another path works, and does what this one did. */
static int probe_elsewhere(struct net_path *path, struct net_address *address, int timeout_ms)
{
    const struct conf_path *conf;
    const struct conf_server *server = may_move(path, &conf);
    char text[INET6_ADDRSTRLEN];
    if (!server || usable_other(path) ||
        mount_fact_is_recent(server, conf, &address->peer, MOUNT_ADDRESS_LATELY_NS) ||
        !mount_address_next(server, conf, &address->peer))
        return -EHOSTUNREACH;
    net_address_set_port(&address->peer, ready_mount(path->server)->server->nfsport);
    int result = probe_at(path, address, false, true, timeout_ms);
    if (result != 0)
        return result;
    if (!net_path_move(path, &address->peer))
        return -EHOSTUNREACH;
    rpc_follow_path(path);
    mount_fact_address_is(server, conf, &address->peer);
    if (mount_may_say(ready_mount(path->server), "moved", 0))
        log_notice("server %s: path %s leads to %s now", server->name, conf->peer,
                   net_address_text(&address->peer, text));
    return 0;
}

/* Does the error say that nobody is there, or nobody who is the server by TLS? Not that we could
 * not ask. */
static bool is_nobody(int error, bool tls)
{
    return error == -ECONNREFUSED || error == -ETIMEDOUT || error == -EHOSTUNREACH ||
           error == -ENETUNREACH || error == -ECONNRESET ||
           (tls && net_tls_is_error(error) && error != -ELIBACC && error != -ELIBSCN &&
            error != -ENOKEY);
}

int mount_probe_path(struct net_path *path, bool proven, int timeout_ms)
{
    struct net_address address;
    net_path_address(path, &address);
    int result = probe_at(path, &address, proven, false, timeout_ms);
    bool moved = is_nobody(result, path->server->options.tls != NULL) && proven &&
                 net_path_is_down_for(path, AWAY_NS) &&
                 probe_elsewhere(path, &address, timeout_ms) == 0;
    return moved ? 0 : result;
}
