/*
 * A client of NFS version 4.1 for tests of servers: it sends what it is told to, word by word, and
 * remembers nothing.
 */
#ifndef TEST_V41_PEER_H
#define TEST_V41_PEER_H

#include <fcntl.h>

#include "unit.h"
#include "v41_server.h"

struct peer {
    int fd;
    uint32_t xid;
};

/* The results of a COMPOUND. */
struct answer {
    uint8_t *data;
    struct v41_in in; /* behind the number of results */
    uint32_t status, count;
};

struct peer peer_at(in_port_t port, in_addr_t host);
struct peer peer_new(const struct v41_server *server);

/* A call of version 4 with these arguments. */
void peer_send(struct peer *peer, const struct bytes *arguments);

/* False: the connection has ended. */
bool peer_receive(struct peer *peer, struct answer *answer, uint32_t *xid);
void answer_free(struct answer *answer);

/* The next result: the operation, which must have succeeded. */
void answer_op(struct answer *answer, uint32_t op);

/* The next result is the last: this operation failed so. */
void answer_fails(struct answer *answer, uint32_t op, uint32_t status);
void answer_ends(struct answer *answer);

/* Arguments: an empty tag, the minor version, so many operations. */
struct bytes compound(uint32_t operations);

/* Sends what is at *out, frees it, and waits for the answer. */
struct answer ask(struct peer *peer, struct bytes *out);

/* ---- sessions ---- */

struct client {
    uint64_t id;
    uint32_t sequence, flags;
};

struct session {
    uint8_t id[16];
    uint32_t slots;
    uint32_t sequences[V41_SLOTS];
};

struct client exchange_id(struct peer *peer, const char *owner, uint64_t verifier);
struct bytes create_session_call(const struct client *client, uint32_t slots);
struct session create_session(struct peer *peer, struct client *client, uint32_t slots);

/* Arguments with a SEQUENCE: `number` operations behind it. */
struct bytes sequenced(const struct session *session, uint32_t slot, uint32_t sequence, bool keep,
                       uint32_t number);

/* The same with the slot's next sequence. */
struct bytes next_on(struct session *session, uint32_t slot, uint32_t number);
void answer_sequence(struct answer *answer, const struct session *session, uint32_t slot,
                     uint32_t sequence);

/* Sends it, and takes the answer to its SEQUENCE. */
struct answer ask_on(struct peer *peer, const struct session *session, uint32_t slot,
                     struct bytes *out);

/* ---- files ---- */

struct handle {
    uint8_t data[128];
    uint32_t length;
};

void put_fh(struct bytes *out, const struct handle *handle);
struct handle look_up(struct peer *peer, struct session *session, const char *name);

extern const uint8_t anonymous[16];

void put_write(struct bytes *out, const uint8_t *stateid, uint64_t offset, uint32_t stable,
               const char *text);

/* Writes a text; its stability, and the verifier. */
uint32_t write_text(struct peer *peer, struct session *session, uint32_t slot,
                    const struct handle *handle, uint32_t stable, const char *text,
                    uint64_t *verifier);

/* The file begins with this text, and ends behind it. */
void assert_text(struct peer *peer, struct session *session, const struct handle *handle,
                 const char *text);

#endif
