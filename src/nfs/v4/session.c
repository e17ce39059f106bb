/* Sessions: made, lost, made again, and ended. */
#include "nfs/v4/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "run/log_limit.h"
#include "stats/count.h"
#include "nfs/v4/call.h"
#include "nfs/v4/open.h"
#include "nfs/v4/owner.h"
#include "nfs/v4/slots.h"
#include "nfs/v4/status.h"
#include "nfs/v4/xdr.h"
#include "net/net.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/sys.h"

enum {
    SAY_EVERY_S = 60,
    CACHED_MOST = 1024, /* bytes of a reply that the server keeps: only READ's are longer */
    CACHED_SECURED = CACHED_MOST + 1024, /* knfsd takes 800 off for Kerberos */
    CACHED_LEAST = 512,
    PAYLOAD_LEAST = 4096,
    OPERATIONS_LEAST = 5,
    LEASE_USUAL_S = 90,
    REPLY_MAX = 5120, /* for EXCHANGE_ID: 4 opaque values of up to 1 KiB */
    TRIES = 3 /* for a client with a time limit: the server may forget the client id at once */
};

static _Atomic unsigned sessions_made; /* so that two sessions of a process differ */

struct nfs_session *nfs4_session_new(void (*made)(void *of), void *of)
{
    struct nfs_session *session = sys_alloc_zeroed(sizeof(*session));
    if (!session)
        return NULL;
    session->made = made;
    session->of = of;
    nfs4_session_after_fork(session);
    return session;
}

void nfs4_session_after_fork(struct nfs_session *session)
{
    void (*made)(void *of) = session->made;
    void *of = session->of;
    struct directnfs_session_stats *shown = session->shown;
    struct nfs4_fence fence = session->fence;
    struct nfs_session was = {.minor = 0};
    if (pthread_mutex_trylock(&session->lock) == 0) { /* else it is half written */
        was.major = session->major;
        was.minor = session->minor;
        was.scope = session->scope;
        pthread_mutex_unlock(&session->lock);
    }
    nfs4_open_forget(session);
    memset(session, 0, sizeof(*session));
    session->major = was.major;
    session->minor = was.minor;
    session->scope = was.scope;
    nfs4_fence_after_fork(&fence);
    session->fence = fence;
    session->made = made;
    session->of = of;
    session->shown = shown;
    session->exact = nfs4_slots_exact;
    pthread_mutex_init(&session->making, NULL);
    pthread_mutex_init(&session->opening, NULL);
    pthread_mutex_init(&session->lock, NULL);
    session->verifier = sys_now_ns();
    session->number = atomic_fetch_add(&sessions_made, 1);
    atomic_store(&session->lease_s, LEASE_USUAL_S);
}

/* ---- questions without a slot ---- */

/* One operation that needs no session, from its arguments to its results. */
struct question {
    const struct nfs_client *client;
    struct xdr_writer arguments;
    struct xdr_reader results;
    struct rpc_call call;
    struct iovec vector;
    uint8_t reply[REPLY_MAX]; /* to EXCHANGE_ID */
};

static struct xdr_writer *begin(struct question *question, const struct nfs_client *client,
                                unsigned procedure)
{
    question->client = client;
    uint8_t *at =
        rpc_call_begin(&question->call, client->auth, NFS_PROGRAM, NFS4_VERSION, NFS4_COMPOUND);
    question->call.procedure = procedure;
    xdr_writer_init(&question->arguments, at, RPC_ARGS_MAX);
    nfs4_put_compound(&question->arguments, 1);
    return &question->arguments;
}

/* Counts the outcome of a call: a status, or -errno. Returns it. */
static int64_t counted(const struct rpc_call *call, int64_t status)
{
    nfs_call_count(call, status <= 0 ? (int)status : nfs4_status_errno((uint32_t)status));
    return status;
}

