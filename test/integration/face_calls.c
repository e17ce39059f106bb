/*
 * Every wrapped call, made in two directories: the one given, and one that is a plain local
 * directory (a second argument, or a new one in /tmp). The results, the errors and the contents of
 * all files must be the same, call for call and byte for byte.
 *
 * What may differ by the file system and not by us (fallocate's modes, allocated blocks, reflinks,
 * times) is left out, or only checked to be one of the answers that programs expect.
 */
#include <aio.h>
#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "program.h"

enum { LINES = 2000, LINE = 160, LARGE = 300000 };

/* What happened in one of the two directories. */
struct protocol {
    char lines[LINES][LINE];
    int count;
};
static struct protocol protocols[2], *protocol;

static void note(int line, const char *what, long long result, int error)
{
    if (protocol->count == LINES)
        fail("too many lines");
    snprintf(protocol->lines[protocol->count++], LINE, "line %d: %.100s = %lld%s%s", line, what,
             result, result < 0 ? " " : "", result < 0 ? strerrorname_np(error) : "");
}

/* Makes a call, notes result and errno, and yields the result. */
#define CALL(expression)                             \
    ({                                               \
        errno = 0;                                   \
        long long result_ = (long long)(expression); \
        note(__LINE__, #expression, result_, errno); \
        result_;                                     \
    })

/* Bytes, as a checksum (FNV-1a). */
static void note_bytes(int line, const char *what, const void *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    note(line, what, (long long)(sum >> 1), 0);
}
#define BYTES(buffer, size) note_bytes(__LINE__, "bytes of " #buffer, buffer, size)

/* A descriptor's number is of no interest, its failure is. */
static int noted_open(int line, const char *what, int fd)
{
    note(line, what, fd < 0 ? -1 : 0, errno);
    return fd;
}
#define OPEN(expression) (errno = 0, noted_open(__LINE__, #expression, (expression)))

static char block[LARGE], got[LARGE];

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

/* The twins that fortified and 64-bit builds, and programs built against older libraries, call. */
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int dirfd, const char *path, int flags);
extern int __openat64_2(int dirfd, const char *path, int flags);
extern ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
extern ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room);
extern ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room);
extern int __xstat(int version, const char *path, struct stat *status);
extern int __fxstat(int version, int fd, struct stat *status);
extern int __lxstat(int version, const char *path, struct stat *status);
extern int __fxstatat(int version, int dirfd, const char *path, struct stat *status, int flags);
extern int __xstat64(int version, const char *path, struct stat64 *status);
extern int __fxstat64(int version, int fd, struct stat64 *status);

