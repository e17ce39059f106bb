/* Loading OpenSSL, and leaving the thread as it was. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "net/tls/library.h"
#include "net/tls/parts.h"
#include "net/tls/tls.h"
#include "sys/alloc.h"
#include "sys/foreign.h"

static const char ssl_name[] = "libssl.so.3", crypto_name[] = "libcrypto.so.3";

/* Where each function of the table is, and its name. */
struct symbol {
    size_t at;
    const char *name;
};

#define TLS_SYMBOL(name) {offsetof(struct tls_library, name), #name},
static const struct symbol of_ssl[] = {TLS_OF_SSL(TLS_SYMBOL)};
static const struct symbol of_crypto[] = {TLS_OF_CRYPTO(TLS_SYMBOL)};

static struct tls_library *_Atomic loaded;

const char *net_tls_function(size_t index)
{
    enum { OF_SSL = sizeof(of_ssl) / sizeof(of_ssl[0]) };
    enum { OF_CRYPTO = sizeof(of_crypto) / sizeof(of_crypto[0]) };
    if (index < OF_SSL)
        return of_ssl[index].name;
    return index - OF_SSL < OF_CRYPTO ? of_crypto[index - OF_SSL].name : NULL;
}

const struct tls_library *tls_library(void)
{
    return atomic_load_explicit(&loaded, memory_order_acquire);
}

/* NULL: all are there. Else the name of one that is not. */
static const char *find(void *handle, const struct symbol *symbols, size_t count,
                        struct tls_library *library)
{
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(handle, symbols[i].name);
        if (!function)
            return symbols[i].name;
        memcpy((char *)library + symbols[i].at, &function, sizeof(function));
    }
    return NULL;
}

/* A program that has begun OpenSSL itself may end it, at its exit at the latest, while threads of
 * ours are inside. What they use is their own context's, but for what each thread has. */
static void pause_others(void)
{
    enum { CLEANUP_MS = 100 };
    sys_foreign_shut(SYS_FOREIGN_TLS, CLEANUP_MS);
}

/*
 * The library's own beginning: by default it would register OPENSSL_cleanup() with atexit(), which
 * would run before this library sends and commits what is left at exit. This holds for the whole
 * process and cannot be taken back: a program that begins later has no cleanup at its exit either,
 * which only frees memory. If the program has begun already, this changes nothing. The
 * configuration of the system is left to whoever needs it first.
 */
static bool begin(struct tls_library *library)
{
    if (library->OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) != 1 ||
        library->OPENSSL_atexit(pause_others) != 1)
        return false;
    library->context = library->OSSL_LIB_CTX_new();
    library->method = library->context ? tls_bio_method(library) : NULL;
    return library->method;
}

/* Within the gate. The table itself is needed to leave it. */
static void discard(struct tls_library *library)
{
    if (library->method)
        library->BIO_meth_free(library->method);
    if (library->context)
        library->OSSL_LIB_CTX_free(library->context);
}

/*
 * A program may export functions of an OpenSSL that is linked into it. Then those of libssl.so.3 do
 * not call libcrypto.so.3, but the program's, with other structures. NULL: there is none. Else the
 * name of one.
 */
static const char *find_other(const struct tls_library *library, const struct symbol *symbols,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *own;
        memcpy(&own, (const char *)library + symbols[i].at, sizeof(own));
        if (sys_foreign_is_replaced(symbols[i].name, own))
            return symbols[i].name;
    }
    return NULL;
}

/* Fills the table. NULL: all is well. Else why the library is of no use. */
static const char *fill(struct tls_library *library, void *ssl, void *crypto)
{
    enum { SSL_COUNT = sizeof(of_ssl) / sizeof(of_ssl[0]) };
    enum { CRYPTO_COUNT = sizeof(of_crypto) / sizeof(of_crypto[0]) };
    static __thread char text[112];
    const char *name = find(ssl, of_ssl, SSL_COUNT, library);
    if (!name)
        name = find(crypto, of_crypto, CRYPTO_COUNT, library);
    if (name) {
        snprintf(text, sizeof(text), "%s lacks the function %s", ssl_name, name);
        return text;
    }
    name = find_other(library, of_ssl, SSL_COUNT);
    if (!name)
        name = find_other(library, of_crypto, CRYPTO_COUNT);
    if (name)
        snprintf(text, sizeof(text), "the program exports the function %s of another OpenSSL",
                 name);
    return name ? text : NULL;
}

