/*
 * Asynchronous I/O: settling. What one reply settles is settled where the reply arrives. Everything
 * else (short replies, JUKEBOX, errors, a restarted server) makes a request "troubled": the
 * synchronous code carries it out from the start, in a thread that may wait.
 */
#include "file/attributes.h"
#include "file/inode.h"
#include "file/table.h"
#include "io/io.h"
#include "async/lane.h"
#include "file/upper.h"
#include "io/told.h"
#include "mount/mounts.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/critical.h"

enum { ENDINGS = 16 };

#define REQUEST_OF(pointer) \
    ((struct async_request *)((char *)(pointer)-offsetof(struct async_request, call)))

/* ---- the end of a request ---- */

/* Ends requests, all of one lane and with one `done`. After this they are the caller's again, and
 * the lane may be gone. */
static void list_done(struct async_request *first, unsigned count)
{
    struct async_lane *lane = first->lane;
    atomic_fetch_add(&lane->users, 1);
    first->done(first);
    atomic_fetch_sub(&lane->in_flight, count);
    async_lane_event(lane);
    atomic_fetch_sub(&lane->users, 1);
}

void async_request_done(struct async_request *request, ssize_t result)
{
    file_put(request->open);
    request->result = file_posix_error(result);
    request->next = NULL;
    list_done(request, 1);
}

static void trouble(struct async_request *request)
{
    struct async_lane *lane = request->lane;
    atomic_fetch_add(&lane->users, 1);
    pthread_mutex_lock(&lane->lock);
    request->next = lane->troubled;
    lane->troubled = request;
    atomic_fetch_add(&lane->troubled_count, 1);
    pthread_mutex_unlock(&lane->lock);
    async_lane_event(lane);
    if (atomic_load(&lane->attended)) /* the attendant may sleep: nothing is under way */
        async_lane_attend_now(lane);
    atomic_fetch_sub(&lane->users, 1);
}

/* Sets the result. False: one reply does not settle the request. */
static bool settle_read(struct async_request *request)
{
    struct nfs_transfer transfer;
    struct ledger_attributes attributes;
    struct file_inode *inode = request->open->inode;
    if (request->call.error == -ENETDOWN ||
        nfs_read_end(&request->call, (uint64_t)request->offset, &transfer) != 0 ||
        (transfer.length < request->length && !transfer.eof))
        return false;
    /* Nobody may wait here for another answer, and no dirty bytes are asked for this way. */
    if (io_answer_judge(inode, &request->stamp, &transfer, (uint64_t)request->offset,
                        request->length, IO_ANSWER_MIXED | IO_ANSWER_CUT) != IO_ANSWER_GOOD)
        return false;
    /* The size that is known is wrong, and old: the server must be asked for it. */
    if (transfer.length != request->call.certain && !file_inode_known(inode, &attributes))
        return false;
    if (request->operation == ASYNC_READ)
        stats_file_read(request->open->stats, transfer.length,
                        request->call.answered_ns - request->call.sent_ns);
    else
        io_told(inode, &request->stamp, request->call.sent_ns, (uint64_t)request->offset,
                &transfer);
    request->result = (ssize_t)transfer.length;
    return true;
}

/* How writes that were answered together end in the ledger. */
struct endings {
    unsigned count;
    struct ledger_ending of[ENDINGS];
};

static void endings_flush(struct endings *endings)
{
    ledger_writes_end(endings->of, endings->count);
    endings->count = 0;
}

static bool settle_write(struct async_request *request, struct endings *endings)
{
    if (endings->count == ENDINGS)
        endings_flush(endings);
    if (durable_write_settle(&request->write, &request->call, &endings->of[endings->count]) != 0)
        return false;
    endings->count++;
    io_write_counted(request->open, (uint64_t)request->offset, request->length, request->write.ns);
    request->result = (ssize_t)request->length;
    return true;
}

static bool settle(struct async_request *request, struct endings *endings)
{
    return request->operation == ASYNC_WRITE ? settle_write(request, endings)
                                             : settle_read(request);
}

