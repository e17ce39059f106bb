/* The table of descriptors, open file descriptions and inodes. */
#include <stdlib.h>
#include <string.h>

#include "file/flags.h"
#include "file/inode.h"
#include "file/enter.h"
#include "file/loss.h"
#include "file/pages.h"
#include "file/table.h"
#include "file/upper.h"
#include "ledger/uncommitted.h"
#include "stats/count.h"
#include "sys/alloc.h"
#include "sys/large.h"
#include "sys/sys.h"

enum { INODE_BUCKETS = 4096, OPENS_AT_ONCE = 64 };

SYS_LARGE _Atomic(struct file_open *) file_table[FILE_TABLE_SIZE];
pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;

static SYS_LARGE struct file_inode *inodes[INODE_BUCKETS]; /* under file_lock */
static unsigned inode_count;         /* of those in `inodes`; under file_lock */
static struct file_open *free_opens; /* under file_lock */
static _Atomic int table_top = -1;   /* no managed descriptor has a higher number */

/* ---- inodes ---- */

static struct file_inode **bucket_of(dev_t device, ino_t number)
{
    uint64_t hash = ((uint64_t)number ^ (uint64_t)device << 32) * 0x9e3779b97f4a7c15u;
    return &inodes[hash >> 52];
}

/* The next inode with this number in the list, from this one on. */
static struct file_inode *of_number(struct file_inode *inode, dev_t device, ino_t number)
{
    while (inode && (inode->inode != number || inode->device != device))
        inode = inode->next;
    return inode;
}

static bool has_handle(const struct file_inode *inode, const struct nfs_fh *fh)
{
    return nfs_same_fh(atomic_load(&inode->fh), fh);
}

/* Under file_lock. */
static struct file_inode *find_locked(dev_t device, ino_t number, const struct nfs_fh *fh)
{
    struct file_inode *inode = of_number(*bucket_of(device, number), device, number);
    while (inode && !has_handle(inode, fh))
        inode = of_number(inode->next, device, number);
    return inode;
}

struct file_inode *file_inode_find(dev_t device, ino_t number, const struct nfs_fh *fh)
{
    pthread_mutex_lock(&file_lock);
    struct file_inode *inode = find_locked(device, number, fh);
    if (inode)
        inode->opens++;
    pthread_mutex_unlock(&file_lock);
    return inode;
}

struct file_inode *file_inode_next(dev_t device, ino_t number, struct file_inode *last)
{
    pthread_mutex_lock(&file_lock);
    struct file_inode *from = last && !last->forgotten ? last->next : *bucket_of(device, number);
    struct file_inode *inode = of_number(from, device, number);
    if (inode)
        inode->opens++;
    pthread_mutex_unlock(&file_lock);
    if (last)
        file_inode_release(last);
    return inode;
}

struct file_inode *file_inode_only(dev_t device, ino_t number)
{
    pthread_mutex_lock(&file_lock);
    struct file_inode *inode = of_number(*bucket_of(device, number), device, number);
    if (inode && of_number(inode->next, device, number))
        inode = NULL;
    if (inode)
        inode->opens++;
    pthread_mutex_unlock(&file_lock);
    return inode;
}

struct file_inode *file_inode_make(const struct file_inode *like, const char *path)
{
    size_t path_size = strlen(path) + 1;
    struct file_inode *made = sys_alloc(sizeof(*made) + path_size);
    if (!made)
        return NULL;
    memcpy(made, like, sizeof(*made));
    memcpy(made->path, path, path_size);
    atomic_store(&made->fh, &made->first_fh);
    made->opens = 1;
    pthread_mutex_lock(&file_lock);
    struct file_inode *known = find_locked(like->device, like->inode, &made->first_fh);
    if (known) {
        known->opens++;
    } else {
        struct file_inode **bucket = bucket_of(like->device, like->inode);
        made->next = *bucket;
        *bucket = made;
        inode_count++;
    }
    pthread_mutex_unlock(&file_lock);
    if (known)
        sys_free(made);
    return known ? known : made;
}

/* Takes it out of the hash table. Under file_lock. */
static void forget_locked(struct file_inode *inode)
{
    struct file_inode **at = bucket_of(inode->device, inode->inode);
    if (inode->forgotten)
        return;
    while (*at != inode)
        at = &(*at)->next;
    *at = inode->next;
    inode_count--;
    inode->forgotten = true;
}

