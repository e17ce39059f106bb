/* Servers come and go, with their channels. A channel is chosen for a call, and connected. */
#ifndef NET_POOL_H
#define NET_POOL_H

#include <errno.h>
#include <sys/types.h>

#include "net/net.h"

/* Makes a server with these paths (1..NET_PATHS_MAX). The first one is known to lead there. It
 * sends nothing yet. 0, -EINVAL or -ENOMEM. */
int net_server_create(const struct net_server_options *options, const struct net_address *addresses,
                      unsigned count, struct net_server **server);

/* Closes all sockets and frees the server. Only for programs without calls in flight. */
void net_server_destroy(struct net_server *server);

/*
 * Chooses the channel for the next call, which carries `bytes` (arguments and results together). It
 * takes a path by its load, and on it the channel with the fewest calls in flight. While all are
 * busy it adds a channel, up to connections_max on a path. The channel may not be connected yet.
 */
struct net_channel *net_channel_get(struct net_server *server, size_t bytes);

/*
 * net_channel_get() in two steps, for callers that keep to one channel on each path.
 * held[path->index] is how many bytes the caller is about to send over each path; `held` NULL:
 * none.
 */
struct net_path *net_path_choose(struct net_server *server, size_t bytes, const uint64_t *held);
struct net_channel *net_path_channel(struct net_path *path, size_t bytes);

/* Does another call of `bytes` fit on the channel? Not if it was refused lately, or is left to
 * shorter calls. Not if it has as many calls in flight as servers queue on a connection. */
bool net_channel_has_room(const struct net_channel *channel, size_t bytes);

/*
 * May the calling thread make connections to the server? Not in another network namespace than the
 * process began in (unshare(2), setns(2)): there the address may lead to another server, or
 * nowhere. Connecting then fails with -ENONET. Asks the kernel.
 */
bool net_server_is_at_home(const struct net_server *server);
/* Is the thread abroad: it may not connect, and there is no connection to go on with? Asks the
 * kernel if there is none. */
bool net_server_look_abroad(struct net_server *server);
/* net_server_look_abroad() for the usual case. It costs one load. It asks only if a thread lacked a
 * connection since the last one was made, or if no thread has looked since a fork(). */
static inline bool net_server_is_abroad(struct net_server *server)
{
    return __builtin_expect(atomic_load_explicit(&server->abroad, memory_order_relaxed), false) &&
           net_server_look_abroad(server);
}

/* Did a call of this thread fail as it is abroad? True for -ENONET, though another thread may have
 * connected since. */
static inline bool net_server_fails_abroad(struct net_server *server, ssize_t result)
{
    return result == -ENONET || (result < 0 && net_server_look_abroad(server));
}

/* The address of a path now. */
void net_path_address(struct net_path *path, struct net_address *address);
/* Has it been down for `least_ns`, with no connection of it heard since? */
bool net_path_is_down_for(struct net_path *path, uint64_t least_ns);
/* Moves the path to another address: connections are made there from now on, and rpc_follow_path()
 * gives up the others. False: it is not down any more. */
bool net_path_move(struct net_path *path, const struct sockaddr_storage *peer);
/* Is the connection to another address than the path has now? */
bool net_channel_is_astray(const struct net_channel *channel);

/* Does a thread of ours probe the server's paths when they fail? */
static inline bool net_server_is_probed(const struct net_server *server)
{
    return server->path_count > 1 || atomic_load_explicit(&server->elsewhere, memory_order_relaxed);
}

/* To be called before its channels are destroyed: no thread of ours looks after the server any
 * more. */
void net_server_leave(struct net_server *server);

/* In the child of fork(): closes inherited sockets silently and forgets the channels. */
void net_server_after_fork(struct net_server *server);

/* Can calls of the channel go over another one? Yes if its path is not usable and another path is,
 * or if it failed while others of its path work. */
bool net_channel_has_other(const struct net_channel *channel);
/* Is it connected, and did it receive something after `since_ns`? */
bool net_channel_is_heard(const struct net_channel *channel, uint64_t since_ns);
/* Is another channel of this path connected, as far as is known? */
bool net_channel_has_sister(const struct net_channel *channel);
/* Connecting failed, or the server ended a connection that had brought nothing: it limits
 * connections, or does not work at this address. `why`: see net_path_failed(). */
void net_channel_failed(struct net_channel *channel, const char *why);

/*
 * Connects the channel's socket once, after an abortive close of the old one (linger 0). The
 * connect is non-blocking, bounded by `timeout_ms`. The socket has TCP_NODELAY, keepalive,
 * FD_CLOEXEC, and a high descriptor. The log tells when the path goes up or down.
 * 0: it is connected.
 * -ENONET: this thread is in another network namespace; the path is not at fault.
 * Another -errno: why it failed (-ETIMEDOUT, -ECONNREFUSED, ...).
 */
int net_channel_connect(struct net_channel *channel, int timeout_ms);
/* As net_channel_connect(); it calls `look` now and then. */
int net_channel_connect_looking(struct net_channel *channel, int timeout_ms,
                                void (*look)(void *context), void *context);

/* The connection of `from`, a channel of another server that is about to be destroyed, becomes that
 * of a channel that has none. No call may be in flight on it. False: there is none, or the two have
 * other addresses; nothing changed. */
bool net_channel_take(struct net_channel *channel, struct net_channel *from);

/* Which ports further connections come from. A server that may insist on ports below 1024 gets no
 * other ones when these are used up. Only a process that may no longer bind them uses any. */
enum net_port net_port_policy(const struct net_server *server);

/* Milliseconds to wait before attempt number `attempt` (0, 1, ...) to connect: 0, then growing. */
int net_reconnect_pause_ms(const struct net_server *server, unsigned attempt);

/* Ends the connection by a reset, and keeps the socket. Not while another thread sleeps in it. */
void net_channel_reset(struct net_channel *channel);

/* Closes the channel's socket abortively. The channel can be connected again. */
void net_channel_disconnect(struct net_channel *channel);

/* As net_channel_disconnect(), for a channel that is not needed now. If its path is offline, the
 * statistics show that. */
void net_channel_retire(struct net_channel *channel);

/* The reason when the path is not at fault: the log has it already. */
extern const char net_no_port[];

#endif
