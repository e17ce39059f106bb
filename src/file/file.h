/*
 * What POSIX promises of a file, over NFSv3. The face (src/preload) calls this room only.
 *
 * A managed descriptor is a real descriptor of the kernel that has a `file_open` in the table; its
 * number, flags, locks and offset are the kernel's. Everything returns a result or -errno; EINTR
 * never. A function that takes a descriptor may also return FILE_KERNEL: the file was handed to the
 * kernel
 * ("demoted") before this call did any I/O, so the face makes the real call.
 *
 * Callers hold a critical section (sys/critical.h) from file_get() to file_put().
 */
#ifndef FILE_FILE_H
#define FILE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FILE_KERNEL = -65536, FILE_TABLE_SIZE = 1 << 20 };

/* One call moves at most so much: read(2), NOTES. */
#define FILE_TRANSFER_MAX ((size_t)0x7ffff000)

/* Of Linux 6.9: O_APPEND does not count for this write. */
enum { FILE_NOAPPEND = 0x20 }; /* RWF_NOAPPEND, which older headers lack */

struct file_open;

/* Managed descriptors. NULL: the kernel's. Never locked; file_get() makes use safe against close.
 */
extern _Atomic(struct file_open *) file_table[FILE_TABLE_SIZE];

/* One load for an unmanaged descriptor. */
static inline bool file_is_managed(int fd)
{
    return (unsigned)fd < FILE_TABLE_SIZE &&
           atomic_load_explicit(&file_table[fd], memory_order_relaxed) != NULL;
}

/* Takes a reference that keeps the file open until file_put(); NULL when not managed. */
struct file_open *file_get(int fd);
/* One reference more, for who has one. */
void file_hold(struct file_open *open);
void file_put(struct file_open *open);
/* Gives back several references. */
void file_put_many(struct file_open *open, unsigned references);

/* Which file it is, as fstat(2) shows it; returns O_RDONLY, O_WRONLY or O_RDWR. */
int file_describe(const struct file_open *open, dev_t *device, ino_t *inode);

/* ---- life of the process ---- */

/*
 * Reads the configuration, once, before any other function of this room (the face does it on the
 * first call that could matter). Mistakes in it are said on the log, and leave everything to the
 * kernel. No traffic yet.
 */
void file_start(void);
/* Says that this program has the library, and which mounts it has in reach, if it has some; one of
 * the programs of a service does (run/start.h). After run_start(). */
void file_mounts_say(const char *version);

/* True if any mount is configured: otherwise no call needs more than the real function. */
bool file_enabled(void);

/* May the program make io_uring rings by system call, whose requests the engine does not see? */
bool file_allows_raw_io_uring(void);
/* And are its files served if it makes system calls on files itself? */
bool file_allows_raw_calls(void);

/* All files of the process, also those that are opened later, are the kernel's from now on.
 * `reason` lives for ever. */
void file_leave_to_kernel(const char *reason);

/* Adopts descriptors that came over exec: once, from the constructor. */
void file_adopt_inherited(void);
/* Was any descriptor ever managed? */
bool file_is_any_managed(void);

/* pthread_atfork() handlers. */
void file_fork_prepare(void);
void file_fork_parent(void);
void file_fork_child(void);

/* COMMITs what this process wrote, before exec and exit. Keeps all descriptors as they are. */
int file_commit_all(void);
/* Before another program starts, which may read by the kernel: what this process wrote, or one that
 * it was forked from, is at the server. A load for each mount, if it never wrote behind. */
void file_write_out_all(void);
/* Ends the sessions of this process at their servers, before exec and exit. Who goes on, as exec
 * failed, makes others. */
void file_mounts_end_sessions(void);
/* At exit: COMMITs as above, then folds the statistics. Writes after it are FILE_SYNC. */
void file_finish(void);

/*
 * After setuid() and its like. If the process cannot become the owner of its run directory any more
 * (real, effective and saved user are others), what it wrote is committed, and it goes on in the
 * run directory of its new user.
 */
