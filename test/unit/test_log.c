/* A line on the log never ends, stops or cancels the program. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>

#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "unit.h"

/* In a child: the status is 0 only if `body` returned 0 within a minute and no signal is pending.
 */
static void expect_fine(int (*body)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sigset_t pending;
        alarm(600);
        int result = body();
        sigpending(&pending);
        _exit(result || sigismember(&pending, SIGPIPE) || sigismember(&pending, SIGXFSZ));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int say(void)
{
    log_error("something is wrong");
    return 0;
}

static int stderr_without_reader(void)
{
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0 || log_open("stderr") != 0)
        return 1;
    close(ends[0]);
    return say();
}

static int stderr_socket_without_reader(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0 ||
        log_open("stderr") != 0)
        return 1;
    close(ends[0]);
    return say();
}

static int stderr_that_nobody_reads(void)
{
    int ends[2];
    char block[4096] = {0};
    if (pipe2(ends, O_NONBLOCK) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        return 1;
    while (write(STDERR_FILENO, block, sizeof(block)) > 0)
        ;
    if (fcntl(STDERR_FILENO, F_SETFL, 0) != 0 || log_open("stderr") != 0)
        return 1;
    return say();
}

static char directory[32];

static int log_file(const char *name)
{
    char path[64];
    strcat(strcat(strcpy(path, directory), "/"), name);
    return log_open(path);
}

static int file_as_long_as_files_may_be(void)
{
    struct rlimit limit = {0, 0};
    if (log_file("log") != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    return say();
}

static int a_message_is_one_line(void)
{
    char path[64], text[200];
    strcat(strcpy(path, directory), "/lines");
    if (log_file("lines") != 0)
        return 1;
    /* Also C1, as UTF-8 and as a byte of its own, and what turns the direction of the text. */
    log_write(LOG_LEVEL_ERROR, "a file \"%s\"",
              "a\ndirectnfs[1]: b\x1b[31m\x7f\xc3\xa4 \xc2\x9b"
              "2J \x9b"
              "2J \xe2\x80\xae"
              "c");
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    unlink(path);
    text[length < 0 ? 0 : length] = '\0';
    return strstr(text, ": a file \"a?directnfs[1]: b?[31m?\xc3\xa4 ??2J ?2J ???c\"\n") == NULL ||
           strchr(text, '\n') != text + length - 1;
}

static int fifo_without_reader(void)
{
    char path[64];
    strcat(strcpy(path, directory), "/fifo");
    if (mkfifo(path, 0600) != 0)
        return 1;
    return log_file("fifo") == -ENXIO ? say() : 1;
}

static int a_word_that_is_no_place(void)
{
    return log_open("sylog") != -EINVAL || access("sylog", F_OK) == 0;
}

static void *say_and_return(void *unused)
{
    pthread_cancel(pthread_self());
    say();
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return unused;
}

static int syslog_in_a_thread_that_is_cancelled(void)
{
    pthread_t thread;
    void *result;
    if (log_open("syslog") != 0 || pthread_create(&thread, NULL, say_and_return, directory) != 0)
        return 1;
    return pthread_join(thread, &result) != 0 || result != directory;
}

static void *say_for_ever(void *unused)
{
    for (;;)
        say();
    return unused;
}

/* A thread that the child does not have may be in the middle of a line. */
static int syslog_in_the_child_of_a_process_that_says_much(void)
{
    pthread_t thread;
    int status = 0;
    uint64_t end = sys_now_ns() + 4000000000;
    if (log_open("syslog") != 0 || pthread_create(&thread, NULL, say_for_ever, NULL) != 0)
        return 1;
    for (int i = 0; i < 1000 && status == 0 && sys_now_ns() < end; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(600);
            _exit(say());
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
    }
    return status;
}

/* ---- a syslog daemon of our own, in a /dev of our own ---- */

static bool make_private(const char *place)
{
    return mount("none", place, "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

/* In a chroot / may be no mount; /dev is one. */
static bool own_dev(void)
{
    return unshare(CLONE_NEWNS) == 0 && (make_private("/") || make_private("/dev")) &&
           mount("none", "/dev", "tmpfs", 0, NULL) == 0;
}

static int daemon_start(void)
{
    const struct sockaddr_un place = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    unlink(place.sun_path);
    return bind(fd, (const struct sockaddr *)&place, sizeof(place)) == 0 ? fd : -1;
}

/* The daemon gets one line, whole. */
static int daemon_gets(int fd, const char *end)
{
    char line[2048], expected[2048];
    say();
    ssize_t length = recv(fd, line, sizeof(line) - 1, MSG_DONTWAIT);
    line[length < 0 ? 0 : length] = '\0';
    snprintf(expected, sizeof(expected), "<%d>test_log[%d]: %s", LOG_DAEMON | LOG_ERR, getpid(),
             end);
    return strcmp(line, expected) != 0 || recv(fd, line, sizeof(line), MSG_DONTWAIT) >= 0;
}

static int syslog_gets_each_line(void)
{
    if (!own_dev())
        return 0;
    int fd = daemon_start();
    return fd < 0 || log_open("syslog") != 0 ||
           daemon_gets(fd, "directnfs: something is wrong") != 0;
}

static int syslog_gets_lines_of_a_program_that_changed_its_root(void)
{
    if (!own_dev())
        return 0;
    int fd = daemon_start();
    return fd < 0 || log_open("syslog") != 0 || chroot("/tmp") != 0 ||
           daemon_gets(fd, "directnfs: something is wrong") != 0;
}

static int syslog_gets_lines_of_a_child(void)
{
    int status;
    if (getenv("DIRECTNFS_TEST_SHORT") || !own_dev())
        return 0; /* a child under memcheck has a log of its own, which is not in this /dev */
    int fd = daemon_start();
    if (fd < 0 || log_open("syslog") != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        sys_fd_fork_child();
        _exit(daemon_gets(fd, "directnfs: something is wrong"));
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static int syslog_gets_lines_after_it_was_started_again(void)
{
    if (!own_dev())
        return 0;
    int fd = daemon_start();
    if (fd < 0 || log_open("syslog") != 0)
        return 1;
    close(fd);
    say();
    fd = daemon_start();
    return fd < 0 || daemon_gets(fd, "directnfs: something is wrong") != 0;
}

static int a_signal_of_the_application_stays(void)
{
    sigset_t blocked, pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGXFSZ);
    if (file_as_long_as_files_may_be() != 0)
        return 1;
    sigpending(&pending);
    signal(SIGXFSZ, SIG_IGN); /* takes it away */
    return !sigismember(&pending, SIGXFSZ);
}

#define FINE(name)         \
    UNIT_TEST(fine_##name) \
    {                      \
        expect_fine(name); \
    }
FINE(stderr_without_reader)
FINE(stderr_socket_without_reader)
FINE(stderr_that_nobody_reads)
FINE(file_as_long_as_files_may_be)
FINE(a_message_is_one_line)
FINE(fifo_without_reader)
FINE(a_word_that_is_no_place)
FINE(syslog_in_a_thread_that_is_cancelled)
FINE(syslog_in_the_child_of_a_process_that_says_much)
FINE(syslog_gets_each_line)
FINE(syslog_gets_lines_of_a_program_that_changed_its_root)
FINE(syslog_gets_lines_of_a_child)
FINE(syslog_gets_lines_after_it_was_started_again)
FINE(a_signal_of_the_application_stays)

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/directnfs-log.XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char path[64];
    (void)state;
    unlink(strcat(strcpy(path, directory), "/log"));
    unlink(strcat(strcpy(path, directory), "/fifo"));
    return rmdir(directory);
}

int main(void)
{
    return unit_run(make_directory, remove_directory);
}
