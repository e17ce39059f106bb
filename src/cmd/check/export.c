/* directnfs check: one export on one path: FSINFO, GETATTR, ACCESS, and the mount point. */
#include "cmd/check/check.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "reach/root.h"

enum { SMALL_TRANSFER = 1 << 16, FILES_COMPARED = 20 };
#define COARSE_NS 10000000   /* longer steps of the server's times are too long */
#define SKEW_NS   1000000000 /* between clocks */

static int64_t nanoseconds(int64_t seconds, uint32_t rest)
{
    return seconds * 1000000000 + rest;
}

/* ---- what the server grants ---- */

/* `layouts`: those of the kernel's mount. */
static bool check_fsinfo(struct check_path *path, const struct nfs_fh *fh, const char *layouts)
{
    const struct conf_tunables *tunables = &path->check->tunables;
    struct nfs_client *client = &path->client;
    struct nfs_fsinfo_res res;
    int error = nfs_fsinfo(client, fh, &res);
    if (error) {
        check_say(CHECK_ERROR, "FSINFO", "%s", strerror(-error));
        if (error == -EACCES || error == -EPERM)
            check_explain_port(path);
        return false;
    }
    if (res.by_layouts || *layouts) {
        check_say(CHECK_ERROR, "layouts", "%s%s%s%s", reach_reason(REACH_LAYOUTS),
                  *layouts ? " (the kernel's mount: " : "", layouts, *layouts ? ")" : "");
        check_reason(REACH_LAYOUTS);
        return false;
    }
    client->read_max = nfs_transfer_size(res.rtmax, tunables->rsize);
    client->write_max = nfs_transfer_size(res.wtmax, tunables->wsize);
    check_say(CHECK_INFO, "sizes",
              "READ %u and WRITE %u bytes are used; the server grants rtmax %u, wtmax %u",
              client->read_max, client->write_max, res.rtmax, res.wtmax);
    check_number("read_bytes", client->read_max);
    check_number("write_bytes", client->write_max);
    if (client->read_max < SMALL_TRANSFER || client->write_max < SMALL_TRANSFER) {
        check_say(CHECK_WARNING, "sizes",
                  "large requests are split into many: less than %d bytes in one", SMALL_TRANSFER);
        check_remedy("raise the server's transfer size%s",
                     tunables->rsize || tunables->wsize
                         ? ", and take rsize and wsize out of directnfs.conf"
                         : "");
    }
    struct nfs_attr attr;
    int64_t step = nanoseconds(res.time_delta.sec, res.time_delta.nsec);
    if (step > COARSE_NS &&
        (nfs_getattr(client, fh, &attr) != 0 || !check_times_are_finer(&attr, step))) {
        check_say(
            CHECK_WARNING, "times",
            "the server's times go in steps of %.3f s: two changes within one are not told apart",
            (double)step / 1e9);
        check_remedy("export a file system with finer times");
    }
    return true;
}

static bool check_access(const struct nfs_client *client, const struct nfs_fh *fh)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } rights[] = {
        {NFS_ACCESS_READ, "read"},     {NFS_ACCESS_LOOKUP, "lookup"}, {NFS_ACCESS_MODIFY, "modify"},
        {NFS_ACCESS_EXTEND, "extend"}, {NFS_ACCESS_DELETE, "delete"},
    };
    struct nfs_post_attr attr;
    uint32_t access = 0;
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
        access |= rights[i].bit;
    int error = nfs_access(client, fh, &access, &attr);
    if (error) {
        check_say(CHECK_ERROR, "ACCESS", "%s", strerror(-error));
        return false;
    }
    char granted[64] = "";
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
        if (access & rights[i].bit)
            snprintf(granted + strlen(granted), sizeof(granted) - strlen(granted), "%s%s",
                     granted[0] ? ", " : "", rights[i].name);
    const struct rpc_auth *auth = client->auth;
    if ((access & NFS_ACCESS_LOOKUP) == 0) {
        check_say(CHECK_ERROR, "access", "uid %u, gid %u may not enter the directory (%s)",
                  auth->uid, auth->gid, granted[0] ? granted : "no right at all");
        check_remedy("correct the owner or the mode of the directory on the server; root is mostly "
                     "squashed: run check as the database's user");
        return false;
    }
    bool writes = access & (NFS_ACCESS_MODIFY | NFS_ACCESS_EXTEND);
    check_say(writes ? CHECK_INFO : CHECK_WARNING, "access", "uid %u, gid %u: %s%s", auth->uid,
              auth->gid, granted,
              writes ? "" : "; nothing can be created: read-only export, or the directory's mode");
    if (!writes)
        check_remedy("if it shall: export it rw, or correct the owner or mode of the directory on "
                     "the server; root is mostly squashed: run check as the database's user");
    return true;
}

