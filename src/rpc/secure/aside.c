/*
 * What is done with a context, also in a handler. The thread may have interrupted malloc() there.
 * So another thread works, with a copy of all that it needs: it may not be done in time, as it
 * waits for malloc() itself.
 */
#include <errno.h>
#include <string.h>

#include "rpc/secure/gss.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/foreign.h"

enum { LONGEST_MS = 1000 };

#define HOPELESS_NS UINT64_C(1000000000)

enum what { MIC, VERIFY, WRAP_ROOM, WRAP, UNWRAP };

struct job {
    _Atomic unsigned users; /* of two threads: the last one frees it */
    enum what what;
    void *context;
    size_t length; /* of bytes[], which come first, */
    size_t more;   /* and of what follows them: a MIC, or room for one */
    size_t before, after;
    uint8_t *message; /* UNWRAP: in bytes[] */
    int result;
    uint8_t bytes[];
};

static void put(struct job *job)
{
    if (atomic_fetch_sub(&job->users, 1) == 1)
        sys_free(job);
}

static void work(void *argument)
{
    struct job *job = argument;
    switch (job->what) {
    case MIC:
        job->result = rpc_gss_now_mic(job->context, job->bytes, job->length,
                                      job->bytes + job->length, &job->more);
        break;
    case VERIFY:
        job->result = rpc_gss_now_verify(job->context, job->bytes, job->length,
                                         job->bytes + job->length, job->more)
                          ? 0
                          : -EIO;
        break;
    case WRAP_ROOM:
        job->result = rpc_gss_now_wrap_room(job->context, job->before, &job->before, &job->after);
        break;
    case WRAP:
        job->result = rpc_gss_now_wrap(job->context, job->bytes, job->before,
                                       job->length - job->before - job->after, job->after);
        break;
    case UNWRAP:
        job->result =
            rpc_gss_now_unwrap(job->context, job->bytes, job->length, &job->message, &job->more)
                ? 0
                : -EIO;
        break;
    }
    put(job);
}

static struct job *job_new(enum what what, void *context, const void *bytes, size_t length,
                           size_t more)
{
    struct job *job = sys_alloc_zeroed(sizeof(*job) + length + more);
    if (!job)
        return NULL;
    atomic_store(&job->users, 2);
    job->what = what;
    job->context = context;
    job->length = length;
    job->more = more;
    memcpy(job->bytes, bytes, length);
    return job;
}

/* The handler in which work was not done, and until when that counts: another one may have its
 * frame. */
static __thread const char *hopeless;
static __thread uint64_t hopeless_until_ns;

bool rpc_gss_can(void)
{
    return !sys_critical_in_handler() || sys_critical.handler != hopeless ||
           sys_now_ns() >= hopeless_until_ns;
}

void rpc_gss_give_up(void)
{
    hopeless = sys_critical.handler;
    hopeless_until_ns = sys_now_ns() + HOPELESS_NS;
}

/* 0: it is done; see its `result`. Else the caller must not look at the job. */
static int run(struct job *job)
{
    int result = rpc_gss_can() ? sys_foreign_aside(work, job, LONGEST_MS) : -EAGAIN;
    if (result != 0)
        rpc_gss_give_up();
    if (result == -EINPROGRESS)
        atomic_store(&rpc_gss_leaks, true);
    if (result == -EAGAIN)
        put(job); /* nobody else will */
    return result == 0 ? 0 : -ETIMEDOUT;
}

int rpc_gss_mic(void *context, const void *message, size_t length, uint8_t *mic, size_t *mic_length)
{
    if (__builtin_expect(!sys_critical_in_handler(), true))
        return rpc_gss_now_mic(context, message, length, mic, mic_length);
    struct job *job = job_new(MIC, context, message, length, RPC_GSS_MIC_MAX);
    int result = job ? run(job) : -ENOMEM;
    if (result == 0 && (result = job->result) == 0) {
        memcpy(mic, job->bytes + length, job->more);
        *mic_length = job->more;
    }
    if (job)
        put(job);
    return result;
}

int rpc_gss_verify(void *context, const void *message, size_t length, const void *mic,
                   size_t mic_length)
{
    if (__builtin_expect(!sys_critical_in_handler(), true))
        return rpc_gss_now_verify(context, message, length, mic, mic_length) ? 0 : -EBADMSG;
    struct job *job = job_new(VERIFY, context, message, length, mic_length);
    if (!job)
        return -ETIMEDOUT;
    memcpy(job->bytes + length, mic, mic_length);
    int result = run(job);
    if (result == 0 && job->result != 0)
        result = -EBADMSG;
    put(job);
    return result;
}

int rpc_gss_wrap_room(void *context, size_t length, size_t *before, size_t *after)
{
    if (__builtin_expect(!sys_critical_in_handler(), true))
        return rpc_gss_now_wrap_room(context, length, before, after);
    struct job *job = job_new(WRAP_ROOM, context, "", 0, 0);
    if (!job)
        return -ENOMEM;
    job->before = length;
    int result = run(job);
    if (result == 0 && (result = job->result) == 0) {
        *before = job->before;
        *after = job->after;
    }
    put(job);
    return result;
}

int rpc_gss_wrap(void *context, uint8_t *token, size_t before, size_t length, size_t after)
{
    if (__builtin_expect(!sys_critical_in_handler(), true))
        return rpc_gss_now_wrap(context, token, before, length, after);
    struct job *job = job_new(WRAP, context, token, before + length + after, 0);
    if (!job)
        return -ENOMEM;
    job->before = before;
    job->after = after;
    int result = run(job);
    if (result == 0 && (result = job->result) == 0)
        memcpy(token, job->bytes, before + length + after);
    put(job);
    return result;
}

int rpc_gss_unwrap(void *context, void *token, size_t token_length, uint8_t **message,
                   size_t *length)
{
    if (__builtin_expect(!sys_critical_in_handler(), true))
        return rpc_gss_now_unwrap(context, token, token_length, message, length) ? 0 : -EBADMSG;
    struct job *job = job_new(UNWRAP, context, token, token_length, 0);
    if (!job)
        return -ETIMEDOUT;
    int result = run(job);
    if (result == 0 && job->result != 0)
        result = -EBADMSG;
    if (result == 0) {
        *message = (uint8_t *)token + (job->message - job->bytes);
        *length = job->more;
        memcpy(*message, job->message, job->more);
    }
    put(job);
    return result;
}
