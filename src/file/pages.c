#include "file/pages.h"

#include <stdio.h>

#include "file/append.h"
#include "file/mount.h"
#include "ledger/hold.h"
#include "run/said.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    PATIENCE_MS = 1000, /* for the kernel's client */
    DELAY_MS = 10,      /* for which more is gathered, if nobody waits */
    SHARE = 100,        /* one of so many parts of the time is spent waiting for attributes */
    SAY_EVERY_S = 60
};

#define MS UINT64_C(1000000)

/* Guards the tellers of all mounts; held briefly, under no other lock but file_flags_lock(). */
static pthread_mutex_t tell_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what the kernel's client is asked ---- */

static void drop_unlocked(int fd)
{
    sys_call4(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED);
}

/*
 * POSIX_FADV_DONTNEED leaves pages that somebody has mapped. Linux's client unmaps them when direct
 * I/O of a file begins after I/O through the cache (fs/nfs/io.c). So both begin here, and do
 * nothing: a write of no bytes has, and a read into no memory fails before anything is sent. It may
 * wait for who reads the file, so no lock is held then.
 */
enum direct { DIRECT_NOT, DIRECT_WAS, DIRECT_SET };

/* Under file_flags_lock(). O_APPEND beside O_DIRECT is refused. */
static enum direct set_direct(int fd)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    if (flags < 0 || flags & O_APPEND || (flags & O_ACCMODE) == O_WRONLY)
        return DIRECT_NOT;
    if (flags & O_DIRECT)
        return DIRECT_WAS;
    return sys_fcntl(fd, F_SETFL, flags | O_DIRECT) == 0 ? DIRECT_SET : DIRECT_NOT;
}

static void clear_direct(int fd)
{
    sys_fcntl(fd, F_SETFL, sys_fcntl(fd, F_GETFL, 0) & ~O_DIRECT);
}

/* A function of its own, by whose name valgrind is told that this is no error. */
__attribute__((noinline)) static void begin_direct(int fd)
{
    sys_pread(fd, NULL, 1, 0);
}

static void unmap_pages(struct file_open *open, int fd)
{
    bool shared = file_flags_lock(open);
    enum direct direct = set_direct(fd);
    file_flags_unlock(open, shared);
    if (direct != DIRECT_NOT)
        begin_direct(fd);
    if (direct != DIRECT_SET)
        return;
    shared = file_flags_lock(open);
    clear_direct(fd);
    file_flags_unlock(open, shared);
}

/* By the thread: is it the caller's own descriptor still? Under `tell_lock`. */
static bool is_awaited(const struct file_teller *teller)
{
    return (int32_t)(teller->given_up - teller->first) <= 0;
}

/* The descriptor may be another file's by now. */
static void clear_direct_of(const struct file_open *open)
{
    pthread_mutex_lock(&file_lock);
    int limit = file_table_limit(), fd = 0;
    while (fd < limit && atomic_load(&file_table[fd]) != open)
        fd++;
    if (fd < limit)
        clear_direct(fd);
    pthread_mutex_unlock(&file_lock);
}

/* The same by the thread. Who waits for it may give up, and close the descriptor. */
static void unmap_pages_of(const struct file_teller *teller, const struct file_told *told)
{
    bool shared = file_flags_lock(told->open);
    pthread_mutex_lock(&tell_lock);
    enum direct direct = is_awaited(teller) ? set_direct(told->fd) : DIRECT_NOT;
    pthread_mutex_unlock(&tell_lock);
    file_flags_unlock(told->open, shared);
    if (direct != DIRECT_NOT)
        begin_direct(told->fd);
    if (direct != DIRECT_SET)
        return;
    shared = file_flags_lock(told->open);
    pthread_mutex_lock(&tell_lock);
    bool awaited = is_awaited(teller);
    if (awaited)
        clear_direct(told->fd);
    pthread_mutex_unlock(&tell_lock);
    if (!awaited)
        clear_direct_of(told->open);
    file_flags_unlock(told->open, shared);
}

/*
 * POSIX_FADV_DONTNEED also leaves pages that are locked, as a READ of them is under way; its answer
 * may be from before the WRITE. A write of no bytes takes the inode's lock alone
 * (nfs_start_io_write()), so it waits for all who read; what comes after it does not wait.
 */
static void await_readers(int fd)
{
    char none = 0;
    sys_pread(fd, &none, 0, 0); /* the kernel may ask the server */
    sys_call4(SYS_pwrite64, fd, &none, 0, 0);
}

static void tell_pages(const struct file_teller *teller, const struct file_told *told)
{
    if (told->fd < 0)
        return;
    await_readers(told->fd);
    unmap_pages_of(teller, told);
    drop_unlocked(told->fd);
}

static int look_at(const struct file_told *told, int sync, struct statx *seen)
{
    if (told->fd >= 0)
        return sys_statx(told->fd, "", AT_EMPTY_PATH | sync, STATX_BASIC_STATS, seen);
    return sys_statx(AT_FDCWD, told->open->inode->path, sync, STATX_BASIC_STATS, seen);
}

