/*
 * What programs do with files beside reading and writing: flush, lock, duplicate, copy, map, use as
 * streams and asynchronously, under a limit of sizes; compared as protocol.h says.
 */
#include <aio.h>
#include <execinfo.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "protocol.h"

static void flushing_and_flags(void)
{
    int fd = OPEN(open("flags", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, block, 8192));
    CALL(fsync(fd));
    CALL(fdatasync(fd));
    CALL(sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
    CALL(syncfs(fd));
    sync();
    CALL(fsync(-1));
    CALL(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
    CALL(posix_fadvise64(fd, 0, 0, POSIX_FADV_DONTNEED));
    CALL(posix_fadvise(fd, 0, 0, 77));
    CALL(readahead(fd, 0, 4096));

    CALL(fcntl(fd, F_GETFL) & ~O_LARGEFILE);
    CALL(fcntl(fd, F_SETFD, FD_CLOEXEC));
    CALL(fcntl64(fd, F_GETFD));
    CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
    CALL(fcntl(fd, F_GETFL) & ~O_LARGEFILE);
    CALL(fcntl(fd, 9999, 0));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    CALL(fcntl(fd, F_SETLK, &lock));
    CALL(lockf(fd, F_TEST, 10));
    int copy = fcntl(fd, F_DUPFD, 50), last = fcntl(fd, F_DUPFD_CLOEXEC, 60);
    CALL(copy >= 50 && last >= 60);
    CALL(lseek(fd, 4000, SEEK_SET));
    CALL(read(copy, got, 100));
    BYTES(got, 100);
    CALL(lseek(last, 0, SEEK_CUR));
    CALL(dup2(fd, copy) == copy);
    CALL(dup2(copy, copy) == copy);
    CALL(dup3(fd, last, O_CLOEXEC) == last);
    CALL(dup3(fd, fd, 0));
    CALL(dup2(-1, copy));
    CALL(dup(-1));
    CALL(close(fd));
    CALL(pwrite(copy, "still here", 10, 8000));
    CALL(pread(last, got, 8192, 0));
    BYTES(got, 8192);
    CALL(close(last));

    /* Appending, from the start or later. */
    CALL(fcntl(copy, F_SETFL, O_APPEND));
    CALL(lseek(copy, 0, SEEK_SET));
    CALL(write(copy, "at the end", 10));
    CALL(lseek(copy, 0, SEEK_CUR));
    CALL(close(copy));
    fd = OPEN(open("flags", O_WRONLY | O_APPEND));
    CALL(write(fd, "and beyond", 10));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(close(fd));
    fd = OPEN(open("flags", O_RDWR | O_DSYNC));
    CALL(pwrite(fd, "durable", 7, 5));
    CALL(pread(fd, got, 10000, 0));
    BYTES(got, 8212);
    CALL(close(fd));
}

static void copying(void)
{
    int in = OPEN(open("from", O_RDWR | O_CREAT | O_TRUNC, 0666));
    int out = OPEN(open("to", O_RDWR | O_CREAT | O_TRUNC, 0666)), pair[2], pipes[2];
    off_t offset = 1000;
    off64_t from = 5, to = 70000;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipes) == 0);
    CALL(write(in, block, LARGE));

    CALL(sendfile(out, in, &offset, 50000));
    note(__LINE__, "offset", offset, 0);
    CALL(lseek(in, 100, SEEK_SET));
    CALL(sendfile64(out, in, NULL, 60000));
    CALL(lseek(in, 0, SEEK_CUR));
    CALL(lseek(out, 0, SEEK_CUR));
    CALL(sendfile(pair[0], in, &offset, 2000));
    CALL(read(pair[1], got, 5000));
    BYTES(got, 2000);
    offset = LARGE - 10;
    CALL(sendfile(out, in, &offset, 1000));
    CALL(sendfile(out, in, &offset, 1000));
    offset = -1;
    CALL(sendfile(out, in, &offset, 10));
    CALL(sendfile(in, -1, NULL, 10));

    CALL(copy_file_range(in, &from, out, &to, 100000, 0));
    note(__LINE__, "offsets", from * 1000000 + to, 0);
    CALL(lseek(in, 0, SEEK_SET));
    CALL(lseek(out, 200000, SEEK_SET));
    CALL(copy_file_range(in, NULL, out, NULL, LARGE, 0));
    CALL(lseek(in, 0, SEEK_CUR));
    CALL(lseek(out, 0, SEEK_CUR));
    CALL(copy_file_range(in, NULL, out, NULL, 100, 0));
    CALL(copy_file_range(in, NULL, out, NULL, 100, 1));
    /* Up to the last byte that a file can have, where the file system has no smaller limit. */
    off_t size = lseek(out, 0, SEEK_END);
    from = 0, to = INT64_MAX - 5;
    ssize_t copied = copy_file_range(in, &from, out, &to, 100, 0);
    CHECK(copied == 5 || (copied == -1 && errno == EFBIG));
    CALL(ftruncate(out, size));
    from = 0, to = 50;
    CALL(copy_file_range(in, &from, in, &to, 100, 0));
    to = 5000;
    CALL(copy_file_range(in, &from, in, &to, 100, 0));
    CALL(copy_file_range(in, &from, pipes[1], NULL, 100, 0));
    for (off_t at = 0; at < 600000; at += LARGE) {
        CALL(pread(out, got, LARGE, at));
        BYTES(got, LARGE);
    }

    /* Either it works or the program is told to copy by itself. */
    from = 0;
    errno = 0;
    ssize_t moved = splice(in, &from, pipes[1], NULL, 100, 0);
    if (moved == 100)
        CHECK(read(pipes[0], got, 200) == 100 && memcmp(got, block, 100) != 1000);
    else
        CHECK(moved == -1 && errno == EINVAL);
    CALL(tee(in, out, 100, 0));
    CALL(close(in));
    CALL(close(out));
    for (int i = 0; i < 2; i++) {
        close(pair[i]);
        close(pipes[i]);
    }
}

