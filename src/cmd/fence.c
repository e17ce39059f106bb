/*
 * directnfs fence: takes a server's sessions away from the host that had them, for the programs of
 * this host. It also says which host has them. See src/nfs/v4/fence.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/print.h"
#include "config/nfstab.h"
#include "config/tunables.h"
#include "net/tls/tls.h"
#include "nfs/v4/session.h"
#include "reach/kernel.h"
#include "reach/server.h"
#include "run/directory.h"
#include "run/fence.h"
#include "sys/log.h"

enum { TIMEOUT_DEFAULT = 10, NFS_PORT = 2049 };

struct request {
    double timeout; /* seconds for each answer; 0: not given */
};

/* A stanza with a fence, and what it takes to ask its server. */
struct stanza {
    const struct conf_server *conf;
    struct nfs_fence fence;
    struct conf_tunables tunables;
    struct rpc_auth auth;
    struct net_tls *tls; /* NULL: in clear */
    int timeout_ms;
};

/* ---- asking the server ---- */

static const char *text_of(const struct stanza *stanza, int error)
{
    enum net_tls_fault fault = stanza->tls ? net_tls_fault(stanza->tls) : NET_TLS_GOOD;
    bool told = fault != NET_TLS_GOOD && net_tls_errno(fault) == error;
    return told ? net_tls_text(fault) : strerror(-error);
}

/* Finds the addresses of a path. 0 or -errno. */
static int find(const struct conf_path *path, struct conf_addresses *found)
{
    struct conf_diagnostics d = {0};
    int error = conf_path_addresses(path, found, &d);
    conf_diagnostics_free(&d);
    if (error != 0)
        found->count = 0;
    return error;
}

/* Makes a client over one path, at one of its addresses. Its session is its own, and is not made
 * yet. 0 or -errno. */
static int client_over(const struct stanza *stanza, const struct conf_path *path,
                       const struct conf_addresses *found, size_t at, struct nfs_client *client)
{
    struct net_address address = {.dontroute = path->dontroute,
                                  .written = reach_tls_written(stanza->conf, path),
                                  .peer = found->peers[at],
                                  .local = found->local};
    unsigned port = stanza->conf->nfsport ? stanza->conf->nfsport : NFS_PORT;
    snprintf(address.peer_text, sizeof(address.peer_text), "%.63s", path->peer);
    snprintf(address.local_text, sizeof(address.local_text), "%.63s", path->local);
    net_address_set_port(&address.peer, (uint16_t)port);
    *client = (struct nfs_client){.version = &nfs_version41,
                                  .session = cmd_need(nfs4_session_new(NULL, NULL)),
                                  .auth = &stanza->auth,
                                  .timeout_ms = stanza->timeout_ms};
    return reach_over(&address, reach_port_policy(&stanza->tunables), 1, &stanza->tunables,
                      stanza->tls, &client->server);
}

/* Reads the token at one address. 0 or -errno. */
static int read_token_at(const struct stanza *stanza, const struct conf_path *path,
                         const struct conf_addresses *found, size_t at, struct nfs4_token *token)
{
    struct nfs_client client;
    int error = client_over(stanza, path, found, at, &client);
    if (error != 0)
        return error;
    error = nfs4_token_read(&client, &stanza->fence, token);
    nfs4_session_end(&client);
    rpc_server_destroy(client.server);
    return error;
}

/* Reads the token over the first path that answers. 0 or -errno. */
static int read_token(const struct stanza *stanza, struct nfs4_token *token)
{
    int error = -ENOENT;
    for (size_t i = 0; i < stanza->conf->path_count; i++) {
        const struct conf_path *path = &stanza->conf->paths[i];
        struct conf_addresses found;
        error = find(path, &found);
        for (size_t at = 0; at < found.count; at++) {
            error = read_token_at(stanza, path, &found, at, token);
            if (error == 0 || error == -ENOENT || error == -EBADMSG)
                return error;
        }
    }
    return error;
}

