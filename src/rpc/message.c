#include "rpc/message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "directnfs/stats.h"
#include "rpc/secure/identity.h"

enum {
    MESSAGE_CALL = 0,
    MESSAGE_REPLY = 1,
    RPC_VERSION = 2,
    AUTH_SYS = 1,
    AUTH_BODY_MAX = 400,
    GROUPS_MAX = 16,
    MACHINE_MAX = 255
};

static uint8_t *put(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

uint32_t rpc_word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

void rpc_auth_sys(struct rpc_auth *auth, const char *machine, uint32_t uid, uint32_t gid,
                  const uint32_t *groups, unsigned count)
{
    size_t length = strnlen(machine, MACHINE_MAX);
    size_t padded = (length + 3) & ~(size_t)3;
    if (count > GROUPS_MAX)
        count = GROUPS_MAX;
    memset(auth, 0, sizeof(*auth));
    auth->uid = uid;
    auth->gid = gid;
    uint8_t *p = put(auth->bytes, AUTH_SYS);
    p = put(p, (uint32_t)(4 + 4 + padded + 4 + 4 + 4 + 4 * count));
    p = put(p, (uint32_t)time(NULL));
    p = put(p, (uint32_t)length);
    memcpy(p, machine, length);
    p = put(p + padded, uid);
    p = put(p, gid);
    p = put(p, count);
    for (unsigned i = 0; i < count; i++)
        p = put(p, groups[i]);
    p = put(p, 0); /* verifier AUTH_NONE, no body */
    p = put(p, 0);
    auth->length = (uint32_t)(p - auth->bytes);
}

void rpc_auth_secure(struct rpc_auth *auth, uint32_t gid, const struct rpc_identity *identity)
{
    memset(auth, 0, sizeof(*auth));
    auth->uid = identity->uid;
    auth->gid = gid;
    auth->identity = identity;
}

const struct rpc_auth rpc_auth_none = {.length = 16}; /* twice: flavour 0, no body */

const struct rpc_auth rpc_auth_barred = {.identity = &rpc_identity_barred};

uint8_t *rpc_call_begin(struct rpc_call *call, const struct rpc_auth *auth, uint32_t program,
                        uint32_t version, uint32_t procedure)
{
    call->payload_count = 0;
    call->payload_length = 0;
    call->tail_length = 0;
    call->find_payload = NULL;
    call->answered = NULL;
    call->unready = 0;
    call->exact = NULL;
    call->identity = auth->identity;
    call->dress = NULL;
    call->unsettled = call->resent = false;
    call->xid = 0;
    call->queued_ns = call->sent_ns = 0;
    call->procedure = DIRECTNFS_PROCEDURES;
    call->counted = NULL;
    call->destination_count = 0;
    call->destination_length = 0;
    call->certain = 0;
    uint8_t *p = call->head + 8; /* record mark and xid come when it is sent */
    p = put(p, MESSAGE_CALL);
    p = put(p, RPC_VERSION);
    p = put(p, program);
    p = put(p, version);
    p = put(p, procedure);
    memcpy(p, auth->bytes, auth->length);
    return p + auth->length;
}

void rpc_call_end(struct rpc_call *call, const uint8_t *end)
{
    call->head_length = (size_t)(end - call->head);
}

void rpc_call_stamp(struct rpc_call *call, uint32_t xid)
{
    size_t padded = (call->payload_length + 3) & ~(size_t)3;
    put(call->head,
        RPC_LAST_FRAGMENT | (uint32_t)(call->head_length - 4 + padded + call->tail_length));
    put(call->head + 4, xid);
    call->xid = xid;
}

int rpc_reply_parse(const uint8_t *message, size_t have, size_t *results)
{
    if (have < 12)
        return 0;
    if (rpc_word(message + 4) != MESSAGE_REPLY)
        return -EBADMSG;
    uint32_t reply = rpc_word(message + 8);
    if (reply == 1) { /* MSG_DENIED: RPC_MISMATCH or AUTH_ERROR */
        if (have < 16)
            return 0;
        uint32_t reason = rpc_word(message + 12);
        return reason == 0 ? -EPROTONOSUPPORT : reason == 1 ? -EACCES : -EBADMSG;
    }
    if (reply != 0)
        return -EBADMSG;
    if (have < 20)
        return 0;
    uint32_t body = rpc_word(message + 16);
    if (body > AUTH_BODY_MAX)
        return -EBADMSG;
    size_t accept = 20 + ((body + 3) & ~(size_t)3);
    if (have < accept + 4)
        return 0;
    switch (rpc_word(message + accept)) {
    case 0:
        *results = accept + 4;
        return 1;
    case 1: /* PROG_UNAVAIL */
    case 2: /* PROG_MISMATCH */
        return -EPROTONOSUPPORT;
    case 3: /* PROC_UNAVAIL */
        return -EOPNOTSUPP;
    case 5: /* SYSTEM_ERR */
        return -EREMOTEIO;
    default: /* GARBAGE_ARGS, and what no standard names */
        return -EBADMSG;
    }
}

/* At most `most` vectors. *length becomes what they have of it. */
static int slice_most(const struct iovec *vectors, int count, size_t from, size_t *length,
                      struct iovec *slice, int most)
{
    size_t left = *length;
    int used = 0;
    for (int i = 0; i < count && used < most && left > 0; i++) {
        size_t size = vectors[i].iov_len;
        if (from >= size) {
            from -= size;
            continue;
        }
        size_t take = size - from < left ? size - from : left;
        slice[used].iov_base = (uint8_t *)vectors[i].iov_base + from;
        slice[used++].iov_len = take;
        left -= take;
        from = 0;
    }
    *length -= left;
    return used;
}

int rpc_vectors_slice(const struct iovec *vectors, int count, size_t from, size_t length,
                      struct iovec *slice)
{
    return slice_most(vectors, count, from, &length, slice, count);
}

int rpc_vectors_cut(const struct iovec *vectors, int count, size_t from, size_t *length,
                    struct iovec slice[RPC_VECTORS_MAX])
{
    return slice_most(vectors, count, from, length, slice, RPC_VECTORS_MAX);
}
