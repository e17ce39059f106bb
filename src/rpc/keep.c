/*
 * Calls that are kept in the queue for a moment, so that several leave in one system call. A thread
 * that submits more, or waits, sends them. If none does, the keeper does. That is a thread of ours,
 * which looks every millisecond. It is started when first needed, and sleeps after a while without
 * kept calls.
 */
#include <linux/futex.h>
#include <string.h>

#include "rpc/transport.h"
#include "sys/critical.h"
#include "sys/sys.h"
#include "sys/thread.h"

enum { KEPT_MAX = 16, KEPT_BYTES_MAX = 1 << 17, KEPT_SHARE_MAX = 4, IDLE_MS = 20 };

static struct {
    pthread_mutex_t lock; /* guards the list, `started` and `walking`; held briefly */
    struct rpc_transport *first;
    bool started, walking;
    _Atomic bool awake;
    _Atomic uint32_t kicks; /* futex */
} keeper = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool rpc_can_keep(const struct rpc_transport *transport)
{
    return transport->kept < KEPT_SHARE_MAX * transport->in_flight && transport->kept < KEPT_MAX &&
           transport->kept_bytes < KEPT_BYTES_MAX && transport->connected && !transport->leading &&
           !transport->sending;
}

/* Flushes every channel in the list. False: there was none. */
static bool walk(void)
{
    pthread_mutex_lock(&keeper.lock);
    struct rpc_transport *transport = keeper.first;
    keeper.first = NULL;
    keeper.walking = true;
    pthread_mutex_unlock(&keeper.lock);
    bool some = transport != NULL;
    while (transport) {
        struct rpc_transport *next = transport->next_keeping;
        atomic_store(&transport->keeping, false); /* first: what is kept from now on is told */
        rpc_submit_on(transport->channel, NULL, 0);
        transport = next;
    }
    pthread_mutex_lock(&keeper.lock);
    keeper.walking = false;
    pthread_mutex_unlock(&keeper.lock);
    return some;
}

static void *keep(void *argument)
{
    (void)argument;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    for (unsigned idle_ms = 0;;) {
        uint32_t kicks = atomic_load(&keeper.kicks);
        sys_nanosleep_ms(1);
        idle_ms = walk() ? 0 : idle_ms + 1;
        if (idle_ms < IDLE_MS)
            continue;
        atomic_store(&keeper.awake, false);
        if (!walk()) /* in this order: see rpc_keep() */
            sys_futex(&keeper.kicks, FUTEX_WAIT_PRIVATE, kicks, NULL);
        atomic_store(&keeper.awake, true);
        idle_ms = 0;
    }
    return NULL;
}

void rpc_keep(struct rpc_transport *transport)
{
    if (atomic_load(&transport->keeping))
        return;
    pthread_mutex_lock(&keeper.lock);
    if (!keeper.started)
        keeper.started = sys_thread_start(keep, NULL, "asynchronous I/O");
    bool started = keeper.started;
    if (started && !atomic_exchange(&transport->keeping, true)) {
        transport->next_keeping = keeper.first;
        keeper.first = transport;
    }
    pthread_mutex_unlock(&keeper.lock);
    if (!started) {
        rpc_submit_on(transport->channel, NULL, 0);
    } else if (!atomic_exchange(&keeper.awake, true)) {
        atomic_fetch_add(&keeper.kicks, 1);
        sys_futex(&keeper.kicks, FUTEX_WAKE_PRIVATE, 1, NULL);
    }
}

void rpc_keep_forget(struct rpc_transport *transport)
{
    pthread_mutex_lock(&keeper.lock);
    while (keeper.walking) {
        pthread_mutex_unlock(&keeper.lock);
        sys_nanosleep_ms(1);
        pthread_mutex_lock(&keeper.lock);
    }
    struct rpc_transport **at = &keeper.first;
    while (*at && *at != transport)
        at = &(*at)->next_keeping;
    if (*at)
        *at = transport->next_keeping;
    pthread_mutex_unlock(&keeper.lock);
}

void rpc_keep_after_fork(void)
{
    memset(&keeper, 0, sizeof(keeper));
    pthread_mutex_init(&keeper.lock, NULL);
}
