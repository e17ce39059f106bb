/* Servers that give trouble without being dead: they limit connections, end them before anything is
 * answered, or answer what they have not read. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport.h"
#include "queries.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "unit.h"

/* Calls on every connection of the pool; those on connections that the server does not keep go over
 * the one that it does. */
CALL_TEST(a_server_that_closes_further_connections)
{
    enum { COUNT = 12 };
    struct server *server = server_start(&(struct script){.limit = 1});
    struct net_server *client = client_new(server->port, 4, 60);
    struct query queries[COUNT];
    struct rpc_call *calls[COUNT];
    memset(queries, 0, sizeof(queries));
    check_echo(client, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        query_begin(&queries[i], READ, 1 + i, 3000);
        calls[i] = &queries[i].call;
        rpc_submit(client, &calls[i], 1);
    }
    rpc_wait_for(calls, COUNT, 30000);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(query_good(&queries[i]));
        query_free(&queries[i]);
    }
    assert_true(client->channel_count > 1);
    assert_true(server->refused > 0);
    rpc_server_destroy(client);
    server_stop(server);
}

/* Half a reply is no progress: the pauses between connections grow. */
CALL_TEST(a_connection_that_brings_no_answer_is_not_made_again_at_once)
{
    struct server *server = server_start(&(struct script){.reset_every = 1});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, READ, 1, 3000);
    assert_int_equal(query_wait(client, &query, 1500), -ETIMEDOUT);
    assert_in_range(server->connections, 1, 8);
    query_free(&query);
    rpc_server_destroy(client);
    server_stop(server);
}

/* Nor do calls that go from one connection to another make more of them. */
CALL_TEST(a_server_that_closes_all_connections)
{
    enum { COUNT = 8 };
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 4, 60);
    struct query queries[COUNT];
    pthread_t threads[COUNT];
    memset(queries, 0, sizeof(queries));
    atomic_store(&server->closing, true);
    uint64_t begin = sys_now_ns();
    for (uint32_t i = 0; i < COUNT; i++) {
        struct rpc_call *call = &queries[i].call;
        query_begin(&queries[i], ECHO, i, 0);
        rpc_submit(client, &call, 1);
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, call), 0);
    }
    sys_nanosleep_ms(2000);
    unsigned refused = server->refused, seconds = (unsigned)((sys_now_ns() - begin) / 1000000000);
    assert_in_range(refused, 1, 4 * (4 + seconds)); /* after 0, 0.1, 0.2, 0.4, 0.8 s each */
    atomic_store(&server->closing, false);
    for (uint32_t i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        assert_true(query_good(&queries[i]));
    }
    rpc_server_destroy(client);
    server_stop(server);
}

/* ---- a server whose every step is the test's ---- */

static int accept_one(const struct server *server)
{
    int fd = accept(server->listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void receive_exactly(int fd, uint8_t *data, size_t length)
{
    for (ssize_t got; length > 0; data += got, length -= (size_t)got) {
        got = recv(fd, data, length, 0); /* MSG_WAITALL ends early, too: at a SIGCONT */
        assert_true(got > 0);
    }
}

/* Receives a call and answers it. */
static void answer_one(struct server *server, int fd)
{
    uint8_t mark[4];
    struct bytes answer, stream = {0};
    receive_exactly(fd, mark, sizeof(mark));
    size_t length = rpc_word(mark) & ~RPC_LAST_FRAGMENT;
    assert_in_range(length, 1, RPC_HEAD_MAX + RPC_PAYLOAD_MAX);
    uint8_t *call = malloc(length);
    receive_exactly(fd, call, length);
    answer_call(server, call, length, &answer);
    put_record(&stream, &answer);
    assert_true(stream_send(fd, stream.data, stream.length));
    free(stream.data);
    free(answer.data);
    free(call);
}

static void reset_connection(int fd)
{
    struct linger abortive = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
    close(fd);
}

/* Whoever sends on a broken connection does not throw away what it brought before it broke. */
CALL_TEST(a_reply_that_came_before_the_reset_counts)
{
    struct server *server = server_new(&(struct script){0}, AF_INET);
    assert_int_equal(listen(server->listener, 8), 0);
    struct net_server *client = client_new(server->port, 1, 60);
    struct query first = {0}, second = {0}, third = {0};
    struct rpc_call *calls[] = {&first.call, &second.call, &third.call};
    query_begin(&first, ECHO, 1, 0);
    query_begin(&second, ECHO, 2, 0);
    query_begin(&third, ECHO, 3, 0);
    pthread_t thread;
    rpc_submit(client, calls, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, calls[0]), 0);
    int fd = accept_one(server);
    answer_one(server, fd);
    pthread_join(thread, NULL);

    rpc_submit(client, calls + 1, 1);
    answer_one(server, fd);
    reset_connection(fd);
    struct pollfd broken = {.fd = client->channels[0]->fd};
    assert_int_equal(poll(&broken, 1, -1), 1);
    rpc_submit(client, calls + 2, 1); /* cannot be sent */
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, calls[2]), 0);
    fd = accept_one(server);
    answer_one(server, fd);
    pthread_join(thread, NULL);
    rpc_wait(calls, 3);
    assert_true(query_good(&second));
    assert_true(query_good(&third));
    close(fd);
    rpc_server_destroy(client);
    close(server->listener);
    free(server);
}

