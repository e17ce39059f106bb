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

struct memory {
    struct owner *owners;
    struct session **session; // by number; NULL: ended
    uint32_t sessions;        // numbers given out
    uint64_t last_client;
    uint32_t slots;    // wanted to be used; 0: all
    uint32_t lease_s;  // as told; 0: as usual
    bool grace;        // data is not to be had yet
    bool told_again;   // the last request was answered from what is kept, and not executed
    uint32_t instance; // of the server, so that no session of another one is taken for ours
};
extern struct memory memory;

struct owner *owner_find(uint64_t id);
void session_end(uint32_t number);
void owner_end(struct owner *c);

// The owner of that name and verifier: the one that is known, or a new one in the place of what it
// was before.  NULL: no memory.
struct owner *owner_of(const unsigned char *name, uint32_t length, uint64_t verifier);

// -1: no memory.
int64_t session_new(struct owner *c, uint32_t slots);
void session_put_id(struct wire_writer *w, uint32_t number);

// The session whose id comes next, and its number; NULL: there is none.
struct session *session_get(struct wire_reader *r, uint32_t *number);
void sessions_forget_all(void);

#endif
