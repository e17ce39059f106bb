/* See tls_proxy.h. */
#include "tls_proxy.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <openssl/err.h>

#include "stream.h"

enum { AUTH_TLS = 7, CHUNK = 65536 };

struct connection {
    struct tls_proxy *proxy;
    unsigned index;
    int fd, backend;
    size_t sent, received; /* of the client's connection */
    unsigned turns;
    SSL *ssl;
    BIO *in, *out;
};

static void word(uint8_t **at, uint32_t value)
{
    value = htonl(value);
    memcpy(*at, &value, sizeof(value));
    *at += sizeof(value);
}

/* To the client, as the options say. False: the connection is to be closed. */
static bool send_client(struct connection *self, const void *data, size_t length)
{
    const struct tls_proxy_options *options = &self->proxy->options;
    const char *at = data;
    while (length > 0) {
        size_t piece = options->piece && options->piece < length ? options->piece : length;
        size_t left = options->cut_sent ? options->cut_sent - self->sent : piece;
        if (left == 0)
            return false;
        piece = piece < left ? piece : left;
        if (!stream_send(self->fd, at, piece))
            return false;
        self->sent += piece;
        at += piece;
        length -= piece;
    }
    return true;
}

static ssize_t receive_client(struct connection *self, void *data, size_t length)
{
    size_t cut = self->proxy->options.cut_received;
    if (cut && cut - self->received < length)
        length = cut - self->received;
    ssize_t got = length > 0 ? recv(self->fd, data, length, 0) : 0;
    self->received += got > 0 ? (size_t)got : 0;
    return got;
}

/* ---- the question ---- */

