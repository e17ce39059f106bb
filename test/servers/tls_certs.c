/* See tls_certs.h. */
#include "tls_certs.h"

#include <stdio.h>
#include <stdlib.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static void must(bool good)
{
    if (!good)
        abort();
}

static void add_extension(X509 *x509, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    must(extension && X509_add_ext(x509, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

struct certificate certificate_make(const struct certificate_wish *wish)
{
    static unsigned long serial = 1000;
    struct certificate made = {EVP_EC_gen("P-256"), X509_new(), ++serial};
    must(made.key && made.x509);
    long to_s = wish->from_s == 0 && wish->to_s == 0 ? CERTIFICATE_HOUR : wish->to_s;
    long from_s = wish->from_s == 0 ? -CERTIFICATE_HOUR : wish->from_s;
    const struct certificate *issuer = wish->issuer ? wish->issuer : &made;
    X509_NAME *name = X509_get_subject_name(made.x509);
    must(X509_set_version(made.x509, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(made.x509), (long)made.serial) == 1 &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)wish->subject,
                                    -1, -1, 0) == 1 &&
         X509_set_issuer_name(made.x509, X509_get_subject_name(issuer->x509)) == 1 &&
         X509_gmtime_adj(X509_getm_notBefore(made.x509), from_s) &&
         X509_gmtime_adj(X509_getm_notAfter(made.x509), to_s) &&
         X509_set_pubkey(made.x509, made.key) == 1);
    add_extension(made.x509, issuer->x509, NID_basic_constraints,
                  wish->authority ? "critical,CA:TRUE" : "CA:FALSE");
    add_extension(made.x509, issuer->x509, NID_subject_key_identifier, "hash");
    if (wish->authority)
        add_extension(made.x509, issuer->x509, NID_key_usage, "critical,keyCertSign,cRLSign");
    if (wish->names)
        add_extension(made.x509, issuer->x509, NID_subject_alt_name, wish->names);
    must(X509_sign(made.x509, issuer->key, EVP_sha256()) > 0);
    return made;
}

void certificate_free(struct certificate *certificate)
{
    EVP_PKEY_free(certificate->key);
    X509_free(certificate->x509);
}

void certificate_write(const struct certificate *certificate, const struct certificate *chain,
                       const char *path, const char *key)
{
    FILE *file = fopen(path, "w");
    must(file && PEM_write_X509(file, certificate->x509) == 1);
    must(!chain || PEM_write_X509(file, chain->x509) == 1);
    must(fclose(file) == 0);
    file = key ? fopen(key, "w") : NULL;
    must(!key || (file && PEM_write_PrivateKey(file, certificate->key, NULL, NULL, 0, NULL, NULL) &&
                  fclose(file) == 0));
}

void certificate_revoke(const struct certificate *authority, const struct certificate *revoked,
                        long to_s, const char *path)
{
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *from = X509_gmtime_adj(NULL, -CERTIFICATE_HOUR), *to = X509_gmtime_adj(NULL, to_s);
    must(list && from && to && X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
         X509_CRL_set_issuer_name(list, X509_get_subject_name(authority->x509)) == 1 &&
         X509_CRL_set1_lastUpdate(list, from) == 1 && X509_CRL_set1_nextUpdate(list, to) == 1);
    if (revoked) {
        X509_REVOKED *entry = X509_REVOKED_new();
        must(entry &&
             X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->x509)) == 1 &&
             X509_REVOKED_set_revocationDate(entry, from) == 1 &&
             X509_CRL_add0_revoked(list, entry) == 1);
    }
    FILE *file = fopen(path, "w");
    must(X509_CRL_sign(list, authority->key, EVP_sha256()) > 0 && file &&
         PEM_write_X509_CRL(file, list) == 1 && fclose(file) == 0);
    X509_CRL_free(list);
    ASN1_TIME_free(from);
    ASN1_TIME_free(to);
}