/* The status of the operation, or -errno. */
static int64_t judge_answer(struct question *question, enum nfs4_op op)
{
    const struct rpc_call *call = &question->call;
    uint32_t operations;
    if (call->error != 0)
        return call->error;
    if (call->received > 0)
        xdr_reader_init(&question->results, question->reply, call->received);
    else
        xdr_reader_init(&question->results, call->results, call->results_length);
    uint32_t whole = nfs4_get_compound(&question->results, &operations);
    if (!question->results.bad && operations == 0 && whole != NFS4_OK)
        return whole; /* the request is refused as a whole */
    uint32_t status = nfs4_get_op(&question->results, op);
    return question->results.bad ? -EBADMSG : (int64_t)status;
}

static int64_t ask(struct question *question, enum nfs4_op op)
{
    struct rpc_call *calls[] = {&question->call};
    rpc_call_end(&question->call, question->arguments.p);
    nfs_call_run(question->client, calls, 1);
    return counted(&question->call, judge_answer(question, op));
}

/* ---- making one ---- */

static int64_t exchange_id(const struct nfs_client *client, struct nfs4_exchange_id *exchange)
{
    struct nfs_session *session = client->session;
    struct question question;
    struct xdr_writer *w = begin(&question, client, DIRECTNFS_PROCEDURE_EXCHANGE_ID);
    pthread_mutex_lock(&session->lock);
    struct nfs4_owner owner = session->owner;
    pthread_mutex_unlock(&session->lock);
    nfs4_put_exchange_id(w, session->verifier, owner.name, owner.length);
    question.vector = (struct iovec){question.reply, sizeof(question.reply)};
    question.call.find_payload = nfs4_exchange_id_find;
    question.call.destination = &question.vector;
    question.call.destination_count = 1;
    question.call.destination_length = sizeof(question.reply);
    int64_t status = ask(&question, NFS4_OP_EXCHANGE_ID);
    if (status == NFS4_OK) {
        nfs4_get_exchange_id(&question.results, exchange);
        status = nfs4_get_result(&question.results);
    }
    return status;
}

/* *over: its connection belongs to the session from the start. */
static int64_t create_session(const struct nfs_client *client,
                              const struct nfs4_exchange_id *exchange,
                              struct nfs4_create_session *made, struct net_channel **over)
{
    /* All mounts of the server share the session. */
    bool is_secured =
        client->auth->identity || (client->server && client->server->options.kerberos);
    const struct nfs4_channel wanted = {.request_max = RPC_PAYLOAD_MAX + NFS4_OVERHEAD,
                                        .response_max = RPC_PAYLOAD_MAX + NFS4_OVERHEAD,
                                        .cached_max = is_secured ? CACHED_SECURED : CACHED_MOST,
                                        .operations = NFS4_OPERATIONS_MAX,
                                        .requests = NFS4_SLOTS};
    struct question question;
    nfs4_put_create_session(begin(&question, client, DIRECTNFS_PROCEDURE_CREATE_SESSION),
                            exchange->client, exchange->sequence, &wanted);
    int64_t status = ask(&question, NFS4_OP_CREATE_SESSION);
    *over = question.call.channel;
    if (status == NFS4_OK) {
        nfs4_get_create_session(&question.results, made);
        status = nfs4_get_result(&question.results);
    }
    return status;
}

/* Returns a status, or -errno. */
static int64_t destroy_session(const struct nfs_client *client, const uint8_t id[NFS4_SESSION_ID])
{
    struct question question;
    nfs4_put_destroy_session(begin(&question, client, DIRECTNFS_PROCEDURE_DESTROY_SESSION), id);
    return ask(&question, NFS4_OP_DESTROY_SESSION);
}

/* Can the session be used? 0, or -EPROTO. */
static int judge(const struct nfs4_channel *fore)
{
    bool good = fore->requests > 0 && fore->operations >= OPERATIONS_LEAST &&
                fore->cached_max >= CACHED_LEAST &&
                fore->request_max >= NFS4_OVERHEAD + PAYLOAD_LEAST &&
                fore->response_max >= NFS4_OVERHEAD + PAYLOAD_LEAST;
    return good ? 0 : -EPROTO;
}

