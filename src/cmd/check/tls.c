/* directnfs check: a connection with TLS, step by step. */
#include "cmd/check/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/print.h"

enum { DAY_S = 86400, SOON_DAYS = 14 };

/* Is the library there? False: reported. */
static bool has_library(void)
{
    const char *why;
    if (net_tls_load(&why) != 0) {
        check_say(CHECK_ERROR, "TLS", "OpenSSL cannot be used: %s", why);
        check_remedy("%s", net_tls_remedy(NET_TLS_NO_LIBRARY));
        check_reason(REACH_NO_TLS);
        return false;
    }
    check_say(CHECK_INFO, "TLS", "%s", net_tls_version());
    return true;
}

/* The key must be a secret. */
static void look_at_key(const struct conf_server *conf)
{
    const char *file = conf->tls_key ? conf->tls_key : conf->tls_cert;
    struct stat status;
    if (!file || stat(file, &status) != 0 || (status.st_mode & (S_IROTH | S_IWOTH)) == 0)
        return;
    check_say(CHECK_WARNING, "TLS", "everybody on this host can %s the key in %s",
              status.st_mode & S_IWOTH ? "change" : "read", file);
    check_remedy("chmod o= %s, and give it to the user of the programs", file);
}

/* Says when a certificate ends, if that is known. */
static void say_end(const char *whose, const char *key, int64_t ends)
{
    int64_t left_s = ends - (int64_t)time(NULL);
    struct tm fields;
    char day[32] = "?";
    time_t at = (time_t)ends;
    if (ends == 0)
        return;
    if (gmtime_r(&at, &fields))
        strftime(day, sizeof(day), "%Y-%m-%d", &fields);
    bool soon = left_s < (int64_t)SOON_DAYS * DAY_S;
    check_say(soon ? CHECK_WARNING : CHECK_INFO, "TLS", "%s certificate ends on %s, in %lld days",
              whose, day, (long long)(left_s / DAY_S));
    check_number(key, left_s > 0 ? (uint64_t)left_s : 0);
    if (soon)
        check_remedy("renew it; the files are read again when they change");
}

static void say_success(const struct net_tls_facts *facts)
{
    check_say(CHECK_INFO, "TLS", "%s, %s%s", facts->protocol, facts->cipher,
              facts->alpn ? "" : "; the server selects no protocol (ALPN), as older ones do");
    check_word("protocol", facts->protocol);
    check_word("cipher", facts->cipher);
    check_say(CHECK_INFO, "TLS", "its records are made and opened by %s",
              facts->in_kernel ? "the kernel (kTLS)" : "OpenSSL");
    check_word("records", facts->in_kernel ? "kernel" : "openssl");
    check_say(CHECK_INFO, "TLS", "the server's certificate is of %s, by %s", facts->subject,
              facts->issuer);
    check_word("subject", facts->subject);
    check_word("issuer", facts->issuer);
    say_end("the server's", "certificate_s", facts->peer_ends);
    if (facts->asked)
        check_say(CHECK_INFO, "TLS", "the server asks for a certificate of this host, %s",
                  facts->given ? "and gets it" : "and there is none (tls_cert)");
    if (facts->given)
        say_end("our", "own_certificate_s", facts->own_ends);
}

void check_tls_fault(const struct check_path *path, const char *label, enum net_tls_fault fault,
                     const struct net_tls_facts *facts)
{
    bool certificate = facts && facts->subject[0] && net_tls_errno(fault) == -EKEYREVOKED;
    check_say(CHECK_ERROR, label, "%s%s%s%s%s%s%s", net_tls_text(fault),
              certificate ? "; it is of " : "", certificate ? facts->subject : "",
              certificate ? ", by " : "", certificate ? facts->issuer : "",
              facts && facts->detail[0] ? ": " : "", facts ? facts->detail : "");
    check_word("reason", net_tls_text(fault));
    check_remedy("%s", net_tls_remedy(fault));
    (void)path;
}

bool check_tls(struct check_path *path, int fd)
{
    struct net_tls_facts facts = {.depth = 0};
    struct net_tls_peer peer = {.written = reach_tls_written(path->stanza, path->conf),
                                .program = NFS_PROGRAM,
                                .version = path->client.version->number,
                                .timeout_ms = path->check->timeout_ms,
                                .hidden = true,
                                .facts = &facts};
    struct net_tls_session *session;
    look_at_key(path->stanza);
    int result = net_tls_begin(path->tls, fd, &peer, &session);
    if (session) {
        say_success(&facts);
        net_tls_close(session);
    } else if (result == 0) {
        close(fd);
        check_say(CHECK_WARNING, "TLS", "the server does not offer it: all is in clear");
        check_remedy("%s; or say `tls: no`", net_tls_remedy(NET_TLS_REFUSED));
    } else {
        check_tls_fault(path, "TLS", peer.fault, &facts);
    }
    return result == 0;
}

struct net_tls *check_tls_new(const struct check *check, const struct conf_server *conf,
                              const struct nfs_version *version, const struct check_root *roots,
                              bool *good)
{
    enum conf_tls tls = CONF_TLS_NO;
    *good = true;
    for (size_t i = 0; i < conf->export_count; i++) {
        enum conf_tls one = reach_tls(conf->tls, &roots[i].kernel);
        tls = roots[i].version == version && one > tls ? one : tls;
    }
    if (tls < CONF_TLS_PREFER)
        return NULL;
    *good = has_library();
    return *good ? cmd_need(reach_tls_new(conf, tls, version, &check->tunables)) : NULL;
}
