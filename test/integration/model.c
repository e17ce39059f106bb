/*
 * Random calls on two files, which a model in memory makes too: after each call its result, the
 * bytes that it brought and the size are the model's, and now and then all bytes are.
 *
 *     model DIRECTORY [CALLS [SEED [mapped]]]
 *
 * With `mapped` files are also mapped shared, read and written there.
 */
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "program.h"

enum { MOST = 200 << 10, LONGEST = 70 << 10, FILES = 2, WAYS = 5, LOG = 40, LINE = 120 };

/* How each file is open: these flags beside O_RDWR. */
static const int ways[WAYS] = {0, 0, O_APPEND, O_SYNC, O_DIRECT};

static struct {
    char name[PATH_MAX], other_name[PATH_MAX];
    int fds[WAYS];
    off_t at[WAYS]; /* the offsets of the open files */
    off_t size;
    uint8_t bytes[MOST];
} files[FILES], *file;

static char calls[LOG][LINE]; /* the last ones */
static unsigned count;
static uint64_t state;
static uint8_t *buffer, *other;
static bool mapped;

static uint64_t below_number(uint64_t end)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return end > 0 ? (state >> 11) % end : 0;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *line = calls[count % LOG];
    int begin = snprintf(line, LINE, "%u: file %d: ", count, (int)(file - files));
    vsnprintf(line + begin, (size_t)(LINE - begin), format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *format, ...)
{
    char text[256];
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (unsigned i = count > LOG - 1 ? count - (LOG - 1) : 0; i <= count; i++)
        fprintf(stderr, "%s\n", calls[i % LOG]);
    fail("%s (errno %s)", text, strerrorname_np(error));
}

static void expect(const char *what, long long got, long long expected)
{
    if (got != expected)
        wrong("%s: %lld, expected %lld", what, got, expected);
}

static void expect_bytes(const void *got, off_t offset, size_t size)
{
    if (memcmp(got, file->bytes + offset, size) == 0)
        return;
    size_t i = 0;
    while (((const uint8_t *)got)[i] == file->bytes[offset + (off_t)i])
        i++;
    wrong("byte %lld is 0x%02x, expected 0x%02x", (long long)offset + (long long)i,
          ((const uint8_t *)got)[i], file->bytes[offset + (off_t)i]);
}

/* Where something begins, mostly near the end or a boundary, and how long it is. */
static off_t some_offset(void)
{
    switch (below_number(5)) {
    case 0:
        return file->size;
    case 1:
        return (off_t)(below_number(MOST / 4096) * 4096);
    case 2:
        return (off_t)(65536 * (1 + below_number(2)) - below_number(300));
    default:
        return (off_t)below_number((uint64_t)file->size + 5000 < MOST ? (uint64_t)file->size + 5000
                                                                      : MOST);
    }
}
static size_t some_length(off_t offset)
{
    static const unsigned scales[] = {10, 600, 5000, LONGEST};
    size_t length = 1 + below_number(scales[below_number(4)]);
    return (off_t)length > MOST - offset ? (size_t)(MOST - offset) : length;
}
/* How much a read of so much brings. */
static size_t there(off_t offset, size_t length)
{
    if (offset >= file->size)
        return 0;
    return (off_t)length > file->size - offset ? (size_t)(file->size - offset) : length;
}

/* The model writes; what lay between its end and the beginning is zero. */
static void write_model(off_t offset, const void *bytes, size_t size)
{
    memmove(file->bytes + offset, bytes, size);
    if (offset + (off_t)size > file->size)
        file->size = offset + (off_t)size;
}
static void resize_model(off_t size)
{
    if (size < file->size)
        memset(file->bytes + size, 0, (size_t)(file->size - size));
    file->size = size;
}

static void expect_size(void)
{
    struct stat status;
    expect("fstat", fstat(file->fds[below_number(WAYS)], &status), 0);
    expect("size of the descriptor", status.st_size, file->size);
    if (below_number(4) > 0)
        return;
    expect("stat", stat(file->name, &status), 0);
    expect("size of the name", status.st_size, file->size);
}

