/* Open files of this process. Inside src/file only. */
#ifndef FILE_INODE_H
#define FILE_INODE_H

#include <errno.h>

#include "directnfs/stats.h"
#include "file/file.h"
#include "file/mount.h"
#include "ledger/stamp.h"
#include "ledger/writes.h"

/* A handle that a file got when the one before was stale. */
struct file_former {
    struct file_former *next;
    struct nfs_fh fh;
};

/*
 * A regular file that this process has, or had, open on a mount. One handle is one file. They are
 * in a hash table by device and inode number, which several files may have in common. Fields are
 * constant unless a comment says otherwise. Freed with its last open. A demoted one is remembered,
 * so that a later open does not see the file through both worlds.
 */
struct file_inode {
    struct file_inode *next; /* under file_lock */
    dev_t device;
    ino_t inode;
    unsigned opens;       /* under file_lock: file_open objects, and openers that just use it */
    unsigned descriptors; /* under file_lock: slots of the table */
    int closing;    /* under file_lock: the last of them, until its close has committed; or 0 */
    bool forgotten; /* under file_lock: not in the hash table any more */
    _Atomic bool demoted;   /* then wait for busy == 0. Undone by who is abroad, in vain: world.c */
    _Atomic bool demoting;  /* the demotion is not complete yet: others wait for it */
    _Atomic bool written;   /* by this process, through the engine */
    _Atomic bool pages_old; /* and since a child or a close last dropped the kernel's pages */
    _Atomic bool arrived;   /* data came to the server of which the kernel has not heard: pages.h */
    _Atomic uint32_t awaited; /* from abroad, in vain perhaps: with which agent (world.c); 0: not */
    _Atomic bool locked;      /* this process has, or had, a lock on it */
    _Atomic bool loss_due;   /* this process found that data was lost: the next fsync must say so */
    _Atomic unsigned busy;   /* calls on it that are using the engine */
    _Atomic bool committing; /* a thread makes an early COMMIT: see file_commit_early() */
    _Atomic unsigned commit_shift;
    _Atomic uint64_t committed_ns;
    _Atomic uint64_t opened_ns; /* last open: close-to-open consistency, RFC 1813 section 4.11 */
    const char *reason;         /* of the demotion; under file_lock */
    struct file_mount *mount;
    const struct rpc_auth *auth;       /* under file_lock: granted `access` by the server */
    uint32_t access;                   /* under file_lock */
    _Atomic(const struct nfs_fh *) fh; /* replaced when it became stale (renew.c) ... */
    struct nfs_fh first_fh;
    struct file_former *formers; /* ... and never freed before the inode; under mount->contact */
    struct ledger_file entry;
    _Atomic bool behind_listed;              /* for behind.c */
    _Atomic uint64_t behind_due_ns;          /* when all that is dirty is to be sent */
    _Atomic uint64_t behind_run, behind_end; /* bytes written one after the other, up to there */
    struct file_inode *behind_next;
    _Atomic(const struct rpc_auth *) behind_auth; /* of who wrote behind last */
    /* For pages.c; under its lock but what is atomic. */
    bool arrived_listed;
    struct file_inode *arrived_next;
    _Atomic uint64_t told_ns; /* when the kernel was last told of what arrived */
    char path[];              /* when it was adopted; for messages */
};

