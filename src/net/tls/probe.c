/* The question for TLS: a call of procedure NULL with the flavor AUTH_TLS (RFC 9289, section 4.1).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "net/tls/parts.h"

enum {
    CALL = 0,
    REPLY = 1,
    RPC_VERSION = 2,
    AUTH_NONE = 0,
    AUTH_TLS = 7,
    ACCEPTED = 0,
    DENIED = 1,
    SUCCESS = 0,
    LAST_FRAGMENT_BIT = 31,
    MARK = 4,
    LOOK_EVERY_MS = 200
};

static const char starttls[] = "STARTTLS";

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return ntohl(value);
}

int net_tls_probe_reply(const uint8_t *bytes, size_t have, uint32_t xid, size_t *length)
{
    enum { LEAST = 12, VERIFIER = MARK + 12, BODY = MARK + 20, TOKEN = sizeof(starttls) - 1 };
    *length = 0;
    if (have < MARK)
        return 0;
    uint32_t mark = word(bytes);
    size_t record = mark & ~(UINT32_C(1) << LAST_FRAGMENT_BIT);
    if (record == mark || record < LEAST || record > NET_TLS_PROBE_REPLY_MAX - MARK)
        return -EBADMSG;
    *length = MARK + record;
    if (have < *length)
        return 0;
    if (word(bytes + MARK) != xid || word(bytes + MARK + 4) != REPLY)
        return -EBADMSG;
    if (word(bytes + MARK + 8) == DENIED)
        return -ENOPROTOOPT;
    if (word(bytes + MARK + 8) != ACCEPTED || *length < BODY)
        return -EBADMSG;
    uint32_t body = word(bytes + VERIFIER + 4);
    size_t status = BODY + (((size_t)body + 3) & ~(size_t)3);
    if (body > *length - BODY)
        return -EBADMSG;
    bool offers = word(bytes + VERIFIER) == AUTH_NONE && body == TOKEN &&
                  memcmp(bytes + BODY, starttls, TOKEN) == 0;
    /* A server that lacks the program or its version has said nothing of TLS. */
    bool done = status + 4 <= *length && word(bytes + status) == SUCCESS;
    return offers ? 1 : done ? -ENOPROTOOPT : -EBADMSG;
}

static size_t build_call(uint8_t *call, uint32_t xid, const struct net_tls_peer *peer)
{
    const uint32_t words[] = {xid, CALL,     RPC_VERSION, peer->program, peer->version,
                              0,   AUTH_TLS, 0,           AUTH_NONE,     0};
    uint32_t mark = htonl(UINT32_C(1) << LAST_FRAGMENT_BIT | sizeof(words));
    memcpy(call, &mark, sizeof(mark));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint32_t value = htonl(words[i]);
        memcpy(call + MARK + 4 * i, &value, sizeof(value));
    }
    return MARK + sizeof(words);
}

int tls_wait(int fd, short event, const struct net_tls_peer *peer, uint64_t deadline_ns)
{
    for (;;) {
        int64_t left_ms = ((int64_t)(deadline_ns - sys_now_ns()) + 999999) / 1000000;
        if (left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd poll = {.fd = fd, .events = event};
        int ready = sys_poll(&poll, 1, left_ms < LOOK_EVERY_MS ? (int)left_ms : LOOK_EVERY_MS);
        if (ready > 0)
            return 0;
        if (ready < 0 && ready != -EINTR)
            return ready;
        if (ready == 0 && peer->look)
            peer->look(peer->context);
    }
}

/* One step of the conversation: `count` bytes at most. GOOD, and *moved says how many. */
static enum net_tls_fault move(int fd, uint8_t *bytes, size_t count, bool send, size_t *moved)
{
    struct iovec vector = {bytes, count};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t done = send ? sys_sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : sys_recvmsg(fd, &message, MSG_DONTWAIT);
    *moved = done > 0 ? (size_t)done : 0;
    if (done == -EAGAIN || done == -EINTR || done == -ENOBUFS || done == -ENOMEM || done > 0)
        return NET_TLS_GOOD;
    return NET_TLS_CUT;
}

/* No byte behind the answer is taken: what follows is TLS. */
enum net_tls_fault tls_probe(int fd, const struct net_tls_peer *peer, uint64_t deadline_ns)
{
    uint8_t bytes[NET_TLS_PROBE_REPLY_MAX];
    uint32_t xid = (uint32_t)(sys_now_ns() >> 8) | 1;
    size_t length = build_call(bytes, xid, peer), at = 0, moved;
    enum net_tls_fault fault = NET_TLS_GOOD;
    for (; at < length && fault == NET_TLS_GOOD; at += moved) {
        if (tls_wait(fd, POLLOUT, peer, deadline_ns) != 0)
            return NET_TLS_LATE;
        fault = move(fd, bytes + at, length - at, true, &moved);
    }
    at = length = 0;
    int answer = 0;
    while (fault == NET_TLS_GOOD && answer == 0) {
        if (tls_wait(fd, POLLIN, peer, deadline_ns) != 0)
            return NET_TLS_LATE;
        fault = move(fd, bytes + at, (length ? length : MARK) - at, false, &moved);
        at += moved;
        answer = net_tls_probe_reply(bytes, at, xid, &length);
    }
    return fault != NET_TLS_GOOD    ? fault
           : answer > 0             ? NET_TLS_GOOD
           : answer == -ENOPROTOOPT ? NET_TLS_REFUSED
                                    : NET_TLS_NO_RPC;
}
