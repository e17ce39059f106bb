/* Transfers of any length: READ and WRITE in parts that are in flight together. */
#include <errno.h>

#include "nfs/call.h"
#include "rpc/message.h"

enum {
    PARTS = 4, /* in flight together; each takes 5 KiB of the caller's stack */
    UNSTABLE_TRIES = 3
};

/* One READ or WRITE of a transfer. */
struct part {
    struct rpc_call call;
    size_t from; /* offset in the transfer */
    struct nfs_data data;
    struct iovec own_vectors[RPC_VECTORS_MAX];
};

/* A transfer that runs. */
struct transfer {
    const struct nfs_client *client;
    const struct nfs_fh *fh;
    uint64_t offset;
    struct nfs_data data;
    bool write;
    enum nfs_stable stable;
    struct nfs_attr *expected; /* for nfs_write_if(); else NULL */
    bool verifier_known, verifier_differs;
    bool attr_missing;        /* a part was answered without attributes */
    struct nfs_transfer *sum; /* what its parts came to, together */
};

/* Does the server compare each part with `expected`? */
static bool is_compared(const struct transfer *transfer)
{
    return transfer->expected && transfer->client->version->write_if_begin;
}

static void part_begin(struct part *part, const struct transfer *transfer)
{
    uint64_t offset = transfer->offset + part->from;
    if (is_compared(transfer))
        nfs_write_if_begin(&part->call, transfer->client, transfer->fh, offset, &part->data,
                           transfer->expected);
    else if (transfer->write)
        nfs_write_begin(&part->call, transfer->client, transfer->fh, offset, &part->data,
                        transfer->stable);
    else
        nfs_read_begin(&part->call, transfer->client, transfer->fh, offset, &part->data);
}

size_t nfs_longest(const struct nfs_client *client, bool write)
{
    uint32_t limit = write ? client->write_max : client->read_max;
    uint32_t most = client->session ? client->version->session_most(client->session, write) : 0;
    return most > 0 && most < limit ? nfs_transfer_size(most, 0) : limit;
}

/* Cuts the next part at `from`. It is as long as the server takes and RPC_VECTORS_MAX vectors
 * reach, but at most `most`. */
static void part_cut(struct part *part, const struct transfer *transfer, size_t from, size_t most)
{
    size_t limit = nfs_longest(transfer->client, transfer->write);
    size_t length = most < limit ? most : limit;
    part->from = from;
    if (from == 0 && length == transfer->data.length && transfer->data.count <= RPC_VECTORS_MAX) {
        part->data = transfer->data;
        return;
    }
    part->data.count = rpc_vectors_cut(transfer->data.vectors, transfer->data.count, from, &length,
                                       part->own_vectors);
    part->data.vectors = part->own_vectors;
    part->data.length = length;
    size_t certain = transfer->data.certain > from ? transfer->data.certain - from : 0;
    part->data.certain = certain < length ? certain : length;
}

static void note_copies(struct nfs_transfer *sum, const struct rpc_call *call)
{
    sum->unsettled = sum->unsettled || call->unsettled;
    sum->repeated = sum->repeated || nfs_call_repeated(call);
}

static bool is_later(const struct nfs_time *one, const struct nfs_time *other)
{
    return one->sec != other->sec ? one->sec > other->sec : one->nsec > other->nsec;
}

/* Adds the attributes of a part. Parts are carried out in any order. */
static void add_attributes(struct nfs_transfer *sum, const struct nfs_transfer *own, bool write)
{
    if (own->attr.present &&
        (!sum->attr.present || is_later(&own->attr.attr.ctime, &sum->attr.attr.ctime)))
        sum->attr = own->attr;
    if (!write || !own->before_present)
        sum->before_present = false;
    else if (is_later(&sum->before, &own->before))
        sum->before = own->before;
}

/* Was the file as expected before this part, and is it known what the part made of it? Else no
 * other part may follow. */
static bool is_expected(const struct transfer *transfer, const struct nfs_transfer *own)
{
    const struct nfs_time *ctime = &transfer->expected->ctime;
    return own->attr.present && own->before_present && own->before.sec == ctime->sec &&
           own->before.nsec == ctime->nsec;
}

/* Judges the answer to a part and adds it to the transfer. -EAGAIN: begin the part again; if
 * *at_once, without a pause. */
static int part_end(struct part *part, struct transfer *transfer, size_t *done, bool *at_once)
{
    struct nfs_transfer *sum = transfer->sum, own;
    note_copies(sum, &part->call);
    int error;
    if (is_compared(transfer))
        error = nfs_write_if_end(&part->call, transfer->expected, &own);
    else if (transfer->write)
        error = nfs_write_end(&part->call, transfer->stable, &own);
    else
        error = nfs_read_end(&part->call, transfer->offset + part->from, &own);
    *at_once = own.at_once;
    if (error != 0)
        return error;
    add_attributes(sum, &own, transfer->write);
    transfer->attr_missing = transfer->attr_missing || !own.attr.present;
    if (!transfer->write && own.two_ends)
        sum->two_ends = true;
    if (own.connected_ns > sum->connected_ns)
        sum->connected_ns = own.connected_ns;
    if (own.sent_ns < sum->sent_ns)
        sum->sent_ns = own.sent_ns;
    if (own.answered_ns > sum->answered_ns)
        sum->answered_ns = own.answered_ns;
    if (transfer->write) {
        if (!transfer->verifier_known)
            sum->verifier = own.verifier;
        else if (sum->verifier != own.verifier)
            transfer->verifier_differs = true;
        transfer->verifier_known = true;
        if (own.committed < sum->committed)
            sum->committed = own.committed;
    }
    sum->eof = own.eof;
    sum->length += own.length;
    sum->parts++;
    *done = own.length;
    if (transfer->expected && sum->length < transfer->data.length && !is_expected(transfer, &own))
        return -ECANCELED;
    if (transfer->expected && own.attr.present)
        *transfer->expected = own.attr.attr;
    return 0;
}

