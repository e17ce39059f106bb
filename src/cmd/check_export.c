/*
 * directnfs check: one export on one path: MOUNT, FSINFO, GETATTR, ACCESS, and the mount point.
 */
#include "cmd/check_export.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/sys.h"

enum { EXPORTS_SHOWN = 20, TRANSFER_MAX = 1 << 20 };

/* ---- MOUNT ---- */

/* May this process bind a source port below 1024, as many exports demand? */
static bool may_bind_privileged(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool may = false;
    for (int port = 1023; port >= 600; port--) {
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int result = family == AF_INET6 ? bind(fd, (struct sockaddr *)&six, sizeof(six))
                                        : bind(fd, (struct sockaddr *)&four, sizeof(four));
        may = result == 0;
        if (may || errno != EADDRINUSE)
            break;
    }
    close(fd);
    return may;
}

/* After a refusal: the port may be why. */
static void explain_port(struct check *check, const struct mount3_target *target)
{
    if (!target->privileged || !may_bind_privileged(target->peer->sa_family))
        check_remedy(&check->report,
                     "the call came from a port above 1023: export with `insecure` "
                     "(nfs-ganesha: PrivilegedPort = false), or give CAP_NET_BIND_SERVICE");
}

/* The server's exports, as far as they are shown. */
struct exports {
    struct check *check;
    const char *wanted;
    unsigned count;
    bool listed;        /* `wanted`, or a directory above it, is among them */
    char clients[1024]; /* who may mount that one; empty: everybody */
};

/* True if `directory` is `above` or lies in it. */
static bool lies_in(const char *directory, const char *above)
{
    size_t length = strlen(above);
    while (length > 0 && above[length - 1] == '/')
        length--;
    return strncmp(directory, above, length) == 0 &&
           (directory[length] == '/' || directory[length] == '\0');
}

static void export_found(void *argument, const char *directory, const char *groups)
{
    struct exports *exports = argument;
    struct check *check = exports->check;
    if (exports->count++ < EXPORTS_SHOWN)
        check_say(&check->report, CHECK_INFO, "exported", "%s to %s", directory,
                  groups[0] ? groups : "everybody");
    if (lies_in(exports->wanted, directory)) {
        exports->listed = true;
        snprintf(exports->clients, sizeof(exports->clients), "%s", groups);
    }
}

/* Says why MNT was refused; the list of exports helps to find a wrong directory or client. */
static void explain_refusal(struct check *check, const struct conf_export *export,
                            const struct mount3_target *target, int error)
{
    const char *reason =
        error == -EREMOTEIO ? "the server is at fault (MNT3ERR_SERVERFAULT)" : strerror(-error);
    check_say(&check->report, CHECK_ERROR, "MOUNT", "refused: %s (%s:%u:%u)", reason,
              export->at.file, export->at.line, export->at.column);

    struct exports exports = {.check = check, .wanted = export->directory};
    int listing = mount3_exports(target, export_found, &exports);
    if (exports.count > EXPORTS_SHOWN)
        check_say(&check->report, CHECK_INFO, "exported", "... and %u more",
                  exports.count - EXPORTS_SHOWN);
    if (listing == 0 && exports.count == 0)
        check_say(&check->report, CHECK_INFO, "exported", "nothing");
    if (listing == 0 && !exports.listed) {
        check_remedy(&check->report,
                     "%s is not among the server's exports: correct the nfstab, "
                     "or export it",
                     export->directory);
        return;
    }
    if (error == -ENOENT || error == -ENOTDIR) {
        check_remedy(&check->report, "see whether %s is a directory on the server",
                     export->directory);
        return;
    }
    if (error != -EACCES && error != -EPERM)
        return;
    explain_port(check, target);
    check_remedy(&check->report, "see whether the export is for this client%s%s",
                 exports.clients[0] ? "; it is for " : "", exports.clients);
}

/* MNT. False: reported. */
static bool mount_export(struct check *check, const struct conf_export *export,
                         const struct mount3_target *target, struct nfs3_fh *handle)
{
    uint32_t flavors[MOUNT3_FLAVORS_MAX], count = MOUNT3_FLAVORS_MAX;
    int error = mount3_mount(target, export->directory, handle, flavors, &count);
    if (error) {
        explain_refusal(check, export, target, error);
        return false;
    }
    bool sys = count == 0; /* a server that lists nothing does not care */
    for (uint32_t i = 0; i < count; i++)
        sys = sys || flavors[i] == MOUNT3_AUTH_SYS;
    mount3_umount(target, export->directory);
    if (!sys) {
        check_say(&check->report, CHECK_ERROR, "MOUNT",
                  "granted, but the export does not take AUTH_SYS");
        check_remedy(&check->report, "export with sec=sys; Kerberos is not supported yet");
        return false;
    }
    check_say(&check->report, CHECK_INFO, "MOUNT", "granted, a file handle of %u bytes, AUTH_SYS",
              handle->len);
    return true;
}

