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

enum { ENDINGS = 16, ATTENDANTS = NET_PATHS_MAX * NET_CONNECTIONS_MAX };

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

void file_request_done(struct file_request *request, ssize_t result)
{
    file_put(request->open);
    request->result = file_posix_error(result);
    request->next = NULL;
    list_done(request, 1);
}

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
        file_lane_attend_now(lane);
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
    bool answered = request->call.error != -ENETDOWN;
    int result = answered ? nfs3_write_end(&request->call, request->stable, &transfer) : -ENETDOWN;
    /* Also for trouble(): what is sent again then may be carried out twice. */
    request->write.unsettled = request->call.unsettled;
    request->write.doubtful =
        file_write_is_doubtful(request->stable, result, answered && transfer.repeated);
    if (result != 0 || transfer.length < request->length)
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
void file_requests_answered(struct rpc_call *call)
{
    struct file_request *settled = NULL, **end = &settled;
    struct endings endings;
    endings.count = 0;
    host_stats_together_begin();
    while (call) {
        struct file_request *request = REQUEST_OF(call);
        call = call->next_unsent;
        if (call) /* not touched since it was submitted */
            __builtin_prefetch(REQUEST_OF(call));
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

/* This thread is in a call that uses the engine: see file_async_help(). */
static __thread bool helping;

static void carry_out(struct file_request *request)
{
    struct file_open *open = request->open;
    ssize_t result = request->operation == FILE_WRITE
                         ? write_again(request)
                         : file_read_at(open, request->vectors, request->count, request->length,
                                        request->offset);
    file_inode_leave(open->inode);
    if (result == -ESTALE) {
        if (!helping) /* that would wait for this thread's own call, which finds out by itself */
            file_inode_demote(open->inode, open->auth, "stale handle");
        result = FILE_KERNEL;
    }
    file_request_done(request, result);
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

struct net_channel *file_lane_channel(struct file_lane *lane, struct net_server *server,
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
    rpc_attended = (struct rpc_attended){&self->channel, 1};
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

void file_lane_attend_now(struct file_lane *lane)
{
    pthread_mutex_lock(&lanes_lock);
    lane_attend(lane);
    pthread_mutex_unlock(&lanes_lock);
}

void file_lane_attend(struct file_lane *lane)
{
    atomic_store(&lane->attended_always, true);
    file_lane_attend_now(lane);
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
    file_submit_announced();
    if (!attend_all())
        return false;
    if (rpc_attended.count > 0)
        rpc_drive_all(rpc_attended.channels, rpc_attended.count, something_happened, &events,
                      sys_now_ns() + HELP_NS);
    struct file_lane *lane;
    unsigned number = 0;
    bool nested = helping;
    helping = true;
    while ((lane = troubled_lane(&number))) {
        carry_out_chosen(lane, &choice);
        atomic_fetch_sub(&lane->users, 1);
    }
    helping = nested;
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
        rpc_attended =
            (struct rpc_attended){lane->channels, atomic_load(&lane->attended) ? 0 : count};
        carry_out_troubled(lane);
        rpc_attended.count = 0;
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
                file_lane_attend_now(lane);
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
