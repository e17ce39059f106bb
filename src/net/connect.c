#include "net/connect.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>

#include "sys/fd.h"
#include "sys/sys.h"

enum { PORT_LOWEST = 512, PORTS = 512, SHARED_TRIES = 32, LOOK_EVERY_MS = 200 };

static socklen_t address_length(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* Copies, as a sockaddr_storage may not be written through a pointer to another type. */
void net_address_set_port(struct sockaddr_storage *address, unsigned port)
{
    in_port_t value = htons((uint16_t)port);
    size_t at = address->ss_family == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port)
                                               : offsetof(struct sockaddr_in, sin_port);
    memcpy((char *)address + at, &value, sizeof(value));
}

const char *net_address_text(const struct sockaddr_storage *address, char text[INET6_ADDRSTRLEN])
{
    const void *digits = address->ss_family == AF_INET6
                             ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                             : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    return inet_ntop(address->ss_family, digits, text, INET6_ADDRSTRLEN) ? text : "?";
}

static int set_flag(int fd, int level, int name, int value)
{
    return sys_setsockopt(fd, level, name, &value, sizeof(value));
}

static int bind_port(int fd, struct sockaddr_storage *local, unsigned port)
{
    net_address_set_port(local, port);
    return sys_bind(fd, (const struct sockaddr *)local, address_length(local));
}

/* The local ports that are tried in turn for one connection. */
struct source {
    unsigned preferred;            /* 0: none */
    unsigned start, tried, shared; /* below 1024: where to begin, and how many were tried */
    bool last;                     /* there is no other one to try */
};

/*
 * First tries ports that are free, at the cost of one bind each. Then it tries some that may belong
 * to connections to other addresses. Only connecting tells that, and takes far longer; when many
 * processes wait for a port they all try.
 */
static int bind_low(int fd, struct sockaddr_storage *local, struct source *source)
{
    int result = -EADDRINUSE;
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    while (result == -EADDRINUSE && source->tried < PORTS)
        result = bind_port(fd, local, PORT_LOWEST + (source->start + source->tried++) % PORTS);
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    while (result == -EADDRINUSE && source->shared < SHARED_TRIES) {
        unsigned step = PORTS / SHARED_TRIES * source->shared++;
        result = bind_port(fd, local, PORT_LOWEST + (source->start + step) % PORTS);
    }
    return result;
}

/*
 * Binds the next free port. Many servers (Linux: `secure`, the default) answer only ports below
 * 1024. Those start at a port that differs between processes, so that they do not all try the same
 * ones.
 */
static int bind_local(int fd, const struct net_address *address, enum net_port policy,
                      struct source *source)
{
    struct sockaddr_storage local = address->local;
    bool any = local.ss_family == AF_UNSPEC;
    unsigned preferred = source->preferred;
    if (any) {
        memset(&local, 0, sizeof(local));
        local.ss_family = address->peer.ss_family;
    }
    source->preferred = 0;
    if (preferred && bind_port(fd, &local, preferred) == 0)
        return 0;
    if (policy != NET_PORT_ANY) {
        int result = bind_low(fd, &local, source);
        if (result == 0 || policy == NET_PORT_PRIVILEGED ||
            (policy == NET_PORT_LOW && result != -EACCES))
            return result;
    }
    source->last = true;
    return any ? 0 : bind_port(fd, &local, 0);
}

static int wait_connected(int fd, const struct net_connecting *how)
{
    uint64_t deadline = sys_now_ns() + (uint64_t)how->timeout_ms * 1000000;
    for (;;) {
        int64_t left_ms = (int64_t)(deadline - sys_now_ns()) / 1000000;
        bool last = !how->look || left_ms <= LOOK_EVERY_MS;
        struct pollfd poll = {.fd = fd, .events = POLLOUT};
        int ready = sys_poll(&poll, 1, !last ? LOOK_EVERY_MS : left_ms > 0 ? (int)left_ms : 0);
        if (ready == 0 && !last)
            how->look(how->context);
        if (ready == -EINTR || (ready == 0 && !last))
            continue;
        if (ready < 0)
            return ready;
        if (ready == 0)
            return -ETIMEDOUT;
        int error = 0;
        socklen_t length = sizeof(error);
        sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
        return -error;
    }
}

