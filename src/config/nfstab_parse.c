/*
 * The grammar of nfstab(5). A line is a row of items; an item is a flag, or a key, a colon and a
 * word. Words end at a blank, at '#' and at the end of the line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/nfstab_tree.h"
#include "config/nfstab_words.h"

/* A stanza's `local` items until its end, when they are paired with the paths. */
struct local {
    char address[CONF_ADDRESS_SIZE];
    struct conf_position at;
};

struct parser {
    struct conf_nfstab *tab;
    struct words words;
    bool no_memory;

    size_t first_server; /* of this file in tab->servers */
    size_t mount_count;  /* exports of this file */
    bool snmp_reported;

    /* The stanza; server is NULL before the first one. */
    struct conf_server *server;
    struct local *locals;
    size_t local_count;
    bool dontroute;
    bool export_open;                    /* the last export waits for its mount */
    bool path_seen, export_seen;         /* also when they were wrong */
    bool export_lost;                    /* an export without a value waits for its mount */
    struct conf_position seen[KEY_SNMP]; /* where an item stood that is allowed once; line 0: not */

    /* The identity of the file: what is given first counts for stanzas that give none. 0: none. */
    uid_t uid, gid;
};

static char *copy_word(struct parser *parser)
{
    char *copy = strdup(parser->words.value);
    if (copy == NULL)
        parser->no_memory = true;
    return copy;
}

/* --- values ------------------------------------------------------------------------------ */

static bool read_number(struct parser *parser, struct conf_position at, unsigned long minimum,
                        unsigned long maximum, unsigned *number)
{
    char quoted[CONF_QUOTE_SIZE];
    unsigned long value = 0;
    bool digits = parser->words.value[0] != '\0';

    for (const char *c = parser->words.value; digits && *c != '\0'; c++) {
        digits = *c >= '0' && *c <= '9';
        if (digits && value <= maximum)
            value = value * 10 + (unsigned long)(*c - '0');
    }
    if (!digits || value < minimum || value > maximum) {
        words_fail(&parser->words, at, "found %s, expected a number from %lu to %lu",
                   words_quote(&parser->words, quoted), minimum, maximum);
        return false;
    }
    *number = (unsigned)value;
    return true;
}

/* uid and gid: 0 is refused, so that no configuration gives a process root's files. */
static bool read_id(struct parser *parser, struct conf_position at, unsigned *id)
{
    if (strcasecmp(parser->words.value, "process") == 0) {
        *id = CONF_ID_PROCESS;
        return true;
    }
    return read_number(parser, at, 1, (unsigned long)CONF_ID_PROCESS - 1, id);
}

/* Refuses the second one of an item that a stanza may have once. */
static bool only_once(struct parser *parser, const struct keyword *keyword, struct conf_position at)
{
    struct conf_position *first = &parser->seen[keyword->key];
    if (first->line != 0) {
        words_fail(&parser->words, at,
                   "found a second '%s', expected one (the first is in line %u)", keyword->name,
                   first->line);
        return false;
    }
    *first = at;
    return true;
}

static void check_version(struct parser *parser, struct conf_position at)
{
    static const char *const later[] = {"nfsv4", "nfsv4.0", "nfsv4.1", "nfsv4.2", "pnfs"};
    char quoted[CONF_QUOTE_SIZE];

    if (strcasecmp(parser->words.value, "nfsv3") == 0)
        return;
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        if (strcasecmp(parser->words.value, later[i]) == 0) {
            words_fail(&parser->words, at, "found %s, which is not supported yet, expected nfsv3",
                       words_quote(&parser->words, quoted));
            return;
        }
    }
    words_fail(&parser->words, at, "found %s, expected nfsv3", words_quote(&parser->words, quoted));
}

static void check_security(struct parser *parser, struct conf_position at)
{
    char quoted[CONF_QUOTE_SIZE];
    const char *word = parser->words.value;

    if (strcasecmp(word, "sys") == 0)
        return;
    bool later = strcasecmp(word, "krb5") == 0 || strcasecmp(word, "krb5i") == 0 ||
                 strcasecmp(word, "krb5p") == 0;
    words_fail(&parser->words, at, "found %s,%s expected sys", words_quote(&parser->words, quoted),
               later ? " which is not supported yet," : "");
}

