/*
 * What servers of tests have of TCP: sockets bound to ports of this host, bytes in memory that
 * grows, and the records of RPC in them (RFC 5531, section 11).
 */
#ifndef TEST_STREAM_H
#define TEST_STREAM_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- sockets ---- */

/* A socket bound to an address of this host, which counts for IPv4, or to the loopback of IPv6.
 * *port: 0 for any; becomes the one it is. -1: errno says why not. */
int stream_bind(sa_family_t family, in_addr_t host, in_port_t *port);

/* The same on loopback; it ends the program if that cannot be. */
int stream_bind_loopback(sa_family_t family, in_port_t *port);

/* On loopback, at any port, which stays bound by its number when listening ends: who connects then
 * is refused, and meets no server of another test. */
int stream_bind_kept(sa_family_t family, in_port_t *port);

/* Takes a connection, which sends at once what it is given. -1: there is none. */
int stream_accept(int listener, struct sockaddr_in *peer);

/* All of it. False: the connection has ended. */
bool stream_send(int fd, const void *data, size_t length);

/* Whoever ends the connection next resets it. */
void stream_abort(int fd);

/* Starts a thread that gets no signals: those are for the threads under test. */
void stream_thread(pthread_t *thread, void *(*body)(void *), void *context);

/* ---- bytes ---- */

struct bytes {
    uint8_t *data;
    size_t length, capacity;
};

/* So many more behind those that there are, whose values the caller sets. */
uint8_t *bytes_add(struct bytes *bytes, size_t length);

void put_bytes(struct bytes *bytes, const void *data, size_t length);
void put_word(struct bytes *bytes, uint32_t value);

/* Forgets the first ones. */
void bytes_drop(struct bytes *bytes, size_t length);

/* ---- records ---- */

enum { RECORD_MARK = 4, RECORD_MOST = 1 << 25 };

/* Sets the mark of a record of one fragment, which is `length` bytes long with its mark. */
void record_mark(uint8_t *record, size_t length);

enum record_found { RECORD_NONE, RECORD_WHOLE, RECORD_BAD };

/* The record at *at, if it came as a whole; then *at goes behind it. Bad ones are too long, or have
 * several fragments, which no client of ours sends. */
enum record_found record_next(const struct bytes *in, size_t *at, const uint8_t **record,
                              size_t *length);

/* The head of a call: RFC 5531, section 9. */
struct call_head {
    uint32_t xid, type, rpc_version, program, version, procedure;
    uint32_t flavor, credential_length; /* of its credential, which is within the record */
    const uint8_t *credential, *arguments;
};

/* False: the record is too short. */
bool call_read(const uint8_t *record, size_t length, struct call_head *head);

/* Receives what is there, or waits for it. 0 and less: as recv(2). */
ssize_t record_receive(int fd, struct bytes *in, int flags);

#endif
