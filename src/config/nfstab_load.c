/*
 * Where an nfstab comes from: the files of the lookup order, the kernel's mounts, and the resolver.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/mountinfo.h"
#include "config/nfstab_tree.h"
#include "config/source.h"
#include "sys/alloc.h"

/* --- where to look ----------------------------------------------------------------------- */

void conf_sources_default(struct conf_sources *sources)
{
    const char *only = secure_getenv("DIRECTNFS_NFSTAB");
    const char *home = secure_getenv("DIRECTNFS_HOME");

    /* Not all 20 KiB: this is what each start of a program waits for. */
    sources->only[0] = sources->files[0][0] = sources->files[1][0] = sources->files[2][0] = '\0';
    sources->mountinfo[0] = '\0';
    sources->mounts = NULL;
    if (only != NULL && *only != '\0') {
        /* A name that is too long is cut: it is still the only one, and fails when it is opened. */
        snprintf(sources->only, PATH_MAX, "%s", only);
        return;
    }
    /* A name that is too long for open() can name no file. */
    if (home != NULL && *home != '\0' &&
        snprintf(sources->files[0], PATH_MAX, "%s/nfstab", home) >= PATH_MAX)
        sources->files[0][0] = '\0';
    strcpy(sources->files[1], "/etc/directnfs/nfstab");
    strcpy(sources->files[2], "/etc/oranfstab");
    strcpy(sources->mountinfo, "/proc/self/mountinfo");
}

/* --- the first entry for a mount wins ---------------------------------------------------- */

/* Moves an export of `server` to the overridden ones. False: there is no memory, and it is lost. */
static bool override_export(struct conf_nfstab *tab, const struct conf_server *server,
                            struct conf_export *export, const struct conf_export *by)
{
    struct conf_overridden *overridden =
        conf_grow(&tab->overridden, tab->overridden_count, sizeof(*overridden));
    if (overridden == NULL || (overridden->server = strdup(server->name)) == NULL) {
        conf_export_clear(export);
        return false;
    }
    tab->overridden_count++;
    overridden->directory = export->directory;
    overridden->mount = export->mount;
    overridden->at = export->at;
    overridden->by = by->at;
    return true;
}

/* For the servers from `first` on, which come from one source: overrides exports for mounts that
 * earlier servers have, and drops servers without any left. 0 or -ENOMEM. */
static int override(struct conf_nfstab *tab, size_t first)
{
    size_t kept = first;
    int result = 0;

    for (size_t s = first; s < tab->server_count; s++) {
        struct conf_server *server = &tab->servers[s];
        size_t exports = 0;
        for (size_t e = 0; e < server->export_count; e++) {
            struct conf_export *export = &server->exports[e];
            const struct conf_export *by = conf_nfstab_find(tab, 0, first, export->mount);
            if (by == NULL)
                server->exports[exports++] = *export;
            else if (!override_export(tab, server, export, by))
                result = -ENOMEM;
        }
        server->export_count = exports;
        if (exports == 0)
            conf_server_clear(server);
        else
            tab->servers[kept++] = *server;
    }
    tab->server_count = kept;
    return result;
}

/* --- files ------------------------------------------------------------------------------- */

static int load_file(struct conf_nfstab *tab, const char *file, bool required,
                     struct conf_diagnostics *d)
{
    size_t first = tab->server_count, length;
    char *text;

    int result = conf_file_load(file, required, "an nfstab", &text, &length, d);
    if (result != 1)
        return result;
    int parsed = conf_nfstab_parse(tab, file, text, length, d);
    sys_free(text);
    result = parsed == -ENOMEM ? parsed : override(tab, first);
    return result != 0 ? result : parsed;
}

/* --- the kernel's mounts ----------------------------------------------------------------- */

static unsigned port_option(const struct conf_mount *mount, const char *name)
{
    char value[16];
    if (!conf_mount_option(mount->super_options, name, value, sizeof(value)))
        return 0;
    unsigned long port = strtoul(value, NULL, 10);
    return port > 0 && port < 65535 ? (unsigned)port : 0;
}

/* Splits "server:/export" or "[IPv6]:/export" into the server's name and the directory. */
static const char *split_source(const char *source, char name[CONF_ADDRESS_SIZE])
{
    const char *bracket = *source == '[' ? strchr(source, ']') : NULL;
    const char *colon = strchr(bracket != NULL ? bracket : source, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - source);

    if (length == 0 || length >= CONF_ADDRESS_SIZE)
        return NULL;
    memcpy(name, source, length);
    name[length] = '\0';
    return colon + 1;
}

