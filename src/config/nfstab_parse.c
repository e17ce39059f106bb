/*
 * The grammar of nfstab(5). A line is a row of items. An item is a flag, or a key, a colon and a
 * word. A word ends at a blank, at '#', and at the end of the line. The table of keys is at the
 * end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/nfstab_parser.h"

/* --- paths ------------------------------------------------------------------------------- */

/* The place of the next path, or local, after *count of them: a pair may begin with either. NULL:
 * there are too many, or there is no memory. */
static struct conf_path *next_path(struct parser *parser, size_t *count)
{
    struct conf_server *server = parser->stanza.server;

    if (*count == CONF_PATHS_MAX) {
        conf_take_fail(parser, "found another %s, expected at most %d for a server",
                       parser->keyword->name, CONF_PATHS_MAX);
        return NULL;
    }
    if (*count == server->path_count && conf_server_add_path(server) == NULL) {
        parser->no_memory = true;
        return NULL;
    }
    return &server->paths[(*count)++];
}

/* A wrong one keeps its place, so that the locals after it are paired as they were meant. */
static void take_address(struct parser *parser, char address[CONF_ADDRESS_SIZE])
{
    const char *expected = conf_address_copy(address, parser->words.value);
    if (expected != NULL)
        conf_take_refuse(parser, expected);
}

static void take_path(struct parser *parser)
{
    struct conf_path *path = next_path(parser, &parser->stanza.path_count);

    parser->stanza.path_seen = true;
    if (path == NULL)
        return;
    path->at = parser->at;
    take_address(parser, path->peer);
}

static void take_local(struct parser *parser)
{
    struct conf_path *path = next_path(parser, &parser->stanza.local_count);

    if (path == NULL)
        return;
    path->local_at = parser->at;
    take_address(parser, path->local);
}

static void take_dontroute(struct parser *parser)
{
    parser->stanza.dontroute = true;
}

/* A stanza without a path has one: to where the server's name leads. */
static void take_name_for_path(struct parser *parser)
{
    struct conf_server *server = parser->stanza.server;
    struct conf_path *path = next_path(parser, &parser->stanza.path_count);

    if (path == NULL)
        return;
    path->at = server->at;
    if (conf_address_copy(path->peer, server->name) != NULL)
        words_fail(&parser->words, server->at,
                   "found server %s without a path, and the name is not an "
                   "address or a host name, expected 'path:'",
                   CONF_QUOTED(server->name));
}

/* Drops the locals without a path. If there is no path at all, that was reported. */
static void drop_locals(struct parser *parser)
{
    struct conf_server *server = parser->stanza.server;
    size_t count = parser->stanza.path_count;

    for (size_t i = count; i < server->path_count && count > 0; i++)
        words_fail(&parser->words, server->paths[i].local_at,
                   "found local %s, the %zu. of a server with %zu path%s, "
                   "expected a path for each local",
                   CONF_QUOTED(server->paths[i].local), i + 1, count, count == 1 ? "" : "s");
    server->path_count = count;
}

/* Both addresses of a path must have one family. Names are not resolved here. */
static void check_families(struct parser *parser, const struct conf_path *path)
{
    int ours = conf_address_family(path->local), theirs = conf_address_family(path->peer);

    if (ours == AF_UNSPEC || theirs == AF_UNSPEC || ours == theirs)
        return;
    words_fail(&parser->words, path->local_at,
               "found local %s of %s, expected an %s address as its path %s in line %u, column %u "
               "is one",
               CONF_QUOTED(path->local), ours == AF_INET6 ? "IPv6" : "IPv4",
               theirs == AF_INET6 ? "IPv6" : "IPv4", CONF_QUOTED(path->peer), path->at.line,
               path->at.column);
}

/* A path that is given twice would count twice when load is balanced, and fail as one. */
static void check_paths(struct parser *parser)
{
    const struct conf_server *server = parser->stanza.server;

    for (size_t i = 0; i < server->path_count; i++) {
        const struct conf_path *path = &server->paths[i], *first = server->paths;
        if (path->peer[0] == '\0')
            continue; /* reported */
        check_families(parser, path);
        while (first < path && (!conf_address_same(first->peer, path->peer) ||
                                !conf_address_same(first->local, path->local)))
            first++;
        if (first < path)
            words_fail(&parser->words, path->at,
                       "found path %s a second time%s, expected each path once (the first is in "
                       "line %u, column %u)",
                       CONF_QUOTED(path->peer),
                       path->local[0] != '\0' ? " with the same local" : "", first->at.line,
                       first->at.column);
    }
}

