/* Sockets and pools, on loopback. */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "rpc/rpc.h"
#include "rpc_server.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "unit.h"

static struct sockaddr_in local_of(int fd)
{
    struct sockaddr_in local;
    socklen_t size = sizeof(local);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &size), 0);
    return local;
}

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

/* May this process bind ports below 1024? */
static bool privileged(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool can = false;
    for (in_port_t port = 1023; !can && port > 1000; port--) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        can = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    }
    close(fd);
    return can;
}

CALL_TEST(privileged_port)
{
    struct server *server = server_start(&(struct script){0});
    struct net_address address = loopback(server->port);
    bool can = privileged();
    int fd = net_connect(&address, NET_PORT_PRIVILEGED, 5000);
    if (can) {
        in_port_t port = ntohs(local_of(fd).sin_port);
        assert_in_range(port, 512, 1023);
        sys_fd_close(fd);
    } else {
        assert_int_equal(fd, -EACCES);
    }
    fd = net_connect(&address, NET_PORT_AUTO, 5000);
    assert_true(fd >= 0);
    assert_int_equal(ntohs(local_of(fd).sin_port) < 1024, can);
    sys_fd_close(fd);
    fd = net_connect(&address, NET_PORT_ANY, 5000);
    assert_true(fd >= 0);
    assert_true(ntohs(local_of(fd).sin_port) >= 1024);
    sys_fd_close(fd);
    server_stop(server);
}

enum { PORT_FIRST = 512, PORT_COUNT = 512 };

/* A network of our own, with the loopback only, where nobody else takes ports. */
static bool enter_network(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    close(fd);
    return up;
}

/* Binds all ports below 1024 of the address that are free. */
static void take_privileged_ports(struct sockaddr_in local, int fds[PORT_COUNT])
{
    for (unsigned i = 0; i < PORT_COUNT; i++) {
        local.sin_port = htons((in_port_t)(PORT_FIRST + i));
        if (fds[i] < 0)
            fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        bind(fds[i], (struct sockaddr *)&local, sizeof(local));
    }
}

/* What is missing is not the path: it stays up, and the connections it has are used. */
CALL_TEST(no_port_is_left)
{
    if (!privileged() || !enter_network())
        skip();
    struct server *server = server_start(&(struct script){0});
    struct net_address address = loopback(server->port);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009)};
    memcpy(&address.local, &local, sizeof(local));
    struct net_server_options options = {
        .name = "ports", .connections_max = 4, .reconnect_max_s = 1, .port_policy = NET_PORT_AUTO};
    struct net_server *client;
    assert_int_equal(net_server_create(&options, &address, 1, &client), 0);
    struct net_channel *first = net_channel_get(client, 0);
    assert_int_equal(net_channel_connect(first, 5000), 0);
    first->outstanding = 1;
    struct net_channel *second = net_channel_get(client, 0);
    assert_ptr_not_equal(first, second);

    int fds[PORT_COUNT];
    memset(fds, -1, sizeof(fds));
    take_privileged_ports(local, fds);
    assert_int_equal(net_channel_connect(second, 5000), -EADDRINUSE); /* and not from another */
    assert_true(net_path_usable(&client->paths[0]));
    assert_true(net_channel_has_other(second));
    net_channel_disconnect(first);
    take_privileged_ports(local, fds); /* that one too */
    assert_int_equal(net_channel_connect(second, 5000), -EADDRINUSE);
    assert_false(net_path_usable(&client->paths[0])); /* without any it cannot be used */
    for (unsigned i = 0; i < PORT_COUNT; i++)
        close(fds[i]);
    check_echo(client, 1);
    assert_true(net_path_usable(&client->paths[0]));
    rpc_server_destroy(client);
    server_stop(server);
}

/* A server as a process sees it whose other processes have nearly all ports below 1024. */
static struct net_server *port_client(in_port_t port,
                                      bool (*takes_any_port)(struct net_path *, int))
{
    struct net_address address = loopback(port);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009)};
    memcpy(&address.local, &local, sizeof(local));
    struct net_server_options options = {.name = "ports",
                                         .connections_max = 1,
                                         .reconnect_max_s = 30,
                                         .port_policy = NET_PORT_AUTO,
                                         .close_idle = rpc_close_idle,
                                         .takes_any_port = takes_any_port};
    struct net_server *client;
    assert_int_equal(net_server_create(&options, &address, 1, &client), 0);
    atomic_store(&client->privileged, true); /* as after a first connection */
    return client;
}

