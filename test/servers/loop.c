/* See loop.h. */
#include "loop.h"

enum { RECORD_MOST = 2 << 20, WATCHES_MOST = 1024 };

uint64_t milliseconds(uint64_t ms)
{
    return ms * 1000000;
}

uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void *need(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        die("no memory");
    return memory;
}

/* ---- what is watched ---- */

static struct watch *watches;

static volatile sig_atomic_t loop_ended;

void watch_add(struct watch *watch)
{
    watch->next = watches;
    watches = watch;
}

void socket_reset(int *fd)
{
    struct linger abortive = {.l_onoff = 1};
    if (*fd < 0)
        return;
    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof abortive);
    close(*fd);
    *fd = -1;
}

static void loop_signal(int number)
{
    (void)number;
    loop_ended = 1;
}

void loop_run(uint64_t (*due)(uint64_t now))
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, loop_signal);
    signal(SIGINT, loop_signal);
    while (!loop_ended) {
        struct pollfd polls[WATCHES_MOST];
        struct watch *polled[WATCHES_MOST];
        unsigned count = 0;
        uint64_t now = clock_ns(), at = due(now); /* forgets those that are dead */
        for (struct watch **link = &watches; *link;) {
            struct watch *w = *link;
            if (!w->dead) {
                link = &w->next;
                continue;
            }
            *link = w->next;
            free(w);
        }
        for (struct watch *w = watches; w && count < WATCHES_MOST; w = w->next) {
            if (w->fd < 0 || w->dead)
                continue;
            polled[count] = w;
            polls[count++] = (struct pollfd){.fd = w->fd, .events = w->events};
        }
        uint64_t pause = at == NEVER ? milliseconds(60000) : at > now ? at - now : 0;
        struct timespec limit = {(time_t)(pause / 1000000000), (long)(pause % 1000000000)};
        if (ppoll(polls, count, &limit, NULL) < 0)
            continue;
        for (unsigned i = 0; i < count; i++) {
            /* Handlers before this one may have closed it, or opened another under its number. */
            if (polls[i].revents && !polled[i]->dead && polled[i]->fd == polls[i].fd)
                polled[i]->ready(polled[i], polls[i].revents);
        }
    }
}

/* ---- TCP ---- */

void socket_ready(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int tcp_listen(union address address, uint16_t port)
{
    int one = 1, fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_v6 = address.any.sa_family == AF_INET6;
    *(is_v6 ? &address.v6.sin6_port : &address.v4.sin_port) = htons(port);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, &address.any, is_v6 ? sizeof address.v6 : sizeof address.v4) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* ---- records ---- */

struct message *message_make(const void *data, size_t length)
{
    struct message *m = need(sizeof *m + length);
    m->length = length;
    memcpy(m->data, data, length);
    return m;
}

void messages_free(struct message **list)
{
    while (*list) {
        struct message *m = *list;
        *list = m->next;
        free(m);
    }
}

int input_receive(struct input *in, int fd)
{
    if (in->size - in->used < 65536) {
        size_t size = in->size ? in->size * 2 : 131072;
        unsigned char *bytes = realloc(in->bytes, size);
        if (!bytes)
            die("no memory");
        in->bytes = bytes;
        in->size = size;
    }
    ssize_t got = recv(fd, in->bytes + in->used, in->size - in->used, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -2;
    in->used += (size_t)got;
    return got > 0 ? 1 : -1;
}

struct message *input_record(struct input *in, bool *garbage)
{
    size_t at = 0, body = 0;
    for (;;) {
        if (in->used - at < 4)
            return NULL;
        uint32_t mark = wire_load32(in->bytes + at), length = mark & ~RPC_LAST_FRAGMENT;
        if (length > RECORD_MOST || body + length > RECORD_MOST) {
            *garbage = true;
            return NULL;
        }
        if (in->used - at - 4 < length)
            return NULL;
        memmove(in->bytes + 4 + body, in->bytes + at + 4, length);
        body += length;
        at += 4 + length;
        if (mark & RPC_LAST_FRAGMENT)
            break;
        /* The part that is left may be looked at again: it must stay one fragment of its own. */
        memmove(in->bytes + 4 + body, in->bytes + at, in->used - at);
        in->used -= at - 4 - body;
        at = 4 + body;
        wire_store32(in->bytes, (uint32_t)body);
    }
    wire_store32(in->bytes, (uint32_t)body | RPC_LAST_FRAGMENT);
    struct message *m = message_make(in->bytes, 4 + body);
    in->used -= at;
    memmove(in->bytes, in->bytes + at, in->used);
    return m;
}

bool call_parse(const unsigned char *record, size_t length, struct call *call)
{
    struct wire_reader r = {record, record + length, false};
    uint32_t ignored;
    *call = (struct call){0};
    call->xid = wire_get32(&r);
    bool is_call = wire_get32(&r) == RPC_CALL;
    wire_get32(&r);
    call->program = wire_get32(&r);
    uint32_t version = wire_get32(&r);
    call->procedure = wire_get32(&r);
    uint32_t flavor = wire_get32(&r);
    wire_get_opaque(&r, RPC_AUTH_MAX, &ignored);
    wire_get32(&r);
    wire_get_opaque(&r, RPC_AUTH_MAX, &ignored);
    call->args = r;
    if (call->program == NFS_PROGRAM && version == V41_VERSION && flavor != RPCSEC_GSS)
        compound_parse(call);
    return is_call && !r.bad;
}
