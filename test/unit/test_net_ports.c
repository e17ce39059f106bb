/* Connections from ports below 1024, which are few. */
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "low_ports.h"
#include "rpc/rpc.h"
#include "net/health.h"
#include "sys/fd.h"
#include "sys/log.h"

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

/* One of our addresses, and sockets that have its ports below 1024; -1: none. */
static struct sockaddr_in scarce(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((in_port_t)port),
                                .sin_addr.s_addr = htonl(0x7f000009)};
}
static int holders[PORT_COUNT];

static void take_free_ports(void)
{
    for (unsigned i = 0; i < PORT_COUNT; i++) {
        struct sockaddr_in local = scarce(PORT_FIRST + i);
        if (holders[i] < 0)
            holders[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(holders[i] >= 0);
        bind(holders[i], (struct sockaddr *)&local, sizeof(local));
    }
}

static void give_ports_back(void)
{
    for (unsigned i = 0; i < PORT_COUNT; i++)
        close(holders[i]);
}

static struct net_address from_scarce(in_port_t port)
{
    struct net_address address = loopback(port);
    struct sockaddr_in local = scarce(0);
    memcpy(&address.local, &local, sizeof(local));
    return address;
}

/* A server, in a network where all ports are free. */
static struct server *server_of_few_ports(void)
{
    if (!privileged() || !enter_network())
        skip();
    memset(holders, -1, sizeof(holders));
    return server_start(&(struct script){0});
}

/* What is missing is not the path: it stays up, and the connections it has are used. */
CALL_TEST(no_port_is_left)
{
    struct server *server = server_of_few_ports();
    struct net_address address = from_scarce(server->port);
    struct net_server_options options = {
        .name = "ports", .connections_max = 4, .reconnect_max_s = 1, .port_policy = NET_PORT_AUTO};
    struct net_server *client;
    assert_int_equal(net_server_create(&options, &address, 1, &client), 0);
    struct net_channel *first = net_channel_get(client, 0);
    assert_int_equal(net_channel_connect(first, 5000), 0);
    first->outstanding = 1;
    struct net_channel *second = net_channel_get(client, 0);
    assert_ptr_not_equal(first, second);

    take_free_ports();
    assert_int_equal(net_channel_connect(second, 5000), -EADDRINUSE); /* and not from another */
    assert_true(net_path_usable(&client->paths[0]));
    assert_true(net_channel_has_other(second));
    net_channel_disconnect(first);
    take_free_ports(); /* that one too */
    assert_int_equal(net_channel_connect(second, 5000), -EADDRINUSE);
    assert_false(net_path_usable(&client->paths[0])); /* without any it cannot be used */
    give_ports_back();
    check_echo(client, 1);
    assert_true(net_path_usable(&client->paths[0]));
    rpc_server_destroy(client);
    server_stop(server);
}

/* A server as a process sees it whose other processes have nearly all ports below 1024. */
static struct net_server *port_client(in_port_t port,
                                      bool (*takes_any_port)(struct net_path *, int))
{
    struct net_address address = from_scarce(port);
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

/* Never idle for long, but not at the cost of a processor, of which others have to have a part. */
static void *busy(void *client)
{
    for (uint32_t token = 10; !atomic_load(&busy_over); token++) {
        check_echo(client, token);
        usleep(1000);
    }
    return NULL;
}

/* The server has seen so many connections, or more, all of them from this port. Of whom it is now
 * nobody can say: it may be given back at any time. */
static void check_peer_ports(struct server *server, unsigned least, in_port_t port)
{
    pthread_mutex_lock(&server->lock);
    assert_true(server->connections >= least);
    for (unsigned i = 0; i < server->connections; i++)
        assert_int_equal(server->peer_ports[i], port);
    pthread_mutex_unlock(&server->lock);
}

static void a_port_goes_from_one_to_another(bool first_is_busy)
{
    struct server *server = server_of_few_ports();
    take_free_ports();
    struct net_server *first = port_client(server->port, NULL);
    struct net_server *second = port_client(server->port, NULL);
    pthread_t thread;
    assert_int_equal(net_channel_connect(net_channel_get(first, 0), 5000), -EADDRINUSE);
    close(holders[100]);
    holders[100] = -1;
    check_echo(first, 1);
    if (first_is_busy)
        assert_int_equal(pthread_create(&thread, NULL, busy, first), 0);
    check_echo(second, 2); /* for ever, if it is kept */
    check_peer_ports(server, 2, PORT_FIRST + 100);
    assert_true(net_path_usable(&second->paths[0]));
    if (first_is_busy) {
        atomic_store(&busy_over, true);
        pthread_join(thread, NULL);
    } else {
        check_echo(first, 3);
    }
    give_ports_back();
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
    struct server *server = server_of_few_ports();
    take_free_ports();
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
    give_ports_back();
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
        alarm(600);
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
        alarm(600);
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
        listeners[i] = stream_bind_loopback(AF_INET, &ports[i]);
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
    listeners[2] = stream_bind_loopback(AF_INET, &taken);
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
