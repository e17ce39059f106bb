// The calls of floor.c: what is known of those in flight, how they are encoded, patched and sent.
#ifndef BENCH_INFLIGHT_H
#define BENCH_INFLIGHT_H

#include <sys/socket.h>
#include <sys/uio.h>

#include "setup41.h"
#include "work.h"

#define DEPTH_MOST   1024
#define HOSTS_MOST   16
#define CALL_BYTES   384
#define HEADER_MOST  256         // of a reply, with its record mark, before the payload
#define VECTORS_MOST 1024        // of one system call
#define COPY_MOST    (32u << 10) // a larger payload costs more to copy than a system call
// One call in flight at a time; its encoded form stays and is patched.
struct operation {
    uint32_t xid;      // number of its slot in the low half, so that a reply finds it at once
    uint32_t sequence; // of its slot of the session, with NFSv4.1
    bool in_flight, write;
    uint64_t sent; // nanoseconds
    uint64_t block;
    unsigned char *data;
    unsigned char header[HEADER_MOST];
    unsigned char call[2][CALL_BYTES]; // READ, WRITE
};

struct channel {
    int fd;
    enum { PREDICTED, COPIED, CHAINED } way;
    // Slots in flight in the order of their calls, only while predicted.
    unsigned queue[DEPTH_MOST], first, queued;
    unsigned in_flight;
    bool empty;    // the last receive found nothing
    size_t filled; // bytes received of the first one, or (chained) of the header or payload
    // Chained: the operation whose payload is coming, and the header coming before one is known.
    struct operation *current;
    unsigned char header[HEADER_MOST];
    // Replies received in bulk, not yet parsed.
    unsigned char *bulk;
    size_t bulk_used;
    // Slots whose next call is to be sent.
    unsigned ready[DEPTH_MOST], readies;
};

extern struct work work;

struct floor_options {
    bool verify, one_reply, v41;
    uint32_t connections, stable, lookahead, hosts;
    const char *host[HOSTS_MOST]; // addresses of one server
    const char *export, *file;
    uint16_t nfs_port, mount_port;
};
extern struct floor_options option;

extern struct nfs_handle handle;

extern struct operation *operation;

extern struct channel *channel;

// Of READ and WRITE: the encoded call, the place of the file offset in it, and the reply with its
// record mark up to the payload.
extern size_t call_length[2], offset_at[2], header_length[2];

extern unsigned char session[V41_SESSION_BYTES];

extern size_t bulk_bytes;

enum phase { WARMING_UP, MEASURING, ENDING };
extern enum phase phase;

extern uint64_t in_flight, completed, next_block, random_state, mix_state;

extern uint64_t system_calls, measured_calls;

extern struct histogram latency;

// The calls in flight

// The arguments of a READ or WRITE, up to the payload; returns the place of the offset.
unsigned char *arguments_put(struct wire_writer *w, bool write, uint32_t size);

// The same of NFSv4.1: the shortest request that does it.
unsigned char *arguments_put41(struct wire_writer *w, unsigned slot, bool write, uint32_t size);
void operation_encode(unsigned slot, struct operation *o, bool write);
size_t payload_expected(const struct operation *o);

// Gives the slot its next call, unless it is the end.
void operation_next(struct channel *c, unsigned slot);
void operation_complete(struct channel *c, struct operation *o, uint64_t now);

// Sends the calls that are ready, in as few system calls as the kernel's limit on vectors allows.
void channel_send(struct channel *c);
struct operation *operation_of(uint32_t xid);

#endif
