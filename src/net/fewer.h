/* A server that answers on some connections, and is silent on further ones: see fewer.c. */
#ifndef NET_FEWER_H
#define NET_FEWER_H

#include "net/net.h"

/* The channel's connection never brought anything. If another connection of the path brought
 * something since then, calls use that one until this one answers, too. */
void net_channel_silenced(struct net_channel *channel, uint64_t since_ns);

/* For the thread of health.c: asks silenced channels again, if it is time. If the next time is
 * earlier than *due, *due becomes that. */
void net_path_ask_silenced(struct net_path *path, uint64_t *due);

/*
 * Is this process starved on the path? Asking ended with `result`, nothing came since `since_ns`,
 * and connections are accepted but were silent from the first. False if connecting fails for a
 * reason of this host. False too if a connection answered before: the server may only be slow now.
 */
bool net_path_is_starved(const struct net_path *path, int result, uint64_t since_ns);
/* Tells other processes that this one is starved: one of them may have several connections. */
void net_path_starved(const struct net_path *path);
/* For a path that answers on several connections: looks now and then whether another process of the
 * user is starved. */
void net_path_look_starved(struct net_path *path, uint64_t now_ns);
/* For the thread of health.c: gives one connection up for that process. *due: as above. */
void net_path_share(struct net_path *path, uint64_t *due);

/* Does an open connection of the path answer, that no thread drives? Its calls may be over without
 * any thread having looked. */
bool net_path_answers(const struct net_path *path);

#endif
