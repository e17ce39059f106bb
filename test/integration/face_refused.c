/*
 * Calls with wrong arguments, on descriptors that were opened in each way: which error the kernel
 * gives, of several that would be right; compared as protocol.h says. Left out is what kernels of
 * different versions answer differently.
 */
#include <aio.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "protocol.h"

static char own[50];
static struct iovec three[3] = {{own, 10}, {own + 10, 0}, {own + 20, 30}};
static volatile int below_zero = -1;

static void transfers(int fd)
{
    CALL(read(fd, got, 0));
    CALL(read(fd, got, 10));
    CALL(read(fd, NULL, 0));
    CALL(write(fd, NULL, 0));
    CALL(pread(fd, got, 0, -1));
    CALL(pread(fd, got, 10, -1));
    CALL(pread(fd, got, 10, LONG_MAX));
    CALL(pread(fd, got, 10, LONG_MAX - 5));
    CALL(pwrite(fd, block, 0, -1));
    CALL(pwrite(fd, block, 10, -1));
    CALL(pwrite(fd, block, 0, LONG_MAX));
    CALL(pwrite(fd, block, 10, LONG_MAX));
    CALL(readv(fd, three, 0));
    CALL(readv(fd, three, 3));
    CALL(writev(fd, NULL, 0));
    CALL(preadv(fd, three, 3, -1));
    CALL(preadv(fd, three, 0, -5));
    CALL(pwritev(fd, three, 3, -1));
    CALL(preadv2(fd, three, 3, 0, 0x4000));
    CALL(pwritev2(fd, three, 3, 0, 0x4000));
    CALL(preadv2(fd, three, 3, -2, 0));
    CALL(preadv2(fd, three, 0, 0, 0x8000));
    CALL(pwritev2(fd, three, 0, 0, RWF_APPEND));
    CALL(lseek(fd, -1, SEEK_SET));
    CALL(lseek(fd, 0, 99));
    CALL(lseek(fd, -1, SEEK_DATA));
    CALL(lseek(fd, 1 << 30, SEEK_HOLE));
    CALL(lseek(fd, LONG_MAX, SEEK_END));
    CALL(lseek(fd, LONG_MIN, SEEK_CUR));
    CALL(lseek(fd, -100000000, SEEK_END));
    CALL(lseek(fd, 0, SEEK_SET));
}

/* What an open for reading only, or for writing only, would refuse for that: before these or after
 * them, as the kernel's version has it. */
static void vectors(int fd)
{
    static struct iovec many[IOV_MAX + 1];
    struct iovec big[2] = {{block, SIZE_MAX / 2}, {block, SIZE_MAX / 2}};
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        many[i] = three[0];
    CALL(readv(fd, three, below_zero));
    CALL(readv(fd, many, IOV_MAX + 1));
    CALL(readv(fd, big, 2));
    CALL(writev(fd, three, below_zero));
    CALL(writev(fd, many, IOV_MAX + 1));
    CALL(writev(fd, big, 2));
    CALL(preadv(fd, three, below_zero, 0));
    CALL(preadv(fd, big, 2, 0));
    CALL(pwritev(fd, many, IOV_MAX + 1, 0));
    CALL(pwritev(fd, big, 2, 0));
}

static void sizes(int fd)
{
    CALL(ftruncate(fd, -1));
    CALL(fallocate(fd, 0, 0, 0));
    CALL(fallocate(fd, 0, -1, 10));
    CALL(fallocate(fd, 0, 10, -1));
    CALL(fallocate(fd, 0, LONG_MAX, 10));
    CALL(fallocate(fd, 0x1000, 0, 10));
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10));
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 0));
    CALL(fallocate(fd, FALLOC_FL_ZERO_RANGE, LONG_MAX, 10));
    CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE, 0, 4096));
    CALL(posix_fallocate(fd, 0, 0));
    CALL(posix_fallocate(fd, -1, 10));
    CALL(posix_fallocate(fd, 0, -10));
    CALL(posix_fallocate(fd, LONG_MAX, 10));
    CALL(posix_fadvise(fd, 0, 0, 99));
    CALL(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL));
    CALL(posix_fadvise(fd, -5, 10, POSIX_FADV_WILLNEED));
    CALL(posix_fadvise(fd, 0, -1, POSIX_FADV_DONTNEED));
    CALL(sync_file_range(fd, 0, 10, 0x100));
    CALL(sync_file_range(fd, LONG_MAX, 10, 2));
    CALL(fsync(fd));
}

