/* From the files of a server's stanza to an SSL. The files are read again when they have changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls/parts.h"
#include "sys/alloc.h"
#include "sys/foreign.h"

enum { FILE_MOST = 8 << 20, SECURITY_LEAST = 2 };

/* ---- the settings ---- */

static char *copy(const char *text)
{
    size_t size = text ? strlen(text) + 1 : 0;
    char *made = text ? sys_alloc(size) : NULL;
    return made ? memcpy(made, text, size) : NULL;
}

struct net_tls *net_tls_new(const struct net_tls_settings *settings)
{
    struct net_tls *tls = sys_alloc_zeroed(sizeof(*tls));
    if (!tls)
        return NULL;
    struct net_tls_settings *own = &tls->settings;
    const char *const *from[] = {&settings->ca,  &settings->crl,  &settings->cert,
                                 &settings->key, &settings->name, &settings->server};
    const char **to[] = {&own->ca, &own->crl, &own->cert, &own->key, &own->name, &own->server};
    bool good = true;
    own->direct = settings->direct;
    own->require = settings->require;
    own->nfs_version = settings->nfs_version;
    own->kernel = settings->kernel;
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        *to[i] = copy(*from[i]);
        good = good && (*to[i] || !*from[i]);
    }
    pthread_mutex_init(&tls->lock, NULL);
    if (good)
        return tls;
    net_tls_free(tls);
    return NULL;
}

/* Within the gate. */
static void material_free(const struct tls_library *library, struct tls_material *material)
{
    if (material && material->context)
        library->SSL_CTX_free(material->context);
    sys_free(material);
}

void net_tls_free(struct net_tls *tls)
{
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    if (!tls)
        return;
    tls_session_reap();
    if (tls->material && tls_enter(library, &guest)) {
        material_free(library, tls->material);
        tls_leave(library, &guest);
    }
    struct net_tls_settings *own = &tls->settings;
    const char *texts[] = {own->ca, own->crl, own->cert, own->key, own->name, own->server};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        sys_free((char *)texts[i]);
    pthread_mutex_destroy(&tls->lock);
    sys_free(tls);
}

void net_tls_after_fork(struct net_tls *tls)
{
    pthread_mutex_init(&tls->lock, NULL);
}

bool net_tls_asks(const struct net_tls *tls)
{
    return !tls->settings.direct;
}

uint32_t net_tls_nfs_version(const struct net_tls *tls)
{
    return tls->settings.nfs_version != 0 ? tls->settings.nfs_version : 3;
}

enum net_tls_fault net_tls_fault(const struct net_tls *tls)
{
    return (enum net_tls_fault)atomic_load(&tls->fault);
}

bool net_tls_is_lost(struct net_tls *tls)
{
    if (sys_foreign_usable(SYS_FOREIGN_TLS))
        return false;
    atomic_store(&tls->fault, NET_TLS_LOST);
    tls_say(tls, NET_TLS_LOST, &(struct net_tls_facts){.depth = 0});
    return true;
}

/* ---- files ---- */

static const enum net_tls_fault fault_of_file[TLS_FILES] = {
    [TLS_CA] = NET_TLS_BAD_CA,
    [TLS_CRL] = NET_TLS_BAD_CRL,
    [TLS_CERT] = NET_TLS_BAD_CERTIFICATE,
    [TLS_KEY] = NET_TLS_BAD_KEY,
};

static void files_of(const struct net_tls *tls, const char *names[TLS_FILES])
{
    names[TLS_CA] = tls->settings.ca;
    names[TLS_CRL] = tls->settings.crl;
    names[TLS_CERT] = tls->settings.cert;
    names[TLS_KEY] = tls->settings.cert && tls->settings.key ? tls->settings.key : NULL;
}

static struct tls_file seen_as(const struct stat *status)
{
    return (struct tls_file){.device = status->st_dev,
                             .inode = status->st_ino,
                             .size = status->st_size,
                             .seconds = status->st_mtim.tv_sec,
                             .nanoseconds = (uint32_t)status->st_mtim.tv_nsec};
}

