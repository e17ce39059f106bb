/*
 * A server of NFSv4.1 refuses AUTH_SYS (NFS4ERR_WRONGSEC): which security it takes is asked where
 * it refused, and said in the words of the nfstab.
 */
#include <errno.h>

#include "config/tunables.h"
#include "nfs/v4/session.h"
#include "nfs/v4/types.h"
#include "reach/flavors.h"
#include "reach/server.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "unit.h"
#include "v41_server.h"

enum { ALWAYS = 1 << 30 };

static struct v41_server *server;
static struct v41_control *control;
static struct nfs_client client;
static struct rpc_auth auth;

static int begin(void **unused)
{
    (void)unused;
    static const struct conf_tunables tunables = {.retransmit_timeout = 60};
    alarm(600);
    log_set_level(LOG_LEVEL_ERROR);
    server = v41_server_start(NULL, INADDR_LOOPBACK, 0);
    control = server->control;
    pthread_mutex_lock(&server->lock);
    v41_node_at(&server->state.store, "/export/below/file");
    pthread_mutex_unlock(&server->lock);
    struct net_address address = {.peer_text = "127.0.0.1"};
    *(struct sockaddr_in *)&address.peer =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons(server->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    client = (struct nfs_client){.version = &nfs_version41,
                                 .session = nfs4_session_new(NULL, NULL),
                                 .auth = &auth,
                                 .timeout_ms = 60000};
    assert_int_equal(reach_over(&address, NET_PORT_ANY, 2, &tunables, NULL, &client.server), 0);
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    assert_int_equal(control->bad_calls, 0);
    rpc_server_destroy(client.server);
    sys_free(client.session);
    v41_server_stop(server);
    alarm(0);
    return 0;
}

#define FLAVORS_TEST(name) UNIT_TEST_WITH(name, begin, end)

/* From now on the server refuses this operation. */
static void refuse(uint32_t op, uint32_t status)
{
    atomic_store(&control->fail_status[op], status);
    atomic_store(&control->fail_count[op], ALWAYS);
}

static void takes(const char *directory, const char *expected)
{
    char text[REACH_FLAVORS_BYTES];
    assert_string_equal(reach_flavors_ask(&client, directory, text), expected);
}

FLAVORS_TEST(a_name_that_is_refused_is_asked_for)
{
    struct nfs_fh root;
    atomic_store(&control->services, 6);
    refuse(V41_LOOKUP, V41_WRONGSEC);
    assert_int_equal(client.version->root(&client, "/export/below", &root), -EKEYREJECTED);
    takes("/export/below", "krb5i, krb5p");
    assert_int_equal(control->calls[V41_SECINFO], 1);
    assert_int_equal(control->calls[V41_SECINFO_NO_NAME], 0);
}

FLAVORS_TEST(a_root_that_is_refused_is_asked_for)
{
    struct nfs_fh root;
    atomic_store(&control->flavor, 6);
    refuse(V41_GETFH, V41_WRONGSEC);
    assert_int_equal(client.version->root(&client, "/export", &root), -EKEYREJECTED);
    takes("/export", "krb5");
    assert_int_equal(control->calls[V41_SECINFO_NO_NAME], 1);
}

FLAVORS_TEST(a_directory_that_is_there_is_asked_for)
{
    atomic_store(&control->flavor, 1);
    takes("/export/below", "sys");
    takes("/", "sys");
    assert_int_equal(control->calls[V41_SECINFO_NO_NAME], 2);
    assert_int_equal(control->calls[V41_SECINFO], 0);
}

/* What it does not tell is no reason for another error. */
FLAVORS_TEST(a_server_need_not_tell)
{
    refuse(V41_LOOKUP, V41_WRONGSEC);
    refuse(V41_SECINFO, V41_WRONGSEC);
    takes("/export", "");
    takes("/gone", "");
    refuse(V41_SECINFO, V41_NOTSUPP);
    takes("/export", "");
}

UNIT_TEST(flavors_have_the_names_of_the_nfstab)
{
    static const uint32_t all[] = {1, 390003, 390004, 390005, 0, 6, 390006};
    uint32_t many[NFS_FLAVORS_MAX];
    char text[REACH_FLAVORS_BYTES];
    assert_string_equal(reach_flavors_text(all, 7, text),
                        "sys, krb5, krb5i, krb5p, none, flavor 6, flavor 390006");
    assert_string_equal(reach_flavors_text(all, 0, text), "");
    for (unsigned i = 0; i < NFS_FLAVORS_MAX; i++)
        many[i] = UINT32_MAX;
    assert_int_equal(strlen(reach_flavors_text(many, NFS_FLAVORS_MAX, text)),
                     REACH_FLAVORS_BYTES - 1);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
