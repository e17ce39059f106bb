/*
 * MOUNT and port mapper against a responder in a thread, which answers with bytes written down by
 * hand from RFC 1813 appendix I, RFC 1833 and RFC 5531.
 */
#ifndef MOUNT3_RESPONDER_H
#define MOUNT3_RESPONDER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nfs/mount3.h"
#include "stream.h"

/* "X" stands for the xid of the call. An accepted reply with an empty verifier, SUCCESS. */
#define ACCEPTED "X 00000001 00000000 00000000 00000000 00000000 "

#define MNT_OK ACCEPTED "00000000 00000006 0a0b0c0d0e0f 0000 00000002 00000001 0005f373"
enum manner {
    ANSWER,         /* one record per connection, a single fragment */
    ANSWER_RAW,     /* the bytes as they are, record marks included */
    ANSWER_DRIP,    /* as ANSWER, but a byte every 20 ms */
    ANSWER_NEVER,   /* read the call, then wait until the client goes */
    ANSWER_GOODBYE, /* abort the connection without reading */
};

/*
 * Lives on the test's stack. The thread writes calls[], call_size[], from and reset; the test
 * reads them after responder_stop(), which joins the thread.
 */
struct responder {
    enum manner manner;
    struct net_address address; /* its own, for target_of() */
    const char *replies[2];     /* for the first and the second connection */
    int listener;
    uint16_t port;
    int connections;
    pthread_t thread;
    uint8_t calls[2][2048];
    size_t call_size[2];
    struct sockaddr_storage from;
    bool reset; /* the client closed with a reset */
};

/* At the loopback of IPv4 or IPv6; false: there is none. */
bool responder_start_on(struct responder *responder, sa_family_t family);

extern const struct sockaddr_in loopback4;
extern const struct sockaddr_in6 loopback6;

void responder_start(struct responder *responder);

/* A connection in progress is finished first: accept() fails only when nobody is waiting. */
void responder_stop(struct responder *responder);

#endif
