#include "net/protect.h"

#include <string.h>

#include "net/tls/tls.h"
#include "sys/fd.h"
#include "sys/sys.h"

enum { NFS_PROGRAM = 100003, NFS_VERSION = 3 };

int net_channel_protect(struct net_channel *channel, int fd, const struct net_address *address,
                        const struct net_connecting *how, uint64_t deadline_ns)
{
    const struct net_server_options *options = &channel->server->options;
    int64_t left_ms = (int64_t)(deadline_ns - sys_now_ns()) / 1000000;
    struct net_tls_peer peer = {.written = address->written,
                                .program = NFS_PROGRAM,
                                .version =
                                    options->nfs_version ? options->nfs_version : NFS_VERSION,
                                .timeout_ms = left_ms > 0 ? (int)left_ms : 1,
                                .look = how->look,
                                .context = how->context,
                                .hidden = options->hidden};
    if (options->tls_program) {
        peer.program = options->tls_program;
        peer.version = options->tls_version;
    }
    int result = net_tls_begin(options->tls, fd, &peer, &channel->tls);
    return result == 0 ? fd : result;
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
    if (channel->tls)
        net_tls_ended(channel->tls, channel->server->options.hidden);
}
