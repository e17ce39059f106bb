#include "rpc/secure/cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <krb5.h>
#include <stdio.h>
#include <string.h>

#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/sys.h"

/* All of them or none. They are set before the library counts as loaded. */
static struct {
    __typeof__(krb5_init_context) *init_context;
    __typeof__(krb5_cc_default_name) *default_name;
    __typeof__(krb5_free_context) *free_context;
} krb5;

void rpc_cache_resolve(void *library)
{
    *(void **)&krb5.init_context = dlsym(library, "krb5_init_context");
    *(void **)&krb5.default_name = dlsym(library, "krb5_cc_default_name");
    *(void **)&krb5.free_context = dlsym(library, "krb5_free_context");
    if (!krb5.init_context || !krb5.default_name || !krb5.free_context)
        memset(&krb5, 0, sizeof(krb5));
}

/* ---- names ---- */

/* A file belongs to who has its name. Behind a name of another kind, the kernel or a daemon gives
 * each process what its effective user has. */
static bool is_in_files(const char *name)
{
    return name &&
           (name[0] == '/' || strncmp(name, "FILE:", 5) == 0 || strncmp(name, "DIR:", 4) == 0);
}

/* Is the process this user? `name`: of its cache; NULL: not known yet. */
static bool is_user(const struct rpc_identity *identity, const char *name)
{
    return (uint32_t)sys_call0(SYS_getuid) == identity->uid &&
           (is_in_files(name) || (uint32_t)sys_call0(SYS_geteuid) == identity->uid);
}

/* The name of the cache that the library takes, asked for once for each identity: afterwards the
 * process may be another user. NULL: it cannot be had. */
static const char *usual_name(const struct rpc_identity *identity)
{
    _Atomic(const char *) *known = (_Atomic(const char *) *)&identity->usual_name;
    const char *name = atomic_load(known), *told = NULL;
    krb5_context context;
    if (name || !krb5.init_context || krb5.init_context(&context) != 0)
        return name;
    told = krb5.default_name(context);
    char *made = told ? sys_alloc(strlen(told) + 1) : NULL;
    if (made)
        memcpy(made, told, strlen(told) + 1);
    krb5.free_context(context);
    if (made && is_user(identity, NULL) && atomic_compare_exchange_strong(known, &name, made))
        return made;
    sys_free(made);
    return atomic_load(known);
}

/* The cache of another user, in the file that is usual: it must be that user's own file. Its name
 * is that of the descriptor, as the file could change between the look and its use. */
static bool open_cache(uint32_t uid, struct rpc_cache *cache)
{
    struct stat status;
    snprintf(cache->text, sizeof(cache->text), "/tmp/krb5cc_%u", uid);
    int fd = sys_open(cache->text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return false;
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != uid) {
        sys_close(fd);
        return false;
    }
    cache->fd = sys_fd_protect(fd);
    snprintf(cache->text, sizeof(cache->text), "FILE:/proc/self/fd/%d", cache->fd);
    cache->name = cache->text;
    return true;
}

bool rpc_cache_find(const struct rpc_identity *identity, struct rpc_cache *cache)
{
    *cache = (struct rpc_cache){.name = identity->cache, .fd = -1};
    if (!identity->usual)
        return cache->name || open_cache(identity->uid, cache);
    cache->is_own = true;
    if (!cache->name && is_user(identity, NULL))
        cache->name = usual_name(identity);
    if (!cache->name)
        cache->name = atomic_load(&identity->usual_name);
    if (is_user(identity, cache->name))
        return true;
    cache->is_own = false;
    return open_cache(identity->uid, cache);
}

bool rpc_cache_is_still(const struct rpc_identity *identity, const struct rpc_cache *cache)
{
    return !cache->is_own || is_user(identity, cache->name);
}

/* ---- as whom ---- */

static void set_user(uint32_t uid, uint32_t gid)
{
    sys_call1(SYS_setfsgid, gid); /* first: as a user it may not be allowed */
    sys_call1(SYS_setfsuid, uid);
}

void rpc_cache_enter(const struct rpc_identity *identity, struct rpc_cache_user *before)
{
    uint32_t ids[3] = {0}, egid = (uint32_t)sys_call0(SYS_getegid);
    uint32_t wanted = identity->keytab ? 0 : identity->uid;
    bool may = false, root = false;
    sys_call3(SYS_getresuid, &ids[0], &ids[1], &ids[2]);
    for (unsigned i = 0; i < 3; i++) {
        may = may || ids[i] == wanted;
        root = root || ids[i] == 0;
    }
    before->uid = (uint32_t)sys_call1(SYS_setfsuid, -1);
    before->gid = (uint32_t)sys_call1(SYS_setfsgid, -1);
    uint32_t uid = may ? wanted : root ? 0 : ids[1];
    if (uid != before->uid || egid != before->gid)
        set_user(uid, egid);
}

void rpc_cache_leave(const struct rpc_cache_user *before)
{
    uint32_t uid = (uint32_t)sys_call1(SYS_setfsuid, -1);
    uint32_t gid = (uint32_t)sys_call1(SYS_setfsgid, -1);
    if (uid != before->uid || gid != before->gid)
        set_user(before->uid, before->gid);
}
