/*
 * Appending: by several processes and threads at a time, through duplicates, over fork, exec and
 * sockets, asynchronously. Records are whole, and offsets are what they would be anywhere.
 */
#include <aio.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "program.h"

enum { WRITERS = 6, RECORDS = 60, LONGEST = 5000 };

extern char **environ;
static const char *path, *self;

static void join(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
}

static off_t offset_of(int fd)
{
    return lseek(fd, 0, SEEK_CUR);
}

static void append(int fd, size_t length, off_t end)
{
    char data[LONGEST];
    memset(data, 'x', length);
    CHECK(write(fd, data, length) == (ssize_t)length);
    CHECK(end < 0 || offset_of(fd) == end);
}

static int open_new(int flags)
{
    unlink(path);
    int fd = open(path, flags | O_CREAT, 0666);
    CHECK(fd >= 0);
    return fd;
}

/* ---- many ---- */

struct record {
    uint32_t writer, sequence, length;
};

static int shared;

static void *append_records(void *argument)
{
    uint32_t writer = (uint32_t)(uintptr_t)argument;
    char data[sizeof(struct record) + LONGEST];
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct record record = {writer, i, (writer * 7919 + i * 104729) % LONGEST};
        memcpy(data, &record, sizeof(record));
        fill(data + sizeof(record), record.length, 0, writer * 1000 + i);
        ssize_t length = (ssize_t)sizeof(record) + record.length;
        CHECK(write(shared, data, (size_t)length) == length);
    }
    return NULL;
}

static void check_records(void)
{
    uint32_t next[WRITERS] = {0};
    char data[LONGEST];
    struct record record;
    int fd = open(path, O_RDONLY);
    while (read(fd, &record, sizeof(record)) == (ssize_t)sizeof(record)) {
        CHECK(record.writer < WRITERS && record.sequence == next[record.writer]++);
        CHECK(read(fd, data, record.length) == (ssize_t)record.length);
        CHECK(differs(data, record.length, 0, record.writer * 1000 + record.sequence) < 0);
    }
    struct stat status;
    CHECK(fstat(fd, &status) == 0 && status.st_size == offset_of(fd));
    for (int i = 0; i < WRITERS; i++)
        CHECK(next[i] == RECORDS);
    close(fd);
}

static void two_threads(uintptr_t first)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, append_records, (void *)(first + 1)) == 0);
    append_records((void *)first);
    CHECK(pthread_join(other, NULL) == 0);
}

static void many(void)
{
    shared = open_new(O_WRONLY | O_APPEND);
    pid_t own = fork(); /* with an open of its own */
    if (own == 0) {
        shared = open(path, O_WRONLY | O_APPEND);
        two_threads(2);
        _exit(0);
    }
    pid_t child = fork();
    two_threads(child == 0 ? 4 : 0);
    if (child == 0)
        _exit(0);
    join(own);
    join(child);
    CHECK(close(shared) == 0);
    check_records();
}

/* ---- one open file, several processes ---- */

/* As another program: FD OFFSET. It finds the offset, appends 5 bytes, and switches appending off.
 */
static int other_program(char **argv)
{
    int fd = atoi(argv[0]);
    off_t offset = atol(argv[1]);
    CHECK(offset_of(fd) == offset);
    append(fd, 5, offset + 5);
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    return 0;
}

/* After it has ended. */
static void not_appending(int fd, off_t end)
{
    CHECK(offset_of(fd) == end);
    CHECK(lseek(fd, 2, SEEK_SET) == 2);
    append(fd, 3, 5);
    CHECK(lseek(fd, 0, SEEK_END) == end);
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    append(fd, 10, end + 10);
}

static void over_exec(void)
{
    char number[20];
    int fd = open_new(O_WRONLY | O_APPEND);
    append(fd, 100, -1);
    snprintf(number, sizeof(number), "%d", fd);
    pid_t pid = fork();
    if (pid == 0) {
        append(fd, 10, -1);
        execl(self, self, "--other", number, "110", NULL);
        _exit(1);
    }
    join(pid);
    not_appending(fd, 115);
    char *words[] = {(char *)self, "--other", number, "125", NULL};
    CHECK(posix_spawn(&pid, self, NULL, NULL, words, environ) == 0);
    join(pid);
    not_appending(fd, 130);
    char command[PATH_MAX + 50];
    snprintf(command, sizeof(command), "%s --other %d 140", self, fd);
    CHECK(system(command) == 0);
    not_appending(fd, 145);
    CHECK(close(fd) == 0);
}

