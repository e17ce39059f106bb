/* Which paths of a server are fit for use, and what changes that: see health.c. */
#ifndef NET_HEALTH_H
#define NET_HEALTH_H

#include "net/net.h"

/* May new calls go over it? It is up, proven, and not offline. */
bool net_path_usable(const struct net_path *path);
/* Is another path of the server usable? */
bool net_path_has_other(const struct net_path *path);
/* Did another usable path receive something after `since_ns`? */
bool net_path_other_heard(const struct net_path *path, uint64_t since_ns);
/* Something was received over it at this time. */
void net_path_heard(struct net_path *path, uint64_t now_ns);
void net_channel_heard(struct net_channel *channel, uint64_t now_ns);
/* A connection brings no replies, though calls wait. Has a thread of ours ask whether the other
 * paths and connections answer. It asks the more rarely, the more often none answers. */
void net_path_suspect(struct net_path *path, uint64_t now_ns);
/* The path does not work; `why` completes a sentence. True: it was up. If the server has several
 * paths, a thread of ours probes this one until it works again. */
bool net_path_failed(struct net_path *path, const char *why);
/* A new path is known not to work, and the log says so. It is probed with the others. */
void net_path_begin_down(struct net_path *path, const char *why);
/* The path brought an answer. */
void net_path_works(struct net_path *path);
/* One path is not enough for the calls: has the others proven. */
void net_server_want_more(struct net_server *server);
/* Reads again what administrators took offline, if that changed. Else it costs one atomic load. */
void net_server_look_offline(struct net_server *server);
/* Closes idle connections of offline paths, if any are open. False: some are in use. */
bool net_server_drain(struct net_server *server);
/* True once in `interval_s` for the whole server, in all processes. This limits what the log
 * says. */
bool net_server_may_say(struct net_server *server, unsigned interval_s);

/* Shows in the statistics the path's state, and why it is or was so. */
void net_path_show(struct net_path *path);
/* Makes the thread that probes look for work, and starts it. In a handler of the program it cannot
 * be started, and starting may fail. Then it is late. */
void net_health_kick(void);
/* A thread that waits for calls starts a late one here. */
extern _Atomic bool net_health_late;
static inline void net_health_catch_up(void)
{
    if (atomic_load_explicit(&net_health_late, memory_order_relaxed))
        net_health_kick();
}
/* A server that can be probed is made; or it goes. Leaving waits while the thread visits the
 * server. It has no effect a second time, or for a server that never entered. */
void net_health_enter(struct net_server *server);
void net_health_leave(struct net_server *server);

/* Around fork(): no thread is amidst a change of the list of servers. */
void net_fork_prepare(void);
void net_fork_parent(void);
void net_fork_child(void);

#endif