static bool read_exactly(struct connection *self, uint8_t *to, size_t length)
{
    for (size_t at = 0; at < length;) {
        ssize_t got = receive_client(self, to + at, length - at);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

static bool answer(struct connection *self, uint32_t xid, enum tls_proxy_answer how)
{
    uint8_t reply[64], *at = reply + RECORD_MARK;
    static const char token[] = "STARTTLS";
    word(&at, xid);
    word(&at, 1);
    if (how == TLS_PROXY_DENIES) {
        word(&at, 1); /* MSG_DENIED, AUTH_ERROR, AUTH_REJECTEDCRED */
        word(&at, 1);
        word(&at, 2);
    } else {
        bool offers = how == TLS_PROXY_OFFERS;
        word(&at, 0);
        word(&at, 0);
        word(&at, offers ? sizeof(token) - 1 : 0);
        memcpy(at, token, offers ? sizeof(token) - 1 : 0);
        at += offers ? sizeof(token) - 1 : 0;
        word(&at, how == TLS_PROXY_LACKS ? 2 : 0); /* PROG_MISMATCH: from 4 to 4 */
        if (how == TLS_PROXY_LACKS) {
            word(&at, 4);
            word(&at, 4);
        }
    }
    record_mark(reply, (size_t)(at - reply));
    return send_client(self, reply, (size_t)(at - reply));
}

enum next { NEXT_TLS, NEXT_CLEAR, NEXT_END };

static enum next ask(struct connection *self)
{
    uint8_t call[44];
    enum tls_proxy_answer how = (enum tls_proxy_answer)atomic_load(&self->proxy->answer);
    struct call_head head;
    if (!read_exactly(self, call, sizeof(call)))
        return NEXT_END;
    if (!call_read(call + RECORD_MARK, sizeof(call) - RECORD_MARK, &head) ||
        head.flavor != AUTH_TLS) {
        atomic_fetch_add(&self->proxy->clear, 1);
        return NEXT_END;
    }
    atomic_store(&self->proxy->version, head.version);
    if (how == TLS_PROXY_CLOSES)
        return NEXT_END;
    if (how == TLS_PROXY_BABBLES)
        return send_client(self, "HTTP/1.0 400 Bad Request\r\n\r\n", 28) ? NEXT_END : NEXT_END;
    if (!answer(self, head.xid, how))
        return NEXT_END;
    return how == TLS_PROXY_OFFERS ? NEXT_TLS : NEXT_CLEAR;
}

/* ---- TLS ---- */

static bool flush(struct connection *self)
{
    char chunk[CHUNK];
    int got;
    while ((got = BIO_read(self->out, chunk, sizeof(chunk))) > 0) {
        if (!send_client(self, chunk, (size_t)got))
            return false;
    }
    return true;
}

/* What the client ended the session by, or broke it. */
static void note_end(struct connection *self)
{
    unsigned long error = ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    if (reason > SSL_AD_REASON_OFFSET)
        atomic_fetch_add(&self->proxy->alerts, 1);
    else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
             reason == SSL_R_BAD_RECORD_TYPE || reason == SSL_R_UNEXPECTED_MESSAGE)
        atomic_fetch_add(&self->proxy->clear, 1);
    ERR_clear_error();
}

static bool shake_hands(struct connection *self)
{
    char chunk[CHUNK];
    for (;;) {
        int result = SSL_accept(self->ssl);
        if (!flush(self))
            return false;
        if (result == 1)
            break;
        if (SSL_get_error(self->ssl, result) != SSL_ERROR_WANT_READ) {
            note_end(self);
            return false;
        }
        ssize_t got = receive_client(self, chunk, sizeof(chunk));
        if (got <= 0)
            return false;
        BIO_write(self->in, chunk, (int)got);
    }
    X509 *certificate = SSL_get1_peer_certificate(self->ssl);
    if (certificate)
        atomic_fetch_add(&self->proxy->certificates, 1);
    X509_free(certificate);
    atomic_fetch_add(&self->proxy->handshakes, 1);
    return true;
}

/* What came from the client, to the server. */
static bool decrypt(struct connection *self)
{
    char chunk[CHUNK];
    int got;
    while ((got = SSL_read(self->ssl, chunk, sizeof(chunk))) > 0) {
        atomic_fetch_add(&self->proxy->bytes, (unsigned)got);
        if (!stream_send(self->backend, chunk, (size_t)got))
            return false;
    }
    if (SSL_get_error(self->ssl, got) != SSL_ERROR_WANT_READ) {
        note_end(self);
        return false;
    }
    return flush(self);
}

static bool hand_on(struct connection *self)
{
    char chunk[CHUNK];
    ssize_t came = receive_client(self, chunk, sizeof(chunk));
    if (came > 0)
        BIO_write(self->in, chunk, (int)came);
    return came > 0 && decrypt(self);
}

static bool take_one(_Atomic unsigned *count)
{
    unsigned have = atomic_load(count);
    while (have > 0 && !atomic_compare_exchange_weak(count, &have, have - 1))
        ;
    return have > 0;
}

/* From the server to the client. */
static bool hand_back(struct connection *self)
{
    static const char garbage[] = "\x17\x03\x03\x00\x20this is no record of the session";
    const struct tls_proxy_options *options = &self->proxy->options;
    char chunk[CHUNK];
    ssize_t got = recv(self->backend, chunk, sizeof(chunk), 0);
    if (got <= 0)
        return false;
    if (take_one(&self->proxy->garbage))
        return send_client(self, garbage, sizeof(garbage) - 1) && false;
    if (options->update_every && ++self->turns % options->update_every == 0)
        SSL_key_update(self->ssl, SSL_KEY_UPDATE_REQUESTED);
    if (SSL_write(self->ssl, chunk, (int)got) != got)
        return false;
    bool closes = take_one(&self->proxy->closing);
    if (closes)
        SSL_shutdown(self->ssl);
    return flush(self) && !closes;
}

static void relay(struct connection *self)
{
    char chunk[CHUNK];
    bool good = !self->ssl || decrypt(self); /* it may have come with the handshake */
    while (good) {
        bool deaf = atomic_load(&self->proxy->deaf);
        struct pollfd polls[2] = {{.fd = deaf ? -1 : self->fd, .events = POLLIN},
                                  {.fd = self->backend, .events = POLLIN}};
        if (poll(polls, 2, deaf ? 10 : 1000) < 0)
            return;
        if (polls[0].revents && self->ssl)
            good = hand_on(self);
        if (good && polls[1].revents && self->ssl)
            good = hand_back(self);
        for (int i = 0; i < 2 && !self->ssl && good; i++) {
            ssize_t got = polls[i].revents ? recv(polls[i].fd, chunk, sizeof(chunk), 0) : 1;
            good =
                got > 0 && (!polls[i].revents || stream_send(polls[1 - i].fd, chunk, (size_t)got));
        }
    }
}

static int connect_backend(in_port_t port)
{
    struct sockaddr_in peer = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&peer, sizeof(peer)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void *serve(void *context)
{
    struct connection *self = context;
    struct tls_proxy *proxy = self->proxy;
    enum next next = proxy->options.direct ? NEXT_TLS : ask(self);
    if (next == NEXT_TLS) {
        self->ssl = SSL_new(proxy->context);
        self->in = BIO_new(BIO_s_mem());
        self->out = BIO_new(BIO_s_mem());
        SSL_set_bio(self->ssl, self->in, self->out);
        if (!shake_hands(self))
            next = NEXT_END;
    } else if (next == NEXT_CLEAR) {
        atomic_fetch_add(&proxy->in_clear, 1);
    }
    self->backend = next == NEXT_END ? -1 : connect_backend(proxy->options.backend);
    if (self->backend >= 0) {
        relay(self);
        close(self->backend);
    }
    SSL_free(self->ssl);
    pthread_mutex_lock(&proxy->lock);
    proxy->fds[self->index] = -1;
    close(self->fd);
    pthread_mutex_unlock(&proxy->lock);
    free(self);
    return NULL;
}

static void *accept_connections(void *context)
{
    struct tls_proxy *proxy = context;
    for (;;) {
        struct sockaddr_in peer;
        int fd = stream_accept(proxy->listener, &peer);
        if (fd < 0)
            return NULL;
        pthread_mutex_lock(&proxy->lock);
        if (proxy->stopping || proxy->count == TLS_PROXY_CONNECTIONS) {
            close(fd);
        } else {
            struct connection *connection = calloc(1, sizeof(*connection));
            unsigned index = proxy->count++;
            *connection = (struct connection){.proxy = proxy, .index = index, .fd = fd};
            proxy->fds[index] = fd;
            stream_thread(&proxy->threads[index], serve, connection);
        }
        pthread_mutex_unlock(&proxy->lock);
    }
}

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *length,
                           const unsigned char *in, unsigned in_length, void *context)
{
    const struct tls_proxy_options *options = context;
    (void)ssl, (void)in, (void)in_length;
    if (!options->protocol)
        return SSL_TLSEXT_ERR_NOACK;
    *out = (const unsigned char *)options->protocol;
    *length = (unsigned char)strlen(options->protocol);
    return SSL_TLSEXT_ERR_OK;
}

static void set_context(struct tls_proxy *proxy)
{
    const struct tls_proxy_options *options = &proxy->options;
    SSL_CTX *context = proxy->context = SSL_CTX_new(TLS_server_method());
    if (!context || SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1)
        abort();
    SSL_CTX_set_alpn_select_cb(context, select_protocol, &proxy->options);
    SSL_CTX_set_max_proto_version(context, options->version_max);
    if (options->record)
        SSL_CTX_set_max_send_fragment(context, (long)options->record);
    if (!options->client_authority)
        return;
    if (SSL_CTX_load_verify_locations(context, options->client_authority, NULL) != 1)
        abort();
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

struct tls_proxy *tls_proxy_start(const struct tls_proxy_options *options)
{
    struct tls_proxy *proxy = calloc(1, sizeof(*proxy));
    if (!proxy)
        abort();
    proxy->options = *options;
    proxy->answer = options->answer;
    pthread_mutex_init(&proxy->lock, NULL);
    set_context(proxy);
    proxy->port = options->port;
    in_addr_t host = options->anywhere ? INADDR_ANY : INADDR_LOOPBACK;
    proxy->listener = options->port ? stream_bind(AF_INET, host, &proxy->port)
                                    : stream_bind_kept(AF_INET, &proxy->port);
    if (listen(proxy->listener, 128) != 0)
        abort();
    stream_thread(&proxy->thread, accept_connections, proxy);
    return proxy;
}

void tls_proxy_cut(struct tls_proxy *proxy)
{
    struct linger abortive = {.l_onoff = 1};
    pthread_mutex_lock(&proxy->lock);
    for (unsigned i = 0; i < proxy->count; i++) {
        if (proxy->fds[i] >= 0) {
            setsockopt(proxy->fds[i], SOL_SOCKET, SO_LINGER, &abortive, sizeof(abortive));
            shutdown(proxy->fds[i], SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&proxy->lock);
}

void tls_proxy_stop(struct tls_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->stopping = true;
    pthread_mutex_unlock(&proxy->lock);
    shutdown(proxy->listener, SHUT_RDWR);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    tls_proxy_cut(proxy);
    for (unsigned i = 0; i < proxy->count; i++)
        pthread_join(proxy->threads[i], NULL);
    SSL_CTX_free(proxy->context);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}
