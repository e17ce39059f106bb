/* TLS for a channel's connection: see tls/tls.h. */
#ifndef NET_PROTECT_H
#define NET_PROTECT_H

#include "net/net.h"

/*
 * For a connection that was just made, until `deadline_ns`: protects it as the server's options
 * say, and sets channel->tls. Returns the descriptor. -errno: it failed, and the descriptor is
 * closed; see net_tls_errno().
 */
int net_channel_protect(struct net_channel *channel, int fd, const struct net_address *address,
                        const struct net_connecting *how, uint64_t deadline_ns);

/* Shows in the statistics of the channel and its path how the connection is protected. */
void net_channel_show(struct net_channel *channel);

/* The server has a mount whose calls are protected so (DIRECTNFS_SECURITY_..., without TLS): shows
 * it in the statistics of its connections. */
void net_server_show_security(struct net_server *server, uint32_t security);

/* Closes the channel's descriptor, and ends its session. `forked`: this is a child, and the session
 * its parent's. */
void net_channel_close(struct net_channel *channel, bool forked);

/* Why connecting to the server failed, or ended with this -errno. Static. */
const char *net_error_text(const struct net_server *server, int error);

/* The session ended by a fault of TLS: the log says so, and what to do. Nothing, if it was none. */
void net_channel_tls_ended(struct net_channel *channel);

#endif
