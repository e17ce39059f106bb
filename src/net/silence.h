/* Calls that wait long, and paths over which nothing comes: seen, shown and said. See silence.c. */
#ifndef NET_SILENCE_H
#define NET_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

/* From then on a call waits long. */
#define NET_WAITS_LONG_NS UINT64_C(1000000000)

/*
 * Told by who drives the channel, now and then while calls wait, and when the oldest one no longer
 * does: since when that waits, 0 if none waits long, and how long such calls mostly take (0:
 * not known).
 */
void net_channel_waits(struct net_channel *channel, uint64_t oldest_ns, uint64_t usual_ns,
                       uint64_t now_ns);

static inline bool net_path_is_silent(const struct net_path *path)
{
    return atomic_load_explicit(&path->silent_ns, memory_order_relaxed) != 0;
}

/* It was said on the log that the server is waited for, since then. */
void net_server_waited_for(struct net_server *server, uint64_t since_ns);
/* Something came: says so, in one process, if it was said that the server is waited for. */
void net_server_answers(struct net_server *server);

#endif
