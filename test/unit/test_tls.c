/* Whom the client trusts, and when it is in clear: handshakes of src/net/tls. */
#include <openssl/err.h>

#include "net/protect.h"
#include "stats/count.h"
#include "tls_scene.h"

#define assert_fault(settings, options, wanted) \
    assert_string_equal(net_tls_text(tls_try(settings, options, NULL)), net_tls_text(wanted))

TLS_TEST(a_good_server_is_good)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    struct net_tls_facts facts;
    assert_int_equal(tls_try(&settings, &options, &facts), NET_TLS_GOOD);
    assert_string_equal(facts.protocol, "TLSv1.3");
    assert_true(strncmp(facts.cipher, "TLS_", 4) == 0);
    assert_string_equal(facts.subject, "/CN=nas");
    assert_string_equal(facts.issuer, "/CN=ca");
    int64_t left_s = facts.peer_ends - (int64_t)time(NULL);
    assert_true(left_s > CERTIFICATE_HOUR && left_s <= 2 * CERTIFICATE_HOUR);
    assert_true(facts.alpn && !facts.asked && !facts.given && !facts.refused);
    assert_int_equal(facts.own_ends, 0);
}

TLS_TEST(without_the_question_it_is_the_same)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.direct = options.direct = true;
    assert_fault(&settings, &options, NET_TLS_GOOD);
}

TLS_TEST(a_server_need_not_select_a_protocol)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    options.protocol = NULL;
    assert_fault(&settings, &options, NET_TLS_GOOD);
}

/* It is asked in the version that the connection is for. One that lacks it says nothing of TLS. */
TLS_TEST(the_question_is_of_the_version_that_is_used)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.nfs_version = 4;
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), 0);
    assert_int_equal(tls_proxy->version, 4);
    tls_stop();
    options.answer = TLS_PROXY_LACKS;
    settings.require = false;
    assert_fault(&settings, &options, NET_TLS_NO_RPC);
}

TLS_TEST(names_are_those_of_the_nfstab)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.server = "label";
    assert_fault(&settings, &options, NET_TLS_GOOD); /* the address, as it is written */
    settings.name = "nas.example";
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.name = LONG_NAME;
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.name = "127.0.0.1";
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.name = "127.0.0.2"; /* `tls_name` instead of the others */
    assert_fault(&settings, &options, NET_TLS_OTHER_NAME);
    settings.name = "as.example";
    assert_fault(&settings, &options, NET_TLS_OTHER_NAME);
    settings.name = NULL;
    options.certificate = tls_file(OTHER_NAME);
    options.key = tls_key_of(OTHER_NAME);
    assert_fault(&settings, &options, NET_TLS_OTHER_NAME);
    options.certificate = tls_file(WILD);
    options.key = tls_key_of(WILD);
    settings.name = "a.example.com";
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.name = "nas.example"; /* no partial wildcards */
    assert_fault(&settings, &options, NET_TLS_OTHER_NAME);
    settings.name = ".example.com"; /* nor any name below */
    assert_fault(&settings, &options, NET_TLS_OTHER_NAME);
    options.certificate = tls_file(CLIENT);
    options.key = tls_key_of(CLIENT);
    settings.name = "client"; /* the CN is no name */
    assert_fault(&settings, &options, NET_TLS_OTHER_NAME);
}

TLS_TEST(bad_certificates_are_refused)
{
    static const struct {
        enum tls_file_name file;
        enum net_tls_fault fault;
    } bad[] = {
        {EXPIRED, NET_TLS_EXPIRED}, {NOT_YET, NET_TLS_NOT_YET}, {STRANGE, NET_TLS_UNKNOWN_CA}};
    for (int prefer = 0; prefer < 2; prefer++) {
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            struct net_tls_settings settings = tls_settings();
            struct tls_proxy_options options = tls_options();
            settings.require = !prefer;
            options.certificate = tls_file(bad[i].file);
            options.key = tls_key_of(bad[i].file);
            assert_fault(&settings, &options, bad[i].fault);
        }
    }
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.ca = NULL; /* those of the system */
    assert_fault(&settings, &options, NET_TLS_UNKNOWN_CA);
}

