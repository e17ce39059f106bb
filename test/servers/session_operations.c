/* See session_operations.h. */
#include "session_operations.h"

struct session_server session_server;

bool session_server_fails(uint32_t op, uint32_t *status)
{
    if (atomic_load(&session_server.fail_op) != op || atomic_load(&session_server.fail_count) == 0)
        return false;
    atomic_fetch_sub(&session_server.fail_count, 1);
    *status = atomic_load(&session_server.fail_status);
    return true;
}

static struct session_server_session *session_server_session_of(const uint8_t *id)
{
    for (int i = 0; i < SERVER_SESSIONS; i++) {
        struct session_server_session *s = &session_server.sessions[i];
        if (s->alive && memcmp(s->id, id, 16) == 0)
            return s;
    }
    return NULL;
}

void session_server_forget(void)
{
    for (int i = 0; i < SERVER_SESSIONS; i++)
        session_server.sessions[i].alive = false;
    atomic_store(&session_server.alive, 0);
    session_server.owner_length = 0;
}

static uint32_t session_server_exchange_id(struct session_server_call *call)
{
    uint32_t length;
    xdr_get_room(&call->r, 8);
    const uint8_t *owner = xdr_get_opaque(&call->r, 1024, &length);
    xdr_get_room(&call->r, 12);
    if (!owner || call->r.bad)
        return 10036;
    if (length != session_server.owner_length || memcmp(owner, session_server.owner, length) != 0) {
        memcpy(session_server.owner, owner, length);
        session_server.owner_length = length;
        session_server.next_client++;
        atomic_fetch_add(&session_server.clients, 1);
    }
    xdr_put_u32(&call->w, 0);
    xdr_put_u64(&call->w, session_server.next_client);
    xdr_put_u32(&call->w, 1);
    xdr_put_u32(&call->w,
                atomic_load(&session_server.role) ? atomic_load(&session_server.role) : 0x10000);
    xdr_put_u32(&call->w, 0);
    xdr_put_u64(&call->w, atomic_load(&session_server.other_node));
    xdr_put_opaque(&call->w, atomic_load(&session_server.other_owner) ? "other" : "major", 5);
    xdr_put_opaque(&call->w, "scope", 5);
    xdr_put_u32(&call->w, 0);
    return 0;
}

static void session_server_channel(struct xdr_writer *w, uint32_t requests)
{
    const uint32_t words[] = {0,
                              atomic_load(&session_server.request_max),
                              atomic_load(&session_server.response_max),
                              SERVER_KEPT,
                              16,
                              requests,
                              0};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        xdr_put_u32(w, words[i]);
}

static uint32_t session_server_create_session(struct session_server_call *call)
{
    static uint8_t made;
    uint64_t client = xdr_get_u64(&call->r);
    xdr_get_room(&call->r, 8);
    if (client != session_server.next_client)
        return 10022;
    struct session_server_session *s = session_server.sessions;
    while (s->alive)
        s++;
    memset(s, 0, sizeof(*s));
    s->alive = true;
    s->client = client;
    if (strncmp(session_server.owner, "directnfs fence ", 16) == 0) {
        atomic_fetch_add(&session_server.fences, 1);
        if (atomic_load(&session_server.taken_meanwhile))
            memcpy(session_server.file, session_server.taken, sizeof(session_server.taken));
    }
    memset(s->id, ++made, 16);
    atomic_fetch_add(&session_server.alive, 1);
    call->r.p = call->r.end; /* it is the last operation */
    xdr_put_u32(&call->w, 0);
    xdr_put_fixed(&call->w, s->id, 16);
    xdr_put_u32(&call->w, 1);
    xdr_put_u32(&call->w, 0);
    session_server_channel(&call->w, atomic_load(&session_server.slots));
    session_server_channel(&call->w, 1);
    return 0;
}

