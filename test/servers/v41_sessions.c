/* See v41_sessions.h. */
#include "v41_sessions.h"

void v41_count_state(struct v41_state *state)
{
    unsigned clients = 0, sessions = 0, opens = 0;
    for (unsigned i = 0; i < V41_CLIENTS; i++)
        clients += state->clients[i].id != 0;
    for (unsigned i = 0; i < V41_SESSIONS; i++)
        sessions += state->sessions[i].used;
    for (unsigned i = 0; i < V41_OPENS; i++)
        opens += state->opens[i].sequence != 0;
    atomic_store(&state->control->clients, clients);
    atomic_store(&state->control->sessions, sessions);
    atomic_store(&state->control->opens, opens);
}

static void v41_session_end(struct v41_session *session)
{
    for (unsigned i = 0; i < V41_SLOTS; i++)
        free(session->slots[i].reply.data);
    memset(session, 0, sizeof(*session));
}

static void v41_client_end(struct v41_state *state, struct v41_client *client)
{
    for (unsigned i = 0; i < V41_SESSIONS; i++) {
        if (state->sessions[i].used && state->sessions[i].client == client->id)
            v41_session_end(&state->sessions[i]);
    }
    for (unsigned i = 0; i < V41_OPENS; i++) {
        if (state->opens[i].client == client->id)
            state->opens[i].sequence = 0;
    }
    free(client->created.data);
    memset(client, 0, sizeof(*client));
}

void v41_state_forget(struct v41_state *state)
{
    for (unsigned i = 0; i < V41_CLIENTS; i++) {
        if (state->clients[i].id)
            v41_client_end(state, &state->clients[i]);
    }
    v41_count_state(state);
}

struct v41_client *v41_client_of(struct v41_state *state, uint64_t id)
{
    for (unsigned i = 0; i < V41_CLIENTS; i++) {
        if (id != 0 && state->clients[i].id == id)
            return &state->clients[i];
    }
    return NULL;
}

static struct v41_session *v41_session_of(struct v41_state *state, const uint8_t *id)
{
    for (unsigned i = 0; i < V41_SESSIONS; i++) {
        if (state->sessions[i].used && memcmp(state->sessions[i].id, id, V41_SESSION_ID) == 0)
            return &state->sessions[i];
    }
    return NULL;
}

/* ---- EXCHANGE_ID ---- */

static struct v41_client *v41_client_named(struct v41_call *call, struct v41_bytes owner,
                                           bool confirmed)
{
    bool by_address = atomic_load(&call->control->by_address);
    for (unsigned i = 0; i < V41_CLIENTS; i++) {
        struct v41_client *client = &call->state->clients[i];
        if (client->id && client->confirmed == confirmed && client->owner_length == owner.length &&
            memcmp(client->owner, owner.data, owner.length) == 0 &&
            (!by_address || client->address == call->address))
            return client;
    }
    return NULL;
}

static struct v41_client *v41_client_new(struct v41_call *call, struct v41_bytes owner,
                                         const uint8_t *verifier)
{
    struct v41_state *state = call->state;
    for (unsigned i = 0; i < V41_CLIENTS; i++) {
        struct v41_client *client = &state->clients[i];
        if (client->id)
            continue;
        client->id = UINT64_C(0xc11e) << 32 | ++state->numbers;
        memcpy(client->verifier, verifier, 8);
        memcpy(client->owner, owner.data, owner.length);
        client->owner_length = owner.length;
        client->address = call->address;
        client->sequence = (uint32_t)state->numbers * 16;
        return client;
    }
    return NULL;
}

