#include "mount/protection.h"

#include <errno.h>

#include "mount/mounts.h"
#include "rpc/secure/gss.h"
#include "sys/critical.h"
#include "sys/log.h"

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

void mount_protection_load(struct mount *mount)
{
    struct rpc_gss_fault fault;
    if (mount->security < CONF_SECURITY_KRB5 || sys_critical_in_handler() || rpc_gss_load(&fault) ||
        !mount_may_say(mount, "kerberos", -EPROTONOSUPPORT))
        return;
    log_error("mount %s: %s: %s; %s", mount->conf->mount, rpc_gss_reason(fault.why), fault.text,
              rpc_gss_remedy(fault.why));
}

int mount_protection_begin(struct mount *mount)
{
    if (mount->security >= CONF_SECURITY_KRB5) {
        mount->why = (enum reach_why)(REACH_KERBEROS + RPC_GSS_NO_LIBRARY);
        if (!rpc_gss_loaded())
            return -EPROTONOSUPPORT;
    }
    if (mount->server->tls >= CONF_TLS_PREFER) {
        mount->why = REACH_NO_TLS;
        return -EPROTONOSUPPORT;
    }
    return 0;
}

void mount_protection_bar(void)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        if (mount_is_closed(mounts_at(i)))
            atomic_store(&mounts_at(i)->barred, true);
    }
}
