/* Calls in flight against a scripted server on loopback. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "rpc/rpc.h"
#include "stats/count.h"
#include "rpc/transport.h"
#include "net/pool.h"
#include "queries.h"
#include "sys/log.h"
#include "unit.h"

CALL_TEST(one_call)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, ECHO, 5, 0);
    assert_int_equal(query_wait(client, &query, 0), 0);
    assert_true(query_good(&query));
    assert_true(query.call.connected_ns > 0);
    assert_true(query.call.connected_ns <= query.call.sent_ns);
    assert_true(query.call.sent_ns <= query.call.answered_ns);
    assert_int_equal(atomic_load(&client->channels[0]->outstanding), 0);
    rpc_server_destroy(client);
    server_stop(server);
}

static void free_queries(struct query *queries, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(query_good(&queries[i]));
        query_free(&queries[i]);
    }
}

CALL_TEST(kept_calls_leave_though_nobody_comes)
{
    enum { COUNT = 6 };
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    check_echo(client, 0);
    struct net_channel *channel = client->channels[0];
    bool kept = false;
    for (unsigned round = 0; round < 20 || !kept; round++) {
        struct query queries[COUNT] = {0};
        struct rpc_call *calls[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) {
            query_begin(&queries[i], 1 + i % 3, i, 100);
            calls[i] = &queries[i].call;
        }
        uint64_t sent = stats_get(&channel->stats->sends);
        rpc_submit_on(channel, calls, COUNT - 2);
        rpc_submit_later(channel, calls + COUNT - 2, 1);
        rpc_submit_later(channel, calls + COUNT - 1, 1);
        kept |= stats_get(&channel->stats->sends) == sent + COUNT - 2;
        while (stats_get(&channel->stats->sends) < sent + COUNT)
            usleep(100);
        rpc_wait(calls, COUNT);
        free_queries(queries, COUNT);
    }
    rpc_server_destroy(client);
    server_stop(server);
}

/* Nothing is kept where there is nothing to wait for, nor more than is in flight. */
CALL_TEST(what_may_be_kept)
{
    struct rpc_transport transport = {.connected = true, .in_flight = 2, .kept = 7};
    assert_true(rpc_can_keep(&transport));
    transport.kept = 8;
    assert_false(rpc_can_keep(&transport));
    transport.in_flight = 100;
    assert_true(rpc_can_keep(&transport));
    transport.kept = 16;
    assert_false(rpc_can_keep(&transport));
    transport.kept = 1;
    transport.kept_bytes = 1 << 20;
    assert_false(rpc_can_keep(&transport));
    transport.kept_bytes = 0;
    transport.leading = true;
    assert_false(rpc_can_keep(&transport));
    transport.leading = false;
    transport.connected = false;
    assert_false(rpc_can_keep(&transport));
}

CALL_TEST(thousand_calls)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 4, 60);
    struct query query = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        query_begin(&query, 1 + i % 3, i, i * 5 % 9000);
        assert_int_equal(query_wait(client, &query, 0), 0);
        assert_true(query_good(&query));
    }
    query_free(&query);
    assert_int_equal(server->connections, 1); /* one call at a time needs one connection */
    assert_int_equal(server->calls, 1000);
    rpc_server_destroy(client);
    server_stop(server);
}

CALL_TEST(more_calls_at_once_than_can_be_in_flight)
{
    enum { COUNT = 700 };
    struct script scripts[] = {{0}, {.order = REVERSE}, {.close_after = 50}};
    for (int s = 0; s < 3; s++) {
        struct server *server = server_start(&scripts[s]);
        struct net_server *client = client_new(server->port, 1, 60);
        struct query *queries = calloc(COUNT, sizeof(*queries));
        struct rpc_call *calls[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) {
            query_begin(&queries[i], 1 + i % 3, i, i);
            calls[i] = &queries[i].call;
        }
        rpc_submit(client, calls, COUNT);
        rpc_wait(calls, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_true(query_good(&queries[i]));
            query_free(&queries[i]);
        }
        free(queries);
        assert_int_equal(atomic_load(&client->channels[0]->outstanding), 0);
        assert_int_equal(server->changed_xids, 0);
        rpc_server_destroy(client);
        server_stop(server);
    }
}

static void *late(void *context)
{
    sleep(2);
    server_listen(context);
    return NULL;
}

CALL_TEST(waits_until_the_server_listens)
{
    struct server *server = server_new(&(struct script){0}, AF_INET);
    struct net_server *client = client_new(server->port, 1, 60);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, late, server), 0);
    check_echo(client, 1);
    pthread_join(thread, NULL);
    rpc_server_destroy(client);
    server_stop(server);
}