TLS_TEST(revoked_certificates_are_refused)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.crl = tls_file(LISTS);
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.crl = tls_file(OLD_LISTS);
    assert_fault(&settings, &options, NET_TLS_CRL_EXPIRED);
    options.certificate = tls_file(REVOKED);
    options.key = tls_key_of(REVOKED);
    settings.crl = NULL;
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.crl = tls_file(EMPTY_LISTS);
    assert_fault(&settings, &options, NET_TLS_GOOD);
    settings.crl = tls_file(LISTS);
    assert_fault(&settings, &options, NET_TLS_REVOKED);
    /* A certificate in the file of lists is no authority. */
    options.certificate = tls_file(STRANGE);
    options.key = tls_key_of(STRANGE);
    assert_fault(&settings, &options, NET_TLS_UNKNOWN_CA);
    settings.ca = tls_file(OTHER_CA);
    settings.crl = tls_file(EMPTY_LISTS);
    assert_fault(&settings, &options, NET_TLS_CRL_MISSING);
}

TLS_TEST(files_that_cannot_be_used_are_told_apart)
{
    struct tls_proxy_options options = tls_options();
    struct net_tls_settings settings = tls_settings();
    settings.ca = "/nowhere";
    assert_fault(&settings, &options, NET_TLS_BAD_CA);
    settings.ca = tls_file(JUNK);
    assert_fault(&settings, &options, NET_TLS_BAD_CA);
    settings = tls_settings();
    settings.crl = tls_file(CA);
    assert_fault(&settings, &options, NET_TLS_BAD_CRL);
    settings = tls_settings();
    settings.cert = tls_file(JUNK);
    assert_fault(&settings, &options, NET_TLS_BAD_CERTIFICATE);
    settings.cert = tls_file(CLIENT);
    assert_fault(&settings, &options, NET_TLS_BAD_KEY); /* it is in another file */
    settings.key = tls_key_of(GOOD);
    assert_fault(&settings, &options, NET_TLS_BAD_KEY); /* of another certificate */
    settings.key = tls_key_of(CLIENT);
    assert_fault(&settings, &options, NET_TLS_GOOD);
}

TLS_TEST(a_server_may_want_a_certificate)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    struct net_tls_facts facts;
    options.client_authority = tls_file(CA);
    assert_int_equal(tls_try(&settings, &options, &facts), NET_TLS_GOOD);
    assert_true(facts.asked && !facts.given); /* the alert comes later */
    settings.cert = tls_file(CLIENT);
    settings.key = tls_key_of(CLIENT);
    assert_int_equal(tls_try(&settings, &options, &facts), NET_TLS_GOOD);
    assert_true(facts.asked && facts.given);
    int64_t left_s = facts.own_ends - (int64_t)time(NULL);
    assert_true(left_s > 2 * CERTIFICATE_HOUR && left_s <= 3 * CERTIFICATE_HOUR);
}

static uint32_t shown(void)
{
    return stats_get(&tls_client->channels[0]->stats->security);
}

/* What of mounts is known after the connection was made is shown, too, and each connection by
 * itself. */
TLS_TEST(the_statistics_say_how_a_connection_is_protected)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), 0);
    assert_int_equal(shown(), DIRECTNFS_SECURITY_TLS);
    net_server_show_security(tls_client, DIRECTNFS_SECURITY_KRB5I);
    assert_int_equal(shown(), DIRECTNFS_SECURITY_TLS | DIRECTNFS_SECURITY_KRB5I);
    tls_stop();
    options.client_authority = tls_file(CA);
    settings.cert = tls_file(CLIENT);
    settings.key = tls_key_of(CLIENT);
    tls_start(&settings, &options);
    net_server_show_security(tls_client, DIRECTNFS_SECURITY_SYS);
    assert_int_equal(tls_call(), 0);
    assert_int_equal(shown(),
                     DIRECTNFS_SECURITY_TLS | DIRECTNFS_SECURITY_MTLS | DIRECTNFS_SECURITY_SYS);
    tls_stop();
    options = tls_options();
    options.answer = TLS_PROXY_DENIES;
    settings.require = false;
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), 0);
    net_server_show_security(tls_client, DIRECTNFS_SECURITY_KRB5);
    assert_int_equal(shown(), DIRECTNFS_SECURITY_KRB5);
    tls_stop();
}

