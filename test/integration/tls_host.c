/*
 * A program that uses OpenSSL itself, and files of a mount with TLS.
 *
 *     tls_host exit FILE       writes, and ends without fsync
 *     tls_host ends FILE       ends while a thread reads, after OpenSSL has ended
 *     tls_host cleanup FILE    shuts OpenSSL down, and goes on reading and writing
 *     tls_host fork FILE       many children at once, which read, while threads use OpenSSL
 *     tls_host handler FILE    reads in a handler that interrupts malloc() and OpenSSL
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

enum { SIZE = 1 << 20, CHILDREN = 30, THREADS = 2, READS = 200 };

static unsigned char data[SIZE];

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        _exit(1);
    }
}

static void fill(void)
{
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 8));
}

static void write_all(int fd)
{
    must(pwrite(fd, data, SIZE, 0) == SIZE, "write");
}

static bool reads_well(int fd, size_t at, size_t length)
{
    static _Thread_local unsigned char seen[65536];
    return pread(fd, seen, length, (off_t)at) == (ssize_t)length &&
           memcmp(seen, data + at, length) == 0;
}

/* The program's own use: a digest, a context of TLS, and an error that it left in the queue. */
static void use_openssl(void)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length;
    must(EVP_Digest(data, 4096, digest, &length, EVP_sha256(), NULL) == 1 && length == 32,
         "EVP_Digest");
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    must(context, "SSL_CTX_new");
    SSL_CTX_free(context);
}

static atomic_bool stop;

static void *use_on_and_on(void *unused)
{
    while (!atomic_load(&stop))
        use_openssl();
    return unused;
}

static void forks(int fd)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use_on_and_on, NULL);
    for (int child = 0; child < CHILDREN; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (size_t i = 0; i < 8; i++)
                must(reads_well(fd, i * 65536, 65536), "read in a child");
            _exit(0);
        }
        must(pid > 0 && reads_well(fd, (size_t)child * 8192, 8192), "read in the parent");
    }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    must(failed == 0, "children");
}

static int handled_fd;
static volatile sig_atomic_t handled;

static void read_in_handler(int signal)
{
    int before = errno;
    (void)signal;
    must(reads_well(handled_fd, (size_t)(handled % 64) * 8192, 8192), "read in a handler");
    handled = handled + 1;
    errno = before;
}

static void handlers(int fd)
{
    struct sigaction action = {.sa_handler = read_in_handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    handled_fd = fd;
    ERR_raise(ERR_LIB_USER, 5);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < READS) {
        use_openssl();
        free(malloc(100 + (size_t)handled));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    must(ERR_GET_REASON(ERR_get_error()) == 5 && ERR_get_error() == 0, "the queue of errors");
}

static void *read_on_and_on(void *unused)
{
    for (size_t i = 0;; i++)
        (void)reads_well(handled_fd, i % 16 * 65536, 65536);
    return unused;
}

int main(int argc, char **argv)
{
    must(argc == 3, "usage: tls_host exit|ends|cleanup|fork|handler FILE");
    fill();
    use_openssl();
    int fd = open(argv[2], O_RDWR | O_CREAT, 0644);
    must(fd >= 0, argv[2]);
    write_all(fd);
    if (strcmp(argv[1], "exit") == 0)
        return 0;
    must(fsync(fd) == 0, "fsync");
    if (strcmp(argv[1], "fork") == 0)
        forks(fd);
    if (strcmp(argv[1], "handler") == 0)
        handlers(fd);
    if (strcmp(argv[1], "ends") == 0) {
        pthread_t thread;
        handled_fd = fd;
        pthread_create(&thread, NULL, read_on_and_on, NULL);
        usleep(50000);
    }
    if (strcmp(argv[1], "cleanup") == 0) {
        OPENSSL_cleanup();
        for (size_t i = 0; i < 16; i++)
            must(reads_well(fd, i * 65536, 65536), "read after OPENSSL_cleanup()");
        write_all(fd);
        must(fsync(fd) == 0, "fsync after OPENSSL_cleanup()");
    }
    return 0;
}
