/* Certificates, a TLS proxy before the server of rpc_server.h, and clients of it: for test_tls*.c.
 */
#ifndef TEST_TLS_SCENE_H
#define TEST_TLS_SCENE_H

#include "net/tls/tls.h"
#include "net_scene.h"
#include "tls_certs.h"
#include "tls_proxy.h"

/* The files, in a directory of the test. */
enum tls_file_name {
    CA,       /* the authority */
    OTHER_CA, /* another one */
    GOOD,     /* of the server: nas.example, 127.0.0.1, and a long name */
    GOOD_KEY,
    OTHER_NAME,
    EXPIRED,
    NOT_YET,
    STRANGE, /* made by the other authority */
    REVOKED,
    WILD,   /* *.example.com */
    CLIENT, /* ours */
    CLIENT_KEY,
    BAD_CLIENT,  /* ours, made by the other authority */
    LISTS,       /* of what is revoked: REVOKED; behind it the other authority */
    EMPTY_LISTS, /* nothing is */
    OLD_LISTS,
    JUNK,
    TLS_FILE_NAMES
};
#define LONG_NAME \
    "svm-0123456789abcdef0.fs-0123456789abcdef0.fsx.ap-southeast-2.amazonaws.com.example"

/* Its path; that of the key for certificates of servers. */
const char *tls_file(enum tls_file_name name);
const char *tls_key_of(enum tls_file_name name);

extern struct server *tls_backend;
extern struct tls_proxy *tls_proxy;
extern struct net_tls *tls;
extern struct net_server *tls_client;

/* Settings that fit a good server. */
struct net_tls_settings tls_settings(void);
/* Options of a proxy that is one. */
struct tls_proxy_options tls_options(void);
/* Starts all of it. */
void tls_start(const struct net_tls_settings *settings, const struct tls_proxy_options *options);
void tls_stop(void);
/* A connection with these; what comes of it, and what is known then (may be NULL). */
enum net_tls_fault tls_try(const struct net_tls_settings *settings,
                           const struct tls_proxy_options *options, struct net_tls_facts *facts);
/* One call: its error. */
int tls_call(void);

/* Runs the tests in a run directory of their own, with the files. */
int tls_tests_run(void);

#define TLS_TEST(name) UNIT_TEST_WITH(name, watchdog_start, watchdog_stop)

#endif
