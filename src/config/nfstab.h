/*
 * nfstab(5): which server directories are served by us, at which mount, over which paths.
 *
 * Reading is in three steps, each usable alone:
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
#define CONF_ADDRESS_SIZE        256           /* an address or host name with its NUL */
#define CONF_ADDRESSES_MAX       8             /* of a name; the rest is not looked at */
#define CONF_CONNECTIONS_MAX     64
#define CONF_FENCE_LENGTH_MAX    64          /* bytes of the name of a fence */
#define CONF_MNT_TIMEOUT_DEFAULT 600         /* seconds */
#define CONF_ID_PROCESS          ((uid_t)-1) /* uid, gid: whatever the process has */

/* `kernel:` of an export. */
enum conf_kernel {
    CONF_KERNEL_AUTO, /* find out at start */
    CONF_KERNEL_YES,  /* kernel-backed: the files are visible at the mount */
    CONF_KERNEL_NO,   /* standalone: nothing is mounted */
};

/* `nfs_version:` of a stanza. */
enum conf_version {
    CONF_VERSION_AUTO, /* that of the kernel's mount; NFSv3 where there is none */
    CONF_VERSION_3,
    CONF_VERSION_41,
};

/* One network path to a server: a pair of `path` and `local`. */
struct conf_path {
    char peer[CONF_ADDRESS_SIZE];  /* IPv4, IPv6 without brackets, or a name */
    char local[CONF_ADDRESS_SIZE]; /* likewise; empty: the kernel chooses */
    bool dontroute;          /* SO_DONTROUTE; a flag of the stanza, the same on all its paths */
    struct conf_position at; /* of the peer's text (of the server's name if it stands in) */
    struct conf_position local_at;
};

/* One `export: DIR mount: DIR`. */
struct conf_export {
    char *directory; /* on the server, absolute, as written */
    char *mount;     /* here: absolute, no trailing, doubled or "." parts, no ".." */
    enum conf_kernel kernel;
    struct conf_position at;       /* of the export's directory */
    struct conf_position mount_at; /* of the mount's directory */
};

/* One stanza. path_count and export_count are at least 1 in a tree without errors. */
struct conf_server {
    char *name;
    struct conf_path *paths;
    size_t path_count;
    struct conf_export *exports;
    size_t export_count;
    unsigned mnt_timeout; /* seconds */
    unsigned connections; /* sockets per path and process at most; 0: as in directnfs.conf */
    unsigned nfsport;     /* 0: ask the port mapper (host byte order) */
    unsigned mntport;     /* likewise */
    uid_t uid;            /* identity of the calls; CONF_ID_PROCESS: the process's; never 0 */
    gid_t gid;
    enum conf_version version;
    char *fence; /* the name by which hosts take it from each other; NULL: none */
    struct conf_position fence_at;
    struct conf_position at; /* of the server's name */
};

/* An export that is not used since an earlier file has an entry for the same mount. */
struct conf_overridden {
    char *server;
    char *directory;
    char *mount;
    struct conf_position at; /* of the export that is not used */
    struct conf_position by; /* of the export that is used instead */
};

/*
 * The tree. Zero-initialised is empty. Owned by the caller of the function that filled it and freed
 * by conf_nfstab_free(), all strings and the file names of all positions with it. It does not
 * change after load, so threads may read it without a lock.
 */
struct conf_nfstab {
    struct conf_server *servers;
    size_t server_count;
    struct conf_overridden *overridden;
    size_t overridden_count;
    char **files; /* names that positions point to */
    size_t file_count;
};

/*
 * Parses `length` bytes of text (need not be terminated, may be any bytes) that came from `file`
 * and appends its servers to `tab`. Every mistake is added to `d`. Returns 0, -EINVAL when there
 * was at least one error (tab then holds what could be understood; it can be shown and freed but
 * must not be used), or -ENOMEM.
 */
int conf_nfstab_parse(struct conf_nfstab *tab, const char *file, const char *text, size_t length,
                      struct conf_diagnostics *d);

/* Where conf_nfstab_load() looks. A member that is an empty string is not looked at. */
struct conf_sources {
    char only[PATH_MAX];     /* if set, nothing else is read, and it must exist */
    char files[3][PATH_MAX]; /* in the order in which entries win */
    char mountinfo[PATH_MAX];
};

/* The sources as documented: $DIRECTNFS_NFSTAB, or $DIRECTNFS_HOME/nfstab, /etc/directnfs/nfstab,
 * /etc/oranfstab and /proc/self/mountinfo. This is the only place of nfstab that reads the
 * environment; an empty variable counts as unset. */
void conf_sources_default(struct conf_sources *sources);

/*
 * Reads all sources into `tab` (empty before). The first entry for a mount wins; the others become
 * tab->overridden. From mountinfo come the mounts of NFSv3, NFSv4.1 and NFSv4.2, kernel-backed,
 * with one path each.
 * A file that does not exist is passed over, except sources->only. Returns as conf_nfstab_parse().
 * A tree without servers and without errors means that there is nothing for us to do.
 */
int conf_nfstab_load(struct conf_nfstab *tab, const struct conf_sources *sources,
                     struct conf_diagnostics *d);

/* The family of an address as conf_path.peer has it; AF_UNSPEC: a name, or none. */
int conf_address_family(const char *address);

/*
 * Turns one address text (conf_path.peer or .local) into socket addresses with port 0, of the given
 * family or AF_UNSPEC for any: up to `most`, in the resolver's order. Numeric addresses never ask a
 * name server; a name may block for as long as the resolver does. Returns 0 or an EAI_ code of
 * getaddrinfo(3).
 */
int conf_path_resolve(const char *text, int family, struct sockaddr_storage *addresses, size_t most,
                      size_t *count);

/* Where a path leads, and whence; ports are 0. */
struct conf_addresses {
    struct sockaddr_storage peers[CONF_ADDRESSES_MAX]; /* at least 1, in the resolver's order */
    size_t count;
    struct sockaddr_storage local; /* family AF_UNSPEC where the nfstab has none */
};

/*
 * The socket addresses of a path. A name is resolved to addresses of the family that the local has.
 * Returns 0, or -EHOSTUNREACH and an error with its place in `d`. May block as conf_path_resolve()
 * does.
 */
int conf_path_addresses(const struct conf_path *path, struct conf_addresses *found,
                        struct conf_diagnostics *d);

/* Are they one address, whatever the ports? An IPv4 address is the same as the IPv6 one that
 * stands for it (::ffff:192.0.2.1). */
bool conf_address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* The tree as an nfstab that parses to the same tree (positions and overridden entries apart), in
 * memory for free(3). NULL without memory. */
char *conf_nfstab_print(const struct conf_nfstab *tab);

/* Frees what the tree owns and leaves an empty tree. */
void conf_nfstab_free(struct conf_nfstab *tab);

#endif
