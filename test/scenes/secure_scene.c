/* See secure_scene.h. */
#include "secure_scene.h"

#include <stdio.h>

#include "rpc/secure/api.h"
#include "sys/sys.h"

struct secure secure;

/* What lives as long as the program, as identities do. */
static void *keep(void *memory)
{
    static struct kept {
        struct kept *_Atomic next;
        void *memory;
    } * _Atomic all;
    struct kept *one = calloc(1, sizeof(*one)), *before = atomic_load(&all);
    one->memory = memory;
    do
        atomic_store(&one->next, before);
    while (!atomic_compare_exchange_weak(&all, &before, one));
    return memory;
}

enum { MIC = 16, HEADER = 16, HANDLE = 8 };

/* ---- the toy ---- */

struct toy {
    uint32_t key;
};

static uint64_t digest(uint32_t key, const uint8_t *bytes, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u ^ key;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static void sign(uint32_t key, const void *bytes, size_t length, uint8_t mic[MIC])
{
    uint64_t hash = digest(key, bytes, length);
    memcpy(mic, "MICMICMI", 8);
    memcpy(mic + 8, &hash, 8);
}

static bool is_signed(uint32_t key, const void *bytes, size_t length, const void *mic,
                      size_t mic_length)
{
    uint8_t expected[MIC];
    sign(key, bytes, length, expected);
    return mic_length == MIC && memcmp(mic, expected, MIC) == 0;
}

static void scramble(uint32_t key, uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] ^= (uint8_t)(key >> i % 4 * 8);
}

static void seal(uint32_t key, uint8_t *header, uint8_t *bytes, size_t length)
{
    sign(key, bytes, length, header);
    scramble(key, bytes, length);
}

static bool unseal(uint32_t key, const uint8_t *header, uint8_t *bytes, size_t length)
{
    scramble(key, bytes, length);
    return is_signed(key, bytes, length, header, HEADER);
}

/* ---- the library ---- */

static gss_buffer_desc copy_of(const void *bytes, size_t length)
{
    gss_buffer_desc buffer = {length, malloc(length)};
    memcpy(buffer.value, bytes, length);
    return buffer;
}

static OM_uint32 acquire(OM_uint32 *minor, gss_name_t name, OM_uint32 time, gss_OID_set mechs,
                         gss_cred_usage_t usage, gss_const_key_value_set_t store,
                         gss_cred_id_t *credential, gss_OID_set *actual, OM_uint32 *lifetime)
{
    (void)name, (void)time, (void)mechs, (void)usage, (void)actual, (void)lifetime;
    const char *cache = store && store->count > 0 ? store->elements[0].value : "toy-0";
    uint32_t lucky = atomic_load(&secure.lucky);
    atomic_fetch_add(&secure.acquired, 1);
    while (atomic_load(&secure.hangs))
        sys_nanosleep_ms(1);
    bool stalls = atomic_load(&secure.stalls) && store && store->count > 0 &&
                  strcmp(store->elements[0].value, "stalled") == 0;
    *minor =
        stalls || atomic_load(&secure.no_kdc) ? (OM_uint32)-1765328228L : 0; /* KRB5_KDC_UNREACH */
    if (*minor)
        return GSS_S_FAILURE;
    if (atomic_load(&secure.no_ticket))
        return GSS_S_NO_CRED;
    *credential = (gss_cred_id_t)malloc(1);
    *(bool *)*credential = lucky != 0 && strncmp(cache, "toy-", 4) == 0 &&
                           lucky == strtoul(cache + strlen("toy-"), NULL, 10);
    return GSS_S_COMPLETE;
}

static OM_uint32 release_cred(OM_uint32 *minor, gss_cred_id_t *credential)
{
    *minor = 0;
    free(*credential);
    *credential = NULL;
    return GSS_S_COMPLETE;
}

static OM_uint32 inquire(OM_uint32 *minor, gss_cred_id_t credential, gss_name_t *name,
                         OM_uint32 *lifetime, gss_cred_usage_t *usage, gss_OID_set *mechs)
{
    (void)name, (void)usage, (void)mechs;
    *minor = 0;
    *lifetime = atomic_load(&secure.expired) && !*(const bool *)credential
                    ? 0
                    : atomic_load(&secure.lifetime_s);
    return GSS_S_COMPLETE;
}

