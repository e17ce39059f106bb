#include "durable/behind.h"

#include "durable/agent.h"
#include "durable/early.h"
#include "durable/hinted.h"
#include "file/upper.h"
#include "durable/commit.h"
#include "durable/flush.h"
#include "durable/stray.h"
#include "ledger/agent.h"
#include "ledger/dirty.h"
#include "ledger/strays.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    DELAY_MS = 500,  /* data waits for more so long, at most */
    ROUNDS = 8,      /* with one file, before another has its turn */
    AGAIN_MS = 1000, /* until a server that did not take data is asked again */
    LITTLE = 65536   /* bytes that an fsync sends as fast as it commits them */
};

/*
 * Each server has a thread and a list, so that a server that does not answer keeps nothing from the
 * others. In the list are the inodes with data that this process wrote and that perhaps nobody
 * sends. An inode is there at most once, with a user of it counted, until all of its data is sent.
 * `list_lock` is for the lists of all servers, and held briefly.
 */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mount_sender *sender_of(const struct file_inode *inode)
{
    return &inode->mount->server->sender;
}

/* ---- the list ---- */

static void put(struct file_inode *inode, bool back)
{
    struct mount_sender *sender = sender_of(inode);
    pthread_mutex_lock(&list_lock);
    inode->behind_next = sender->listed;
    sender->listed = inode;
    if (back)
        sender->current = NULL;
    pthread_mutex_unlock(&list_lock);
}

/* For a caller that has a user of the inode counted: all that is dirty now is to be sent in
 * `delay_ms`. A thread that has written, and finds the inode listed, leaves the rest to the sender.
 * It needs no fence for that: the sender takes the inode from the list first, and then the stripe's
 * lock, to see what is dirty. */
static void enlist(struct file_inode *inode, int delay_ms)
{
    if (atomic_load_explicit(&inode->behind_listed, memory_order_relaxed) ||
        atomic_exchange(&inode->behind_listed, true))
        return;
    atomic_store(&inode->behind_due_ns, sys_now_ns() + (uint64_t)delay_ms * 1000000);
    file_inode_hold(inode);
    put(inode, false);
}

static void take_in_hand(struct mount_sender *sender)
{
    pthread_mutex_lock(&list_lock);
    sender->in_hand = sender->listed;
    sender->listed = NULL;
    pthread_mutex_unlock(&list_lock);
}

static struct file_inode *next_in_hand(struct mount_sender *sender)
{
    pthread_mutex_lock(&list_lock);
    struct file_inode *inode = sender->current = sender->in_hand;
    if (inode)
        sender->in_hand = inode->behind_next;
    pthread_mutex_unlock(&list_lock);
    return inode;
}

static void let_go(struct file_inode *inode)
{
    pthread_mutex_lock(&list_lock);
    sender_of(inode)->current = NULL;
    pthread_mutex_unlock(&list_lock);
    file_inode_release(inode);
}

/* Drops what is listed: this process does not send it. */
static void drop_listed(struct mount_sender *sender)
{
    struct file_inode *inode;
    do {
        pthread_mutex_lock(&list_lock);
        inode = sender->listed;
        if (inode)
            sender->listed = inode->behind_next;
        pthread_mutex_unlock(&list_lock);
        if (inode) {
            atomic_store(&inode->behind_listed, false);
            file_inode_release(inode);
        }
    } while (inode);
}

static bool is_idle(const struct mount_sender *sender)
{
    pthread_mutex_lock(&list_lock);
    bool idle = !sender->listed && !sender->in_hand && !sender->current;
    pthread_mutex_unlock(&list_lock);
    return idle;
}

/* ---- the thread ---- */

/* Sends what is dirty now, in runs of at least `least` bytes, then whole WRITEs of what is written
 * meanwhile. Commits what has grown to be much. 0; 1: there is more; -errno. */
static int look_after(struct file_inode *inode, size_t least)
{
    const struct rpc_auth *auth = file_inode_auth(inode);
    int result = 1;
    if (!auth || !file_inode_enter(inode))
        return 0; /* the kernel has it, with all that was written */
    for (int i = 0; i < ROUNDS && result == 1; i++) {
        result = durable_flush_some(inode, auth, least, false);
        durable_commit_early(inode, auth);
        least = durable_longest_write(inode->mount);
    }
    file_inode_leave(inode);
    return result;
}

/* Sends what is due now, and of the rest what makes a whole WRITE. Returns for how many ms the rest
 * can wait. */