static void asynchronous_write(int fd, size_t length, off_t offset)
{
    struct aiocb request = {
        .aio_fildes = fd, .aio_buf = block + 7, .aio_nbytes = length, .aio_offset = offset};
    const struct aiocb *wait[1] = {&request};
    CALL(aio_write(&request));
    while (aio_error(&request) == EINPROGRESS)
        aio_suspend(wait, 1, NULL);
    CALL(aio_return(&request));
}

/* Uses that only the kernel can serve: what was written before must be there, and the reverse. */
static void streams(void)
{
    int fd = OPEN(open("stream", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, block, 1000));
    FILE *stream = fdopen(fd, "r+");
    CHECK(stream != NULL);
    CALL(fprintf(stream, "after %d bytes\n", 1000));
    CALL(fflush(stream));
    CALL(fseek(stream, 10, SEEK_SET));
    CALL(fread(got, 1, 2000, stream));
    BYTES(got, 1005);
    CALL(fclose(stream));

    stream = fopen64("stream", "a+");
    CHECK(stream != NULL);
    CALL(fputs("appended\n", stream));
    CALL((stream = freopen("stream", "r", stream)) != NULL);
    CALL(fread(got, 1, 2000, stream));
    BYTES(got, 1024);
    CALL(fclose(stream));
    CALL(fopen("none", "r") == NULL);

    fd = OPEN(open("printed", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, "number ", 7));
    CALL(dprintf(fd, "%d of %s\n", 42, "these"));
    CALL(pread(fd, got, 100, 0));
    BYTES(got, 16);
    CALL(close(fd));
}

