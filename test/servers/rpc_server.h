/*
 * A scripted RPC server in threads of the test, on loopback. Its answers show any mix-up: every
 * call carries a token, from which results and payloads follow. The calls: queries.h.
 *
 *   ECHO   token --> token, token + 1
 *   READ   token, length --> a READ's results with `length` bytes that follow from the token
 *   WRITE  token, length, bytes --> token, 1 if the bytes follow from the token
 *
 * Procedure 0 of any program is NULL: a ping.
 */
#ifndef TEST_RPC_SERVER_H
#define TEST_RPC_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replies.h"

enum procedure { ECHO = 1, READ = 2, WRITE = 3 };

enum order { IN_ORDER, REVERSE, RANDOM };

enum { TOKENS = 1 << 18, HELD_MAX = 64, CONNECTIONS_MAX = 4096 };

struct server;

/* What the server does; all zero: answers at once, in order. */
struct script {
    enum order order;     /* of answers to the calls that came together */
    bool silent;          /* reads, and never answers */
    unsigned strangers;   /* replies to calls that no one made, before each reply */
    unsigned close_after; /* replies on a connection: then it is closed */
    unsigned reset_every; /* every so many replies half of one is sent, and the connection reset */
    unsigned garbage_every; /* the same with garbage */
    unsigned lose_one;      /* this reply is never sent */
    unsigned limit;         /* connections at a time: further ones are closed at once; 0: any */
    size_t fragment;        /* longest fragment of a record; 0: records of one fragment */
    int buffer;             /* size of socket buffers */
    /* Instead of answer_call(); no bytes: there is no answer. */
    void (*answer)(struct server *server, const uint8_t *call, size_t length,
                   struct bytes *message);
};

struct server {
    struct script script;
    int listener;
    in_port_t port;
    pthread_t thread;
    pthread_mutex_t lock;
    _Atomic unsigned connections; /* grows under lock, which guards what follows */
    int fds[CONNECTIONS_MAX];     /* -1 when closed */
    pthread_t threads[CONNECTIONS_MAX];
    in_port_t peer_ports[CONNECTIONS_MAX];
    bool stopping;
    _Atomic bool silent;        /* as the script says at first */
    _Atomic bool busy;          /* answers procedure NULL only */
    _Atomic bool closing;       /* ends further connections at once */
    _Atomic unsigned ended;     /* so many connections, the first, are read no more */
    _Atomic int mute;           /* 1 + the index of a connection on which it does not answer */
    _Atomic unsigned forgotten; /* so many connections, the first, are silent from now on */
    _Atomic unsigned cap;       /* open connections that are answered; further ones are silent from
                                   the first; 0: any */
    bool silenced[CONNECTIONS_MAX];
    _Atomic unsigned stuck;   /* 1 + a token: its call keeps its connection waiting; 0: none does */
    _Atomic unsigned copies;  /* of that call that came */
    _Atomic bool drops;       /* further copies, while it carries out the first */
    _Atomic unsigned refused; /* connections: see script.limit */
    _Atomic unsigned calls;   /* that came, without pings: those depend on the machine's speed */
    _Atomic unsigned replies, changed_xids, bad_calls;
    _Atomic unsigned most_held;    /* calls that came before one of them was answered */
    _Atomic uint32_t xids[TOKENS]; /* with which a token was first seen */
};

uint8_t payload_byte(uint32_t token, size_t at);
/* Builds the reply to a call of `length` bytes at `call`, from the xid on. */
void answer_call(struct server *server, const uint8_t *call, size_t length, struct bytes *message);

/* Binds a port, without listening yet. Bound by its number, it is kept when listening ends. */
struct server *server_new(const struct script *script, sa_family_t family);
void server_listen(struct server *server);
struct server *server_start(const struct script *script);

/* Ends all threads of a server that listens. */
void server_stop(struct server *server);

#endif