static int take_at(const struct stanza *stanza, const struct conf_path *path,
                   const struct conf_addresses *found, size_t at, uint64_t verifier)
{
    struct nfs_client client;
    int error = client_over(stanza, path, found, at, &client);
    if (error != 0)
        return error;
    error = nfs4_fence_take(&client, &stanza->fence, verifier);
    rpc_server_destroy(client.server);
    return error;
}

/* True if this host has no address from which that one can be reached: no IPv6, for example. */
static bool has_no_way(int error)
{
    return error == -ENETUNREACH || error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL;
}

/* Takes the fence at each address of a path. At least one of them must be reachable. 0 or
 * -errno. */
static int take_over(const struct stanza *stanza, const struct conf_path *path, uint64_t verifier)
{
    struct conf_addresses found;
    size_t taken = 0;
    int error = find(path, &found), no_way = 0;
    for (size_t at = 0; at < found.count && error == 0; at++) {
        error = take_at(stanza, path, &found, at, verifier);
        taken += error == 0;
        if (has_no_way(error)) {
            no_way = error;
            error = 0;
        }
    }
    return error != 0 || taken > 0 ? error : no_way;
}

/* Takes the fence over each path: a server may know clients separately for each of its
 * addresses. */
static bool take_all(const struct stanza *stanza, uint64_t verifier)
{
    bool all = true;
    for (size_t i = 0; i < stanza->conf->path_count; i++) {
        const struct conf_path *path = &stanza->conf->paths[i];
        int error = take_over(stanza, path, verifier);
        if (error != 0)
            cmd_complain("fence", "server %s: path %s: %s", stanza->conf->name, path->peer,
                         text_of(stanza, error));
        all = all && error == 0;
    }
    return all;
}

/* ---- the token ---- */

/* Writes it through the kernel's client: the directory is mounted on this host. */
static int write_token(const struct stanza *stanza, const struct nfs4_token *token)
{
    char name[NFS4_TOKEN_NAME], path[PATH_MAX + NFS4_TOKEN_NAME], text[NFS4_TOKEN_SIZE];
    nfs4_token_name(stanza->fence.name, name);
    snprintf(path, sizeof(path), "%s/%s", stanza->conf->exports[0].mount, name);
    nfs4_token_print(token, text);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    int error = fd < 0 ? -errno : 0;
    ssize_t put = fd < 0 ? 0 : pwrite(fd, text, sizeof(text), 0);
    if (error == 0 && put != sizeof(text))
        error = put < 0 ? -errno : -ENOSPC;
    if (error == 0 && fsync(fd) != 0)
        error = -errno;
    if (fd >= 0 && close(fd) != 0 && error == 0)
        error = -errno;
    if (error != 0)
        cmd_complain("fence", "%s: %s", path, strerror(-error));
    return error;
}

