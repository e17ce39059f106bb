/* The conversation in which a context is made (RFC 2203 section 5.2). */
#include "rpc/transport.h"
#include "rpc/message.h"
#include "rpc/secure/converse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    FLAVOR = 6,
    GSS_VERSION = 1,
    PROCEDURE_INIT = 1,
    PROCEDURE_CONTINUE_INIT = 2,
    STEPS_MOST = 8,
    STEP_MS = 15000 /* for the server's answer to each step, to a thread of the program */
};

const struct rpc_identity rpc_identity_making = {.service = RPC_SERVICE_NONE};

static uint8_t *put(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

/* The credential of a call that makes a context, and an empty verifier. */
static void make_auth(struct rpc_auth *auth, const struct rpc_making *making, uint32_t procedure)
{
    const struct rpc_context *context = making->context;
    uint32_t padded = (context->handle_length + 3) & ~UINT32_C(3);
    memset(auth, 0, sizeof(*auth));
    auth->identity = &rpc_identity_making;
    uint8_t *at = put(auth->bytes, FLAVOR);
    at = put(at, 20 + padded);
    at = put(at, GSS_VERSION);
    at = put(at, procedure);
    at = put(at, 0);
    at = put(at, (uint32_t)making->identity->service);
    at = put(at, context->handle_length);
    memcpy(at, context->handle, context->handle_length);
    at = put(at + padded, 0); /* verifier AUTH_NONE, no body */
    at = put(at, 0);
    auth->length = (uint32_t)(at - auth->bytes);
}

/* A cursor over what the server answered. */
struct reading {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static uint32_t take_word(struct reading *reading)
{
    if (reading->left < 4) {
        reading->bad = true;
        return 0;
    }
    uint32_t word = rpc_word(reading->at);
    reading->at += 4;
    reading->left -= 4;
    return word;
}

static const uint8_t *take_opaque(struct reading *reading, uint32_t most, uint32_t *length)
{
    *length = take_word(reading);
    size_t padded = ((size_t)*length + 3) & ~(size_t)3;
    const uint8_t *at = reading->at;
    if (*length > most || padded > reading->left) {
        reading->bad = true;
        *length = 0;
        return at;
    }
    reading->at += padded;
    reading->left -= padded;
    return at;
}

/* rpc_gss_init_res, and the verifier before it. */
struct answer {
    const uint8_t *verifier, *token;
    uint32_t verifier_length, token_length;
    uint32_t flavor, major, minor, window;
};

static bool fail(struct rpc_making *making, enum rpc_gss_why why, const char *text)
{
    making->fault.why = why;
    snprintf(making->fault.text, sizeof(making->fault.text), "%s", text);
    return false;
}

static bool read_answer(struct rpc_making *making, struct answer *answer)
{
    struct reading reading = {making->reply, making->call.received, false};
    struct rpc_context *context = making->context;
    uint32_t length;
    answer->flavor = take_word(&reading);
    answer->verifier = take_opaque(&reading, RPC_GSS_MIC_MAX, &answer->verifier_length);
    take_word(&reading); /* accept_stat: it is SUCCESS */
    const uint8_t *handle = take_opaque(&reading, RPC_HANDLE_MAX, &length);
    answer->major = take_word(&reading);
    answer->minor = take_word(&reading);
    answer->window = take_word(&reading);
    answer->token = take_opaque(&reading, RPC_MAKING_REPLY, &answer->token_length);
    if (reading.bad)
        return fail(making, RPC_GSS_REFUSED, "its answer is garbage");
    memcpy(context->handle, handle, length);
    context->handle_length = length;
    return true;
}

/* Sends a token, and takes the answer. */
static bool exchange(struct rpc_making *making, const struct rpc_gss_token *token, bool first,
                     struct answer *answer)
{
    struct rpc_auth auth;
    struct rpc_call *call = &making->call, *calls[] = {call};
    struct iovec payload = {token->bytes, token->length};
    struct iovec destination = {making->reply, sizeof(making->reply)};
    make_auth(&auth, making, first ? PROCEDURE_INIT : PROCEDURE_CONTINUE_INIT);
    uint8_t *at = rpc_call_begin(call, &auth, making->program, making->version, 0);
    rpc_call_end(call, put(at, (uint32_t)token->length));
    call->payload = &payload;
    call->payload_count = 1;
    call->payload_length = token->length;
    call->destination = &destination;
    call->destination_count = 1;
    call->destination_length = sizeof(making->reply);
    if (!rpc_secure_pin(making->secure))
        return fail(making, RPC_GSS_NO_SERVER, "the mount is given up");
    rpc_submit_on(making->secure->transport->channel, calls, 1);
    if (making->is_ours)
        rpc_wait(calls, 1);
    else
        rpc_wait_for(calls, 1, STEP_MS);
    rpc_secure_unpin(making->secure);
    if (call->error == -EACCES && call->resent) /* a server takes each token once */
        return fail(making, RPC_GSS_NO_SERVER, "the connection was lost");
    if (call->error == -EACCES)
        return fail(making, RPC_GSS_REFUSED, "it denies the call");
    if (call->error == -EREMOTEIO || call->error == -EBADMSG || call->error == -EOPNOTSUPP ||
        call->error == -EPROTONOSUPPORT)
        return fail(making, RPC_GSS_REFUSED, strerrordesc_np(-call->error));
    if (call->error != 0)
        return fail(making, RPC_GSS_NO_SERVER, strerrordesc_np(-call->error));
    return read_answer(making, answer);
}

/* The window is signed, so that nobody can change it. */
static bool check_window(struct rpc_making *making, const struct answer *answer)
{
    uint32_t window = htonl(answer->window);
    if (answer->flavor != FLAVOR || answer->window == 0 ||
        rpc_gss_verify(making->gss.context, &window, 4, answer->verifier,
                       answer->verifier_length) != 0)
        return fail(making, RPC_GSS_REFUSED, "its answer cannot be verified");
    making->context->window = answer->window < RPC_WINDOW_MAX ? answer->window : RPC_WINDOW_MAX;
    return true;
}

/* The conversation with the server. */
bool rpc_converse(struct rpc_making *making)
{
    struct answer answer = {.token = NULL, .major = 1};
    struct rpc_gss_token ours;
    for (unsigned i = 0; i < STEPS_MOST; i++) {
        int more =
            rpc_gss_step(&making->gss, answer.token, answer.token_length, &ours, &making->fault);
        if (more < 0)
            return false;
        bool sends = ours.length > 0;
        bool went_well = !sends || exchange(making, &ours, i == 0, &answer);
        rpc_gss_token_free(&ours);
        if (!went_well)
            return false;
        if (sends && answer.major > 1) { /* not GSS_S_COMPLETE, nor GSS_S_CONTINUE_NEEDED */
            if (making->call.resent)     /* a server takes each token once */
                return fail(making, RPC_GSS_NO_SERVER, "the connection was lost");
            rpc_gss_say(answer.major, answer.minor, &making->fault);
            return false;
        }
        if (more == 0)
            return answer.major == 0 ? check_window(making, &answer)
                                     : fail(making, RPC_GSS_REFUSED, "it wants more");
        if (!sends)
            return fail(making, RPC_GSS_OTHER, "nothing is left to say");
    }
    return fail(making, RPC_GSS_OTHER, "it goes on and on");
}
