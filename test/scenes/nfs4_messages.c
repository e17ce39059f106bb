/* See nfs4_messages.h. */
#include "nfs4_messages.h"

#define VERIFIER "a1a2a3a4a5a6a7a8 "
#define GOT_ATTRIBUTES                                                              \
    "00000009 " OK "00000002 0010011a 0030a000 00000058 "                           \
    "00000001 1111111122222222 0000000123456789 0000000000000007 0000000000000009 " \
    "99aabbccddeeff01 0000000123457000 000000005f000001 0000000a "                  \
    "000000005f000003 0000000c 000000005f000002 0000000b "

#define GOT_FH "0000000a " OK "00000005 0102030405 000000 "
enum { ASKED = 8192 };

static bool reply_go_on(struct xdr_reader *r, struct reply *reply, enum nfs4_op op)
{
    reply->status = nfs4_get_op(r, op);
    return reply->status == NFS4_OK && !r->bad;
}

static void reply_attributes(struct xdr_reader *r, struct reply *reply)
{
    if (reply_go_on(r, reply, NFS4_OP_GETATTR))
        nfs4_get_attributes(r, NFS4_OF_FILE, NFS4_NEEDED, &reply->attributes);
}

static void reply_of_file(struct xdr_reader *r, enum reply_kind kind, struct reply *reply)
{
    switch (kind) {
    case REPLY_LOOKUP:
        if (reply_go_on(r, reply, NFS4_OP_LOOKUP) && reply_go_on(r, reply, NFS4_OP_GETFH))
            nfs4_get_fh(r, &reply->fh);
        break;
    case REPLY_ACCESS:
        if (reply_go_on(r, reply, NFS4_OP_ACCESS))
            nfs4_get_access(r, &reply->access);
        break;
    case REPLY_READ:
        reply_attributes(r, reply);
        if (!r->bad && reply->status == NFS4_OK && reply_go_on(r, reply, NFS4_OP_READ))
            nfs4_get_read(r, ASKED, &reply->count, &reply->eof);
        return;
    case REPLY_WRITE:
        if (reply_go_on(r, reply, NFS4_OP_WRITE))
            nfs4_get_write(r, ASKED, &reply->count, &reply->committed, &reply->verifier);
        break;
    case REPLY_COMMIT:
        if (reply_go_on(r, reply, NFS4_OP_COMMIT))
            nfs4_get_commit(r, &reply->verifier);
        return;
    case REPLY_SETATTR:
        reply->status = nfs4_get_op(r, NFS4_OP_SETATTR);
        nfs4_get_set(r);
        break;
    case REPLY_OPEN:
        if (reply_go_on(r, reply, NFS4_OP_OPEN))
            nfs4_get_open(r, &reply->stateid);
        return;
    case REPLY_CLOSE:
        if (reply_go_on(r, reply, NFS4_OP_CLOSE))
            nfs4_get_close(r);
        return;
    case REPLY_SECINFO:
        if (reply_go_on(r, reply, NFS4_OP_SECINFO_NO_NAME))
            nfs4_get_secinfo(r, reply->flavors, &reply->count);
        return;
    default:
        break;
    }
    if (!r->bad && reply->status == NFS4_OK)
        reply_attributes(r, reply);
}

int reply_get(struct xdr_reader *r, enum reply_kind kind, struct reply *reply)
{
    uint32_t operations, whole = nfs4_get_compound(r, &operations);
    memset(reply, 0, sizeof(*reply));
    reply->status = whole;
    if (operations == 0) { /* nothing was carried out */
        reply->status = whole != NFS4_OK ? whole : NFS4ERR_BADXDR;
        return nfs4_get_result(r);
    }
    if (kind == REPLY_EXCHANGE_ID) {
        if (reply_go_on(r, reply, NFS4_OP_EXCHANGE_ID))
            nfs4_get_exchange_id(r, &reply->exchange);
    } else if (kind == REPLY_CREATE_SESSION) {
        if (reply_go_on(r, reply, NFS4_OP_CREATE_SESSION))
            nfs4_get_create_session(r, &reply->created);
    } else if (kind == REPLY_BIND) {
        if (reply_go_on(r, reply, NFS4_OP_BIND_CONN_TO_SESSION))
            nfs4_get_bind(r, reply->session);
    } else if (reply_go_on(r, reply, NFS4_OP_SEQUENCE)) {
        nfs4_get_sequence(r, &reply->sequence);
        if (reply_go_on(r, reply, NFS4_OP_PUTFH))
            reply_of_file(r, kind, reply);
    }
    return nfs4_get_result(r);
}

