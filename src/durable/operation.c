#include "durable/operation.h"

#include "file/pages.h"
#include "mount/verifier.h"

void durable_write_begin(const struct durable_write *write, struct iovec kept[LEDGER_WRITE_VECTORS],
                         struct rpc_call *call)
{
    const struct nfs_data data = durable_write_data(write, kept);
    nfs_write_begin(call, &write->to->client, write->to->use.fh, write->announced.offset, &data,
                    write->stable);
}

/* Servers tell an error of their disk once, to the call that makes them write to it. This WRITE was
 * to reach the disk at once: may it have been told an error that concerns other data of the file?
 */
static bool is_doubtful(const struct durable_write *write, int result, bool repeated)
{
    bool failed = result != 0 && result != -ESTALE && result != -EAGAIN && result != -ECANCELED;
    return write->stable != NFS_UNSTABLE && (failed || repeated);
}

/* Fills in the ending of a write that went well. */
static void arrived(const struct durable_write *write, const struct nfs_transfer *transfer,
                    struct ledger_ending *ending)
{
    const struct file_target *to = write->to;
    const struct timespec before = {transfer->before.sec, transfer->before.nsec};
    ending->verifier = transfer->verifier;
    ending->before_ctime = transfer->before_present ? ledger_nanoseconds(&before) : 0;
    ending->several = transfer->parts > 1 || write->taken > 0;
    ending->asked_ns = transfer->sent_ns;
    ending->attributes_known = transfer->attr.present;
    if (ending->attributes_known)
        file_attributes_convert(&transfer->attr.attr, &ending->attributes);
    if (ending->outcome == LEDGER_WRITE_UNSTABLE)
        mount_server_saw(to->mount->server, transfer->verifier, transfer->sent_ns,
                         ending->attributes_known ? ledger_nanoseconds(&ending->attributes.mtime)
                                                  : 0);
    if (to->inode)
        file_pages_arrived(to->inode);
}

void durable_write_judge(struct durable_write *write, int result,
                         const struct nfs_transfer *transfer, struct ledger_ending *ending)
{
    struct ledger_write *announced = &write->announced;
    ending->several = false;
    announced->unsettled = announced->unsettled || transfer->unsettled;
    announced->doubtful = announced->doubtful || is_doubtful(write, result, transfer->repeated);
    ending->file = write->to->entry;
    ending->write = announced;
    ending->epoch = write->epoch;
    if (result == 0) {
        ending->outcome =
            transfer->committed == NFS_UNSTABLE ? LEDGER_WRITE_UNSTABLE : LEDGER_WRITE_STABLE;
        write->ns = nfs_transfer_ns(transfer);
        arrived(write, transfer, ending);
        return;
    }
    ending->outcome = LEDGER_WRITE_FAILED;
    ending->before_ctime = 0;
    ending->attributes_known = false;
}

int durable_write_settle(struct durable_write *write, const struct rpc_call *call,
                         struct ledger_ending *ending)
{
    struct nfs_transfer transfer; /* large: not cleared */
    int result = -ENETDOWN;       /* nobody answered */
    transfer.unsettled = call->unsettled;
    transfer.repeated = false;
    if (call->error != -ENETDOWN)
        result = nfs_write_end(call, write->stable, &transfer);
    write->taken = 0;
    if (result == 0 && transfer.length < write->announced.length) {
        write->taken = transfer.length;
        result = -EAGAIN;
    }
    /* The last answer decides, if the call was sent once more as it is. */
    write->announced.unsettled = write->announced.doubtful = false;
    durable_write_judge(write, result, &transfer, ending);
    return result == -EAGAIN || result == -ESTALE ? DURABLE_WRITE_TROUBLED : result;
}

/* durable_write_alone() and once() are not inlined: each has a large frame, and a handler of a
 * signal, in which this may run, a small stack. */
__attribute__((noinline)) int durable_write_alone(struct durable_write *write,
                                                  struct ledger_ending *ending)
{
    struct file_target *to = write->to;
    struct iovec kept[LEDGER_WRITE_VECTORS];
    const struct nfs_data data = durable_write_data(write, kept);
    struct nfs_transfer transfer;
    int result;
    do {
        write->epoch = ledger_file_asking(to->entry);
        result = nfs_write(&to->client, to->use.fh, write->announced.offset, &data, write->stable,
                           &transfer);
        durable_write_judge(write, result, &transfer, ending);
    } while (file_target_again(to, result));
    if (transfer.length > write->taken)
        write->taken = transfer.length;
    return result;
}

__attribute__((noinline)) static int once(struct durable_write *write, struct ledger_ending *ending)
{
    struct iovec kept[LEDGER_WRITE_VECTORS];
    struct rpc_call call;
    durable_write_begin(write, kept, &call);
    nfs_call_run(&write->to->client, (struct rpc_call *[]){&call}, 1);
    return durable_write_settle(write, &call, ending);
}

int durable_write_now(struct durable_write *write, struct ledger_ending *ending)
{
    write->taken = 0;
    write->epoch = ledger_file_asking(write->to->entry);
    int result = durable_write_fits(write) ? once(write, ending) : DURABLE_WRITE_TROUBLED;
    return result == DURABLE_WRITE_TROUBLED ? durable_write_alone(write, ending) : result;
}