/* Does the kernel know size and times as the host does? */
static bool knows_attributes(const struct file_told *told)
{
    struct ledger_attributes known;
    struct statx seen;
    uint64_t verified_ns;
    return ledger_file_attributes(&told->open->inode->entry, &known, &verified_ns) &&
           look_at(told, AT_STATX_DONT_SYNC, &seen) == 0 && seen.stx_size == known.size &&
           (!told->times || (seen.stx_mtime.tv_sec == known.mtime.tv_sec &&
                             seen.stx_mtime.tv_nsec == known.mtime.tv_nsec));
}

/* It learns them, which asks the server. */
static void tell_attributes(const struct file_told *told)
{
    struct statx seen;
    look_at(told, AT_STATX_FORCE_SYNC, &seen);
}

/* ---- the thread ---- */

static struct file_told *find_later(struct file_teller *teller, const struct file_told *told)
{
    for (unsigned i = 0; i < teller->later_count; i++)
        if (teller->later[i].open == told->open && teller->later[i].fd == told->fd)
            return &teller->later[i];
    return NULL;
}

/* Whose hold goes with it. */
static void put_later(struct file_teller *teller, const struct file_told *told)
{
    pthread_mutex_lock(&tell_lock);
    struct file_told *known = find_later(teller, told);
    bool kept = !known && teller->later_count < FILE_TELL_MAX;
    if (known)
        known->times = known->times || told->times;
    if (kept && teller->later_count == 0)
        teller->later_ns = sys_now_ns() + DELAY_MS * MS;
    if (kept)
        teller->later[teller->later_count++] = *told;
    pthread_mutex_unlock(&tell_lock);
    if (!known && !kept)
        file_inode_note_written(told->open->inode); /* for the next time */
    if (!kept)
        file_put(told->open);
}

static bool take_later(struct file_teller *teller, struct file_told *told)
{
    pthread_mutex_lock(&tell_lock);
    bool any = teller->later_count > 0;
    if (any)
        *told = teller->later[--teller->later_count];
    teller->telling_later = any;
    pthread_mutex_unlock(&tell_lock);
    return any;
}

static bool tell_one_later(struct file_teller *teller)
{
    struct file_told told;
    if (!take_later(teller, &told))
        return false;
    tell_attributes(&told);
    file_put(told.open);
    return true;
}

static void tell(struct file_teller *teller, const struct file_told *told)
{
    if (!told->open) {
        while (tell_one_later(teller))
            ;
        return;
    }
    tell_pages(teller, told);
    bool knows = knows_attributes(told);
    if (!knows && !told->full) {
        put_later(teller, told);
        return;
    }
    if (!knows)
        tell_attributes(told);
    file_put(told->open);
}

/* What somebody waits for. */
static bool next(struct file_teller *teller, struct file_told *told)
{
    pthread_mutex_lock(&tell_lock);
    bool any = teller->first != teller->end;
    if (any)
        *told = teller->told[teller->first % FILE_TELL_MAX];
    pthread_mutex_unlock(&tell_lock);
    return any;
}

