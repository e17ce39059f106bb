/*
 * Asynchronous I/O: submitting. Requests that fit in one call are announced, and leave together,
 * over the channels of their lane; all others are carried out at once.
 */
#include "file/async.h"
#include "file/inode.h"
#include "sys/sys.h"

enum { BATCH = 64 };

/* Calls that leave together over one channel, linked by `next_unsent`. */
struct group {
    struct net_channel *channel;
    struct rpc_call *first, **end;
    unsigned count;
};

/* What is announced and not yet sent. */
struct batch {
    struct file_lane *lane;
    unsigned group_count, held_count;
    unsigned left; /* requests that are counted in flight and not looked at yet, and the present */
    struct group groups[NET_PATHS_MAX];
    uint64_t held[NET_PATHS_MAX]; /* bytes, for the first held_count paths of the last server */
};

/* Should this thread have to wait for a request, these may be what it waits for. */
static __thread struct batch *announced;

static void group_send(struct group *group, bool later)
{
    struct rpc_call *calls[BATCH];
    struct rpc_call *call = group->first;
    for (unsigned i = 0; i < group->count; i++, call = call->next_unsent)
        calls[i] = call;
    if (later)
        rpc_submit_later(group->channel, calls, group->count);
    else
        rpc_submit_on(group->channel, calls, group->count);
    group->count = 0;
}

static void batch_send(struct batch *batch, bool later)
{
    for (unsigned i = 0; i < batch->group_count; i++)
        group_send(&batch->groups[i], later);
    batch->group_count = batch->held_count = 0;
}

void file_submit_announced(void)
{
    if (announced)
        batch_send(announced, false);
}

static void batch_add(struct batch *batch, struct net_channel *channel, struct rpc_call *call)
{
    unsigned i = 0;
    while (i < batch->group_count && batch->groups[i].channel != channel)
        i++;
    if (i == NET_PATHS_MAX) {
        batch_send(batch, false);
        i = 0;
    }
    struct group *group = &batch->groups[i];
    if (i == batch->group_count)
        *group = (struct group){.channel = channel, .count = 0};
    if (i == batch->group_count)
        batch->group_count++;
    if (group->count == 0)
        group->end = &group->first;
    *group->end = call;
    group->end = &call->next_unsent;
    group->count++;
    batch->held[channel->path->index] += rpc_call_bytes(call);
    if (group->count == BATCH) {
        group_send(group, false);
        batch->held[channel->path->index] = 0;
    }
}

/* A request that does not fit into one call, or needs several: now, in this thread. */
static void submit_synchronous(struct batch *batch, struct file_request *request)
{
    struct file_open *open = request->open;
    batch_send(batch, false);
    ssize_t result;
    if (request->operation == FILE_SYNC)
        result = file_fsync(open, request->fd);
    else if (request->operation == FILE_READ)
        result = file_preadv(open, request->fd, request->vectors, request->count, request->offset,
                             request->flags);
    else
        result = file_pwritev(open, request->fd, request->vectors, request->count, request->offset,
                              request->flags);
    file_request_done(request, result);
}

/* For waiting until something of a lane has ended. */
struct progress {
    struct file_lane *lane;
    uint32_t events;
};

static bool progressed(void *context)
{
    const struct progress *progress = context;
    return atomic_load(&progress->lane->events) != progress->events;
}

/* A write in flight overlaps: of this lane, which we can drive, or of somebody else. */
static void let_others_end(struct batch *batch)
{
    struct progress progress = {batch->lane, atomic_load(&batch->lane->events)};
    batch_send(batch, false);
    if (atomic_load(&batch->lane->in_flight) >
        batch->left) {                           /* others than those to be submitted */
        if (atomic_load(&batch->lane->attended)) /* who drives it has not heard of this batch */
            file_lane_attend_now(batch->lane);
        file_lane_wait(batch->lane, progressed, &progress, sys_now_ns() + 10000000);
        return;
    }
    file_async_attend_all();
    sys_nanosleep_ms(1);
}

