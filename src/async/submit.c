/*
 * Asynchronous I/O: submitting. Requests that fit in one call are announced, and leave together,
 * over the channels of their lane; all others are carried out at once.
 */
#include "durable/agent.h"
#include "durable/fsync.h"
#include "durable/early.h"
#include "file/flags.h"
#include "file/inode.h"
#include "io/io.h"
#include "async/lane.h"
#include "file/upper.h"
#include "io/write.h"
#include "ledger/dirty.h"
#include "ledger/uncommitted.h"
#include "mount/mounts.h"
#include "sys/critical.h"
#include "sys/sys.h"

enum {
    GROUP_CALLS = 64,
    WRITES = 16, /* so many are announced together */
    WRITES_BYTES = 1 << 18
};

/* Calls that leave together over one channel, linked by `next_unsent`. */
struct group {
    struct net_channel *channel;
    struct rpc_call *first, **end;
    unsigned count;
};

/* What is announced and not sent yet, and writes of one inode that are not announced yet. */
struct batch {
    struct async_lane *lane;
    unsigned write_count;
    size_t write_bytes;
    struct async_request *writes[WRITES];
    struct net_channel *write_channels[WRITES];
    unsigned group_count, held_count;
    unsigned left; /* requests that the lane counts as in flight, not announced yet */
    struct group groups[NET_PATHS_MAX];
    uint64_t held[NET_PATHS_MAX]; /* bytes, for the first held_count paths of the last server */
};

/* If this thread has to wait for a request, it may be one of these: async_submit_announced(). */
static __thread struct batch *announced;

static void group_send(struct group *group, bool later)
{
    struct rpc_call *calls[GROUP_CALLS];
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

void async_submit_announced(void)
{
    if (announced)
        batch_send(announced, false);
}

/* Adds the call of a request that is announced. */
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
    batch->left--;
    if (group->count == GROUP_CALLS) {
        group_send(group, false);
        batch->held[channel->path->index] = 0;
    }
}

static void done(struct batch *batch, struct async_request *request, ssize_t result)
{
    batch->left--;
    async_request_done(request, result);
}

/* To wait until something of a lane has ended. */
struct progress {
    struct async_lane *lane;
    uint32_t events;
};

static bool progressed(void *context)
{
    const struct progress *progress = context;
    return atomic_load(&progress->lane->events) != progress->events;
}

/* A write in flight overlaps. It is of this lane, which this thread can drive, or somebody else's.
 */
static void let_others_end(struct batch *batch)
{
    struct progress progress = {batch->lane, atomic_load(&batch->lane->events)};
    batch_send(batch, false);
    if (atomic_load(&batch->lane->in_flight) != batch->left) { /* others are in flight, too */
        if (atomic_load(&batch->lane->attended)) /* its driver does not know of this batch */
            async_lane_attend_now(batch->lane);
        bool before = sys_critical_set_patient(true); /* perhaps nobody else drives it */
        async_lane_wait(batch->lane, progressed, &progress, sys_now_ns() + 10000000);
        sys_critical_set_patient(before);
        return;
    }
    async_attend_all();
    sys_nanosleep_ms(1);
}

/* Adds a write that is announced to the batch. */
static void add_write(struct batch *batch, struct async_request *request,
                      struct net_channel *channel, uint64_t epoch)
{
    request->to.use = file_inode_use(request->to.inode);
    request->write.epoch = epoch;
    durable_write_begin(&request->write, request->kept, &request->call);
    request->call.answered = async_requests_answered;
    batch_add(batch, channel, &request->call);
}

/* Announces one write, whatever is in its way, or ends it. */
static void submit_write(struct batch *batch, struct async_request *request,
                         struct net_channel *channel)
{
    struct file_open *open = request->open;
    struct file_inode *inode = open->inode;
    struct ledger_beginning beginning =
        durable_write_beginning(&request->write, (uint64_t)request->offset, request->length);
    int result;
    for (;;) {
        if (!file_inode_enter(inode)) {
            done(batch, request, FILE_KERNEL);
            return;
        }
        result = io_write_announce(open, &beginning, &request->write.stable, false);
        if (result != -EAGAIN)
            break;
        file_inode_leave(inode); /* a request that ends may hand the file over, and wait for this */
        let_others_end(batch);
    }
    if (result == 0) {
        add_write(batch, request, channel, ledger_file_asking(&inode->entry));
        return;
    }
    done(batch, request, file_finish_call(open, result));
}

/* Announces the writes that were gathered, as many together as can be. */
static void submit_writes(struct batch *batch)
{
    struct ledger_beginning list[WRITES];
    unsigned count = batch->write_count;
    if (count == 0)
        return;
    struct file_inode *inode = batch->writes[0]->open->inode; /* all hold it until they are sent */
    bool unstable = false;
    for (unsigned i = 0; i < count; i++) {
        struct async_request *request = batch->writes[i];
        list[i] =
            durable_write_beginning(&request->write, (uint64_t)request->offset, request->length);
        unstable = unstable || list[i].keep;
    }
    batch->write_count = 0;
    batch->write_bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned begun = 0, all = count - i;
        if (file_inode_enter_many(inode, all)) {
            if (unstable) {
                durable_agent_meet(inode->mount);
                durable_commit_early(inode, batch->writes[i]->open->auth);
            }
            begun = ledger_writes_try(&inode->entry, list + i, all);
            if (begun < all)
                file_inode_leave_many(inode, all - begun);
        }
        uint64_t epoch = ledger_file_asking(&inode->entry);
        for (; begun > 0; begun--, i++)
            add_write(batch, batch->writes[i], batch->write_channels[i], epoch);
        if (i < count)
            submit_write(batch, batch->writes[i], batch->write_channels[i]);
    }
}

