#include "mount/protection.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mount/mounts.h"
#include "net/tls/tls.h"
#include "reach/server.h"
#include "rpc/secure/gss.h"
#include "run/log_limit.h"
#include "sys/critical.h"
#include "sys/foreign.h"
#include "sys/log.h"

enum { SAY_EVERY_S = 60 };

/* Why the TLS library could not be loaded last. The lock is held for copies only, and a child of
 * fork() makes it new. */
static pthread_mutex_t no_tls_lock = PTHREAD_MUTEX_INITIALIZER;
static char no_tls[160];

void mount_protection_fork_child(void)
{
    pthread_mutex_init(&no_tls_lock, NULL);
}

void mount_protection_learn(struct mount *mount, bool unknown)
{
    mount->security = reach_security(mount->conf->security, &mount->kernel);
    bool asked =
        mount->conf->security >= CONF_SECURITY_KRB5 || mount->server->conf->tls == CONF_TLS_REQUIRE;
    mount->closed = mount->kernel_nfs && asked &&
                    !reach_kernel_covers(&mount->kernel, mount->security, mount->server->tls);
    if (unknown) {
        mount->security = CONF_SECURITY_AUTO;
        mount->closed = mount->kernel_nfs &&
                        !reach_kernel_covers(&mount->kernel, CONF_SECURITY_SYS, CONF_TLS_REQUIRE);
    }
    mount->lost = mount->closed && !mount->server->lost ? &mount->barred : mount->server->lost;
}

bool mount_protection_by_kerberos(const struct mount_server *server, bool all)
{
    bool every = true, any = false;
    for (size_t i = 0; i < server->conf->export_count; i++) {
        const struct conf_export *export = &server->conf->exports[i];
        unsigned with = 0, without = 0;
        for (unsigned j = 0; j < mounts_count(); j++) {
            const struct mount *mount = mounts_at(j);
            with += mount->conf == export && mount->security >= CONF_SECURITY_KRB5;
            without += mount->conf == export && mount->security < CONF_SECURITY_KRB5;
        }
        bool is = without == 0 && (with > 0 || export->security >= CONF_SECURITY_KRB5);
        every = every && is;
        any = any || is || with > 0;
    }
    return all ? every : any;
}

static void load_tls(void)
{
    const char *why;
    if (net_tls_load(&why) != 0) {
        pthread_mutex_lock(&no_tls_lock);
        snprintf(no_tls, sizeof(no_tls), "%s", why);
        pthread_mutex_unlock(&no_tls_lock);
    }
}

int mount_protection_load(struct mount *mount)
{
    struct rpc_gss_fault fault;
    bool tls = mount->server->tls >= CONF_TLS_PREFER && !net_tls_version();
    bool kerberos = mount->security >= CONF_SECURITY_KRB5 && !rpc_gss_is_loaded();
    if ((tls || kerberos) && sys_critical_in_handler())
        return -EAGAIN;
    if (tls)
        load_tls();
    if (kerberos && !rpc_gss_load(&fault) && mount_may_say(mount, "kerberos", -EPROTONOSUPPORT))
        log_error("mount %s: %s: %s; %s", mount->conf->mount, rpc_gss_reason(fault.why), fault.text,
                  rpc_gss_remedy(fault.why));
    return 0;
}

/* The library was tried before the lock was taken; its reason is said here. */
static int begin_tls(struct mount *mount)
{
    struct mount_server *server = mount->server;
    if (!net_tls_version()) {
        char why[sizeof(no_tls)];
        pthread_mutex_lock(&no_tls_lock);
        memcpy(why, no_tls, sizeof(why));
        pthread_mutex_unlock(&no_tls_lock);
        mount->why = REACH_NO_TLS;
        if (run_may_say("tls: no library", SAY_EVERY_S))
            log_error("server %s: TLS: OpenSSL cannot be used: %s. %s", server->conf->name, why,
                      net_tls_remedy(NET_TLS_NO_LIBRARY));
        return -ELIBACC;
    }
    pthread_mutex_lock(&server->lock);
    if (!server->net_tls)
        server->net_tls = reach_tls_new(server->conf, server->tls, server->version,
                                        &mount_tunables);
    bool made = server->net_tls != NULL;
    pthread_mutex_unlock(&server->lock);
    if (!made)
        mount->why = REACH_NO_MEMORY;
    return made ? 0 : -ENOMEM;
}

const char *mount_error_text(const struct mount_server *server, int error)
{
    enum net_tls_fault fault = server->net_tls ? net_tls_fault(server->net_tls) : NET_TLS_GOOD;
    if (!server->net_tls || !net_tls_is_error(error))
        return strerrordesc_np(-error);
    return net_tls_errno(fault) == error ? net_tls_text(fault) : net_tls_error_text(error);
}

const char *mount_refusal_text(const struct mount *mount, int error)
{
    return error == -EKEYREJECTED && mount->takes[0] ? mount->takes
                                                     : mount_error_text(mount->server, error);
}

const char *mount_error_remedy(const struct mount_server *server, int error, enum reach_why why)
{
    enum net_tls_fault fault = server->net_tls ? net_tls_fault(server->net_tls) : NET_TLS_GOOD;
    bool told = fault != NET_TLS_GOOD && net_tls_is_error(error) && net_tls_errno(fault) == error &&
                why != REACH_TLS_NO_MOUNT;
    return told ? net_tls_remedy(fault) : reach_remedy(why);
}

int mount_protection_begin(struct mount *mount)
{
    if (mount->security >= CONF_SECURITY_KRB5 && mount->server->conf->fence) {
        mount->why = REACH_FENCE_SECURITY;
        return -EPROTONOSUPPORT;
    }
    if (mount->security >= CONF_SECURITY_KRB5 && !rpc_gss_is_loaded()) {
        bool lost = !sys_foreign_usable(SYS_FOREIGN_KERBEROS);
        mount->why = (enum reach_why)(REACH_KERBEROS + (lost ? RPC_GSS_LOST : RPC_GSS_NO_LIBRARY));
        return -EPROTONOSUPPORT;
    }
    return mount->server->tls >= CONF_TLS_PREFER ? begin_tls(mount) : 0;
}

void mount_protection_bar(void)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (mount_is_closed(mounts_at(i)))
            atomic_store(&mounts_at(i)->barred, true);
    }
}
