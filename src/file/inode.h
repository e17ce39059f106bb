/* Open files of this process. Inside src/file only. */
#ifndef FILE_INODE_H
#define FILE_INODE_H

#include <errno.h>

#include "directnfs/stats.h"
#include "file/file.h"
#include "file/mount.h"
#include "host/registry.h"

/* A handle that a file got when the one before was stale. */
struct file_former {
    struct file_former *next;
    struct nfs3_fh fh;
};

/*
 * A regular file that this process has (or had) open on a mount: what has one handle. In the hash
 * table by device and inode number, which several files may have. Fields are constant but for what
 * is marked. Freed with its last open, unless it is demoted: that is remembered, so that a later
 * open does not see the file through both worlds.
 */
struct file_inode {
    struct file_inode *next; /* under file_lock */
    dev_t device;
    ino_t inode;
    unsigned opens;       /* under file_lock: file_open objects, and openers that just use it */
    unsigned descriptors; /* under file_lock: slots of the table */
    int closing;    /* under file_lock: the last of them, until its close has committed; or 0 */
    bool forgotten; /* under file_lock: not in the hash table any more */
    _Atomic bool demoted;    /* set once; then wait for busy == 0 */
    _Atomic bool settling;   /* the demotion is not complete yet: others wait for it */
    _Atomic bool written;    /* by this process, through the engine */
    _Atomic bool lost;       /* the handle became stale and data was lost: for the next fsync */
    _Atomic unsigned busy;   /* calls on it that are using the engine */
    _Atomic bool committing; /* a thread makes an early COMMIT: see file_commit_early() */
    _Atomic unsigned commit_shift;
    _Atomic uint64_t committed_ns;
    _Atomic uint64_t opened_ns; /* last open: close-to-open consistency, RFC 1813 section 4.11 */
    const char *reason;         /* of the demotion; under file_lock */
    struct file_mount *mount;
    const struct rpc_auth *auth;        /* under file_lock: granted `access` by the server */
    uint32_t access;                    /* under file_lock */
    _Atomic(const struct nfs3_fh *) fh; /* replaced when it became stale (renew.c) ... */
    struct nfs3_fh first_fh;
    struct file_former *formers; /* ... and never freed before the inode; under mount->contact */
    struct host_file host;
    char path[]; /* when it was adopted; for messages */
};

/*
 * An open file description. `references` counts one for each descriptor in the table and one for
 * each file_get(). Memory is never given back to the allocator, so that file_get() may look at one
 * that is being freed.
 */
struct file_open {
    _Atomic unsigned references;
    struct file_open *next_free; /* under file_lock */
    struct file_inode *inode;
    const struct rpc_auth *auth;
    int access; /* O_ACCMODE */
    enum nfs3_stable stable;
    struct directnfs_file_stats *stats;
    /* Of append.c. */
    _Atomic uint64_t appends;    /* has it O_APPEND, and since when that is known */
    _Atomic int64_t offset_owed; /* what the kernel's offset should be; -1: what it is */
    _Atomic uint64_t shares;     /* private to this process while no more than these */
    pthread_mutex_t offset_lock; /* see file_offset_lock() */
};

/* Guards the table of descriptors, the hash of inodes and what says so above. Held briefly. */
extern pthread_mutex_t file_lock;

/* Brackets a call that uses the engine. False: the file is demoted, make the real call. That has
 * waited then until nothing of the engine can come over what the kernel writes. */
bool file_inode_enter(struct file_inode *inode);
bool file_inode_enter_many(struct file_inode *inode, unsigned calls);
void file_inode_leave(struct file_inode *inode);
void file_inode_leave_many(struct file_inode *inode, unsigned calls);

/* Finds the inode with this handle and counts a user of it; NULL if this process does not know it.
 */
struct file_inode *file_inode_find(dev_t device, ino_t number, const struct nfs3_fh *fh);
/* The only one with this number, with a user counted; NULL: there are several, or none. */
struct file_inode *file_inode_only(dev_t device, ino_t number);
/* The next inode with this number after `last`, or the first if that is NULL. Counts a user of it,
 * and gives back that of `last`. NULL: no more. */
