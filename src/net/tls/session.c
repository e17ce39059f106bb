/*
 * The data path of a session. OpenSSL reads from `in` and writes to `out`, which are here; so it
 * never calls the kernel, and never waits.
 */
#include <errno.h>
#include <string.h>

#include "net/tls/parts.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/fd.h"
#include "sys/foreign.h"

/* ---- the BIO: between OpenSSL and our memory; under session->lock ---- */

static int bio_read(BIO *bio, char *to, int size)
{
    const struct tls_library *library = tls_library();
    struct net_tls_session *session = library->BIO_get_data(bio);
    size_t have = session->in_end - session->in_start;
    size_t take = have < (size_t)size ? have : (size_t)size;
    library->BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (take == 0) {
        library->BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    memcpy(to, session->in + session->in_start, take);
    session->in_start += take;
    return (int)take;
}

static int bio_write(BIO *bio, const char *from, int size)
{
    const struct tls_library *library = tls_library();
    struct net_tls_session *session = library->BIO_get_data(bio);
    library->BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (session->out_start > 0) {
        session->out_end -= session->out_start;
        memmove(session->out, session->out + session->out_start, session->out_end);
        session->out_start = 0;
    }
    size_t room = TLS_OUT - session->out_end;
    size_t take = room < (size_t)size ? room : (size_t)size;
    if (take == 0) {
        library->BIO_set_flags(bio, BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
        return -1;
    }
    memcpy(session->out + session->out_end, from, take);
    session->out_end += take;
    return (int)take;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

BIO_METHOD *tls_bio_method(const struct tls_library *library)
{
    BIO_METHOD *method = library->BIO_meth_new(BIO_TYPE_SOURCE_SINK, "directnfs");
    if (method) {
        library->BIO_meth_set_read(method, bio_read);
        library->BIO_meth_set_write(method, bio_write);
        library->BIO_meth_set_ctrl(method, bio_ctrl);
    }
    return method;
}

/* ---- sessions come and go ---- */

static struct net_tls_session *_Atomic left; /* to be freed by a thread that is not in a handler */

struct net_tls_session *tls_session_new(struct net_tls *tls, int fd)
{
    struct net_tls_session *session = sys_alloc(sizeof(*session));
    if (!session)
        return NULL;
    memset(session, 0, offsetof(struct net_tls_session, in));
    session->tls = tls;
    session->fd = fd;
    session->references = 1;
    pthread_mutex_init(&session->lock, NULL);
    return session;
}

void tls_session_get(struct net_tls_session *session)
{
    atomic_fetch_add(&session->references, 1);
}

/* The BIO goes with the SSL. Nothing is written: no notice of the end. */
static void session_free(struct net_tls_session *session)
{
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    if (session->ssl && sys_foreign_usable(SYS_FOREIGN_TLS) && tls_enter(library, &guest)) {
        library->SSL_free(session->ssl);
        tls_leave(library, &guest);
    }
    tls_hand_free(session->hand);
    tls_kernel_forget(session);
    pthread_mutex_destroy(&session->lock);
    sys_free(session);
}

static void leave(struct net_tls_session *session)
{
    session->next = atomic_load(&left);
    while (!atomic_compare_exchange_weak(&left, &session->next, session))
        ;
}

void tls_session_reap(void)
{
    if (!atomic_load_explicit(&left, memory_order_relaxed) || sys_critical_in_handler())
        return;
    struct net_tls_session *session = atomic_exchange(&left, NULL);
    while (session) {
        struct net_tls_session *next = session->next;
        session_free(session);
        session = next;
    }
}

void tls_session_put(struct net_tls_session *session)
{
    if (atomic_fetch_sub(&session->references, 1) != 1)
        return;
    sys_fd_close(session->fd);
    leave(session);
    tls_session_reap();
}

void net_tls_close(struct net_tls_session *session)
{
    tls_session_put(session);
}

/* Threads of the parent may have had its lock. */
void net_tls_forget(struct net_tls_session *session)
{
    pthread_mutex_init(&session->lock, NULL);
    leave(session);
}

const struct net_tls_facts *net_tls_facts(const struct net_tls_session *session)
{
    return &session->facts;
}

int net_tls_descriptor(const struct net_tls_session *session)
{
    return session->fd;
}

enum net_tls_fault net_tls_session_fault(const struct net_tls_session *session)
{
    return (enum net_tls_fault)atomic_load(&session->fault);
}

void net_tls_ended(struct net_tls_session *session, bool hidden)
{
    enum net_tls_fault fault = net_tls_session_fault(session);
    if (fault == NET_TLS_GOOD)
        return;
    atomic_store(&session->tls->fault, fault);
    if (!hidden)
        tls_say(session->tls, fault, &session->facts);
}

bool net_tls_owes(const struct net_tls_session *session)
{
    const struct tls_hand *hand = atomic_load_explicit(&session->hand, memory_order_acquire);
    return atomic_load_explicit(&session->owes, memory_order_relaxed) ||
           (hand && tls_hand_owes(hand));
}

bool net_tls_has_more(const struct net_tls_session *session)
{
    const struct tls_hand *hand = atomic_load_explicit(&session->hand, memory_order_acquire);
    return atomic_load_explicit(&session->more, memory_order_relaxed) ||
           (hand && !tls_hand_is_empty(hand));
}

short net_tls_send_event(const struct net_tls_session *session)
{
    return atomic_load_explicit(&session->stalled, memory_order_relaxed) && !session->owes
               ? 0
               : POLLOUT;
}

/* ---- memory of the program ---- */

struct copying {
    struct tls_cursor *cursor;
    uint8_t *ours;
    size_t size, done;
    bool to_vectors;
};

/* A fault ends it between two pieces: `done` and the cursor tell where. */
static void copy_all(const void *argument)
{
    struct copying *copying = *(struct copying *const *)argument;
    struct tls_cursor *cursor = copying->cursor;
    while (copying->done < copying->size && cursor->count > 0) {
        size_t have = cursor->vectors->iov_len - cursor->at;
        size_t left = copying->size - copying->done, piece = have < left ? have : left;
        uint8_t *theirs = (uint8_t *)cursor->vectors->iov_base + cursor->at;
        uint8_t *ours = copying->ours + copying->done;
        memcpy(copying->to_vectors ? theirs : ours, copying->to_vectors ? ours : theirs, piece);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        copying->done += piece;
        cursor->at += piece;
        if (cursor->at == cursor->vectors->iov_len) {
            cursor->vectors++;
            cursor->count--;
            cursor->at = 0;
        }
    }
}

size_t tls_copy(struct tls_cursor *cursor, uint8_t *ours, size_t size, bool to_vectors)
{
    struct copying copying = {cursor, ours, size, 0, to_vectors};
    struct copying *argument = &copying;
    if (sys_critical_catches())
        sys_critical_guarded(copy_all, &argument);
    else
        copy_all(&argument);
    return copying.done;
}

/* Memory that OpenSSL shall write to: a fault there must not jump out of it. */
struct touching {
    uint8_t *at;
    size_t length;
};

static void touch_all(const void *argument)
{
    enum { PAGE = 4096 };
    const struct touching *touching = argument;
    uint8_t *end = touching->at + touching->length;
    for (uint8_t *at = touching->at; at < end;
         at = (uint8_t *)(((uintptr_t)at & ~(uintptr_t)(PAGE - 1)) + PAGE))
        __atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
}

static bool is_there(uint8_t *at, size_t length)
{
    const struct touching touching = {at, length};
    return length == 0 || !sys_critical_catches() ||
           sys_critical_guarded(touch_all, &touching) == 0;
}

/* Memory that is about to be used is made present: it may be a file, and then it takes the time of
 * a disk. Without a lock, and not inside the gate: fork() waits for those inside. */
static void prepare(const struct iovec *vectors, int count, size_t most)
{
    for (int i = 0; i < count && most > 0; i++) {
        struct touching touching = {vectors[i].iov_base, vectors[i].iov_len};
        touching.length = touching.length < most ? touching.length : most;
        most -= touching.length;
        if (sys_critical_catches())
            sys_critical_guarded(touch_all, &touching);
        else
            touch_all(&touching);
    }
}

/* ---- sending ---- */

static void note_send_error(struct net_tls_session *session, int error)
{
    int none = 0;
    atomic_compare_exchange_strong(&session->send_error, &none, error);
}

void tls_session_flush(struct net_tls_session *session)
{
    while (session->out_start < session->out_end && session->send_error == 0) {
        struct iovec vector = {session->out + session->out_start,
                               session->out_end - session->out_start};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
        ssize_t sent = sys_sendmsg(session->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == -EINTR)
            continue;
        if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM)
            break;
        if (sent < 0)
            note_send_error(session, (int)sent);
        else
            session->out_start += (size_t)sent;
    }
    if (session->out_start == session->out_end || session->send_error != 0)
        session->out_start = session->out_end = 0;
    atomic_store_explicit(&session->owes, session->out_end > 0, memory_order_relaxed);
}

int tls_wants(const struct tls_library *library, const SSL *ssl)
{
    int want = library->ERR_peek_last_error() == 0 ? library->SSL_want(ssl) : SSL_NOTHING;
    return want == SSL_READING || want == SSL_WRITING ? want : SSL_NOTHING;
}

int tls_session_give_up(struct net_tls_session *session)
{
    note_send_error(session, -EPIPE);
    session->broken = true;
    /* The reader, which may sleep, takes what came before, and then gives the connection up. */
    sys_shutdown(session->fd, SHUT_RD);
    return -EPIPE;
}

/* A call of the library failed while it was sending. -EAGAIN: later it may not. */
static int send_failure(struct net_tls_session *session, const struct tls_library *library)
{
    int want = tls_wants(library, session->ssl);
    atomic_store(&session->stalled, want == SSL_READING);
    if (want != SSL_NOTHING)
        return -EAGAIN;
    return tls_session_give_up(session);
}

bool tls_session_has_room(const struct net_tls_session *session)
{
    return TLS_OUT - (session->out_end - session->out_start) >= TLS_RECORD + TLS_RECORD_MORE;
}

int tls_session_encrypt(struct net_tls_session *session, size_t length)
{
    const struct tls_library *library = tls_library();
    if (++session->records >= TLS_RECORDS_MAX &&
        library->SSL_key_update(session->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        session->records = 0;
    int written = library->SSL_write(session->ssl, session->bounce, (int)length);
    return written == (int)length ? written : send_failure(session, library);
}

/* Passes the gate for what is in `bounce`; without any, for what a handler left. */
static int encrypt_inside(struct net_tls_session *session, size_t length)
{
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    if (!tls_enter(library, &guest))
        return -ECONNRESET;
    atomic_store(&session->stalled, false);
    int result = length > 0                  ? tls_session_encrypt(session, length)
                 : tls_hand_encrypt(session) ? 0
                                             : -EAGAIN;
    tls_leave(library, &guest);
    return result;
}

/* Encrypts what is at the cursor, while there is room. How many bytes; -EFAULT: memory is missing,
 * and nothing was done; -EAGAIN: nothing now. The program's memory is copied outside of the gate:
 * it may be a file that must be read first, and fork() would wait for that. */
static ssize_t encrypt_all(struct net_tls_session *session, struct tls_cursor *from)
{
    size_t total = 0;
    ssize_t written = 0;
    while (from->count > 0 && tls_session_has_room(session) && written >= 0) {
        struct tls_cursor before = *from;
        size_t length = tls_copy(from, session->bounce, TLS_RECORD, false);
        written = length > 0 ? encrypt_inside(session, length) : -EFAULT;
        if (written < 0)
            *from = before;
        else
            total += (size_t)written;
    }
    return total > 0 ? (ssize_t)total : written;
}

/* Encrypts and sends what fits, once. 0: the cursor is at the end, or the socket is full. */
static ssize_t send_some(struct net_tls_session *session, struct tls_cursor *from)
{
    const struct tls_hand *hand = atomic_load_explicit(&session->hand, memory_order_acquire);
    int error = session->send_error;
    if (error != 0)
        return error;
    tls_session_flush(session);
    if (session->owes)
        return -EAGAIN;
    if (session->send_error != 0)
        return session->send_error;
    ssize_t sent = hand && tls_hand_owes(hand) ? encrypt_inside(session, 0) : 0;
    if (sent == 0)
        sent = encrypt_all(session, from);
    tls_session_flush(session);
    return sent;
}

static void skip_empty(struct tls_cursor *cursor)
{
    while (cursor->count > 0 && cursor->at == cursor->vectors->iov_len) {
        cursor->vectors++;
        cursor->count--;
        cursor->at = 0;
    }
}

ssize_t net_tls_send(struct net_tls_session *session, const struct iovec *vectors, int count)
{
    struct tls_cursor from = {vectors, count, 0};
    size_t total = 0;
    ssize_t sent = 0;
    if (session->in_kernel)
        return tls_kernel_send(session, vectors, count);
    if (sys_critical_in_handler())
        return tls_hand_send(session, vectors, count);
    do { /* the lock is free in between: the reader needs it */
        pthread_mutex_lock(&session->lock);
        sent = send_some(session, &from);
        pthread_mutex_unlock(&session->lock);
        total += sent > 0 ? (size_t)sent : 0;
        skip_empty(&from);
    } while (sent > 0 && from.count > 0);
    return total > 0 ? (ssize_t)total : sent;
}

int net_tls_flush(struct net_tls_session *session)
{
    struct tls_cursor nothing = {NULL, 0, 0};
    if (session->in_kernel)
        return session->send_error;
    if (sys_critical_in_handler())
        return (int)tls_hand_send(session, NULL, 0);
    pthread_mutex_lock(&session->lock);
    ssize_t sent = send_some(session, &nothing);
    pthread_mutex_unlock(&session->lock);
    return sent < 0 ? (int)sent : net_tls_owes(session) ? -EAGAIN : 0;
}

/* ---- receiving ---- */

void tls_session_make_room(struct net_tls_session *session)
{
    if (session->in_start == 0)
        return;
    session->in_end -= session->in_start;
    memmove(session->in, session->in + session->in_start, session->in_end);
    session->in_start = 0;
}

ssize_t tls_session_fill(struct net_tls_session *session, bool wait)
{
    struct iovec vector = {session->in + session->in_end, TLS_IN - session->in_end};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (vector.iov_len == 0)
        return -EAGAIN;
    ssize_t got = sys_recvmsg(session->fd, &message, wait ? 0 : MSG_DONTWAIT);
    return got == 0 && session->broken ? -ECONNRESET : got;
}

/* A call of the library failed while it was receiving. -EAGAIN: more bytes are needed. */
static int receive_failure(struct net_tls_session *session, const struct tls_library *library)
{
    if (library->SSL_get_shutdown(session->ssl) & SSL_RECEIVED_SHUTDOWN &&
        library->ERR_peek_last_error() == 0) {
        session->closed = true;
        return 0;
    }
    if (tls_wants(library, session->ssl) != SSL_NOTHING)
        return -EAGAIN;
    enum net_tls_fault fault = tls_fault_of(library, true);
    atomic_store(&session->fault, fault);
    session->receive_error = net_tls_errno(fault);
    return session->receive_error;
}

ssize_t tls_session_decrypt(struct net_tls_session *session, const struct iovec *vectors, int count)
{
    const struct tls_library *library = tls_library();
    size_t total = 0;
    ssize_t failure = -EAGAIN;
    if (session->receive_error != 0 || session->closed)
        return session->receive_error;
    bool full = true;
    for (int i = 0; i < count && full; i++) {
        size_t at = 0, length = vectors[i].iov_len;
        while (at < length && full) {
            size_t piece = length - at < TLS_RECORD ? length - at : TLS_RECORD;
            uint8_t *to = (uint8_t *)vectors[i].iov_base + at;
            int got = 0;
            if (!is_there(to, piece))
                failure = -EFAULT;
            else if ((got = library->SSL_read(session->ssl, to, (int)piece)) <= 0)
                failure = receive_failure(session, library);
            full = got > 0;
            at += full ? (size_t)got : 0;
        }
        total += at;
    }
    /* What ended it, and what is left, is told next time: nobody may wait for the socket then. */
    bool more = full ? session->in_start < session->in_end || library->SSL_pending(session->ssl) > 0
                     : failure != -EAGAIN || session->in_start < session->in_end;
    atomic_store_explicit(&session->more, more, memory_order_relaxed);
    return total > 0 ? (ssize_t)total : failure;
}

/* Under the lock: takes what is there without the socket. -EAGAIN: nothing. */
static ssize_t receive_left(struct net_tls_session *session, const struct iovec *vectors, int count)
{
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    size_t taken = tls_hand_take(session, vectors, count);
    if (taken > 0)
        return (ssize_t)taken;
    if (session->receive_error != 0 || session->closed)
        return session->receive_error;
    if (!session->more && session->in_start == session->in_end)
        return -EAGAIN;
    if (!tls_enter(library, &guest))
        return -ECONNRESET;
    atomic_store(&session->stalled, false);
    ssize_t got = tls_session_decrypt(session, vectors, count);
    tls_leave(library, &guest);
    if (session->out_start < session->out_end) /* an answer of the library's own */
        tls_session_flush(session);
    return got;
}

ssize_t net_tls_receive(struct net_tls_session *session, const struct iovec *vectors, int count,
                        bool wait)
{
    if (session->in_kernel)
        return tls_kernel_receive(session, vectors, count, wait);
    if (sys_critical_in_handler())
        return tls_hand_receive(session, vectors, count, wait);
    if (net_tls_has_more(session))
        prepare(vectors, count, TLS_IN + TLS_RECORD);
    pthread_mutex_lock(&session->lock);
    ssize_t got = receive_left(session, vectors, count);
    if (got == -EAGAIN) {
        tls_session_make_room(session);
        session->filling = true;
        pthread_mutex_unlock(&session->lock);
        ssize_t filled = tls_session_fill(session, wait);
        if (filled > 0)
            prepare(vectors, count, session->in_end + (size_t)filled);
        pthread_mutex_lock(&session->lock);
        session->filling = false;
        if (filled > 0) {
            session->in_end += (size_t)filled;
            got = receive_left(session, vectors, count);
        } else {
            got = filled;
        }
    }
    pthread_mutex_unlock(&session->lock);
    return got;
}
