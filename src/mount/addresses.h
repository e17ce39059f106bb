/*
 * The addresses of a server's paths: what their names lead to, and what is wrong with them on this
 * host. Inside the engine only.
 *
 * A name may have several addresses, and other ones later. Two addresses may be two servers: each
 * has its own verifier, and knows its own sessions. So all processes of a run directory use one
 * address: that at which the server was last found by that name. They do so as long as it answers
 * and the resolver still gives it.
 */
#ifndef MOUNT_ADDRESSES_H
#define MOUNT_ADDRESSES_H

#include "mount/mount.h"
#include "net/net.h"

/* One of each for each path of a server, in the order of the nfstab. */
struct mount_addresses {
    struct net_address paths[CONF_PATHS_MAX]; /* the address that is tried first; without a port */
    struct conf_addresses found[CONF_PATHS_MAX];
    int faults[CONF_PATHS_MAX]; /* 0, or why the path cannot be used: mount_addresses_find() */
};

/*
 * Resolves the names of all paths, which may block. faults[] says which paths cannot be used:
 * -EHOSTUNREACH: the name does not resolve.
 * -EEXIST: the addresses are those of an earlier path.
 * -EADDRNOTAVAIL: its local is no address of this host, now.
 * The log says each once in the process. `data`: uncommitted data was written to the server, and
 * must not be sent to another address.
 */
void mount_addresses_find(struct mount_server *server, bool data,
                          struct mount_addresses *addresses);

/* Does this process have the server at this address by this path? */
bool mount_address_is_used(struct mount_server *server, const struct conf_path *path,
                           const struct sockaddr_storage *peer);

/* A process that got an answer at an address less than this ago keeps others from going elsewhere.
 */
#define MOUNT_ADDRESS_LATELY_NS UINT64_C(5000000000)

/* The server was found over this path at this address. Others look for it there first. */
void mount_address_is(const struct conf_server *conf, const struct conf_path *path,
                      const struct sockaddr_storage *peer);

/*
 * A path by name is down: finds another address than *peer for it, one after the other. The
 * resolver is asked again, by a thread of our own, as it may block. False: none is known, or none
 * yet.
 */
bool mount_address_next(const struct conf_server *conf, const struct conf_path *path,
                        struct sockaddr_storage *peer);

/* The path of the stanza that src/net knows by this address; NULL: none. */
const struct conf_path *mount_address_path(const struct conf_server *conf,
                                           const struct net_address *address);
static inline bool mount_address_is_name(const struct conf_path *path)
{
    return conf_address_family(path->peer) == AF_UNSPEC;
}

/* Around fork. The resolver has locks in the C library. A child that was forked while they were
 * held would wait for them for ever. So a fork waits until nobody asks the resolver, for a tenth of
 * a second at most. A child that was forked before that never asks it: to the child a name leads
 * where the server was last, if that is known. */
void mount_addresses_fork_prepare(void);
void mount_addresses_fork_parent(void);
void mount_addresses_fork_child(void);

#endif
