/* Calls over TLS: nothing is lost, mixed up or repeated, whatever becomes of the connection. */
#include <openssl/err.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "sys/critical.h"
#include "sys/foreign.h"
#include "tls_scene.h"

enum { DEPTH = 16, LONGEST = 300000 };

static struct query queries[DEPTH];

static void end_queries(void)
{
    for (int i = 0; i < DEPTH; i++)
        query_free(&queries[i]);
}

/* So many rounds of calls of all kinds, DEPTH at a time. */
static void run_rounds(unsigned rounds, uint64_t seed)
{
    for (unsigned round = 0; round < rounds; round++) {
        struct rpc_call *calls[DEPTH];
        for (int i = 0; i < DEPTH; i++) {
            enum procedure kinds[] = {ECHO, READ, WRITE};
            size_t length = 1 + (size_t)random_of(&seed, i % 5 == 0 ? LONGEST : 9000);
            query_begin(&queries[i], kinds[random_of(&seed, 3)], (uint32_t)random_of(&seed, TOKENS),
                        length);
            calls[i] = &queries[i].call;
        }
        rpc_submit(tls_client, calls, DEPTH);
        rpc_wait(calls, DEPTH);
        for (int i = 0; i < DEPTH; i++)
            assert_true(query_good(&queries[i]));
    }
}

static void start(const struct tls_proxy_options *options)
{
    struct net_tls_settings settings = tls_settings();
    tls_start(&settings, options);
}

/* No byte of a call may have gone in clear, and no call was damaged. */
static void stop(void)
{
    end_queries();
    assert_int_equal(tls_proxy->clear, 0);
    assert_int_equal(tls_proxy->in_clear, 0);
    assert_int_equal(tls_backend->bad_calls, 0);
    tls_stop();
}

TLS_TEST(calls_of_all_kinds)
{
    struct tls_proxy_options options = tls_options();
    start(&options);
    run_rounds(40, 1);
    assert_int_equal(tls_proxy->handshakes, 1);
    stop();
}

TLS_TEST(records_of_any_length)
{
    struct tls_proxy_options options = tls_options();
    options.record = 512;
    start(&options);
    run_rounds(8, 2);
    stop();
    options.record = 0;
    options.piece = 37;
    start(&options);
    run_rounds(2, 3);
    assert_int_equal(tls_proxy->handshakes, 1);
    stop();
}

/* Where the kernel makes the records, the first connection ends when the server updates its keys,
 * and OpenSSL makes those of the next one. */
static void run_with_updates(unsigned rounds, uint64_t seed)
{
    bool in_kernel = net_tls_facts(tls_client->channels[0]->tls)->in_kernel;
    run_rounds(rounds, seed);
    assert_int_equal(tls_proxy->handshakes, in_kernel ? 2 : 1);
    assert_false(net_tls_facts(tls_client->channels[0]->tls)->in_kernel);
}

TLS_TEST(keys_are_updated)
{
    struct tls_proxy_options options = tls_options();
    options.update_every = 3;
    start(&options);
    check_echo(tls_client, 3);
    run_with_updates(20, 4);
    stop();
}

