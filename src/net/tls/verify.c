/* Is it the server? Its certificate must be made by a known authority, and for its name. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/tls/parts.h"
#include "sys/text.h"

enum { NAME_MAX_SIZE = 256 };

int64_t tls_time_of(const struct tls_library *library, const ASN1_TIME *time)
{
    struct tm fields;
    return time && library->ASN1_TIME_to_tm(time, &fields) == 1 ? (int64_t)timegm(&fields) : 0;
}

/* The address without its scope: a certificate has none. */
static bool take_address(const char *text, char address[NAME_MAX_SIZE])
{
    uint8_t digits[sizeof(struct in6_addr)];
    snprintf(address, NAME_MAX_SIZE, "%.*s", (int)strcspn(text, "%"), text);
    return inet_pton(AF_INET, address, digits) == 1 || inet_pton(AF_INET6, address, digits) == 1;
}

bool tls_is_address(const char *text)
{
    char address[NAME_MAX_SIZE];
    return take_address(text, address);
}

static bool has_name(const struct tls_library *library, X509 *certificate, const char *name)
{
    char address[NAME_MAX_SIZE];
    if (!name || !name[0])
        return false;
    if (take_address(name, address))
        return library->X509_check_ip_asc(certificate, address, 0) == 1;
    /* A dot first would stand for any name below; the subject's CN is no name (RFC 9289, 5.2.1). */
    enum { STRICT = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT };
    return name[0] != '.' &&
           library->X509_check_host(certificate, name, strlen(name), STRICT, NULL) == 1;
}

/* Any of these will do: the nfstab has them, and nobody else. */
static enum net_tls_fault check_name(const struct tls_library *library,
                                     struct net_tls_session *session, X509 *certificate)
{
    const struct net_tls_settings *settings = &session->tls->settings;
    const char *written = session->peer ? session->peer->written : NULL;
    if (settings->name)
        session->named = has_name(library, certificate, settings->name);
    else
        session->named = has_name(library, certificate, settings->server) ||
                         has_name(library, certificate, written);
    return session->named                                  ? NET_TLS_GOOD
           : settings->name || settings->server || written ? NET_TLS_OTHER_NAME
                                                           : NET_TLS_NO_NAME;
}

static enum net_tls_fault fault_of(int error)
{
    switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_UNTRUSTED:
        return NET_TLS_UNKNOWN_CA;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return NET_TLS_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return NET_TLS_NOT_YET;
    case X509_V_ERR_CERT_REVOKED:
        return NET_TLS_REVOKED;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
        return NET_TLS_CRL_MISSING;
    case X509_V_ERR_CRL_HAS_EXPIRED:
        return NET_TLS_CRL_EXPIRED;
    default:
        return NET_TLS_UNFIT;
    }
}

static void note(const struct tls_library *library, struct net_tls_session *session,
                 X509 *certificate)
{
    struct net_tls_facts *facts = &session->facts;
    if (!certificate)
        return;
    library->X509_NAME_oneline(library->X509_get_subject_name(certificate), facts->subject,
                               sizeof(facts->subject));
    library->X509_NAME_oneline(library->X509_get_issuer_name(certificate), facts->issuer,
                               sizeof(facts->issuer));
    sys_text_clean(facts->subject);
    sys_text_clean(facts->issuer);
    facts->peer_ends = tls_time_of(library, library->X509_get0_notAfter(certificate));
}

int tls_verify(int good, X509_STORE_CTX *store)
{
    const struct tls_library *library = tls_library();
    const SSL *ssl =
        library->X509_STORE_CTX_get_ex_data(store, library->SSL_get_ex_data_X509_STORE_CTX_idx());
    struct net_tls_session *session = ssl ? library->SSL_get_ex_data(ssl, 0) : NULL;
    if (!session)
        return 0;
    X509 *certificate = library->X509_STORE_CTX_get_current_cert(store);
    int error = library->X509_STORE_CTX_get_error(store);
    int depth = library->X509_STORE_CTX_get_error_depth(store);
    enum net_tls_fault fault = NET_TLS_GOOD;
    if (!good) {
        fault = fault_of(error);
        snprintf(session->facts.detail, sizeof(session->facts.detail), "%s",
                 library->X509_verify_cert_error_string(error));
    } else if (depth == 0) {
        fault = check_name(library, session, certificate);
        if (fault != NET_TLS_GOOD)
            library->X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
    }
    if (fault != NET_TLS_GOOD || depth == 0)
        note(library, session, certificate);
    if (fault != NET_TLS_GOOD) {
        session->facts.depth = depth;
        atomic_store(&session->fault, fault);
    }
    return fault == NET_TLS_GOOD;
}
