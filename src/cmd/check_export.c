/*
 * directnfs check: one export on one path: FSINFO, GETATTR, ACCESS, and the mount point.
 */
#include "cmd/check_export.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "cmd/check_kernel.h"
#include "cmd/check_mount.h"
#include "cmd/check_read.h"
#include "sys/sys.h"

enum { SMALL_TRANSFER = 1 << 16 };
#define COARSE_NS 10000000   /* steps of the server's times that are too long */
#define SKEW_NS   1000000000 /* of clocks */

static int64_t nanoseconds(int64_t seconds, uint32_t rest)
{
    return seconds * 1000000000 + rest;
}

/* ---- what the server grants ---- */

static bool check_fsinfo(struct check *check, const struct mount3_target *target,
                         struct nfs3_client *client, const struct nfs3_fh *fh)
{
    struct nfs3_fsinfo_res res;
    int error = nfs3_fsinfo(client, fh, &res);
    if (error) {
        check_say(&check->report, CHECK_ERROR, "FSINFO", "%s", strerror(-error));
        if (error == -EACCES || error == -EPERM)
            check_explain_port(check, target);
        return false;
    }
    client->read_max = nfs3_transfer_size(res.rtmax, check->tunables->rsize);
    client->write_max = nfs3_transfer_size(res.wtmax, check->tunables->wsize);
    check_say(&check->report, CHECK_INFO, "sizes",
              "READ %u and WRITE %u bytes are used; the server grants rtmax %u, wtmax %u",
              client->read_max, client->write_max, res.rtmax, res.wtmax);
    check_number(&check->report, "read_bytes", client->read_max);
    check_number(&check->report, "write_bytes", client->write_max);
    if (client->read_max < SMALL_TRANSFER || client->write_max < SMALL_TRANSFER) {
        check_say(&check->report, CHECK_WARNING, "sizes",
                  "large requests are split into many: less than %d bytes in one", SMALL_TRANSFER);
        check_remedy(&check->report, "raise the server's transfer size%s",
                     check->tunables->rsize || check->tunables->wsize
                         ? ", and take rsize and wsize out of directnfs.conf"
                         : "");
    }
    struct nfs3_attr attr;
    int64_t step = nanoseconds(res.time_delta.sec, res.time_delta.nsec);
    if (step > COARSE_NS &&
        (nfs3_getattr(client, fh, &attr) != 0 || !check_times_are_finer(&attr, step))) {
        check_say(&check->report, CHECK_WARNING, "times",
                  "the server's times go in steps of %.3f s: two changes within one are not told "
                  "apart",
                  (double)step / 1e9);
        check_remedy(&check->report, "export a file system with finer times");
    }
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

static bool ganesha_runs(void)
{
    char path[300], name[32] = "";
    bool found = false;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; !found && processes && (entry = readdir(processes));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%.255s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        found = file && fgets(name, sizeof(name), file) && strcmp(name, "ganesha.nfsd\n") == 0;
        if (file)
            fclose(file);
    }
    if (processes)
        closedir(processes);
    return found;
}

