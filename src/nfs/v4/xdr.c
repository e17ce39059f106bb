#include "nfs/v4/xdr.h"
#include "nfs/v3/parts.h"

enum {
    CLAIM_FH = 4,
    BIND_FORE = 1,
    CALLBACK_PROGRAM = 0x40000000 /* a program that nobody serves */
};

/* ---- requests ---- */

void nfs4_put_compound(struct xdr_writer *w, uint32_t operations)
{
    uint8_t *at = xdr_put_room(w, 12);
    if (!at)
        return;
    xdr_store_u32(at, 0); /* the tag */
    xdr_store_u32(at + 4, NFS4_MINOR);
    xdr_store_u32(at + 8, operations);
}

void nfs4_put_op(struct xdr_writer *w, enum nfs4_op op)
{
    xdr_put_u32(w, op);
}

uint8_t *nfs4_put_sequence(struct xdr_writer *w, const uint8_t session[NFS4_SESSION_ID], bool keep)
{
    uint8_t *at = xdr_put_room(w, 36);
    if (!at)
        return NULL;
    xdr_store_u32(at, NFS4_OP_SEQUENCE);
    memcpy(at + 4, session, NFS4_SESSION_ID);
    at += 4 + NFS4_SESSION_ID;
    nfs4_stamp_sequence(at, 0, 0, 0);
    xdr_store_u32(at + 12, keep);
    return at;
}

void nfs4_stamp_sequence(uint8_t *at, uint32_t sequence, uint32_t slot, uint32_t highest)
{
    xdr_store_u32(at, sequence);
    xdr_store_u32(at + 4, slot);
    xdr_store_u32(at + 8, highest);
}

bool nfs4_is_stamp(const uint8_t *at, uint32_t sequence, uint32_t slot)
{
    return xdr_load_u32(at) == sequence && xdr_load_u32(at + 4) == slot;
}

void nfs4_put_fh(struct xdr_writer *w, const struct nfs_fh *fh)
{
    xdr_put_u32(w, NFS4_OP_PUTFH);
    if (fh->len > NFS4_FH_MAX)
        w->bad = true;
    else
        xdr_put_opaque(w, fh->data, fh->len);
}

void nfs4_put_lookup(struct xdr_writer *w, const char *name, size_t length)
{
    xdr_put_u32(w, NFS4_OP_LOOKUP);
    if (length > NFS_NAME_MAX)
        w->bad = true;
    else
        xdr_put_opaque(w, name, (uint32_t)length);
}

void nfs4_put_access(struct xdr_writer *w, uint32_t access)
{
    xdr_put_u32(w, NFS4_OP_ACCESS);
    xdr_put_u32(w, access);
}

void nfs4_put_getattr(struct xdr_writer *w, uint64_t attributes)
{
    uint8_t *at = xdr_put_room(w, 16);
    if (!at)
        return;
    xdr_store_u32(at, NFS4_OP_GETATTR);
    xdr_store_u32(at + 4, 2);
    xdr_store_u32(at + 8, (uint32_t)attributes);
    xdr_store_u32(at + 12, (uint32_t)(attributes >> 32));
}

static void put_stateid(struct xdr_writer *w, const struct nfs4_stateid *stateid)
{
    xdr_put_fixed(w, stateid->bytes, NFS4_STATEID);
}

void nfs4_put_read(struct xdr_writer *w, const struct nfs4_stateid *stateid, uint64_t offset,
                   uint32_t count)
{
    xdr_put_u32(w, NFS4_OP_READ);
    put_stateid(w, stateid);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
}

void nfs4_put_write(struct xdr_writer *w, const struct nfs4_stateid *stateid, uint64_t offset,
                    uint32_t count, enum nfs_stable stable)
{
    xdr_put_u32(w, NFS4_OP_WRITE);
    put_stateid(w, stateid);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, stable);
    xdr_put_u32(w, count);
}

void nfs4_put_commit(struct xdr_writer *w, uint64_t offset, uint32_t count)
{
    xdr_put_u32(w, NFS4_OP_COMMIT);
    xdr_put_u64(w, offset);
    xdr_put_u32(w, count);
}

