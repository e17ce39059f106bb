/* What may be wrong with TLS: sentences, remedies, errors. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/tls/parts.h"
#include "run/log_limit.h"
#include "sys/log.h"
#include "sys/text.h"

enum { SAY_EVERY_S = 60, SUBJECT_MAX = 320 };

struct fault {
    int error;
    const char *text, *remedy;
};

static const struct fault faults[NET_TLS_FAULTS] = {
    [NET_TLS_GOOD] = {0, "all is well", ""},
    [NET_TLS_NO_LIBRARY] = {-ELIBACC, "TLS: libssl.so.3 cannot be loaded",
                            "It takes OpenSSL 3 (Debian: libssl3, RPM: openssl-libs), and a "
                            "program that exports no other one"},
    [NET_TLS_LOST] = {-ELIBACC, "TLS: OpenSSL cannot be used in this process any more",
                      "The program was forked amidst OpenSSL, or has shut it down. Start it again"},
    [NET_TLS_NO_THREAD] = {-ELIBSCN, "TLS: a child of fork() cannot begin a session in a handler",
                           "The child must use a file outside of its handlers first"},
    [NET_TLS_NO_MEMORY] = {-ENOMEM, "TLS: OpenSSL has no memory for a session",
                           "Look at the limits of the program; it is tried again"},
    [NET_TLS_BUSY] = {-EAGAIN, "TLS: a handler of the program waits for memory",
                      "Nothing; it is tried again"},
    [NET_TLS_BAD_CA] = {-ENOKEY, "TLS: the file of `tls_ca` cannot be used",
                        "It must be readable, and have certificates in PEM"},
    [NET_TLS_BAD_CRL] = {-ENOKEY, "TLS: the file of `tls_crl` cannot be used",
                         "It must be readable, and have revocation lists in PEM"},
    [NET_TLS_BAD_CERTIFICATE] = {-ENOKEY, "TLS: the file of `tls_cert` cannot be used",
                                 "It must be readable, and begin with our certificate in PEM"},
    [NET_TLS_BAD_KEY] = {-ENOKEY, "TLS: the key of `tls_cert` cannot be used",
                         "The file of `tls_key` must be readable for the user of the program, have "
                         "the key of that certificate in PEM, and no passphrase"},
    [NET_TLS_REFUSED] = {-ENOPROTOOPT, "TLS: the server does not offer it (STARTTLS)",
                         "Set TLS up there (Linux: tlshd and xprtsec), use `tls_direct` for a port "
                         "that is TLS only, or `tls: prefer`"},
    [NET_TLS_CLEAR_AGAIN] = {-ENOPROTOOPT,
                             "TLS: the server does not offer it any more; it did before",
                             "Find out why. It may be another server. For a server that is to be "
                             "used in clear, start the program again"},
    [NET_TLS_NO_RPC] = {-EPFNOSUPPORT, "TLS: the answer to the question for it is garbage",
                        "Is the port that of NFS? For a port that is TLS only say `tls_direct`"},
    [NET_TLS_NO_TLS] = {-EPFNOSUPPORT, "TLS: the server does not speak it there",
                        "Without `tls_direct` the server is asked first (STARTTLS)"},
    [NET_TLS_OLD] = {-EPFNOSUPPORT, "TLS: the server does not speak version 1.3",
                     "RFC 9289 demands it"},
    [NET_TLS_OTHER_PROTOCOL] = {-EPFNOSUPPORT,
                                "TLS: the server selected another protocol than sunrpc (ALPN)",
                                "Is the port that of NFS?"},
    [NET_TLS_UNKNOWN_CA] = {-EKEYREVOKED,
                            "TLS: the authority of the server's certificate is not known",
                            "Name the file with it by `tls_ca`, or add it to those of the system: "
                            "the one at the root, which signed itself"},
    [NET_TLS_OTHER_NAME] = {-EKEYREVOKED, "TLS: the server's certificate is for another name",
                            "Name what the certificate has by `tls_name`, or correct it: a DNS "
                            "name, or an IP address, as the nfstab writes it"},
    [NET_TLS_NO_NAME] = {-EKEYREVOKED,
                         "TLS: no name is known that the server's certificate should have",
                         "Set `tls_name`"},
    [NET_TLS_EXPIRED] = {-EKEYREVOKED, "TLS: a certificate of the server is expired",
                         "Renew it, and look at the clocks"},
    [NET_TLS_NOT_YET] = {-EKEYREVOKED, "TLS: a certificate of the server is not valid yet",
                         "Look at the clocks of both hosts"},
    [NET_TLS_REVOKED] = {-EKEYREVOKED, "TLS: a certificate of the server is revoked",
                         "The server needs another one"},
    [NET_TLS_CRL_MISSING] = {-EKEYREVOKED, "TLS: `tls_crl` has no list of the server's authority",
                             "Each authority of the chain needs its list in that file"},
    [NET_TLS_CRL_EXPIRED] = {-EKEYREVOKED, "TLS: a list in the file of `tls_crl` is out of date",
                             "Get new lists"},
    [NET_TLS_UNFIT] = {-EKEYREVOKED, "TLS: the server's certificate is not fit for it",
                       "Look at the reason that the log has, or `directnfs check`"},
    [NET_TLS_WANTS_CERTIFICATE] = {-EBADRQC, "TLS: the server wants a certificate of ours",
                                   "Set `tls_cert` and `tls_key`"},
    [NET_TLS_REFUSES_CERTIFICATE] =
        {-EBADRQC, "TLS: the server refuses our certificate",
         "Does it know the authority of `tls_cert`, and is that valid?"},
    [NET_TLS_ALERT] = {-EBADRQC, "TLS: the server ended the session by an alert",
                       "Look at the log of the server"},
    [NET_TLS_GARBAGE] = {-ECONNRESET, "TLS: garbage came in a session", "It is connected again"},
    [NET_TLS_KERNEL] = {-ECONNRESET, "TLS: the kernel took the keys of one direction only (kTLS)",
                        "It is connected again, and OpenSSL makes the records"},
    [NET_TLS_CUT] = {-ECONNRESET, "TLS: the server ended the connection in the handshake",
                     "Look at the log of the server"},
    [NET_TLS_LATE] = {-ETIMEDOUT, "TLS: the server does not answer in the handshake",
                      "Look at the log of the server"},
};

const char *net_tls_text(enum net_tls_fault fault)
{
    return faults[fault].text;
}

const char *net_tls_remedy(enum net_tls_fault fault)
{
    return faults[fault].remedy;
}

int net_tls_errno(enum net_tls_fault fault)
{
    return faults[fault].error;
}

bool net_tls_is_error(int error)
{
    return error == -ELIBACC || error == -ELIBSCN || error == -ENOKEY || error == -ENOPROTOOPT ||
           error == -EPFNOSUPPORT || error == -EKEYREVOKED || error == -EBADRQC;
}

const char *net_tls_error_text(int error)
{
    switch (error) {
    case -ELIBACC:
    case -ELIBSCN:
        return "TLS: OpenSSL cannot be used";
    case -ENOKEY:
        return "TLS: a file of ours cannot be used";
    case -ENOPROTOOPT:
        return "TLS: the server does not offer it";
    case -EPFNOSUPPORT:
        return "TLS: the server speaks none that we do";
    case -EKEYREVOKED:
        return "TLS: the server's certificate is refused";
    case -EBADRQC:
        return "TLS: the server refuses us";
    default:
        return strerrordesc_np(-error);
    }
}

/* Alerts: RFC 8446, section 6. */
enum net_tls_fault tls_fault_of_alert(int alert)
{
    enum {
        BAD_CERTIFICATE = 42,
        UNKNOWN = 46,
        UNKNOWN_CA = 48,
        ACCESS_DENIED = 49,
        PROTOCOL_VERSION = 70,
        CERTIFICATE_REQUIRED = 116,
        NO_APPLICATION_PROTOCOL = 120
    };
    if (alert == CERTIFICATE_REQUIRED)
        return NET_TLS_WANTS_CERTIFICATE;
    if ((alert >= BAD_CERTIFICATE && alert <= UNKNOWN) || alert == UNKNOWN_CA ||
        alert == ACCESS_DENIED)
        return NET_TLS_REFUSES_CERTIFICATE;
    return alert == PROTOCOL_VERSION          ? NET_TLS_OLD
           : alert == NO_APPLICATION_PROTOCOL ? NET_TLS_OTHER_PROTOCOL
                                              : NET_TLS_ALERT;
}