/* Ends requests that are settled. Neighbours of one open file are counted together. */
static void settled_done(struct async_request *first)
{
    while (first) {
        struct async_request *request = first, *last = NULL;
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

void async_requests_answered(struct rpc_call *call)
{
    struct async_request *settled = NULL, **end = &settled;
    struct endings endings;
    endings.count = 0;
    stats_together_begin();
    while (call) {
        struct async_request *request = REQUEST_OF(call);
        call = call->next_unsent;
        if (call) /* it was not touched since it was submitted */
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
    stats_together_end();
    settled_done(settled);
}

/* ---- requests that need more than one reply ---- */

static ssize_t write_again(struct async_request *request)
{
    struct ledger_ending ending;
    int result = durable_write_alone(&request->write, &ending);
    return io_write_end(request->open, &request->write, result, &ending);
}

/* A call that the server may know is sent once more as it is. So it is carried out once, and no
 * write waits for an older copy of it. True: that settled the request. */
static bool call_again(struct async_request *request)
{
    struct nfs_client client = mount_client(request->open->inode->mount, request->open->auth);
    struct rpc_call *calls[] = {&request->call};
    struct endings endings = {.count = 0};
    if (!rpc_take_up(&request->call))
        return false;
    nfs_call_wait(&client, calls, 1);
    if (!settle(request, &endings))
        return false;
    endings_flush(&endings);
    request->next = NULL;
    settled_done(request);
    return true;
}

/* This thread is in async_help(), and so perhaps in a call that uses the engine. */
static __thread bool helping;

/* Hands the file to the kernel, and the request with it. The request's result. */
static ssize_t hand_over(const struct async_request *request, const char *reason)
{
    const struct file_open *open = request->open;
    int result = file_upper.demote(open->inode, open->auth, reason);
    return result == -ENONET ? result : FILE_KERNEL;
}

static void carry_out(struct async_request *request)
{
    struct file_open *open = request->open;
    bool ahead = request->operation == ASYNC_READ_AHEAD;
    const char *reason = NULL;
    ssize_t result = -EAGAIN;
    if (request->stranded) {
        async_request_done(request, hand_over(request, request->stranded));
        return;
    }
    if (call_again(request))
        return;
    if (request->operation == ASYNC_WRITE)
        result = write_again(request);
    else if (request->operation == ASYNC_READ)
        result =
            io_read_at(open, request->vectors, request->count, request->length, request->offset);
    file_inode_leave(open->inode);
    if (!ahead && net_server_fails_abroad(open->inode->mount->server->net, result))
        reason = reach_reason(REACH_ABROAD); /* this thread has no connection */
    else if (result == -ESTALE)
        reason = "stale handle";
    if (reason && helping) { /* handing over would wait for this thread's own call */
        request->stranded = reason;
        trouble(request);
        return;
    }
    async_request_done(request, reason ? hand_over(request, reason) : result);
}

/* Which troubled requests a thread carries out: all, writes, or all of one file. */
struct choice {
    bool writes;
    const struct file_inode *inode;
};

static const struct choice everything;

static bool chosen(const struct async_request *request, const struct choice *choice)
{
    return !(helping && request->stranded) &&
           (!choice->writes || request->operation == ASYNC_WRITE) &&
           (!choice->inode || request->open->inode == choice->inode);
}

static void carry_out_chosen(struct async_lane *lane, const struct choice *choice)
{
    while (atomic_load_explicit(&lane->troubled_count, memory_order_acquire) > 0) {
        pthread_mutex_lock(&lane->lock);
        struct async_request **at = &lane->troubled;
        while (*at && !chosen(*at, choice))
            at = &(*at)->next;
        struct async_request *request = *at;
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

void async_lane_carry_out(struct async_lane *lane)
{
    carry_out_chosen(lane, &everything);
}

/* ---- a thread that waits for the end of requests ---- */

void async_lane_finish(struct async_lane *lane)
{
    bool before = sys_critical_set_patient(true);
    while (async_lane_in_flight(lane) > 0)
        async_lane_wait(lane, NULL, NULL, 0);
    sys_critical_set_patient(before);
}

static bool help(const struct choice *choice)
{
    uint32_t events = atomic_load(&async_lane_events);
    async_submit_announced();
    if (!async_lanes_attend(events))
        return false;
    struct async_lane *lane;
    unsigned number = 0;
    while ((lane = async_lane_troubled(&number))) {
        carry_out_chosen(lane, choice);
        atomic_fetch_sub(&lane->users, 1);
    }
    if (atomic_load(&async_lane_events) == events)
        sys_nanosleep_ms(1);
    return true;
}

bool async_help(const struct file_inode *inode)
{
    const struct choice choice = {.writes = inode == NULL, .inode = inode};
    bool nested = helping;
    helping = true;
    bool some = help(&choice);
    helping = nested;
    return some;
}

void async_finish(void)
{
    while (help(&everything))
        ;
}
