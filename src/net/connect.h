/* Addresses of a path, and the sockets between them. */
#ifndef NET_CONNECT_H
#define NET_CONNECT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * Whether sockets are bound to a port below 1024.
 * NET_PORT_AUTO: yes, if that is permitted and one is free; else to any port.
 * NET_PORT_LOW: yes; to any port only if that is not permitted.
 * NET_PORT_PRIVILEGED: yes.
 * NET_PORT_ANY: no.
 */
enum net_port { NET_PORT_AUTO, NET_PORT_LOW, NET_PORT_PRIVILEGED, NET_PORT_ANY };

/* A network path: where to connect to (with the port), and from where. */
struct net_address {
    struct sockaddr_storage peer;
    struct sockaddr_storage local; /* ss_family AF_UNSPEC: from any */
    bool dontroute;
    char peer_text[64];
    char local_text[64];
    const char *written; /* the peer as the nfstab has it, which lives for ever; or NULL */
};

/* Opens, binds and connects one socket, as net_channel_connect() does. Returns the descriptor or
 * -errno. */
int net_connect(const struct net_address *address, enum net_port policy, int timeout_ms);

void net_address_set_port(struct sockaddr_storage *address, unsigned port);
/* Writes the address in digits to `text`, and returns that. */
const char *net_address_text(const struct sockaddr_storage *address, char text[INET6_ADDRSTRLEN]);

/* Can a socket be bound to it, as far as the address is concerned? True for AF_UNSPEC. */
bool net_address_is_ours(const struct sockaddr_storage *local);

/* How a channel's connection is to be made. */
struct net_connecting {
    enum net_port policy;
    unsigned preferred_port; /* 0: none */
    int timeout_ms;
    void (*look)(void *context); /* called now and then during that; may be NULL */
    void *context;
    unsigned tried; /* result: how many ports below 1024 were tried */
};

/*
 * As net_connect(), but from the local port `preferred_port` if that is free. Then the server's
 * duplicate request cache can recognise a call that is sent again. -EADDRINUSE: no local port is
 * left; the path is not at fault.
 */
int net_connect_from(const struct net_address *address, struct net_connecting *how);

/* Milliseconds until then, at least 1. */
int net_left_ms(uint64_t deadline_ns);

/* The port that a socket is bound to, 0: unknown. *local: the address; AF_UNSPEC: unknown. */
unsigned net_local_port(int fd, struct sockaddr_storage *local);

/* May this process bind a port below 1024? */
bool net_low_ports_permitted(void);

#endif
