/* Which paths of a server are fit for use, and who says so: see health.c. */
#ifndef NET_HEALTH_H
#define NET_HEALTH_H

#include "net/net.h"

/* New calls may go there: up, proven, and not offline. */
bool net_path_usable(const struct net_path *path);
/* Another path of the server is usable. */
bool net_path_has_other(const struct net_path *path);
/* Another usable path received something since then. */
bool net_path_other_heard(const struct net_path *path, uint64_t since_ns);
/* Something was received over it at this time. */
void net_path_heard(struct net_path *path, uint64_t now_ns);
void net_channel_heard(struct net_channel *channel, uint64_t now_ns);
/* No replies over a connection, though calls wait: asks the other paths and connections, in a
 * thread of our own, whether they answer; the more rarely the longer nobody does. */
void net_path_suspect(struct net_path *path, uint64_t now_ns);
/* The path does not work, for a reason that completes a sentence. True if it was up. Others are
 * probed in a thread of our own until they work again. */
bool net_path_failed(struct net_path *path, const char *why);
/* A new path is known not to work, which is on the log. It is probed with the others. */
void net_path_begin_down(struct net_path *path, const char *why);
/* It brought an answer. */
void net_path_works(struct net_path *path);
/* One path is not enough for what is asked for: have the others proven. */
void net_server_want_more(struct net_server *server);
/* Reads again what administrators want offline, if that changed: one atomic load if not. */
void net_server_look_offline(struct net_server *server);
/* Closes what is idle of paths that are offline, if it is not done. False: some is in use. */
bool net_server_drain(struct net_server *server);
/* True once in `interval_s` for the whole server, in all processes: to limit what is said on the
 * log. */
bool net_server_may_say(struct net_server *server, unsigned interval_s);

/* Shows the path's state, and why it is or was so, in the statistics. */
void net_path_show(struct net_path *path);
/* The thread that probes shall look what there is to do. In a handler of the program it cannot be
 * started, nor where that fails: then it is late, */
void net_health_kick(void);
/* and who looks after calls that wait tries it again. */
extern _Atomic bool net_health_late;
static inline void net_health_catch_up(void)
{
    if (atomic_load_explicit(&net_health_late, memory_order_relaxed))
        net_health_kick();
}
/* A server that can be probed is made, and goes (waits while it is looked after; a second time, and
 * of another one: no effect). */
void net_health_enter(struct net_server *server);
void net_health_leave(struct net_server *server);

/* Around fork(): no thread is in the middle of a change of the list of servers. */
void net_fork_prepare(void);
void net_fork_parent(void);
void net_fork_child(void);

#endif