void file_inode_forget(struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    forget_locked(inode);
    pthread_mutex_unlock(&file_lock);
}

/* Must the inode be kept after its last close? Yes, if descriptors that the kernel serves now must
 * still report a loss at their next fsync. */
static bool owes_loss(struct file_inode *inode)
{
    return atomic_load(&inode->demoted) && !inode->forgotten &&
           (atomic_load(&inode->loss_due) || ledger_file_has_loss(&inode->entry));
}

void file_inode_hold(struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    inode->opens++;
    pthread_mutex_unlock(&file_lock);
}

bool file_inode_hold_used(struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    bool used = inode->opens > 0;
    inode->opens += used;
    pthread_mutex_unlock(&file_lock);
    return used;
}

static void inode_free(struct file_inode *inode)
{
    while (inode->formers) {
        struct file_former *former = inode->formers;
        inode->formers = former->next;
        sys_free(former);
    }
    sys_free(inode);
}

void file_inode_release(struct file_inode *inode)
{
    bool last = false;
    pthread_mutex_lock(&file_lock);
    if (--inode->opens == 0 && !owes_loss(inode)) {
        forget_locked(inode);
        last = true;
    }
    pthread_mutex_unlock(&file_lock);
    if (last) {
        file_pages_forget(inode);
        inode_free(inode);
    }
}

/* The inode after `held`, which is in that bucket; the first of the bucket if that is NULL. Counts
 * a user of it. */
static struct file_inode *next_of_all(struct file_inode *held, unsigned *bucket)
{
    pthread_mutex_lock(&file_lock);
    struct file_inode *inode = held && !held->forgotten ? held->next : inodes[*bucket];
    while (!inode && inode_count > 0 && ++*bucket < INODE_BUCKETS)
        inode = inodes[*bucket];
    if (inode)
        inode->opens++;
    pthread_mutex_unlock(&file_lock);
    return inode;
}

void file_inode_each(void (*visit)(struct file_inode *inode, void *context), void *context)
{
    unsigned bucket = 0;
    struct file_inode *held = NULL, *inode;
    while ((inode = next_of_all(held, &bucket))) {
        if (held)
            file_inode_release(held);
        visit(inode, context);
        held = inode;
    }
    if (held)
        file_inode_release(held);
}

/* ---- open file descriptions ---- */

int file_table_limit(void)
{
    return atomic_load(&table_top) + 1;
}

struct file_open *file_get(int fd)
{
    if ((unsigned)fd >= FILE_TABLE_SIZE)
        return NULL;
    for (;;) {
        struct file_open *open = atomic_load_explicit(&file_table[fd], memory_order_acquire);
        if (!open)
            return NULL;
        unsigned references = atomic_load_explicit(&open->references, memory_order_relaxed);
        while (references != 0 && !atomic_compare_exchange_weak_explicit(
                                      &open->references, &references, references + 1,
                                      memory_order_acquire, memory_order_relaxed))
            ;
        if (references == 0)
            continue; /* closed meanwhile: the slot has changed or is about to */
        if (atomic_load_explicit(&file_table[fd], memory_order_acquire) == open)
            return open;
        file_put(open);
    }
}

void file_hold(struct file_open *open)
{
    atomic_fetch_add_explicit(&open->references, 1, memory_order_relaxed);
}

void file_put(struct file_open *open)
{
    file_put_many(open, 1);
}

void file_put_many(struct file_open *open, unsigned references)
{
    if (atomic_fetch_sub_explicit(&open->references, references, memory_order_acq_rel) !=
        references)
        return;
    struct file_inode *inode = open->inode;
    file_upper.closed(open);
    stats_file_close(open->stats);
    pthread_mutex_lock(&file_lock);
    file_seen_close(open);
    open->next_free = free_opens;
    free_opens = open;
    pthread_mutex_unlock(&file_lock);
    file_inode_release(inode);
}

bool file_open_is_at(const struct file_open *open, int fd)
{
    struct stat status;
    if (atomic_load_explicit(&file_table[fd], memory_order_relaxed) == open)
        return true;
    return sys_fstat(fd, &status) == 0 && status.st_dev == open->inode->device &&
           status.st_ino == open->inode->inode;
}

int file_describe(const struct file_open *open, dev_t *device, ino_t *inode)
{
    *device = open->inode->device;
    *inode = open->inode->inode;
    return open->access;
}

