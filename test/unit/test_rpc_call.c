/*
 * Calls in flight against a scripted server on loopback. A call that is never answered hangs: the
 * alarm of each test then ends the program, which is a failure.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "rounds.h"
#include "rpc/rpc.h"
#include "host/stats.h"
#include "rpc/transport.h"
#include "rpc_server.h"
#include "sys/log.h"

enum { THREADS = 16, WATCHDOG_S = 120, DEPTH_MAX = 8 };

static unsigned calls_per_thread;

static int setup(void **state)
{
    (void)state;
    alarm(WATCHDOG_S);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    alarm(0);
    return 0;
}

static int wait_one(struct net_server *client, struct query *query, int timeout_ms)
{
    struct rpc_call *call = &query->call;
    rpc_submit(client, &call, 1);
    if (timeout_ms > 0)
        rpc_wait_for(&call, 1, timeout_ms);
    else
        rpc_wait(&call, 1);
    return query->call.error;
}

static void check_echo(struct net_server *client, uint32_t token)
{
    struct query query = {0};
    query_begin(&query, ECHO, token, 0);
    assert_int_equal(wait_one(client, &query, 0), 0);
    assert_true(query_good(&query));
}

/* ---- one thread ---- */

static void one_call(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, ECHO, 5, 0);
    assert_int_equal(wait_one(client, &query, 0), 0);
    assert_true(query_good(&query));
    assert_true(query.call.connected_ns > 0);
    assert_true(query.call.connected_ns <= query.call.sent_ns);
    assert_true(query.call.sent_ns <= query.call.answered_ns);
    assert_int_equal(atomic_load(&client->channels[0]->outstanding), 0);
    client_free(client);
    server_stop(server);
}

static void free_queries(struct query *queries, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(query_good(&queries[i]));
        query_free(&queries[i]);
    }
}

static void kept_calls_leave_though_nobody_comes(void **state)
{
    (void)state;
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
        uint64_t sent = host_stats_get(&channel->stats->sends);
        rpc_submit_on(channel, calls, COUNT - 2);
        rpc_submit_later(channel, calls + COUNT - 2, 1);
        rpc_submit_later(channel, calls + COUNT - 1, 1);
        kept |= host_stats_get(&channel->stats->sends) == sent + COUNT - 2;
        while (host_stats_get(&channel->stats->sends) < sent + COUNT)
            usleep(100);
        rpc_wait(calls, COUNT);
        free_queries(queries, COUNT);
    }
    client_free(client);
    server_stop(server);
}

/* Nothing is kept where there is nothing to wait for, nor more than is in flight. */
static void what_may_be_kept(void **state)
{
    (void)state;
    struct rpc_transport transport = {.connected = true, .in_flight = 4, .kept = 3};
    assert_true(rpc_can_keep(&transport));
    transport.kept = 4;
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

static void thousand_calls(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 4, 60);
    struct query query = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        query_begin(&query, 1 + i % 3, i, i * 5 % 9000);
        assert_int_equal(wait_one(client, &query, 0), 0);
        assert_true(query_good(&query));
    }
    query_free(&query);
    assert_int_equal(server->connections, 1); /* one call at a time needs one connection */
    assert_int_equal(server->calls, 1000);
    client_free(client);
    server_stop(server);
}

static void more_calls_at_once_than_can_be_in_flight(void **state)
{
    (void)state;
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
        client_free(client);
        server_stop(server);
    }
}

static void *late(void *context)
{
    sleep(2);
    server_listen(context);
    return NULL;
}

static void waits_until_the_server_listens(void **state)
{
    (void)state;
    struct server *server = server_new(&(struct script){0}, AF_INET);
    struct net_server *client = client_new(server->port, 1, 60);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, late, server), 0);
    check_echo(client, 1);
    pthread_join(thread, NULL);
    client_free(client);
    server_stop(server);
}

static void gives_up_on_a_silent_server(void **state)
{
    (void)state;
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
    client_free(client);
    server_stop(server);
}

static void tells_why_it_could_not_connect(void **state)
{
    (void)state;
    struct server *server = server_new(&(struct script){0}, AF_INET); /* does not listen */
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(wait_one(client, &query, 300), -ECONNREFUSED);
    server_listen(server);
    check_echo(client, 2); /* and later it works */
    client_free(client);
    server_stop(server);
}

