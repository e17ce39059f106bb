/*
 * TLS for RPC (RFC 9289), by OpenSSL.
 *
 *   struct net_tls           how a server is to be protected; made once for it
 *   struct net_tls_session   one connection that is
 *
 * A session is used like a socket: at most one thread sends, and at most one receives. Where it
 * can, the kernel makes and opens the records: see kernel.c. Else threads in handlers of the
 * program do not enter the library, as they may have interrupted malloc(): see handler.c. A process
 * that was forked drops its parent's sessions.
 */
#ifndef NET_TLS_TLS_H
#define NET_TLS_TLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* What is wrong. fault.c has the sentences. */
enum net_tls_fault {
    NET_TLS_GOOD,
    NET_TLS_NO_LIBRARY,
    NET_TLS_LOST,
    NET_TLS_NO_THREAD,
    NET_TLS_NO_MEMORY,
    NET_TLS_BUSY,
    NET_TLS_BAD_CA,
    NET_TLS_BAD_CRL,
    NET_TLS_BAD_CERTIFICATE,
    NET_TLS_BAD_KEY,
    NET_TLS_REFUSED,
    NET_TLS_CLEAR_AGAIN,
    NET_TLS_NO_RPC,
    NET_TLS_NO_TLS,
    NET_TLS_OLD,
    NET_TLS_OTHER_PROTOCOL,
    NET_TLS_UNKNOWN_CA,
    NET_TLS_OTHER_NAME,
    NET_TLS_NO_NAME,
    NET_TLS_EXPIRED,
    NET_TLS_NOT_YET,
    NET_TLS_REVOKED,
    NET_TLS_CRL_MISSING,
    NET_TLS_CRL_EXPIRED,
    NET_TLS_UNFIT,
    NET_TLS_WANTS_CERTIFICATE,
    NET_TLS_REFUSES_CERTIFICATE,
    NET_TLS_ALERT,
    NET_TLS_GARBAGE,
    NET_TLS_KERNEL,
    NET_TLS_CUT,
    NET_TLS_LATE,
    NET_TLS_FAULTS
};

/* What it is, to complete "server NAME: ". Static: pointers to it may be compared. */
const char *net_tls_text(enum net_tls_fault fault);
/* What to do about it: a sentence. Static. */
const char *net_tls_remedy(enum net_tls_fault fault);
/*
 * The -errno of it; those of one kind have the same:
 * -ELIBACC: the TLS library. No connection can be protected in this process.
 * -ELIBSCN: none can be in this handler.
 * -ENOKEY: our own files.
 * -ENOPROTOOPT: the server does not offer TLS.
 * -EPFNOSUPPORT: it speaks no TLS that we do.
 * -EKEYREVOKED: its certificate is refused.
 * -EBADRQC: it refuses us, by an alert.
 * -ECONNRESET, -ETIMEDOUT, -EAGAIN: as without TLS.
 */
int net_tls_errno(enum net_tls_fault fault);
/* The text of an -errno of these, for the log: with TLS in it. Static; else strerrordesc_np(). */
const char *net_tls_error_text(int error);
/* Is it one of these kinds, and not an error as without TLS? */
bool net_tls_is_error(int error);

/* How to protect a server. Texts are copied; NULL: not given. */
struct net_tls_settings {
    bool direct;          /* TLS from the first byte, without asking (STARTTLS) */
    bool require;         /* false: in clear if the server does not offer it */
    const char *ca;       /* files in PEM: the authorities; NULL: the system's */
    const char *crl;      /* revocations; NULL: none are looked for */
    const char *cert;     /* our certificate, and what it was made by */
    const char *key;      /* its key; NULL: it is in the file of the certificate */
    const char *name;     /* in the server's certificate, instead of the following */
    const char *server;   /* the server's name in the nfstab */
    uint32_t nfs_version; /* of the call of NFS that asks the server; 0: 3 */
    bool kernel;          /* the kernel makes and opens the records, if it can (kTLS) */
};

struct net_tls;

/* Makes it; the library is not needed yet. NULL: no memory. */
struct net_tls *net_tls_new(const struct net_tls_settings *settings);
/* For one without sessions. */
void net_tls_free(struct net_tls *tls);
/* In the child of fork(). */
void net_tls_after_fork(struct net_tls *tls);

/* Loads the library, if that was not done. Without any lock, not in a handler: constructors run,
 * and may open files. 0, or -ELIBACC; then *why is a static text of this thread. `why` may be NULL.
 */
int net_tls_load(const char **why);
/* The functions that the library must have, by index. NULL: there are fewer. Static. */
const char *net_tls_function(size_t index);
/* What is loaded: "OpenSSL 3.0.19 ...". NULL: nothing. */
const char *net_tls_version(void);