void nfs4_put_set_size(struct xdr_writer *w, const struct nfs4_stateid *stateid, uint64_t size)
{
    xdr_put_u32(w, NFS4_OP_SETATTR);
    put_stateid(w, stateid);
    xdr_put_u32(w, 1); /* a bitmap of one word, and 8 bytes of attributes */
    xdr_put_u32(w, 1u << NFS4_ATTR_SIZE);
    xdr_put_u32(w, 8);
    xdr_put_u64(w, size);
}

void nfs4_put_verify_change(struct xdr_writer *w, uint64_t change)
{
    xdr_put_u32(w, NFS4_OP_VERIFY);
    xdr_put_u32(w, 1); /* a bitmap of one word, and 8 bytes of attributes */
    xdr_put_u32(w, 1u << NFS4_ATTR_CHANGE);
    xdr_put_u32(w, 8);
    xdr_put_u64(w, change);
}

void nfs4_put_open(struct xdr_writer *w, uint64_t client, const void *owner, uint32_t length,
                   uint32_t share)
{
    xdr_put_u32(w, NFS4_OP_OPEN);
    xdr_put_u32(w, 0); /* seqid: not used in a session */
    xdr_put_u32(w, share);
    xdr_put_u32(w, 0); /* OPEN4_SHARE_DENY_NONE */
    xdr_put_u64(w, client);
    xdr_put_opaque(w, owner, length);
    xdr_put_u32(w, 0); /* OPEN4_NOCREATE */
    xdr_put_u32(w, CLAIM_FH);
}

void nfs4_put_close(struct xdr_writer *w, const struct nfs4_stateid *stateid)
{
    xdr_put_u32(w, NFS4_OP_CLOSE);
    xdr_put_u32(w, 0); /* seqid: not used in a session */
    put_stateid(w, stateid);
}

void nfs4_put_exchange_id(struct xdr_writer *w, uint64_t verifier, const void *owner,
                          uint32_t length)
{
    xdr_put_u32(w, NFS4_OP_EXCHANGE_ID);
    xdr_put_u64(w, verifier);
    xdr_put_opaque(w, owner, length);
    xdr_put_u32(w, NFS4_USE_NON_PNFS);
    xdr_put_u32(w, 0); /* SP4_NONE */
    xdr_put_u32(w, 0); /* no implementation is named */
}

static void put_channel(struct xdr_writer *w, const struct nfs4_channel *channel)
{
    xdr_put_u32(w, 0); /* padding before a payload */
    xdr_put_u32(w, channel->request_max);
    xdr_put_u32(w, channel->response_max);
    xdr_put_u32(w, channel->cached_max);
    xdr_put_u32(w, channel->operations);
    xdr_put_u32(w, channel->requests);
    xdr_put_u32(w, 0); /* no RDMA */
}

void nfs4_put_create_session(struct xdr_writer *w, uint64_t client, uint32_t sequence,
                             const struct nfs4_channel *fore)
{
    /* The smallest back channel. Without the flag for one, none is made. */
    static const struct nfs4_channel back = {4096, 4096, 0, 2, 1};
    xdr_put_u32(w, NFS4_OP_CREATE_SESSION);
    xdr_put_u64(w, client);
    xdr_put_u32(w, sequence);
    xdr_put_u32(w, 0); /* flags */
    put_channel(w, fore);
    put_channel(w, &back);
    xdr_put_u32(w, CALLBACK_PROGRAM);
    xdr_put_u32(w, 1); /* one way to call back: AUTH_NONE */
    xdr_put_u32(w, 0);
}

static void put_session(struct xdr_writer *w, enum nfs4_op op,
                        const uint8_t session[NFS4_SESSION_ID])
{
    xdr_put_u32(w, op);
    xdr_put_fixed(w, session, NFS4_SESSION_ID);
}

void nfs4_put_bind(struct xdr_writer *w, const uint8_t session[NFS4_SESSION_ID])
{
    put_session(w, NFS4_OP_BIND_CONN_TO_SESSION, session);
    xdr_put_u32(w, BIND_FORE);
    xdr_put_bool(w, false); /* RDMA */
}

void nfs4_put_destroy_session(struct xdr_writer *w, const uint8_t session[NFS4_SESSION_ID])
{
    put_session(w, NFS4_OP_DESTROY_SESSION, session);
}

void nfs4_put_destroy_client(struct xdr_writer *w, uint64_t client)
{
    xdr_put_u32(w, NFS4_OP_DESTROY_CLIENTID);
    xdr_put_u64(w, client);
}

