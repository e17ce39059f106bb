/*
 * Records of TLS made and opened by the kernel (Documentation/networking/tls.rst of Linux), once
 * the handshake is over: kTLS. OpenSSL is not needed for the session from then on: sending and
 * receiving are system calls, also in handlers.
 *
 * Both directions are the kernel's, or none. It gets the secrets of the handshake from OpenSSL,
 * and its keys from them (RFC 8446, section 7.3).
 *
 * Linux changes the keys of a session since 6.14 only, and a server rarely asks for it. So the
 * connection ends then, and calls are sent again over the next one. With a server that asks often
 * OpenSSL makes the records of the next one.
 */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <string.h>
#include <sys/ioctl.h>

#include "net/tls/parts.h"
#include "sys/alloc.h"
#include "sys/log.h"

#define OFTEN_NS (UINT64_C(60) * 1000000000)

enum {
    IV = 12,
    SALT = 4, /* of AES-GCM: how the kernel calls the beginning of the IV */
    KEY_MOST = 32,
    SECRET_MOST = 48,
    BLOCK = 16,
    RECORD_TYPE_ALERT = 21,
    RECORD_TYPE_HANDSHAKE = 22,
    RECORD_TYPE_DATA = 23
};

/* ---- keys ---- */

struct tls_secrets {
    size_t length; /* of each */
    uint8_t own[SECRET_MOST], peer[SECRET_MOST];
    bool has_own, has_peer;
};

static const struct cipher {
    const char *name, *digest;
    uint16_t number; /* the kernel's */
    size_t key, secret;
} ciphers[] = {
    {"TLS_AES_128_GCM_SHA256", "SHA256", TLS_CIPHER_AES_GCM_128, 16, 32},
    {"TLS_AES_256_GCM_SHA384", "SHA384", TLS_CIPHER_AES_GCM_256, 32, 48},
    {"TLS_CHACHA20_POLY1305_SHA256", "SHA256", TLS_CIPHER_CHACHA20_POLY1305, 32, 32},
};

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads hexadecimal digits to their end. How many bytes; 0: it is something else. */
static size_t read_hex(const char *text, uint8_t *bytes, size_t most)
{
    size_t count = 0;
    for (; text[0] && count < most; text += 2) {
        int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);
        if (low < 0)
            return 0;
        bytes[count++] = (uint8_t)(high << 4 | low);
    }
    return text[0] ? 0 : count;
}

/* The line has a name, the random number of the client, and the secret. */
void tls_kernel_secret(const SSL *ssl, const char *line)
{
    static const char own[] = "CLIENT_TRAFFIC_SECRET_0 ", peer[] = "SERVER_TRAFFIC_SECRET_0 ";
    const struct net_tls_session *session = tls_library()->SSL_get_ex_data(ssl, 0);
    struct tls_secrets *secrets = session ? session->secrets : NULL;
    bool is_own = strncmp(line, own, sizeof(own) - 1) == 0;
    const char *last = strrchr(line, ' ');
    if (!secrets || !last || (!is_own && strncmp(line, peer, sizeof(peer) - 1) != 0))
        return;
    size_t length = read_hex(last + 1, is_own ? secrets->own : secrets->peer, SECRET_MOST);
    *(is_own ? &secrets->has_own : &secrets->has_peer) = length > 0;
    secrets->length = length;
}

void tls_kernel_prepare(struct net_tls_session *session)
{
    const struct net_tls *tls = session->tls;
    if (tls->settings.kernel && !atomic_load(&tls->records_are_ours))
        session->secrets = sys_alloc_zeroed(sizeof(*session->secrets));
}

void tls_kernel_forget(struct net_tls_session *session)
{
    if (!session->secrets)
        return;
    explicit_bzero(session->secrets, sizeof(*session->secrets));
    sys_free(session->secrets);
    session->secrets = NULL;
}