/* Is the server asked first (STARTTLS)? */
bool net_tls_asks(const struct net_tls *tls);
/* By a call of NFS in which version? */
uint32_t net_tls_nfs_version(const struct net_tls *tls);
/* The last fault of a connection of this process to the server; GOOD after a success. */
enum net_tls_fault net_tls_fault(const struct net_tls *tls);
/* Is this a child that can never protect a connection, as it lost the library? Then it is not worth
 * connecting. It is said, and it is the fault. */
bool net_tls_is_lost(struct net_tls *tls);

/* What is known of a session. */
struct net_tls_facts {
    char protocol[16], cipher[48];  /* "TLSv1.3", "TLS_AES_256_GCM_SHA384"; empty: in clear */
    char subject[160], issuer[160]; /* of the server's certificate, also of one that is refused */
    int64_t peer_ends, own_ends;    /* when the certificates end, in s of the epoch; 0: not known */
    char detail[96];                /* of a fault, in the words of OpenSSL; or empty */
    int depth;      /* of the certificate that a fault is about: 0 is the server's */
    bool refused;   /* the server does not offer TLS */
    bool asked;     /* it asked for a certificate of ours, */
    bool given;     /* and got one */
    bool alpn;      /* it selected "sunrpc" */
    bool in_kernel; /* the kernel makes and opens the records (kTLS) */
};

/* A connection that is to be protected. */
struct net_tls_peer {
    const char *written; /* the address as the nfstab has it, or NULL. Never one of the resolver */
    uint32_t program, version; /* of the call that asks the server */
    int timeout_ms;
    void (*look)(void *context); /* called now and then; may be NULL */
    void *context;
    bool hidden;                 /* the log is not told */
    enum net_tls_fault fault;    /* result */
    struct net_tls_facts *facts; /* result, also after a failure; NULL: not wanted */
};

struct net_tls_session;

/*
 * Protects a connection that was just made; the socket blocks. Asks the server and makes the
 * handshake.
 * 0 and a session, which has the descriptor from now on: net_tls_close() closes it.
 * 0 and NULL: the connection is in clear, as the server does not offer TLS and that is permitted.
 * -errno: see net_tls_errno(). The descriptor is closed.
 */
int net_tls_begin(struct net_tls *tls, int fd, struct net_tls_peer *peer,
                  struct net_tls_session **session);

/* Ends the session and closes its descriptor. Not while a thread sends or receives. */
void net_tls_close(struct net_tls_session *session);
/* In the child of fork(): nothing is sent, and the descriptor was closed already. */
void net_tls_forget(struct net_tls_session *session);

const struct net_tls_facts *net_tls_facts(const struct net_tls_session *session);
int net_tls_descriptor(const struct net_tls_session *session);

/*
 * As sendmsg() with MSG_DONTWAIT. What is encrypted counts as sent, though the socket may not have
 * taken it yet (net_tls_owes()). While that is so nothing more is sent: -EAGAIN. -EFAULT: memory is
 * missing, and nothing was sent.
 */
ssize_t net_tls_send(struct net_tls_session *session, const struct iovec *vectors, int count);
/* Sends what is owed, as far as the socket takes it. 0: all. -EAGAIN, or why the connection ended.
 */
int net_tls_flush(struct net_tls_session *session);

/*
 * As recvmsg(); `wait`: it waits for the socket, as long as SO_RCVTIMEO says. -EAGAIN also if what
 * came is no whole record. -EFAULT: memory is missing, and nothing was taken. -EBADRQC: the server
 * refuses us. -ECONNRESET: the connection ended otherwise than in order.
 */
ssize_t net_tls_receive(struct net_tls_session *session, const struct iovec *vectors, int count,
                        bool wait);

/* Are there bytes that the socket has not taken? Then POLLOUT is waited for, beside POLLIN. */
bool net_tls_owes(const struct net_tls_session *session);
/* Is there something to receive of which poll() on the socket knows nothing? */
bool net_tls_has_more(const struct net_tls_session *session);
/* The event after which sending may go on: POLLOUT; 0 if something must be received first. */
short net_tls_send_event(const struct net_tls_session *session);
/* The session ended. By a fault of TLS: the log says so, unless `hidden`, and net_tls_fault()
 * tells. */
void net_tls_ended(struct net_tls_session *session, bool hidden);
/* Why the session ended; GOOD: not by a fault of TLS. */
enum net_tls_fault net_tls_session_fault(const struct net_tls_session *session);

enum { NET_TLS_PROBE_REPLY_MAX = 512 };
/*
 * Reads the answer to the question for TLS: `have` bytes from the record mark on.
 * 1: the server offers it. 0: more bytes are needed. -ENOPROTOOPT: it does not. -EBADMSG: it is no
 * answer. *length: of the record with its mark, when it is known.
 */
int net_tls_probe_reply(const uint8_t *bytes, size_t have, uint32_t xid, size_t *length);

#endif
