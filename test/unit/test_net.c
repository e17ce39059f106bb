/* Sockets and pools, on loopback. */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "low_ports.h"
#include "rpc/rpc.h"
#include "net/pool.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "unit.h"

static int option_of(int fd, int level, int name)
{
    int value = 0;
    socklen_t size = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

CALL_TEST(socket_is_as_promised)
{
    struct server *server = server_start(&(struct script){0});
    struct net_address address = loopback(server->port);
    int fd = net_connect(&address, NET_PORT_ANY, 5000);
    assert_true(fd > 64); /* high in the table */
    assert_true(sys_fd_is_ours(fd));
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_true(option_of(fd, IPPROTO_TCP, TCP_NODELAY));
    assert_true(option_of(fd, SOL_SOCKET, SO_KEEPALIVE));
    struct linger linger;
    socklen_t size = sizeof(linger);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size), 0);
    assert_true(linger.l_onoff);
    assert_int_equal(linger.l_linger, 0);
    sys_fd_close(fd);
    assert_false(sys_fd_is_ours(fd));
    server_stop(server);
}

CALL_TEST(connects_from_a_local_address)
{
    static const enum net_port policies[] = {NET_PORT_ANY, NET_PORT_AUTO};
    struct server *server = server_start(&(struct script){0});
    for (int i = 0; i < 2; i++) {
        struct net_address address = loopback(server->port);
        struct sockaddr_in local = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 6)};
        memcpy(&address.local, &local, sizeof(local));
        int fd = net_connect(&address, policies[i], 5000);
        assert_true(fd >= 0);
        assert_int_equal(ntohl(local_of(fd).sin_addr.s_addr), INADDR_LOOPBACK + 6);
        sys_fd_close(fd);
    }
    server_stop(server);
}

CALL_TEST(local_address_that_is_not_ours)
{
    struct server *server = server_start(&(struct script){0});
    struct net_address address = loopback(server->port);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    memcpy(&address.local, &local, sizeof(local)); /* 192.0.2.1, of RFC 5737 */
    assert_int_equal(net_connect(&address, NET_PORT_ANY, 5000), -EADDRNOTAVAIL);
    server_stop(server);

    assert_false(net_address_is_ours(&address.local));
    assert_true(net_address_is_ours(&address.peer));
    assert_true(net_address_is_ours(&(struct sockaddr_storage){.ss_family = AF_UNSPEC}));
}

CALL_TEST(refused_port)
{
    struct server *server = server_new(&(struct script){0}, AF_INET);
    struct net_server *client = client_new(server->port, 1, 60);
    struct net_channel *channel = net_channel_get(client, 0);
    assert_int_equal(net_channel_connect(channel, 5000), -ECONNREFUSED);
    assert_int_equal(channel->fd, -1);
    assert_int_equal(channel->path->state, NET_PATH_DOWN);
    server_listen(server);
    assert_int_equal(net_channel_connect(channel, 5000), 0);
    assert_true(channel->fd >= 0);
    assert_int_equal(channel->path->state, NET_PATH_DOWN); /* until something is answered */
    net_channel_disconnect(channel);
    check_echo(client, 1);
    assert_int_equal(channel->path->state, NET_PATH_UP);
    assert_true(channel->connected_ns > 0);
    net_channel_disconnect(channel);
    assert_int_equal(channel->fd, -1);
    rpc_server_destroy(client);
    server_stop(server);
}

/* A listener whose queue is full answers no SYN, as a host that is down. */
CALL_TEST(connecting_takes_no_longer_than_asked)
{
    struct server *server = server_new(&(struct script){0}, AF_INET);
    assert_int_equal(listen(server->listener, 0), 0);
    struct net_address address = loopback(server->port);
    int fds[8], count = 0, result = 0;
    while (count < 8 && (result = net_connect(&address, NET_PORT_ANY, 200)) >= 0)
        fds[count++] = result;
    assert_int_equal(result, -ETIMEDOUT);
    while (count > 0)
        sys_fd_close(fds[--count]);
    close(server->listener);
    free(server);
}

CALL_TEST(reconnects_from_the_same_port)
{
    struct server *server = server_start(&(struct script){0});
    for (int policy = NET_PORT_AUTO; policy <= NET_PORT_ANY; policy++) {
        if (policy == NET_PORT_PRIVILEGED && !privileged())
            continue;
        struct net_server *client = client_new(server->port, 1, 60);
        client->options.port_policy = (enum net_port)policy;
        struct net_channel *channel = net_channel_get(client, 0);
        assert_int_equal(net_channel_connect(channel, 5000), 0);
        unsigned port = channel->local_port;
        assert_int_equal(port, ntohs(local_of(channel->fd).sin_port));
        for (int i = 0; i < 20; i++) {
            assert_int_equal(net_channel_connect(channel, 5000), 0);
            assert_int_equal(ntohs(local_of(channel->fd).sin_port), port);
            if (i % 2)
                net_channel_disconnect(channel);
        }
        rpc_server_destroy(client);
    }
    server_stop(server);
}

