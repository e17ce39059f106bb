/* A mount that is used: credentials, the first contact, handles of directories, verifiers. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "file/addresses.h"
#include "file/commit.h"
#include "file/facts.h"
#include "file/inode.h"
#include "file/versions.h"
#include "ledger/cache.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "net/pool.h"
#include "reach/root.h"
#include "reach/server.h"
#include "run/said.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum { RETRY_S = 30, SAY_EVERY_S = 60 };

struct nfs_client file_mount_client(const struct file_mount *mount, const struct rpc_auth *auth)
{
    return (struct nfs_client){.version = mount->server->version,
                               .session = mount->server->session,
                               .server = mount->server->net,
                               .auth = auth,
                               .counted =
                                   atomic_load_explicit(&mount->counted, memory_order_relaxed),
                               .read_max = mount->read_max,
                               .write_max = mount->write_max,
                               .timeout_ms = file_tunables.soft_timeout * 1000};
}

/* ---- first contact ---- */

static void enter_statistics(struct file_mount *mount)
{
    stats_open();
    struct stats_server entry = {
        .name = mount->server->conf->name,
        .directory = mount->conf->directory,
        .mount = mount->conf->mount,
        .security = "sys",
        .kind = DIRECTNFS_KERNEL_BACKED,
        .mntport = mount->server->mntport,
        .nfsport = mount->server->nfsport,
        .version = mount->server->version->number,
        .wtmax = mount->write_max,
        .rtmax = mount->read_max,
    };
    mount->stats_id = stats_server(&entry);
    if (mount->server->session)
        mount->server->version->session_show(mount->server->session, entry.name);
    atomic_store_explicit(&mount->counted, stats_mount(mount->stats_id), memory_order_relaxed);
}

/* What a process lacks for the registry it mostly lacks for ever: it is not tried at each call. */
static _Atomic uint64_t failed_ns;
static _Atomic int failure;

int file_registry_open(void)
{
    uint64_t failed = atomic_load_explicit(&failed_ns, memory_order_acquire);
    if (ledger_registry_ready())
        return 0;
    if (failed != 0 && sys_now_ns() - failed < (uint64_t)RETRY_S * 1000000000)
        return failure;
    ledger_cache_set((uint64_t)file_tunables.read_cache_max);
    int result = ledger_registry_open((uint64_t)file_tunables.uncommitted_max,
                                      (uint64_t)(file_tunables.failover_hold * 1e9));
    atomic_store(&failure, result);
    atomic_store_explicit(&failed_ns, result == 0 ? 0 : sys_now_ns(), memory_order_release);
    return result;
}

void file_mounts_retry(void)
{
    atomic_store(&failed_ns, 0);
    for (unsigned i = 0; i < file_mount_count(); i++) {
        if (pthread_mutex_trylock(&file_mount_at(i)->contact) != 0)
            continue; /* it is being tried */
        file_mount_at(i)->retry_ns = 0;
        pthread_mutex_unlock(&file_mount_at(i)->contact);
    }
}

int file_registry_move(void)
{
    return ledger_registry_move((uint64_t)file_tunables.uncommitted_max,
                                (uint64_t)(file_tunables.failover_hold * 1e9));
}

bool file_mount_may_say(const struct file_mount *mount, const char *what, int result)
{
    char subject[1024];
    bool of_mount = result == -EACCES || result == -EPERM || result == -ENOENT;
    snprintf(subject, sizeof(subject), "%s %d %.300s %.600s", what, result == 0,
             mount->server->conf->name, of_mount ? mount->path : "");
    return run_may_say(subject, SAY_EVERY_S);
}

/* I/O through the server alone does not see what the clients of layouts wrote. `told`: the server
 * says that it has some; else the kernel may have, though we speak another version. */
static bool has_layouts(const struct file_mount *mount, bool told)
{
    char type[REACH_LAYOUT_BYTES];
    if (told || mount->kernel.speaks != &nfs_version41 ||
        !reach_kernel_has_layouts(mount->device, type))
        return told;
    if (file_mount_may_say(mount, "layouts", -EPERM))
        log_warning("mount %s: the kernel gets its data by pNFS (%s)", mount->conf->mount, type);
    return true;
}

