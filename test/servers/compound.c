/* See compound.h. */
#include "compound.h"

static uint32_t compound_procedure(uint32_t op)
{
    return op == V41_READ      ? NFS_READ
           : op == V41_WRITE   ? NFS_WRITE
           : op == V41_COMMIT  ? NFS_COMMIT
           : op == V41_SETATTR ? NFS_SETATTR
           : op == V41_ACCESS  ? NFS_ACCESS
           : op == V41_LOOKUP  ? NFS_LOOKUP
                               : NFS_NULL;
}

void compound_parse(struct call *call)
{
    struct wire_reader r = call->args;
    uint32_t length;
    call->in_session = true;
    call->procedure = NFS_NULL;
    wire_get_opaque(&r, V41_TAG_MOST, &length);
    wire_get32(&r);
    for (uint32_t left = wire_get32(&r); left > 0 && !r.bad; left--) {
        uint32_t op = wire_get32(&r);
        if (op == V41_SEQUENCE) {
            wire_get_bytes(&r, V41_SESSION_BYTES + 16);
        } else if (op == V41_PUTFH) {
            call->args = r;
            wire_get_opaque(&r, NFS_HANDLE_MAX, &length);
        } else if (op == V41_GETATTR) {
            call->procedure = NFS_GETATTR;
            wire_get_bytes(&r, 4 * (size_t)wire_get32(&r));
        } else if (op == V41_VERIFY) {
            wire_get_bytes(&r, 4 * (size_t)wire_get32(&r));
            wire_get_bytes(&r, wire_get32(&r));
        } else {
            call->procedure = compound_procedure(op);
            call->operation = r;
            return;
        }
    }
}
