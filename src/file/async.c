/*
 * Asynchronous I/O. What one reply settles is settled where the reply arrives; everything else
 * (short replies, JUKEBOX, errors, a restarted server) makes a request "troubled": it is carried
 * out from the start by the synchronous code, in a thread that may wait.
 */
#include "file/ahead.h"
#include "file/getattr.h"
#include "file/io.h"
#include "file/lane.h"
#include "file/upper.h"
#include "net/pool.h"
#include "stats/count.h"
#include "sys/critical.h"

enum { ENDINGS = 16 };

#define REQUEST_OF(pointer) \
    ((struct file_request *)((char *)(pointer)-offsetof(struct file_request, call)))

/* ---- the end of a request ---- */

/* After this the requests, all of one lane and with one `done`, are the caller's again, and the
 * lane may be gone. */
static void list_done(struct file_request *first, unsigned count)
{
    struct file_lane *lane = first->lane;
    atomic_fetch_add(&lane->users, 1);
    first->done(first);
    atomic_fetch_sub(&lane->in_flight, count);
    file_lane_event(lane);
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
    file_lane_event(lane);
    if (atomic_load(&lane->attended)) /* the attendant may sleep: nothing is in flight any more */
        file_lane_attend_now(lane);
    atomic_fetch_sub(&lane->users, 1);
}

/* Sets the result. False: one reply does not settle the request. */
static bool settle_read(struct file_request *request)
{
    struct nfs_transfer transfer;
    struct ledger_attributes attributes;
    struct file_inode *inode = request->open->inode;
    if (request->call.error == -ENETDOWN ||
        nfs_read_end(&request->call, (uint64_t)request->offset, &transfer) != 0 ||
        (transfer.length < request->length && !transfer.eof))
        return false;
    /* Nobody may wait here for another answer; and of what is dirty nothing was asked for. */
    if (file_answer_judge(inode, &request->stamp, &transfer, (uint64_t)request->offset,
                          request->length, FILE_ANSWER_MIXED | FILE_ANSWER_CUT) != FILE_ANSWER_GOOD)
        return false;
    /* What is believed of the size is wrong, and old: the server is to be asked for it. */
    if (transfer.length != request->call.certain && !file_inode_known(inode, &attributes))
        return false;
    if (request->operation == FILE_READ)
        stats_file_read(request->open->stats, transfer.length,
                        request->call.answered_ns - request->call.sent_ns);
    else
        file_ahead_told(inode, &request->stamp, request->call.sent_ns, (uint64_t)request->offset,
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

static bool settle_write(struct file_request *request, struct endings *endings)
{
    if (endings->count == ENDINGS)
        endings_flush(endings);
    if (file_write_settle(&request->write, &request->call, &endings->of[endings->count]) != 0)
        return false;
    endings->count++;
    file_write_counted(request->open, (uint64_t)request->offset, request->length,
                       request->write.ns);
    request->result = (ssize_t)request->length;
    return true;
}

static bool settle(struct file_request *request, struct endings *endings)
{
    return request->operation == FILE_WRITE ? settle_write(request, endings) : settle_read(request);
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
    stats_together_begin();
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
    stats_together_end();
    settled_done(settled);
}

/* ---- requests that need more than one reply ---- */

static ssize_t write_again(struct file_request *request)
{
    struct ledger_ending ending;
    int result = file_write_alone(&request->write, &ending);
    return file_write_end(request->open, &request->write, result, &ending);
}

/* A call that the server may know is sent once more as it is: so it is carried out once, and no
 * write waits for an older copy of it. True: that settled the request. */
static bool call_again(struct file_request *request)
{
    struct nfs_client client = file_mount_client(request->open->inode->mount, request->open->auth);
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

/* This thread is in a call that uses the engine: see file_async_help(). */
static __thread bool helping;

/* The kernel has the file from now on, and the request with it. */
static ssize_t hand_over(const struct file_request *request, const char *reason)
{
    const struct file_open *open = request->open;
    int result = file_upper.demote(open->inode, open->auth, reason);
    return result == -ENONET ? result : FILE_KERNEL;
}

static void carry_out(struct file_request *request)
{
    struct file_open *open = request->open;
    bool ahead = request->operation == FILE_READ_AHEAD;
    const char *reason = NULL;
    ssize_t result = -EAGAIN;
    if (request->stranded) {
        file_request_done(request, hand_over(request, request->stranded));
        return;
    }
    if (call_again(request))
        return;
    if (request->operation == FILE_WRITE)
        result = write_again(request);
    else if (request->operation == FILE_READ)
        result =
            file_read_at(open, request->vectors, request->count, request->length, request->offset);
    file_inode_leave(open->inode);
    if (!ahead && net_server_fails_abroad(open->inode->mount->server->net, result))
        reason = reach_reason(REACH_ABROAD); /* this thread has no connection */
    else if (result == -ESTALE)
        reason = "stale handle";
    if (reason && helping) { /* that would wait for this thread's own call */
        request->stranded = reason;
        trouble(request);
        return;
    }
    file_request_done(request, reason ? hand_over(request, reason) : result);
}

/* Which troubled requests a thread carries out: all, writes, or all of one file. */
struct choice {
    bool writes;
    const struct file_inode *inode;
};

static const struct choice everything;

static bool chosen(const struct file_request *request, const struct choice *choice)
{
    return !(helping && request->stranded) &&
           (!choice->writes || request->operation == FILE_WRITE) &&
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

void file_lane_carry_out(struct file_lane *lane)
{
    carry_out_chosen(lane, &everything);
}

/* ---- a thread that waits for the end of requests ---- */

void file_lane_finish(struct file_lane *lane)
{
    bool before = sys_critical_set_patient(true);
    while (file_lane_in_flight(lane) > 0)
        file_lane_wait(lane, NULL, NULL, 0);
    sys_critical_set_patient(before);
}

static bool help(const struct choice *choice)
{
    uint32_t events = atomic_load(&file_lane_events);
    file_submit_announced();
    if (!file_lanes_attend(events))
        return false;
    struct file_lane *lane;
    unsigned number = 0;
    while ((lane = file_lane_troubled(&number))) {
        carry_out_chosen(lane, choice);
        atomic_fetch_sub(&lane->users, 1);
    }
    if (atomic_load(&file_lane_events) == events)
        sys_nanosleep_ms(1);
    return true;
}

bool file_async_help(const struct file_inode *inode)
{
    const struct choice choice = {.writes = inode == NULL, .inode = inode};
    bool nested = helping;
    helping = true;
    bool some = help(&choice);
    helping = nested;
    return some;
}

void file_async_finish(void)
{
    while (help(&everything))
        ;
}
