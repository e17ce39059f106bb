/* See v41_files.h. */
#include "v41_files.h"

/* ---- state ---- */

static void v41_put_stateid(struct v41_call *call, const struct v41_open *open)
{
    v41_set_word(call->stateid, open->sequence);
    memcpy(call->stateid + 4, open->other, 12);
    v41_put_fixed(&call->out, call->stateid, 16);
}

static struct v41_open *v41_open_of(struct v41_call *call, const uint8_t *stateid)
{
    for (unsigned i = 0; i < V41_OPENS; i++) {
        struct v41_open *open = &call->state->opens[i];
        if (open->sequence && open->client == call->session->client &&
            memcmp(open->other, stateid + 4, 12) == 0)
            return open;
    }
    return NULL;
}

/* "1, and zeroes" is the one that the COMPOUND itself has got before. */
static const uint8_t *v41_meant(const struct v41_call *call, const uint8_t *stateid)
{
    static const uint8_t current[16] = {[3] = 1};
    return memcmp(stateid, current, 16) == 0 ? call->stateid : stateid;
}

/* May it read (1) or write (2)? See 8.2.3 for the special ones. */
static uint32_t v41_permits(struct v41_call *call, const uint8_t *given, uint32_t share)
{
    static const uint8_t anonymous[16];
    uint8_t bypass[16];
    memset(bypass, 0xff, sizeof(bypass));
    const uint8_t *stateid = v41_meant(call, given);
    if (memcmp(stateid, anonymous, 16) == 0 || (share == 1 && memcmp(stateid, bypass, 16) == 0))
        return atomic_load(&call->control->insist_open) ? V41_BAD_STATEID : V41_OK;
    const struct v41_open *open = v41_open_of(call, stateid);
    uint32_t sequence = v41_word_at(stateid);
    if (!open || open->node != call->current->id || sequence > open->sequence)
        return V41_BAD_STATEID;
    if (sequence != 0 && sequence < open->sequence)
        return V41_OLD_STATEID;
    return open->share & share ? V41_OK : V41_OPENMODE;
}

void v41_get_open(struct v41_in *in, struct v41_open_arguments *open)
{
    enum { UNCHECKED, GUARDED, EXCLUSIVE, EXCLUSIVE_41 };
    memset(open, 0, sizeof(*open));
    v41_u32(in); /* a sequence that version 4.1 does not use */
    open->share = v41_u32(in);
    open->deny = v41_u32(in);
    open->client = v41_u64(in);
    open->owner = v41_opaque(in, V41_OWNER_MOST);
    open->create = v41_bool(in);
    if (open->create) {
        open->how = v41_u32(in);
        in->bad = in->bad || open->how > EXCLUSIVE_41;
        if (open->how == EXCLUSIVE || open->how == EXCLUSIVE_41)
            v41_take(in, 8);
        if (open->how != EXCLUSIVE)
            v41_get_changes(in, &open->changes);
    }
    open->claim = v41_u32(in);
    if (open->claim == 0)
        open->name = v41_opaque(in, V41_NAME - 1);
    else if (open->claim == 1)
        v41_u32(in);
}

/* The file that is to be opened becomes the current one. */
static uint32_t v41_open_file(struct v41_call *call, const struct v41_open_arguments *open)
{
    enum { NAME = 0, HANDLE = 4 };
    if (!call->current)
        return V41_NOFILEHANDLE;
    if (open->claim != NAME && open->claim != HANDLE)
        return open->claim == 1 ? V41_NO_GRACE : V41_NOTSUPP;
    if (open->claim == NAME) {
        struct v41_node *parent = call->current;
        if (!parent->directory)
            return V41_NOTDIR;
        struct v41_node *node =
            v41_child(&call->state->store, parent, open->name.data, open->name.length);
        if (!node && !open->create)
            return V41_NOENT;
        if (node && open->create && open->how != 0)
            return V41_EXIST;
        if (!node) {
            char name[V41_NAME] = "";
            memcpy(name, open->name.data, open->name.length);
            node = v41_node_new(&call->state->store, parent, name, false);
            if (!node)
                return V41_NOSPC;
            v41_change(node, &open->changes);
        } else if (open->create && v41_has(&open->changes.set, 4)) {
            v41_node_cut(node, open->changes.size);
        }
        call->current = node;
    }
    return call->current->directory ? V41_ISDIR : V41_OK;
}