void nfs4_put_reclaim_complete(struct xdr_writer *w)
{
    xdr_put_u32(w, NFS4_OP_RECLAIM_COMPLETE);
    xdr_put_bool(w, false); /* not for one file system */
}

/* ---- replies ---- */

uint32_t nfs4_get_compound(struct xdr_reader *r, uint32_t *operations)
{
    uint32_t status = xdr_get_u32(r), length;
    xdr_get_opaque(r, NFS4_OPAQUE_MAX, &length); /* the tag */
    *operations = xdr_get_u32(r);
    return r->bad ? NFS4ERR_BADXDR : status;
}

uint32_t nfs4_get_op(struct xdr_reader *r, enum nfs4_op op)
{
    const uint8_t *at = xdr_get_room(r, 8);
    if (!at)
        return NFS4ERR_BADXDR;
    uint32_t got = xdr_load_u32(at), status = xdr_load_u32(at + 4);
    if (got != op && !(got == NFS4_OP_ILLEGAL && status == NFS4ERR_OP_ILLEGAL)) {
        xdr_reader_fail(r);
        return NFS4ERR_BADXDR;
    }
    return status;
}

static void get_session(struct xdr_reader *r, uint8_t session[NFS4_SESSION_ID])
{
    const uint8_t *at = xdr_get_room(r, NFS4_SESSION_ID);
    if (at)
        memcpy(session, at, NFS4_SESSION_ID);
}

static uint64_t get_verifier(struct xdr_reader *r)
{
    const uint8_t *at = xdr_get_room(r, 8);
    uint64_t verifier = 0;
    if (at)
        memcpy(&verifier, at, 8);
    return verifier;
}

void nfs4_get_sequence(struct xdr_reader *r, struct nfs4_sequence *sequence)
{
    const uint8_t *at = xdr_get_room(r, NFS4_SESSION_ID + 20);
    if (!at)
        return;
    memcpy(sequence->session, at, NFS4_SESSION_ID);
    at += NFS4_SESSION_ID;
    sequence->sequence = xdr_load_u32(at);
    sequence->slot = xdr_load_u32(at + 4);
    sequence->highest = xdr_load_u32(at + 8);
    sequence->target = xdr_load_u32(at + 12);
    sequence->flags = xdr_load_u32(at + 16);
}

void nfs4_get_fh(struct xdr_reader *r, struct nfs_fh *fh)
{
    uint32_t length;
    const uint8_t *data = xdr_get_opaque(r, NFS4_FH_MAX, &length);
    fh->len = 0;
    if (!data || length == 0) { /* a handle that names nothing */
        xdr_reader_fail(r);
        return;
    }
    fh->len = length;
    memcpy(fh->data, data, length);
}

void nfs4_get_access(struct xdr_reader *r, uint32_t *access)
{
    uint32_t supported = xdr_get_u32(r);
    *access = xdr_get_u32(r) & supported;
}

/* A bitmap4 of any length. Bits from 64 on were never asked for. */
static uint64_t get_bitmap(struct xdr_reader *r, uint64_t allowed)
{
    enum { WORDS_MAX = 8 };
    uint64_t bits = 0;
    uint32_t words = xdr_get_u32(r);
    if (words > WORDS_MAX) {
        xdr_reader_fail(r);
        return 0;
    }
    for (uint32_t i = 0; i < words; i++) {
        uint64_t word = xdr_get_u32(r);
        if (i < 2)
            bits |= word << (32 * i);
        else if (word != 0)
            xdr_reader_fail(r);
    }
    if (bits & ~allowed)
        xdr_reader_fail(r);
    return r->bad ? 0 : bits;
}

/* nfstime4: the seconds are signed, in 64 bits. Times that do not fit are cut. */
static void get_time(struct xdr_reader *r, struct nfs_time *time)
{
    time->sec = (uint32_t)xdr_get_u64(r);
    time->nsec = xdr_get_u32(r);
}

static void get_type(struct xdr_reader *r, struct nfs_attr *attr)
{
    attr->type = xdr_get_u32(r); /* 8 and 9: named attributes, and their directory */
    if (attr->type < NFS_REG || attr->type > NFS_FIFO + 2)
        xdr_reader_fail(r);
}

