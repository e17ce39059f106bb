/*
 * The calls that programs make on files, each by all its names; compared as protocol.h says. What
 * else they do with descriptors and files is in face_uses.c.
 */
#include <fts.h>
#include <ftw.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "protocol.h"

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

/* Links into the directory, and a path that comes from outside. */
static void links_and_temporary_files(void)
{
    CALL(symlink("a", "link"));
    int fd = OPEN(open("link", O_RDWR));
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
}

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

    links_and_temporary_files();
    CALL(close(dirfd));
    CALL(close(path));
    CALL(close(path));
}

static void vectors(int fd)
{
    struct iovec three[3] = {{block, 10}, {block + 5000, 0}, {block + 100, 9000}};
    struct iovec two[2] = {{got, 7000}, {got + 7000, 100000}};
    struct iovec bad[1] = {{got, (size_t)SSIZE_MAX + 1}};

    static struct iovec many[IOV_MAX + 1];
    volatile int negative = -1; /* the compiler knows that it is wrong */

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
    /* Without effect on a read. */
    CALL(preadv2(fd, two, 2, 30, RWF_DSYNC));
    CALL(preadv2(fd, two, 2, 30, RWF_SYNC));
    CALL(preadv2(fd, two, 2, 30, RWF_APPEND));
    BYTES(got, 100000);
    CALL(preadv2(fd, two, 0, 0, RWF_NOWAIT));
    CALL(pwritev2(fd, three, 0, 0, RWF_NOWAIT));
    CALL(vmsplice(fd, three, 1, 0));
    /* Some file systems have no such offset. */
    if (lseek(fd, INT64_MAX, SEEK_SET) == INT64_MAX) {
        CHECK(read(fd, got, 10) == -1 && errno == EINVAL);
        CHECK(write(fd, block, 10) == -1 && errno == EINVAL);
    }
}

static void reading_and_writing(void)
{
    int fd = OPEN(open("rw", O_RDWR | O_CREAT | O_TRUNC, 0666));
    int reader = OPEN(open("rw", O_RDONLY)), writer = OPEN(open("rw", O_WRONLY));

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

    vectors(fd);

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

#define SHOW(s)                                              \
    do {                                                     \
        note(__LINE__, "size", (s).st_size, 0);              \
        note(__LINE__, "mode", (s).st_mode, 0);              \
        note(__LINE__, "links", (long long)(s).st_nlink, 0); \
    } while (0)

static void attributes(int fd)
{
    struct stat status;
    struct stat64 status64;
    struct statx extended;
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
}

/* ---- sizes that libc finds out itself, of files that were written a moment ago ---- */

/* What each walk hands over. */
static int seen(const char *path, const struct stat *status, int type)
{
    note(__LINE__, path, S_ISREG(status->st_mode) ? status->st_size : 0, 0);
    return type == FTW_F && strstr(path, "last") ? 42 : 0;
}

static int seen_by_nftw(const char *path, const struct stat *status, int type, struct FTW *place)
{
    note(__LINE__, path + place->base, place->level, 0);
    return seen(path, status, type);
}

/* A walk in a walk, which may end early. */
static int seen_twice(const char *path, const struct stat *status, int type, struct FTW *place)
{
    if (type == FTW_D && place->level == 0) {
        CALL(ftw(path, seen, 4));
        CALL(ftw("none", seen, 4));
    }
    return seen_by_nftw(path, status, type, place);
}

static void grow(int fd)
{
    CALL(pwrite(fd, block, 100, lseek(fd, 1000, SEEK_CUR)));
}

static void walk_by_fts(int fd, int options)
{
    char *roots[] = {"walk", NULL};
    FTSENT *entry;
    FTS *tree = fts_open(roots, options, NULL);
    CHECK(tree != NULL);
    grow(fd);
    while ((entry = fts_read(tree)) != NULL) {
        note(__LINE__, entry->fts_name, entry->fts_info, 0);
        if (entry->fts_info == FTS_F)
            note(__LINE__, entry->fts_path, entry->fts_statp->st_size, 0);
        if (entry->fts_info != FTS_D)
            continue;
        for (FTSENT *child = fts_children(tree, 0); child; child = child->fts_link)
            if (child->fts_info == FTS_F)
                note(__LINE__, child->fts_name, child->fts_statp->st_size, 0);
        grow(fd);
        for (FTSENT *child = fts_children(tree, FTS_NAMEONLY); child; child = child->fts_link)
            note(__LINE__, child->fts_name, 0, 0);
    }
    CALL(errno);
    CALL(fts_close(tree));
}

static void walks(void)
{
    CALL(mkdir("walk", 0755));
    int fd = OPEN(open("walk/last", O_RDWR | O_CREAT | O_TRUNC, 0640));
    CALL(symlink("walk/last", "walked"));
    static const int ways[] = {0, FTW_PHYS, FTW_CHDIR, FTW_DEPTH | FTW_PHYS};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        grow(fd);
        CALL(nftw("walk", seen_by_nftw, 4, ways[i]));
        grow(fd);
        CALL(nftw64("walked", (void *)seen_by_nftw, 4, ways[i]));
    }
    grow(fd);
    CALL(nftw("walk", seen_twice, 4, 0));
    CALL(nftw("walk", seen_by_nftw, 4, -1));
    grow(fd);
    CALL(ftw64("walk", (void *)seen, 4));
    walk_by_fts(fd, FTS_PHYSICAL);
    walk_by_fts(fd, FTS_LOGICAL | FTS_NOCHDIR);
    walk_by_fts(fd, FTS_PHYSICAL | FTS_NOSTAT);
    CALL(close(fd));
    CALL(unlink("walked"));
    CALL(unlink("walk/last"));
    CALL(rmdir("walk"));
}

static void unread(void)
{
    int fd = OPEN(open("unread", O_RDWR | O_CREAT | O_TRUNC, 0640)), left = -1;
    CALL(write(fd, block, 10000));
    CALL(ioctl(fd, FIONREAD, &left));
    CALL(left);
    CALL(lseek(fd, 123, SEEK_SET));
    CALL(read(fd, got, 1000));
    CALL(ioctl(fd, FIONREAD, &left));
    CALL(left);
    CALL(lseek(fd, 20000, SEEK_SET));
    CALL(syscall(SYS_ioctl, fd, FIONREAD, &left));
    CALL(left);
    CALL(lseek(fd, 0, SEEK_CUR));
    int *volatile nowhere = NULL;
    CALL(ioctl(fd, FIONREAD, nowhere));
    CALL(ioctl(fd, FIONREAD, (int *)16));
    CALL(close(fd));
}

static void sizes(void)
{
    struct stat status;
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

    attributes(fd);
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

static void calls(void)
{
    opening();
    reading_and_writing();
    sizes();
    walks();
    unread();
    by_number();
}

int main(int argc, char **argv)
{
    run_in_both(argc, argv, calls);
    return 0;
}