static void finish(struct file_mount *mount)
{
    struct file_teller *teller = &mount->teller;
    pthread_mutex_lock(&tell_lock);
    atomic_store(&teller->done, ++teller->first);
    bool said = teller->said;
    atomic_store(&teller->silent, false);
    teller->said = false;
    pthread_mutex_unlock(&tell_lock);
    sys_futex(&teller->done, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
    if (said)
        log_notice("mount %s: the kernel's NFS client gets answers again", mount->path);
}

/* What is told later is due then; 0: there is nothing. */
static uint64_t due_of(struct file_teller *teller)
{
    pthread_mutex_lock(&tell_lock);
    teller->telling_later = false;
    uint64_t due_ns = teller->later_count > 0 ? teller->later_ns : 0;
    pthread_mutex_unlock(&tell_lock);
    return due_ns;
}

static void *tell_on(void *argument)
{
    struct file_mount *mount = argument;
    struct file_teller *teller = &mount->teller;
    struct file_told told;
    sys_critical_enter();
    for (;;) {
        uint32_t kicks = atomic_load(&teller->kicks);
        bool busy = next(teller, &told);
        if (busy) {
            tell(teller, &told);
            finish(mount);
        }
        uint64_t due_ns = due_of(teller), now_ns = sys_now_ns();
        if (due_ns != 0 && due_ns <= now_ns)
            busy = tell_one_later(teller) || busy;
        if (busy)
            continue;
        struct timespec wait = {.tv_nsec = (long)(due_ns - now_ns)};
        sys_futex(&teller->kicks, FUTEX_WAIT_PRIVATE, kicks, due_ns ? &wait : NULL);
    }
    return NULL;
}

/* ---- those who ask it ---- */

static void say_silent(struct file_mount *mount)
{
    char subject[PATH_MAX + 32];
    snprintf(subject, sizeof(subject), "kernel's client: %s", mount->path);
    if (!run_may_say(subject, SAY_EVERY_S))
        return;
    pthread_mutex_lock(&tell_lock);
    mount->teller.said = true;
    pthread_mutex_unlock(&tell_lock);
    log_warning("mount %s: the kernel's NFS client gets no answer: until it does, programs without "
                "the library may see old sizes and bytes, and opens wait",
                mount->path);
}

/* Waits until all before `end` was told, a second at most. */
static void await(struct file_mount *mount, uint32_t end, bool full)
{
    struct file_teller *teller = &mount->teller;
    uint64_t begun_ns = sys_now_ns(), until_ns = begun_ns + PATIENCE_MS * MS, now_ns = begun_ns;
    atomic_fetch_add(&teller->kicks, 1);
    sys_futex(&teller->kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
    uint32_t done;
    while ((int32_t)((done = atomic_load(&teller->done)) - end) < 0 && now_ns < until_ns) {
        struct timespec left = {.tv_sec = (time_t)((until_ns - now_ns) / 1000000000),
                                .tv_nsec = (long)((until_ns - now_ns) % 1000000000)};
        sys_futex(&teller->done, FUTEX_WAIT_PRIVATE, done, &left);
        now_ns = sys_now_ns();
    }
    pthread_mutex_lock(&tell_lock);
    if (full)
        teller->full_ns = now_ns + (now_ns - begun_ns) * SHARE;
    bool in_vain = (int32_t)(teller->first - end) < 0;
    if (in_vain && (int32_t)(end - teller->given_up) > 0)
        teller->given_up = end;
    bool first = in_vain && !atomic_exchange(&teller->silent, true);
    pthread_mutex_unlock(&tell_lock);
    if (first)
        say_silent(mount);
}

/* Enters what is to be told, and holds its file. False: there is no room, the thread is kept
 * waiting, or there is none. Under `tell_lock`. */
static bool enter(struct file_mount *mount, const struct file_told *told)
{
    struct file_teller *teller = &mount->teller;
    if (teller->end - teller->first == FILE_TELL_MAX || atomic_load(&teller->silent))
        return false;
    if (!teller->started && !sys_critical_in_handler())
        teller->started = sys_thread_start(tell_on, mount, "telling the kernel's NFS client");
    if (!teller->started)
        return false;
    teller->told[teller->end++ % FILE_TELL_MAX] = *told;
    if (told->open)
        file_hold(told->open);
    return true;
}

static void ask(struct file_open *open, int fd, bool times)
{
    struct file_mount *mount = open->inode->mount;
    struct file_told told = {.open = open, .fd = fd, .times = times};
    pthread_mutex_lock(&tell_lock);
    told.full = sys_now_ns() >= mount->teller.full_ns;
    bool entered = enter(mount, &told);
    uint32_t end = mount->teller.end;
    pthread_mutex_unlock(&tell_lock);
    if (entered)
        await(mount, end, told.full);
    else
        file_inode_note_written(open->inode); /* for the next time */
}

void file_pages_drop(struct file_open *open, int fd, bool times)
{
    if (!open->inode->mount->kernel_nfs)
        return;
    drop_unlocked(fd);
    ask(open, fd, times);
}

static void forget_descriptor(struct file_told *told, const struct file_open *open, int fd)
{
    if (told->open == open && told->fd == fd)
        told->fd = -1;
}

void file_pages_drop_closing(struct file_open *open, int fd)
{
    struct file_teller *teller = &open->inode->mount->teller;
    if (!open->inode->mount->kernel_nfs)
        return;
    file_pages_drop(open, fd, true);
    pthread_mutex_lock(&tell_lock);
    for (uint32_t i = teller->first; i != teller->end; i++)
        forget_descriptor(&teller->told[i % FILE_TELL_MAX], open, fd);
    for (unsigned i = 0; i < teller->later_count; i++)
        forget_descriptor(&teller->later[i], open, fd);
    pthread_mutex_unlock(&tell_lock);
}

void file_pages_settle(void)
{
    const struct file_told all = {.open = NULL};
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_mount *mount = file_mount_at(i);
        pthread_mutex_lock(&tell_lock);
        bool any = mount->teller.later_count > 0 || mount->teller.telling_later;
        bool entered = any && enter(mount, &all);
        uint32_t end = mount->teller.end;
        pthread_mutex_unlock(&tell_lock);
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

/* ---- without the thread ---- */

int file_pages_sending(const struct file_inode *inode)
{
    int fd = inode && inode->mount->kernel_nfs ? file_inode_descriptor(inode) : -1;
    if (fd >= 0)
        drop_unlocked(fd);
    return fd;
}

void file_pages_sent(int fd)
{
    if (fd >= 0)
        drop_unlocked(fd);
}

void file_pages_fresh(const struct file_mount *mount, struct file_open *open, int fd)
{
    struct statx status;
    if (!mount->kernel_nfs)
        return;
    await_readers(fd);
    unmap_pages(open, fd);
    drop_unlocked(fd);
    /* The kernel learns the size: else a map would end where the file ended before. */
    sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &status);
}

void file_pages_fork_child(void)
{
    pthread_mutex_init(&tell_lock, NULL);
    /* No user of what was to be told is counted any more: see table.c. */
    for (unsigned i = 0; i < file_mount_count(); i++)
        file_mount_at(i)->teller = (struct file_teller){.started = false};
}
