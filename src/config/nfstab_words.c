#include "config/nfstab_words.h"

#include <string.h>
#include <strings.h>

#include "config/nfstab_tree.h"

#define KEY_LIST                                                                           \
    "server, path, local, dontroute, export, mount, kernel, security, security_default, "  \
    "krb5_keytab, krb5_principal, tls, tls_direct, tls_ca, tls_crl, tls_cert, tls_key, "   \
    "tls_name, nfs_version, fence, mnt_timeout, connections, nfsport, mntport, uid, gid, " \
    "management or community"

/* The place of a character in the current line. */
static struct conf_position position_of(const struct words *words, const char *at)
{
    struct conf_position position = words->line;
    position.column = (unsigned)(at - words->line_start) + 1;
    return position;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\0';
}

static bool ends_word(char c)
{
    return is_blank(c) || c == '\n' || c == '#';
}

static const struct keyword *find_keyword(const char *text, size_t length)
{
    for (size_t i = 0; i < CONF_NFSTAB_KEYWORDS; i++) {
        const struct keyword *keyword = &conf_nfstab_keywords[i];
        if (strlen(keyword->name) == length && strncasecmp(keyword->name, text, length) == 0)
            return keyword;
    }
    return NULL;
}

static size_t word_length(const char *text, const char *end)
{
    size_t length = 0;
    while (text + length < end && !ends_word(text[length]))
        length++;
    return length;
}

/* A key also ends at a colon. */
static size_t key_length(const char *text, const char *end)
{
    size_t length = word_length(text, end);
    const char *colon = memchr(text, ':', length);
    return colon != NULL ? (size_t)(colon - text) : length;
}

static const char *skip_blanks(const char *text, const char *end)
{
    while (text < end && is_blank(*text))
        text++;
    return text;
}

bool conf_nfstab_is_item(const char *text, const char *end)
{
    size_t length = key_length(text, end);
    const struct keyword *keyword = find_keyword(text, length);
    if (keyword == NULL)
        return false;
    const char *after = skip_blanks(text + length, end);
    bool colon = after < end && *after == ':';
    return keyword->expected == NULL ? !colon : colon;
}

bool words_next(struct words *words)
{
    const char *from = words->cursor;
    words->cursor = skip_blanks(from, words->end);
    const char *nul = memchr(from, '\0', (size_t)(words->cursor - from));
    if (nul != NULL && !words->nul_reported) {
        words->nul_reported = true;
        words_fail(words, position_of(words, nul), "found a NUL byte, expected text");
    }
    return words->cursor < words->end && *words->cursor != '\n' && *words->cursor != '#';
}

/* The word under the cursor, for a message. */
static const char *quote_word(const struct words *words, char quoted[CONF_QUOTE_SIZE])
{
    if (words->cursor >= words->end || *words->cursor == '\n')
        return "the end of the line";
    if (*words->cursor == '#')
        return "a comment";
    return conf_quote(quoted, words->cursor, word_length(words->cursor, words->end));
}

bool words_value(struct words *words, const struct keyword *keyword, struct conf_position *at)
{
    char quoted[CONF_QUOTE_SIZE];
    bool any = words_next(words);

    *at = position_of(words, words->cursor);
    if (any && *words->cursor == ':') {
        words->cursor++;
    } else {
        words_fail(words, *at, "found %s after '%s', expected ':'", quote_word(words, quoted),
                   keyword->name);
        /* If only the colon was forgotten, the next word is the value. */
        if (any && *words->cursor == '=')
            words->cursor++;
        else if (!any || conf_nfstab_is_item(words->cursor, words->end))
            return false;
    }
    any = words_next(words);
    *at = position_of(words, words->cursor);
    if (!any || conf_nfstab_is_item(words->cursor, words->end)) {
        words_fail(words, *at, "found %s after '%s:', expected %s", quote_word(words, quoted),
                   keyword->name, keyword->expected);
        return false;
    }

    size_t length = word_length(words->cursor, words->end);
    bool has_nul;
    memcpy(words->value, words->cursor, length);
    words->cursor += length;
    length = conf_unescape(words->value, length, &has_nul);
    words->value[length] = '\0';
    if (has_nul) {
        words_fail(words, *at, "found the escape of a NUL byte, expected %s", keyword->expected);
        return false;
    }
    return true;
}

/* Skips the colon under the cursor, and the value after it, if there is one. */
static void skip_value(struct words *words)
{
    words->cursor++;
    if (words_next(words) && !conf_nfstab_is_item(words->cursor, words->end))
        words->cursor += word_length(words->cursor, words->end);
}

/* Skips the rest of what is no item, so that one mistake gives one message. */
static void skip_unknown(struct words *words, size_t length)
{
    words->cursor += length;
    if (words_next(words) && *words->cursor == ':') {
        skip_value(words);
        return;
    }
    while (words_next(words)) {
        size_t key = key_length(words->cursor, words->end);
        if (find_keyword(words->cursor, key) != NULL)
            return;
        words->cursor += word_length(words->cursor, words->end);
    }
}

const struct keyword *words_key(struct words *words, struct conf_position *at,
                                const struct keyword **meant)
{
    char quoted[CONF_QUOTE_SIZE];
    size_t length = key_length(words->cursor, words->end);
    const struct keyword *keyword = find_keyword(words->cursor, length);

    *at = position_of(words, words->cursor);
    if (keyword != NULL) {
        words->cursor += length;
        return keyword;
    }
    const char *nearest = conf_nearest_name(words->cursor, length, conf_nfstab_keywords,
                                            CONF_NFSTAB_KEYWORDS, sizeof(conf_nfstab_keywords[0]));
    *meant = nearest == NULL ? NULL : find_keyword(nearest, strlen(nearest));
    if (length == 0)
        length = word_length(words->cursor, words->end);
    conf_quote(quoted, words->cursor, length);
    if (*meant != NULL)
        words_fail(words, *at, "found %s, expected a key such as '%s'", quoted, (*meant)->name);
    else
        words_fail(words, *at, "found %s, expected a key: " KEY_LIST, quoted);
    skip_unknown(words, length);
    return NULL;
}

void words_no_value(struct words *words, const struct keyword *keyword)
{
    if (!words_next(words) || *words->cursor != ':')
        return;
    words_fail(words, position_of(words, words->cursor),
               "found ':' after '%s', expected none: it is a flag", keyword->name);
    skip_value(words);
}

unsigned words_choose(struct words *words, struct conf_position at, const char *const choices[],
                      unsigned count, const char *expected)
{
    for (unsigned i = 1; i < count; i++)
        if (strcasecmp(words->value, choices[i]) == 0)
            return i;
    words_fail(words, at, "found %s, expected %s", CONF_QUOTED(words->value), expected);
    return 0;
}

bool words_next_line(struct words *words)
{
    if (words->line.line > 0) {
        const char *newline = memchr(words->cursor, '\n', (size_t)(words->end - words->cursor));
        words->cursor = newline == NULL ? words->end : newline + 1;
    }
    words->line.line++;
    words->line_start = words->cursor;
    return words->cursor < words->end;
}
