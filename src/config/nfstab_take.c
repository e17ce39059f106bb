/* Items of nfstab(5) that stand for themselves: numbers, words, names, and how calls are protected.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/nfstab_parser.h"

void conf_take_refuse(struct parser *parser, const char *expected)
{
    conf_take_fail(parser, "found %s, expected %s", CONF_QUOTED(parser->words.value), expected);
}

bool conf_take_is_too_long(struct parser *parser, const char *what, size_t most)
{
    size_t length = strlen(parser->words.value);
    if (length > most)
        conf_take_fail(parser, "found a %s of %zu bytes, expected at most %zu", what, length, most);
    return length > most;
}

struct conf_export *conf_take_last_export(const struct parser *parser)
{
    const struct conf_server *server = parser->stanza.server;
    return &server->exports[server->export_count - 1];
}

/* --- numbers and words ------------------------------------------------------------------- */

static unsigned *number_of(const struct parser *parser, struct conf_server *server)
{
    return (unsigned *)((char *)server + parser->keyword->offset);
}

static bool read_number(struct parser *parser, unsigned *number)
{
    const char *word = parser->words.value;
    unsigned long value = strtoul(word, NULL, 10); /* ULONG_MAX if it is too large */
    unsigned long least = parser->keyword->least, most = parser->keyword->most;

    if (*word == '\0' || word[strspn(word, "0123456789")] != '\0' || value < least ||
        value > most) {
        conf_take_fail(parser, "found %s, expected a number from %lu to %lu", CONF_QUOTED(word),
                       least, most);
        return false;
    }
    *number = (unsigned)value;
    return true;
}

/* Refuses the second item of a kind that a stanza may have once. */
static bool only_once(struct parser *parser)
{
    struct conf_position *first = &parser->stanza.seen[parser->keyword - conf_nfstab_keywords];
    if (first->line != 0) {
        conf_take_fail(parser, "found a second '%s', expected one (the first is in line %u)",
                       parser->keyword->name, first->line);
        return false;
    }
    *first = parser->at;
    return true;
}

void conf_take_number(struct parser *parser)
{
    if (only_once(parser))
        read_number(parser, number_of(parser, parser->stanza.server));
}

/* uid and gid. 0 is refused, so that no configuration gives a process root's files. */
void conf_take_id(struct parser *parser)
{
    unsigned id = CONF_ID_PROCESS, *of_file = number_of(parser, &parser->of_file);

    if (!only_once(parser) ||
        (strcasecmp(parser->words.value, "process") != 0 && !read_number(parser, &id)))
        return;
    if (*of_file == 0)
        *of_file = id;
    if (parser->stanza.server != NULL)
        *number_of(parser, parser->stanza.server) = id;
}

/* For an item with only one supported word so far. */
static void check_word(struct parser *parser)
{
    const char *word = parser->words.value, *expected = parser->keyword->expected, *known = "";

    if (strcasecmp(word, expected) == 0)
        return;
    for (const char *const *later = parser->keyword->later; *later != NULL; later++)
        if (strcasecmp(word, *later) == 0)
            known = " which is not supported yet,";
    conf_take_fail(parser, "found %s,%s expected %s", CONF_QUOTED(word), known, expected);
}

void conf_take_version(struct parser *parser)
{
    if (!only_once(parser))
        return;
    static const struct {
        const char *word;
        enum conf_version version;
    } words[] = {{"nfsv3", CONF_VERSION_3},
                 {"nfsv4", CONF_VERSION_41},
                 {"nfsv4.1", CONF_VERSION_41},
                 {"nfsv4.2", CONF_VERSION_41}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(parser->words.value, words[i].word) == 0) {
            parser->stanza.server->version = words[i].version;
            return;
        }
    }
    check_word(parser);
}

/* The names of files contain it. */
void conf_take_fence(struct parser *parser)
{
    struct conf_server *server = parser->stanza.server;
    const char *word = parser->words.value;

    if (!only_once(parser) || conf_take_is_too_long(parser, "name", CONF_FENCE_LENGTH_MAX))
        return;
    for (const char *c = word; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL) {
            conf_take_refuse(parser, "a name of letters, digits, '.', '_' and '-'");
            return;
        }
    }
    server->fence_at = parser->at;
    *conf_server_name(server, parser->keyword) = strdup(word);
    parser->no_memory |= server->fence == NULL;
}