static void notices_a_lost_reply_while_others_come(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){.lose_one = 1});
    struct net_server *client = client_new(server->port, 1, 2);
    struct query lost = {0}, other = {0};
    query_begin(&lost, ECHO, 1, 0);
    struct rpc_call *call = &lost.call;
    rpc_submit(client, &call, 1);
    for (uint32_t i = 2; atomic_load(&lost.call.state) != RPC_DONE; i++) {
        query_begin(&other, ECHO, i, 0);
        assert_int_equal(wait_one(client, &other, 0), 0);
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
    client_free(client);
    server_stop(server);
}

/* ---- many threads ---- */

struct crowd {
    struct net_server *client;
    unsigned calls, depth;
    size_t longest; /* payload */
    _Atomic unsigned next_token, good;
};

static void *crowd_member(void *context)
{
    struct crowd *crowd = context;
    struct query *queries = calloc(DEPTH_MAX, sizeof(*queries));
    struct rpc_call *calls[DEPTH_MAX];
    uint64_t seed = atomic_fetch_add(&crowd->next_token, 1) + 1;
    for (unsigned done = 0; done < crowd->calls;) {
        unsigned depth = 1 + (unsigned)random_below(&seed, crowd->depth);
        if (depth > crowd->calls - done)
            depth = crowd->calls - done;
        for (unsigned i = 0; i < depth; i++) {
            uint32_t token = atomic_fetch_add(&crowd->next_token, 1);
            query_begin(&queries[i], 1 + (enum procedure)random_below(&seed, 3), token,
                        random_below(&seed, crowd->longest));
            calls[i] = &queries[i].call;
        }
        rpc_submit(crowd->client, calls, depth);
        rpc_wait(calls, depth);
        for (unsigned i = 0; i < depth; i++)
            atomic_fetch_add(&crowd->good, query_good(&queries[i]));
        done += depth;
    }
    for (int i = 0; i < DEPTH_MAX; i++)
        query_free(&queries[i]);
    free(queries);
    return NULL;
}

static void run_crowd(struct crowd *crowd, unsigned threads)
{
    pthread_t ids[THREADS];
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, crowd_member, crowd), 0);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(atomic_load(&crowd->good), threads * crowd->calls);
    unsigned count = atomic_load(&crowd->client->channel_count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(atomic_load(&crowd->client->channels[i]->outstanding), 0);
}

static void crowd_against(const struct script *script, unsigned connections, unsigned calls,
                          unsigned depth)
{
    struct server *server = server_start(script);
    struct crowd crowd = {.client = client_new(server->port, connections, 60),
                          .calls = calls,
                          .depth = depth,
                          .longest = 3000};
    run_crowd(&crowd, THREADS);
    assert_int_equal(server->bad_calls, 0);
    assert_int_equal(server->changed_xids, 0); /* sent again with the same xid */
    assert_true(server->calls >= THREADS * calls);
    bool good_weather = !script->close_after && !script->reset_every && !script->garbage_every;
    if (good_weather) {
        assert_int_equal(server->calls, THREADS * calls);
        assert_true(server->connections <= connections);
    }
    client_free(crowd.client);
    server_stop(server);
}

static void threads_on_one_connection(void **state)
{
    (void)state;
    crowd_against(&(struct script){0}, 1, calls_per_thread, 1);
}

static void threads_on_four_connections(void **state)
{
    (void)state;
    crowd_against(&(struct script){0}, 4, calls_per_thread, DEPTH_MAX);
}

static void replies_in_reverse_order(void **state)
{
    (void)state;
    crowd_against(&(struct script){.order = REVERSE}, 1, calls_per_thread / 4, DEPTH_MAX);
}

static void replies_in_random_order(void **state)
{
    (void)state;
    crowd_against(&(struct script){.order = RANDOM}, 4, calls_per_thread / 4, DEPTH_MAX);
}

static void replies_in_fragments(void **state)
{
    (void)state;
    crowd_against(&(struct script){.fragment = 700}, 2, calls_per_thread / 4, DEPTH_MAX);
}

static void replies_to_strangers(void **state)
{
    (void)state;
    crowd_against(&(struct script){.strangers = 2}, 2, calls_per_thread / 4, DEPTH_MAX);
}

static void server_closes_now_and_then(void **state)
{
    (void)state;
    crowd_against(&(struct script){.close_after = 100}, 2, calls_per_thread / 4, DEPTH_MAX);
}

