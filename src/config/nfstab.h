/*
 * nfstab(5): which server directories we serve, at which mount, over which paths.
 *
 * Reading has three steps, each usable alone:
 *   conf_nfstab_parse()    text -> tree; touches neither files nor the network
 *   conf_nfstab_load()     the files of the lookup order and the kernel's mounts -> one tree
 *   conf_path_addresses()  the names of a path -> socket addresses
 */
#ifndef CONF_NFSTAB_H
#define CONF_NFSTAB_H

#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "config/diagnostic.h"

#define CONF_NFSTAB_SIZE_MAX     (1024 * 1024) /* bytes of one nfstab */
#define CONF_EXPORTS_MAX         4096          /* exports of one nfstab */
#define CONF_PATHS_MAX           32            /* paths of one server */
#define CONF_EXPORT_LENGTH_MAX   1024          /* MNTPATHLEN, RFC 1813 section 5.1.1 */
#define CONF_ADDRESS_SIZE        256           /* an address or host name, with its NUL */
#define CONF_ADDRESSES_MAX       8             /* of a name; further ones are not used */
#define CONF_CONNECTIONS_MAX     64
#define CONF_FENCE_LENGTH_MAX    64          /* bytes in the name of a fence */
#define CONF_MNT_TIMEOUT_DEFAULT 600         /* seconds */
#define CONF_ID_PROCESS          ((uid_t)-1) /* uid, gid: as the process has it */

/* `kernel:` of an export. */
enum conf_kernel {
    CONF_KERNEL_AUTO, /* find out at start */
    CONF_KERNEL_YES,  /* kernel-backed: the files are visible at the mount */
    CONF_KERNEL_NO,   /* standalone: nothing is mounted */
};

/* `nfs_version:` of a stanza. */
enum conf_version {
    CONF_VERSION_AUTO, /* as the kernel's mount; NFSv3 without one */
    CONF_VERSION_3,
    CONF_VERSION_41,
};

/* `security:` of an export: how its calls are protected, weaker ones first. */
enum conf_security {
    CONF_SECURITY_AUTO,  /* as the kernel's mount; sys without one */
    CONF_SECURITY_SYS,   /* AUTH_SYS: the client says who it is */
    CONF_SECURITY_KRB5,  /* Kerberos proves who it is, */
    CONF_SECURITY_KRB5I, /* and that nobody changed a call or an answer, */
    CONF_SECURITY_KRB5P, /* and nobody else can read them */
};

/* `tls:` of a stanza: whether its connections are encrypted (RFC 9289). */
enum conf_tls {
    CONF_TLS_AUTO,    /* as the kernel's mounts: required if one of them has it */
    CONF_TLS_NO,      /* never */
    CONF_TLS_PREFER,  /* if the server offers it */
    CONF_TLS_REQUIRE, /* always */
};

/* A network path to a server: a pair of `path` and `local`. */
struct conf_path {
    char peer[CONF_ADDRESS_SIZE];  /* IPv4, IPv6 without brackets, or a name */
    char local[CONF_ADDRESS_SIZE]; /* likewise; empty: the kernel chooses */
    bool dontroute;                /* SO_DONTROUTE; the stanza's flag, for all its paths */
    struct conf_position at; /* of the peer's text, or of the server's name if that is the peer */
    struct conf_position local_at;
};

/* One `export: DIR mount: DIR`. */
struct conf_export {
    char *directory; /* on the server: absolute, as written */
    char *mount;     /* here: absolute; no "." or "..", no double slash, none at the end */
    enum conf_kernel kernel;
    enum conf_security security;
    struct conf_position security_at; /* of the word that gave it */
    struct conf_position at;          /* of the export's directory */
    struct conf_position mount_at;    /* of the mount's directory */
};

/* One stanza. In a tree without errors, path_count and export_count are at least 1. */
struct conf_server {
    char *name;
    struct conf_path *paths;
    size_t path_count;
    struct conf_export *exports;
    size_t export_count;
    unsigned mnt_timeout; /* seconds */
    unsigned connections; /* most sockets per path and process; 0: as in directnfs.conf */
    unsigned nfsport;     /* in host byte order; 0: ask the port mapper */
    unsigned mntport;     /* likewise */
    uid_t uid;            /* for the calls; CONF_ID_PROCESS: the process's; never 0 */
    gid_t gid;
    enum conf_version version;
    char *fence; /* the name by which hosts take it from each other; NULL: none */
    struct conf_position fence_at;
    /* NULL: not given. Names of files are absolute. */
    char *krb5_keytab;    /* has the keys of the client */
    char *krb5_principal; /* that the client is */
    enum conf_tls tls;
    struct conf_position tls_at; /* of that word */
    bool tls_direct;             /* TLS from the first byte, not asked for by STARTTLS */
    char *tls_ca;                /* certificates of authorities; NULL: the system's */
    char *tls_crl;               /* what they revoked */
    char *tls_cert;              /* the client's certificate, */
    char *tls_key;               /* and its key */
    char *tls_name;              /* in the server's certificate; NULL: the server's name */
    struct conf_position at;     /* of the server's name */
};

