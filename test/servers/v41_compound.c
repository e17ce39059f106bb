/* See v41_compound.h. */
#include "v41_compound.h"

static uint32_t v41_execute_op(struct v41_call *call, uint32_t op)
{
    switch (op) {
    case V41_ACCESS:
        return v41_access(call);
    case V41_CLOSE:
        return v41_close(call);
    case V41_COMMIT:
        return v41_commit(call);
    case V41_GETATTR:
        return v41_getattr(call);
    case V41_LOOKUP:
        return v41_lookup(call);
    case V41_OPEN:
        return v41_open(call);
    case V41_PUTFH:
        return v41_putfh(call);
    case V41_GETFH:
    case V41_PUTROOTFH:
    case V41_RESTOREFH:
    case V41_SAVEFH:
        return v41_handles(call, op);
    case V41_READ:
        return v41_read(call);
    case V41_READDIR:
        return v41_readdir(call);
    case V41_SETATTR:
        return v41_setattr(call);
    case V41_VERIFY:
        return v41_verify(call);
    case V41_WRITE:
        return v41_write(call);
    case V41_BIND_CONN_TO_SESSION:
        return v41_bind(call);
    case V41_EXCHANGE_ID:
        return v41_exchange_id(call);
    case V41_CREATE_SESSION:
        return v41_create_session(call);
    case V41_DESTROY_SESSION:
        return v41_destroy_session(call);
    case V41_DESTROY_CLIENTID:
        return v41_destroy_clientid(call);
    case V41_RECLAIM_COMPLETE:
        return v41_reclaim_complete(call);
    case V41_SECINFO:
        return v41_secinfo_of(call);
    case V41_SECINFO_NO_NAME:
        return v41_secinfo(call);
    case V41_SEQUENCE:
        return v41_sequence(call);
    case V41_TEST_STATEID:
        return v41_test_stateid(call);
    case V41_FREE_STATEID:
        return v41_free_stateid(call);
    default:
        return op >= 3 && op <= V41_RECLAIM_COMPLETE ? V41_NOTSUPP : V41_OP_ILLEGAL;
    }
}

/* Operations that make a session, or end it, need none: RFC 8881 section 2.10.2 and 18.*.3. */
static bool v41_stands_alone(uint32_t op)
{
    return op == V41_EXCHANGE_ID || op == V41_CREATE_SESSION || op == V41_DESTROY_SESSION ||
           op == V41_DESTROY_CLIENTID || op == V41_BIND_CONN_TO_SESSION;
}

/* Is an operation where it may be? */
static uint32_t v41_place(const struct v41_call *call, uint32_t op)
{
    if (op < 3 || op > V41_RECLAIM_COMPLETE)
        return V41_OK; /* it is illegal anywhere */
    if (op == V41_SEQUENCE)
        return call->index == 0 ? V41_OK : V41_SEQUENCE_POS;
    if (call->session)
        return op == V41_EXCHANGE_ID || op == V41_CREATE_SESSION || op == V41_BIND_CONN_TO_SESSION
                   ? V41_NOT_ONLY_OP
                   : V41_OK;
    if (!v41_stands_alone(op))
        return V41_OP_NOT_IN_SESSION;
    return call->operations == 1 ? V41_OK : V41_NOT_ONLY_OP;
}

/* One operation and its result: the status. */
static uint32_t v41_step(struct v41_call *call, uint32_t op)
{
    struct v41_control *control = call->control;
    bool known = op < V41_OPS;
    size_t at = call->out.length;
    put_word(&call->out, op < 3 || op > V41_RECLAIM_COMPLETE ? V41_ILLEGAL : op);
    put_word(&call->out, V41_OK);
    uint32_t failure = known ? atomic_load(&control->fail_status[op]) : V41_OK;
    uint32_t status = v41_place(call, op);
    if (status != V41_OK)
        atomic_fetch_add(&control->bad_calls, 1);
    else if (known && v41_counts(&control->fail_count[op]) && failure != V41_OK)
        status = failure;
    else if (known && (status = v41_execute_op(call, op)) != V41_BADXDR)
        atomic_fetch_add(&control->calls[op], 1);
    else
        status = known ? status : V41_OP_ILLEGAL;
    if (call->replayed)
        return V41_OK;
    if (status == V41_BADXDR)
        atomic_fetch_add(&control->bad_calls, 1);
    if (status != V41_OK && (op != V41_SETATTR || call->out.length == at + 8)) {
        call->out.length = at + 8;
        if (op == V41_SETATTR)
            put_word(&call->out, 0);
    }
    v41_set_word(call->out.data + at + 4, status);
    return status;
}

