/* READ and WRITE of NFSv4.1, and how answers are judged. */
#include <errno.h>
#include <string.h>

#include "stats/count.h"
#include "nfs/v4/call.h"
#include "nfs/v4/open.h"
#include "nfs/v4/status.h"

const struct nfs4_stateid nfs4_anonymous = {{0}};

/* ---- outcomes ---- */

static bool denies_slot(uint32_t status)
{
    return status == NFS4ERR_SEQ_MISORDERED || status == NFS4ERR_SEQ_FALSE_RETRY ||
           status == NFS4ERR_BADSLOT || status == NFS4ERR_BAD_HIGH_SLOT;
}

/* Was the call cut for an earlier session, which took more? */
static bool is_of_larger_session(const struct rpc_call *call, uint32_t status)
{
    struct nfs_session *session = (struct nfs_session *)call->exact;
    return (status == NFS4ERR_REQ_TOO_BIG &&
            call->payload_length > nfs4_session_most(session, true)) ||
           (status == NFS4ERR_REP_TOO_BIG &&
            call->destination_length > nfs4_session_most(session, false));
}

int nfs4_call_status(const struct rpc_call *call, uint32_t status, bool by_sequence, bool *at_once)
{
    struct nfs_session *session = (struct nfs_session *)call->exact;
    *at_once = true;
    if (is_of_larger_session(call, status))
        return -EAGAIN;
    switch (nfs4_status_reaction(status, by_sequence)) {
    case NFS4_LATER:
        *at_once = false;
        return -EAGAIN;
    case NFS4_AGAIN:
        return -EAGAIN;
    case NFS4_BIND:
        atomic_store(&call->channel->server->unbound, call->channel);
        return call->unready ? call->unready : -EAGAIN;
    case NFS4_RENEW:
        if (denies_slot(status))
            stats_add(&stats_own->counters.sequence_errors, 1);
        nfs4_session_lost(session, call->exact_generation);
        if (nfs4_fence_is_shut(&session->fence))
            return -EIO;
        return call->unready ? call->unready : -EAGAIN;
    default:
        if (!by_sequence && nfs4_open_refused(session, status))
            return -EBADFD;
        if (status == NFS4ERR_MOVED || status == NFS4ERR_LEASE_MOVED)
            nfs_call_moved(call);
        else if (status != NFS4ERR_IO && nfs4_status_errno(status) == -EIO)
            nfs_call_refused(call, nfs4_status_name(status));
        return nfs4_status_errno(status);
    }
}

/* Does SEQUENCE say that this is the answer to this call? */
static bool is_answer_to(const struct rpc_call *call, const struct nfs4_sequence *told)
{
    const uint8_t *asked = call->head + call->exact_at;
    return memcmp(told->session, asked, NFS4_SESSION_ID) == 0 &&
           nfs4_is_stamp(asked + NFS4_SESSION_ID, told->sequence, told->slot);
}

/* Judges an answer up to the status of the operation after SEQUENCE. */
static int judge(const struct rpc_call *call, enum nfs4_op first, struct xdr_reader *results,
                 bool *at_once)
{
    struct nfs_session *session = (struct nfs_session *)call->exact;
    struct nfs4_sequence sequence;
    uint32_t operations, whole = nfs4_get_compound(results, &operations);
    if (operations == 0 && whole != NFS4_OK) /* refused as a whole */
        return results->bad ? -EBADMSG : nfs4_call_status(call, whole, true, at_once);
    uint32_t status = nfs4_get_op(results, NFS4_OP_SEQUENCE);
    bool by_sequence = status != NFS4_OK;
    if (!by_sequence) {
        nfs4_get_sequence(results, &sequence);
        if (results->bad || !is_answer_to(call, &sequence))
            return -EBADMSG;
        if (sequence.flags & NFS4_LEASE_MOVED && !atomic_exchange(&session->moved, true))
            nfs_call_moved(call);
        status = nfs4_get_op(results, first);
    }
    return results->bad ? -EBADMSG : nfs4_call_status(call, status, by_sequence, at_once);
}

