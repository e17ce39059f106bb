/* See relay.h. */
#include "relay.h"
#include "tls.h"

enum { LOOK_MS = 20 }; /* between looks whether ends are gone */

/* ---- records ---- */

/* Queues a record for its way on. */
static void forward(struct connection *c, enum direction direction, struct message *m)
{
    struct faults *faults = &c->path->faults;
    struct flow *flow = &c->flows[direction];
    uint64_t jitter = faults->jitter_ms ? random_next(&random_state) % (faults->jitter_ms + 1) : 0;
    m->due = clock_ns() + milliseconds(faults->delay_ms + jitter);
    struct message **link = &flow->out;
    if (happens(&faults->reorder[direction]))
        m->due += milliseconds(1 + random_next(&random_state) % 10);
    else if (m->due < flow->last_due) /* jitter alone changes no order */
        m->due = flow->last_due;
    if (!faults->reorder[direction].percent)
        flow->last_due = m->due;
    while (*link && ((*link)->sent || (*link)->sealed || (*link)->due <= m->due))
        link = &(*link)->next;
    m->next = *link;
    *link = m;
    flow->queued += m->length;
}

static void pass_on(struct connection *c, enum direction direction, struct message *m)
{
    struct faults *faults = &c->path->faults;
    c->path->counters.forwarded++;
    if (happens(&faults->duplicate[direction])) {
        c->path->counters.duplicated++;
        forward(c, direction, message_make(m->data, m->length));
    }
    forward(c, direction, m);
}

/* Answers a call itself: accepted, and as the result a failure without attributes; of NFSv4.1 that
 * of SEQUENCE, as if the call had never been. */
static void answer_failure(struct connection *c, const struct call *call, uint32_t status)
{
    uint32_t procedure = call->procedure;
    unsigned char reply[64];
    struct wire_writer w = {reply, reply + sizeof reply, false};
    const uint32_t head[] = {0, call->xid,   RPC_REPLY, RPC_ACCEPTED, RPC_AUTH_NONE,
                             0, RPC_SUCCESS, status};
    const uint32_t sequence[] = {0, 1, V41_SEQUENCE, status};
    for (unsigned i = 0; i < sizeof head / sizeof *head; i++)
        wire_put32(&w, head[i]);
    bool changes = procedure == NFS_WRITE || procedure == NFS_COMMIT || procedure == NFS_SETATTR ||
                   procedure == NFS_CREATE;
    for (unsigned i = 0; call->in_session && i < sizeof sequence / sizeof *sequence; i++)
        wire_put32(&w, sequence[i]);
    for (int i = 0; !call->in_session && i < (procedure == NFS_GETATTR ? 0 : changes ? 2 : 1); i++)
        wire_put32(&w, 0);
    size_t length = (size_t)(w.at - reply);
    wire_store32(reply, (uint32_t)(length - 4) | RPC_LAST_FRAGMENT);
    c->path->counters.answered++;
    forward(c, REPLIES, message_make(reply, length));
}

/*
 * Somebody on the way changes a bit of what Kerberos protects (RFC 2203): of a call or reply with
 * RPCSEC_GSS. Mark and xid stay.
 */
static void tamper(struct connection *c, enum direction direction, struct message *m)
{
    size_t flavor_at = direction == CALLS ? 28 : 16;
    if (c->tls || m->length < flavor_at + 12 ||
        wire_load32(m->data + 8) != (direction == CALLS ? RPC_CALL : RPC_REPLY) ||
        wire_load32(m->data + flavor_at) != RPCSEC_GSS ||
        !happens(&c->path->faults.tamper[direction]))
        return;
    c->path->counters.tampered++;
    change_bit(m->data + 8, m->length - 8);
}

/* Counts how calls of NFS are protected (RFC 2203, section 5): all but NULL, and those that end a
 * context, which are NULL. */
static void count_protection(struct counters *counters, const struct message *m)
{
    uint64_t *services[] = {&counters->krb5, &counters->krb5i, &counters->krb5p};
    if (m->length < 52 || wire_load32(m->data + 16) != NFS_PROGRAM ||
        wire_load32(m->data + 24) == NFS_NULL)
        return;
    uint32_t service = wire_load32(m->data + 28) == RPCSEC_GSS ? wire_load32(m->data + 48) : 0;
    ++*(service >= 1 && service <= 3 ? services[service - 1] : &counters->plain);
}

