/* What must not hang when TLS, or its library, fails. */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <sys/wait.h>

#include "net/tls/parts.h"
#include "sys/critical.h"
#include "sys/foreign.h"
#include "tls_scene.h"

static void start(void)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.kernel = false; /* the library makes the records */
    tls_start(&settings, &options);
    check_echo(tls_client, 1);
}

/* As the trampoline of src/preload notes it: the frame that called the handler. */
__attribute__((noinline)) static int in_handler(int (*body)(void))
{
    sys_critical.handler = __builtin_frame_address(0);
    int result = body();
    sys_critical.handler = NULL;
    return result;
}

/* What a child of fork() says that runs `body`: its exit status. */
static int in_child(int (*body)(void))
{
    sys_foreign_fork_begin();
    sys_foreign_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        sys_foreign_fork_child();
        rpc_after_fork(tls_client);
        net_server_after_fork(tls_client);
        alarm(WATCHDOG_S);
        _exit(body());
    }
    sys_foreign_fork_parent();
    sys_foreign_fork_end();
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A call that waits for ever: its error. */
static int one_call(void)
{
    struct query query = {0};
    query_begin(&query, READ, 77, 100000);
    int error = query_wait(tls_client, &query, 0);
    bool good = error != 0 || query_good(&query);
    query_free(&query);
    return good ? -error : 255;
}

/* ---- the library fails while it sends ---- */

static int (*real_write)(SSL *, const void *, int);
static _Atomic unsigned failures;

static int failing_write(SSL *ssl, const void *from, int length)
{
    if (atomic_load(&failures) == 0)
        return real_write(ssl, from, length);
    atomic_fetch_sub(&failures, 1);
    ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
    return -1;
}

TLS_TEST(a_session_that_cannot_send_is_given_up)
{
    start();
    struct tls_library *library = (struct tls_library *)tls_library();
    real_write = library->SSL_write;
    library->SSL_write = failing_write;
    for (unsigned i = 1; i <= 3; i++) {
        atomic_store(&failures, 1);
        assert_int_equal(one_call(), 0);
        assert_int_equal(tls_proxy->handshakes, 1 + i);
    }
    library->SSL_write = real_write;
    tls_stop();
}

/* A key encrypts no more than it should. */
TLS_TEST(our_key_is_updated)
{
    start();
    struct net_tls_session *session = tls_client->channels[0]->tls;
    session->records = TLS_RECORDS_MAX - 2;
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(one_call(), 0);
    assert_in_range(session->records, 1, 7);
    assert_int_equal(tls_proxy->handshakes, 1);
    tls_stop();
}

/* ---- no attempt is worth another one ---- */

TLS_TEST(who_waits_for_a_time_learns_of_a_bad_certificate_at_once)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    struct query query = {0};
    options.certificate = tls_file(EXPIRED);
    options.key = tls_key_of(EXPIRED);
    tls_start(&settings, &options);
    for (unsigned i = 1; i <= 2; i++) {
        query_begin(&query, ECHO, 7, 0);
        assert_int_equal(query_wait(tls_client, &query, 20000), -EKEYREVOKED);
        assert_int_equal(tls_proxy->count, i);
    }
    query_free(&query);
    tls_stop();
}

/* ---- handlers ---- */

/* More than a handler may leave to be encrypted. */
static int long_writes(void)
{
    enum { WRITES = 4 };
    static struct query queries[WRITES];
    struct rpc_call *calls[WRITES];
    bool good = true;
    for (int i = 0; i < WRITES; i++) {
        query_begin(&queries[i], WRITE, 10 + (uint32_t)i, RPC_PAYLOAD_MAX);
        calls[i] = &queries[i].call;
    }
    rpc_submit(tls_client, calls, WRITES);
    rpc_wait(calls, WRITES);
    for (int i = 0; i < WRITES; i++) {
        good = good && query_good(&queries[i]);
        query_free(&queries[i]);
    }
    return good ? 0 : 1;
}

TLS_TEST(a_handler_may_write_much)
{
    start();
    assert_int_equal(in_handler(long_writes), 0);
    assert_int_equal(tls_backend->bad_calls, 0);
    assert_int_equal(tls_proxy->handshakes, 1);
    tls_stop();
}

static int calls_in_handler(void)
{
    int in = in_handler(one_call), out = one_call(); /* which starts the thread aside */
    if (in != ELIBSCN || out != 0 || in_handler(one_call) != 0)
        return 1;
    sys_foreign_fork_child(); /* as if the thread could not be started: the session is there */
    return in_handler(one_call) == ELIBSCN ? 0 : 2;
}

TLS_TEST(a_child_that_is_in_handlers_only_gets_errors)
{
    start();
    assert_int_equal(in_child(calls_in_handler), 0);
    tls_stop();
}

/* ---- the library is gone ---- */

static int call_after_cleanup(void)
{
    OPENSSL_cleanup();
    return one_call();
}

TLS_TEST(calls_end_when_the_program_has_shut_the_library_down)
{
    start();
    assert_int_equal(in_child(call_after_cleanup), ELIBACC);
    tls_stop();
}

static int call_without_library(void)
{
    int error = one_call();
    return error == ELIBACC ? one_call() : 1;
}

static _Atomic bool inside, over;

static void *stay_inside(void *unused)
{
    assert_true(sys_foreign_enter(SYS_FOREIGN_TLS));
    atomic_store(&inside, true);
    while (!atomic_load(&over))
        sys_nanosleep_ms(1);
    sys_foreign_leave(SYS_FOREIGN_TLS);
    return unused;
}

TLS_TEST(calls_end_in_a_child_that_lost_the_library)
{
    pthread_t thread;
    start();
    pthread_create(&thread, NULL, stay_inside, NULL);
    while (!atomic_load(&inside))
        sys_nanosleep_ms(1);
    assert_int_equal(in_child(call_without_library), ELIBACC);
    assert_int_equal(tls_proxy->count, 1); /* nobody is asked in vain */
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    tls_stop();
}

int main(void)
{
    return tls_tests_run();
}