static void gather_write(struct batch *batch, struct async_request *request,
                         struct net_channel *channel)
{
    if (batch->write_count > 0 && batch->writes[0]->open->inode != request->open->inode)
        submit_writes(batch);
    batch->writes[batch->write_count] = request;
    batch->write_channels[batch->write_count++] = channel;
    batch->write_bytes += request->length;
    if (batch->write_count == WRITES || batch->write_bytes >= WRITES_BYTES)
        submit_writes(batch);
}

/* Carries out a request that does not fit into one call, or has to find the end of the file: now,
 * in this thread. */
static void submit_synchronous(struct batch *batch, struct async_request *request)
{
    struct file_open *open = request->open;
    submit_writes(batch);
    batch_send(batch, false);
    ssize_t result;
    if (request->operation == ASYNC_SYNC)
        result = durable_fsync(open, request->fd);
    else if (request->operation == ASYNC_READ)
        result = file_upper.preadv(open, request->fd, request->vectors, request->count,
                                   request->offset, request->flags);
    else
        result = io_pwritev(open, request->fd, request->vectors, request->count, request->offset,
                            request->flags);
    done(batch, request, result);
}

static void submit(struct batch *batch, struct async_request *request)
{
    struct file_open *open = request->open;
    struct file_inode *inode = open->inode;
    request->lane = batch->lane;
    request->stranded = NULL;
    if (request->operation == ASYNC_SYNC) {
        submit_synchronous(batch, request);
        return;
    }
    ssize_t length = request->operation == ASYNC_WRITE
                         ? io_write_check(open, request->vectors, request->count, request->offset,
                                          request->flags, &request->write.stable)
                         : io_read_check(open, request->vectors, request->count, request->offset,
                                         request->flags);
    if (length <= 0) {
        done(batch, request, length);
        return;
    }
    if (request->operation == ASYNC_WRITE && (file_size_is_limited() /* it may have been cut */ ||
                                              file_appends(open, request->fd, request->flags))) {
        submit_synchronous(batch, request);
        return;
    }
    struct nfs_client client = mount_client(inode->mount, open->auth);
    while (batch->held_count < client.server->path_count)
        batch->held[batch->held_count++] = 0;
    struct net_channel *channel =
        async_lane_channel(batch->lane, client.server, (size_t)length, batch->held);
    if (!channel || (size_t)length > nfs_longest(&client, request->operation == ASYNC_WRITE) || request->count > RPC_VECTORS_MAX) {
        if (request->operation == ASYNC_READ_AHEAD)
            done(batch, request, -EAGAIN);
        else
            submit_synchronous(batch, request);
        return;
    }
    request->length = (size_t)length;
    batch->held[channel->path->index] += (size_t)length;
    if (request->operation == ASYNC_WRITE) {
        request->to = (struct file_target){
            .mount = inode->mount, .client = client, .inode = inode, .entry = &inode->entry};
        request->write.to = &request->to;
        request->write.vectors = request->vectors;
        request->write.count = request->count;
        gather_write(batch, request, channel);
        return;
    }
    if (request->operation == ASYNC_READ &&
        ledger_dirty_concerns(&inode->entry, (uint64_t)request->offset,
                              (uint64_t)request->offset + (uint64_t)length)) {
        submit_synchronous(batch, request); /* the server may not have all of it yet */
        return;
    }
    if (request->operation == ASYNC_READ_AHEAD) {
        file_inode_enter_again(inode); /* to enter might wait for a demotion, that for the caller */
    } else if (!file_inode_enter(inode)) {
        done(batch, request, FILE_KERNEL);
        return;
    }
    if (request->operation == ASYNC_READ) /* else src/ahead has taken it */
        ledger_stamp_take(&inode->entry, 0, 0, &request->stamp);
    const struct nfs_data data = {
        request->vectors, request->count, request->length,
        io_bytes_within(request->stamp.size, (uint64_t)request->offset, request->length)};
    nfs_read_begin(&request->call, &client, atomic_load(&inode->fh), (uint64_t)request->offset,
                   &data);
    request->call.answered = async_requests_answered;
    batch_add(batch, channel, &request->call);
}

static void submit_all(struct async_lane *lane, struct async_request *const *requests,
                       unsigned count, bool later)
{
    struct batch batch; /* large: not cleared as a whole */
    batch.lane = lane;
    batch.group_count = batch.held_count = batch.write_count = 0;
    batch.write_bytes = 0;
    batch.left = count;
    struct batch *outer = announced; /* a request of the outer batch reads ahead */
    announced = &batch;
    atomic_fetch_add(&lane->in_flight, count);
    for (unsigned i = 0; i < count; i++)
        submit(&batch, requests[i]);
    submit_writes(&batch);
    batch_send(&batch, later);
    announced = outer;
    /* A thread that drives several channels would not hear of a further one. */
    if (lane->channel_count > 1 && atomic_load(&lane->waiters) > 0)
        atomic_store(&lane->shared, true);
    if ((atomic_load_explicit(&lane->attended, memory_order_relaxed) ||
         atomic_load_explicit(&lane->shared, memory_order_relaxed)) &&
        atomic_load(&lane->in_flight) > 0 && !async_lane_attend_now(lane) &&
        atomic_load(&lane->attended))
        async_lane_finish(lane); /* nobody else would */
}

void async_submit(struct async_lane *lane, struct async_request *const *requests, unsigned count)
{
    submit_all(lane, requests, count, false);
}

void async_submit_later(struct async_lane *lane, struct async_request *const *requests,
                        unsigned count)
{
    /* Not if a thread waits already: it would not know of what is kept. */
    submit_all(lane, requests, count,
               atomic_load(&lane->waiters) == 0 && !atomic_load(&lane->attended));
}
