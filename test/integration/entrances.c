/*
 * Files that come into a process by other doors than open(): over a socket, by pidfd_getfd(), by
 * openat2(), by functions that were looked up in libc.so.6. A process that only has them from there
 * reads and writes them, and all of it arrives.
 */
#include <dlfcn.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "program.h"

enum { SIZE = 5000, DOORS = 7 };

extern int pidfd_getfd(int pidfd, int target, unsigned flags) __attribute__((weak));
extern int openat2(int dirfd, const char *path, const struct open_how *how, size_t size)
    __attribute__((weak));

/* Two descriptors in one message: /dev/null, and the file. */
static void pass(int socket, int fd)
{
    int null = open("/dev/null", O_RDWR);
    int fds[2] = {null, fd};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(fds))];
    } control = {.header = {CMSG_LEN(sizeof(fds)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
    CHECK(sendmsg(socket, &message, 0) == 1 && close(null) == 0);
}

static int receive(int socket, int door)
{
    int fds[2];
    char got;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(fds))];
    } control;
    struct iovec byte = {&got, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &byte,
                                          .msg_iovlen = 1,
                                          .msg_control = &control,
                                          .msg_controllen = sizeof(control)}};
    if (door == 0)
        CHECK(recvmsg(socket, &message.msg_hdr, MSG_CMSG_CLOEXEC) == 1);
    else if (door == 1)
        CHECK(recvmmsg(socket, &message, 1, 0, NULL) == 1);
    else
        CHECK(syscall(SYS_recvmsg, socket, &message.msg_hdr, 0) == 1);
    memcpy(fds, CMSG_DATA(&control.header), sizeof(fds));
    CHECK(close(fds[0]) == 0);
    return fds[1];
}

/* In the child, which has the file from its parent only. */
static int enter(int door, int socket, int target, const char *path)
{
    struct open_how how = {.flags = O_RDWR};
    if (door < 3)
        return receive(socket, door);
    if (door == 3) {
        int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
        CHECK(parent >= 0);
        return pidfd_getfd ? pidfd_getfd(parent, target, 0)
                           : (int)syscall(SYS_pidfd_getfd, parent, target, 0);
    }
    if (door == 4 && openat2)
        return openat2(AT_FDCWD, path, &how, sizeof(how));
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

/* As foreign function interfaces call the C library. */
static void *libc;
static void *look_up(const char *name)
{
    void *function = dlsym(libc, name);
    CHECK(function != NULL);
    return function;
}

/* A program's own definition, which calls the one that it hides. */
static int calls;
int fdatasync(int fd)
{
    CHECK(calls++ == 0);
    int result = ((int (*)(int))look_up("fdatasync"))(fd);
    calls--;
    return result;
}

static void use_looked_up(const char *path, uint64_t door)
{
    char block[SIZE];
    int (*own_open)(const char *, int, ...) = (int (*)(const char *, int, ...))look_up("open64");
    ssize_t (*own_pread)(int, void *, size_t, off_t) =
        (ssize_t(*)(int, void *, size_t, off_t))look_up("pread");
    ssize_t (*own_pwrite)(int, const void *, size_t, off_t) =
        (ssize_t(*)(int, const void *, size_t, off_t))look_up("pwrite64");
    int fd = own_open(path, O_RDWR);
    CHECK(own_pread(fd, block, SIZE, 0) == SIZE && differs(block, SIZE, 0, door) < 0);
    fill(block, SIZE, 0, door + 1);
    CHECK(own_pwrite(fd, block, SIZE, 0) == SIZE);
    CHECK(((int (*)(int))look_up("fsync"))(fd) == 0 && fdatasync(fd) == 0);
    CHECK(((int (*)(int))look_up("close"))(fd) == 0);
}

static void use(int fd, uint64_t door)
{
    char block[SIZE];
    CHECK(fd >= 0);
    CHECK(pread(fd, block, SIZE, 0) == SIZE && differs(block, SIZE, 0, door) < 0);
    fill(block, SIZE, 0, door + 1);
    CHECK(pwrite(fd, block, SIZE, 0) == SIZE && close(fd) == 0);
}

static int leave(void *fd)
{
    _exit(close(*(int *)fd) != 0);
}

int main(int argc, char **argv)
{
    char path[PATH_MAX], block[SIZE];
    int sockets[2], status;
    snprintf(path, sizeof(path), "%s/entrances", directory(argc, argv));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    if (dlerror() != NULL)
        fail("a message of the dynamic linker before anything was asked of it");
    CHECK((libc = dlopen("libc.so.6", RTLD_NOW)) != NULL);
    void *libaio = dlopen("libaio.so.1", RTLD_NOW);
    if (libaio == NULL)
        libaio = dlopen("libaio.so.1t64", RTLD_NOW);
    if (libaio != NULL && (dlsym(libaio, "io_setup") == NULL || dlerror() != NULL))
        fail("a function of libaio is found with a message of the dynamic linker");
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);

    pid_t children[DOORS];
    int go[DOORS][2], fd = -1;
    for (int door = 0; door < DOORS; door++) { /* each before the file is opened */
        CHECK(pipe(go[door]) == 0 && (children[door] = fork()) >= 0);
        if (children[door] == 0) {
            CHECK(read(go[door][0], &fd, sizeof(fd)) == sizeof(fd));
            if (door == DOORS - 1)
                use_looked_up(path, (uint64_t)door);
            else
                use(enter(door, sockets[1], fd, path), (uint64_t)door);
            _exit(0);
        }
    }
    fill(block, SIZE, 0, 0);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && write(fd, block, SIZE) == SIZE);
    for (int door = 0; door < DOORS; door++) {
        if (door < 3)
            pass(sockets[0], fd);
        CHECK(write(go[door][1], &fd, sizeof(fd)) == sizeof(fd));
        CHECK(waitpid(children[door], &status, 0) == children[door]);
        if (status != 0)
            fail("door %d: status %#x", door, (unsigned)status);
    }
    /* A child with descriptors of its own takes none away, though it has its parent's memory. */
    static char stack[65536] __attribute__((aligned(16)));
    pid_t child = clone(leave, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &fd);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(pread(fd, block, SIZE, 0) == SIZE && differs(block, SIZE, 0, DOORS) < 0);
    CHECK(pwrite(fd, block, SIZE, 0) == SIZE);
    CHECK(close(fd) == 0 && unlink(path) == 0);
    return 0;
}