/* Looks among the servers from `first` on. */
static struct conf_server *find_server(struct conf_nfstab *tab, size_t first, const char *name,
                                       const char *peer, unsigned nfsport, unsigned mntport,
                                       enum conf_version version)
{
    for (size_t i = first; i < tab->server_count; i++) {
        struct conf_server *server = &tab->servers[i];
        if (strcmp(server->name, name) == 0 && strcmp(server->paths[0].peer, peer) == 0 &&
            server->nfsport == nfsport && server->mntport == mntport && server->version == version)
            return server;
    }
    return NULL;
}

/* Adds one NFS mount of this version. One that cannot be used is left out with a notice. */
static int add_mount(struct conf_nfstab *tab, size_t first, const char *file,
                     const struct conf_mount *mount, enum conf_version version,
                     struct conf_diagnostics *d)
{
    char name[CONF_ADDRESS_SIZE], option[CONF_ADDRESS_SIZE], peer[CONF_ADDRESS_SIZE];
    struct conf_position at = {file, mount->line, 1};

    struct conf_mount_protection protection = conf_mount_protection(mount);
    if (protection.security == CONF_SECURITY_AUTO) {
        conf_mount_option(mount->super_options, "sec", option, sizeof(option));
        conf_diagnostics_add(d, CONF_NOTICE, at,
                             "found mount %s with security %s, which is not known; it is left to "
                             "the kernel",
                             CONF_QUOTED(mount->mount_point), CONF_QUOTED(option));
        return 0;
    }
    if (protection.mutual) {
        conf_diagnostics_add(d, CONF_NOTICE, at,
                             "found mount %s with xprtsec=mtls, and no nfstab that names the "
                             "client's certificate (tls_cert, tls_key); it is left to the kernel",
                             CONF_QUOTED(mount->mount_point));
        return 0;
    }
    const char *directory = split_source(mount->source, name);
    if (directory == NULL || *directory != '/' || strlen(directory) > CONF_EXPORT_LENGTH_MAX ||
        !conf_mount_option(mount->super_options, "addr", option, sizeof(option)) ||
        conf_address_copy(peer, option) != NULL) {
        conf_diagnostics_add(d, CONF_NOTICE, at,
                             "found NFS mount %s without an address or a directory of the server; "
                             "it is left to the kernel",
                             CONF_QUOTED(mount->mount_point));
        return 0;
    }

    /* The kernel always has a mount port, which the port mapper told it once. Only with an unusual
     * NFS port was it chosen by hand, and may be needed instead of asking. */
    unsigned nfsport = port_option(mount, "port");
    unsigned mntport = nfsport == 0 ? 0 : port_option(mount, "mountport");
    struct conf_server *server = find_server(tab, first, name, peer, nfsport, mntport, version);
    if (server == NULL) {
        server = conf_nfstab_add_server(tab, name);
        struct conf_path *path = server == NULL ? NULL : conf_server_add_path(server);
        if (path == NULL)
            return -ENOMEM;
        server->at = at;
        server->found = true;
        server->nfsport = nfsport;
        server->mntport = mntport;
        server->version = version;
        path->at = at;
        memcpy(path->peer, peer, sizeof(peer));
    }

    struct conf_export *export = conf_server_add_export(server, directory);
    if (export == NULL || (export->mount = strdup(mount->mount_point)) == NULL)
        return -ENOMEM;
    export->kernel = CONF_KERNEL_YES; /* which also tells how it is protected */
    export->at = at;
    export->mount_at = at;
    return 0;
}

/* The version of the kernel's mount. False: it is no NFS mount, or none that we speak. */
static bool mount_version(const struct conf_mount *mount, const char *file,
                          enum conf_version *version, struct conf_diagnostics *d)
{
    struct conf_position at = {file, mount->line, 1};
    if (mount->mount_point[0] != '/')
        return false;
    switch (conf_mount_nfs(mount)) {
    case CONF_NFS_3:
        *version = CONF_VERSION_3;
        return true;
    case CONF_NFS_41:
        *version = CONF_VERSION_41;
        return true;
    case CONF_NFS_40:
        conf_diagnostics_add(d, CONF_NOTICE, at,
                             "found mount %s with NFSv4.0, which has no sessions; it is left to "
                             "the kernel. Mount it with vers=4.1 or later",
                             CONF_QUOTED(mount->mount_point));
        return false;
    default:
        return false;
    }
}

static int add_mounts(struct conf_nfstab *tab, const char *file, const struct conf_mountinfo *info,
                      struct conf_diagnostics *d)
{
    size_t first = tab->server_count;
    const char *name = NULL;
    int result = 0;

    for (size_t i = 0; result == 0 && i < info->count; i++) {
        const struct conf_mount *mount = &info->mounts[i];
        enum conf_version version;
        if (conf_mount_nfs(mount) == CONF_NFS_NONE ||
            conf_mountinfo_at(info, mount->mount_point) != mount ||
            !mount_version(mount, file, &version, d))
            continue;
        if (name == NULL)
            name = conf_nfstab_file(tab, file);
        result = name == NULL ? -ENOMEM : add_mount(tab, first, name, mount, version, d);
    }
    return result != 0 ? result : override(tab, first);
}

