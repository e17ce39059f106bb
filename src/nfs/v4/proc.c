/* The procedures of NFSv4.1 without payload, and the table of all procedures. */
#include <errno.h>
#include <string.h>

#include "directnfs/stats.h"
#include "nfs/v4/call.h"
#include "nfs/v4/open.h"
#include "nfs/v4/status.h"

/* Operations without payload on one file, from their arguments to their results. It is on the
 * caller's stack. */
struct question {
    const struct nfs_client *client;
    unsigned procedure; /* what it is counted as */
    bool keep;
    uint32_t operations; /* after PUTFH */
    struct xdr_writer arguments;
    struct xdr_reader results; /* after PUTFH */
    bool unsettled, repeated;  /* any time that it was asked */
    bool at_once;
    struct rpc_call call;
    uint8_t room[RPC_ARGS_MAX - 64]; /* for `arguments`, which each call gets anew */
};

/* Returns where the arguments of `operations` go. `fh` NULL: on the root of all exports. */
static struct xdr_writer *begin(struct question *question, const struct nfs_client *client,
                                unsigned procedure, uint32_t operations, const struct nfs_fh *fh)
{
    question->client = client;
    question->procedure = procedure;
    question->keep = procedure == NFS_PROC_SETATTR || procedure == NFS_PROC_COMMIT;
    question->operations = operations;
    question->unsettled = question->repeated = false;
    xdr_writer_init(&question->arguments, question->room, sizeof(question->room));
    if (fh)
        nfs4_put_fh(&question->arguments, fh);
    else
        nfs4_put_op(&question->arguments, NFS4_OP_PUTROOTFH);
    return &question->arguments;
}

/* Sends it once. 0: `handle`, which is PUTFH or PUTROOTFH, went well. */
static int ask_once(struct question *question, enum nfs4_op handle)
{
    struct rpc_call *call = &question->call, *calls[] = {call};
    struct xdr_writer w;
    nfs4_slots_begin(call, question->client, question->procedure, question->keep,
                     1 + question->operations, &w);
    xdr_put_fixed(&w, question->room, (uint32_t)(question->arguments.p - question->room));
    rpc_call_end(call, w.p);
    nfs_call_run(question->client, calls, 1);
    question->unsettled = question->unsettled || call->unsettled;
    question->repeated = question->repeated || nfs_call_repeated(call);
    return nfs4_call_outcome(call, handle, &question->results, &question->at_once);
}

/* The status of the next operation: 0, -EAGAIN, or another -errno. */
static int next(struct question *question, enum nfs4_op op)
{
    uint32_t status = nfs4_get_op(&question->results, op);
    if (question->results.bad)
        return -EBADMSG;
    return nfs4_call_status(&question->call, status, false, &question->at_once);
}

/* Asks until `first`, the operation after PUTFH, gets a final answer. 0: the results can be read.
 * Else -errno. */
static int ask(struct question *question, enum nfs4_op handle, enum nfs4_op first)
{
    struct nfs_patience patience = {.turns = 0};
    if (question->arguments.bad)
        return -EMSGSIZE;
    for (;;) {
        int error = nfs4_session_ready(question->client);
        if (error != 0)
            return error;
        error = ask_once(question, handle);
        if (error == 0)
            error = next(question, first);
        if (error != -EAGAIN)
            return error;
        error = nfs_call_again(question->client, &patience, question->at_once);
        if (error != 0)
            return error;
    }
}

/* Gets the attributes that end a reply. Without them it is no answer to GETATTR. */
static int get_attributes(struct question *question, uint64_t asked, uint64_t needed,
                          struct nfs4_attributes *attributes)
{
    nfs4_get_attributes(&question->results, asked, needed, attributes);
    return nfs4_get_result(&question->results);
}

/* Gets the attributes after another operation. That went well, whatever comes of the attributes. */
static void get_post_attr(struct question *question, struct nfs_post_attr *attr)
{
    struct nfs4_attributes attributes;
    attr->present = false;
    if (next(question, NFS4_OP_GETATTR) == 0 &&
        get_attributes(question, NFS4_OF_FILE, NFS4_NEEDED, &attributes) == 0) {
        attr->present = true;
        attr->attr = attributes.attr;
    }
}