const char *const replies[REPLY_KINDS] = {
    /* client id, sequence 1, flags, SP4_NONE; owner: minor, major; scope; implementation */
    [REPLY_EXCHANGE_ID] =
        REPLY(OK, "00000001") "0000002a " OK "c1c2c3c4c5c6c7c8 00000001 00010000 00000000 "
                              "0000000000000004 00000003 6162630000000002 "
                              "6869 0000 00000001 00000003 6f726700 00000002 6e6d0000 "
                              "0000000060000000 00000005",
    /* session, sequence 1, flags; padding, request, response, cached, operations, requests, RDMA:
     * of the fore channel, and of the back channel with a number for RDMA */
    [REPLY_CREATE_SESSION] = REPLY(
        OK, "00000001") "0000002b " OK
        SESSION "00000001 00000000 00000000 00101000 00100800 00000400 00000008 00000040 00000000 "
                        "00000000 00001000 00001000 00000000 00000002 00000001 00000001 00000009",
    [REPLY_BIND] = REPLY(OK, "00000001") "00000029 " OK SESSION "00000001 00000000",
    [REPLY_GETATTR] = REPLY(OK, "00000003") SEQUENCED PUTFH_DONE GOT_ATTRIBUTES,
    [REPLY_LOOKUP] =
        REPLY(OK, "00000005") SEQUENCED PUTFH_DONE "0000000f " OK GOT_FH GOT_ATTRIBUTES,
    /* supported, and granted */
    [REPLY_ACCESS] = REPLY(OK, "00000004") SEQUENCED PUTFH_DONE "00000003 " OK
                                                                "0000001f 0000000d " GOT_ATTRIBUTES,
    /* the end of the file, and 16 bytes */
    [REPLY_READ] = REPLY(OK, "00000004") SEQUENCED PUTFH_DONE GOT_ATTRIBUTES "00000019 " OK
                                                                             "00000001 00000010",
    /* count, FILE_SYNC, verifier */
    [REPLY_WRITE] = REPLY(OK, "00000004") SEQUENCED PUTFH_DONE
    "00000026 " OK "00002000 00000002 " VERIFIER GOT_ATTRIBUTES,
    [REPLY_COMMIT] = REPLY(OK, "00000003") SEQUENCED PUTFH_DONE "00000005 " OK VERIFIER,
    /* the size was set */
    [REPLY_SETATTR] = REPLY(OK, "00000004") SEQUENCED PUTFH_DONE
    "00000022 " OK "00000001 00000010 " GOT_ATTRIBUTES,
    /* stateid; the directory: atomic, before, after; flags; nothing set; a delegation to write, not
     * recalled, limited to a size, for one who is named */
    [REPLY_OPEN] = REPLY(OK, "00000003") SEQUENCED PUTFH_DONE
    "00000012 " OK "0102030405060708090a0b0c0d0e0f10 00000001 0000000000000001 0000000000000002 "
    "00000004 00000000 00000002 " STATEID
    "00000000 00000001 0000000000001000 00000000 00000000 00000001 00000003 666f6f00",
    [REPLY_CLOSE] = REPLY(OK, "00000003") SEQUENCED PUTFH_DONE "00000004 " OK STATEID,
    /* RPCSEC_GSS with an OID, quality and service; AUTH_SYS; Kerberos, krb5i */
    [REPLY_SECINFO] = REPLY(OK, "00000003") SEQUENCED PUTFH_DONE
    "00000034 " OK "00000003 00000006 00000003 2b060100 00000000 00000001 00000001 "
    "00000006 00000009 2a864886f71201020200 0000 00000000 00000002",
};