struct file_open *file_open_take(void)
{
    if (!free_opens) {
        struct file_open *more = sys_alloc_zeroed(OPENS_AT_ONCE * sizeof(*more));
        for (unsigned i = 0; more && i < OPENS_AT_ONCE; i++) {
            more[i].next_free = free_opens;
            free_opens = &more[i];
        }
    }
    struct file_open *open = free_opens;
    if (open)
        free_opens = open->next_free;
    return open;
}

struct file_open *file_table_set(int fd, struct file_open *open)
{
    if (open && fd > atomic_load_explicit(&table_top, memory_order_relaxed))
        atomic_store_explicit(&table_top, fd, memory_order_relaxed);
    struct file_open *old = atomic_exchange(&file_table[fd], open);
    if (open)
        open->inode->descriptors++;
    if (old)
        old->inode->descriptors--;
    return old;
}

/* ---- descriptors ---- */

void file_duplicated(int from, int to)
{
    if ((unsigned)to >= FILE_TABLE_SIZE)
        return;
    struct file_open *open = file_get(from);
    pthread_mutex_lock(&file_lock);
    if (open && atomic_load(&file_table[from]) != open) { /* demoted, or closed, meanwhile */
        pthread_mutex_unlock(&file_lock);
        file_put(open);
        return;
    }
    struct file_open *old = file_table_set(to, open);
    pthread_mutex_unlock(&file_lock);
    if (old)
        file_put(old);
}

struct file_open *file_table_take(const struct file_inode *inode, int *fd)
{
    struct file_open *open = NULL;
    pthread_mutex_lock(&file_lock);
    int top = atomic_load(&table_top);
    for (; *fd <= top && !open; ++*fd) {
        struct file_open *here = atomic_load(&file_table[*fd]);
        if (here && here->inode == inode)
            open = file_table_set(*fd, NULL);
    }
    pthread_mutex_unlock(&file_lock);
    return open;
}

const struct rpc_auth *file_inode_auth(const struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    const struct rpc_auth *auth = inode->auth;
    pthread_mutex_unlock(&file_lock);
    return auth;
}

unsigned file_inode_descriptors(const struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    unsigned count = inode->descriptors;
    pthread_mutex_unlock(&file_lock);
    return count;
}

int file_inode_descriptor(const struct file_inode *inode)
{
    pthread_mutex_lock(&file_lock);
    int found = inode->closing > 0 ? inode->closing : -1;
    int top = atomic_load(&table_top);
    for (int fd = 0; fd <= top && found < 0; fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        if (open && open->inode == inode)
            found = fd;
    }
    pthread_mutex_unlock(&file_lock);
    return found;
}

/* ---- fork ---- */

static void inode_after_fork(struct file_inode *inode)
{
    inode->opens = 0;
    atomic_store(&inode->busy, 0);
    /* The thread that hands it to the kernel does not exist here: this process keeps it. */
    if (atomic_exchange(&inode->demoting, false))
        atomic_store(&inode->demoted, false);
    inode->closing = 0;
    atomic_store(&inode->committing, false);
    atomic_store(&inode->behind_listed, false);
    atomic_store(&inode->hint, 0);
    inode->hint_queued = false;
    atomic_store(&inode->arrived, false);
    inode->arrived_listed = false;
}

/* Forgets references and calls of the parent's threads: only what the table holds counts. */
void file_table_after_fork(void)
{
    int top = atomic_load(&table_top);
    for (unsigned i = 0; i < INODE_BUCKETS && inode_count > 0; i++) {
        for (struct file_inode *inode = inodes[i]; inode; inode = inode->next)
            inode_after_fork(inode);
    }
    for (int fd = 0; fd <= top; fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        if (!open)
            continue;
        inode_after_fork(open->inode); /* a forgotten one is in no bucket */
        atomic_store(&open->references, 0);
        file_flags_child(open);
    }
    for (int fd = 0; fd <= top; fd++) {
        struct file_open *open = atomic_load(&file_table[fd]);
        if (open && atomic_fetch_add(&open->references, 1) == 0)
            open->inode->opens++;
    }
}

void file_inodes_after_fork(void)
{
    for (unsigned i = 0; i < INODE_BUCKETS && inode_count > 0; i++) {
        for (struct file_inode *inode = inodes[i], *next; inode; inode = next) {
            next = inode->next;
            if (inode->opens > 0 || owes_loss(inode))
                continue;
            forget_locked(inode);
            inode_free(inode);
        }
    }
}