/* This host exports the directory itself, by a server that is a process as others. */
static void warn_of_own_server(struct check *check, const char *mount)
{
    struct statfs system;
    if (statfs(mount, &system) != 0 || system.f_type == NFS_SUPER_MAGIC || !ganesha_runs())
        return;
    check_say(
        &check->report, CHECK_WARNING, "kind",
        "this host exports the directory itself by nfs-ganesha, which keeps files open: those "
        "that are removed keep their space, and a program that was written there is \"Text "
        "file busy\", as long as it does");
    check_remedy(&check->report, "if that matters, export the directory by the kernel's server");
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
        warn_of_own_server(check, export->mount);
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

/* ---- one server behind all paths ---- */

/* True if both are attributes of one object, and the time of change did not go back. */
static bool same_object(const struct nfs3_attr *a, const struct nfs3_attr *b)
{
    return a->fsid == b->fsid && a->fileid == b->fileid &&
           nanoseconds(a->ctime.sec, a->ctime.nsec) <= nanoseconds(b->ctime.sec, b->ctime.nsec);
}

/*
 * Is the export's root that of the path which granted it first? Its handle must work here, and show
 * the same object in a state between two looks over that path. False: said.
 */
static bool same_root(struct check *check, const struct check_path *path,
                      const struct nfs3_fh *handle, const struct check_root *root)
{
    struct check_report *report = &check->report;
    struct nfs3_attr before, here, after;
    size_t number = root->path->number;
    int error = nfs3_getattr(&root->path->client, &root->handle, &before);
    int remote = error ? 0 : nfs3_getattr(&path->client, &root->handle, &here);
    if (!error && !remote)
        error = nfs3_getattr(&root->path->client, &root->handle, &after);
    if (error) {
        check_say(report, CHECK_ERROR, "same server", "path %zu no longer answers: %s", number,
                  strerror(-error));
        return false;
    }
    bool same = handle->len == root->handle.len &&
                memcmp(handle->data, root->handle.data, handle->len) == 0;
    if (remote)
        check_say(report, CHECK_ERROR, "same server",
                  "the file handle of path %zu means nothing here: %s", number, strerror(-remote));
    else if (!same_object(&before, &here) || !same_object(&here, &after))
        check_say(report, CHECK_ERROR, "same server",
                  "the root is not that of path %zu: file system %#jx, file id %ju, there %#jx and "
                  "%ju, or changed at another time",
                  number, (uintmax_t)here.fsid, (uintmax_t)here.fileid, (uintmax_t)before.fsid,
                  (uintmax_t)before.fileid);
    else {
        check_say(report, same ? CHECK_INFO : CHECK_WARNING, "same server",
                  "as path %zu: file system %#jx, file id %ju, time of change; its handle works "
                  "here%s",
                  number, (uintmax_t)here.fsid, (uintmax_t)here.fileid,
                  same ? "" : ", though MOUNT gives another");
        return true;
    }
    check_remedy(report, "all paths of a stanza must be addresses of one server");
    return false;
}

/* ---- clocks ---- */

/* NFSv3 has no call for the server's time. A time of a file that lies ahead tells something. */
static void check_clock(struct check *check, const struct check_path *path,
                        const struct nfs3_fh *fh)
{
    struct nfs3_attr attr;
    struct timespec now;
    if (nfs3_getattr(&path->client, fh, &attr) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    const struct nfs3_time times[] = {attr.atime, attr.mtime, attr.ctime};
    int64_t ahead = INT64_MIN, here = nanoseconds(now.tv_sec, (uint32_t)now.tv_nsec);
    for (size_t i = 0; i < 3; i++) {
        int64_t difference = nanoseconds(times[i].sec, times[i].nsec) - here;
        ahead = difference > ahead ? difference : ahead;
    }
    if (ahead > SKEW_NS) {
        check_say(&check->report, CHECK_WARNING, "clock",
                  "a time of the root is %.1f s ahead of this host: so is the server's clock, or "
                  "it was set by hand",
                  (double)ahead / 1e9);
        check_number(&check->report, "ahead_ms", (uint64_t)ahead / 1000000);
        check_remedy(&check->report, "let both follow one time server (chrony, NTP)");
    } else {
        check_say(&check->report, CHECK_INFO, "clock",
                  "the server's is not seen ahead; whether it is behind can only be told by a time "
                  "that it sets (--read)");
    }
}

/* ---- the export ---- */

/* The kernel's mount that the directory lies in, if it is one by NFS. */
static void check_mount_point(struct check *check, const struct conf_export *export)
{
    struct conf_mountinfo info = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", export->mount);
    if (conf_mountinfo_load(&info, "/proc/self/mountinfo") == 0) {
        const struct conf_mount *mount = conf_mountinfo_at(&info, path);
        for (char *slash; mount == NULL && (slash = strrchr(path, '/')) != NULL;) {
            slash[slash == path] = '\0';
            mount = conf_mountinfo_at(&info, path);
            if (slash == path)
                break;
        }
        if (mount)
            check_kernel_mount(&check->report, mount);
    }
    conf_mountinfo_free(&info);
}

void check_export(struct check *check, const struct conf_server *conf,
                  const struct conf_export *export, struct check_path *path,
                  struct check_root *root)
{
    struct nfs3_fh handle;
    if (!check_mount(check, export, &path->target, &handle) || path->server == NULL)
        return;
    bool first = root->path == NULL;
    if (first) {
        root->path = path;
        root->handle = handle;
    } else if (!same_root(check, path, &handle, root)) {
        return;
    }
    if (!check_fsinfo(check, &path->target, &path->client, &root->handle))
        return;
    check_ports(check, export, path, &root->handle);
    bool fine = check_access(check, &path->client, &root->handle);
    if (first) {
        check_clock(check, path, &handle);
        root->served = check_kind(check, conf, export, &path->client, &handle) && fine;
        check_mount_point(check, export);
    }
    if (check_read_lies_in(check, export))
        check_read(check, conf, export, path, root);
}
