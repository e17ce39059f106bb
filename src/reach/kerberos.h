/* As whom a server is called under Kerberos. */
#ifndef REACH_KERBEROS_H
#define REACH_KERBEROS_H

#include "config/nfstab.h"
#include "rpc/secure/identity.h"

/* Notes the variables of Kerberos that the process began with. To be called once, before others;
 * later the environment is the program's. */
void reach_kerberos_start(void);

/* The identity of the user for calls to the server with this security, which is krb5 or more. NULL:
 * no memory. */
const struct rpc_identity *reach_kerberos_identity(const struct conf_server *conf,
                                                   enum conf_security security, uint32_t uid);

#endif
