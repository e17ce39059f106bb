/* What the files of src/net/tls share. Inside it only. */
#ifndef NET_TLS_PARTS_H
#define NET_TLS_PARTS_H

#include <pthread.h>

#include "net/tls/library.h"
#include "net/tls/tls.h"
#include "sys/sys.h"

enum {
    TLS_RECORD = 16384,    /* bytes of data in the longest record: RFC 8446, 5.1 */
    TLS_RECORD_MORE = 512, /* what a record has beside them, at most */
    TLS_IN = 65536,        /* what is received at once */
    TLS_OUT = 4 * (TLS_RECORD + TLS_RECORD_MORE),
    TLS_LATE_MAX = 2 << 20, /* what a handler may leave to be encrypted */
    /* Half of what one key of AES-GCM may encrypt: RFC 8446, 5.5. */
    TLS_RECORDS_MAX = 1 << 23
};
/* The same, in blocks. */
#define TLS_BLOCKS_MAX (UINT64_C(1) << 33)

/* A file as it was when it was read; `size` -1: there is none. */
struct tls_file {
    dev_t device;
    ino_t inode;
    int64_t size, seconds;
    uint32_t nanoseconds;
};

enum { TLS_CA, TLS_CRL, TLS_CERT, TLS_KEY, TLS_FILES };

/* What sessions are made from: replaced as a whole when a file has changed. */
struct tls_material {
    SSL_CTX *context;
    int64_t own_ends; /* of our certificate, in s of the epoch; 0: none */
    struct tls_file files[TLS_FILES];
};

struct net_tls {
    struct net_tls_settings settings;
    pthread_mutex_t lock; /* guards `material`; held while files are read */
    struct tls_material *material;
    _Atomic uint32_t fault;     /* enum net_tls_fault */
    _Atomic bool was_protected; /* a connection to the server was: it is never in clear again */
    _Atomic bool said_clear;
    _Atomic bool records_are_ours; /* the kernel made a fault with them, or cannot follow */
};

/* What comes of a record that is no data: the message that is not whole yet. */
struct tls_control {
    int type; /* of the record */
    uint8_t head[4];
    unsigned have; /* bytes of it */
    uint32_t left; /* bytes of the message to be skipped */
};

/* What a handler leaves for others, and others for it: see handler.c. */
struct tls_hand;

/* `lock` guards all that is not atomic, or said to be otherwise. Order: session->lock, then
 * hand->lock. The gate of the library is passed under session->lock. */
struct net_tls_session {
    struct net_tls *tls;
    int fd;                       /* constant until the session is freed */
    _Atomic unsigned references;  /* the channel, and a job of a handler */
    struct net_tls_session *next; /* among those to be freed */
    pthread_mutex_t lock;
    SSL *ssl;
    size_t in_start, in_end, out_start, out_end;
    uint32_t records;    /* that were encrypted by one key */
    bool filling;        /* the reader receives into `in`, behind in_end, without the lock */
    _Atomic bool broken; /* the library failed while it was sending */
    bool closed;         /* the peer ended the session, or the connection, in order */
    int receive_error;   /* -errno: nothing more can be received */
    _Atomic int send_error;
    _Atomic bool owes;      /* there is something in `out` */
    _Atomic bool more;      /* there is something to decrypt, or an end that was not told yet */
    _Atomic bool stalled;   /* it cannot send before it has received something */
    _Atomic uint32_t fault; /* enum net_tls_fault */
    const struct net_tls_peer *peer; /* during the handshake */
    bool named;                      /* the server's certificate has a name that it should */
    struct net_tls_facts facts;      /* constant after it */
    struct tls_hand *_Atomic hand;   /* NULL: no handler used the session */
    struct tls_secrets *secrets; /* during the handshake, if the kernel is to make the records */
    /* The rest of a session whose records the kernel makes. It has no SSL, and needs no lock. */
    bool in_kernel;             /* constant after the handshake */
    uint64_t began_ns;          /* constant after it */
    uint64_t blocks;            /* that were encrypted. The sender's */
    unsigned nothings;          /* how often in a row nothing came. The reader's */
    struct tls_control control; /* the reader's, as `receive_error`, `closed` and `in` are then */
    uint8_t in[TLS_IN], out[TLS_OUT], bounce[TLS_RECORD];
};

/* A place in vectors. */
struct tls_cursor {
    const struct iovec *vectors;
    int count;
    size_t at; /* in the first vector */
};

/* ---- session.c ---- */

BIO_METHOD *tls_bio_method(const struct tls_library *library);
/* A session for a new connection, with one reference, or NULL. */
struct net_tls_session *tls_session_new(struct net_tls *tls, int fd);
void tls_session_get(struct net_tls_session *session);
/* The last one closes the descriptor. */
void tls_session_put(struct net_tls_session *session);
/* Frees the sessions that were left in handlers. Not in one. */
void tls_session_reap(void);

