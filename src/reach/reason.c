#include "reach/reason.h"

#include <errno.h>

#include "net/connect.h"
#include "reach/server.h"

static const struct {
    const char *text, *remedy;
} reasons[REACH_WHYS] = {
    [REACH_FINE] = {"", ""},
    [REACH_RUN_UNUSABLE] = {"run directory not usable",
                            "make it with mode 0700 for the program's user, or set DIRECTNFS_RUN"},
    [REACH_RUN_FOREIGN] = {"run directory not usable: of another owner, or open to others",
                           "give it to this user with mode 0700, remove it, or set DIRECTNFS_RUN"},
    [REACH_RUN_BUSY] = {"run directory not usable: used by another container or version",
                        "end the processes that use it, or set DIRECTNFS_RUN"},
    [REACH_RUN_FULL] = {"run directory not usable: no room there",
                        "make room in it (a container: --shm-size), or set DIRECTNFS_RUN"},
    [REACH_RUN_LIMIT] = {"run directory not usable: limit of file sizes (RLIMIT_FSIZE)",
                         "raise the limit of file sizes above uncommitted_max (LimitFSIZE= in the "
                         "systemd unit, ulimit -f)"},
    [REACH_RUN_CROWDED] = {"run directory not usable: no room for another process",
                           "end some processes, or set DIRECTNFS_RUN"},
    [REACH_RUN_LEFT] = {"run directory not usable: it holds unsent data of another version",
                        "run `directnfs flush` of that version, or give the data up by `directnfs "
                        "flush --discard-registry`"},
    [REACH_RUN_UNKNOWN] = {"run directory not usable: /proc cannot be read",
                           "mount /proc, or raise the limit of descriptors (LimitNOFILE= in the "
                           "systemd unit, ulimit -n)"},
    [REACH_RUN_DESCRIPTORS] = {"run directory not usable: no descriptor is left",
                               "raise the limit of descriptors (LimitNOFILE= in the systemd unit, "
                               "ulimit -n)"},
    [REACH_NO_MEMORY] = {"no memory", "raise the limit of address space (ulimit -v)"},
    [REACH_NO_NAME] = {"server's name not resolved",
                       "correct the name, or write the address in its place"},
    [REACH_NO_LOCAL] = {"no path from an address of this host",
                        "correct `local` in the nfstab, or give the address to an interface (ip "
                        "address add)"},
    [REACH_NO_PORT] = {"no local port is left", "see `privileged_port` in directnfs.conf(5)"},
    [REACH_LOW_PORT_FORBIDDEN] = {"not permitted to use a port below 1024",
                                  "give CAP_NET_BIND_SERVICE, or set privileged_port to \"auto\""},
    [REACH_NO_TLS] = {"TLS cannot be used here", "see what `directnfs check` says of it"},
    [REACH_IN_HANDLER] = {"a library cannot be loaded in a signal handler",
                          "use a file of the mount before, outside of the handler"},
    [REACH_ABROAD] = {"another network namespace than the connections'",
                      "open the files in the network namespace that the program began in"},
    [REACH_NO_ANSWER] = {"server not reachable", ""},
    [REACH_NO_SERVICE] = {"no NFS service of the wanted version on the server",
                          "start the service on the server, and allow the version of the nfstab "
                          "(nfs_version) there"},
    [REACH_MOUNT_REFUSED] = {"MOUNT refused", "the server's export list must name this host"},
    [REACH_MOUNT_REFUSED_HIGH_PORT] =
        {"MOUNT refused, from a port above 1023",
         "the server's export list must name this host, and must say `insecure` if this process "
         "may not use a port below 1024"},
    [REACH_NFS_REFUSED] = {"NFS refused", "the server's export list must name this host"},
    [REACH_NFS_REFUSED_HIGH_PORT] = {"NFS refused, from a port above 1023",
                                     "export with `insecure`, or give CAP_NET_BIND_SERVICE"},
    [REACH_OTHER_SECURITY] = {"the server wants other security than the mount has",
                              "set `security` in the nfstab to one that the export takes, or "
                              "export with that of the mount (sec=)"},
    [REACH_TLS_FILES] = {"TLS: a file of ours cannot be used",
                         "correct tls_ca, tls_crl, tls_cert or tls_key: the program's user must be "
                         "able to read the file"},
    [REACH_TLS_PORTS] = {"TLS: tls_direct, and no port of it for NFSv3",
                         "give `nfsport` and `mntport` in the nfstab, as the port mapper knows "
                         "nothing of such ports"},
    [REACH_TLS_REFUSED] = {"TLS: the server does not offer it",
                           "set TLS up on the server, give `tls_direct` for a port that is TLS "
                           "only, or say `tls: prefer`"},
    [REACH_TLS_NO_MOUNT] = {"TLS: the server's MOUNT service does not offer it",
                            "mount the export by the kernel, which tells its root, or use "
                            "NFSv4.1, which needs no MOUNT"},
    [REACH_TLS_NONE] = {"TLS: the server speaks none that we do",
                        "see whether the port is that of NFS, whether it needs `tls_direct`, and "
                        "whether the server has TLS 1.3"},
    [REACH_TLS_CERTIFICATE] = {"TLS: the server's certificate is refused",
                               "see what `directnfs check` says of it"},
    [REACH_TLS_UNWELCOME] = {"TLS: the server refuses us",
                             "see what `directnfs check` says of it; a server may want a "
                             "certificate (tls_cert, tls_key)"},
    [REACH_NO_EXPORT] = {"no such export on the server",
                         "correct the nfstab, or export the directory"},
    [REACH_NO_EXPORT_HIGH_PORT] =
        {"no such export, for a port above 1023",
         "export with `insecure`, or give CAP_NET_BIND_SERVICE; else correct the nfstab, or export "
         "the directory"},
    [REACH_ELSEWHERE] = {"the directory is at another server",
                         "name that server in the nfstab, as referrals are not followed"},
    [REACH_NAME_IN_USE] = {"the server takes this client for another one",
                           "give each host a name of its own (hostname); the other one is "
                           "forgotten with its lease"},
    [REACH_NONSENSE] = {"the server's answers make no sense",
                        "see whether an NFS server listens at this port, and its log"},
    [REACH_LAYOUTS] = {"pNFS: its data may be elsewhere than at the server",
                       "export without pNFS, or leave the mount to the kernel"},
    [REACH_FENCE_SECURITY] = {"a fence, and Kerberos, which do not go together",
                              "use TLS (`tls: require`), or no fence"},
    [REACH_NOT_HELD] = {"this host does not have the fence",
                        "run `directnfs fence take` here if no other host may use the files, and "
                        "start the programs again"},
    [REACH_NOT_THE_EXPORT] = {"mount is not the export",
                              "mount the export there, or correct the nfstab"},
};