static int ask_null(const struct nfs_client *client)
{
    struct rpc_call call, *calls[] = {&call};
    rpc_call_end(&call, rpc_call_begin(&call, client->auth, NFS_PROGRAM, NFS4_VERSION, 0));
    call.procedure = NFS_PROC_NULL;
    nfs_call_run(client, calls, 1);
    nfs_call_count(&call, call.error);
    return call.error;
}

static int ask_getattr(const struct nfs_client *client, const struct nfs_fh *fh,
                       struct nfs_attr *attr)
{
    struct question question;
    struct nfs4_attributes attributes;
    nfs4_put_getattr(begin(&question, client, NFS_PROC_GETATTR, 1, fh), NFS4_OF_FILE);
    int error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_GETATTR);
    if (error == 0)
        error = get_attributes(&question, NFS4_OF_FILE, NFS4_NEEDED, &attributes);
    if (error == 0)
        *attr = attributes.attr;
    return error;
}

/* Changes the size: no caller asks for anything else. */
static int ask_setattr(const struct nfs_client *client, const struct nfs_fh *fh,
                       const struct nfs_sattr *sattr, struct nfs_wcc *wcc, bool *unsettled)
{
    struct question question;
    *unsettled = false;
    if (!sattr->set_size || sattr->set_mode || sattr->set_uid || sattr->set_gid ||
        sattr->set_atime != NFS_DONT_CHANGE || sattr->set_mtime != NFS_DONT_CHANGE)
        return -EOPNOTSUPP;
    int error;
    do {
        struct nfs4_stateid state = nfs4_open_state(client, fh, NFS4_SHARE_WRITE);
        struct xdr_writer *w = begin(&question, client, NFS_PROC_SETATTR, 2, fh);
        nfs4_put_set_size(w, &state, sattr->size);
        nfs4_put_getattr(w, NFS4_OF_FILE);
        error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_SETATTR);
        *unsettled = *unsettled || question.unsettled;
    } while (error == -EBADFD);
    if (error != 0)
        return error;
    nfs4_open_accepted(client->session);
    nfs4_get_set(&question.results);
    wcc->before_present = false;
    get_post_attr(&question, &wcc->after);
    return 0;
}

int nfs4_open(const struct nfs_client *client, const struct nfs_fh *fh, uint32_t share,
              struct nfs4_stateid *stateid)
{
    struct nfs_session *session = client->session;
    struct question question;
    uint8_t owner[NFS4_SESSION_ID]; /* this process's: several share the client id of a fence */
    pthread_mutex_lock(&session->lock);
    memcpy(owner, session->id, sizeof(owner));
    pthread_mutex_unlock(&session->lock);
    /* In a session the server knows which client asks: RFC 8881 section 18.16.3. */
    nfs4_put_open(begin(&question, client, DIRECTNFS_PROCEDURE_OPEN, 1, fh), 0, owner,
                  sizeof(owner), share | NFS4_SHARE_NO_DELEGATION);
    int error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_OPEN);
    if (error != 0)
        return error;
    nfs4_get_open(&question.results, stateid);
    return nfs4_get_result(&question.results);
}

int nfs4_close(const struct nfs_client *client, const struct nfs_fh *fh,
               const struct nfs4_stateid *stateid)
{
    struct question question;
    nfs4_put_close(begin(&question, client, DIRECTNFS_PROCEDURE_CLOSE, 1, fh), stateid);
    return ask(&question, NFS4_OP_PUTFH, NFS4_OP_CLOSE);
}

