/* See secure_channel.h. */
#include "secure_channel.h"

#include <stdlib.h>

int secure_open(void **state)
{
    secure_begin();
    secure.server = server_start(&(struct script){.answer = secure_answer});
    secure.client = client_new(secure.server->port, 1, 60);
    secure.client->options.kerberos_only = true;
    return watchdog_start(state);
}

int secure_close(void **state)
{
    query_auth = NULL;
    rpc_server_destroy(secure.client);
    server_stop(secure.server);
    return watchdog_stop(state);
}

static uint32_t last_token = 1000;

void secure_exchange(unsigned count, unsigned rounds)
{
    static const size_t lengths[] = {1, 5, 512, 8192, 70001, 1 << 20};
    struct query *queries = calloc(count, sizeof(*queries));
    struct rpc_call **calls = calloc(count, sizeof(struct rpc_call *));
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < count; i++) {
            uint32_t token = ++last_token; /* the server knows by it whether an xid changed */
            enum procedure procedure = token % 3 == 0 ? ECHO : token % 3 == 1 ? READ : WRITE;
            query_begin(&queries[i], procedure, token, lengths[token / 3 % (count > 8 ? 4 : 6)]);
            calls[i] = &queries[i].call;
        }
        rpc_submit(secure.client, calls, count);
        rpc_wait(calls, count);
        for (unsigned i = 0; i < count; i++)
            assert_true(query_good(&queries[i]));
    }
    for (unsigned i = 0; i < count; i++)
        query_free(&queries[i]);
    free(queries);
    free(calls);
}

void secure_check(void)
{
    assert_int_equal(secure.outside, 0);
    assert_int_equal(secure.forged, 0);
    assert_int_equal(secure.in_clear, 0);
    assert_int_equal(secure.server->bad_calls, 0);
}