/* The handshake is good, and the first reply is an alert. */
TLS_TEST(without_a_certificate_the_calls_say_so)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    options.client_authority = tls_file(CA);
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), -EBADRQC);
    assert_int_equal(net_tls_fault(tls), NET_TLS_WANTS_CERTIFICATE);
    assert_true(tls_proxy->count < 8); /* no storm of attempts */
    tls_stop();
    settings.cert = tls_file(BAD_CLIENT);
    settings.key = tls_key_of(BAD_CLIENT);
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), -EBADRQC);
    assert_int_equal(net_tls_fault(tls), NET_TLS_REFUSES_CERTIFICATE);
    tls_stop();
    settings.cert = tls_file(CLIENT);
    settings.key = tls_key_of(CLIENT);
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), 0);
    assert_true(tls_proxy->certificates >= 1);
    tls_stop();
}

TLS_TEST(a_server_without_tls_is_used_in_clear_only_if_that_is_permitted)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    for (int how = TLS_PROXY_DENIES; how <= TLS_PROXY_ACCEPTS; how++) {
        options.answer = (enum tls_proxy_answer)how;
        settings.require = true;
        tls_start(&settings, &options);
        assert_int_equal(tls_call(), -ENOPROTOOPT);
        assert_int_equal(net_tls_fault(tls), NET_TLS_REFUSED);
        assert_int_equal(tls_backend->calls, 0);
        assert_true(tls_proxy->count < 8);
        tls_stop();
        settings.require = false;
        tls_start(&settings, &options);
        assert_int_equal(tls_call(), 0);
        assert_null(tls_client->channels[0]->tls);
        assert_int_equal(tls_proxy->in_clear, 1);
        tls_stop();
    }
}

TLS_TEST(a_server_that_protected_is_never_used_in_clear_again)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    settings.require = false;
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), 0);
    assert_non_null(tls_client->channels[0]->tls);
    unsigned calls = tls_backend->calls; /* a call that took long was made again */
    tls_proxy->answer = TLS_PROXY_DENIES;
    tls_proxy_cut(tls_proxy);
    assert_int_equal(tls_call(), -ENOPROTOOPT);
    assert_int_equal(net_tls_fault(tls), NET_TLS_CLEAR_AGAIN);
    assert_int_equal(tls_backend->calls, calls);
    tls_proxy->answer = TLS_PROXY_OFFERS;
    while (tls_call() != 0)
        ;
    assert_int_equal(tls_proxy->clear, 0);
    tls_stop();
}

TLS_TEST(other_servers_are_told_apart)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    options.protocol = "h2";
    assert_int_not_equal(tls_try(&settings, &options, NULL), NET_TLS_GOOD);
    options = tls_options();
    options.version_max = TLS1_2_VERSION;
    assert_fault(&settings, &options, NET_TLS_OLD);
    options = tls_options();
    options.answer = TLS_PROXY_CLOSES;
    assert_fault(&settings, &options, NET_TLS_CUT);
    options.answer = TLS_PROXY_BABBLES;
    assert_fault(&settings, &options, NET_TLS_NO_RPC);
    options = tls_options();
    settings.direct = true; /* the proxy takes it for a record of RPC */
    options.answer = TLS_PROXY_BABBLES;
    assert_int_not_equal(tls_try(&settings, &options, NULL), NET_TLS_GOOD);
    settings = tls_settings();
    settings.require = false;
    options.answer = TLS_PROXY_CLOSES; /* that is no answer, and no leave to go on in clear */
    assert_fault(&settings, &options, NET_TLS_CUT);
}

