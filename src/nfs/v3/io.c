/* READ and WRITE, each as a call of its own. */
#include <errno.h>

#include "stats/count.h"
#include "nfs/v3/call.h"
#include "nfs/v3/xdr.h"

void nfs3_read_begin(struct rpc_call *call, const struct nfs_client *client,
                     const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data)
{
    struct xdr_writer w;
    nfs3_call_begin(call, client, NFS_PROC_READ, &w);
    nfs3_read_args_put(&w, fh, offset, (uint32_t)data->length);
    call->find_payload = nfs3_read_head;
    call->destination = data->vectors;
    call->destination_count = data->count;
    call->destination_length = data->length;
    call->certain = data->certain;
    rpc_call_end(call, w.p);
}

void nfs3_write_begin(struct rpc_call *call, const struct nfs_client *client,
                      const struct nfs_fh *fh, uint64_t offset, const struct nfs_data *data,
                      enum nfs_stable stable)
{
    struct xdr_writer w;
    nfs3_call_begin(call, client, NFS_PROC_WRITE, &w);
    nfs3_write_args_put(&w, fh, offset, (uint32_t)data->length, stable);
    call->payload = data->vectors;
    call->payload_count = data->count;
    call->payload_length = data->length;
    rpc_call_end(call, w.p);
}

/* Do the data go on after the size of the file, or end before it? */
static bool has_two_ends(const struct nfs3_read_res *res, uint64_t offset)
{
    uint64_t end = offset + res->count, size = res->attr.attr.size;
    return res->attr.present && ((res->eof && end < size) || (res->count > 0 && end > size));
}

int nfs3_read_end(const struct rpc_call *call, uint64_t offset, struct nfs_transfer *transfer)
{
    struct xdr_reader r;
    struct nfs3_read_res res;
    int error = nfs3_call_outcome(call, &r);
    if (error != 0)
        return error;
    error = nfs3_read_res_get(&r, (uint32_t)call->destination_length, &res);
    if (error == 0 && res.count != call->received)
        error = -EBADMSG;
    if (error != 0) {
        nfs_call_senseless(call, "more bytes than were asked for, or garbage");
        return error;
    }
    /* A server that repeats this answer would hang the caller. */
    if (res.count == 0 && !res.eof) {
        nfs_call_senseless(call, "no bytes, and not the end of the file");
        return -EIO;
    }
    transfer->length = res.count;
    transfer->unsettled = call->unsettled;
    transfer->eof = res.eof;
    transfer->two_ends = has_two_ends(&res, offset);
    transfer->connected_ns = call->connected_ns;
    transfer->attr = res.attr;
    stats_transferred(false, res.count);
    return 0;
}

int nfs3_write_end(const struct rpc_call *call, enum nfs_stable stable,
                   struct nfs_transfer *transfer)
{
    struct xdr_reader r;
    struct nfs3_write_res res;
    int error = nfs3_call_outcome(call, &r);
    transfer->unsettled = call->unsettled;
    transfer->repeated = nfs_call_repeated(call);
    if (error != 0)
        return error;
    error = nfs3_write_res_get(&r, (uint32_t)call->payload_length, &res);
    if (error != 0) {
        nfs_call_senseless(call, "more bytes than were asked for, or garbage");
        return error;
    }
    if (res.count == 0 || res.committed < (uint32_t)stable) { /* RFC 1813 section 3.3.7 */
        nfs_call_senseless(call, res.count ? "the data is less stable than was asked for"
                                           : "no bytes were written, and no error");
        return -EIO;
    }
    transfer->length = res.count;
    transfer->eof = false;
    transfer->connected_ns = call->connected_ns;
    transfer->verifier = res.verifier;
    transfer->parts = 1;
    transfer->committed = res.committed;
    transfer->attr = res.wcc.after;
    transfer->before_present = res.wcc.before_present;
    transfer->before = res.wcc.ctime;
    stats_transferred(true, res.count);
    return 0;
}
