#include "rpc/secure/gss.h"

#include <dlfcn.h>
#include <errno.h>
#include <krb5.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "rpc/secure/api.h"
#include "rpc/secure/cache.h"
#include "sys/fd.h"
#include "sys/foreign.h"
#include "sys/sys.h"

#define LIBRARY "libgssapi_krb5.so.2"

enum { MEMORY_NAME = 64, TURN_MS = 60000 };

static struct rpc_gss_api gss;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; /* while the library is loaded */
static _Atomic bool loaded;

_Atomic bool rpc_gss_leaks;

void rpc_gss_after_fork(void)
{
    pthread_mutex_init(&loading, NULL);
    for (const struct rpc_identity *at = rpc_identities(); at; at = at->next)
        atomic_store(&((struct rpc_identity *)at)->acquiring, false);
}

/* The mechanism, and two kinds of names: they are in the library too, but as variables. */
static gss_OID_desc krb5 = {9, "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"};
static gss_OID_desc host_based = {10, "\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"};
static gss_OID_desc principal_name = {10, "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01"};
static gss_OID_set_desc mechanisms = {1, &krb5};

static bool enter(void)
{
    return sys_foreign_enter(SYS_FOREIGN_KERBEROS);
}

static void leave(void)
{
    sys_foreign_leave(SYS_FOREIGN_KERBEROS);
}

/* clang-format off */
#define NAME(name) "gss_" #name,
static const char *const names[] = {
    RPC_GSS_FUNCTIONS(NAME)
    /* What the library calls of those below it. */
    "krb5_init_context", "krb5_free_context", "krb5_cc_default_name", "krb5_cc_resolve",
    "krb5_get_credentials", "krb5_parse_name", "krb5_free_principal", "krb5_c_encrypt",
    "error_message"};
/* clang-format on */
#undef NAME

const char *rpc_gss_function(size_t index)
{
    return index < sizeof(gss) / sizeof(gss.get_mic) ? names[index] : NULL;
}

const char *rpc_gss_alone(size_t index)
{
    return index < sizeof(names) / sizeof(names[0]) ? names[index] : NULL;
}

/* A program may export functions of another Kerberos that is linked into it: the library, or those
 * that it stands on, would call these. NULL: there is none. Else the name of one. */
static const char *find_other(void *library)
{
    const char *name;
    for (size_t i = 0; (name = rpc_gss_alone(i)) != NULL; i++) {
        const void *own = dlsym(library, name);
        if (own && sys_foreign_is_replaced(name, own))
            return name;
    }
    return NULL;
}

static bool resolve(void *library, const char **missing)
{
    struct {
        const char *name;
        void **to;
    } symbols[] = {
#define ENTRY(name) {"gss_" #name, (void **)&gss.name},
        RPC_GSS_FUNCTIONS(ENTRY)};
    for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        *symbols[i].to = dlsym(library, symbols[i].name);
        if (!*symbols[i].to) {
            *missing = symbols[i].name;
            return false;
        }
    }
    return true;
}

void rpc_gss_use(const struct rpc_gss_api *api)
{
    gss = *api;
    atomic_store(&loaded, true);
}

/* Threads are in the library also while they wait for a KDC: it has no functions that would only
 * send and receive. So fork() waits for them a second, and then the child is lost to it. */
static bool lost(struct rpc_gss_fault *fault)
{
    *fault =
        (struct rpc_gss_fault){.why = RPC_GSS_LOST, .text = "another thread was in it at the fork"};
    return false;
}

