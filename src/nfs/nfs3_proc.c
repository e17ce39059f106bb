#include "nfs/nfs3_proc.h"

#include <stdio.h>
#include <errno.h>

#include "run/said.h"
#include "stats/count.h"
#include "nfs/nfs3_call.h"
#include "nfs/nfs3_status.h"
#include "nfs/nfs3_xdr.h"
#include "sys/log.h"

enum { SAY_EVERY_S = 60 }; /* on the log */

uint32_t nfs3_transfer_size(uint32_t granted, int wanted)
{
    uint32_t size = granted < RPC_PAYLOAD_MAX ? granted : RPC_PAYLOAD_MAX;
    if (wanted > 0 && size > (uint32_t)wanted)
        size = (uint32_t)wanted;
    if (size > 4096)
        size -= size % 4096;
    return size ? size : 4096;
}

void nfs3_call_begin(struct rpc_call *call, const struct nfs3_client *client,
                     enum nfs3_proc procedure, struct xdr_writer *arguments)
{
    uint8_t *at =
        rpc_call_begin(call, client->auth, NFS3_PROGRAM, NFS3_VERSION, (uint32_t)procedure);
    xdr_writer_init(arguments, at, RPC_ARGS_MAX);
}

void nfs3_call_end(struct rpc_call *call, const struct xdr_writer *arguments)
{
    rpc_call_end(call, arguments->p);
}

