#include "net/protect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/tls/tls.h"
#include "stats/count.h"
#include "sys/fd.h"
#include "sys/sys.h"

#define SECOND_NS UINT64_C(1000000000)

enum { NFS_PROGRAM = 100003 };

int net_channel_protect(struct net_channel *channel, int fd, const struct net_address *address,
                        const struct net_connecting *how, uint64_t deadline_ns)
{
    const struct net_server_options *options = &channel->server->options;
    struct net_tls_peer peer = {.written = address->written,
                                .program = NFS_PROGRAM,
                                .version = net_tls_nfs_version(options->tls),
                                .timeout_ms = net_left_ms(deadline_ns),
                                .look = how->look,
                                .context = how->context,
                                .hidden = options->hidden};
    if (options->tls_program) {
        peer.program = options->tls_program;
        peer.version = options->tls_version;
    }
    int result = net_tls_begin(options->tls, fd, &peer, &channel->tls);
    if (!options->hidden && result != 0 && result != -EAGAIN)
        stats_add(&stats_own->counters.tls_failures, 1);
    return result == 0 ? fd : result;
}

/* The certificate that ends first counts for the path. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Several threads change these bits: of those of mounts none gets lost. */
static void show_security(const struct net_channel *channel, struct directnfs_channel_stats *stats,
                          const struct net_tls_facts *facts)
{
    enum { BY_TLS = DIRECTNFS_SECURITY_TLS | DIRECTNFS_SECURITY_MTLS };
    uint32_t bits = facts ? DIRECTNFS_SECURITY_TLS : 0;
    if (facts && facts->given)
        bits |= DIRECTNFS_SECURITY_MTLS;
    __atomic_fetch_and(&stats->security, ~(uint32_t)(BY_TLS & ~bits), __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&stats->security, bits | atomic_load(&channel->server->security),
                      __ATOMIC_SEQ_CST);
}

void net_server_show_security(struct net_server *server, uint32_t security)
{
    if ((atomic_fetch_or(&server->security, security) & security) == security)
        return;
    unsigned count = atomic_load(&server->channel_count);
    for (unsigned i = 0; i < count; i++) {
        struct directnfs_channel_stats *stats =
            __atomic_load_n(&server->channels[i]->stats, __ATOMIC_SEQ_CST);
        if (stats && !server->options.hidden)
            __atomic_fetch_or(&stats->security, security, __ATOMIC_SEQ_CST);
    }
}

void net_channel_show(struct net_channel *channel)
{
    struct directnfs_channel_stats *stats = channel->stats;
    struct directnfs_path_stats *path = channel->path->stats;
    const struct net_tls_facts *facts = channel->tls ? net_tls_facts(channel->tls) : NULL;
    uint64_t peer_ends = facts ? (uint64_t)facts->peer_ends * SECOND_NS : 0;
    uint64_t own_ends = facts ? (uint64_t)facts->own_ends * SECOND_NS : 0;
    if (!channel->server->options.hidden)
        show_security(channel, stats, facts);
    if (channel->server->options.hidden || !channel->server->options.tls)
        return;
    snprintf(stats->tls, sizeof(stats->tls), "%.15s%s%.40s%s", facts ? facts->protocol : "",
             facts ? " " : "", facts ? facts->cipher : "",
             facts && facts->in_kernel ? " kTLS" : "");
    stats_set(&stats->peer_ends_ns, peer_ends);
    stats_set(&stats->own_ends_ns, own_ends);
    if (!facts)
        return;
    stats_add(&stats_own->counters.tls_handshakes, 1);
    /* A certificate that was renewed counts from the next connection on. */
    uint64_t others = sys_clock_ns(CLOCK_REALTIME);
    uint64_t was = stats_get(&path->peer_ends_ns), own = stats_get(&path->own_ends_ns);
    stats_set(&path->peer_ends_ns, was > others ? earlier(was, peer_ends) : peer_ends);
    stats_set(&path->own_ends_ns, own > others ? earlier(own, own_ends) : own_ends);
}

void net_channel_close(struct net_channel *channel, bool forked)
{
    struct net_tls_session *tls = channel->tls;
    channel->tls = NULL;
    if (tls && !forked) {
        net_tls_close(tls);
    } else {
        sys_fd_close(channel->fd);
        if (tls)
            net_tls_forget(tls);
    }
    channel->fd = -1;
}

const char *net_error_text(const struct net_server *server, int error)
{
    if (server->options.tls && net_tls_is_error(error)) {
        enum net_tls_fault fault = net_tls_fault(server->options.tls);
        return net_tls_errno(fault) == error ? net_tls_text(fault) : net_tls_error_text(error);
    }
    return strerrordesc_np(-error);
}

void net_channel_tls_ended(struct net_channel *channel)
{
    if (!channel->tls || net_tls_session_fault(channel->tls) == NET_TLS_GOOD)
        return;
    if (!channel->server->options.hidden)
        stats_add(&stats_own->counters.tls_failures, 1);
    net_tls_ended(channel->tls, channel->server->options.hidden);
}
