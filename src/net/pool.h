/* Servers come and go, with their channels: choosing one for a call, and connecting it. */
#ifndef NET_POOL_H
#define NET_POOL_H

#include <errno.h>
#include <sys/types.h>

#include "net/net.h"

/* Makes a server with these paths (1..NET_PATHS_MAX), of which the first is known to lead there. No
 * traffic yet. 0, -EINVAL or -ENOMEM. */
int net_server_create(const struct net_server_options *options, const struct net_address *addresses,
                      unsigned count, struct net_server **server);

/* Closes all sockets and frees the server. Only for programs that have no calls in flight. */
void net_server_destroy(struct net_server *server);

/*
 * Chooses the channel for the next call, which carries `bytes` (of arguments and results together):
 * a path by its load, on it the channel with the fewest calls in flight; while all are busy a new
 * one is added, up to connections_max on a path. The channel may not be connected yet.
 */
struct net_channel *net_channel_get(struct net_server *server, size_t bytes);

/*
 * The same in two steps, for callers that keep to a channel on each path. held[path->index] (NULL:
 * nothing) are bytes that the caller is about to send over each path.
 */
struct net_path *net_path_choose(struct net_server *server, size_t bytes, const uint64_t *held);
struct net_channel *net_path_channel(struct net_path *path, size_t bytes);

/* Another call of `bytes` fits on the channel: it was not refused lately, has not as many in flight
 * as servers queue on a connection, and is not left to calls that are shorter. */
bool net_channel_has_room(const struct net_channel *channel, size_t bytes);

/* May the calling thread make connections for the server? Not in another network namespace than
 * the process began in (unshare(2), setns(2)): there its address may lead to another server, or
 * nowhere. Then connecting fails with -ENONET. Asks the kernel. */
bool net_server_is_at_home(const struct net_server *server);
/* It may not, and there is no connection to go on with. Asks the kernel if there is none. */
bool net_server_look_abroad(struct net_server *server);
/* The same, where calls go well in general: one load, if no thread was in want of a connection
 * since the last one was made, or since a fork() was looked at. */
static inline bool net_server_is_abroad(struct net_server *server)
{
    return __builtin_expect(atomic_load_explicit(&server->abroad, memory_order_relaxed), false) &&
           net_server_look_abroad(server);
}

/* Is it for that that a call of this thread has failed? It was, though another thread may have
 * connected since. */
static inline bool net_server_fails_abroad(struct net_server *server, ssize_t result)
{
    return result == -ENONET || (result < 0 && net_server_look_abroad(server));
}

/* The address of a path now. */
void net_path_address(struct net_path *path, struct net_address *address);
/* It is down since so long, and no connection of it was heard since. */
bool net_path_is_down_for(struct net_path *path, uint64_t least_ns);
/* Another address of it: connections are made there from now on, and rpc_follow_path() gives up
 * others. False: it is not down any more. */
bool net_path_move(struct net_path *path, const struct sockaddr_storage *peer);
/* The connection is to another address than the path has now. */
bool net_channel_is_astray(const struct net_channel *channel);

/* Is it looked after by a thread of ours when a path fails? */
static inline bool net_server_is_probed(const struct net_server *server)
{
    return server->path_count > 1 || atomic_load_explicit(&server->elsewhere, memory_order_relaxed);
}

/* Before its channels are destroyed: no thread of ours looks after the server any more. */
void net_server_leave(struct net_server *server);

/* In the child of fork(): closes inherited sockets silently and forgets the channels. */
void net_server_after_fork(struct net_server *server);

/* Calls of the channel can go over another: its path is not usable and another is, or it failed
 * while others of its path work. */
bool net_channel_has_other(const struct net_channel *channel);
/* It is connected, and something was received over it since then. */
bool net_channel_is_heard(const struct net_channel *channel, uint64_t since_ns);
/* Another channel of the same path is connected, as far as is known. */
bool net_channel_has_sister(const struct net_channel *channel);
/* The server ended a connection that had brought nothing: it limits them, or does not work behind
 * this address. `why`: see net_path_failed(). */
void net_channel_failed(struct net_channel *channel, const char *why);

/*
 * Connects the channel's socket (closing an old one abortively: linger 0), once. Non-blocking
 * connect bounded by `timeout_ms`; TCP_NODELAY, keepalive, FD_CLOEXEC, descriptor high in the
 * table. Returns 0 or -errno of the failure (-ETIMEDOUT, -ECONNREFUSED, ...). Logs path up and
 * down. -ENONET: not from the network namespace of this thread, which is no fault of the path.
 */
int net_channel_connect(struct net_channel *channel, int timeout_ms);
/* The same; `look` is called now and then meanwhile. */
int net_channel_connect_looking(struct net_channel *channel, int timeout_ms,
                                void (*look)(void *context), void *context);

/* Which ports further connections come from: a server that may insist on ports below 1024 gets no
 * other ones when these are used up. Only a process that may no longer bind them uses any. */
enum net_port net_port_policy(const struct net_server *server);

/* Milliseconds to wait before attempt number `attempt` (0, 1, ...) to connect: 0, then growing. */
int net_reconnect_pause_ms(const struct net_server *server, unsigned attempt);

/* Ends the connection by a reset; the socket stays. Not while another thread sleeps in it. */
void net_channel_reset(struct net_channel *channel);

/* Closes the channel's socket abortively. The channel can be connected again. */
void net_channel_disconnect(struct net_channel *channel);

/* The same, of one that is not needed at the moment: that its path was taken offline is shown. */
void net_channel_retire(struct net_channel *channel);

/* The reason when it is not the path that fails: the log has it already. */
extern const char net_no_port[];

#endif
