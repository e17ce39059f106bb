/*
 * The addresses of a server's paths: what their names lead to, and what is wrong with them on this
 * host. Inside src/file only.
 *
 * A name may have several addresses, and other ones later. All processes of a run directory use the
 * one over which the server was last found by that name, as long as it answers and the resolver
 * still gives it: two addresses may be two servers, of which each has its own verifier, and knows
 * its own sessions.
 */
#ifndef FILE_ADDRESSES_H
#define FILE_ADDRESSES_H

#include "file/mount.h"
#include "net/net.h"

/* Of all paths of a server, in the order of the nfstab. */
struct file_addresses {
    struct net_address paths[CONF_PATHS_MAX]; /* the one that is tried first; without a port */
    struct conf_addresses found[CONF_PATHS_MAX];
    int faults[CONF_PATHS_MAX]; /* 0, or why a path cannot be used: see below */
};

/*
 * Resolves the names of all paths, which may block, and finds those that cannot be used:
 * -EHOSTUNREACH (a name does not resolve), -EEXIST (the same as an earlier one), -EADDRNOTAVAIL
 * (its local is no address of this host, now). Each is said on the log once in the process. `data`:
 * some that was written to the server is not committed, and must not be sent to another address.
 */
void file_addresses_find(struct file_server *server, bool data, struct file_addresses *addresses);

/* Is that the address at which this process has the server by this path? */
bool file_address_is_used(struct file_server *server, const struct conf_path *path,
                          const struct sockaddr_storage *peer);

/* A process that was answered at an address so lately keeps others from going elsewhere. */
#define FILE_ADDRESS_LATELY_NS UINT64_C(5000000000)

/* The server was found over this path at this address: others look for it there first. */
void file_address_is(const struct conf_server *conf, const struct conf_path *path,
                     const struct sockaddr_storage *peer);

/*
 * A path by name is down: another address than *peer for it, in turn. The resolver is asked again,
 * by a thread of our own, as it may block. False: none is known, or not yet.
 */
bool file_address_next(const struct conf_server *conf, const struct conf_path *path,
                       struct sockaddr_storage *peer);

/* The path of the stanza that src/net knows as this; NULL: none. */
const struct conf_path *file_address_path(const struct conf_server *conf,
                                          const struct net_address *address);
static inline bool file_address_is_name(const struct conf_path *path)
{
    return conf_address_family(path->peer) == AF_UNSPEC;
}

/* The resolver has locks in the C library, which a child would find taken for ever if it asked it
 * then. So a fork waits until it is not asked, for a tenth of a second at most. A child that began
 * meanwhile never asks it: to it a name leads where the server was last, if that is known. */
void file_addresses_fork_prepare(void);
void file_addresses_fork_parent(void);
void file_addresses_fork_child(void);

#endif
