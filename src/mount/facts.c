/* The keys of facts, and how long they are good. */
#include "mount/facts.h"
#include "rpc/secure/identity.h"

#include <string.h>

#include "mount/root.h"
#include "run/facts.h"
#include "sys/hash.h"
#include "sys/proc.h"

#define SECOND_NS     UINT64_C(1000000000)
#define ROOT_NS       (600 * SECOND_NS)
#define ACCESS_MAX_NS (3 * SECOND_NS)

enum kind { ROOT = 1, DIRECTORY, OF_FILE, ADDRESS };

/* The version of keys and values: another one when either changes, as processes of two versions of
 * the library may meet. */
enum { VERSION = 4 };

/* ---- keys ---- */

struct key {
    size_t size; /* more than there is room for: not a key */
    uint8_t bytes[RUN_FACT_KEY];
};

static void add(struct key *key, const void *data, size_t size)
{
    if (size <= sizeof(key->bytes) && key->size <= sizeof(key->bytes) - size)
        memcpy(key->bytes + key->size, data, size);
    key->size += size;
}

static void add_number(struct key *key, uint64_t number)
{
    add(key, &number, sizeof(number));
}

static void add_text(struct key *key, const char *text, size_t length)
{
    add_number(key, length);
    add_number(key, sys_hash(SYS_HASH_NONE, text, length));
}

static void add_optional(struct key *key, const char *text)
{
    add_number(key, text != NULL);
    if (text)
        add_text(key, text, strlen(text));
}

/* As whom the server is asked: all of the credential but its stamp, which is the time. */
static void add_credential(struct key *key, const struct rpc_auth *auth)
{
    enum { STAMP = 8, BEHIND = 12 };
    if (auth->identity) {
        add_number(key, auth->uid);
        add_number(key, auth->identity->service);
        add_text(key, auth->identity->server, strlen(auth->identity->server));
        add_optional(key, auth->identity->cache);
        add_optional(key, auth->identity->keytab);
        add_optional(key, auth->identity->principal);
        return;
    }
    add(key, auth->bytes, STAMP);
    if (auth->length > BEHIND)
        add(key, auth->bytes + BEHIND, auth->length - BEHIND);
}

static void key_begin(struct key *key, enum kind kind, const struct mount *mount)
{
    key->size = 0;
    add_number(key, VERSION);
    add_number(key, kind);
    add_number(key, mount->registry_key);
    add_number(key, mount->device);
    add_number(key, mount->inode);
}

static void add_root(struct key *key, struct mount *mount)
{
    struct nfs_fh root = mount_root(mount);
    add_number(key, root.len);
    add(key, root.data, root.len);
}

static bool get(const struct key *key, void *value, size_t size, uint64_t *told_ns)
{
    return key->size <= sizeof(key->bytes) &&
           run_fact_get(key->bytes, key->size, value, size, told_ns);
}

static void put(const struct key *key, const void *value, size_t size)
{
    if (key->size <= sizeof(key->bytes))
        run_fact_put(key->bytes, key->size, value, size);
}

/* A copy with all bytes set, as all bytes are kept. */
static struct nfs_fh whole(const struct nfs_fh *fh)
{
    struct nfs_fh all;
    memset(&all, 0, sizeof(all));
    all.len = fh->len;
    memcpy(all.data, fh->data, fh->len);
    return all;
}

static bool is_handle(const struct nfs_fh *fh)
{
    return fh->len > 0 && fh->len <= NFS_FH_MAX;
}

/* ---- the root ---- */

static void root_key(struct key *key, const struct mount *mount)
{
    const struct conf_server *conf = mount->server->conf;
    key_begin(key, ROOT, mount);
    add_text(key, mount->path, mount->path_length);
    add_text(key, mount->conf->directory, strlen(mount->conf->directory));
    add_number(key, conf->nfsport);
    add_number(key, conf->mntport);
    uint64_t paths = conf->path_count;
    for (size_t i = 0; i < conf->path_count; i++) {
        paths = sys_hash(paths, conf->paths[i].peer, strlen(conf->paths[i].peer) + 1);
        paths = sys_hash(paths, conf->paths[i].local, strlen(conf->paths[i].local) + 1);
    }
    add_number(key, paths);
}

bool mount_fact_of_root(const struct mount *mount, struct mount_root_fact *fact)
{
    struct key key;
    uint64_t told_ns;
    root_key(&key, mount);
    return get(&key, fact, sizeof(*fact), &told_ns) && is_handle(&fact->root) &&
           sys_now_ns() - told_ns < ROOT_NS;
}

void mount_fact_root_is(const struct mount *mount, const struct mount_root_fact *fact)
{
    struct key key;
    struct mount_root_fact kept;
    memset(&kept, 0, sizeof(kept));
    kept.root = whole(&fact->root);
    kept.mntport = fact->mntport;
    kept.nfsport = fact->nfsport;
    kept.rtmax = fact->rtmax;
    kept.wtmax = fact->wtmax;
    kept.maxfilesize = fact->maxfilesize;
    root_key(&key, mount);
    put(&key, &kept, sizeof(kept));
}

void mount_fact_root_forget(const struct mount *mount)
{
    struct key key;
    root_key(&key, mount);
    if (key.size <= sizeof(key.bytes))
        run_fact_forget(key.bytes, key.size);
}

/* ---- addresses ---- */

/* In another network namespace, with a resolver of its own, a name may lead to another address. */
static void address_key(struct key *key, const struct conf_server *conf,
                        const struct conf_path *path)
{
    key->size = 0;
    add_number(key, VERSION);
    add_number(key, ADDRESS);
    add_number(key, sys_network_home());
    add_text(key, conf->name, strlen(conf->name));
    add_text(key, path->peer, strlen(path->peer));
    add_text(key, path->local, strlen(path->local));
}

