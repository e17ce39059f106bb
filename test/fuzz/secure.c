/*
 * Replies to calls with Kerberos. Byte 0 says to what: its lowest bits the service, or a call that
 * makes a context; then whether there is a payload. Byte 1 is how much arrives at a time. The rest
 * is the stream; a MIC of it is good if its first byte is odd, and a token if its first is. What
 * the caller gets is within its bounds, and nothing but what was signed.
 */
#include <string.h>

#include "fuzz.h"
#include "net/pool.h"
#include "rpc/message.h"
#include "rpc/secure/api.h"
#include "rpc/transport.h"

enum { XID = 0x2a2a2a2a, ROOM = 4096, GUARD = 64, SEQUENCE = 7 };

/* ---- a library that believes much ---- */

static uint8_t context_of_server;
static unsigned verified; /* since the call was made */

static OM_uint32 verify(OM_uint32 *minor, gss_ctx_id_t context, gss_buffer_t bytes,
                        gss_buffer_t mic, gss_qop_t *qop)
{
    (void)bytes, (void)qop;
    *minor = 0;
    must(context == (gss_ctx_id_t)&context_of_server);
    if (mic->length == 0 || !(*(const uint8_t *)mic->value & 1))
        return GSS_S_BAD_SIG;
    verified++;
    return GSS_S_COMPLETE;
}

static OM_uint32 unwrap(OM_uint32 *minor, gss_ctx_id_t context, int *encrypted, gss_qop_t *qop,
                        gss_iov_buffer_desc *vectors, int count)
{
    (void)context, (void)qop, (void)count;
    uint8_t *token = vectors[0].buffer.value;
    *minor = 0;
    if (vectors[0].buffer.length == 0 || !(token[0] & 1))
        return GSS_S_BAD_SIG;
    *encrypted = (token[0] & 2) == 0;
    vectors[1].buffer = (gss_buffer_desc){vectors[0].buffer.length - 1, token + 1};
    verified++;
    return GSS_S_COMPLETE;
}

static OM_uint32 delete_context(OM_uint32 *minor, gss_ctx_id_t *context, gss_buffer_t out)
{
    (void)context, (void)out;
    *minor = 0;
    return GSS_S_COMPLETE;
}

/* ---- a call in flight ---- */

static struct rpc_transport *transport;
static struct rpc_call call;
static struct rpc_context context;
static struct directnfs_channel_stats channel_stats;
static uint8_t memory[ROOM + GUARD];
static struct iovec vector = {memory, ROOM};

/* Two words tell nothing, the third how long the payload is. */
static int find_payload(const uint8_t *results, size_t have, size_t *head, uint32_t *length)
{
    if (have < 12)
        return 0;
    *head = 12;
    *length = rpc_word(results + 8);
    return 1;
}

static void begin(void)
{
    static const struct rpc_gss_api api = {
        .verify_mic = verify, .unwrap_iov = unwrap, .delete_sec_context = delete_context};
    struct net_server_options options = {
        .name = "fuzz", .connections_max = 1, .hidden = true, .reconnect_max_s = 1};
    struct net_address address = {.peer = {.ss_family = AF_INET}};
    struct net_server *server;
    rpc_gss_use(&api);
    must(net_server_create(&options, &address, 1, &server) == 0);
    struct net_channel *channel = net_channel_get(server, 0);
    channel->stats = &channel_stats;
    transport = rpc_transport_of(channel);
    must(rpc_secure_of(transport) != NULL);
}

static void make_call(const struct rpc_identity *identity, bool payload)
{
    struct rpc_auth auth;
    rpc_auth_secure(&auth, 0, identity);
    memset(memory, 0x5a, sizeof(memory));
    rpc_call_end(&call, rpc_call_begin(&call, &auth, 100003, 3, 6));
    call.find_payload = payload ? find_payload : NULL;
    call.destination = &vector;
    call.destination_count = 1;
    call.destination_length = ROOM;
    call.xid = XID;
    call.sent = true;
    call.queued = false;
    call.error = 1;
    call.channel = transport->channel;
    atomic_store(&call.state, RPC_WAITING);
    atomic_store(&transport->channel->outstanding, 1);
    rpc_in_flight_add(transport, &call);
    struct rpc_place *place = &transport->secure->places[0];
    context = (struct rpc_context){.gss = &context_of_server,
                                   .references = 100,
                                   .window = 32,
                                   .sequence = SEQUENCE,
                                   .oldest = SEQUENCE + 1};
    *place = (struct rpc_place){.identity = identity, .context = &context};
    place->parked_end = &place->parked;
    if (identity == &rpc_identity_making)
        return;
    call.dress = calloc(1, sizeof(*call.dress));
    call.dress->copies[0].context = &context;
    call.dress->copies[0].sequence = SEQUENCE;
    verified = 0;
}

static void check_answer(const struct rpc_identity *identity)
{
    for (int i = 0; i < GUARD; i++)
        must(memory[ROOM + i] == 0x5a);
    must(call.results_length <= RPC_RESULTS_MAX && call.received <= ROOM);
    must(call.error <= 0);
    if (identity != &rpc_identity_making && call.error == 0)
        must(verified >= (identity->service == RPC_SERVICE_NONE ? 1u : 2u));
    if (call.error == -EACCES)
        must(call.unsettled);
}

static size_t deliver(const uint8_t *data, size_t size, const struct iovec *vectors, int count)
{
    size_t taken = 0;
    for (int i = 0; i < count && taken < size; i++) {
        size_t take = vectors[i].iov_len < size - taken ? vectors[i].iov_len : size - taken;
        memcpy(vectors[i].iov_base, data + taken, take);
        taken += take;
    }
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rpc_identity identities[4] = {{.service = RPC_SERVICE_NONE},
                                                {.service = RPC_SERVICE_INTEGRITY},
                                                {.service = RPC_SERVICE_PRIVACY}};
    if (size < 2)
        return -1;
    if (!transport)
        begin();
    const struct rpc_identity *identity =
        (data[0] & 3) == 3 ? &rpc_identity_making : &identities[data[0] & 3];
    size_t piece = data[1] ? data[1] : size, at = 2;
    struct rpc_receiver receiver;
    struct rpc_receiver_owner owner = {rpc_call_sent, rpc_call_answered, transport,
                                       rpc_secure_answered, rpc_secure_verified};
    struct iovec vectors[RPC_RECEIVER_VECTORS];
    struct rpc_call *expected[] = {&call};
    int result = 0;
    pthread_mutex_lock(&transport->lock);
    make_call(identity, identity != &rpc_identity_making && data[0] & 4);
    rpc_receiver_init(&receiver);
    while (result == 0 && at < size && atomic_load(&call.state) == RPC_WAITING && call.sent) {
        unsigned count = call.find_payload && !rpc_is_wrapped(&call);
        int used = rpc_receiver_vectors(&receiver, expected, count, ROOM, vectors);
        must(used > 0);
        size_t left = size - at < piece ? size - at : piece;
        size_t taken = deliver(data + at, left, vectors, used);
        at += taken;
        result = rpc_receiver_received(&receiver, taken, &owner);
    }
    if (atomic_load(&call.state) == RPC_DONE)
        check_answer(identity);
    else
        rpc_call_fail(transport, &call, -EIO);
    transport->secure->places[0] = (struct rpc_place){.identity = NULL};
    transport->secure->places[0].parked_end = &transport->secure->places[0].parked;
    transport->secure->dead = NULL;
    pthread_mutex_unlock(&transport->lock);
    rpc_receiver_free(&receiver);
    return 0;
}
