#include "nfs/mount3_call.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <rpc/auth.h>
#include <rpc/auth_unix.h>
#include <rpc/clnt.h>
#include <rpc/rpc_msg.h>
#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/sys.h"

/*
 * libtirpc builds and reads the messages; the bytes are moved here. Its own transport (clnt_vc)
 * starts its timeout anew with every piece that arrives, raises SIGPIPE, keeps all signals of the
 * thread blocked while it waits, and would come back into the wrappers of src/preload through
 * read(), write() and poll().
 */

#define CALL_MAX      2048u      /* header 40, credentials 400, MNT path 1028, rounded up */
#define RECORD_MAX    (1u << 20) /* the longest reply believed: a list of exports can be long */
#define FRAGMENT_LAST 0x80000000u

/* Source ports tried, as other NFS clients do: low ones belong to well-known services. */
#define SOURCE_PORT_MIN 665u
#define SOURCE_PORT_MAX 1023u
#define SOURCE_PORTS    (SOURCE_PORT_MAX - SOURCE_PORT_MIN + 1)
#define SOURCE_TRIES    16u    /* of ports that somebody has */
#define SOURCE_FREE     65535u /* one of them that nobody has */

/* Waiting, with a deadline in nanoseconds of CLOCK_MONOTONIC. */

uint64_t mount3_deadline(int timeout_ms)
{
    return sys_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
}

static int wait_for(int fd, short events, uint64_t deadline)
{
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = events};
        uint64_t now = sys_now_ns();
        uint64_t left_ms;
        int rc;

        if (now >= deadline)
            return -ETIMEDOUT;
        left_ms = (deadline - now + 999999u) / 1000000u;
        rc = sys_poll(&entry, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (rc > 0)
            return 0;
        if (rc < 0 && rc != -EINTR)
            return rc;
    }
}

/* Addresses. */

/* Copies an address and gives it a port. Returns its length or -EAFNOSUPPORT. */
static int address_with_port(struct sockaddr_storage *to, const struct sockaddr *from,
                             uint16_t port)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;

        memcpy(in, from, sizeof(*in));
        in->sin_port = htons(port);
        return sizeof(*in);
    }
    if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

        memcpy(in6, from, sizeof(*in6));
        in6->sin6_port = htons(port);
        return sizeof(*in6);
    }
    return -EAFNOSUPPORT;
}

static int bind_source(int fd, const struct mount3_target *target, uint16_t source_port)
{
    struct sockaddr_storage any = {.ss_family = target->peer->sa_family};
    struct sockaddr_storage source;
    int length = address_with_port(
        &source, target->local ? target->local : (const struct sockaddr *)&any, source_port);

    if (length < 0)
        return length;
    return sys_bind(fd, (const struct sockaddr *)&source, (socklen_t)length);
}

static uint16_t source_port_at(uint32_t number)
{
    static const uint32_t each = 163; /* spreads processes that begin together */
    uint32_t start = (uint32_t)sys_now_ns() / 1000u + (uint32_t)sys_gettid() * each;

    return (uint16_t)(SOURCE_PORT_MIN + (start + number) % SOURCE_PORTS);
}

static int bind_free(int fd, const struct mount3_target *target)
{
    uint32_t first = source_port_at(0);
    int rc = -EADDRINUSE;

    for (uint32_t i = 0; i < SOURCE_PORTS && rc == -EADDRINUSE; i++)
        rc = bind_source(fd, target,
                         (uint16_t)(SOURCE_PORT_MIN + (first - SOURCE_PORT_MIN + i) % SOURCE_PORTS));
    return rc;
}

/* A connected socket from this source port (0: any, or SOURCE_FREE), or a negative errno value. */
static int connect_from(const struct mount3_target *target, uint16_t port, uint16_t source_port,
                        uint64_t deadline, bool *bound)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    static const int shared = 1; /* a port may be that of a connection to another address */
    struct sockaddr_storage peer;
    int length, fd, rc;

    *bound = false;
    length = address_with_port(&peer, target->peer, port);
    if (length < 0)
        return length;
    fd = sys_socket(peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return fd;
    fd = sys_fd_protect(fd);
    rc = sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (rc == 0 && source_port == SOURCE_FREE)
        rc = bind_free(fd, target);
    if (rc == 0)
        rc = sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &shared, sizeof(shared));
    if (rc == 0 && source_port != SOURCE_FREE && (target->local || source_port))
        rc = bind_source(fd, target, source_port);
    if (rc < 0)
        goto fail;
    *bound = true;

    rc = sys_connect(fd, (const struct sockaddr *)&peer, (socklen_t)length);
    if (rc == -EINPROGRESS || rc == -EINTR) {
        socklen_t size = sizeof(rc);
        int error = 0;

        rc = wait_for(fd, POLLOUT, deadline);
        if (rc == 0)
            rc = sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (rc == 0)
            rc = -error;
    }
    if (rc == 0)
        return fd;