/* One value of HKDF-Expand-Label (RFC 8446, section 7.1), without a context. */
static bool expand(const struct tls_library *library, EVP_KDF_CTX *context,
                   const struct tls_expansion *from, const char *label, uint8_t *value,
                   size_t length)
{
    static char mode[] = "EXPAND_ONLY", prefix[] = "tls13 ";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_MODE, mode, sizeof(mode) - 1),
        OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)from->digest, strlen(from->digest)),
        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, (uint8_t *)from->secret, from->length),
        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_PREFIX, prefix, sizeof(prefix) - 1),
        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_LABEL, (char *)label, strlen(label)),
        OSSL_PARAM_END};
    return library->EVP_KDF_derive(context, value, length, parameters) == 1;
}

bool tls_kernel_keys(const struct tls_library *library, const struct tls_expansion *from,
                     uint8_t *key, size_t length, uint8_t iv[IV])
{
    EVP_KDF *method = library->EVP_KDF_fetch(library->context, "TLS13-KDF", NULL);
    EVP_KDF_CTX *context = method ? library->EVP_KDF_CTX_new(method) : NULL;
    bool good = context && expand(library, context, from, "key", key, length) &&
                expand(library, context, from, "iv", iv, IV);
    library->EVP_KDF_CTX_free(context);
    library->EVP_KDF_free(method);
    return good;
}

/* ---- the kernel takes over ---- */

/* What setsockopt() is given. The numbers of records begin with 0. */
union keys {
    struct tls_crypto_info info;
    struct tls12_crypto_info_aes_gcm_128 gcm_128;
    struct tls12_crypto_info_aes_gcm_256 gcm_256;
    struct tls12_crypto_info_chacha20_poly1305 chacha;
};

static socklen_t fill_in(union keys *keys, const struct cipher *cipher, const uint8_t *key,
                         const uint8_t iv[IV])
{
    memset(keys, 0, sizeof(*keys));
    keys->info.version = TLS_1_3_VERSION;
    keys->info.cipher_type = cipher->number;
    switch (cipher->number) {
    case TLS_CIPHER_AES_GCM_128:
        memcpy(keys->gcm_128.key, key, cipher->key);
        memcpy(keys->gcm_128.salt, iv, SALT);
        memcpy(keys->gcm_128.iv, iv + SALT, IV - SALT);
        return sizeof(keys->gcm_128);
    case TLS_CIPHER_AES_GCM_256:
        memcpy(keys->gcm_256.key, key, cipher->key);
        memcpy(keys->gcm_256.salt, iv, SALT);
        memcpy(keys->gcm_256.iv, iv + SALT, IV - SALT);
        return sizeof(keys->gcm_256);
    default:
        memcpy(keys->chacha.key, key, cipher->key);
        memcpy(keys->chacha.iv, iv, IV);
        return sizeof(keys->chacha);
    }
}

/* Gives the kernel the keys of one direction. 0, or -errno. */
static int give(const struct net_tls_session *session, const struct cipher *cipher, int direction)
{
    const struct tls_secrets *secrets = session->secrets;
    const struct tls_expansion from = {
        cipher->digest, direction == TLS_TX ? secrets->own : secrets->peer, secrets->length};
    uint8_t key[KEY_MOST], iv[IV];
    union keys keys;
    int result = -ENOKEY;
    if (tls_kernel_keys(tls_library(), &from, key, cipher->key, iv)) {
        socklen_t length = fill_in(&keys, cipher, key, iv);
        result = sys_setsockopt(session->fd, SOL_TLS, direction, &keys, length);
    }
    explicit_bzero(key, sizeof(key));
    explicit_bzero(iv, sizeof(iv));
    explicit_bzero(&keys, sizeof(keys));
    return result;
}

static const struct cipher *cipher_of(const struct net_tls_session *session)
{
    const struct tls_secrets *secrets = session->secrets;
    for (size_t i = 0; secrets && i < sizeof(ciphers) / sizeof(ciphers[0]); i++) {
        if (strcmp(ciphers[i].name, session->facts.cipher) == 0)
            return secrets->has_own && secrets->has_peer && secrets->length == ciphers[i].secret
                       ? &ciphers[i]
                       : NULL;
    }
    return NULL;
}

/* Has OpenSSL neither received nor written a byte behind the handshake? Else the kernel's numbers
 * of records would be others. */
static bool is_between(const struct net_tls_session *session)
{
    return session->in_start == session->in_end && session->out_start == session->out_end &&
           tls_library()->SSL_pending(session->ssl) == 0;
}

