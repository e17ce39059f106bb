/*
 * Threads in handlers of the program. Such a thread may have interrupted malloc(), or the program's
 * own use of OpenSSL. So it does not enter the library, and it does not take session->lock: who has
 * that may wait for the allocator. It leaves what is to be sent in `late`, and takes what came from
 * `plain`. A thread aside (sys/foreign.h) moves both; so does each other thread that uses the
 * session.
 */
#include <errno.h>
#include <string.h>

#include "net/tls/parts.h"
#include "sys/alloc.h"
#include "sys/foreign.h"

enum { ASIDE_SEND_MS = 20, ASIDE_RECEIVE_MS = 100, PLAIN = 65536, WAIT_MS = 100, FIRST = 65536 };

/* `lock` guards the rest; it is held for copies only. */
struct tls_hand {
    pthread_mutex_t lock;
    uint8_t *late;
    _Atomic size_t late_start, late_end;
    size_t late_size;
    _Atomic size_t plain_start, plain_end;
    bool over; /* the thread aside found the end of the connection: `result` */
    int result;
    uint8_t plain[PLAIN];
};

static struct tls_hand *hand_of(struct net_tls_session *session)
{
    struct tls_hand *hand = atomic_load(&session->hand), *none = NULL;
    if (hand || !(hand = sys_alloc(sizeof(*hand))))
        return hand;
    memset(hand, 0, offsetof(struct tls_hand, plain));
    pthread_mutex_init(&hand->lock, NULL);
    if (atomic_compare_exchange_strong(&session->hand, &none, hand))
        return hand;
    sys_free(hand);
    return none;
}

void tls_hand_free(struct tls_hand *hand)
{
    if (!hand)
        return;
    pthread_mutex_destroy(&hand->lock);
    sys_free(hand->late);
    sys_free(hand);
}

bool tls_hand_is_empty(const struct tls_hand *hand)
{
    return atomic_load(&hand->plain_start) == atomic_load(&hand->plain_end);
}

/* ---- for threads that are in no handler ---- */

bool tls_hand_owes(const struct tls_hand *hand)
{
    return atomic_load(&hand->late_start) != atomic_load(&hand->late_end);
}

/* Without the lock while it encrypts: that may have to wait for malloc(). */
bool tls_hand_encrypt(struct net_tls_session *session)
{
    struct tls_hand *hand = atomic_load_explicit(&session->hand, memory_order_acquire);
    int written = 1;
    while (hand && tls_hand_owes(hand) && written > 0) {
        if (!tls_session_has_room(session))
            return false;
        pthread_mutex_lock(&hand->lock);
        size_t have = hand->late_end - hand->late_start;
        size_t length = have < TLS_RECORD ? have : TLS_RECORD;
        memcpy(session->bounce, hand->late + hand->late_start, length);
        pthread_mutex_unlock(&hand->lock);
        written = tls_session_encrypt(session, length);
        pthread_mutex_lock(&hand->lock);
        hand->late_start += written > 0 ? (size_t)written : 0;
        if (hand->late_start == hand->late_end)
            hand->late_start = hand->late_end = 0;
        pthread_mutex_unlock(&hand->lock);
    }
    return written > 0;
}

static size_t take(struct tls_hand *hand, const struct iovec *vectors, int count)
{
    struct tls_cursor to = {vectors, count, 0};
    size_t start = hand->plain_start, have = hand->plain_end - start;
    size_t taken = have > 0 ? tls_copy(&to, hand->plain + start, have, true) : 0;
    hand->plain_start = start + taken;
    return taken;
}

size_t tls_hand_take(struct net_tls_session *session, const struct iovec *vectors, int count)
{
    struct tls_hand *hand = atomic_load_explicit(&session->hand, memory_order_acquire);
    if (!hand || tls_hand_is_empty(hand))
        return 0;
    pthread_mutex_lock(&hand->lock);
    size_t taken = take(hand, vectors, count);
    pthread_mutex_unlock(&hand->lock);
    return taken;
}

/* ---- aside ---- */

/* Receives and decrypts into `plain`. Under session->lock. A reader may be in the kernel with
 * `in`; it will decrypt. */
static void move_in(struct net_tls_session *session, struct tls_hand *hand)
{
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    if (session->filling)
        return;
    pthread_mutex_lock(&hand->lock);
    if (hand->plain_start == hand->plain_end)
        hand->plain_start = hand->plain_end = 0;
    size_t end = hand->plain_end;
    pthread_mutex_unlock(&hand->lock);
    /* The handler takes from the start, and nobody else puts anything behind the end. */
    struct iovec vector = {hand->plain + end, PLAIN - end};
    if (vector.iov_len == 0)
        return;
    ssize_t filled = -EAGAIN, got = -EAGAIN;
    if (!session->more) {
        tls_session_make_room(session);
        filled = tls_session_fill(session, false);
        session->in_end += filled > 0 ? (size_t)filled : 0;
    }
    if (tls_enter(library, &guest)) {
        got = tls_session_decrypt(session, &vector, 1);
        tls_leave(library, &guest);
    }
    if (got == -EAGAIN && filled != -EAGAIN && filled != -EINTR && filled <= 0)
        got = filled;
    pthread_mutex_lock(&hand->lock);
    if (got > 0)
        hand->plain_end = end + (size_t)got;
    hand->over = got <= 0 && got != -EAGAIN;
    hand->result = hand->over ? (int)got : 0;
    pthread_mutex_unlock(&hand->lock);
}