/* FSINFO, and the proof of the root, unless it is proven. Sets `why` when it fails. */
static int ask_root(struct file_mount *mount, const struct rpc_auth *auth, bool known,
                    struct file_root_fact *fact, struct file_root *root)
{
    struct nfs_client client = file_mount_client(mount, auth);
    struct reach_finding finding = {.what = REACH_SAME};
    struct nfs_fsinfo_res info;
    int result = 0;
    client.timeout_ms = FILE_CONTACT_TIMEOUT_MS;
    if (!known && (result = nfs_fsinfo(&client, &root->fh, &info)) == 0) {
        fact->root = root->fh;
        fact->rtmax = info.rtmax;
        fact->wtmax = info.wtmax;
        fact->maxfilesize = info.maxfilesize;
    }
    if (result == 0 && !known && has_layouts(mount, info.by_layouts)) {
        mount->why = REACH_LAYOUTS;
        return -EPERM;
    }
    if (result == 0 && !root->proven) {
        root->asked_ns = sys_now_ns();
        result = reach_prove_root(mount->path, reach_statx_now, NULL, &client, &root->fh, &finding);
        root->attr = finding.attr;
    }
    if (result == -EXDEV)
        log_error("mount %s: it is not the directory %s of server %s at path %s (%s); the kernel "
                  "serves its files. Mount the export there, or correct the nfstab",
                  mount->conf->mount, mount->conf->directory, mount->server->conf->name,
                  mount->server->net->paths[0].address.peer_text,
                  finding.what == REACH_OTHER_TIME ? "another change time" : "another file number");
    if (result == 0 || result == -EXDEV)
        return result;
    mount->why = reach_why_call(REACH_NFS, result, &file_tunables);
    if (file_mount_may_say(mount, "service", result))
        log_warning("server %s: %s: no answer from the NFS service: %s", mount->server->conf->name,
                    mount->conf->directory, strerrordesc_np(-result));
    return result;
}

static bool same_handle(const struct nfs_fh *a, const struct nfs_fh *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* What an older time with the fence left in the registry is not for this one: nobody may send it
 * any more. */
static void drop_former(const struct file_mount *mount)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    while (ledger_uncommitted_next(&cursor, 0, false, &file)) {
        bool ours = file.key.device != mount->device || file_is_of_other_version(mount, &file);
        for (unsigned i = 0; i < file_mount_count() && !ours; i++)
            ours = file_mount_at(i)->registry_key == file.key.server ||
                   (!file_mount_at(i)->server->conf->fence &&
                    file_mount_at(i)->other_key == file.key.server);
        uint64_t bytes = ours ? 0 : ledger_file_forget(&file, true);
        if (bytes > 0)
            log_error("mount %s: %llu bytes that were written to file number %llu before another "
                      "host had the fence are lost",
                      mount->conf->mount, (unsigned long long)bytes,
                      (unsigned long long)file.key.inode);
    }
}

/* Does the host have the fence of the mount? 0 or -errno. */
static int hold_fence(struct file_mount *mount)
{
    const struct file_server *server = mount->server;
    uint64_t term;
    if (!server->conf->fence)
        return 0;
    if (server->version->session_hold(server->session, &term) != 0) {
        mount->why = REACH_NOT_HELD;
        return -EPERM;
    }
    atomic_store(&mount->registry_key,
                 ((mount->plain_key ^ term) * UINT64_C(0x9e3779b97f4a7c15) + term) | LEDGER_APART);
    atomic_store(&mount->agent_place, 0);
    return 0;
}

bool file_mount_is_shut(struct file_mount *mount)
{
    const struct file_server *server = mount->server;
    uint64_t term;
    return server->conf->fence && (atomic_load(&mount->state) != FILE_MOUNT_READY ||
                                   server->version->session_hold(server->session, &term) != 0);
}