static uint32_t payload_most(uint32_t message_max)
{
    uint32_t payload = message_max - NFS4_OVERHEAD;
    return payload < RPC_PAYLOAD_MAX ? payload : RPC_PAYLOAD_MAX;
}

/* Learns the lease from the results of PUTROOTFH and GETATTR. Without them it stays as it is. */
static void learn_lease(struct nfs_session *session, struct xdr_reader *results)
{
    struct nfs4_attributes of = {.present = 0};
    if (nfs4_get_op(results, NFS4_OP_PUTROOTFH) != NFS4_OK ||
        nfs4_get_op(results, NFS4_OP_GETATTR) != NFS4_OK)
        return;
    nfs4_get_attributes(results, NFS4_BIT(NFS4_ATTR_LEASE_TIME), 0, &of);
    if (!results->bad && of.present & NFS4_BIT(NFS4_ATTR_LEASE_TIME) && of.lease_s > 0)
        atomic_store(&session->lease_s, of.lease_s);
}

/* The outcome of RECLAIM_COMPLETE: a status, or -errno. */
static int64_t judge_reclaimed(struct nfs_session *session, const struct rpc_call *call)
{
    struct xdr_reader results;
    uint32_t operations;
    if (call->error != 0)
        return call->error;
    xdr_reader_init(&results, call->results, call->results_length);
    nfs4_get_compound(&results, &operations);
    uint32_t status = nfs4_get_op(&results, NFS4_OP_SEQUENCE);
    if (status == NFS4_OK) {
        struct nfs4_sequence sequence;
        nfs4_get_sequence(&results, &sequence);
        status = nfs4_get_op(&results, NFS4_OP_RECLAIM_COMPLETE);
    }
    if (results.bad)
        return -EBADMSG;
    if (status == NFS4_OK)
        learn_lease(session, &results);
    return status == NFS4ERR_COMPLETE_ALREADY ? NFS4_OK : (int64_t)status;
}

/* Tells the server not to wait for us to reclaim what we had, as we never have anything. Also asks
 * how long its lease is. */
static int64_t reclaim_complete(const struct nfs_client *client, struct net_channel *over)
{
    struct rpc_call call, *calls[] = {&call};
    struct xdr_writer w;
    nfs4_slots_begin(&call, client, DIRECTNFS_PROCEDURE_RECLAIM_COMPLETE, true, 3, &w);
    nfs4_put_reclaim_complete(&w);
    nfs4_put_op(&w, NFS4_OP_PUTROOTFH);
    nfs4_put_getattr(&w, NFS4_BIT(NFS4_ATTR_LEASE_TIME));
    rpc_call_end(&call, w.p);
    rpc_submit_on(over, calls, 1);
    nfs_call_wait(client, calls, 1);
    return counted(&call, judge_reclaimed(client->session, &call));
}

/*
 * Ends the former session if the server may still have it, as too many of its slots were of no use.
 * What is in flight in it must be over before anything is done in another one: the server says
 * DELAY until then.
 */
static int64_t end_former(const struct nfs_client *client, uint64_t client_id)
{
    struct nfs_session *session = client->session;
    uint8_t id[NFS4_SESSION_ID];
    if (!session->owned || session->client != client_id || session->generation == 0)
        return NFS4_OK; /* it went with the client id */
    pthread_mutex_lock(&session->lock);
    memcpy(id, session->id, sizeof(id));
    pthread_mutex_unlock(&session->lock);
    int64_t status = destroy_session(client, id);
    return status < 0 || status == NFS4ERR_DELAY ? status : NFS4_OK;
}