int nfs4_call_outcome(const struct rpc_call *call, enum nfs4_op first, struct xdr_reader *results,
                      bool *at_once)
{
    int error = call->error;
    *at_once = false;
    xdr_reader_init(results, call->results, call->results_length);
    if (error == 0)
        error = judge(call, first, results, at_once);
    nfs_call_count(call, error);
    return error;
}

/* Goes on to the next operation. */
static int next(const struct rpc_call *call, struct xdr_reader *results, enum nfs4_op op,
                bool *at_once)
{
    uint32_t status = nfs4_get_op(results, op);
    if (results->bad)
        return -EBADMSG;
    int error = nfs4_call_status(call, status, false, at_once);
    return error == -EBADFD ? -EAGAIN : error; /* when it is begun again it has another state */
}

/* Gets a file's attributes, before or after another operation. */
static void get_post_attr(struct xdr_reader *results, struct nfs_post_attr *attr)
{
    struct nfs4_attributes attributes;
    attr->present = false;
    nfs4_get_attributes(results, NFS4_OF_FILE, NFS4_NEEDED, &attributes);
    if (results->bad)
        return;
    attr->present = true;
    attr->attr = attributes.attr;
}

/* ---- READ ---- */

void nfs4_read_begin(struct rpc_call *call, const struct nfs_client *client,
                     const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data)
{
    struct xdr_writer w;
    int unready = nfs4_session_ready(client); /* without a session the call is refused */
    struct nfs4_stateid state = nfs4_open_state(client, fh, NFS4_SHARE_READ);
    nfs4_slots_begin(call, client, NFS_PROC_READ, false, 3, &w);
    call->unready = unready;
    nfs4_put_fh(&w, fh);
    nfs4_put_getattr(&w, NFS4_OF_FILE); /* before READ, so that the payload ends the reply */
    nfs4_put_read(&w, &state, offset, (uint32_t)data->length);
    call->find_payload = nfs4_read_head;
    call->destination = data->vectors;
    call->destination_count = data->count;
    call->destination_length = data->length;
    call->certain = data->certain;
    rpc_call_end(call, w.p);
}

/* Does the file end before the size that was told a moment before? If it goes on after that size, a
 * write may have come in between. */
static bool has_two_ends(const struct nfs_post_attr *attr, uint64_t end, bool eof)
{
    return attr->present && eof && end < attr->attr.size;
}

int nfs4_read_end(const struct rpc_call *call, uint64_t offset, struct nfs_transfer *transfer)
{
    struct xdr_reader r;
    struct nfs_post_attr attr;
    uint32_t count = 0;
    bool eof = false;
    int error = nfs4_call_outcome(call, NFS4_OP_PUTFH, &r, &transfer->at_once);
    if (error == 0)
        error = next(call, &r, NFS4_OP_GETATTR, &transfer->at_once);
    if (error != 0)
        return error;
    get_post_attr(&r, &attr);
    error = next(call, &r, NFS4_OP_READ, &transfer->at_once);
    if (error == 0) {
        nfs4_get_read(&r, (uint32_t)call->destination_length, &count, &eof);
        if (r.bad || count != call->received)
            error = -EBADMSG;
    }
    if (error == -EBADMSG)
        nfs_call_senseless(call, "more bytes than were asked for, or garbage");
    if (error != 0)
        return error;
    /* A server that repeats this answer would hang the caller. */
    if (count == 0 && !eof) {
        nfs_call_senseless(call, "no bytes, and not the end of the file");
        return -EIO;
    }
    transfer->length = count;
    transfer->unsettled = call->unsettled;
    transfer->eof = eof;
    transfer->two_ends = has_two_ends(&attr, offset + count, eof);
    transfer->connected_ns = call->connected_ns;
    transfer->attr = attr;
    nfs4_open_accepted((struct nfs_session *)call->exact);
    stats_transferred(false, count);
    return 0;
}

/* ---- WRITE ---- */

enum { PADDING_MAX = 4 };

/* Padding, and what nfs4_put_getattr() would put: it is sent after the payload. */
#define WORD(value)                                                   \
    (uint8_t)((value) >> 24 & 0xff), (uint8_t)((value) >> 16 & 0xff), \
        (uint8_t)((value) >> 8 & 0xff), (uint8_t)((value)&0xff)