static int load_mountinfo(struct conf_nfstab *tab, const char *file, struct conf_diagnostics *d)
{
    struct conf_mountinfo info;

    int result = conf_mountinfo_load(&info, file);
    if (result == -ENOMEM)
        return result;
    if (result != 0) {
        /* Without /proc we find nothing, but the nfstab is not wrong. */
        struct conf_position at = {.file = file};
        conf_diagnostics_add(d, CONF_NOTICE, at,
                             "cannot be read: %s; NFS mounts that no nfstab names are left to the "
                             "kernel",
                             strerror(-result));
        return 0;
    }
    result = add_mounts(tab, file, &info, d);
    conf_mountinfo_free(&info);
    return result;
}

int conf_nfstab_load(struct conf_nfstab *tab, const struct conf_sources *sources,
                     struct conf_diagnostics *d)
{
    bool invalid = false;
    int result;

    if (sources->only[0] != '\0')
        return load_file(tab, sources->only, true, d);
    for (size_t i = 0; i < sizeof(sources->files) / sizeof(sources->files[0]); i++) {
        if (sources->files[i][0] == '\0')
            continue;
        result = load_file(tab, sources->files[i], false, d);
        if (result == -ENOMEM)
            return result;
        invalid |= result != 0;
    }
    if (sources->mountinfo[0] != '\0') {
        result = sources->mounts != NULL ? add_mounts(tab, sources->mountinfo, sources->mounts, d)
                                         : load_mountinfo(tab, sources->mountinfo, d);
        if (result != 0)
            return result;
    }
    return invalid ? -EINVAL : 0;
}

/* --- names ------------------------------------------------------------------------------- */

int conf_path_resolve(const char *text, int family, struct sockaddr_storage *addresses, size_t most,
                      size_t *count)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    *count = 0;
    memset(addresses, 0, most * sizeof(*addresses));
    hints.ai_flags = AI_NUMERICHOST;
    int result = getaddrinfo(text, NULL, &hints, &list);
    if (result == EAI_NONAME) {
        hints.ai_flags = 0;
        result = getaddrinfo(text, NULL, &hints, &list);
    }
    if (result != 0)
        return result;
    for (const struct addrinfo *at = list; at && *count < most; at = at->ai_next) {
        if (at->ai_addrlen <= sizeof(*addresses))
            memcpy(&addresses[(*count)++], at->ai_addr, at->ai_addrlen);
    }
    freeaddrinfo(list);
    return *count > 0 ? 0 : EAI_FAMILY;
}

static int resolve(const char *text, const char *what, struct conf_position at, int family,
                   struct conf_diagnostics *d, struct sockaddr_storage *addresses, size_t most,
                   size_t *count)
{
    int result = conf_path_resolve(text, family, addresses, most, count);

    if (result == 0)
        return 0;
    conf_diagnostics_add(d, CONF_ERROR, at, "found %s %s, which does not resolve: %s, expected %s",
                         what, CONF_QUOTED(text), gai_strerror(result),
                         family == AF_INET6  ? "a known host with an IPv6 address, as its local has"
                         : family == AF_INET ? "a known host with an IPv4 address, as its local has"
                                             : "an address or a known host");
    return -EHOSTUNREACH;
}

int conf_path_addresses(const struct conf_path *path, struct conf_addresses *found,
                        struct conf_diagnostics *d)
{
    int result = 0;
    size_t one;

    memset(&found->local, 0, sizeof(found->local));
    if (path->local[0] != '\0')
        result =
            resolve(path->local, "local", path->local_at, AF_UNSPEC, d, &found->local, 1, &one);
    int other = resolve(path->peer, "path", path->at, found->local.ss_family, d, found->peers,
                        CONF_ADDRESSES_MAX, &found->count);
    return result != 0 ? result : other;
}

/* An IPv4 address as the IPv6 address that stands for it. */
static struct sockaddr_in6 as_ipv6(const struct sockaddr_storage *address)
{
    struct sockaddr_in6 ipv6 = {.sin6_addr.s6_addr = {[10] = 0xff, [11] = 0xff}};

    if (address->ss_family == AF_INET6)
        return *(const struct sockaddr_in6 *)address;
    memcpy(&ipv6.sin6_addr.s6_addr[12], &((const struct sockaddr_in *)address)->sin_addr, 4);
    return ipv6;
}

bool conf_address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family == AF_UNSPEC || b->ss_family == AF_UNSPEC)
        return a->ss_family == b->ss_family;
    struct sockaddr_in6 first = as_ipv6(a), second = as_ipv6(b);
    return memcmp(&first.sin6_addr, &second.sin6_addr, sizeof(first.sin6_addr)) == 0 &&
           first.sin6_scope_id == second.sin6_scope_id;
}
