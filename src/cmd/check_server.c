/*
 * directnfs check: one server, asked on each of its paths as the library would ask it.
 */
#include "cmd/check.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/check_export.h"
#include "cmd/check_path.h"
#include "cmd/check_read.h"

/* A path is slow if another has this many times its throughput, or a fraction of its round trip
 * time; differences of less than a millisecond are of no account. */
enum { SLOWER = 2, FARTHER = 4, FARTHER_US = 1000 };

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

/* ---- all paths together ---- */

/* What an nfstab does not show: names that resolve to the address of another path. */
static void compare_addresses(struct check *check, const struct check_path *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct net_address *address = &paths[i].address;
        const struct conf_position *at = &paths[i].conf->at;
        for (size_t k = 0; k < i && address->peer.ss_family != AF_UNSPEC; k++) {
            const struct net_address *other = &paths[k].address;
            if (!conf_address_equal(&address->peer, &other->peer) ||
                !conf_address_equal(&address->local, &other->local))
                continue;
            check_say(&check->report, CHECK_ERROR, "paths",
                      "%s:%u:%u: path %zu leads to the same address as path %zu in line %u, "
                      "column %u, and is not used",
                      at->file, at->line, at->column, i + 1, k + 1, paths[k].conf->at.line,
                      paths[k].conf->at.column);
            check_remedy(&check->report, "give another address or another `local`, or remove it");
            break;
        }
    }
}

static void compare_paths(struct check *check, const struct check_path *paths, size_t count)
{
    const struct check_route *routes[CONF_PATHS_MAX];
    const struct check_path *near = NULL, *fast = NULL;
    for (size_t i = 0; i < count; i++) {
        routes[i] = &paths[i].route;
        if (paths[i].server && (near == NULL || paths[i].rtt_us < near->rtt_us))
            near = &paths[i];
        if (paths[i].mib_per_s > 0 && (fast == NULL || paths[i].mib_per_s > fast->mib_per_s))
            fast = &paths[i];
    }
    compare_addresses(check, paths, count);
    check_routes_compare(&check->report, routes, count);
    for (size_t i = 0; i < count; i++) {
        const struct check_path *path = &paths[i];
        if (path->server && path->rtt_us > FARTHER * near->rtt_us &&
            path->rtt_us > near->rtt_us + FARTHER_US) {
            check_say(&check->report, CHECK_WARNING, "paths",
                      "path %zu answers in %ju us, path %zu in %ju us", path->number,
                      (uintmax_t)path->rtt_us, near->number, (uintmax_t)near->rtt_us);
            check_remedy(&check->report, "see whether it takes another way through the network");
        }
        if (path->mib_per_s > 0 && path->mib_per_s * SLOWER < fast->mib_per_s) {
            check_say(&check->report, CHECK_WARNING, "paths",
                      "path %zu reads %.0f MiB/s, path %zu %.0f MiB/s", path->number,
                      path->mib_per_s, fast->number, fast->mib_per_s);
            check_remedy(&check->report,
                         "see the speed, the duplex mode and the errors of its interfaces, here "
                         "(ethtool, ip -s link) and on the server");
        }
    }
}

static void check_paths(struct check *check, const struct conf_server *conf,
                        struct check_path *paths, struct check_root *roots,
                        const struct mount3_identity *identity, const struct rpc_auth *auth)
{
    for (size_t i = 0; i < conf->path_count; i++) {
        struct check_path *path = &paths[i];
        path->conf = &conf->paths[i];
        path->server_name = conf->name;
        path->number = i + 1;
        check_enter(&check->report, "", "path %zu of %zu: %s%s%s%s", i + 1, conf->path_count,
                    path->conf->peer, path->conf->local[0] ? " from local " : "", path->conf->local,
                    path->conf->dontroute ? ", dontroute" : "");
        check_path(check, conf, path, identity, auth);
        for (size_t k = 0; path->mounts && k < conf->export_count; k++) {
            check_enter(&check->report, "export", "%s at %s", conf->exports[k].directory,
                        conf->exports[k].mount);
            check_export(check, conf, &conf->exports[k], path, &roots[k]);
            check_leave(&check->report);
        }
        check_leave(&check->report);
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
    struct check_path *paths = calloc(conf->path_count, sizeof(*paths));
    check_enter(&check->report, "server", "%s", conf->name);
    if (roots == NULL || paths == NULL) {
        check_say(&check->report, CHECK_ERROR, "server", "there is not enough memory");
    } else {
        check_paths(check, conf, paths, roots, &identity, &auth);
        if (conf->path_count > 1)
            compare_paths(check, paths, conf->path_count);
        for (size_t i = 0; i < conf->export_count; i++) {
            check->mounts++;
            check->served += roots[i].served;
        }
        for (size_t i = 0; i < conf->path_count; i++)
            check_disconnect(paths[i].server);
    }
    check_leave(&check->report);
    free(paths);
    free(roots);
    free(groups);
}