/* Under session->lock. Sends `out` as far as the socket takes it. */
void tls_session_flush(struct net_tls_session *session);
/* Nothing can be sent any more: the connection ends, when what came was taken. -EPIPE. */
int tls_session_give_up(struct net_tls_session *session);
/* Receives into `in`, with the lock or as the reader. What recvmsg() says. */
ssize_t tls_session_fill(struct net_tls_session *session, bool wait);
/* Makes room in `in`, under the lock. */
void tls_session_make_room(struct net_tls_session *session);
/* After a call failed: SSL_READING or SSL_WRITING, if it may succeed later; else SSL_NOTHING. The
 * queue of errors was empty before it. */
int tls_wants(const struct tls_library *library, const SSL *ssl);
/* Is there room for one more record in `out`? */
bool tls_session_has_room(const struct net_tls_session *session);
/* Encrypts what is in `bounce`, if there is room. How many bytes, all of them; -EAGAIN: none now;
 * or another -errno. Within the gate. */
int tls_session_encrypt(struct net_tls_session *session, size_t length);
/* Decrypts into the vectors. How many bytes; 0: the session ended in order; -errno. */
ssize_t tls_session_decrypt(struct net_tls_session *session, const struct iovec *vectors,
                            int count);
/* Copies at most `size` bytes between memory of ours and the vectors, which may be missing: then it
 * is short. How many; the cursor goes on. */
size_t tls_copy(struct tls_cursor *cursor, uint8_t *ours, size_t size, bool to_vectors);

/* ---- handler.c ---- */

/* Is this thread in a handler? Then these do what net_tls_send() and net_tls_receive() say. */
ssize_t tls_hand_send(struct net_tls_session *session, const struct iovec *vectors, int count);
ssize_t tls_hand_receive(struct net_tls_session *session, const struct iovec *vectors, int count,
                         bool wait);
/* For others, under session->lock. Encrypts what a handler left. False: some of it is left. */
bool tls_hand_encrypt(struct net_tls_session *session);
/* Takes what was decrypted for a handler: how many bytes, 0: nothing. */
size_t tls_hand_take(struct net_tls_session *session, const struct iovec *vectors, int count);
/* Is nothing there to be taken; is something left to be encrypted? */
bool tls_hand_is_empty(const struct tls_hand *hand);
bool tls_hand_owes(const struct tls_hand *hand);
void tls_hand_free(struct tls_hand *hand);

/* ---- kernel.c ---- */

/* Before the handshake: if the kernel is to make the records, its secrets are kept. */
void tls_kernel_prepare(struct net_tls_session *session);
/* Called by the library with each secret, as a line of its log of keys. */
void tls_kernel_secret(const SSL *ssl, const char *line);
/* After the handshake. If the kernel can make the records, it does from now on; else the library
 * does. Passes the gate itself. GOOD, or a fault: then the connection is of no use. */
enum net_tls_fault tls_kernel_take_over(struct net_tls_session *session);
/* Frees the secrets. */
void tls_kernel_forget(struct net_tls_session *session);
/* What net_tls_send() and net_tls_receive() say. */
ssize_t tls_kernel_send(struct net_tls_session *session, const struct iovec *vectors, int count);
ssize_t tls_kernel_receive(struct net_tls_session *session, const struct iovec *vectors, int count,
                           bool wait);

/* A secret, and the digest that goes with it. */
struct tls_expansion {
    const char *digest;
    const uint8_t *secret;
    size_t length;
};

/* The key and the IV that it gives (RFC 8446, section 7.3). Within the gate. False: no memory. */
bool tls_kernel_keys(const struct tls_library *library, const struct tls_expansion *from,
                     uint8_t *key, size_t length, uint8_t iv[12]);

/* ---- context.c ---- */

/* A new SSL, whose certificates are those that the files have now. NULL: see the fault. It passes
 * the gate itself. */
SSL *tls_context_ssl(struct net_tls *tls, enum net_tls_fault *fault, int64_t *own_ends);

/* ---- verify.c ---- */

/* Called by the library for each certificate of the server. */
int tls_verify(int good, X509_STORE_CTX *store);
/* Is it an address in digits? */
bool tls_is_address(const char *text);
/* Seconds of the epoch; 0: not known. */
int64_t tls_time_of(const struct tls_library *library, const ASN1_TIME *time);

/* ---- fault.c ---- */

/* The fault that an alert of this description is. */
enum net_tls_fault tls_fault_of_alert(int description);
/* The fault that the library's last error is. */
enum net_tls_fault tls_fault_of(const struct tls_library *library, bool handshaken);
/* Says it on the log, for all processes once a minute. */
void tls_say(const struct net_tls *tls, enum net_tls_fault fault,
             const struct net_tls_facts *facts);

/* ---- probe.c ---- */

/* Asks the server for TLS. GOOD: it offers it. */
enum net_tls_fault tls_probe(int fd, const struct net_tls_peer *peer, uint64_t deadline_ns);
/* Waits for an event on the socket, and looks meanwhile. 0, or -ETIMEDOUT. */
int tls_wait(int fd, short event, const struct net_tls_peer *peer, uint64_t deadline_ns);

#endif
