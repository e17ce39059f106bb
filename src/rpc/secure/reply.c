/* What comes back (RFC 2203 section 5.3.3). */
#include "rpc/transport.h"
#include "rpc/message.h"
#include "rpc/secure/secure.h"
#include "net/health.h"
#include "stats/count.h"
#include "sys/critical.h"
#include "sys/log.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    FLAVOR = 6,
    MSG_REPLY = 1,
    ACCEPTED = 0,
    DENIED = 1,
    AUTH_ERROR = 1,
    BADCRED = 1, /* RFC 5531 section 9, RFC 2203 section 5.3.3.3 */
    REJECTEDCRED = 2,
    BADVERF = 3,
    REJECTEDVERF = 4,
    CREDPROBLEM = 13,
    CTXPROBLEM = 14,
    VERIFIER_AT = 12, /* in a reply that is accepted */
    VERIFIER_MOST = 400
};

struct span {
    uint8_t *at;
    size_t length;
};

/* Takes an opaque from the front of `from`. */
static bool take_opaque(struct span *from, struct span *opaque)
{
    if (from->length < 4)
        return false;
    size_t length = rpc_word(from->at), padded = 4 + ((length + 3) & ~(size_t)3);
    if (length > from->length - 4 || padded > from->length)
        return false;
    *opaque = (struct span){from->at + 4, length};
    from->at += padded;
    from->length -= padded;
    return true;
}

/* Does the MIC belong to the sequence number of a copy? Sets which. 0, -EBADMSG: to none, or
 * -ETIMEDOUT: this thread cannot tell. */
static int verify(const struct rpc_call *call, const uint8_t *mic, size_t length, unsigned *copy)
{
    const struct rpc_dress *dress = call->dress;
    int result = -EBADMSG;
    for (unsigned i = 0; dress && i < RPC_COPIES_KNOWN; i++) {
        uint32_t sequence = htonl(dress->copies[i].sequence);
        if (!dress->copies[i].context)
            continue;
        result = rpc_gss_verify(dress->copies[i].context->gss, &sequence, 4, mic, length);
        *copy = i;
        if (result != -EBADMSG)
            break;
    }
    return result;
}

/* The verifier of a reply that is accepted. `rest`: what follows it. */
static bool verifier_of(uint8_t *message, size_t length, struct span *verifier, struct span *rest)
{
    *rest = (struct span){message + VERIFIER_AT + 4, length - VERIFIER_AT - 4};
    return length >= VERIFIER_AT + 8 && rpc_word(message + VERIFIER_AT) == FLAVOR &&
           take_opaque(rest, verifier) && verifier->length <= VERIFIER_MOST;
}

/* Unpacks the results of a reply to this copy. 0, -EBADMSG or -ETIMEDOUT. */
static int unpack(const struct rpc_call *call, unsigned copy, struct span *results)
{
    const struct rpc_context *context = call->dress->copies[copy].context;
    struct span body, mic, plain = {NULL, 0};
    int result;
    switch (call->identity->service) {
    case RPC_SERVICE_NONE:
        return 0;
    case RPC_SERVICE_INTEGRITY:
        if (!take_opaque(results, &body) || !take_opaque(results, &mic))
            return -EBADMSG;
        result = rpc_gss_verify(context->gss, body.at, body.length, mic.at, mic.length);
        plain = body;
        break;
    case RPC_SERVICE_PRIVACY:
        if (!take_opaque(results, &body))
            return -EBADMSG;
        result = rpc_gss_unwrap(context->gss, body.at, body.length, &plain.at, &plain.length);
        break;
    default:
        return -EBADMSG;
    }
    if (result != 0)
        return result;
    if (plain.length < 4 || rpc_word(plain.at) != call->dress->copies[copy].sequence)
        return -EBADMSG;
    *results = (struct span){plain.at + 4, plain.length - 4};
    return 0;
}

/* The call is over, and nobody knows what became of it. */
static void end_unsettled(struct rpc_transport *transport, struct rpc_call *call, int error)
{
    call->error = error;
    call->results_length = call->received = 0;
    call->unsettled = true;
    rpc_call_answered(transport, call);
}

/*
 * Nobody can say whose reply this is (-EBADMSG), or this thread cannot. The call is sent again over
 * a new connection, in the first case a few times only. -ECONNRESET.
 */
static int unverifiable(struct rpc_transport *transport, struct rpc_call *call, const char *what,
                        int error)
{
    struct net_server *server = transport->channel->server;
    if (error == -ETIMEDOUT)
        return -ECONNRESET;
    if (net_server_may_say(server, RPC_SAY_EVERY_S))
        log_error("server %s: %s of a reply over %s is not what Kerberos wants; the reply is not "
                  "believed, and the call is sent again over a new connection",
                  server->name, what, transport->channel->path->address.peer_text);
    if (!call->dress)
        return -ECONNRESET;
    if (call->dress->copies[0].context)
        rpc_secure_refuse(transport, call->identity, call->dress->copies[0].context,
                          call->dress->forgeries);
    if (call->dress->forgeries++ >= RPC_DENIALS_MAX)
        end_unsettled(transport, call, -EBADMSG);
    return -ECONNRESET;
}

