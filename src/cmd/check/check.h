/*
 * What the parts of `directnfs check` that ask servers share.
 *
 *   check.c            reads the configuration
 *   user.c             becomes the user that servers are asked as
 *   server.c           goes through the paths of a server and compares them
 *   path.c, route.c    look at one path
 *   export.c           looks at an export over a path, with mount.c (MOUNT, source ports), kernel.c
 *                      (the kernel's own mount) and read.c (throughput)
 *   kerberos.c         looks at tickets, and makes a context
 *   agent.c            looks for the agent, and for what was set aside
 *   wait.c             keeps the kernel and the resolver from blocking for ever
 */
#ifndef CMD_CHECK_H
#define CMD_CHECK_H

#include <sys/stat.h>

#include "cmd/check/report.h"
#include "cmd/check/route.h"
#include "config/mountinfo.h"
#include "config/nfstab.h"
#include "config/tunables.h"
#include "net/net.h"
#include "net/tls/tls.h"
#include "nfs/v3/mount.h"
#include "nfs/nfs.h"
#include "reach/flavors.h"
#include "reach/kernel.h"
#include "reach/server.h"

/* The user that servers are asked as. Both NULL: the user that started the command. */
struct check_as {
    const char *user; /* a name or a number */
    const char *unit; /* of systemd: gives a user, capabilities, and variables of the library */
    bool low_ports;   /* set: it has CAP_NET_BIND_SERVICE */
};

/* As root: becomes that user, for good, and takes over variables from the unit's environment.
 * CMD_FINE, or CMD_NOT_FINE after a complaint. */
int check_become(struct check_as *as);
/* Reports the user, if one was asked for. */
void check_say_as(const struct check_as *as);

/* The state of one check. Owned by check.c. */
struct check {
    struct conf_tunables tunables;
    const struct check_as *as;
    bool no_ledger; /* the run directory cannot be used: nothing is served, whatever servers say */
    int timeout_ms; /* for each question */
    const char *read; /* a file to read for a while, absolute; or NULL */
    bool read_found;  /* it lies below a mount */
    unsigned mounts;  /* exports of all servers */
    unsigned served;  /* of these, those that the library would serve */
};

/* What was found out of a path. check_server() makes and frees it. It does not move, as parts point
 * to others. */
struct check_path {
    struct check *check;
    const struct conf_server *stanza;
    const struct conf_path *conf;
    size_t number;              /* from 1 */
    struct net_address address; /* with the port of NFS */
    struct check_route route;
    struct net_tls *tls;         /* protects the connections; NULL: they are in clear */
    struct mount3_target target; /* of the MOUNT service */
    bool mounts;                 /* the MOUNT service answers */
    bool needs_mount;            /* the library would have to ask the MOUNT service */
    uint16_t kernel_port;        /* port of NFS in the kernel's own mount; 0: not known */
    struct nfs_client client;    /* no server: the NFS service does not answer */
    uint64_t rtt_us;
    double mib_per_s; /* result of the read test; 0: none */
};

enum { NFS4_PORT = 2049 }; /* RFC 8881 section 2.9.3 */

/* What the first path that granted an export showed of its root. The library uses other paths if
 * they lead to the same directory. */
struct check_root {
    const struct conf_export *export;
    const struct check_path *path; /* NULL: none has granted it yet */
    bool served;                   /* the library would serve it */
    struct nfs_fh handle;
    struct nfs_fh told;                /* the handle that the kernel tells; no bytes: none */
    ino_t inode;                       /* of the mount point; set if `told` is */
    struct reach_kernel_mount kernel;  /* from the kernel's table of mounts */
    char layouts[REACH_LAYOUT_BYTES];  /* that the kernel's client uses to get data; "": none */
    const struct nfs_version *version; /* the version in which its files are asked for */
    uint64_t verifier;                 /* of writes, as --read saw it over `path`; 0: not known */
};

/* Asks a server on each path, and reports what would be used and how. */
void check_server(struct check *check, const struct conf_server *conf);

/* Reports whether writes can be left behind: there is an agent, or one can be started. Also reports
 * what was set aside in the run directory. */