/* What an open file has for ahead.c. */
#define FILE_AHEAD_NONE UINT64_MAX       /* nothing was read yet */
#define FILE_AHEAD_OFF  (UINT64_MAX - 1) /* no read follows another */
enum { FILE_AHEAD_ENDS = 16, FILE_AHEAD_UNITS = 32 };
struct file_ahead {
    _Atomic bool allowed;     /* the file is read, and not with O_DIRECT */
    _Atomic unsigned fetched; /* parts that were asked for, and not used up */
    /* Where reads ended that follow no other, or as above; by the MiB, so that readers of several
     * pieces of the file do not forget one another's. */
    _Atomic uint64_t ends[FILE_AHEAD_ENDS];
    /* In which units of the file the last of these reads were, and how many. */
    _Atomic uint32_t units[FILE_AHEAD_UNITS];
    /* Where the file ended by the last READ that met its end; FILE_AHEAD_NONE: by none. */
    _Atomic uint64_t file_end;
    pthread_mutex_t lock;          /* briefly, but where no thread can be started */
    struct ledger_stamp end_stamp; /* before that READ; `lock` */
    uint64_t end_asked_ns;         /* when it was sent; `lock` */
    struct file_fetched *all;      /* the parts; NULL: there never was any; `lock` */
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
    enum nfs_stable stable;
    struct directnfs_file_stats *stats;
    /* For append.c. */
    _Atomic uint64_t appends;    /* has it O_APPEND, and since when that is known */
    _Atomic int64_t offset_owed; /* what the kernel's offset should be; -1: what it is */
    _Atomic uint64_t shares;     /* private to this process while no more than these */
    pthread_mutex_t offset_lock; /* see file_offset_lock() */
    struct file_ahead ahead;
    _Atomic bool behind; /* it is written, and not with O_DIRECT: see behind.h */
    _Atomic bool left;   /* it left something behind since it was last committed at a close */
    struct ledger_seen *_Atomic seen; /* seen.c; it is ... */
    struct ledger_seen own_seen;      /* ... this one before the first fork */
    struct file_seen_page *seen_page; /* under file_lock */
};

/* Guards the table of descriptors, the hash of inodes and what says so above. Held briefly. */
extern pthread_mutex_t file_lock;

/* It was opened, or locked, at that time: what the server said before is no news. Never goes back:
 * of several threads one may have begun to open it before another one got a lock. */
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

/* Brackets a call that uses the engine. False: the file is demoted, make the real call. That has
 * waited then until nothing of the engine can come over what the kernel writes. Where it cannot be
 * demoted, as this process is abroad, calls go on here, and fail. */
bool file_inode_enter_many(struct file_inode *inode, unsigned calls);
static inline bool file_inode_enter(struct file_inode *inode)
{
    return file_inode_enter_many(inode, 1);
}
/* By who has entered, for a call that ends later than its own. */
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

/* Finds the inode with this handle and counts a user of it; NULL if this process does not know it.
 */
struct file_inode *file_inode_find(dev_t device, ino_t number, const struct nfs_fh *fh);
/* The only one with this number, with a user counted; NULL: there are several, or none. */
struct file_inode *file_inode_only(dev_t device, ino_t number);
/* The next inode with this number after `last`, or the first if that is NULL. Counts a user of it,
 * and gives back that of `last`. NULL: no more. */
struct file_inode *file_inode_next(dev_t device, ino_t number, struct file_inode *last);
/* Makes it (or returns the one that another thread just made); NULL: no memory. */
struct file_inode *file_inode_make(const struct file_inode *like, const char *path);
/* Counts a user more, by who has one; or by who has none: false, if there is none at all. */
void file_inode_hold(struct file_inode *inode);
bool file_inode_hold_used(struct file_inode *inode);
void file_inode_release(struct file_inode *inode);
/* The credential that was granted access last; NULL: none was. */
const struct rpc_auth *file_inode_auth(const struct file_inode *inode);
/* How many descriptors of it the table has. */
unsigned file_inode_descriptors(const struct file_inode *inode);
/* A descriptor of it, which may be closed at any time; -1: none. */
int file_inode_descriptor(const struct file_inode *inode);
/* Its number belongs to another file now: nobody finds it any more. */
void file_inode_forget(struct file_inode *inode);
/* Calls visit(inode, context) for each inode in use, without the lock. */
void file_inode_each(void (*visit)(struct file_inode *inode, void *context), void *context);

/* Takes the next descriptor of the inode, from *fd on, out of the table; *fd is behind it then.
 * NULL: there is none. */
struct file_open *file_table_take(const struct file_inode *inode, int *fd);

/* Memory for a new open file description; NULL: there is none. Under file_lock. */
struct file_open *file_open_take(void);
/* Enters it at `fd`, or nothing if it is NULL. Returns what was there. Under file_lock. */
struct file_open *file_table_set(int fd, struct file_open *open);

/* Does the number still stand for the file? Another thread may have closed the descriptor, and the
 * number may be another file's by now, whose offset is not ours to move. */
bool file_open_is_at(const struct file_open *open, int fd);

/* One more than the highest descriptor that ever was in the table. */
int file_table_limit(void);

/* In the child of fork(), where threads of the parent do not exist: the first under file_lock,
 * which was taken before; the second frees inodes that only those threads used. */
void file_table_after_fork(void);
void file_inodes_after_fork(void);

#endif