static int ask_lookup(const struct nfs_client *client, const struct nfs_fh *directory,
                      const char *name, struct nfs_fh *fh, struct nfs_post_attr *attr)
{
    struct question question;
    size_t length = strnlen(name, NFS_NAME_MAX + 1);
    if (length > NFS_NAME_MAX)
        return -ENAMETOOLONG;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_LOOKUP, 3, directory);
    nfs4_put_lookup(w, name, length);
    nfs4_put_op(w, NFS4_OP_GETFH);
    nfs4_put_getattr(w, NFS4_OF_FILE);
    int error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_LOOKUP);
    if (error == 0)
        error = next(&question, NFS4_OP_GETFH);
    if (error != 0)
        return error == -EAGAIN ? -EIO : error;
    nfs4_get_fh(&question.results, fh);
    error = nfs4_get_result(&question.results);
    if (error == 0)
        get_post_attr(&question, attr);
    return error;
}

static int ask_root(const struct nfs_client *client, struct nfs_fh *fh)
{
    struct question question;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_LOOKUP, 1, NULL);
    nfs4_put_op(w, NFS4_OP_GETFH);
    int error = ask(&question, NFS4_OP_PUTROOTFH, NFS4_OP_GETFH);
    if (error != 0)
        return error;
    nfs4_get_fh(&question.results, fh);
    return nfs4_get_result(&question.results);
}

/* Takes the first name off a path. 1: it is in `name`. 0: there is none. -ENAMETOOLONG. */
static int take_name(const char **path, char name[NFS_NAME_MAX + 1])
{
    const char *at = *path + strspn(*path, "/");
    size_t length = strcspn(at, "/");
    *path = at + length;
    if (length > NFS_NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, at, length);
    name[length] = '\0';
    return length > 0;
}

int nfs4_walk(const struct nfs_client *client, const char *path, struct nfs_fh *fh)
{
    struct nfs_post_attr unused;
    char name[NFS_NAME_MAX + 1];
    int error = ask_root(client, fh), more;
    while (error == 0 && (more = take_name(&path, name)) != 0) {
        struct nfs_fh directory = *fh;
        error = more < 0 ? more : ask_lookup(client, &directory, name, fh, &unused);
    }
    return error;
}

/* Of the file (NULL: the root of all exports), or of a name in that directory. */
static int ask_secinfo(const struct nfs_client *client, const struct nfs_fh *fh, const char *name,
                       uint32_t *flavors, uint32_t *count)
{
    struct question question;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_LOOKUP, 1, fh);
    nfs4_put_secinfo(w, name, name ? strlen(name) : 0);
    int error = ask(&question, fh ? NFS4_OP_PUTFH : NFS4_OP_PUTROOTFH,
                    name ? NFS4_OP_SECINFO : NFS4_OP_SECINFO_NO_NAME);
    if (error != 0)
        return error;
    nfs4_get_secinfo(&question.results, flavors, count);
    return nfs4_get_result(&question.results);
}

/* A handle can only be had where the server takes the flavor of this call. So it asks at the first
 * name that is refused. */
static int ask_flavors(const struct nfs_client *client, const char *path, uint32_t *flavors,
                       uint32_t *count)
{
    struct nfs_post_attr unused;
    struct nfs_fh fh;
    char name[NFS_NAME_MAX + 1];
    int error = ask_root(client, &fh), more;
    if (error == -EKEYREJECTED)
        return ask_secinfo(client, NULL, NULL, flavors, count);
    while (error == 0 && (more = take_name(&path, name)) != 0) {
        struct nfs_fh directory = fh;
        error = more < 0 ? more : ask_lookup(client, &directory, name, &fh, &unused);
        if (error == -EKEYREJECTED)
            return ask_secinfo(client, &directory, name, flavors, count);
    }
    return error != 0 ? error : ask_secinfo(client, &fh, NULL, flavors, count);
}

static int ask_access(const struct nfs_client *client, const struct nfs_fh *fh, uint32_t *access,
                      struct nfs_post_attr *attr)
{
    struct question question;
    uint32_t granted;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_ACCESS, 2, fh);
    nfs4_put_access(w, *access);
    nfs4_put_getattr(w, NFS4_OF_FILE);
    int error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_ACCESS);
    if (error != 0)
        return error;
    nfs4_get_access(&question.results, &granted);
    error = nfs4_get_result(&question.results);
    if (error != 0)
        return error;
    *access &= granted;
    get_post_attr(&question, attr);
    return 0;
}