static void submit_write(struct batch *batch, struct file_request *request,
                         struct net_channel *channel, const struct nfs3_client *client)
{
    struct file_open *open = request->open;
    struct file_inode *inode = open->inode;
    enum nfs3_stable stable = request->stable;
    int result;
    if (stable == NFS3_UNSTABLE)
        file_commit_early(inode, open->auth);
    while ((result = file_write_announce(open, (uint64_t)request->offset, request->vectors,
                                         request->count, request->length, &stable,
                                         &request->write)) == -EAGAIN)
        let_others_end(batch);
    if (result != 0) {
        file_inode_leave(inode);
        if (result == FILE_NO_ROOM) {
            file_inode_demote(inode, open->auth, file_no_room);
            result = FILE_KERNEL;
        }
        file_request_done(request, result);
        return;
    }
    const struct iovec *vectors = request->vectors;
    int count = request->count;
    if (request->write.kept) {
        count = host_write_data(&request->write, 0, request->length, request->kept);
        vectors = request->kept;
        request->kept_count = count;
    }
    request->stable = stable;
    request->epoch = host_file_asking(&inode->host);
    nfs3_write_begin(&request->call, client, atomic_load(&inode->fh), (uint64_t)request->offset,
                     vectors, count, request->length, stable);
    request->call.answered = file_requests_answered;
    batch_add(batch, channel, &request->call);
}

static void submit(struct batch *batch, struct file_request *request)
{
    struct file_open *open = request->open;
    struct file_inode *inode = open->inode;
    request->lane = batch->lane;
    if (request->operation == FILE_SYNC) {
        submit_synchronous(batch, request);
        return;
    }
    ssize_t length = request->operation == FILE_READ
                         ? file_read_check(open, request->vectors, request->count, request->offset,
                                           request->flags)
                         : file_write_check(open, request->vectors, request->count, request->offset,
                                            request->flags, &request->stable);
    if (length <= 0) {
        file_request_done(request, length);
        return;
    }
    if (request->operation == FILE_WRITE && file_size_is_limited()) { /* it may have been cut */
        submit_synchronous(batch, request);
        return;
    }
    struct nfs3_client client = file_mount_client(inode->mount, open->auth);
    while (batch->held_count < client.server->path_count)
        batch->held[batch->held_count++] = 0;
    struct net_channel *channel =
        file_lane_channel(batch->lane, client.server, (size_t)length, batch->held);
    size_t longest = request->operation == FILE_READ ? client.read_max : client.write_max;
    if (!channel || (size_t)length > longest || request->count > RPC_VECTORS_MAX) {
        submit_synchronous(batch, request);
        return;
    }
    request->length = (size_t)length;
    if (!file_inode_enter(inode)) {
        file_request_done(request, FILE_KERNEL);
        return;
    }
    if (request->operation == FILE_WRITE) {
        submit_write(batch, request, channel, &client);
        return;
    }
    request->replays = host_file_read_epoch(&inode->host);
    nfs3_read_begin(&request->call, &client, atomic_load(&inode->fh), (uint64_t)request->offset,
                    request->vectors, request->count, request->length);
    request->call.answered = file_requests_answered;
    batch_add(batch, channel, &request->call);
}

static void submit_all(struct file_lane *lane, struct file_request *const *requests, unsigned count,
                       bool later)
{
    struct batch batch; /* large: not cleared as a whole */
    batch.lane = lane;
    batch.group_count = batch.held_count = 0;
    announced = &batch;
    atomic_fetch_add(&lane->in_flight, count);
    for (unsigned i = 0; i < count; i++) {
        batch.left = count - i;
        submit(&batch, requests[i]);
    }
    batch_send(&batch, later);
    announced = NULL;
    /* A thread that drives several channels would not hear of a further one. */
    if (lane->channel_count > 1 && atomic_load(&lane->waiters) > 0)
        atomic_store(&lane->shared, true);
    if ((atomic_load_explicit(&lane->attended, memory_order_relaxed) ||
         atomic_load_explicit(&lane->shared, memory_order_relaxed)) &&
        atomic_load(&lane->in_flight) > 0)
        file_lane_attend_now(lane);
}

void file_submit(struct file_lane *lane, struct file_request *const *requests, unsigned count)
{
    submit_all(lane, requests, count, false);
}

void file_submit_later(struct file_lane *lane, struct file_request *const *requests, unsigned count)
{
    /* Not where somebody waits already, who would not know. */
    submit_all(lane, requests, count,
               atomic_load(&lane->waiters) == 0 && !atomic_load(&lane->attended));
}
