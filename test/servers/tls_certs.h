/* Certificates for tests, made at once: EC keys, so that it takes no time. */
#ifndef TEST_TLS_CERTS_H
#define TEST_TLS_CERTS_H

#include <stdbool.h>
#include <openssl/x509.h>

struct certificate {
    EVP_PKEY *key;
    X509 *x509;
    unsigned long serial;
};

enum { CERTIFICATE_HOUR = 3600 };

/* What a certificate is to be. */
struct certificate_wish {
    const char *subject;              /* its common name */
    const char *names;                /* "DNS:a.example,IP:127.0.0.1"; NULL: none */
    long from_s, to_s;                /* when it is valid, from now; both 0: an hour */
    const struct certificate *issuer; /* NULL: itself */
    bool authority;
};

/* Ends the program if it cannot be. */
struct certificate certificate_make(const struct certificate_wish *wish);
void certificate_free(struct certificate *certificate);
/* Writes it, and those of `chain` (may be NULL) behind it; and its key, if `key` is given. */
void certificate_write(const struct certificate *certificate, const struct certificate *chain,
                       const char *path, const char *key);
/* A list of what the authority has revoked; NULL: nothing. `to_s`: until when, from now. */
void certificate_revoke(const struct certificate *authority, const struct certificate *revoked,
                        long to_s, const char *path);

#endif