static void kernel_uses(void)
{
    int fd = OPEN(open("map", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, block, 50000));
    CALL(lseek(fd, 333, SEEK_SET));
    CHECK(mmap(NULL, 50000, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0) == MAP_FAILED &&
          errno == EOPNOTSUPP);
    char *map = mmap(NULL, 50000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    BYTES(map, 50000);
    memcpy(map + 40000, "through the map", 15);
    CALL(pread(fd, got, 50000, 0));
    BYTES(got, 50000);
    CALL(pwrite(fd, "through the call", 16, 1));
    BYTES(map, 50000);
    CALL(lseek(fd, 0, SEEK_CUR));
    CHECK(munmap(map, 50000) == 0);
    CALL(close(fd));
    fd = OPEN(open("map2", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, block, 5000));
    map = mmap64(NULL, 5000, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED);
    BYTES(map, 5000);
    CHECK(munmap(map, 5000) == 0);
    CALL(close(fd));

    streams();

    fd = OPEN(open("aio", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, block, 3000));
    asynchronous_write(fd, 500, 2800);
    CALL(pread(fd, got, 5000, 0));
    BYTES(got, 3300);
    CALL(close(fd));

    /* Written inside libc, at the descriptor's position. */
    fd = OPEN(open("trace", O_RDWR | O_CREAT | O_TRUNC, 0666));
    void *here[1] = {(void *)(uintptr_t)kernel_uses};
    CALL(write(fd, "trace:\n", 7));
    backtrace_symbols_fd(here, 1, fd);
    CALL(write(fd, "end\n", 4));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(pread(fd, got, 1000, 0) > 20);
    CALL(close(fd));

    /* On the standard descriptors, where stdio is. */
    int saved = dup(1);
    fd = OPEN(open("output", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(write(fd, "first\n", 6));
    CHECK(dup2(fd, 1) == 1);
    printf("second\n");
    fflush(stdout);
    CALL(write(1, "third\n", 6));
    CHECK(dup2(saved, 1) == 1 && close(saved) == 0);
    CALL(pread(fd, got, 100, 0));
    BYTES(got, 19);
    CALL(close(fd));
}

/* What would pass the limit of sizes is cut, or fails; the signal is ignored. */
static void limited(void)
{
    struct rlimit limit, before;
    struct iovec vectors[3] = {{block, 3000}, {block + 9, 4000}, {block + 99, 5000}};
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    int fd = OPEN(open("limited", O_RDWR | O_CREAT | O_TRUNC, 0666));
    CALL(pwrite(fd, block, 1000, 11000));
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    limit = (struct rlimit){10000, before.rlim_max};
    CALL(setrlimit(RLIMIT_FSIZE, &limit));
    CALL(pwrite(fd, block, 8000, 0));
    CALL(write(fd, block, 0));
    CALL(pwrite(fd, block, 8000, 8000));
    CALL(pwrite(fd, block, 1, 10000));
    CALL(pwrite(fd, block, 1, 12000));
    CALL(pwrite(fd, block, 0, 12000));
    CALL(lseek(fd, 1000, SEEK_SET));
    CALL(writev(fd, vectors, 3));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(write(fd, block, 10));
    CALL(ftruncate(fd, 11500));
    CALL(ftruncate(fd, 11501));
    CALL(ftruncate(fd, 9000));
    CALL(ftruncate(fd, 10001));
    CALL(posix_fallocate(fd, 9000, 5000));
    CALL(posix_fallocate(fd, 9000, 1000));
    CALL(lseek(fd, 0, SEEK_END));
    asynchronous_write(fd, 3000, 9500);
    CALL(pread(fd, got, 20000, 0));
    BYTES(got, 10000);
    CALL(prlimit(0, RLIMIT_FSIZE, &before, NULL));
    CALL(pwrite(fd, block, 8000, 8000));
    signal(SIGXFSZ, handler);
    CALL(close(fd));
}

static void uses(void)
{
    flushing_and_flags();
    copying();
    kernel_uses();
    limited();
}

int main(int argc, char **argv)
{
    run_in_both(argc, argv, uses);
    return 0;
}
