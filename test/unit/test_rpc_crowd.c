/*
 * Calls of many threads at once against a scripted server on loopback: every answer comes to the
 * caller it is for, whatever the server, signals and forks do.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "rounds.h"
#include "rpc/rpc.h"
#include "net/pool.h"
#include "queries.h"
#include "sys/log.h"
#include "unit.h"

enum { THREADS = 16, DEPTH_MAX = 8 };

static unsigned calls_per_thread;

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
        unsigned depth = 1 + (unsigned)random_of(&seed, crowd->depth);
        if (depth > crowd->calls - done)
            depth = crowd->calls - done;
        for (unsigned i = 0; i < depth; i++) {
            uint32_t token = atomic_fetch_add(&crowd->next_token, 1);
            query_begin(&queries[i], 1 + (enum procedure)random_of(&seed, 3), token,
                        random_of(&seed, crowd->longest));
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
    assert_true(server->calls >= THREADS * calls);
    bool good_weather = !script->close_after && !script->reset_every && !script->garbage_every;
    /* What is sent again has the same xid, unless it goes over another connection, where that is in
     * use. */
    if (good_weather || connections == 1)
        assert_int_equal(server->changed_xids, 0);
    if (good_weather) {
        assert_int_equal(server->calls, THREADS * calls);
        assert_true(server->connections <= connections);
    }
    rpc_server_destroy(crowd.client);
    server_stop(server);
}

CALL_TEST(threads_on_one_connection)
{
    crowd_against(&(struct script){0}, 1, calls_per_thread, 1);
}

CALL_TEST(threads_on_four_connections)
{
    crowd_against(&(struct script){0}, 4, calls_per_thread, DEPTH_MAX);
}

CALL_TEST(replies_in_reverse_order)
{
    crowd_against(&(struct script){.order = REVERSE}, 1, calls_per_thread / 4, DEPTH_MAX);
}

CALL_TEST(replies_in_random_order)
{
    crowd_against(&(struct script){.order = RANDOM}, 4, calls_per_thread / 4, DEPTH_MAX);
}

CALL_TEST(replies_in_fragments)
{
    crowd_against(&(struct script){.fragment = 700}, 2, calls_per_thread / 4, DEPTH_MAX);
}

CALL_TEST(replies_to_strangers)
{
    crowd_against(&(struct script){.strangers = 2}, 2, calls_per_thread / 4, DEPTH_MAX);
}

static void crowd_in_trouble(const struct script *script, unsigned connections)
{
    crowd_against(script, 1, calls_per_thread / 8, DEPTH_MAX);
    crowd_against(script, connections, calls_per_thread / 8, DEPTH_MAX);
}

CALL_TEST(server_closes_now_and_then)
{
    crowd_in_trouble(&(struct script){.close_after = 100}, 2);
}

CALL_TEST(server_resets_in_the_middle_of_replies)
{
    crowd_in_trouble(&(struct script){.reset_every = 97}, 2);
}

CALL_TEST(garbage_in_the_stream)
{
    crowd_in_trouble(&(struct script){.garbage_every = 101}, 2);
}

CALL_TEST(all_of_it_at_once)
{
    crowd_in_trouble(&(struct script){.order = RANDOM,
                                      .fragment = 2000,
                                      .strangers = 1,
                                      .close_after = 211,
                                      .reset_every = 307,
                                      .garbage_every = 401},
                     3);
}

/* Neither side's buffers hold a call or a reply: both must be read while others are sent. */
CALL_TEST(large_payloads_through_small_buffers)
{
    struct server *server = server_start(&(struct script){.buffer = 8192});
    struct crowd crowd = {.client = client_new(server->port, 2, 60),
                          .calls = calls_per_thread >= 2000 ? 12 : 3,
                          .depth = 4,
                          .longest = RPC_PAYLOAD_MAX + 1};
    run_crowd(&crowd, 8);
    assert_int_equal(server->bad_calls, 0);
    rpc_server_destroy(crowd.client);
    server_stop(server);
}

static void *write_largest(void *context)
{
    struct crowd *crowd = context;
    struct query query = {0};
    for (unsigned i = 0; i < crowd->calls; i++) {
        uint32_t token = atomic_fetch_add(&crowd->next_token, 1);
        query_begin(&query, token % 2 ? READ : WRITE, token, RPC_PAYLOAD_MAX);
        query_wait(crowd->client, &query, 0);
        atomic_fetch_add(&crowd->good, query_good(&query));
    }
    query_free(&query);
    return NULL;
}

CALL_TEST(threads_send_a_mebibyte_each)
{
    struct server *server = server_start(&(struct script){0});
    struct crowd crowd = {.client = client_new(server->port, 1, 60),
                          .calls = calls_per_thread >= 2000 ? 6 : 2};
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, write_largest, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(atomic_load(&crowd.good), THREADS * crowd.calls);
    rpc_server_destroy(crowd.client);
    server_stop(server);
}

/* ---- withdrawal ---- */

static void *impatient(void *context)
{
    struct crowd *crowd = context;
    struct query query = {0};
    for (unsigned i = 0; i < crowd->calls; i++) {
        uint32_t token = atomic_fetch_add(&crowd->next_token, 1);
        query_begin(&query, 1 + token % 3, token, token % 5000);
        int error = query_wait(crowd->client, &query, 1 + (int)(token % 4));
        atomic_fetch_add(&crowd->good, error ? error == -ETIMEDOUT : query_good(&query));
    }
    query_free(&query);
    return NULL;
}

CALL_TEST(threads_that_give_up_among_threads_that_do_not)
{
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
    rpc_server_destroy(crowd.client);
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

CALL_TEST(calls_in_a_storm_of_signals)
{
    struct sigaction action = {.sa_handler = interrupted}; /* without SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    atomic_store(&storm_over, false);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, storm, NULL), 0);
    do
        crowd_against(&(struct script){.order = RANDOM, .close_after = 300}, 2,
                      calls_per_thread / 4, DEPTH_MAX);
    while (atomic_load(&interruptions) <= 100);
    /* deadlines hold although no system call ever lasts as long as it was asked to */
    struct server *server = server_start(&(struct script){.silent = true});
    struct net_server *client = client_new(server->port, 1, 60);
    struct query query = {0};
    query_begin(&query, ECHO, 1, 0);
    assert_int_equal(query_wait(client, &query, 1500), -ETIMEDOUT);
    rpc_server_destroy(client);
    server_stop(server);
    atomic_store(&storm_over, true);
    pthread_join(thread, NULL);
    signal(SIGUSR1, SIG_DFL);
}

/* ---- fork ---- */

CALL_TEST(child_uses_the_server_too)
{
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    /* The one allows no threads after a fork of a process with threads; the other's allocator may
     * be locked in the child, by a thread that it does not have. */
    skip();
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
                query_wait(crowd.client, &query, 0);
                good += query_good(&query);
            }
            rpc_server_destroy(crowd.client);
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
    rpc_server_destroy(crowd.client);
    server_stop(server);
}

int main(void)
{
    calls_per_thread = rounds_of(2000);
    log_open("/dev/null");
    return unit_run(NULL, NULL);
}
