/* Mounts: which server directory is seen where, and the way to it. Inside src/file only. */
#ifndef FILE_MOUNT_H
#define FILE_MOUNT_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/mountinfo.h"
#include "config/nfstab.h"
#include "config/tunables.h"
#include "file/sender.h"
#include "file/teller.h"
#include "nfs/nfs.h"
#include "reach/kernel.h"
#include "reach/reason.h"

/* The tunables; read once by file_start(), constant afterwards. */
extern struct conf_tunables file_tunables;

/* ledger_registry_open() with what the tunables say. */
int file_registry_open(void);
/* What failed may be tried again at once: the process has another user. */
void file_mounts_retry(void);
/* ledger_registry_move() likewise. */
int file_registry_move(void);
/* Why all files are the kernel's from some moment on; NULL: they are not. */
extern _Atomic(const char *) file_left_to_kernel;

/*
 * A server of the nfstab as this process talks to it; all its exports share it. `lock` guards the
 * verifier, and is held for a few instructions only. Lives for ever.
 */
struct file_server {
    const struct conf_server *conf;
    const struct nfs_version *version; /* a stanza is a server in each of its mounts' versions */
    struct nfs_session *session;       /* NULL: the version has none */
    const _Atomic bool *lost; /* of its fence, that is: to another host; NULL: it has none */
    struct net_server *net;   /* NULL until the first export was mounted */
    uint16_t mntport, nfsport;
    struct file_sender sender;
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

enum file_mount_state { FILE_MOUNT_NEW, FILE_MOUNT_READY, FILE_MOUNT_FAILED, FILE_MOUNT_REFUSED };

enum {
    FILE_MOUNTS_MAX = 256,
    FILE_DIRECTORIES = 1024,
    FILE_CONTACT_TIMEOUT_MS = 5000 /* for each question of the first contact */
};

/* The handle of a directory below a mount, by its path relative to it. */
struct file_directory {
    char *path;
    struct nfs_fh fh;
};

/*
 * An export. All but what `lock` guards is constant once `state` is READY. Lives for ever.
 * FAILED is tried again after a while; REFUSED (not the same directory, not supported) is not.
 */
struct file_mount {
    const struct conf_export *conf;
    struct file_server *server;
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

    _Atomic int state;       /* enum file_mount_state; written under `contact` */
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
    struct file_teller teller;

    pthread_mutex_t look;      /* held while the root is looked at: seconds; guards */
    struct nfs_attr root_attr; /* what it was last seen to be, first when it was proven; */
    uint64_t looked_ns;        /* when it was last asked for, */
    int look_result;           /* and what came of that */