/* Makes one attempt. Returns a status, or -errno. */
static int64_t make_once(const struct nfs_client *client)
{
    struct nfs_session *session = client->session;
    struct nfs4_exchange_id exchange;
    struct nfs4_create_session made;
    struct net_channel *over;
    nfs4_owner_name(session, client->auth);
    int64_t status = exchange_id(client, &exchange);
    if (status == NFS4_OK)
        status = end_former(client, exchange.client);
    if (status != NFS4_OK)
        return status;
    session->owned = true;
    atomic_store(&session->lays_out,
                 (exchange.flags & NFS4_USE_PNFS_MDS) && !(exchange.flags & NFS4_USE_NON_PNFS));
    pthread_mutex_lock(&session->lock);
    session->client = exchange.client;
    session->major = exchange.major;
    session->minor = exchange.minor;
    session->scope = exchange.scope;
    pthread_mutex_unlock(&session->lock);
    status = create_session(client, &exchange, &made, &over);
    if (status != NFS4_OK)
        return status;
    int error = judge(&made.fore);
    if (error != 0) {
        destroy_session(client, made.session);
        return error;
    }
    nfs4_slots_reset(session, &made);
    atomic_store(&session->read_most, payload_most(made.fore.response_max));
    atomic_store(&session->write_most, payload_most(made.fore.request_max));
    return reclaim_complete(client, over);
}

static void say(const struct nfs_client *client, const char *what, const char *why)
{
    char subject[512];
    const char *server = client->server->name;
    snprintf(subject, sizeof(subject), "session %s %.400s", why, server);
    if (run_may_say(subject, SAY_EVERY_S))
        log_warning("server %s: %s: %s", server, what, why);
}

/* The server has as many sessions as it allows, or is short of memory. If it only asks to come back
 * later (as after its start), that counts after a while. */
static void say_full(const struct nfs_client *client, uint32_t status,
                     const struct nfs_patience *patience)
{
    enum { EVERY_S = 3600, LATER_OFTEN = 10 };
    bool later = status == NFS4ERR_DELAY && patience->waits == LATER_OFTEN;
    char subject[512];
    const char *server = client->server->name;
    snprintf(subject, sizeof(subject), "full %.400s", server);
    if ((later || status == NFS4ERR_NOSPC || status == NFS4ERR_RESOURCE) &&
        run_may_say(subject, EVERY_S))
        log_warning("server %s: it makes no session: %s. It may have as many clients, mounts or "
                    "sessions as it allows: end programs that use it, of which each process has a "
                    "session, or raise its limit",
                    server, nfs4_status_name(status));
}

/* make_once() for a session with a fence, if the host has the fence. */
static int64_t make_fenced(const struct nfs_client *client)
{
    struct nfs_session *session = client->session;
    struct nfs_client anybody = *client;
    struct rpc_auth auth;
    bool proves = !session->fence.taking;
    nfs4_fence_anybody(&anybody, &auth);
    int64_t status = proves ? nfs4_fence_begin(client) : 0;
    if (status == 0)
        status = make_once(&anybody);
    int error = status == NFS4_OK && proves ? nfs4_fence_proven(client) : 0;
    if (error != 0) {
        destroy_session(&anybody, session->id);
        status = error;
    } else if (status == NFS4_OK) {
        nfs4_slots_open(session);
    }
    if (proves)
        nfs4_fence_end(client);
    return status;
}

/* Shows the session in the statistics, if it is shown there. */
static void show(struct nfs_session *session)
{
    pthread_mutex_lock(&session->lock);
    if (session->shown) {
        stats_set(&session->shown->lease_s, atomic_load(&session->lease_s));
        stats_set(&session->shown->client, session->client);
        nfs4_slots_show(session);
    }
    pthread_mutex_unlock(&session->lock);
}

/* A server in trouble is asked again, too, as writes wait for it. The connection is not bound if it
 * was made again meanwhile. */
static bool may_succeed_later(const struct nfs_client *client, uint32_t status, unsigned *tries)
{
    enum nfs4_reaction reaction = nfs4_status_reaction(status, true);
    if (reaction == NFS4_RENEW || reaction == NFS4_BIND || status == NFS4ERR_SERVERFAULT ||
        status == NFS4ERR_NOSPC || status == NFS4ERR_RESOURCE)
        return ++*tries < TRIES || client->timeout_ms <= 0;
    return reaction == NFS4_LATER;
}