/* --- items ------------------------------------------------------------------------------- */

static void take_path(struct parser *parser, struct conf_position at)
{
    char quoted[CONF_QUOTE_SIZE];

    parser->path_seen = true;
    if (parser->server->path_count == CONF_PATHS_MAX) {
        words_fail(&parser->words, at, "found another path, expected at most %d for a server",
                   CONF_PATHS_MAX);
        return;
    }
    struct conf_path *path = conf_server_add_path(parser->server);
    if (path == NULL) {
        parser->no_memory = true;
        return;
    }
    path->at = at;
    /* A wrong one keeps its place, so that the locals after it pair as they were meant. */
    const char *expected = conf_address_copy(path->peer, parser->words.value);
    if (expected != NULL)
        words_fail(&parser->words, at, "found %s, expected %s", words_quote(&parser->words, quoted),
                   expected);
}

static void take_local(struct parser *parser, struct conf_position at)
{
    char quoted[CONF_QUOTE_SIZE];

    if (parser->local_count == CONF_PATHS_MAX) {
        words_fail(&parser->words, at, "found another local, expected at most %d for a server",
                   CONF_PATHS_MAX);
        return;
    }
    struct local *local = &parser->locals[parser->local_count++];
    local->at = at;
    const char *expected = conf_address_copy(local->address, parser->words.value);
    if (expected != NULL)
        words_fail(&parser->words, at, "found %s, expected %s", words_quote(&parser->words, quoted),
                   expected);
}

/* The export that is waiting for its mount when something else comes. */
static void end_export(struct parser *parser)
{
    char quoted[CONF_QUOTE_SIZE];

    if (!parser->export_open)
        return;
    parser->export_open = false;
    struct conf_export *export = &parser->server->exports[parser->server->export_count - 1];
    words_fail(&parser->words, export->at,
               "found export %s without a mount, expected 'mount:' after it",
               conf_quote(quoted, export->directory, strlen(export->directory)));
}

static void take_export(struct parser *parser, struct conf_position at)
{
    char quoted[CONF_QUOTE_SIZE];

    end_export(parser);
    parser->export_seen = true;
    parser->export_lost = false;
    if (parser->words.value[0] != '/')
        words_fail(&parser->words, at,
                   "found %s, expected an absolute directory (starting with '/')",
                   words_quote(&parser->words, quoted));
    else if (strlen(parser->words.value) > CONF_EXPORT_LENGTH_MAX)
        words_fail(&parser->words, at, "found a directory of %zu bytes, expected at most %d",
                   strlen(parser->words.value), CONF_EXPORT_LENGTH_MAX);
    if (parser->mount_count == CONF_EXPORTS_MAX)
        words_fail(&parser->words, at, "found another export, expected at most %d",
                   CONF_EXPORTS_MAX);
    if (parser->mount_count++ >= CONF_EXPORTS_MAX)
        return;

    char *directory = copy_word(parser);
    struct conf_export *export = directory == NULL ? NULL : conf_server_add_export(parser->server);
    if (export == NULL) {
        free(directory);
        parser->no_memory = true;
        return;
    }
    export->directory = directory;
    export->at = at;
    parser->export_open = true;
}

/* An earlier export of this file at the same mount. */
static const struct conf_export *find_mount(const struct parser *parser, const char *mount)
{
    for (size_t s = parser->first_server; s < parser->tab->server_count; s++) {
        const struct conf_server *server = &parser->tab->servers[s];
        for (size_t e = 0; e < server->export_count; e++)
            if (server->exports[e].mount != NULL && strcmp(server->exports[e].mount, mount) == 0)
                return &server->exports[e];
    }
    return NULL;
}