CALL_TEST(gives_up_on_a_silent_server)
{
    static const int timeouts[] = {50, 1500};
    struct server *server = server_start(&(struct script){.silent = true});
    struct net_server *client = client_new(server->port, 1, 60);
    for (int i = 0; i < 2; i++) {
        struct query queries[3] = {0};
        struct rpc_call *calls[3];
        for (uint32_t q = 0; q < 3; q++) {
            query_begin(&queries[q], 1 + q, 10 + q, 1000);
            calls[q] = &queries[q].call;
        }
        rpc_submit(client, calls, 3);
        rpc_wait_for(calls, 3, timeouts[i]);
        for (int q = 0; q < 3; q++) {
            assert_int_equal(queries[q].call.error, -ETIMEDOUT);
            query_free(&queries[q]);
        }
    }
    assert_int_equal(atomic_load(&client->channels[0]->outstanding), 0);
    rpc_server_destroy(client);
    server_stop(server);
}

CALL_TEST(tells_why_it_could_not_connect)
{
    struct server *server = server_new(&(struct script){0}, AF_INET); /* does not listen */
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(query_wait(client, &query, 300), -ECONNREFUSED);
    server_listen(server);
    check_echo(client, 2); /* and later it works */
    rpc_server_destroy(client);
    server_stop(server);
}

/* What rpc_call_once() returns where connect() fails with this error, at once. */
static int call_once_without_network(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
    pid_t pid = fork();
    if (pid == 0) {
        struct query query = {0};
        struct net_address address = loopback(1);
        query_begin(&query, ECHO, 1, 0);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
            _exit(0);
        _exit(-rpc_call_once(&address, NET_PORT_ANY, NULL, &query.call, 3000));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return -WEXITSTATUS(status);
}

/* Others may work, and wait for this one. */
CALL_TEST(a_call_that_is_made_once_is_not_tried_again)
{
    static const int errors[] = {ENETDOWN, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED};
    for (int i = 0; i < 4; i++)
        assert_int_equal(call_once_without_network(errors[i]), -errors[i]);
}

CALL_TEST(notices_a_lost_reply_while_others_come)
{
    struct server *server = server_start(&(struct script){.lose_one = 1});
    struct net_server *client = client_new(server->port, 1, 2);
    struct query lost = {0}, other = {0};
    query_begin(&lost, ECHO, 1, 0);
    struct rpc_call *call = &lost.call;
    rpc_submit(client, &call, 1);
    for (uint32_t i = 2; atomic_load(&lost.call.state) != RPC_DONE; i++) {
        query_begin(&other, ECHO, i, 0);
        assert_int_equal(query_wait(client, &other, 0), 0);
        usleep(1000);
    }
    rpc_wait(&call, 1);
    assert_true(query_good(&lost));
    assert_int_equal(server->changed_xids, 0);
    assert_int_equal(server->connections, 2);
    /* the duplicate request cache of the server finds a call sent again by xid, address and port */
    pthread_mutex_lock(&server->lock);
    in_port_t ports[] = {server->peer_ports[0], server->peer_ports[1]};
    pthread_mutex_unlock(&server->lock);
    assert_int_equal(ports[0], ports[1]);
    rpc_server_destroy(client);
    server_stop(server);
}

static _Atomic unsigned answers;

static void count_answer(struct rpc_call *first)
{
    for (; first; first = first->next_unsent)
        atomic_fetch_add(&answers, 1);
}

/* Nobody waits for the calls but a thread that waits for something else. */
CALL_TEST(a_pause_drives_what_the_thread_attends)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 4, 60);
    static struct query queries[2];
    struct net_channel *channels[2];
    for (unsigned i = 0; i < 2; i++) {
        struct rpc_call *call = &queries[i].call;
        channels[i] = net_channel_get(client, 0);
        query_begin(&queries[i], ECHO, i, 0);
        call->answered = count_answer;
        rpc_submit_on(channels[i], &call, 1);
    }
    rpc_attended = (struct rpc_attended){channels, 2};
    while (atomic_load(&answers) < 2)
        rpc_pause(20);
    rpc_attended.count = 0;
    rpc_pause(1);
    rpc_server_destroy(client);
    server_stop(server);
}

/* ---- withdrawal ---- */

static void *wait_for_ever(void *context)
{
    struct rpc_call *call = context;
    rpc_wait(&call, 1);
    return NULL;
}

