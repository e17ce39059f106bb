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
#include "reach/kernel.h"
#include "reach/reason.h"

/* The tunables; read once by fd_start(), constant afterwards. */
extern struct conf_tunables mount_tunables;

/* Why all files are the kernel's from some moment on; NULL: they are not. */
extern _Atomic(const char *) mount_left_to_kernel;

/*
 * A server of the nfstab as this process talks to it; all its exports share it. `lock` guards the
 * verifier, and is held for a few instructions only. Lives for ever.
 */
struct mount_server {
    const struct conf_server *conf;
    const struct nfs_version *version; /* a stanza is a server in each of its mounts' versions */
    struct nfs_session *session;       /* NULL: the version has none */
    const _Atomic bool *lost; /* of its fence, that is: to another host; NULL: it has none */
    struct net_server *net;   /* NULL until the first export was mounted */
    uint16_t mntport, nfsport;
    struct mount_sender sender;
    _Atomic bool renewing;   /* a thread sees to the lease of its session */
    _Atomic uint32_t blamed; /* paths whose fault is on the log: a bit for each, by position */
    pthread_mutex_t lock;
    uint64_t verifier;        /* the last that a WRITE or COMMIT returned ... */
    _Atomic uint64_t seen_ns; /* ... to a call that was sent at this time; 0: none */
    /* By the server's clock, from answers to WRITEs; 0: none. */
    int64_t up_since, up_until; /* the first and the last with this verifier */
    uint64_t before;            /* the verifier before, */
    int64_t before_until;       /* and the last with that */
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
 * An export. All but what `lock` guards is constant once `state` is READY. Lives for ever.
 * FAILED is tried again after a while; REFUSED (not the same directory, not supported) is not.
 */
struct mount {
    const struct conf_export *conf;
    struct mount_server *server;
    const _Atomic bool *lost; /* as the server has it */
    char path[PATH_MAX];      /* of the mount, without symbolic links */
    size_t path_length;
    dev_t device;
    ino_t inode;
    bool kernel_nfs; /* the mount is a kernel NFS mount, not the exported directory itself; */
    struct reach_kernel_mount kernel; /* what the kernel's table says of it, else all false */
    _Atomic bool kernel_tells;        /* READY, and the root's handle is what the kernel told */
    /* Names server, export and version in the host registry, and with a fence the time since which
     * the host has it; */
    _Atomic uint64_t registry_key;
    uint64_t plain_key; /* without that; */
    uint64_t other_key; /* as the processes do that ask in the other version */

    _Atomic int state;       /* enum mount_state; written under `contact` */
    pthread_mutex_t contact; /* held while the server is contacted first: seconds */
    uint64_t retry_ns;       /* FAILED, or the root is stale: not before; under `contact` */
    enum reach_why why;      /* it is FAILED; likewise */
    unsigned stats_id;
    struct directnfs_mount_stats *_Atomic counted; /* NULL: not contacted yet, or not shown */
    uint32_t read_max, write_max;
    uint64_t size_max; /* of a file */

    _Atomic bool behind; /* this process, or one that it was forked from, wrote behind to it */
    _Atomic bool agent_wanted; /* files of it are written behind, or shall be */
    _Atomic unsigned
        agent_place;            /* where the agent is asked for its server, from 1 on; 0: nowhere */
    _Atomic int orphans_failed; /* -errno of what dead processes left; told by the next sync */
    _Atomic bool replaced;      /* there is another mount of the same export, made later */
    struct mount_teller teller;

    pthread_mutex_t look;      /* held while the root is looked at: seconds; guards */
    struct nfs_attr root_attr; /* what it was last seen to be, first when it was proven; */
    uint64_t looked_ns;        /* when it was last asked for, */
    int look_result;           /* and what came of that */

    pthread_mutex_t lock; /* guards what follows; held briefly */
    struct nfs_fh root;
    bool has_directories; /* the table was used: else its pages are not touched */
    struct mount_directory directories[MOUNT_DIRECTORIES]; /* a hash table without chains */
};

/* Is nothing to be had by this mount any more? It was never used, and another took its place. */
static inline bool mount_is_past(const struct mount *mount)
{
    return atomic_load(&mount->replaced) && atomic_load(&mount->state) != MOUNT_READY;
}

/* Does the kernel tell the handles of this mount that its server is asked by? */
static inline bool mount_has_handles(const struct mount *mount)
{
    return mount->kernel.speaks == mount->server->version;
}

/* Has another host taken the fence? Then each call fails with EIO. */
static inline bool mount_is_lost(const struct mount *mount)
{
    return __builtin_expect(mount->lost != NULL, false) &&
           atomic_load_explicit(mount->lost, memory_order_relaxed);
}

#endif
