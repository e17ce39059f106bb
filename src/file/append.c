/*
 * Writes to the end of the file: O_APPEND and RWF_APPEND; and the offset after them.
 *
 * Whether a descriptor appends is known by the kernel, and asked for when it may have changed: see
 * ledger_append_changed(). Where the end is, and that nobody else writes there, is the registry's
 * business: see ledger_append_begin().
 *
 * write() moves the offset to the end of what it wrote. As long as nobody but this process has the
 * open file description that is owed to the kernel, until something looks at the offset.
 */
#include "file/append.h"
#include "file/async.h"
#include "file/behind.h"
#include "file/fetched.h"
#include "file/getattr.h"
#include "file/inode.h"
#include "file/io.h"
#include "file/world.h"
#include "ledger/append.h"
#include "ledger/offset.h"
#include "sys/sys.h"

/* `appends` of an open file: what the kernel said, below the number of changes that went before. */
enum { APPENDS = 1, CHANGES_SHIFT = 1 };
#define NOT_ASKED (UINT64_C(1) << 40) /* above all numbers */

#define NOTHING_OWED (-1)

static _Atomic uint64_t
    shares; /* counts the times that descriptors of this process became those of others, too */
static _Atomic bool owing; /* some open file may owe its offset to the kernel */

static bool is_shared(const struct file_open *open)
{
    return atomic_load(&open->shares) != atomic_load(&shares);
}

enum file_offset_lock file_offset_lock(struct file_open *open)
{
    if (is_shared(open))
        return ledger_offset_lock(&open->inode->entry) ? FILE_OFFSET_SHARED : FILE_OFFSET_FREE;
    pthread_mutex_lock(&open->offset_lock);
    return FILE_OFFSET_PRIVATE;
}

void file_offset_unlock(struct file_open *open, enum file_offset_lock lock)
{
    if (lock == FILE_OFFSET_SHARED)
        ledger_offset_unlock(&open->inode->entry);
    else if (lock == FILE_OFFSET_PRIVATE)
        pthread_mutex_unlock(&open->offset_lock);
}

void file_append_open(struct file_open *open, int flags)
{
    pthread_mutex_init(&open->offset_lock, NULL);
    atomic_store(&open->appends, NOT_ASKED | (flags & O_APPEND ? APPENDS : 0));
    atomic_store(&open->offset_owed, NOTHING_OWED);
    atomic_store(&open->shares, atomic_load(&shares));
}

static bool ask_appends(struct file_open *open, int fd, uint64_t known, uint32_t changes)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    /* A number that is another file's by now says nothing: a ring may have files that have none. */
    if (flags < 0 || atomic_load(&file_table[fd]) != open)
        return known & APPENDS;
    bool appends = flags & O_APPEND;
    atomic_store(&open->appends, (uint64_t)changes << CHANGES_SHIFT | (appends ? APPENDS : 0));
    return appends;
}

bool file_appends(struct file_open *open, int fd, int flags)
{
    if (flags & (RWF_APPEND | FILE_NOAPPEND))
        return flags & RWF_APPEND;
    uint64_t known = atomic_load_explicit(&open->appends, memory_order_relaxed);
    uint32_t changes = ledger_append_changes();
    if (known >> CHANGES_SHIFT == changes)
        return known & APPENDS;
    return ask_appends(open, fd, known, changes);
}

static pthread_mutex_t flags_lock = PTHREAD_MUTEX_INITIALIZER; /* see append.h */

bool file_flags_lock(struct file_open *open)
{
    pthread_mutex_lock(&flags_lock);
    return open && is_shared(open) && ledger_flags_lock(&open->inode->entry);
}

void file_flags_unlock(struct file_open *open, bool shared)
{
    if (shared)
        ledger_flags_unlock(&open->inode->entry);
    pthread_mutex_unlock(&flags_lock);
}

void file_flags_child(void)
{
    pthread_mutex_init(&flags_lock, NULL); /* who held it does not exist here */
}

void file_flags_begin(struct file_flags_change *change, int fd, int flags)
{
    file_offset_show(fd);
    struct file_open *open = file_get(fd);
    change->open = open;
    change->shared = file_flags_lock(open);
    int now = sys_fcntl(fd, F_GETFL, 0);
    if (open && now >= 0 && (now ^ flags) & O_DIRECT) {
        file_ahead_allow(open, flags);
        atomic_store(&open->behind, file_behind_allows(open->access, flags));
    }
    change->appends = now >= 0 && (now ^ flags) & O_APPEND;
    if (change->appends)
        ledger_append_changed();
}

