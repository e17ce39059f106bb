/* directnfs check: one server, asked on each of its paths as the library would ask it. */
#include "cmd/check/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/print.h"
#include "nfs/v4/fence.h"
#include "reach/kerberos.h"

/* A path is slow if another has SLOWER times its throughput. It is far if it has FARTHER times the
 * round trip time of another, and over FARTHER_US (microseconds) more. */
enum { SLOWER = 2, FARTHER = 4, FARTHER_US = 1000 };

/* Makes the credentials that the library has in such a process: of AUTH_SYS, and, from krb5 on,
 * those of each kind of security. */
static void caller_auth(const struct conf_server *conf, struct rpc_auth auths[])
{
    struct reach_identity identity;
    char machine[256] = "";
    gethostname(machine, sizeof(machine) - 1);
    reach_identity_now(conf, &identity);
    if (identity.groups_had > identity.group_count) {
        check_say(CHECK_WARNING, "groups",
                  "%u, of which a call tells the first %u, as the kernel's client does: what only "
                  "others permit is refused, unless the server finds the groups by itself",
                  identity.groups_had, identity.group_count);
        check_remedy("let the server find them (mountd --manage-gids; Manage_Gids of nfs-ganesha), "
                     "or the program have fewer");
    }
    rpc_auth_sys(&auths[CONF_SECURITY_SYS], machine, identity.uid, identity.gid, identity.groups,
                 identity.group_count);
    for (enum conf_security i = CONF_SECURITY_KRB5; i <= CONF_SECURITY_KRB5P; i++)
        rpc_auth_secure(&auths[i], identity.gid,
                        cmd_need((void *)reach_kerberos_identity(conf, i, identity.uid)));
}

/* ---- all paths together ---- */

/* Finds what an nfstab does not show: names that resolve to the address of another path. */
static void compare_addresses(const struct check_path *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct net_address *address = &paths[i].address;
        const struct conf_position *at = &paths[i].conf->at;
        for (size_t k = 0; k < i && address->peer.ss_family != AF_UNSPEC; k++) {
            const struct net_address *other = &paths[k].address;
            if (!conf_address_equal(&address->peer, &other->peer) ||
                !conf_address_equal(&address->local, &other->local))
                continue;
            check_say(CHECK_ERROR, "paths",
                      "%s:%u:%u: path %zu leads to the same address as path %zu in line %u, column "
                      "%u, and is not used",
                      at->file, at->line, at->column, i + 1, k + 1, paths[k].conf->at.line,
                      paths[k].conf->at.column);
            check_remedy("give another address or another `local`, or remove it");
            break;
        }
    }
}

static void compare_paths(const struct check_path *paths, size_t count)
{
    const struct check_route *routes[CONF_PATHS_MAX];
    const struct check_path *near = NULL, *fast = NULL;
    for (size_t i = 0; i < count; i++) {
        routes[i] = &paths[i].route;
        if (paths[i].client.server && (near == NULL || paths[i].rtt_us < near->rtt_us))
            near = &paths[i];
        if (paths[i].mib_per_s > 0 && (fast == NULL || paths[i].mib_per_s > fast->mib_per_s))
            fast = &paths[i];
    }
    compare_addresses(paths, count);
    check_routes_compare(routes, count);
    for (size_t i = 0; i < count; i++) {
        const struct check_path *path = &paths[i];
        if (path->client.server && path->rtt_us > FARTHER * near->rtt_us &&
            path->rtt_us > near->rtt_us + FARTHER_US) {
            check_say(CHECK_WARNING, "paths", "path %zu answers in %ju us, path %zu in %ju us",
                      path->number, (uintmax_t)path->rtt_us, near->number, (uintmax_t)near->rtt_us);
            check_remedy("see whether it takes another way through the network");
        }
        if (path->mib_per_s > 0 && path->mib_per_s * SLOWER < fast->mib_per_s) {
            check_say(CHECK_WARNING, "paths", "path %zu reads %.0f MiB/s, path %zu %.0f MiB/s",
                      path->number, path->mib_per_s, fast->number, fast->mib_per_s);
            check_remedy("see the speed, the duplex mode and the errors of its interfaces, here "
                         "(ethtool, ip -s link) and on the server");
        }
    }
}

