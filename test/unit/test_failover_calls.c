/* Calls that nobody waits for, and channels that nobody drives. */
#include "path_scene.h"
#include "net/pool.h"

/* ---- calls that nobody waits for ---- */

PATH_TEST(a_call_without_a_waiter_is_given_back)
{
    struct query query = {0};
    struct rpc_call *call = &query.call;
    use_all_paths();
    atomic_store(&servers[1]->silent, true);
    atomic_store(&probed[1], -ETIMEDOUT);
    query_begin(&query, ECHO, 3, 0);
    query.call.answered = note_call_end;
    atomic_store(&call_ended, 0);
    struct net_channel *channel = net_path_channel(&client->paths[1], 0);
    rpc_submit_on(channel, &call, 1);
    assert_true(rpc_drive(channel, call_has_ended, NULL, 0));
    assert_int_equal(call_ended, -ENETDOWN);
    assert_true(query.call.unsettled);
}

static _Atomic unsigned rounds_left;
static struct query busy_query;

/* Keeps a call in flight on path 0. */
static void call_again(struct rpc_call *call)
{
    if (atomic_load(&call_ended) == 0)
        atomic_fetch_add(&rounds_left, 1);
    (void)call;
}

struct busy_drive {
    struct net_channel *busy;
    unsigned seen;
};

static bool ended_or_busy(void *context)
{
    struct busy_drive *drive = context;
    unsigned rounds = atomic_load(&rounds_left);
    return call_has_ended(NULL) || rounds != drive->seen;
}

/* A thread that drives several channels, of which one is always busy and one is silent. */
PATH_TEST(a_silent_channel_among_busy_ones_is_left)
{
    struct query query = {0};
    struct rpc_call *call = &query.call, *busy = &busy_query.call;
    use_all_paths();
    struct net_channel *channels[2] = {net_path_channel(&client->paths[0], 0),
                                       net_path_channel(&client->paths[1], 0)};
    struct busy_drive drive = {.busy = channels[0]};
    atomic_store(&servers[1]->silent, true);
    atomic_store(&probed[1], -ETIMEDOUT);
    atomic_store(&call_ended, 0);
    query_begin(&query, ECHO, 3, 0);
    query.call.answered = note_call_end;
    rpc_submit_on(channels[1], &call, 1);
    uint64_t begin = sys_now_ns();
    while (!call_has_ended(NULL)) {
        drive.seen = atomic_load(&rounds_left);
        query_begin(&busy_query, ECHO, 4, 0);
        busy_query.call.answered = call_again;
        rpc_submit_on(channels[0], &busy, 1);
        rpc_drive_all(channels, 2, ended_or_busy, &drive, 0);
        assert_true(sys_now_ns() - begin < WATCHDOG_S / 2 * SECOND_NS);
    }
    assert_int_equal(call_ended, -ENETDOWN);
    assert_false(usable(1));
    rpc_drive(channels[0], call_has_ended, NULL, 1);
}

static _Atomic bool stop_driving;

static bool told_to_stop(void *context)
{
    (void)context;
    return atomic_load(&stop_driving);
}

static void *drive_two(void *context)
{
    rpc_drive_all(context, 2, told_to_stop, NULL, 0);
    return NULL;
}

static bool is_led(struct net_channel *channel)
{
    struct rpc_transport *transport = rpc_transport_of(channel);
    pthread_mutex_lock(&transport->lock);
    bool led = transport->leading;
    pthread_mutex_unlock(&transport->lock);
    return led;
}

/* Who calls over it then shall not wait until that thread looks again. */
PATH_TEST(a_thread_that_drives_does_not_lead_an_idle_channel)
{
    static struct query open, over;
    struct rpc_call *calls[2] = {&open.call, &over.call};
    pthread_t thread;
    use_all_paths();
    struct net_channel *channels[2] = {net_path_channel(&client->paths[0], 0),
                                       net_path_channel(&client->paths[1], 0)};
    client->options.path_timeout_ms = 60000; /* a slow machine is no dead path */
    atomic_store(&servers[0]->busy, true);
    atomic_store(&call_ended, 0);
    atomic_store(&stop_driving, false);
    query_begin(&open, ECHO, 3, 0);
    query_begin(&over, ECHO, 4, 0);
    for (unsigned i = 0; i < 2; i++) {
        calls[i]->answered = note_call_end;
        rpc_submit_on(channels[i], &calls[i], 1);
    }
    assert_int_equal(pthread_create(&thread, NULL, drive_two, channels), 0);
    eventually(call_has_ended(NULL) && is_led(channels[0]) && !is_led(channels[1]));
    atomic_store(&stop_driving, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    return path_tests_run("test_failover_calls");
}
