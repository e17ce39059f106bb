/* See mount3_responder.h. */
#include "mount3_responder.h"

#include <stdlib.h>

#include "hex.h"

static bool receive_fully(int fd, void *to, size_t size)
{
    return recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

static void serve(struct responder *responder, int fd, int turn)
{
    uint8_t reply[8192];
    uint32_t mark;
    size_t size;
    char byte;

    if (responder->manner == ANSWER_GOODBYE) {
        stream_abort(fd);
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
        size = hex_bytes(responder->replies[turn], responder->calls[turn], reply);
    } else {
        size = 4 + hex_bytes(responder->replies[turn], responder->calls[turn], reply + 4);
        record_mark(reply, size);
    }
    if (responder->manner == ANSWER_DRIP) {
        for (size_t i = 0; i < size && send(fd, reply + i, 1, MSG_NOSIGNAL) == 1; i++)
            poll(NULL, 0, 20);
        return;
    }
    if (!stream_send(fd, reply, size))
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

const struct sockaddr_in loopback4 = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = 0x0100007fu /* 127.0.0.1 */};

const struct sockaddr_in6 loopback6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

bool responder_start_on(struct responder *responder, sa_family_t family)
{
    responder->port = 0;
    responder->listener = stream_bind(family, INADDR_LOOPBACK, &responder->port);
    if (responder->listener < 0)
        return false;
    if (listen(responder->listener, 8) != 0)
        abort();
    if (family == AF_INET6)
        memcpy(&responder->address.peer, &loopback6, sizeof(loopback6));
    else
        memcpy(&responder->address.peer, &loopback4, sizeof(loopback4));
    stream_thread(&responder->thread, responder_main, responder);
    return true;
}

void responder_start(struct responder *responder)
{
    if (!responder_start_on(responder, AF_INET))
        abort();
}

void responder_stop(struct responder *responder)
{
    shutdown(responder->listener, SHUT_RDWR);
    pthread_join(responder->thread, NULL);
    close(responder->listener);
}