/* One thread leads and waits for ever; another gives up, and its call leaves nothing behind. */
CALL_TEST(withdrawal_while_another_thread_leads)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    check_echo(client, 0); /* after an answer the leader connects again without a pause */
    atomic_store(&server->silent, true);
    struct query patient = {0};
    query_begin(&patient, READ, 1, 4000);
    struct rpc_call *call = &patient.call;
    rpc_submit(client, &call, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, call), 0);
    usleep(100000);
    struct rpc_transport *transport = client->channels[0]->transport;
    for (uint32_t i = 0; i < 20; i++) {
        struct query query = {0};
        query_begin(&query, i % 2 ? READ : WRITE, 2 + i, 100000);
        assert_int_equal(query_wait(client, &query, 20), -ETIMEDOUT);
        pthread_mutex_lock(&transport->lock);
        bool in_use = transport->receiving && !transport->connected;
        pthread_mutex_unlock(&transport->lock);
        assert_false(in_use); /* by the leader, who receives into the memory of calls */
        query_free(&query);
    }
    atomic_store(&server->silent, false);
    pthread_mutex_lock(&server->lock);
    for (unsigned i = 0; i < server->connections; i++) {
        if (server->fds[i] >= 0)
            shutdown(server->fds[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&server->lock);
    pthread_join(thread, NULL);
    assert_true(query_good(&patient));
    query_free(&patient);
    assert_int_equal(atomic_load(&client->channels[0]->outstanding), 0);
    rpc_server_destroy(client);
    server_stop(server);
}

/* Nobody else connects; what was sent must not come through later all the same. */
CALL_TEST(a_call_that_is_given_up_takes_its_connection_along)
{
    struct server *server = server_start(&(struct script){.silent = true});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, WRITE, 1, 100);
    assert_int_equal(query_wait(client, &query, 50), -ETIMEDOUT);
    assert_true(query.call.unsettled);
    while (server->connections == 0)
        usleep(1000);
    for (bool open = true; open;) {
        usleep(1000);
        pthread_mutex_lock(&server->lock);
        open = server->fds[0] >= 0;
        pthread_mutex_unlock(&server->lock);
    }
    query_free(&query);
    rpc_server_destroy(client);
    server_stop(server);
}

/* ---- addresses that are not there ---- */

CALL_TEST(bad_addresses_fail_only_their_calls)
{
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    void *nowhere = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(nowhere != MAP_FAILED);
    check_echo(client, 0);
    /* First, in the middle, last of a batch; alone; alone, when much of it has been sent. */
    for (int bad = 0; bad < 5; bad++) {
        struct query queries[3] = {0};
        struct rpc_call *calls[3];
        unsigned count = bad < 3 ? 3 : 1;
        for (unsigned i = 0; i < count; i++) {
            query_begin(&queries[i], WRITE, 10 + (uint32_t)bad * 3 + i, bad == 4 ? 500000 : 5000);
            calls[i] = &queries[i].call;
        }
        struct query *wrong = &queries[bad < 3 ? bad : 0];
        wrong->vectors[1].iov_base = nowhere;
        rpc_submit(client, calls, count);
        rpc_wait(calls, count);
        for (unsigned i = 0; i < count; i++) {
            if (&queries[i] == wrong)
                assert_int_equal(queries[i].call.error, -EFAULT);
            else
                assert_true(query_good(&queries[i]));
            query_free(&queries[i]);
        }
        check_echo(client, 100 + (uint32_t)bad);
    }
    for (uint32_t bad = 0; bad < 3; bad++) { /* destinations: alone, and with others in flight */
        struct query queries[3] = {0};
        struct rpc_call *calls[3];
        for (uint32_t i = 0; i <= bad; i++) {
            query_begin(&queries[i], READ, 201 + bad * 5, 5000); /* a token with attributes */
            calls[i] = &queries[i].call;
        }
        queries[bad].vectors[0].iov_base = nowhere;
        rpc_submit(client, calls, bad + 1);
        rpc_wait(calls, bad + 1);
        for (uint32_t i = 0; i <= bad; i++) {
            if (i == bad)
                assert_int_equal(queries[i].call.error, -EFAULT);
            else
                assert_true(query_good(&queries[i]));
            query_free(&queries[i]);
        }
        check_echo(client, 300 + bad);
    }
    assert_int_equal(atomic_load(&client->channels[0]->outstanding), 0);
    munmap(nowhere, 65536);
    rpc_server_destroy(client);
    server_stop(server);
}

int main(void)
{
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