static void server_resets_in_the_middle_of_replies(void **state)
{
    (void)state;
    crowd_against(&(struct script){.reset_every = 97}, 2, calls_per_thread / 4, DEPTH_MAX);
}

static void garbage_in_the_stream(void **state)
{
    (void)state;
    crowd_against(&(struct script){.garbage_every = 101}, 2, calls_per_thread / 4, DEPTH_MAX);
}

static void all_of_it_at_once(void **state)
{
    (void)state;
    crowd_against(&(struct script){.order = RANDOM,
                                   .fragment = 2000,
                                   .strangers = 1,
                                   .close_after = 211,
                                   .reset_every = 307,
                                   .garbage_every = 401},
                  3, calls_per_thread / 4, DEPTH_MAX);
}

/* Neither side's buffers hold a call or a reply: both must be read while others are sent. */
static void large_payloads_through_small_buffers(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){.buffer = 8192});
    struct crowd crowd = {.client = client_new(server->port, 2, 60),
                          .calls = calls_per_thread >= 2000 ? 12 : 3,
                          .depth = 4,
                          .longest = RPC_PAYLOAD_MAX + 1};
    run_crowd(&crowd, 8);
    assert_int_equal(server->bad_calls, 0);
    client_free(crowd.client);
    server_stop(server);
}

static void *write_largest(void *context)
{
    struct crowd *crowd = context;
    struct query query = {0};
    for (unsigned i = 0; i < crowd->calls; i++) {
        uint32_t token = atomic_fetch_add(&crowd->next_token, 1);
        query_begin(&query, token % 2 ? READ : WRITE, token, RPC_PAYLOAD_MAX);
        wait_one(crowd->client, &query, 0);
        atomic_fetch_add(&crowd->good, query_good(&query));
    }
    query_free(&query);
    return NULL;
}

static void threads_send_a_mebibyte_each(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){0});
    struct crowd crowd = {.client = client_new(server->port, 1, 60),
                          .calls = calls_per_thread >= 2000 ? 6 : 2};
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, write_largest, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(atomic_load(&crowd.good), THREADS * crowd.calls);
    client_free(crowd.client);
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
static void withdrawal_while_another_thread_leads(void **state)
{
    (void)state;
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
    for (uint32_t i = 0; i < 20; i++) {
        struct query query = {0};
        query_begin(&query, i % 2 ? READ : WRITE, 2 + i, 100000);
        assert_int_equal(wait_one(client, &query, 20), -ETIMEDOUT);
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
    client_free(client);
    server_stop(server);
}

/* Nobody else connects; what was sent must not come through later all the same. */
static void a_call_that_is_given_up_takes_its_connection_along(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){.silent = true});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, WRITE, 1, 100);
    assert_int_equal(wait_one(client, &query, 50), -ETIMEDOUT);
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
    client_free(client);
    server_stop(server);
}

static void *impatient(void *context)
{
    struct crowd *crowd = context;
    struct query query = {0};
    for (unsigned i = 0; i < crowd->calls; i++) {
        uint32_t token = atomic_fetch_add(&crowd->next_token, 1);
        query_begin(&query, 1 + token % 3, token, token % 5000);
        int error = wait_one(crowd->client, &query, 1 + (int)(token % 4));
        atomic_fetch_add(&crowd->good, error ? error == -ETIMEDOUT : query_good(&query));
    }
    query_free(&query);
    return NULL;
}

static void threads_that_give_up_among_threads_that_do_not(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){.order = RANDOM});
    struct crowd crowd = {.client = client_new(server->port, 1, 60),
                          .calls = calls_per_thread / 20,
                          .depth = 2,
                          .longest = 5000};
    pthread_t ids[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, i % 2 ? impatient : crowd_member, &crowd),
                         0);
    for (int i = 0; i < 8; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(atomic_load(&crowd.good), 8 * crowd.calls);
    assert_int_equal(server->changed_xids, 0);
    client_free(crowd.client);
    server_stop(server);
}

/* ---- addresses that are not there ---- */