/* The name of a file, or another one that is not looked at. */
void conf_take_name(struct parser *parser)
{
    char **name = conf_server_name(parser->stanza.server, parser->keyword);

    if (!only_once(parser) || conf_take_is_too_long(parser, "name", PATH_MAX - 1))
        return;
    if (parser->keyword->is_file && parser->words.value[0] != '/') {
        conf_take_refuse(parser, parser->keyword->expected);
        return;
    }
    *name = strdup(parser->words.value);
    parser->no_memory |= *name == NULL;
}

void conf_take_snmp(struct parser *parser)
{
    if (!parser->snmp_reported)
        conf_diagnostics_add(parser->words.d, CONF_NOTICE, parser->key_at,
                             "found '%s': SNMP is not used, management and community "
                             "are ignored",
                             parser->keyword->name);
    parser->snmp_reported = true;
}

/* --- protection -------------------------------------------------------------------------- */

/* Of the last export; before the first one, of all that give none. */
void conf_take_security(struct parser *parser)
{
    struct stanza *stanza = &parser->stanza;
    bool of_all = !stanza->export_seen;

    if (!only_once(parser))
        return;
    unsigned found = words_choose(&parser->words, parser->at, conf_security_words,
                                  CONF_SECURITY_KRB5P + 1, parser->keyword->expected);
    parser->tab->demands |= found != CONF_SECURITY_SYS;
    if (of_all || parser->keyword->of_stanza) {
        stanza->security = found;
        stanza->security_at = parser->at;
    } else if (stanza->server->export_count > 0) {
        conf_take_last_export(parser)->security = found;
        conf_take_last_export(parser)->security_at = parser->at;
    }
}

void conf_take_tls(struct parser *parser)
{
    if (!only_once(parser))
        return;
    parser->stanza.server->tls_at = parser->at;
    unsigned found = words_choose(&parser->words, parser->at, conf_tls_words, CONF_TLS_REQUIRE + 1,
                                  parser->keyword->expected);
    parser->stanza.server->tls = found;
    parser->tab->demands |= found != CONF_TLS_NO;
}

void conf_take_tls_direct(struct parser *parser)
{
    parser->stanza.server->tls_direct = true;
}

/* Gives exports the security of their stanza. A principal of Kerberos has a host's name. */
void conf_take_security_end(struct parser *parser)
{
    struct conf_server *server = parser->stanza.server;
    bool reported = false;

    for (size_t i = 0; i < server->export_count; i++) {
        struct conf_export *export = &server->exports[i];
        if (export->security == CONF_SECURITY_AUTO) {
            export->security = parser->stanza.security;
            export->security_at = parser->stanza.security_at;
        }
        if (!reported && export->security >= CONF_SECURITY_KRB5 &&
            conf_address_family(server->name) != AF_UNSPEC) {
            reported = true;
            words_fail(&parser->words, export->security_at,
                       "found security %s for the server %s, expected the host name of its service "
                       "principal nfs/NAME after 'server:' (and 'path:' with its address)",
                       conf_security_words[export->security], CONF_QUOTED(server->name));
        }
    }
}

void conf_take_tls_end(struct parser *parser)
{
    const struct conf_server *server = parser->stanza.server;

    if ((server->tls_cert == NULL) != (server->tls_key == NULL))
        words_fail(&parser->words, server->at,
                   "found %s for server %s, expected both a certificate and its key",
                   server->tls_cert == NULL ? "'tls_key' without 'tls_cert'"
                                            : "'tls_cert' without 'tls_key'",
                   CONF_QUOTED(server->name));
    if (server->tls_direct && server->tls == CONF_TLS_PREFER)
        words_fail(&parser->words, server->tls_at,
                   "found 'tls: prefer' with 'tls_direct', expected 'tls: require': a server that "
                   "begins with TLS cannot refuse it");
}