uint32_t v41_exchange_id(struct v41_call *call)
{
    enum {
        UPDATE = 0x40000000,
        CONFIRMED = (int)0x80000000,
        NON_PNFS = 0x10000,
        METADATA = 0x20000
    };
    enum { ARGUMENTS = 0x40070103 }; /* flags a client may set */
    const uint8_t *verifier = v41_take(&call->in, 8);
    struct v41_bytes owner = v41_opaque(&call->in, V41_OWNER_MOST);
    uint32_t flags = v41_u32(&call->in), how = v41_u32(&call->in);
    if (!call->in.bad && how != 0)
        return V41_NOTSUPP; /* state protection */
    uint32_t implementations = v41_u32(&call->in);
    for (uint32_t i = 0; !call->in.bad && i < implementations; i++) {
        v41_opaque(&call->in, 1024);
        v41_opaque(&call->in, 1024);
        v41_take(&call->in, 12);
        call->in.bad = call->in.bad || i > 0;
    }
    if (call->in.bad)
        return V41_BADXDR;
    if (flags & ~(uint32_t)ARGUMENTS || owner.length == 0)
        return V41_INVAL;
    struct v41_client *confirmed = v41_client_named(call, owner, true), *client = confirmed;
    if (flags & UPDATE && !confirmed)
        return V41_NOENT;
    if (flags & UPDATE && memcmp(confirmed->verifier, verifier, 8) != 0)
        return V41_NOT_SAME;
    if (!confirmed || memcmp(confirmed->verifier, verifier, 8) != 0) {
        /* Another start of it: what is there lives on until CREATE_SESSION confirms this one. */
        struct v41_client *unconfirmed = v41_client_named(call, owner, false);
        if (unconfirmed)
            v41_client_end(call->state, unconfirmed);
        client = v41_client_new(call, owner, verifier);
        if (!client)
            return V41_NOSPC;
    }
    v41_put64(&call->out, client->id);
    put_word(&call->out, client->sequence + 1);
    put_word(&call->out, (atomic_load(&call->control->layouts) ? METADATA : NON_PNFS) |
                             (client->confirmed ? (uint32_t)CONFIRMED : 0));
    put_word(&call->out, 0);
    v41_put64(&call->out, atomic_load(&call->control->owner_minor));
    v41_put_opaque(&call->out, call->control->owner, strlen(call->control->owner));
    v41_put_opaque(&call->out, call->control->scope, strlen(call->control->scope));
    put_word(&call->out, 0);
    return V41_OK;
}

/* ---- CREATE_SESSION ---- */

static void v41_get_channel(struct v41_in *in, struct v41_channel *channel)
{
    channel->padding = v41_u32(in);
    channel->request_most = v41_u32(in);
    channel->response_most = v41_u32(in);
    channel->cached_most = v41_u32(in);
    channel->operations = v41_u32(in);
    channel->requests = v41_u32(in);
    uint32_t rdma = v41_u32(in);
    in->bad = in->bad || rdma > 1;
    if (rdma == 1)
        v41_u32(in);
}

static void v41_put_channel(struct bytes *out, const struct v41_channel *channel)
{
    put_word(out, 0);
    put_word(out, channel->request_most);
    put_word(out, channel->response_most);
    put_word(out, channel->cached_most);
    put_word(out, channel->operations);
    put_word(out, channel->requests);
    put_word(out, 0);
}

static void v41_skip_callback_security(struct v41_in *in)
{
    uint32_t count = v41_u32(in);
    in->bad = in->bad || count > 8;
    for (uint32_t i = 0; !in->bad && i < count; i++) {
        uint32_t flavor = v41_u32(in);
        if (flavor == 1) {
            v41_u32(in);
            v41_opaque(in, 255);
            v41_take(in, 8);
            uint32_t groups = v41_u32(in);
            in->bad = in->bad || groups > 16;
            v41_take(in, in->bad ? 0 : groups * 4);
        } else {
            in->bad = in->bad || flavor != 0;
        }
    }
}

static uint32_t v41_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The new verifier is the one that counts: what the former start of this owner had is gone. */
static void v41_client_confirm(struct v41_state *state, struct v41_client *client)
{
    for (unsigned i = 0; !client->confirmed && i < V41_CLIENTS; i++) {
        struct v41_client *other = &state->clients[i];
        if (other->id && other != client && other->confirmed &&
            other->owner_length == client->owner_length && other->address == client->address &&
            memcmp(other->owner, client->owner, client->owner_length) == 0)
            v41_client_end(state, other);
    }
    client->confirmed = true;
}

static struct v41_session *v41_session_new(struct v41_call *call, struct v41_client *client,
                                           const struct v41_channel *asked)
{
    struct v41_state *state = call->state;
    struct v41_control *control = call->control;
    for (unsigned i = 0; i < V41_SESSIONS; i++) {
        struct v41_session *session = &state->sessions[i];
        if (session->used)
            continue;
        session->used = true;
        session->client = client->id;
        uint64_t number = ++state->numbers, verifier = atomic_load(&control->verifier);
        memcpy(session->id, &number, 8);
        memcpy(session->id + 8, &verifier, 8);
        uint32_t largest = atomic_load(&control->largest);
        session->fore = (struct v41_channel){
            .request_most = v41_least(asked->request_most, largest),
            .response_most = v41_least(asked->response_most, largest),
            .cached_most = v41_least(asked->cached_most, atomic_load(&control->cached)),
            .operations = v41_least(asked->operations, V41_MOST_OPERATIONS),
            .requests =
                v41_least(v41_least(asked->requests, V41_SLOTS), atomic_load(&control->slots))};
        return session;
    }
    return NULL;
}