static void opening(void)
{
    int fd = OPEN(open("a", O_RDWR | O_CREAT | O_EXCL, 0640));
    CALL(write(fd, block, 1000));
    CALL(close(fd));
    OPEN(open("a", O_RDWR | O_CREAT | O_EXCL, 0640));
    OPEN(open("none", O_RDONLY));
    OPEN(open("none/below", O_RDONLY));
    OPEN(open("a/below", O_RDONLY));
    OPEN(open(".", O_RDWR));
    OPEN(open("a", O_RDONLY | O_DIRECTORY));
    OPEN(open("", O_RDONLY));

    int dirfd = OPEN(open(".", O_RDONLY | O_DIRECTORY));
    int path = OPEN(open(".", O_PATH));
    int (*const plain[])(const char *, int, ...) = {open, open64};
    for (int i = 0; i < 2; i++) {
        fd = OPEN(plain[i]("a", O_RDWR));
        CALL(pread(fd, got, 2000, 0));
        BYTES(got, 1000);
        CALL(close(fd));
    }
    int (*const below_directory[])(int, const char *, int, ...) = {openat, openat64};
    for (int i = 0; i < 2; i++) {
        fd = OPEN(below_directory[i](i ? path : dirfd, "b", O_WRONLY | O_CREAT | O_TRUNC, 0600));
        CALL(write(fd, block + i, 500));
        CALL(close(fd));
    }
    int (*const checked[])(const char *, int) = {__open_2, __open64_2};
    int (*const checked_at[])(int, const char *, int) = {__openat_2, __openat64_2};
    for (int i = 0; i < 2; i++) {
        fd = OPEN(checked[i]("b", O_RDWR));
        CALL(read(fd, got, 600));
        BYTES(got, 500);
        CALL(close(fd));
        fd = OPEN(checked_at[i](dirfd, "b", O_RDONLY | O_CLOEXEC));
        CALL(read(fd, got, 300));
        BYTES(got, 300);
        CALL(fcntl(fd, F_GETFD));
        CALL(close(fd));
    }
    fd = OPEN(creat("c", 0604));
    CALL(write(fd, block, 77));
    CALL(read(fd, got, 77));
    CALL(close(fd));
    fd = OPEN(creat64("c", 0604));
    CALL(lseek(fd, 0, SEEK_END));
    CALL(close(fd));

    /* Links into the directory, and a path that comes from outside. */
    CALL(symlink("a", "link"));
    fd = OPEN(open("link", O_RDWR));
    CALL(pwrite(fd, "via a link", 10, 100));
    CALL(pread(fd, got, 200, 50));
    BYTES(got, 200);
    CALL(close(fd));
    OPEN(open("link", O_RDWR | O_NOFOLLOW));
    char whole[PATH_MAX + 16];
    CHECK(getcwd(whole, PATH_MAX) != NULL);
    fd = OPEN(open(strcat(whole, "/./../none/../a"), O_RDONLY));
    strcpy(strstr(whole, "/./"), "/a");
    fd = OPEN(open(whole, O_RDONLY));
    CALL(read(fd, got, 1000));
    BYTES(got, 1000);
    CALL(close(fd));

    char pattern[4][24] = {"t1-XXXXXX", "t2-XXXXXX", "t3-XXXXXX.tmp", "t4-XXXXXX.tmp"};
    int temporary[4] = {OPEN(mkstemp(pattern[0])), OPEN(mkostemp64(pattern[1], O_CLOEXEC)),
                        OPEN(mkstemps64(pattern[2], 4)), OPEN(mkostemps(pattern[3], 4, O_SYNC))};
    for (int i = 0; i < 4; i++) {
        CALL(write(temporary[i], block, 4321));
        CALL(pread64(temporary[i], got, 5000, 1000));
        BYTES(got, 3321);
        CALL(unlink(pattern[i]));
        CALL(pread(temporary[i], got, 10, 0));
        CALL(close(temporary[i]));
    }
    CALL(close(dirfd));
    CALL(close(path));
    CALL(close(path));
}