static void between_two(int fd)
{
    int pipes[2];
    CHECK(pipe2(pipes, O_NONBLOCK) == 0);
    off_t before = -1, start = 0;
    CALL(sendfile(fd, fd, NULL, 0));
    CALL(sendfile(pipes[1], fd, &before, 10));
    CALL(sendfile(fd, -1, NULL, 10));
    CALL(sendfile(-1, fd, NULL, 10));
    CALL(sendfile(pipes[0], fd, NULL, 10));
    CALL(copy_file_range(fd, &before, fd, NULL, 10, 0));
    CALL(copy_file_range(fd, NULL, fd, NULL, 10, 1));
    CALL(copy_file_range(fd, NULL, pipes[1], NULL, 10, 0));
    CALL(copy_file_range(pipes[0], NULL, fd, NULL, 10, 0));
    CALL(copy_file_range(-1, NULL, fd, NULL, 0, 7));
    CALL(copy_file_range(fd, &start, fd, &start, 10, 0));
    CALL(splice(fd, NULL, fd, NULL, 10, 0));
    CALL(splice(-1, NULL, fd, NULL, 10, 0));
    CALL(splice(fd, NULL, -1, NULL, 10, 0));
    CALL(splice(fd, NULL, pipes[1], NULL, 0, 0));
    CALL(splice(fd, NULL, pipes[1], NULL, 10, 0x100));
    CALL(splice(pipes[0], &start, fd, NULL, 10, 0));
    CALL(splice(fd, &start, pipes[1], &start, 10, 0));
    CALL(splice(fd, NULL, pipes[0], NULL, 10, 0));
    CALL(splice(pipes[1], NULL, fd, NULL, 10, 0));
    CALL(tee(fd, pipes[1], 10, 0));
    CALL(tee(pipes[0], fd, 10, 0));
    CALL(tee(fd, pipes[1], 0, 0));
    CALL(tee(fd, pipes[1], 0, 0x100));
    CALL(tee(-1, fd, 10, 0));
    CALL(vmsplice(fd, three, 1, 0));
    CALL(ioctl(fd, FICLONE, -1));
    struct file_clone_range range = {.src_fd = -1};
    CALL(ioctl(fd, FICLONERANGE, &range));
    void *volatile nowhere = NULL;
    CALL(ioctl(fd, FICLONERANGE, nowhere));
    CALL(ioctl(fd, FICLONERANGE, (void *)16));
    CALL(ioctl(fd, FIDEDUPERANGE, nowhere));
    CALL(ioctl(fd, FIONREAD, nowhere));
    struct stat status;
    struct statx extended;
    CALL(syscall(SYS_newfstatat, fd, (void *)16, &status, AT_EMPTY_PATH));
    CALL(syscall(SYS_newfstatat, fd, "", (void *)16, AT_EMPTY_PATH));
    CALL(statx(fd, (void *)16, AT_EMPTY_PATH, STATX_SIZE, &extended));
    CALL(dup2(fd, -1));
    CALL(dup3(fd, fd, 0));
    CALL(fcntl(fd, F_DUPFD, -1));
    close(pipes[0]);
    close(pipes[1]);
}

static void asynchronous(int fd)
{
    struct aiocb request = {
        .aio_fildes = fd, .aio_buf = got, .aio_nbytes = 10, .aio_offset = -1, .aio_lio_opcode = 77};
    struct aiocb *list[] = {&request};
    const struct aiocb *awaited[] = {&request};
    if (CALL(aio_read(&request)) == 0) {
        while (aio_error(&request) == EINPROGRESS)
            aio_suspend(awaited, 1, NULL);
        CALL(aio_error(&request));
        CALL(aio_return(&request));
    }
    CALL(aio_fsync(99, &request));
    CALL(lio_listio(99, list, 1, NULL));
}

static void refused(void)
{
    static const int ways[] = {
        O_RDWR,          O_RDONLY, O_WRONLY, O_RDWR | O_APPEND, O_WRONLY | O_APPEND,
        O_RDWR | O_SYNC, O_PATH};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        char name[] = "0";
        name[0] += (char)i;
        int fd = OPEN(open(name, O_RDWR | O_CREAT | O_TRUNC, 0600));
        CALL(write(fd, block, 10000));
        CALL(fsync(fd));
        CALL(close(fd));
        fd = OPEN(open(name, ways[i]));
        memset(own, 'o', sizeof(own));
        CALL(pread(fd, got, 10000, 0));
        transfers(fd);
        if ((ways[i] & O_ACCMODE) == O_RDWR)
            vectors(fd);
        sizes(fd);
        between_two(fd);
        asynchronous(fd);
        CALL(close(fd));
    }
}

int main(int argc, char **argv)
{
    run_in_both(argc, argv, refused);
    return 0;
}