static bool is_kerberos(enum reach_why why)
{
    return why >= REACH_KERBEROS && why <= REACH_KERBEROS_LAST;
}

const char *reach_reason(enum reach_why why)
{
    if (is_kerberos(why))
        return rpc_gss_reason((enum rpc_gss_why)(why - REACH_KERBEROS));
    return reasons[why].text;
}

const char *reach_remedy(enum reach_why why)
{
    if (is_kerberos(why))
        return rpc_gss_remedy((enum rpc_gss_why)(why - REACH_KERBEROS));
    return reasons[why].remedy;
}

enum reach_why reach_why_run(int error)
{
    switch (error) {
    case 0:
        return REACH_FINE;
    case -EPERM:
        return REACH_RUN_FOREIGN;
    case -EBUSY:
        return REACH_RUN_BUSY;
    case -ENOSPC:
        return REACH_RUN_FULL;
    case -EFBIG:
        return REACH_RUN_LIMIT;
    case -EUSERS:
        return REACH_RUN_CROWDED;
    case -EUCLEAN:
        return REACH_RUN_LEFT;
    case -ENODATA:
        return REACH_RUN_UNKNOWN;
    case -EMFILE:
    case -ENFILE:
        return REACH_RUN_DESCRIPTORS;
    case -ENOMEM:
        return REACH_NO_MEMORY;
    default:
        return REACH_RUN_UNUSABLE;
    }
}