static void bad_addresses_fail_only_their_calls(void **state)
{
    (void)state;
    struct server *server = server_start(&(struct script){0});
    struct net_server *client = client_new(server->port, 1, 60);
    void *nowhere = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(nowhere != MAP_FAILED);
    check_echo(client, 0);
    for (int bad = 0; bad < 4; bad++) { /* first, in the middle, last of a batch; alone */
        struct query queries[3] = {0};
        struct rpc_call *calls[3];
        unsigned count = bad == 3 ? 1 : 3;
        for (unsigned i = 0; i < count; i++) {
            query_begin(&queries[i], WRITE, 10 + (uint32_t)bad * 3 + i, 5000);
            calls[i] = &queries[i].call;
        }
        struct query *wrong = &queries[bad % 3];
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
    client_free(client);
    server_stop(server);
}

/* ---- signals ---- */

static _Atomic bool storm_over;
static _Atomic unsigned interruptions;

static void interrupted(int signal)
{
    (void)signal;
    atomic_fetch_add(&interruptions, 1);
}

/* A signal to every thread of the process each millisecond. */
static void *storm(void *context)
{
    (void)context;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!atomic_load(&storm_over)) {
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *task; tasks && (task = readdir(tasks));)
            syscall(SYS_tgkill, getpid(), atoi(task->d_name), SIGUSR1);
        closedir(tasks);
        usleep(1000);
    }
    return NULL;
}

static void calls_in_a_storm_of_signals(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = interrupted}; /* without SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    atomic_store(&storm_over, false);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, storm, NULL), 0);
    crowd_against(&(struct script){.order = RANDOM, .close_after = 300}, 2, calls_per_thread / 4,
                  DEPTH_MAX);
    /* deadlines hold although no system call ever lasts as long as it was asked to */
    struct server *server = server_start(&(struct script){.silent = true});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(wait_one(client, &query, 1500), -ETIMEDOUT);
    client_free(client);
    server_stop(server);
    atomic_store(&storm_over, true);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&interruptions) > 100);
    signal(SIGUSR1, SIG_DFL);
}

/* ---- fork ---- */

static void child_uses_the_server_too(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* does not allow threads after a fork of a process with threads */
#endif
    struct server *server = server_start(&(struct script){.order = RANDOM});
    struct crowd crowd = {.client = client_new(server->port, 2, 60),
                          .calls = calls_per_thread,
                          .depth = DEPTH_MAX,
                          .longest = 3000};
    pthread_t ids[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, crowd_member, &crowd), 0);
    for (int child = 0; child < 5; child++) {
        usleep(5000);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(WATCHDOG_S);
            rpc_after_fork(crowd.client);
            net_server_after_fork(crowd.client);
            struct query query = {0};
            unsigned good = 0;
            for (uint32_t i = 0; i < 100; i++) {
                query_begin(&query, 1 + i % 3, TOKENS / 2 + (uint32_t)child * 100 + i, 1000);
                wait_one(crowd.client, &query, 0);
                good += query_good(&query);
            }
            client_free(crowd.client);
            _exit(good == 100 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(atomic_load(&crowd.good), 4 * crowd.calls);
    assert_int_equal(server->calls, 4 * crowd.calls + 500); /* no call was disturbed */
    client_free(crowd.client);
    server_stop(server);
}

#define call_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    calls_per_thread = rounds_of(2000);
    log_open("/dev/null");
    const struct CMUnitTest tests[] = {
        call_test(one_call),
        call_test(kept_calls_leave_though_nobody_comes),
        call_test(what_may_be_kept),
        call_test(thousand_calls),
        call_test(more_calls_at_once_than_can_be_in_flight),
        call_test(waits_until_the_server_listens),
        call_test(gives_up_on_a_silent_server),
        call_test(tells_why_it_could_not_connect),
        call_test(notices_a_lost_reply_while_others_come),
        call_test(threads_on_one_connection),
        call_test(threads_on_four_connections),
        call_test(replies_in_reverse_order),
        call_test(replies_in_random_order),
        call_test(replies_in_fragments),
        call_test(replies_to_strangers),
        call_test(server_closes_now_and_then),
        call_test(server_resets_in_the_middle_of_replies),
        call_test(garbage_in_the_stream),
        call_test(all_of_it_at_once),
        call_test(large_payloads_through_small_buffers),
        call_test(threads_send_a_mebibyte_each),
        call_test(withdrawal_while_another_thread_leads),
        call_test(a_call_that_is_given_up_takes_its_connection_along),
        call_test(threads_that_give_up_among_threads_that_do_not),
        call_test(bad_addresses_fail_only_their_calls),
        call_test(calls_in_a_storm_of_signals),
        call_test(child_uses_the_server_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
