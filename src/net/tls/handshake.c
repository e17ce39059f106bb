/* A session begins: the question, the handshake, and what is known of the peer then. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/tls/parts.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/fd.h"
#include "sys/foreign.h"
#include "sys/log.h"

/* ---- steps of OpenSSL ---- */

/* The server wants a certificate of ours. */
static int certificate_asked(SSL *ssl, void *context)
{
    struct net_tls_session *session = context;
    (void)ssl;
    session->facts.asked = true;
    session->facts.given = session->tls->settings.cert != NULL;
    return 1;
}

/* The name that the server may choose a certificate by: never an address (RFC 6066, section 3). */
static const char *name_to_ask_for(const struct net_tls_session *session)
{
    const struct net_tls_settings *settings = &session->tls->settings;
    const char *names[] = {settings->name, session->peer->written, settings->server};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i] && !tls_is_address(names[i]) && (i == 0 || strchr(names[i], '.')))
            return names[i];
    }
    return NULL;
}

/* Within the gate. */
static bool connect_bio(const struct tls_library *library, struct net_tls_session *session)
{
    BIO *bio = library->BIO_new(library->method);
    if (!bio)
        return false;
    library->BIO_set_data(bio, session);
    library->BIO_set_init(bio, 1);
    library->SSL_set_bio(session->ssl, bio, bio);
    library->SSL_set_ex_data(session->ssl, 0, session);
    library->SSL_set_cert_cb(session->ssl, certificate_asked, session);
    library->SSL_set_connect_state(session->ssl);
    const char *name = name_to_ask_for(session);
    if (name)
        library->SSL_ctrl(session->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                          (void *)name);
    return true;
}

enum step { STEP_DONE, STEP_READ, STEP_FAILED };

/* Under the lock, within the gate. */
static enum step step(const struct tls_library *library, struct net_tls_session *session)
{
    int result = library->SSL_do_handshake(session->ssl);
    if (result == 1)
        return STEP_DONE;
    if (tls_wants(library, session->ssl) != SSL_NOTHING)
        return STEP_READ;
    uint32_t none = NET_TLS_GOOD; /* that of the certificate says more */
    atomic_compare_exchange_strong(&session->fault, &none, tls_fault_of(library, false));
    return STEP_FAILED;
}

/* The handshake is over: is the peer one that we want? */
static enum net_tls_fault judge(const struct tls_library *library, struct net_tls_session *session)
{
    const unsigned char *selected = NULL;
    unsigned length = 0;
    static const char sunrpc[] = "sunrpc";
    struct net_tls_facts *facts = &session->facts;
    library->SSL_get0_alpn_selected(session->ssl, &selected, &length);
    facts->alpn = length == sizeof(sunrpc) - 1 && memcmp(selected, sunrpc, length) == 0;
    snprintf(facts->protocol, sizeof(facts->protocol), "%s",
             library->SSL_get_version(session->ssl));
    snprintf(facts->cipher, sizeof(facts->cipher), "%s",
             library->SSL_CIPHER_get_name(library->SSL_get_current_cipher(session->ssl)));
    if (length > 0 && !facts->alpn)
        return NET_TLS_OTHER_PROTOCOL;
    if (library->SSL_version(session->ssl) < TLS1_3_VERSION)
        return NET_TLS_OLD;
    return session->named ? NET_TLS_GOOD : NET_TLS_OTHER_NAME;
}

/* ---- the conversation ---- */

/* Sends what the handshake has written. */
static enum net_tls_fault send_out(struct net_tls_session *session, uint64_t deadline_ns)
{
    tls_session_flush(session);
    while (session->owes) {
        if (tls_wait(session->fd, POLLOUT, session->peer, deadline_ns) != 0)
            return NET_TLS_LATE;
        tls_session_flush(session);
    }
    return NET_TLS_GOOD; /* after an error of the socket, what came before it is read first */
}

static enum net_tls_fault fill(struct net_tls_session *session, uint64_t deadline_ns)
{
    for (;;) {
        if (tls_wait(session->fd, POLLIN, session->peer, deadline_ns) != 0)
            return NET_TLS_LATE;
        tls_session_make_room(session);
        ssize_t got = tls_session_fill(session, false);
        if (got > 0) {
            session->in_end += (size_t)got;
            return NET_TLS_GOOD;
        }
        if (got != -EAGAIN && got != -EINTR)
            return NET_TLS_CUT;
    }
}

/* Nobody else knows the session yet: no lock is needed. */
static enum net_tls_fault shake_hands(struct net_tls_session *session, uint64_t deadline_ns)
{
    const struct tls_library *library = tls_library();
    enum step now = STEP_READ;
    enum net_tls_fault fault = NET_TLS_GOOD;
    for (bool first = true; fault == NET_TLS_GOOD && now == STEP_READ; first = false) {
        struct tls_guest guest;
        if (!first)
            fault = fill(session, deadline_ns);
        if (fault != NET_TLS_GOOD)
            return fault;
        if (!tls_enter(library, &guest))
            return NET_TLS_LOST;
        now = first && !connect_bio(library, session) ? STEP_FAILED : step(library, session);
        if (now == STEP_DONE)
            fault = judge(library, session);
        else if (now == STEP_FAILED && (fault = session->fault) == NET_TLS_GOOD)
            fault = NET_TLS_LOST;
        tls_leave(library, &guest);
        enum net_tls_fault sending = send_out(session, deadline_ns); /* an alert, too */
        if (fault == NET_TLS_GOOD)
            fault = sending;
    }
    /* What came with the last step is for the reader. */
    atomic_store(&session->more, session->in_start < session->in_end);
    return fault;
}

