/* What SQEs mean, and carrying one out at once. */
#include "ahead/ahead.h"
#include "durable/fsync.h"
#include "fd/adopt.h"
#include "fd/closed.h"
#include "fd/life.h"
#include "fd/offset.h"
#include "fd/stat.h"
#include "fd/truncate.h"
#include "fd/world.h"
#include "file/table.h"
#include "ahead/buffered.h"
#include "io/write.h"
#include "preload/uring/uring.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <linux/openat2.h>

/* Operations and values. <linux/io_uring.h> may be older than they are. */
enum {
    OP_READ_MULTISHOT = 49,
    OP_FIXED_FD_INSTALL = 54,
    OP_FTRUNCATE = 55,
    OP_READV_FIXED = 60,
    OP_WRITEV_FIXED = 61,
    OP_PIPE = 62,
    OP_LAST_KNOWN = 64,
    MESSAGE_SEND_FD = 1
};

static uint32_t file_index(const struct io_uring_sqe *sqe)
{
    return sqe->file_index;
}

enum uring_kind uring_kind(const struct io_uring_sqe *sqe)
{
    switch (sqe->opcode) {
    case IORING_OP_READV:
    case IORING_OP_WRITEV:
    case IORING_OP_READ:
    case IORING_OP_WRITE:
    case IORING_OP_READ_FIXED:
    case IORING_OP_WRITE_FIXED:
    case OP_READV_FIXED:
    case OP_WRITEV_FIXED:
        return URING_TRANSFER;
    case IORING_OP_FSYNC:
    case IORING_OP_SYNC_FILE_RANGE:
    case IORING_OP_FALLOCATE:
    case IORING_OP_FADVISE:
    case OP_FTRUNCATE:
        return URING_AT_ONCE;
    case IORING_OP_CLOSE:
        return file_index(sqe) ? URING_TABLE : URING_AT_ONCE;
    case IORING_OP_SPLICE:
    case IORING_OP_TEE:
        return URING_COPY;
    case IORING_OP_OPENAT:
    case IORING_OP_OPENAT2:
        return file_index(sqe) ? URING_TABLE : URING_NAME;
    case IORING_OP_STATX:
        return URING_NAME;
    case IORING_OP_ACCEPT:
    case IORING_OP_SOCKET:
    case OP_PIPE:
        return file_index(sqe) ? URING_TABLE : URING_PASS;
    case IORING_OP_FILES_UPDATE:
        return URING_TABLE;
    case IORING_OP_MSG_RING:
        return sqe->addr == MESSAGE_SEND_FD ? URING_TABLE : URING_PASS;
    case OP_READ_MULTISHOT:
    case OP_FIXED_FD_INSTALL:
        return URING_OTHER;
    default:
        return sqe->opcode > OP_LAST_KNOWN ? URING_OTHER : URING_PASS;
    }
}

static bool is_vectored(unsigned opcode)
{
    return opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV || opcode == OP_READV_FIXED ||
           opcode == OP_WRITEV_FIXED;
}

bool uring_is_write(unsigned opcode)
{
    return opcode == IORING_OP_WRITE || opcode == IORING_OP_WRITEV ||
           opcode == IORING_OP_WRITE_FIXED || opcode == OP_WRITEV_FIXED;
}

/* -EFAULT, as the kernel says, if there is no memory. If a sandbox forbids the system call, it only
 * says so where there is certainly none. */
static int copy_in(void *to, const void *from, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
    if (sys_bad_pointer(from))
        return -EFAULT;
    long copied = sys_call6(SYS_process_vm_readv, sys_call1(SYS_getpid, 0), (long)&local, 1,
                            (long)&remote, 1, 0);
    if (copied == -EFAULT || (copied >= 0 && (size_t)copied != size))
        return -EFAULT;
    if (copied < 0)
        memcpy(to, from, size);
    return 0;
}

int uring_memory(struct preload_request *request, const struct io_uring_sqe *sqe)
{
    int result = is_vectored(sqe->opcode) ? preload_request_vectors(request, sqe->addr, sqe->len)
                                          : preload_request_buffer(request, sqe->addr, sqe->len);
    return result == 0 && preload_request_lacks_memory(request) ? -EFAULT : result;
}

/* ---- registered files ---- */

bool uring_source_managed(struct uring *record, const struct io_uring_sqe *sqe)
{
    const unsigned fixed = 1U << 31; /* SPLICE_F_FD_IN_FIXED */
    if (sqe->splice_flags & fixed)
        return uring_files_managed(record, (unsigned)sqe->splice_fd_in);
    return file_is_managed(sqe->splice_fd_in);
}

/* False: the file stays the engine's. */
static bool demote(int fd, const char *reason)
{
    return fd_demote(fd, reason) == 0 || !file_is_managed(fd);
}

