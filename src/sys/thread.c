#include "sys/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/proc.h"
#include "sys/sys.h"

enum { STACK_BYTES = 512 * 1024, WATCH_MS = 20, STARTING_MS = 1000 };

/* The pause after a failure, since callers ask again with each call of the application. */
#define RETRY_NS UINT64_C(30000000000)

/* Threads of ours. Each counts itself when it runs, so there are never fewer than counted. Until
 * then it counts as starting. */
static _Atomic unsigned ours, starting;
static _Atomic bool used, first_ended, watched; /* `used`: there was a thread of ours */

static _Atomic bool forbidden;

static _Atomic uint64_t retry_ns; /* no thread is started before this time; 0: none is set */

struct beginning {
    void *(*function)(void *argument);
    void *argument;
};

static void *run(void *allocated)
{
    /* Not by free(): that would make an arena for this thread, which needs none. */
    struct beginning beginning = *(struct beginning *)allocated;
    sys_free(allocated);
    atomic_fetch_add(&ours, 1);
    atomic_fetch_sub(&starting, 1);
    beginning.function(beginning.argument);
    atomic_fetch_sub(&ours, 1);
    return NULL;
}

static bool start(void *(*function)(void *argument), void *argument, const char *purpose)
{
    struct beginning *beginning = sys_alloc(sizeof(*beginning));
    pthread_attr_t attributes;
    pthread_t thread;
    /* All signals but 32 and 33: with those the C library makes all threads change user and group
     * together, and setuid() waits for each thread. */
    unsigned long all = ~(3UL << 31), before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sys_sigprocmask(SIG_SETMASK, &all, &before); /* the application's signals are not for it */
    int error = ENOMEM;
    if (beginning) {
        *beginning = (struct beginning){function, argument};
        atomic_fetch_add(&starting, 1);
        error = pthread_create(&thread, &attributes, run, beginning);
    }
    sys_sigprocmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        if (beginning)
            atomic_fetch_sub(&starting, 1);
        sys_free(beginning);
        atomic_store(&retry_ns, sys_now_ns() + RETRY_NS);
        log_error("no thread for %s could be started: %s", purpose, strerrordesc_np(error));
    }
    return error == 0;
}

bool sys_thread_alone(void)
{
    struct stat status; /* a directory has two links; self/task has one more for each thread */
    for (int ms = 0; atomic_load(&starting) > 0 && ms < STARTING_MS; ms++)
        sys_nanosleep_ms(1); /* a new thread may be there and not be counted yet */
    return sys_proc_stat("self/task", &status) == 0 &&
           status.st_nlink <= 2 + 1 + atomic_load(&ours);
}

static void *watch(void *unused)
{
    while (!sys_thread_alone())
        sys_nanosleep_ms(WATCH_MS);
    exit(0);
    return unused;
}

static void watch_if_needed(void)
{
    if (atomic_load(&first_ended) && atomic_load(&used) && !atomic_exchange(&watched, true))
        start(watch, NULL, "the end of the process");
}

bool sys_thread_start(void *(*function)(void *argument), void *argument, const char *purpose)
{
    uint64_t retry = atomic_load(&retry_ns);
    if (atomic_load_explicit(&forbidden, memory_order_relaxed))
        return false;
    /* A thread begins in the network namespace of the thread that starts it. */
    bool started = (retry == 0 || sys_now_ns() >= retry) && sys_network_is_home() &&
                   start(function, argument, purpose);
    atomic_store(&used, true);
    watch_if_needed();
    return started;
}

void sys_thread_forbid(void)
{
    atomic_store(&forbidden, true);
}

void sys_thread_first_ends(void)
{
    atomic_store(&first_ended, true);
    watch_if_needed();
}

void sys_thread_fork_child(void)
{
    atomic_store(&ours, 0);
    atomic_store(&starting, 0);
    atomic_store(&used, false);
    atomic_store(&first_ended, false);
    atomic_store(&watched, false);
    atomic_store(&retry_ns, 0);
}