void check_agent(const struct check *check);

/* Asks what needs no export. */
void check_path(struct check_path *path);

/* How the connections for this version are to be protected. NULL: not at all; or *good is false,
 * and it is reported that they cannot be. */
struct net_tls *check_tls_new(const struct check *check, const struct conf_server *conf,
                              const struct nfs_version *version, const struct check_root *roots,
                              bool *good);
/* Protects a connection, which it closes, and reports what was seen. False: that failed. */
bool check_tls(struct check_path *path, int fd);
/* Reports a fault of TLS; `facts` may be NULL. */
void check_tls_fault(const struct check_path *path, const char *label, enum net_tls_fault fault,
                     const struct net_tls_facts *facts);

/* Makes a call a few times, one after the other. Returns how many times, with the median of their
 * times; or the first -errno of `call`. */
int check_time(int (*call)(void *), void *argument, uint64_t *median_us);

/* True if the server is asked without MOUNT. */
static inline bool check_has_sessions(const struct check_path *path)
{
    return path->client.version->root != NULL;
}

/* Reads what the kernel tells of the mount point. It tells the library the same, and then the
 * library needs no MOUNT. */
void check_told(const struct check *check, const struct conf_server *conf, struct check_root *root);

/* Finds the handle of an export by its name, if a session replaces MOUNT. False: reported. */
bool check_walk(const struct check_path *path, const struct conf_export *export,
                struct nfs_fh *handle);

/* Mounts the export, asks what it grants, and reports how its files would be served. */
void check_export(struct check_path *path, struct check_root *root);
/* What came of Kerberos, for one kind of security over one path. */
struct check_kerberos {
    bool asked, works;
};
/* Goes through what Kerberos needs for calls with path->client.auth: library, ticket, the server's
 * principal, a context. False: it does not work; reported. */
bool check_kerberos(struct check_path *path, struct check_kerberos *kerberos);

/* True if a time of the file lies between steps of `step` nanoseconds. Then FSINFO (RFC 1813
 * section 3.3.19) tells longer steps than there are: the Linux kernel's server always says a
 * second. */
static inline bool check_times_are_finer(const struct nfs_attr *attr, int64_t step)
{
    const struct nfs_time times[] = {attr->atime, attr->mtime, attr->ctime};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (((int64_t)times[i].sec * 1000000000 + times[i].nsec) % step != 0)
            return true;
    }
    return false;
}

/* Calls MNT. False: the export cannot be used by it; reported, with `severity`. */
bool check_mount(const struct check_path *path, const struct conf_export *export,
                 enum check_severity severity, struct nfs_fh *handle);

/* After a refusal: reports that the source port may be the reason. */
void check_explain_port(const struct check_path *path);

/* Reports whether calls must come from a port below 1024. `fh` is the root of `directory`. NULL:
 * MOUNT is not needed. */
void check_ports(const struct check_path *path, const char *directory, const struct nfs_fh *fh);

/* Reports options of a kernel mount of NFS that harm what is left to it: names, locks, files that
 * are not served. */
void check_kernel_mount(const struct conf_mount *mount);

/* Reports how calls are protected (security, tls), and whether the kernel's mount does as much. */
void check_protection(const struct conf_server *conf, const struct check_root *root);

/* If the file to read is below this root, reads it over the path for about a second. */
void check_read(struct check_path *path, struct check_root *root);

/* True if the path is the directory, or below it. Both are absolute and without "..". */
bool check_lies_in(const char *path, const char *directory);

/*
 * conf_path_resolve() into the peers, bounded in time. Returns 0, an EAI_ code, or:
 * EAI_AGAIN: the resolver took longer. It is left alone, in a thread that dies with the command.
 */
int check_resolve(const char *text, int family, int timeout_ms, struct conf_addresses *found);

/* statx(2), bounded in time (reach_statx; *timeout_ms is an int): the mount point may be a kernel
 * mount of a server that does not answer. Returns 0 or:
 * -ETIMEDOUT: it took longer.
 * another -errno: from statx(2), or no thread could be started. */
int check_statx(const void *timeout_ms, const char *path, int flags, struct statx *status);

#endif