static OM_uint32 import(OM_uint32 *minor, gss_buffer_t text, gss_OID type, gss_name_t *name)
{
    (void)text, (void)type;
    *minor = 0;
    *name = (gss_name_t)malloc(1);
    return GSS_S_COMPLETE;
}

static OM_uint32 display_name(OM_uint32 *minor, gss_name_t name, gss_buffer_t text, gss_OID *type)
{
    (void)name, (void)type;
    *minor = 0;
    *text = copy_of("toy", 3);
    return GSS_S_COMPLETE;
}

static OM_uint32 release_name(OM_uint32 *minor, gss_name_t *name)
{
    *minor = 0;
    free(*name);
    *name = NULL;
    return GSS_S_COMPLETE;
}

static OM_uint32 init(OM_uint32 *minor, gss_cred_id_t credential, gss_ctx_id_t *context,
                      gss_name_t target, gss_OID mech, OM_uint32 flags, OM_uint32 time,
                      gss_channel_bindings_t bindings, gss_buffer_t in, gss_OID *actual,
                      gss_buffer_t out, OM_uint32 *out_flags, OM_uint32 *lifetime)
{
    (void)credential, (void)target, (void)mech, (void)flags, (void)time, (void)bindings;
    (void)actual, (void)out_flags;
    *minor = 0;
    *lifetime = atomic_load(&secure.lifetime_s);
    if (!*context) {
        *context = (gss_ctx_id_t)calloc(1, sizeof(struct toy));
        *out = copy_of("hello", 5);
        return GSS_S_CONTINUE_NEEDED;
    }
    if (!in || in->length != 4)
        return GSS_S_DEFECTIVE_TOKEN;
    memcpy(&((struct toy *)*context)->key, in->value, 4);
    return GSS_S_COMPLETE;
}

static OM_uint32 delete_context(OM_uint32 *minor, gss_ctx_id_t *context, gss_buffer_t out)
{
    (void)out;
    *minor = 0;
    free(*context);
    *context = NULL;
    return GSS_S_COMPLETE;
}

static OM_uint32 release_buffer(OM_uint32 *minor, gss_buffer_t buffer)
{
    *minor = 0;
    free(buffer->value);
    *buffer = (gss_buffer_desc)GSS_C_EMPTY_BUFFER;
    return GSS_S_COMPLETE;
}

static OM_uint32 display_status(OM_uint32 *minor, OM_uint32 code, int type, gss_OID mech,
                                OM_uint32 *more, gss_buffer_t text)
{
    (void)code, (void)type, (void)mech;
    *minor = 0;
    *more = 0;
    *text = copy_of("toy", 3);
    return GSS_S_COMPLETE;
}

static uint32_t key_of(gss_ctx_id_t context)
{
    return ((const struct toy *)context)->key;
}

static OM_uint32 get_mic(OM_uint32 *minor, gss_ctx_id_t context, gss_qop_t qop, gss_buffer_t bytes,
                         gss_buffer_t mic)
{
    uint8_t made[MIC];
    (void)qop;
    *minor = 0;
    sign(key_of(context), bytes->value, bytes->length, made);
    *mic = copy_of(made, MIC);
    return GSS_S_COMPLETE;
}

static OM_uint32 verify_mic(OM_uint32 *minor, gss_ctx_id_t context, gss_buffer_t bytes,
                            gss_buffer_t mic, gss_qop_t *qop)
{
    (void)qop;
    *minor = 0;
    return is_signed(key_of(context), bytes->value, bytes->length, mic->value, mic->length)
               ? GSS_S_COMPLETE
           : atomic_load(&secure.late) ? GSS_S_CONTEXT_EXPIRED
                                       : GSS_S_BAD_SIG;
}

static OM_uint32 wrap_length(OM_uint32 *minor, gss_ctx_id_t context, int encrypts, gss_qop_t qop,
                             int *does, gss_iov_buffer_desc *vectors, int count)
{
    (void)context, (void)encrypts, (void)qop, (void)count;
    *minor = 0;
    vectors[0].buffer.length = HEADER;
    vectors[2].buffer.length = vectors[3].buffer.length = 0;
    if (does)
        *does = 1;
    return GSS_S_COMPLETE;
}