bool file_mount_is_abroad(const struct file_mount *mount)
{
    struct net_server *net = mount->server->net;
    return net && net_server_look_abroad(net);
}

/* Sets `why` when it fails. */
static int contact(struct file_mount *mount)
{
    int result = file_registry_open();
    mount->why = reach_why_run(result);
    /* The same address may be another server's here. */
    if (result == 0 && !sys_network_is_home()) {
        mount->why = REACH_ABROAD;
        result = -ENONET;
    }
    if (result == 0)
        result = hold_fence(mount);
    if (result != 0)
        return result;
    if (mount->server->conf->fence)
        drop_former(mount);
    enter_statistics(mount);
    struct file_root root;
    struct file_root_fact fact;
    bool known = file_fact_of_root(mount, &fact);
    result = file_paths_mount(mount, known ? &fact : NULL, &root);
    if (result != 0)
        return result;
    atomic_store(&mount->kernel_tells, root.told);
    const struct rpc_auth *auth = file_auth_now(mount);
    mount->why = REACH_NO_MEMORY;
    if (!auth)
        return -ENOMEM;
    known = known && same_handle(&fact.root, &root.fh);
    result = ask_root(mount, auth, known, &fact, &root);
    if (root.path && result == 0)
        file_address_is(mount->server->conf, root.path, &root.peer);
    else if (root.path && result == -EXDEV)
        file_fact_address_forget(mount->server->conf, root.path);
    if (result != 0)
        return result;
    file_mount_set_root(mount, &root.fh, &root.attr, root.asked_ns);
    mount->read_max = nfs_transfer_size(fact.rtmax, file_tunables.rsize);
    mount->write_max = nfs_transfer_size(fact.wtmax, file_tunables.wsize);
    /* A server that tells none, or one that no file can have, is taken as the kernel takes it. */
    mount->size_max =
        fact.maxfilesize && fact.maxfilesize <= INT64_MAX ? fact.maxfilesize : INT64_MAX;
    fact.mntport = mount->server->mntport;
    fact.nfsport = mount->server->nfsport;
    if (!known)
        file_fact_root_is(mount, &fact);
    enter_statistics(mount);
    file_commit_orphans(mount, auth);
    log_notice(
        "mount %s: server %s, export %s, path %s port %u%s, reads of %u and writes of %u bytes",
        mount->conf->mount, mount->server->conf->name, mount->conf->directory,
        mount->server->net->paths[0].address.peer_text, mount->server->nfsport,
        mount->server->net->path_count > 1 ? " and others" : "", mount->read_max, mount->write_max);
    return 0;
}

static void say_failure(const struct file_mount *mount, int result)
{
    const char *server = mount->server->conf->name, *where = mount->conf->mount;
    if (!file_mount_may_say(mount, "mount", result))
        return;
    if (mount->server->conf->fence)
        log_error("mount %s: server %s: %s; with fence %s no file of it can be opened now (EIO)",
                  where, server, reach_reason(mount->why), mount->server->conf->fence);
    else if (reach_is_run(mount->why) || mount->why == REACH_NO_MEMORY ||
             mount->why == REACH_ABROAD || mount->why == REACH_LAYOUTS)
        log_warning("mount %s: %s; the kernel serves files opened now; trying again in %d s", where,
                    reach_reason(mount->why), RETRY_S);
    else if (mount->why == REACH_NO_NAME || mount->why == REACH_NO_LOCAL)
        log_warning("mount %s: server %s: %s; the kernel serves files opened now; trying again in "
                    "%d s",
                    where, server, reach_reason(mount->why), RETRY_S);
    else if (mount->why == REACH_NO_ANSWER)
        log_warning("mount %s: server %s: %s; the kernel serves files opened now; asking the "
                    "server again in %d s",
                    where, server, strerrordesc_np(-result), RETRY_S);
    else
        log_warning("mount %s: server %s: %s: %s; the kernel serves files opened now; trying again "
                    "in %d s",
                    where, server, reach_reason(mount->why), strerrordesc_np(-result), RETRY_S);
}

