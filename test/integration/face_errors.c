/*
 * Calls that must fail, or do nothing, at the edges of what they take, made in two directories: the
 * one given, and a plain local one (a second argument, or a new one in /tmp). Each must end in both
 * with the same result and the same errno.
 */
#include <aio.h>
#include <sys/sendfile.h>

#include "program.h"

/* Which sizes below it are too large is a matter of the file system. */
#define LAST INT64_MAX

/* What a call works on: descriptors of one directory. */
enum place { FILE_RW, FILE_RO, FILE_WO, FILE_APPEND, EMPTY_RO, DIRECTORY, PIPE, CLOSED, PLACES };
static int fds[PLACES], own[PLACES]; /* of the directory, and of a plain file system */
static char buffer[8192];

static void open_all(const char *path, int to[PLACES])
{
    int ends[2];
    CHECK(chdir(path) == 0);
    int fd = open("edges", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, buffer, sizeof(buffer)) == (ssize_t)sizeof(buffer));
    close(fd);
    CHECK((fd = open("edges.empty", O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
    close(fd);
    CHECK(pipe(ends) == 0);
    to[FILE_RW] = open("edges", O_RDWR);
    to[FILE_RO] = open("edges", O_RDONLY);
    to[FILE_WO] = open("edges.out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    to[FILE_APPEND] = open("edges.end", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    to[EMPTY_RO] = open("edges.empty", O_RDONLY);
    to[DIRECTORY] = open(".", O_RDONLY | O_DIRECTORY);
    to[PIPE] = ends[1];
    to[CLOSED] = 1000;
    for (int i = 0; i < PLACES; i++)
        CHECK(to[i] >= 0);
    CHECK(chdir("/") == 0);
}

enum call { PREAD, PWRITE, READAHEAD, SYNC_RANGE, SENDFILE, COPY_RANGE, CALLS };
static const char *const call_names[CALLS] = {"pread",           "pwrite",   "readahead",
                                              "sync_file_range", "sendfile", "copy_file_range"};

/* Of one call: the first descriptor and its offset, the second and its offset. */
static long long make(enum call call, int in, off_t from, int out, off_t to, size_t length)
{
    off_t to_there = to;
    switch (call) {
    case PREAD:
        return pread(in, buffer, length, from);
    case PWRITE:
        return pwrite(in, buffer, length, from);
    case READAHEAD:
        return readahead(in, from, length);
    case SYNC_RANGE:
        return sync_file_range(in, from, (off_t)length, (unsigned)to);
    case SENDFILE:
        return sendfile(out, in, to == 1 ? NULL : &from, length);
    default:
        return copy_file_range(in, &from, out, &to_there, length, 0);
    }
}

static int differ;

/* The same in the directory and in the plain one. */
static void compare(enum call call, int in, off_t from, int out, off_t to, size_t length)
{
    int *all[] = {fds, own};
    long long results[2];
    int errors[2];
    for (int i = 0; i < 2; i++) {
        CHECK(ftruncate(all[i][FILE_RW], sizeof(buffer)) == 0);
        CHECK(lseek(all[i][FILE_RW], 0, SEEK_SET) == 0 && lseek(all[i][FILE_RO], 0, SEEK_SET) == 0);
        errno = 0;
        results[i] = make(call, all[i][in], from, out < 0 ? -1 : all[i][out], to, length);
        errors[i] = results[i] < 0 ? errno : 0;
    }
    if (results[0] == results[1] && errors[0] == errors[1])
        return;
    differ++;
    fprintf(stderr, "%s(%d, %lld, %d, %lld, %zu): here %lld %s, there %lld %s\n", call_names[call],
            in, (long long)from, out, (long long)to, length, results[0], strerrorname_np(errors[0]),
            results[1], strerrorname_np(errors[1]));
}

static const off_t offsets[] = {0, 5, 8192, 100000, -1, -5, LAST, INT64_MIN};
static const size_t lengths[] = {0, 1, 4096, (size_t)1 << 40, SIZE_MAX, SIZE_MAX / 2};

#define EACH(i, array) for (size_t i = 0; i < sizeof(array) / sizeof((array)[0]); i++)

static void one_file(void)
{
    for (int in = 0; in < PLACES; in++) {
        EACH(o, offsets) EACH(l, lengths)
        {
            /* What would read or write beyond the buffer. */
            bool fits = lengths[l] <= sizeof(buffer);
            if (fits)
                compare(PREAD, in, offsets[o], -1, 0, lengths[l]);
            if (fits && in != PIPE && in != FILE_APPEND)
                compare(PWRITE, in, offsets[o], -1, 0, lengths[l]);
            compare(READAHEAD, in, offsets[o], -1, 0, lengths[l]);
            for (int flags = 0; flags < 9; flags += 2)
                compare(SYNC_RANGE, in, offsets[o], -1, flags, lengths[l]);
        }
    }
}

static void two_files(void)
{
    for (int in = 0; in < PLACES; in++) {
        for (int out = 0; out < PLACES; out++) {
            EACH(o, offsets) EACH(l, lengths)
            {
                bool small = lengths[l] <= sizeof(buffer) || offsets[o] < 0 || offsets[o] >= 8192;
                if (small && out != PIPE && in != PIPE && offsets[o] != LAST)
                    compare(SENDFILE, in, offsets[o], out, 0, lengths[l]);
                EACH(t, offsets)
                if (lengths[l] == 0 || in != out)
                    compare(COPY_RANGE, in, offsets[o], out, offsets[t], lengths[l]);
            }
        }
    }
}

/* A priority below that of the process is allowed, and the others are not: aio(7). */
static void priorities(void)
{
    static const int values[] = {0, 1, 20, 21, -1, 1000};
    EACH(i, values)
    {
        int *all[] = {fds, own}, results[2], errors[2];
        for (int k = 0; k < 2; k++) {
            struct aiocb request = {.aio_fildes = all[k][FILE_RW], .aio_reqprio = values[i]};
            const struct aiocb *list[] = {&request};
            errno = 0;
            results[k] = aio_fsync(O_SYNC, &request);
            errors[k] = results[k] < 0 ? errno : 0;
            if (results[k] == 0)
                while (aio_error(&request) == EINPROGRESS)
                    aio_suspend(list, 1, NULL);
        }
        if (results[0] == results[1] && errors[0] == errors[1])
            continue;
        differ++;
        fprintf(stderr, "aio_fsync, priority %d: here %d %s, there %d %s\n", values[i], results[0],
                strerrorname_np(errors[0]), results[1], strerrorname_np(errors[1]));
    }
}

int main(int argc, char **argv)
{
    char pattern[] = "/tmp/edges.XXXXXX", here[PATH_MAX], there[PATH_MAX];
    CHECK(realpath(directory(argc, argv), here) != NULL);
    const char *second = argc > 2 ? argv[2] : mkdtemp(pattern);
    CHECK(second && realpath(second, there) != NULL);
    open_all(here, fds);
    open_all(there, own);
    one_file();
    two_files();
    priorities();
    if (argc <= 2) {
        static const char *const names[] = {"edges", "edges.empty", "edges.out", "edges.end"};
        EACH(i, names)
        CHECK(unlink(below(there, names[i])) == 0);
        CHECK(rmdir(there) == 0);
    }
    if (differ)
        fail("%d calls differ", differ);
    return 0;
}