static void v41_put_session(struct v41_call *call, const struct v41_session *session,
                            const struct v41_channel *asked, const struct v41_channel *back)
{
    struct v41_channel told = session->fore;
    unsigned lie = atomic_load(&call->control->lie);
    if (lie == V41_MORE_SLOTS)
        told.requests = asked->requests + 1;
    if (lie == V41_NO_SLOTS)
        told.requests = 0;
    if (lie == V41_SMALL_REPLIES)
        told.response_most = 64;
    put_word(&call->out, 0); /* it is not persistent, and has no back channel */
    v41_put_channel(&call->out, &told);
    v41_put_channel(&call->out, back);
}

uint32_t v41_create_session(struct v41_call *call)
{
    struct v41_channel asked, back;
    uint64_t id = v41_u64(&call->in);
    uint32_t sequence = v41_u32(&call->in), flags = v41_u32(&call->in);
    v41_get_channel(&call->in, &asked);
    v41_get_channel(&call->in, &back);
    v41_u32(&call->in);
    v41_skip_callback_security(&call->in);
    if (call->in.bad)
        return V41_BADXDR;
    struct v41_client *client = v41_client_of(call->state, id);
    if (!client)
        return V41_STALE_CLIENTID;
    if (sequence == client->sequence && client->created.length > 0) {
        atomic_fetch_add(&call->control->replays, 1);
        v41_put_fixed(&call->out, client->created.data, client->created.length);
        return V41_OK;
    }
    if (sequence != client->sequence + 1) {
        atomic_fetch_add(&call->control->misordered, 1);
        return V41_SEQ_MISORDERED;
    }
    if (flags & ~7u)
        return V41_INVAL;
    if (asked.request_most < 256 || asked.response_most < 256 || asked.operations < 2)
        return V41_TOOSMALL;
    struct v41_session *session = v41_session_new(call, client, &asked);
    if (!session)
        return V41_NOSPC;
    v41_client_confirm(call->state, client);
    client->sequence = sequence;
    session->bound[call->connection] = true;
    size_t begin = call->out.length;
    v41_put_fixed(&call->out, session->id, V41_SESSION_ID);
    put_word(&call->out, sequence);
    v41_put_session(call, session, &asked, &back);
    client->created.length = 0;
    v41_put_fixed(&client->created, call->out.data + begin, call->out.length - begin);
    return V41_OK;
}

/* ---- the others ---- */

uint32_t v41_bind(struct v41_call *call)
{
    struct v41_session *session = v41_session_of(call->state, v41_take(&call->in, V41_SESSION_ID));
    uint32_t direction = v41_u32(&call->in);
    bool rdma = v41_bool(&call->in);
    if (call->in.bad || (direction != 1 && direction != 2 && direction != 3 && direction != 7))
        return V41_BADXDR;
    if (!session)
        return V41_BADSESSION;
    if (rdma || direction == 2)
        return V41_INVAL; /* there is no back channel */
    session->bound[call->connection] = true;
    atomic_fetch_add(&call->control->bound, 1);
    v41_put_fixed(&call->out, session->id, V41_SESSION_ID);
    put_word(&call->out, 1);
    put_word(&call->out, 0);
    return V41_OK;
}

uint32_t v41_destroy_session(struct v41_call *call)
{
    struct v41_session *session = v41_session_of(call->state, v41_take(&call->in, V41_SESSION_ID));
    if (call->in.bad)
        return V41_BADXDR;
    if (!session)
        return V41_BADSESSION;
    if (!session->bound[call->connection] && atomic_load(&call->control->bind_needed))
        return V41_CONN_NOT_BOUND;
    if (call->session == session) {
        if (call->index + 1 < call->operations)
            return V41_NOT_ONLY_OP;
        call->session = NULL;
        call->slot = NULL;
    }
    v41_session_end(session);
    return V41_OK;
}

uint32_t v41_destroy_clientid(struct v41_call *call)
{
    struct v41_client *client = v41_client_of(call->state, v41_u64(&call->in));
    if (call->in.bad)
        return V41_BADXDR;
    if (!client)
        return V41_STALE_CLIENTID;
    for (unsigned i = 0; i < V41_SESSIONS; i++) {
        if (call->state->sessions[i].used && call->state->sessions[i].client == client->id)
            return V41_CLIENTID_BUSY;
    }
    v41_client_end(call->state, client);
    return V41_OK;
}

uint32_t v41_reclaim_complete(struct v41_call *call)
{
    bool one = v41_bool(&call->in);
    struct v41_client *client = v41_client_of(call->state, call->session->client);
    if (call->in.bad)
        return V41_BADXDR;
    if (one)
        return call->current ? V41_OK : V41_NOFILEHANDLE;
    if (client->complete)
        return V41_COMPLETE_ALREADY;
    client->complete = true;
    return V41_OK;
}

