/*
 * OpenSSL 3, loaded when a server asks for TLS: the library itself needs libc only. Inside
 * src/net/tls only.
 *
 * The program may use the same OpenSSL. What is made here is in a library context of its own. The
 * queue of errors and errno of the thread are afterwards what they were.
 */
#ifndef NET_TLS_LIBRARY_H
#define NET_TLS_LIBRARY_H

#include <stdbool.h>

#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* The functions that are called, by library. Macros of its headers call SSL_ctrl() and others. */
#define TLS_OF_SSL(X)                     \
    X(SSL_CIPHER_get_name)                \
    X(SSL_CTX_clear_options)              \
    X(SSL_CTX_ctrl)                       \
    X(SSL_CTX_free)                       \
    X(SSL_CTX_get_security_level)         \
    X(SSL_CTX_new_ex)                     \
    X(SSL_CTX_set_alpn_protos)            \
    X(SSL_CTX_set_cert_store)             \
    X(SSL_CTX_set_ciphersuites)           \
    X(SSL_CTX_set_keylog_callback)        \
    X(SSL_CTX_set_options)                \
    X(SSL_CTX_set_security_level)         \
    X(SSL_CTX_set_verify)                 \
    X(SSL_CTX_check_private_key)          \
    X(SSL_CTX_use_PrivateKey)             \
    X(SSL_CTX_use_certificate)            \
    X(SSL_ctrl)                           \
    X(SSL_do_handshake)                   \
    X(SSL_free)                           \
    X(SSL_get0_alpn_selected)             \
    X(SSL_get_current_cipher)             \
    X(SSL_get_ex_data)                    \
    X(SSL_get_ex_data_X509_STORE_CTX_idx) \
    X(SSL_get_shutdown)                   \
    X(SSL_get_version)                    \
    X(SSL_key_update)                     \
    X(SSL_new)                            \
    X(SSL_pending)                        \
    X(SSL_read)                           \
    X(SSL_set_bio)                        \
    X(SSL_set_cert_cb)                    \
    X(SSL_set_connect_state)              \
    X(SSL_set_ex_data)                    \
    X(SSL_version)                        \
    X(SSL_want)                           \
    X(SSL_write)                          \
    X(TLS_client_method)

#define TLS_OF_CRYPTO(X)               \
    X(ASN1_TIME_to_tm)                 \
    X(BIO_clear_flags)                 \
    X(BIO_free)                        \
    X(BIO_get_data)                    \
    X(BIO_meth_free)                   \
    X(BIO_meth_new)                    \
    X(BIO_meth_set_ctrl)               \
    X(BIO_meth_set_read)               \
    X(BIO_meth_set_write)              \
    X(BIO_new)                         \
    X(BIO_new_mem_buf)                 \
    X(BIO_set_data)                    \
    X(BIO_set_flags)                   \
    X(BIO_set_init)                    \
    X(ERR_clear_error)                 \
    X(ERR_get_error_all)               \
    X(ERR_new)                         \
    X(ERR_peek_error)                  \
    X(ERR_peek_last_error)             \
    X(ERR_pop_to_mark)                 \
    X(ERR_set_debug)                   \
    X(ERR_set_error)                   \
    X(ERR_set_mark)                    \
    X(EVP_KDF_CTX_free)                \
    X(EVP_KDF_CTX_new)                 \
    X(EVP_KDF_derive)                  \
    X(EVP_KDF_fetch)                   \
    X(EVP_KDF_free)                    \
    X(EVP_PKEY_free)                   \
    X(OPENSSL_init_crypto)             \
    X(OPENSSL_atexit)                  \
    X(OSSL_LIB_CTX_free)               \
    X(OSSL_LIB_CTX_new)                \
    X(OpenSSL_version)                 \
    X(PEM_read_bio_PrivateKey_ex)      \
    X(PEM_read_bio_X509)               \
    X(PEM_read_bio_X509_CRL)           \
    X(X509_CRL_free)                   \
    X(X509_CRL_new_ex)                 \
    X(X509_NAME_oneline)               \
    X(X509_STORE_CTX_get_current_cert) \
    X(X509_STORE_CTX_get_error)        \
    X(X509_STORE_CTX_get_error_depth)  \
    X(X509_STORE_CTX_get_ex_data)      \
    X(X509_STORE_CTX_set_error)        \
    X(X509_STORE_add_cert)             \
    X(X509_STORE_add_crl)              \
    X(X509_STORE_free)                 \
    X(X509_STORE_new)                  \
    X(X509_STORE_set_default_paths_ex) \
    X(X509_STORE_set_flags)            \
    X(X509_check_host)                 \
    X(X509_check_ip_asc)               \
    X(X509_free)                       \
    X(X509_get0_notAfter)              \
    X(X509_get_issuer_name)            \
    X(X509_get_subject_name)           \
    X(X509_new_ex)                     \
    X(X509_verify_cert_error_string)

struct tls_library {
#define TLS_MEMBER(name) __typeof__(&(name)) name;
    TLS_OF_SSL(TLS_MEMBER)
    TLS_OF_CRYPTO(TLS_MEMBER)
#undef TLS_MEMBER
    OSSL_LIB_CTX *context;
    BIO_METHOD *method; /* of the sessions' BIOs: see session.c */
};

/* NULL: it is not loaded. Never freed. */
const struct tls_library *tls_library(void);

/* What a thread had before it called the library. */
struct tls_guest {
    int error; /* errno */
    struct tls_errors *errors;
};

/* Passes the gate of sys/foreign.h. False: the library cannot be used in this process, and is not
 * entered. Not in a handler. */
bool tls_enter(const struct tls_library *library, struct tls_guest *guest);
void tls_leave(const struct tls_library *library, struct tls_guest *guest);

#endif
