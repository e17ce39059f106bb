/* Calls that may block for ever, with a limit: each runs in a thread of its own. */
#include "cmd/check/check.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/print.h"
#include "reach/root.h"

/* One call, and what came of it. */
struct bounded {
    void (*call)(struct bounded *call);
    char text[PATH_MAX];
    int number; /* a family, or flags */
    int result;
    struct conf_addresses found;
    struct statx status;
};

static void *bounded_thread(void *argument)
{
    struct bounded *call = argument;
    call->call(call);
    return NULL;
}

/* 0: the call has ended.
 * ETIMEDOUT: it took too long. The thread keeps the copy that it works on, so it never writes to
 *    memory that the caller has given up.
 * another errno value: the thread could not be started. */
static int run_bounded(struct bounded *call, const char *text, int timeout_ms)
{
    struct bounded *copy = cmd_need(malloc(sizeof(*copy)));
    *copy = *call;
    strncpy(copy->text, text, sizeof(copy->text) - 1);

    pthread_t thread;
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    long rest_ns = limit.tv_nsec + (long)(timeout_ms % 1000) * 1000000;
    limit.tv_sec += timeout_ms / 1000 + rest_ns / 1000000000;
    limit.tv_nsec = rest_ns % 1000000000;
    int error = pthread_create(&thread, NULL, bounded_thread, copy);
    if (error == 0)
        error = pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &limit);
    if (error == ETIMEDOUT)
        return error;
    *call = *copy;
    free(copy);
    return error;
}

static void resolve(struct bounded *call)
{
    call->result = conf_path_resolve(call->text, call->number, call->found.peers,
                                     CONF_ADDRESSES_MAX, &call->found.count);
}

int check_resolve(const char *text, int family, int timeout_ms, struct conf_addresses *found)
{
    struct bounded call = {.call = resolve, .number = family};
    if (conf_address_family(text) != AF_UNSPEC) /* needs no resolver */
        return conf_path_resolve(text, family, found->peers, CONF_ADDRESSES_MAX, &found->count);
    int error = run_bounded(&call, text, timeout_ms);
    *found = call.found;
    return error == 0 ? call.result : error == ETIMEDOUT ? EAI_AGAIN : EAI_MEMORY;
}

static void look(struct bounded *call)
{
    call->result = reach_statx_now(NULL, call->text, call->number, &call->status);
}

int check_statx(const void *timeout_ms, const char *path, int flags, struct statx *status)
{
    struct bounded call = {.call = look, .number = flags};
    int error = run_bounded(&call, path, *(const int *)timeout_ms);
    *status = call.status;
    return error ? -error : call.result;
}
