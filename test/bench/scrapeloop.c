// scrapeloop: asks an exporter for its metrics, so many times a second, over connections that stay
// open.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MOST = 64, ANSWER_MOST = 1 << 20 };

static const char request[] = "GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n";
static struct sockaddr_in address = {.sin_family = AF_INET};
static uint64_t interval_ns, begun_ns, end_ns;

struct connection {
    pthread_t thread;
    uint64_t scrapes, failed, first_ns;
    char answer[ANSWER_MOST + 1];
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "scrapeloop: %s: %s\n", what, strerror(errno));
    exit(1);
}

// One answer, whole: its head, and as many bytes as that says.
static int is_answered(int fd, char *answer)
{
    size_t have = 0, whole = 0;
    while (whole == 0 || have < whole) {
        ssize_t got = have < ANSWER_MOST ? read(fd, answer + have, ANSWER_MOST - have) : -1;
        if (got <= 0)
            return 0;
        answer[have += (size_t)got] = '\0';
        const char *body = strstr(answer, "\r\n\r\n"),
                   *length = strcasestr(answer, "Content-Length:");
        if (whole == 0 && body && length && length < body)
            whole =
                (size_t)(body - answer) + 4 + strtoul(length + strlen("Content-Length:"), NULL, 10);
    }
    return strncmp(answer, "HTTP/1.1 200", strlen("HTTP/1.1 200")) == 0 &&
           strstr(answer, "directnfs_");
}

static void *scrape(void *argument)
{
    struct connection *c = argument;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (uint64_t next = c->first_ns; next < end_ns; next += interval_ns) {
        uint64_t now = clock_ns();
        if (now < next)
            clock_nanosleep(
                CLOCK_MONOTONIC, TIMER_ABSTIME,
                &(struct timespec){(time_t)(next / 1000000000), (long)(next % 1000000000)}, NULL);
        else if (now >= end_ns)
            break;
        if (write(fd, request, sizeof(request) - 1) != sizeof(request) - 1 ||
            !is_answered(fd, c->answer)) {
            c->failed++;
            break;
        }
        c->scrapes++;
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: scrapeloop PORT CONNECTIONS SCRAPES_PER_SECOND SECONDS\n");
        return 2;
    }
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    double rate = strtod(argv[3], NULL), seconds = strtod(argv[4], NULL);
    if (count == 0 || count > CONNECTIONS_MOST || rate <= 0 || seconds <= 0) {
        fprintf(stderr, "scrapeloop: 1 to %d connections, and a rate and a time above 0\n",
                CONNECTIONS_MOST);
        return 2;
    }
    struct connection *connections = calloc(count, sizeof(*connections));
    if (!connections)
        die("memory");
    address.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    interval_ns = (uint64_t)(1e9 * count / rate);
    begun_ns = clock_ns();
    end_ns = begun_ns + (uint64_t)(seconds * 1e9);
    for (unsigned i = 0; i < count; i++) {
        connections[i].first_ns = begun_ns + interval_ns * i / count;
        if (pthread_create(&connections[i].thread, NULL, scrape, &connections[i]) != 0)
            die("pthread_create");
    }
    uint64_t scrapes = 0, failed = 0;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(connections[i].thread, NULL);
        scrapes += connections[i].scrapes;
        failed += connections[i].failed;
    }
    printf("{\"scrapes\": %llu, \"failed\": %llu, \"seconds\": %.3f}\n",
           (unsigned long long)scrapes, (unsigned long long)failed,
           (double)(clock_ns() - begun_ns) / 1e9);
    free(connections);
    return 0;
}