/* ---- how it would be served ---- */

/* A mount would hide the files. A directory that cannot be read may have some. */
static bool holds_files(const char *directory)
{
    struct dirent *entry;
    DIR *opened = opendir(directory);
    bool found = opened == NULL && errno != ENOENT;
    while (opened && !found && (entry = readdir(opened)) != NULL)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (opened)
        closedir(opened);
    return found;
}

static bool standalone(const struct conf_server *conf, const struct conf_export *export,
                       const char *why)
{
    check_say(CHECK_ERROR, "kind",
              "standalone, which is not served yet: %s; the library leaves the files to the kernel",
              why);
    if (export->kernel == CONF_KERNEL_NO)
        check_remedy("take `kernel: no` out of %s:%u:%u, and let the kernel mount it",
                     export->at.file, export->at.line, export->at.column);
    else if (holds_files(export->mount))
        check_remedy("correct `mount` in %s:%u:%u: nothing can be mounted at %s without hiding "
                     "what is in it",
                     export->at.file, export->at.line, export->at.column, export->mount);
    if (holds_files(export->mount))
        return false;
    const char *peer = conf->paths[0].peer;
    bool colons = strchr(peer, ':') != NULL;
    char ports[64] = "";
    if (conf->nfsport)
        snprintf(ports, sizeof(ports), ",port=%u", conf->nfsport);
    if (conf->mntport)
        snprintf(ports + strlen(ports), sizeof(ports) - strlen(ports), ",mountport=%u",
                 conf->mntport);
    check_remedy("mount it: mount -t nfs -o vers=3,hard%s %s%s%s:%s %s", ports, colons ? "[" : "",
                 peer, colons ? "]" : "", export->directory, export->mount);
    check_remedy("or correct `mount` in %s:%u:%u, if that is not the directory that is meant",
                 export->at.file, export->at.line, export->at.column);
    return false;
}

/* True if one of the first files at the mount point is in the server's directory, too, with its
 * number and time of change. Directories of two file systems may well have one number: their roots
 * have. */
static bool has_same_file(const struct nfs_client *client, const struct nfs_fh *directory,
                          const char *mount)
{
    struct dirent *entry;
    DIR *opened = opendir(mount);
    bool found = false;
    for (int i = 0; opened && !found && i < FILES_COMPARED && (entry = readdir(opened)); i++) {
        struct nfs_fh fh;
        struct nfs_post_attr there;
        struct stat here;
        found = entry->d_name[0] != '.' &&
                fstatat(dirfd(opened), entry->d_name, &here, AT_SYMLINK_NOFOLLOW) == 0 &&
                nfs_lookup(client, directory, entry->d_name, &fh, &there) == 0 && there.present &&
                there.attr.fileid == here.st_ino &&
                nanoseconds(there.attr.ctime.sec, there.attr.ctime.nsec) ==
                    nanoseconds(here.st_ctim.tv_sec, (uint32_t)here.st_ctim.tv_nsec);
    }
    if (opened)
        closedir(opened);
    return found;
}

static bool ganesha_runs(void)
{
    char name[32] = "";
    bool found = false;
    glob_t names = {0};
    glob("/proc/[1-9]*/comm", GLOB_NOSORT, NULL, &names);
    for (size_t i = 0; i < names.gl_pathc && !found; i++) {
        FILE *file = fopen(names.gl_pathv[i], "re");
        found = file && fgets(name, sizeof(name), file) && strcmp(name, "ganesha.nfsd\n") == 0;
        if (file)
            fclose(file);
    }
    globfree(&names);
    return found;
}