void file_user_changed(void);

/* ---- descriptors ---- */

/*
 * After the kernel opened `fd` with these flags: adopts it, or leaves it to the kernel and records
 * the reason. Must be called for every open of a path, O_TRUNC in the flags included (the ledger is
 * told). 0; or -EIO: it is to be closed, as the mount has a fence (nfstab(5)) that this host does
 * not have.
 */
int file_opened(int fd, int flags);

/* The same for a descriptor that came from another process, or over exec: it was opened before, and
 * is not refused. `reason` not NULL: it must stay with the kernel. */
void file_received(int fd, int flags, const char *reason);

/* Like file_opened(), for a descriptor that must stay with the kernel, e.g. fopen(): `reason` is
 * recorded. If it can write the file that moves to the kernel's world, as by file_demote(). 0, or
 * -EIO: that cannot be, and the kernel must not write it. */
int file_opened_for_kernel(int fd, int flags, const char *reason);

/*
 * Before the kernel closes or replaces `fd` (close, dup2 onto it, close_range): COMMITs if it was
 * the last descriptor of a file this process wrote. 0 or -errno (-EIO, -ENOSPC) that close() must
 * report after the kernel's close.
 */
int file_closing(int fd);

/* After the kernel made `to` a duplicate of `from` (dup, dup2, dup3, F_DUPFD): to's old file was
 * given to file_closing() before. */
void file_duplicated(int from, int to);

/* Before the kernel changes owner, mode or times of a regular file, of any mount or none: what was
 * written to it until now is sent. */
void file_attributes_changing(dev_t device, ino_t number);

/* What was written to [offset, offset + length) (0: to the end) is sent to the server, now if
 * `wait`, else soon. It vouches for nothing. */
void file_write_out(struct file_open *open, off_t offset, off_t length, bool wait);

/*
 * Moves the file to the kernel's world: the descriptors of it that processes of this host have are
 * the kernel's alone from now on; what any of them wrote is committed before this returns. It comes
 * back when all of them have ended. No-op on unmanaged descriptors. 0, or -errno of the COMMIT; or
 * -EIO, and it is managed still: the kernel must not write the file now, see file/world.h.
 */
int file_demote(int fd, const char *reason);

/* For a descriptor that libc's streams use from now on: the same; but one that can only be read
 * moves nothing. It alone is the kernel's then, with fresh pages. */
int file_demote_stream(int fd, const char *reason);

/* Before a use of the kernel's pages that needs no coherence, as a private map: what was written
 * until now will be there. */
void file_fresh(int fd);

/* Before the kernel maps an unmanaged descriptor so that others see what is stored there. */
void file_shared_map(int fd);

/* ---- input and output ---- */

/* `flags` are RWF_*. Short only at end of file, or when an error came after some bytes. */
ssize_t file_preadv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                    off_t offset, int flags);
ssize_t file_pwritev(struct file_open *open, int fd, const struct iovec *vectors, int count,
                     off_t offset, int flags);
/* At the kernel's file offset, which moves. */
ssize_t file_readv(struct file_open *open, int fd, const struct iovec *vectors, int count,
                   int flags);
ssize_t file_writev(struct file_open *open, int fd, const struct iovec *vectors, int count,
                    int flags);
off_t file_lseek(struct file_open *open, int fd, off_t offset, int whence);
/* posix_fadvise(2) with valid arguments. It is advice: nothing is waited for, nothing fails. */
void file_advise(struct file_open *open, off_t offset, off_t length, int advice);

/* Of whichever world the file is: never FILE_KERNEL. 0 or -errno; -EIO once for each loss. */
int file_fsync(struct file_open *open, int fd);
/*
 * Beside the kernel's fsync of a descriptor that is not managed: COMMITs what processes of this
 * host wrote to the same file through the engine. 0 or -errno, which the fsync must report. After
 * it, or before one that the kernel carries out on its own.
 */