/* Half of a call was sent when the connection broke: the next one brings it from its start. */
CALL_TEST(a_call_that_was_sent_in_part_is_sent_again_as_a_whole)
{
    enum { MOST = 32, LENGTH = 1 << 20 };
    struct server *server = server_new(&(struct script){0}, AF_INET);
    assert_int_equal(listen(server->listener, 8), 0);
    struct net_server *client = client_new(server->port, 1, 60);
    struct query first = {0}, writes[MOST] = {0};
    struct rpc_call *one = &first.call;
    unsigned count = 0;
    pthread_t threads[MOST];
    query_begin(&first, ECHO, 1, 0);
    rpc_submit(client, &one, 1);
    assert_int_equal(pthread_create(&threads[0], NULL, wait_for_one, one), 0);
    int fd = accept_one(server);
    answer_one(server, fd);
    pthread_join(threads[0], NULL);

    const struct rpc_transport *transport = client->channels[0]->transport;
    for (; transport->unsent_offset == 0; count++) { /* until the server's memory is full */
        assert_true(count < MOST);
        query_begin(&writes[count], WRITE, 2 + count, LENGTH);
        one = &writes[count].call;
        rpc_submit(client, &one, 1);
    }
    reset_connection(fd);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, &writes[i].call), 0);
    fd = accept_one(server);
    for (unsigned i = 0; i < count; i++)
        answer_one(server, fd);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        assert_true(query_good(&writes[i]));
        query_free(&writes[i]);
    }
    close(fd);
    rpc_server_destroy(client);
    close(server->listener);
    free(server);
}

/* A call is sent again from the same port, of the same address or, as after the route to the server
 * has changed, of another. */
static void assert_settled_unless_moved(bool moves)
{
    struct server *server = server_new(&(struct script){0}, AF_INET);
    assert_int_equal(listen(server->listener, 8), 0);
    struct net_server *client = client_new(server->port, 1, 60);
    struct sockaddr_in *local = (struct sockaddr_in *)&client->paths[0].address.local;
    *local =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct query first = {0}, second = {0};
    struct rpc_call *calls[] = {&first.call, &second.call};
    pthread_t thread;
    uint8_t mark[4];
    query_begin(&first, ECHO, 1, 0);
    query_begin(&second, ECHO, 2, 0);
    rpc_submit(client, calls, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, calls[0]), 0);
    int fd = accept_one(server);
    answer_one(server, fd);
    pthread_join(thread, NULL);
    unsigned port = client->channels[0]->local_port;

    rpc_submit(client, calls + 1, 1);
    receive_exactly(fd, mark, sizeof(mark));
    reset_connection(fd);
    local->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + moves);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, calls[1]), 0);
    fd = accept_one(server);
    answer_one(server, fd);
    pthread_join(thread, NULL);
    assert_int_equal(client->channels[0]->local_port, port);
    assert_true(query_good(&second));
    assert_true(second.call.resent);
    assert_int_equal(second.call.unsettled, moves);
    close(fd);
    rpc_server_destroy(client);
    close(server->listener);
    free(server);
}

CALL_TEST(a_call_that_is_sent_again_from_the_same_address_is_known)
{
    assert_settled_unless_moved(false);
}

CALL_TEST(a_call_that_is_sent_again_from_another_address_is_unsettled)
{
    assert_settled_unless_moved(true);
}

/* A reply to a call of which the server has the beginning only: the memory of the call is in use
 * until it is sent as a whole, and answered again. */
CALL_TEST(a_reply_to_what_is_not_sent_yet_is_no_answer)
{
    enum { LENGTH = 16 << 20 };
    struct server *server = server_new(&(struct script){.buffer = 4096}, AF_INET);
    assert_int_equal(listen(server->listener, 8), 0);
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    struct rpc_call *call = &query.call;
    query_begin(&query, WRITE, 1, LENGTH);
    pthread_t thread;
    rpc_submit(client, &call, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, call), 0);
    int fd = accept_one(server);
    uint8_t head[8];
    receive_exactly(fd, head, sizeof(head));
    struct reply reply;
    struct bytes stream = {0};
    reply_begin(&reply, rpc_word(head + 4), 0, 0);
    put_word(&reply.message, 1);
    put_word(&reply.message, 1);
    put_record(&stream, &reply.message);
    sys_nanosleep_ms(50); /* until no more can be sent */
    assert_true(stream_send(fd, stream.data, stream.length));
    sys_nanosleep_ms(100);
    assert_int_equal(atomic_load(&call->state), RPC_WAITING);

    size_t length = rpc_word(head) & ~RPC_LAST_FRAGMENT;
    uint8_t *rest = malloc(length);
    assert_non_null(rest);
    receive_exactly(fd, rest, length - 4);
    assert_true(stream_send(fd, stream.data, stream.length));
    pthread_join(thread, NULL);
    assert_true(query_good(&query));
    free(rest);
    free(stream.data);
    reply_free(&reply);
    query_free(&query);
    close(fd);
    rpc_server_destroy(client);
    close(server->listener);
    free(server);
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