/* Runs a part, or the rest of it, until it is complete, fails, or the file ends. */
static int part_finish(struct part *part, struct transfer *transfer, struct nfs_patience *patience)
{
    struct rpc_call *calls[] = {&part->call};
    size_t end = part->from + part->data.length;
    for (;;) {
        size_t done = 0;
        bool at_once = false;
        int error = part_end(part, transfer, &done, &at_once);
        if (error == 0) {
            if (part->from + done == end || transfer->sum->eof)
                return 0;
            part_cut(part, transfer, part->from + done, end - part->from - done);
        } else if (error == -EAGAIN) {
            error = nfs_call_again(transfer->client, patience, at_once);
            part_cut(part, transfer, part->from, end - part->from);
        }
        if (error != 0)
            return error;
        part_begin(part, transfer);
        nfs_call_run(transfer->client, calls, 1);
    }
}

/* Runs the whole transfer with up to `count` parts in flight. */
static int transfer_run(struct transfer *transfer, struct part *parts, unsigned count)
{
    struct nfs_transfer *sum = transfer->sum;
    struct nfs_patience patience = {.turns = 0};
    while (sum->length < transfer->data.length && !sum->eof) {
        struct rpc_call *calls[PARTS];
        unsigned used = 0;
        size_t from = sum->length;
        while (used < count && from < transfer->data.length) {
            part_cut(&parts[used], transfer, from, transfer->data.length - from);
            part_begin(&parts[used], transfer);
            calls[used] = &parts[used].call;
            from += parts[used++].data.length;
        }
        nfs_call_run(transfer->client, calls, used);
        int error = 0;
        for (unsigned i = 0; i < used; i++)
            note_copies(sum, &parts[i].call);
        for (unsigned i = 0; i < used && error == 0 && !sum->eof; i++)
            error = part_finish(&parts[i], transfer, &patience);
        if (error != 0)
            return error;
    }
    return 0;
}

/* Not inlined: the small transfer may run on the stack of a signal handler, and must not need the
 * memory of the large one. */
__attribute__((noinline)) static int transfer_run_many(struct transfer *transfer)
{
    struct part parts[PARTS];
    return transfer_run(transfer, parts, PARTS);
}

__attribute__((noinline)) static int transfer_run_one(struct transfer *transfer)
{
    struct part part;
    return transfer_run(transfer, &part, 1);
}

static int transfer_start(struct transfer *transfer)
{
    size_t limit = nfs_longest(transfer->client, transfer->write);
    struct nfs_transfer *sum = transfer->sum;
    sum->unsettled = sum->repeated = false;
    for (int tries = 1;; tries++) {
        sum->length = 0;
        sum->eof = sum->two_ends = false;
        sum->sent_ns = UINT64_MAX;
        sum->connected_ns = sum->answered_ns = 0;
        sum->verifier = 0;
        sum->committed = NFS_FILE_SYNC;
        sum->parts = 0;
        sum->attr.present = false;
        sum->before_present = transfer->write;
        sum->before = (struct nfs_time){.sec = UINT32_MAX};
        transfer->verifier_known = transfer->verifier_differs = transfer->attr_missing = false;
        int error;
        if (transfer->expected ||
            (transfer->data.length <= limit && transfer->data.count <= RPC_VECTORS_MAX))
            error = transfer_run_one(transfer);
        else
            error = transfer_run_many(transfer);
        if (error != 0)
            return error;
        /* What an older instance of the server had may be lost, unless it was FILE_SYNC. */
        if (!transfer->verifier_differs || sum->committed == NFS_FILE_SYNC)
            break;
        if (tries == UNSTABLE_TRIES) /* the server has another verifier on each path */
            transfer->stable = NFS_FILE_SYNC;
    }
    if (transfer->verifier_differs)
        sum->verifier = 0; /* no single instance has all of it */
    /* Attributes of other parts may be older than what that part made of the file. */
    if (transfer->attr_missing)
        sum->attr.present = false;
    return 0;
}

int nfs_read(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
             const struct nfs_data *data, struct nfs_transfer *transfer)
{
    struct transfer whole = {
        .client = client, .fh = fh, .offset = offset, .data = *data, .sum = transfer};
    return transfer_start(&whole);
}

int nfs_write(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
              const struct nfs_data *data, enum nfs_stable stable, struct nfs_transfer *transfer)
{
    struct transfer whole = {.client = client,
                             .fh = fh,
                             .offset = offset,
                             .data = *data,
                             .write = true,
                             .stable = stable,
                             .sum = transfer};
    return transfer_start(&whole);
}

int nfs_write_if(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
                 const struct nfs_data *data, struct nfs_attr *expected,
                 struct nfs_transfer *transfer)
{
    struct transfer whole = {.client = client,
                             .fh = fh,
                             .offset = offset,
                             .data = *data,
                             .write = true,
                             .stable = NFS_FILE_SYNC,
                             .expected = expected,
                             .sum = transfer};
    return transfer_start(&whole);
}