/* One port is left, and the process that has it does nothing, or always something: another one gets
 * it after a while. */
static _Atomic bool busy_over;

static void *busy(void *client)
{
    for (uint32_t token = 10; !atomic_load(&busy_over); token++)
        check_echo(client, token);
    return NULL;
}

static void a_port_goes_from_one_to_another(bool first_is_busy)
{
    if (!privileged() || !enter_network())
        skip();
    struct server *server = server_start(&(struct script){0});
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009)};
    int fds[PORT_COUNT];
    memset(fds, -1, sizeof(fds));
    take_privileged_ports(local, fds);
    struct net_server *first = port_client(server->port, NULL);
    struct net_server *second = port_client(server->port, NULL);
    pthread_t thread;
    assert_int_equal(net_channel_connect(net_channel_get(first, 0), 5000), -EADDRINUSE);
    close(fds[100]);
    fds[100] = -1;
    check_echo(first, 1);
    if (first_is_busy)
        assert_int_equal(pthread_create(&thread, NULL, busy, first), 0);
    check_echo(second, 2);  /* for ever, if it is kept */
#ifndef __SANITIZE_THREAD__ /* it may be about to be given back */
    assert_int_equal(second->channels[0]->local_port, PORT_FIRST + 100);
#endif
    assert_true(net_path_usable(&second->paths[0]));
    if (first_is_busy) {
        atomic_store(&busy_over, true);
        pthread_join(thread, NULL);
    } else {
        check_echo(first, 3);
    }
    for (unsigned i = 0; i < PORT_COUNT; i++)
        close(fds[i]);
    rpc_server_destroy(first);
    rpc_server_destroy(second);
    server_stop(server);
}

CALL_TEST(a_port_is_given_back_when_it_is_idle)
{
    a_port_goes_from_one_to_another(false);
}

CALL_TEST(a_port_is_given_back_in_turn)
{
    a_port_goes_from_one_to_another(true);
}

static unsigned asked;
static bool answer;
static bool asked_for_any_port(struct net_path *path, int timeout_ms)
{
    (void)path;
    (void)timeout_ms;
    asked++;
    return answer;
}

CALL_TEST(other_ports_are_used_if_the_server_answers_them)
{
    if (!privileged() || !enter_network())
        skip();
    struct server *server = server_start(&(struct script){0});
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009)};
    int fds[PORT_COUNT];
    memset(fds, -1, sizeof(fds));
    take_privileged_ports(local, fds);
    struct net_server *client = port_client(server->port, asked_for_any_port);
    struct net_channel *channel = net_channel_get(client, 0);
    answer = false;
    assert_int_equal(net_channel_connect(channel, 5000), -EADDRINUSE);
    assert_int_equal(net_channel_connect(channel, 5000), -EADDRINUSE);
    assert_int_equal(asked, 1); /* not each time */
    client->any_port_asked_ns = 0;
    answer = true;
    check_echo(client, 1);
    assert_int_equal(asked, 2);
    assert_true(channel->local_port > 1023);
    net_channel_reset(channel);
    check_echo(client, 2);
    assert_int_equal(asked, 2);
    for (unsigned i = 0; i < PORT_COUNT; i++)
        close(fds[i]);
    rpc_server_destroy(client);
    server_stop(server);
}