static bool demote_slot(struct uring *record, unsigned slot)
{
    int fd;
    struct file_open *open = uring_files_get(record, slot, &fd);
    if (!open)
        return true;
    bool gone = demote(fd, "passed to another ring");
    file_put(open);
    return gone;
}

/* A request of the ring registers descriptors. The table is not followed there, so they are
 * demoted. */
static bool files_update(struct uring *record, const struct io_uring_sqe *sqe)
{
    const int *files = (const int *)(uintptr_t)sqe->addr;
    for (unsigned i = 0; i < sqe->len; i++) {
        int fd;
        if (copy_in(&fd, files + i, sizeof(fd)) < 0)
            return true;
        if (file_is_managed(fd) && !demote(fd, "registered by a request of a ring"))
            return false;
        if (sqe->off != UINT32_MAX && sqe->off + i < UINT32_MAX && fd != -2)
            uring_files_updated(record, (unsigned)sqe->off + i, NULL, 1);
    }
    return true;
}

bool uring_table_changes(struct uring *record, const struct io_uring_sqe *sqe)
{
    if (sqe->opcode == IORING_OP_FILES_UPDATE)
        return files_update(record, sqe);
    if (sqe->opcode == IORING_OP_MSG_RING)
        return demote_slot(record, (unsigned)sqe->addr3);
    if (file_index(sqe) != UINT32_MAX) /* IORING_FILE_INDEX_ALLOC: an empty slot */
        uring_files_updated(record, file_index(sqe) - 1, NULL, 1);
    return true;
}

/* ---- paths ---- */

/* True for a regular file below a mount, or a name there that O_CREAT would make. */
static bool on_mount(int dirfd, const char *path, int open_flags, int at_flags)
{
    char directory[PATH_MAX];
    struct stat status;
    if (open_flags & (O_PATH | O_DIRECTORY))
        return false;
    int result = sys_fstatat(dirfd, path, &status, at_flags);
    if (result == 0)
        return S_ISREG(status.st_mode) && fd_on_mount(status.st_dev);
    if (result != -ENOENT || !(open_flags & O_CREAT) || strlen(path) >= sizeof(directory))
        return false;
    strcpy(directory, path);
    char *slash = strrchr(directory, '/');
    if (!slash)
        strcpy(directory, ".");
    else
        slash[slash == directory] = '\0';
    return sys_fstatat(dirfd, directory, &status, 0) == 0 && fd_on_mount(status.st_dev);
}

/* Reads what a request to open asks for. False: it opens nothing below a mount, or is invalid. */
static bool asks_for_ours(const struct io_uring_sqe *sqe, struct open_how *how)
{
    *how = (struct open_how){.flags = sqe->open_flags, .mode = sqe->len};
    if (sqe->opcode == IORING_OP_OPENAT2 &&
        (sqe->len < sizeof(*how) ||
         copy_in(how, (const void *)(uintptr_t)sqe->off, sizeof(*how)) < 0))
        return false;
    return on_mount(sqe->fd, (const char *)(uintptr_t)sqe->addr, (int)how->flags, 0);
}

/* Opens a file below a mount, and adopts it. The kernel opens all others in its own time. */
static ssize_t open_now(const struct io_uring_sqe *sqe)
{
    const char *path = (const char *)(uintptr_t)sqe->addr;
    struct open_how how;
    if (!asks_for_ours(sqe, &how))
        return FILE_KERNEL;
    if (how.flags & O_TRUNC)
        fd_truncating(sqe->fd, path);
    int fd = sqe->opcode == IORING_OP_OPENAT
                 ? sys_openat(sqe->fd, path, (int)how.flags, (mode_t)how.mode)
                 : (int)sys_call4(SYS_openat2, sqe->fd, path, sqe->off, sqe->len);
    return fd >= 0 ? preload_adopt(fd, (int)how.flags) : fd;
}

static bool open_to_kernel(const struct io_uring_sqe *sqe)
{
    const char *path = (const char *)(uintptr_t)sqe->addr;
    struct open_how how;
    struct stat status;
    if (!asks_for_ours(sqe, &how))
        return true;
    bool there = sys_fstatat(sqe->fd, path, &status, 0) == 0;
    if (there && !fd_closed_has_device(status.st_dev) &&
        fd_is_left_to_kernel(status.st_dev, status.st_ino))
        return true; /* it may also have locks */
    /* One must not exist before; the other must not be closed. */
    if (how.flags & O_EXCL || (there && fd_is_locked(status.st_dev, status.st_ino)))
        return false;
    /* The kernel itself will empty the file, or not. */
    how.flags = (how.flags & ~(uint64_t)O_TRUNC) | O_CLOEXEC;
    int fd = sqe->opcode == IORING_OP_OPENAT
                 ? sys_openat(sqe->fd, path, (int)how.flags, (mode_t)how.mode)
                 : (int)sys_call4(SYS_openat2, sqe->fd, sqe->addr, &how, sizeof(how));
    if (sqe->personality && (fd == -EACCES || fd == -EPERM)) /* its personality may succeed */
        fd = sys_openat(sqe->fd, path, O_PATH | O_CLOEXEC | ((int)how.flags & O_NOFOLLOW), 0);
    if (fd < 0) /* the kernel will fail, too, unless the reason soon passes */
        return fd != -EMFILE && fd != -ENFILE && fd != -ENOMEM && fd != -EINTR;
    int result = fd_opened_for_kernel(fd, O_RDWR, "opened by a request of a ring");
    sys_close(fd);
    return result == 0;
}