static uint32_t at_most(uint64_t size, uint32_t most)
{
    return size < most ? (uint32_t)size : most;
}

/* What version 3 tells by FSINFO. */
static int ask_fsinfo(const struct nfs_client *client, const struct nfs_fh *fh,
                      struct nfs_fsinfo_res *res)
{
    struct question question;
    struct nfs4_attributes of;
    struct xdr_writer *w = begin(&question, client, NFS_PROC_GETATTR, 2, fh);
    nfs4_put_getattr(w, NFS4_OF_FILE_SYSTEM);
    nfs4_put_getattr(w, NFS4_OF_FILE);
    int error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_GETATTR);
    if (error == 0)
        error = get_attributes(&question, NFS4_OF_FILE_SYSTEM, 0, &of);
    if (error != 0)
        return error;
    struct nfs_session *session = client->session;
    uint32_t read_most = atomic_load(&session->read_most);
    uint32_t write_most = atomic_load(&session->write_most);
    memset(res, 0, sizeof(*res));
    get_post_attr(&question, &res->attr);
    res->rtmax =
        of.present & NFS4_BIT(NFS4_ATTR_MAXREAD) ? at_most(of.maxread, read_most) : read_most;
    res->wtmax =
        of.present & NFS4_BIT(NFS4_ATTR_MAXWRITE) ? at_most(of.maxwrite, write_most) : write_most;
    res->rtpref = res->rtmax;
    res->wtpref = res->wtmax;
    res->maxfilesize = of.present & NFS4_BIT(NFS4_ATTR_MAXFILESIZE) ? of.maxfilesize : INT64_MAX;
    res->time_delta = of.time_delta;
    /* Linux' server says that it has layouts, whatever it exports. */
    res->by_layouts = atomic_load(&session->lays_out) && of.layouts > 0;
    res->properties = NFS_FSF_LINK | NFS_FSF_SYMLINK | NFS_FSF_HOMOGENEOUS | NFS_FSF_CANSETTIME;
    return 0;
}

static int ask_commit(const struct nfs_client *client, const struct nfs_fh *fh, uint64_t offset,
                      uint32_t count, uint64_t *verifier, bool *repeated)
{
    struct question question;
    uint64_t told;
    nfs4_put_commit(begin(&question, client, NFS_PROC_COMMIT, 1, fh), offset, count);
    int error = ask(&question, NFS4_OP_PUTFH, NFS4_OP_COMMIT);
    *repeated = question.repeated;
    if (error != 0)
        return error;
    nfs4_get_commit(&question.results, &told);
    error = nfs4_get_result(&question.results);
    if (error == 0)
        *verifier = told;
    return error;
}

const struct nfs_version nfs_version41 = {
    .number = NFS4_VERSION,
    .name = "nfsv4.1",
    .null = ask_null,
    .getattr = ask_getattr,
    .setattr = ask_setattr,
    .lookup = ask_lookup,
    .access = ask_access,
    .fsinfo = ask_fsinfo,
    .commit = ask_commit,
    .read_begin = nfs4_read_begin,
    .read_end = nfs4_read_end,
    .write_begin = nfs4_write_begin,
    .write_end = nfs4_write_end,
    .write_if_begin = nfs4_write_if_begin,
    .write_if_end = nfs4_write_if_end,
    .root = nfs4_walk,
    .flavors = ask_flavors,
    .session_new = nfs4_session_new,
    .session_end = nfs4_session_end,
    .session_after_fork = nfs4_session_after_fork,
    .session_renew = nfs4_session_renew,
    .session_fence = nfs4_fence_set,
    .session_most = nfs4_session_most,
    .session_hold = nfs4_fence_hold,
    .leads_here = nfs4_session_leads_here,
    .session_facts = nfs4_session_facts,
    .session_show = nfs4_session_show,
};
