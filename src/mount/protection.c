#include "mount/protection.h"

#include <errno.h>

#include "mount/mounts.h"
#include "rpc/secure/gss.h"
#include "sys/log.h"

enum conf_tls mount_protection_tls(enum conf_tls tls, const struct reach_kernel_mount *kernel)
{
    if (tls != CONF_TLS_AUTO)
        return tls;
    return kernel->protection.tls ? CONF_TLS_REQUIRE : CONF_TLS_NO;
}

/* Does the kernel's mount protect its calls at least so? Kerberos within TLS hides what it sends as
 * krb5p does. */
static bool covers(const struct conf_mount_protection *kernel, enum conf_security security,
                   enum conf_tls tls)
{
    bool hidden = kernel->tls || kernel->security == CONF_SECURITY_KRB5P;
    enum conf_security strongest = kernel->tls && kernel->security >= CONF_SECURITY_KRB5
                                       ? CONF_SECURITY_KRB5P
                                       : kernel->security;
    return strongest >= security && (tls != CONF_TLS_REQUIRE || hidden);
}

void mount_protection_learn(struct mount *mount)
{
    const struct conf_mount_protection *kernel = &mount->kernel.protection;
    enum conf_security asked = mount->conf->security;
    if (asked == CONF_SECURITY_AUTO)
        asked = mount->kernel_nfs && kernel->security != CONF_SECURITY_AUTO ? kernel->security
                                                                            : CONF_SECURITY_SYS;
    mount->security = asked;
    mount->closed = mount->kernel_nfs && !covers(kernel, asked, mount->server->tls);
    mount->lost = mount->closed && !mount->server->lost ? &mount->barred : mount->server->lost;
}

const char *mount_protection_text(const struct mount *mount)
{
    static const char *const plain[] = {"sys", "sys", "krb5", "krb5i", "krb5p"};
    static const char *const with_tls[] = {"sys+tls", "sys+tls", "krb5+tls", "krb5i+tls",
                                           "krb5p+tls"};
    return (mount->server->tls == CONF_TLS_REQUIRE ? with_tls : plain)[mount->security];
}

int mount_protection_begin(struct mount *mount)
{
    if (mount->security >= CONF_SECURITY_KRB5) {
        struct rpc_gss_fault fault;
        if (!rpc_gss_load(&fault)) {
            mount->why = REACH_NO_KERBEROS;
            if (mount_may_say(mount, "kerberos", -EPROTONOSUPPORT))
                log_error("mount %s: %s: %s; %s", mount->conf->mount, rpc_gss_reason(fault.why),
                          fault.text, rpc_gss_remedy(fault.why));
            return -EPROTONOSUPPORT;
        }
    }
    if (mount->server->tls >= CONF_TLS_PREFER) {
        mount->why = REACH_NO_TLS;
        return -EPROTONOSUPPORT;
    }
    return 0;
}