static void call_came(struct connection *c, struct message *m)
{
    struct faults *faults = &c->path->faults;
    c->path->counters.calls++;
    c->calls++;
    count_protection(&c->path->counters, m);
    struct call call;
    bool nfs = call_parse(m->data + 4, m->length - 4, &call) && call.program == NFS_PROGRAM &&
               call.procedure < NFS_PROCEDURES;
    if (nfs) {
        c->in_flight[call.xid % IN_FLIGHT].xid = call.xid;
        c->in_flight[call.xid % IN_FLIGHT].procedure = call.procedure;
        if (!call.in_session) /* there slot and sequence are what it knows a call by */
            recognise(c, &call);
    }
    if (nfs && call.procedure == faults->hold_procedure && hold(c, m, &call))
        return;
    if (nfs && happens(&faults->answer[call.procedure].chance)) {
        answer_failure(c, &call, faults->answer[call.procedure].status);
        free(m);
    } else if (nfs && happens(&faults->drop[CALLS])) {
        c->path->counters.dropped++;
        free(m);
    } else {
        tamper(c, CALLS, m);
        pass_on(c, CALLS, m);
    }
}

void corrupt(struct connection *c, struct message *m)
{
    struct faults *faults = &c->path->faults;
    if (m->length < 32)
        return;
    uint32_t xid = wire_load32(m->data + 4), status = wire_load32(m->data + 28);
    uint32_t procedure = c->in_flight[xid % IN_FLIGHT].procedure;
    if (c->in_flight[xid % IN_FLIGHT].xid != xid || c->port != 0)
        return;
    bool verifies = procedure == NFS_WRITE || procedure == NFS_COMMIT;
    if (verifies && status == NFS_OK && faults->verifier && m->length >= 40)
        wire_store32(m->data + m->length - 4,
                     wire_load32(m->data + m->length - 4) ^ (uint32_t)mix(faults->verifier));
    size_t count = 32 + 4 + (m->length >= 36 && wire_load32(m->data + 32) ? NFS_FATTR_BYTES : 0);
    struct {
        enum field field;
        size_t at;
        uint32_t value;
    } damage[FIELDS] = {
        {FIELD_XID, 4, xid ^ 0x55555555},
        {FIELD_STATUS, 28, 0x7fffffff},
        {FIELD_LENGTH, procedure == NFS_READ ? count + 8 : 0, 0x7ffffffe},
        {FIELD_MARK, 0, 0x7fffffff},
    };
    for (unsigned i = 0; i < FIELDS; i++) {
        if ((damage[i].at == 0 && damage[i].field != FIELD_MARK) || damage[i].at + 4 > m->length ||
            !happens(&faults->corrupt[damage[i].field]))
            continue;
        wire_store32(m->data + damage[i].at, damage[i].value);
        c->path->counters.corrupted++;
    }
}

static void reply_came(struct connection *c, struct message *m)
{
    c->path->counters.replies++;
    c->replies++;
    if (!c->ends[CALLS]) {
        c->path->counters.overdue += c->released && clock_ns() > c->latest;
        free(m);
        if (c->released) /* the held call was executed */
            connection_reset(c);
    } else if (happens(&c->path->faults.drop[REPLIES])) {
        c->path->counters.dropped++;
        free(m);
    } else {
        corrupt(c, m);
        tamper(c, REPLIES, m);
        pass_on(c, REPLIES, m);
    }
}

/* ---- sockets ---- */

/* Sends what is due. False when the connection was reset. */
static bool flow_send(struct connection *c, enum direction direction, uint64_t now)
{
    struct flow *flow = &c->flows[direction];
    struct faults *faults = &c->path->faults;
    struct end *to = c->ends[!direction];
    if (!to || (direction == CALLS && c->connecting))
        return true;
    while (flow->out && flow->out->due <= now && flow->stalled <= now && !dark(c, direction)) {
        if (direction == REPLIES && c->tls && !tls_seal_first(c))
            break;
        struct message *m = flow->out;
        size_t part = m->length - m->sent;
        if (m->sent == 0 && m->length > 8 && happens(&faults->stall[direction])) {
            part = m->length / 2;
            flow->stalled = now + milliseconds(faults->stall_ms);
        } else if (faults->split) {
            size_t most = 1 + random_next(&random_state) % faults->split;
            part = part < most ? part : most;
        }
        ssize_t sent = send(to->watch.fd, m->data + m->sent, part, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            to->watch.events |= POLLOUT;
            return true;
        }
        if (sent < 0) {
            connection_reset(c);
            return false;
        }
        m->sent += (size_t)sent;
        if (m->sent < m->length)
            continue;
        flow->out = m->next;
        flow->queued -= m->length;
        free(m);
    }
    if (flow->ending && !flow->ended && !flow->out && direction == REPLIES && c->tls)
        tls_say_end(c);
    if (flow->ending && !flow->ended && !flow->out) {
        shutdown(to->watch.fd, SHUT_WR);
        flow->ended = true;
    }
    to->watch.events &= (short)~POLLOUT;
    return true;
}