/* Has this host an address from which the peer can be reached? Then only a port is missing. */
static bool has_source(const struct net_address *address)
{
    if (address->local.ss_family != AF_UNSPEC)
        return true; /* it was bound */
    int fd = sys_socket(address->peer.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    int result =
        sys_connect(fd, (const struct sockaddr *)&address->peer, address_length(&address->peer));
    sys_close(fd);
    return result == 0;
}

static int open_socket(const struct net_address *address)
{
    int fd = sys_socket(address->peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    fd = sys_fd_protect(fd); /* at once: connecting takes long, and the number may be closed */
    /* Closing resets the connection. So no late duplicate of a call survives it, and no privileged
     * port stays in TIME_WAIT. */
    struct linger abortive = {.l_onoff = 1, .l_linger = 0};
    sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    /* Connections to different addresses may share a local port: there are few below 1024. */
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->dontroute)
        set_flag(fd, SOL_SOCKET, SO_DONTROUTE, 1);
    return fd;
}

static int connect_socket(int fd, const struct net_address *address,
                          const struct net_connecting *how)
{
    int result =
        sys_connect(fd, (const struct sockaddr *)&address->peer, address_length(&address->peer));
    return result == -EINPROGRESS || result == -EINTR ? wait_connected(fd, how) : result;
}

int net_connect_from(const struct net_address *address, struct net_connecting *how)
{
    struct source source = {.preferred = how->preferred_port,
                            .start = (unsigned)(sys_now_ns() >> 10) + (unsigned)sys_getpid() * 7};
    how->tried = 0;
    for (;;) {
        int fd = open_socket(address);
        if (fd < 0)
            return fd;
        int result = bind_local(fd, address, how->policy, &source);
        how->tried = source.tried;
        bool bound = result == 0;
        if (bound)
            result = connect_socket(fd, address, how);
        if (result == 0) {
            sys_fcntl(fd, F_SETFL, 0); /* blocking: a reader sleeps in the kernel's recvmsg() */
            return fd;
        }
        sys_fd_close(fd);
        if (!bound || result != -EADDRNOTAVAIL || !has_source(address))
            return result;
        if (source.last) /* else another connection to this address has the port */
            return -EADDRINUSE;
    }
}

int net_connect(const struct net_address *address, enum net_port policy, int timeout_ms)
{
    struct net_connecting how = {.policy = policy, .timeout_ms = timeout_ms};
    return net_connect_from(address, &how);
}

bool net_address_is_ours(const struct sockaddr_storage *local)
{
    struct sockaddr_storage copy = *local;
    if (local->ss_family == AF_UNSPEC)
        return true;
    int fd = sys_socket(local->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true; /* connecting will tell why */
    int result = bind_port(fd, &copy, 0);
    sys_close(fd);
    return result != -EADDRNOTAVAIL;
}

bool net_low_ports_permitted(void)
{
    struct sockaddr_storage local = {.ss_family = AF_INET};
    int fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;                                 /* it is not known */
    int result = bind_port(fd, &local, PORT_LOWEST); /* the kernel checks the right first */
    sys_close(fd);
    return result != -EACCES;
}

int net_left_ms(uint64_t deadline_ns)
{
    int64_t left_ms = (int64_t)(deadline_ns - sys_now_ns()) / 1000000;
    return left_ms > 0 ? (int)left_ms : 1;
}

unsigned net_local_port(int fd, struct sockaddr_storage *local)
{
    socklen_t length = sizeof(*local);
    memset(local, 0, sizeof(*local));
    if (sys_getsockname(fd, (struct sockaddr *)local, &length) != 0)
        return 0;
    return ntohs(local->ss_family == AF_INET6 ? ((struct sockaddr_in6 *)local)->sin6_port
                                              : ((struct sockaddr_in *)local)->sin_port);
}