/* An error of a session is no error of the file that a call is for: the file's data is not refused,
 * and its handle is not stale. */
static int why_none(uint32_t status)
{
    int error = nfs4_status_errno(status);
    switch (error) {
    case -ENOSPC:
    case -EDQUOT:
    case -EFBIG:
    case -EROFS:
    case -ENXIO:
    case -EINVAL:
    case -ENOENT:
    case -ESTALE:
        return -EIO;
    default:
        return error;
    }
}

/* Makes the session, until that succeeds or waiting does not help. `making` is held. */
static int make(const struct nfs_client *client, struct nfs_patience *patience)
{
    struct nfs_session *session = client->session;
    unsigned tries = 0;
    for (;;) {
        int64_t status = session->fence.of.name ? make_fenced(client) : make_once(client);
        if (status == NFS4_OK) {
            atomic_store_explicit(&session->ready, session->generation, memory_order_release);
            atomic_fetch_add(&session->epoch, 1); /* what was open is so no more */
            stats_add(&stats_own->counters.sessions_made, 1);
            show(session);
            log_info("server %s: session %u", client->server->name, session->generation);
            if (session->made)
                session->made(session->of);
            return 0;
        }
        if (status < 0) {
            if (status == -EBADMSG || status == -EPROTO)
                say(client, "no session",
                    status == -EPROTO ? "it grants too little" : "its answer is garbage");
            return (int)status;
        }
        say_full(client, (uint32_t)status, patience);
        int error = may_succeed_later(client, (uint32_t)status, &tries)
                        ? nfs_call_again(client, patience, false)
                        : why_none((uint32_t)status);
        if (error != 0) {
            say(client, "no session", nfs4_status_name((uint32_t)status));
            return error;
        }
    }
}

/* ---- binding ---- */

/* Tells the server that the connection belongs to the session, if the server does not assume it by
 * itself. */
static int bind_over(const struct nfs_client *client, struct net_channel *channel)
{
    struct nfs_session *session = client->session;
    struct question question;
    uint8_t id[NFS4_SESSION_ID], told[NFS4_SESSION_ID] = {0};
    struct rpc_call *calls[] = {&question.call};
    pthread_mutex_lock(&session->lock);
    memcpy(id, session->id, sizeof(id));
    pthread_mutex_unlock(&session->lock);
    struct xdr_writer *w = begin(&question, client, DIRECTNFS_PROCEDURE_BIND_CONN_TO_SESSION);
    nfs4_put_bind(w, id);
    rpc_call_end(&question.call, w->p);
    rpc_submit_on(channel, calls, 1);
    nfs_call_wait(client, calls, 1);
    int64_t status = counted(&question.call, judge_answer(&question, NFS4_OP_BIND_CONN_TO_SESSION));
    if (status < 0)
        return (int)status;
    if (status == NFS4_OK)
        nfs4_get_bind(&question.results, told);
    if (nfs4_get_result(&question.results) != 0 ||
        (status == NFS4_OK && memcmp(id, told, sizeof(id)) != 0))
        return -EBADMSG;
    return nfs4_status_errno((uint32_t)status);
}

int nfs4_session_prepare_locked(const struct nfs_client *client, struct nfs_patience *patience)
{
    struct nfs_session *session = client->session;
    int result = 0;
    struct net_channel *unbound = atomic_exchange(&client->server->unbound, NULL);
    if (unbound && atomic_load(&session->ready) != 0) {
        struct net_channel *none = NULL;
        result = bind_over(client, unbound);
        if (result == -EKEYEXPIRED) /* another user may do it */
            atomic_compare_exchange_strong(&client->server->unbound, &none, unbound);
        else if (result != 0 && result != -ETIMEDOUT) /* a new one begins with its connection */
            atomic_store(&session->ready, 0);
    }
    if (atomic_load(&session->ready) == 0)
        result = make(client, patience);
    return result;
}

/* ---- its end ---- */

void nfs4_session_lost(struct nfs_session *session, uint32_t generation)
{
    uint32_t expected = generation;
    atomic_compare_exchange_strong(&session->ready, &expected, 0);
}

