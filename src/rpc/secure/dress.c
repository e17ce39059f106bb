/* The bytes of a call (RFC 2203 section 5.3.1 to 5.3.2). */
#include "rpc/transport.h"
#include "rpc/message.h"
#include "rpc/secure/secure.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/sys.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    FLAVOR = 6,
    GSS_VERSION = 1,
    PROCEDURE_DATA = 0,
    PROCEDURE_DESTROY = 3,
    HEAD_PLAIN = 28, /* of a call's head: record mark, and the header up to the credential */
    HEAD_MOST = HEAD_PLAIN + 8 + 20 + RPC_HANDLE_MAX + 8 + RPC_GSS_MIC_MAX
};

static uint8_t *put(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

static uint8_t *pad(uint8_t *at, size_t length)
{
    size_t padding = -length & 3;
    memset(at, 0, padding);
    return at + padding;
}

/* The arguments: those of the head, the payload with its padding, the tail. */
static size_t arguments_length(const struct rpc_call *call)
{
    return call->head_length - HEAD_PLAIN + ((call->payload_length + 3) & ~(size_t)3) +
           call->tail_length;
}

struct copying {
    const struct rpc_call *call;
    uint8_t *to;
};

static void copy_payload(const void *argument)
{
    const struct copying *copying = argument;
    uint8_t *to = copying->to;
    for (int i = 0; i < copying->call->payload_count; i++) {
        memcpy(to, copying->call->payload[i].iov_base, copying->call->payload[i].iov_len);
        to += copying->call->payload[i].iov_len;
    }
}

/* 0 or -EFAULT. */
static int copy_arguments(const struct rpc_call *call, uint8_t *to)
{
    struct copying copying = {call, to + call->head_length - HEAD_PLAIN};
    memcpy(to, call->head + HEAD_PLAIN, call->head_length - HEAD_PLAIN);
    if (call->payload_length > 0) {
        if (!sys_critical_catches())
            copy_payload(&copying);
        else if (sys_critical_guarded(copy_payload, &copying) != 0)
            return -EFAULT;
    }
    to = pad(copying.to + call->payload_length, call->payload_length);
    if (call->tail_length > 0)
        memcpy(to, call->tail, call->tail_length);
    return 0;
}

/* A MIC as an opaque. NULL: it failed, with *error. */
static uint8_t *put_mic(uint8_t *at, const struct rpc_context *context, const uint8_t *message,
                        size_t length, int *error)
{
    size_t mic_length = RPC_GSS_MIC_MAX;
    *error = rpc_gss_mic(context->gss, message, length, at + 4, &mic_length);
    if (*error != 0)
        return NULL;
    put(at, (uint32_t)mic_length);
    return pad(at + 4 + mic_length, mic_length);
}

/* Header, credential and verifier. */
static uint8_t *put_header(struct rpc_dress *dress, const struct rpc_call *call,
                           const struct rpc_context *context, uint32_t sequence, int *error)
{
    uint8_t *at = dress->bytes;
    uint32_t handle = (context->handle_length + 3) & ~UINT32_C(3);
    memcpy(at, call->head, HEAD_PLAIN);
    at = put(at + HEAD_PLAIN, FLAVOR);
    at = put(at, 20 + handle);
    at = put(at, GSS_VERSION);
    at = put(at, dress->destroys ? PROCEDURE_DESTROY : PROCEDURE_DATA);
    at = put(at, sequence);
    at = put(at, (uint32_t)(dress->destroys ? RPC_SERVICE_NONE : call->identity->service));
    at = put(at, context->handle_length);
    memcpy(at, context->handle, context->handle_length);
    at = pad(at + context->handle_length, context->handle_length);
    size_t signed_length = (size_t)(at - dress->bytes) - 4;
    at = put(at, FLAVOR);
    return put_mic(at, context, dress->bytes + 4, signed_length, error);
}

/* rpc_gss_integ_data: what is signed, as an opaque, and its MIC. */
static uint8_t *put_signed(uint8_t *at, const struct rpc_call *call,
                           const struct rpc_context *context, uint32_t sequence, int *error)
{
    size_t length = 4 + arguments_length(call);
    uint8_t *body = put(at, (uint32_t)length);
    put(body, sequence);
    *error = copy_arguments(call, body + 4);
    return *error != 0 ? NULL : put_mic(body + length, context, body, length, error);
}

/* rpc_gss_priv_data. */
static uint8_t *put_encrypted(uint8_t *at, const struct rpc_call *call,
                              const struct rpc_context *context, uint32_t sequence, int *error)
{
    size_t length = 4 + arguments_length(call), before, after;
    *error = rpc_gss_wrap_room(context->gss, length, &before, &after);
    if (*error != 0)
        return NULL;
    uint8_t *token = put(at, (uint32_t)(before + length + after));
    put(token + before, sequence);
    *error = copy_arguments(call, token + before + 4);
    if (*error == 0)
        *error = rpc_gss_wrap(context->gss, token, before, length, after);
    return *error != 0 ? NULL : pad(token + before + length + after, before + length + after);
}

/* Has room for the call; what it wore before is kept, if that is large enough. */
static struct rpc_dress *dress_for(struct rpc_transport *transport, struct rpc_call *call)
{
    size_t capacity = HEAD_MOST;
    if (rpc_is_wrapped(call))
        capacity += 4 + 4 + arguments_length(call) + RPC_GSS_WRAP_MORE + 4 + RPC_GSS_MIC_MAX;
    struct rpc_dress *before = call->dress;
    if (before && before->capacity >= capacity)
        return before;
    struct rpc_dress *dress = sys_alloc(sizeof(*dress) + capacity);
    if (!dress)
        return NULL;
    if (before)
        *dress = *before;
    else
        memset(dress, 0, sizeof(*dress));
    dress->capacity = capacity;
    if (before) {
        before->next = transport->secure->worn;
        transport->secure->worn = before;
    }
    call->dress = dress;
    return dress;
}

bool rpc_secure_destroys(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_dress *dress = dress_for(transport, call);
    if (dress)
        dress->destroys = true;
    return dress != NULL;
}

/* Notes under which sequence number the call is sent now. */
static void note_copy(struct rpc_secure *secure, struct rpc_dress *dress,
                      struct rpc_context *context, uint32_t sequence)
{
    enum { LAST = RPC_COPIES_KNOWN - 1 };
    if (dress->copies[LAST].context)
        rpc_context_put(secure, dress->copies[LAST].context);
    memmove(dress->copies + 1, dress->copies, sizeof(dress->copies[0]) * LAST);
    dress->copies[0].context = context;
    dress->copies[0].sequence = sequence;
    context->references++;
    if (context->under_way++ == 0)
        context->stands_ns = sys_now_ns();
    context->open[sequence % RPC_WINDOW_MAX / 64] |= UINT64_C(1) << sequence % 64;
    dress->counted = true;
}

int rpc_secure_dress(struct rpc_transport *transport, struct rpc_call *call)
{
    struct rpc_secure *secure = transport->secure;
    struct rpc_context *context = NULL;
    for (unsigned i = 0; i < RPC_PLACES; i++) {
        if (secure->places[i].identity == call->identity)
            context = secure->places[i].context;
    }
    if (!rpc_context_is_good(context, sys_now_ns()) || rpc_context_room(context) == 0)
        return -EKEYEXPIRED;
    struct rpc_dress *dress = dress_for(transport, call);
    if (!dress)
        return -ENOMEM;
    uint32_t sequence = ++context->sequence;
    int error = 0;
    uint8_t *at = put_header(dress, call, context, sequence, &error);
    if (at && dress->destroys)
        ; /* it has no arguments */
    else if (at && call->identity->service == RPC_SERVICE_INTEGRITY)
        at = put_signed(at, call, context, sequence, &error);
    else if (at && call->identity->service == RPC_SERVICE_PRIVACY)
        at = put_encrypted(at, call, context, sequence, &error);
    if (!at) {
        rpc_context_advance(context); /* nobody will answer this number */
        if (error == -EFAULT || error == -ETIMEDOUT || error == -ENOMEM)
            return error;
        rpc_secure_refuse(transport, call->identity, context, 0);
        return -EKEYEXPIRED;
    }
    dress->own_length = dress->length = (size_t)(at - dress->bytes);
    if (!rpc_is_wrapped(call))
        dress->length += arguments_length(call);
    put(dress->bytes, RPC_LAST_FRAGMENT | (uint32_t)(dress->length - 4));
    note_copy(secure, dress, context, sequence);
    return 0;
}

int rpc_secure_vectors(const struct rpc_call *call, struct iovec *vectors)
{
    static const uint8_t zeros[4];
    const struct rpc_dress *dress = call->dress;
    int count = 0;
    vectors[count++] = (struct iovec){(void *)dress->bytes, dress->own_length};
    if (rpc_is_wrapped(call))
        return count;
    if (call->head_length > HEAD_PLAIN)
        vectors[count++] =
            (struct iovec){(void *)(call->head + HEAD_PLAIN), call->head_length - HEAD_PLAIN};
    for (int i = 0; i < call->payload_count; i++)
        vectors[count++] = call->payload[i];
    size_t padding = -call->payload_length & 3, behind = padding + call->tail_length;
    const uint8_t *tail = call->tail_length > 0 ? call->tail - padding : zeros;
    if (behind > 0)
        vectors[count++] = (struct iovec){(void *)tail, behind};
    return count;
}

size_t rpc_secure_length(const struct rpc_call *call)
{
    return call->dress->length;
}
