/* A mount: which server directory is seen where, and the server that is asked for it. */
#ifndef MOUNT_MOUNT_H
#define MOUNT_MOUNT_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/mountinfo.h"
#include "config/nfstab.h"
#include "config/tunables.h"
#include "mount/sender.h"
#include "mount/teller.h"
#include "nfs/nfs.h"
#include "reach/flavors.h"
#include "reach/kernel.h"
#include "reach/reason.h"

/* The tunables. fd_start() reads them once; constant afterwards. */
extern struct conf_tunables mount_tunables;

/* Why all files are left to the kernel from now on; NULL: they are not. */
extern _Atomic(const char *) mount_left_to_kernel;

/*
 * A server of the nfstab, in one version of NFS, with TLS or without, as this process talks to it.
 * All its exports share it. `lock` guards the verifier, and is held for a few instructions only.
 * Lives for ever.
 */
struct mount_server {
    const struct conf_server *conf;
    const struct nfs_version *version; /* a stanza has a server for each version, */
    struct nfs_session *session;       /* NULL: the version has none */
    const _Atomic bool *lost;          /* has another host taken its fence? NULL: it has none */
    enum conf_tls tls;                 /* and, if the stanza does not say it, with and without */
    struct net_tls *net_tls;           /* NULL: in clear, or no first contact yet */
    struct net_server *net;            /* NULL until the first export was mounted */
    _Atomic uint16_t mntport, nfsport; /* as the last first contact of an export found them */
    struct mount_sender sender;
    _Atomic bool renewing;   /* a thread renews the lease of its session */
    _Atomic uint32_t blamed; /* the log has the fault of these paths: a bit for each, by position */
    pthread_mutex_t lock;
    uint64_t verifier;        /* the last one that a WRITE or COMMIT returned ... */
    _Atomic uint64_t seen_ns; /* ... to a call that was sent at this time; 0: none */
    /* Times by the server's clock, from answers to WRITEs; 0: none. */
    int64_t up_since, up_until; /* the first and the last time with this verifier */
    uint64_t before;            /* the verifier before, */
    int64_t before_until;       /* and the last time with that */
};

enum mount_state { MOUNT_NEW, MOUNT_READY, MOUNT_FAILED, MOUNT_REFUSED };

enum {
    MOUNTS_MAX = 256,
    MOUNT_DIRECTORIES = 1024,
    MOUNT_CONTACT_TIMEOUT_MS = 5000 /* for each question of the first contact */
};

/* The handle of a directory below a mount, by its path relative to it. */
struct mount_directory {
    char *path;
    struct nfs_fh fh;
};

/*
 * An export. All is constant once `state` is READY, but for atomic fields, what a lock guards, and
 * `path`, which chroot() changes. Lives for ever. A FAILED mount is tried again after a while; a
 * REFUSED one (it is another directory) is not.
 */
struct mount {
    const struct conf_export *conf;
    struct mount_server *server;
    const _Atomic bool *lost; /* the server's `lost`; of a closed mount not NULL */
    char path[PATH_MAX];      /* of the mount, without symbolic links */
    size_t path_length;
    dev_t device;
    ino_t inode;
    bool kernel_nfs; /* the mount is a kernel NFS mount, not the exported directory itself; */
    struct reach_kernel_mount kernel; /* what the kernel's table says of it, else all false */
    enum conf_security security;      /* of the nfstab, or as the kernel's mount */
    bool closed;                      /* the kernel protects it less: see protection.h */
    _Atomic bool barred;              /* `closed`, and the engine may not serve it any more */
    _Atomic bool kernel_tells;        /* READY, and the root's handle is what the kernel told */
    /* Names server, export and version in the registry, and with a fence the term (hold_fence());
     */
    _Atomic uint64_t registry_key;
    uint64_t plain_key; /* the same without the term; */
    uint64_t other_key; /* the name for processes that use the other version of NFS */

    _Atomic int state;       /* enum mount_state; written under `contact` */
    pthread_mutex_t contact; /* held at first contact, and to renew stale handles: seconds */
    uint64_t retry_ns;       /* no attempt before this, if FAILED or stale; under `contact` */
    enum reach_why why;      /* why it is FAILED; under `contact` */
    char takes[16 + REACH_FLAVORS_BYTES]; /* the server refused our security: "it takes krb5i", or
                                             empty; likewise */
    unsigned stats_id;
    struct directnfs_mount_stats *_Atomic counted; /* NULL: not contacted yet, or not shown */
    uint32_t read_max, write_max;
    uint64_t size_max; /* of a file, in bytes */

    _Atomic bool behind;       /* this process, or one that it was forked from, wrote behind here */
    _Atomic bool agent_wanted; /* its files are written behind, or shall be */
    _Atomic unsigned
        agent_place;            /* where the agent is asked for its server, from 1 on; 0: nowhere */
    _Atomic int orphans_failed; /* -errno of what dead processes left; the next sync tells it */
    _Atomic bool replaced;      /* the same export was mounted once more, later */
    struct mount_teller teller;

    pthread_mutex_t look;      /* held while the server is asked for the root: seconds; guards */
    struct nfs_attr root_attr; /* its attributes when it was last asked for, first at the proof; */
    uint64_t looked_ns;        /* when it was last asked for, */
    int look_result;           /* and what came of that */

    pthread_mutex_t lock; /* guards what follows; held briefly */
    struct nfs_fh root;
    bool has_directories; /* the table was used; else its pages are not touched */
    struct mount_directory directories[MOUNT_DIRECTORIES]; /* a hash table without chains */
};

/* Is this mount of no use any more? It was never used, and another took its place. */
static inline bool mount_is_past(const struct mount *mount)
{
    return atomic_load(&mount->replaced) && atomic_load(&mount->state) != MOUNT_READY;
}

/* Does the kernel tell handles of this mount by which its server can be asked? */
static inline bool mount_has_handles(const struct mount *mount)
{
    return mount->kernel.speaks == mount->server->version;
}

/* Has another host taken the fence, or may the engine not serve a closed mount any more? Then each
 * call fails with EIO. */
static inline bool mount_is_lost(const struct mount *mount)
{
    return __builtin_expect(mount->lost != NULL, false) &&
           (atomic_load_explicit(mount->lost, memory_order_relaxed) ||
            atomic_load_explicit(&mount->barred, memory_order_relaxed));
}

#endif
