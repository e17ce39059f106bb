#include "config/nfstab_tree.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/nfstab_words.h"
#include "config/source.h"

const char *const conf_security_words[] = {"auto", "sys", "krb5", "krb5i", "krb5p"};
const char *const conf_tls_words[] = {"auto", "no", "prefer", "require"};

const char *conf_nfstab_file(struct conf_nfstab *tab, const char *file)
{
    char **slot = conf_grow(&tab->files, tab->file_count, sizeof(*slot));
    if (slot == NULL || (*slot = strdup(file)) == NULL)
        return NULL;
    tab->file_count++;
    return *slot;
}

struct conf_server *conf_nfstab_add_server(struct conf_nfstab *tab, const char *name)
{
    struct conf_server *server = conf_grow(&tab->servers, tab->server_count, sizeof(*server));
    if (server == NULL || (server->name = strdup(name)) == NULL)
        return NULL;
    tab->server_count++;
    server->mnt_timeout = CONF_MNT_TIMEOUT_DEFAULT;
    server->uid = CONF_ID_PROCESS;
    server->gid = CONF_ID_PROCESS;
    return server;
}

struct conf_path *conf_server_add_path(struct conf_server *server)
{
    struct conf_path *path = conf_grow(&server->paths, server->path_count, sizeof(*path));
    if (path != NULL)
        server->path_count++;
    return path;
}

struct conf_export *conf_server_add_export(struct conf_server *server, const char *directory)
{
    struct conf_export *export = conf_grow(&server->exports, server->export_count, sizeof(*export));
    if (export == NULL || (export->directory = strdup(directory)) == NULL)
        return NULL;
    server->export_count++;
    return export;
}

void conf_export_clear(struct conf_export *export)
{
    free(export->directory);
    free(export->mount);
    *export = (struct conf_export){0};
}

void conf_server_clear(struct conf_server *server)
{
    for (size_t i = 0; i < server->export_count; i++)
        conf_export_clear(&server->exports[i]);
    free(server->exports);
    free(server->paths);
    free(server->name);
    for (size_t i = 0; i < CONF_NFSTAB_KEYWORDS; i++)
        if (conf_nfstab_keywords[i].is_name)
            free(*conf_server_name(server, &conf_nfstab_keywords[i]));
    *server = (struct conf_server){0};
}

void conf_nfstab_free(struct conf_nfstab *tab)
{
    for (size_t i = 0; i < tab->server_count; i++)
        conf_server_clear(&tab->servers[i]);
    for (size_t i = 0; i < tab->overridden_count; i++) {
        free(tab->overridden[i].server);
        free(tab->overridden[i].directory);
        free(tab->overridden[i].mount);
    }
    for (size_t i = 0; i < tab->file_count; i++)
        free(tab->files[i]);
    free(tab->servers);
    free(tab->overridden);
    free(tab->files);
    *tab = (struct conf_nfstab){0};
}

const struct conf_export *conf_nfstab_find(const struct conf_nfstab *tab, size_t from, size_t to,
                                           const char *mount)
{
    for (size_t s = from; s < to; s++) {
        const struct conf_server *server = &tab->servers[s];
        for (size_t e = 0; e < server->export_count; e++)
            if (server->exports[e].mount != NULL && strcmp(server->exports[e].mount, mount) == 0)
                return &server->exports[e];
    }
    return NULL;
}

/* The number of an address, for IPv4 that of the IPv6 address that stands for it. False: it is a
 * name. */
static bool address_number(const char *address, struct in6_addr *number)
{
    char text[INET6_ADDRSTRLEN + sizeof("::ffff:")];
    size_t length = strcspn(address, "%");
    if (length >= INET6_ADDRSTRLEN)
        return false;
    bool ipv6 = strchr(address, ':') != NULL;
    snprintf(text, sizeof(text), "%s%.*s", ipv6 ? "" : "::ffff:", (int)length, address);
    return inet_pton(AF_INET6, text, number) == 1;
}

int conf_address_family(const char *address)
{
    struct in6_addr number;
    if (!address_number(address, &number))
        return AF_UNSPEC;
    return strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
}

bool conf_address_same(const char *a, const char *b)
{
    struct in6_addr first, second;
    if (!address_number(a, &first) || !address_number(b, &second))
        return strcasecmp(a, b) == 0;
    return memcmp(&first, &second, sizeof(first)) == 0 &&
           strcmp(a + strcspn(a, "%"), b + strcspn(b, "%")) == 0;
}

/* Is it a name of a host, or of an interface? */
static bool is_name(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL)
            return false;
    return *text != '\0';
}

static bool is_ipv6(const char *text)
{
    size_t length = strcspn(text, "%");
    return conf_address_family(text) == AF_INET6 &&
           (text[length] == '\0' || is_name(text + length + 1));
}