/* ---- NFS ---- */

/* The bytes of one transfer, as the library computes them: what the server grants, cut by the
 * tunable, in whole pages. */
static unsigned transfer(uint32_t granted, int tunable)
{
    unsigned size = granted < TRANSFER_MAX ? granted : TRANSFER_MAX;
    if (tunable > 0 && size > (unsigned)tunable)
        size = (unsigned)tunable;
    if (size > 4096)
        size -= size % 4096;
    return size ? size : 4096;
}

static bool check_fsinfo(struct check *check, const struct mount3_target *target,
                         const struct nfs3_client *client, const struct nfs3_fh *fh)
{
    struct nfs3_fsinfo_res res;
    int error = nfs3_fsinfo(client, fh, &res);
    if (error) {
        check_say(&check->report, CHECK_ERROR, "FSINFO", "%s", strerror(-error));
        if (error == -EACCES || error == -EPERM)
            explain_port(check, target);
        return false;
    }
    check_say(&check->report, CHECK_INFO, "sizes",
              "READ %u and WRITE %u bytes are used; the server grants rtmax %u, wtmax %u",
              transfer(res.rtmax, check->tunables->rsize),
              transfer(res.wtmax, check->tunables->wsize), res.rtmax, res.wtmax);
    return true;
}

static bool check_access(struct check *check, const struct nfs3_client *client,
                         const struct nfs3_fh *fh)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } rights[] = {
        {NFS3_ACCESS_READ, "read"},     {NFS3_ACCESS_LOOKUP, "lookup"},
        {NFS3_ACCESS_MODIFY, "modify"}, {NFS3_ACCESS_EXTEND, "extend"},
        {NFS3_ACCESS_DELETE, "delete"},
    };
    uint32_t wanted = 0;
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
        wanted |= rights[i].bit;

    struct nfs3_post_attr attr;
    uint32_t access = wanted;
    int error = nfs3_access(client, fh, &access, &attr);
    if (error) {
        check_say(&check->report, CHECK_ERROR, "ACCESS", "%s", strerror(-error));
        return false;
    }
    char granted[64] = "";
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
        if (access & rights[i].bit)
            snprintf(granted + strlen(granted), sizeof(granted) - strlen(granted), "%s%s",
                     granted[0] ? ", " : "", rights[i].name);
    const struct rpc_auth *auth = client->auth;
    if ((access & NFS3_ACCESS_LOOKUP) == 0) {
        check_say(&check->report, CHECK_ERROR, "access",
                  "uid %u, gid %u may not enter the directory (%s)", auth->uid, auth->gid,
                  granted[0] ? granted : "no right at all");
        check_remedy(&check->report, "correct the owner or the mode of the directory on the "
                                     "server; root is mostly squashed: run check as the "
                                     "database's user");
        return false;
    }
    check_say(&check->report, CHECK_INFO, "access", "uid %u, gid %u: %s%s", auth->uid, auth->gid,
              granted,
              access & (NFS3_ACCESS_MODIFY | NFS3_ACCESS_EXTEND)
                  ? ""
                  : "; nothing can be created: read-only export, or the directory's mode");
    return true;
}

/* ---- how it would be served ---- */

static bool standalone(struct check *check, const struct conf_server *conf,
                       const struct conf_export *export, const char *why)
{
    check_say(&check->report, CHECK_ERROR, "kind",
              "standalone, which is not served yet: %s; the library "
              "leaves the files to the kernel",
              why);
    const char *peer = conf->paths[0].peer;
    bool colons = strchr(peer, ':') != NULL;
    char ports[64] = "";
    if (conf->nfsport)
        snprintf(ports, sizeof(ports), ",port=%u", conf->nfsport);
    if (conf->mntport)
        snprintf(ports + strlen(ports), sizeof(ports) - strlen(ports), ",mountport=%u",
                 conf->mntport);
    check_remedy(&check->report, "mount it: mount -t nfs -o vers=3,hard%s %s%s%s:%s %s", ports,
                 colons ? "[" : "", peer, colons ? "]" : "", export->directory, export->mount);
    return false;
}

static int64_t nanoseconds(int64_t seconds, uint32_t rest)
{
    return seconds * 1000000000 + rest;
}