/* --- exports ----------------------------------------------------------------------------- */

/* Ends an export that waits for its mount when another item comes. */
static void end_export(struct parser *parser)
{
    if (parser->stanza.export_open)
        words_fail(&parser->words, conf_take_last_export(parser)->at,
                   "found export %s without a mount, expected 'mount:' after it",
                   CONF_QUOTED(conf_take_last_export(parser)->directory));
    parser->stanza.export_open = false;
}

/* The items of this kind may come once more. */
static void again(struct parser *parser, void (*take)(struct parser *parser))
{
    for (size_t i = 0; i < CONF_NFSTAB_KEYWORDS; i++)
        if (conf_nfstab_keywords[i].take == take && !conf_nfstab_keywords[i].of_stanza)
            parser->stanza.seen[i].line = 0;
}

static void take_export(struct parser *parser)
{
    const char *directory = parser->words.value;

    end_export(parser);
    parser->stanza.export_seen = true;
    parser->stanza.export_lost = false;
    again(parser, conf_take_security);
    if (directory[0] != '/')
        conf_take_refuse(parser, "an absolute directory (starting with '/')");
    else
        conf_take_is_too_long(parser, "directory", CONF_EXPORT_LENGTH_MAX);
    if (parser->mount_count == CONF_EXPORTS_MAX)
        conf_take_fail(parser, "found another export, expected at most %d", CONF_EXPORTS_MAX);
    if (parser->mount_count++ >= CONF_EXPORTS_MAX)
        return;

    struct conf_export *export = conf_server_add_export(parser->stanza.server, directory);
    if (export == NULL) {
        parser->no_memory = true;
        return;
    }
    export->at = parser->at;
    parser->stanza.export_open = true;
}

static void take_mount(struct parser *parser)
{
    struct stanza *stanza = &parser->stanza;
    char *mount = parser->words.value;
    const char *written = CONF_QUOTED(mount);

    if (parser->mount_count > CONF_EXPORTS_MAX)
        return;
    if (!stanza->export_open) {
        if (!stanza->export_lost)
            conf_take_fail(parser, "found mount %s without an export, expected 'export:' before it",
                           written);
        stanza->export_lost = false;
        return;
    }
    stanza->export_open = false;
    const char *expected = conf_directory_normalise(mount);
    if (expected != NULL) {
        conf_take_fail(parser, "found %s, expected %s", written, expected);
        return;
    }
    if (conf_take_is_too_long(parser, "directory", PATH_MAX - 1))
        return;
    const struct conf_export *first =
        conf_nfstab_find(parser->tab, parser->first_server, parser->tab->server_count, mount);
    if (first != NULL) {
        conf_take_fail(parser, "found a second mount at %s, expected one (the first is in line %u)",
                       CONF_QUOTED(mount), first->mount_at.line);
        return;
    }
    struct conf_export *export = conf_take_last_export(parser);
    export->mount_at = parser->at;
    export->mount = strdup(mount);
    parser->no_memory |= export->mount == NULL;
}

static void take_kernel(struct parser *parser)
{
    static const char *const names[] = {"auto", "yes", "no"};
    unsigned kernel = 0;

    while (kernel < 3 && strcasecmp(parser->words.value, names[kernel]) != 0)
        kernel++;
    if (kernel == 3)
        conf_take_refuse(parser, parser->keyword->expected);
    else if (parser->stanza.server->export_count > 0)
        conf_take_last_export(parser)->kernel = (enum conf_kernel)kernel;
    else if (!parser->stanza.export_seen)
        conf_take_fail(parser, "found 'kernel' without an export, expected 'export:' before it");
}

/* --- stanzas ----------------------------------------------------------------------------- */

