/* One call over a connection of its own. */
#include "rpc/message.h"
#include "rpc/rpc.h"
#include "net/pool.h"

int rpc_call_once(const struct net_address *address, enum net_port ports, struct net_tls *tls,
                  struct rpc_call *call, int timeout_ms)
{
    enum { PROGRAM_AT = 4 + 12, VERSION_AT = 4 + 16 }; /* behind the record mark */
    struct net_server_options options = {.name = address->peer_text,
                                         .connections_max = 1,
                                         .port_policy = ports,
                                         .retransmit_timeout_s = (unsigned)timeout_ms / 1000 + 2,
                                         .tls = tls,
                                         .tls_program = rpc_word(call->head + PROGRAM_AT),
                                         .tls_version = rpc_word(call->head + VERSION_AT),
                                         .hidden = true,
                                         .kerberos_only = call->identity != NULL,
                                         .once = true};
    struct net_server *server;
    int result = net_server_create(&options, address, 1, &server);
    if (result != 0)
        return result;
    rpc_submit(server, &call, 1);
    rpc_wait_for(&call, 1, timeout_ms);
    rpc_server_destroy(server);
    return call->error;
}
