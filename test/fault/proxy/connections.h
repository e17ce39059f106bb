/* The paths of proxy.c with their faults, and the connections over them: how they come and go. */
#ifndef FAULT_CONNECTIONS_H
#define FAULT_CONNECTIONS_H

#include "loop.h"

enum { PATHS_MOST = 16, PORTS = 2, IN_FLIGHT = 1024, QUEUED_MOST = 8 << 20 };

enum direction { CALLS, REPLIES }; /* from the client, from the server */

enum field { FIELD_XID, FIELD_STATUS, FIELD_LENGTH, FIELD_MARK, FIELDS };

struct chance {
    unsigned percent;
    uint64_t left; /* times */
};

struct faults {
    uint64_t delay_ms, jitter_ms, split, stall_ms, limit, drop_after, verifier;
    struct chance drop[2], reorder[2], duplicate[2], stall[2], tamper[2], corrupt[FIELDS], rekey;
    struct {
        uint32_t status;
        struct chance chance;
    } answer[NFS_PROCEDURES];
    bool blackhole[2], refuse, deny;
    uint64_t hold_count, hold_offset; /* 0, NEVER: none */
    uint32_t hold_procedure;
    bool hold_blackhole, hold_reset, hold_refuse, hold_late;
    uint64_t hold_after_ms; /* NEVER: until `release` */
};

#define COUNTERS                                                                        \
    X(connections)                                                                      \
    X(refused)                                                                          \
    X(calls)                                                                            \
    X(replies)                                                                          \
    X(forwarded)                                                                        \
    X(dropped)                                                                          \
    X(duplicated)                                                                       \
    X(corrupted)                                                                        \
    X(answered)                                                                         \
    X(resets)                                                                           \
    X(same_port)                                                                        \
    X(other_port) X(held) X(delivered) X(discarded) X(handshakes) X(rekeyed) X(overdue) \
        X(tampered) X(broken) X(denied) X(clear) X(plain) X(krb5) X(krb5i) X(krb5p)

struct counters {
#define X(name) uint64_t name;
    COUNTERS
#undef X
};

struct path {
    union address listens;
    struct in_addr address; /* the same, or if that is of IPv6 one by which the server knows it */
    struct watch *listeners[PORTS];
    struct faults faults;
    struct counters counters;
};

/* One direction of a connection. */
struct flow {
    struct input in;
    struct message *out;
    size_t queued;      /* bytes of `out` */
    uint64_t last_due;  /* of what must not be overtaken */
    uint64_t stalled;   /* nothing leaves before */
    bool ending, ended; /* the sender said FIN; it was passed on */
    bool broken;        /* a record went only in part */
};

struct end {
    struct watch watch;
    struct connection *connection;
};

struct connection {
    struct connection *next;
    struct path *path;
    unsigned port; /* 0 NFS, 1 MOUNT */
    struct sockaddr_in client;
    struct end *ends[2]; /* the client's and the server's; NULL: gone, or not yet there */
    bool connecting, dead;
    struct flow flows[2];
    uint64_t calls, replies;
    struct {
        uint32_t xid, procedure; /* of NFS */
    } in_flight[IN_FLIGHT];
    struct held *held;
    bool released;
    uint64_t latest; /* of the call that was held and is released */
    struct tls *tls; /* of the client's end; NULL: it is in clear */
};

/* A WRITE or SETATTR on its way to the server, for long. */
struct held {
    struct held *next;
    struct path *path;
    struct connection *connection; /* NULL: gone, though not the call */
    struct message *message;       /* NULL: delivered, or lost */
    uint64_t after_ms, due;
    uint64_t latest; /* it reaches the server before this time, or never */
    bool late;
    struct sockaddr_in client;
    uint32_t xid;
};

extern struct path paths[PATHS_MOST];

extern unsigned path_count;

extern struct sockaddr_in servers[PORTS];

extern uint16_t listen_ports[PORTS]; /* 0: as the server */

extern struct connection *connections;

extern struct held *helds;

extern uint64_t random_state;

/* A call reaches the server at most so long after its client's end of the connection is gone;
 * NEVER: at any time. It is failover_hold of the client: nobody keeps what comes later from undoing
 * newer data. */
extern uint64_t late_most_ns;

/* Ends of connections that are known to be gone were not before this time. */
extern uint64_t alive_ns;

/* When a call of this connection, whose client's end is gone, is too late. */
uint64_t too_late(void);

bool happens(struct chance *chance);
/* Changes one bit. Half of the time it is one of the head. */
void change_bit(unsigned char *bytes, size_t length);
bool dark(const struct connection *c, enum direction direction);

/* ---- connections ---- */

void end_close(struct connection *c, enum direction side);
void flow_empty(struct flow *flow);
void held_lost(struct connection *c);
void connection_reset(struct connection *c);
void end_ready(struct watch *watch, short events);

/* Connects to the server, from the client's port if that is free. */
void server_open(struct connection *c);

/* The client's SYN reaches the server. */
void server_connect(struct connection *c);
bool path_listen(struct path *path);
void path_refuse(struct path *path);

#endif