void v41_compound(struct v41_call *call)
{
    struct v41_control *control = call->control;
    struct v41_bytes tag = v41_opaque(&call->in, 1024);
    uint32_t minor = v41_u32(&call->in), status = V41_OK, done = 0;
    size_t sequence_end = 0;
    uint32_t second = 0, op = 0;
    call->operations = v41_u32(&call->in);
    atomic_store(&control->last_minor, minor);
    put_word(&call->out, V41_OK);
    v41_put_opaque(&call->out, tag.data, tag.length);
    size_t count_at = call->out.length;
    put_word(&call->out, 0);
    if (call->in.bad)
        status = V41_BADXDR;
    else if (minor != atomic_load(&control->minor))
        status = V41_MINOR_VERS_MISMATCH;
    for (; status == V41_OK && call->index < call->operations; call->index++) {
        op = v41_u32(&call->in);
        second = call->index == 1 ? op : second;
        status = v41_step(call, op);
        if (call->replayed)
            return;
        done++;
        sequence_end = call->index == 0 ? call->out.length : sequence_end;
    }
    if (status == V41_OK && call->in.at != call->in.end)
        atomic_fetch_add(&control->bad_calls, 1);
    unsigned lie = atomic_load(&control->lie);
    v41_set_word(call->out.data, status);
    v41_set_word(call->out.data + count_at, done + (lie == V41_WRONG_COUNT && done > 1));
    if (lie == V41_WRONG_OP && done > 2 && op == V41_GETATTR) /* its bitmap stays where it was */
        v41_set_word(call->out.data + count_at + 4, V41_READDIR);
    if (call->slot)
        v41_keep_reply(call, sequence_end, second);
}

uint64_t v41_operations(struct v41_in in)
{
    uint64_t operations = 0;
    v41_opaque(&in, 1024);
    v41_u32(&in);
    uint32_t count = v41_u32(&in);
    struct v41_open_arguments open;
    struct v41_changes changes;
    for (uint32_t i = 0; i < count && !in.bad; i++) {
        uint32_t op = v41_u32(&in);
        operations |= in.bad || op >= V41_OPS ? 0 : UINT64_C(1) << op;
        switch (op) {
        case V41_SEQUENCE:
            v41_take(&in, V41_SESSION_ID + 16);
            break;
        case V41_ACCESS:
        case V41_RECLAIM_COMPLETE:
        case V41_SECINFO_NO_NAME:
            v41_take(&in, 4);
            break;
        case V41_CLOSE:
            v41_take(&in, 20);
            break;
        case V41_COMMIT:
            v41_take(&in, 12);
            break;
        case V41_GETATTR:
            v41_bitmap(&in);
            break;
        case V41_LOOKUP:
        case V41_PUTFH:
        case V41_SECINFO:
            v41_opaque(&in, 1024);
            break;
        case V41_VERIFY:
            v41_bitmap(&in);
            v41_opaque(&in, 1024);
            break;
        case V41_READ:
            v41_take(&in, 28);
            break;
        case V41_WRITE:
            v41_take(&in, 28);
            v41_opaque(&in, V41_RECORD_MOST);
            break;
        case V41_SETATTR:
            v41_take(&in, 16);
            v41_get_changes(&in, &changes);
            break;
        case V41_OPEN:
            v41_get_open(&in, &open);
            break;
        case V41_GETFH:
        case V41_PUTROOTFH:
        case V41_RESTOREFH:
        case V41_SAVEFH:
            break;
        default:
            return operations;
        }
    }
    return operations;
}

bool v41_any_ends(_Atomic unsigned *counts, uint64_t operations)
{
    bool any = false;
    for (unsigned op = 0; op < V41_OPS; op++) {
        if (operations >> op & 1)
            any = v41_ends(&counts[op]) || any;
    }
    return any;
}