static void take_mount(struct parser *parser, struct conf_position at)
{
    char quoted[CONF_QUOTE_SIZE];

    if (parser->mount_count > CONF_EXPORTS_MAX)
        return;
    if (parser->export_lost) {
        parser->export_lost = false;
        return;
    }
    if (!parser->export_open) {
        words_fail(&parser->words, at,
                   "found mount %s without an export, expected 'export:' before it",
                   words_quote(&parser->words, quoted));
        return;
    }
    parser->export_open = false;
    words_quote(&parser->words, quoted);
    const char *expected = conf_directory_normalise(parser->words.value);
    if (expected != NULL) {
        words_fail(&parser->words, at, "found %s, expected %s", quoted, expected);
        return;
    }
    if (strlen(parser->words.value) >= PATH_MAX) {
        words_fail(&parser->words, at, "found a directory of %zu bytes, expected at most %d",
                   strlen(parser->words.value), PATH_MAX - 1);
        return;
    }
    const struct conf_export *first = find_mount(parser, parser->words.value);
    if (first != NULL) {
        words_fail(&parser->words, at,
                   "found a second mount at %s, expected one (the first is in line %u)",
                   words_quote(&parser->words, quoted), first->mount_at.line);
        return;
    }
    struct conf_export *export = &parser->server->exports[parser->server->export_count - 1];
    export->mount = copy_word(parser);
    export->mount_at = at;
}

static void take_kernel(struct parser *parser, struct conf_position at)
{
    static const char *const names[] = {"auto", "yes", "no"};
    char quoted[CONF_QUOTE_SIZE];
    struct conf_server *server = parser->server;

    for (size_t i = 0; i < 3; i++) {
        if (strcasecmp(parser->words.value, names[i]) != 0)
            continue;
        if (server->export_count > 0)
            server->exports[server->export_count - 1].kernel = (enum conf_kernel)i;
        else if (!parser->export_seen)
            words_fail(&parser->words, at,
                       "found 'kernel' without an export, expected 'export:' before it");
        return;
    }
    words_fail(&parser->words, at, "found %s, expected auto, yes or no",
               words_quote(&parser->words, quoted));
}

static void take_id(struct parser *parser, const struct keyword *keyword, struct conf_position at)
{
    bool is_uid = keyword->key == KEY_UID;
    unsigned id;

    if (!only_once(parser, keyword, at) || !read_id(parser, at, &id))
        return;
    uid_t *of_file = is_uid ? &parser->uid : &parser->gid;
    if (*of_file == 0)
        *of_file = id;
    if (parser->server != NULL)
        *(is_uid ? &parser->server->uid : &parser->server->gid) = id;
}

/* --- stanzas ----------------------------------------------------------------------------- */

static void pair_locals(struct parser *parser)
{
    struct conf_server *server = parser->server;
    char quoted[CONF_QUOTE_SIZE];

    for (size_t i = 0; i < parser->local_count; i++) {
        struct local *local = &parser->locals[i];
        if (i < server->path_count) {
            memcpy(server->paths[i].local, local->address, CONF_ADDRESS_SIZE);
            server->paths[i].local_at = local->at;
        } else if (server->path_count > 0) {
            words_fail(&parser->words, local->at,
                       "found local %s, the %zu. of a server with %zu path%s, "
                       "expected a path for each local",
                       conf_quote(quoted, local->address, strlen(local->address)), i + 1,
                       server->path_count, server->path_count == 1 ? "" : "s");
        }
    }
}

static const char *family_name(int family)
{
    return family == AF_INET6 ? "IPv6" : "IPv4";
}

/* The two addresses of a path are of one family. What names resolve to is not known here. */
static void check_families(struct parser *parser, const struct conf_path *path)
{
    char local[CONF_QUOTE_SIZE], peer[CONF_QUOTE_SIZE];
    int ours = conf_address_family(path->local), theirs = conf_address_family(path->peer);

    if (ours == AF_UNSPEC || theirs == AF_UNSPEC || ours == theirs)
        return;
    words_fail(&parser->words, path->local_at,
               "found local %s of %s, expected an %s address as its path %s in line %u, column %u "
               "is one",
               conf_quote(local, path->local, strlen(path->local)), family_name(ours),
               family_name(theirs), conf_quote(peer, path->peer, strlen(path->peer)), path->at.line,
               path->at.column);
}

