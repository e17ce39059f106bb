/* See session_scene.h. */
#include "session_scene.h"

struct nfs_client session_client;

static struct rpc_auth auth;

const struct nfs_fh root = {1, {'r'}}, session_file = {1, {'f'}};

static int connect_client(void)
{
    static const struct conf_tunables tunables = {.retransmit_timeout = 60};
    struct net_address address = {.peer_text = "127.0.0.1"};
    struct sockaddr_in *in = (struct sockaddr_in *)&address.peer;
    *in = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)session_server.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    session_client = (struct nfs_client){.version = &nfs_version41,
                                         .session = nfs4_session_new(NULL, NULL),
                                         .auth = &auth,
                                         .read_max = 2 * BLOCK,
                                         .write_max = 2 * BLOCK,
                                         .timeout_ms = TIMEOUT_MS};
    assert_non_null(session_client.session);
    return reach_over(&address, NET_PORT_ANY, 4, &tunables, NULL, &session_client.server);
}

int session_enter(void **unused)
{
    (void)unused;
    log_set_level(LOG_LEVEL_ERROR);
    session_server_start();
    return connect_client();
}

int session_leave(void **unused)
{
    (void)unused;
    rpc_server_destroy(session_client.server);
    nfs4_open_forget(session_client.session);
    sys_free(session_client.session);
    session_server_stop();
    return 0;
}

void fail_next(uint32_t op, uint32_t status, uint32_t count)
{
    atomic_store(&session_server.fail_op, op);
    atomic_store(&session_server.fail_status, status);
    atomic_store(&session_server.fail_count, count);
}

unsigned asked(uint32_t op)
{
    return atomic_load(&session_server.ops[op]);
}

int transfer(bool write, uint64_t offset, uint8_t *data, size_t length,
             struct nfs_transfer *transfer)
{
    struct iovec vector = {data, length};
    struct nfs_data from = {.vectors = &vector, .count = 1, .length = length};
    return write ? nfs_write(&session_client, &session_file, offset, &from, NFS_FILE_SYNC, transfer)
                 : nfs_read(&session_client, &session_file, offset, &from, transfer);
}

void write_block(uint8_t byte, struct nfs_transfer *done)
{
    uint8_t data[BLOCK];
    memset(data, byte, sizeof(data));
    assert_int_equal(transfer(true, 0, data, sizeof(data), done), 0);
    assert_int_equal(done->length, sizeof(data));
}

void read_block(uint8_t byte)
{
    struct nfs_transfer done;
    uint8_t data[BLOCK] = {0};
    assert_int_equal(transfer(false, 0, data, sizeof(data), &done), 0);
    assert_int_equal(done.length, sizeof(data));
    for (size_t i = 0; i < sizeof(data); i++)
        assert_int_equal(data[i], byte);
}