static void over_socket(void)
{
    int ends[2], fd = open_new(O_WRONLY | O_APPEND);
    char byte = 'x';
    struct iovec vector = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        CHECK(recvmsg(ends[1], &message, 0) == 1);
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
        CHECK(offset_of(fd) == 100);
        append(fd, 10, 110);
        CHECK(fcntl(fd, F_SETFL, 0) == 0);
        _exit(0);
    }
    close(fd);
    fd = open(path, O_WRONLY | O_APPEND); /* the child has it from the socket only */
    append(fd, 100, -1);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    CHECK(sendmsg(ends[0], &message, 0) == 1);
    join(pid);
    not_appending(fd, 110);
    CHECK(close(fd) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* The lock begins at the offset. */
static void locks(void)
{
    int fd = open_new(O_RDWR | O_APPEND);
    append(fd, 100, -1);
    CHECK(lockf(fd, F_LOCK, 0) == 0);
    append(fd, 100, -1);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -150, .l_len = 1};
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 51};
        CHECK(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_start == 100);
        lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0};
        CHECK(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_start == 50 && lock.l_len == 1);
        _exit(0);
    }
    join(pid);
    CHECK(close(fd) == 0);
}

/* ---- other calls ---- */

static void copies(void)
{
    int in = open("/proc/self/exe", O_RDONLY), fd = open_new(O_RDWR | O_APPEND);
    append(fd, 100, 100);
    int from = open(path, O_RDONLY);
    errno = 0;
    CHECK(sendfile(fd, in, NULL, 10) == -1 && errno == EINVAL);
    CHECK(copy_file_range(from, NULL, fd, NULL, 10, 0) == -1 && errno == EBADF);
    struct iovec vector = {"RWF_APPEND", 10};
    int plain = open(path, O_RDWR);
    CHECK(pwritev2(plain, &vector, 1, 0, RWF_APPEND) == 10);
    CHECK(offset_of(plain) == 0);
    CHECK(pwritev2(plain, &vector, 1, -1, RWF_APPEND) == 10);
    CHECK(offset_of(plain) == 120);
    CHECK(pwrite(fd, "beyond", 6, 1000) == 6 && offset_of(fd) == 100);
    CHECK(lseek(fd, 0, SEEK_END) == 126);
    char got[10];
    CHECK(pread(plain, got, 10, 110) == 10 && memcmp(got, "RWF_APPEND", 10) == 0);
    CHECK(close(in) == 0 && close(from) == 0 && close(plain) == 0 && close(fd) == 0);
}

enum { PIECE = 4096 };

/* The file grew by so many pieces, each of one byte, in their order. */
static void check_letters(int fd, int count)
{
    static char data[PIECE];
    CHECK(lseek(fd, 0, SEEK_END) == count * PIECE);
    for (int i = 0; i < count; i++) {
        CHECK(pread(fd, data, PIECE, i * PIECE) == PIECE);
        for (int k = 0; k < PIECE; k++)
            CHECK(data[k] == (char)('a' + i));
    }
    CHECK(close(fd) == 0);
}

static void append_by_posix_aio(struct aiocb *controls, char (*data)[PIECE], int count)
{
    int fd = open_new(O_RDWR | O_APPEND);
    for (int i = 0; i < count; i++) {
        controls[i] = (struct aiocb){.aio_fildes = fd, .aio_buf = data[i], .aio_nbytes = PIECE};
        CHECK(aio_write(&controls[i]) == 0);
    }
    for (int i = 0; i < count; i++) {
        const struct aiocb *one = &controls[i];
        while (aio_error(one) == EINPROGRESS)
            CHECK(aio_suspend(&one, 1, NULL) == 0);
        CHECK(aio_error(one) == 0 && aio_return(&controls[i]) == PIECE);
    }
    check_letters(fd, count);
}

static void asynchronous(void)
{
    enum { COUNT = 64, ROUNDS = 20 };
    static char data[COUNT][PIECE];
    struct iocb blocks[COUNT], *list[COUNT];
    struct io_event events[COUNT];
    struct aiocb controls[COUNT];
    aio_context_t context = 0;
    int fd = open_new(O_RDWR | O_APPEND);
    CHECK(syscall(SYS_io_setup, COUNT, &context) == 0);
    for (int i = 0; i < COUNT; i++) {
        memset(data[i], 'a' + i, PIECE);
        blocks[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                                  .aio_fildes = (uint32_t)fd,
                                  .aio_buf = (uint64_t)(uintptr_t)data[i],
                                  .aio_nbytes = PIECE};
        list[i] = &blocks[i];
    }
    CHECK(syscall(SYS_io_submit, context, COUNT, list) == COUNT);
    CHECK(syscall(SYS_io_getevents, context, COUNT, COUNT, events, NULL) == COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(events[i].res == PIECE);
    CHECK(syscall(SYS_io_destroy, context) == 0);
    check_letters(fd, COUNT);

    for (int i = 0; i < ROUNDS; i++)
        append_by_posix_aio(controls, data, COUNT);
}

int main(int argc, char **argv)
{
    char program[PATH_MAX] = {0};
    if (argc == 4 && strcmp(argv[1], "--other") == 0)
        return other_program(argv + 2);
    CHECK(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
    self = program;
    path = below(directory(argc, argv), "appended");
    many();
    over_exec();
    over_socket();
    locks();
    copies();
    asynchronous();
    return 0;
}
