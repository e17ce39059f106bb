/*
 * Copies between descriptors. If one of the two is managed, the copy is a loop of reads and writes
 * through the wrappers of this room. They find the right world for each side.
 */
#include "preload/preload.h"

enum { BUFFER_SIZE = 256 * 1024 };

/*
 * Copies up to `length` bytes from `in` at offset `from`. They go to `out` at *to; if `to` is NULL,
 * at its file offset. Returns the bytes copied. These are fewer at the end of the file, if `out`
 * takes no more, or if an error follows some bytes. -1 and errno: nothing was copied.
 */
static ssize_t copy(int in, off_t from, int out, const off_t *to, size_t length)
{
    size_t size = length < BUFFER_SIZE ? length : BUFFER_SIZE;
    if (length == 0)
        return 0;
    char *buffer = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_mmap_failed(buffer))
        return preload_fail(ENOMEM);
    size_t copied = 0;
    ssize_t failed = 0;
    while (copied < length) {
        size_t want = length - copied < size ? length - copied : size;
        ssize_t got = pread(in, buffer, want, from + (off_t)copied);
        if (got <= 0) {
            failed = got;
            break;
        }
        ssize_t put = to ? pwrite(out, buffer, (size_t)got, *to + (off_t)copied)
                         : write(out, buffer, (size_t)got);
        if (put < 0) {
            failed = put;
            break;
        }
        copied += (size_t)put;
        if (put < got)
            break;
    }
    int saved = errno;
    sys_munmap(buffer, size);
    errno = saved;
    return copied > 0 ? (ssize_t)copied : failed;
}

static size_t bounded(size_t length)
{
    return length < FILE_TRANSFER_MAX ? length : FILE_TRANSFER_MAX;
}

/* Moves *offset, or the offset of the descriptor, to where a copy ended. False, with errno: it
 * failed. */
static bool moved(int fd, off_t *offset, off_t end)
{
    if (offset == NULL)
        return lseek(fd, end, SEEK_SET) >= 0;
    if (preload_put(offset, &end, sizeof(end)) == 0)
        return true;
    errno = EFAULT;
    return false;
}

/* True if the descriptor is open with another access mode than `other_access`. */
static bool is_open_for(int fd, int other_access)
{
    int flags = sys_fcntl(fd, F_GETFL, 0);
    return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != other_access;
}

static bool appends(int fd)
{
    return sys_fcntl(fd, F_GETFL, 0) & O_APPEND;
}

/* A managed file is a regular one, so its server is not asked. */
static bool has_pages(int fd)
{
    struct stat status;
    return preload_managed(fd) ||
           (sys_fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)));
}

/* Checks what sendfile(2) demands, in the kernel's order, even if nothing would be copied. Puts
 * into *from where the copy begins. 0 or -errno. */
static int check_sending(int out, int in, const off_t *offset, size_t count, off_t *from)
{
    if (offset && preload_get(from, offset, sizeof(*from)) != 0)
        return -EFAULT;
    if (!is_open_for(in, O_WRONLY))
        return -EBADF;
    off_t now = lseek(in, 0, SEEK_CUR);
    if (now < 0 && offset)
        return -errno;
    *from = offset ? *from : now;
    if (*from < 0 || count > (size_t)(INT64_MAX - *from))
        return -EINVAL;
    if (!is_open_for(out, O_RDONLY))
        return -EBADF;
    return !appends(out) && (count == 0 || has_pages(in)) ? 0 : -EINVAL;
}

PRELOAD_EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
    if (!preload_managed(in) && !preload_managed(out))
        return PRELOAD_REAL(sendfile)(out, in, offset, count);
    off_t from = 0;
    int error = check_sending(out, in, offset, count, &from);
    if (error < 0)
        return preload_fail(-error);
    ssize_t copied = copy(in, from, out, NULL, bounded(count));
    return copied <= 0 || moved(in, offset, from + copied) ? copied : -1;
}

/* Checks what copy_file_range(2) demands, in the kernel's order, even if nothing would be copied.
 * Shortens *length to the end of the file. 0 or -errno. */
