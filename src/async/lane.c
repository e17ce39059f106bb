/* Lanes: their channels, their attendants, and waiting. */
#include "async/lane.h"

#include <string.h>

#include "ledger/store/stripes.h"
#include "net/pool.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/large.h"
#include "sys/thread.h"

enum { ATTENDANTS = NET_PATHS_MAX * NET_CONNECTIONS_MAX };

#define ALONE_NS    UINT64_C(1000000)
#define TURN_NS     UINT64_C(10000000)
#define ATTENDED_NS UINT64_C(1000000000)

/* A thread that drives a channel. Made on first need, lives as long as the process. */
struct attendant {
    struct net_channel *channel; /* constant once used */
    _Atomic uint32_t kicks;      /* futex: something was submitted */
};

/* Guards the list of lanes and the attendants. Held briefly. */
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct async_lane *lanes, *spare_lanes;
static SYS_LARGE struct attendant attendants[ATTENDANTS];
static unsigned attendant_count;

_Atomic uint32_t async_lane_events;

/* ---- lanes ---- */

/* Makes it like a new one. */
static void lane_clear(struct async_lane *lane)
{
    pthread_mutex_init(&lane->lock, NULL);
    atomic_store(&lane->channel_count, 0);
    lane->troubled = NULL;
    atomic_store(&lane->troubled_count, 0);
    atomic_store(&lane->in_flight, 0);
    atomic_store(&lane->sleepers, 0);
    atomic_store(&lane->waiters, 0);
    atomic_store(&lane->users, 0);
    atomic_store(&lane->shared, false);
    atomic_store(&lane->attended, ASYNC_NOT_ATTENDED);
}

struct async_lane *async_lane_new(void)
{
    pthread_mutex_lock(&lanes_lock);
    struct async_lane *lane = spare_lanes;
    if (lane)
        spare_lanes = lane->next_lane;
    else
        lane = sys_alloc_zeroed(sizeof(*lane));
    if (lane) {
        lane_clear(lane);
        lane->next_lane = lanes;
        lanes = lane;
    }
    pthread_mutex_unlock(&lanes_lock);
    return lane;
}

void async_lane_free(struct async_lane *lane)
{
    pthread_mutex_lock(&lanes_lock);
    struct async_lane **at = &lanes;
    while (*at && *at != lane)
        at = &(*at)->next_lane;
    bool found = *at != NULL;
    if (found)
        *at = lane->next_lane;
    pthread_mutex_unlock(&lanes_lock);
    if (!found)
        return; /* it was freed before, and may belong to another soon */
    while (atomic_load(&lane->users) > 0)
        sys_call0(SYS_sched_yield);
    pthread_mutex_destroy(&lane->lock);
    pthread_mutex_lock(&lanes_lock);
    lane->next_lane = spare_lanes;
    spare_lanes = lane;
    pthread_mutex_unlock(&lanes_lock);
}

unsigned async_lane_in_flight(const struct async_lane *lane)
{
    return atomic_load(&lane->in_flight);
}