static OM_uint32 wrap(OM_uint32 *minor, gss_ctx_id_t context, int encrypts, gss_qop_t qop,
                      int *does, gss_iov_buffer_desc *vectors, int count)
{
    (void)encrypts, (void)qop, (void)count;
    *minor = 0;
    *does = 1;
    seal(key_of(context), vectors[0].buffer.value, vectors[1].buffer.value,
         vectors[1].buffer.length);
    return GSS_S_COMPLETE;
}

static OM_uint32 unwrap(OM_uint32 *minor, gss_ctx_id_t context, int *encrypted, gss_qop_t *qop,
                        gss_iov_buffer_desc *vectors, int count)
{
    (void)qop, (void)count;
    uint8_t *token = vectors[0].buffer.value;
    size_t length = vectors[0].buffer.length;
    *minor = 0;
    if (length < HEADER)
        return GSS_S_DEFECTIVE_TOKEN;
    vectors[1].buffer = (gss_buffer_desc){length - HEADER, token + HEADER};
    *encrypted = 1;
    return unseal(key_of(context), token, token + HEADER, length - HEADER) ? GSS_S_COMPLETE
                                                                           : GSS_S_BAD_SIG;
}

/* ---- the server ---- */

struct at_server {
    uint32_t highest;
    bool seen[1 << 16];
};
static struct at_server *contexts[SECURE_CONTEXTS];
static _Atomic unsigned known_from; /* contexts before this are forgotten */
static pthread_mutex_t server_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned answers;

static uint32_t key_at(unsigned number)
{
    return (number + 1) * 2654435761u;
}

void secure_begin(void)
{
    static const struct rpc_gss_api api = {
        acquire,      release_cred, inquire,        import,         display_name,
        release_name, init,         delete_context, release_buffer, display_status,
        get_mic,      verify_mic,   wrap,           wrap_length,    unwrap,
    };
    for (unsigned i = 0; i < SECURE_CONTEXTS; i++) {
        free(contexts[i]);
        contexts[i] = NULL;
    }
    memset(&secure, 0, sizeof(secure));
    secure.window = 32;
    secure.lifetime_s = 3600;
    atomic_store(&known_from, 0);
    atomic_store(&answers, 0);
    rpc_gss_use(&api);
}

static const struct rpc_auth *auth_of(uint32_t uid, enum rpc_service service, const char *cache)
{
    const struct rpc_identity like = {
        .uid = uid, .service = service, .server = "nfs@toy", .cache = cache};
    struct rpc_auth *auth = keep(calloc(1, sizeof(*auth)));
    rpc_auth_secure(auth, 0, rpc_identity_of(&like));
    return auth;
}

const struct rpc_auth *secure_auth(uint32_t uid, enum rpc_service service)
{
    char *cache = keep(malloc(32));
    snprintf(cache, 32, "toy-%u", uid);
    return auth_of(uid, service, cache);
}

const struct rpc_auth *secure_auth_stalled(uint32_t uid, enum rpc_service service)
{
    return auth_of(uid, service, "stalled");
}

/* A credential of RPCSEC_GSS: RFC 2203 section 5. */
struct credential {
    uint32_t procedure, sequence, service, handle_length, number;
    const uint8_t *end; /* what is signed goes up to here */
};

static bool read_credential(const struct call_head *head, struct credential *credential)
{
    const uint8_t *at = head->credential;
    if (head->flavor != 6 || head->credential_length < 20 || rpc_word(at) != 1)
        return false;
    credential->procedure = rpc_word(at + 4);
    credential->sequence = rpc_word(at + 8);
    credential->service = rpc_word(at + 12);
    credential->handle_length = rpc_word(at + 16);
    credential->number = credential->handle_length == HANDLE ? rpc_word(at + 20) : 0;
    credential->end = at + head->credential_length;
    return head->credential_length == 20 + credential->handle_length;
}

static void begin_reply(struct bytes *message, uint32_t xid, const uint8_t *mic, size_t length)
{
    put_word(message, xid);
    put_word(message, 1);
    put_word(message, 0);
    put_word(message, length ? 6 : 0);
    put_word(message, (uint32_t)length);
    put_bytes(message, mic, length);
    put_word(message, 0);
}