/* Only a session can be taken away. Each name belongs to one stanza. */
static void check_fence(struct parser *parser)
{
    const struct conf_server *server = parser->stanza.server;

    if (server->fence == NULL)
        return;
    for (size_t i = 0; i < server->export_count; i++)
        if (server->exports[i].security >= CONF_SECURITY_KRB5) {
            words_fail(
                &parser->words, server->fence_at,
                "found fence %s for a server with Kerberos, expected one or the other ('tls: "
                "require' protects a fence as well)",
                CONF_QUOTED(server->fence));
            break;
        }
    if (server->version != CONF_VERSION_41)
        words_fail(&parser->words, server->fence_at,
                   "found fence %s for a server without sessions, expected 'nfs_version: nfsv4.1' "
                   "in its stanza",
                   CONF_QUOTED(server->fence));
    for (size_t i = parser->first_server; &parser->tab->servers[i] < server; i++) {
        const struct conf_server *other = &parser->tab->servers[i];
        if (other->fence != NULL && strcmp(other->fence, server->fence) == 0)
            words_fail(&parser->words, server->fence_at,
                       "found a second fence %s, expected another name (the first is in line %u)",
                       CONF_QUOTED(server->fence), other->fence_at.line);
    }
}

static void end_stanza(struct parser *parser)
{
    struct conf_server *server = parser->stanza.server;

    if (server == NULL)
        return;
    end_export(parser);
    if (!parser->stanza.path_seen)
        take_name_for_path(parser);
    drop_locals(parser);
    check_paths(parser);
    conf_take_security_end(parser);
    check_fence(parser);
    conf_take_tls_end(parser);
    for (size_t i = 0; i < server->path_count; i++)
        server->paths[i].dontroute = parser->stanza.dontroute;
    if (!parser->stanza.export_seen)
        words_fail(&parser->words, server->at,
                   "found server %s without an export, expected 'export:' and "
                   "'mount:'",
                   CONF_QUOTED(server->name));

    /* An export without a mount was reported; no reader should have to look at it. */
    size_t kept = 0;
    for (size_t i = 0; i < server->export_count; i++) {
        if (server->exports[i].mount == NULL)
            conf_export_clear(&server->exports[i]);
        else
            server->exports[kept++] = server->exports[i];
    }
    server->export_count = kept;
}

static void begin_stanza(struct parser *parser)
{
    end_stanza(parser);
    struct conf_server *server = conf_nfstab_add_server(parser->tab, parser->words.value);
    parser->stanza = (struct stanza){.server = server};
    if (server == NULL) {
        parser->no_memory = true;
        return;
    }
    server->at = parser->at;
    server->uid = 0; /* not given: see end_file() */
    server->gid = 0;
    conf_take_is_too_long(parser, "name", CONF_ADDRESS_SIZE - 1);
}

static void end_file(struct parser *parser)
{
    const struct conf_server *of_file = &parser->of_file;

    end_stanza(parser);
    for (size_t i = parser->first_server; i < parser->tab->server_count; i++) {
        struct conf_server *server = &parser->tab->servers[i];
        if (server->uid == 0)
            server->uid = of_file->uid != 0 ? of_file->uid : CONF_ID_PROCESS;
        if (server->gid == 0)
            server->gid = of_file->gid != 0 ? of_file->gid : CONF_ID_PROCESS;
    }
}

/* --- items ------------------------------------------------------------------------------- */

#define NUMBER(member, minimum, maximum) \
    .offset = offsetof(struct conf_server, member), .least = (minimum), .most = (maximum)
#define ID(member) .of_file = true, NUMBER(member, 1, CONF_ID_PROCESS - 1)
#define NAME(member, file) \
    .is_name = true, .is_file = (file), .offset = offsetof(struct conf_server, member)
#define SECURITIES "sys, krb5, krb5i or krb5p"
#define A_FILE     "the absolute name of a file"
#define LATER(...)                 \
    .later = (const char *const[]) \
    {                              \
        __VA_ARGS__, NULL          \
    }