struct file_inode *file_inode_next(dev_t device, ino_t number, struct file_inode *last);
/* Makes it (or returns the one that another thread just made); NULL: no memory. */
struct file_inode *file_inode_make(const struct file_inode *like, const char *path);
void file_inode_release(struct file_inode *inode);
/* How many descriptors of it the table has. */
unsigned file_inode_descriptors(const struct file_inode *inode);
/* A descriptor of it, which may be closed at any time; -1: none. */
int file_inode_descriptor(const struct file_inode *inode);
/* Its number belongs to another file now: nobody finds it any more. */
void file_inode_forget(struct file_inode *inode);
/* Calls visit(inode, context) for each inode in use, without the lock. */
void file_inode_each(void (*visit)(struct file_inode *inode, void *context), void *context);

/* Takes the next descriptor of the inode, from *fd on, out of the table; *fd is behind it then. NULL:
 * there is none. */
struct file_open *file_table_take(const struct file_inode *inode, int *fd);

/* Enters a new open file description at `fd`. Takes over the caller's use of the inode. 0/-ENOMEM
 */
int file_table_enter(int fd, struct file_inode *inode, const struct rpc_auth *auth, int flags);

/* Does the number still stand for the file? Another thread may have closed the descriptor, and the
 * number may be another file's by now, whose offset is not ours to move. */
bool file_open_is_at(const struct file_open *open, int fd);

/* One more than the highest descriptor that ever was in the table. */
int file_table_limit(void);

/* ---- appending (append.c) ---- */

/* A new open file, opened with these flags. */
void file_append_open(struct file_open *open, int flags);
/* The same in the child of fork(). */
void file_append_child(struct file_open *open);
/* A write at the end of the file; `move`: the offset goes to the end of it. As file_pwritev(). */
ssize_t file_append(struct file_open *open, int fd, const struct iovec *vectors, int count,
                    int flags, bool move);
/* The kernel's offset becomes what it should be, before something looks at it or moves it. */
void file_offset_settle(struct file_open *open, int fd);
/*
 * Between these nobody else that uses the library moves the offset of this open file description:
 * no thread, and no process if others may have it. May wait for a READ.
 */
enum file_offset_lock { FILE_OFFSET_FREE, FILE_OFFSET_PRIVATE, FILE_OFFSET_SHARED };
enum file_offset_lock file_offset_lock(struct file_open *open);
void file_offset_unlock(struct file_open *open, enum file_offset_lock lock);

/* ---- stale handles (renew.c) ---- */

/*
 * The handle that a call is made with. Around each call on the inode's handle:
 *   struct file_handle_use use = file_inode_use(inode);
 *   do
 *       result = nfs3_...(&client, use.fh, ...);
 *   while (result == -ESTALE && file_inode_renew(inode, auth, &use));
 */
struct file_handle_use {
    const struct nfs3_fh *fh; /* good as long as the inode is */
    unsigned renewals;
};
struct file_handle_use file_inode_use(struct file_inode *inode);

/*
 * The server says that the handle is stale. True: by name, and by the proof that it still is the
 * same file, it has another one now; ask again. False, after a few times and where there is no
 * proof (said on the log): the file is not to be reached. Mounts again when the export's root is
 * stale too, for up to half a minute.
 */
bool file_inode_renew(struct file_inode *inode, const struct rpc_auth *auth,
                      struct file_handle_use *use);

/* How the registry knows a file of the mount with this handle. */
struct host_file_key file_registry_key(dev_t device, ino_t number, struct file_mount *mount,
                                       const struct nfs3_fh *fh);
/* How it may know the file of a descriptor: by its handle if the kernel tells that, else by its
 * number. */
struct host_file_key file_key_of(int fd, const struct stat *status);
/*
 * The handle of `host` is stale for good: is the file gone, so that nobody misses what was written
 * to it? Else others may yet find it again. inode: NULL if this process has none.
 */
bool file_is_removed(struct file_mount *mount, const struct rpc_auth *auth,
                     const struct host_file *host, const struct file_inode *inode);
/* Bytes that were not committed are lost: said on the log, and by the next fsync. */
void file_inode_lost(struct file_inode *inode, uint64_t bytes);

/* The path of an open file, as the kernel names it. False when it cannot be had. */
bool file_path_of(int fd, char path[PATH_MAX]);

/* ---- durability (commit.c) ---- */

