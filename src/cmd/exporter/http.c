/*
 * directnfs exporter: HTTP, by libmicrohttpd. That is loaded here and not linked, so that all other
 * commands work where it is not installed.
 */
#include "cmd/exporter/exporter.h"

#include <unistd.h>

#include "cmd/cmd.h"

#if __has_include(<microhttpd.h>)
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/print.h"
#include "sys/sys.h"

#define LIBRARY "libmicrohttpd.so.12"

enum {
    CONNECTIONS = 128,
    CONNECTIONS_OF_ONE = 32, /* from one address */
    IDLE_S = 10,
    REQUEST_BYTES = 16384,
    AGE_MS = 500, /* a younger answer is given again */
    SHARE = 10    /* reading takes at most one part in so many of the time */
};

#define FUNCTIONS(FUNCTION)                   \
    FUNCTION(MHD_start_daemon)                \
    FUNCTION(MHD_stop_daemon)                 \
    FUNCTION(MHD_run)                         \
    FUNCTION(MHD_get_timeout)                 \
    FUNCTION(MHD_get_daemon_info)             \
    FUNCTION(MHD_create_response_from_buffer) \
    FUNCTION(MHD_add_response_header)         \
    FUNCTION(MHD_queue_response)              \
    FUNCTION(MHD_destroy_response)

static struct {
#define POINTER(name) __typeof__(&(name)) name;
    FUNCTIONS(POINTER)
} mhd;

static bool load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool complete = library != NULL;
#define FIND(name) complete = complete && (mhd.name = dlsym(library, #name)) != NULL;
    FUNCTIONS(FIND)
    if (!complete)
        cmd_complain("exporter",
                     "needs " LIBRARY ", which cannot be loaded (%s); packages are called "
                     "libmicrohttpd12 (Debian) and libmicrohttpd (Fedora)",
                     library ? "it is too old" : dlerror());
    return complete;
}

/* ---- answers ---- */

static struct {
    exporter_metrics *make;
    struct MHD_Response *now; /* NULL: none yet */
    uint64_t until_ns;        /* it is given again up to this time */
} metrics;

static struct MHD_Response *answer(char *text, size_t size, bool own, const char *type)
{
    struct MHD_Response *response = cmd_need(mhd.MHD_create_response_from_buffer(
        size, text, own ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT));
    mhd.MHD_add_response_header(response, "Content-Type", type);
    return response;
}

/* Gives an answer again for a while: many requests cost no more than one. */
static struct MHD_Response *metrics_now(void)
{
    uint64_t began_ns = sys_now_ns();
    size_t size;
    if (metrics.now && began_ns < metrics.until_ns)
        return metrics.now;
    if (metrics.now)
        mhd.MHD_destroy_response(metrics.now);
    char *text = metrics.make(&size);
    metrics.now = answer(text, size, true, "text/plain; version=0.0.4; charset=utf-8");
    uint64_t ended_ns = sys_now_ns(), pause_ns = (ended_ns - began_ns) * (SHARE - 1);
    if (pause_ns < AGE_MS * UINT64_C(1000000))
        pause_ns = AGE_MS * UINT64_C(1000000);
    metrics.until_ns = ended_ns + pause_ns;
    return metrics.now;
}

static enum MHD_Result give_text(struct MHD_Connection *connection, unsigned status,
                                 const char *type, const char *text)
{
    struct MHD_Response *response = answer((char *)(uintptr_t)text, strlen(text), false, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        mhd.MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result result = mhd.MHD_queue_response(connection, status, response);
    mhd.MHD_destroy_response(response);
    return result;
}

/* Called when the head of a request has come, and again for its body and end. */
static enum MHD_Result asked(void *unused, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_size, void **seen)
{
    static const char page[] = "<!DOCTYPE html><html lang=\"en\"><title>directnfs</title>"
                               "<p><a href=\"/metrics\">Metrics</a> of directnfs.</html>\n";
    (void)unused, (void)version, (void)upload;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return give_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
                         "Only GET and HEAD are answered.\n");
    if (*seen == NULL) {
        *seen = &metrics;
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/metrics") == 0)
        return mhd.MHD_queue_response(connection, MHD_HTTP_OK, metrics_now());
    if (strcmp(url, "/") == 0)
        return give_text(connection, MHD_HTTP_OK, "text/html; charset=utf-8", page);
    return give_text(connection, MHD_HTTP_NOT_FOUND, "text/plain", "There is only /metrics.\n");
}

/* ---- serving ---- */

static volatile sig_atomic_t ended;

static void end(int number)
{
    (void)number;
    ended = 1;
}

/* Signals come only during ppoll(). */
static void serve(struct MHD_Daemon *daemon, int epoll, const sigset_t *during)
{
    while (!ended) {
        struct pollfd poll = {.fd = epoll, .events = POLLIN};
        MHD_UNSIGNED_LONG_LONG left_ms = 1000;
        if (mhd.MHD_get_timeout(daemon, &left_ms) != MHD_YES || left_ms > 1000)
            left_ms = 1000;
        const struct timespec limit = {(time_t)(left_ms / 1000), (long)(left_ms % 1000) * 1000000};
        ppoll(&poll, 1, &limit, during);
        mhd.MHD_run(daemon);
    }
}

int exporter_serve(int fd, exporter_metrics *make)
{
    sigset_t ends, before;
    const struct sigaction action = {.sa_handler = end}, ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    if (!load()) {
        close(fd);
        return CMD_NOT_FINE;
    }
    metrics.make = make;
    sigprocmask(SIG_BLOCK, &ends, &before);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    struct MHD_Daemon *daemon = mhd.MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, asked, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_OF_ONE, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_END);
    if (daemon == NULL) {
        cmd_complain("exporter", "libmicrohttpd does not start: %m");
        close(fd);
        return CMD_NOT_FINE;
    }
    serve(daemon, mhd.MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, &before);
    if (metrics.now)
        mhd.MHD_destroy_response(metrics.now);
    mhd.MHD_stop_daemon(daemon);
    return CMD_FINE;
}
#else

int exporter_serve(int fd, exporter_metrics *make)
{
    (void)make;
    cmd_complain("exporter", "is missing: directnfs was built without libmicrohttpd");
    close(fd);
    return CMD_NOT_FINE;
}
#endif