int file_mount_contact(struct file_mount *mount, const char **reason)
{
    *reason = atomic_load_explicit(&file_left_to_kernel, memory_order_relaxed);
    if (*reason)
        return -EPERM;
    int state = atomic_load_explicit(&mount->state, memory_order_acquire);
    if (state == FILE_MOUNT_READY && file_mount_is_abroad(mount)) {
        *reason = reach_reason(REACH_ABROAD);
        return -ENONET;
    }
    if (state == FILE_MOUNT_READY)
        return 0;
    pthread_mutex_lock(&mount->contact);
    state = atomic_load(&mount->state);
    int result = 0;
    if (state == FILE_MOUNT_REFUSED) {
        result = -EXDEV;
    } else if (state == FILE_MOUNT_FAILED && sys_now_ns() < mount->retry_ns) {
        result = -EHOSTDOWN;
    } else if (state != FILE_MOUNT_READY) {
        result = contact(mount);
        int now = result == 0        ? FILE_MOUNT_READY
                  : result == -EXDEV ? FILE_MOUNT_REFUSED
                                     : FILE_MOUNT_FAILED;
        bool abroad = result == -ENONET && mount->why == REACH_ABROAD; /* this thread alone */
        if (now == FILE_MOUNT_FAILED) {
            bool shut = mount->server->conf->fence && !abroad && hold_fence(mount) != 0;
            if (!abroad)
                mount->retry_ns = shut ? 0 : sys_now_ns() + (uint64_t)RETRY_S * 1000000000;
            say_failure(mount, result);
        }
        if (!abroad)
            atomic_store_explicit(&mount->state, now, memory_order_release);
    }
    if (result != 0)
        *reason = reach_reason(result == -EXDEV ? REACH_NOT_THE_EXPORT : mount->why);
    pthread_mutex_unlock(&mount->contact);
    return result;
}

/* ---- the root ---- */

struct nfs_fh file_mount_root(struct file_mount *mount)
{
    pthread_mutex_lock(&mount->lock);
    struct nfs_fh root = mount->root;
    pthread_mutex_unlock(&mount->lock);
    return root;
}

void file_mount_set_root(struct file_mount *mount, const struct nfs_fh *root,
                         const struct nfs_attr *attr, uint64_t asked_ns)
{
    pthread_mutex_lock(&mount->look);
    mount->root_attr = *attr;
    mount->looked_ns = asked_ns;
    mount->look_result = 0;
    pthread_mutex_unlock(&mount->look);
    pthread_mutex_lock(&mount->lock);
    mount->root = *root;
    for (unsigned i = 0; i < FILE_DIRECTORIES && mount->has_directories; i++) {
        sys_free(mount->directories[i].path);
        mount->directories[i].path = NULL;
    }
    pthread_mutex_unlock(&mount->lock);
}

/* ---- paths to handles ---- */

static struct file_directory *directory_slot(struct file_mount *mount, const char *path,
                                             size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)path[i]) * UINT64_C(0x100000001b3);
    return &mount->directories[(hash >> 20) % FILE_DIRECTORIES];
}

static bool directory_known(struct file_mount *mount, const char *path, size_t length,
                            struct nfs_fh *fh)
{
    pthread_mutex_lock(&mount->lock);
    struct file_directory *slot = directory_slot(mount, path, length);
    bool known =
        slot->path && strlen(slot->path) == length && memcmp(slot->path, path, length) == 0;
    if (known)
        *fh = slot->fh;
    pthread_mutex_unlock(&mount->lock);
    return known;
}

static void directory_remember(struct file_mount *mount, const char *path, size_t length,
                               const struct nfs_fh *fh)
{
    char *copy = sys_alloc(length + 1);
    if (copy) {
        memcpy(copy, path, length);
        copy[length] = '\0';
    }
    pthread_mutex_lock(&mount->lock);
    struct file_directory *slot = directory_slot(mount, path, length);
    sys_free(slot->path);
    slot->path = copy;
    slot->fh = *fh;
    mount->has_directories = true;
    pthread_mutex_unlock(&mount->lock);
}

