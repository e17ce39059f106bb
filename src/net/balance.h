/* Which path the next call takes, and what the calls on a path tell of its load: see balance.c. */
#ifndef NET_BALANCE_H
#define NET_BALANCE_H

#include "net/net.h"

/* The policy: the usable path for a call of `bytes`. NULL: none is. `held`: see
 * net_path_choose(). */
struct net_path *net_balance(struct net_server *server, size_t bytes, const uint64_t *held);

/* A call that carries `bytes` goes to this channel; or it is off the channel, answered or not. */
void net_load_add(struct net_channel *channel, size_t bytes);
void net_load_remove(struct net_channel *channel, size_t bytes);
/* A call was answered: it was sent at `sent_ns`, and it is `now_ns`. */
void net_load_answered(struct net_channel *channel, size_t bytes, uint64_t sent_ns,
                       uint64_t now_ns);

/* Forgets what was measured before the path went down. */
void net_load_forget(struct net_path *path);

#endif