bool mount_fact_of_address(const struct conf_server *conf, const struct conf_path *path,
                           struct sockaddr_storage *peer)
{
    struct key key;
    uint64_t told_ns;
    address_key(&key, conf, path);
    return get(&key, peer, sizeof(*peer), &told_ns) &&
           (peer->ss_family == AF_INET || peer->ss_family == AF_INET6);
}

bool mount_fact_is_recent(const struct conf_server *conf, const struct conf_path *path,
                          const struct sockaddr_storage *peer, uint64_t age_ns)
{
    struct key key;
    struct sockaddr_storage known;
    uint64_t told_ns;
    address_key(&key, conf, path);
    return get(&key, &known, sizeof(known), &told_ns) && conf_address_equal(peer, &known) &&
           sys_now_ns() - told_ns < age_ns;
}

void mount_fact_address_is(const struct conf_server *conf, const struct conf_path *path,
                           const struct sockaddr_storage *peer)
{
    struct key key;
    struct sockaddr_storage kept = *peer;
    net_address_set_port(&kept, 0);
    address_key(&key, conf, path);
    put(&key, &kept, sizeof(kept));
}

void mount_fact_address_forget(const struct conf_server *conf, const struct conf_path *path)
{
    struct key key;
    address_key(&key, conf, path);
    if (key.size <= sizeof(key.bytes))
        run_fact_forget(key.bytes, key.size);
}

/* ---- directories ---- */

static void directory_key(struct key *key, struct mount *mount, const struct rpc_auth *auth,
                          const char *path, size_t length)
{
    key_begin(key, DIRECTORY, mount);
    add_root(key, mount);
    add_credential(key, auth);
    add_text(key, path, length);
}

bool mount_fact_of_directory(struct mount *mount, const struct rpc_auth *auth, const char *path,
                             size_t length, struct nfs_fh *fh)
{
    struct key key;
    uint64_t told_ns;
    directory_key(&key, mount, auth, path, length);
    return get(&key, fh, sizeof(*fh), &told_ns) && is_handle(fh);
}

void mount_fact_directory_is(struct mount *mount, const struct rpc_auth *auth, const char *path,
                             size_t length, const struct nfs_fh *fh)
{
    struct key key;
    struct nfs_fh kept = whole(fh);
    directory_key(&key, mount, auth, path, length);
    put(&key, &kept, sizeof(kept));
}

/* ---- files ---- */

/* Adds what tells apart inodes that have the same number one after the other. False: the kernel
 * does not say. */
static bool add_inode(struct key *key, int fd, const struct statx *seen)
{
    union {
        struct file_handle handle;
        uint8_t room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } told = {.handle.handle_bytes = MAX_HANDLE_SZ};
    int mount_id;
    if (!(seen->stx_mask & STATX_BTIME) ||
        sys_call5(SYS_name_to_handle_at, fd, "", &told.handle, &mount_id, AT_EMPTY_PATH) != 0)
        return false;
    add_number(key, (uint64_t)seen->stx_btime.tv_sec);
    add_number(key, seen->stx_btime.tv_nsec);
    add_number(key, (uint64_t)told.handle.handle_type);
    add_number(key, told.handle.handle_bytes);
    add(key, told.handle.f_handle, told.handle.handle_bytes);
    return true;
}

static bool file_key(struct key *key, const struct mount_claim *claim, const struct statx *seen)
{
    key_begin(key, OF_FILE, claim->mount);
    add_root(key, claim->mount);
    add_credential(key, claim->auth);
    add_text(key, claim->path, strlen(claim->path));
    add_number(key, (uint64_t)seen->stx_dev_major << 32 | seen->stx_dev_minor);
    add_number(key, seen->stx_ino);
    return add_inode(key, claim->fd, seen);
}

bool mount_fact_of_file(const struct mount_claim *claim, const struct statx *seen,
                        struct mount_fact *fact)
{
    struct key key;
    uint64_t told_ns;
    bool same_inode = file_key(&key, claim, seen);
    if (!get(&key, fact, sizeof(*fact), &told_ns) || !is_handle(&fact->fh))
        return false;
    fact->same_inode = same_inode;
    return true;
}

void mount_fact_file_is(const struct mount_claim *claim, const struct statx *seen,
                        const struct mount_fact *fact)
{
    struct key key;
    struct mount_fact kept;
    memset(&kept, 0, sizeof(kept));
    kept.fh = whole(&fact->fh);
    kept.access = fact->access;
    kept.access_ns = fact->access_ns;
    kept.mode = fact->mode;
    kept.uid = fact->uid;
    kept.gid = fact->gid;
    file_key(&key, claim, seen);
    put(&key, &kept, sizeof(kept));
}

uint32_t mount_fact_access(const struct mount_fact *fact, const struct statx *seen)
{
    uint64_t good_ns = (uint64_t)(mount_tunables.actimeo * 1e9), now_ns = sys_about_ns();
    if (fact->access_ns > now_ns)
        now_ns = sys_now_ns();
    if (good_ns > ACCESS_MAX_NS)
        good_ns = ACCESS_MAX_NS;
    bool holds = fact->access_ns != 0 && fact->access_ns <= now_ns &&
                 now_ns - fact->access_ns < good_ns && fact->mode == seen->stx_mode &&
                 fact->uid == seen->stx_uid && fact->gid == seen->stx_gid;
    return holds ? fact->access : 0;
}
