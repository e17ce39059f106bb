/* See stream.h. */
#include "stream.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- sockets ---- */

int stream_bind(sa_family_t family, in_addr_t host, in_port_t *port)
{
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(*port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(host)};
    struct sockaddr *address = family == AF_INET6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    socklen_t size = family == AF_INET6 ? sizeof(v6) : sizeof(v4);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address, size) != 0 || getsockname(fd, address, &size) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(family == AF_INET6 ? v6.sin6_port : v4.sin_port);
    return fd;
}

int stream_bind_loopback(sa_family_t family, in_port_t *port)
{
    int fd = stream_bind(family, INADDR_LOOPBACK, port);
    if (fd < 0)
        abort();
    return fd;
}

int stream_bind_kept(sa_family_t family, in_port_t *port)
{
    *port = 0;
    int any = stream_bind_loopback(family, port), fd = stream_bind_loopback(family, port);
    close(any);
    return fd;
}

int stream_accept(int listener, struct sockaddr_in *peer)
{
    socklen_t size = sizeof(*peer);
    int fd = accept4(listener, (struct sockaddr *)peer, peer ? &size : NULL, SOCK_CLOEXEC), on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

bool stream_send(int fd, const void *data, size_t length)
{
    const uint8_t *at = data;
    while (length > 0) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

void stream_abort(int fd)
{
    struct linger abortive = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
}

void stream_thread(pthread_t *thread, void *(*body)(void *), void *context)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(thread, NULL, body, context) != 0)
        abort();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- bytes ---- */

static void bytes_reserve(struct bytes *bytes, size_t length)
{
    if (bytes->data && bytes->length + length <= bytes->capacity)
        return;
    bytes->capacity = (bytes->length + length) * 2 + 64;
    bytes->data = realloc(bytes->data, bytes->capacity);
    if (!bytes->data)
        abort();
}

uint8_t *bytes_add(struct bytes *bytes, size_t length)
{
    bytes_reserve(bytes, length);
    bytes->length += length;
    return bytes->data + bytes->length - length;
}

void put_bytes(struct bytes *bytes, const void *data, size_t length)
{
    uint8_t *to = bytes_add(bytes, length);
    if (length > 0)
        memcpy(to, data, length);
}

void put_word(struct bytes *bytes, uint32_t value)
{
    uint8_t word[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                       (uint8_t)value};
    put_bytes(bytes, word, 4);
}

void bytes_drop(struct bytes *bytes, size_t length)
{
    bytes->length -= length;
    if (length > 0 && bytes->length > 0)
        memmove(bytes->data, bytes->data + length, bytes->length);
}

/* ---- records ---- */

enum { CHUNK = 1 << 16 };
static const uint32_t last_fragment = 0x80000000u;

void record_mark(uint8_t *record, size_t length)
{
    uint32_t mark = htonl(last_fragment | (uint32_t)(length - RECORD_MARK));
    memcpy(record, &mark, RECORD_MARK);
}

enum record_found record_next(const struct bytes *in, size_t *at, const uint8_t **record,
                              size_t *length)
{
    uint32_t mark;
    if (in->length - *at < RECORD_MARK)
        return RECORD_NONE;
    memcpy(&mark, in->data + *at, RECORD_MARK);
    *length = ntohl(mark) & ~last_fragment;
    if (!(ntohl(mark) & last_fragment) || *length > RECORD_MOST)
        return RECORD_BAD;
    if (in->length - *at - RECORD_MARK < *length)
        return RECORD_NONE;
    *record = in->data + *at + RECORD_MARK;
    *at += RECORD_MARK + *length;
    return RECORD_WHOLE;
}

/* A word of the record, or 0 behind its end; *at goes on. */
static uint32_t call_word(const uint8_t *record, size_t length, size_t *at)
{
    uint32_t word = 0;
    if (*at + 4 <= length)
        memcpy(&word, record + *at, 4);
    *at += 4;
    return ntohl(word);
}

bool call_read(const uint8_t *record, size_t length, struct call_head *head)
{
    enum { WORDS = 7, BODY_MOST = 400 };
    uint32_t words[WORDS];
    size_t at = 0;
    for (int i = 0; i < WORDS; i++)
        words[i] = call_word(record, length, &at);
    *head = (struct call_head){words[0], words[1], words[2], words[3], words[4],
                               words[5], words[6], 0,        NULL,     NULL};
    head->credential_length = call_word(record, length, &at);
    head->credential = record + at;
    at += (head->credential_length + 3) & ~3u;
    call_word(record, length, &at); /* the verifier */
    uint32_t verifier_length = call_word(record, length, &at);
    at += (verifier_length + 3) & ~3u;
    head->arguments = record + at;
    return head->credential_length <= BODY_MOST && verifier_length <= BODY_MOST && at <= length;
}

ssize_t record_receive(int fd, struct bytes *in, int flags)
{
    bytes_reserve(in, CHUNK);
    ssize_t got = recv(fd, in->data + in->length, in->capacity - in->length, flags);
    if (got > 0)
        in->length += (size_t)got;
    return got;
}
