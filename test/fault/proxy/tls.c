/* See tls.h. */
#include "tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

enum {
    AUTH_TLS = 7,         /* RFC 9289, section 4.1 */
    HEAD = 5,             /* of a record of TLS: type, version, length */
    RECORD = 16384 + 256, /* RFC 8446, section 5.2: the longest that is encrypted */
    CHUNK = 65536
};

enum type { CHANGE_CIPHER_SPEC = 20, ALERT, HANDSHAKE, DATA };

enum stage { ASKED_FOR, SHAKING, OPEN, DENIED };

struct tls {
    SSL *ssl;
    BIO *in, *out;
    enum stage stage;
    bool said_end;
    size_t left, have; /* of what the client sends: the rest of a record, and so much of a head */
    unsigned char head[HEAD];
};

static SSL_CTX *context;
static bool direct;

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *length,
                           const unsigned char *in, unsigned in_length, void *ignored)
{
    (void)ssl, (void)in, (void)in_length, (void)ignored;
    *out = (const unsigned char *)"sunrpc";
    *length = 6;
    return SSL_TLSEXT_ERR_OK;
}

void tls_start(const struct tls_options *options)
{
    context = SSL_CTX_new(TLS_server_method());
    if (!context || SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1)
        die("%s, %s: no certificate and its key", options->certificate, options->key);
    SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
    direct = options->direct;
    if (!options->authority)
        return;
    if (SSL_CTX_load_verify_locations(context, options->authority, NULL) != 1)
        die("%s: no certificate", options->authority);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static void shake(struct connection *c)
{
    struct tls *tls = c->tls;
    tls->ssl = SSL_new(context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out)
        die("no memory");
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    tls->stage = SHAKING;
}

void tls_accepted(struct connection *c)
{
    if (!context)
        return;
    c->tls = need(sizeof *c->tls);
    if (direct)
        shake(c);
}

void tls_free(struct connection *c)
{
    if (c->tls)
        SSL_free(c->tls->ssl);
    free(c->tls);
    c->tls = NULL;
}

/* ---- to the client ---- */

/* Queues bytes as they are: before what is not encrypted yet, behind what is. */
static void queue(struct connection *c, const void *bytes, size_t length)
{
    struct flow *flow = &c->flows[REPLIES];
    struct message *m = message_make(bytes, length), **link = &flow->out;
    m->sealed = true;
    while (*link && (*link)->sealed)
        link = &(*link)->next;
    m->next = *link;
    *link = m;
    flow->queued += length;
}

/* Where the next record of TLS begins; `length`, if there is none. */
static size_t next_record(const unsigned char *bytes, size_t at, size_t length)
{
    at += HEAD + (size_t)(bytes[at + 3] << 8 | bytes[at + 4]);
    return at < length ? at : length;
}

/*
 * Somebody on the way changes what is encrypted: a bit of it, or a whole record, which is left out,
 * or comes twice, or after the one behind it; or he says the same in clear. Returns the new length;
 * there is room for as much as there was, and a record.
 */
static size_t tamper(unsigned char *bytes, size_t length, const struct message *clear)
{
    size_t second = next_record(bytes, 0, length), third;
    switch (random_next(&random_state) % 6) {
    case 0: /* left out: all or the first */
        if (second < length)
            memmove(bytes, bytes + second, length - second);
        return length - second;
    case 1: /* twice */
        memmove(bytes + second, bytes, length);
        return length + second;
    case 2: /* overtaken by the next */
        third = second < length ? next_record(bytes, second, length) : length;
        if (second < third) {
            unsigned char first[HEAD + RECORD];
            memcpy(first, bytes, second);
            memmove(bytes, bytes + second, third - second);
            memcpy(bytes + third - second, first, second);
            return length;
        }
        break;
    case 3: /* in clear */
        if (!clear)
            break;
        memcpy(bytes, clear->data, clear->length);
        return clear->length;
    default:
        break;
    }
    change_bit(bytes, length);
    return length;
}

/* Queues what OpenSSL has for the client. `clear`: what it made it of, if that is a reply. */
static void flush(struct connection *c, const struct message *clear)
{
    size_t length = BIO_ctrl_pending(c->tls->out);
    if (length == 0)
        return;
    unsigned char *bytes = need(length + HEAD + RECORD);
    if (BIO_read(c->tls->out, bytes, (int)length) != (int)length)
        die("TLS: what is to be sent is not there");
    if (happens(&c->path->faults.tamper[REPLIES])) {
        c->path->counters.tampered++;
        length = tamper(bytes, length, clear);
    }
    if (length > 0)
        queue(c, bytes, length);
    free(bytes);
}

bool tls_seal_first(struct connection *c)
{
    struct flow *flow = &c->flows[REPLIES];
    struct message *m;
    while ((m = flow->out) && !m->sealed && c->tls->stage == OPEN) {
        if (happens(&c->path->faults.rekey)) {
            c->path->counters.rekeyed++;
            SSL_key_update(c->tls->ssl, SSL_KEY_UPDATE_REQUESTED);
        }
        flow->out = m->next;
        flow->queued -= m->length;
        if (SSL_write(c->tls->ssl, m->data, (int)m->length) != (int)m->length)
            die("TLS: a reply is not encrypted");
        flush(c, m); /* which may have left it out */
        free(m);
    }
    return m && m->sealed;
}

void tls_say_end(struct connection *c)
{
    struct tls *tls = c->tls;
    if (tls->stage != OPEN || tls->said_end)
        return;
    tls->said_end = true;
    SSL_shutdown(tls->ssl);
    flush(c, NULL);
}

/* ---- from the client ---- */

static void append(struct input *in, const void *bytes, size_t length)
{
    if (in->size - in->used < length) {
        in->size = in->used + length + CHUNK;
        if (!(in->bytes = realloc(in->bytes, in->size)))
            die("no memory");
    }
    memcpy(in->bytes + in->used, bytes, length);
    in->used += length;
}

/* Answers the question for TLS (RFC 9289, section 4.1). Anything else is in clear. False: the
 * connection is to end. */
static bool answer(struct connection *c, const struct message *m)
{
    static const char token[] = "STARTTLS";
    struct wire_reader r = {m->data + 4, m->data + m->length, false};
    unsigned char reply[64];
    struct wire_writer w = {reply + 4, reply + sizeof reply, false};
    uint32_t xid = wire_get32(&r), kind = wire_get32(&r), program, procedure, flavor;
    wire_get32(&r);
    program = wire_get32(&r);
    wire_get32(&r);
    procedure = wire_get32(&r);
    flavor = wire_get32(&r);
    if (r.bad || kind != RPC_CALL || procedure != 0 || flavor != AUTH_TLS ||
        program != (c->port == 0 ? NFS_PROGRAM : MOUNT_PROGRAM)) {
        c->path->counters.clear++;
        return false;
    }
    bool denies = c->path->faults.deny;
    const uint32_t denied[] = {xid, RPC_REPLY, RPC_DENIED, 1 /* AUTH_ERROR */, 2 /* rejected */};
    const uint32_t accepted[] = {xid, RPC_REPLY, RPC_ACCEPTED, RPC_AUTH_NONE};
    for (unsigned i = 0; i < (denies ? 5 : 4); i++)
        wire_put32(&w, denies ? denied[i] : accepted[i]);
    if (!denies) {
        wire_put_opaque(&w, token, sizeof token - 1);
        wire_put32(&w, RPC_SUCCESS);
    }
    wire_store32(reply, (uint32_t)(w.at - reply - 4) | RPC_LAST_FRAGMENT);
    queue(c, reply, (size_t)(w.at - reply));
    c->path->counters.denied += denies;
    if (denies)
        c->tls->stage = DENIED;
    else
        shake(c);
    return true;
}

/* Is all that came in records of TLS, and what is encrypted of the right type? Looks at their heads
 * only. */
static bool is_tls(struct tls *tls, const unsigned char *bytes, size_t length)
{
    while (length > 0) {
        if (tls->left > 0) {
            size_t part = tls->left < length ? tls->left : length;
            tls->left -= part;
            bytes += part;
            length -= part;
            continue;
        }
        tls->head[tls->have++] = *bytes++;
        length--;
        if (tls->have < HEAD)
            continue;
        tls->have = 0;
        tls->left = (size_t)(tls->head[3] << 8 | tls->head[4]);
        bool clear = tls->head[0] == HANDSHAKE || tls->head[0] == CHANGE_CIPHER_SPEC ||
                     tls->head[0] == ALERT;
        if (tls->head[1] != 3 || tls->left > RECORD ||
            !(tls->head[0] == DATA || (clear && tls->stage == SHAKING)))
            return false;
    }
    return true;
}

/* What is queued for the client leaves before the connection is reset, if there is room. */
static void send_alert(struct connection *c)
{
    for (struct message *m = c->flows[REPLIES].out; m && m->sealed; m = m->next) {
        if (!dark(c, REPLIES))
            (void)!send(c->ends[CALLS]->watch.fd, m->data + m->sent, m->length - m->sent,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Decrypts what came. As input_receive(). */
static int decrypt(struct connection *c)
{
    struct tls *tls = c->tls;
    unsigned char clear[CHUNK];
    int got = 0;
    ERR_clear_error();
    if (tls->stage == SHAKING && (got = SSL_accept(tls->ssl)) == 1) {
        tls->stage = OPEN;
        c->path->counters.handshakes++;
    }
    if (tls->stage == OPEN) {
        while ((got = SSL_read(tls->ssl, clear, sizeof clear)) > 0)
            append(&c->flows[CALLS].in, clear, (size_t)got);
    }
    int error = SSL_get_error(tls->ssl, got);
    flush(c, NULL);
    if (error == SSL_ERROR_WANT_READ)
        return 1;
    if (error == SSL_ERROR_ZERO_RETURN)
        return -1;
    c->path->counters.broken++;
    send_alert(c);
    return -2;
}

/* Before anything is in TLS: the question, in a record of its own. */
static int receive_question(struct connection *c, const unsigned char *bytes, size_t length)
{
    struct input *in = &c->flows[CALLS].in;
    bool garbage = false;
    append(in, bytes, length);
    struct message *m = input_record(in, &garbage);
    if (!m && !garbage)
        return 0;
    bool well = !garbage && answer(c, m) && in->used == 0;
    free(m);
    if (garbage)
        c->path->counters.clear++;
    return well ? 0 : -2;
}

int tls_receive(struct connection *c)
{
    struct tls *tls = c->tls;
    unsigned char bytes[CHUNK];
    ssize_t got = recv(c->ends[CALLS]->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -2;
    if (got == 0)
        return -1;
    if (tls->stage == ASKED_FOR)
        return receive_question(c, bytes, (size_t)got);
    if (tls->stage == DENIED || !is_tls(tls, bytes, (size_t)got)) {
        c->path->counters.clear++;
        return -2;
    }
    if (happens(&c->path->faults.tamper[CALLS])) {
        c->path->counters.tampered++;
        change_bit(bytes, (size_t)got);
    }
    BIO_write(tls->in, bytes, (int)got);
    return decrypt(c);
}
