/*
 * Sessions whose records the kernel makes (kTLS). Where it cannot, only the keys are looked at; the
 * rest runs in a guest, whose kernel can: test/vm/tls.
 */
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/ioctl.h>

#include "net/tls/parts.h"
#include "sys/critical.h"
#include "sys/foreign.h"
#include "tls_scene.h"

/* ---- keys ---- */

/* RFC 8448, section 3: client_application_traffic_secret_0, and what is made from it. */
TLS_TEST(keys_are_those_of_the_rfc)
{
    static const uint8_t secret[] = {0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d,
                                     0xc0, 0x5a, 0xf8, 0x88, 0x9b, 0xce, 0x65, 0x52,
                                     0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf, 0x00, 0x87,
                                     0xf7, 0x92, 0xeb, 0xb7, 0xc1, 0x75, 0x04, 0xa5};
    static const uint8_t expected[] = {0x17, 0x42, 0x2d, 0xda, 0x59, 0x6e, 0xd5, 0xd9,
                                       0xac, 0xd8, 0x90, 0xe3, 0xc6, 0x3f, 0x50, 0x51};
    static const uint8_t expected_iv[] = {0x5b, 0x78, 0x92, 0x3d, 0xee, 0x08,
                                          0x57, 0x90, 0x33, 0xe5, 0x23, 0xd9};
    const struct tls_expansion from = {"SHA256", secret, sizeof(secret)};
    uint8_t key[sizeof(expected)], iv[sizeof(expected_iv)];
    assert_int_equal(net_tls_load(NULL), 0);
    assert_true(tls_kernel_keys(tls_library(), &from, key, sizeof(key), iv));
    assert_memory_equal(key, expected, sizeof(key));
    assert_memory_equal(iv, expected_iv, sizeof(iv));
}

/* ---- with such a kernel ---- */

static void start(bool kernel)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.kernel = kernel;
    tls_start(&settings, &options);
    check_echo(tls_client, 1);
}

static struct net_tls_session *session(void)
{
    return tls_client->channels[0]->tls;
}

/* A good call of each kind. */
static void calls(void)
{
    const enum procedure kinds[] = {ECHO, READ, WRITE};
    for (unsigned i = 0; i < 3; i++) {
        struct query query = {0};
        query_begin(&query, kinds[i], 10 + i, 100000);
        assert_int_equal(query_wait(tls_client, &query, 0), 0);
        assert_true(query_good(&query));
        query_free(&query);
    }
}

static void stop(unsigned handshakes)
{
    assert_int_equal(tls_proxy->handshakes, handshakes);
    assert_int_equal(tls_proxy->clear, 0);
    assert_int_equal(tls_backend->bad_calls, 0);
    tls_stop();
}

TLS_TEST(the_kernel_makes_the_records)
{
    start(true);
    assert_true(net_tls_facts(session())->in_kernel);
    assert_null(session()->ssl);
    assert_null(session()->secrets);
    assert_non_null(strstr(tls_client->channels[0]->stats->tls, " kTLS"));
    calls();
    stop(1);
}

TLS_TEST(it_does_not_where_it_shall_not)
{
    start(false);
    assert_false(net_tls_facts(session())->in_kernel);
    assert_null(strstr(tls_client->channels[0]->stats->tls, "kTLS"));
    calls();
    stop(1);
}

/* As the trampoline of src/preload notes it: the frame that called the handler. */
__attribute__((noinline)) static void in_handler(void (*body)(void))
{
    sys_critical.handler = __builtin_frame_address(0);
    body();
    sys_critical.handler = NULL;
}

/* No thread aside is needed, nor the library. */
TLS_TEST(handlers_use_the_session_themselves)
{
    start(true);
    sys_foreign_shut(SYS_FOREIGN_TLS, 0);
    in_handler(calls);
    assert_null(atomic_load(&session()->hand));
    stop(1);
}

TLS_TEST(a_key_is_not_used_too_often)
{
    start(true);
    session()->blocks = TLS_BLOCKS_MAX - 10;
    calls();
    assert_true(session()->blocks < TLS_BLOCKS_MAX / 2);
    assert_true(net_tls_facts(session())->in_kernel);
    stop(2);
}

/* The kernel may not disconnect such a socket. Its readers learn of the end all the same. */
TLS_TEST(a_connection_can_be_reset)
{
    start(true);
    struct net_channel *channel = tls_client->channels[0];
    struct pollfd poll = {.fd = channel->fd, .events = POLLIN};
    assert_true(net_tls_facts(session())->in_kernel);
    net_channel_reset(channel);
    do
        assert_int_equal(sys_poll(&poll, 1, -1), 1);
    while (net_tls_receive(session(), &(struct iovec){(uint8_t[1]){0}, 1}, 1, false) == -EAGAIN);
    calls();
    stop(2);
}

/* Sends until nothing more is taken for a while. */
static uint64_t fill_socket(void)
{
    enum { OFTEN = 20, PAUSE_MS = 10 };
    static uint8_t bytes[65536];
    const struct iovec vector = {bytes, sizeof(bytes)};
    uint64_t sent = 0;
    for (int refused = 0; refused < OFTEN;) {
        ssize_t got = net_tls_send(session(), &vector, 1);
        sent += got > 0 ? (uint64_t)got : 0;
        refused = got > 0 ? 0 : refused + 1;
        if (got <= 0)
            sys_nanosleep_ms(PAUSE_MS);
    }
    return sent;
}

/* What waits in the socket is not sent when the server reads again, also if a process that was
 * forked has a copy. */
