/*
 * A TLS end before an NFS server of a test (RFC 9289): it answers the question for TLS, and hands
 * on what it decrypts. In threads of the test, or of test/fault/tlsproxy.c. It shares no code with
 * src/net/tls.
 */
#ifndef TEST_TLS_PROXY_H
#define TEST_TLS_PROXY_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <openssl/ssl.h>

enum tls_proxy_answer {
    TLS_PROXY_OFFERS,
    TLS_PROXY_DENIES,  /* as servers that do not know the flavor; then it hands on in clear */
    TLS_PROXY_ACCEPTS, /* the call, and says nothing of TLS; likewise */
    TLS_PROXY_LACKS,   /* that version of the program; likewise */
    TLS_PROXY_CLOSES,
    TLS_PROXY_BABBLES
};

struct tls_proxy_options {
    in_port_t port;    /* 0: any */
    in_port_t backend; /* on loopback */
    bool direct;       /* TLS from the first byte */
    bool anywhere;     /* all addresses, not loopback alone; only with a port */
    enum tls_proxy_answer answer;
    const char *certificate, *key;
    const char *client_authority;  /* NULL: no certificate of the client is asked for */
    const char *protocol;          /* that it selects (ALPN), whatever is offered; NULL: none */
    int version_max;               /* TLS1_2_VERSION; 0: any */
    size_t cut_sent, cut_received; /* a connection is closed after so many bytes; 0: never */
    size_t piece;                  /* it sends so many bytes at a time; 0: any */
    size_t record;                 /* the longest record; 0: any */
    unsigned update_every;         /* keys are updated on both sides each so many times; 0: never */
};

enum { TLS_PROXY_CONNECTIONS = 2048 };

struct tls_proxy {
    struct tls_proxy_options options;
    in_port_t port;
    int listener;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows up to `stopping` */
    _Atomic unsigned count;
    int fds[TLS_PROXY_CONNECTIONS]; /* to clients; -1 when closed */
    pthread_t threads[TLS_PROXY_CONNECTIONS];
    bool stopping;
    SSL_CTX *context;
    _Atomic uint32_t answer;       /* enum tls_proxy_answer: as the options at first */
    _Atomic uint32_t version;      /* of the last call that asked for TLS */
    _Atomic unsigned handshakes;   /* that were complete */
    _Atomic unsigned clear;        /* connections with bytes in clear where TLS was due */
    _Atomic unsigned in_clear;     /* connections that were handed on in clear */
    _Atomic unsigned alerts;       /* connections that the client ended by an alert */
    _Atomic unsigned certificates; /* of clients */
    _Atomic uint64_t bytes;        /* that were decrypted */
    _Atomic unsigned garbage;      /* so many connections get a garbage record next */
    _Atomic unsigned closing;      /* so many get close_notify next */
    _Atomic bool deaf;             /* it reads nothing from clients */
};

struct tls_proxy *tls_proxy_start(const struct tls_proxy_options *options);
/* Ends all connections by a reset. */
void tls_proxy_cut(struct tls_proxy *proxy);
void tls_proxy_stop(struct tls_proxy *proxy);

#endif