CALL_TEST(auto_does_without_privilege)
{
    if (getuid() != 0)
        skip(); /* test privileged_port sees the same then */
    struct server *server = server_start(&(struct script){0});
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setresuid(65534, 65534, 65534) != 0 || privileged())
            _exit(77); /* ip_unprivileged_port_start is low */
        struct net_address address = loopback(server->port);
        if (net_connect(&address, NET_PORT_PRIVILEGED, 5000) != -EACCES)
            _exit(1);
        int fd = net_connect(&address, NET_PORT_AUTO, 5000);
        _exit(fd >= 0 && ntohs(local_of(fd).sin_port) >= 1024 ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    server_stop(server);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* From port 512 to 1023, by a process that then may not bind them any more: it and its children go
 * on from others. */
CALL_TEST(a_process_gives_up_root)
{
    if (getuid() != 0 || !privileged() || getenv("DIRECTNFS_TEST_SHORT"))
        skip(); /* memcheck's log of the child would be another user's */
    struct server *server = server_start(&(struct script){0});
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        struct net_address address = loopback(server->port);
        struct net_server_options options = {
            .name = "root", .connections_max = 1, .reconnect_max_s = 1};
        struct net_server *client;
        if (net_server_create(&options, &address, 1, &client) != 0)
            _exit(1);
        check_echo(client, 1);
        if (client->channels[0]->local_port > 1023)
            _exit(2);
        if (setresuid(65534, 65534, 65534) != 0 || privileged())
            _exit(77);
        pid_t child = fork();
        alarm(20);
        if (child == 0) {
            rpc_after_fork(client);
            net_server_after_fork(client);
        } else {
            net_channel_reset(client->channels[0]);
        }
        check_echo(client, child == 0 ? 2 : 3);
        int status = 0;
        if (child != 0 && (waitpid(child, &status, 0) != child || status != 0))
            _exit(3);
        _exit(client->channels[0]->local_port > 1023 ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    server_stop(server);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* ip_unprivileged_port_start is low */
    assert_int_equal(WEXITSTATUS(status), 0);
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
        client->port_policy = (enum net_port)policy;
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

CALL_TEST(another_port_when_the_old_one_is_taken)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    struct net_channel *channel = net_channel_get(client, 0);
    assert_int_equal(net_channel_connect(channel, 5000), 0);
    unsigned port = channel->local_port;
    net_channel_disconnect(channel);
    /* another socket that shares the port, connected to the same server */
    int thief = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(thief, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct sockaddr_in peer = {.sin_family = AF_INET,
                               .sin_port = htons(server->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(thief, (struct sockaddr *)&local, sizeof(local)), 0);
    assert_int_equal(connect(thief, (struct sockaddr *)&peer, sizeof(peer)), 0);
    int result = net_channel_connect(channel, 5000);
    if (result != 0) /* at the latest the second attempt takes another */
        result = net_channel_connect(channel, 5000);
    assert_int_equal(result, 0);
    assert_int_not_equal(channel->local_port, port);
    close(thief);
    rpc_server_destroy(client);
    server_stop(server);
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

/* The ports below 1024 are few: connections to one address do not take them from those to another.
 * A daemon of this host can listen on one all the same. The last test: afterwards this is another
 * network. */
CALL_TEST(a_port_is_shared_by_connections_to_different_addresses)
{
    if (!privileged() || !enter_network())
        skip();
    in_port_t ports[2] = {0, 0}, taken;
    int listeners[3], fds[PORT_COUNT + 1];
    struct net_address addresses[2];
    for (unsigned i = 0; i < 2; i++) {
        listeners[i] = bound_socket(AF_INET, &ports[i]);
        assert_int_equal(listen(listeners[i], 2 * PORT_COUNT), 0);
        addresses[i] = loopback(ports[i]);
    }
    for (unsigned i = 0; i < PORT_COUNT; i++) {
        fds[i] = net_connect(&addresses[0], NET_PORT_PRIVILEGED, 5000);
        assert_true(fds[i] >= 0);
    }
    assert_int_equal(net_connect(&addresses[0], NET_PORT_PRIVILEGED, 5000), -EADDRINUSE);
    fds[PORT_COUNT] = net_connect(&addresses[1], NET_PORT_PRIVILEGED, 5000);
    assert_true(fds[PORT_COUNT] >= 0);
    taken = ntohs(local_of(fds[0]).sin_port);
    listeners[2] = bound_socket(AF_INET, &taken);
    assert_int_equal(listen(listeners[2], 1), 0);
    for (unsigned i = 0; i <= PORT_COUNT; i++)
        sys_fd_close(fds[i]);
    for (unsigned i = 0; i < 3; i++)
        close(listeners[i]);
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