/* FNV-1a: what a call asks for, beside its SEQUENCE. */
static uint64_t v41_digest(const uint8_t *at, const uint8_t *end)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (; at < end; at++)
        digest = (digest ^ *at) * UINT64_C(0x100000001b3);
    return digest;
}

/* The slot's last call has come again: its answer is what was kept. */
static uint32_t v41_replay(struct v41_call *call, const struct v41_slot *slot, uint64_t digest)
{
    if (slot->digest != digest) {
        atomic_fetch_add(&call->control->false_retries, 1);
        return V41_SEQ_FALSE_RETRY;
    }
    atomic_fetch_add(slot->kept ? &call->control->replays : &call->control->uncached_retries, 1);
    call->replayed = true;
    call->out.length = 0;
    v41_put_fixed(&call->out, slot->reply.data, slot->reply.length);
    return V41_OK;
}

static void v41_put_sequence(struct v41_call *call, const struct v41_session *session,
                             uint32_t sequence, uint32_t slot)
{
    struct v41_control *control = call->control;
    unsigned lie = atomic_load(&control->lie), target = atomic_load(&control->target);
    uint8_t id[V41_SESSION_ID];
    memcpy(id, session->id, V41_SESSION_ID);
    id[0] ^= lie == V41_OTHER_SESSION;
    v41_put_fixed(&call->out, id, V41_SESSION_ID);
    put_word(&call->out, sequence + (lie == V41_OTHER_SEQUENCE));
    put_word(&call->out, slot + (lie == V41_OTHER_SLOT));
    put_word(&call->out, session->fore.requests - 1);
    put_word(&call->out, lie == V41_FAR_TARGET ? 0xfffffff0u
                         : target > 0          ? target - 1
                                               : session->fore.requests - 1);
    put_word(&call->out, atomic_load(&control->flags));
}

uint32_t v41_sequence(struct v41_call *call)
{
    struct v41_control *control = call->control;
    struct v41_session *session = v41_session_of(call->state, v41_take(&call->in, V41_SESSION_ID));
    uint32_t sequence = v41_u32(&call->in), number = v41_u32(&call->in);
    uint32_t highest = v41_u32(&call->in);
    bool keep = v41_bool(&call->in);
    if (call->in.bad)
        return V41_BADXDR;
    if (!session)
        return V41_BADSESSION;
    if (!session->bound[call->connection] && atomic_load(&control->bind_needed))
        return V41_CONN_NOT_BOUND;
    session->bound[call->connection] = true;
    if (number >= session->fore.requests)
        return V41_BADSLOT;
    if (highest < number || highest >= session->fore.requests)
        return V41_BAD_HIGH_SLOT;
    if (number > atomic_load(&control->highest_slot))
        atomic_store(&control->highest_slot, number);
    struct v41_slot *slot = &session->slots[number];
    uint64_t digest = v41_digest(call->in.at, call->in.end);
    if (slot->used && sequence == slot->sequence)
        return v41_replay(call, slot, digest);
    if (sequence != slot->sequence + 1) {
        atomic_fetch_add(&control->misordered, 1);
        return V41_SEQ_MISORDERED;
    }
    if (call->operations > session->fore.operations)
        return V41_TOO_MANY_OPS;
    if (call->record > session->fore.request_most)
        return V41_REQ_TOO_BIG;
    slot->used = true;
    slot->sequence = sequence;
    slot->digest = digest;
    call->session = session;
    call->slot = slot;
    call->keep = keep;
    if (keep)
        atomic_fetch_add(&control->kept, 1);
    v41_put_sequence(call, session, sequence, number);
    return V41_OK;
}

void v41_keep_reply(struct v41_call *call, size_t sequence_end, uint32_t next)
{
    struct v41_slot *slot = call->slot;
    slot->reply.length = 0;
    slot->kept = call->keep || call->operations == 1;
    if (slot->kept) {
        v41_put_fixed(&slot->reply, call->out.data, call->out.length);
        return;
    }
    v41_put_fixed(&slot->reply, call->out.data, sequence_end);
    put_word(&slot->reply, next);
    put_word(&slot->reply, V41_RETRY_UNCACHED_REP);
    v41_set_word(slot->reply.data, V41_RETRY_UNCACHED_REP);
    uint32_t tag = v41_word_at(slot->reply.data + 4);
    v41_set_word(slot->reply.data + 8 + ((tag + 3) & ~3u), 2);
}
