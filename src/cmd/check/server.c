/*
 * directnfs check: one server, asked on each of its paths as the library would ask it.
 */
#include "cmd/check/check.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/check/export.h"
#include "cmd/check/path.h"
#include "cmd/check/read.h"

/* A path is slow if another has this many times its throughput, or a fraction of its round trip
 * time; differences of less than a millisecond are of no account. */
enum { SLOWER = 2, FARTHER = 4, FARTHER_US = 1000 };

/* Who calls, as the library does for such a process. */
static void caller_auth(const struct conf_server *conf, struct rpc_auth *auth)
{
    struct reach_identity identity;
    char machine[256] = "";
    gethostname(machine, sizeof(machine) - 1);
    reach_identity_now(conf, &identity);
    rpc_auth_sys(auth, machine, identity.uid, identity.gid, identity.groups, identity.group_count);
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
                        const struct rpc_auth *auth)
{
    for (size_t k = 0; k < conf->export_count; k++)
        check_told(check, &conf->exports[k], &roots[k]);
    for (size_t i = 0; i < conf->path_count; i++) {
        struct check_path *path = &paths[i];
        path->conf = &conf->paths[i];
        path->number = i + 1;
        path->is_one_of_several = conf->path_count > 1;
        for (size_t k = 0; k < conf->export_count; k++) {
            path->needs_mount |= roots[k].told.len == 0 && roots[k].path == NULL;
            path->kernel_port = roots[k].kernel_port ? roots[k].kernel_port : path->kernel_port;
        }
        check_enter(&check->report, "", "path %zu of %zu: %s%s%s%s", i + 1, conf->path_count,
                    path->conf->peer, path->conf->local[0] ? " from local " : "", path->conf->local,
                    path->conf->dontroute ? ", dontroute" : "");
        check_path(check, conf, path, auth);
        for (size_t k = 0; (path->mounts || path->server) && k < conf->export_count; k++) {
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
    struct rpc_auth auth;
    caller_auth(conf, &auth);
    struct check_root *roots = calloc(conf->export_count, sizeof(*roots));
    struct check_path *paths = calloc(conf->path_count, sizeof(*paths));
    check_enter(&check->report, "server", "%s", conf->name);
    if (roots == NULL || paths == NULL) {
        check_say(&check->report, CHECK_ERROR, "server", "there is not enough memory");
    } else {
        check_paths(check, conf, paths, roots, &auth);
        if (conf->path_count > 1)
            compare_paths(check, paths, conf->path_count);
        for (size_t i = 0; i < conf->export_count; i++) {
            check->mounts++;
            check->served += roots[i].served;
        }
        for (size_t i = 0; i < conf->path_count; i++)
            rpc_server_destroy(paths[i].server);
    }
    check_leave(&check->report);
    free(paths);
    free(roots);
}