/* A path that is given twice would count twice when load is balanced, and fail as one. */
static void check_paths(struct parser *parser)
{
    const struct conf_server *server = parser->server;
    char quoted[CONF_QUOTE_SIZE];

    for (size_t i = 0; i < server->path_count; i++) {
        const struct conf_path *path = &server->paths[i];
        if (path->peer[0] == '\0')
            continue; /* reported */
        check_families(parser, path);
        for (size_t k = 0; k < i; k++) {
            const struct conf_path *first = &server->paths[k];
            if (!conf_address_same(first->peer, path->peer) ||
                !conf_address_same(first->local, path->local))
                continue;
            words_fail(&parser->words, path->at,
                       "found path %s a second time%s, expected each path once (the first is in "
                       "line %u, column %u)",
                       conf_quote(quoted, path->peer, strlen(path->peer)),
                       path->local[0] != '\0' ? " with the same local" : "", first->at.line,
                       first->at.column);
            break;
        }
    }
}

static void end_stanza(struct parser *parser)
{
    struct conf_server *server = parser->server;
    char quoted[CONF_QUOTE_SIZE];

    if (server == NULL)
        return;
    end_export(parser);
    if (!parser->path_seen) {
        struct conf_path *path = conf_server_add_path(server);
        if (path == NULL) {
            parser->no_memory = true;
            return;
        }
        path->at = server->at;
        if (conf_address_copy(path->peer, server->name) != NULL)
            words_fail(&parser->words, server->at,
                       "found server %s without a path, and the name is not an "
                       "address or a host name, expected 'path:'",
                       conf_quote(quoted, server->name, strlen(server->name)));
    }
    pair_locals(parser);
    check_paths(parser);
    for (size_t i = 0; i < server->path_count; i++)
        server->paths[i].dontroute = parser->dontroute;
    if (!parser->export_seen)
        words_fail(&parser->words, server->at,
                   "found server %s without an export, expected 'export:' and "
                   "'mount:'",
                   conf_quote(quoted, server->name, strlen(server->name)));

    /* An export that has no mount was reported; nobody should have to look at it. */
    size_t kept = 0;
    for (size_t i = 0; i < server->export_count; i++) {
        if (server->exports[i].mount == NULL)
            conf_export_clear(&server->exports[i]);
        else
            server->exports[kept++] = server->exports[i];
    }
    server->export_count = kept;
}

static void begin_stanza(struct parser *parser, struct conf_position at)
{
    end_stanza(parser);
    parser->server = NULL;
    char *name = copy_word(parser);
    struct conf_server *server = name == NULL ? NULL : conf_nfstab_add_server(parser->tab);
    if (server == NULL) {
        free(name);
        parser->no_memory = true;
        return;
    }
    server->name = name;
    server->at = at;
    server->uid = 0; /* not given: see end_file() */
    server->gid = 0;
    parser->server = server;
    parser->local_count = 0;
    parser->dontroute = false;
    parser->export_open = false;
    parser->path_seen = false;
    parser->export_seen = false;
    parser->export_lost = false;
    memset(parser->seen, 0, sizeof(parser->seen));
    if (strlen(name) >= CONF_ADDRESS_SIZE)
        words_fail(&parser->words, at, "found a name of %zu bytes, expected at most %d",
                   strlen(name), CONF_ADDRESS_SIZE - 1);
}

static void end_file(struct parser *parser)
{
    end_stanza(parser);
    for (size_t i = parser->first_server; i < parser->tab->server_count; i++) {
        struct conf_server *server = &parser->tab->servers[i];
        if (server->uid == 0)
            server->uid = parser->uid != 0 ? parser->uid : CONF_ID_PROCESS;
        if (server->gid == 0)
            server->gid = parser->gid != 0 ? parser->gid : CONF_ID_PROCESS;
    }
}

/* --- lines ------------------------------------------------------------------------------- */

static void take_flag(struct parser *parser, const struct keyword *keyword, struct conf_position at)
{
    if (parser->server == NULL)
        words_fail(&parser->words, at, "found '%s' before any server, expected 'server:' first",
                   keyword->name);
    parser->dontroute = true;
    words_no_value(&parser->words, keyword);
}

