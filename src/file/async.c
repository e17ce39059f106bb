/*
 * Asynchronous I/O. What one reply settles is settled where the reply arrives; everything else
 * (short replies, JUKEBOX, errors, a restarted server) makes a request "troubled": it is carried
 * out from the start by the synchronous code, in a thread that may wait.
 */
#include "file/async.h"

#include <linux/futex.h>
#include <string.h>

#include "file/inode.h"
#include "host/stats.h"
#include "sys/critical.h"
#include "sys/thread.h"
#include "sys/log.h"

enum { BATCH = 64, ENDINGS = 16, ATTENDANTS = NET_PATHS_MAX * NET_CONNECTIONS_MAX };

#define HELP_NS     UINT64_C(10000000)
#define ALONE_NS    UINT64_C(1000000)
#define ATTENDED_NS UINT64_C(1000000000)

#define REQUEST_OF(pointer) \
    ((struct file_request *)((char *)(pointer)-offsetof(struct file_request, call)))

/* A thread that drives a channel. Made on first need, lives as long as the process. */
struct attendant {
    struct net_channel *channel; /* constant once used */
    _Atomic uint32_t kicks;      /* futex: something was submitted */
};

/* Guards the list of lanes and the attendants. Held briefly. */
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file_lane *lanes;
static struct attendant attendants[ATTENDANTS];
static unsigned attendant_count;

static _Atomic uint32_t all_events; /* of all lanes: see struct file_lane */

struct batch;

/* What this thread alone can do for requests in flight, should it have to wait for one. */
static __thread struct {
    struct net_channel *channel; /* the attendant's own: nobody else may be driving it */
    struct batch *batch;         /* announced, but not yet sent */
} own;

/* ---- the end of a request ---- */