/* By this process or, lately, by another. */
static bool directory_found(struct file_mount *mount, const struct rpc_auth *auth, const char *path,
                            size_t length, struct nfs_fh *fh)
{
    if (directory_known(mount, path, length, fh))
        return true;
    if (!file_fact_of_directory(mount, auth, path, length, fh))
        return false;
    directory_remember(mount, path, length, fh);
    return true;
}

static void directory_learn(struct file_mount *mount, const struct rpc_auth *auth, const char *path,
                            size_t length, const struct nfs_fh *fh)
{
    directory_remember(mount, path, length, fh);
    file_fact_directory_is(mount, auth, path, length, fh);
}

int file_mount_lookup(struct file_mount *mount, const struct rpc_auth *auth, const char *path,
                      bool fresh, struct nfs_fh *fh, struct nfs_post_attr *attr)
{
    struct nfs_client client = file_mount_client(mount, auth);
    const char *relative = path + mount->path_length;
    while (*relative == '/')
        relative++;
    struct nfs_fh directory = file_mount_root(mount);
    const char *at = relative;

    /* The deepest directory on the way that is known. */
    for (const char *slash = strrchr(relative, '/'); slash && !fresh;
         slash = memrchr(relative, '/', (size_t)(slash - relative))) {
        if (directory_found(mount, auth, relative, (size_t)(slash - relative), &directory)) {
            at = slash + 1;
            break;
        }
    }
    for (;;) {
        size_t length = strcspn(at, "/");
        char name[NFS_NAME_MAX + 1];
        if (length == 0 || length > NFS_NAME_MAX)
            return length == 0 ? -ENOENT : -ENAMETOOLONG;
        memcpy(name, at, length);
        name[length] = '\0';
        int result = nfs_lookup(&client, &directory, name, fh, attr);
        if (result != 0)
            return result;
        at += length;
        if (*at == '\0')
            return 0;
        directory_learn(mount, auth, relative, (size_t)(at - relative), fh);
        directory = *fh;
        at++;
    }
}

/* ---- verifiers ---- */

/* Under the server's lock. */
static void note_instance(struct file_server *server, uint64_t verifier)
{
    if (server->verifier == verifier)
        return;
    server->before = server->verifier;
    server->before_until = server->up_until;
    server->up_since = server->up_until = 0;
    server->verifier = verifier;
}

void file_server_saw(struct file_server *server, uint64_t verifier, uint64_t sent_ns, int64_t told)
{
    if (sent_ns <= atomic_load_explicit(&server->seen_ns, memory_order_relaxed))
        return; /* as most, which were sent together with another */
    pthread_mutex_lock(&server->lock);
    if (sent_ns > server->seen_ns) {
        note_instance(server, verifier);
        server->seen_ns = sent_ns;
        if (told != 0 && server->up_since == 0)
            server->up_since = told;
        if (told > server->up_until)
            server->up_until = told;
    }
    pthread_mutex_unlock(&server->lock);
}

bool file_server_verifier(struct file_server *server, uint64_t connected_ns, uint64_t *verifier)
{
    pthread_mutex_lock(&server->lock);
    bool known = server->seen_ns >= connected_ns && server->seen_ns != 0;
    *verifier = server->verifier;
    pthread_mutex_unlock(&server->lock);
    return known;
}

bool file_server_was_up(struct file_server *server, uint64_t verifier, int64_t time,
                        struct ledger_file *file)
{
    pthread_mutex_lock(&server->lock);
    bool noted = server->verifier == verifier; /* else it told so in answer to an older call */
    int64_t since = noted ? server->up_since : 0;
    int64_t before_until = noted ? server->before_until : server->up_until;
    uint64_t before = noted ? server->before : server->verifier;
    pthread_mutex_unlock(&server->lock);
    return (since != 0 && time > since) ||
           (time <= before_until && !ledger_file_verifier_differs(file, before));
}