TLS_TEST(what_is_queued_ends_with_a_reset)
{
    start(true);
    struct net_channel *channel = tls_client->channels[0];
    atomic_store(&tls_proxy->deaf, true);
    uint64_t sent = fill_socket();
    struct pollfd copy = {.fd = dup(channel->fd)};
    net_channel_reset(channel);
    atomic_store(&tls_proxy->deaf, false);
    assert_int_equal(sys_poll(&copy, 1, -1), 1); /* the connection has ended */
    assert_true(tls_proxy->bytes < sent);
    close(copy.fd);
    tls_stop();
}

/* ---- what goes wrong ---- */

static int (*real_derive)(EVP_KDF_CTX *, unsigned char *, size_t, const OSSL_PARAM *);
static _Atomic int good; /* so many are good before one that fails */

static int failing_derive(EVP_KDF_CTX *context, unsigned char *value, size_t length,
                          const OSSL_PARAM *parameters)
{
    if (atomic_fetch_sub(&good, 1) != 0)
        return real_derive(context, value, length, parameters);
    ERR_raise(ERR_LIB_EVP, ERR_R_MALLOC_FAILURE);
    return 0;
}

/* Without any key OpenSSL makes the records. With those of one direction the connection is of no
 * use, and OpenSSL makes those of the next one. */
TLS_TEST(it_makes_all_records_or_none)
{
    enum { KEY_AND_IV = 2 };
    assert_int_equal(net_tls_load(NULL), 0);
    struct tls_library *library = (struct tls_library *)tls_library();
    real_derive = library->EVP_KDF_derive;
    library->EVP_KDF_derive = failing_derive;
    for (int before = 0; before <= KEY_AND_IV; before += KEY_AND_IV) {
        atomic_store(&good, before);
        start(true);
        assert_false(net_tls_facts(session())->in_kernel);
        calls();
        stop(before ? 2 : 1);
    }
    library->EVP_KDF_derive = real_derive;
}

/* A server that asks for other keys once a day is served by the kernel again. */
TLS_TEST(a_server_may_update_its_keys_rarely)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    options.update_every = 2;
    tls_start(&settings, &options);
    check_echo(tls_client, 1);
    session()->began_ns = sys_now_ns() - UINT64_C(100000000000);
    while (tls_proxy->handshakes == 1)
        check_echo(tls_client, 1);
    assert_true(net_tls_facts(session())->in_kernel);
    calls(); /* here it asked again, too soon */
    calls();
    assert_false(net_tls_facts(session())->in_kernel);
    stop(3);
}

/* A connection of its own to the proxy, and its session. */
static struct net_tls_session *connect_alone(void)
{
    struct net_tls_session *made;
    struct net_address address = loopback(tls_proxy->port);
    struct net_tls_peer peer = {
        .written = "127.0.0.1", .program = 100003, .version = 3, .timeout_ms = 10000};
    int fd = net_connect(&address, NET_PORT_ANY, 5000);
    assert_true(fd >= 0);
    assert_int_equal(net_tls_begin(tls, fd, &peer, &made), 0);
    assert_true(net_tls_facts(made)->in_kernel);
    return made;
}

/* Takes the tickets that the server sends after the handshake. */
static void take_tickets(struct net_tls_session *alone, const struct iovec *vectors, int count)
{
    enum { TICKETS = 2 }; /* OpenSSL's default */
    const struct tls_control *control = &alone->control;
    struct pollfd poll = {.fd = net_tls_descriptor(alone), .events = POLLIN};
    for (unsigned tickets = 0; tickets < TICKETS;) {
        assert_int_equal(sys_poll(&poll, 1, -1), 1);
        assert_int_equal(net_tls_receive(alone, vectors, count, false), -EAGAIN);
        tickets += control->type == 22 && control->have == 0 && control->left == 0;
    }
}

/* They are no data, however they are taken. */
TLS_TEST(tickets_are_no_data)
{
    uint8_t bytes[100];
    struct iovec vectors[] = {{bytes, 1}, {bytes + 1, 2}};
    start(true);
    struct net_tls_session *alone = connect_alone();
    take_tickets(alone, vectors, 2);
    net_tls_close(alone);
    alone = connect_alone();
    vectors[1].iov_len = sizeof(bytes) - 1;
    take_tickets(alone, vectors, 2);
    net_tls_close(alone);
    tls_stop();
}

/* A part of a record may be an event for poll(). Threads must not spin until the rest comes. */
TLS_TEST(a_record_that_does_not_end_costs_little)
{
    enum { ATTEMPTS = 264, FREE = 64 };
    static const uint8_t begun[] = {23, 3, 3, 0x20, 0, 1, 2, 3};
    uint8_t bytes[100];
    struct iovec vector = {bytes, sizeof(bytes)};
    start(true);
    struct net_tls_session *alone = connect_alone();
    take_tickets(alone, &vector, 1);
    int fd = tls_proxy->fds[tls_proxy->count - 1], have = 0;
    assert_int_equal(send(fd, begun, sizeof(begun), 0), sizeof(begun));
    while (have == 0)
        assert_int_equal(ioctl(net_tls_descriptor(alone), FIONREAD, &have), 0);
    uint64_t start_ns = sys_now_ns();
    for (int i = 0; i < ATTEMPTS; i++)
        assert_int_equal(net_tls_receive(alone, &vector, 1, false), -EAGAIN);
    assert_true(sys_now_ns() - start_ns >= (ATTEMPTS - FREE) * UINT64_C(1000000));
    net_tls_close(alone);
    tls_stop();
}

static bool kernel_has_tls(void)
{
    struct server *server = server_start(&(struct script){.order = IN_ORDER});
    struct net_address address = loopback(server->port);
    int fd = net_connect(&address, NET_PORT_ANY, 5000);
    bool has = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) == 0;
    close(fd);
    server_stop(server);
    return has;
}

int main(void)
{
    if (!kernel_has_tls())
        setenv("TEST_FILTER", "keys_*", 1);
    return tls_tests_run();
}
