/* The procedures of NFSv3 without payload, and the table of all procedures. */
#include <errno.h>

#include "nfs/v3/call.h"
#include "nfs/v3/status.h"
#include "nfs/v3/xdr.h"

void nfs3_call_begin(struct rpc_call *call, const struct nfs_client *client,
                     enum nfs_procedure procedure, struct xdr_writer *arguments)
{
    uint8_t *at =
        rpc_call_begin(call, client->auth, NFS_PROGRAM, NFS3_VERSION, (uint32_t)procedure);
    call->procedure = (uint32_t)procedure;
    call->counted = client->counted;
    xdr_writer_init(arguments, at, RPC_ARGS_MAX);
}

int nfs3_call_outcome(const struct rpc_call *call, struct xdr_reader *results)
{
    int error = call->error;
    xdr_reader_init(results, call->results, call->results_length);
    if (error == 0 && call->procedure != NFS_PROC_NULL) {
        struct xdr_reader status = *results;
        error = nfs3_status_errno(xdr_get_u32(&status));
        if (status.bad)
            error = -EBADMSG;
    }
    nfs_call_count(call, error);
    return error;
}

/* A procedure without payload, from its arguments to its results. It is on the caller's stack. */
struct question {
    const struct nfs_client *client;
    enum nfs_procedure procedure;
    struct xdr_writer arguments;
    struct xdr_reader results;
    bool unsettled, repeated; /* any time that it was asked */
    struct rpc_call call;
    uint8_t room[NFS3_ARGS_MAX]; /* for `arguments`, which each call gets anew */
};

/* Returns where the arguments go. */
static struct xdr_writer *begin(struct question *question, const struct nfs_client *client,
                                enum nfs_procedure procedure)
{
    question->client = client;
    question->procedure = procedure;
    question->unsettled = question->repeated = false;
    xdr_writer_init(&question->arguments, question->room, sizeof(question->room));
    return &question->arguments;
}

/* Asks until the answer is not JUKEBOX. `error` is what putting the arguments returned. 0: the
 * results can be read. Else -errno. */
static int ask(struct question *question, int error)
{
    struct rpc_call *call = &question->call, *calls[] = {call};
    struct nfs_patience patience = {.turns = 0};
    if (error != 0)
        return error;
    for (;;) {
        struct xdr_writer w;
        nfs3_call_begin(call, question->client, question->procedure, &w);
        xdr_put_fixed(&w, question->room, (uint32_t)(question->arguments.p - question->room));
        rpc_call_end(call, w.p);
        nfs_call_run(question->client, calls, 1);
        question->unsettled = question->unsettled || call->unsettled;
        question->repeated = question->repeated || nfs_call_repeated(call);
        error = nfs3_call_outcome(call, &question->results);
        if (error != -EAGAIN)
            return error;
        error = nfs_call_again(question->client, &patience, false);
        if (error != 0)
            return error;
    }
}

static int ask_null(const struct nfs_client *client)
{
    struct question question;
    begin(&question, client, NFS_PROC_NULL);
    return ask(&question, 0);
}

static int ask_getattr(const struct nfs_client *client, const struct nfs_fh *fh,
                       struct nfs_attr *attr)
{
    struct question question;
    struct nfs3_getattr_res res;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_GETATTR);
    int error = ask(&question, nfs3_fh_args_put(w, fh));
    if (error == 0)
        error = nfs3_getattr_res_get(&question.results, &res);
    if (error == 0)
        *attr = res.attr;
    return error;
}

static int ask_setattr(const struct nfs_client *client, const struct nfs_fh *fh,
                       const struct nfs_sattr *sattr, struct nfs_wcc *wcc, bool *unsettled)
{
    struct question question;
    struct nfs3_setattr_res res;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_SETATTR);
    int error = ask(&question, nfs3_setattr_args_put(w, fh, sattr, NULL));
    *unsettled = question.unsettled;
    if (error == 0)
        error = nfs3_setattr_res_get(&question.results, &res);
    if (error == 0)
        *wcc = res.wcc;
    return error;
}

static int ask_lookup(const struct nfs_client *client, const struct nfs_fh *directory,
                      const char *name, struct nfs_fh *fh, struct nfs_post_attr *attr)
{
    struct question question;
    struct nfs3_lookup_res res;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_LOOKUP);
    int error = ask(&question, nfs3_lookup_args_put(w, directory, name));
    if (error == 0)
        error = nfs3_lookup_res_get(&question.results, &res);
    if (error == 0) {
        *fh = res.fh;
        *attr = res.attr;
    }
    return error;
}

static int ask_access(const struct nfs_client *client, const struct nfs_fh *fh, uint32_t *access,
                      struct nfs_post_attr *attr)
{
    struct question question;
    struct nfs3_access_res res;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_ACCESS);
    int error = ask(&question, nfs3_access_args_put(w, fh, *access));
    if (error == 0)
        error = nfs3_access_res_get(&question.results, &res);
    if (error == 0) {
        *access = res.access;
        *attr = res.attr;
    }
    return error;
}

static int ask_fsinfo(const struct nfs_client *client, const struct nfs_fh *fh,
                      struct nfs_fsinfo_res *res)
{
    struct question question;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_FSINFO);
    int error = ask(&question, nfs3_fh_args_put(w, fh));
    return error != 0 ? error : nfs3_fsinfo_res_get(&question.results, res);
}

static int ask_commit(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
                      uint32_t count, uint64_t *verifier, bool *repeated)
{
    struct question question;
    struct nfs3_commit_res res;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_COMMIT);
    int error = ask(&question, nfs3_commit_args_put(w, fh, offset, count));
    *repeated = question.repeated;
    if (error == 0)
        error = nfs3_commit_res_get(&question.results, &res);
    if (error == 0)
        *verifier = res.verifier;
    return error;
}

const struct nfs_version nfs_version3 = {
    .number = NFS3_VERSION,
    .name = "nfsv3",
    .null = ask_null,
    .getattr = ask_getattr,
    .setattr = ask_setattr,
    .lookup = ask_lookup,
    .access = ask_access,
    .fsinfo = ask_fsinfo,
    .commit = ask_commit,
    .read_begin = nfs3_read_begin,
    .read_end = nfs3_read_end,
    .write_begin = nfs3_write_begin,
    .write_end = nfs3_write_end,
};
