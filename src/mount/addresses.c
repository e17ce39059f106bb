#include "mount/addresses.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mount/facts.h"
#include "net/pool.h"
#include "reach/server.h"
#include "sys/alloc.h"
#include "sys/critical.h"
#include "sys/log.h"
#include "sys/sys.h"
#include "sys/thread.h"

#define ASK_EVERY_NS UINT64_C(5000000000) /* the resolver, while a path is down */

enum { FORK_WAITS_MS = 100 };

/* ---- which addresses ---- */

/* The place of an address in the list; `count`: it is not there. */
static size_t place_of(const struct conf_addresses *found, const struct sockaddr_storage *peer)
{
    size_t at = 0;
    while (at < found->count && !conf_address_equal(&found->peers[at], peer))
        at++;
    return at;
}

/* Makes this address the first of the list. It need not be in it. */
static void put_first(struct conf_addresses *found, const struct sockaddr_storage *peer)
{
    size_t at = place_of(found, peer);
    if (at == CONF_ADDRESSES_MAX)
        at--; /* the last is left out */
    if (at == found->count)
        found->count++;
    memmove(found->peers + 1, found->peers, at * sizeof(found->peers[0]));
    found->peers[0] = *peer;
    net_address_set_port(&found->peers[0], 0);
}

const struct conf_path *mount_address_path(const struct conf_server *conf,
                                           const struct net_address *address)
{
    for (size_t i = 0; i < conf->path_count; i++) {
        const struct conf_path *path = &conf->paths[i];
        if (strncmp(path->peer, address->peer_text, sizeof(address->peer_text) - 1) == 0 &&
            strncmp(path->local, address->local_text, sizeof(address->local_text) - 1) == 0)
            return path;
    }
    return NULL;
}

/* Where this process has the server by that path, if it has. */
static bool where_it_is(struct mount_server *server, const struct conf_path *path,
                        struct sockaddr_storage *peer)
{
    pthread_mutex_lock(&server->lock);
    struct net_server *net = server->net;
    pthread_mutex_unlock(&server->lock);
    for (unsigned i = 0; net && i < net->path_count; i++) {
        struct net_address address;
        net_path_address(&net->paths[i], &address);
        if (mount_address_path(server->conf, &address) == path) {
            *peer = address.peer;
            return true;
        }
    }
    return false;
}

bool mount_address_is_used(struct mount_server *server, const struct conf_path *path,
                           const struct sockaddr_storage *peer)
{
    struct sockaddr_storage used;
    return where_it_is(server, path, &used) && conf_address_equal(&used, peer);
}

static bool fits(const struct conf_addresses *found, const struct sockaddr_storage *peer)
{
    return found->local.ss_family == AF_UNSPEC || found->local.ss_family == peer->ss_family;
}

/* In a child that was forked while the resolver was asked: see mount_addresses_fork_prepare(). */
static _Atomic bool resolver_lost;

/* The address where the server was last, without a question to the resolver. */
static int remember(struct mount_server *server, const struct conf_path *path,
                    struct conf_addresses *found)
{
    struct sockaddr_storage peer;
    if (path->local[0] != '\0' ||
        (!where_it_is(server, path, &peer) && !mount_fact_of_address(server->conf, path, &peer)))
        return -EHOSTUNREACH;
    put_first(found, &peer);
    return 0;
}

/* As conf_path_addresses(), with the address that is to be tried first at the head. `data`: see
 * mount_addresses_find(). */
