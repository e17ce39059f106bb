/*
 * The operations of session_server.h. They are written from RFC 8881 and RFC 5662, and share with
 * the client only the words of XDR.
 */
#ifndef TEST_SESSION_OPERATIONS_H
#define TEST_SESSION_OPERATIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "nfs/xdr.h"
#include "stream.h"

enum {
    SERVER_OPS = 64,
    SERVER_SESSIONS = 16,
    SERVER_SLOTS = 64,
    SERVER_CONNECTIONS = 16,
    SERVER_FILE = 1 << 20,
    SERVER_RECORD = SERVER_FILE + 8192,
    SERVER_KEPT = 1024,
    /* operations */
    S_ACCESS = 3,
    S_CLOSE = 4,
    S_COMMIT = 5,
    S_GETATTR = 9,
    S_GETFH = 10,
    S_LOOKUP = 15,
    S_OPEN = 18,
    S_PUTFH = 22,
    S_PUTROOTFH = 24,
    S_READ = 25,
    S_SETATTR = 34,
    S_WRITE = 38,
    S_BIND = 41,
    S_EXCHANGE_ID = 42,
    S_CREATE_SESSION = 43,
    S_DESTROY_SESSION = 44,
    S_SEQUENCE = 53,
    S_DESTROY_CLIENTID = 57,
    S_RECLAIM_COMPLETE = 58
};

/* A connection dies at a COMPOUND that writes: before, or after it is carried out. */
enum session_server_death { SERVER_LIVES, SERVER_DIES_BEFORE, SERVER_DIES_AFTER };

struct session_server_slot {
    uint32_t sequence;
    bool kept;
    size_t length;
    uint8_t reply[SERVER_KEPT];
};

struct session_server_session {
    bool alive;
    uint8_t id[16];
    uint64_t client;
    struct session_server_slot slots[SERVER_SLOTS];
};

/* What a reply says of itself, that it is not. */
enum session_server_lie {
    SERVER_TELLS_THE_TRUTH,
    SERVER_OTHER_SLOT,
    SERVER_OTHER_SEQUENCE,
    SERVER_OTHER_SESSION
};

struct session_server {
    /* what a test sets */
    _Atomic uint32_t slots, target, highest_lie, request_max, response_max;
    _Atomic uint32_t fail_op, fail_status, fail_count; /* this operation, so often */
    _Atomic int death, deaths;                         /* enum session_server_death, so often */
    _Atomic int uncached; /* calls, so many, that it carried out, and kept no reply of */
    _Atomic bool
        cut;         /* with the connection that dies its port is closed, and all that came there */
    _Atomic int lie; /* enum session_server_lie, in the next reply */
    _Atomic bool insists;     /* on an open before READ, WRITE and SETATTR */
    _Atomic uint32_t delayed; /* a user whose OPENs shall come back later; 0: none */
    _Atomic bool forget, forget_after_death, minor_wrong, other_owner, other_node;
    _Atomic uint32_t role, layouts; /* of EXCHANGE_ID, 0: the usual one; types of layouts */
    _Atomic bool no_token;          /* of a fence: else it is the file */
    _Atomic bool taken_meanwhile;   /* its file becomes `taken` when a session of a fence is made */
    _Atomic bool new_token;         /* its file becomes `token` before the next call */
    uint8_t taken[256], token[256];
    /* what it sees */
    _Atomic unsigned ops[SERVER_OPS], told_again, writes, connections, highest_slot, alive, clients,
        fences;
    /* its own */
    pthread_t thread;
    int listeners[2], stop[2]; /* -1: closed */
    unsigned port, other_port;
    uint64_t next_client;
    char owner[1024];
    uint32_t owner_length;
    struct session_server_session sessions[SERVER_SESSIONS];
    int fds[SERVER_CONNECTIONS], came_to[SERVER_CONNECTIONS];
    struct bytes in[SERVER_CONNECTIONS];
    _Atomic uint32_t share, opens; /* of the one open, 0: none; and how many there were */
    uint32_t state;                /* the first of them that it is joined from */
    uint8_t file[SERVER_FILE];
    uint64_t size;
};
extern struct session_server session_server;

/* A COMPOUND that is carried out. */
struct session_server_call {
    struct xdr_reader r;
    struct xdr_writer w;
    struct session_server_session *session;
    struct session_server_slot *slot;
    bool keep, again, of_file;
    uint32_t numbers; /* of operations that were answered */
    uint32_t user;
};

bool session_server_fails(uint32_t op, uint32_t *status);
void session_server_forget(void);
uint32_t session_server_do(struct session_server_call *call, uint32_t op);

#endif