static void open_way(int way)
{
    int fd = open(file->name, O_RDWR | O_CLOEXEC | ways[way]);
    if (fd < 0 && errno == EINVAL && ways[way] == O_DIRECT) /* a file system that has it not */
        fd = open(file->name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        wrong("open");
    file->fds[way] = fd;
    file->at[way] = 0;
}

/* What follows is one kind of call each, by an open file: `way` of `file`. */

static void reads(int way)
{
    off_t offset = some_offset();
    size_t length = some_length(offset), half = length / 2;
    if (ways[way] == O_DIRECT) {
        offset = offset / 4096 * 4096;
        length = (length + 4095) / 4096 * 4096;
    }
    size_t expected = there(offset, length);
    struct iovec pieces[] = {{buffer, half}, {buffer + half, length - half}};
    bool by_offset = way == 0 && below_number(3) == 0,
         vectors = ways[way] != O_DIRECT && below_number(2);
    note("%s of %d at %lld, %zu",
         by_offset ? "read"
         : vectors ? "preadv"
                   : "pread",
         way, (long long)offset, length);
    if (by_offset) {
        expected = there(file->at[way], length);
        expect("read", read(file->fds[way], buffer, length), (ssize_t)expected);
        expect_bytes(buffer, file->at[way], expected);
        file->at[way] += (off_t)expected;
        return;
    }
    expect("read",
           vectors ? preadv(file->fds[way], pieces, 2, offset)
                   : pread(file->fds[way], buffer, length, offset),
           (ssize_t)expected);
    expect_bytes(buffer, offset, expected);
}

static void writes(int way)
{
    off_t offset = some_offset();
    size_t length = some_length(offset), half = length / 2;
    if (ways[way] == O_APPEND) {
        offset = file->size;
        length = some_length(offset);
    } else if (ways[way] == O_DIRECT) {
        offset = offset / 4096 * 4096;
        length = (length + 4095) / 4096 * 4096;
        if (offset + (off_t)length > MOST)
            return;
    }
    bool by_offset = way == 0 && below_number(3) == 0,
         vectors = ways[way] != O_DIRECT && below_number(2);
    if (by_offset) {
        offset = file->at[way];
        length = some_length(offset);
    }
    if (offset >= MOST)
        return;
    half = length / 2;
    struct iovec pieces[] = {{buffer, half}, {buffer + half, length - half}};
    note("%s of %d at %lld, %zu",
         by_offset ? "write"
         : vectors ? "pwritev"
                   : "pwrite",
         way, (long long)offset, length);
    fill(buffer, length, (uint64_t)offset, count);
    expect("write",
           by_offset ? write(file->fds[way], buffer, length)
           : vectors ? pwritev(file->fds[way], pieces, 2, offset)
                     : pwrite(file->fds[way], buffer, length, offset),
           (ssize_t)length);
    write_model(offset, buffer, length);
    if (by_offset)
        file->at[way] += (off_t)length;
}

static void seeks(void)
{
    off_t to = some_offset();
    note("lseek to %lld", (long long)to);
    expect("lseek", lseek(file->fds[0], to, SEEK_SET), to);
    file->at[0] = to;
    expect("lseek to the end", lseek(file->fds[1], 0, SEEK_END), file->size);
}

static void changes_size(int way)
{
    off_t size = some_offset();
    if (below_number(3) == 0)
        size = 0;
    bool by_name = below_number(2);
    note("%s of %d to %lld", by_name ? "truncate" : "ftruncate", way, (long long)size);
    expect("truncate", by_name ? truncate(file->name, size) : ftruncate(file->fds[way], size), 0);
    resize_model(size);
}

static void allocates(int way)
{
    static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_ZERO_RANGE};
    int mode = modes[below_number(4)];
    off_t offset = some_offset(), end;
    if (offset >= MOST)
        return;
    end = offset + (off_t)some_length(offset);
    note("fallocate of %d, mode %d, %lld to %lld", way, mode, (long long)offset, (long long)end);
    if (fallocate(file->fds[way], mode, offset, end - offset) < 0) {
        if (errno != EOPNOTSUPP)
            wrong("fallocate");
        return;
    }
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        memset(file->bytes + offset, 0, (size_t)(end - offset));
    if (!(mode & FALLOC_FL_KEEP_SIZE) && end > file->size)
        file->size = end;
}

/* From one place to another of the same file, or of the other one. */
static void copies(void)
{
    off_t from = some_offset(), to, to_there;
    size_t length = some_length(from);
    int source = file->fds[0], kind = (int)below_number(3);
    if (from >= file->size) /* a program would have to know that there is nothing */
        return;
    length = there(from, length);
    memcpy(other, file->bytes + from, length);
    if (below_number(2))
        file = &files[!(file - files)];
    else if (kind != 0)
        return; /* only copy_file_range() is defined for one file */
    to = some_offset();
    if (to >= MOST || to + (off_t)length > MOST)
        return;
    off_t from_there = from;
    if (source == file->fds[0] && from < to + (off_t)length && to < from + (off_t)length)
        return;
    to_there = to;
    int way = kind == 0 ? 1 : 0, pipes[2];
    note("%s of %zu from %lld to %lld",
         kind == 0   ? "copy"
         : kind == 1 ? "sendfile"
                     : "splice",
         length, (long long)from, (long long)to);
    ssize_t done;
    switch (kind) {
    case 0:
        done = copy_file_range(source, &from_there, file->fds[way], &to_there, length, 0);
        break;
    case 1:
        expect("lseek", lseek(file->fds[0], to, SEEK_SET), to);
        done = sendfile(file->fds[0], source, &from_there, length);
        file->at[0] = to + done;
        break;
    default:
        length = length > 4096 ? 4096 : length;
        expect("pipe", pipe(pipes), 0);
        done = splice(source, &from_there, pipes[1], NULL, length, 0);
        if (done > 0) {
            ssize_t out = splice(pipes[0], NULL, file->fds[way], &to_there, (size_t)done, 0);
            if (out >= 0 || errno != EINVAL)
                expect("what the pipe takes and gives", out, done);
            done = out;
        }
        bool may_not = done < 0 && errno == EINVAL; /* as on a file system without it */
        close(pipes[0]);
        close(pipes[1]);
        if (may_not)
            return;
    }
    if (done <= 0 || done > (ssize_t)length)
        wrong("copied %zd of %zu", done, length);
    expect("the offset", from_there, from + done);
    write_model(to, other, (size_t)done);
}