static bool same_file(const struct tls_file *a, const struct tls_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

/* Is one of the files another one than that which was read? Not if it cannot be looked at: after
 * setuid(2) or chroot(2) what was read before is used. */
static bool is_changed(const struct net_tls *tls)
{
    const char *names[TLS_FILES];
    files_of(tls, names);
    bool changed = false;
    for (int i = 0; i < TLS_FILES; i++) {
        struct stat status;
        if (!names[i])
            continue;
        if (sys_fstatat(AT_FDCWD, names[i], &status, 0) != 0)
            return false;
        struct tls_file now = seen_as(&status);
        changed = changed || !same_file(&now, &tls->material->files[i]);
    }
    return changed;
}

/* The contents of a file. */
struct contents {
    uint8_t *bytes;
    int length;
};

static int read_whole(int fd, const struct stat *status, struct contents *contents)
{
    size_t length = 0, size = (size_t)status->st_size;
    contents->bytes = sys_alloc(size + 1);
    if (!contents->bytes)
        return -ENOMEM;
    while (length < size) {
        ssize_t got = sys_read(fd, contents->bytes + length, size - length);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    contents->length = (int)length;
    return length > 0 ? 0 : -EIO;
}

static int read_file(const char *name, struct contents *contents, struct tls_file *seen)
{
    struct stat status;
    int fd = sys_open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fd;
    int result = sys_fstat(fd, &status);
    if (result == 0 && (!S_ISREG(status.st_mode) || status.st_size > FILE_MOST))
        result = -EINVAL;
    if (result == 0)
        result = read_whole(fd, &status, contents);
    *seen = seen_as(&status);
    sys_close(fd);
    return result;
}

static void contents_free(struct contents contents[TLS_FILES])
{
    for (int i = 0; i < TLS_FILES; i++) {
        if (i >= TLS_CERT && contents[i].bytes) /* the key may be in the file of the certificate */
            explicit_bzero(contents[i].bytes, (size_t)contents[i].length);
        sys_free(contents[i].bytes);
    }
}

/* ---- what the library makes of them; within the gate ---- */

/* What has a passphrase is of no use: nobody is there to be asked. */
static int no_passphrase(char *buffer, int size, int writing, void *context)
{
    (void)buffer, (void)size, (void)writing, (void)context;
    return -1;
}

static X509 *next_certificate(const struct tls_library *library, BIO *bio)
{
    X509 *made = library->X509_new_ex(library->context, NULL);
    if (made && library->PEM_read_bio_X509(bio, &made, no_passphrase, NULL))
        return made;
    library->X509_free(made);
    return NULL;
}

static X509_CRL *next_list(const struct tls_library *library, BIO *bio)
{
    X509_CRL *made = library->X509_CRL_new_ex(library->context, NULL);
    if (made && library->PEM_read_bio_X509_CRL(bio, &made, no_passphrase, NULL))
        return made;
    library->X509_CRL_free(made);
    return NULL;
}

/* Certificates of the file of revocations do not become authorities: only lists are taken. */
static int add_lists(const struct tls_library *library, X509_STORE *store,
                     const struct contents *contents)
{
    BIO *bio = library->BIO_new_mem_buf(contents->bytes, contents->length);
    X509_CRL *list;
    int count = 0;
    while (bio && (list = next_list(library, bio))) {
        count += library->X509_STORE_add_crl(store, list);
        library->X509_CRL_free(list);
    }
    library->BIO_free(bio);
    library->X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return count;
}

static int add_authorities(const struct tls_library *library, X509_STORE *store,
                           const struct contents *contents)
{
    BIO *bio = library->BIO_new_mem_buf(contents->bytes, contents->length);
    X509 *authority;
    int count = 0;
    while (bio && (authority = next_certificate(library, bio))) {
        count += library->X509_STORE_add_cert(store, authority);
        library->X509_free(authority);
    }
    library->BIO_free(bio);
    return count;
}

static enum net_tls_fault set_store(const struct tls_library *library, SSL_CTX *context,
                                    const struct contents contents[TLS_FILES])
{
    X509_STORE *store = library->X509_STORE_new();
    if (!store)
        return NET_TLS_BAD_CA;
    library->SSL_CTX_set_cert_store(context, store); /* which owns it */
    if (!contents[TLS_CA].bytes)
        library->X509_STORE_set_default_paths_ex(store, library->context, NULL);
    else if (add_authorities(library, store, &contents[TLS_CA]) == 0)
        return NET_TLS_BAD_CA;
    if (contents[TLS_CRL].bytes && add_lists(library, store, &contents[TLS_CRL]) == 0)
        return NET_TLS_BAD_CRL;
    return NET_TLS_GOOD;
}

static bool set_key(const struct tls_library *library, SSL_CTX *context,
                    const struct contents *contents)
{
    BIO *bio = library->BIO_new_mem_buf(contents->bytes, contents->length);
    EVP_PKEY *key = bio ? library->PEM_read_bio_PrivateKey_ex(bio, NULL, no_passphrase, NULL,
                                                              library->context, NULL)
                        : NULL;
    bool good = key && library->SSL_CTX_use_PrivateKey(context, key) == 1 &&
                library->SSL_CTX_check_private_key(context) == 1;
    library->EVP_PKEY_free(key);
    library->BIO_free(bio);
    return good;
}

/* Our certificate, and what it was made by. */
static enum net_tls_fault set_certificate(const struct tls_library *library,
                                          struct tls_material *material,
                                          const struct contents contents[TLS_FILES])
{
    const struct contents *own = &contents[TLS_CERT];
    if (!own->bytes)
        return NET_TLS_GOOD;
    BIO *bio = library->BIO_new_mem_buf(own->bytes, own->length);
    X509 *first = bio ? next_certificate(library, bio) : NULL, *next;
    bool good = first && library->SSL_CTX_use_certificate(material->context, first) == 1;
    if (good)
        material->own_ends = tls_time_of(library, library->X509_get0_notAfter(first));
    while (good && (next = next_certificate(library, bio))) {
        if (library->SSL_CTX_ctrl(material->context, SSL_CTRL_CHAIN_CERT, 0, next) != 1)
            library->X509_free(next); /* else the context owns it */
    }
    library->X509_free(first);
    library->BIO_free(bio);
    if (!good)
        return NET_TLS_BAD_CERTIFICATE;
    const struct contents *key = contents[TLS_KEY].bytes ? &contents[TLS_KEY] : own;
    return set_key(library, material->context, key) ? NET_TLS_GOOD : NET_TLS_BAD_KEY;
}

/* The system's openssl.cnf sets defaults of each context. It may demand more than this, not less.
 */
static void set_protocol(const struct tls_library *library, SSL_CTX *context)
{
    static const unsigned char sunrpc[] = "\x06sunrpc"; /* RFC 9289, section 8.2 */
    library->SSL_CTX_clear_options(context, SSL_OP_NO_TLSv1_3);
    library->SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    library->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL);
    library->SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, 0, NULL);
    if (library->SSL_CTX_get_security_level(context) < SECURITY_LEAST)
        library->SSL_CTX_set_security_level(context, SECURITY_LEAST);
    library->SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                          SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                          NULL);
    library->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    library->SSL_CTX_set_keylog_callback(context, tls_kernel_secret);
    library->SSL_CTX_set_alpn_protos(context, sunrpc, sizeof(sunrpc) - 1);
    library->SSL_CTX_set_verify(context, SSL_VERIFY_PEER, tls_verify);
}