static void reading_and_writing(void)
{
    int fd = OPEN(open("rw", O_RDWR | O_CREAT | O_TRUNC, 0666));
    int reader = OPEN(open("rw", O_RDONLY)), writer = OPEN(open("rw", O_WRONLY));
    struct iovec three[3] = {{block, 10}, {block + 5000, 0}, {block + 100, 9000}};
    struct iovec two[2] = {{got, 7000}, {got + 7000, 100000}};
    struct iovec bad[1] = {{got, (size_t)SSIZE_MAX + 1}};

    static struct iovec many[IOV_MAX + 1];
    volatile int negative = -1; /* the compiler knows that it is wrong */

    CALL(write(fd, block, LARGE));
    CALL(write(fd, block, 0));
    CALL(read(fd, got, 10));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek64(fd, -1000, SEEK_END));
    CALL(read(fd, got, 5000));
    BYTES(got, 1000);
    CALL(read(fd, got, 0));
    CALL(pread(fd, got, LARGE, 0));
    BYTES(got, LARGE);
    CALL(pread(fd, got, 100, LARGE - 50));
    CALL(pread(fd, got, 100, LARGE + 50));
    CALL(pread(fd, got, 100, -1));
    CALL(pwrite(fd, got, 100, -5));
    CALL(pwrite64(fd, block, 333, LARGE + 5000));
    CALL(pread(fd, got, 10000, LARGE - 100));
    BYTES(got, 5433);

    CALL(read(writer, got, 10));
    CALL(pread(writer, got, 10, 0));
    CALL(write(reader, block, 10));
    CALL(pwrite(reader, block, 10, 0));
    CALL(ftruncate(reader, 10));
    CALL(write(-1, block, 10));
    CALL(read(9999, got, 10));

    CALL(lseek(fd, 12345, SEEK_SET));
    CALL(writev(fd, three, 3));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(lseek(fd, 12300, SEEK_SET));
    CALL(readv(fd, two, 2));
    BYTES(got, 100000);
    CALL(pwritev(fd, three, 3, 777));
    CALL(preadv(fd, two, 2, 700));
    BYTES(got, 100000);
    CALL(pwritev64(fd, three, 3, LARGE));
    CALL(preadv64(fd, two, 2, LARGE - 10000));
    BYTES(got, 15000);
    CALL(preadv(fd, two, 0, 0));
    CALL(preadv(fd, two, negative, 0));
    CALL(readv(fd, many, IOV_MAX + 1));
    CALL(readv(fd, bad, 1));
    CALL(preadv(fd, two, 2, -1));

    CALL(lseek(fd, 100, SEEK_SET));
    CALL(pwritev2(fd, three, 3, -1, 0));
    CALL(preadv2(fd, two, 2, -1, 0));
    CALL(lseek(fd, 0, SEEK_CUR));
    CALL(pwritev64v2(fd, three, 3, 50, RWF_DSYNC));
    CALL(pwritev2(fd, three, 1, 20, RWF_SYNC));
    CALL(preadv64v2(fd, two, 2, 0, RWF_HIPRI));
    BYTES(got, 100000);
    CALL(preadv2(fd, two, 2, -2, 0));

    CALL(lseek(fd, 0, SEEK_SET));
    CALL(__read_chk(fd, got, 5000, sizeof(got)));
    CALL(__pread_chk(fd, got + 5000, 5000, 5000, sizeof(got) - 5000));
    CALL(__pread64_chk(fd, got + 10000, 5000, 10000, sizeof(got) - 10000));
    BYTES(got, 15000);

    /* lseek: each whence, and what is refused. */
    CALL(lseek(fd, -1, SEEK_SET));
    CALL(lseek(fd, 0, 99));
    CALL(lseek(fd, -10 * LARGE, SEEK_END));
    CALL(lseek(fd, 2 * LARGE, SEEK_SET));
    CALL(read(fd, got, 10));
    CALL(lseek(fd, 5, SEEK_CUR));
    CALL(lseek(fd, 2 * LARGE, SEEK_DATA));
    CALL(lseek(fd, 0, SEEK_DATA));
    CALL(lseek(fd, 0, SEEK_END));

    /* A second descriptor of the same file, with an offset of its own. */
    CALL(read(reader, got, 100));
    CALL(lseek(reader, 0, SEEK_CUR));
    CALL(write(writer, "over", 4));
    CALL(pread(reader, got, 100, 0));
    BYTES(got, 100);
    CALL(close(reader));
    CALL(close(writer));
    CALL(close(fd));
    CALL(close(fd));
}

static void sizes(void)
{
    struct stat status;
    struct stat64 status64;
    struct statx extended;
    int fd = OPEN(open("size", O_RDWR | O_CREAT | O_TRUNC, 0640));
    CALL(write(fd, block, 10000));
    CALL(ftruncate(fd, 5000));
    CALL(lseek(fd, 0, SEEK_END));
    CALL(ftruncate64(fd, 20000));
    CALL(pread(fd, got, 20000, 0));
    BYTES(got, 20000);
    CALL(ftruncate(fd, -1));
    CALL(truncate("size", 15000));
    CALL(lseek(fd, 0, SEEK_END));
    CALL(truncate64("size", 16000));
    CALL(pread(fd, got, 20000, 0));
    BYTES(got, 16000);
    CALL(truncate("none", 10));
    CALL(truncate(".", 10));
    CALL(truncate("size", -1));

    CALL(posix_fallocate(fd, 0, 100000));
    CALL(lseek(fd, 0, SEEK_END));
    CALL(posix_fallocate64(fd, 110000, 1000));
    CALL(lseek(fd, 0, SEEK_END));
    CALL(pread(fd, got, LARGE, 0));
    BYTES(got, 111000);
    CALL(posix_fallocate(fd, -1, 10));
    CALL(posix_fallocate(fd, 0, 0));
    CALL(posix_fallocate(-1, 0, 10));
    CALL(fallocate(fd, 0, -1, 10));
    CALL(fallocate64(fd, 0, 0, 0));
    errno = 0;
    int result = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 200000);
    CHECK(result == 0 || errno == EOPNOTSUPP);
    CALL(lseek(fd, 0, SEEK_END));

