/* Open files of this process. Inside the engine only. */
#ifndef FILE_INODE_H
#define FILE_INODE_H

#include <errno.h>

#include "directnfs/stats.h"
#include "file/file.h"
#include "mount/mount.h"
#include "ledger/stamp.h"
#include "ledger/writes.h"

/* A handle that a file got when the one before was stale. */
struct file_former {
    struct file_former *next;
    struct nfs_fh fh;
};

/*
 * A regular file that this process has, or had, open on a mount. One handle is one file. Inodes are
 * in a hash table by device and inode number; several files may have the same. Fields are constant
 * unless a comment says otherwise. Freed with its last open. A demoted one is kept if it must still
 * tell a loss.
 */
struct file_inode {
    struct file_inode *next; /* under file_lock */
    dev_t device;
    ino_t inode;
    unsigned opens;       /* under file_lock: users, which are open files and others */
    unsigned descriptors; /* under file_lock: how many slots of the table it has */
    int closing;    /* under file_lock: the last descriptor, until its close has committed; or 0 */
    bool forgotten; /* under file_lock: it is not in the hash table any more */
    _Atomic bool demoted;     /* then wait for busy == 0. Undone if it fails, abroad: fd/world.c */
    _Atomic bool demoting;    /* the demotion is not complete yet: others wait */
    _Atomic bool written;     /* by this process, through the engine */
    _Atomic bool pages_old;   /* written since a child or a close last dropped the kernel's pages */
    _Atomic bool arrived;     /* the server got data that the kernel does not know of: pages.h */
    _Atomic uint32_t awaited; /* the agent's number + 1 at the last wait abroad: fd/world.c */
    _Atomic bool locked;      /* this process has, or had, a lock on it */
    _Atomic bool loss_due;    /* this process found that data was lost: the next fsync tells it */
    _Atomic unsigned busy;    /* calls on it that use the engine now */
    _Atomic bool committing;  /* a thread makes an early COMMIT: see durable_commit_early() */
    _Atomic unsigned commit_shift; /* how often its bound is doubled: durable/early.c */
    _Atomic uint64_t committed_ns; /* when the last early COMMIT ended */
    _Atomic uint64_t opened_ns;    /* last open or lock: close-to-open, RFC 1813 section 4.11 */
    const char *reason;            /* of the demotion; under file_lock */
    struct mount *mount;
    const struct rpc_auth *auth;       /* under file_lock: the server granted it `access` */
    uint32_t access;                   /* under file_lock */
    _Atomic(const struct nfs_fh *) fh; /* replaced when it is stale (renew.c) ... */
    struct nfs_fh first_fh;
    struct file_former *formers; /* ... freed with the inode; under mount->contact */
    struct ledger_file entry;
    _Atomic bool behind_listed;              /* in the sender's list: durable/behind.c */
    _Atomic uint64_t behind_due_ns;          /* when all that is dirty then is to be sent */
    _Atomic bool behind_whole;               /* a whole WRITE may be dirty since it was looked at */
    _Atomic uint64_t behind_run, behind_end; /* bytes written in sequence, up to behind_end */
    struct file_inode *behind_next;
    _Atomic(const struct rpc_auth *) behind_auth; /* credential of the last write behind */
    _Atomic uint32_t hint;                        /* enum durable_hint: durable/hinted.c ... */
    bool hint_queued;                             /* ... whose lock is for the rest */
    uint64_t hint_ns;                             /* of the first hint since it was queued */
    struct file_inode *hint_next;
    /* For pages.c: under file_tell_lock, but for what is atomic. */
    bool arrived_listed;
    struct file_inode *arrived_next;
    _Atomic uint64_t told_ns; /* when the kernel was last told of data that arrived */
    char path[];              /* the path at its adoption, for messages */
};

/* What an open file has for reading ahead: ahead/ahead.h. */
#define FILE_AHEAD_NONE UINT64_MAX       /* nothing was read yet */
#define FILE_AHEAD_OFF  (UINT64_MAX - 1) /* no read follows another */
enum { FILE_AHEAD_ENDS = 16, FILE_AHEAD_UNITS = 32 };
struct file_ahead {
    _Atomic bool allowed;     /* it may be read ahead: ahead_allow() */
    _Atomic unsigned fetched; /* parts that were fetched, or are on their way */
    /* Where reads ended that are in no stream, or FILE_AHEAD_NONE or _OFF. By the MiB of the file,
     * so that readers of several pieces of it do not forget each other's. */
    _Atomic uint64_t ends[FILE_AHEAD_ENDS];
    /* In which units of the file the last of these reads began, and how many. */
    _Atomic uint32_t units[FILE_AHEAD_UNITS];
    /* Where the last READ that met it found the end of the file; FILE_AHEAD_NONE: none did. */
    _Atomic uint64_t file_end;
    pthread_mutex_t lock;          /* held briefly, unless no thread can be started */
    struct ledger_stamp end_stamp; /* taken before that READ; under `lock` */
    uint64_t end_asked_ns;         /* when that READ was sent; under `lock` */
    struct ahead_fetched *all;     /* the parts; NULL: there never were any; under `lock` */
};

/*
 * An open file description. `references` counts one for each descriptor in the table and one for
 * each file_get(). Its memory is used again, but never given back to the allocator, so that
 * file_get() may look at one that is being freed.
 */