/* Why there is nothing new: the program called OPENSSL_cleanup(), or there is no memory. */
static enum net_tls_fault failure(const struct tls_library *library)
{
    return library->OPENSSL_init_crypto(0, NULL) == 1 ? NET_TLS_NO_MEMORY : NET_TLS_LOST;
}

static enum net_tls_fault material_make(const struct tls_library *library,
                                        struct tls_material *material,
                                        const struct contents contents[TLS_FILES])
{
    material->context =
        library->SSL_CTX_new_ex(library->context, NULL, library->TLS_client_method());
    if (!material->context)
        return failure(library);
    set_protocol(library, material->context);
    enum net_tls_fault fault = set_store(library, material->context, contents);
    return fault != NET_TLS_GOOD ? fault : set_certificate(library, material, contents);
}

/* ---- together ---- */

/* Reads the files, and makes the material new. After a failure the one before is used, if there is
 * one. Under tls->lock. */
static enum net_tls_fault renew(struct net_tls *tls, const struct tls_library *library)
{
    struct tls_material *made = sys_alloc_zeroed(sizeof(*made));
    struct contents contents[TLS_FILES] = {{NULL, 0}};
    const char *names[TLS_FILES];
    struct tls_guest guest;
    enum net_tls_fault fault = made ? NET_TLS_GOOD : NET_TLS_NO_MEMORY;
    files_of(tls, names);
    for (int i = 0; i < TLS_FILES && fault == NET_TLS_GOOD; i++) {
        if (names[i] && read_file(names[i], &contents[i], &made->files[i]) != 0)
            fault = fault_of_file[i];
    }
    if (fault == NET_TLS_GOOD && !tls_enter(library, &guest)) {
        fault = NET_TLS_LOST;
    } else if (fault == NET_TLS_GOOD) {
        fault = material_make(library, made, contents);
        struct tls_material *old = fault == NET_TLS_GOOD ? tls->material : made;
        if (fault == NET_TLS_GOOD)
            tls->material = made;
        material_free(library, old);
        made = NULL;
        tls_leave(library, &guest);
    }
    sys_free(made);
    contents_free(contents);
    return fault;
}

SSL *tls_context_ssl(struct net_tls *tls, enum net_tls_fault *fault, int64_t *own_ends)
{
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    SSL *ssl = NULL;
    pthread_mutex_lock(&tls->lock);
    *fault = !tls->material || is_changed(tls) ? renew(tls, library) : NET_TLS_GOOD;
    if (*fault != NET_TLS_GOOD && tls->material) {
        tls_say(tls, *fault, &(struct net_tls_facts){.depth = 0});
        *fault = NET_TLS_GOOD;
    }
    if (*fault == NET_TLS_GOOD && !tls_enter(library, &guest)) {
        *fault = NET_TLS_LOST;
    } else if (*fault == NET_TLS_GOOD) {
        ssl = library->SSL_new(tls->material->context);
        *own_ends = tls->material->own_ends;
        *fault = ssl ? NET_TLS_GOOD : failure(library);
        tls_leave(library, &guest);
    }
    pthread_mutex_unlock(&tls->lock);
    return ssl;
}