/* Another socket that shares the port, connected to the same server. */
static int take_port(unsigned port, const struct server *server)
{
    int thief = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(thief, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct sockaddr_in peer = {.sin_family = AF_INET,
                               .sin_port = htons(server->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(thief, (struct sockaddr *)&local, sizeof(local)), 0);
    assert_int_equal(connect(thief, (struct sockaddr *)&peer, sizeof(peer)), 0);
    return thief;
}

CALL_TEST(another_port_when_the_old_one_is_taken)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    struct net_channel *channel = net_channel_get(client, 0);
    assert_int_equal(net_channel_connect(channel, 5000), 0);
    unsigned port = channel->local_port;
    net_channel_disconnect(channel);
    int thief = take_port(port, server);
    int result = net_channel_connect(channel, 5000);
    if (result != 0) /* at the latest the second attempt takes another */
        result = net_channel_connect(channel, 5000);
    assert_int_equal(result, 0);
    assert_int_not_equal(channel->local_port, port);
    close(thief);
    rpc_server_destroy(client);
    server_stop(server);
}

/* By its port and xid the server knows a call again, and does not execute it twice. */
CALL_TEST(a_call_that_is_sent_again_from_another_port_is_unsettled)
{
    for (int taken = 0; taken < 2; taken++) {
        struct server *server = server_start(&(struct script){0});
        struct net_server *client = client_new(server->port, 1, 60);
        struct query query = {0};
        struct rpc_call *call = &query.call;
        check_echo(client, 1);
        struct net_channel *channel = client->channels[0];
        unsigned port = channel->local_port;
        atomic_store(&server->silent, true);
        query_begin(&query, ECHO, 2, 0);
        rpc_submit(client, &call, 1);
        while (atomic_load(&server->replies) < 2) /* it is lost */
            usleep(1000);
        net_channel_disconnect(channel);
        int thief = taken ? take_port(port, server) : -1;
        atomic_store(&server->silent, false);
        rpc_wait(&call, 1);
        assert_true(call->error == 0 && query_good(&query));
        assert_int_equal(channel->local_port != port, taken);
        assert_int_equal(call->unsettled, taken);
        close(thief);
        rpc_server_destroy(client);
        server_stop(server);
    }
}

CALL_TEST(ipv6)
{
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool available = probe >= 0 && bind(probe, (struct sockaddr *)&peer, sizeof(peer)) == 0;
    close(probe);
    if (!available)
        skip();
    struct server *server = server_new(&(struct script){0}, AF_INET6);
    server_listen(server);
    peer.sin6_port = htons(server->port);
    struct net_address address;
    memset(&address, 0, sizeof(address));
    memcpy(&address.peer, &peer, sizeof(peer));
    strcpy(address.peer_text, "::1");
    for (int with_local = 0; with_local < 2; with_local++) {
        if (with_local) {
            peer.sin6_port = 0;
            memcpy(&address.local, &peer, sizeof(peer));
        }
        struct net_server_options options = {.name = "six",
                                             .connections_max = 1,
                                             .port_policy = NET_PORT_AUTO,
                                             .reconnect_max_s = 1,
                                             .retransmit_timeout_s = 60};
        struct net_server *client;
        assert_int_equal(net_server_create(&options, &address, 1, &client), 0);
        struct query query = {0};
        struct rpc_call *call = &query.call;
        for (uint32_t i = 0; i < 3; i++) { /* the second and third after connecting again */
            query_begin(&query, ECHO, 7 + i + 10 * (uint32_t)with_local, 0);
            rpc_submit(client, &call, 1);
            rpc_wait(&call, 1);
            assert_true(query_good(&query));
            unsigned port = client->channels[0]->local_port;
            assert_int_equal(port < 1024, privileged());
            assert_int_equal(net_channel_connect(client->channels[0], 5000), 0);
            assert_int_equal(client->channels[0]->local_port, port);
        }
        rpc_server_destroy(client);
    }
    server_stop(server);
}

/* What is queued in a connection that is given up is not sent, whoever still has a copy of it. */
CALL_TEST(a_copy_does_not_keep_a_connection_alive)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    struct net_channel *channel = net_channel_get(client, 0);
    assert_int_equal(net_channel_connect(channel, 5000), 0);
    int copy = fcntl(channel->fd, F_DUPFD_CLOEXEC, 0);
    assert_true(copy >= 0);
    while (server->connections == 0)
        usleep(1000);
    net_channel_disconnect(channel);
    assert_int_equal(send(copy, "late", 4, MSG_NOSIGNAL), -1);
    for (bool open = true; open;) {
        usleep(1000);
        pthread_mutex_lock(&server->lock);
        open = server->fds[0] >= 0;
        pthread_mutex_unlock(&server->lock);
    }
    close(copy);
    rpc_server_destroy(client);
    server_stop(server);
}

CALL_TEST(child_closes_silently)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    struct rpc_call *call = &query.call;
    query_begin(&query, ECHO, 1, 0);
    rpc_submit(client, &call, 1);
    rpc_wait(&call, 1);
    int probe = net_connect(&client->paths[0].address, NET_PORT_ANY, 5000);
    assert_true(probe >= 0);
    for (int i = 0; server->connections < 2 && i < 10000; i++) /* it has still to accept this one */
        usleep(1000);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = client->channels[0]->fd;
        rpc_after_fork(client);
        net_server_after_fork(client);
        sys_fd_fork_child();
        if (fcntl(probe, F_GETFD) != -1 || sys_fd_is_ours(probe))
            _exit(2);
        _exit(client->channels[0]->fd == -1 && fcntl(fd, F_GETFD) == -1 && !sys_fd_is_ours(fd) ? 0
                                                                                               : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    query_begin(&query, ECHO, 2, 0);
    rpc_submit(client, &call, 1);
    rpc_wait(&call, 1);
    assert_true(query_good(&query));
    assert_int_equal(server->connections, 2); /* the parent's are as they were */
    sys_fd_close(probe);
    rpc_server_destroy(client);
    server_stop(server);
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