void nfs4_session_end(const struct nfs_client *client)
{
    struct nfs_session *session = client->session;
    uint8_t id[NFS4_SESSION_ID];
    if (atomic_load(&session->ready) != 0)
        nfs4_open_end(client); /* else the server would keep the client id */
    if (pthread_mutex_trylock(&session->making) != 0)
        return; /* a thread makes a session, for as long as the server does not answer */
    bool ready = atomic_exchange(&session->ready, 0) != 0;
    pthread_mutex_lock(&session->lock);
    memcpy(id, session->id, sizeof(id));
    pthread_mutex_unlock(&session->lock);
    bool answered = ready && destroy_session(client, id) >= 0;
    if (answered && session->owned && !session->fence.of.name) { /* else others share it */
        struct question question;
        nfs4_put_destroy_client(begin(&question, client, DIRECTNFS_PROCEDURE_DESTROY_CLIENTID),
                                session->client);
        ask(&question, NFS4_OP_DESTROY_CLIENTID);
    }
    session->owned = false;
    pthread_mutex_unlock(&session->making);
}

static bool is_same(const struct nfs4_opaque *a, const struct nfs4_opaque *b)
{
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

/* A child of fork() may ask before it makes a session. 0 or -EAGAIN. */
static int know_owner(struct nfs_session *session, const struct rpc_auth *auth)
{
    pthread_mutex_lock(&session->lock);
    bool known = session->owner.length > 0;
    pthread_mutex_unlock(&session->lock);
    if (known)
        return 0;
    if (pthread_mutex_trylock(&session->making) != 0)
        return -EAGAIN; /* the thread that holds it will know in a moment */
    nfs4_owner_name(session, auth);
    pthread_mutex_unlock(&session->making);
    return 0;
}

int nfs4_session_leads_here(const struct nfs_client *over)
{
    struct nfs_session *session = over->session;
    struct nfs4_exchange_id exchange;
    struct nfs_client asking = *over;
    struct rpc_auth auth;
    if (session->fence.of.name)
        nfs4_fence_anybody(&asking, &auth);
    pthread_mutex_lock(&session->lock);
    struct nfs4_opaque major = session->major, scope = session->scope;
    uint64_t minor = session->minor;
    pthread_mutex_unlock(&session->lock);
    if (major.length == 0)
        return -ENOTCONN;
    if (know_owner(session, asking.auth) != 0)
        return -EAGAIN;
    int64_t status = exchange_id(&asking, &exchange);
    if (status != NFS4_OK)
        return status < 0 ? (int)status : nfs4_status_errno((uint32_t)status);
    bool same = is_same(&major, &exchange.major) && is_same(&scope, &exchange.scope) &&
                minor == exchange.minor;
    return same ? 0 : -EXDEV;
}

void nfs4_session_show(struct nfs_session *session, const char *server)
{
    struct directnfs_session_stats *shown = stats_session(server);
    pthread_mutex_lock(&session->lock);
    session->shown = shown;
    pthread_mutex_unlock(&session->lock);
    show(session);
}

bool nfs4_session_facts(struct nfs_session *session, struct nfs_session_facts *facts)
{
    enum { FIRST_SHOWN = ' ', LAST_SHOWN = '~' };
    *facts = (struct nfs_session_facts){.lease_s = atomic_load(&session->lease_s)};
    pthread_mutex_lock(&session->lock);
    facts->client = session->client;
    facts->slots = session->granted;
    facts->free = nfs4_slots_free(session);
    facts->owner_length = session->major.length;
    for (uint32_t i = 0; i < session->major.length && i < NFS_OWNER_SHOWN; i++) {
        uint8_t byte = session->major.data[i];
        facts->owner[i] = (char)(byte >= FIRST_SHOWN && byte <= LAST_SHOWN ? byte : '?');
    }
    pthread_mutex_unlock(&session->lock);
    return atomic_load(&session->ready) != 0;
}