/* One side's connection is no more. */
static void end_lost(struct connection *c, enum direction side)
{
    if (side == CALLS)
        held_abandoned(c->held);
    /* What of it the server has not answered it may have executed just now. */
    if (side == CALLS && c->calls > c->replies && clock_ns() > too_late())
        c->path->counters.overdue++;
    if (dark(c, side) && c->ends[!side]) { /* the other side does not learn of it */
        end_close(c, side);
        flow_empty(&c->flows[side]);
        flow_empty(&c->flows[!side]);
    } else if (side == CALLS && c->held) {
        end_close(c, CALLS);
        flow_empty(&c->flows[CALLS]);
        flow_empty(&c->flows[REPLIES]);
    } else {
        connection_reset(c);
    }
}

static void end_receive(struct connection *c, enum direction side)
{
    struct flow *flow = &c->flows[side];
    struct end *end = c->ends[side];
    bool garbage = false;
    int got = side == CALLS && c->tls ? tls_receive(c) : input_receive(&flow->in, end->watch.fd);
    if (got == -2) {
        end_lost(c, side);
        return;
    }
    if (got == -1) {
        flow->ending = true;
        end->watch.events &= (short)~POLLIN;
    }
    struct message *m;
    while (!c->dead && (m = input_record(&flow->in, &garbage))) {
        if (side == CALLS)
            call_came(c, m);
        else
            reply_came(c, m);
        uint64_t most = c->path->faults.drop_after;
        if (side == CALLS && most && c->calls >= most) {
            c->path->counters.resets++;
            connection_reset(c);
        }
    }
    if (garbage)
        connection_reset(c);
    else if (flow->ending && !c->ends[!side] && !dark(c, side))
        connection_reset(c);
}

void end_ready(struct watch *watch, short events)
{
    struct connection *c = ((struct end *)watch)->connection;
    enum direction side = c->ends[CALLS] && &c->ends[CALLS]->watch == watch ? CALLS : REPLIES;
    if (side == REPLIES && c->connecting && events) {
        int error = 0;
        socklen_t length = sizeof error;
        getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error) {
            connection_reset(c);
            return;
        }
        c->connecting = false;
        watch->events = POLLIN;
    }
    if (events & (POLLIN | POLLERR | POLLHUP))
        end_receive(c, side);
}

/* ---- what is due ---- */

static uint64_t connection_due(struct connection *c, uint64_t now)
{
    uint64_t next = NEVER;
    if (!c->ends[REPLIES] && !dark(c, CALLS) && c->ends[CALLS])
        server_connect(c);
    for (enum direction d = CALLS; d <= REPLIES && !c->dead; d++) {
        struct flow *flow = &c->flows[d];
        if (!flow_send(c, d, now))
            break;
        struct end *from = c->ends[d];
        if (from && !flow->ending)
            from->watch.events = (short)(flow->queued > QUEUED_MOST ? from->watch.events & ~POLLIN
                                                                    : from->watch.events | POLLIN);
        if (flow->out && !dark(c, d) && c->ends[!d]) {
            uint64_t at = flow->out->due > flow->stalled ? flow->out->due : flow->stalled;
            if (at > now && at < next)
                next = at;
        }
    }
    /* Both sides said all they had to say; or nobody is left who would. */
    if ((c->flows[CALLS].ended && c->flows[REPLIES].ended) ||
        (!c->ends[CALLS] && !c->held && !c->released && !dark(c, CALLS)))
        connection_reset(c);
    return next;
}

uint64_t relay_due(uint64_t now)
{
    static uint64_t polled_ns; /* what was gone then was seen to be */
    alive_ns = polled_ns;
    polled_ns = now;
    uint64_t next = helds_due(now), at;
    if (late_most_ns != NEVER && next > now + milliseconds(LOOK_MS))
        next = now + milliseconds(LOOK_MS);
    for (struct connection *c = connections; c; c = c->next) {
        if (!c->dead && (at = connection_due(c, now)) < next)
            next = at;
    }
    for (struct connection **link = &connections; *link;) {
        struct connection *c = *link;
        if (!c->dead) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        for (enum direction d = CALLS; d <= REPLIES; d++) {
            flow_empty(&c->flows[d]);
            free(c->flows[d].in.bytes);
        }
        tls_free(c);
        free(c);
    }
    return next;
}