#define SHOW(s)                                              \
    do {                                                     \
        note(__LINE__, "size", (s).st_size, 0);              \
        note(__LINE__, "mode", (s).st_mode, 0);              \
        note(__LINE__, "links", (long long)(s).st_nlink, 0); \
    } while (0)
    CALL(pwrite(fd, block, 10, 222222));
    CALL(fstat(fd, &status));
    SHOW(status);
    CALL(fstat64(fd, &status64));
    SHOW(status64);
    CALL(stat("size", &status));
    SHOW(status);
    CALL(pwrite(fd, block, 10, 233333));
    CALL(stat64("size", &status64));
    SHOW(status64);
    CALL(lstat("link", &status));
    CALL(lstat("size", &status));
    SHOW(status);
    CALL(lstat64("size", &status64));
    SHOW(status64);
    CALL(fstatat(AT_FDCWD, "size", &status, AT_SYMLINK_NOFOLLOW));
    SHOW(status);
    CALL(fstatat64(fd, "", &status64, AT_EMPTY_PATH));
    SHOW(status64);
    CALL(pwrite(fd, block, 10, 244444));
    CALL(statx(AT_FDCWD, "size", 0, STATX_ALL, &extended));
    note(__LINE__, "size", (long long)extended.stx_size, 0);
    CALL(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &extended));
    note(__LINE__, "size", (long long)extended.stx_size, 0);
    CALL(stat("none", &status));
    CALL(fstat(-1, &status));
    const char *volatile no_path = NULL; /* Linux 6.11 and newer take it for an empty one */
    CALL(statx(fd, no_path, AT_EMPTY_PATH, STATX_SIZE, &extended));
    note(__LINE__, "size", (long long)extended.stx_size, 0);
    CALL(fstatat(fd, no_path, &status, AT_EMPTY_PATH));
    SHOW(status);
#ifdef __x86_64__
    CALL(__xstat(1, "size", &status));
    SHOW(status);
    CALL(__fxstat(1, fd, &status));
    SHOW(status);
    CALL(__lxstat(1, "size", &status));
    SHOW(status);
    CALL(__fxstatat(1, AT_FDCWD, "size", &status, 0));
    SHOW(status);
    CALL(__xstat64(1, "size", &status64));
    SHOW(status64);
    CALL(__fxstat64(1, fd, &status64));
    SHOW(status64);
#endif
    /* Opened with O_TRUNC while it is open. */
    int again = OPEN(open("size", O_WRONLY | O_TRUNC));
    CALL(fstat(fd, &status));
    SHOW(status);
    CALL(pread(fd, got, 100, 0));
    CALL(write(again, block, 100));
    CALL(pread(fd, got, 1000, 0));
    BYTES(got, 100);
    CALL(close(again));
    CALL(close(fd));
}

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

/* Uses that only the kernel can serve: what was written before must be there, and the reverse. */
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

    fd = OPEN(open("stream", O_RDWR | O_CREAT | O_TRUNC, 0666));
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