/* 0: go on. With call->again the reply is the one that was kept. */
static uint32_t session_server_sequence(struct session_server_call *call)
{
    const uint8_t *id = xdr_get_fixed(&call->r, 16);
    uint32_t sequence = xdr_get_u32(&call->r), slot = xdr_get_u32(&call->r);
    uint32_t highest = xdr_get_u32(&call->r), keep = xdr_get_u32(&call->r);
    call->session = id ? session_server_session_of(id) : NULL;
    if (!call->session)
        return 10052;
    if (slot >= atomic_load(&session_server.slots) || highest < slot)
        return 10053;
    if (slot > atomic_load(&session_server.highest_slot))
        atomic_store(&session_server.highest_slot, slot);
    struct session_server_slot *s = &call->session->slots[slot];
    if (sequence == s->sequence && s->sequence != 0) {
        call->again = s->kept;
        call->slot = s;
        return s->kept ? 0 : 10068;
    }
    if (sequence != s->sequence + 1)
        return 10063;
    s->sequence = sequence;
    s->kept = false;
    if (atomic_load(&session_server.uncached) > 0 &&
        atomic_fetch_sub(&session_server.uncached, 1) > 0)
        return 10068;
    call->slot = s;
    call->keep = keep != 0;
    int lie = atomic_exchange(&session_server.lie, SERVER_TELLS_THE_TRUTH);
    xdr_put_u32(&call->w, 0);
    xdr_put_fixed(&call->w, lie == SERVER_OTHER_SESSION ? id + 1 : id, 16);
    xdr_put_u32(&call->w, sequence + (lie == SERVER_OTHER_SEQUENCE));
    xdr_put_u32(&call->w, slot + (lie == SERVER_OTHER_SLOT));
    xdr_put_u32(&call->w,
                atomic_load(&session_server.slots) - 1 + atomic_load(&session_server.highest_lie));
    xdr_put_u32(&call->w,
                atomic_load(&session_server.target) + atomic_load(&session_server.highest_lie));
    xdr_put_u32(&call->w, 1); /* no path for callbacks */
    return 0;
}

/* Whatever was asked for: all that this client asks for, in one order, of two kinds. */
static uint32_t session_server_getattr(struct session_server_call *call)
{
    uint32_t words = xdr_get_u32(&call->r), first = xdr_get_u32(&call->r);
    if (words != 2)
        return 22;
    uint32_t second = xdr_get_u32(&call->r);
    uint8_t room[256];
    struct xdr_writer w;
    xdr_writer_init(&w, room, sizeof(room));
    for (uint32_t bit = 0; bit < 64; bit++) {
        if (!((bit < 32 ? first >> bit : second >> (bit - 32)) & 1))
            continue;
        if (bit == 62) { /* fs_layout_type */
            xdr_put_u32(&w, atomic_load(&session_server.layouts));
            for (uint32_t i = 0; i < atomic_load(&session_server.layouts); i++)
                xdr_put_u32(&w, i + 1);
            continue;
        }
        if (bit == 1 || bit == 10)
            xdr_put_u32(&w, bit == 1 ? (call->of_file ? 1 : 2) : 90);
        else if (bit == 8)
            xdr_put_u64(&w, 7);
        if (bit == 4 || bit == 45)
            xdr_put_u64(&w, session_server.size);
        else if (bit == 27 || bit == 30 || bit == 31)
            xdr_put_u64(&w, bit == 27 ? 1u << 30 : SERVER_FILE);
        else if (bit != 1 && bit != 10)
            xdr_put_u64(&w, 5);
        if (bit == 47 || (bit >= 51 && bit <= 53))
            xdr_put_u32(&w, 6);
    }
    xdr_put_u32(&call->w, 0);
    xdr_put_u32(&call->w, 2);
    xdr_put_u32(&call->w, first);
    xdr_put_u32(&call->w, second);
    xdr_put_opaque(&call->w, room, (uint32_t)(w.p - room));
    return 0;
}