static void move_both(void *argument)
{
    struct net_tls_session *session = argument;
    const struct tls_library *library = tls_library();
    struct tls_guest guest;
    struct tls_hand *hand = atomic_load(&session->hand);
    pthread_mutex_lock(&session->lock);
    bool all = false;
    for (bool room = true; room && !all && session->send_error == 0;) {
        tls_session_flush(session);
        room = !session->owes;
        if (!room || !tls_enter(library, &guest))
            break;
        all = tls_hand_encrypt(session);
        tls_leave(library, &guest);
    }
    tls_session_flush(session);
    move_in(session, hand);
    tls_session_flush(session);
    pthread_mutex_unlock(&session->lock);
    tls_session_put(session);
}

/* The job has a reference of its own to the session: it may be over long after this thread has
 * gone on. */
static void move_aside(struct net_tls_session *session, int timeout_ms)
{
    tls_session_get(session);
    if (sys_foreign_aside(move_both, session, timeout_ms) == -EAGAIN)
        tls_session_put(session);
}

/* ---- for handlers ---- */

/* Makes room for more bytes in `late`. For how many, at most `more`. Under hand->lock. */
static size_t make_room(struct tls_hand *hand, size_t more)
{
    if (hand->late_start > 0) {
        hand->late_end -= hand->late_start;
        memmove(hand->late, hand->late + hand->late_start, hand->late_end);
        hand->late_start = 0;
    }
    size_t size = hand->late_size > 0 ? hand->late_size : FIRST;
    while (size < hand->late_end + more && size < TLS_LATE_MAX)
        size *= 2;
    uint8_t *late = size > hand->late_size ? sys_realloc(hand->late, size) : NULL;
    if (late) {
        hand->late = late;
        hand->late_size = size;
    }
    size_t room = hand->late_size - hand->late_end;
    return more < room ? more : room;
}

ssize_t tls_hand_send(struct net_tls_session *session, const struct iovec *vectors, int count)
{
    struct tls_hand *hand = hand_of(session);
    struct tls_cursor from = {vectors, count, 0};
    int error = session->send_error;
    if (!hand || error != 0)
        return error != 0 ? error : -EAGAIN;
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += vectors[i].iov_len;
    if (!sys_foreign_aside_runs())
        return -ECONNRESET;
    pthread_mutex_lock(&hand->lock);
    ssize_t sent = -EAGAIN;
    size_t room = total > 0 ? make_room(hand, total) : 0;
    if (total == 0) {
        sent = 0;
    } else if (room > 0) {
        size_t copied = tls_copy(&from, hand->late + hand->late_end, room, false);
        hand->late_end += copied;
        sent = copied > 0 ? (ssize_t)copied : -EFAULT;
    }
    pthread_mutex_unlock(&hand->lock);
    move_aside(session, ASIDE_SEND_MS);
    return total == 0 && net_tls_owes(session) ? -EAGAIN : sent;
}

/* What there is for the handler: bytes, the end, an error. -EAGAIN: nothing. */
static ssize_t receive_now(struct tls_hand *hand, const struct iovec *vectors, int count)
{
    pthread_mutex_lock(&hand->lock);
    bool some = hand->plain_start < hand->plain_end;
    size_t taken = take(hand, vectors, count);
    ssize_t result = taken > 0    ? (ssize_t)taken
                     : some       ? -EFAULT
                     : hand->over ? hand->result
                                  : -EAGAIN;
    pthread_mutex_unlock(&hand->lock);
    return result;
}

ssize_t tls_hand_receive(struct net_tls_session *session, const struct iovec *vectors, int count,
                         bool wait)
{
    struct tls_hand *hand = hand_of(session);
    if (!hand)
        return -EAGAIN;
    ssize_t got = receive_now(hand, vectors, count);
    if (got != -EAGAIN)
        return got;
    if (!sys_foreign_aside_runs())
        return -ECONNRESET;
    if (wait && !net_tls_has_more(session)) {
        struct pollfd poll = {.fd = session->fd, .events = POLLIN};
        sys_poll(&poll, 1, WAIT_MS);
    }
    move_aside(session, ASIDE_RECEIVE_MS);
    return receive_now(hand, vectors, count);
}