enum net_tls_fault tls_fault_of(const struct tls_library *library, bool handshaken)
{
    unsigned long error = library->ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
        return tls_fault_of_alert(reason - SSL_AD_REASON_OFFSET);
    if (reason == ERR_R_MALLOC_FAILURE)
        return NET_TLS_NO_MEMORY;
    if (handshaken)
        return NET_TLS_GARBAGE;
    return reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_NO_PROTOCOLS_AVAILABLE
               ? NET_TLS_OLD
               : NET_TLS_NO_TLS;
}

void tls_say(const struct net_tls *tls, enum net_tls_fault fault, const struct net_tls_facts *facts)
{
    char subject[SUBJECT_MAX], whose[sizeof(facts->subject) + sizeof(facts->issuer) + 64] = "";
    const char *server = tls->settings.server ? tls->settings.server : "?";
    snprintf(subject, sizeof(subject), "tls %d: %s", (int)fault, server);
    if (!run_may_say(subject, SAY_EVERY_S))
        return;
    if (net_tls_errno(fault) == -EKEYREVOKED && facts->subject[0])
        snprintf(whose, sizeof(whose), " (it is of %s, by %s)", facts->subject, facts->issuer);
    log_write(net_tls_errno(fault) == -ELIBACC ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING,
              "server %s: %s%s. %s", server, net_tls_text(fault), whose, net_tls_remedy(fault));
}