bool uring_name_to_kernel(const struct io_uring_sqe *sqe)
{
    if (sqe->opcode == IORING_OP_STATX)
        return !on_mount(sqe->fd, (const char *)(uintptr_t)sqe->addr, 0,
                         (int)sqe->statx_flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
    return (sqe->opcode != IORING_OP_OPENAT && sqe->opcode != IORING_OP_OPENAT2) ||
           open_to_kernel(sqe);
}

static ssize_t statx_now(const struct io_uring_sqe *sqe)
{
    const char *path = (const char *)(uintptr_t)sqe->addr;
    struct statx *extended = (struct statx *)(uintptr_t)sqe->off;
    int flags = preload_statx_flags(sqe->fd, path, (int)sqe->statx_flags);
    int result = sys_statx(sqe->fd, path, flags, sqe->len, extended);
    return result != 0 ? result : preload_statx_overlay(sqe->fd, path, flags, extended);
}

/* ---- files ---- */

static ssize_t transfer(const struct io_uring_sqe *sqe, struct file_open *open, int fd,
                        const struct async_request *memory)
{
    off_t offset = (off_t)sqe->off;
    int flags = (int)sqe->rw_flags;
    bool write = uring_is_write(sqe->opcode);
    if (offset < -1)
        return -EINVAL;
    if (offset >= 0)
        return (write ? io_pwritev : ahead_preadv)(open, fd, memory->vectors, memory->count, offset,
                                                   flags);
    /* The kernel's descriptor has the offset, so it must still be there. */
    struct file_open *named = file_get(fd);
    if (named)
        file_put(named);
    if (named != open)
        return -EOPNOTSUPP;
    return (write ? fd_writev : fd_readv)(open, fd, memory->vectors, memory->count, flags);
}

static ssize_t transfer_now(const struct io_uring_sqe *sqe, struct file_open *open, int fd,
                            bool *complete)
{
    struct preload_request request;
    request.more = NULL;
    request.more_room = 0;
    ssize_t result = uring_memory(&request, sqe);
    if (result == 0) {
        result = transfer(sqe, open, fd, &request.file);
        *complete = result == (ssize_t)request.length;
    }
    free(request.more);
    return result;
}

ssize_t uring_now(const struct io_uring_sqe *sqe, struct file_open *open, int fd, bool *complete)
{
    switch (sqe->opcode) {
    case IORING_OP_OPENAT:
    case IORING_OP_OPENAT2:
        return open_now(sqe);
    case IORING_OP_STATX:
        return statx_now(sqe);
    case IORING_OP_SPLICE:
    case IORING_OP_TEE:
        return -EINVAL; /* as splice() does: programs fall back on reading and writing */
    case IORING_OP_CLOSE:
        return sqe->flags & IOSQE_FIXED_FILE ? -EBADF : preload_close(fd);
    case IORING_OP_FSYNC:
        return sqe->fsync_flags & ~IORING_FSYNC_DATASYNC ? -EINVAL : durable_fsync(open, fd);
    case IORING_OP_SYNC_FILE_RANGE: /* a hint that vouches for nothing */
        return 0;
    case IORING_OP_FADVISE:
        if ((int64_t)sqe->off >= 0)
            ahead_advise(open, (off_t)sqe->off, sqe->len, (int)sqe->fadvise_advice);
        return 0;
    case IORING_OP_FALLOCATE:
        if ((int64_t)sqe->off < 0 || (int64_t)sqe->addr <= 0)
            return -EINVAL;
        return fd_allocate(open, fd, (int)sqe->len, (off_t)sqe->off, (off_t)sqe->addr, false);
    case OP_FTRUNCATE:
        if (sqe->addr || sqe->len || sqe->rw_flags || sqe->buf_index || sqe->splice_fd_in ||
            (int64_t)sqe->off < 0)
            return -EINVAL;
        return fd_ftruncate(open, fd, (off_t)sqe->off);
    default:
        return transfer_now(sqe, open, fd, complete);
    }
}
