/*
 * Clients, sessions and slots of the server of v41_server.h: RFC 8881, sections 2.10 and 18.34 to
 * 18.37, 18.46, 18.50 and 18.51.
 */
#ifndef TEST_V41_SESSIONS_H
#define TEST_V41_SESSIONS_H

#include <pthread.h>

#include "v41_store.h"

enum {
    V41_CLIENTS = 64,
    V41_SESSIONS = 64,
    V41_OPENS = 128,
    V41_CONNECTIONS = 1024,
    V41_OWNER_MOST = 1024,
    V41_SESSION_ID = 16,
    V41_MOST_OPERATIONS = 16
};

struct v41_client {
    uint64_t id; /* 0: free */
    uint8_t verifier[8];
    uint8_t owner[V41_OWNER_MOST];
    uint32_t owner_length;
    uint32_t address;  /* of ours, if they differ */
    uint32_t sequence; /* of the last CREATE_SESSION */
    bool confirmed, complete;
    struct bytes created; /* the answer to the last CREATE_SESSION */
};

struct v41_slot {
    uint32_t sequence;
    uint64_t digest;    /* of the last call */
    bool used, kept;    /* `reply` is all of it, or SEQUENCE only */
    struct bytes reply; /* of the COMPOUND, from its status on */
};

struct v41_channel {
    uint32_t padding, request_most, response_most, cached_most, operations, requests;
};

struct v41_session {
    uint8_t id[V41_SESSION_ID];
    bool used;
    uint64_t client;
    struct v41_channel fore;
    struct v41_slot slots[V41_SLOTS];
    bool bound[V41_CONNECTIONS];
};

struct v41_open {
    uint8_t other[12];
    uint32_t sequence; /* 0: free */
    uint64_t client, node;
    uint32_t share;
    uint8_t owner[V41_OWNER_MOST];
    uint32_t owner_length;
};

/* Under the server's lock. */
struct v41_state {
    struct v41_control *control;
    struct v41_store store;
    struct v41_client clients[V41_CLIENTS];
    struct v41_session sessions[V41_SESSIONS];
    struct v41_open opens[V41_OPENS];
    uint64_t numbers; /* of clients, sessions, opens */
};

/* A COMPOUND while it is executed. */
struct v41_call {
    struct v41_state *state;
    struct v41_control *control;
    struct v41_in in;
    struct bytes out;    /* results of COMPOUND, from the status on */
    unsigned connection; /* on which it came */
    uint32_t address;    /* of ours */
    size_t record;       /* length of the call */
    uint32_t operations, index;
    struct v41_session *session;
    struct v41_slot *slot;
    bool keep, replayed;
    struct v41_node *current, *saved;
    uint8_t stateid[16]; /* the current one */
};

void v41_count_state(struct v41_state *state);

/* As by a restart, or when all leases end. */
void v41_state_forget(struct v41_state *state);
struct v41_client *v41_client_of(struct v41_state *state, uint64_t id);

/* ---- EXCHANGE_ID ---- */

uint32_t v41_exchange_id(struct v41_call *call);

/* ---- CREATE_SESSION ---- */

uint32_t v41_create_session(struct v41_call *call);

/* ---- the others ---- */

uint32_t v41_bind(struct v41_call *call);
uint32_t v41_destroy_session(struct v41_call *call);
uint32_t v41_destroy_clientid(struct v41_call *call);
uint32_t v41_reclaim_complete(struct v41_call *call);
uint32_t v41_sequence(struct v41_call *call);

/*
 * What is told when the call comes again: `sequence_end` is where the result of SEQUENCE ends. Of a
 * reply that was not to be kept that is it, and the next operation says so (2.10.6.1.3).
 */
void v41_keep_reply(struct v41_call *call, size_t sequence_end, uint32_t next);

#endif
