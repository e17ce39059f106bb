/*
 * Which call has which slot. A slot has one call at a time. Its sequence counts the calls that the
 * server executed. A slot with an unknown sequence is useless: a call that ended without an answer
 * may be executed yet, and would be mixed up with the next one.
 */
#include "nfs/v4/slots.h"

#include <errno.h>
#include <string.h>

#include "stats/count.h"
#include "nfs/v4/status.h"
#include "nfs/v4/xdr.h"

enum { NO_SLOT = NFS4_SLOTS }; /* the call goes out to be refused: there is nothing to wait for */

/* Bits for the first `count` slots. */
static uint64_t slots(uint32_t count)
{
    return count >= NFS4_SLOTS ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static uint32_t count_lost(const struct nfs_session *session)
{
    return (uint32_t)__builtin_popcountll(session->lost);
}

void nfs4_slots_show(const struct nfs_session *session)
{
    struct directnfs_session_stats *shown = session->shown;
    if (!shown)
        return;
    stats_set(&shown->slots, session->granted);
    stats_set(&shown->used, session->used);
    stats_set(&shown->lost, count_lost(session));
}

/* Shows the part that changes with every call. */
static void show_used(const struct nfs_session *session)
{
    if (session->shown)
        stats_set(&session->shown->used, session->used);
}

void nfs4_slots_reset(struct nfs_session *session, const struct nfs4_create_session *made)
{
    pthread_mutex_lock(&session->lock);
    session->generation++;
    memcpy(session->id, made->session, sizeof(session->id));
    session->granted = made->fore.requests < NFS4_SLOTS ? made->fore.requests : NFS4_SLOTS;
    session->free = slots(session->granted);
    session->lost = 0;
    session->used = 0;
    session->target = session->granted - 1;
    session->flags = 0;
    session->shut = session->fence.of.name && !session->fence.taking;
    atomic_store(&session->moved, false);
    memset(session->sequences, 0, sizeof(session->sequences));
    nfs4_slots_show(session);
    pthread_mutex_unlock(&session->lock);
}

void nfs4_slots_open(struct nfs_session *session)
{
    pthread_mutex_lock(&session->lock);
    session->shut = false;
    pthread_mutex_unlock(&session->lock);
}

uint32_t nfs4_slots_free(const struct nfs_session *session)
{
    return (uint32_t)__builtin_popcountll(session->free & slots(session->target + 1));
}

void nfs4_slots_begin(struct rpc_call *call, const struct nfs_client *client, unsigned procedure,
                      bool keep, uint32_t operations, struct xdr_writer *w)
{
    static const uint8_t later[NFS4_SESSION_ID];
    uint8_t *at = rpc_call_begin(call, client->auth, NFS_PROGRAM, NFS4_VERSION, NFS4_COMPOUND);
    xdr_writer_init(w, at, RPC_ARGS_MAX);
    nfs4_put_compound(w, 1 + operations);
    at = nfs4_put_sequence(w, later, keep) - NFS4_SESSION_ID;
    call->procedure = procedure;
    call->counted = client->counted;
    call->exact = &client->session->exact;
    call->exact_at = (uint16_t)(at - call->head);
    call->exact_slot = -1;
}

/* ---- taking one ---- */

static bool enter(struct rpc_exact *exact, struct rpc_call *call)
{
    struct nfs_session *session = (struct nfs_session *)exact;
    pthread_mutex_lock(&session->lock);
    bool first = call->procedure == DIRECTNFS_PROCEDURE_RECLAIM_COMPLETE;
    uint64_t all = slots(session->granted);
    uint64_t wanted = all & slots(session->target + 1), can = session->free & wanted;
    /* In a session that is given up, no slot may ever become free: see leave(). */
    bool given_up = can == 0 && atomic_load(&session->ready) != session->generation;
    bool refused = !first && (session->shut || given_up);
    bool hopeless = refused || (session->lost & wanted) == wanted;
    if (can == 0 && !hopeless) {
        stats_add(&stats_own->counters.slot_waits, 1);
        pthread_mutex_unlock(&session->lock);
        return false;
    }
    unsigned slot = hopeless ? NO_SLOT : (unsigned)__builtin_ctzll(can);
    uint32_t sequence = 1, highest = slot;
    if (!hopeless) {
        session->free &= ~(UINT64_C(1) << slot);
        session->used++;
        show_used(session);
        sequence = session->sequences[slot] + 1;
        highest = 63 - (unsigned)__builtin_clzll(all & ~session->free);
    }
    uint8_t *at = call->head + call->exact_at;
    if (refused) /* no server has such a session: it does not even look at the slot */
        memset(at, 0, NFS4_SESSION_ID);
    else
        memcpy(at, session->id, NFS4_SESSION_ID);
    nfs4_stamp_sequence(at + NFS4_SESSION_ID, sequence, slot, highest);
    call->exact_slot = (int16_t)slot;
    call->exact_generation = session->generation - refused; /* its answer shall not end this one */
    pthread_mutex_unlock(&session->lock);
    return true;
}

/* ---- giving it back ---- */

/* What the server did with the slot, by its answer. NOT_TOLD: it answers another call, and tells
 * nothing of this one. */
enum fate { EXECUTED, UNTOUCHED, UNKNOWN, NOT_TOLD };

/*
 * Takes as many slots as both sides want, from the first on. A slot that was given up for a while
 * goes on counting. If the server forgot it, the server says that the sequence is wrong, and a new
 * session is made. A server that did not forget would take a call that began anew for a repeat, and
 * not execute it.
 */
static void resize(struct nfs_session *session, const struct nfs4_sequence *told)
{
    uint32_t most = told->highest < NFS4_SLOTS ? told->highest : NFS4_SLOTS - 1;
    uint32_t before = session->granted;
    session->target = told->target < most ? told->target : most;
    while (session->granted > session->target + 1 &&
           session->free & (UINT64_C(1) << (session->granted - 1)))
        session->free &= ~(UINT64_C(1) << --session->granted);
    for (; session->granted < session->target + 1; session->granted++)
        session->free |= UINT64_C(1) << session->granted;
    if (session->granted != before)
        nfs4_slots_show(session);
}

/* Did the server's RPC layer refuse the call, so that it is not in the slot? */
static bool is_refused(int error)
{
    return error == -EACCES || error == -EPROTONOSUPPORT || error == -EOPNOTSUPP;
}

static enum fate fate_by_answer(struct nfs_session *session, const struct rpc_call *call)
{
    struct xdr_reader results;
    struct nfs4_sequence told;
    uint32_t operations;
    if (is_refused(call->error)) /* anybody may have sent it: under Kerberos that matters */
        return call->identity ? UNKNOWN : UNTOUCHED;
    if (call->error != 0)
        return UNKNOWN;
    xdr_reader_init(&results, call->results, call->results_length);
    uint32_t whole = nfs4_get_compound(&results, &operations);
    if (operations == 0 && whole != NFS4_OK)
        return results.bad ? UNKNOWN : UNTOUCHED;
    uint32_t status = nfs4_get_op(&results, NFS4_OP_SEQUENCE);
    if (status == NFS4_OK)
        nfs4_get_sequence(&results, &told);
    if (results.bad || status == NFS4ERR_SEQ_MISORDERED || status == NFS4ERR_SEQ_FALSE_RETRY)
        return UNKNOWN;
    if (status != NFS4_OK)
        return status == NFS4ERR_RETRY_UNCACHED_REP ? EXECUTED : UNTOUCHED;
    if (told.slot != (uint32_t)call->exact_slot ||
        told.sequence != session->sequences[told.slot] + 1 ||
        memcmp(told.session, session->id, NFS4_SESSION_ID) != 0)
        return NOT_TOLD;
    session->flags = told.flags;
    session->used_ns = call->answered_ns;
    resize(session, &told);
    return EXECUTED;
}

/*
 * A copy that the server refused tells nothing of the copy before it, which may be executed now.
 * The next call of the slot must not have this sequence. It would be answered as a repeat of that
 * copy, and not be executed.
 */
static enum fate fate_of(struct nfs_session *session, const struct rpc_call *call)
{
    if (call->sent_ns == 0)
        return UNTOUCHED;
    enum fate fate = fate_by_answer(session, call);
    return fate == UNTOUCHED && call->resent ? UNKNOWN : fate;
}

/* Did the server refuse the last copy of the call? An earlier copy may have been executed. */
static bool was_about(const struct rpc_call *call)
{
    struct xdr_reader results;
    uint32_t operations;
    if (call->error != 0 || !call->resent)
        return false;
    xdr_reader_init(&results, call->results, call->results_length);
    nfs4_get_compound(&results, &operations);
    return nfs4_get_op(&results, NFS4_OP_SEQUENCE) != NFS4_OK;
}

static void leave(struct rpc_exact *exact, struct rpc_call *call)
{
    struct nfs_session *session = (struct nfs_session *)exact;
    unsigned slot = (unsigned)call->exact_slot;
    call->unsettled = call->unsettled || was_about(call);
    if (slot == NO_SLOT)
        return;
    uint64_t bit = UINT64_C(1) << slot;
    pthread_mutex_lock(&session->lock);
    if (call->exact_generation == session->generation) {
        enum fate fate = fate_of(session, call);
        if (fate == EXECUTED)
            session->sequences[slot]++;
        if (fate == EXECUTED && call->resent)
            stats_add(&stats_own->counters.session_replays, 1);
        bool is_lost = fate == UNKNOWN || fate == NOT_TOLD;
        session->used--;
        show_used(session);
        if (is_lost)
            session->lost |= bit;
        else if (slot < session->granted)
            session->free |= bit;
        if (is_lost)
            nfs4_slots_show(session);
        call->unsettled = call->unsettled || fate == NOT_TOLD;
        /*
         * Half of a session is not enough: in the next one all slots are there again. Nor is it
         * enough if all other slots are set aside for threads that may themselves wait for a slot.
         */
        uint32_t lost = count_lost(session);
        if (2 * lost > session->granted || (is_lost && lost + session->aside >= session->granted))
            nfs4_session_lost(session, session->generation);
    }
    pthread_mutex_unlock(&session->lock);
}

/* A thread that would take the call up may itself wait for a slot. So half of the useful slots
 * remain. */
static bool set_aside(struct rpc_exact *exact)
{
    struct nfs_session *session = (struct nfs_session *)exact;
    pthread_mutex_lock(&session->lock);
    bool can = 2 * (session->aside + 1) + count_lost(session) <= session->granted;
    session->aside += can;
    pthread_mutex_unlock(&session->lock);
    return can;
}

static void take_up(struct rpc_exact *exact)
{
    struct nfs_session *session = (struct nfs_session *)exact;
    pthread_mutex_lock(&session->lock);
    session->aside--;
    pthread_mutex_unlock(&session->lock);
}

const struct rpc_exact nfs4_slots_exact = {
    .enter = enter, .leave = leave, .set_aside = set_aside, .take_up = take_up};

uint32_t nfs4_session_most(const struct nfs_session *session, bool write)
{
    return atomic_load_explicit(write ? &session->write_most : &session->read_most,
                                memory_order_relaxed);
}