static int check_range(int in, off_t from, int out, off_t to, size_t *length)
{
    struct stat source, target;
    if (fstat(in, &source) < 0 || fstat(out, &target) < 0)
        return -errno;
    if (S_ISDIR(source.st_mode) || S_ISDIR(target.st_mode))
        return -EISDIR;
    if (!S_ISREG(source.st_mode) || !S_ISREG(target.st_mode))
        return -EINVAL;
    if (!is_open_for(in, O_WRONLY) || !is_open_for(out, O_RDONLY) || appends(out))
        return -EBADF;
    if (*length > UINT64_MAX - (uint64_t)from || *length > UINT64_MAX - (uint64_t)to)
        return -EOVERFLOW;
    if (from >= source.st_size)
        *length = 0;
    else if (*length > (uint64_t)source.st_size - (uint64_t)from)
        *length = (uint64_t)source.st_size - (uint64_t)from;
    if (to == INT64_MAX) /* no file is longer; pwrite() knows smaller limits */
        return -EFBIG;
    if (from < 0 || to < 0 || *length > (size_t)(INT64_MAX - from))
        return -EINVAL;
    if (*length > (size_t)(INT64_MAX - to))
        *length = (size_t)(INT64_MAX - to);
    bool same = source.st_dev == target.st_dev && source.st_ino == target.st_ino;
    return same && from < to + (off_t)*length && to < from + (off_t)*length ? -EINVAL : 0;
}

PRELOAD_EXPORT ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset,
                                       size_t length, unsigned flags)
{
    if (!preload_managed(in) && !preload_managed(out))
        return PRELOAD_REAL(copy_file_range)(in, in_offset, out, out_offset, length, flags);
    if (sys_fcntl(in, F_GETFD, 0) < 0 || sys_fcntl(out, F_GETFD, 0) < 0)
        return preload_fail(EBADF);
    if (flags != 0)
        return preload_fail(EINVAL);
    off_t from = 0, to = 0;
    if ((in_offset && preload_get(&from, in_offset, sizeof(from)) != 0) ||
        (out_offset && preload_get(&to, out_offset, sizeof(to)) != 0))
        return preload_fail(EFAULT);
    from = in_offset ? from : lseek(in, 0, SEEK_CUR);
    to = out_offset ? to : lseek(out, 0, SEEK_CUR);
    int error = check_range(in, from, out, to, &length);
    if (error < 0)
        return preload_fail(-error);
    ssize_t copied = copy(in, from, out, &to, bounded(length));
    if (copied <= 0)
        return copied;
    return moved(in, in_offset, from + copied) && moved(out, out_offset, to + copied) ? copied : -1;
}

/* Returns the error of a call that would pass pages on. EINVAL makes programs fall back on read()
 * and write(): splice(2). The kernel reports other errors first. */
static int check_splicing(int in, const off64_t *in_offset, int out, const off64_t *out_offset)
{
    if (sys_fcntl(in, F_GETFD, 0) < 0 || sys_fcntl(out, F_GETFD, 0) < 0)
        return EBADF;
    if ((in_offset && !has_pages(in)) || (out_offset && !has_pages(out)))
        return ESPIPE;
    return is_open_for(in, O_WRONLY) && is_open_for(out, O_RDONLY) ? EINVAL : EBADF;
}

enum { SPLICE_FLAGS = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT };

PRELOAD_EXPORT ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset,
                              size_t length, unsigned flags)
{
    if (preload_managed(in) || preload_managed(out)) {
        if (length == 0)
            return 0;
        return preload_fail(flags & ~SPLICE_FLAGS ? EINVAL
                                                  : check_splicing(in, in_offset, out, out_offset));
    }
    return PRELOAD_REAL(splice)(in, in_offset, out, out_offset, length, flags);
}

PRELOAD_EXPORT ssize_t tee(int in, int out, size_t length, unsigned flags)
{
    if (preload_managed(in) || preload_managed(out)) {
        if (length == 0 && !(flags & ~SPLICE_FLAGS))
            return 0;
        return preload_fail(flags & ~SPLICE_FLAGS ? EINVAL : check_splicing(in, NULL, out, NULL));
    }
    return PRELOAD_REAL(tee)(in, out, length, flags);
}

PRELOAD_EXPORT ssize_t vmsplice(int fd, const struct iovec *vectors, size_t count, unsigned flags)
{
    if (preload_managed(fd))
        return preload_fail(EBADF); /* as it is no pipe */
    return PRELOAD_REAL(vmsplice)(fd, vectors, count, flags);
}
