/*
 * Calls that may block for ever, with a limit: each runs in a thread of its own.
 */
#include "cmd/check/check.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reach/root.h"

/*
 * One call. Owned by the thread while it runs; by the caller once the thread was joined. A thread
 * that is too late keeps it, so it never writes to memory that the caller has given up.
 */
struct bounded {
    void (*call)(struct bounded *call);
    char text[PATH_MAX];
    int number; /* a family, or flags */
    int result;
    struct sockaddr_storage address;
    socklen_t length;
    struct statx status;
};

static void *bounded_thread(void *argument)
{
    struct bounded *call = argument;
    call->call(call);
    return NULL;
}

/* Returns the finished call for free(3); NULL, with an errno value in *error, otherwise. */
static struct bounded *bounded_run(void (*function)(struct bounded *), const char *text, int number,
                                   int timeout_ms, int *error)
{
    struct bounded *call = calloc(1, sizeof(*call));
    *error = ENOMEM;
    if (call == NULL)
        return NULL;
    call->call = function;
    call->number = number;
    strncpy(call->text, text, sizeof(call->text) - 1);

    pthread_t thread;
    *error = pthread_create(&thread, NULL, bounded_thread, call);
    if (*error != 0) {
        free(call);
        return NULL;
    }
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += timeout_ms / 1000;
    limit.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (limit.tv_nsec >= 1000000000) {
        limit.tv_sec++;
        limit.tv_nsec -= 1000000000;
    }
    *error = pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &limit);
    return *error == 0 ? call : NULL;
}

static void resolve(struct bounded *call)
{
    call->result = conf_path_resolve(call->text, call->number, &call->address, &call->length);
}

int check_resolve(const char *text, int family, int timeout_ms, struct sockaddr_storage *address)
{
    int error;
    socklen_t length;
    if (conf_address_family(text) != AF_UNSPEC) /* nobody is asked */
        return conf_path_resolve(text, family, address, &length);
    struct bounded *call = bounded_run(resolve, text, family, timeout_ms, &error);
    if (call == NULL)
        return error == ETIMEDOUT ? EAI_AGAIN : EAI_MEMORY;
    int result = call->result;
    *address = call->address;
    free(call);
    return result;
}

static void look(struct bounded *call)
{
    call->result = reach_statx_now(NULL, call->text, call->number, &call->status);
}

int check_statx(const void *timeout_ms, const char *path, int flags, struct statx *status)
{
    int error;
    struct bounded *call = bounded_run(look, path, flags, *(const int *)timeout_ms, &error);
    if (call == NULL)
        return -error;
    int result = call->result;
    *status = call->status;
    free(call);
    return result;
}