static int look_after_all(struct mount_sender *sender)
{
    struct file_inode *inode;
    uint64_t now_ns = sys_now_ns(), next_ns = now_ns + DELAY_MS * UINT64_C(1000000);
    int again_ms = 0;
    atomic_store(&sender->hurry, false);
    take_in_hand(sender);
    while ((inode = next_in_hand(sender))) {
        uint64_t due_ns = atomic_load(&inode->behind_due_ns);
        bool whole = atomic_exchange(&inode->behind_whole, false);
        if (due_ns > now_ns) {
            /* Else a look would be at all that is dirty, and find nothing. */
            if (whole && look_after(inode, durable_longest_write(inode->mount)) != 0)
                atomic_store(&inode->behind_whole, true);
            put(inode, true);
            next_ns = due_ns < next_ns ? due_ns : next_ns;
            continue;
        }
        atomic_store(&inode->behind_listed, false); /* the next write lists it again */
        int result = look_after(inode, 0);
        bool failed = result < 0 && result != -EAGAIN;
        if (result != 0)
            enlist(inode, failed ? AGAIN_MS : DELAY_MS);
        if (failed)
            again_ms = AGAIN_MS;
        let_go(inode);
    }
    now_ns = sys_now_ns();
    return again_ms ? again_ms : next_ns > now_ns ? (int)((next_ns - now_ns) / 1000000) + 1 : 0;
}

static void sleep_until_kicked(struct mount_sender *sender, int longest_ms)
{
    const struct timespec longest = {longest_ms / 1000, longest_ms % 1000 * 1000000};
    uint32_t kicks = atomic_load(&sender->kicks);
    if (longest_ms > DELAY_MS || !atomic_load(&sender->hurry))
        sys_futex(&sender->kicks, FUTEX_WAIT_PRIVATE, kicks, &longest);
}