uint32_t v41_open(struct v41_call *call)
{
    struct v41_open_arguments arguments;
    v41_get_open(&call->in, &arguments);
    uint32_t share = arguments.share & 3;
    if (call->in.bad)
        return V41_BADXDR;
    /* Nor does a client get new state before it has reclaimed its old: 18.51.3. */
    const struct v41_client *client = v41_client_of(call->state, call->session->client);
    if (atomic_load(&call->control->grace) || !client->complete)
        return V41_GRACE;
    if (share == 0 || arguments.deny > 3)
        return V41_INVAL;
    uint64_t before = call->current ? call->current->change : 0;
    struct v41_node *parent = call->current;
    uint32_t status = v41_open_file(call, &arguments);
    if (status != V41_OK)
        return status;
    struct v41_open *found = NULL;
    for (unsigned i = 0; i < V41_OPENS; i++) {
        struct v41_open *open = &call->state->opens[i];
        if (open->sequence && open->node == call->current->id &&
            open->client == call->session->client && open->owner_length == arguments.owner.length &&
            memcmp(open->owner, arguments.owner.data, open->owner_length) == 0) {
            found = open;
            break;
        }
        if (!open->sequence && !found)
            found = open;
    }
    if (!found)
        return V41_NOSPC;
    if (!found->sequence) {
        *found = (struct v41_open){.client = call->session->client, .node = call->current->id};
        uint64_t number = ++call->state->numbers;
        memcpy(found->other, "open", 4);
        memcpy(found->other + 4, &number, 8);
        memcpy(found->owner, arguments.owner.data, arguments.owner.length);
        found->owner_length = arguments.owner.length;
    }
    found->sequence++;
    found->share |= share;
    v41_put_stateid(call, found);
    put_word(&call->out, 1);
    v41_put64(&call->out, before);
    v41_put64(&call->out, parent->change);
    put_word(&call->out, 4); /* OPEN4_RESULT_LOCKTYPE_POSIX */
    v41_put_bitmap(&call->out, &arguments.changes.set);
    put_word(&call->out, 0); /* no delegation */
    return V41_OK;
}

uint32_t v41_close(struct v41_call *call)
{
    v41_u32(&call->in);
    const uint8_t *given = v41_take(&call->in, 16);
    if (call->in.bad)
        return V41_BADXDR;
    if (!call->current)
        return V41_NOFILEHANDLE;
    struct v41_open *open = v41_open_of(call, v41_meant(call, given));
    if (!open || open->node != call->current->id)
        return V41_BAD_STATEID;
    open->sequence = 0;
    static const uint8_t invalid[16] = {0xff, 0xff, 0xff, 0xff}; /* 18.2.4 */
    v41_put_fixed(&call->out, invalid, 16);
    return V41_OK;
}

uint32_t v41_test_stateid(struct v41_call *call)
{
    uint32_t count = v41_u32(&call->in);
    if (call->in.bad || count > 64)
        return V41_BADXDR;
    put_word(&call->out, count);
    for (uint32_t i = 0; i < count; i++)
        put_word(&call->out, v41_open_of(call, v41_take(&call->in, 16)) ? V41_OK : V41_BAD_STATEID);
    return call->in.bad ? V41_BADXDR : V41_OK;
}

uint32_t v41_free_stateid(struct v41_call *call)
{
    v41_take(&call->in, 16);
    return call->in.bad ? V41_BADXDR : V41_BAD_STATEID;
}

uint32_t v41_setattr(struct v41_call *call)
{
    struct v41_changes changes;
    const uint8_t *stateid = v41_take(&call->in, 16);
    v41_get_changes(&call->in, &changes);
    uint32_t status = call->in.bad ? V41_BADXDR : !call->current ? V41_NOFILEHANDLE : V41_OK;
    if (status == V41_OK && v41_has(&changes.set, 4))
        status = call->current->directory       ? V41_ISDIR
                 : changes.size > V41_FILE_MOST ? V41_FBIG
                                                : v41_permits(call, stateid, 2);
    if (status == V41_OK)
        v41_change(call->current, &changes);
    else
        changes.set = (struct v41_bitmap){{0}};
    v41_put_bitmap(&call->out, &changes.set); /* also when it fails */
    return status;
}