static void deny(struct bytes *message, uint32_t xid, uint32_t status)
{
    const uint32_t words[] = {xid, 1, 1, 1, status};
    for (int i = 0; i < 5; i++)
        put_word(message, words[i]);
}

/* rpc_gss_init_res */
static void answer_init(struct bytes *message, uint32_t xid)
{
    uint8_t mic[MIC];
    unsigned number = atomic_fetch_add(&secure.contexts, 1);
    uint32_t key = key_at(number), window = htonl(secure.window);
    if (atomic_load(&secure.refuses) || number >= SECURE_CONTEXTS) {
        deny(message, xid, 13);
        return;
    }
    contexts[number] = keep(calloc(1, sizeof(*contexts[number])));
    sign(key, &window, 4, mic);
    begin_reply(message, xid, mic, MIC);
    put_word(message, HANDLE);
    put_word(message, number);
    put_word(message, 0x5a5a5a5a);
    put_word(message, 0);
    put_word(message, 0);
    put_word(message, secure.window);
    put_word(message, 4);
    put_bytes(message, &key, 4);
}

static bool is_in_window(struct at_server *context, uint32_t sequence)
{
    pthread_mutex_lock(&server_lock);
    bool good = sequence > 0 && sequence < sizeof(context->seen) &&
                sequence + secure.window > context->highest && !context->seen[sequence];
    if (good)
        context->seen[sequence] = true;
    if (good && sequence > context->highest)
        context->highest = sequence;
    pthread_mutex_unlock(&server_lock);
    return good;
}

/* The arguments in clear, allocated. NULL: they are forged. */
static uint8_t *open_arguments(const struct call_head *head, const struct credential *credential,
                               const uint8_t *end, size_t *length)
{
    const uint8_t *at = head->arguments;
    size_t have = (size_t)(end - at), body = have >= 4 ? rpc_word(at) : 0;
    uint32_t key = key_at(credential->number);
    uint8_t *plain = malloc(have + 1);
    memcpy(plain, at, have);
    *length = have;
    if (credential->service == RPC_SERVICE_NONE)
        return plain;
    bool good = body >= 4 && body + 4 <= have;
    if (good && credential->service == RPC_SERVICE_INTEGRITY) {
        size_t padded = 4 + ((body + 3) & ~(size_t)3);
        good = have == padded + 4 + MIC && is_signed(key, at + 4, body, at + padded + 4, MIC);
        memmove(plain, at + 4, body);
    } else if (good) {
        good = body > HEADER + 4 && have == 4 + ((body + 3) & ~(size_t)3) &&
               unseal(key, plain + 4, plain + 4 + HEADER, body - HEADER);
        memmove(plain, plain + 4 + HEADER, body - HEADER);
        body -= HEADER;
    }
    good = good && rpc_word(plain) == credential->sequence;
    if (!good) {
        free(plain);
        return NULL;
    }
    memmove(plain, plain + 4, body - 4);
    *length = body - 4;
    return plain;
}

static void put_opaque(struct bytes *message, const uint8_t *bytes, size_t length)
{
    put_word(message, (uint32_t)length);
    put_bytes(message, bytes, length);
    put_bytes(message, "\0\0", -length & 3);
}

static void put_body(struct bytes *message, const struct credential *credential,
                     const uint8_t *results, size_t length, enum secure_trick trick)
{
    struct bytes body = {0};
    uint32_t key = key_at(credential->number);
    uint8_t mic[MIC];
    put_word(&body, credential->sequence + (trick == TRICK_BODY_SEQUENCE));
    put_bytes(&body, results, length);
    if (credential->service == RPC_SERVICE_NONE || trick == TRICK_CLEAR) {
        put_bytes(message, results, length);
    } else if (credential->service == RPC_SERVICE_INTEGRITY) {
        sign(key, body.data, body.length, mic);
        body.data[body.length - 1] ^= trick == TRICK_BODY;
        put_opaque(message, body.data, body.length);
        put_opaque(message, mic, MIC);
    } else {
        struct bytes token = {0};
        put_bytes(&token, mic, HEADER);
        seal(key, token.data, body.data, body.length);
        put_bytes(&token, body.data, body.length);
        token.data[token.length - 1] ^= trick == TRICK_BODY;
        put_opaque(message, token.data, token.length);
        free(token.data);
    }
    if (trick == TRICK_TRUNCATED)
        message->length -= 8;
    free(body.data);
}