static void by_number(void)
{
    struct stat status;
    struct iovec vectors[2] = {{block + 9, 100}, {block + 999, 200}}, target[1] = {{got, 1000}};
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "number", O_RDWR | O_CREAT | O_TRUNC, 0666);
    OPEN(fd);
    CALL(syscall(SYS_write, fd, block, 10000));
    CALL(syscall(SYS_lseek, fd, 100, SEEK_SET));
    CALL(syscall(SYS_read, fd, got, 500));
    BYTES(got, 500);
    CALL(syscall(SYS_pwrite64, fd, block, 100, 20000));
    CALL(syscall(SYS_pread64, fd, got, 20200, 0));
    BYTES(got, 20100);
    CALL(syscall(SYS_writev, fd, vectors, 2));
    CALL(syscall(SYS_readv, fd, target, 1));
    CALL(syscall(SYS_pwritev, fd, vectors, 2, 4000, 0));
    CALL(syscall(SYS_preadv, fd, target, 1, 3900, 0));
    BYTES(got, 1000);
    CALL(syscall(SYS_pwritev2, fd, vectors, 2, 40, 0, 0));
    CALL(syscall(SYS_preadv2, fd, target, 1, 0, 0, 0));
    BYTES(got, 1000);
    CALL(syscall(SYS_ftruncate, fd, 15000));
    CALL(syscall(SYS_fstat, fd, &status));
    note(__LINE__, "size", status.st_size, 0);
    CALL(syscall(SYS_newfstatat, AT_FDCWD, "number", &status, 0));
    note(__LINE__, "size", status.st_size, 0);
    CALL(syscall(SYS_truncate, "number", 14000));
    CALL(syscall(SYS_lseek, fd, 0, SEEK_END));
    CALL(syscall(SYS_fsync, fd));
    CALL(syscall(SYS_fdatasync, fd));
    CALL(syscall(SYS_sync_file_range, fd, 0, 0, SYNC_FILE_RANGE_WRITE));
    int copy = (int)syscall(SYS_dup, fd);
    CALL(syscall(SYS_dup3, fd, copy, O_CLOEXEC) == copy);
    CALL(syscall(SYS_fcntl, copy, F_GETFD));
    CALL(syscall(SYS_pread64, copy, got, 14000, 0));
    BYTES(got, 14000);
    CALL(syscall(SYS_close, copy));
    CALL(syscall(SYS_read, copy, got, 1));
    CALL(syscall(SYS_read, fd, got, 1));
    CALL(syscall(SYS_close, fd));
    CALL(syscall(SYS_getpid) == getpid());
    CALL(syscall(99999));
}

static void contents(void)
{
    struct dirent **entries;
    int count = scandir(".", &entries, NULL, alphasort);
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        struct stat status;
        if (name[0] == '.') {
            free(entries[i]);
            continue;
        }
        CHECK(lstat(name, &status) == 0);
        note(__LINE__, name, status.st_mode, 0);
        if (S_ISREG(status.st_mode)) {
            note(__LINE__, "its size", status.st_size, 0);
            /* Once through each door. */
            int fd = open(name, O_RDONLY);
            CHECK(fd >= 0);
            memset(got, 1, sizeof(got));
            note(__LINE__, "read", read(fd, got, sizeof(got)), errno);
            BYTES(got, sizeof(got));
            CHECK(close(fd) == 0);
            FILE *stream = fopen(name, "r");
            CHECK(stream != NULL);
            memset(got, 1, sizeof(got));
            note(__LINE__, "fread", (long long)fread(got, 1, sizeof(got), stream), 0);
            BYTES(got, sizeof(got));
            CHECK(fclose(stream) == 0);
        }
        CHECK(unlink(name) == 0);
        free(entries[i]);
    }
    free(entries);
}

static void run(const char *path, struct protocol *into)
{
    protocol = into;
    CHECK(chdir(path) == 0);
    opening();
    reading_and_writing();
    sizes();
    flushing_and_flags();
    copying();
    kernel_uses();
    limited();
    by_number();
    contents();
    CHECK(chdir("/") == 0);
}

int main(int argc, char **argv)
{
    char pattern[] = "/tmp/face.XXXXXX", here[PATH_MAX], other[PATH_MAX];
    CHECK(realpath(directory(argc, argv), here) != NULL);
    const char *second = argc > 2 ? argv[2] : mkdtemp(pattern);
    CHECK(second != NULL && (mkdir(second, 0777) == 0 || errno == EEXIST));
    CHECK(realpath(second, other) != NULL);
    umask(022);
    fill(block, sizeof(block), 0, 11);

    run(here, &protocols[0]);
    run(other, &protocols[1]);
    if (argc <= 2)
        CHECK(rmdir(other) == 0);

    int wrong = 0;
    for (int i = 0; i < protocols[0].count || i < protocols[1].count; i++)
        if (strcmp(protocols[0].lines[i], protocols[1].lines[i]) != 0 && wrong++ < 20)
            fprintf(stderr, "here:  %s\nthere: %s\n", protocols[0].lines[i], protocols[1].lines[i]);
    if (wrong > 0)
        fail("%d of %d answers differ", wrong, protocols[0].count);
    return 0;
}