enum reach_why reach_why_path(int error)
{
    return error == 0 ? REACH_FINE : error == -EADDRNOTAVAIL ? REACH_NO_LOCAL : REACH_NO_NAME;
}

/* The server refused: was it for the port that the call came from, or could the call not even
 * leave? */
static enum reach_why why_refused(enum reach_service service, const struct conf_tunables *tunables)
{
    enum net_port ports = reach_port_policy(tunables);
    bool low = service != REACH_NFS_HIGH_PORT && ports != NET_PORT_ANY && net_low_ports_permitted();
    if (ports == NET_PORT_PRIVILEGED && !low)
        return REACH_LOW_PORT_FORBIDDEN;
    if (service == REACH_MOUNT)
        return low ? REACH_MOUNT_REFUSED : REACH_MOUNT_REFUSED_HIGH_PORT;
    return low ? REACH_NFS_REFUSED : REACH_NFS_REFUSED_HIGH_PORT;
}

enum reach_why reach_why_call(enum reach_service service, int error,
                              const struct conf_tunables *tunables)
{
    switch (error) {
    case 0:
        return REACH_FINE;
    case -ELIBACC:
    case -ELIBSCN:
        return REACH_NO_TLS;
    case -ENOKEY:
        return REACH_TLS_FILES;
    case -EDESTADDRREQ:
        return REACH_TLS_PORTS;
    case -ENOPROTOOPT:
        return service == REACH_MOUNT ? REACH_TLS_NO_MOUNT : REACH_TLS_REFUSED;
    case -EPFNOSUPPORT:
        return REACH_TLS_NONE;
    case -EKEYREVOKED:
        return REACH_TLS_CERTIFICATE;
    case -EBADRQC:
        return REACH_TLS_UNWELCOME;
    case -ENOMEM:
        return REACH_NO_MEMORY;
    case -EADDRINUSE:
        return REACH_NO_PORT;
    case -EPROTONOSUPPORT:
        return REACH_NO_SERVICE;
    case -ENOENT:
    case -ENOTDIR:
        /* Some servers hide an export from ports above 1023. */
        return service == REACH_MAPPER                              ? REACH_NO_SERVICE
               : service == REACH_NFS_HIGH_PORT && error == -ENOENT ? REACH_NO_EXPORT_HIGH_PORT
                                                                    : REACH_NO_EXPORT;
    case -EREMOTE:
        return REACH_ELSEWHERE;
    case -EBUSY:
        return REACH_NAME_IN_USE;
    case -EBADMSG:
    case -EPROTO:
        return REACH_NONSENSE;
    case -EKEYREJECTED:
        if (service == REACH_NFS || service == REACH_NFS_HIGH_PORT)
            return REACH_OTHER_SECURITY;
        __attribute__((fallthrough));
    case -EACCES:
    case -EPERM:
        return service == REACH_MAPPER ? REACH_NO_ANSWER : why_refused(service, tunables);
    default:
        return REACH_NO_ANSWER;
    }
}

enum reach_why reach_why_as(enum reach_service service, int error,
                            const struct conf_tunables *tunables, const struct rpc_auth *auth)
{
    uint32_t why = auth && auth->identity ? atomic_load(&auth->identity->why) : RPC_GSS_WELL;
    if (why != RPC_GSS_WELL && (error == -EACCES || error == -ETIMEDOUT || error == -EKEYREJECTED))
        return (enum reach_why)(REACH_KERBEROS + why);
    return reach_why_call(service, error, tunables);
}