/* The socket takes little: encrypted bytes wait, and the replies to calls before them come. */
TLS_TEST(a_full_socket_holds_nothing_back)
{
    struct tls_proxy_options options = tls_options();
    options.update_every = 2;
    start(&options);
    check_echo(tls_client, 3);
    int small = 32768;
    setsockopt(tls_client->channels[0]->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    run_with_updates(6, 5);
    stop();
}

/* For query_good(): as if a thread had waited. */
static void nothing_to_do(struct rpc_call *call)
{
    for (; call; call = call->next_unsent)
        atomic_store(&call->state, RPC_DONE);
}

static bool not_yet(void *unused)
{
    (void)unused;
    return false;
}

/* What is left to be sent without a thread that waits is sent by the one that drives. */
TLS_TEST(what_is_owed_is_sent_by_who_drives)
{
    struct tls_proxy_options options = tls_options();
    struct rpc_call *calls[2];
    start(&options);
    check_echo(tls_client, 3);
    struct net_channel *channel = tls_client->channels[0];
    int small = 32768;
    setsockopt(channel->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    atomic_store(&tls_proxy->deaf, true);
    for (int i = 0; i < 2; i++) {
        query_begin(&queries[i], WRITE, 10 + (uint32_t)i, RPC_PAYLOAD_MAX);
        queries[i].call.answered = nothing_to_do;
        calls[i] = &queries[i].call;
    }
    rpc_submit_on(channel, calls, 2);
    assert_int_equal(channel->outstanding, 2); /* and mostly net_tls_owes() */
    atomic_store(&tls_proxy->deaf, false);
    rpc_drive_all(&channel, 1, not_yet, NULL, 0);
    assert_int_equal(channel->outstanding, 0);
    assert_true(query_good(&queries[0]) && query_good(&queries[1]));
    stop();
}

/* Two channels driven by one thread: what is inside of a session is seen though poll() is silent.
 */
TLS_TEST(several_channels_are_driven)
{
    struct tls_proxy_options options = tls_options();
    start(&options);
    struct net_address address = loopback(tls_proxy->port);
    struct net_server_options more = scene_options("nas.example", 2, 0, NULL);
    struct net_server *client;
    more.tls = tls;
    assert_int_equal(net_server_create(&more, &address, 1, &client), 0);
    for (uint32_t round = 0; round < 30; round++) {
        struct net_channel *channels[2];
        for (int i = 0; i < DEPTH; i++) {
            struct rpc_call *call = &queries[i].call;
            query_begin(&queries[i], READ, round * DEPTH + (uint32_t)i, 2000 + round * 997u);
            call->answered = nothing_to_do;
            call->answered_ns = 0;
            rpc_submit(client, &call, 1);
        }
        channels[0] = client->channels[0];
        channels[1] = client->channel_count > 1 ? client->channels[1] : client->channels[0];
        rpc_drive_all(channels, 2, not_yet, NULL, 0);
        for (int i = 0; i < DEPTH; i++)
            assert_true(query_good(&queries[i]));
    }
    assert_int_equal(client->channel_count, 2);
    rpc_server_destroy(client);
    stop();
}

/* ---- connections end ---- */

static _Atomic bool cutting;

/* A connection is cut when it has brought something: else nothing would ever be done where time is
 * short. */
static void *cut_again_and_again(void *unused)
{
    uint64_t seed = 7;
    while (atomic_load(&cutting)) {
        unsigned before = tls_backend->replies, more = 1 + (unsigned)random_of(&seed, 20);
        while (atomic_load(&cutting) && tls_backend->replies - before < more)
            sys_nanosleep_ms(1);
        tls_proxy_cut(tls_proxy);
    }
    return unused;
}

TLS_TEST(connections_that_are_cut_lose_nothing)
{
    struct tls_proxy_options options = tls_options();
    pthread_t cutter;
    start(&options);
    atomic_store(&cutting, true);
    pthread_create(&cutter, NULL, cut_again_and_again, NULL);
    for (unsigned rounds = 0; tls_proxy->handshakes < 4 || rounds < 10; rounds++)
        run_rounds(1, 100 + rounds);
    atomic_store(&cutting, false);
    pthread_join(cutter, NULL);
    stop();
}

TLS_TEST(garbage_and_notices_of_the_end_only_cost_the_connection)
{
    struct tls_proxy_options options = tls_options();
    start(&options);
    run_rounds(1, 8);
    atomic_store(&tls_proxy->garbage, 1);
    run_rounds(1, 9);
    atomic_store(&tls_proxy->closing, 1);
    run_rounds(1, 10);
    assert_int_equal(tls_proxy->garbage + tls_proxy->closing, 0);
    assert_true(tls_proxy->handshakes >= 3);
    assert_int_equal(net_tls_fault(tls), NET_TLS_GOOD);
    stop();
}

/* ---- memory of the program ---- */

#ifdef __SANITIZE_THREAD__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

static void jump_out(int signal)
{
    (void)signal;
    if (sys_critical.guard)
        _longjmp(*sys_critical.guard, 1);
    _exit(99);
}

TLS_TEST(missing_memory_is_an_error_of_the_call)
{
    if (SANITIZED) /* its own handlers do not know the guard */
        skip();
    struct tls_proxy_options options = tls_options();
    struct sigaction action = {.sa_handler = jump_out, .sa_flags = SA_NODEFER}, before[2];
    start(&options);
    check_echo(tls_client, 1);
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    atomic_store(&sys_critical_caught, true);
    size_t size = 64 * 4096;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(memory + size / 2, size / 2);
    for (int i = 0; i < 2; i++) {
        enum procedure kinds[] = {READ, WRITE};
        query_begin(&queries[0], kinds[i], 5, size);
        queries[0].vectors[0] = (struct iovec){memory, size / 4};
        queries[0].vectors[1] = (struct iovec){memory + size / 4, size - size / 4};
        assert_int_equal(query_wait(tls_client, &queries[0], 0), -EFAULT);
        check_echo(tls_client, 2);
    }
    atomic_store(&sys_critical_caught, false);
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    munmap(memory, size / 2);
    atomic_store(&tls_backend->bad_calls, 0);
    stop();
}

/* ---- fork ---- */

TLS_TEST(a_child_has_connections_of_its_own)
{
    struct tls_proxy_options options = tls_options();
    start(&options);
    run_rounds(2, 11);
    for (unsigned child = 1; child <= 3; child++) {
        sys_foreign_fork_begin();
        sys_foreign_fork_prepare();
        pid_t pid = fork();
        if (pid == 0) {
            sys_foreign_fork_child();
            rpc_after_fork(tls_client);
            net_server_after_fork(tls_client);
            alarm(WATCHDOG_S);
            struct query query = {0};
            query_begin(&query, READ, 77, 100000);
            int error = query_wait(tls_client, &query, 0);
            _exit(error == 0 && query_good(&query) ? 0 : 1);
        }
        sys_foreign_fork_parent();
        sys_foreign_fork_end();
        run_rounds(1, 11 + child);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(tls_proxy->handshakes, 1 + child);
        run_rounds(1, 21 + child);
    }
    stop();
}

/* ---- handlers ---- */

/* As the trampoline of src/preload notes it: the frame that called the handler. */
__attribute__((noinline)) static void in_handler(void (*body)(void))
{
    sys_critical.handler = __builtin_frame_address(0);
    body();
    sys_critical.handler = NULL;
}

static void three_rounds(void)
{
    assert_true(sys_critical_in_handler());
    run_rounds(3, 31);
}

TLS_TEST(handlers_have_another_thread_do_it)
{
    struct tls_proxy_options options = tls_options();
    start(&options);
    in_handler(three_rounds); /* with the handshake */
    run_rounds(3, 32);
    in_handler(three_rounds);
    run_rounds(1, 33);
    assert_int_equal(tls_proxy->handshakes, 1);
    tls_proxy_cut(tls_proxy);
    in_handler(three_rounds);
    stop();
}

int main(void)
{
    return tls_tests_run();
}
