/*
 * When ports below 1024 are short.
 *
 * There are 512 of them for each address of this host and each address of a server. Every
 * connection takes one. A process that finds few free asks the server whether it answers other
 * ports as well. It also gives a port back as soon as its connection has nothing to do. A thread of
 * ours closes it then, as no other thread would look. While no port is left, a connection that is
 * always busy is closed now and then, between two calls. So others have their turn.
 */
#include <errno.h>
#include <stdio.h>

#include "run/log_limit.h"
#include "net/pool.h"
#include "net/ports.h"
#include "sys/critical.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum {
    SHORT_TRIES = 64, /* after so many were not free: nine of ten are taken */
    ENOUGH_TIMES = 4, /* so often in a row the first one tried was free */
    ASK_TIMEOUT_MS = 2000,
    LOOK_EVERY_MS = 250,
    SAY_EVERY_S = 60
};

#define IDLE_NS      UINT64_C(1000000000)  /* nothing was received for so long */
#define TURN_NS      UINT64_C(5000000000)  /* though servers are configured anew */
#define ASK_EVERY_NS UINT64_C(30000000000) /* so seldom, though servers are configured anew */

bool net_server_is_open(const struct net_server *server)
{
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        if (atomic_load(&server->channels[i]->fd) >= 0)
            return true;
    }
    return false;
}

/* Was the connection in use long enough, and is no other port left for processes that may wait? */
static bool is_waited_for(struct net_channel *channel)
{
    uint64_t now = sys_now_ns();
    if (now - channel->connected_ns < TURN_NS || now - channel->looked_ns < TURN_NS)
        return false;
    channel->looked_ns = now;
    struct net_address address;
    net_path_address(channel->path, &address);
    int fd = net_connect(&address, NET_PORT_PRIVILEGED, ASK_TIMEOUT_MS);
    if (fd >= 0)
        sys_fd_close(fd);
    return fd == -EADDRINUSE;
}

static void give_back_idle(struct net_server *server)
{
    unsigned count = atomic_load_explicit(&server->channel_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = server->channels[i];
        if (atomic_load(&channel->fd) < 0)
            continue;
        if (!server->options.close_idle(channel, IDLE_NS) && is_waited_for(channel))
            atomic_store(&channel->turn_over, true);
    }
}

/* Runs until nothing is open any more: the next connection starts it again. */
static void *give_back(void *argument)
{
    struct net_server *server = argument;
    bool more = true;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    while (more) {
        sys_nanosleep_ms(LOOK_EVERY_MS);
        give_back_idle(server);
        pthread_mutex_lock(&server->lock);
        more = !server->leaving && net_server_is_open(server);
        if (!more)
            server->giving_back = false; /* the last access to it */
        pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

void net_ports_tried(struct net_server *server, unsigned tried)
{
    if (!server->options.close_idle || (tried < SHORT_TRIES && !atomic_load(&server->ports_short)))
        return;
    pthread_mutex_lock(&server->lock);
    server->found_at_once = tried == 1 ? server->found_at_once + 1 : 0;
    atomic_store(&server->ports_short, server->found_at_once < ENOUGH_TIMES);
    if (server->ports_short && !server->giving_back && !server->leaving)
        server->giving_back = sys_thread_start(give_back, server, "giving back local ports");
    pthread_mutex_unlock(&server->lock);
}

void net_ports_leave(struct net_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->leaving = true;
    while (server->giving_back) {
        pthread_mutex_unlock(&server->lock);
        sys_nanosleep_ms(1);
        pthread_mutex_lock(&server->lock);
    }
    pthread_mutex_unlock(&server->lock);
}

bool net_ports_take_any(struct net_path *path)
{
    struct net_server *server = path->server;
    uint64_t now = sys_now_ns(), asked = atomic_load(&server->any_port_asked_ns);
    char subject[320];
    if (!server->options.takes_any_port || (asked != 0 && now - asked < ASK_EVERY_NS) ||
        !atomic_compare_exchange_strong(&server->any_port_asked_ns, &asked, now) ||
        !server->options.takes_any_port(path, ASK_TIMEOUT_MS))
        return false;
    atomic_store(&server->any_port, true);
    snprintf(subject, sizeof(subject), "any port %s", server->name);
    if (run_may_say(subject, SAY_EVERY_S))
        log_warning("server %s: no local port from 512 to 1023 is left for a connection over %s; "
                    "the server answers other ports, which are used now",
                    server->name, path->address.peer_text);
    return true;
}
