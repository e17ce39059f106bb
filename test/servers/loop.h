/*
 * What the programs of this directory share: one thread, poll(), sockets that are watched, and
 * streams of RPC records (RFC 5531, section 11).
 */
#ifndef FAULT_LOOP_H
#define FAULT_LOOP_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compound.h"
#include "tool.h"

#define NEVER UINT64_MAX
uint64_t milliseconds(uint64_t ms);

/* splitmix64: a seed and a number give a random value, wherever and whenever it is asked for. */
uint64_t mix(uint64_t x);
void *need(size_t size);

/* ---- what is watched ---- */

/* First member of what it stands for. `fd` -1: nothing to watch. Freed by the loop when `dead`. */
struct watch {
    int fd;
    short events;
    bool dead;
    void (*ready)(struct watch *watch, short events);
    struct watch *next;
};

void watch_add(struct watch *watch);

/* Closes a socket: with a reset, so that the other side loses what it has not read. */
void socket_reset(int *fd);

/* Runs until SIGTERM. `due` does what is due now, and says when (clock_ns) it wants to be asked
 * again. */
void loop_run(uint64_t (*due)(uint64_t now));

/* ---- TCP ---- */

void socket_ready(int fd);

/* Of IPv4 or IPv6. */
union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* A listening socket, or -1 with errno. */
int tcp_listen(union address address, uint16_t port);
bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b);

/* ---- records ---- */

/* Bytes on their way out, in the order of `due` and then of their making. */
struct message {
    struct message *next;
    uint64_t due;
    size_t length, sent;
    bool sealed; /* for proxy.c: goes out as it is, and none before it */
    unsigned char data[];
};

struct message *message_make(const void *data, size_t length);
void messages_free(struct message **list);

/* The half of a connection that comes in. in[0 .. used) are bytes that are no whole record yet. */
struct input {
    unsigned char *bytes;
    size_t used, size;
};

/* Receives once. 1: something came, 0: not now, -1: the end of the stream, -2: it is lost. */
int input_receive(struct input *in, int fd);

/*
 * The first whole record as one fragment, mark included, or NULL. `*garbage` is set when none can
 * come any more.
 */
struct message *input_record(struct input *in, bool *garbage);

/* Takes a record, without its mark, to pieces. False when it is no call. */
bool call_parse(const unsigned char *record, size_t length, struct call *call);

#endif
