/* See path_scene.h. */
#include "path_scene.h"

struct server *servers[PATHS];

_Atomic int probed[PATHS];

_Atomic unsigned probes[PATHS];

struct net_server *client;

int probe(struct net_path *path, bool proven, int timeout_ms)
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

void paths_client(unsigned connections, struct net_server **made)
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

static void paths_start(const struct script *script, unsigned connections)
{
    for (unsigned i = 0; i < PATHS; i++) {
        servers[i] = server_start(script);
        probed[i] = 0;
        probes[i] = 0;
    }
    paths_client(connections, &client);
}

static void paths_end(void)
{
    rpc_server_destroy(client);
    for (unsigned i = 0; i < PATHS; i++)
        server_stop(servers[i]);
}

int setup(void **state)
{
    watchdog_start(state);
    paths_start(&(struct script){0}, 2);
    return 0;
}

int teardown(void **state)
{
    paths_end();
    return watchdog_stop(state);
}

bool usable(unsigned path)
{
    return net_path_usable(&client->paths[path]);
}

void use_all_paths(void)
{
    net_server_want_more(client);
    for (unsigned i = 0; i < PATHS; i++)
        eventually(usable(i));
}

void wait_for_prober(struct net_server *server)
{
    net_health_leave(server);
    net_health_enter(server);
}

void echo_over(unsigned path, uint32_t token, struct query *query)
{
    struct rpc_call *call = &query->call;
    query_begin(query, ECHO, token, 0);
    rpc_submit_on(net_path_channel(&client->paths[path], 0), &call, 1);
    rpc_wait(&call, 1);
    assert_int_equal(call->error, 0);
    assert_true(query_good(query));
}

void end_connections(unsigned path)
{
    pthread_mutex_lock(&servers[path]->lock);
    atomic_store(&servers[path]->ended, servers[path]->connections);
    for (unsigned i = 0; i < servers[path]->connections; i++) {
        if (servers[path]->fds[i] >= 0)
            shutdown(servers[path]->fds[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&servers[path]->lock);
}

void refuse(unsigned path)
{
    shutdown(servers[path]->listener, SHUT_RDWR);
    pthread_join(servers[path]->thread, NULL);
    end_connections(path);
    atomic_store(&probed[path], -ECONNREFUSED);
}

void accept_again(unsigned path)
{
    server_listen(servers[path]);
    atomic_store(&probed[path], 0);
}