/*
 * COMMITs the file, and writes again what the server lost. Returns 0 when all data that any process
 * of this host had written before the call is on stable storage; -EIO when data is lost; -ESTALE
 * when the file is gone; or what the server said. *rewritten (may be NULL): bytes written again.
 */
int file_inode_commit(struct file_inode *inode, const struct rpc_auth *auth, uint64_t *rewritten);

/* Makes room in the ledger by committing files, this one first. */
void file_commit_for_room(struct file_inode *inode, const struct rpc_auth *auth);

/*
 * The kernel is about to write the file. Nothing that the ledger has, or gets from writes in flight
 * in any process, may be written again over that: it is committed, and later writes are stable.
 * 0, or -errno of the COMMIT: then there is data left.
 */
int file_inode_commit_for_kernel(struct file_inode *inode, const struct rpc_auth *auth);
/* The same for a file of the registry. */
int file_commit_for_kernel(struct file_mount *mount, const struct rpc_auth *auth,
                           struct host_file *file);

/* COMMITs all files that the key may name (host_file_find()). 0, or -errno of the first that
 * failed, as an application may hear it. */
int file_commit_named(const struct host_file_key *key);

/* Commits what processes that died left behind on a mount that was just contacted. */
void file_commit_orphans(struct file_mount *mount, const struct rpc_auth *auth);

/* Set at exit: no one will COMMIT any more. */
extern _Atomic bool file_finishing;

/* ---- input and output (io.c) ---- */

/* What the layers below say of the server and of the way to it, as an application may hear it from
 * a file; other results pass. */
static inline ssize_t file_posix_error(ssize_t result)
{
    switch (result) {
    case -EBADMSG:
    case -EREMOTEIO:
    case -EPROTONOSUPPORT:
        return -EIO;
    case -ECONNREFUSED: /* connecting failed until soft_timeout was over */
    case -ECONNRESET:
    case -EHOSTUNREACH:
    case -EHOSTDOWN:
    case -ENETUNREACH:
    case -ENETDOWN:
    case -EADDRNOTAVAIL:
    case -EADDRINUSE:
        return -ETIMEDOUT;
    default:
        return result;
    }
}

/* What a read or write with these arguments may do: its length, 0 for nothing, or -errno. */
ssize_t file_read_check(const struct file_open *open, const struct iovec *vectors, int count,
                        off_t offset, int flags);
ssize_t file_write_check(const struct file_open *open, const struct iovec *vectors, int count,
                         off_t offset, int flags, enum nfs3_stable *stable);

/* A write, or a part of one. */
struct file_piece {
    const struct iovec *vectors;
    int count;
    size_t length;
    bool only_extends; /* only if the file ends where the piece begins, or before */
    bool appends;      /* the caller has the turn */
    size_t taken;      /* result of one that appends and failed: the server has its beginning */
};
/* Writes all of it, between enter and leave. Returns its length, less if an error came after some
 * bytes, or -errno. `taken` changes. */
ssize_t file_write_at(struct file_open *open, struct file_piece *all, uint64_t offset,
                      enum nfs3_stable stable);

/* Has the process a limit of file sizes (RLIMIT_FSIZE)? */
bool file_size_is_limited(void);
/* Bytes that it may write from `offset` on; none: -EFBIG, and the signal that goes with it. */
int64_t file_size_room(uint64_t offset);

/* The end of a call that entered: leaves. What the engine cannot serve (any more) is the kernel's, and
 * FILE_KERNEL; errors are what an application may hear. */
ssize_t file_finish_call(struct file_open *open, ssize_t result);
/* Reads, between enter and leave. -ESTALE: see file_inode_demote(). */
ssize_t file_read_at(struct file_open *open, const struct iovec *vectors, int count, size_t length,
                     off_t offset);
/* Writes some zeros at `offset`, up to `length`, if the file does not reach farther; no write of
 * this host is overtaken. Returns how many, 0 if it does, or as file_pwritev(). */
ssize_t file_extend(struct file_open *open, uint64_t offset, size_t length);
/*
 * Data that was acknowledged but is not committed may be missing from what a server tells that
 * restarted since. True if that can be: a COMMIT will find out, and write it again. `replays` is
 * host_file_read_epoch() of before the read.
 */
bool file_read_is_suspect(struct file_inode *inode, const struct nfs3_transfer *transfer,
                          uint64_t replays);