const struct keyword conf_nfstab_keywords[CONF_NFSTAB_KEYWORDS] = {
    {"server", "a name", .take = begin_stanza, .of_file = true},
    {"path", "an address or a host name", .take = take_path},
    {"local", "an address or a host name", .take = take_local},
    {"dontroute", NULL, .take = take_dontroute},
    {"donotroute", NULL, .take = take_dontroute},
    {"export", "a directory of the server", .take = take_export},
    {"mount", "a directory", .take = take_mount},
    {"kernel", "auto, yes or no", .take = take_kernel},
    {"security", SECURITIES, .take = conf_take_security},
    {"security_default", SECURITIES, .take = conf_take_security, .of_stanza = true},
    {"krb5_keytab", A_FILE, .take = conf_take_name, NAME(krb5_keytab, true)},
    {"krb5_principal", "a principal", .take = conf_take_name, NAME(krb5_principal, false)},
    {"tls", "no, prefer or require", .take = conf_take_tls},
    {"tls_direct", NULL, .take = conf_take_tls_direct},
    {"tls_ca", A_FILE, .take = conf_take_name, NAME(tls_ca, true)},
    {"tls_crl", A_FILE, .take = conf_take_name, NAME(tls_crl, true)},
    {"tls_cert", A_FILE, .take = conf_take_name, NAME(tls_cert, true)},
    {"tls_key", A_FILE, .take = conf_take_name, NAME(tls_key, true)},
    {"tls_name", "a host name", .take = conf_take_name, NAME(tls_name, false)},
    {"nfs_version", "nfsv3 or nfsv4.1", .take = conf_take_version, LATER("nfsv4.0", "pnfs")},
    {"fence", "a name", .take = conf_take_fence, NAME(fence, false)},
    {"mnt_timeout", "a number of seconds", .take = conf_take_number, NUMBER(mnt_timeout, 1, 86400)},
    {"connections", "a number", .take = conf_take_number,
     NUMBER(connections, 1, CONF_CONNECTIONS_MAX)},
    {"nfsport", "a port number", .take = conf_take_number, NUMBER(nfsport, 1, 65535)},
    {"mntport", "a port number", .take = conf_take_number, NUMBER(mntport, 1, 65535)},
    {"uid", "a number or 'process'", .take = conf_take_id, ID(uid)},
    {"gid", "a number or 'process'", .take = conf_take_id, ID(gid)},
    {"management", "a word", .take = conf_take_snmp},
    {"community", "a word", .take = conf_take_snmp},
};

/* Notes an item that was reported, because its value was missing or its key was none. So what
 * follows from that is not reported, too. */
static void lose_item(struct parser *parser, const struct keyword *keyword)
{
    struct stanza *stanza = &parser->stanza;

    parser->tab->demands |= keyword->take == conf_take_security || keyword->take == conf_take_tls;
    if (keyword->take == begin_stanza) {
        parser->words.value[0] = '\0';
        begin_stanza(parser);
        stanza->path_seen = true;
        stanza->export_seen = true;
    } else if (stanza->server == NULL) {
        return;
    } else if (keyword->take == take_path) {
        stanza->path_seen = true;
    } else if (keyword->take == take_export) {
        end_export(parser);
        stanza->export_seen = true;
        stanza->export_lost = true;
    } else if (keyword->take == take_mount) {
        stanza->export_open = false;
        stanza->export_lost = false;
    }
}

static void take_item(struct parser *parser)
{
    const struct keyword *meant, *keyword = words_key(&parser->words, &parser->key_at, &meant);

    parser->keyword = keyword;
    parser->at = parser->key_at;
    if (keyword == NULL) {
        if (meant != NULL)
            lose_item(parser, meant);
        return;
    }
    bool is_flag = keyword->expected == NULL;
    bool has_value = !is_flag && words_value(&parser->words, keyword, &parser->at);
    if (parser->stanza.server == NULL && !keyword->of_file)
        words_fail(&parser->words, parser->key_at,
                   "found '%s' before any server, expected 'server:' first", keyword->name);
    else if (is_flag || has_value)
        keyword->take(parser);
    else
        lose_item(parser, keyword);
    if (is_flag)
        words_no_value(&parser->words, keyword);
}

int conf_nfstab_parse(struct conf_nfstab *tab, const char *file, const char *text, size_t length,
                      struct conf_diagnostics *d)
{
    struct parser parser = {.tab = tab, .words.d = d, .first_server = tab->server_count};
    struct words *words = &parser.words;

    words->line.file = conf_nfstab_file(tab, file);
    if (words->line.file == NULL)
        return -ENOMEM;
    if (length > CONF_NFSTAB_SIZE_MAX) {
        words_fail(words, words->line, "found %zu bytes, expected at most %d", length,
                   CONF_NFSTAB_SIZE_MAX);
        return -EINVAL;
    }
    words->value = malloc(length + 1);
    if (words->value == NULL)
        return -ENOMEM;
    words->cursor = text + conf_text_mark(text, length);
    words->end = text + length;

    while (words_next_line(words))
        while (!parser.no_memory && words_next(words))
            take_item(&parser);
    end_file(&parser);
    free(words->value);
    if (parser.no_memory)
        return -ENOMEM;
    return words->failed ? -EINVAL : 0;
}
