/*
 * What the parts of `directnfs check` share that ask servers. check.c reads the configuration;
 * server.c goes through the paths of a server and compares them; path.c and route.c look at one,
 * export.c at an export over it, with mount.c (MOUNT, source ports), kernel.c (the kernel's own
 * mount) and read.c (throughput); agent.c looks at who sends for those who die; wait.c keeps the
 * kernel and the resolver from blocking for ever.
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
#include "nfs/v3/mount.h"
#include "nfs/nfs.h"
#include "reach/kernel.h"
#include "reach/server.h"

/* As whom servers are asked. Both NULL: as who started the command. */
struct check_as {
    const char *user; /* a name or a number */
    const char *unit; /* of systemd: its user, its capabilities, its variables of the library */
    bool low_ports;   /* set: with CAP_NET_BIND_SERVICE */
};

/* As root: becomes it, for good, and takes over what the unit has in its environment. CMD_FINE, or
 * CMD_NOT_FINE after a complaint. */
int check_become(struct check_as *as);
/* Says it, if it was asked for. */
void check_say_as(const struct check_as *as);

/* The state of one check. Owned by check.c. */
struct check {
    struct conf_tunables tunables;
    const struct check_as *as;
    bool no_ledger;   /* nothing is served, whatever servers say: the run directory is not usable */
    int timeout_ms;   /* for each question */
    const char *read; /* a file to read for a while, absolute; or NULL */
    bool read_found;  /* it lies below a mount */
    unsigned mounts;  /* exports of all servers */
    unsigned served;  /* of these: would be served by the library */
};

/* What was found out of a path. Set up and freed by check_server(); does not move, as parts point
 * to others. */
struct check_path {
    struct check *check;
    const struct conf_server *stanza;
    const struct conf_path *conf;
    size_t number;              /* from 1 */
    struct net_address address; /* with the port of NFS */
    struct check_route route;
    struct mount3_target target; /* of the MOUNT service */
    bool mounts;                 /* which answers */
    bool needs_mount;            /* the library would have to ask it */
    uint16_t kernel_port;        /* of NFS, as the kernel's own mount has it; 0: not known */
    struct nfs_client client;    /* without a server: the NFS service does not answer */
    uint64_t rtt_us;
    double mib_per_s; /* of the read test; 0: none */
};

enum { NFS4_PORT = 2049 }; /* RFC 8881 section 2.9.3 */

/* What the first path that granted an export showed of its root. The library uses the others if
 * they lead to the same directory. */
struct check_root {
    const struct conf_export *export;
    const struct check_path *path; /* NULL: none has granted it */
    bool served;                   /* the library would serve it */
    struct nfs_fh handle;
    struct nfs_fh told;                /* the handle that the kernel tells; of no bytes: none */
    ino_t inode;                       /* of the mount point; if told */
    struct reach_kernel_mount kernel;  /* what the kernel's table says of the mount */
    char layouts[REACH_LAYOUT_BYTES];  /* by which the kernel's client gets its data; "": none */
    const struct nfs_version *version; /* in which its files are asked for */
    uint64_t verifier; /* of writes, as --read saw it over that path; 0: not known */
};

/* Asks a server on each path, and says what would be used and how. */
void check_server(struct check *check, const struct conf_server *conf);

/* Can writes be left behind, by the agent that there is or one that can be started; and was
 * something set aside in the run directory? */
void check_agent(const struct check *check);

/* Asks all that needs no export. */
void check_path(struct check_path *path);

/* Makes a call a few times, one after the other. How many times, with the median of what they took;
 * or the first -errno of `call`. */
int check_time(int (*call)(void *), void *argument, uint64_t *median_us);

/* Is the server asked without MOUNT? */
static inline bool check_has_sessions(const struct check_path *path)
{
    return path->client.version->root != NULL;
}

/* What the kernel tells of the mount point, as it does to the library, which needs no MOUNT then.
 */
void check_told(const struct check *check, const struct conf_server *conf, struct check_root *root);

/* The handle of an export by its name, where a session takes the place of MOUNT. False: reported.
 */
bool check_walk(const struct check_path *path, const struct conf_export *export,
                struct nfs_fh *handle);

/* Mounts the export, asks what it grants, and tells how its files would be served. */
void check_export(struct check_path *path, struct check_root *root);

/* Do the times of a file lie between steps of so many nanoseconds? Then FSINFO (RFC 1813 section
 * 3.3.19) tells longer steps than there are: the Linux kernel's server always says a second. */
static inline bool check_times_are_finer(const struct nfs_attr *attr, int64_t step)
{
    const struct nfs_time times[] = {attr->atime, attr->mtime, attr->ctime};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (((int64_t)times[i].sec * 1000000000 + times[i].nsec) % step != 0)
            return true;
    }
    return false;
}

/* MNT. False, and said why, if the export cannot be used by it; how bad that is, `severity` says.
 */
bool check_mount(const struct check_path *path, const struct conf_export *export,
                 enum check_severity severity, struct nfs_fh *handle);

/* After a refusal: the source port may be why. */
void check_explain_port(const struct check_path *path);

/* Says whether calls must come from a port below 1024. `fh` is the root of `directory`,
 * which is NULL where MOUNT is not needed. */
void check_ports(const struct check_path *path, const char *directory, const struct nfs_fh *fh);

/* Says which options of an NFS mount of the kernel hurt what is left to it: names, locks, files
 * that are not served. */
void check_kernel_mount(const struct conf_mount *mount);

/* Reads the file that the user named over the path, for about a second, if it is below this root.
 */
void check_read(struct check_path *path, struct check_root *root);

/* Is the path the directory, or below it? Both absolute and without "..". */
bool check_lies_in(const char *path, const char *directory);

/*
 * conf_path_resolve() into the peers, bounded. Returns 0, an EAI_ code, or EAI_AGAIN when the
 * resolver took longer (it is left alone then, in a thread that dies with the command).
 */
int check_resolve(const char *text, int family, int timeout_ms, struct conf_addresses *found);

/* statx(2), bounded (reach_statx; *timeout_ms is an int): the mount point may be a kernel mount of
 * a server that does not answer. Returns 0 or -errno, -ETIMEDOUT in that case. */
int check_statx(const void *timeout_ms, const char *path, int flags, struct statx *status);

#endif
