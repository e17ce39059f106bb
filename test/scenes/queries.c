/* See queries.h. */
#include "queries.h"

const struct rpc_auth *query_auth;

void query_begin(struct query *query, enum procedure procedure, uint32_t token, size_t length)
{
    static struct rpc_auth auth;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (auth.length == 0)
        rpc_auth_sys(&auth, "test", 0, 0, NULL, 0);
    pthread_mutex_unlock(&once);
    query->procedure = procedure;
    query->token = token % TOKENS;
    query->length = length;
    if (procedure != ECHO && length > query->room) {
        free(query->memory);
        query->memory = malloc(length);
        assert_non_null(query->memory);
        query->room = length;
    }
    struct bytes arguments = {0};
    put_word(&arguments, query->token);
    if (procedure != ECHO)
        put_word(&arguments, (uint32_t)length);
    uint8_t *at =
        rpc_call_begin(&query->call, query_auth ? query_auth : &auth, 0x20000001, 1, procedure);
    memcpy(at, arguments.data, arguments.length);
    rpc_call_end(&query->call, at + arguments.length);
    free(arguments.data);
    if (procedure == ECHO)
        return;
    query->vectors[0] = (struct iovec){query->memory, length / 3};
    query->vectors[1] = (struct iovec){query->memory + length / 3, length - length / 3};
    if (procedure == READ) {
        memset(query->memory, 0x99, length);
        query->call.find_payload = find_read_payload;
        query->call.destination = query->vectors;
        query->call.destination_count = 2;
        query->call.destination_length = query->call.certain = length;
    } else {
        for (size_t i = 0; i < length; i++)
            query->memory[i] = payload_byte(query->token, i);
        query->call.payload = query->vectors;
        query->call.payload_count = 2;
        query->call.payload_length = length;
    }
}

bool query_good(const struct query *query)
{
    const struct rpc_call *call = &query->call;
    if (call->error != 0 || atomic_load(&call->state) != RPC_DONE)
        return false;
    if (query->procedure != READ)
        return call->results_length == 8 && rpc_word(call->results) == query->token &&
               rpc_word(call->results + 4) == (query->procedure == ECHO ? query->token + 1 : 1);
    if (call->received != query->length)
        return false;
    for (size_t i = 0; i < query->length; i++) {
        if (query->memory[i] != payload_byte(query->token, i))
            return false;
    }
    return true;
}

void query_free(struct query *query)
{
    free(query->memory);
    memset(query, 0, sizeof(*query));
}

struct net_address loopback(in_port_t port)
{
    struct net_address address;
    memset(&address, 0, sizeof(address));
    struct sockaddr_in peer = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memcpy(&address.peer, &peer, sizeof(peer));
    strcpy(address.peer_text, "127.0.0.1");
    return address;
}

struct net_server *client_new(in_port_t port, unsigned connections, unsigned retransmit_timeout_s)
{
    struct net_address address = loopback(port);
    struct net_server_options options = {.name = "scripted",
                                         .connections_max = connections,
                                         .port_policy = NET_PORT_ANY,
                                         .reconnect_max_s = 1,
                                         .retransmit_timeout_s = retransmit_timeout_s};
    struct net_server *client;
    assert_int_equal(net_server_create(&options, &address, 1, &client), 0);
    return client;
}

int query_wait(struct net_server *client, struct query *query, int timeout_ms)
{
    struct rpc_call *call = &query->call;
    rpc_submit(client, &call, 1);
    if (timeout_ms > 0)
        rpc_wait_for(&call, 1, timeout_ms);
    else
        rpc_wait(&call, 1);
    return query->call.error;
}

void *wait_for_one(void *context)
{
    struct rpc_call *call = context;
    rpc_wait(&call, 1);
    return NULL;
}

_Atomic int call_ended;

void note_call_end(struct rpc_call *call)
{
    atomic_store(&call_ended, call->error ? call->error : 1);
}

bool call_has_ended(void *unused)
{
    (void)unused;
    return atomic_load(&call_ended) != 0;
}

void check_echo(struct net_server *client, uint32_t token)
{
    struct query query = {0};
    query_begin(&query, ECHO, token, 0);
    assert_int_equal(query_wait(client, &query, 0), 0);
    assert_true(query_good(&query));
}

int watchdog_start(void **state)
{
    (void)state;
    alarm(WATCHDOG_S);
    return 0;
}

int watchdog_stop(void **state)
{
    (void)state;
    alarm(0);
    return 0;
}
