/*
 * The server's end of TLS (RFC 9289) for proxy.c. It stands behind the network and before the
 * server: faults of bytes are done to what is encrypted, faults of records to what is in clear.
 *
 *   client == TLS == [ cut, split, stalled, tampered ] == this end == [ records ] == server
 *
 * It shares no code with src/net/tls.
 */
#ifndef FAULT_TLS_H
#define FAULT_TLS_H

#include "connections.h"

struct tls_options {
    const char *certificate, *key; /* NULL: there is no TLS */
    const char *authority;         /* of clients, which need a certificate then */
    bool direct;                   /* from the first byte; else a client asks for it (STARTTLS) */
};

void tls_start(const struct tls_options *options);

/* For a connection that a client made. */
void tls_accepted(struct connection *c);
void tls_free(struct connection *c);

/* As input_receive(), of the client's end: what was decrypted goes to its flow. -2 also: it broke
 * the rules, or was answered as one that asks in clear. */
int tls_receive(struct connection *c);

/* Encrypts the first reply that waits. False: there is nothing to be sent now. */
bool tls_seal_first(struct connection *c);

/* The server has said all it had to say. */
void tls_say_end(struct connection *c);

#endif
