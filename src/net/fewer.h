/* A server that answers on some connections, and is silent on further ones: see fewer.c. */
#ifndef NET_FEWER_H
#define NET_FEWER_H

#include "net/net.h"

/* The channel's connection never brought anything. If another one of the path that is in the pool
 * did since then, calls use that, until this one answers, too. */
void net_channel_silenced(struct net_channel *channel, uint64_t since_ns);

/* By the thread of health.c: asks those again whose time it is. *due becomes when that is next, if
 * it is earlier. */
void net_path_ask_silenced(struct net_path *path, uint64_t *due);

/* Nobody answers this process over the path, where asking ended with `result`, and nothing came
 * since then: connections are accepted, and were silent from the first. It is not so where they
 * fail for a reason of this host, nor when one answered before, as the server may only be slow now.
 */
bool net_path_is_starved(const struct net_path *path, int result, uint64_t since_ns);
/* Says so: another process may have several connections. */
void net_path_starved(const struct net_path *path);
/* Looks now and then, of a path that answers on several connections, whether another process of the
 * user lacks one. */
void net_path_look_starved(struct net_path *path, uint64_t now_ns);
/* By the thread of health.c: gives one up then. *due as above. */
void net_path_share(struct net_path *path, uint64_t *due);

/* Does a connection of the path answer that is open, and that nobody drives? Its calls may be over,
 * and nobody have looked. */
bool net_path_answers(const struct net_path *path);

#endif
