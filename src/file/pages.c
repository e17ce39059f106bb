#include "file/pages.h"

#include "file/append.h"
#include "file/mount.h"
#include "ledger/hold.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    PATIENCE_MS = 1000, /* for the kernel's client */
    DELAY_MS = 10,      /* for which more is gathered, if nobody waits */
    SHARE = 100         /* one of so many parts of the time is spent waiting */
};

#define MS UINT64_C(1000000)

/* Guards the tellers of all mounts; held briefly, under no other lock. */
static pthread_mutex_t tell_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what the kernel's client is asked ---- */

static void drop_unlocked(int fd)
{
    sys_call4(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void begin_direct(int fd)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    /* O_APPEND beside O_DIRECT is refused. */
    if (flags >= 0 && !(flags & (O_DIRECT | O_APPEND)) && (flags & O_ACCMODE) != O_WRONLY &&
        sys_fcntl(fd, F_SETFL, flags | O_DIRECT) == 0) {
        sys_pread(fd, NULL, 1, 0);
        sys_fcntl(fd, F_SETFL, sys_fcntl(fd, F_GETFL, 0) & ~O_DIRECT);
    }
}

/*
 * POSIX_FADV_DONTNEED leaves pages that somebody has mapped. Linux's client unmaps them when direct
 * I/O of a file begins after I/O through the cache (fs/nfs/io.c). So both begin here, and do
 * nothing: a read of no bytes has, and one into no memory fails before anything is sent.
 */
static void unmap_pages(struct file_open *open, int fd)
{
    bool shared = file_flags_lock(open);
    begin_direct(fd);
    file_flags_unlock(open, shared);
}

/* The same from a thread that does not know whether the descriptor is closed meanwhile: the flag of
 * another file is not touched. */
static void unmap_pages_if_open(struct file_open *open, int fd)
{
    bool shared = file_flags_lock(open);
    pthread_mutex_lock(&file_lock);
    if (atomic_load(&file_table[fd]) == open)
        begin_direct(fd);
    pthread_mutex_unlock(&file_lock);
    file_flags_unlock(open, shared);
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

/* The kernel learns size and times, if it knows others than the host. That asks the server. `fd`
 * is -1 for a file that was closed. */
static void tell_attributes(struct file_inode *inode, int fd, bool times)
{
    const char *path = fd >= 0 ? "" : inode->path;
    int from = fd >= 0 ? fd : AT_FDCWD;
    struct ledger_attributes known;
    struct statx seen;
    uint64_t verified_ns;
    if (ledger_file_attributes(&inode->entry, &known, &verified_ns) &&
        sys_statx(from, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &seen) == 0 &&
        seen.stx_size == known.size &&
        (!times || (seen.stx_mtime.tv_sec == known.mtime.tv_sec &&
                    seen.stx_mtime.tv_nsec == known.mtime.tv_nsec)))
        return;
    sys_statx(from, path, AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &seen);
}

static void tell(const struct file_told *told)
{
    if (told->fd >= 0) {
        await_readers(told->fd);
        if (told->open->access == O_RDWR) /* else it did not wait for readers */
            unmap_pages_if_open(told->open, told->fd);
        drop_unlocked(told->fd);
    }
    tell_attributes(told->open->inode, told->fd, told->times);
}

/* ---- the thread ---- */

static bool is_empty(const struct file_teller *teller)
{
    return teller->first == teller->end;
}

/* The next to be told; or false, with how long to wait for one, 0 for ever. */
static bool next(struct file_teller *teller, struct file_told *told, uint64_t *wait_ns)
{
    uint64_t now_ns = sys_now_ns();
    pthread_mutex_lock(&tell_lock);
    if (teller->hurry > 0 || teller->due_ns <= now_ns)
        teller->due = teller->end;
    bool due = teller->first != teller->due;
    *wait_ns = due || is_empty(teller) ? 0 : teller->due_ns - now_ns;
    if (due)
        *told = teller->told[teller->begun++ % FILE_TELL_MAX];
    pthread_mutex_unlock(&tell_lock);
    return due;
}

static void finish(struct file_mount *mount)
{
    struct file_teller *teller = &mount->teller;
    pthread_mutex_lock(&tell_lock);
    teller->first++;
    if (teller->first == teller->due)
        teller->due_ns = sys_now_ns() + DELAY_MS * MS;
    atomic_store(&teller->done, teller->first);
    bool was_silent = atomic_exchange(&teller->silent, false);
    bool awaited = teller->hurry > 0;
    pthread_mutex_unlock(&tell_lock);
    if (awaited)
        sys_futex(&teller->done, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
    if (was_silent)
        log_notice("mount %s: the kernel's NFS client gets answers again", mount->path);
}

static void *tell_on(void *argument)
{
    struct file_mount *mount = argument;
    struct file_teller *teller = &mount->teller;
    struct file_told told;
    uint64_t wait_ns;
    sys_critical_enter();
    for (;;) {
        uint32_t kicks = atomic_load(&teller->kicks);
        if (next(teller, &told, &wait_ns)) {
            tell(&told);
            finish(mount);
            file_put(told.open);
            continue;
        }
        struct timespec wait = {.tv_nsec = (long)wait_ns};
        sys_futex(&teller->kicks, FUTEX_WAIT_PRIVATE, kicks, wait_ns ? &wait : NULL);
    }
    return NULL;
}

static void kick(struct file_teller *teller)
{
    atomic_fetch_add(&teller->kicks, 1);
    sys_futex(&teller->kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* ---- those who ask it ---- */

/* Waits until all before `end` was told, a second at most. */
static void await(struct file_mount *mount, uint32_t end)
{
    struct file_teller *teller = &mount->teller;
    uint64_t begun_ns = sys_now_ns(), until_ns = begun_ns + PATIENCE_MS * MS, now_ns = begun_ns;
    kick(teller);
    uint32_t done;
    while ((int32_t)((done = atomic_load(&teller->done)) - end) < 0 && now_ns < until_ns) {
        struct timespec left = {.tv_sec = (time_t)((until_ns - now_ns) / 1000000000),
                                .tv_nsec = (long)((until_ns - now_ns) % 1000000000)};
        sys_futex(&teller->done, FUTEX_WAIT_PRIVATE, done, &left);
        now_ns = sys_now_ns();
    }
    bool in_vain = (int32_t)(done - end) < 0;
    pthread_mutex_lock(&tell_lock);
    teller->hurry--;
    teller->wait_ns = now_ns + (now_ns - begun_ns) * SHARE;
    in_vain = in_vain && !atomic_exchange(&teller->silent, true);
    pthread_mutex_unlock(&tell_lock);
    if (in_vain)
        log_warning("mount %s: the kernel's NFS client gets no answer: until it does, programs "
                    "without the library may see old sizes and bytes, and opens wait",
                    mount->path);
}

/* The one that is not begun and has the same file, or a new one. NULL: there is no room, or the
 * thread is kept waiting. Under `tell_lock`. */
static struct file_told *place(struct file_teller *teller, struct file_open *open, int fd)
{
    for (uint32_t i = teller->begun; i != teller->end; i++) {
        struct file_told *told = &teller->told[i % FILE_TELL_MAX];
        if (told->open == open && told->fd == fd)
            return told;
    }
    if (teller->end - teller->first == FILE_TELL_MAX || atomic_load(&teller->silent))
        return NULL;
    struct file_told *told = &teller->told[teller->end++ % FILE_TELL_MAX];
    *told = (struct file_told){.open = open, .fd = fd};
    file_hold(open);
    return told;
}

static bool is_started(struct file_mount *mount)
{
    struct file_teller *teller = &mount->teller;
    if (!teller->started)
        teller->started = sys_thread_start(tell_on, mount, "telling the kernel's NFS client");
    return teller->started;
}

/* False: the thread is not asked. */
static bool ask(struct file_open *open, int fd, bool times)
{
    struct file_mount *mount = open->inode->mount;
    struct file_teller *teller = &mount->teller;
    uint64_t now_ns = sys_now_ns();
    pthread_mutex_lock(&tell_lock);
    bool was_empty = is_empty(teller);
    struct file_told *told = is_started(mount) ? place(teller, open, fd) : NULL;
    if (told)
        told->times = told->times || times;
    bool waits = told && now_ns >= teller->wait_ns;
    if (waits)
        teller->hurry++;
    uint32_t end = teller->end;
    pthread_mutex_unlock(&tell_lock);
    if (waits)
        await(mount, end);
    else if (told && was_empty)
        kick(teller);
    else if (!told)
        file_inode_note_written(open->inode); /* for the next time */
    return told;
}

void file_pages_drop(struct file_open *open, int fd, bool times)
{
    if (!open->inode->mount->kernel_nfs)
        return;
    drop_unlocked(fd);
    (void)ask(open, fd, times);
}

void file_pages_drop_closing(struct file_open *open, int fd)
{
    struct file_teller *teller = &open->inode->mount->teller;
    if (!open->inode->mount->kernel_nfs)
        return;
    file_pages_drop(open, fd, true);
    pthread_mutex_lock(&tell_lock);
    for (uint32_t i = teller->begun; i != teller->end; i++) {
        struct file_told *told = &teller->told[i % FILE_TELL_MAX];
        if (told->open == open && told->fd == fd)
            told->fd = -1;
    }
    pthread_mutex_unlock(&tell_lock);
}

void file_pages_settle(void)
{
    for (unsigned i = 0; i < file_mount_count(); i++) {
        struct file_teller *teller = &file_mount_at(i)->teller;
        pthread_mutex_lock(&tell_lock);
        uint32_t end = teller->end;
        bool waits = !is_empty(teller) && !atomic_load(&teller->silent);
        if (waits)
            teller->hurry++;
        pthread_mutex_unlock(&tell_lock);
        if (waits)
            await(file_mount_at(i), end);
    }
}

void file_pages_drop_all(void)
{
    for (int fd = 0, limit = file_table_limit(); fd < limit; fd++) {
        struct file_open *open = file_is_managed(fd) ? file_get(fd) : NULL;
        if (open && open->inode->mount->kernel_nfs &&
            atomic_exchange_explicit(&open->inode->pages_old, false, memory_order_relaxed)) {
            drop_unlocked(fd);
            if (!ask(open, fd, true)) { /* no room */
                file_pages_settle();
                (void)ask(open, fd, true);
            }
        }
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