/*
 * Is the directory at the mount point the one that the server calls its root? As the library asks:
 * the file numbers are the same, and the server's time of change lies between two looks at the
 * kernel's. Returns 0, -EXDEV with the reason in `why`, or another -errno of the kernel (in `why`
 * too) or -EREMOTEIO for one of the server, which is reported.
 */
static int compare_roots(struct check *check, const char *mount, const struct nfs3_client *client,
                         const struct nfs3_fh *fh, uint64_t *fileid, char *why, size_t size)
{
    for (int attempt = 0; attempt < 5; attempt++) {
        struct statx before, after;
        struct nfs3_attr attr;
        if (attempt > 0)
            sys_nanosleep_ms(10);
        int error = check_statx(mount, check->timeout_ms, &before);
        int remote = error ? 0 : nfs3_getattr(client, fh, &attr);
        if (!error && !remote)
            error = check_statx(mount, check->timeout_ms, &after);
        if (error) {
            snprintf(why, size, "at the mount point the kernel says: %s", strerror(-error));
            return error;
        }
        if (remote) {
            check_say(&check->report, CHECK_ERROR, "GETATTR", "%s", strerror(-remote));
            return -EREMOTEIO;
        }
        *fileid = attr.fileid;
        if (!S_ISDIR(before.stx_mode) || attr.type != NFS3_DIR) {
            snprintf(why, size, "there is no directory %s",
                     attr.type != NFS3_DIR ? "on the server" : "at the mount point");
            return -EXDEV;
        }
        if (before.stx_ino != attr.fileid) {
            snprintf(why, size,
                     "the directory at the mount point is another one (file id %ju, the server's "
                     "has %" PRIu64 ")",
                     (uintmax_t)before.stx_ino, attr.fileid);
            return -EXDEV;
        }
        int64_t at = nanoseconds(attr.ctime.sec, attr.ctime.nsec);
        if (at >= nanoseconds(before.stx_ctime.tv_sec, before.stx_ctime.tv_nsec) &&
            at <= nanoseconds(after.stx_ctime.tv_sec, after.stx_ctime.tv_nsec))
            return 0;
    }
    snprintf(why, size, "its time of change is not the server's");
    return -ESTALE;
}

static bool check_kind(struct check *check, const struct conf_server *conf,
                       const struct conf_export *export, const struct nfs3_client *client,
                       const struct nfs3_fh *fh)
{
    char why[256];
    uint64_t fileid;
    if (export->kernel == CONF_KERNEL_NO)
        return standalone(check, conf, export, "the nfstab says `kernel: no`");
    switch (compare_roots(check, export->mount, client, fh, &fileid, why, sizeof(why))) {
    case 0:
        check_say(&check->report, CHECK_INFO, "kind",
                  "kernel-backed: the mount point shows the server's directory (file id %" PRIu64
                  ")",
                  fileid);
        return true;
    case -EREMOTEIO:
        return false;
    case -ETIMEDOUT:
        check_say(&check->report, CHECK_ERROR, "kind",
                  "the kernel does not answer for %s within %g s: its own mount hangs",
                  export->mount, check->timeout_ms / 1000.0);
        return false;
    case -ESTALE:
        check_say(&check->report, CHECK_ERROR, "kind",
                  "%s; the library leaves the files to the kernel", why);
        check_remedy(&check->report,
                     "a server that keeps attributes of a directory that others change must not "
                     "(nfs-ganesha: Attr_Expiration_Time = 0)");
        return false;
    default:
        return standalone(check, conf, export, why);
    }
}

void check_export(struct check *check, const struct conf_server *conf,
                  const struct conf_export *export, const struct mount3_target *target,
                  const struct nfs3_client *client, struct check_root *root)
{
    struct nfs3_fh handle;
    if (!mount_export(check, export, target, &handle) || client == NULL)
        return;
    bool first = !root->known;
    if (first) {
        root->known = true;
        root->handle = handle;
    } else if (handle.len != root->handle.len ||
               memcmp(handle.data, root->handle.data, handle.len) != 0) {
        check_say(&check->report, CHECK_ERROR, "paths",
                  "this path leads to another file system than the "
                  "first: the file handles differ");
        check_remedy(&check->report, "all paths of a stanza must be addresses of one server");
        return;
    }
    if (!check_fsinfo(check, target, client, &handle))
        return;
    bool fine = check_access(check, client, &handle);
    fine = check_kind(check, conf, export, client, &handle) && fine;
    root->served = root->served || (first && fine);
}