/* What is to be done with one connection. Two threads may have it: see begin_aside(). */
struct beginning {
    _Atomic unsigned references;
    struct net_tls_session *session;
    struct net_tls_peer peer;
    char written[256];
    uint64_t deadline_ns;
    enum net_tls_fault fault;
};

static void beginning_put(struct beginning *beginning)
{
    if (atomic_fetch_sub(&beginning->references, 1) != 1)
        return;
    if (beginning->session)
        tls_session_put(beginning->session);
    sys_free(beginning);
}

/* NFS, and not MOUNT: of that many servers know nothing of TLS. */
static bool is_nfs(const struct net_tls_peer *peer)
{
    enum { NFS_PROGRAM = 100003 };
    return peer->program == NFS_PROGRAM;
}

static void begin(void *argument)
{
    struct beginning *beginning = argument;
    struct net_tls_session *session = beginning->session;
    struct net_tls *tls = session->tls;
    enum net_tls_fault fault = NET_TLS_GOOD;
    tls_session_reap();
    session->peer = &beginning->peer;
    tls_kernel_prepare(session);
    /* Our own files first: nothing is asked of a server that could not be used. */
    session->ssl = tls_context_ssl(tls, &fault, &session->facts.own_ends);
    if (fault == NET_TLS_GOOD && !tls->settings.direct)
        fault = tls_probe(session->fd, session->peer, beginning->deadline_ns);
    if (fault == NET_TLS_REFUSED && is_nfs(session->peer) && atomic_load(&tls->was_protected))
        fault = NET_TLS_CLEAR_AGAIN;
    bool shakes = fault == NET_TLS_GOOD;
    if (shakes)
        fault = shake_hands(session, beginning->deadline_ns);
    if (shakes && fault == NET_TLS_GOOD)
        fault = tls_kernel_take_over(session);
    tls_kernel_forget(session);
    /* Closing would reset the connection, and the peer might never see why: our alert. */
    const struct linger in_order = {.l_onoff = 0};
    if (shakes && fault != NET_TLS_GOOD)
        sys_setsockopt(session->fd, SOL_SOCKET, SO_LINGER, &in_order, sizeof(in_order));
    session->peer = NULL;
    beginning->fault = fault;
    beginning_put(beginning);
}

/* In a handler: another thread does it. */
static enum net_tls_fault begin_aside(struct beginning *beginning, int timeout_ms)
{
    if (!sys_foreign_aside_runs()) {
        beginning_put(beginning);
        return NET_TLS_NO_THREAD;
    }
    beginning->peer.look = NULL; /* it is of this thread */
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int result = sys_foreign_aside(begin, beginning, timeout_ms);
    if (result == -EAGAIN)
        beginning_put(beginning);
    else if (result != 0) /* the other thread has the descriptor; the connection ends now */
        sys_connect(beginning->session->fd, &nobody, sizeof(nobody));
    return result == 0 ? beginning->fault : NET_TLS_BUSY;
}

static enum net_tls_fault run(struct beginning *beginning, int timeout_ms)
{
    bool in_handler = sys_critical_in_handler();
    if (!tls_library() && (in_handler || net_tls_load(NULL) != 0)) {
        beginning_put(beginning);
        return in_handler ? NET_TLS_BUSY : NET_TLS_NO_LIBRARY;
    }
    if (in_handler)
        return begin_aside(beginning, timeout_ms);
    sys_foreign_aside_start(); /* a child has none */
    begin(beginning);
    return beginning->fault;
}

int net_tls_begin(struct net_tls *tls, int fd, struct net_tls_peer *peer,
                  struct net_tls_session **out)
{
    struct beginning *beginning = sys_alloc_zeroed(sizeof(*beginning));
    struct net_tls_session *session = beginning ? tls_session_new(tls, fd) : NULL;
    *out = NULL;
    if (!session) {
        sys_free(beginning);
        sys_fd_close(fd);
        return -ENOMEM;
    }
    beginning->references = 2;
    beginning->session = session;
    beginning->peer = *peer;
    beginning->peer.facts = NULL;
    if (peer->written) {
        snprintf(beginning->written, sizeof(beginning->written), "%s", peer->written);
        beginning->peer.written = beginning->written;
    }
    beginning->deadline_ns = sys_now_ns() + (uint64_t)peer->timeout_ms * 1000000;
    enum net_tls_fault fault = run(beginning, peer->timeout_ms);
    peer->fault = fault;
    if (fault == NET_TLS_BUSY) {
        beginning_put(beginning);
        return net_tls_errno(fault);
    }
    session->facts.refused = fault == NET_TLS_REFUSED || fault == NET_TLS_CLEAR_AGAIN;
    if (peer->facts)
        *peer->facts = session->facts;
    if (is_nfs(peer))
        atomic_store(&tls->fault, fault);
    if (fault == NET_TLS_GOOD) {
        if (is_nfs(peer))
            atomic_store(&tls->was_protected, true);
        tls_session_get(session);
        *out = session;
    } else if (!peer->hidden && (fault != NET_TLS_REFUSED || tls->settings.require)) {
        tls_say(tls, fault, &session->facts);
    }
    bool in_clear = fault == NET_TLS_REFUSED && !tls->settings.require;
    if (in_clear)
        session->fd = -1; /* the caller's again */
    if (in_clear && !peer->hidden && !atomic_exchange(&tls->said_clear, true))
        log_warning("server %s: it does not offer TLS (STARTTLS); it is used in clear, as "
                    "`tls: prefer` permits",
                    tls->settings.server);
    beginning_put(beginning);
    return in_clear ? 0 : net_tls_errno(fault);
}