/* Makes the socket one of kTLS, which is in clear until the kernel has keys. A kernel without it is
 * asked once: for root it would look for the module each time. */
static bool becomes_tls(int fd)
{
    static _Atomic bool lacking; /* no lock: it is set only */
    static const char name[] = "tls";
    if (atomic_load_explicit(&lacking, memory_order_relaxed))
        return false;
    int result = sys_setsockopt(fd, IPPROTO_TCP, TCP_ULP, name, sizeof(name) - 1);
    if (result == -ENOENT || result == -ENOPROTOOPT)
        atomic_store_explicit(&lacking, true, memory_order_relaxed);
    return result == 0;
}

enum net_tls_fault tls_kernel_take_over(struct net_tls_session *session)
{
    const struct tls_library *library = tls_library();
    const struct cipher *cipher = cipher_of(session);
    struct tls_guest guest;
    if (!cipher)
        return NET_TLS_GOOD;
    if (!tls_enter(library, &guest))
        return NET_TLS_LOST;
    bool begun =
        is_between(session) && becomes_tls(session->fd) && give(session, cipher, TLS_TX) == 0;
    if (begun && give(session, cipher, TLS_RX) == 0) {
        library->SSL_free(session->ssl);
        session->ssl = NULL;
        session->in_kernel = session->facts.in_kernel = true;
        session->began_ns = sys_now_ns();
    }
    tls_leave(library, &guest);
    if (!begun || session->in_kernel)
        return NET_TLS_GOOD;
    atomic_store(&session->tls->records_are_ours, true);
    return NET_TLS_KERNEL;
}

/* ---- sending ---- */

ssize_t tls_kernel_send(struct net_tls_session *session, const struct iovec *vectors, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)vectors, .msg_iovlen = (size_t)count};
    ssize_t sent;
    if (session->send_error != 0)
        return session->send_error;
    do
        sent = sys_sendmsg(session->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent == -EINTR);
    if (sent > 0)
        session->blocks += (uint64_t)sent / BLOCK + 2 * ((uint64_t)sent / TLS_RECORD + 1);
    /* A key that was used enough ends the connection. */
    return session->blocks < TLS_BLOCKS_MAX ? sent : tls_session_give_up(session);
}

/* ---- receiving ---- */

static ssize_t end_by(struct net_tls_session *session, enum net_tls_fault fault)
{
    atomic_store(&session->fault, fault);
    session->receive_error = net_tls_errno(fault);
    return session->receive_error;
}

/* The server changes its key: RFC 8446, section 4.6.3. */
static ssize_t end_by_update(struct net_tls_session *session)
{
    bool often = sys_now_ns() - session->began_ns < OFTEN_NS;
    if (often && !atomic_exchange(&session->tls->records_are_ours, true))
        log_info("server %s: TLS: it changes its keys often, which the kernel cannot follow; "
                 "OpenSSL makes and opens the records of the next connections",
                 session->tls->settings.server ? session->tls->settings.server : "?");
    session->receive_error = -ECONNRESET;
    return -ECONNRESET;
}

/* A piece of the handshake's messages that come later: RFC 8446, section 4.6. Tickets are not
 * used. */
static ssize_t take_messages(struct net_tls_session *session, const uint8_t *bytes, size_t length)
{
    enum { NEW_SESSION_TICKET = 4, KEY_UPDATE = 24, HEAD = 4 };
    struct tls_control *control = &session->control;
    while (length > 0) {
        size_t skip = control->left < length ? control->left : length;
        control->left -= (uint32_t)skip;
        bytes += skip;
        length -= skip;
        if (length == 0)
            break;
        control->head[control->have++] = *bytes++;
        length--;
        if (control->have < HEAD)
            continue;
        control->have = 0;
        control->left =
            (uint32_t)control->head[1] << 16 | (uint32_t)control->head[2] << 8 | control->head[3];
        if (control->head[0] == KEY_UPDATE)
            return end_by_update(session);
        if (control->head[0] != NEW_SESSION_TICKET)
            return end_by(session, NET_TLS_GARBAGE);
    }
    return -EAGAIN;
}

