/* See mount3_responder.h. */
#include "mount3_responder.h"

static bool receive_fully(int fd, void *to, size_t size)
{
    return recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Hexadecimal to bytes; returns their number. */
static size_t reply_bytes(const char *hex, const uint8_t *xid, uint8_t *to)
{
    size_t n = 0;

    while (*hex) {
        if (*hex == ' ') {
            hex++;
        } else if (*hex == 'X') {
            memcpy(to + n, xid, 4);
            n += 4;
            hex++;
        } else {
            to[n++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
            hex += 2;
        }
    }
    return n;
}

static void serve(struct responder *responder, int fd, int turn)
{
    static const struct linger abortive = {1, 0};
    uint8_t reply[8192];
    uint32_t mark;
    size_t size;
    char byte;

    if (responder->manner == ANSWER_GOODBYE) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
        return;
    }
    if (!receive_fully(fd, &mark, 4))
        return;
    size = ntohl(mark) & 0x7fffffff;
    if (size > sizeof(responder->calls[turn]) || !receive_fully(fd, responder->calls[turn], size))
        return;
    responder->call_size[turn] = size;
    if (responder->manner == ANSWER_NEVER) {
        (void)!recv(fd, &byte, 1, 0);
        return;
    }
    if (responder->manner == ANSWER_RAW) {
        size = reply_bytes(responder->replies[turn], responder->calls[turn], reply);
    } else {
        size = 4 + reply_bytes(responder->replies[turn], responder->calls[turn], reply + 4);
        mark = htonl(0x80000000u | (uint32_t)(size - 4));
        memcpy(reply, &mark, 4);
    }
    if (responder->manner == ANSWER_DRIP) {
        for (size_t i = 0; i < size && send(fd, reply + i, 1, MSG_NOSIGNAL) == 1; i++)
            poll(NULL, 0, 20);
        return;
    }
    if (send(fd, reply, size, MSG_NOSIGNAL) != (ssize_t)size)
        return;
    if (responder->manner == ANSWER_RAW)
        shutdown(fd, SHUT_WR);
    responder->reset = recv(fd, &byte, 1, 0) < 0 && errno == ECONNRESET;
}

static void *responder_main(void *arg)
{
    struct responder *responder = arg;

    for (;;) {
        socklen_t length = sizeof(responder->from);
        struct sockaddr_storage from;
        int fd = accept(responder->listener, (struct sockaddr *)&from, &length);
        int turn;

        if (fd < 0)
            return NULL;
        turn = responder->connections++;
        responder->from = from;
        if (turn < 2)
            serve(responder, fd, turn);
        close(fd);
    }
}

bool responder_start_on(struct responder *responder, const struct sockaddr *address,
                        socklen_t length)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);

    responder->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (responder->listener < 0 || bind(responder->listener, address, length) < 0) {
        close(responder->listener);
        return false;
    }
    assert_int_equal(listen(responder->listener, 8), 0);
    assert_int_equal(getsockname(responder->listener, (struct sockaddr *)&name, &size), 0);
    /* The port is at the same place in both kinds of address. */
    responder->port = ntohs(((struct sockaddr_in *)&name)->sin_port);
    memcpy(&responder->address.peer, address, length);
    assert_int_equal(pthread_create(&responder->thread, NULL, responder_main, responder), 0);
    return true;
}

const struct sockaddr_in loopback4 = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = 0x0100007fu /* 127.0.0.1 */};

const struct sockaddr_in6 loopback6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

void responder_start(struct responder *responder)
{
    assert_true(
        responder_start_on(responder, (const struct sockaddr *)&loopback4, sizeof(loopback4)));
}

void responder_stop(struct responder *responder)
{
    shutdown(responder->listener, SHUT_RDWR);
    pthread_join(responder->thread, NULL);
    close(responder->listener);
}