/* Warns if this host exports the directory itself, by a server that is an ordinary process. */
static void warn_of_own_server(const char *mount)
{
    struct statfs system;
    if (statfs(mount, &system) != 0 || system.f_type == NFS_SUPER_MAGIC || !ganesha_runs())
        return;
    check_say(CHECK_WARNING, "kind",
              "this host exports the directory itself by nfs-ganesha, which keeps files open: "
              "those that are removed keep their space, and a program that was written there is "
              "\"Text file busy\", as long as it does");
    check_remedy("if that matters, export the directory by the kernel's server");
}

static bool check_kind(const struct check_path *path, const struct conf_export *export,
                       const struct nfs_fh *fh)
{
    const struct conf_server *conf = path->stanza;
    int timeout_ms = path->check->timeout_ms;
    struct reach_finding finding;
    char why[256];
    if (export->kernel == CONF_KERNEL_NO)
        return standalone(conf, export, "the nfstab says `kernel: no`");
    reach_prove_root(export->mount, check_statx, &timeout_ms, &path->client, fh, &finding);
    switch (finding.what) {
    case REACH_SAME:
        check_say(CHECK_INFO, "kind",
                  "kernel-backed: the mount point shows the server's directory (file id %" PRIu64
                  ")",
                  finding.attr.fileid);
        warn_of_own_server(export->mount);
        return true;
    case REACH_OTHER_TIME:
        check_say(
            CHECK_ERROR, "kind",
            "its time of change is not the server's; the library leaves the files to the kernel");
        if (has_same_file(&path->client, fh, export->mount))
            check_remedy("a server that keeps attributes of a directory that others change must "
                         "not (nfs-ganesha: Attr_Expiration_Time = 0)");
        else
            check_reason(REACH_NOT_THE_EXPORT);
        return false;
    case REACH_OTHER_FILE:
        snprintf(why, sizeof(why),
                 "the directory at the mount point is another one (file id %" PRIu64
                 ", the server's has %" PRIu64 ")",
                 finding.seen.fileid, finding.attr.fileid);
        return standalone(conf, export, why);
    case REACH_NO_DIRECTORY:
        snprintf(why, sizeof(why), "there is no directory %s",
                 finding.attr.type != NFS_DIR ? "on the server" : "at the mount point");
        return standalone(conf, export, why);
    case REACH_KERNEL_FAILED:
        if (finding.error == -ETIMEDOUT) {
            check_say(CHECK_ERROR, "kind",
                      "the kernel does not answer for %s within %g s: its own mount hangs",
                      export->mount, timeout_ms / 1000.0);
            return false;
        }
        snprintf(why, sizeof(why), "at the mount point the kernel says: %s",
                 strerror(-finding.error));
        return standalone(conf, export, why);
    default:
        check_say(CHECK_ERROR, "GETATTR", "%s", strerror(-finding.error));
        return false;
    }
}

/* ---- one server behind all paths ---- */

/* The path over which the root is known, and the root's attributes when last asked for. */
struct proven {
    const struct check_root *root;
    struct nfs_attr attr;
    int error;
};

/* A reach_root_look. Nobody asked before, so `since_ns` is not needed. */
static int look_at_root(void *context, uint64_t since_ns, struct nfs_attr *attr)
{
    struct proven *proven = context;
    (void)since_ns;
    proven->error = nfs_getattr(&proven->root->path->client, &proven->root->handle, &proven->attr);
    *attr = proven->attr;
    return proven->error;
}

/* True if this path leads to the export's root, which is known over another path. False: reported.
 * `handle` is what MOUNT gave here. */