static void lane_event(struct file_lane *lane)
{
    atomic_fetch_add(&lane->events, 1);
    atomic_fetch_add_explicit(&all_events, 1, memory_order_relaxed);
    if (atomic_load(&lane->sleepers) > 0)
        sys_futex(&lane->events, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/* After this the requests, all of one lane and with one `done`, are the caller's again, and the
 * lane may be gone. */
static void list_done(struct file_request *first, unsigned count)
{
    struct file_lane *lane = first->lane;
    atomic_fetch_add(&lane->users, 1);
    first->done(first);
    atomic_fetch_sub(&lane->in_flight, count);
    lane_event(lane);
    atomic_fetch_sub(&lane->users, 1);
}

static void request_done(struct file_request *request, ssize_t result)
{
    file_put(request->open);
    request->result = file_posix_error(result);
    request->next = NULL;
    list_done(request, 1);
}

static void lane_attend_now(struct file_lane *lane);

static void trouble(struct file_request *request)
{
    struct file_lane *lane = request->lane;
    atomic_fetch_add(&lane->users, 1);
    pthread_mutex_lock(&lane->lock);
    request->next = lane->troubled;
    lane->troubled = request;
    atomic_fetch_add(&lane->troubled_count, 1);
    pthread_mutex_unlock(&lane->lock);
    lane_event(lane);
    if (atomic_load(&lane->attended)) /* the attendant may sleep: nothing is in flight any more */
        lane_attend_now(lane);
    atomic_fetch_sub(&lane->users, 1);
}

/* Sets the result. False: one reply does not settle the request. */
static bool settle_read(struct file_request *request)
{
    struct nfs3_transfer transfer;
    if (request->call.error == -ENETDOWN || nfs3_read_end(&request->call, &transfer) != 0 ||
        (transfer.length < request->length && !transfer.eof) ||
        file_read_is_suspect(request->open->inode, &transfer, request->replays))
        return false;
    host_stats_file_read(request->open->stats, transfer.length);
    request->result = (ssize_t)transfer.length;
    return true;
}

/* How writes that were answered together end in the ledger. */
struct endings {
    unsigned count;
    struct host_ending of[ENDINGS];
};

static void endings_flush(struct endings *endings)
{
    host_writes_end(endings->of, endings->count);
    endings->count = 0;
}

static bool settle_write(struct file_request *request, struct endings *endings)
{
    struct nfs3_transfer transfer;
    /* Also for trouble(): what is sent again then may be carried out twice. */
    request->write.unsettled = request->call.unsettled;
    if (request->call.error == -ENETDOWN ||
        nfs3_write_end(&request->call, request->stable, &transfer) != 0 ||
        transfer.length < request->length)
        return false;
    if (endings->count == ENDINGS)
        endings_flush(endings);
    file_write_judge(request->open, &request->write, &transfer, request->call.sent_ns,
                     request->epoch, &endings->of[endings->count++]);
    request->result = (ssize_t)request->length;
    return true;
}

static bool settle(struct file_request *request, struct endings *endings)
{
    return request->operation == FILE_READ ? settle_read(request) : settle_write(request, endings);
}

/* Ends requests that are settled: what is counted for each is counted once for neighbours. */
static void settled_done(struct file_request *first)
{
    while (first) {
        struct file_request *request = first, *last = NULL;
        unsigned count = 0;
        do {
            struct file_open *open = request->open;
            unsigned same = 0;
            for (; request && request->open == open && request->lane == first->lane &&
                   request->done == first->done;
                 request = request->next, same++)
                last = request;
            file_inode_leave_many(open->inode, same);
            file_put_many(open, same);
            count += same;
        } while (request && request->lane == first->lane && request->done == first->done);
        last->next = NULL;
        list_done(first, count);
        first = request;
    }
}

/* In any thread, as the leader of the channel: must not wait. */
static void answered(struct rpc_call *call)
{
    struct file_request *settled = NULL, **end = &settled;
    struct endings endings;
    endings.count = 0;
    host_stats_together_begin();
    while (call) {
        struct file_request *request = REQUEST_OF(call);
        call = call->next_unsent;
        if (!settle(request, &endings)) {
            trouble(request);
            continue;
        }
        *end = request;
        end = &request->next;
    }
    *end = NULL;
    endings_flush(&endings);
    host_stats_together_end();
    settled_done(settled);
}

/* ---- requests that need more than one reply ---- */

static ssize_t write_again(struct file_request *request)
{
    struct file_open *open = request->open;
    struct nfs3_transfer transfer;
    const struct iovec *vectors = request->write.kept ? request->kept : request->vectors;
    int count = request->write.kept ? request->kept_count : request->count;
    uint64_t asked_ns = sys_now_ns();
    int result = file_write_send(open, &request->write, vectors, count, request->stable, &transfer);
    result =
        file_write_conclude(open, &request->write, result, &transfer, asked_ns, request->epoch);
    return result != 0 ? result : (ssize_t)request->length;
}

static void carry_out(struct file_request *request)
{
    struct file_open *open = request->open;
    ssize_t result = request->operation == FILE_WRITE
                         ? write_again(request)
                         : file_read_at(open, request->vectors, request->count, request->length,
                                        request->offset);
    file_inode_leave(open->inode);
    if (result == -ESTALE) {
        file_inode_demote(open->inode, open->auth, "stale handle");
        result = FILE_KERNEL;
    }
    request_done(request, result);
}

/* Which troubled requests a thread carries out: all, writes, or all of one file. */
struct choice {
    bool writes;
    const struct file_inode *inode;
};

static bool chosen(const struct file_request *request, const struct choice *choice)
{
    return (!choice->writes || request->operation == FILE_WRITE) &&
           (!choice->inode || request->open->inode == choice->inode);
}

static void carry_out_chosen(struct file_lane *lane, const struct choice *choice)
{
    while (atomic_load_explicit(&lane->troubled_count, memory_order_acquire) > 0) {
        pthread_mutex_lock(&lane->lock);
        struct file_request **at = &lane->troubled;
        while (*at && !chosen(*at, choice))
            at = &(*at)->next;
        struct file_request *request = *at;
        if (request) {
            *at = request->next;
            atomic_fetch_sub(&lane->troubled_count, 1);
        }
        pthread_mutex_unlock(&lane->lock);
        if (!request)
            return;
        carry_out(request);
    }
}

static void carry_out_troubled(struct file_lane *lane)
{
    static const struct choice all;
    carry_out_chosen(lane, &all);
}

/* ---- lanes ---- */

void file_lane_init(struct file_lane *lane)
{
    memset(lane, 0, sizeof(*lane));
    pthread_mutex_init(&lane->lock, NULL);
    pthread_mutex_lock(&lanes_lock);
    lane->next_lane = lanes;
    lanes = lane;
    pthread_mutex_unlock(&lanes_lock);
}

void file_lane_end(struct file_lane *lane)
{
    pthread_mutex_lock(&lanes_lock);
    for (struct file_lane **at = &lanes; *at; at = &(*at)->next_lane) {
        if (*at == lane) {
            *at = lane->next_lane;
            break;
        }
    }
    pthread_mutex_unlock(&lanes_lock);
    while (atomic_load(&lane->users) > 0)
        sys_call0(SYS_sched_yield);
    pthread_mutex_destroy(&lane->lock);
}

/* One of the lane's channels on this path, with room. */
static struct net_channel *lane_channel_on(const struct file_lane *lane,
                                           const struct net_path *path, size_t bytes)
{
    unsigned count = atomic_load_explicit(&lane->channel_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct net_channel *channel = lane->channels[i];
        if (channel->path == path && net_channel_has_room(channel, bytes))
            return channel;
    }
    return NULL;
}

/*
 * The channel for a request of `bytes`. A lane keeps to one channel on each path, so that many
 * calls leave together, while that has room. held: see net_path_choose(). NULL: too many channels.
 */
static struct net_channel *lane_channel(struct file_lane *lane, struct net_server *server,
                                        size_t bytes, const uint64_t *held)
{
    struct net_path *path = net_path_choose(server, bytes, held);
    struct net_channel *channel = lane_channel_on(lane, path, bytes);
    if (channel)
        return channel;
    channel = net_path_channel(path, bytes);
    pthread_mutex_lock(&lane->lock);
    unsigned i = 0, count = atomic_load(&lane->channel_count);
    while (i < count && lane->channels[i] != channel)
        i++;
    if (i == FILE_LANE_CHANNELS) {
        channel = NULL;
    } else if (i == count) {
        lane->channels[i] = channel;
        atomic_store(&lane->channel_count, count + 1);
    }
    pthread_mutex_unlock(&lane->lock);
    return channel;
}

/* ---- attendants ---- */

static bool lane_uses(const struct file_lane *lane, const struct net_channel *channel)
{
    bool uses = false;
    unsigned count = atomic_load(&lane->channel_count);
    for (unsigned i = 0; i < count && !uses; i++)
        uses = lane->channels[i] == channel;
    return uses;
}

/* Is this lane's trouble the attendants' business? Not while its own thread waits. */
static bool attendants_care(struct file_lane *lane, const struct net_channel *channel)
{
    return atomic_load(&lane->troubled_count) > 0 &&
           (atomic_load(&lane->attended) || atomic_load(&lane->waiters) == 0) &&
           lane_uses(lane, channel);
}

/* Carries out what is troubled in lanes of this channel. */
static void attend_troubled(const struct net_channel *channel)
{
    for (;;) {
        struct file_lane *found = NULL;
        pthread_mutex_lock(&lanes_lock);
        for (struct file_lane *lane = lanes; lane && !found; lane = lane->next_lane) {
            if (attendants_care(lane, channel))
                found = lane;
        }
        if (found)
            atomic_fetch_add(&found->users, 1);
        pthread_mutex_unlock(&lanes_lock);
        if (!found)
            return;
        carry_out_troubled(found);
        atomic_fetch_sub(&found->users, 1);
    }
}

static bool some_troubled(void *context)
{
    const struct net_channel *channel = context;
    bool some = false;
    pthread_mutex_lock(&lanes_lock);
    for (struct file_lane *lane = lanes; lane && !some; lane = lane->next_lane)
        some = attendants_care(lane, channel);
    pthread_mutex_unlock(&lanes_lock);
    return some;
}

static void *attend(void *argument)
{
    struct attendant *self = argument;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    own.channel = self->channel;
    for (;;) {
        uint32_t kicks = atomic_load(&self->kicks);
        rpc_drive(self->channel, some_troubled, self->channel, 0);
        attend_troubled(self->channel);
        if (atomic_load(&self->channel->outstanding) == 0 && !some_troubled(self->channel))
            sys_futex(&self->kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
    }
    return NULL;
}

/* Under lanes_lock. Makes sure that a thread drives the channel, and that it looks. */
static void channel_attend(struct net_channel *channel)
{
    unsigned i = 0;
    while (i < attendant_count && attendants[i].channel != channel)
        i++;
    if (i == attendant_count) {
        if (i == ATTENDANTS)
            return;
        attendants[i].channel = channel;
        if (!sys_thread_start(attend, &attendants[i], "asynchronous I/O"))
            return;
        attendant_count++;
    }
    atomic_fetch_add(&attendants[i].kicks, 1);
    sys_futex(&attendants[i].kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Under lanes_lock. */
static void lane_attend(struct file_lane *lane)
{
    atomic_store(&lane->attended, true);
    unsigned count = atomic_load(&lane->channel_count);
    for (unsigned i = 0; i < count; i++)
        channel_attend(lane->channels[i]);
}

static void lane_attend_now(struct file_lane *lane)
{
    pthread_mutex_lock(&lanes_lock);
    lane_attend(lane);
    pthread_mutex_unlock(&lanes_lock);
}

void file_lane_attend(struct file_lane *lane)
{
    atomic_store(&lane->attended_always, true);
    lane_attend_now(lane);
}

/* False: nothing is in flight in any lane. */
static bool attend_all(void)
{
    bool some = false;
    pthread_mutex_lock(&lanes_lock);
    for (struct file_lane *lane = lanes; lane; lane = lane->next_lane) {
        if (atomic_load(&lane->in_flight) > 0) {
            lane_attend(lane);
            some = true;
        }
    }
    pthread_mutex_unlock(&lanes_lock);
    return some;
}

void file_async_attend_all(void)
{
    (void)attend_all();
}

/* ---- submitting ---- */

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
    struct group groups[NET_PATHS_MAX];
    uint64_t held[NET_PATHS_MAX]; /* bytes, for the first held_count paths of the last server */
};

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
    request_done(request, result);
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
    if (atomic_load(&batch->lane->in_flight) > 1) { /* others than the one being submitted */
        if (atomic_load(&batch->lane->attended))    /* who drives it has not heard of this batch */
            lane_attend_now(batch->lane);
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
        request_done(request, result);
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
    request->call.answered = answered;
    batch_add(batch, channel, &request->call);
}

static void submit(struct batch *batch, struct file_request *request)
{
    struct file_open *open = request->open;
    struct file_inode *inode = open->inode;
    request->lane = batch->lane;
    atomic_fetch_add(&batch->lane->in_flight, 1);
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
        request_done(request, length);
        return;
    }
    struct nfs3_client client = file_mount_client(inode->mount, open->auth);
    while (batch->held_count < client.server->path_count)
        batch->held[batch->held_count++] = 0;
    struct net_channel *channel =
        lane_channel(batch->lane, client.server, (size_t)length, batch->held);
    size_t longest = request->operation == FILE_READ ? client.read_max : client.write_max;
    if (!channel || (size_t)length > longest || request->count > RPC_VECTORS_MAX) {
        submit_synchronous(batch, request);
        return;
    }
    request->length = (size_t)length;
    if (!file_inode_enter(inode)) {
        request_done(request, FILE_KERNEL);
        return;
    }
    if (request->operation == FILE_WRITE) {
        submit_write(batch, request, channel, &client);
        return;
    }
    request->replays = host_file_read_epoch(&inode->host);
    nfs3_read_begin(&request->call, &client, atomic_load(&inode->fh), (uint64_t)request->offset,
                    request->vectors, request->count, request->length);
    request->call.answered = answered;
    batch_add(batch, channel, &request->call);
}

static void submit_all(struct file_lane *lane, struct file_request *const *requests, unsigned count,
                       bool later)
{
    struct batch batch; /* large: not cleared as a whole */
    batch.lane = lane;
    batch.group_count = batch.held_count = 0;
    own.batch = &batch;
    for (unsigned i = 0; i < count; i++)
        submit(&batch, requests[i]);
    batch_send(&batch, later);
    own.batch = NULL;
    /* A thread that drives several channels would not hear of a further one. */
    if (lane->channel_count > 1 && atomic_load(&lane->waiters) > 0)
        atomic_store(&lane->shared, true);
    if ((atomic_load_explicit(&lane->attended, memory_order_relaxed) ||
         atomic_load_explicit(&lane->shared, memory_order_relaxed)) &&
        atomic_load(&lane->in_flight) > 0)
        lane_attend_now(lane);
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

/* ---- a thread that waits for the end of requests ---- */

/* The next lane in the list from `number` on that has troubled requests, held by `users`. */
static struct file_lane *troubled_lane(unsigned *number)
{
    struct file_lane *found = NULL;
    unsigned at = 0;
    pthread_mutex_lock(&lanes_lock);
    for (struct file_lane *lane = lanes; lane && !found; lane = lane->next_lane, at++) {
        if (at >= *number && atomic_load(&lane->troubled_count) > 0)
            found = lane;
    }
    if (found)
        atomic_fetch_add(&found->users, 1);
    pthread_mutex_unlock(&lanes_lock);
    *number = at;
    return found;
}

static bool something_happened(void *context)
{
    return atomic_load_explicit(&all_events, memory_order_relaxed) != *(uint32_t *)context;
}

bool file_async_help(const struct file_inode *inode)
{
    const struct choice choice = {.writes = inode == NULL, .inode = inode};
    uint32_t events = atomic_load(&all_events);
    if (own.batch)
        batch_send(own.batch, false);
    if (!attend_all())
        return false;
    if (own.channel)
        rpc_drive(own.channel, something_happened, &events, sys_now_ns() + HELP_NS);
    struct file_lane *lane;
    unsigned number = 0;
    while ((lane = troubled_lane(&number))) {
        carry_out_chosen(lane, &choice);
        atomic_fetch_sub(&lane->users, 1);
    }
    if (!something_happened(&events))
        sys_nanosleep_ms(1);
    return true;
}

/* ---- waiting ---- */

struct wait {
    struct file_lane *lane;
    bool (*satisfied)(void *context);
    void *context;
};

static bool wait_over(void *context)
{
    const struct wait *wait = context;
    return atomic_load(&wait->lane->troubled_count) > 0 ||
           atomic_load(&wait->lane->in_flight) == 0 || wait->satisfied(wait->context);
}

/* Until somebody else has settled something, `longest_ns` at most. */
static void lane_sleep(struct file_lane *lane, uint32_t events, uint64_t deadline_ns,
                       uint64_t longest_ns)
{
    uint64_t now = sys_now_ns();
    uint64_t left_ns = deadline_ns == 0                 ? longest_ns
                       : deadline_ns <= now             ? 0
                       : deadline_ns - now < longest_ns ? deadline_ns - now
                                                        : longest_ns;
    struct timespec limit = {(time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000)};
    atomic_fetch_add(&lane->sleepers, 1);
    if (left_ns > 0)
        sys_futex(&lane->events, FUTEX_WAIT_PRIVATE, events, &limit);
    atomic_fetch_sub(&lane->sleepers, 1);
}

static bool lane_wait(struct file_lane *lane, bool (*satisfied)(void *context), void *context,
                      uint64_t deadline_ns)
{
    struct wait wait = {lane, satisfied, context};
    bool looked = false;
    if (!atomic_load(&lane->attended_always) &&
        (lane->channel_count == 1 || !atomic_load(&lane->shared)))
        atomic_store(&lane->attended, false); /* we are here now */
    for (;;) {
        unsigned count = atomic_load(&lane->channel_count);
        uint32_t events = atomic_load(&lane->events);
        carry_out_troubled(lane);
        if (satisfied(context))
            return true;
        if (atomic_load(&lane->in_flight) == 0 || sys_critical.deferred)
            return satisfied(context);
        if (looked && deadline_ns && sys_now_ns() >= deadline_ns)
            return false;
        looked = true;
        if (!atomic_load(&lane->attended) && (count == 1 || !atomic_load(&lane->shared))) {
            /* Another thread may carry out the rest, or submit more: it does not wake this one. */
            if (!rpc_drive_all(lane->channels, count, wait_over, &wait, deadline_ns) &&
                !sys_critical.deferred)
                lane_sleep(lane, events, deadline_ns, ALONE_NS);
        } else {
            if (!atomic_load(&lane->attended))
                lane_attend_now(lane);
            lane_sleep(lane, events, deadline_ns, ATTENDED_NS);
        }
    }
}

bool file_lane_wait(struct file_lane *lane, bool (*satisfied)(void *context), void *context,
                    uint64_t deadline_ns)
{
    atomic_fetch_add(&lane->waiters, 1);
    bool result = lane_wait(lane, satisfied, context, deadline_ns);
    atomic_fetch_sub(&lane->waiters, 1);
    return result;
}

void file_async_fork_child(void)
{
    pthread_mutex_init(&lanes_lock, NULL);
    lanes = NULL;
    memset(attendants, 0, sizeof(attendants));
    attendant_count = 0;
}
