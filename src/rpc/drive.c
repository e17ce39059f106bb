/* Channels that a thread drives, beside the one that it waits on or without one. */
#include "rpc/transport.h"
#include "sys/critical.h"
#include "sys/sys.h"

enum {
    POLL_MS = 50, /* how often a thread that polls looks for what nobody tells it */
    IDLE_MS = 10  /* how often a thread looks whether there is something to drive again */
};

/* What a thread knows of the channels that it drives. */
struct drive {
    bool leads[RPC_DRIVE_MAX];
    struct pollfd polls[RPC_DRIVE_MAX]; /* fd -1: it does not lead the channel, or has no socket */
    bool idle;                          /* nothing is in flight on any channel */
    bool polled;                        /* there is a channel to poll */
    bool more[RPC_DRIVE_MAX]; /* set with TLS only: it has something of which poll() knows nothing;
                                 any has: */
    bool starved;
    bool helpless;  /* this thread is of no use on one of them */
    bool elsewhere; /* another thread leads some of them, or has what they wait for */
};

/* With TLS: is there more, or must something be sent that counts as sent? */
static void drive_secure(struct drive *drive, struct rpc_transport *transport, unsigned i)
{
    if (rpc_owes(transport))
        rpc_send_unsent(transport, true);
    if (!transport->connected) {
        drive->polls[i].fd = -1;
        return;
    }
    bool sends = (drive->polls[i].events & POLLOUT) || rpc_owes(transport);
    drive->polls[i].events =
        (short)(POLLIN | (sends ? net_tls_send_event(transport->channel->tls) : 0));
    drive->more[i] = rpc_has_more(transport);
    drive->starved = drive->starved || drive->more[i];
}

/* Leads a channel that has something in flight and no other leader: sends, and connects. */
static void drive_prepare(struct drive *drive, struct net_channel *channel, unsigned i)
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    pthread_mutex_lock(&transport->lock);
    bool busy = atomic_load(&channel->outstanding) > 0;
    bool ours = drive->leads[i] || !transport->leading;
    if (!busy && drive->leads[i]) /* a thread with calls there must not wait for us to look */
        rpc_pass_lead(transport);
    drive->idle = drive->idle && !busy;
    drive->elsewhere = drive->elsewhere || (busy && !ours);
    drive->leads[i] = busy && ours;
    drive->polls[i] = (struct pollfd){.fd = -1};
    if (drive->leads[i]) {
        transport->leading = true;
        if (!transport->connected)
            rpc_lead_once(transport, NULL, RPC_CONNECT_LEAST_MS);
        else if (transport->unsent)
            rpc_send_unsent(transport, true);
        rpc_secure_help(transport, &drive->leads[i]);
        drive->elsewhere = drive->elsewhere || !drive->leads[i];
        drive->helpless = drive->helpless || rpc_is_helpless(transport);
        if (transport->connected && drive->leads[i]) {
            drive->polls[i].fd = channel->fd;
            drive->polls[i].events = rpc_may_send(transport) ? POLLIN | POLLOUT : POLLIN;
            if (__builtin_expect(channel->tls != NULL, false))
                drive_secure(drive, transport, i);
            drive->polled = true;
            drive->elsewhere = drive->elsewhere || (transport->short_of_slots && transport->unsent);
        }
        rpc_call_finished(transport);
        rpc_drive_others(transport);
    }
    pthread_mutex_unlock(&transport->lock);
}

static void drive_channel(struct net_channel *channel, void (*step)(struct rpc_transport *))
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    pthread_mutex_lock(&transport->lock);
    step(transport);
    pthread_mutex_unlock(&transport->lock);
}

/* One step for a channel that has calls in flight and no leader. */
static void lead_orphan(struct rpc_transport *transport)
{
    if (transport->leading || atomic_load(&transport->channel->outstanding) == 0)
        return;
    rpc_lead_once(transport, NULL, 0);
    rpc_pass_lead(transport);
}

/* Only this thread sends its adrift calls again, and they may have all slots. */
static void submit_own_adrift(void)
{
    for (const struct rpc_owned *own = rpc_owned; own; own = own->outer) {
        for (unsigned i = 0; i < own->count; i++) {
            if (atomic_load_explicit(&own->calls[i]->state, memory_order_acquire) == RPC_ADRIFT)
                rpc_submit_adrift(own->calls[i], false);
        }
    }
}

void rpc_drive_others(struct rpc_transport *transport)
{
    struct net_server *server = transport->channel->server;
    if (__builtin_expect(!transport->short_of_slots || !transport->unsent, true))
        return;
    pthread_mutex_unlock(&transport->lock);
    submit_own_adrift();
    for (unsigned i = 0; i < atomic_load(&server->channel_count); i++) {
        if (server->channels[i] != transport->channel)
            drive_channel(server->channels[i], lead_orphan);
    }
    pthread_mutex_lock(&transport->lock);
}

/* Takes what has arrived. */
static void lead_now(struct rpc_transport *transport)
{
    rpc_lead_once(transport, NULL, 0);
}

bool rpc_drive_all(struct net_channel *const *channels, unsigned count,
                   bool (*satisfied)(void *context), void *context, uint64_t deadline_ns)
{
    if (count == 1)
        return rpc_drive(channels[0], satisfied, context, deadline_ns);
    struct drive drive = {.leads = {false}};
    bool looked = false, done;
    while (!(done = satisfied(context)) && !sys_critical_interrupts()) {
        int timeout_ms = rpc_time_left_ms(deadline_ns);
        if (timeout_ms == 0 && looked)
            break;
        looked = true;
        drive.idle = true;
        drive.polled = drive.elsewhere = drive.starved = drive.helpless = false;
        for (unsigned i = 0; i < count; i++)
            drive_prepare(&drive, channels[i], i);
        if (drive.idle || drive.helpless)
            break;
        /* Nobody wakes a thread that polls: it must look for what other leaders do. */
        int longest_ms = drive.starved ? 0 : drive.elsewhere || !drive.polled ? 1 : POLL_MS;
        sys_poll(drive.polls, count, timeout_ms < longest_ms ? timeout_ms : longest_ms);
        for (unsigned i = 0; i < count; i++) {
            if (drive.polls[i].fd >= 0 &&
                (drive.polls[i].revents || drive.more[i] ||
                 rpc_look_is_due(rpc_transport_of(channels[i]), sys_now_ns())))
                drive_channel(channels[i], lead_now);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (drive.leads[i])
            drive_channel(channels[i], rpc_pass_lead);
    }
    return done;
}

static bool never(void *unused)
{
    (void)unused;
    return false;
}

void rpc_pause(int milliseconds)
{
    uint64_t until = sys_now_ns() + (uint64_t)milliseconds * 1000000;
    int left_ms;
    bool before = sys_critical_set_patient(true);
    while ((left_ms = rpc_time_left_ms(until)) > 0) {
        if (rpc_attended.count > 0) {
            rpc_drive_all(rpc_attended.channels, rpc_attended.count, never, NULL, until);
            left_ms = left_ms < IDLE_MS ? left_ms : IDLE_MS;
        }
        sys_nanosleep_ms(left_ms);
    }
    sys_critical_set_patient(before);
}
