/* Calls that wait long, and silent paths: found, shown and told. See silence.c. */
#ifndef NET_SILENCE_H
#define NET_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

/* A call that has waited for so long waits long. */
#define NET_WAITS_LONG_NS UINT64_C(1000000000)

/*
 * The thread that drives the channel tells this now and then while calls wait. It tells it too when
 * the oldest one no longer waits. `oldest_ns`: since when the oldest one waits; 0: none waits long.
 * `usual_ns`: how long such calls take at most, mostly; 0: not known.
 */
void net_channel_waits(struct net_channel *channel, uint64_t oldest_ns, uint64_t usual_ns,
                       uint64_t now_ns);

static inline bool net_path_is_silent(const struct net_path *path)
{
    return atomic_load_explicit(&path->silent_ns, memory_order_relaxed) != 0;
}

/* The log said that the server is waited for, since `since_ns`. */
void net_server_waited_for(struct net_server *server, uint64_t since_ns);
/* Something came: the log says so, once for all processes, if it said that the server is waited
 * for. */
void net_server_answers(struct net_server *server);

#endif