/* ---- data ---- */

static uint32_t v41_of_file(const struct v41_call *call)
{
    return !call->current ? V41_NOFILEHANDLE : call->current->directory ? V41_ISDIR : V41_OK;
}

uint32_t v41_read(struct v41_call *call)
{
    const uint8_t *stateid = v41_take(&call->in, 16);
    uint64_t offset = v41_u64(&call->in);
    uint32_t count = v41_u32(&call->in), most = atomic_load(&call->control->short_read);
    uint32_t status = call->in.bad ? V41_BADXDR : v41_of_file(call);
    if (status == V41_OK)
        status = v41_permits(call, stateid, 1);
    if (status != V41_OK)
        return status;
    struct v41_node *node = call->current;
    uint64_t left = offset < node->size ? node->size - offset : 0;
    uint32_t length = (uint64_t)count < left ? count : (uint32_t)left;
    length = most && most < length ? most : length;
    if (call->keep && length + call->out.length + 64 > call->session->fore.cached_most)
        return V41_REP_TOO_BIG_TO_CACHE;
    if (length + call->out.length + 64 > call->session->fore.response_most)
        return V41_REP_TOO_BIG;
    unsigned lie = atomic_load(&call->control->lie);
    if (lie == V41_NO_READ)
        length = 0;
    put_word(&call->out, lie != V41_NO_READ && length == left);
    if (lie == V41_MORE_READ) {
        put_word(&call->out, count + 1);
        memset(bytes_add(&call->out, (count + 4) & ~(size_t)3), 0x66, (count + 4) & ~(size_t)3);
    } else {
        v41_put_opaque(&call->out, length ? node->data + offset : NULL, length);
    }
    return V41_OK;
}

static void v41_put_verifier(struct v41_call *call)
{
    struct v41_control *control = call->control;
    uint64_t verifier = atomic_load(&control->restless) ? atomic_fetch_add(&control->verifier, 1)
                                                        : atomic_load(&control->verifier);
    v41_put_fixed(&call->out, &verifier, 8);
}

uint32_t v41_write(struct v41_call *call)
{
    struct v41_control *control = call->control;
    const uint8_t *stateid = v41_take(&call->in, 16);
    uint64_t offset = v41_u64(&call->in), full_at = atomic_load(&control->full_at);
    uint32_t stable = v41_u32(&call->in), most = atomic_load(&control->short_write);
    struct v41_bytes data = v41_opaque(&call->in, V41_FILE_MOST);
    uint32_t status = call->in.bad || stable > 2 ? V41_BADXDR : v41_of_file(call);
    if (status == V41_OK)
        status = v41_permits(call, stateid, 2);
    if (status == V41_OK && (offset > V41_FILE_MOST || offset + data.length > V41_FILE_MOST))
        status = V41_FBIG;
    if (status == V41_OK && full_at && offset + data.length > full_at)
        status = V41_NOSPC;
    if (status != V41_OK)
        return status;
    unsigned lie = atomic_load(&control->lie);
    data.length = most && most < data.length ? most : data.length;
    data.length = lie == V41_NO_WRITTEN ? 0 : data.length;
    uint32_t committed = atomic_load(&control->committed);
    committed = committed > stable ? committed : stable;
    v41_node_write(call->current, data, offset, committed > 0);
    atomic_fetch_add(&control->writes[stable], 1);
    put_word(&call->out, data.length + (lie == V41_MORE_WRITTEN));
    put_word(&call->out, lie == V41_WEAK_WRITTEN && stable > 0 ? stable - 1 : committed);
    v41_put_verifier(call);
    return V41_OK;
}

uint32_t v41_commit(struct v41_call *call)
{
    v41_u64(&call->in);
    v41_u32(&call->in);
    uint32_t status = call->in.bad ? V41_BADXDR : v41_of_file(call);
    if (status != V41_OK)
        return status;
    v41_node_commit(call->current);
    v41_put_verifier(call);
    return V41_OK;
}

/* ---- names and handles ---- */

