#include "reach/kerberos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

static char caches[512]; /* KRB5CCNAME; "": not set, or not to be used */

void reach_kerberos_start(void)
{
    /* Not of a program that is another user than who started it. */
    const char *told = secure_getenv("KRB5CCNAME");
    if (told && strlen(told) < sizeof(caches))
        snprintf(caches, sizeof(caches), "%s", told);
}

const struct rpc_identity *reach_kerberos_identity(const struct conf_server *conf,
                                                   enum conf_security security, uint32_t uid)
{
    static const enum rpc_service services[] = {[CONF_SECURITY_KRB5] = RPC_SERVICE_NONE,
                                                [CONF_SECURITY_KRB5I] = RPC_SERVICE_INTEGRITY,
                                                [CONF_SECURITY_KRB5P] = RPC_SERVICE_PRIVACY};
    struct rpc_identity like = {.uid = uid,
                                .service = services[security],
                                .keytab = conf->krb5_keytab,
                                .principal = conf->krb5_principal,
                                /* The real user: a program may be others in turns. */
                                .usual = uid == (uint32_t)sys_call0(SYS_getuid)};
    snprintf(like.server, sizeof(like.server), "nfs@%s", conf->name);
    if (like.usual && caches[0])
        like.cache = caches;
    return rpc_identity_of(&like);
}