    pthread_mutex_t lock; /* guards what follows; held briefly */
    struct nfs_fh root;
    bool has_directories; /* the table was used: else its pages are not touched */
    struct file_directory directories[FILE_DIRECTORIES]; /* a hash table without chains */
};

/* What each mount is given to when its first contact succeeded, under `contact`. Before
 * file_mounts_load(). */
void file_mounts_when_ready(void (*function)(struct file_mount *mount,
                                             const struct rpc_auth *auth));
/* Reads the configuration (file_start()). */
void file_mounts_load(void);
unsigned file_mount_count(void);
struct file_mount *file_mount_at(unsigned index);
/* Adds a mount. False: there are too many (said on the log), and it is freed. */
bool file_mounts_add(struct file_mount *mount);
/* Notes where the directory of this descriptor is, by its name. 0 or -errno. */
int file_mount_learn_path(struct file_mount *mount, int fd);
/* Around fork: nobody adds one, or changes one of them. */
void file_mounts_lock(void);
void file_mounts_unlock(void);

/*
 * Around chroot(): mounts are found by the names that they have below the new root directory.
 * `held` has room for FILE_MOUNTS_MAX descriptors.
 */
void file_root_prepare(int *held);
void file_root_changed(int *held);

/* Is any mount to be served, if it is there? */
bool file_mounts_configured(void);
/* Is nothing to be had by this mount any more? It was never used, and another took its place. */
static inline bool file_mount_is_past(const struct file_mount *mount)
{
    return atomic_load(&mount->replaced) && atomic_load(&mount->state) != FILE_MOUNT_READY;
}

/*
 * A regular file of a device that no mount has was opened: was one of ours mounted there after the
 * process began (late.c)? Then it is a mount from now on. Costs a load and the time of day for a
 * device that was asked for less than a second ago.
 */
bool file_mount_arrived(dev_t device);
/* Adds the mounts of this device, of exports at whose mount point the kernel's table has it. */
bool file_mounts_arrived(dev_t device, const struct conf_mountinfo *info);
/* Does the table say that files at this path are of the device? */
bool file_late_is_at(const struct conf_mountinfo *info, dev_t device, const char *path);
void file_late_fork_child(void);

/* The mount that has this absolute path below it on this device; NULL if none. */
struct file_mount *file_mount_find(dev_t device, const char *path);
/* Does the kernel tell the handles of this mount that its server is asked by? */
static inline bool file_mount_has_handles(const struct file_mount *mount)
{
    return mount->kernel.speaks == mount->server->version;
}
/* Is the device a kernel NFS mount of ours? */
bool file_mount_is_nfs(dev_t device);
bool file_mount_has_device(dev_t device);

/* A mount of this device; NULL: none. */
struct file_mount *file_mount_of_device(dev_t device);

/*
 * Makes the mount ready: gets the root's handle, proves that it is the same directory. 0, or
 * -errno with a reason (a string constant) for which its files stay with the kernel.
 */
int file_mount_contact(struct file_mount *mount, const char **reason);

/* Has another host taken the fence? Then each call fails with EIO. */
static inline bool file_mount_is_lost(const struct file_mount *mount)
{
    return __builtin_expect(mount->lost != NULL, false) &&
           atomic_load_explicit(mount->lost, memory_order_relaxed);
}

/*
 * Must an open of a file of the mount fail? So it must if the mount has a fence, and this host does
 * not have that, or could not be served yet: the kernel's client knows of no fence.
 */
bool file_mount_is_shut(struct file_mount *mount);

/* Is it ready, and this thread in another network namespace than its connections were, with none
 * left? Nothing can be asked of its server then: see net_server_is_abroad(). */
bool file_mount_is_abroad(const struct file_mount *mount);

/* The root's handle now. Another one, with what the server said of it when it was asked at
 * `asked_ns`: all handles of directories below it are forgotten. */
struct nfs_fh file_mount_root(struct file_mount *mount);
void file_mount_set_root(struct file_mount *mount, const struct nfs_fh *root,
                         const struct nfs_attr *attr, uint64_t asked_ns);

/* As file_mount_renew(), under `contact`. */
int file_root_renew(struct file_mount *mount, const struct rpc_auth *auth);
/*
 * Sees to it that the root's handle is good, after something below it was stale: asks the server,
 * and mounts again if it has to, for half a minute. 0, or -errno if that failed. Takes `contact`.
 */
int file_mount_renew(struct file_mount *mount, const struct rpc_auth *auth);

/*
 * May it be said that contacting the server had this result? Once a minute for all processes of the
 * host and, where it is no matter of this mount, for all mounts of the server. `what` tells several
 * lines apart.
 */
bool file_mount_may_say(const struct file_mount *mount, const char *what, int result);

/* The root of a mount, over the path that answered first. */
struct file_root {
    struct nfs_fh fh;
    bool told;            /* by the kernel */
    bool proven;          /* to be the directory at the mount point; then */
    struct nfs_attr attr; /* what the server said of it, */
    uint64_t asked_ns;    /* when it was asked at this time */
    /* Where this process has the server, if that said so; path NULL: it was another address. */
    const struct conf_path *path;
    struct sockaddr_storage peer;
};

/*
 * The root over the first path of the server that answers: *root, and server->net if this is its
 * first mount. The handle is the kernel's, if that tells one which the server knows as this
 * directory, or likewise the one of `fact` (NULL: none); else it is asked for by MOUNT. Waits 10 s
 * for all paths together, or mnt_timeout if that is less. What is wrong with paths is said on the
 * log. 0 or -errno.
 */
struct file_root_fact;
int file_paths_mount(struct file_mount *mount, const struct file_root_fact *fact,
                     struct file_root *root);

/* The client for calls on files of the mount with this credential. */
struct nfs_client file_mount_client(const struct file_mount *mount, const struct rpc_auth *auth);

/* Learns the name of this host, for all credentials; once. */
void file_auth_start(void);
/* The credential of the calling thread at this moment: immutable, kept for ever. NULL: no memory.
 */
const struct rpc_auth *file_auth_now(const struct file_mount *mount);

/*
 * Finds the handle of the file with this absolute path below the mount. Directory handles come from
 * the cache unless `fresh`. 0 or -errno.
 */
int file_mount_lookup(struct file_mount *mount, const struct rpc_auth *auth, const char *path,
                      bool fresh, struct nfs_fh *fh, struct nfs_post_attr *attr);

/* Notes the verifier that a reply to a call sent at `sent_ns` had, and by whose clock the call was
 * carried out at `told`; 0: that is not known. */
void file_server_saw(struct file_server *server, uint64_t verifier, uint64_t sent_ns, int64_t told);

/*
 * Was the server up at `time` of its clock, as far as this process was told? Then who changed a
 * file at that time was not a server that recovers: OpenZFS, for one, dates what it finds in its
 * log with the time at which it comes up. The file's uncommitted data tells of which instance it
 * was; `verifier` is that of the instance that is up now, as the COMMIT returned it.
 */
struct ledger_file;
bool file_server_was_up(struct file_server *server, uint64_t verifier, int64_t time,
                        struct ledger_file *file);

/*
 * The verifier of the instance of the server that is at the other end of a connection made at
 * `connected_ns` and still alive. False: not known; a COMMIT will tell.
 *
 * A connection never outlives an instance. One that existed when the verifier was seen, and still
 * does, leads to the instance that has it.
 */
bool file_server_verifier(struct file_server *server, uint64_t connected_ns, uint64_t *verifier);

void file_mounts_fork_prepare(void);
void file_mounts_fork_parent(void);
void file_mounts_fork_child(void);

/* A session with the server (a struct file_server) was made: from now on its lease is renewed
 * (lease.c). */
void file_lease_begin(void *server);
#endif