fail:
    sys_fd_close(fd);
    return rc;
}

static int open_connection(const struct mount3_target *target, uint16_t port, bool privileged,
                           uint64_t deadline)
{
    bool bound;
    int fd;

    if (target->local && target->local->sa_family != target->peer->sa_family)
        return -EAFNOSUPPORT;
    if (privileged) {
        /* One that nobody has costs an attempt to bind for each; of the others, which may be those
         * of connections to other servers, only connecting tells. */
        for (uint32_t i = 0; i <= SOURCE_TRIES; i++) {
            uint16_t source = i == 0 ? SOURCE_FREE : source_port_at(i * (SOURCE_PORTS / SOURCE_TRIES));

            fd = connect_from(target, port, source, deadline, &bound);
            if (!bound && (fd == -EACCES || fd == -EPERM))
                break;
            if (fd != -EADDRINUSE && fd != -EADDRNOTAVAIL)
                return fd;
        }
    }
    return connect_from(target, port, 0, deadline, &bound);
}

/* Records (RFC 5531 section 11). */

static int send_all(int fd, const void *data, size_t size, uint64_t deadline)
{
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};

    while (part.iov_len > 0) {
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t sent = sys_sendmsg(fd, &message, MSG_NOSIGNAL);
        int rc;

        if (sent >= 0) {
            part.iov_base = (char *)part.iov_base + sent;
            part.iov_len -= (size_t)sent;
            continue;
        }
        if (sent == -EINTR)
            continue;
        if (sent != -EAGAIN)
            return sent == -EPIPE ? -ECONNRESET : (int)sent;
        rc = wait_for(fd, POLLOUT, deadline);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int receive_all(int fd, void *data, size_t size, uint64_t deadline)
{
    struct iovec part = {.iov_base = data, .iov_len = size};

    while (part.iov_len > 0) {
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t received;
        int rc;

        rc = wait_for(fd, POLLIN, deadline);
        if (rc < 0)
            return rc;
        received = sys_recvmsg(fd, &message, 0);
        if (received == 0)
            return -ECONNRESET;
        if (received > 0) {
            part.iov_base = (char *)part.iov_base + received;
            part.iov_len -= (size_t)received;
        } else if (received != -EINTR && received != -EAGAIN) {
            return (int)received;
        }
    }
    return 0;
}

/* Receives one record into *record, which it allocates and the caller frees even on error. */
static int receive_record(int fd, uint64_t deadline, char **record, size_t *size)
{
    uint32_t mark;

    *size = 0;
    do {
        uint32_t length;
        char *larger;
        int rc = receive_all(fd, &mark, sizeof(mark), deadline);

        if (rc < 0)
            return rc;
        mark = ntohl(mark);
        length = mark & ~FRAGMENT_LAST;
        if (length > RECORD_MAX - *size)
            return -EBADMSG;
        larger = sys_realloc(*record, *size + length + 1);
        if (!larger)
            return -ENOMEM;
        *record = larger;
        rc = receive_all(fd, *record + *size, length, deadline);
        if (rc < 0)
            return rc;
        *size += length;
    } while (!(mark & FRAGMENT_LAST));
    return 0;
}

/* Calls. */

static uint32_t next_xid(void)
{
    static atomic_uint count;

    return (uint32_t)(sys_now_ns() / 1000000u) * 2654435761u + (uint32_t)sys_getpid() * 65537u +
           atomic_fetch_add(&count, 1);
}

/* Encodes the whole call after the record mark. Returns its size in bytes or -EMSGSIZE. */
static int encode_call(const struct mount3_exchange *exchange, uint32_t xid, char *buffer,
                       uint32_t size)
{
    char credentials[MAX_AUTH_BYTES];
    char machine[MOUNT3_NAME_MAX + 1] = "";
    struct rpc_msg call = {.rm_xid = xid, .rm_direction = CALL};
    XDR xdrs;
    int rc = -EMSGSIZE;

    call.rm_call.cb_rpcvers = RPC_MSG_VERSION;
    call.rm_call.cb_prog = exchange->program;
    call.rm_call.cb_vers = exchange->version;
    call.rm_call.cb_proc = exchange->procedure;
    call.rm_call.cb_cred.oa_flavor = AUTH_NONE;
    call.rm_call.cb_verf.oa_flavor = AUTH_NONE;
    if (exchange->identity) {
        const struct mount3_identity *identity = exchange->identity;
        struct authunix_parms parameters = {
            .aup_machname = machine,
            .aup_uid = identity->uid,
            .aup_gid = identity->gid,
            .aup_len = identity->group_count < NGRPS ? identity->group_count : NGRPS,
            .aup_gids = (gid_t *)identity->groups,
        };

        /* A name that is too long is cut short and then perhaps not terminated. */
        (void)gethostname(machine, sizeof(machine) - 1);
        xdrmem_create(&xdrs, credentials, sizeof(credentials), XDR_ENCODE);
        if (!xdr_authunix_parms(&xdrs, &parameters))
            return -EMSGSIZE;
        call.rm_call.cb_cred.oa_flavor = AUTH_SYS;
        call.rm_call.cb_cred.oa_base = credentials;
        call.rm_call.cb_cred.oa_length = XDR_GETPOS(&xdrs);
        XDR_DESTROY(&xdrs);
    }
    xdrmem_create(&xdrs, buffer, size, XDR_ENCODE);
    if (xdr_callmsg(&xdrs, &call) &&
        (!exchange->put_args || exchange->put_args(&xdrs, exchange->args)))
        rc = (int)XDR_GETPOS(&xdrs);
    XDR_DESTROY(&xdrs);
    return rc;
}

/* xdr_replymsg() wants a routine for the results; they are decoded after it. */
static bool_t leave_results(XDR *xdrs, ...)
{
    (void)xdrs;
    return TRUE;
}

static int reply_errno(const struct rpc_msg *reply)
{
    if (reply->rm_reply.rp_stat == MSG_DENIED)
        return reply->rjcted_rply.rj_stat == AUTH_ERROR ? -EKEYREJECTED : -EPROTONOSUPPORT;
    switch (reply->acpted_rply.ar_stat) {
    case SUCCESS:
        return 0;
    case PROG_UNAVAIL:
    case PROG_MISMATCH:
    case PROC_UNAVAIL:
        return -EPROTONOSUPPORT;
    case GARBAGE_ARGS:
    case SYSTEM_ERR:
        return -EREMOTEIO;
    }
    return -EBADMSG;
}

static int decode_reply(const struct mount3_exchange *exchange, char *record, size_t size)
{
    char verifier[MAX_AUTH_BYTES];
    struct rpc_msg reply = {0};
    XDR xdrs;
    int rc = -EBADMSG;

    /* Given a buffer, libtirpc allocates nothing. */
    reply.acpted_rply.ar_verf.oa_base = verifier;
    reply.acpted_rply.ar_results.proc = leave_results;
    xdrmem_create(&xdrs, record, (u_int)size, XDR_DECODE);
    if (xdr_replymsg(&xdrs, &reply)) {
        rc = reply_errno(&reply);
        if (rc == 0 && exchange->get_results && !exchange->get_results(&xdrs, exchange->results))
            rc = -EBADMSG;
    }
    XDR_DESTROY(&xdrs);
    return rc;
}

int mount3_call(const struct mount3_target *target, uint16_t port, bool privileged,
                uint64_t deadline, const struct mount3_exchange *exchange)
{
    char call[4 + CALL_MAX];
    uint32_t xid = next_xid();
    uint32_t mark, reply_xid;
    char *record = NULL;
    size_t size;
    int fd, rc;

    rc = encode_call(exchange, xid, call + 4, CALL_MAX);
    if (rc < 0)
        return rc;
    mark = htonl(FRAGMENT_LAST | (uint32_t)rc);
    memcpy(call, &mark, 4);
    fd = open_connection(target, port, privileged, deadline);
    if (fd < 0)
        return fd;
    rc = send_all(fd, call, 4 + (size_t)rc, deadline);
    while (rc == 0) {
        rc = receive_record(fd, deadline, &record, &size);
        if (rc < 0)
            break;
        if (size < sizeof(reply_xid)) {
            rc = -EBADMSG;
            break;
        }
        memcpy(&reply_xid, record, sizeof(reply_xid));
        if (ntohl(reply_xid) == xid) {
            rc = decode_reply(exchange, record, size);
            break;
        }
    }
    sys_free(record);
    sys_fd_close(fd);
    return rc;
}