static struct nfs4_token new_token(void)
{
    struct nfs4_token token = {.verifier = 0};
    struct timespec now;
    char text[CMD_TIME_BYTES];
    while (token.verifier == 0)
        if (getrandom(&token.verifier, sizeof(token.verifier), 0) < 0)
            token.verifier = 0;
    gethostname(token.host, sizeof(token.host) - 1);
    for (char *c = token.host; *c; c++)
        *c = *c > ' ' && *c < 0x7f ? *c : '?';
    clock_gettime(CLOCK_REALTIME, &now);
    cmd_time(text, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
    snprintf(token.time, sizeof(token.time), "%s", text);
    return token;
}

/* ---- take ---- */

/* With the lock held. From the first step until all is done, neither this host nor the former one
 * has the fence. */
static bool take_locked(const struct stanza *stanza, int locked)
{
    struct nfs4_token token = new_token(), told = {.verifier = 0};
    struct run_fence fence = {.state = RUN_FENCE_NONE};
    const char *name = stanza->fence.name, *directory = stanza->conf->exports[0].directory;
    int error = run_fence_write(locked, &fence);
    if (error != 0) {
        cmd_complain("fence", "the run directory: %s", strerror(-error));
        return false;
    }
    if (write_token(stanza, &token) != 0)
        return false;
    error = read_token(stanza, &told);
    if (error == 0 && told.verifier != token.verifier)
        error = -ENOENT;
    if (error == -ENOENT || error == -EBADMSG) {
        cmd_complain("fence",
                     "server %s: what was written to %s is not in %s: mount the export there",
                     stanza->conf->name, stanza->conf->exports[0].mount, directory);
        return false;
    }
    if (error != 0) {
        cmd_complain("fence", "server %s: %s", stanza->conf->name, text_of(stanza, error));
        return false;
    }
    if (!take_all(stanza, token.verifier)) {
        cmd_complain("fence",
                     "%s is not taken: over a path that failed the former host may write yet; run "
                     "this again when all paths of the stanza answer",
                     name);
        return false;
    }
    fence = (struct run_fence){.state = RUN_FENCE_HELD, .verifier = token.verifier};
    error = run_fence_write(locked, &fence);
    if (error != 0)
        cmd_complain("fence", "the run directory: %s", strerror(-error));
    return error == 0;
}

static int take(const struct stanza *stanza)
{
    struct nfs4_token before;
    bool known = read_token(stanza, &before) == 0;
    int locked = run_fence_lock(stanza->fence.server, stanza->fence.name, stanza->timeout_ms);
    if (locked < 0) {
        cmd_complain("fence", "the run directory: %s", strerror(-locked));
        return CMD_NOT_FINE;
    }
    bool done = take_locked(stanza, locked);
    run_fence_unlock(locked);
    if (!done)
        return CMD_NOT_FINE;
    printf("%s %s: taken", stanza->fence.server, stanza->fence.name);
    if (known)
        printf("; before that host %s had it, since %s", before.host, before.time);
    putchar('\n');
    return CMD_FINE;
}

/* ---- status ---- */

/* True if this host has the fence. */
static bool status(const struct stanza *stanza)
{
    static const char *const states[] = {[RUN_FENCE_NONE] = "not taken by this host",
                                         [RUN_FENCE_HELD] = "held by this host",
                                         [RUN_FENCE_LOST] = "lost by this host",
                                         [RUN_FENCE_UNKNOWN] =
                                             "it cannot be told whether this host has it"};
    struct nfs4_token token;
    int error = read_token(stanza, &token);
    enum run_fence_state state = nfs4_fence_state(&stanza->fence, error, &token);
    printf("%s %s: %s", stanza->fence.server, stanza->fence.name, states[state]);
    if (error == 0)
        printf("; the last to take it was host %s, %s\n", token.host, token.time);
    else if (error == -ENOENT)
        puts("; nobody has taken it yet");
    else
        printf("; who took it last cannot be read: %s\n", text_of(stanza, error));
    return error == 0 && state == RUN_FENCE_HELD;
}

/* ---- the command ---- */

/* How the server is protected: as the stanza says, else as the kernel's mount of the first export
 * is. False: it cannot be, and was complained of. */
static bool protect(struct stanza *stanza)
{
    const struct conf_server *conf = stanza->conf;
    struct reach_kernel_mount kernel = {.speaks = NULL};
    struct stat status;
    const char *why;
    int fd = open(conf->exports[0].mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0)
        (void)reach_kernel_mount_of(status.st_dev, &kernel);
    if (fd >= 0)
        close(fd);
    if (reach_security(conf->exports[0].security, &kernel) >= CONF_SECURITY_KRB5) {
        cmd_complain("fence", "server %s: %s", conf->name, reach_reason(REACH_FENCE_SECURITY));
        return false;
    }
    enum conf_tls tls = reach_tls(conf->tls, &kernel);
    if (tls < CONF_TLS_PREFER)
        return true;
    if (net_tls_load(&why) != 0) {
        cmd_complain("fence", "server %s: TLS: OpenSSL cannot be used: %s. %s", conf->name, why,
                     net_tls_remedy(NET_TLS_NO_LIBRARY));
        return false;
    }
    stanza->tls = cmd_need(reach_tls_new(conf, tls, &nfs_version41, &stanza->tunables));
    return true;
}

static bool begin(const struct conf_server *conf, const struct request *request,
                  struct stanza *stanza)
{
    struct conf_diagnostics found = {0};
    struct reach_identity identity;
    char file[PATH_MAX], machine[256] = "";
    gethostname(machine, sizeof(machine) - 1);
    *stanza = (struct stanza){
        .conf = conf,
        .fence = {.server = conf->name,
                  .name = conf->fence,
                  .directory = conf->exports[0].directory},
        .timeout_ms = (int)((request->timeout > 0 ? request->timeout : TIMEOUT_DEFAULT) * 1000)};
    conf_tunables_load(&stanza->tunables, file, conf_tunables_file(file), &found);
    conf_diagnostics_free(&found);
    reach_identity_now(conf, &identity);
    rpc_auth_sys(&stanza->auth, machine, identity.uid, identity.gid, identity.groups,
                 identity.group_count);
    return protect(stanza);
}

static int work(const struct conf_nfstab *tab, char **words, int count,
                const struct request *request)
{
    bool takes = strcmp(words[0], "take") == 0, fine = true, any = false;
    for (size_t i = 0; i < tab->server_count; i++) {
        const struct conf_server *conf = &tab->servers[i];
        struct stanza stanza;
        if (!conf->fence || conf->export_count == 0 ||
            (count == 3 &&
             (strcmp(conf->name, words[1]) != 0 || strcmp(conf->fence, words[2]) != 0)))
            continue;
        any = true;
        fine = begin(conf, request, &stanza) &&
               (takes ? take(&stanza) == CMD_FINE : status(&stanza)) && fine;
        net_tls_free(stanza.tls);
        if (takes)
            break;
    }
    if (!any && count == 3)
        cmd_complain("fence", "the nfstab has no server %s with a fence %s", words[1], words[2]);
    else if (!any)
        cmd_complain("fence", "the nfstab has no fence");
    return any && fine ? CMD_FINE : CMD_NOT_FINE;
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    struct conf_nfstab tab = {0};
    struct conf_sources sources = {0};
    int result = cmd_options(&cmd_fence, argc, argv, &request);
    if (result != CMD_GO_ON)
        return result;
    char **words = argv + optind;
    int count = argc - optind;
    if (!(count == 3 && (strcmp(words[0], "take") == 0 || strcmp(words[0], "status") == 0)) &&
        !(count == 1 && strcmp(words[0], "status") == 0))
        return cmd_usage_error("fence", "it is 'take SERVER NAME', or 'status [SERVER NAME]'");
    log_set_level(LOG_LEVEL_ERROR);
    conf_sources_default(&sources);
    if (conf_nfstab_load(&tab, &sources, NULL) == 0)
        result = work(&tab, words, count, &request);
    else {
        cmd_complain("fence", "the nfstab has mistakes; 'directnfs check' shows them");
        result = CMD_NOT_FINE;
    }
    conf_nfstab_free(&tab);
    return result;
}

static const struct cmd_option options[] = {
    CMD_NUMBER_OPTION("timeout", 0, timeout, "SECONDS", 0.001, 3600, "seconds from 0.001 to 3600",
                      "wait no longer than this for each answer (default 10)"),
};

const struct cmd_command cmd_fence = {
    .name = "fence",
    .usage = "fence take [--timeout SECONDS] SERVER NAME\n"
             "fence status [--timeout SECONDS] [SERVER NAME]\n",
    .purpose = "takes the sessions of a fence (nfstab(5)) away from the host that has them",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = run,
};