/* An alert has two bytes: RFC 8446, section 6. */
static ssize_t take_alert(struct net_tls_session *session, const uint8_t *bytes, size_t length)
{
    enum { LEVEL_AND_DESCRIPTION = 2, CLOSE_NOTIFY = 0, USER_CANCELED = 90 };
    struct tls_control *control = &session->control;
    while (length > 0 && control->have < LEVEL_AND_DESCRIPTION) {
        control->head[control->have++] = *bytes++;
        length--;
    }
    if (control->have < LEVEL_AND_DESCRIPTION)
        return -EAGAIN;
    int description = control->head[1];
    if (description != CLOSE_NOTIFY && description != USER_CANCELED)
        return end_by(session, tls_fault_of_alert(description));
    session->closed = true;
    return 0;
}

/* What came is no data. It lies where data was wanted, which will come there. */
static ssize_t take_control(struct net_tls_session *session, int type, const struct iovec *vectors,
                            int count, size_t length)
{
    struct tls_cursor from = {vectors, count, 0};
    struct tls_control *control = &session->control;
    ssize_t result = -EAGAIN;
    if (control->type != type) {
        if (control->have > 0 || control->left > 0) /* RFC 8446, section 5.1 */
            return end_by(session, NET_TLS_GARBAGE);
        control->type = type;
    }
    while (length > 0 && result == -EAGAIN) {
        size_t piece = length < TLS_RECORD ? length : TLS_RECORD;
        if (tls_copy(&from, session->in, piece, false) < piece)
            return end_by(session, NET_TLS_GARBAGE);
        length -= piece;
        result = type == RECORD_TYPE_HANDSHAKE ? take_messages(session, session->in, piece)
                 : type == RECORD_TYPE_ALERT   ? take_alert(session, session->in, piece)
                                               : end_by(session, NET_TLS_GARBAGE);
    }
    return result;
}

/* No record is there as a whole. Of a part of one poll() may tell as well, again and again (Linux
 * 6.1), for as long as the rest takes, which is long on a path that fails. So this thread pauses
 * then, after a while. */
static void pause_for_rest(struct net_tls_session *session)
{
    enum { PATIENCE = 64, PAUSE_MS = 1 };
    int bytes = 0;
    if (++session->nothings < PATIENCE)
        return;
    if (sys_ioctl(session->fd, FIONREAD, &bytes) == 0 && bytes > 0)
        sys_nanosleep_ms(PAUSE_MS);
    else
        session->nothings = 0;
}

/* The type of the records that were received. */
static int type_of(const struct msghdr *message)
{
    const struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (!head || head->cmsg_level != SOL_TLS || head->cmsg_type != TLS_GET_RECORD_TYPE)
        return RECORD_TYPE_DATA;
    return *(const uint8_t *)CMSG_DATA(head);
}

ssize_t tls_kernel_receive(struct net_tls_session *session, const struct iovec *vectors, int count,
                           bool wait)
{
    union {
        struct cmsghdr head;
        uint8_t bytes[CMSG_SPACE(1)];
    } control;
    struct msghdr message = {.msg_iov = (struct iovec *)vectors,
                             .msg_iovlen = (size_t)count,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    if (session->receive_error != 0 || session->closed)
        return session->receive_error;
    ssize_t got = sys_recvmsg(session->fd, &message, wait ? 0 : MSG_DONTWAIT);
    switch (got) {
    case 0: /* what is broken sends no more: see tls_session_give_up() */
        return session->broken ? -ECONNRESET : 0;
    case -EBADMSG:
    case -EMSGSIZE:
    case -EINVAL:
    case -EIO:
        return end_by(session, NET_TLS_GARBAGE);
    case -EKEYEXPIRED: /* since Linux 6.14 */
        return end_by_update(session);
    case -EAGAIN:
        pause_for_rest(session);
        return -EAGAIN;
    default:
        session->nothings = 0;
        break;
    }
    int type = got > 0 ? type_of(&message) : RECORD_TYPE_DATA;
    return type == RECORD_TYPE_DATA ? got
                                    : take_control(session, type, vectors, count, (size_t)got);
}
