/* Which mounts there are, and where: those of the nfstab, as the kernel's mounts are found. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "mount/addresses.h"
#include "ledger/store/key.h"
#include "mount/credentials.h"
#include "mount/lease.h"
#include "mount/mounts.h"
#include "mount/places.h"
#include "mount/protection.h"
#include "mount/watch.h"
#include "reach/kernel.h"
#include "net/health.h"
#include "net/pool.h"
#include "net/tls/tls.h"
#include "run/start.h"
#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/hash.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum { NFS_MAGIC = 0x6969, SAID_MOUNTS = 4 };

/* Constant after mounts_load(). */
static struct conf_nfstab nfstab;
static struct mount_server *servers; /* VARIANTS for each stanza */
static const struct nfs_version *const versions[] = {&nfs_version3, &nfs_version41};
enum { VERSIONS = sizeof(versions) / sizeof(versions[0]), VARIANTS = 2 * VERSIONS };

/* The configuration has mistakes, and asks for Kerberos or TLS: only closed mounts are added, whose
 * files are refused. */
static bool mistaken;
static bool unknown; /* and what is asked for is not known */

static size_t server_count(void)
{
    return servers ? nfstab.server_count * VARIANTS : 0;
}

/* ---- configuration ---- */

/* The log gets the first mistakes only, since every process of a database says them. */
enum { LOGGED_ERRORS = 3 };

static void log_diagnostics(const struct conf_diagnostics *d)
{
    char line[900];
    size_t errors = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->list[i].severity == CONF_ERROR && errors++ >= LOGGED_ERRORS)
            continue;
        if (d->list[i].severity == CONF_ERROR)
            log_error("%s", conf_diagnostic_format(&d->list[i], line, sizeof(line)));
        else
            log_info("%s", conf_diagnostic_format(&d->list[i], line, sizeof(line)));
    }
}

/* With the zero at its end. */
static uint64_t hash_text(uint64_t before, const char *text)
{
    return sys_hash(before, text, strlen(text) + 1);
}