static void syncs(int way)
{
    int kind = (int)below_number(4), fd = file->fds[way];
    note("sync %d of %d", kind, way);
    expect("sync",
           kind == 0   ? fsync(fd)
           : kind == 1 ? fdatasync(fd)
           : kind == 2 ? sync_file_range(fd, some_offset(), 4096, SYNC_FILE_RANGE_WRITE)
                       : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED),
           0);
}

static void opens_again(int way)
{
    note("close and open of %d", way);
    expect("close", close(file->fds[way]), 0);
    open_way(way);
}

static void renames(void)
{
    note("rename");
    expect("rename", rename(file->name, file->other_name), 0);
    char name[PATH_MAX];
    strcpy(name, file->name);
    strcpy(file->name, file->other_name);
    strcpy(file->other_name, name);
}

/* A child sees what is there, and what it writes is seen. */
static void child(void)
{
    off_t offset = some_offset();
    if (offset >= MOST)
        return;
    size_t length = some_length(offset);
    note("a child writes at %lld, %zu", (long long)offset, length);
    fill(other, length, (uint64_t)offset, count);
    int status;
    pid_t process = fork();
    if (process == 0) {
        expect("read of a child", pread(file->fds[1], buffer, MOST, 0), file->size);
        expect_bytes(buffer, 0, (size_t)file->size);
        _exit(pwrite(file->fds[1], other, length, offset) == (ssize_t)length ? 0 : 1);
    }
    CHECK(process > 0 && waitpid(process, &status, 0) == process);
    expect("status of the child", status, 0);
    write_model(offset, other, length);
}

static void maps(void)
{
    if (file->size == 0)
        return;
    off_t offset = (off_t)below_number((uint64_t)file->size);
    size_t length = there(offset, some_length(offset));
    bool changes = below_number(2);
    note("map, %s %zu at %lld", changes ? "write" : "read", length, (long long)offset);
    uint8_t *map = mmap(NULL, (size_t)file->size, PROT_READ | (changes ? PROT_WRITE : 0),
                        MAP_SHARED, file->fds[0], 0);
    if (map == MAP_FAILED)
        wrong("mmap");
    expect_bytes(map + offset, offset, length);
    if (changes) {
        fill(map + offset, length, (uint64_t)offset, count);
        write_model(offset, map + offset, length);
        if (below_number(2))
            expect("msync", msync(map, (size_t)file->size, MS_SYNC), 0);
    }
    expect("munmap", munmap(map, (size_t)file->size), 0);
}

static void whole(void)
{
    expect("read of all", pread(file->fds[1], buffer, MOST, 0), file->size);
    expect_bytes(buffer, 0, (size_t)file->size);
}

static void make_call(void)
{
    int way = (int)below_number(WAYS);
    unsigned kind = (unsigned)below_number(100);
    if (kind < 30)
        reads(way);
    else if (kind < 65)
        writes(way);
    else if (kind < 70)
        seeks();
    else if (kind < 76)
        changes_size(way);
    else if (kind < 80)
        allocates(way);
    else if (kind < 87)
        copies();
    else if (kind < 92)
        syncs(way);
    else if (kind < 96)
        opens_again(way);
    else if (kind < 98)
        renames();
    else if (kind < 99)
        child();
    else if (mapped)
        maps();
}

int main(int argc, char **argv)
{
    const char *path = directory(argc, argv);
    unsigned most = argc > 2 ? (unsigned)atoi(argv[2]) : 1500;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    mapped = argc > 4;
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    CHECK(posix_memalign((void **)&buffer, 4096, MOST + 4096) == 0 &&
          (other = malloc(MOST)) != NULL);
    for (int i = 0; i < FILES; i++) {
        file = &files[i];
        snprintf(file->name, PATH_MAX, "%s/model%d", path, i);
        snprintf(file->other_name, PATH_MAX, "%s/model%d.other", path, i);
        int fd = open(file->name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && close(fd) == 0);
        for (int way = 0; way < WAYS; way++)
            open_way(way);
    }
    for (; count < most; count++) {
        file = &files[below_number(FILES)];
        note("nothing");
        make_call();
        expect_size();
        if (count % 16 == 0)
            whole();
    }
    for (file = files; file < files + FILES; file++) {
        for (int way = 0; way < WAYS; way++)
            expect("close", close(file->fds[way]), 0);
        open_way(1);
        whole();
        CHECK(unlink(file->name) == 0);
    }
    return 0;
}
