/* See memv41.h. */
#include "memv41.h"

#define OPERATIONS_MOST 16u
#define OVERHEAD        4096u // of a request or reply beside its payload
#define LEASE_SECONDS   90u
// Attributes

#define SUPPORTED                                                                      \
    (V41_BIT(A_SUPPORTED) | V41_BIT(A_TYPE) | V41_BIT(A_CHANGE) | V41_BIT(A_SIZE) |    \
     V41_BIT(A_FSID) | V41_BIT(A_LEASE) | V41_BIT(A_FILEID) | V41_BIT(A_MAXFILESIZE) | \
     V41_BIT(A_MAXREAD) | V41_BIT(A_MAXWRITE) | V41_BIT(A_MODE) | V41_BIT(A_LINKS) |   \
     V41_BIT(A_SPACE) | V41_BIT(A_ATIME) | V41_BIT(A_DELTA) | V41_BIT(A_CTIME) |       \
     V41_BIT(A_MTIME) | V41_BIT(A_MOUNTED))

uint64_t get_bitmap(struct wire_reader *r)
{
    uint64_t bits = 0;
    uint32_t words = wire_get32(r);
    for (uint32_t i = 0; i < words && !r->bad; i++) {
        uint64_t word = wire_get32(r);
        if (i < 2)
            bits |= word << 32 * i;
    }
    return bits;
}

static void put_bitmap(struct wire_writer *w, uint64_t bits)
{
    wire_put32(w, 2);
    wire_put32(w, (uint32_t)bits);
    wire_put32(w, (uint32_t)(bits >> 32));
}

static void put_time41(struct wire_writer *w, const struct timespec *t)
{
    wire_put64(w, (uint64_t)t->tv_sec);
    wire_put32(w, (uint32_t)t->tv_nsec);
}

// Another number after each change.
static uint64_t change_of_file(const struct file *f)
{
    return (uint64_t)f->st.st_ctim.tv_sec * 1000000000u + (uint64_t)f->st.st_ctim.tv_nsec +
           f->stores;
}

static void put_attribute(struct wire_writer *w, const struct file *f, int attribute)
{
    static const struct timespec delta = {0, 1};
    const struct stat *st = &f->st;
    switch (attribute) {
    case A_SUPPORTED:
        put_bitmap(w, SUPPORTED);
        break;
    case A_TYPE:
        wire_put32(w, file_type(st));
        break;
    case A_CHANGE:
        wire_put64(w, change_of_file(f));
        break;
    case A_SIZE:
        wire_put64(w, (uint64_t)st->st_size);
        break;
    case A_FSID:
        wire_put64(w, st->st_dev);
        wire_put64(w, 0);
        break;
    case A_LEASE:
        wire_put32(w, memory.lease_s ? memory.lease_s : LEASE_SECONDS);
        break;
    case A_FILEID:
    case A_MOUNTED:
        wire_put64(w, st->st_ino);
        break;
    case A_MAXFILESIZE:
        wire_put64(w, INT64_MAX);
        break;
    case A_MAXREAD:
    case A_MAXWRITE:
        wire_put64(w, server.most);
        break;
    case A_MODE:
        wire_put32(w, st->st_mode & 07777);
        break;
    case A_LINKS:
        wire_put32(w, (uint32_t)st->st_nlink);
        break;
    case A_SPACE:
        wire_put64(w, (uint64_t)st->st_blocks * 512);
        break;
    case A_DELTA:
        put_time41(w, &delta);
        break;
    default:
        put_time41(w, attribute == A_ATIME   ? &st->st_atim
                      : attribute == A_CTIME ? &st->st_ctim
                                             : &st->st_mtim);
    }
}