void nfs3_call_run(const struct nfs3_client *client, struct rpc_call *const *calls, unsigned count)
{
    rpc_submit(client->server, calls, count);
    if (client->timeout_ms > 0)
        rpc_wait_for(calls, count, client->timeout_ms);
    else
        rpc_wait(calls, count);
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

void nfs3_jukebox_pause(const struct nfs3_client *client, unsigned *waits)
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

/*
 * The shape of every procedure without payload: `put` writes the arguments, `get` reads the
 * results, both through `context`.
 */
typedef int (*arguments_put)(struct xdr_writer *w, const void *context);
typedef int (*results_get)(struct xdr_reader *r, void *results);

static int run_changing(const struct nfs3_client *client, enum nfs3_proc procedure,
                        arguments_put put, const void *context, results_get get, void *results,
                        bool *unsettled, bool *repeated)
{
    struct rpc_call call, *calls[] = {&call};
    unsigned waits = 0;
    *unsettled = *repeated = false;
    for (;;) {
        struct xdr_writer w;
        struct xdr_reader r;
        nfs3_call_begin(&call, client, procedure, &w);
        int error = put ? put(&w, context) : 0;
        if (error != 0)
            return error;
        nfs3_call_end(&call, &w);
        nfs3_call_run(client, calls, 1);
        *unsettled = *unsettled || call.unsettled;
        *repeated = *repeated || nfs3_call_repeated(&call);
        error = nfs3_call_outcome(&call, procedure, &r);
        if (error == -EAGAIN) {
            nfs3_jukebox_pause(client, &waits);
            continue;
        }
        if (call.error != 0 || !get)
            return error;
        int malformed = get(&r, results);
        return error != 0 ? error : malformed;
    }
}

/* For procedures whose late execution harms nobody. */
static int run(const struct nfs3_client *client, enum nfs3_proc procedure, arguments_put put,
               const void *context, results_get get, void *results)
{
    bool unsettled, repeated;
    return run_changing(client, procedure, put, context, get, results, &unsettled, &repeated);
}

int nfs3_null(const struct nfs3_client *client)
{
    return run(client, NFS3_PROC_NULL, NULL, NULL, NULL, NULL);
}

static int put_fh(struct xdr_writer *w, const void *context)
{
    return nfs3_fh_args_put(w, context);
}

static int get_getattr(struct xdr_reader *r, void *results)
{
    return nfs3_getattr_res_get(r, results);
}

int nfs3_getattr(const struct nfs3_client *client, const struct nfs3_fh *fh, struct nfs3_attr *attr)
{
    struct nfs3_getattr_res res;
    int error = run(client, NFS3_PROC_GETATTR, put_fh, fh, get_getattr, &res);
    if (error == 0)
        *attr = res.attr;
    return error;
}

struct setattr_context {
    const struct nfs3_fh *fh;
    const struct nfs3_sattr *sattr;
};

static int put_setattr(struct xdr_writer *w, const void *context)
{
    const struct setattr_context *c = context;
    return nfs3_setattr_args_put(w, c->fh, c->sattr, NULL);
}

static int get_setattr(struct xdr_reader *r, void *results)
{
    return nfs3_setattr_res_get(r, results);
}

int nfs3_setattr(const struct nfs3_client *client, const struct nfs3_fh *fh,
                 const struct nfs3_sattr *sattr, struct nfs3_wcc *wcc, bool *unsettled)
{
    struct setattr_context context = {fh, sattr};
    struct nfs3_setattr_res res;
    bool repeated;
    int error = run_changing(client, NFS3_PROC_SETATTR, put_setattr, &context, get_setattr, &res,
                             unsettled, &repeated);
    if (error == 0)
        *wcc = res.wcc;
    return error;
}

struct name_context {
    const struct nfs3_fh *directory;
    const char *name;
};

static int put_lookup(struct xdr_writer *w, const void *context)
{
    const struct name_context *c = context;
    return nfs3_lookup_args_put(w, c->directory, c->name);
}

static int get_lookup(struct xdr_reader *r, void *results)
{
    return nfs3_lookup_res_get(r, results);
}

int nfs3_lookup(const struct nfs3_client *client, const struct nfs3_fh *directory, const char *name,
                struct nfs3_fh *fh, struct nfs3_post_attr *attr)
{
    struct name_context context = {directory, name};
    struct nfs3_lookup_res res;
    int error = run(client, NFS3_PROC_LOOKUP, put_lookup, &context, get_lookup, &res);
    if (error == 0) {
        *fh = res.fh;
        *attr = res.attr;
    }
    return error;
}

struct access_context {
    const struct nfs3_fh *fh;
    uint32_t access;
};

static int put_access(struct xdr_writer *w, const void *context)
{
    const struct access_context *c = context;
    return nfs3_access_args_put(w, c->fh, c->access);
}

static int get_access(struct xdr_reader *r, void *results)
{
    return nfs3_access_res_get(r, results);
}

int nfs3_access(const struct nfs3_client *client, const struct nfs3_fh *fh, uint32_t *access,
                struct nfs3_post_attr *attr)
{
    struct access_context context = {fh, *access};
    struct nfs3_access_res res;
    int error = run(client, NFS3_PROC_ACCESS, put_access, &context, get_access, &res);
    if (error == 0) {
        *access = res.access;
        *attr = res.attr;
    }
    return error;
}

static int get_fsinfo(struct xdr_reader *r, void *results)
{
    return nfs3_fsinfo_res_get(r, results);
}

int nfs3_fsinfo(const struct nfs3_client *client, const struct nfs3_fh *fh,
                struct nfs3_fsinfo_res *res)
{
    return run(client, NFS3_PROC_FSINFO, put_fh, fh, get_fsinfo, res);
}

struct commit_context {
    const struct nfs3_fh *fh;
    uint64_t offset;
    uint32_t count;
};

static int put_commit(struct xdr_writer *w, const void *context)
{
    const struct commit_context *c = context;
    return nfs3_commit_args_put(w, c->fh, c->offset, c->count);
}

static int get_commit(struct xdr_reader *r, void *results)
{
    return nfs3_commit_res_get(r, results);
}

int nfs3_commit(const struct nfs3_client *client, const struct nfs3_fh *fh, uint64_t offset,
                uint32_t count, uint64_t *verifier, bool *repeated)
{
    struct commit_context context = {fh, offset, count};
    struct nfs3_commit_res res;
    bool unsettled;
    int error = run_changing(client, NFS3_PROC_COMMIT, put_commit, &context, get_commit, &res,
                             &unsettled, repeated);
    if (error == 0)
        *verifier = res.verifier;
    return error;
}
