#include "file/pages.h"

#include <stdio.h>

#include "file/flags.h"
#include "file/table.h"
#include "mount/mount.h"
#include "mount/mounts.h"
#include "ledger/store/hold.h"
#include "run/log_limit.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    PATIENCE_MS = 1000,  /* for the kernel's client */
    DELAY_MS = 10,       /* more is gathered for so long, if nobody waits */
    ROUND_MS = 100,      /* the same for data that nobody has waited for ... */
    LAST_MS = 1000,      /* ... and so long after the last of it the client is told again */
    SHARE = 100,         /* waiting for attributes takes one part in so many of the time ... */
    REST_MAX_MS = 10000, /* ... but the rest after a round is at most this */
    SAY_EVERY_S = 60
};

#define MS UINT64_C(1000000)

/* ---- what the thread tells ---- */

static struct mount_told *find_later(struct mount_teller *teller, const struct mount_told *told)
{
    for (unsigned i = 0; i < teller->later_count; i++)
        if (teller->later[i].open == told->open && teller->later[i].fd == told->fd)
            return &teller->later[i];
    return NULL;
}

static void kick(_Atomic uint32_t *kicks)
{
    atomic_fetch_add(kicks, 1);
    sys_futex(kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Wakes the thread that tells what nobody waits for. */
static void kick_late(struct mount_teller *teller)
{
    kick(atomic_load(&teller->two) ? &teller->late_kicks : &teller->kicks);
}

/* Keeps it for later, and the hold on its file with it; or gives the hold back. */
static void put_later(struct mount_teller *teller, const struct mount_told *told)
{
    pthread_mutex_lock(&file_tell_lock);
    struct mount_told *known = find_later(teller, told);
    bool kept = !known && teller->later_count < MOUNT_TELL_MAX, first = teller->later_count == 0;
    if (known)
        known->times = known->times || told->times;
    if (kept && first)
        teller->later_ns = sys_now_ns() + DELAY_MS * MS;
    if (kept)
        teller->later[teller->later_count++] = *told;
    pthread_mutex_unlock(&file_tell_lock);
    if (kept && first)
        kick_late(teller);
    if (!known && !kept)
        file_inode_note_written(told->open->inode); /* for the next time */
    if (!kept)
        file_put(told->open);
}

static bool take_later(struct mount_teller *teller, struct mount_told *told)
{
    pthread_mutex_lock(&file_tell_lock);
    bool any = teller->later_count > 0;
    if (any)
        *told = teller->later[--teller->later_count];
    teller->telling_later += any;
    pthread_mutex_unlock(&file_tell_lock);
    return any;
}

static void told_later(struct mount_teller *teller)
{
    pthread_mutex_lock(&file_tell_lock);
    teller->telling_later--;
    pthread_mutex_unlock(&file_tell_lock);
    atomic_fetch_add(&teller->told_later, 1);
    sys_futex(&teller->told_later, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/* Has the kernel's client ask its server. Who calls fstat() meanwhile must not wait for that. */
static void tell_attributes(struct mount_teller *teller, struct file_inode *inode, int fd)
{
    atomic_fetch_add(&teller->asking, 1);
    file_tell_attributes(inode, fd);
    atomic_fetch_sub(&teller->asking, 1);
}

static bool tell_one_later(struct mount_teller *teller)
{
    struct mount_told told;
    if (!take_later(teller, &told))
        return false;
    tell_attributes(teller, told.open->inode, told.fd);
    file_put(told.open);
    told_later(teller);
    return true;
}

/* Also waits for the one that the other thread is telling. */
static void tell_all_later(struct mount_teller *teller)
{
    bool more = true;
    while (tell_one_later(teller))
        ;
    while (more) {
        uint32_t times = atomic_load(&teller->told_later);
        pthread_mutex_lock(&file_tell_lock);
        more = teller->telling_later > 0;
        pthread_mutex_unlock(&file_tell_lock);
        if (more)
            sys_futex(&teller->told_later, FUTEX_WAIT_PRIVATE, times, NULL);
    }
}

static void tell(struct mount_teller *teller, const struct mount_told *told)
{
    if (!told->open) {
        tell_all_later(teller);
        return;
    }
    file_tell_pages(teller, told);
    bool knows = file_tell_is_known(told->open->inode, told->fd, told->times);
    if (!knows && !told->full) {
        put_later(teller, told);
        return;
    }
    if (!knows)
        file_tell_attributes(told->open->inode, told->fd);
    file_put(told->open);
}

/* ---- what arrived ---- */

static void list_arrived(struct mount_teller *teller, struct file_inode *inode)
{
    inode->arrived_listed = true;
    inode->arrived_next = teller->arrived;
    teller->arrived = inode;
}

/* The next inode of the round, with a user counted. One without a user is about to be freed: it is
 * skipped. */
static struct file_inode *take_arrived(struct mount_teller *teller)
{
    pthread_mutex_lock(&file_tell_lock);
    struct file_inode *inode;
    while ((inode = teller->round)) {
        teller->round = inode->arrived_next;
        if (file_inode_hold_used(inode))
            break;
        inode->arrived_listed = false;
        atomic_store(&inode->arrived, false);
    }
    pthread_mutex_unlock(&file_tell_lock);
    return inode;
}

/* Tells what arrived for the inode. A closed file needs nothing: it was told as it was closed. The
 * descriptor may be closed meanwhile: see file_pages_sending(). */
static void tell_arrived(struct mount_teller *teller, struct file_inode *inode)
{
    uint64_t begun_ns = sys_now_ns();
    bool fresh = atomic_exchange(&inode->arrived, false);
    bool last = !fresh && begun_ns - atomic_load(&inode->told_ns) >= LAST_MS * MS;
    int fd = fresh || last ? file_inode_descriptor(inode) : -1;
    if (fd >= 0) {
        file_tell_drop(fd);
        if (!file_tell_is_known(inode, fd, false))
            tell_attributes(teller, inode, fd);
    }
    if (fresh)
        atomic_store(&inode->told_ns, begun_ns);
    pthread_mutex_lock(&file_tell_lock);
    teller->took_ns += sys_now_ns() - begun_ns;
    if (last && !atomic_load(&inode->arrived))
        inode->arrived_listed = false;
    else
        list_arrived(teller, inode);
    pthread_mutex_unlock(&file_tell_lock);
    file_inode_release(inode);
}

/* Tells the next inode of a round that is due, or has begun. False: there is none now. */
static bool tell_one_arrived(struct mount_teller *teller)
{
    struct file_inode *inode = take_arrived(teller);
    if (inode) {
        tell_arrived(teller, inode);
        return true;
    }
    uint64_t now_ns = sys_now_ns();
    pthread_mutex_lock(&file_tell_lock);
    if (teller->in_round) { /* the round is over */
        uint64_t rest_ns = teller->took_ns * SHARE;
        teller->rest_ns = now_ns + (rest_ns < REST_MAX_MS * MS ? rest_ns : REST_MAX_MS * MS);
        if (teller->arrived && teller->round_ns == 0)
            teller->round_ns = now_ns + LAST_MS * MS;
        if (teller->round_ns != 0 && teller->round_ns < teller->rest_ns)
            teller->round_ns = teller->rest_ns;
    }
    bool due = teller->round_ns != 0 && teller->round_ns <= now_ns;
    teller->in_round = due;
    teller->took_ns = 0;
    if (due) {
        teller->round = teller->arrived;
        teller->arrived = NULL;
        teller->round_ns = 0;
    }
    pthread_mutex_unlock(&file_tell_lock);
    return due;
}

/* ---- the thread ---- */

/* The next entry that somebody waits for. */
static bool next(struct mount_teller *teller, struct mount_told *told)
{
    pthread_mutex_lock(&file_tell_lock);
    bool any = teller->first != teller->end;
    if (any)
        *told = teller->told[teller->first % MOUNT_TELL_MAX];
    pthread_mutex_unlock(&file_tell_lock);
    return any;
}

static void finish(struct mount *mount)
{
    struct mount_teller *teller = &mount->teller;
    pthread_mutex_lock(&file_tell_lock);
    atomic_store(&teller->done, ++teller->first);
    bool said = teller->said;
    atomic_store(&teller->silent, false);
    teller->said = false;
    pthread_mutex_unlock(&file_tell_lock);
    sys_futex(&teller->done, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
    if (said)
        log_notice("mount %s: the kernel's NFS client gets answers again", mount->path);
}

static uint64_t sooner(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns == 0 || (other_ns != 0 && other_ns < one_ns) ? other_ns : one_ns;
}

/* Tells one thing that is due, and that nobody waits for. False: nothing is. */
static bool tell_late(struct mount_teller *teller)
{
    uint64_t now_ns = sys_now_ns();
    pthread_mutex_lock(&file_tell_lock);
    bool due = teller->later_count > 0 && teller->later_ns <= now_ns;
    pthread_mutex_unlock(&file_tell_lock);
    return (due && tell_one_later(teller)) || tell_one_arrived(teller);
}

/* Sleeps until something is due that nobody waits for, or somebody kicks. */
static void sleep_until_due(struct mount_teller *teller, _Atomic uint32_t *kicks, uint32_t seen)
{
    pthread_mutex_lock(&file_tell_lock);
    uint64_t due_ns = sooner(teller->later_count > 0 ? teller->later_ns : 0, teller->round_ns);
    pthread_mutex_unlock(&file_tell_lock);
    uint64_t now_ns = sys_now_ns(), left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    struct timespec wait = {.tv_sec = (time_t)(left_ns / 1000000000),
                            .tv_nsec = (long)(left_ns % 1000000000)};
    sys_futex(kicks, FUTEX_WAIT_PRIVATE, seen, due_ns ? &wait : NULL);
}

/* The thread for what somebody waits for; if there is no other, also for the rest. */
static void *tell_on(void *argument)
{
    struct mount *mount = argument;
    struct mount_teller *teller = &mount->teller;
    struct mount_told told;
    sys_critical_enter();
    for (;;) {
        uint32_t kicks = atomic_load(&teller->kicks);
        bool alone = !atomic_load(&teller->two), busy = next(teller, &told);
        if (busy) {
            tell(teller, &told);
            finish(mount);
        }
        busy = (alone && tell_late(teller)) || busy;
        if (!busy && alone)
            sleep_until_due(teller, &teller->kicks, kicks);
        else if (!busy)
            sys_futex(&teller->kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
    }
    return NULL;
}

/* The thread for what nobody waits for, which has to ask the kernel's server: a caller that waits
 * for the other one waits for no round trip of this. */
static void *tell_late_on(void *argument)
{
    struct mount_teller *teller = argument;
    sys_critical_enter();
    for (;;) {
        uint32_t kicks = atomic_load(&teller->late_kicks);
        if (!tell_late(teller))
            sleep_until_due(teller, &teller->late_kicks, kicks);
    }
    return NULL;
}

/* ---- asking the thread ---- */

static void say_silent(struct mount *mount)
{
    char subject[PATH_MAX + 32];
    snprintf(subject, sizeof(subject), "kernel's client: %s", mount->path);
    if (!run_may_say(subject, SAY_EVERY_S))
        return;
    pthread_mutex_lock(&file_tell_lock);
    mount->teller.said = true;
    pthread_mutex_unlock(&file_tell_lock);
    log_warning("mount %s: the kernel's NFS client gets no answer: until it does, programs without "
                "the library may see old sizes and bytes, and opens wait",
                mount->path);
}

/* Waits until all entries before `end` were told, a second at most. */
static void await(struct mount *mount, uint32_t end, bool full)
{
    struct mount_teller *teller = &mount->teller;
    uint64_t begun_ns = sys_now_ns(), until_ns = begun_ns + PATIENCE_MS * MS, now_ns = begun_ns;
    kick(&teller->kicks);
    uint32_t done;
    while ((int32_t)((done = atomic_load(&teller->done)) - end) < 0 && now_ns < until_ns) {
        struct timespec left = {.tv_sec = (time_t)((until_ns - now_ns) / 1000000000),
                                .tv_nsec = (long)((until_ns - now_ns) % 1000000000)};
        sys_futex(&teller->done, FUTEX_WAIT_PRIVATE, done, &left);
        now_ns = sys_now_ns();
    }
    pthread_mutex_lock(&file_tell_lock);
    if (full)
        teller->full_ns = now_ns + (now_ns - begun_ns) * SHARE;
    bool in_vain = (int32_t)(teller->first - end) < 0;
    if (in_vain && (int32_t)(end - teller->given_up) > 0)
        teller->given_up = end;
    bool first = in_vain && !atomic_exchange(&teller->silent, true);
    pthread_mutex_unlock(&file_tell_lock);
    if (first)
        say_silent(mount);
}

/* Is the thread there? Starts both, if it can. Under `file_tell_lock`. */
static bool start(struct mount *mount)
{
    struct mount_teller *teller = &mount->teller;
    const char *what = "telling the kernel's NFS client";
    if (teller->started || sys_critical_in_handler())
        return teller->started;
    if (!atomic_load(&teller->two))
        atomic_store(&teller->two, sys_thread_start(tell_late_on, teller, what));
    teller->started = sys_thread_start(tell_on, mount, what);
    return teller->started;
}

/* Enters what is to be told, and holds its file. False: there is no room, the client is silent, or
 * there is no thread. Under `file_tell_lock`. */
static bool enter(struct mount *mount, const struct mount_told *told)
{
    struct mount_teller *teller = &mount->teller;
    if (teller->end - teller->first == MOUNT_TELL_MAX || atomic_load(&teller->silent) ||
        !start(mount))
        return false;
    teller->told[teller->end++ % MOUNT_TELL_MAX] = *told;
    if (told->open)
        file_hold(told->open);
    return true;
}

static void ask(struct file_open *open, int fd, bool times)
{
    struct mount *mount = open->inode->mount;
    struct mount_told told = {.open = open, .fd = fd, .times = times};
    pthread_mutex_lock(&file_tell_lock);
    told.full = sys_now_ns() >= mount->teller.full_ns;
    bool entered = enter(mount, &told);
    uint32_t end = mount->teller.end;
    pthread_mutex_unlock(&file_tell_lock);
    if (entered)
        await(mount, end, told.full);
    else
        file_inode_note_written(open->inode); /* for the next time */
}

void file_pages_drop(struct file_open *open, int fd, bool times)
{
    if (!open->inode->mount->kernel_nfs)
        return;
    file_tell_drop(fd);
    ask(open, fd, times);
}

void file_pages_written(struct file_open *open, int fd)
{
    struct mount_teller *teller = &open->inode->mount->teller;
    if (!open->inode->mount->kernel_nfs)
        return;
    file_tell_drop(fd);
    uint64_t begun_ns = sys_now_ns();
    if (begun_ns < atomic_load_explicit(&teller->written_ns, memory_order_relaxed))
        return;
    ask(open, fd, false);
    uint64_t now_ns = sys_now_ns();
    atomic_store(&teller->written_ns, now_ns + (now_ns - begun_ns) * SHARE);
}

void file_pages_tell_soon(struct file_inode *inode)
{
    struct mount_teller *teller = &inode->mount->teller;
    uint64_t due_ns = sys_now_ns() + ROUND_MS * MS;
    pthread_mutex_lock(&file_tell_lock);
    bool earlier = false, started = start(inode->mount);
    atomic_store(&inode->arrived, started); /* else the next write tries again */
    if (started && !inode->arrived_listed)
        list_arrived(teller, inode);
    if (due_ns < teller->rest_ns)
        due_ns = teller->rest_ns;
    if (started && (teller->round_ns == 0 || due_ns < teller->round_ns)) {
        earlier = true;
        teller->round_ns = due_ns;
    }
    pthread_mutex_unlock(&file_tell_lock);
    if (earlier)
        kick_late(teller);
}

static void unlink_arrived(struct file_inode **list, const struct file_inode *inode)
{
    while (*list && *list != inode)
        list = &(*list)->arrived_next;
    if (*list)
        *list = inode->arrived_next;
}

void file_pages_forget(struct file_inode *inode)
{
    struct mount_teller *teller = &inode->mount->teller;
    if (!inode->mount->kernel_nfs)
        return;
    pthread_mutex_lock(&file_tell_lock);
    if (inode->arrived_listed) {
        unlink_arrived(&teller->arrived, inode);
        unlink_arrived(&teller->round, inode);
    }
    pthread_mutex_unlock(&file_tell_lock);
}

static void forget_descriptor(struct mount_told *told, const struct file_open *open, int fd)
{
    if (told->open == open && told->fd == fd)
        told->fd = -1;
}

void file_pages_drop_closing(struct file_open *open, int fd)
{
    struct mount_teller *teller = &open->inode->mount->teller;
    if (!open->inode->mount->kernel_nfs)
        return;
    file_pages_drop(open, fd, true);
    pthread_mutex_lock(&file_tell_lock);
    for (uint32_t i = teller->first; i != teller->end; i++)
        forget_descriptor(&teller->told[i % MOUNT_TELL_MAX], open, fd);
    for (unsigned i = 0; i < teller->later_count; i++)
        forget_descriptor(&teller->later[i], open, fd);
    pthread_mutex_unlock(&file_tell_lock);
}

void file_pages_settle(void)
{
    const struct mount_told all = {.open = NULL};
    for (unsigned i = 0; i < mounts_count(); i++) {
        struct mount *mount = mounts_at(i);
        pthread_mutex_lock(&file_tell_lock);
        bool any = mount->teller.later_count > 0 || mount->teller.telling_later > 0;
        bool entered = any && enter(mount, &all);
        uint32_t end = mount->teller.end;
        pthread_mutex_unlock(&file_tell_lock);
        if (entered)
            await(mount, end, false);
    }
}

void file_pages_drop_all(void)
{
    for (int fd = 0, limit = file_table_limit(); fd < limit; fd++) {
        struct file_open *open = file_is_managed(fd) ? file_get(fd) : NULL;
        if (open && open->inode->mount->kernel_nfs &&
            atomic_exchange_explicit(&open->inode->pages_old, false, memory_order_relaxed))
            file_pages_drop(open, fd, true);
        if (open)
            file_put(open);
    }
    file_pages_settle();
}

void file_pages_fork_child(void)
{
    pthread_mutex_init(&file_tell_lock, NULL);
    /* No user of what was to be told is counted any more: see file_table_after_fork(). */
    for (unsigned i = 0; i < mounts_count(); i++)
        mounts_at(i)->teller = (struct mount_teller){.started = false};
}
