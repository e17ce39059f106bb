/* See tls_scene.h. */
#include "tls_scene.h"

static char directory[64];
static char paths[TLS_FILE_NAMES][128], keys[TLS_FILE_NAMES][128];

struct server *tls_backend;
struct tls_proxy *tls_proxy;
struct net_tls *tls;
struct net_server *tls_client;

const char *tls_file(enum tls_file_name name)
{
    return paths[name];
}

const char *tls_key_of(enum tls_file_name name)
{
    return keys[name];
}

static const char *const file_names[TLS_FILE_NAMES] = {
    [CA] = "ca",
    [OTHER_CA] = "other-ca",
    [GOOD] = "good",
    [GOOD_KEY] = "good.key",
    [OTHER_NAME] = "other-name",
    [EXPIRED] = "expired",
    [NOT_YET] = "not-yet",
    [STRANGE] = "strange",
    [REVOKED] = "revoked",
    [WILD] = "wild",
    [CLIENT] = "client",
    [CLIENT_KEY] = "client.key",
    [BAD_CLIENT] = "bad-client",
    [LISTS] = "lists",
    [EMPTY_LISTS] = "empty-lists",
    [OLD_LISTS] = "old-lists",
    [JUNK] = "junk",
};

static struct certificate make(enum tls_file_name file, const struct certificate_wish *wish)
{
    struct certificate made = certificate_make(wish);
    certificate_write(&made, NULL, paths[file], keys[file]);
    return made;
}

static void make_files(void)
{
    enum { HOUR = CERTIFICATE_HOUR };
    for (int i = 0; i < TLS_FILE_NAMES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", directory, file_names[i]);
        snprintf(keys[i], sizeof(keys[i]), "%s/%s.key", directory, file_names[i]);
    }
    struct certificate ca = make(CA, &(struct certificate_wish){"ca", .authority = true});
    struct certificate other =
        make(OTHER_CA, &(struct certificate_wish){"other ca", .authority = true});
    static const char names[] = "DNS:nas.example,IP:127.0.0.1,DNS:" LONG_NAME;
    struct certificate others[] = {
        make(GOOD, &(struct certificate_wish){"nas", names, 0, 2 * HOUR, &ca, false}),
        make(OTHER_NAME,
             &(struct certificate_wish){"x", "DNS:x.example,IP:127.0.0.2", 0, 0, &ca, false}),
        make(EXPIRED, &(struct certificate_wish){"nas", names, -2 * HOUR, -HOUR, &ca, false}),
        make(NOT_YET, &(struct certificate_wish){"nas", names, HOUR, 2 * HOUR, &ca, false}),
        make(STRANGE, &(struct certificate_wish){"nas", names, 0, 0, &other, false}),
        make(WILD, &(struct certificate_wish){"wild", "DNS:*.example.com,DNS:na*.example", 0, 0,
                                              &ca, false}),
        make(CLIENT, &(struct certificate_wish){"client", NULL, 0, 3 * HOUR, &ca, false}),
        make(BAD_CLIENT, &(struct certificate_wish){"client", NULL, 0, 0, &other, false}),
    };
    struct certificate revoked =
        make(REVOKED, &(struct certificate_wish){"nas", names, 0, 0, &ca, false});
    certificate_revoke(&ca, &revoked, HOUR, paths[LISTS]);
    certificate_revoke(&ca, NULL, HOUR, paths[EMPTY_LISTS]);
    certificate_revoke(&ca, NULL, -60, paths[OLD_LISTS]);
    FILE *lists = fopen(paths[LISTS], "a"), *junk = fopen(paths[JUNK], "w");
    assert_true(lists && junk && PEM_write_X509(lists, other.x509) == 1);
    fprintf(junk, "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n");
    fclose(lists);
    fclose(junk);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        certificate_free(&others[i]);
    certificate_free(&revoked);
    certificate_free(&ca);
    certificate_free(&other);
}

struct net_tls_settings tls_settings(void)
{
    return (struct net_tls_settings){
        .require = true, .ca = tls_file(CA), .server = "nas.example", .kernel = true};
}

struct tls_proxy_options tls_options(void)
{
    return (struct tls_proxy_options){
        .certificate = tls_file(GOOD), .key = tls_key_of(GOOD), .protocol = "sunrpc"};
}

static struct net_server *new_client(unsigned connections)
{
    struct net_address address = loopback(tls_proxy->port);
    struct net_server_options options = scene_options("nas.example", connections, 0, NULL);
    struct net_server *client;
    options.tls = tls;
    assert_int_equal(net_server_create(&options, &address, 1, &client), 0);
    return client;
}

void tls_start(const struct net_tls_settings *settings, const struct tls_proxy_options *options)
{
    struct tls_proxy_options own = *options;
    tls_backend = server_start(&(struct script){.order = IN_ORDER});
    own.backend = tls_backend->port;
    tls_proxy = tls_proxy_start(&own);
    tls = net_tls_new(settings);
    assert_non_null(tls);
    assert_int_equal(net_tls_load(NULL), 0);
    tls_client = new_client(1);
}

void tls_stop(void)
{
    rpc_server_destroy(tls_client);
    tls_proxy_stop(tls_proxy);
    server_stop(tls_backend);
    net_tls_free(tls);
}

enum net_tls_fault tls_try(const struct net_tls_settings *settings,
                           const struct tls_proxy_options *options, struct net_tls_facts *facts)
{
    struct net_tls_session *session;
    struct net_tls_facts unwanted;
    tls_start(settings, options);
    struct net_address address = loopback(tls_proxy->port);
    struct net_tls_peer peer = {.written = "127.0.0.1",
                                .program = 100003,
                                .version = 3,
                                .timeout_ms = 10000,
                                .hidden = true,
                                .facts = facts ? facts : &unwanted};
    int fd = net_connect(&address, NET_PORT_ANY, 5000);
    assert_true(fd >= 0);
    int result = net_tls_begin(tls, fd, &peer, &session);
    bool clear = peer.fault == NET_TLS_REFUSED && !settings->require;
    assert_int_equal(result, clear ? 0 : net_tls_errno(peer.fault));
    assert_true((session != NULL) == (peer.fault == NET_TLS_GOOD));
    if (session)
        net_tls_close(session);
    else if (result == 0)
        close(fd);
    tls_stop();
    return peer.fault;
}

/* A call that fails takes all of its time, and one that succeeds may need more of it. */
int tls_call(void)
{
    struct query query = {0};
    int error = -ETIMEDOUT;
    for (int ms = 100; error == -ETIMEDOUT; ms *= 2) {
        query_begin(&query, ECHO, 7, 0);
        error = query_wait(tls_client, &query, ms);
    }
    assert_true(error != 0 || query_good(&query));
    query_free(&query);
    return error;
}

static int before(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/test_tls.XXXXXX");
    assert_non_null(mkdtemp(directory));
    make_files();
    return 0;
}

static int after(void **state)
{
    char remove[96];
    (void)state;
    snprintf(remove, sizeof(remove), "rm -rf %s", directory);
    return system(remove);
}

int tls_tests_run(void)
{
    char run[64], remove[80];
    strcpy(run, "/dev/shm/test_tls.XXXXXX");
    log_open("/dev/null");
    if (!mkdtemp(run) || setenv("DIRECTNFS_RUN", run, 1) != 0)
        return 1;
    int result = unit_run(before, after);
    snprintf(remove, sizeof(remove), "rm -rf %s", run);
    return system(remove) != 0 || result != 0;
}