static void session_server_put_state(struct xdr_writer *w)
{
    for (uint32_t i = 0; i < 4; i++)
        xdr_put_u32(w, i == 0 ? session_server.opens : session_server.state + i);
}

/* By CLAIM_FH, of the only file. */
static uint32_t session_server_open(struct session_server_call *call)
{
    uint32_t length;
    xdr_get_u32(&call->r);
    uint32_t share = xdr_get_u32(&call->r), deny = xdr_get_u32(&call->r);
    xdr_get_u64(&call->r);
    xdr_get_opaque(&call->r, 64, &length);
    uint32_t creates = xdr_get_u32(&call->r), claim = xdr_get_u32(&call->r);
    if (call->r.bad || deny != 0 || creates != 0 || claim != 4 || !call->of_file)
        return 22;
    if (call->user != 0 && call->user == atomic_load(&session_server.delayed))
        return 10008;
    session_server.opens++;
    if (session_server.share == 0)
        session_server.state = session_server.opens;
    session_server.share |= share & 3;
    xdr_put_u32(&call->w, 0);
    session_server_put_state(&call->w);
    for (int i = 0; i < 5; i++)
        xdr_put_u32(&call->w, i == 0); /* change_info4 */
    xdr_put_u32(&call->w, 0);
    xdr_put_u32(&call->w, 0); /* no attributes were set */
    xdr_put_u32(&call->w, 0); /* nor is there a delegation */
    return 0;
}

/* Takes the state of a call. 0: it will do. */
static uint32_t session_server_state(struct session_server_call *call, uint32_t share)
{
    static const uint8_t anonymous[16];
    uint8_t current[16];
    struct xdr_writer w;
    const uint8_t *state = xdr_get_fixed(&call->r, 16);
    xdr_writer_init(&w, current, sizeof(current));
    session_server_put_state(&w);
    if (!state)
        return 10036;
    if (memcmp(state, anonymous, 16) == 0)
        return atomic_load(&session_server.insists) ? 10025 : 0;
    bool newest = xdr_load_u32(state) == 0 || memcmp(state, current, 4) == 0;
    if (session_server.share == 0 || !newest || memcmp(state + 4, current + 4, 12) != 0)
        return 10025;
    return session_server.share & share ? 0 : 10038;
}

static uint32_t session_server_read(struct session_server_call *call)
{
    uint32_t refused = session_server_state(call, 1);
    if (refused != 0)
        return refused;
    uint64_t offset = xdr_get_u64(&call->r);
    uint32_t count = xdr_get_u32(&call->r);
    if (offset > session_server.size)
        offset = session_server.size;
    if (count > session_server.size - offset)
        count = (uint32_t)(session_server.size - offset);
    xdr_put_u32(&call->w, 0);
    xdr_put_bool(&call->w, offset + count == session_server.size);
    xdr_put_opaque(&call->w, session_server.file + offset, count);
    return 0;
}

static uint32_t session_server_write(struct session_server_call *call)
{
    uint32_t count, refused = session_server_state(call, 2);
    if (refused != 0)
        return refused;
    uint64_t offset = xdr_get_u64(&call->r);
    uint32_t stable = xdr_get_u32(&call->r);
    const uint8_t *data = xdr_get_opaque(&call->r, SERVER_FILE, &count);
    if (!data || offset > SERVER_FILE - count)
        return 27;
    memcpy(session_server.file + offset, data, count);
    if (offset + count > session_server.size)
        session_server.size = offset + count;
    atomic_fetch_add(&session_server.writes, 1);
    xdr_put_u32(&call->w, 0);
    xdr_put_u32(&call->w, count);
    xdr_put_u32(&call->w, stable);
    xdr_put_u64(&call->w, 0x1234);
    return 0;
}

