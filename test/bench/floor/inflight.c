/* See inflight.h. */
#include "inflight.h"

struct work work = {
    .size = 8192, .depth = 1, .file_size = 64 << 20, .size_least = 16, .depth_most = DEPTH_MOST};

struct floor_options option = {.connections = 1,
                               .stable = NFS_UNSTABLE,
                               .lookahead = 32,
                               .hosts = 1,
                               .host = {"127.0.0.1"},
                               .file = "floor.data"};

struct nfs_handle handle;

struct operation *operation;

struct channel *channel;

size_t call_length[2], offset_at[2], header_length[2];

unsigned char session[V41_SESSION_BYTES];

size_t bulk_bytes;

enum phase phase;

uint64_t in_flight, completed, next_block, random_state = 88172645463325252u,
                                           mix_state = 362436069362436069u;

uint64_t system_calls, measured_calls;

struct histogram latency;

// The calls in flight

unsigned char *arguments_put(struct wire_writer *w, bool write, uint32_t size)
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

unsigned char *arguments_put41(struct wire_writer *w, unsigned slot, bool write, uint32_t size)
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

void operation_encode(unsigned slot, struct operation *o, bool write)
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

size_t payload_expected(const struct operation *o)
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

void operation_next(struct channel *c, unsigned slot)
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

void operation_complete(struct channel *c, struct operation *o, uint64_t now)
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

void channel_send(struct channel *c)
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

struct operation *operation_of(uint32_t xid)
{
    unsigned slot = xid & 0xffff;
    if (slot >= work.depth || operation[slot].xid != xid || !operation[slot].in_flight)
        return NULL;
    return &operation[slot];
}