int file_fsynced_by_kernel(int fd);
/* sync(): COMMITs every file of this host that has uncommitted data. 0, or -errno of one that
 * failed. */
int file_sync_all(void);
/* Learns RLIMIT_FSIZE, which may have changed: what would make a file longer fails with -EFBIG and
 * SIGXFSZ, as in the kernel, or is cut there. */
void file_size_limit_learn(void);
int file_ftruncate(struct file_open *open, int fd, off_t size);
/* Before the kernel changes the size of what this names (the file of `dirfd`, if the path is
 * empty), by open(O_TRUNC) or an unmanaged descriptor: what was written until now is at the server
 * for good. Whether it was cut off, nobody could tell later if this process were killed. */
void file_truncating(int dirfd, const char *path);
/* After the kernel changed the size of an unmanaged descriptor's file: what the ledger has beyond
 * it, by other processes, must not come back. */
void file_truncated_by_kernel(int fd, off_t size);
/*
 * truncate(2) where no descriptor can be had, or closed: the kernel does it, and the ledger hears
 * of it. 0 or -errno; -EMFILE where the ledger is not at hand; FILE_KERNEL: nobody need hear of it.
 */
int file_truncate_path(const char *path, off_t size);
/* fallocate(2): -EOPNOTSUPP for what NFSv3 cannot do. `emulate`: as posix_fallocate(3), by writing.
 */
int file_allocate(struct file_open *open, int fd, int mode, off_t offset, off_t length,
                  bool emulate);
/* Before a lock is asked for or given back: the kernel knows the offset, where one may begin, and
 * the server has what was written. Does nothing for an unmanaged descriptor. */
void file_locking(int fd);
/* After a lock was got: what others wrote under it is seen, as by the kernel's NFS client. */
void file_locked(struct file_open *open);
/* Did this process lock a file with this number? Then the close of any descriptor of it, also one
 * that only the library has, would end its locks: fcntl_locking(2). */
bool file_is_locked(dev_t device, ino_t number);
/* Has this process moved it to the kernel, for as long as it lives? Its locks are not known then.
 */
bool file_is_left_to_kernel(dev_t device, ino_t number);
/* Does a write of the descriptor with these flags (RWF_*) go to the end of the file? */
bool file_appends(struct file_open *open, int fd, int flags);
/* Brackets fcntl(F_SETFL, flags) of any descriptor. */
struct file_flags_change {
    struct file_open *open; /* held; NULL: it is not managed */
    bool shared, appends;   /* other processes are kept away; whether writes append changes */
};
void file_flags_begin(struct file_flags_change *change, int fd, int flags);
void file_flags_end(struct file_flags_change *change);
/* Before the kernel looks at the offset, e.g. for a lock; any descriptor. */
void file_offset_show(int fd);
/* The open file of this descriptor, or those of all, may be used by others than those who call this
 * room: by another process, or through a descriptor that is not managed. */
void file_shared(int fd);
void file_shared_all(void);

/* ---- attributes: after the kernel answered ---- */

/* fstat of a managed descriptor: overlays size, blocks and times. */
int file_stat(struct file_open *open, int fd, struct stat *status);
/* Does the kernel's NFS client get no answers, so that whoever asks it would hang? */
bool file_kernel_is_silent(const struct file_open *open);
/* Then all of it, by what the client knows and what ours is told. Else FILE_KERNEL: it can be
 * asked. */
int file_stat_in_silence(struct file_open *open, int fd, struct stat *status);
/* What the kernel says, or in silence knows. 0 or -errno. */
int file_stat_by_kernel(const struct file_open *open, int fd, struct stat *status);
/* What the kernel told of dirfd, path and flags, those of statx(2), if its device has a mount of
 * ours. */
void file_stat_path(int dirfd, const char *path, int flags, struct stat *status);
void file_statx_path(int dirfd, const char *path, int flags, struct statx *status);

/* True if files of this device may be ours: for calls that name a file by path, as truncate(). */
bool file_on_mount(dev_t device);

#endif