static uint32_t session_server_putfh(struct session_server_call *call)
{
    uint32_t length;
    const uint8_t *data = xdr_get_opaque(&call->r, 128, &length);
    if (!data || length != 1)
        return 10001;
    call->of_file = *data == 'f';
    xdr_put_u32(&call->w, 0);
    return 0;
}

static uint32_t session_server_lookup(struct session_server_call *call)
{
    uint32_t length;
    const uint8_t *name = xdr_get_opaque(&call->r, 255, &length);
    if (!name || call->of_file)
        return 20;
    if (length == 1 && *name == 'f')
        call->of_file = true;
    else if (length > 1 && *name == '.' && !atomic_load(&session_server.no_token))
        call->of_file = true; /* it has no other file */
    else if (length != 3 || memcmp(name, "dir", 3) != 0)
        return 2;
    xdr_put_u32(&call->w, 0);
    return 0;
}

static uint32_t session_server_setattr(struct session_server_call *call)
{
    uint32_t refused = session_server_state(call, 2);
    if (refused != 0)
        return refused;
    xdr_get_room(&call->r, 12);
    uint64_t size = xdr_get_u64(&call->r);
    xdr_put_u32(&call->w, 0);
    xdr_put_u32(&call->w, 1);
    xdr_put_u32(&call->w, 16);
    if (size > session_server.size)
        memset(session_server.file + session_server.size, 0, size - session_server.size);
    session_server.size = size;
    return 0;
}

/* Everything that has only a status, or little more. */
static uint32_t session_server_short(struct session_server_call *call, uint32_t op)
{
    uint8_t session[16];
    const uint8_t *at;
    xdr_put_u32(&call->w, 0);
    switch (op) {
    case S_GETFH:
        xdr_put_opaque(&call->w, call->of_file ? "f" : "r", 1);
        return 0;
    case S_ACCESS:
        xdr_put_u32(&call->w, 0x3f);
        xdr_put_u32(&call->w, xdr_get_u32(&call->r) & 0xd);
        return 0;
    case S_COMMIT:
        xdr_get_room(&call->r, 12);
        xdr_put_u64(&call->w, 0x1234);
        return 0;
    case S_BIND:
        at = xdr_get_fixed(&call->r, 16);
        memcpy(session, at, 16);
        xdr_get_room(&call->r, 8);
        xdr_put_fixed(&call->w, session, 16);
        xdr_put_u32(&call->w, 1);
        xdr_put_u32(&call->w, 0);
        return 0;
    case S_DESTROY_SESSION:
        at = xdr_get_fixed(&call->r, 16);
        if (at && session_server_session_of(at)) {
            session_server_session_of(at)->alive = false;
            atomic_fetch_sub(&session_server.alive, 1);
        }
        return 0;
    case S_DESTROY_CLIENTID:
        xdr_get_u64(&call->r);
        session_server.owner_length = 0;
        return 0;
    case S_RECLAIM_COMPLETE:
        xdr_get_u32(&call->r);
        return 0;
    case S_PUTROOTFH:
        call->of_file = false;
        return 0;
    case S_CLOSE:
        xdr_get_room(&call->r, 4 + 16);
        session_server.share = 0;
        session_server_put_state(&call->w);
        return 0;
    default:
        return 10044;
    }
}

uint32_t session_server_do(struct session_server_call *call, uint32_t op)
{
    switch (op) {
    case S_EXCHANGE_ID:
        return session_server_exchange_id(call);
    case S_CREATE_SESSION:
        return session_server_create_session(call);
    case S_SEQUENCE:
        return session_server_sequence(call);
    case S_GETATTR:
        return session_server_getattr(call);
    case S_READ:
        return session_server_read(call);
    case S_WRITE:
        return session_server_write(call);
    case S_PUTFH:
        return session_server_putfh(call);
    case S_LOOKUP:
        return session_server_lookup(call);
    case S_SETATTR:
        return session_server_setattr(call);
    case S_OPEN:
        return session_server_open(call);
    default:
        return session_server_short(call, op);
    }
}
