/* A server with several paths, each a scripted server, for the tests of choosing, losing and
 * regaining them. */
#ifndef TEST_PATH_SCENE_H
#define TEST_PATH_SCENE_H

#include "run/offline.h"
#include "net_scene.h"

enum { PATHS = 3, PATH_TIMEOUT_MS = 400 };

/* The paths of a scene. `probed` is what a probe says: 0, or -errno. */
static struct server *servers[PATHS];
static _Atomic int probed[PATHS];
static _Atomic unsigned probes[PATHS];
static struct net_server *client;

/* A probe that has no answer before the other paths are usable; and one without an answer during
 * which the path brings something else. */
enum { UNTIL_OTHERS = 1, HEARD_MEANWHILE };

static inline int probe(struct net_path *path, bool proven, int timeout_ms)
{
    (void)proven;
    atomic_fetch_add(&probes[path->index], 1);
    if (atomic_load(&probed[path->index]) == HEARD_MEANWHILE) {
        net_path_heard(path, sys_now_ns());
        return -ETIMEDOUT;
    }
    if (atomic_load(&probed[path->index]) != UNTIL_OTHERS)
        return atomic_load(&probed[path->index]);
    for (unsigned i = 0; i < PATHS; i++) {
        while (i != path->index && !net_path_usable(&path->server->paths[i]) && timeout_ms-- > 0)
            sys_nanosleep_ms(1);
    }
    return timeout_ms > 0 ? 0 : -ETIMEDOUT;
}

/* A process of its own would have one, too. */
static inline void paths_client(unsigned connections, struct net_server **made)
{
    struct net_address addresses[PATHS];
    for (unsigned i = 0; i < PATHS; i++) {
        addresses[i] = loopback(servers[i]->port);
        snprintf(addresses[i].peer_text, sizeof(addresses[i].peer_text), "path%u", i);
    }
    struct net_server_options options =
        scene_options("several", connections, PATH_TIMEOUT_MS, probe);
    assert_int_equal(net_server_create(&options, addresses, PATHS, made), 0);
}

static inline void paths_start(const struct script *script, unsigned connections)
{
    for (unsigned i = 0; i < PATHS; i++) {
        servers[i] = server_start(script);
        probed[i] = 0;
        probes[i] = 0;
    }
    paths_client(connections, &client);
}

static inline void paths_end(void)
{
    rpc_server_destroy(client);
    for (unsigned i = 0; i < PATHS; i++)
        server_stop(servers[i]);
}

static inline int setup(void **state)
{
    watchdog_start(state);
    paths_start(&(struct script){0}, 2);
    return 0;
}

static inline int teardown(void **state)
{
    paths_end();
    return watchdog_stop(state);
}

static inline bool usable(unsigned path)
{
    return net_path_usable(&client->paths[path]);
}

static inline void use_all_paths(void)
{
    net_server_want_more(client);
    for (unsigned i = 0; i < PATHS; i++)
        eventually(usable(i));
}

/* Returns when the thread that probes has ended what it does for the server, and has written all
 * that it writes of it: a path is usable a little before its state is shown and said. */
static inline void wait_for_prober(struct net_server *server)
{
    net_health_leave(server);
    net_health_enter(server);
}

/* Submits an ECHO over the path, whatever the policy says, and waits for it. */
static inline void echo_over(unsigned path, uint32_t token, struct query *query)
{
    struct rpc_call *call = &query->call;
    query_begin(query, ECHO, token, 0);
    rpc_submit_on(net_path_channel(&client->paths[path], 0), &call, 1);
    rpc_wait(&call, 1);
    assert_int_equal(call->error, 0);
    assert_true(query_good(query));
}

static inline void end_connections(unsigned path)
{
    pthread_mutex_lock(&servers[path]->lock);
    atomic_store(&servers[path]->ended, servers[path]->connections);
    for (unsigned i = 0; i < servers[path]->connections; i++) {
        if (servers[path]->fds[i] >= 0)
            shutdown(servers[path]->fds[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&servers[path]->lock);
}

/* The server of a path goes away, and its port refuses connections. */
static inline void refuse(unsigned path)
{
    shutdown(servers[path]->listener, SHUT_RDWR);
    pthread_join(servers[path]->thread, NULL);
    end_connections(path);
    atomic_store(&probed[path], -ECONNREFUSED);
}

static inline void accept_again(unsigned path)
{
    server_listen(servers[path]);
    atomic_store(&probed[path], 0);
}

#define PATH_TEST(name) UNIT_TEST_WITH(name, setup, teardown)

#endif