static int look_up(struct mount_server *server, const struct conf_path *path, bool data,
                   struct conf_addresses *found, struct conf_diagnostics *d)
{
    struct sockaddr_storage peer;
    if (atomic_load(&resolver_lost) && mount_address_is_name(path))
        return remember(server, path, found);
    int result = conf_path_addresses(path, found, d);
    bool local_known = path->local[0] == '\0' || found->local.ss_family != AF_UNSPEC;
    if (!mount_address_is_name(path) || !local_known)
        return result;
    bool used = where_it_is(server, path, &peer);
    if ((!used && !mount_fact_of_address(server->conf, path, &peer)) || !fits(found, &peer))
        return result;
    /* A copy may be by now where others found the server. The resolver knows better, if it answers.
     */
    if (result == 0 && !used && !data && place_of(found, &peer) == found->count)
        return 0;
    put_first(found, &peer);
    if (data || mount_fact_is_recent(server->conf, path, &peer, MOUNT_ADDRESS_LATELY_NS))
        found->count = 1;
    return 0;
}

void mount_address_is(const struct conf_server *conf, const struct conf_path *path,
                      const struct sockaddr_storage *peer)
{
    if (mount_address_is_name(path))
        mount_fact_address_is(conf, path, peer);
}

/* ---- what is wrong with them ---- */

_Static_assert(CONF_PATHS_MAX <= NET_PATHS_MAX && CONF_PATHS_MAX <= 32, "one bit each in blamed");

/* Says what is wrong with a path, and where in the nfstab; once, though each mount of the server
 * asks. */
__attribute__((format(printf, 4, 5))) static void
blame(struct mount_server *server, size_t index, struct conf_position at, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (atomic_fetch_or(&server->blamed, UINT32_C(1) << index) & UINT32_C(1) << index)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_error("%s:%u:%u: server %s: path %s %s", at.file, at.line, at.column, server->conf->name,
              server->conf->paths[index].peer, text);
}

/* The names of a path, for statistics and for administrators. */
static void name_path(const struct conf_server *conf, const struct conf_path *path,
                      struct net_address *address)
{
    address->written = reach_tls_written(conf, path);
    snprintf(address->peer_text, sizeof(address->peer_text), "%.63s", path->peer);
    snprintf(address->local_text, sizeof(address->local_text), "%.63s", path->local);
    address->dontroute = path->dontroute;
}

/* An earlier path with the same addresses; -1: none. */
static int find_same(const struct mount_addresses *addresses, size_t index)
{
    const struct net_address *address = &addresses->paths[index];
    for (size_t i = 0; i < index; i++) {
        const struct net_address *other = &addresses->paths[i];
        if (addresses->faults[i] != -EHOSTUNREACH &&
            conf_address_equal(&other->peer, &address->peer) &&
            conf_address_equal(&other->local, &address->local))
            return (int)i;
    }
    return -1;
}

static int find_path(struct mount_server *server, size_t index, bool data,
                     struct mount_addresses *addresses)
{
    const struct conf_path *path = &server->conf->paths[index];
    struct net_address *address = &addresses->paths[index];
    struct conf_diagnostics d = {0};
    name_path(server->conf, path, address);
    struct conf_addresses *found = &addresses->found[index];
    int result = look_up(server, path, data, found, &d);
    if (result != 0 && d.count > 0)
        blame(server, index, d.list[0].at, "is not used: %s", d.list[0].text);
    conf_diagnostics_free(&d);
    if (result != 0)
        return result;
    address->peer = found->peers[0];
    address->local = found->local;
    int same = find_same(addresses, index);
    if (same >= 0) {
        const struct conf_path *first = &server->conf->paths[same];
        blame(server, index, path->at,
              "is not used: it leads to the same address as path %s in line %u, column %u. "
              "Give another address or another `local`, or remove it",
              first->peer, first->at.line, first->at.column);
        return -EEXIST;
    }
    if (!net_address_is_ours(&address->local)) {
        blame(server, index, path->local_at,
              "is not used while its local %s is no address of this host. Correct `local`, or give "
              "the address to an interface (ip address add)",
              path->local);
        return -EADDRNOTAVAIL;
    }
    return 0;
}