static bool same_root(const struct check_path *path, const struct nfs_fh *handle,
                      const struct check_root *root)
{
    struct reach_finding finding;
    struct proven proven = {.root = root};
    const struct nfs_attr *here = &finding.attr, *there = &finding.seen;
    size_t number = root->path->number;
    bool same = handle->len == root->handle.len &&
                memcmp(handle->data, root->handle.data, handle->len) == 0;
    int result = reach_prove_path(&path->client, &root->handle, look_at_root, &proven, &finding);
    if (proven.error != 0) {
        check_say(CHECK_ERROR, "same server", "path %zu no longer answers: %s", number,
                  strerror(-proven.error));
        return false;
    }
    if (result == 0) {
        check_say(
            same ? CHECK_INFO : CHECK_WARNING, "same server",
            "as path %zu: file system %#jx, file id %ju, time of change; its handle works here%s",
            number, (uintmax_t)here->fsid, (uintmax_t)here->fileid,
            same ? "" : ", though MOUNT gives another");
        return true;
    }
    if (finding.what == REACH_UNKNOWN_HANDLE || finding.what == REACH_SERVER_FAILED)
        check_say(CHECK_ERROR, "same server", "the file handle of path %zu means nothing here: %s",
                  number, strerror(-finding.error));
    else
        check_say(CHECK_ERROR, "same server",
                  "the root is not that of path %zu: file system %#jx, file id %ju, there %#jx and "
                  "%ju, or changed at another time",
                  number, (uintmax_t)here->fsid, (uintmax_t)here->fileid, (uintmax_t)there->fsid,
                  (uintmax_t)there->fileid);
    check_remedy("all paths of a stanza must be addresses of one server");
    return false;
}

/* ---- clocks ---- */

/* NFSv3 has no call for the server's time. But a file's time that lies ahead shows something. */
static void check_clock(const struct nfs_client *client, const struct nfs_fh *fh)
{
    struct nfs_attr attr;
    struct timespec now;
    if (nfs_getattr(client, fh, &attr) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    const struct nfs_time times[] = {attr.atime, attr.mtime, attr.ctime};
    int64_t ahead = INT64_MIN, here = nanoseconds(now.tv_sec, (uint32_t)now.tv_nsec);
    for (size_t i = 0; i < 3; i++) {
        int64_t difference = nanoseconds(times[i].sec, times[i].nsec) - here;
        ahead = difference > ahead ? difference : ahead;
    }
    if (ahead > SKEW_NS) {
        check_say(CHECK_WARNING, "clock",
                  "a time of the root is %.1f s ahead of this host: so is the server's clock, or "
                  "it was set by hand",
                  (double)ahead / 1e9);
        check_number("ahead_ms", (uint64_t)ahead / 1000000);
        check_remedy("let both follow one time server (chrony, NTP)");
    } else {
        check_say(CHECK_INFO, "clock",
                  "the server's is not seen ahead; whether it is behind can only be told by a time "
                  "that it sets (--read)");
    }
}

/* ---- the export ---- */

/* Reports the kernel's mount that the directory is in, if it is one of NFS. */
static void check_mount_point(const struct conf_export *export)
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
            check_kernel_mount(mount);
    }
    conf_mountinfo_free(&info);
}

void check_told(const struct check *check, const struct conf_server *conf, struct check_root *root)
{
    const struct conf_export *export = root->export;
    struct statx status;
    root->version = reach_version(conf->version, &root->kernel);
    if (export->kernel == CONF_KERNEL_NO ||
        check_statx(&check->timeout_ms, export->mount, AT_STATX_SYNC_AS_STAT, &status) != 0)
        return;
    dev_t device = makedev(status.stx_dev_major, status.stx_dev_minor);
    reach_kernel_mount_of(device, &root->kernel);
    root->version = reach_version(conf->version, &root->kernel);
    if (root->kernel.speaks != &nfs_version41 || !reach_kernel_has_layouts(device, root->layouts))
        root->layouts[0] = '\0';
    if (root->version != root->kernel.speaks ||
        reach_root_told(export->mount, device, status.stx_ino, &root->told) != 0) {
        root->told.len = 0;
        return;
    }
    root->inode = status.stx_ino;
}

