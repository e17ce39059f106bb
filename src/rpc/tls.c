/* Receiving from a connection with TLS: some of what came may be inside of the session already. */
#include "rpc/transport.h"
#include "sys/sys.h"

enum { POLL_MOST_MS = 1000 };

ssize_t rpc_tls_receive(struct net_tls_session *tls, const struct iovec *vectors, int count,
                        bool full, int timeout_ms)
{
    bool owes = net_tls_owes(tls), more = net_tls_has_more(tls);
    short send_event = full || owes ? net_tls_send_event(tls) : 0;
    bool polls = send_event != 0 || timeout_ms < NET_TICK_MS;
    if (!more && timeout_ms > 0 && polls) {
        struct pollfd poll = {.fd = net_tls_descriptor(tls), .events = POLLIN | send_event};
        sys_poll(&poll, 1, timeout_ms < POLL_MOST_MS ? timeout_ms : POLL_MOST_MS);
    }
    if (owes)
        net_tls_flush(tls); /* a failure is told by receiving, after what came before it */
    return net_tls_receive(tls, vectors, count, !more && !polls);
}