void mount_addresses_find(struct mount_server *server, bool data, struct mount_addresses *addresses)
{
    for (size_t i = 0; i < server->conf->path_count; i++) {
        /* Only what is used: all of it is 50 KB. */
        addresses->paths[i] = (struct net_address){0};
        addresses->found[i] = (struct conf_addresses){0};
        addresses->faults[i] = find_path(server, i, data, addresses);
    }
}

/* ---- another one ---- */

/* What the resolver said of a path's name while it was down. Lives for ever. */
struct name {
    struct name *next;
    const struct conf_path *path;
    struct conf_addresses found;
    uint64_t asked_ns; /* when the resolver was last asked; 0: never */
    bool asking;       /* a thread asks now */
    unsigned turn, told;
};

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER; /* guards `names`; held briefly */
static struct name *names;

static void *ask(void *argument)
{
    struct name *name = argument;
    struct conf_addresses found;
    sys_critical_enter(); /* for ever: calls made here are the library's own */
    int result = conf_path_addresses(name->path, &found, NULL);
    pthread_mutex_lock(&names_lock);
    if (result == 0)
        name->found = found;
    name->asking = false;
    name->asked_ns = sys_now_ns();
    pthread_mutex_unlock(&names_lock);
    return NULL;
}

/* Under names_lock. NULL: no memory. */
static struct name *name_of(const struct conf_path *path)
{
    struct name *name = names;
    while (name && name->path != path)
        name = name->next;
    if (name || !(name = sys_alloc_zeroed(sizeof(*name))))
        return name;
    name->path = path;
    name->next = names;
    names = name;
    return name;
}

static bool is_due(const struct name *name)
{
    return !atomic_load(&resolver_lost) && !name->asking &&
           (name->asked_ns == 0 || sys_now_ns() - name->asked_ns >= ASK_EVERY_NS);
}

bool mount_address_next(const struct conf_server *conf, const struct conf_path *path,
                        struct sockaddr_storage *peer)
{
    struct sockaddr_storage elsewhere;
    if (!mount_address_is_name(path))
        return false;
    bool told = mount_fact_of_address(conf, path, &elsewhere);
    pthread_mutex_lock(&names_lock);
    struct name *name = name_of(path);
    bool ask_now = name && is_due(name) && !sys_critical_in_handler();
    /* Others may have found it meanwhile. Their address is taken every second time only, as it may
     * be old, too. */
    bool other = told && name && name->told++ % 2 == 0 && !conf_address_equal(&elsewhere, peer);
    for (size_t i = 0; name && i < name->found.count && !other; i++) {
        elsewhere = name->found.peers[name->turn++ % name->found.count];
        other = !conf_address_equal(&elsewhere, peer);
    }
    if (ask_now)
        name->asking = true;
    pthread_mutex_unlock(&names_lock);
    if (ask_now && !sys_thread_start(ask, name, "asking the resolver")) {
        pthread_mutex_lock(&names_lock);
        name->asking = false;
        name->asked_ns = sys_now_ns();
        pthread_mutex_unlock(&names_lock);
    }
    if (other)
        *peer = elsewhere;
    return other;
}

/* Under names_lock. */
static bool is_any_asked(void)
{
    struct name *name = names;
    while (name && !name->asking)
        name = name->next;
    return name;
}

void mount_addresses_fork_prepare(void)
{
    int ms = 0;
    pthread_mutex_lock(&names_lock);
    for (; is_any_asked() && ms < FORK_WAITS_MS; ms++) {
        pthread_mutex_unlock(&names_lock);
        sys_nanosleep_ms(1);
        pthread_mutex_lock(&names_lock);
    }
}

void mount_addresses_fork_parent(void)
{
    pthread_mutex_unlock(&names_lock);
}

void mount_addresses_fork_child(void)
{
    pthread_mutex_init(&names_lock, NULL);
    atomic_store(&resolver_lost, resolver_lost || is_any_asked());
    for (struct name *name = names; name; name = name->next) {
        name->asking = false; /* that thread does not exist here */
        name->asked_ns = 0;
        name->found.count = 0;
    }
}