struct file_open {
    _Atomic unsigned references;
    struct file_open *next_free; /* under file_lock */
    struct file_inode *inode;
    const struct rpc_auth *auth;
    int access; /* O_ACCMODE */
    enum nfs_stable stable;
    struct directnfs_file_stats *stats;
    /* For flags.c. */
    _Atomic uint64_t appends;    /* does it have O_APPEND, and since when that is known */
    _Atomic int64_t offset_owed; /* what the kernel's offset should be; -1: it is right */
    _Atomic uint64_t shares;     /* private to this process while the count of flags.c is this */
    pthread_mutex_t offset_lock; /* see file_offset_lock() */
    struct file_ahead ahead;
    _Atomic bool behind;              /* it may be written behind: durable_behind_allows() */
    _Atomic bool left;                /* it left something behind since a close last committed it */
    struct ledger_seen *_Atomic seen; /* the losses that it has told: loss.c; it points to ... */
    struct ledger_seen own_seen;      /* ... this before the first fork */
    struct file_seen_page *seen_page; /* under file_lock */
};

/* Is the file read as through the page cache, so that it may be read ahead? Not with O_DIRECT. */
static inline bool file_is_buffered(const struct file_open *open)
{
    return atomic_load_explicit(&open->ahead.allowed, memory_order_relaxed);
}

/* Guards the table of descriptors, the hash table of inodes, and the fields that say so. Held
 * briefly. */
extern pthread_mutex_t file_lock;

/* The file was opened, or locked, at that time: what the server said before is old. The time never
 * goes back: of several threads, one may have begun to open the file before another got a lock. */
static inline void file_inode_opened_at(struct file_inode *inode, uint64_t at_ns)
{
    uint64_t known = atomic_load(&inode->opened_ns);
    while (known < at_ns && !atomic_compare_exchange_weak(&inode->opened_ns, &known, at_ns))
        ;
}

static inline void file_inode_note_written(struct file_inode *inode)
{
    if (!atomic_load_explicit(&inode->written, memory_order_relaxed))
        atomic_store_explicit(&inode->written, true, memory_order_relaxed);
    if (!atomic_load_explicit(&inode->pages_old, memory_order_relaxed))
        atomic_store_explicit(&inode->pages_old, true, memory_order_relaxed);
}

/* Brackets a call that uses the engine. False: the file is demoted; make the real call. It has
 * waited then until nothing of the engine can come over what the kernel writes. If the file cannot
 * be demoted, as this process is abroad, calls go on here, and fail. */
bool file_inode_enter_many(struct file_inode *inode, unsigned calls);
static inline bool file_inode_enter(struct file_inode *inode)
{
    return file_inode_enter_many(inode, 1);
}
/* For a caller that has entered, and makes a request that ends later than the call. */
static inline void file_inode_enter_again(struct file_inode *inode)
{
    atomic_fetch_add(&inode->busy, 1);
}
static inline void file_inode_leave_many(struct file_inode *inode, unsigned calls)
{
    atomic_fetch_sub_explicit(&inode->busy, calls, memory_order_release);
}
static inline void file_inode_leave(struct file_inode *inode)
{
    file_inode_leave_many(inode, 1);
}

/* Finds the inode with this handle, and counts a user of it. NULL: this process does not have it.
 */
struct file_inode *file_inode_find(dev_t device, ino_t number, const struct nfs_fh *fh);
/* The only inode with this number, with a user counted. NULL: there are several, or none. */
struct file_inode *file_inode_only(dev_t device, ino_t number);
/* The next inode with this number after `last`, or the first if that is NULL. Counts a user of it,
 * and gives back the user of `last`. NULL: no more. */
struct file_inode *file_inode_next(dev_t device, ino_t number, struct file_inode *last);
/* Makes an inode like this one, or returns the one that another thread just made, with a user
 * counted. NULL: no memory. */
struct file_inode *file_inode_make(const struct file_inode *like, const char *path);
/* Counts one user more. The first is for callers that have one. The second is for others: false if
 * there is no user at all. The third gives a user back. */
void file_inode_hold(struct file_inode *inode);
bool file_inode_hold_used(struct file_inode *inode);
void file_inode_release(struct file_inode *inode);
/* The credential that was granted access last; NULL: none was yet. */
const struct rpc_auth *file_inode_auth(const struct file_inode *inode);
/* How many descriptors of the inode the table has. */
unsigned file_inode_descriptors(const struct file_inode *inode);
/* A descriptor of the inode, which may be closed at any time; -1: none. */
int file_inode_descriptor(const struct file_inode *inode);
/* Its number belongs to another file now: nobody finds the inode any more. */
void file_inode_forget(struct file_inode *inode);
/* Calls visit(inode, context) for each inode in the hash table, without the lock, with a user
 * counted. */
void file_inode_each(void (*visit)(struct file_inode *inode, void *context), void *context);

/* Takes the next descriptor of the inode, from *fd on, out of the table. *fd becomes the number
 * after it. NULL: there is none. */
struct file_open *file_table_take(const struct file_inode *inode, int *fd);

/* Memory for a new open file description; NULL: there is none. Under file_lock. */
struct file_open *file_open_take(void);
/* Enters `open` at `fd`, or nothing if it is NULL. Returns what was there. Under file_lock. */
struct file_open *file_table_set(int fd, struct file_open *open);

/* Does the number still stand for the file? Another thread may have closed the descriptor. Then the
 * number may be another file's by now, and that file's offset is not ours to move. */
bool file_open_is_at(const struct file_open *open, int fd);

/* One more than the highest descriptor that ever was in the table. */
int file_table_limit(void);

/* In the child of fork(), which has no threads of the parent. The first is called under file_lock,
 * which was taken before the fork. The second frees inodes that only those threads used. */
void file_table_after_fork(void);
void file_inodes_after_fork(void);

#endif
