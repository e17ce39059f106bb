/* See memsessions.h. */
#include "memsessions.h"

struct memory memory;

struct owner *owner_find(uint64_t id)
{
    struct owner *c = memory.owners;
    while (c && c->id != id)
        c = c->next;
    return c;
}

void session_end(uint32_t number)
{
    free(memory.session[number]);
    memory.session[number] = NULL;
}

void owner_end(struct owner *c)
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

struct owner *owner_of(const unsigned char *name, uint32_t length, uint64_t verifier)
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

int64_t session_new(struct owner *c, uint32_t slots)
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

void session_put_id(struct wire_writer *w, uint32_t number)
{
    wire_put32(w, number);
    wire_put32(w, memory.instance);
    wire_put64(w, memory.session[number]->client);
}

struct session *session_get(struct wire_reader *r, uint32_t *number)
{
    *number = wire_get32(r);
    uint32_t instance = wire_get32(r);
    uint64_t client = wire_get64(r);
    if (r->bad || instance != memory.instance || *number >= memory.sessions)
        return NULL;
    struct session *session = memory.session[*number];
    return session && session->client == client ? session : NULL;
}

void sessions_forget_all(void)
{
    while (memory.owners)
        owner_end(memory.owners);
    free(memory.session);
    memory.session = NULL;
    memory.sessions = 0;
}
