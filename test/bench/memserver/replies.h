// Replies that wait to be sent, in batches: the replies of a batch leave together, when it is due.
#ifndef BENCH_REPLIES_H
#define BENCH_REPLIES_H

#include <sys/socket.h>
#include <sys/uio.h>

#include "request.h"

#define OUTPUT_BYTES (64u << 10) // of a batch, without payload
#define VECTORS      768
struct batch {
    struct batch *next;
    uint64_t due;        // nanoseconds of the clock; 0: at once
    unsigned char *copy; // of what was to be sent from mappings; NULL: none
    size_t output_used, payload;
    // vector[sent .. vectors) is to be sent; it points into output[], mappings and the copy.
    int vectors, sent;
    struct iovec vector[VECTORS];
    unsigned char output[OUTPUT_BYTES];
};

// Of one connection, in the order in which they are sent.
struct replies {
    struct batch *first, *last;
};

struct batches {
    struct batch *unused;
    size_t waiting; // batches of all connections
};
extern struct batches batches;

bool replies_full(const struct replies *r);

// The batch that is due then and has room for another reply.  NULL: out of memory.
struct batch *replies_batch(struct replies *r, uint64_t due);
void batch_append(struct batch *b, const void *data, size_t length);

// Sends what is due.  The results are those of batch_send().
int replies_send(struct replies *r, int fd, uint64_t now);

// Before a file changes its size, which may take away pages that were promised as payload: copies
// what waits.  A batch whose pages are gone already stays as it is, and fails when it is sent.
void replies_keep(struct replies *r);
void replies_drop_all(struct replies *r);

#endif
