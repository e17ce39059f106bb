/* See held.h. */
#include "held.h"

void held_abandoned(struct held *held)
{
    if (held && held->latest == NEVER)
        held->latest = too_late();
    if (held && held->due == NEVER && held->after_ms != NEVER)
        held->due = clock_ns() + milliseconds(held->after_ms);
}

void held_discard(struct held *held)
{
    held->path->counters.discarded++;
    free(held->message);
    held->message = NULL;
}

/* The server's end of the connection dies: what is not late dies with it. */
void held_lost(struct connection *c)
{
    struct held *held = c->held;
    if (!held)
        return;
    c->held = NULL;
    held->connection = NULL;
    held_abandoned(held);
    if (!held->late)
        held_discard(held);
}

static uint64_t write_offset(const struct call *call)
{
    struct wire_reader r = call->in_session ? call->operation : call->args;
    struct nfs_handle handle;
    if (call->in_session)
        wire_get_bytes(&r, V41_ID_BYTES);
    else
        wire_get_handle(&r, &handle);
    return wire_get64(&r);
}

bool hold(struct connection *c, struct message *m, const struct call *call)
{
    struct faults *faults = &c->path->faults;
    bool wanted = faults->hold_count > 0 ? --faults->hold_count == 0
                                         : write_offset(call) == faults->hold_offset;
    if (!wanted || c->held)
        return false;
    faults->hold_offset = NEVER;
    c->held = need(sizeof *c->held);
    *c->held = (struct held){.next = helds,
                             .path = c->path,
                             .connection = c,
                             .message = m,
                             .after_ms = faults->hold_after_ms,
                             .due = NEVER,
                             .latest = NEVER,
                             .late = faults->hold_late,
                             .client = c->client,
                             .xid = call->xid};
    helds = c->held;
    c->path->counters.held++;
    if (faults->hold_blackhole)
        faults->blackhole[CALLS] = faults->blackhole[REPLIES] = true;
    if (faults->hold_refuse)
        path_refuse(c->path);
    if (faults->hold_reset || faults->hold_refuse)
        connection_reset(c);
    return true;
}

void recognise(const struct connection *c, const struct call *call)
{
    for (struct held *held = helds; held; held = held->next) {
        if (held->message && held->late && held->path == c->path && held->connection != c &&
            held->xid == call->xid && same_address(&held->client, &c->client))
            held_discard(held);
    }
}

/* The server needs some time for it. */
enum { MARGIN_MS = 100 };

/* Puts the call on its way, if there is time for that: over its own connection, or after that is
 * gone, over a new one. */
static void held_deliver(struct held *held)
{
    struct connection *c = held->connection;
    struct message *m = held->message;
    if (clock_ns() + milliseconds(MARGIN_MS) > held->latest) {
        if (c)
            c->held = NULL;
        held_discard(held);
        return;
    }
    if (!c) {
        c = need(sizeof *c);
        c->path = held->path;
        c->client.sin_family = AF_INET; /* of nobody */
        c->next = connections;
        connections = c;
        server_open(c);
    } else if (!c->ends[REPLIES] || c->flows[CALLS].broken) {
        c->held = NULL;
        held_discard(held);
        return;
    }
    c->held = NULL;
    c->released = true; /* no fault of now stops it */
    c->latest = held->latest;
    held->message = NULL;
    held->path->counters.delivered++;
    m->due = 0;
    struct message **link = &c->flows[CALLS].out;
    while (*link && (*link)->sent)
        link = &(*link)->next;
    m->next = *link;
    *link = m;
    c->flows[CALLS].queued += m->length;
}

uint64_t helds_due(uint64_t now)
{
    uint64_t next = NEVER;
    for (struct held **link = &helds; *link;) {
        struct held *held = *link;
        if (held->message && held->due <= now)
            held_deliver(held);
        if (!held->message) {
            *link = held->next;
            free(held);
            continue;
        }
        next = held->due < next ? held->due : next;
        link = &held->next;
    }
    return next;
}