/* At each byte would take too long: at some, the first and the last of each message among them. */
TLS_TEST(connections_may_be_cut_anywhere)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    unsigned good = 0, cut = 0;
    for (size_t at = 1; at < 1500; at += at < 50 ? 5 : 61) {
        options.cut_sent = at;
        options.cut_received = 0;
        enum net_tls_fault fault = tls_try(&settings, &options, NULL);
        good += fault == NET_TLS_GOOD;
        cut += fault == NET_TLS_CUT;
        assert_true(fault == NET_TLS_GOOD || fault == NET_TLS_CUT);
        options.cut_sent = 0;
        options.cut_received = at;
        fault = tls_try(&settings, &options, NULL);
        good += fault == NET_TLS_GOOD;
        cut += fault == NET_TLS_CUT;
        assert_true(fault == NET_TLS_GOOD || fault == NET_TLS_CUT);
    }
    assert_true(good > 2 && cut > 20);
}

TLS_TEST(bytes_may_come_one_by_one)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    options.piece = 1;
    assert_fault(&settings, &options, NET_TLS_GOOD);
}

TLS_TEST(a_server_that_says_nothing_costs_the_time_of_an_attempt)
{
    struct net_tls_settings settings = tls_settings();
    in_port_t port;
    int listener = stream_bind_kept(AF_INET, &port);
    assert_int_equal(listen(listener, 8), 0);
    struct net_tls *silent = net_tls_new(&settings);
    struct net_address address = loopback(port);
    struct net_tls_session *session;
    struct net_tls_peer peer = {.program = 100003, .version = 3, .timeout_ms = 50, .hidden = true};
    uint64_t began = sys_now_ns();
    assert_int_equal(
        net_tls_begin(silent, net_connect(&address, NET_PORT_ANY, 5000), &peer, &session),
        -ETIMEDOUT);
    assert_int_equal(peer.fault, NET_TLS_LATE);
    assert_true(sys_now_ns() - began >= 50000000);
    net_tls_free(silent);
    close(listener);
}

TLS_TEST(files_are_read_again_when_they_change)
{
    char ca[128];
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    snprintf(ca, sizeof(ca), "%s.copy", tls_file(CA));
    settings.ca = ca;
    char copy[512];
    snprintf(copy, sizeof(copy), "cp %s %s", tls_file(OTHER_CA), ca);
    assert_int_equal(system(copy), 0);
    tls_start(&settings, &options);
    assert_int_equal(tls_call(), -EKEYREVOKED);
    snprintf(copy, sizeof(copy), "cp %s %s.new && mv %s.new %s", tls_file(CA), ca, ca, ca);
    assert_int_equal(system(copy), 0);
    while (tls_call() != 0)
        ;
    assert_int_equal(unlink(ca), 0); /* what was read is used on */
    tls_proxy_cut(tls_proxy);
    while (tls_call() != 0)
        ;
    snprintf(copy, sizeof(copy), "cp %s %s", tls_file(JUNK), ca); /* also if it is of no use now */
    assert_int_equal(system(copy), 0);
    tls_proxy_cut(tls_proxy);
    while (tls_call() != 0)
        ;
    assert_true(tls_proxy->handshakes >= 3);
    tls_stop();
}

/* ---- the program's own OpenSSL ---- */

TLS_TEST(the_program_keeps_its_errors)
{
    struct net_tls_settings settings = tls_settings();
    struct tls_proxy_options options = tls_options();
    tls_start(&settings, &options);
    ERR_clear_error();
    ERR_raise_data(ERR_LIB_USER, 17, "first %d", 1);
    ERR_raise(ERR_LIB_SYS, ENOENT);
    errno = EXDEV;
    assert_int_equal(tls_call(), 0);
    assert_int_equal(errno, EXDEV);
    const char *file, *function, *data;
    int line, flags;
    unsigned long error = ERR_get_error_all(&file, &line, &function, &data, &flags);
    assert_int_equal(ERR_GET_REASON(error), 17);
    assert_string_equal(data, "first 1");
    assert_non_null(strstr(file, "test_tls.c"));
    error = ERR_get_error();
    assert_true(ERR_SYSTEM_ERROR(error) && ERR_GET_REASON(error) == ENOENT);
    assert_int_equal(ERR_get_error(), 0);
    tls_stop();
}

int main(void)
{
    return tls_tests_run();
}