static void get_fsid(struct xdr_reader *r, struct nfs_attr *attr)
{
    uint64_t major = xdr_get_u64(r), minor = xdr_get_u64(r);
    attr->fsid = major ^ (minor << 32 | minor >> 32); /* it is only compared */
}

/* How many types there are: which ones does not matter. */
static uint32_t get_layout_types(struct xdr_reader *r)
{
    uint32_t count = xdr_get_u32(r);
    if (count > xdr_reader_left(r) / 4)
        xdr_reader_fail(r);
    else
        xdr_get_room(r, 4 * count);
    return r->bad ? 0 : count;
}

static void get_attribute(struct xdr_reader *r, unsigned attribute, struct nfs4_attributes *a)
{
    switch (attribute) {
    case NFS4_ATTR_TYPE:
        get_type(r, &a->attr);
        break;
    case NFS4_ATTR_CHANGE:
        a->attr.change = xdr_get_u64(r);
        break;
    case NFS4_ATTR_SIZE:
        a->attr.size = xdr_get_u64(r);
        break;
    case NFS4_ATTR_FSID:
        get_fsid(r, &a->attr);
        break;
    case NFS4_ATTR_LEASE_TIME:
        a->lease_s = xdr_get_u32(r);
        break;
    case NFS4_ATTR_FILEID:
        a->attr.fileid = xdr_get_u64(r);
        break;
    case NFS4_ATTR_MAXFILESIZE:
        a->maxfilesize = xdr_get_u64(r);
        break;
    case NFS4_ATTR_MAXREAD:
        a->maxread = xdr_get_u64(r);
        break;
    case NFS4_ATTR_MAXWRITE:
        a->maxwrite = xdr_get_u64(r);
        break;
    case NFS4_ATTR_SPACE_USED:
        a->attr.used = xdr_get_u64(r);
        break;
    case NFS4_ATTR_TIME_ACCESS:
        get_time(r, &a->attr.atime);
        break;
    case NFS4_ATTR_TIME_DELTA:
        get_time(r, &a->time_delta);
        break;
    case NFS4_ATTR_TIME_METADATA:
        get_time(r, &a->attr.ctime);
        break;
    case NFS4_ATTR_TIME_MODIFY:
        get_time(r, &a->attr.mtime);
        break;
    case NFS4_ATTR_MOUNTED_ON_FILEID:
        a->mounted_on = xdr_get_u64(r);
        break;
    case NFS4_ATTR_FS_LAYOUT_TYPES:
        a->layouts = get_layout_types(r);
        break;
    default: /* its length is not known */
        xdr_reader_fail(r);
    }
}

void nfs4_get_attributes(struct xdr_reader *r, uint64_t asked, uint64_t needed,
                         struct nfs4_attributes *attributes)
{
    memset(attributes, 0, sizeof(*attributes));
    attributes->present = get_bitmap(r, asked);
    uint32_t length = xdr_get_u32(r);
    if (length > xdr_reader_left(r) || (attributes->present & needed) != needed) {
        xdr_reader_fail(r);
        return;
    }
    const uint8_t *end = r->p + length;
    for (uint64_t left = attributes->present; left != 0 && !r->bad; left &= left - 1)
        get_attribute(r, (unsigned)__builtin_ctzll(left), attributes);
    if (r->p != end)
        xdr_reader_fail(r);
    if (!(attributes->present & NFS4_BIT(NFS4_ATTR_SPACE_USED)))
        attributes->attr.used = attributes->attr.size;
    if (!(attributes->present & NFS4_BIT(NFS4_ATTR_TIME_ACCESS)))
        attributes->attr.atime = attributes->attr.mtime;
}

void nfs4_get_read(struct xdr_reader *r, uint32_t asked, uint32_t *count, bool *eof)
{
    *eof = xdr_get_bool(r);
    *count = xdr_get_u32(r);
    if (*count > asked)
        xdr_reader_fail(r);
}

void nfs4_get_write(struct xdr_reader *r, uint32_t asked, uint32_t *count, uint32_t *committed,
                    uint64_t *verifier)
{
    *count = xdr_get_u32(r);
    if (*count > asked)
        xdr_reader_fail(r);
    *committed = nfs3_get_enum(r, NFS_UNSTABLE, NFS_FILE_SYNC);
    *verifier = get_verifier(r);
}

void nfs4_get_commit(struct xdr_reader *r, uint64_t *verifier)
{
    *verifier = get_verifier(r);
}