static void say_session(const struct nfs_client *client)
{
    struct nfs_session_facts facts;
    char number[24];
    if (!client->version->session_facts(client->session, &facts))
        return;
    check_say(CHECK_INFO, "session",
              "NFSv4.1, %" PRIu32 " slots (calls in flight), lease %" PRIu32
              " s, server owner '%s'%s, client id %016" PRIx64,
              facts.slots, facts.lease_s, facts.owner,
              facts.owner_length > NFS_OWNER_SHOWN ? "..." : "", facts.client);
    snprintf(number, sizeof(number), "%016" PRIx64, facts.client);
    check_word("client_id", number);
    check_word("server_owner", facts.owner);
}

/* The server does not take our security: says which it takes, if it tells. */
static void say_flavors(const struct check_path *path, const struct conf_export *export)
{
    char text[REACH_FLAVORS_BYTES];
    const char *takes = reach_flavors_ask(&path->client, export->directory, text);
    check_say(CHECK_ERROR, "session", "%s%s%s", reach_reason(REACH_OTHER_SECURITY),
              takes[0] ? ": it takes " : "", takes);
    if (takes[0])
        check_word("takes", takes);
    check_reason(REACH_OTHER_SECURITY);
}

bool check_walk(const struct check_path *path, const struct conf_export *export,
                struct nfs_fh *handle)
{
    const struct nfs_client *client = &path->client;
    int error =
        client->session ? client->version->root(client, export->directory, handle) : -ENOMEM;
    if (error == 0) {
        check_say(CHECK_INFO, "session", "made; the directory's file handle has %u bytes",
                  handle->len);
        say_session(client);
        return true;
    }
    enum reach_service from = client->server ? reach_nfs_from(client->server) : REACH_NFS;
    enum reach_why why = reach_why_call(from, error, &path->check->tunables);
    if (why == REACH_OTHER_SECURITY) {
        say_flavors(path, export);
        return false;
    }
    bool hidden = why == REACH_NO_EXPORT_HIGH_PORT, missing = hidden || why == REACH_NO_EXPORT;
    check_say(CHECK_ERROR, "session", "%s: %s", reach_reason(why),
              missing ? export->directory : strerror(-error));
    if (!missing) {
        check_reason(why);
        return false;
    }
    check_word("reason", reach_reason(why));
    if (hidden)
        check_remedy("the call came from port %u, above 1023, to which the server may not show it: "
                     "export with `insecure`, or give CAP_NET_BIND_SERVICE",
                     reach_port_of(client->server));
    check_remedy("see how the server names the export: for NFSv4 the name may begin at a root of "
                 "its own");
    return false;
}

void check_export(struct check_path *path, struct check_root *root)
{
    const struct conf_export *export = root->export;
    struct nfs_fh handle = root->handle;
    bool answers = path->client.server != NULL;
    bool told = answers && root->told.len > 0 &&
                reach_root_known(&path->client, &root->told, root->inode) == 0;
    bool needed = !told && root->path == NULL; /* over one path is enough */
    bool sessions = check_has_sessions(path), granted = false;
    if (sessions)
        granted = answers && check_walk(path, export, &handle);
    else if (path->mounts)
        granted = check_mount(path, export, needed ? CHECK_ERROR : CHECK_WARNING, &handle);
    if (!sessions && needed && !path->mounts && !path->needs_mount)
        check_say(CHECK_ERROR, "MOUNT",
                  "needed: the server does not know the file handle that the kernel has");
    if ((needed && !granted) || !answers)
        return;
    if (told)
        handle = root->told;
    if (!granted && !sessions)
        check_say(CHECK_INFO, "MOUNT", "not needed here: the file handle is that of %s",
                  told ? "the kernel's mount" : "another path");
    bool first = root->path == NULL;
    if (first) {
        root->path = path;
        root->handle = handle;
    } else if (!same_root(path, &handle, root)) {
        return;
    }
    if (!check_fsinfo(path, &root->handle, root->layouts))
        return;
    check_ports(path, granted && !told && !sessions ? export->directory : NULL, &root->handle);
    bool fine = check_access(&path->client, &root->handle);
    if (first) {
        check_clock(&path->client, &handle);
        root->served = check_kind(path, export, &handle) && fine;
        check_mount_point(export);
        check_protection(path->stanza, root);
    }
    check_read(path, root);
}
