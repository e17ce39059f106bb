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

static struct work work = {
    .size = 8192, .depth = 1, .file_size = 64 << 20, .size_least = 16, .depth_most = DEPTH_MOST};

static struct {
    bool verify, one_reply, v41;
    uint32_t connections, stable, lookahead, hosts;
    const char *host[HOSTS_MOST]; // addresses of one server
    const char *export, *file;
    uint16_t nfs_port, mount_port;
} option = {.connections = 1,
            .stable = NFS_UNSTABLE,
            .lookahead = 32,
            .hosts = 1,
            .host = {"127.0.0.1"},
            .file = "floor.data"};

static struct nfs_handle handle;
static struct operation *operation;
static struct channel *channel;
// Of READ and WRITE: the encoded call, the place of the file offset in it, and the reply with its
// record mark up to the payload.
static size_t call_length[2], offset_at[2], header_length[2];
static unsigned char session[V41_SESSION_BYTES];
static size_t bulk_bytes;
static enum { WARMING_UP, MEASURING, ENDING } phase;
static uint64_t in_flight, completed, next_block, random_state = 88172645463325252u,
                                                  mix_state = 362436069362436069u;
static uint64_t system_calls, measured_calls;
static struct histogram latency;

// The calls in flight

// The arguments of a READ or WRITE, up to the payload; returns the place of the offset.
static unsigned char *arguments_put(struct wire_writer *w, bool write, uint32_t size)
{
    wire_put_handle(w, &handle);
    unsigned char *offset = w->at;
    wire_put64(w, 0);
    wire_put32(w, size);
    if (write) {
        wire_put32(w, option.stable);
        wire_put32(w, size);
    }
    return offset;
}

// The same of NFSv4.1: the shortest request that does it.
static unsigned char *arguments_put41(struct wire_writer *w, unsigned slot, bool write,
                                      uint32_t size)
{
    setup41_compound(w, 3);
    setup41_sequence(w, session, slot, work.depth - 1, write);
    wire_put32(w, V41_PUTFH);
    wire_put_handle(w, &handle);
    wire_put32(w, write ? V41_WRITE : V41_READ);
    wire_put_bytes(w, (unsigned char[V41_ID_BYTES]){0}, V41_ID_BYTES);
    unsigned char *offset = w->at;
    wire_put64(w, 0);
    if (write)
        wire_put32(w, option.stable);
    wire_put32(w, size);
    return offset;
}

static void operation_encode(unsigned slot, struct operation *o, bool write)
{
    unsigned char *call = o->call[write];
    struct wire_writer w = {call, call + CALL_BYTES, false};
    o->xid = 0x10000 | slot;
    uint32_t procedure = option.v41 ? V41_COMPOUND : write ? NFS_WRITE : NFS_READ;
    wire_call_begin(&w, o->xid, NFS_PROGRAM, procedure, geteuid(), getegid());
    if (option.v41)
        wire_call_version(call, V41_VERSION);
    unsigned char *offset = option.v41 ? arguments_put41(&w, slot, write, work.size)
                                       : arguments_put(&w, write, work.size);
    offset_at[write] = (size_t)(offset - call);
    if (w.bad)
        die("call too long");
    wire_record_end(&w, call, write ? work.size : 0);
    call_length[write] = (size_t)(w.at - call);
}

static size_t payload_sent(const struct operation *o)
{
    return o->write ? work.size : 0;
}

static size_t payload_expected(const struct operation *o)
{
    return o->write ? 0 : work.size;
}

// With --verify every block begins and ends with its number, so that a payload that came to the
// wrong place, or not whole, is found.
static void block_stamp(struct operation *o)
{
    memcpy(o->data, &o->block, sizeof o->block);
    memcpy(o->data + work.size - sizeof o->block, &o->block, sizeof o->block);
}

static void block_check(const struct operation *o)
{
    if (memcmp(o->data, &o->block, sizeof o->block) ||
        memcmp(o->data + work.size - sizeof o->block, &o->block, sizeof o->block))
        die("block %llu: not what was written", (unsigned long long)o->block);
}

// Gives the slot its next call, unless it is the end.
static void operation_next(struct channel *c, unsigned slot)
{
    if (phase == ENDING)
        return;
    struct operation *o = &operation[slot];
    uint64_t blocks = work.file_size / work.size;
    uint64_t block = work.random ? random_next(&random_state) % blocks : next_block;
    next_block = next_block + 1 == blocks ? 0 : next_block + 1;
    o->block = block;
    // Three reads to a write.
    o->write = work.write || (work.mixed && random_next(&mix_state) % 4 == 0);
    if (option.verify && work.write)
        block_stamp(o);
    o->xid += 0x10000;
    wire_store32(o->call[o->write] + 4, o->xid);
    wire_store64(o->call[o->write] + offset_at[o->write], block * work.size);
    if (option.v41)
        setup41_stamp(o->call[o->write], &o->sequence);
    c->ready[c->readies++] = slot;
    in_flight++;
}

static void operation_complete(struct channel *c, struct operation *o, uint64_t now)
{
    o->in_flight = false;
    c->in_flight--;
    if (option.verify && !work.write)
        block_check(o);
    in_flight--;
    completed++;
    if (phase == MEASURING)
        histogram_add(&latency, now - o->sent);
    operation_next(c, (unsigned)(o - operation));
}

// Sends the calls that are ready, in as few system calls as the kernel's limit on vectors allows.
static void channel_send(struct channel *c)
{
    static struct iovec vector[VECTORS_MOST];
    static const unsigned per_call = VECTORS_MOST / 2;
    uint64_t now = c->readies ? clock_ns() : 0;
    for (unsigned done = 0; done < c->readies;) {
        unsigned batch = c->readies - done < per_call ? c->readies - done : per_call;
        size_t vectors = 0, left = 0;
        for (unsigned i = 0; i < batch; i++) {
            unsigned slot = c->ready[done + i];
            struct operation *o = &operation[slot];
            o->sent = now;
            o->in_flight = true;
            if (c->way == PREDICTED)
                c->queue[(c->first + c->queued++) % DEPTH_MOST] = slot;
            vector[vectors++] = (struct iovec){o->call[o->write], call_length[o->write]};
            if (o->write)
                vector[vectors++] = (struct iovec){o->data, work.size};
            left += call_length[o->write] + payload_sent(o);
        }
        c->in_flight += batch;
        struct iovec *v = vector;
        while (left) {
            struct msghdr message = {.msg_iov = v, .msg_iovlen = vectors};
            ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
            system_calls++;
            if (n < 0)
                die("send: %s", strerror(errno));
            left -= (size_t)n;
            while (vectors && (size_t)n >= v->iov_len) {
                n -= (ssize_t)v->iov_len;
                v++;
                vectors--;
            }
            if (n) {
                v->iov_base = (char *)v->iov_base + n;
                v->iov_len -= (size_t)n;
            }
        }
        done += batch;
    }
    c->readies = 0;
}

static struct operation *operation_of(uint32_t xid)
{
    unsigned slot = xid & 0xffff;
    if (slot >= work.depth || operation[slot].xid != xid || !operation[slot].in_flight)
        return NULL;
    return &operation[slot];
}

#endif
