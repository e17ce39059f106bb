#include "mount/protection.h"

#include <errno.h>

void mount_protection_learn(struct mount *mount)
{
    mount->security = reach_security(mount->conf->security, &mount->kernel);
    mount->closed = mount->kernel_nfs &&
                    !reach_kernel_covers(&mount->kernel, mount->security, mount->server->tls);
    mount->lost = mount->closed && !mount->server->lost ? &mount->barred : mount->server->lost;
}

int mount_protection_begin(struct mount *mount)
{
    if (mount->security >= CONF_SECURITY_KRB5) {
        mount->why = REACH_NO_KERBEROS;
        return -EPROTONOSUPPORT;
    }
    if (mount->server->tls >= CONF_TLS_PREFER) {
        mount->why = REACH_NO_TLS;
        return -EPROTONOSUPPORT;
    }
    return 0;
}