/* One of the lane's channels on this path, with room; NULL: none. */
static struct net_channel *lane_channel_on(const struct async_lane *lane,
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

struct net_channel *async_lane_channel(struct async_lane *lane, struct net_server *server,
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
    if (i == ASYNC_LANE_CHANNELS) {
        channel = NULL;
    } else if (i == count) {
        lane->channels[i] = channel;
        atomic_store(&lane->channel_count, count + 1);
    }
    pthread_mutex_unlock(&lane->lock);
    return channel;
}

/* ---- attendants ---- */

static bool lane_uses(const struct async_lane *lane, const struct net_channel *channel)
{
    bool uses = false;
    unsigned count = atomic_load(&lane->channel_count);
    for (unsigned i = 0; i < count && !uses; i++)
        uses = lane->channels[i] == channel;
    return uses;
}

/* A lane of this channel with troubled requests for the attendants to carry out: not while its own
 * thread waits. NULL: none. Under lanes_lock. */
static struct async_lane *find_troubled(const struct net_channel *channel)
{
    struct async_lane *lane = lanes;
    while (lane && !(atomic_load(&lane->troubled_count) > 0 &&
                     (atomic_load(&lane->attended) || atomic_load(&lane->waiters) == 0) &&
                     lane_uses(lane, channel)))
        lane = lane->next_lane;
    return lane;
}

/* Carries out the troubled requests of lanes that use this channel. */
static void attend_troubled(const struct net_channel *channel)
{
    for (;;) {
        pthread_mutex_lock(&lanes_lock);
        struct async_lane *found = find_troubled(channel);
        if (found)
            atomic_fetch_add(&found->users, 1);
        pthread_mutex_unlock(&lanes_lock);
        if (!found)
            return;
        async_lane_carry_out(found);
        atomic_fetch_sub(&found->users, 1);
    }
}

static bool some_troubled(void *channel)
{
    pthread_mutex_lock(&lanes_lock);
    bool some = find_troubled(channel) != NULL;
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

/* Makes sure that a thread drives the channel, and that it looks now. False: none can be started.
 * Under lanes_lock. */
static bool channel_attend(struct net_channel *channel)
{
    unsigned i = 0;
    while (i < attendant_count && attendants[i].channel != channel)
        i++;
    if (i == attendant_count) {
        if (i == ATTENDANTS)
            return false;
        attendants[i].channel = channel;
        if (sys_critical_in_handler() ||
            !sys_thread_start(attend, &attendants[i], "asynchronous I/O"))
            return false;
        attendant_count++;
    }
    atomic_fetch_add(&attendants[i].kicks, 1);
    sys_futex(&attendants[i].kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
    return true;
}

static bool help_in_ledger(void)
{
    return async_help(NULL);
}

static void lane_becomes(struct async_lane *lane, int from, int to)
{
    atomic_compare_exchange_strong(&lane->attended, &from, to);
}

/* Has attendants drive all channels of the lane. False: some channel has none. Under lanes_lock. */
static bool lane_attend(struct async_lane *lane)
{
    bool all = true;
    lane_becomes(lane, ASYNC_NOT_ATTENDED, ASYNC_ATTENDED_NOW);
    unsigned count = atomic_load(&lane->channel_count);
    for (unsigned i = 0; i < count; i++)
        all = channel_attend(lane->channels[i]) && all;
    if (all) {
        lane_becomes(lane, ASYNC_DESERTED, ASYNC_ATTENDED_ALWAYS);
    } else {
        lane_becomes(lane, ASYNC_ATTENDED_NOW, ASYNC_NOT_ATTENDED);
        lane_becomes(lane, ASYNC_ATTENDED_ALWAYS, ASYNC_DESERTED);
        ledger_wait_help = help_in_ledger;
    }
    return all;
}

bool async_lane_attend_now(struct async_lane *lane)
{
    pthread_mutex_lock(&lanes_lock);
    bool all = lane_attend(lane);
    pthread_mutex_unlock(&lanes_lock);
    return all;
}

void async_lane_attend(struct async_lane *lane)
{
    atomic_store(&lane->attended, ASYNC_ATTENDED_ALWAYS);
    if (!async_lane_attend_now(lane))
        async_lane_finish(lane);
}

bool async_lane_is_attended(const struct async_lane *lane)
{
    int attended = atomic_load(&lane->attended);
    return attended == ASYNC_ATTENDED_ALWAYS || attended == ASYNC_DESERTED;
}

void async_lane_attend_busy(struct async_lane *lane)
{
    if (async_lane_in_flight(lane) > 0 && !async_lane_is_attended(lane))
        async_lane_attend(lane);
}

/* Channels that nobody else may be driving. */
struct alone {
    struct net_channel *channels[RPC_DRIVE_MAX];
    unsigned count;
};

static void alone_add(struct alone *alone, struct net_channel *const *channels, unsigned count)
{
    for (unsigned i = 0; i < count && alone->count < RPC_DRIVE_MAX; i++) {
        unsigned j = 0;
        while (j < alone->count && alone->channels[j] != channels[i])
            j++;
        if (j == alone->count && atomic_load(&channels[i]->outstanding) > 0)
            alone->channels[alone->count++] = channels[i];
    }
}

static bool something_happened(void *events)
{
    return atomic_load_explicit(&async_lane_events, memory_order_relaxed) != *(uint32_t *)events;
}

bool async_lanes_attend(uint32_t events)
{
    bool some = false;
    struct alone alone;
    alone.count = 0;
    pthread_mutex_lock(&lanes_lock);
    for (struct async_lane *lane = lanes; lane; lane = lane->next_lane) {
        if (atomic_load(&lane->in_flight) == 0)
            continue;
        some = true;
        if (!lane_attend(lane))
            alone_add(&alone, lane->channels, atomic_load(&lane->channel_count));
    }
    pthread_mutex_unlock(&lanes_lock);
    alone_add(&alone, rpc_attended.channels, rpc_attended.count);
    bool before = sys_critical_set_patient(true);
    if (some && alone.count > 0)
        rpc_drive_all(alone.channels, alone.count, something_happened, &events,
                      sys_now_ns() + TURN_NS);
    sys_critical_set_patient(before);
    return some;
}

void async_attend_all(void)
{
    (void)async_lanes_attend(atomic_load(&async_lane_events));
}

struct async_lane *async_lane_troubled(unsigned *number)
{
    struct async_lane *found = NULL;
    unsigned at = 0;
    pthread_mutex_lock(&lanes_lock);
    for (struct async_lane *lane = lanes; lane && !found; lane = lane->next_lane, at++) {
        if (at >= *number && atomic_load(&lane->troubled_count) > 0)
            found = lane;
    }
    if (found)
        atomic_fetch_add(&found->users, 1);
    pthread_mutex_unlock(&lanes_lock);
    *number = at;
    return found;
}

/* ---- waiting ---- */

struct wait {
    struct async_lane *lane;
    bool (*satisfied)(void *context);
    void *context;
};

static bool satisfied(const struct wait *wait)
{
    return wait->satisfied && wait->satisfied(wait->context);
}

static bool wait_over(void *context)
{
    const struct wait *wait = context;
    return atomic_load(&wait->lane->troubled_count) > 0 ||
           atomic_load(&wait->lane->in_flight) == 0 || satisfied(wait);
}

/* Sleeps until another thread has ended something, `longest_ns` at most. */
static void lane_sleep(struct async_lane *lane, uint32_t events, uint64_t deadline_ns,
                       uint64_t longest_ns)
{
    struct timespec left;
    sys_time_left(deadline_ns, longest_ns, &left);
    atomic_fetch_add(&lane->sleepers, 1);
    if (left.tv_sec > 0 || left.tv_nsec > 0)
        sys_futex(&lane->events, FUTEX_WAIT_PRIVATE, events, &left);
    atomic_fetch_sub(&lane->sleepers, 1);
}

/* A thread that drives several channels would not hear of a further one. */
static bool one_may_drive(struct async_lane *lane)
{
    return atomic_load(&lane->channel_count) <= 1 || !atomic_load(&lane->shared);
}

/* Drives the lane's channels. Another thread may carry out the rest, or submit more, without waking
 * this one: so it does not sleep for long. */
static void lane_drive(const struct wait *wait, unsigned count, uint32_t events,
                       uint64_t deadline_ns)
{
    if (!rpc_drive_all(wait->lane->channels, count, wait_over, (void *)wait, deadline_ns) &&
        !sys_critical_interrupts())
        lane_sleep(wait->lane, events, deadline_ns, ALONE_NS);
}

static bool lane_wait(const struct wait *wait, uint64_t deadline_ns)
{
    struct async_lane *lane = wait->lane;
    bool looked = false;
    if (one_may_drive(lane)) /* this thread drives now */
        lane_becomes(lane, ASYNC_ATTENDED_NOW, ASYNC_NOT_ATTENDED);
    for (;;) {
        unsigned count = atomic_load(&lane->channel_count);
        uint32_t events = atomic_load(&lane->events);
        bool attended = atomic_load(&lane->attended) >= ASYNC_ATTENDED_NOW;
        rpc_attended = (struct rpc_attended){lane->channels, attended ? 0 : count};
        async_lane_carry_out(lane);
        rpc_attended.count = 0;
        if (satisfied(wait))
            return true;
        if (atomic_load(&lane->in_flight) == 0 || sys_critical_interrupts())
            return satisfied(wait);
        if (looked && sys_deadline_passed(deadline_ns))
            return false;
        looked = true;
        if (!atomic_load(&lane->attended) && one_may_drive(lane)) {
            lane_drive(wait, count, events, deadline_ns);
        } else if (atomic_load(&lane->attended) >= ASYNC_ATTENDED_NOW ||
                   async_lane_attend_now(lane)) {
            lane_sleep(lane, events, deadline_ns, ATTENDED_NS);
        } else { /* not for long: a thread that drives does not hear of a further channel */
            uint64_t turn_ns = sys_now_ns() + TURN_NS;
            lane_drive(wait, count, events,
                       deadline_ns && deadline_ns < turn_ns ? deadline_ns : turn_ns);
        }
    }
}

bool async_lane_wait(struct async_lane *lane, bool (*satisfied)(void *context), void *context,
                     uint64_t deadline_ns)
{
    const struct wait wait = {lane, satisfied, context};
    atomic_fetch_add(&lane->waiters, 1);
    bool result = lane_wait(&wait, deadline_ns);
    atomic_fetch_sub(&lane->waiters, 1);
    return result;
}

void async_fork_child(void)
{
    pthread_mutex_init(&lanes_lock, NULL);
    for (struct async_lane *lane = lanes; lane; lane = lane->next_lane)
        lane_clear(lane);
    /* One more, as another thread may have been starting it. The rest was never used. */
    unsigned used = attendant_count < ATTENDANTS ? attendant_count + 1 : ATTENDANTS;
    memset(attendants, 0, used * sizeof(attendants[0]));
    attendant_count = 0;
}
