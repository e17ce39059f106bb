/* The first contact of a mount: its fence, its root, and the sizes of its server. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "mount/contact.h"
#include "mount/credentials.h"
#include "mount/addresses.h"
#include "mount/facts.h"
#include "ledger/cache.h"
#include "ledger/registry.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "mount/paths.h"
#include "mount/protection.h"
#include "mount/registry.h"
#include "mount/root.h"
#include "net/pool.h"
#include "net/protect.h"
#include "reach/root.h"
#include "reach/server.h"
#include "run/log_limit.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum { RETRY_S = 30 };

/* ---- first contact ---- */

static void (*ready)(struct mount *mount, const struct rpc_auth *auth);

void mounts_when_ready(void (*function)(struct mount *mount, const struct rpc_auth *auth))
{
    ready = function;
}

static void enter_statistics(struct mount *mount)
{
    stats_open();
    struct stats_server entry = {
        .name = mount->server->conf->name,
        .directory = mount->conf->directory,
        .mount = mount->conf->mount,
        .security = mount_protection_text(mount),
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

/* I/O through the server alone does not see what the clients of layouts wrote. `told`: the server
 * says that it has layouts. Else the kernel may have some, though we speak another version. */
static bool has_layouts(const struct mount *mount, bool told)
{
    char type[REACH_LAYOUT_BYTES];
    if (told || mount->kernel.speaks != &nfs_version41 ||
        !reach_kernel_has_layouts(mount->device, type))
        return told;
    if (mount_may_say(mount, "layouts", -EPERM))
        log_warning("mount %s: the kernel gets its data by pNFS (%s)", mount->conf->mount, type);
    return true;
}

/* FSINFO, and the proof of the root, unless it is proven. Sets `why` on failure. */
static int ask_root(struct mount *mount, const struct rpc_auth *auth, bool known,
                    struct mount_root_fact *fact, struct mount_root_found *root)
{
    struct nfs_client client = mount_client(mount, auth);
    struct reach_finding finding = {.what = REACH_SAME};
    struct nfs_fsinfo_res info;
    int result = 0;
    client.timeout_ms = MOUNT_CONTACT_TIMEOUT_MS;
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
    mount->why = reach_why_as(REACH_NFS, result, &mount_tunables, auth);
    if (mount_may_say(mount, "service", result))
        log_warning("server %s: %s: no answer from the NFS service: %s", mount->server->conf->name,
                    mount->conf->directory, mount_refusal_text(mount, result));
    return result;
}

bool mount_is_other_version(const struct mount *mount, const struct ledger_file *file)
{
    uint64_t differs = file->key.server ^ mount->plain_key;
    /* Each version may name the export in its own way, so the device counts, too. */
    return file->key.server == mount->other_key ||
           (file->key.device == mount->device && !(file->key.server & LEDGER_APART) &&
            differs & LEDGER_SECOND && !(differs & LEDGER_ADDRESS));
}

/* Drops what an earlier term of the fence left in the registry: nobody may send it any more. */
static void drop_former(const struct mount *mount)
{
    uint32_t cursor = 0;
    struct ledger_file file;
    while (ledger_uncommitted_next(&cursor, 0, false, &file)) {
        bool ours = file.key.device != mount->device || mount_is_other_version(mount, &file);
        for (unsigned i = 0; i < mounts_count() && !ours; i++)
            ours =
                mounts_at(i)->registry_key == file.key.server ||
                (!mounts_at(i)->server->conf->fence && mounts_at(i)->other_key == file.key.server);
        uint64_t bytes = ours ? 0 : ledger_file_forget(&file, true);
        if (bytes > 0)
            log_error("mount %s: %llu bytes that were written to file number %llu before another "
                      "host had the fence are lost",
                      mount->conf->mount, (unsigned long long)bytes,
                      (unsigned long long)file.key.inode);
    }
}

/* Does the host hold the fence of the mount? 0, also if there is none, or -errno. */
static int hold_fence(struct mount *mount)
{
    const struct mount_server *server = mount->server;
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

bool mount_is_shut(struct mount *mount)
{
    const struct mount_server *server = mount->server;
    uint64_t term;
    return server->conf->fence && (atomic_load(&mount->state) != MOUNT_READY ||
                                   server->version->session_hold(server->session, &term) != 0);
}

bool mount_is_abroad(const struct mount *mount)
{
    struct net_server *net = mount->server->net;
    return net && net_server_look_abroad(net);
}

/* The first contact itself. Sets `why` on failure. */
static int contact(struct mount *mount)
{
    int result = mount_registry_open();
    mount->why = reach_why_run(result);
    /* In another network namespace the address may be another server's. */
    if (result == 0 && !sys_network_is_home()) {
        mount->why = REACH_ABROAD;
        result = -ENONET;
    }
    if (result == 0)
        result = mount_protection_begin(mount);
    if (result == 0)
        result = hold_fence(mount);
    if (result != 0)
        return result;
    if (mount->server->conf->fence)
        drop_former(mount);
    enter_statistics(mount);
    struct mount_root_found root;
    struct mount_root_fact fact;
    bool known = mount_fact_of_root(mount, &fact);
    result = mount_over_paths(mount, known ? &fact : NULL, &root);
    if (result != 0)
        return result;
    atomic_store(&mount->kernel_tells, root.told);
    const struct rpc_auth *auth = mount_auth_now(mount);
    mount->why = REACH_NO_MEMORY;
    if (!auth)
        return -ENOMEM;
    known = known && nfs_same_fh(&fact.root, &root.fh);
    result = ask_root(mount, auth, known, &fact, &root);
    if (root.path && result == 0)
        mount_address_is(mount->server->conf, root.path, &root.peer);
    else if (root.path && result == -EXDEV)
        mount_fact_address_forget(mount->server->conf, root.path);
    if (result != 0)
        return result;
    mount_set_root(mount, &root.fh, &root.attr, root.asked_ns);
    mount->read_max = nfs_transfer_size(fact.rtmax, mount_tunables.rsize);
    mount->write_max = nfs_transfer_size(fact.wtmax, mount_tunables.wsize);
    /* A server may tell no limit, or one that no file can reach: it is taken as the kernel takes
     * it. */
    mount->size_max =
        fact.maxfilesize && fact.maxfilesize <= INT64_MAX ? fact.maxfilesize : INT64_MAX;
    fact.mntport = mount->server->mntport;
    fact.nfsport = mount->server->nfsport;
    if (!known)
        mount_fact_root_is(mount, &fact);
    enter_statistics(mount);
    net_server_show_security(mount->server->net, mount_protection_bit(mount));
    if (ready)
        ready(mount, auth);
    log_notice(
        "mount %s: server %s, export %s, path %s port %u%s, reads of %u and writes of %u bytes",
        mount->conf->mount, mount->server->conf->name, mount->conf->directory,
        mount->server->net->paths[0].address.peer_text, mount->server->nfsport,
        mount->server->net->path_count > 1 ? " and others" : "", mount->read_max, mount->write_max);
    return 0;
}

static void say_failure(const struct mount *mount, int result)
{
    const char *server = mount->server->conf->name, *where = mount->conf->mount;
    if (!mount_may_say(mount, "mount", result))
        return;
    if (mount_is_closed(mount))
        log_error("mount %s: server %s: %s: %s; no file of it can be opened now (EIO), as the "
                  "kernel's mount protects less than the nfstab asks for (%s)",
                  where, server, reach_reason(mount->why), mount_refusal_text(mount, result),
                  mount_protection_text(mount));
    else if (mount->server->conf->fence)
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
                    where, server, mount_refusal_text(mount, result), RETRY_S);
    else
        log_warning("mount %s: server %s: %s: %s; the kernel serves files opened now; trying again "
                    "in %d s",
                    where, server, reach_reason(mount->why), mount_refusal_text(mount, result),
                    RETRY_S);
}

int mount_contact(struct mount *mount, const char **reason)
{
    *reason = atomic_load_explicit(&mount_left_to_kernel, memory_order_relaxed);
    if (*reason)
        return -EPERM;
    int state = atomic_load_explicit(&mount->state, memory_order_acquire);
    if (state == MOUNT_READY && mount_is_abroad(mount)) {
        *reason = reach_reason(REACH_ABROAD);
        return -ENONET;
    }
    if (state == MOUNT_READY)
        return 0;
    /* What is loaded before the lock is needed under it. */
    bool early = state == MOUNT_REFUSED ||
                 (state == MOUNT_FAILED &&
                  sys_now_ns() < __atomic_load_n(&mount->retry_ns, __ATOMIC_RELAXED));
    int result = early ? 0 : mount_protection_load(mount);
    pthread_mutex_lock(&mount->contact);
    state = atomic_load(&mount->state);
    if (state == MOUNT_READY) {
        result = 0;
    } else if (result != 0) {
        mount->why = REACH_IN_HANDLER; /* the next one who asks is not, mostly */
    } else if (state == MOUNT_REFUSED) {
        result = -EXDEV;
    } else if (early || (state == MOUNT_FAILED && sys_now_ns() < mount->retry_ns)) {
        result = -EHOSTDOWN;
    } else {
        result = contact(mount);
        int now = result == 0 ? MOUNT_READY : result == -EXDEV ? MOUNT_REFUSED : MOUNT_FAILED;
        bool abroad = result == -ENONET && mount->why == REACH_ABROAD; /* this thread alone */
        if (now == MOUNT_FAILED) {
            bool shut = mount->server->conf->fence && !abroad &&
                        mount_protection_begin(mount) == 0 && hold_fence(mount) != 0;
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