bool rpc_gss_load(struct rpc_gss_fault *fault)
{
    const char *why = NULL, *missing = "";
    fault->why = RPC_GSS_NO_LIBRARY;
    if (!sys_foreign_usable(SYS_FOREIGN_KERBEROS))
        return lost(fault);
    if (atomic_load(&loaded)) {
        fault->why = RPC_GSS_WELL;
        return true;
    }
    void *library = sys_foreign_open(LIBRARY, &why);
    if (!library) {
        snprintf(fault->text, sizeof(fault->text), "%s", why);
        return false;
    }
    const char *other = find_other(library);
    if (other) {
        snprintf(fault->text, sizeof(fault->text),
                 "the program exports the function %s of another Kerberos", other);
        return false;
    }
    pthread_mutex_lock(&loading);
    if (!atomic_load(&loaded))
        rpc_cache_resolve(library);
    bool resolved = atomic_load(&loaded) || resolve(library, &missing);
    atomic_store(&loaded, resolved);
    pthread_mutex_unlock(&loading);
    if (!resolved) {
        snprintf(fault->text, sizeof(fault->text), LIBRARY " has no %s: it is too old", missing);
        return false;
    }
    fault->why = RPC_GSS_WELL;
    return true;
}

bool rpc_gss_is_loaded(void)
{
    return atomic_load(&loaded) && sys_foreign_usable(SYS_FOREIGN_KERBEROS);
}

/* ---- what went wrong ---- */

static enum rpc_gss_why why_of(uint32_t major, uint32_t minor)
{
    switch ((int32_t)minor) {
    case KRB5KRB_AP_ERR_TKT_EXPIRED:
    case KRB5KDC_ERR_NAME_EXP:
        return RPC_GSS_EXPIRED;
    case KRB5KRB_AP_ERR_SKEW:
    case KRB5KRB_AP_ERR_TKT_NYV:
        return RPC_GSS_SKEW;
    case KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN:
    case KRB5_ERR_HOST_REALM_UNKNOWN:
        return RPC_GSS_NO_SERVICE;
    case KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN:
    case KRB5KDC_ERR_CLIENT_REVOKED:
        return RPC_GSS_NO_CLIENT;
    case KRB5_KDC_UNREACH:
    case KRB5_REALM_UNKNOWN:
    case KRB5_REALM_CANT_RESOLVE:
        return RPC_GSS_NO_KDC;
    case KRB5KDC_ERR_PREAUTH_FAILED:
    case KRB5KRB_AP_ERR_BAD_INTEGRITY:
    case KRB5_KT_NOTFOUND:
    case KRB5_KT_IOERR:
    case KRB5_KT_NAME_TOOLONG:
    case EACCES:
        return RPC_GSS_KEYTAB;
    case KRB5_FCC_NOFILE:
    case KRB5_CC_NOTFOUND:
    case KRB5_FCC_PERM:
        return RPC_GSS_NO_TICKET;
    default:
        break;
    }
    switch (GSS_ROUTINE_ERROR(major)) {
    case GSS_S_CREDENTIALS_EXPIRED:
    case GSS_S_CONTEXT_EXPIRED:
        return RPC_GSS_EXPIRED;
    case GSS_S_NO_CRED:
    case GSS_S_DEFECTIVE_CREDENTIAL:
        return RPC_GSS_NO_TICKET;
    default:
        return RPC_GSS_OTHER;
    }
}

/* Appends what the library says of a code. */
static void append_status(char *text, size_t size, OM_uint32 code, int type)
{
    OM_uint32 minor, more = 0;
    gss_buffer_desc said = GSS_C_EMPTY_BUFFER;
    size_t used = strlen(text);
    if (gss.display_status(&minor, code, type, &krb5, &more, &said) != GSS_S_COMPLETE)
        return;
    snprintf(text + used, size - used, "%s%.*s", used ? ": " : "", (int)said.length,
             (const char *)said.value);
    gss.release_buffer(&minor, &said);
}