static void *send_behind(void *argument)
{
    struct mount_sender *sender = argument;
    int pause_ms = DELAY_MS;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (;;) {
        uint32_t kicks = atomic_load(&sender->kicks);
        atomic_store(&sender->sleeps, true); /* in this order: see wake() */
        if (is_idle(sender) && !durable_agent_is_wanted())
            sys_futex(&sender->kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
        atomic_store(&sender->sleeps, false);
        durable_hinted_start(sender);
        durable_agent_seek();
        sleep_until_kicked(sender, pause_ms);
        durable_hinted_start(sender);
        pause_ms = look_after_all(sender);
    }
    return NULL;
}

static void kick(struct mount_sender *sender)
{
    atomic_fetch_add(&sender->kicks, 1);
    sys_futex(&sender->kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Wakes the thread, if need be, after a file of its server was listed. */
static void wake(struct mount_sender *sender, bool hurry)
{
    /* After what the sender is to see was stored: it clears `hurry` before it looks. */
    bool first = hurry && !atomic_load(&sender->hurry) && !atomic_exchange(&sender->hurry, true);
    if (first || atomic_load(&sender->sleeps)) {
        kick(sender);
        ledger_agent_stir();
    }
}

/* ---- writing ---- */

bool durable_behind_allows(int access, int flags)
{
    return mount_tunables.write_behind_max > 0 && mount_tunables.actimeo > 0 &&
           access != O_RDONLY && !(flags & O_DIRECT);
}

bool durable_behind_writes(const struct file_open *open)
{
    return atomic_load_explicit(&open->behind, memory_order_relaxed) &&
           atomic_load_explicit(&sender_of(open->inode)->started, memory_order_relaxed);
}

/* Too much is dirty: this thread sends some of it itself, or waits until others have. 0, 1, or
 * -errno: nothing can be sent. */
static int make_room(struct file_open *open)
{
    uint64_t most = (uint64_t)mount_tunables.write_behind_max;
    int result = 1;
    stats_add(&stats_own->counters.behind_waits, 1);
    while (result == 1 && ledger_file_dirty(&open->inode->entry) > most / 2)
        result = durable_flush_some(open->inode, open->auth, 0, true);
    return result;
}

/* Does a write at `offset` follow the last one? */
static bool follows(struct file_inode *inode, uint64_t offset)
{
    return atomic_load_explicit(&inode->behind_end, memory_order_relaxed) == offset;
}

/* Notes this piece. Has a whole WRITE been written by now, one piece after the other? (Several
 * threads may miss it.) */
static bool ends_run(struct file_inode *inode, uint64_t offset, size_t length)
{
    uint64_t run = length;
    if (follows(inode, offset))
        run += atomic_load_explicit(&inode->behind_run, memory_order_relaxed);
    bool ends = run >= durable_longest_write(inode->mount);
    atomic_store_explicit(&inode->behind_end, offset + length, memory_order_relaxed);
    atomic_store_explicit(&inode->behind_run, ends ? 0 : run, memory_order_relaxed);
    return ends;
}

/* As which user is the piece to be left behind (mount_auth_user())? 0: it may not be. Nothing is
 * left behind that only this process would send, nor what is newer than a stray that may not be
 * sent. */
static uint32_t may_leave(struct file_open *open)
{
    bool seek = false;
    if (net_server_is_abroad(open->inode->mount->server->net))
        return 0; /* this thread could not send it: the program shall know */
    uint32_t user = durable_agent_cares(open->inode->mount, open->auth, &seek);
    if (seek)
        kick(&open->inode->mount->server->sender);
    if (!user || !ledger_file_has_strays(&open->inode->entry))
        return user;
    struct committing c = durable_committing_of(open->inode, open->auth);
    return durable_strays_settle(&c) == 0 ? user : 0;
}

int durable_behind_write(struct file_open *open, const struct durable_piece *piece, uint64_t offset)
{
    struct file_inode *inode = open->inode;
    struct ledger_write write;
    const uint32_t user = may_leave(open);
    const struct ledger_beginning beginning = {.offset = offset,
                                               .data = piece->vectors,
                                               .count = piece->count,
                                               .length = piece->length,
                                               .keep = true,
                                               .write = &write,
                                               .appends = piece->appends,
                                               .user = user};
    uint64_t most = (uint64_t)mount_tunables.write_behind_max, dirty = 0;
    bool wait = false;
    int result = 0;
    if (!user)
        return LEDGER_WRITE_NOW;
    if (ledger_file_dirty(&inode->entry) + piece->length > most)
        result = make_room(open);
    if (result < 0 && result != -EAGAIN)
        return LEDGER_WRITE_NOW; /* the write waits, so that the program gets the error */
    while ((result = ledger_write_behind(&inode->entry, &beginning, wait, &dirty)) == -EAGAIN)
        wait = !file_upper.help(NULL);
    if (result == -ENOSPC)
        return LEDGER_WRITE_NOW;
    if (result != 0)
        return result;
    atomic_store_explicit(&inode->behind_auth, open->auth, memory_order_relaxed);
    if (!atomic_load_explicit(&inode->mount->behind, memory_order_relaxed))
        atomic_store_explicit(&inode->mount->behind, true, memory_order_relaxed);
    if (!atomic_load_explicit(&open->left, memory_order_relaxed))
        atomic_store_explicit(&open->left, true, memory_order_relaxed);
    enlist(inode, DELAY_MS);
    if (dirty > most / 2)
        atomic_store(&inode->behind_due_ns, 0);
    bool whole = ends_run(inode, offset, piece->length);
    if (whole)
        atomic_store(&inode->behind_whole, true);
    wake(sender_of(inode), whole || dirty > most / 2);
    return 0;
}

/* Is all that the file has uncommitted one run, and little? Then an fsync is one WRITE to stable
 * storage. If that had left earlier, UNSTABLE, the fsync would have to be a COMMIT. A run of which
 * another process has written a part may not be known as one. */
static bool is_little(struct file_inode *inode)
{
    uint64_t dirty = ledger_file_dirty(&inode->entry);
    return dirty <= LITTLE &&
           dirty <= atomic_load_explicit(&inode->behind_run, memory_order_relaxed) &&
           !ledger_file_acknowledged(&inode->entry);
}

void durable_behind_hurry(struct file_inode *inode)
{
    if (!atomic_load(&inode->behind_listed))
        return;
    bool little = is_little(inode), starts = durable_hinted_add(inode, little);
    if (!little)
        atomic_store(&inode->behind_due_ns, 0);
    if (!little || starts)
        wake(sender_of(inode), true);
}

/* ---- life ---- */

void durable_behind_prepare(struct mount *mount, int access, int flags)
{
    struct mount_sender *sender = &mount->server->sender;
    if (!durable_behind_allows(access, flags) ||
        atomic_load_explicit(&sender->tried, memory_order_relaxed) ||
        atomic_exchange(&sender->tried, true))
        return;
    bool started = sys_thread_start(send_behind, sender, "writing behind");
    atomic_store(&sender->started, started);
    atomic_store(&sender->tried, started); /* if that failed, another thread may try */
}

void durable_behind_forget(void)
{
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount_sender *sender = &mounts_at(i)->server->sender;
        while (!is_idle(sender)) {
            drop_listed(sender);
            sys_nanosleep_ms(1);
        }
        durable_hinted_forget(sender);
    }
}

void durable_behind_fork_prepare(void)
{
    durable_hinted_fork_prepare();
    pthread_mutex_lock(&list_lock);
}

void durable_behind_fork_parent(void)
{
    pthread_mutex_unlock(&list_lock);
    durable_hinted_fork_done();
}

void durable_behind_fork_child(void)
{
    pthread_mutex_init(&list_lock, NULL);
    durable_hinted_fork_child();
    for (unsigned i = 0; i < mounts_count(); i++)
        /* There is no thread until the next open, and no user of what was listed is counted any
         * more: see file_table_after_fork(). */
        mounts_at(i)->server->sender = (struct mount_sender){.listed = NULL};
    durable_agent_fork_child();
}