static enum secure_trick next_trick(void)
{
    unsigned every = atomic_load(&secure.every), number = atomic_fetch_add(&answers, 1) + 1;
    if (every == 0 || number % every != 0 || atomic_load(&secure.tricks) == 0)
        return TRICK_NONE;
    atomic_fetch_sub(&secure.tricks, 1);
    return atomic_load(&secure.trick);
}

/* Executes the call as one in clear, and packs its results. */
static void answer_data(struct server *server, const struct call_head *head,
                        const struct credential *credential, const uint8_t *end,
                        struct bytes *message)
{
    static const uint8_t none[16];
    enum secure_trick trick = next_trick();
    struct bytes plain = {0}, reply = {0};
    size_t length;
    uint8_t *arguments = open_arguments(head, credential, end, &length), mic[MIC];
    uint32_t sequence = htonl(credential->sequence + (trick == TRICK_SEQUENCE));
    if (!arguments) {
        atomic_fetch_add(&secure.forged, 1);
        return;
    }
    if (trick == TRICK_CREDPROBLEM || trick == TRICK_CTXPROBLEM || trick == TRICK_TOOWEAK) {
        free(arguments);
        deny(message, head->xid, trick == TRICK_CREDPROBLEM ? 13 : trick == TRICK_TOOWEAK ? 5 : 14);
        return;
    }
    const uint32_t words[] = {head->xid, 0, 2, head->program, head->version, head->procedure};
    for (int i = 0; i < 6; i++)
        put_word(&plain, words[i]);
    put_bytes(&plain, none, sizeof(none));
    put_bytes(&plain, arguments, length);
    answer_call(server, plain.data, plain.length, &reply);
    if (atomic_load(&secure.slow) != 0 && length >= 4 && rpc_word(arguments) == secure.slow)
        trick = TRICK_LOST;
    free(arguments);
    free(plain.data);
    sign(key_at(credential->number), &sequence, 4, mic);
    mic[MIC - 1] ^= trick == TRICK_VERIFIER;
    if (trick != TRICK_LOST) {
        begin_reply(message, head->xid, mic, trick == TRICK_NO_VERIFIER ? 0 : MIC);
        if (trick == TRICK_STATUS)
            message->data[message->length - 1] = 4;
        put_body(message, credential, reply.data + 24, reply.length - 24, trick);
    }
    free(reply.data);
}

void secure_answer(struct server *server, const uint8_t *call, size_t length, struct bytes *message)
{
    struct call_head head;
    struct credential credential;
    if (!call_read(call, length, &head)) {
        atomic_fetch_add(&secure.forged, 1);
        return;
    }
    if (!read_credential(&head, &credential)) {
        atomic_fetch_add(&secure.in_clear, head.procedure != 0);
        answer_call(server, call, length, message);
        return;
    }
    if (credential.procedure == 1 || credential.procedure == 2) {
        answer_init(message, head.xid);
        return;
    }
    if (atomic_exchange(&secure.forgets, false))
        atomic_store(&known_from, atomic_load(&secure.contexts));
    if (credential.number >= SECURE_CONTEXTS || credential.number < atomic_load(&known_from) ||
        !contexts[credential.number]) {
        deny(message, head.xid, 13);
        return;
    }
    const uint8_t *verifier = credential.end;
    if (rpc_word(verifier) != 6 ||
        !is_signed(key_at(credential.number), call, (size_t)(credential.end - call), verifier + 8,
                   rpc_word(verifier + 4))) {
        atomic_fetch_add(&secure.forged, 1);
        deny(message, head.xid, 13);
        return;
    }
    if (!is_in_window(contexts[credential.number], credential.sequence)) {
        atomic_fetch_add(&secure.outside, 1);
        return;
    }
    if (credential.procedure == 3) {
        atomic_fetch_add(&secure.destroyed, 1);
        begin_reply(message, head.xid, NULL, 0);
        return;
    }
    answer_data(server, &head, &credential, call + length, message);
}
