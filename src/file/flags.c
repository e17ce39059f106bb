/*
 * Whether a descriptor appends, and the offset after a write to the end of the file.
 *
 * The kernel knows whether a descriptor appends. It is asked when that may have changed: see
 * ledger_append_changed().
 *
 * write() moves the offset to the end of what it wrote. As long as only this process has the open
 * file description, that is owed to the kernel, until something looks at the offset.
 */
#include "file/flags.h"
#include "file/table.h"
#include "ledger/append.h"
#include "ledger/offset.h"
#include "sys/sys.h"

/* `appends` of an open file: bit 0 is what the kernel said, the rest the number of changes before
 * that. */
enum { APPENDS = 1, CHANGES_SHIFT = 1 };
#define NOT_ASKED (UINT64_C(1) << 40) /* higher than any number of changes */

#define NOTHING_OWED (-1)

static _Atomic uint64_t
    shares;                /* counts how often others came to share descriptors of this process */
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

void file_flags_open(struct file_open *open, int flags)
{
    pthread_mutex_init(&open->offset_lock, NULL);
    atomic_store(&open->appends, NOT_ASKED | (flags & O_APPEND ? APPENDS : 0));
    atomic_store(&open->offset_owed, NOTHING_OWED);
    atomic_store(&open->shares, atomic_load(&shares));
}

static bool ask_appends(struct file_open *open, int fd, uint64_t known, uint32_t changes)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    /* A number that is another file's by now tells nothing: files of a ring may have no descriptor.
     */
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

static pthread_mutex_t flags_lock = PTHREAD_MUTEX_INITIALIZER; /* see flags.h */

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

void file_flags_lock_child(void)
{
    pthread_mutex_init(&flags_lock, NULL); /* the thread that held it does not exist here */
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

void file_offset_owe(struct file_open *open, int fd, int64_t end)
{
    atomic_store(&open->offset_owed, end);
    atomic_store(&owing, true);
    /* Looked at after that: a thread that shares the descriptor now finds what is owed, or is seen
     * here. */
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

void file_flags_child(struct file_open *open)
{
    pthread_mutex_init(&open->offset_lock, NULL);   /* a thread of the parent may hold it */
    atomic_store(&open->offset_owed, NOTHING_OWED); /* if anything is owed, the parent owes it */
}
