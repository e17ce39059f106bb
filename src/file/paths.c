/*
 * The paths of a server as the nfstab has them, and what is wrong with them on this host.
 */
#include "file/inode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/log.h"

_Static_assert(CONF_PATHS_MAX <= NET_PATHS_MAX && CONF_PATHS_MAX <= 32, "one bit each in blamed");

/* Says what is wrong with a path once, with its place, though each mount of the server asks. */
__attribute__((format(printf, 4, 5))) static void
blame(struct file_server *server, size_t index, struct conf_position at, const char *format, ...)
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

/* What it is called in statistics and by administrators. */
static void name_path(const struct conf_path *path, struct net_address *address)
{
    snprintf(address->peer_text, sizeof(address->peer_text), "%.63s", path->peer);
    snprintf(address->local_text, sizeof(address->local_text), "%.63s", path->local);
    address->dontroute = path->dontroute;
}

/* An earlier path with the same addresses; -1: none. */
static int find_same(const struct file_paths *paths, size_t index)
{
    const struct net_address *address = &paths->addresses[index];
    for (size_t i = 0; i < index; i++) {
        const struct net_address *other = &paths->addresses[i];
        if (paths->faults[i] != -EHOSTUNREACH && conf_address_equal(&other->peer, &address->peer) &&
            conf_address_equal(&other->local, &address->local))
            return (int)i;
    }
    return -1;
}

static int find_path(struct file_server *server, size_t index, struct file_paths *paths)
{
    const struct conf_path *path = &server->conf->paths[index];
    struct net_address *address = &paths->addresses[index];
    struct conf_diagnostics d = {0};
    name_path(path, address);
    int result = conf_path_addresses(path, &address->peer, &address->local, &d);
    if (result != 0) {
        if (d.count > 0)
            blame(server, index, d.list[0].at, "is not used: %s", d.list[0].text);
        conf_diagnostics_free(&d);
        return result;
    }
    int same = find_same(paths, index);
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

void file_paths_find(struct file_server *server, struct file_paths *paths)
{
    memset(paths, 0, sizeof(*paths));
    for (size_t i = 0; i < server->conf->path_count; i++)
        paths->faults[i] = find_path(server, i, paths);
}
