/*
 * TLS, up to the end of the handshake. Byte 0 says what: 0, the answer to the question for TLS, whose
 * xid is "XID!"; else the server's bytes in a direct handshake. What comes back is one of the faults
 * that there are, in time, and nothing is trusted.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "net/tls/tls.h"

enum { XID = 0x58494421, MOST = 60000 };

/* However few bytes there are, the answer is the same, or "more". */
static void answer(const uint8_t *data, size_t size)
{
    size_t length, before = 0;
    int whole = net_tls_probe_reply(data, size, XID, &length);
    must(whole == 0 || whole == 1 || whole == -ENOPROTOOPT || whole == -EBADMSG);
    must(whole <= 0 || length <= size);
    for (size_t have = 0; have <= size && have <= NET_TLS_PROBE_REPLY_MAX; have++) {
        size_t told;
        int now = net_tls_probe_reply(data, have, XID, &told);
        must(now == 0 || now == whole);
        must(before == 0 || told == before);
        must(now <= 0 || told <= have);
        before = told;
    }
}

static void handshake(const uint8_t *data, size_t size)
{
    static struct net_tls *tls;
    const struct net_tls_settings settings = {.direct = true, .require = true, .server = "a.b"};
    struct net_tls_facts facts;
    struct net_tls_peer peer = {.timeout_ms = 10000, .hidden = true, .facts = &facts};
    struct net_tls_session *session;
    int pair[2];
    if (!tls) {
        must(net_tls_load(NULL) == 0);
        tls = net_tls_new(&settings);
    }
    size = size < MOST ? size : MOST;
    must(tls && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    must(write(pair[1], data, size) == (ssize_t)size);
    shutdown(pair[1], SHUT_WR);
    int result = net_tls_begin(tls, pair[0], &peer, &session);
    must(result < 0 && session == NULL && peer.fault != NET_TLS_GOOD);
    must(result == net_tls_errno(peer.fault));
    must(peer.fault != NET_TLS_LATE && peer.fault != NET_TLS_LOST && facts.cipher[0] == '\0');
    must_be_printable(facts.subject, sizeof(facts.subject));
    must_be_printable(facts.issuer, sizeof(facts.issuer));
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return -1;
    if (data[0] == 0)
        answer(data + 1, size - 1);
    else
        handshake(data + 1, size - 1);
    return 0;
}
