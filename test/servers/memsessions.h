// The clients and sessions of memserver's NFSv4.1 (RFC 8881, section 2.10): as a server keeps them
// that executes a request once, and tells its answer again.
//
// One thread; nothing here is locked.  A client ends with its owner's next verifier, or by its own
// wish; its sessions end with it.
#ifndef BENCH_MEMSESSIONS_H
#define BENCH_MEMSESSIONS_H

#include <stdlib.h>

#include "wire41.h"

#define KEPT_MOST 512u // bytes of a reply that is kept, without its RPC header

struct slot {
    uint32_t sequence; // of the last request
    uint32_t kept;     // bytes of its reply; 0: it is not kept
    unsigned char reply[KEPT_MOST];
};

struct session {
    uint64_t client;
    uint32_t slots;
    struct slot slot[];
};

struct owner {
    struct owner *next;
    uint64_t id, verifier;
    uint32_t sequence; // of the next CREATE_SESSION
    uint32_t length;
    unsigned char name[];
};

static struct {
    struct owner *owners;
    struct session **session; // by number; NULL: ended
    uint32_t sessions;        // numbers given out
    uint64_t last_client;
    uint32_t slots;    // wanted to be used; 0: all
    uint32_t lease_s;  // as told; 0: as usual
    bool grace;        // data is not to be had yet
    bool told_again;   // the last request was answered from what is kept, and not executed
    uint32_t instance; // of the server, so that no session of another one is taken for ours
} memory;

static struct owner *owner_find(uint64_t id)
{
    struct owner *c = memory.owners;
    while (c && c->id != id)
        c = c->next;
    return c;
}

static void session_end(uint32_t number)
{
    free(memory.session[number]);
    memory.session[number] = NULL;
}

static void owner_end(struct owner *c)
{
    struct owner **link = &memory.owners;
    for (uint32_t i = 0; i < memory.sessions; i++)
        if (memory.session[i] && memory.session[i]->client == c->id)
            session_end(i);
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    free(c);
}

// The owner of that name and verifier: the one that is known, or a new one in the place of what it
// was before.  NULL: no memory.
static struct owner *owner_of(const unsigned char *name, uint32_t length, uint64_t verifier)
{
    struct owner *c = memory.owners;
    while (c && (c->length != length || memcmp(c->name, name, length)))
        c = c->next;
    if (c && c->verifier == verifier)
        return c;
    if (c)
        owner_end(c);
    c = malloc(sizeof *c + length);
    if (!c)
        return NULL;
    *c = (struct owner){memory.owners, ++memory.last_client, verifier, 1, length};
    memcpy(c->name, name, length);
    return memory.owners = c;
}

// -1: no memory.
static int64_t session_new(struct owner *c, uint32_t slots)
{
    struct session *session = calloc(1, sizeof *session + slots * sizeof(struct slot));
    struct session **more = realloc(memory.session, (memory.sessions + 1) * sizeof(*more));
    if (more)
        memory.session = more;
    if (!session || !more) {
        free(session);
        return -1;
    }
    session->client = c->id;
    session->slots = slots;
    memory.session[memory.sessions] = session;
    return memory.sessions++;
}

static void session_put_id(struct wire_writer *w, uint32_t number)
{
    wire_put32(w, number);
    wire_put32(w, memory.instance);
    wire_put64(w, memory.session[number]->client);
}

// The session whose id comes next, and its number; NULL: there is none.
static struct session *session_get(struct wire_reader *r, uint32_t *number)
{
    *number = wire_get32(r);
    uint32_t instance = wire_get32(r);
    uint64_t client = wire_get64(r);
    if (r->bad || instance != memory.instance || *number >= memory.sessions)
        return NULL;
    struct session *session = memory.session[*number];
    return session && session->client == client ? session : NULL;
}

static inline void sessions_forget_all(void)
{
    while (memory.owners)
        owner_end(memory.owners);
    free(memory.session);
    memory.session = NULL;
    memory.sessions = 0;
}

#endif