void nfs4_get_set(struct xdr_reader *r)
{
    get_bitmap(r, UINT64_MAX);
}

/* An ACE of a delegation: type, flag, mask, and a name. */
static void skip_ace(struct xdr_reader *r)
{
    uint32_t length;
    xdr_get_room(r, 12);
    xdr_get_opaque(r, NFS4_OPAQUE_MAX, &length);
}

/* Delegations are not wanted; a server may give one. */
static void skip_delegation(struct xdr_reader *r)
{
    enum { NONE, READ, WRITE, NONE_EXT, CONTENTION = 1, RESOURCE = 2, LIMIT_SIZE = 1 };
    uint32_t type = xdr_get_u32(r);
    if (type == READ || type == WRITE) {
        xdr_get_room(r, NFS4_STATEID);
        xdr_get_bool(r); /* recalled at once */
        if (type == WRITE) {
            xdr_get_u32(r); /* the limit: a size, or two words; 8 bytes each */
            xdr_get_room(r, 8);
        }
        skip_ace(r);
    } else if (type == NONE_EXT) {
        uint32_t why = xdr_get_u32(r);
        if (why == CONTENTION || why == RESOURCE)
            xdr_get_bool(r);
    } else if (type != NONE) {
        xdr_reader_fail(r);
    }
}

void nfs4_get_open(struct xdr_reader *r, struct nfs4_stateid *stateid)
{
    const uint8_t *at = xdr_get_room(r, NFS4_STATEID);
    if (at)
        memcpy(stateid->bytes, at, NFS4_STATEID);
    xdr_get_bool(r); /* change_info4 of the directory */
    xdr_get_room(r, 16);
    xdr_get_u32(r); /* rflags */
    get_bitmap(r, UINT64_MAX);
    skip_delegation(r);
}

void nfs4_get_close(struct xdr_reader *r)
{
    xdr_get_room(r, NFS4_STATEID);
}

static void get_opaque(struct xdr_reader *r, struct nfs4_opaque *opaque)
{
    const uint8_t *data = xdr_get_opaque(r, NFS4_OPAQUE_MAX, &opaque->length);
    if (data)
        memcpy(opaque->data, data, opaque->length);
}

/* nfs_impl_id4: a domain, a name, a date. */
static void skip_implementation(struct xdr_reader *r)
{
    uint32_t count = xdr_get_u32(r), length;
    if (count > 1)
        xdr_reader_fail(r);
    if (count != 1)
        return;
    xdr_get_opaque(r, NFS4_OPAQUE_MAX, &length);
    xdr_get_opaque(r, NFS4_OPAQUE_MAX, &length);
    xdr_get_room(r, 12);
}

void nfs4_get_exchange_id(struct xdr_reader *r, struct nfs4_exchange_id *exchange)
{
    exchange->client = xdr_get_u64(r);
    exchange->sequence = xdr_get_u32(r);
    exchange->flags = xdr_get_u32(r);
    if (xdr_get_u32(r) != 0) /* another protection of the state than was asked for */
        xdr_reader_fail(r);
    exchange->minor = xdr_get_u64(r);
    get_opaque(r, &exchange->major);
    get_opaque(r, &exchange->scope);
    skip_implementation(r);
}

static void get_channel(struct xdr_reader *r, struct nfs4_channel *channel)
{
    xdr_get_u32(r); /* padding before a payload */
    channel->request_max = xdr_get_u32(r);
    channel->response_max = xdr_get_u32(r);
    channel->cached_max = xdr_get_u32(r);
    channel->operations = xdr_get_u32(r);
    channel->requests = xdr_get_u32(r);
    uint32_t rdma = xdr_get_u32(r);
    if (rdma > 1)
        xdr_reader_fail(r);
    xdr_get_room(r, 4 * rdma);
}

void nfs4_get_create_session(struct xdr_reader *r, struct nfs4_create_session *session)
{
    struct nfs4_channel back;
    get_session(r, session->session);
    session->sequence = xdr_get_u32(r);
    session->flags = xdr_get_u32(r);
    get_channel(r, &session->fore);
    get_channel(r, &back);
}

void nfs4_get_bind(struct xdr_reader *r, uint8_t session[NFS4_SESSION_ID])
{
    get_session(r, session);
    xdr_get_u32(r);  /* the direction */
    xdr_get_bool(r); /* RDMA */
}