// What a write through the mapping changed of them may be a clock tick old.
static uint32_t op_getattr(struct compound *c)
{
    uint64_t asked = get_bitmap(c->args) & SUPPORTED;
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    if (file_refresh_if_old(c->file) < 0) {
        c->file = NULL;
        return NFS_STALE;
    }
    wire_put32(c->w, NFS_OK);
    put_bitmap(c->w, asked);
    unsigned char *length = wire_put_room(c->w, 4);
    for (uint64_t left = asked; left; left &= left - 1)
        put_attribute(c->w, c->file, __builtin_ctzll(left));
    if (!c->w->bad)
        wire_store32(length, (uint32_t)(c->w->at - length - 4));
    return NFS_OK;
}

// Of the number of changes only.
static uint32_t op_verify(struct compound *c)
{
    uint64_t asked = get_bitmap(c->args);
    wire_get32(c->args);
    if (asked != V41_BIT(A_CHANGE))
        return V41_ERR_ATTRNOTSUPP;
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    if (file_refresh(c->file) < 0) {
        c->file = NULL;
        return NFS_STALE;
    }
    return wire_get64(c->args) == change_of_file(c->file) ? NFS_OK : V41_ERR_NOT_SAME;
}

// Changes size and mode.
static uint32_t op_setattr(struct compound *c)
{
    struct new_attributes attributes = {0};
    uint32_t status = NFS_OK;
    wire_get_bytes(c->args, V41_ID_BYTES);
    uint64_t bits = get_bitmap(c->args);
    wire_get32(c->args); // bytes of the attributes
    if (bits & ~(V41_BIT(A_SIZE) | V41_BIT(A_MODE)))
        status = V41_ERR_ATTRNOTSUPP; // and what follows is not looked at
    if (!status && (attributes.set_size = bits & V41_BIT(A_SIZE)))
        attributes.size = wire_get64(c->args);
    if (!status && (attributes.set_mode = bits & V41_BIT(A_MODE)))
        attributes.mode = wire_get32(c->args) & 07777;
    attributes.times[0].tv_nsec = attributes.times[1].tv_nsec = UTIME_OMIT;
    if (!status && memory.grace)
        status = V41_ERR_GRACE;
    if (!status && !c->file)
        status = V41_ERR_NOFILEHANDLE;
    if (!status && !c->args->bad)
        status = status_of(apply_attributes(c->file, &attributes));
    wire_put32(c->w, status);
    put_bitmap(c->w, status ? 0 : bits);
    return status;
}

// Handles and names

static uint32_t op_putfh(struct compound *c)
{
    uint32_t status;
    c->file = get_fresh_file(c->args, false, &status);
    return status;
}

static uint32_t op_putrootfh(struct compound *c)
{
    c->file = files.root;
    return status_of(file_refresh(c->file));
}

static uint32_t op_getfh(struct compound *c)
{
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    wire_put32(c->w, NFS_OK);
    put_handle(c->w, c->file);
    return NFS_OK;
}

static uint32_t op_lookup(struct compound *c)
{
    int error;
    char name[NAME_MAX + 1];
    get_name(c->args, name, &error);
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    return status_of(error ? error : file_lookup(c->file, name, &c->file));
}

static uint32_t op_access(struct compound *c)
{
    uint32_t asked = wire_get32(c->args);
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    wire_put32(c->w, NFS_OK);
    wire_put32(c->w, asked);
    wire_put32(c->w, access_granted(&c->file->st, c->who) & asked);
    return NFS_OK;
}

static uint32_t op_secinfo(struct compound *c)
{
    wire_get32(c->args);
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    c->file = NULL; // RFC 8881, section 18.45.3
    wire_put32(c->w, NFS_OK);
    wire_put32(c->w, 1);
    wire_put32(c->w, RPC_AUTH_SYS);
    return NFS_OK;
}

// Data

static uint32_t op_read(struct compound *c)
{
    wire_get_bytes(c->args, V41_ID_BYTES);
    uint64_t offset = wire_get64(c->args);
    struct span span = {offset, wire_get32(c->args), false};
    if (c->left)
        return V41_ERR_RESOURCE;
    if (memory.grace)
        return V41_ERR_GRACE;
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    uint32_t status = c->args->bad ? NFS_INVAL : file_span(&c->file, &span);
    if (status)
        return status;
    wire_put32(c->w, NFS_OK);
    wire_put32(c->w, span.ends);
    wire_put32(c->w, span.count);
    if (span.count)
        *c->payload = (struct payload){c->file->map + offset, span.count};
    server.read_bytes += span.count;
    return NFS_OK;
}

