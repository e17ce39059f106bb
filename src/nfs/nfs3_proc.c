#include "nfs/nfs.h"

#include <stdio.h>
#include <errno.h>

#include "run/said.h"
#include "stats/count.h"
#include "nfs/nfs3_call.h"
#include "nfs/nfs3_status.h"
#include "nfs/nfs3_xdr.h"
#include "net/health.h"
#include "sys/log.h"

enum { SAY_EVERY_S = 60 }; /* on the log */

uint32_t nfs_transfer_size(uint32_t granted, int wanted)
{
    uint32_t size = granted < RPC_PAYLOAD_MAX ? granted : RPC_PAYLOAD_MAX;
    if (wanted > 0 && size > (uint32_t)wanted)
        size = (uint32_t)wanted;
    if (size > 4096)
        size -= size % 4096;
    return size ? size : 4096;
}

void nfs3_call_begin(struct rpc_call *call, const struct nfs_client *client,
                     enum nfs3_proc procedure, struct xdr_writer *arguments)
{
    uint8_t *at =
        rpc_call_begin(call, client->auth, NFS_PROGRAM, NFS3_VERSION, (uint32_t)procedure);
    xdr_writer_init(arguments, at, RPC_ARGS_MAX);
}

void nfs_call_send(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count)
{
    rpc_submit(client->server, calls, count);
}

void nfs_call_wait(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count)
{
    if (client->timeout_ms > 0)
        rpc_wait_for(calls, count, client->timeout_ms);
    else
        rpc_wait(calls, count);
}

void nfs_call_run(const struct nfs_client *client, struct rpc_call *const *calls, unsigned count)
{
    nfs_call_send(client, calls, count);
    nfs_call_wait(client, calls, count);
}

int nfs3_call_outcome(const struct rpc_call *call, enum nfs3_proc procedure,
                      struct xdr_reader *results)
{
    int error = call->error;
    xdr_reader_init(results, call->results, call->results_length);
    if (error == 0 && procedure != NFS3_PROC_NULL) {
        struct xdr_reader status = *results;
        error = nfs3_status_errno(xdr_get_u32(&status));
        if (status.bad)
            error = -EBADMSG;
    }
    stats_call(procedure, call->answered_ns - call->sent_ns, error != 0);
    if ((call->error == -EBADMSG || error == -EBADMSG) &&
        net_server_may_say(call->channel->server, SAY_EVERY_S))
        log_error("server %s: the answer to %s is garbage", call->channel->server->name,
                  nfs3_proc_name(procedure));
    return error;
}

void nfs3_call_senseless(const struct rpc_call *call, enum nfs3_proc procedure, const char *what)
{
    char subject[512];
    const char *server = call->channel->server->name;
    snprintf(subject, sizeof(subject), "answer %s %.400s", what, server);
    if (run_may_say(subject, SAY_EVERY_S))
        log_error("server %s: the answer to %s makes no sense: %s", server,
                  nfs3_proc_name(procedure), what);
}

bool nfs3_call_repeated(const struct rpc_call *call)
{
    return call->unsettled || (call->error == 0 && call->connected_ns > call->sent_ns);
}

void nfs3_jukebox_pause(const struct nfs_client *client, unsigned *waits)
{
    enum { FIRST_MS = 100, LONGEST_MS = 5000, SAY_AFTER = 12 };
    int pause = *waits < 6 ? FIRST_MS << *waits : LONGEST_MS;
    if (pause > LONGEST_MS)
        pause = LONGEST_MS;
    if (++*waits % SAY_AFTER == 0 && net_server_may_say(client->server, SAY_EVERY_S))
        log_warning("server %s: asks to come back later (JUKEBOX), %u times now; going on",
                    client->server->name, *waits);
    stats_add(&stats_own->counters.jukebox_waits, 1);
    rpc_pause(pause);
}

/* A procedure without payload, from its arguments to its results. Lives on the caller's stack. */
struct question {
    const struct nfs_client *client;
    enum nfs3_proc procedure;
    struct xdr_writer arguments;
    struct xdr_reader results;
    bool unsettled, repeated; /* of any time that it was asked */
    struct rpc_call call;
    uint8_t room[NFS3_ARGS_MAX]; /* of `arguments`: every call has them anew */
};

/* Returns where the arguments go. */
static struct xdr_writer *begin(struct question *question, const struct nfs_client *client,
                                enum nfs3_proc procedure)
{
    question->client = client;
    question->procedure = procedure;
    question->unsettled = question->repeated = false;
    xdr_writer_init(&question->arguments, question->room, sizeof(question->room));
    return &question->arguments;
}