void file_flags_end(struct file_flags_change *change)
{
    if (change->appends)
        ledger_append_changed();
    file_flags_unlock(change->open, change->shared);
    if (change->open)
        file_put(change->open);
}

/* ---- the offset ---- */

void file_offset_repay(struct file_open *open, int fd)
{
    if (atomic_load(&open->offset_owed) == NOTHING_OWED || !file_open_is_at(open, fd))
        return;
    int64_t offset = atomic_exchange(&open->offset_owed, NOTHING_OWED);
    if (offset != NOTHING_OWED)
        sys_lseek(fd, offset, SEEK_SET);
}

void file_offset_show(int fd)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return;
    file_offset_repay(open, fd);
    file_put(open);
}

/* In the turn: who appends next moves it next, and the file may have been cut since the last. */
static void move_offset(struct file_open *open, int fd, int64_t end)
{
    atomic_store(&open->offset_owed, end);
    atomic_store(&owing, true);
    /* Looked at after that: who shares the descriptor now finds what is owed, or is seen here. */
    if (is_shared(open))
        file_offset_repay(open, fd);
}

void file_shared(int fd)
{
    struct file_open *open = file_get(fd);
    if (!open)
        return;
    atomic_store(&open->shares, UINT64_MAX);
    file_offset_repay(open, fd);
    file_put(open);
}

void file_shared_all(void)
{
    atomic_fetch_add(&shares, 1);
    if (!atomic_exchange(&owing, false))
        return;
    int limit = file_table_limit();
    for (int fd = 0; fd < limit; fd++)
        if (file_is_managed(fd))
            file_offset_show(fd);
}

void file_append_child(struct file_open *open)
{
    pthread_mutex_init(&open->offset_lock, NULL);   /* it may be another thread's of the parent */
    atomic_store(&open->offset_owed, NOTHING_OWED); /* by the parent, if so */
}

/* ---- writing ---- */

/* Takes the turn, at the end of the file. The write that is in the way may be in flight from
 * this thread. */
static int take_turn(struct file_open *open, struct ledger_append *turn)
{
    struct file_inode *inode = open->inode;
    struct ledger_attributes attributes;
    bool wait = false;
    for (;;) {
        int result = ledger_append_begin(&inode->entry, turn, wait);
        if (result == -ENODATA)
            result = file_inode_ask(inode, open->auth, &attributes);
        else if (result == -EAGAIN)
            wait = !file_async_help(NULL);
        else
            return result == -ENOSPC ? FILE_NO_ROOM : result;
        if (result != 0 && result != -EAGAIN)
            return result;
    }
}

/* In the turn. */
static ssize_t write_there(struct file_open *open, const struct ledger_append *turn,
                           struct file_piece *data, enum nfs_stable stable)
{
    if (turn->offset > INT64_MAX - data->length)
        return -EFBIG;
    if (file_size_is_limited()) {
        int64_t room = file_size_room(turn->offset);
        if (room < 0)
            return room;
        if ((uint64_t)room < data->length)
            data->length = (size_t)room;
    }
    return file_write_at(open, data, turn->offset, stable);
}

ssize_t file_append(struct file_open *open, int fd, const struct iovec *vectors, int count,
                    int flags, bool move)
{
    struct file_inode *inode = open->inode;
    enum nfs_stable stable;
    ssize_t length = file_write_check(open, vectors, count, 0, flags, &stable);
    if (length <= 0)
        return length;
    if (!file_inode_enter(inode)) {
        file_offset_repay(open, fd);
        return FILE_KERNEL;
    }
    struct file_piece data = {vectors, count, (size_t)length, .appends = true};
    struct ledger_append turn = {.length = (uint64_t)length, .fresh_ns = file_fresh_since(inode)};
    ssize_t result = take_turn(open, &turn);
    if (result == 0)
        result = write_there(open, &turn, &data, stable);
    if (result > 0 && move)
        move_offset(open, fd, (int64_t)turn.offset + result);
    ledger_append_end(&inode->entry, &turn, result < (ssize_t)data.length);
    if (result > 0)
        file_written(open, fd, stable);
    result = file_finish_call(open, result);
    /* The server may have carried it out: the kernel would append it once more. */
    return result == FILE_KERNEL && data.unsettled ? -EIO : result;
}