/* Looks at one path, and at all exports over it. */
static void go_through(struct check_path *path, struct check_root *roots,
                       const struct rpc_auth auths[])
{
    const struct conf_path *conf = path->conf;
    size_t exports = path->stanza->export_count;
    struct check_kerberos kerberos[CONF_SECURITY_KRB5P + 1] = {{.asked = false}};
    for (size_t i = 0; i < exports; i++) {
        if (roots[i].version != path->client.version)
            continue;
        path->needs_mount |= roots[i].told.len == 0 && roots[i].path == NULL;
        path->kernel_port = roots[i].told.len > 0 ? roots[i].kernel.port : path->kernel_port;
    }
    check_enter("", "path %zu of %zu: %s%s%s%s", path->number, path->stanza->path_count, conf->peer,
                conf->local[0] ? " from local " : "", conf->local,
                conf->dontroute ? ", dontroute" : "");
    check_path(path);
    for (size_t i = 0; (path->mounts || path->client.server) && i < exports; i++) {
        if (roots[i].version != path->client.version)
            continue;
        enum conf_security security = reach_security(roots[i].export->security, &roots[i].kernel);
        check_enter("export", "%s at %s", roots[i].export->directory, roots[i].export->mount);
        path->client.auth = &auths[security];
        if (security < CONF_SECURITY_KRB5 || check_kerberos(path, &kerberos[security]))
            check_export(path, &roots[i]);
        path->client.auth = &auths[CONF_SECURITY_SYS];
        check_leave();
    }
    check_leave();
}

/* Without the fence of a stanza, a host is refused its files. */
static void check_fence(const struct conf_server *conf, const struct nfs_client *client)
{
    const struct nfs_fence fence = {
        .server = conf->name, .name = conf->fence, .directory = conf->exports[0].directory};
    struct nfs4_token token;
    int error = nfs4_token_read(client, &fence, &token);
    if (nfs4_fence_state(&fence, error, &token) == RUN_FENCE_HELD && error == 0) {
        check_say(CHECK_INFO, "fence", "%s: held by this host, since %s", fence.name, token.time);
        return;
    }
    if (error == 0)
        check_say(CHECK_WARNING, "fence",
                  "%s: not held by this host; the last to take it was host %s, %s: programs here "
                  "get EIO",
                  fence.name, token.host, token.time);
    else if (error == -ENOENT)
        check_say(CHECK_WARNING, "fence", "%s: nobody has taken it yet: programs get EIO",
                  fence.name);
    else
        check_say(CHECK_WARNING, "fence", "%s: who has it cannot be read: %s", fence.name,
                  strerror(-error));
    check_remedy("where programs of this host are to have the files: 'directnfs fence take %s %s'",
                 fence.server, fence.name);
}

/* Asks for those exports that are used in this version. */
static void check_version(struct check *check, const struct conf_server *conf,
                          const struct nfs_version *version, struct check_root *roots)
{
    struct rpc_auth auths[CONF_SECURITY_KRB5P + 1];
    struct check_path *paths = cmd_need(calloc(conf->path_count, sizeof(*paths)));
    caller_auth(conf, auths);
    check_enter("server", "%s", conf->name);
    bool usable;
    struct net_tls *tls = check_tls_new(check, conf, version, roots, &usable);
    for (size_t i = 0; i < conf->path_count; i++) {
        paths[i] = (struct check_path){
            .check = check,
            .stanza = conf,
            .conf = &conf->paths[i],
            .number = i + 1,
            .tls = tls,
            .client = {.version = version,
                       .auth = &auths[CONF_SECURITY_SYS],
                       .timeout_ms = check->timeout_ms},
        };
        if (version->session_new)
            paths[i].client.session = version->session_new(NULL, NULL);
        if (usable)
            go_through(&paths[i], roots, auths);
    }
    if (conf->path_count > 1)
        compare_paths(paths, conf->path_count);
    size_t answers = 0;
    while (answers < conf->path_count && !paths[answers].client.server)
        answers++;
    if (conf->fence && answers < conf->path_count)
        check_fence(conf, &paths[answers].client);
    for (size_t i = 0; i < conf->path_count; i++) {
        if (paths[i].client.server && paths[i].client.session)
            version->session_end(&paths[i].client);
        rpc_server_destroy(paths[i].client.server);
    }
    check_leave();
    net_tls_free(tls);
    free(paths);
}

void check_server(struct check *check, const struct conf_server *conf)
{
    static const struct nfs_version *const versions[] = {&nfs_version3, &nfs_version41};
    struct check_root *roots = cmd_need(calloc(conf->export_count, sizeof(*roots)));
    for (size_t i = 0; i < conf->export_count; i++) {
        roots[i].export = &conf->exports[i];
        check_told(check, conf, &roots[i]);
    }
    for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
        size_t i = 0;
        while (i < conf->export_count && roots[i].version != versions[v])
            i++;
        if (i < conf->export_count)
            check_version(check, conf, versions[v], roots);
    }
    for (size_t i = 0; i < conf->export_count; i++)
        check->served += roots[i].served;
    check->mounts += (unsigned)conf->export_count;
    free(roots);
}