int rpc_secure_verified(void *context, struct rpc_call *call, const uint8_t *message, size_t have)
{
    struct span verifier, rest;
    unsigned copy;
    int result = -EBADMSG;
    if (verifier_of((uint8_t *)message, have, &verifier, &rest))
        result = verify(call, verifier.at, verifier.length, &copy);
    if (result != 0)
        return unverifiable(context, call, "the verifier", result);
    rpc_secure_proven(context, call, call->dress->copies[copy].context);
    return 0;
}

/* Takes a call back from the server, to be sent again in another context with the same xid. */
static void send_again(struct rpc_transport *transport, struct rpc_call *call)
{
    rpc_in_flight_remove(transport, call);
    stats_add_locked(&transport->channel->stats->outstanding, -1);
    call->sent = false;
    rpc_unsent_append(transport, call);
}

static void say_denied(struct rpc_transport *transport, const struct rpc_call *call)
{
    struct net_server *server = transport->channel->server;
    if (net_server_may_say(server, RPC_SAY_EVERY_S))
        log_warning(
            "server %s: it refuses the calls of user %u though it made Kerberos contexts for "
            "them; they wait (look at the server's log, and at the clocks)",
            server->name, call->identity->uid);
}

/*
 * A refusal has no verifier, so anybody may have sent it, also when the server executed the call.
 * The call is sent again, and the server's memory of replies tells what became of it. That goes on
 * as long as it takes, if any call of its user was ever answered. Else it fails after a few times,
 * with an unknown fate.
 */
static int denied(struct rpc_transport *transport, struct rpc_call *call, const uint8_t *message,
                  size_t length)
{
    uint32_t status =
        length >= 20 && rpc_word(message + 12) == AUTH_ERROR ? rpc_word(message + 16) : 0;
    bool anew = status == CREDPROBLEM || status == CTXPROBLEM || status == REJECTEDCRED ||
                status == REJECTEDVERF || status == BADCRED || status == BADVERF;
    if (call->identity == &rpc_identity_making || !call->dress || call->dress->destroys)
        anew = false;
    if (anew &&
        (call->dress->denials < RPC_DENIALS_MAX || atomic_load(&call->identity->answered))) {
        rpc_secure_refuse(transport, call->identity, call->dress->copies[0].context,
                          call->dress->denials++);
        if (call->dress->denials > RPC_DENIALS_MAX)
            say_denied(transport, call);
        send_again(transport, call);
        return 0;
    }
    bool harmless =
        call->identity == &rpc_identity_making || (call->dress && call->dress->destroys);
    end_unsettled(transport, call, -EACCES);
    return harmless ? 0 : -ECONNRESET;
}

/*
 * The server says that it could not execute the call. The verifier is good, but nothing protects
 * the status: somebody on the way may have changed it. So the call is sent again, a few times.
 */
static int failed(struct rpc_transport *transport, struct rpc_call *call, int error)
{
    if (call->dress->forgeries++ < RPC_DENIALS_MAX)
        send_again(transport, call);
    else
        end_unsettled(transport, call, error);
    return 0;
}

/* The answer to a call that makes a context: verifier and results, as they came. */
static int answer_making(struct rpc_transport *transport, struct rpc_call *call,
                         const uint8_t *message, size_t length)
{
    size_t results = 0;
    int parsed = rpc_reply_parse(message, length, &results);
    call->error = parsed > 0 ? 0 : parsed == 0 ? -EBADMSG : parsed;
    call->received = call->results_length = 0;
    if (parsed > 0 && length - VERIFIER_AT <= call->destination_length) {
        memcpy(call->destination->iov_base, message + VERIFIER_AT, length - VERIFIER_AT);
        call->received = length - VERIFIER_AT;
    }
    rpc_call_answered(transport, call);
    return 0;
}

int rpc_secure_answered(void *context, struct rpc_call *call, uint8_t *message, size_t length)
{
    struct rpc_transport *transport = context;
    struct span verifier, results;
    unsigned copy;
    size_t at = 0;
    if (length < VERIFIER_AT || rpc_word(message + 4) != MSG_REPLY)
        return -EBADMSG;
    if (rpc_word(message + 8) == DENIED)
        return denied(transport, call, message, length);
    if (rpc_word(message + 8) != ACCEPTED)
        return -EBADMSG;
    if (call->identity == &rpc_identity_making)
        return answer_making(transport, call, message, length);
    if (call->dress && call->dress->destroys) { /* knfsd signs this one in another way */
        call->error = 0;
        call->results_length = call->received = 0;
        rpc_call_answered(transport, call);
        return 0;
    }
    int result = -EBADMSG;
    if (verifier_of(message, length, &verifier, &results))
        result = verify(call, verifier.at, verifier.length, &copy);
    if (result != 0)
        return unverifiable(transport, call, "the verifier", result);
    int parsed = rpc_reply_parse(message, length, &at);
    if (parsed <= 0)
        return failed(transport, call, parsed == 0 ? -EBADMSG : parsed);
    results = (struct span){message + at, length - at};
    result = unpack(call, copy, &results);
    if (result != 0)
        return unverifiable(transport, call, "the body", result);
    rpc_secure_proven(transport, call, call->dress->copies[copy].context);
    result = rpc_results_take(call, results.at, results.length);
    if (result == -EFAULT) {
        transport->receiver.target = call;
        return result;
    }
    rpc_call_answered(transport, call);
    return 0;
}
