/*
 * The parser of nfstab(5): what it knows, and items that it takes. For nfstab_parse.c and
 * nfstab_take.c only.
 */
#ifndef CONF_NFSTAB_PARSER_H
#define CONF_NFSTAB_PARSER_H

#include "config/nfstab_tree.h"
#include "config/nfstab_words.h"

/* What is known of a stanza before its end. */
struct stanza {
    struct conf_server *server; /* NULL before the first one */
    /* `path` and `local` items; those with equal numbers are a pair. server->paths is as long as
     * the larger number. */
    size_t path_count, local_count;
    bool dontroute;
    enum conf_security security; /* of exports that give none */
    struct conf_position security_at;
    bool export_open;            /* the last export waits for its mount */
    bool path_seen, export_seen; /* wrong ones count too */
    bool export_lost;            /* an export without a value waits for its mount */
    struct conf_position seen[CONF_NFSTAB_KEYWORDS]; /* of items allowed once; line 0: not yet */
};

struct parser {
    struct conf_nfstab *tab;
    struct words words;
    bool no_memory;

    size_t first_server; /* the first one of this file in tab->servers */
    size_t mount_count;  /* exports in this file */
    bool snmp_reported;

    /* The item that is being taken: its key, and the place of its value, which is words.value. */
    const struct keyword *keyword;
    struct conf_position key_at, at;
    struct stanza stanza;

    /* The first uid and gid given. They count for stanzas that give none. 0: none was given. */
    struct conf_server of_file;
};

#define conf_take_fail(parser, ...) words_fail(&(parser)->words, (parser)->at, __VA_ARGS__)

/* Reports the value. */
void conf_take_refuse(struct parser *parser, const char *expected);

/* Has the value more bytes than that? Then it is reported. */
bool conf_take_is_too_long(struct parser *parser, const char *what, size_t most);

/* The export of the stanza that was given last; there is one. */
struct conf_export *conf_take_last_export(const struct parser *parser);

/* Take the item of a key. */
void conf_take_number(struct parser *parser);
void conf_take_id(struct parser *parser); /* uid and gid */
void conf_take_version(struct parser *parser);
void conf_take_fence(struct parser *parser);
void conf_take_name(struct parser *parser); /* a name that is kept as it is */
void conf_take_snmp(struct parser *parser);
void conf_take_security(struct parser *parser);
void conf_take_tls(struct parser *parser);
void conf_take_tls_direct(struct parser *parser);

/* At the end of a stanza: gives exports its security, and reports what does not fit together. */
void conf_take_security_end(struct parser *parser);
void conf_take_tls_end(struct parser *parser);

#endif