static int find_place(struct mount *mount, const struct conf_mountinfo *info)
{
    int fd = sys_open(mount->conf->mount, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    struct stat status;
    struct statfs fs;
    int result = mount_learn_path(mount, fd), nfs = -ENOENT;
    if (result == 0)
        result = sys_fstat(fd, &status);
    if (result == 0 && (nfs = reach_kernel_mount_in(info, status.st_dev, &mount->kernel)) < 0)
        /* Opening its directory may have mounted it, as autofs(5) does. */
        nfs = reach_kernel_mount_of(status.st_dev, &mount->kernel);
    if (result == 0 && nfs < 0) {
        result = (int)sys_call2(SYS_fstatfs, fd, &fs);
        nfs = result == 0 && fs.f_type == NFS_MAGIC;
    }
    sys_close(fd);
    if (result != 0)
        return result;
    mount->device = status.st_dev;
    mount->inode = status.st_ino;
    mount->kernel_nfs = nfs;
    return 0;
}

/* Gives the fence to the session. Its token is in the first export of the stanza. */
static void name_fence(struct mount_server *server)
{
    const struct conf_server *conf = server->conf;
    const struct nfs_fence fence = {
        .server = conf->name, .name = conf->fence, .directory = conf->exports[0].directory};
    server->lost = server->version->session_fence(server->session, &fence);
}

/* The server that is asked for the files of the mount: one of those of its stanza. NULL: no memory.
 */
static struct mount_server *server_of(const struct mount *mount, size_t stanza)
{
    const struct conf_server *conf = &nfstab.servers[stanza];
    const struct nfs_version *version = reach_version(conf->version, &mount->kernel);
    enum conf_tls tls = reach_tls(conf->tls, &mount->kernel);
    struct mount_server *server = &servers[stanza * VARIANTS];
    while (server->version != version || server->tls != tls)
        server++;
    pthread_mutex_lock(&server->lock);
    if (!server->session && version->session_new)
        server->session = version->session_new(mount_lease_begin, server);
    if (server->session && server->conf->fence && !server->lost)
        name_fence(server);
    bool complete = server->session || !version->session_new;
    pthread_mutex_unlock(&server->lock);
    return complete ? server : NULL;
}

/* Makes the keys that name server, export and version in the registry: a file has another handle in
 * each version. */
static void name_keys(struct mount *mount, const struct conf_server *conf)
{
    uint64_t by_version[VERSIONS];
    bool second = mount->server->version == versions[1];
    by_version[0] =
        hash_text(hash_text(SYS_HASH_NONE, conf->paths[0].peer), mount->conf->directory);
    by_version[1] = hash_text(by_version[0], versions[1]->name);
    uint64_t address = hash_text(SYS_HASH_NONE, mount->kernel.address) << 48;
    for (int i = 0; i < VERSIONS; i++)
        by_version[i] = (by_version[i] & ~(LEDGER_APART | LEDGER_SECOND | LEDGER_ADDRESS)) |
                        (i ? LEDGER_SECOND : 0) | (address & LEDGER_ADDRESS);
    mount->plain_key = by_version[second];
    atomic_store(&mount->registry_key, mount->plain_key);
    mount->other_key = by_version[!second];
}

/* `info`: the kernel's table of mounts. *result: 0, or -errno: there is no such directory, or no
 * memory. */
static struct mount *mount_new(size_t stanza, const struct conf_export *conf,
                               const struct conf_mountinfo *info, int *result)
{
    struct mount *mount = sys_alloc_zeroed(sizeof(*mount));
    *result = -ENOMEM;
    if (!mount)
        return NULL;
    mount->conf = conf;
    *result = find_place(mount, info);
    if (*result == 0 && !(mount->server = server_of(mount, stanza)))
        *result = -ENOMEM;
    if (*result != 0) {
        sys_free(mount);
        return NULL;
    }
    pthread_mutex_init(&mount->contact, NULL);
    pthread_mutex_init(&mount->look, NULL);
    pthread_mutex_init(&mount->lock, NULL);
    mount_protection_learn(mount, unknown);
    name_keys(mount, &nfstab.servers[stanza]);
    return mount;
}

static void mount_add(size_t stanza, const struct conf_export *conf,
                      const struct conf_mountinfo *info)
{
    int result;
    bool refused = mistaken || conf->kernel == CONF_KERNEL_NO;
    if (conf->kernel == CONF_KERNEL_NO)
        log_notice("mount %s: `kernel: no` (a mount that is served without the kernel) is not "
                   "supported; its files stay with the kernel",
                   conf->mount);
    if (conf->kernel == CONF_KERNEL_NO && !nfstab.demands)
        return;
    struct mount *mount = mount_new(stanza, conf, info, &result);
    if (mount)
        atomic_store(&mount->barred, refused);
    if (mount && refused && !mount->closed)
        sys_free(mount);
    else if (mount)
        mounts_add(mount);
    else if (!refused)
        log_notice("mount %s: %s; nothing is served there until it is mounted", conf->mount,
                   strerrordesc_np(-result));
}

/* The newest mount of an export; NULL: there is none. */
static struct mount *last_of(const struct conf_export *conf)
{
    for (unsigned i = mounts_count(); i > 0; i--) {
        if (mounts_at(i - 1)->conf == conf)
            return mounts_at(i - 1);
    }
    return NULL;
}

static bool export_arrived(size_t stanza, const struct conf_export *conf, dev_t device,
                           const struct conf_mountinfo *info)
{
    int result;
    struct mount *last = last_of(conf);
    if (conf->kernel == CONF_KERNEL_NO || (last && last->device == device) ||
        !mount_watch_is_at(info, device, last ? last->path : conf->mount))
        return false;
    struct mount *mount = mount_new(stanza, conf, info, &result);
    if (mount && (mount->device != device || (mistaken && !mount->closed))) {
        sys_free(mount);
        return false;
    }
    if (!mount || !mounts_add(mount))
        return false;
    if (last)
        atomic_store(&last->replaced, true);
    log_notice("mount %s: mounted while this process runs; files that are opened there from now on "
               "are served",
               conf->mount);
    return true;
}

bool mounts_arrived(dev_t device, const struct conf_mountinfo *info)
{
    bool arrived = false;
    for (size_t i = 0; servers && i < nfstab.server_count; i++) {
        for (size_t j = 0; j < nfstab.servers[i].export_count; j++)
            arrived = export_arrived(i, &nfstab.servers[i].exports[j], device, info) || arrived;
    }
    return arrived;
}

bool mounts_configured(void)
{
    for (size_t i = 0; servers && i < nfstab.server_count; i++) {
        for (size_t j = 0; j < nfstab.servers[i].export_count; j++) {
            if (nfstab.servers[i].exports[j].kernel != CONF_KERNEL_NO)
                return true;
        }
    }
    return false;
}

/* Which mounts an nfstab with mistakes means is not known: all NFS mounts of the kernel stand for
 * them. */
static void load_mounts_of_kernel(const struct conf_mountinfo *info)
{
    struct conf_diagnostics d = {0};
    struct conf_sources sources = {.mountinfo = "/proc/self/mountinfo", .mounts = info};
    conf_nfstab_free(&nfstab);
    conf_nfstab_load(&nfstab, &sources, &d);
    conf_diagnostics_free(&d);
    nfstab.demands = unknown = true;
}

/* Reads what is configured. 0, or -errno: it is not usable. */
static int load_configuration(const struct conf_mountinfo *info)
{
    struct conf_diagnostics d = {0};
    struct conf_sources sources;
    char tunables_file[PATH_MAX];
    int required = conf_tunables_file(tunables_file);
    int broken = conf_tunables_load(&mount_tunables, tunables_file, required, &d);
    conf_sources_default(&sources);
    sources.mounts = info;
    int result = conf_nfstab_load(&nfstab, &sources, &d);
    if (d.errors > 0) {
        log_diagnostics(&d);
        log_error("%s; the kernel serves all files%s (`directnfs check` shows all mistakes)",
                  result != 0 ? "the nfstab is not usable" : "directnfs.conf is not usable",
                  nfstab.demands
                      ? ", but those of NFS mounts that it does not protect, as Kerberos or TLS "
                        "is asked for: they cannot be opened (EIO)"
                      : "");
    } else if (d.notices > 0) {
        log_diagnostics(&d);
    }
    conf_diagnostics_free(&d);
    if (result != 0 && nfstab.demands)
        load_mounts_of_kernel(info);
    return result != 0 ? result : broken;
}

static void add_all(const struct conf_mountinfo *info)
{
    servers = sys_alloc_zeroed(nfstab.server_count * VARIANTS * sizeof(*servers));
    for (size_t i = 0; i < server_count(); i++) {
        const struct conf_server *conf = &nfstab.servers[i / VARIANTS];
        enum conf_tls unsaid = i / VERSIONS % 2 == 0 ? CONF_TLS_NO : CONF_TLS_REQUIRE;
        servers[i].conf = conf;
        servers[i].version = versions[i % VERSIONS];
        servers[i].tls = conf->tls != CONF_TLS_AUTO ? conf->tls : unsaid;
        pthread_mutex_init(&servers[i].lock, NULL);
    }
    for (size_t i = 0; servers && i < nfstab.server_count; i++) {
        for (size_t j = 0; j < nfstab.servers[i].export_count; j++)
            mount_add(i, &nfstab.servers[i].exports[j], info);
    }
}

/* The kernel writes its table anew for each reader, which takes long: so it is read once. */
void mounts_load(void)
{
    struct conf_mountinfo info;
    enum log_level level;
    uint64_t asked_ns = sys_now_ns();
    bool known = conf_mountinfo_load(&info, "/proc/self/mountinfo") == 0;
    mistaken = load_configuration(known ? &info : NULL) != 0;
    if (mistaken)
        atomic_store(&mount_left_to_kernel, "the configuration has mistakes");
    if (!mistaken || nfstab.demands) {
        const char *wanted = secure_getenv("DIRECTNFS_LOG_LEVEL");
        if (!wanted || log_level_parse(wanted, &level) != 0)
            log_set_level(mount_tunables.log_level);
        mount_auth_start();
        add_all(&info);
        mount_watch_begin(&info, asked_ns);
    }
    conf_mountinfo_free(&info);
}

/* Adds to a text that may become too long for a line. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void mounts_say(const char *version)
{
    char text[800] = "";
    unsigned count = mounts_count();
    if (count == 0 || mistaken || !log_wanted(LOG_LEVEL_NOTICE) || !run_may_say_start())
        return;
    for (size_t i = 0; i < nfstab.file_count; i++)
        append(text, sizeof(text), "%s%s", i ? ", " : "", nfstab.files[i]);
    for (unsigned i = 0; i < count && i < SAID_MOUNTS; i++) {
        const struct mount *mount = mounts_at(i);
        append(text, sizeof(text), "%s %s is %s of server %s", i ? "," : ":", mount->conf->mount,
               mount->conf->directory, mount->server->conf->name);
    }
    if (count > SAID_MOUNTS)
        append(text, sizeof(text), ", and %u more", count - SAID_MOUNTS);
    /* Everybody's first test is dd, which moves its files to descriptors 0 and 1. */
    bool standard = strcmp(program_invocation_short_name, "dd") == 0;
    log_notice("version %s is loaded into %s, %swith %s", version, program_invocation_short_name,
               standard ? "which does not test it, as the kernel serves files on standard "
                          "descriptors (take cp or fio), "
                        : "",
               text);
}