/* The ledger cannot note a write, not even without its data: the file must go to the kernel. */
enum { FILE_NO_ROOM = -EXFULL };
extern const char file_no_room[];

/*
 * Enters a write of at most HOST_WRITE_MAX bytes into the ledger, finding room by COMMITs; *stable
 * becomes FILE_SYNC when there is none. `keep` of the beginning is set here. -EAGAIN: a write in
 * flight is in the way, and the caller does not `wait`. FILE_NO_ROOM. HOST_OF_KERNEL.
 */
int file_write_announce(struct file_open *open, struct host_beginning *beginning,
                        enum nfs3_stable *stable, bool wait);
/* WRITE of all of it, from `vectors`. 0 or -errno. */
int file_write_send(struct file_open *open, struct host_write *write, const struct iovec *vectors,
                    int count, enum nfs3_stable stable, struct nfs3_transfer *transfer);
/*
 * Servers tell an error of their disk once, to the call that makes them write to it. May a WRITE
 * that was to reach the disk at once have been told one that concerns other data of the file?
 * `repeated`: it was sent more than once.
 */
static inline bool file_write_is_doubtful(enum nfs3_stable stable, int result, bool repeated)
{
    bool failed = result != 0 && result != -ESTALE && result != -EAGAIN;
    return stable != NFS3_UNSTABLE && (failed || repeated);
}
/* What the server said of a write that went well: how it ends in the ledger. Never waits. */
void file_write_judge(struct file_open *open, struct host_write *write,
                      const struct nfs3_transfer *transfer, uint64_t asked_ns, uint64_t epoch,
                      struct host_ending *ending);
/* The same for one that may have failed, and ends it. Returns `result`. */
int file_write_conclude(struct file_open *open, struct host_write *write, int result,
                        const struct nfs3_transfer *transfer, uint64_t asked_ns, uint64_t epoch);
/* COMMITs a file that has more uncommitted data than is good, or than the tunable allows. */
void file_commit_early(struct file_inode *inode, const struct rpc_auth *auth);

/* ---- attributes (attributes.c) ---- */

void file_attributes_convert(const struct nfs3_attr *attr, struct host_attributes *attributes);

/* Attributes that the server told when it was asked at this time or later are fresh: actimeo. */
uint64_t file_fresh_since(struct file_inode *inode);
/* Asks for the attributes. 0 or -errno of GETATTR. */
int file_inode_ask(struct file_inode *inode, const struct rpc_auth *auth,
                   struct host_attributes *attributes);
/* The same, if those that are known are not fresh. */
int file_inode_attributes(struct file_inode *inode, const struct rpc_auth *auth,
                          struct host_attributes *attributes);

/* Held while this process changes the flags of a descriptor (append.c), whoever wants it: briefly. */
extern pthread_mutex_t file_flags_lock;

/* ---- the two worlds (world.c) ---- */

/* Moves the file to the kernel's world: see file_demote(). The caller is not between enter and
 * leave. */
int file_inode_demote(struct file_inode *inode, const struct rpc_auth *auth, const char *reason);
/* Follows another process, which moved it there. */
void file_inode_follow(struct file_inode *inode);

/*
 * A descriptor that can write the file stays with the kernel, though it may never have been proven
 * which one it is on the server: all files with its number go to the kernel's world, and no process
 * adopts one of them as long as this one lives.
 */
void file_world_claim(struct file_mount *mount, const struct stat *status, const char *path,
                      const char *reason);
/* A descriptor of a file that is in the kernel's world already stays there. Returns why. */
const char *file_world_stay(struct file_inode *inode);
/* `fd` was just opened: may the engine serve the file? One in the kernel's world that nobody pins
 * any more comes back. */
bool file_world_is_ours(struct file_inode *inode, const struct rpc_auth *auth, int fd);

/*
 * What was written through the engine is seen through the kernel: on a kernel NFS mount its cached
 * pages are dropped, which it takes for good while anybody here has the file open for writing.
 * Called where that is promised: after COMMIT, synchronous writes and the close of a written file.
 */
void file_pages_drop(const struct file_mount *mount, int fd);
/* The same before a use of the descriptor that goes by the kernel; it learns the size as well. */
void file_pages_fresh(const struct file_mount *mount, int fd);

#endif