const char *conf_address_copy(char address[CONF_ADDRESS_SIZE], const char *text)
{
    size_t length = strlen(text);
    struct in_addr ipv4;

    address[0] = '\0';
    if (length >= CONF_ADDRESS_SIZE)
        return "an address or a host name of at most 255 bytes";
    if (text[0] == '[') {
        if (text[length - 1] != ']')
            return "an IPv6 address with ']' at its end";
        memcpy(address, text + 1, length - 2);
        address[length - 2] = '\0';
    } else {
        memcpy(address, text, length + 1);
    }

    const char *expected = NULL;
    struct in6_addr number;
    if (text[0] == '[' || strchr(address, ':') != NULL) {
        if (!is_ipv6(address))
            expected = "an IPv6 address such as [2001:db8::1]";
        else if (address_number(address, &number) && IN6_IS_ADDR_LINKLOCAL(&number) &&
                 strchr(address, '%') == NULL)
            expected = "the interface of a link-local address too, as in fe80::1%eth0";
    } else if (strspn(address, "0123456789.") == strlen(address)) {
        if (inet_pton(AF_INET, address, &ipv4) != 1)
            expected = "an IPv4 address such as 192.0.2.1";
    } else if (*address == '-' || *address == '.' || !is_name(address)) {
        expected = "an IPv4 address, an IPv6 address or a host name";
    }
    if (expected != NULL)
        address[0] = '\0';
    return expected;
}

const char *conf_directory_normalise(char *directory)
{
    const char *from = directory;
    char *to = directory;

    if (*from != '/')
        return "an absolute directory (starting with '/')";
    while (*from != '\0') {
        from += strspn(from, "/");
        size_t length = strcspn(from, "/");
        if (length == 2 && memcmp(from, "..", 2) == 0)
            return "a directory without '..'";
        if (length > 0 && !(length == 1 && *from == '.')) {
            *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length;
    }
    if (to == directory)
        *to++ = '/';
    *to = '\0';
    return NULL;
}

/* Writes a value so that the parser reads it as one word. */
static void print_value(FILE *out, const char *value)
{
    bool looks_like_item = conf_nfstab_is_item(value, value + strlen(value));

    for (const char *c = value; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        bool first = c == value;
        if (byte <= ' ' || byte == 0x7f || byte == '#' || byte == '\\' ||
            (first && looks_like_item) || (first && byte == 0xef))
            fprintf(out, "\\%03o", byte);
        else
            fputc(byte, out);
    }
}

static void print_address(FILE *out, const char *key, const char *address)
{
    bool ipv6 = strchr(address, ':') != NULL;
    fprintf(out, "%s: %s%s%s", key, ipv6 ? "[" : "", address, ipv6 ? "]" : "");
}

static void print_id(FILE *out, const char *key, unsigned id)
{
    if (id == CONF_ID_PROCESS)
        fprintf(out, "    %s: process\n", key);
    else
        fprintf(out, "    %s: %u\n", key, id);
}

/* A key whose value is a name, if the stanza has it. */
static void print_name(FILE *out, const struct keyword *keyword, const struct conf_server *server)
{
    const char *name = keyword->is_name ? *conf_server_name(server, keyword) : NULL;
    if (name == NULL)
        return;
    fprintf(out, "    %s: ", keyword->name);
    print_value(out, name);
    fputc('\n', out);
}

static void print_server(FILE *out, const struct conf_server *server, bool uid, bool gid)
{
    fputs("server: ", out);
    print_value(out, server->name);
    fputc('\n', out);
    for (size_t i = 0; i < server->path_count; i++) {
        const struct conf_path *path = &server->paths[i];
        print_address(out, "    path", path->peer);
        if (path->local[0] != '\0')
            print_address(out, "  local", path->local);
        fputc('\n', out);
    }
    if (server->path_count > 0 && server->paths[0].dontroute)
        fputs("    dontroute\n", out);
    if (server->version != CONF_VERSION_AUTO)
        fprintf(out, "    nfs_version: %s\n",
                server->version == CONF_VERSION_41 ? "nfsv4.1" : "nfsv3");
    if (server->tls != CONF_TLS_AUTO)
        fprintf(out, "    tls: %s\n", conf_tls_words[server->tls]);
    if (server->tls_direct)
        fputs("    tls_direct\n", out);
    for (size_t i = 0; i < CONF_NFSTAB_KEYWORDS; i++)
        print_name(out, &conf_nfstab_keywords[i], server);
    if (server->mnt_timeout != CONF_MNT_TIMEOUT_DEFAULT)
        fprintf(out, "    mnt_timeout: %u\n", server->mnt_timeout);
    if (server->connections != 0)
        fprintf(out, "    connections: %u\n", server->connections);
    if (server->nfsport != 0)
        fprintf(out, "    nfsport: %u\n", server->nfsport);
    if (server->mntport != 0)
        fprintf(out, "    mntport: %u\n", server->mntport);
    if (uid)
        print_id(out, "uid", server->uid);
    if (gid)
        print_id(out, "gid", server->gid);
    for (size_t i = 0; i < server->export_count; i++) {
        const struct conf_export *export = &server->exports[i];
        fputs("    export: ", out);
        print_value(out, export->directory);
        fputs("  mount: ", out);
        print_value(out, export->mount);
        if (export->kernel != CONF_KERNEL_AUTO)
            fprintf(out, "  kernel: %s", export->kernel == CONF_KERNEL_YES ? "yes" : "no");
        if (export->security != CONF_SECURITY_AUTO)
            fprintf(out, "  security: %s", conf_security_words[export->security]);
        fputc('\n', out);
    }
}

char *conf_nfstab_print(const struct conf_nfstab *tab)
{
    char *text = NULL;
    size_t length;
    bool uid = false, gid = false;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < tab->server_count; i++) {
        uid |= tab->servers[i].uid != CONF_ID_PROCESS;
        gid |= tab->servers[i].gid != CONF_ID_PROCESS;
    }
    for (size_t i = 0; i < tab->server_count; i++) {
        if (i > 0)
            fputc('\n', out);
        print_server(out, &tab->servers[i], uid, gid);
    }
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
