/* directnfs check: the MOUNT service, and the source ports that a server accepts. */
#include "cmd/check/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rpc/secure/identity.h"

enum { EXPORTS_SHOWN = 20 };

/* True if calls come from a port below 1024, as many exports demand. */
static bool is_privileged(const struct check_path *path)
{
    return path->client.server && atomic_load(&path->client.server->privileged);
}

void check_explain_port(const struct check_path *path)
{
    if (!is_privileged(path))
        check_remedy("the call came from a port above 1023: export with `insecure` (nfs-ganesha: "
                     "PrivilegedPort = false), or give CAP_NET_BIND_SERVICE; to ask as a service "
                     "with the drop-in will, which has it: sudo directnfs check --user %u",
                     geteuid());
}

bool check_lies_in(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    while (length > 0 && directory[length - 1] == '/')
        length--;
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* The server's exports, as far as they are shown. */
struct exports {
    const char *wanted;
    unsigned count;
    bool listed;        /* `wanted`, or a directory above it, is one of them */
    char clients[1024]; /* clients that may mount that one; empty: everybody */
};

static void export_found(void *argument, const char *directory, const char *groups)
{
    struct exports *exports = argument;
    if (exports->count++ < EXPORTS_SHOWN)
        check_say(CHECK_INFO, "exported", "%s to %s", directory, groups[0] ? groups : "everybody");
    if (check_lies_in(exports->wanted, directory)) {
        exports->listed = true;
        snprintf(exports->clients, sizeof(exports->clients), "%s", groups);
    }
}

/* Reports why MNT was refused. The list of exports helps to find a wrong directory or client. */
static void explain_refusal(const struct check_path *path, const struct conf_export *export,
                            enum check_severity severity, int error)
{
    const char *reason =
        error == -EREMOTEIO ? "the server is at fault (MNT3ERR_SERVERFAULT)" : strerror(-error);
    check_say(severity, "MOUNT", "refused: %s (%s:%u:%u)", reason, export->at.file, export->at.line,
              export->at.column);
    check_word("reason", reach_reason(reach_why_call(REACH_MOUNT, error, &path->check->tunables)));

    struct exports exports = {.wanted = export->directory};
    int listing = mount3_exports(&path->target, export_found, &exports);
    if (exports.count > EXPORTS_SHOWN)
        check_say(CHECK_INFO, "exported", "... and %u more", exports.count - EXPORTS_SHOWN);
    if (listing == 0 && exports.count == 0)
        check_say(CHECK_INFO, "exported", "nothing");
    if (listing == 0 && !exports.listed) {
        check_remedy("%s is not among the server's exports: correct the nfstab, or export it",
                     export->directory);
    } else if (error == -ENOENT || error == -ENOTDIR) {
        check_remedy("see whether %s is a directory on the server", export->directory);
    } else if (error == -EACCES || error == -EPERM) {
        check_explain_port(path);
        check_remedy("see whether the export is for this client%s%s",
                     exports.clients[0] ? "; it is for " : "", exports.clients);
    }
}

bool check_mount(const struct check_path *path, const struct conf_export *export,
                 enum check_severity severity, struct nfs_fh *handle)
{
    uint32_t flavors[MOUNT3_FLAVORS_MAX], count = MOUNT3_FLAVORS_MAX;
    int error = mount3_mount(&path->target, export->directory, handle, flavors, &count);
    if (error) {
        explain_refusal(path, export, severity, error);
        return false;
    }
    const struct rpc_identity *identity = path->client.auth->identity;
    static const char *const names[] = {"sys", "krb5", "krb5i", "krb5p"};
    uint32_t service = identity ? (uint32_t)identity->service : 0;
    uint32_t wanted = identity ? MOUNT3_KRB5 + service - RPC_SERVICE_NONE : MOUNT3_AUTH_SYS;
    bool taken = count == 0; /* a server that lists none takes any */
    for (uint32_t i = 0; i < count; i++)
        taken = taken || flavors[i] == wanted;
    mount3_umount(&path->target, export->directory);
    if (!taken) {
        char text[REACH_FLAVORS_BYTES];
        check_say(severity, "MOUNT", "granted, but the export does not take sec=%s: it takes %s",
                  names[service], reach_flavors_text(flavors, count, text));
        check_word("takes", text);
        check_remedy("export with sec=%s, or set another `security` in the nfstab", names[service]);
        return false;
    }
    check_say(CHECK_INFO, "MOUNT", "granted, a file handle of %u bytes, sec=%s", handle->len,
              names[service]);
    return true;
}

/* ---- source ports ---- */

/* 0: the services answer calls from a port above 1023. -errno: `service` refused. */
static int try_any_port(const struct check_path *path, const char *directory,
                        const struct nfs_fh *fh, const char **service)
{
    struct mount3_target target = path->target;
    struct nfs_client client = path->client;
    struct nfs_fh handle;
    struct nfs_attr attr;
    *service = "MOUNT";
    target.ports = NET_PORT_ANY;
    int error = directory ? mount3_mount(&target, directory, &handle, NULL, NULL) : 0;
    if (error)
        return error;
    *service = "NFS";
    error = reach_over(&path->address, NET_PORT_ANY, 1, &path->check->tunables, path->tls,
                       &client.server);
    if (error == 0)
        error = nfs_getattr(&client, fh, &attr);
    rpc_server_destroy(client.server);
    return error;
}

void check_ports(const struct check_path *path, const char *directory, const struct nfs_fh *fh)
{
    if (!is_privileged(path)) {
        check_say(CHECK_INFO, "ports", "a source port above 1023 is accepted");
        check_word("source_port", "any");
        return;
    }
    const char *service;
    int error = try_any_port(path, directory, fh, &service);
    if (error == 0) {
        check_say(CHECK_INFO, "ports", "any source port is accepted (`insecure`)");
        check_word("source_port", "any");
        return;
    }
    /* The user of this command may not be the one that runs the programs. */
    check_say(geteuid() == 0 ? CHECK_WARNING : CHECK_INFO, "ports",
              "the %s service accepts source ports below 1024 only (from above: %s), which the "
              "database's user needs CAP_NET_BIND_SERVICE for",
              service, strerror(-error));
    check_word("source_port", "below 1024");
    if (path->check->as->user && !path->check->as->unit)
        check_remedy("give its service the drop-in of share/directnfs/systemd, which has it");
    if (geteuid() == 0)
        check_remedy(
            "AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit, or export with "
            "`insecure` (nfs-ganesha: PrivilegedPort = false); then run check as that user");
}