/* An export that is not used, since an earlier file has an entry for its mount. */
struct conf_overridden {
    char *server;
    char *directory;
    char *mount;
    struct conf_position at; /* of the export that is not used */
    struct conf_position by; /* of the export that is used instead */
};

/*
 * The tree; zero-initialised it is empty. The caller of the function that filled it owns it. With
 * it, conf_nfstab_free() frees all strings and the file names of all positions. It does not change
 * after load, so threads may read it without a lock.
 */
struct conf_nfstab {
    struct conf_server *servers;
    size_t server_count;
    struct conf_overridden *overridden;
    size_t overridden_count;
    bool demands; /* Kerberos or TLS is asked for somewhere, also where that has a mistake */
    char **files; /* the names that positions point to */
    size_t file_count;
};

/*
 * Parses `length` bytes of text from `file`, and appends its servers to `tab`. The text may have
 * any bytes, and need not be terminated. Each mistake is added to `d`.
 * 0: there was none.
 * -EINVAL: there was an error. `tab` has what could be understood: show it and free it, but do not
 * use it.
 * -ENOMEM: there is no memory.
 */
int conf_nfstab_parse(struct conf_nfstab *tab, const char *file, const char *text, size_t length,
                      struct conf_diagnostics *d);

/* Where conf_nfstab_load() looks. A member that is an empty string is skipped. */
struct conf_sources {
    char only[PATH_MAX];     /* if set, it must exist, and nothing else is read */
    char files[3][PATH_MAX]; /* entries in earlier ones win */
    char mountinfo[PATH_MAX];
    const struct conf_mountinfo *mounts; /* what that file says, if it was read already; or NULL */
};

/*
 * The documented sources: $DIRECTNFS_NFSTAB; or $DIRECTNFS_HOME/nfstab, /etc/directnfs/nfstab,
 * /etc/oranfstab and /proc/self/mountinfo. Only this function reads the environment for nfstab. An
 * empty variable counts as unset.
 */
void conf_sources_default(struct conf_sources *sources);

/*
 * Reads all sources into `tab`, which is empty before. The first entry for a mount wins; the others
 * become tab->overridden. mountinfo gives the mounts of NFSv3, NFSv4.1 and NFSv4.2, kernel-backed,
 * with one path each. A file that does not exist is skipped, except sources->only. Returns as
 * conf_nfstab_parse(). A tree without servers and without errors means that there is nothing for us
 * to do.
 */
int conf_nfstab_load(struct conf_nfstab *tab, const struct conf_sources *sources,
                     struct conf_diagnostics *d);

/* The family of an address as in conf_path.peer. AF_UNSPEC: it is a name, or empty. */
int conf_address_family(const char *address);

/* The words of nfstab(5) for them: "auto", "sys", "krb5", ...; "auto", "no", "prefer", "require".
 */
extern const char *const conf_security_words[CONF_SECURITY_KRB5P + 1];
extern const char *const conf_tls_words[CONF_TLS_REQUIRE + 1];

/*
 * Turns one address text (conf_path.peer or .local) into socket addresses with port 0. They have
 * the given family, or any for AF_UNSPEC. It gives up to `most`, in the resolver's order. A numeric
 * address never needs a name server. A name may block for as long as the resolver does. Returns 0,
 * or an EAI_ code of getaddrinfo(3).
 */
int conf_path_resolve(const char *text, int family, struct sockaddr_storage *addresses, size_t most,
                      size_t *count);

/* Where a path leads to, and where it comes from. Ports are 0. */
struct conf_addresses {
    struct sockaddr_storage peers[CONF_ADDRESSES_MAX]; /* at least 1, in the resolver's order */
    size_t count;
    struct sockaddr_storage local; /* family AF_UNSPEC if the nfstab has none */
};

/* The socket addresses of a path. A name resolves to addresses of the local's family. 0, or
 * -EHOSTUNREACH and an error with its place in `d`. It may block, as conf_path_resolve(). */
int conf_path_addresses(const struct conf_path *path, struct conf_addresses *found,
                        struct conf_diagnostics *d);

/* Are they one address, whatever the ports? An IPv4 address equals the IPv6 address that stands for
 * it (::ffff:192.0.2.1). */
bool conf_address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Prints the tree as an nfstab that parses to an equal tree, except for positions and overridden
 * entries. The text is for free(3). NULL: there is no memory. */
char *conf_nfstab_print(const struct conf_nfstab *tab);

/* Frees what the tree owns and leaves an empty tree. */
void conf_nfstab_free(struct conf_nfstab *tab);

#endif
