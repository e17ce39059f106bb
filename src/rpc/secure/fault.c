/* What an administrator reads of what went wrong with Kerberos. */
#include "rpc/secure/gss.h"

static const struct {
    const char *reason, *remedy;
} faults[] = {
    [RPC_GSS_WELL] = {"all is well", ""},
    [RPC_GSS_NO_LIBRARY] = {"libgssapi_krb5.so.2 cannot be used",
                            "it takes libgssapi-krb5-2 (Debian) or krb5-libs (Red Hat), and a "
                            "program that exports no other Kerberos"},
    [RPC_GSS_NO_TICKET] = {"there is no Kerberos ticket",
                           "run kinit as that user, or give the stanza a krb5_keytab"},
    [RPC_GSS_EXPIRED] = {"the Kerberos ticket has ended",
                         "run kinit as that user; calls wait until then"},
    [RPC_GSS_KEYTAB] =
        {"the keytab gives no ticket",
         "look at it with klist -k; the user must be able to read it, and its keys must be "
         "those of the KDC"},
    [RPC_GSS_NO_SERVICE] =
        {"the KDC does not know the server's principal",
         "make the principal nfs/HOST, or name the server in the nfstab as its principal "
         "does"},
    [RPC_GSS_NO_CLIENT] = {"the KDC does not know the user's principal",
                           "correct krb5_principal, or make the principal"},
    [RPC_GSS_NO_KDC] = {"no KDC answers",
                        "look at [realms] of krb5.conf, at DNS, and at the network"},
    [RPC_GSS_SKEW] = {"the clock of this host differs from that of the KDC or the server",
                      "let chrony or ntpd set the clocks"},
    [RPC_GSS_REFUSED] =
        {"the server refuses the Kerberos context",
         "look at the server's log: its keytab may lack nfs/HOST, or have an old key"},
    [RPC_GSS_NO_SERVER] = {"the server did not answer while a Kerberos context was made", ""},
    [RPC_GSS_LOST] = {"libgssapi_krb5.so.2 cannot be used in this process, which was forked",
                      "start the program again, while its KDC answers"},
    [RPC_GSS_OTHER] = {"Kerberos fails", ""},
};

const char *rpc_gss_reason(enum rpc_gss_why why)
{
    return faults[why].reason;
}

const char *rpc_gss_remedy(enum rpc_gss_why why)
{
    return faults[why].remedy;
}