static void describe(OM_uint32 major, OM_uint32 minor, struct rpc_gss_fault *fault)
{
    fault->why = why_of(major, minor);
    fault->text[0] = '\0';
    if (minor != 0)
        append_status(fault->text, sizeof(fault->text), minor, GSS_C_MECH_CODE);
    if (!fault->text[0])
        append_status(fault->text, sizeof(fault->text), major, GSS_C_GSS_CODE);
    for (char *at = fault->text; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
}

void rpc_gss_say(uint32_t major, uint32_t minor, struct rpc_gss_fault *fault)
{
    if (!enter())
        return;
    describe(major, minor, fault);
    leave();
    if (fault->why != RPC_GSS_SKEW && fault->why != RPC_GSS_EXPIRED)
        fault->why = RPC_GSS_REFUSED;
}

/* ---- credentials ---- */

static bool import(const char *text, gss_OID type, gss_name_t *name, struct rpc_gss_fault *fault)
{
    gss_buffer_desc buffer = {strlen(text), (void *)text};
    OM_uint32 minor, major = gss.import_name(&minor, &buffer, type, name);
    if (major != GSS_S_COMPLETE)
        describe(major, minor, fault);
    return major == GSS_S_COMPLETE;
}

/* The elements of the store: the keytab and a cache in memory, or a cache, or nothing. An identity
 * has one cache in memory for all its contexts. */
static unsigned fill_store(const struct rpc_identity *identity, const char *keytab,
                           const char *cache, char memory[MEMORY_NAME],
                           gss_key_value_element_desc elements[2])
{
    unsigned count = 0;
    if (keytab) {
        snprintf(memory, MEMORY_NAME, "MEMORY:directnfs-%p-%u", (const void *)identity,
                 atomic_load(&identity->memories));
        elements[count++] = (gss_key_value_element_desc){"client_keytab", keytab};
        elements[count++] = (gss_key_value_element_desc){"ccache", memory};
    } else if (cache) {
        elements[count++] = (gss_key_value_element_desc){"ccache", cache};
    }
    return count;
}

static bool acquire_from(struct rpc_gss_making *making, const struct rpc_identity *identity,
                         const char *keytab, const char *cache, struct rpc_gss_fault *fault)
{
    gss_name_t name = GSS_C_NO_NAME;
    gss_cred_id_t credential = GSS_C_NO_CREDENTIAL;
    gss_key_value_element_desc elements[2];
    char memory[MEMORY_NAME];
    OM_uint32 minor, ignored, lifetime = 0;
    if (identity->principal && !import(identity->principal, &principal_name, &name, fault))
        return false;
    unsigned count = fill_store(identity, keytab, cache, memory, elements);
    gss_key_value_set_desc store = {count, elements};
    OM_uint32 major =
        gss.acquire_cred_from(&minor, name, GSS_C_INDEFINITE, &mechanisms, GSS_C_INITIATE,
                              count > 0 ? &store : GSS_C_NO_CRED_STORE, &credential, NULL, NULL);
    /* Only this asks for the ticket, or looks whether there is one. */
    if (major == GSS_S_COMPLETE)
        major = gss.inquire_cred(&minor, credential, NULL, &lifetime, NULL, NULL);
    if (name != GSS_C_NO_NAME)
        gss.release_name(&ignored, &name);
    if (major != GSS_S_COMPLETE) {
        describe(major, minor, fault);
        if (keytab && fault->why == RPC_GSS_NO_TICKET)
            fault->why = RPC_GSS_KEYTAB;
        if (credential != GSS_C_NO_CREDENTIAL)
            gss.release_cred(&ignored, &credential);
        return false;
    }
    if (lifetime == 0 && !keytab) {
        gss.release_cred(&ignored, &credential);
        *fault = (struct rpc_gss_fault){.why = RPC_GSS_EXPIRED, .text = "Ticket expired"};
        return false;
    }
    making->credential = credential;
    making->lifetime_s = lifetime == GSS_C_INDEFINITE ? RPC_GSS_FOREVER : lifetime;
    return true;
}

static void release(struct rpc_gss_making *making)
{
    gss_cred_id_t credential = making->credential;
    OM_uint32 minor;
    gss.release_cred(&minor, &credential);
    making->credential = NULL;
}

/* A ticket that has ended stays in the cache if the library gets no other one, and it does not tell
 * why. With an empty cache it tells. */
static bool acquire_by_keytab(struct rpc_gss_making *making, struct rpc_identity *identity,
                              struct rpc_gss_fault *fault)
{
    if (acquire_from(making, identity, identity->keytab, NULL, fault)) {
        if (making->lifetime_s > 0)
            return true;
        release(making);
    } else if (fault->why != RPC_GSS_EXPIRED) {
        return false;
    }
    atomic_fetch_add(&identity->memories, 1);
    return acquire_from(making, identity, identity->keytab, NULL, fault);
}

/* From the user's cache, or the keytab. */
static bool acquire_own(struct rpc_gss_making *making, struct rpc_identity *identity,
                        struct rpc_gss_fault *fault)
{
    struct rpc_cache cache;
    if (identity->keytab)
        return acquire_by_keytab(making, identity, fault);
    if (!rpc_cache_find(identity, &cache)) {
        snprintf(fault->text, sizeof(fault->text),
                 "/tmp/krb5cc_%u is missing, or is not a file of that user", identity->uid);
        return false;
    }
    making->cache = cache.fd + 1;
    if (!acquire_from(making, identity, NULL, cache.name, fault))
        return false;
    if (rpc_cache_is_still(identity, &cache))
        return true;
    release(making);
    *fault = (struct rpc_gss_fault){.why = RPC_GSS_NO_TICKET,
                                    .text = "the process became another user meanwhile"};
    return false;
}

/* Contexts of one identity on several channels are made at a time, and a keytab's cache is filled
 * by one thread. */
static void take_turn(struct rpc_identity *identity)
{
    for (unsigned i = 0; atomic_exchange(&identity->acquiring, true) && i < TURN_MS; i++)
        sys_nanosleep_ms(1);
}

bool rpc_gss_acquire(struct rpc_gss_making *making, const struct rpc_identity *identity,
                     struct rpc_gss_fault *fault)
{
    static const char host_keytab[] = "/etc/krb5.keytab";
    gss_name_t target = GSS_C_NO_NAME;
    struct rpc_identity *turns = (struct rpc_identity *)identity;
    struct rpc_cache_user before;
    take_turn(turns);
    if (!enter()) {
        atomic_store(&turns->acquiring, false);
        return lost(fault);
    }
    rpc_cache_enter(identity, &before);
    *fault = (struct rpc_gss_fault){.why = RPC_GSS_NO_TICKET};
    making->identity = identity;
    bool good = import(identity->server, &host_based, &target, fault);
    making->target = target;
    good = good && acquire_own(making, turns, fault);
    /* root's own calls are those of this host, as with the kernel's client. */
    if (!good && identity->uid == 0 && !identity->keytab && fault->why == RPC_GSS_NO_TICKET &&
        sys_call3(SYS_faccessat, AT_FDCWD, host_keytab, R_OK) == 0)
        good = acquire_from(making, identity, host_keytab, NULL, fault);
    rpc_cache_leave(&before);
    leave();
    atomic_store(&turns->acquiring, false);
    return good;
}

bool rpc_gss_whose(const struct rpc_gss_making *making, char *name, size_t size,
                   uint64_t *lifetime_s)
{
    gss_name_t of = GSS_C_NO_NAME;
    gss_buffer_desc text = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor, lifetime = 0;
    bool known = false;
    if (!making->credential || !enter())
        return false;
    if (gss.inquire_cred(&minor, making->credential, &of, &lifetime, NULL, NULL) ==
            GSS_S_COMPLETE &&
        gss.display_name(&minor, of, &text, NULL) == GSS_S_COMPLETE) {
        snprintf(name, size, "%.*s", (int)text.length, (const char *)text.value);
        *lifetime_s = lifetime;
        known = true;
        gss.release_buffer(&minor, &text);
    }
    if (of != GSS_C_NO_NAME)
        gss.release_name(&minor, &of);
    leave();
    return known;
}

/* ---- making a context ---- */

int rpc_gss_step(struct rpc_gss_making *making, const void *token, size_t length,
                 struct rpc_gss_token *ours, struct rpc_gss_fault *fault)
{
    gss_buffer_desc in = {length, (void *)token}, out = GSS_C_EMPTY_BUFFER;
    gss_ctx_id_t context = making->context;
    struct rpc_cache_user before;
    OM_uint32 minor, lifetime = 0;
    *ours = (struct rpc_gss_token){NULL, 0};
    if (!enter()) {
        lost(fault);
        return -1;
    }
    rpc_cache_enter(making->identity, &before);
    OM_uint32 major = gss.init_sec_context(
        &minor, making->credential, &context, making->target, &krb5,
        GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG, 0, GSS_C_NO_CHANNEL_BINDINGS,
        length > 0 ? &in : GSS_C_NO_BUFFER, NULL, &out, NULL, &lifetime);
    rpc_cache_leave(&before);
    making->context = context;
    if (GSS_ERROR(major)) {
        describe(major, minor, fault);
        if (making->identity->keytab && fault->why == RPC_GSS_EXPIRED)
            fault->why = RPC_GSS_KEYTAB; /* it ended a moment ago; no kinit is needed */
        if (out.length > 0)
            gss.release_buffer(&minor, &out);
    } else {
        *ours = (struct rpc_gss_token){out.value, out.length};
        if (!(major & GSS_S_CONTINUE_NEEDED))
            making->lifetime_s = lifetime == GSS_C_INDEFINITE ? RPC_GSS_FOREVER : lifetime;
    }
    leave();
    return GSS_ERROR(major) ? -1 : (major & GSS_S_CONTINUE_NEEDED) != 0;
}

void rpc_gss_token_free(struct rpc_gss_token *token)
{
    gss_buffer_desc buffer = {token->length, token->bytes};
    OM_uint32 minor;
    if (token->bytes && enter()) {
        gss.release_buffer(&minor, &buffer);
        leave();
    }
    *token = (struct rpc_gss_token){NULL, 0};
}

void rpc_gss_making_end(struct rpc_gss_making *making)
{
    gss_name_t target = making->target;
    gss_cred_id_t credential = making->credential;
    gss_ctx_id_t context = making->context;
    OM_uint32 minor;
    if (atomic_load(&loaded) && enter()) {
        if (target)
            gss.release_name(&minor, &target);
        if (credential)
            gss.release_cred(&minor, &credential);
        if (context)
            gss.delete_sec_context(&minor, &context, GSS_C_NO_BUFFER);
        leave();
    }
    if (making->cache > 0)
        sys_fd_close(making->cache - 1);
    memset(making, 0, sizeof(*making));
}

/* ---- with a context ---- */

static int error_of(OM_uint32 major)
{
    OM_uint32 error = GSS_ROUTINE_ERROR(major);
    return error == GSS_S_CONTEXT_EXPIRED || error == GSS_S_CREDENTIALS_EXPIRED ||
                   error == GSS_S_NO_CONTEXT
               ? -EKEYEXPIRED
               : -EIO;
}

int rpc_gss_now_mic(void *context, const void *message, size_t length, uint8_t *mic,
                    size_t *mic_length)
{
    gss_buffer_desc in = {length, (void *)message}, out = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor;
    if (!enter())
        return -EIO;
    OM_uint32 major = gss.get_mic(&minor, context, GSS_C_QOP_DEFAULT, &in, &out);
    int result = GSS_ERROR(major) ? error_of(major) : out.length > *mic_length ? -EIO : 0;
    if (result == 0) {
        memcpy(mic, out.value, out.length);
        *mic_length = out.length;
    }
    if (!GSS_ERROR(major))
        gss.release_buffer(&minor, &out);
    leave();
    return result;
}

bool rpc_gss_now_verify(void *context, const void *message, size_t length, const void *mic,
                        size_t mic_length)
{
    gss_buffer_desc in = {length, (void *)message}, of = {mic_length, (void *)mic};
    OM_uint32 minor, major;
    if (!enter())
        return false;
    major = gss.verify_mic(&minor, context, &in, &of, NULL);
    leave();
    return !GSS_ERROR(major); /* GSS_S_CONTEXT_EXPIRED too: nothing was verified (RFC 2743) */
}

int rpc_gss_now_wrap_room(void *context, size_t length, size_t *before, size_t *after)
{
    gss_iov_buffer_desc vectors[] = {
        {GSS_IOV_BUFFER_TYPE_HEADER, GSS_C_EMPTY_BUFFER},
        {GSS_IOV_BUFFER_TYPE_DATA, {length, NULL}},
        {GSS_IOV_BUFFER_TYPE_PADDING, GSS_C_EMPTY_BUFFER},
        {GSS_IOV_BUFFER_TYPE_TRAILER, GSS_C_EMPTY_BUFFER},
    };
    OM_uint32 minor, major;
    int encrypts = 0;
    if (!enter())
        return -EIO;
    major = gss.wrap_iov_length(&minor, context, 1, GSS_C_QOP_DEFAULT, &encrypts, vectors, 4);
    leave();
    if (GSS_ERROR(major))
        return error_of(major);
    *before = vectors[0].buffer.length;
    *after = vectors[2].buffer.length + vectors[3].buffer.length;
    return encrypts && *before + *after <= RPC_GSS_WRAP_MORE ? 0 : -EIO;
}

int rpc_gss_now_wrap(void *context, uint8_t *token, size_t before, size_t length, size_t after)
{
    gss_iov_buffer_desc vectors[] = {
        {GSS_IOV_BUFFER_TYPE_HEADER, GSS_C_EMPTY_BUFFER},
        {GSS_IOV_BUFFER_TYPE_DATA, {length, token + before}},
        {GSS_IOV_BUFFER_TYPE_PADDING, GSS_C_EMPTY_BUFFER},
        {GSS_IOV_BUFFER_TYPE_TRAILER, GSS_C_EMPTY_BUFFER},
    };
    OM_uint32 minor, major;
    int encrypts = 0;
    if (!enter())
        return -EIO;
    major = gss.wrap_iov_length(&minor, context, 1, GSS_C_QOP_DEFAULT, NULL, vectors, 4);
    if (!GSS_ERROR(major) && (vectors[0].buffer.length != before ||
                              vectors[2].buffer.length + vectors[3].buffer.length != after))
        major = GSS_S_FAILURE;
    if (!GSS_ERROR(major)) {
        vectors[0].buffer.value = token;
        vectors[2].buffer.value = token + before + length;
        vectors[3].buffer.value = token + before + length + vectors[2].buffer.length;
        major = gss.wrap_iov(&minor, context, 1, GSS_C_QOP_DEFAULT, &encrypts, vectors, 4);
    }
    leave();
    return GSS_ERROR(major) ? error_of(major) : encrypts ? 0 : -EIO;
}

bool rpc_gss_now_unwrap(void *context, void *token, size_t token_length, uint8_t **message,
                        size_t *length)
{
    gss_iov_buffer_desc vectors[] = {
        {GSS_IOV_BUFFER_TYPE_STREAM, {token_length, token}},
        {GSS_IOV_BUFFER_TYPE_DATA, GSS_C_EMPTY_BUFFER},
    };
    OM_uint32 minor, major;
    int encrypted = 0;
    if (!enter())
        return false;
    major = gss.unwrap_iov(&minor, context, &encrypted, NULL, vectors, 2);
    leave();
    *message = vectors[1].buffer.value;
    *length = vectors[1].buffer.length;
    return !GSS_ERROR(major) && encrypted && *message >= (uint8_t *)token &&
           *length <= token_length && *message + *length <= (uint8_t *)token + token_length;
}

void rpc_gss_delete(void *context)
{
    gss_ctx_id_t gone = context;
    OM_uint32 minor;
    if (!context || atomic_load(&rpc_gss_leaks) || !enter())
        return;
    gss.delete_sec_context(&minor, &gone, GSS_C_NO_BUFFER);
    leave();
}
