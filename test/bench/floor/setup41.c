/* See setup41.h. */
#include "setup41.h"

void setup41_compound(struct wire_writer *w, uint32_t operations)
{
    wire_put32(w, 0); // the tag
    wire_put32(w, V41_MINOR);
    wire_put32(w, operations);
}

void setup41_sequence(struct wire_writer *w, const unsigned char session[V41_SESSION_BYTES],
                      uint32_t slot, uint32_t highest, bool keep)
{
    wire_put32(w, V41_SEQUENCE);
    wire_put_bytes(w, session, V41_SESSION_BYTES);
    wire_put32(w, 0);
    wire_put32(w, slot);
    wire_put32(w, highest);
    wire_put32(w, keep);
}

void setup41_stamp(unsigned char *call, uint32_t *sequence)
{
    // Record mark, header with this program's credential, tag, minor version, operations, number
    // and session.
    static size_t at;
    if (!at) {
        struct wire_writer w = {(unsigned char[128]){0}, NULL, false};
        unsigned char *start = w.at;
        w.end = start + 128;
        wire_call_begin(&w, 0, NFS_PROGRAM, V41_COMPOUND, 0, 0);
        at = (size_t)(w.at - start) + 12 + 4 + V41_SESSION_BYTES;
    }
    wire_store32(call + at, ++*sequence);
}

// Skips a result up to its status, which must be good.
static void setup41_result(struct wire_reader *r, uint32_t operation, const char *what)
{
    uint32_t length;
    uint32_t status = wire_get32(r);
    wire_get_opaque(r, V41_TAG_MOST, &length);
    wire_get32(r);
    if (status || r->bad || wire_get32(r) != operation || wire_get32(r) != NFS_OK)
        die("%s: status %u", what, status);
}

static void setup41_channel(struct wire_writer *w, uint32_t bytes, uint32_t slots)
{
    wire_put32(w, 0);
    wire_put32(w, bytes);
    wire_put32(w, bytes);
    wire_put32(w, 512); // of a reply that is kept
    wire_put32(w, 8);
    wire_put32(w, slots);
    wire_put32(w, 0);
}

void setup41_session(int fd, uint32_t slots, uint32_t bytes,
                     unsigned char session[V41_SESSION_BYTES])
{
    char owner[64];
    snprintf(owner, sizeof owner, "floor %ld", (long)getpid());
    struct wire_writer w = setup_begin(NFS_PROGRAM, V41_COMPOUND);
    wire_call_version(setup_buffer, V41_VERSION);
    setup41_compound(&w, 1);
    wire_put32(&w, V41_EXCHANGE_ID);
    wire_put64(&w, clock_ns());
    wire_put_opaque(&w, owner, (uint32_t)strlen(owner));
    wire_put32(&w, V41_EXCHGID_NON_PNFS);
    wire_put32(&w, 0);
    wire_put32(&w, 0);
    struct wire_reader r = setup_call(fd, &w, "EXCHANGE_ID");
    setup41_result(&r, V41_EXCHANGE_ID, "EXCHANGE_ID");
    uint64_t client = wire_get64(&r);
    uint32_t sequence = wire_get32(&r);

    w = setup_begin(NFS_PROGRAM, V41_COMPOUND);
    wire_call_version(setup_buffer, V41_VERSION);
    setup41_compound(&w, 1);
    wire_put32(&w, V41_CREATE_SESSION);
    wire_put64(&w, client);
    wire_put32(&w, sequence);
    wire_put32(&w, 0);
    setup41_channel(&w, bytes, slots);
    setup41_channel(&w, 4096, 1);
    wire_put32(&w, 0x40000000);
    wire_put32(&w, 0);
    r = setup_call(fd, &w, "CREATE_SESSION");
    setup41_result(&r, V41_CREATE_SESSION, "CREATE_SESSION");
    const unsigned char *id = wire_get_bytes(&r, V41_SESSION_BYTES);
    wire_get_bytes(&r, 4 + 4 + 4 + 4 + 4 + 4 + 4);
    if (!id || wire_get32(&r) < slots)
        die("CREATE_SESSION: fewer than %u slots", slots);
    memcpy(session, id, V41_SESSION_BYTES);
}