static uint32_t op_write(struct compound *c)
{
    uint32_t length;
    wire_get_bytes(c->args, V41_ID_BYTES);
    uint64_t offset = wire_get64(c->args);
    uint32_t stable = wire_get32(c->args);
    const unsigned char *data = wire_get_opaque(c->args, TRANSFER_MOST, &length);
    if (!data || stable > NFS_FILE_SYNC)
        return NFS_INVAL;
    if (memory.grace)
        return V41_ERR_GRACE;
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    uint32_t status = file_put_data(&c->file, data, &length, offset, stable);
    if (status)
        return status;
    wire_put32(c->w, NFS_OK);
    wire_put32(c->w, length);
    wire_put32(c->w, stable);
    wire_put_bytes(c->w, server.verifier, sizeof server.verifier);
    return NFS_OK;
}

static uint32_t op_commit(struct compound *c)
{
    wire_get64(c->args);
    wire_get32(c->args);
    if (!c->file)
        return V41_ERR_NOFILEHANDLE;
    uint32_t status = file_commit(c->file);
    if (status)
        return status;
    wire_put32(c->w, NFS_OK);
    wire_put_bytes(c->w, server.verifier, sizeof server.verifier);
    return NFS_OK;
}

// Sessions

static uint32_t op_exchange_id(struct compound *c)
{
    static const char name[] = "memserver";
    uint32_t length;
    uint64_t verifier = wire_get64(c->args);
    const unsigned char *owner = wire_get_opaque(c->args, V41_OWNER_MOST, &length);
    wire_get32(c->args);
    if (wire_get32(c->args) != 0) // no protection of state
        return NFS_INVAL;
    if (wire_get_bool(c->args)) { // what the client is called
        uint32_t unused;
        wire_get_opaque(c->args, V41_OWNER_MOST, &unused);
        wire_get_opaque(c->args, V41_OWNER_MOST, &unused);
        wire_get_bytes(c->args, 12);
    }
    struct owner *client = owner ? owner_of(owner, length, verifier) : NULL;
    if (!client)
        return NFS_SERVERFAULT;
    wire_put32(c->w, NFS_OK);
    wire_put64(c->w, client->id);
    wire_put32(c->w, client->sequence);
    wire_put32(c->w, V41_EXCHGID_NON_PNFS | (client->sequence > 1 ? V41_EXCHGID_CONFIRMED : 0));
    wire_put32(c->w, 0);
    wire_put64(c->w, 0);
    wire_put_opaque(c->w, name, sizeof name - 1);
    wire_put_opaque(c->w, name, sizeof name - 1);
    wire_put32(c->w, 0);
    return NFS_OK;
}

struct channel41 {
    uint32_t padding, request, response, cached, operations, requests;
};

static void get_channel(struct wire_reader *r, struct channel41 *channel)
{
    channel->padding = wire_get32(r);
    channel->request = wire_get32(r);
    channel->response = wire_get32(r);
    channel->cached = wire_get32(r);
    channel->operations = wire_get32(r);
    channel->requests = wire_get32(r);
    if (wire_get32(r) > 0) // RDMA
        wire_get32(r);
}