uint32_t v41_putfh(struct v41_call *call)
{
    uint32_t status;
    struct v41_bytes handle = v41_opaque(&call->in, V41_HANDLE_MOST);
    if (call->in.bad)
        return V41_BADXDR;
    struct v41_node *node = v41_handle_node(&call->state->store, call->control, handle, &status);
    if (node)
        call->current = node;
    return status;
}

uint32_t v41_lookup(struct v41_call *call)
{
    struct v41_bytes name = v41_opaque(&call->in, 255);
    if (call->in.bad)
        return V41_BADXDR;
    if (!call->current)
        return V41_NOFILEHANDLE;
    if (name.length == 0)
        return V41_INVAL;
    if (!call->current->directory)
        return V41_NOTDIR;
    struct v41_node *node = v41_child(&call->state->store, call->current, name.data, name.length);
    if (node)
        call->current = node;
    return node ? V41_OK : V41_NOENT;
}

uint32_t v41_handles(struct v41_call *call, uint32_t op)
{
    if (op == V41_PUTROOTFH)
        call->current = &call->state->store.nodes[0];
    else if (op == V41_RESTOREFH && !call->saved)
        return V41_RESTOREFH_EMPTY;
    else if (op == V41_RESTOREFH)
        call->current = call->saved;
    else if (!call->current)
        return V41_NOFILEHANDLE;
    else if (op == V41_SAVEFH)
        call->saved = call->current;
    else
        v41_put_handle(&call->out, call->control, call->current);
    return V41_OK;
}

uint32_t v41_access(struct v41_call *call)
{
    uint32_t asked = v41_u32(&call->in);
    if (call->in.bad)
        return V41_BADXDR;
    if (!call->current)
        return V41_NOFILEHANDLE;
    put_word(&call->out, asked & 0x3f);
    put_word(&call->out, asked & atomic_load(&call->control->access));
    return V41_OK;
}

/* RPCSEC_GSS: Kerberos 5, with a service. */
static void put_gss(struct v41_call *call, uint32_t service)
{
    static const uint8_t kerberos[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2};
    put_word(&call->out, 6);
    v41_put_opaque(&call->out, kerberos, sizeof(kerberos));
    put_word(&call->out, 0);
    put_word(&call->out, service);
}

static uint32_t tell_flavors(struct v41_call *call)
{
    uint32_t services = atomic_load(&call->control->services);
    call->current = NULL; /* it is consumed: 18.29.3, 18.45.3 */
    if (services == 0 && atomic_load(&call->control->flavor) == 6)
        services = 1;
    put_word(&call->out, services ? (uint32_t)__builtin_popcount(services) : 1);
    if (!services)
        put_word(&call->out, atomic_load(&call->control->flavor));
    for (uint32_t service = 1; services >> (service - 1); service++) {
        if (services >> (service - 1) & 1)
            put_gss(call, service);
    }
    return V41_OK;
}

uint32_t v41_secinfo(struct v41_call *call)
{
    uint32_t style = v41_u32(&call->in);
    if (call->in.bad || style > 1)
        return V41_BADXDR;
    return call->current ? tell_flavors(call) : V41_NOFILEHANDLE;
}

uint32_t v41_secinfo_of(struct v41_call *call)
{
    uint32_t status = v41_lookup(call);
    return status == V41_OK ? tell_flavors(call) : status;
}

uint32_t v41_readdir(struct v41_call *call)
{
    uint64_t cookie = v41_u64(&call->in);
    v41_take(&call->in, 8);
    v41_u32(&call->in);
    v41_u32(&call->in);
    struct v41_bitmap asked = v41_bitmap(&call->in);
    if (call->in.bad)
        return V41_BADXDR;
    if (!call->current)
        return V41_NOFILEHANDLE;
    if (!call->current->directory)
        return V41_NOTDIR;
    static const uint8_t verifier[8] = "readdir";
    v41_put_fixed(&call->out, verifier, 8);
    for (unsigned i = 0; i < V41_NODES; i++) {
        const struct v41_node *node = &call->state->store.nodes[i];
        if (!node->id || node->parent != call->current->id || i + 3 <= cookie)
            continue;
        put_word(&call->out, 1);
        v41_put64(&call->out, i + 3);
        v41_put_opaque(&call->out, node->name, strlen(node->name));
        v41_put_attributes(call, node, &asked);
    }
    put_word(&call->out, 0);
    put_word(&call->out, 1);
    return V41_OK;
}