/* ---- fork ---- */

void mounts_fork_prepare(void)
{
    mount_addresses_fork_prepare();
    net_fork_prepare();
    mounts_lock();
    for (size_t i = 0; i < server_count(); i++)
        pthread_mutex_lock(&servers[i].lock);
}

void mounts_fork_parent(void)
{
    for (size_t i = 0; i < server_count(); i++)
        pthread_mutex_unlock(&servers[i].lock);
    mounts_unlock();
    net_fork_parent();
    mount_addresses_fork_parent();
}

void mounts_fork_child(void)
{
    mounts_fork_parent();
    net_fork_child();
    mount_watch_fork_child();
    mount_addresses_fork_child();
    mount_protection_fork_child();
    for (unsigned i = 0; i < mounts_count(); i++) { /* their holders do not exist here */
        pthread_mutex_init(&mounts_at(i)->contact, NULL);
        pthread_mutex_init(&mounts_at(i)->look, NULL);
    }
    for (size_t i = 0; i < server_count(); i++) {
        atomic_store(&servers[i].renewing, false);
        if (servers[i].session)
            servers[i].version->session_after_fork(servers[i].session);
        if (servers[i].net_tls) /* its first contact may be under way in the parent */
            net_tls_after_fork(servers[i].net_tls);
        if (!servers[i].net)
            continue;
        rpc_after_fork(servers[i].net);
        net_server_after_fork(servers[i].net);
    }
    sys_fd_fork_child(); /* descriptors of probes */
}