static void put_channel(struct wire_writer *w, const struct channel41 *channel)
{
    wire_put32(w, 0);
    wire_put32(w, channel->request);
    wire_put32(w, channel->response);
    wire_put32(w, channel->cached);
    wire_put32(w, channel->operations);
    wire_put32(w, channel->requests);
    wire_put32(w, 0);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t slots_now(void)
{
    return memory.slots ? least(memory.slots, V41_SLOTS) : V41_SLOTS;
}

// How it wants to be called back is not looked at: nobody is.
static uint32_t op_create_session(struct compound *c)
{
    struct channel41 fore, back;
    struct owner *client = owner_find(wire_get64(c->args));
    uint32_t sequence = wire_get32(c->args);
    wire_get32(c->args);
    get_channel(c->args, &fore);
    get_channel(c->args, &back);
    if (c->args->bad || !fore.requests)
        return NFS_INVAL;
    if (!client)
        return V41_ERR_STALE_CLIENTID;
    if (sequence != client->sequence)
        return V41_ERR_SEQ_MISORDERED;
    fore.request = least(fore.request, server.most + OVERHEAD);
    fore.response = least(fore.response, server.most + OVERHEAD);
    fore.cached = least(fore.cached, KEPT_MOST);
    fore.operations = least(fore.operations, OPERATIONS_MOST);
    fore.requests = least(fore.requests, slots_now());
    int64_t number = session_new(client, fore.requests);
    if (number < 0)
        return NFS_SERVERFAULT;
    client->sequence++;
    wire_put32(c->w, NFS_OK);
    session_put_id(c->w, (uint32_t)number);
    wire_put32(c->w, sequence);
    wire_put32(c->w, 0);
    put_channel(c->w, &fore);
    put_channel(c->w, &back);
    return NFS_OK;
}

static uint32_t op_bind(struct compound *c)
{
    uint32_t number;
    struct session *session = session_get(c->args, &number);
    wire_get32(c->args);
    wire_get_bool(c->args);
    if (!session)
        return V41_ERR_BADSESSION;
    wire_put32(c->w, NFS_OK);
    session_put_id(c->w, number);
    wire_put32(c->w, 1); // for calls of the client
    wire_put32(c->w, 0);
    return NFS_OK;
}

static uint32_t op_destroy_session(struct compound *c)
{
    uint32_t number;
    if (!session_get(c->args, &number))
        return V41_ERR_BADSESSION;
    session_end(number);
    return NFS_OK;
}

static uint32_t op_destroy_client(struct compound *c)
{
    struct owner *client = owner_find(wire_get64(c->args));
    if (!client)
        return V41_ERR_STALE_CLIENTID;
    owner_end(client);
    return NFS_OK;
}

static uint32_t op_reclaim_complete(struct compound *c)
{
    wire_get_bool(c->args);
    return NFS_OK;
}

static uint32_t op_sequence(struct compound *c)
{
    uint32_t number;
    struct session *session = session_get(c->args, &number);
    uint32_t sequence = wire_get32(c->args), slot = wire_get32(c->args);
    wire_get32(c->args);
    c->keep = wire_get_bool(c->args);
    if (!session)
        return V41_ERR_BADSESSION;
    if (slot >= session->slots)
        return V41_ERR_BADSLOT;
    c->slot = &session->slot[slot];
    c->again = sequence == c->slot->sequence;
    if (c->again)
        return c->slot->kept ? NFS_OK : V41_ERR_RETRY_UNCACHED_REP;
    if (sequence != c->slot->sequence + 1)
        return V41_ERR_SEQ_MISORDERED;
    c->slot->sequence = sequence;
    c->slot->kept = 0;
    wire_put32(c->w, NFS_OK);
    session_put_id(c->w, number);
    wire_put32(c->w, sequence);
    wire_put32(c->w, slot);
    wire_put32(c->w, session->slots - 1);
    wire_put32(c->w, least(session->slots, slots_now()) - 1);
    wire_put32(c->w, 0);
    return NFS_OK;
}

// Operations that have no results but a status, where they went well too, do not write it
// themselves.
static const struct {
    operation41 *run;
    bool status_only, alone; // it needs no session
    int counted;             // as this procedure of version 3
} operations41[V41_RECLAIM_COMPLETE + 1] = {
    [V41_ACCESS] = {.run = op_access, .counted = NFS_ACCESS},
    [V41_COMMIT] = {.run = op_commit, .counted = NFS_COMMIT},
    [V41_GETATTR] = {.run = op_getattr},
    [V41_GETFH] = {.run = op_getfh},
    [V41_LOOKUP] = {.run = op_lookup, .status_only = true, .counted = NFS_LOOKUP},
    [V41_PUTFH] = {.run = op_putfh, .status_only = true},
    [V41_PUTROOTFH] = {.run = op_putrootfh, .status_only = true},
    [V41_READ] = {.run = op_read, .counted = NFS_READ},
    [V41_SETATTR] = {.run = op_setattr, .counted = NFS_SETATTR},
    [V41_VERIFY] = {.run = op_verify, .status_only = true},
    [V41_WRITE] = {.run = op_write, .counted = NFS_WRITE},
    [V41_BIND_CONN_TO_SESSION] = {.run = op_bind, .alone = true},
    [V41_EXCHANGE_ID] = {.run = op_exchange_id, .alone = true},
    [V41_CREATE_SESSION] = {.run = op_create_session, .alone = true},
    [V41_DESTROY_SESSION] = {.run = op_destroy_session, .status_only = true, .alone = true},
    [V41_SECINFO_NO_NAME] = {.run = op_secinfo},
    [V41_SEQUENCE] = {.run = op_sequence, .alone = true},
    [V41_DESTROY_CLIENTID] = {.run = op_destroy_client, .status_only = true, .alone = true},
    [V41_RECLAIM_COMPLETE] = {.run = op_reclaim_complete, .status_only = true},
};

// Carries out the next operation, and writes what it answers.
static uint32_t operation_run(struct compound *c, uint32_t op)
{
    bool known = op < sizeof operations41 / sizeof *operations41 && operations41[op].run;
    unsigned char *start = c->w->at;
    wire_put32(c->w, known ? op : V41_ILLEGAL);
    unsigned char *results = c->w->at;
    uint32_t status = !known                                ? V41_ILLEGAL
                      : !c->slot && !operations41[op].alone ? V41_ERR_OP_NOT_IN_SESSION
                                                            : odd_status(op);
    if (!status)
        status = operations41[op].run(c);
    if (known && operations41[op].counted)
        server.nfs_calls[operations41[op].counted]++;
    if (c->again && !status) // what was answered then takes the place of all
        c->w->at = start;
    else if (c->w->at == results)
        wire_put32(c->w, status);
    if (odd && !status && !c->again)
        odd_answer(op, results + 4);
    return status;
}

void do_compound(struct wire_reader *args, struct wire_writer *w, const struct credential *who,
                 struct payload *payload)
{
    struct compound c = {.args = args, .w = w, .who = who, .payload = payload};
    uint32_t length, status = NFS_OK, done = 0;
    const unsigned char *tag = wire_get_opaque(args, V41_TAG_MOST, &length);
    uint32_t minor = wire_get32(args), operations = wire_get32(args);
    unsigned char *start = wire_put_room(w, 4);
    memory.told_again = false;
    if (odd)
        odd->mute = false;
    if (!start || !tag || length > 64 || operations > OPERATIONS_MOST) {
        args->bad = true;
        return;
    }
    wire_put_opaque(w, tag, length);
    unsigned char *count = wire_put_room(w, 4);
    if (minor != (odd && odd->minor ? odd->minor : V41_MINOR)) {
        status = V41_ERR_MINOR_VERS_MISMATCH;
        operations = 0;
    }
    while (done < operations && !status && !args->bad) {
        c.left = operations - done - 1;
        status = operation_run(&c, wire_get32(args));
        if (c.again && !status) {
            w->at = start;
            wire_put_bytes(w, c.slot->reply, c.slot->kept);
            args->at = args->end;
            memory.told_again = true;
            return;
        }
        done++;
    }
    server.compounds++;
    if (w->bad)
        return;
    wire_store32(start, status);
    wire_store32(count, done);
    size_t whole = (size_t)(w->at - start);
    if (c.slot && c.keep && !c.again && whole <= KEPT_MOST && !payload->length) {
        memcpy(c.slot->reply, start, whole);
        c.slot->kept = (uint32_t)whole;
    }
}
