/* Reading and writing: streaming, positioned, vectors; and the file offset. */
#include <limits.h>

#include "fd/offset.h"
#include "fd/stat.h"
#include "ahead/buffered.h"
#include "io/write.h"
#include "preload/preload.h"

static inline struct iovec one_vector(const void *buffer, size_t size)
{
    return (struct iovec){(void *)buffer, size < FILE_TRANSFER_MAX ? size : FILE_TRANSFER_MAX};
}

/* read() and its like have their vector on this stack: such memory is certainly there. */
static bool is_near(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)__builtin_frame_address(0) < 256;
}

/* 0 or -errno */
static int check_vectors(const struct iovec *vectors, int count)
{
    if (count < 0 || count > IOV_MAX)
        return -EINVAL;
    if (count > 0 && !is_near(vectors) &&
        preload_get(NULL, vectors, (size_t)count * sizeof(*vectors)) != 0)
        return -EFAULT;
    for (int i = 0; i < count; i++)
        if (vectors[i].iov_len > SSIZE_MAX)
            return -EINVAL;
    return 0;
}

typedef ssize_t transfer(struct file_open *open, int fd, const struct iovec *vectors, int count,
                         int flags);
typedef ssize_t transfer_at(struct file_open *open, int fd, const struct iovec *vectors, int count,
                            off_t offset, int flags);

/* A transfer at the file offset. FILE_KERNEL: make the real call; else the result, with errno set.
 * It is a cancellation point, as the real call is, but only before anything was done. */
PRELOAD_SLOW static ssize_t managed(transfer *function, int fd, const struct iovec *vectors,
                                    int count, int flags)
{
    pthread_testcancel();
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    ssize_t result = check_vectors(vectors, count);
    if (result == 0)
        result = function(open, fd, vectors, count, flags);
    preload_leave(open);
    return preload_result(result);
}

/* A transfer at a given offset. Otherwise as managed(). */
PRELOAD_SLOW static ssize_t managed_at(transfer_at *function, int fd, const struct iovec *vectors,
                                       int count, off_t offset, int flags)
{
    pthread_testcancel();
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    ssize_t result = offset >= 0 ? check_vectors(vectors, count) : -EINVAL;
    if (result == 0)
        result = function(open, fd, vectors, count, offset, flags);
    preload_leave(open);
    return preload_result(result);
}

PRELOAD_EXPORT ssize_t read(int fd, void *buffer, size_t size)
{
    if (preload_managed(fd)) {
        struct iovec vector = one_vector(buffer, size);
        PRELOAD_RETURN_IF_SERVED(managed(fd_readv, fd, &vector, 1, 0));
    }
    return PRELOAD_REAL(read)(fd, buffer, size);
}

/* The real function checks the end of the buffer, and ends the program if it is overrun. */
PRELOAD_EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
    if (size <= room && preload_managed(fd))
        return read(fd, buffer, size);
    return PRELOAD_REAL(__read_chk)(fd, buffer, size, room);
}

PRELOAD_EXPORT ssize_t write(int fd, const void *buffer, size_t size)
{
    if (preload_managed(fd)) {
        struct iovec vector = one_vector(buffer, size);
        PRELOAD_RETURN_IF_SERVED(managed(fd_writev, fd, &vector, 1, 0));
    }
    return PRELOAD_REAL(write)(fd, buffer, size);
}

PRELOAD_EXPORT ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    if (preload_managed(fd)) {
        struct iovec vector = one_vector(buffer, size);
        PRELOAD_RETURN_IF_SERVED(managed_at(ahead_preadv, fd, &vector, 1, offset, 0));
    }
    return PRELOAD_REAL(pread)(fd, buffer, size, offset);
}

PRELOAD_EXPORT ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room)
{
    if (size <= room && preload_managed(fd))
        return pread(fd, buffer, size, offset);
    return PRELOAD_REAL(__pread_chk)(fd, buffer, size, offset, room);
}

PRELOAD_EXPORT ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
    if (preload_managed(fd)) {
        struct iovec vector = one_vector(buffer, size);
        PRELOAD_RETURN_IF_SERVED(managed_at(io_pwritev, fd, &vector, 1, offset, 0));
    }
    return PRELOAD_REAL(pwrite)(fd, buffer, size, offset);
}

PRELOAD_EXPORT ssize_t readv(int fd, const struct iovec *vectors, int count)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed(fd_readv, fd, vectors, count, 0));
    return PRELOAD_REAL(readv)(fd, vectors, count);
}

PRELOAD_EXPORT ssize_t writev(int fd, const struct iovec *vectors, int count)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed(fd_writev, fd, vectors, count, 0));
    return PRELOAD_REAL(writev)(fd, vectors, count);
}

PRELOAD_EXPORT ssize_t preadv(int fd, const struct iovec *vectors, int count, off_t offset)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_at(ahead_preadv, fd, vectors, count, offset, 0));
    return PRELOAD_REAL(preadv)(fd, vectors, count, offset);
}

PRELOAD_EXPORT ssize_t pwritev(int fd, const struct iovec *vectors, int count, off_t offset)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_at(io_pwritev, fd, vectors, count, offset, 0));
    return PRELOAD_REAL(pwritev)(fd, vectors, count, offset);
}

/* In the calls with flags, offset -1 means the file offset: preadv2(2). */
PRELOAD_EXPORT ssize_t preadv2(int fd, const struct iovec *vectors, int count, off_t offset,
                               int flags)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(offset == -1
                                     ? managed(fd_readv, fd, vectors, count, flags)
                                     : managed_at(ahead_preadv, fd, vectors, count, offset, flags));
    return PRELOAD_REAL(preadv2)(fd, vectors, count, offset, flags);
}

PRELOAD_EXPORT ssize_t pwritev2(int fd, const struct iovec *vectors, int count, off_t offset,
                                int flags)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(offset == -1
                                     ? managed(fd_writev, fd, vectors, count, flags)
                                     : managed_at(io_pwritev, fd, vectors, count, offset, flags));
    return PRELOAD_REAL(pwritev2)(fd, vectors, count, offset, flags);
}

/* The kernel has the offset, the server has the end of the file. */
PRELOAD_SLOW static off_t managed_lseek(int fd, off_t offset, int whence)
{
    struct file_open *open = preload_enter(fd);
    if (open == NULL)
        return FILE_KERNEL;
    off_t result = fd_lseek(open, fd, offset, whence);
    preload_leave(open);
    return preload_result(result);
}

PRELOAD_EXPORT off_t lseek(int fd, off_t offset, int whence)
{
    if (preload_managed(fd))
        PRELOAD_RETURN_IF_SERVED(managed_lseek(fd, offset, whence));
    return PRELOAD_REAL(lseek)(fd, offset, whence);
}