static const uint8_t getattr_tail[PADDING_MAX + 16] = {
    WORD(0), WORD(NFS4_OP_GETATTR), WORD(2), WORD(NFS4_OF_FILE), WORD(NFS4_OF_FILE >> 32)};

/* `expected`: write only if the file is so, by VERIFY (RFC 8881 section 18.31); NULL: in any
 * case. */
static void write_begin(struct rpc_call *call, const struct nfs_client *client,
                        const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                        enum nfs_stable stable, const struct nfs_attr *expected)
{
    struct xdr_writer w;
    int unready = nfs4_session_ready(client);
    struct nfs4_stateid state = nfs4_open_state(client, fh, NFS4_SHARE_WRITE);
    nfs4_slots_begin(call, client, NFS_PROC_WRITE, true, expected ? 4 : 3, &w);
    call->unready = unready;
    nfs4_put_fh(&w, fh);
    if (expected)
        nfs4_put_verify_change(&w, expected->change);
    nfs4_put_write(&w, &state, offset, (uint32_t)data->length, stable);
    call->payload = data->vectors;
    call->payload_count = data->count;
    call->payload_length = data->length;
    call->tail = getattr_tail + PADDING_MAX;
    call->tail_length = sizeof(getattr_tail) - PADDING_MAX;
    rpc_call_end(call, w.p);
}

void nfs4_write_begin(struct rpc_call *call, const struct nfs_client *client,
                      const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                      enum nfs_stable stable)
{
    write_begin(call, client, fh, offset, data, stable, NULL);
}

void nfs4_write_if_begin(struct rpc_call *call, const struct nfs_client *client,
                         const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                         const struct nfs_attr *expected)
{
    write_begin(call, client, fh, offset, data, NFS_FILE_SYNC, expected);
}

static int write_end(const struct rpc_call *call, enum nfs_stable stable,
                     const struct nfs_attr *expected, struct nfs_transfer *transfer)
{
    struct xdr_reader r;
    uint32_t count = 0, committed = NFS_UNSTABLE;
    uint64_t verifier = 0;
    bool unused;
    int error = nfs4_call_outcome(call, NFS4_OP_PUTFH, &r, &transfer->at_once);
    transfer->unsettled = call->unsettled;
    transfer->repeated = nfs_call_repeated(call);
    if (error == 0 && expected)
        error = next(call, &r, NFS4_OP_VERIFY, &transfer->at_once);
    if (error == 0)
        error = next(call, &r, NFS4_OP_WRITE, &transfer->at_once);
    if (error != 0)
        return error;
    nfs4_get_write(&r, (uint32_t)call->payload_length, &count, &committed, &verifier);
    if (r.bad) {
        nfs_call_senseless(call, "more bytes than were asked for, or garbage");
        return -EBADMSG;
    }
    if (count == 0 || committed < (uint32_t)stable) { /* RFC 8881 section 18.32.3 */
        nfs_call_senseless(call, count ? "the data is less stable than was asked for"
                                       : "no bytes were written, and no error");
        return -EIO;
    }
    transfer->length = count;
    transfer->eof = false;
    transfer->connected_ns = call->connected_ns;
    transfer->verifier = verifier;
    transfer->parts = 1;
    transfer->committed = committed;
    transfer->attr.present = false;
    transfer->before_present = expected != NULL; /* the server compared it */
    if (expected)
        transfer->before = expected->ctime;
    if (next(call, &r, NFS4_OP_GETATTR, &unused) == 0) /* else what the file became is not known */
        get_post_attr(&r, &transfer->attr);
    nfs4_open_accepted((struct nfs_session *)call->exact);
    stats_transferred(true, count);
    return 0;
}

int nfs4_write_end(const struct rpc_call *call, enum nfs_stable stable,
                   struct nfs_transfer *transfer)
{
    return write_end(call, stable, NULL, transfer);
}

int nfs4_write_if_end(const struct rpc_call *call, const struct nfs_attr *expected,
                      struct nfs_transfer *transfer)
{
    return write_end(call, NFS_FILE_SYNC, expected, transfer);
}