/* `error` is what putting the arguments returned. The answer is 0, and the results can be read, or
 * -errno; to JUKEBOX the question is asked again. */
static int ask(struct question *question, int error)
{
    struct rpc_call *call = &question->call, *calls[] = {call};
    unsigned waits = 0;
    if (error != 0)
        return error;
    for (;;) {
        struct xdr_writer w;
        nfs3_call_begin(call, question->client, question->procedure, &w);
        xdr_put_fixed(&w, question->room, (uint32_t)(question->arguments.p - question->room));
        rpc_call_end(call, w.p);
        nfs_call_run(question->client, calls, 1);
        question->unsettled = question->unsettled || call->unsettled;
        question->repeated = question->repeated || nfs3_call_repeated(call);
        error = nfs3_call_outcome(call, question->procedure, &question->results);
        if (error != -EAGAIN)
            return error;
        nfs3_jukebox_pause(question->client, &waits);
    }
}

int nfs_null(const struct nfs_client *client)
{
    struct question question;
    begin(&question, client, NFS3_PROC_NULL);
    return ask(&question, 0);
}

int nfs_getattr(const struct nfs_client *client, const struct nfs_fh *fh, struct nfs_attr *attr)
{
    struct question question;
    struct nfs3_getattr_res res;
    struct xdr_writer *w = begin(&question, client, NFS3_PROC_GETATTR);
    int error = ask(&question, nfs3_fh_args_put(w, fh));
    if (error == 0)
        error = nfs3_getattr_res_get(&question.results, &res);
    if (error == 0)
        *attr = res.attr;
    return error;
}

int nfs_setattr(const struct nfs_client *client, const struct nfs_fh *fh,
                const struct nfs_sattr *sattr, struct nfs_wcc *wcc, bool *unsettled)
{
    struct question question;
    struct nfs3_setattr_res res;
    struct xdr_writer *w = begin(&question, client, NFS3_PROC_SETATTR);
    int error = ask(&question, nfs3_setattr_args_put(w, fh, sattr, NULL));
    *unsettled = question.unsettled;
    if (error == 0)
        error = nfs3_setattr_res_get(&question.results, &res);
    if (error == 0)
        *wcc = res.wcc;
    return error;
}

int nfs_lookup(const struct nfs_client *client, const struct nfs_fh *directory, const char *name,
               struct nfs_fh *fh, struct nfs_post_attr *attr)
{
    struct question question;
    struct nfs3_lookup_res res;
    struct xdr_writer *w = begin(&question, client, NFS3_PROC_LOOKUP);
    int error = ask(&question, nfs3_lookup_args_put(w, directory, name));
    if (error == 0)
        error = nfs3_lookup_res_get(&question.results, &res);
    if (error == 0) {
        *fh = res.fh;
        *attr = res.attr;
    }
    return error;
}

int nfs_access(const struct nfs_client *client, const struct nfs_fh *fh, uint32_t *access,
               struct nfs_post_attr *attr)
{
    struct question question;
    struct nfs3_access_res res;
    struct xdr_writer *w = begin(&question, client, NFS3_PROC_ACCESS);
    int error = ask(&question, nfs3_access_args_put(w, fh, *access));
    if (error == 0)
        error = nfs3_access_res_get(&question.results, &res);
    if (error == 0) {
        *access = res.access;
        *attr = res.attr;
    }
    return error;
}

int nfs_fsinfo(const struct nfs_client *client, const struct nfs_fh *fh, struct nfs_fsinfo_res *res)
{
    struct question question;
    struct xdr_writer *w = begin(&question, client, NFS3_PROC_FSINFO);
    int error = ask(&question, nfs3_fh_args_put(w, fh));
    return error != 0 ? error : nfs3_fsinfo_res_get(&question.results, res);
}

int nfs_commit(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
               uint32_t count, uint64_t *verifier, bool *repeated)
{
    struct question question;
    struct nfs3_commit_res res;
    struct xdr_writer *w = begin(&question, client, NFS3_PROC_COMMIT);
    int error = ask(&question, nfs3_commit_args_put(w, fh, offset, count));
    *repeated = question.repeated;
    if (error == 0)
        error = nfs3_commit_res_get(&question.results, &res);
    if (error == 0)
        *verifier = res.verifier;
    return error;
}
