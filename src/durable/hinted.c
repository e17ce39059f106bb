#include "durable/hinted.h"

#include "durable/commit.h"
#include "file/enter.h"
#include "ledger/uncommitted.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    THREADS = 4,     /* of a server: so many files at a time */
    LATEST_MS = 500, /* so long more of a file may follow */
    AWAIT_MS = 100   /* so long an fsync waits for a thread, before it does the work itself */
};

/* For the lists of all servers, and `hint_queued`, `hint_ns` and `hint_next` of their inodes. Held
 * briefly. A thread that changes `hint` to DURABLE_HINT_BUSY, or from it, needs no lock. */
static pthread_mutex_t hinted_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mount_hinted *hinted_of(const struct file_inode *inode)
{
    return &inode->mount->server->sender.hinted;
}

static void call(struct mount_hinted *hinted, int threads)
{
    atomic_fetch_add(&hinted->calls, 1);
    sys_futex(&hinted->calls, FUTEX_WAKE_PRIVATE, (uint32_t)threads, NULL);
}

static bool change(struct file_inode *inode, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&inode->hint, &from, to);
}

bool durable_hinted_add(struct file_inode *inode, bool little)
{
    struct mount_hinted *hinted = hinted_of(inode);
    file_inode_hold(inode);
    pthread_mutex_lock(&hinted_lock);
    bool queued = inode->hint_queued;
    if (!queued) {
        inode->hint_queued = true;
        inode->hint_ns = sys_now_ns();
        inode->hint_next = NULL;
        if (hinted->first)
            hinted->last->hint_next = inode;
        else
            hinted->first = inode;
        hinted->last = inode;
        hinted->waiting++;
    }
    hinted->latest = little ? NULL : inode;
    atomic_store(&inode->hint, DURABLE_HINT_WAITING);
    bool starts = hinted->threads < THREADS && hinted->threads - hinted->busy < hinted->waiting;
    pthread_mutex_unlock(&hinted_lock);
    if (queued)
        file_inode_release(inode);
    call(hinted, 1);
    return starts;
}

/* ---- the threads ---- */

/* The first inode of the list that is ready, out of it; NULL, and for how many ms to wait; -1: as
 * long as it takes. */
static struct file_inode *take(struct mount_hinted *hinted, int *wait_ms)
{
    uint64_t now_ns = sys_now_ns();
    struct file_inode **at = &hinted->first, *before = NULL, *inode;
    *wait_ms = -1;
    while ((inode = *at)) {
        uint64_t due_ns = inode->hint_ns + LATEST_MS * UINT64_C(1000000);
        if (inode != hinted->latest || due_ns <= now_ns)
            break;
        *wait_ms = (int)((due_ns - now_ns) / 1000000) + 1;
        before = inode;
        at = &inode->hint_next;
    }
    if (!inode)
        return NULL;
    *at = inode->hint_next;
    if (hinted->last == inode)
        hinted->last = before;
    inode->hint_queued = false;
    hinted->waiting--;
    if (hinted->latest == inode)
        hinted->latest = NULL;
    return inode;
}

/* What an fsync would do now, unless it came first. */
static void make_safe(struct file_inode *inode)
{
    const struct rpc_auth *auth = file_inode_auth(inode);
    bool done = false;
    if (!change(inode, DURABLE_HINT_WAITING, DURABLE_HINT_BUSY))
        return;
    if (auth && file_inode_enter(inode)) {
        done =
            ledger_file_uncommitted(&inode->entry) > 0 && durable_commit_unasked(inode, auth) == 0;
        file_inode_leave(inode);
    }
    /* A hint that came meanwhile is in the list. */
    (void)change(inode, DURABLE_HINT_BUSY, done ? DURABLE_HINT_DONE : DURABLE_HINT_NONE);
    sys_futex(&inode->hint, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

static void *work(void *argument)
{
    struct mount_hinted *hinted = argument;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    pthread_mutex_lock(&hinted_lock);
    for (;;) {
        int wait_ms;
        struct file_inode *inode = take(hinted, &wait_ms);
        uint32_t calls = atomic_load(&hinted->calls);
        hinted->busy += inode != NULL;
        pthread_mutex_unlock(&hinted_lock);
        if (inode) {
            make_safe(inode);
            file_inode_release(inode);
        } else {
            struct timespec longest = {wait_ms / 1000, wait_ms % 1000 * 1000000};
            sys_futex(&hinted->calls, FUTEX_WAIT_PRIVATE, calls, wait_ms < 0 ? NULL : &longest);
        }
        pthread_mutex_lock(&hinted_lock);
        hinted->busy -= inode != NULL;
    }
    return NULL;
}

void durable_hinted_start(struct mount_sender *sender)
{
    struct mount_hinted *hinted = &sender->hinted;
    for (;;) {
        pthread_mutex_lock(&hinted_lock);
        bool more = hinted->threads < THREADS && hinted->threads - hinted->busy < hinted->waiting;
        hinted->threads += more;
        pthread_mutex_unlock(&hinted_lock);
        if (!more)
            return;
        if (sys_thread_start(work, hinted, "making safe what is to be"))
            continue;
        pthread_mutex_lock(&hinted_lock);
        bool none = --hinted->threads == 0;
        pthread_mutex_unlock(&hinted_lock);
        if (none) /* the fsyncs do it */
            durable_hinted_forget(sender);
        return;
    }
}

/* ---- fsync ---- */

/* Nobody receives for this thread meanwhile, and nobody needs to: what it has in flight is sent,
 * and the thread that works receives what it waits for. */
bool durable_hinted_is_done(struct file_inode *inode)
{
    uint32_t hint = atomic_load(&inode->hint);
    uint64_t until_ns = hint == DURABLE_HINT_BUSY ? sys_now_ns() + AWAIT_MS * UINT64_C(1000000) : 0;
    while (hint == DURABLE_HINT_BUSY) {
        uint64_t now_ns = sys_now_ns();
        if (now_ns >= until_ns)
            break;
        struct timespec longest = {0, (long)(until_ns - now_ns)};
        sys_futex(&inode->hint, FUTEX_WAIT_PRIVATE, DURABLE_HINT_BUSY, &longest);
        hint = atomic_load(&inode->hint);
    }
    if (hint == DURABLE_HINT_DONE)
        return change(inode, DURABLE_HINT_DONE, DURABLE_HINT_NONE) &&
               ledger_file_is_settled(&inode->entry);
    (void)change(inode, DURABLE_HINT_WAITING, DURABLE_HINT_NONE); /* it does the work itself */
    return false;
}

/* ---- life ---- */

void durable_hinted_forget(struct mount_sender *sender)
{
    struct mount_hinted *hinted = &sender->hinted;
    bool busy;
    do {
        int unused;
        pthread_mutex_lock(&hinted_lock);
        hinted->latest = NULL;
        struct file_inode *inode = take(hinted, &unused);
        busy = inode || hinted->busy;
        pthread_mutex_unlock(&hinted_lock);
        if (inode) {
            (void)change(inode, DURABLE_HINT_WAITING, DURABLE_HINT_NONE);
            file_inode_release(inode);
        } else if (busy) {
            sys_nanosleep_ms(1);
        }
    } while (busy);
}

void durable_hinted_fork_prepare(void)
{
    pthread_mutex_lock(&hinted_lock);
}

void durable_hinted_fork_done(void)
{
    pthread_mutex_unlock(&hinted_lock);
}

void durable_hinted_fork_child(void)
{
    pthread_mutex_init(&hinted_lock, NULL);
}