/* Two threads may load at once: the handles are the same, and one table goes. */
int net_tls_load(const char **why)
{
    const char *reason = NULL;
    struct tls_guest guest;
    if (!why)
        why = &reason;
    *why = NULL;
    if (tls_library())
        return 0;
    void *crypto = sys_foreign_open(crypto_name, why);
    void *ssl = crypto ? sys_foreign_open(ssl_name, why) : NULL;
    struct tls_library *library = ssl ? sys_alloc_zeroed(sizeof(*library)) : NULL;
    if (!library) {
        *why = *why ? *why : "there is no memory";
        return -ELIBACC;
    }
    *why = fill(library, ssl, crypto);
    if (*why) {
        sys_free(library);
        return -ELIBACC;
    }
    sys_foreign_aside_start();
    struct tls_library *none = NULL;
    bool good = false, used = false;
    if (tls_enter(library, &guest)) {
        good = begin(library);
        used = good && atomic_compare_exchange_strong(&loaded, &none, library);
        if (!used)
            discard(library);
        tls_leave(library, &guest);
    }
    if (!used)
        sys_free(library);
    if (!good)
        *why = "it cannot be used in this process";
    return good ? 0 : -ELIBACC;
}

const char *net_tls_version(void)
{
    const struct tls_library *library = tls_library();
    return library ? library->OpenSSL_version(OPENSSL_VERSION) : NULL;
}

/* ---- leaving the thread as it was ---- */

enum { ERRORS_MAX = 16, TEXT_MAX = 160 };

struct tls_error {
    unsigned long code;
    int line;
    bool has_data;
    char file[TEXT_MAX], function[TEXT_MAX], data[TEXT_MAX];
};

/* What the program has in the queue. A handshake empties it. */
struct tls_errors {
    unsigned count;
    struct tls_error errors[ERRORS_MAX];
};

static struct tls_errors *take_errors(const struct tls_library *library)
{
    struct tls_errors *errors = sys_alloc(sizeof(*errors));
    if (!errors)
        return NULL;
    errors->count = 0;
    while (errors->count < ERRORS_MAX) {
        struct tls_error *error = &errors->errors[errors->count];
        const char *file = NULL, *function = NULL, *data = NULL;
        int flags = 0;
        error->code = library->ERR_get_error_all(&file, &error->line, &function, &data, &flags);
        if (error->code == 0)
            break;
        error->has_data = data && (flags & ERR_TXT_STRING);
        snprintf(error->file, sizeof(error->file), "%s", file ? file : "");
        snprintf(error->function, sizeof(error->function), "%s", function ? function : "");
        snprintf(error->data, sizeof(error->data), "%s", error->has_data ? data : "");
        errors->count++;
    }
    return errors;
}

static void put_errors(const struct tls_library *library, struct tls_errors *errors)
{
    library->ERR_clear_error();
    for (unsigned i = 0; i < errors->count; i++) {
        const struct tls_error *error = &errors->errors[i];
        library->ERR_new();
        library->ERR_set_debug(error->file, error->line, error->function);
        if (error->has_data)
            library->ERR_set_error(ERR_GET_LIB(error->code), ERR_GET_REASON(error->code), "%s",
                                   error->data);
        else
            library->ERR_set_error(ERR_GET_LIB(error->code), ERR_GET_REASON(error->code), NULL);
    }
    sys_free(errors);
}

bool tls_enter(const struct tls_library *library, struct tls_guest *guest)
{
    guest->error = errno;
    if (!sys_foreign_enter(SYS_FOREIGN_TLS))
        return false;
    bool any = library->ERR_peek_error() != 0;
    guest->errors = any ? take_errors(library) : NULL;
    if (any && !guest->errors) /* no memory: a stale error would be taken for one of the session */
        library->ERR_clear_error();
    if (!guest->errors)
        library->ERR_set_mark();
    return true;
}

void tls_leave(const struct tls_library *library, struct tls_guest *guest)
{
    if (guest->errors)
        put_errors(library, guest->errors);
    else
        library->ERR_pop_to_mark();
    sys_foreign_leave(SYS_FOREIGN_TLS);
    errno = guest->error;
}