static void take_value(struct parser *parser, const struct keyword *keyword,
                       struct conf_position key_at, struct conf_position at)
{
    struct conf_server *server = parser->server;

    switch (keyword->key) {
    case KEY_SERVER:
        begin_stanza(parser, at);
        break;
    case KEY_PATH:
        take_path(parser, at);
        break;
    case KEY_LOCAL:
        take_local(parser, at);
        break;
    case KEY_EXPORT:
        take_export(parser, at);
        break;
    case KEY_MOUNT:
        take_mount(parser, at);
        break;
    case KEY_KERNEL:
        take_kernel(parser, at);
        break;
    case KEY_SECURITY:
        check_security(parser, at);
        break;
    case KEY_NFS_VERSION:
        check_version(parser, at);
        break;
    case KEY_MNT_TIMEOUT:
        if (only_once(parser, keyword, at))
            read_number(parser, at, 1, 86400, &server->mnt_timeout);
        break;
    case KEY_CONNECTIONS:
        if (only_once(parser, keyword, at))
            read_number(parser, at, 1, CONF_CONNECTIONS_MAX, &server->connections);
        break;
    case KEY_NFSPORT:
        if (only_once(parser, keyword, at))
            read_number(parser, at, 1, 65535, &server->nfsport);
        break;
    case KEY_MNTPORT:
        if (only_once(parser, keyword, at))
            read_number(parser, at, 1, 65535, &server->mntport);
        break;
    case KEY_UID:
    case KEY_GID:
        take_id(parser, keyword, at);
        break;
    case KEY_SNMP:
        if (!parser->snmp_reported)
            conf_diagnostics_add(parser->words.d, CONF_NOTICE, key_at,
                                 "found '%s': SNMP is not used, management and community "
                                 "are ignored",
                                 keyword->name);
        parser->snmp_reported = true;
        break;
    case KEY_DONTROUTE: /* a flag, never here */
        break;
    }
}

/* An item that was reported, for want of a value or as a key that is none: what follows from it is
 * not reported too. */
static void lose_item(struct parser *parser, enum key key, struct conf_position at)
{
    if (key == KEY_SERVER) {
        parser->words.value[0] = '\0';
        begin_stanza(parser, at);
        parser->path_seen = true;
        parser->export_seen = true;
    }
    if (parser->server == NULL)
        return;
    parser->path_seen |= key == KEY_PATH;
    if (key == KEY_EXPORT) {
        end_export(parser);
        parser->export_seen = true;
        parser->export_lost = true;
    }
    if (key == KEY_MOUNT) {
        parser->export_open = false;
        parser->export_lost = false;
    }
}

static void take_item(struct parser *parser)
{
    struct conf_position at, value_at;
    const struct keyword *meant;
    const struct keyword *keyword = words_key(&parser->words, &at, &meant);

    if (keyword == NULL) {
        if (meant != NULL)
            lose_item(parser, meant->key, at);
        return;
    }
    if (keyword->expected == NULL) {
        take_flag(parser, keyword, at);
        return;
    }

    bool of_file = keyword->key == KEY_SERVER || keyword->key == KEY_UID || keyword->key == KEY_GID;
    bool has_value = words_value(&parser->words, keyword, &value_at);
    if (parser->server == NULL && !of_file)
        words_fail(&parser->words, at, "found '%s' before any server, expected 'server:' first",
                   keyword->name);
    else if (has_value)
        take_value(parser, keyword, at, value_at);
    else
        lose_item(parser, keyword->key, value_at);
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
    parser.locals = calloc(CONF_PATHS_MAX, sizeof(*parser.locals));
    if (words->value == NULL || parser.locals == NULL) {
        free(words->value);
        free(parser.locals);
        return -ENOMEM;
    }
    words->cursor = text + conf_text_mark(text, length);
    words->end = text + length;

    while (words_next_line(words))
        while (!parser.no_memory && words_next(words))
            take_item(&parser);
    end_file(&parser);
    free(words->value);
    free(parser.locals);
    if (parser.no_memory)
        return -ENOMEM;
    return words->failed ? -EINVAL : 0;
}
