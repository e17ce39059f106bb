/*
 * The words of nfstab(5): keys, colons and values of a line, each with its place. For the parser in
 * nfstab_parse.c. Not for other rooms.
 */
#ifndef CONF_NFSTAB_WORDS_H
#define CONF_NFSTAB_WORDS_H

#include "config/nfstab.h"
#include "config/source.h"

struct parser;

/* What a line may contain. */
struct keyword {
    const char *name;
    const char *expected; /* as a value; NULL: it is a flag */
    void (*take)(struct parser *parser);
    bool of_file;              /* allowed before the first server */
    bool of_stanza;            /* not of an export, wherever it stands */
    bool is_name;              /* the value is kept as it is, */
    bool is_file;              /* and is an absolute one of a file */
    size_t offset;             /* the member of struct conf_server: for a name; for a number */
    unsigned long least, most; /* the bounds of a number */
    const char *const *later;  /* words that are not supported yet; NULL ends the list */
};

enum { CONF_NFSTAB_KEYWORDS = 29 };
extern const struct keyword conf_nfstab_keywords[CONF_NFSTAB_KEYWORDS]; /* nfstab_parse.c */

/* Where a stanza has the value of a key that is a name. */
static inline char **conf_server_name(const struct conf_server *server,
                                      const struct keyword *keyword)
{
    return (char **)((char *)server + keyword->offset);
}

/* The parser's place in a text. On the parser's stack. */
struct words {
    struct conf_diagnostics *d;
    bool failed; /* an error was added */
    const char *cursor;
    const char *end;
    const char *line_start;
    struct conf_position line; /* column is not used */
    bool nul_reported;
    char *value; /* of the last item, without escapes; has room for the whole text */
};

#define words_fail(words, at, ...)                                       \
    do {                                                                 \
        (words)->failed = true;                                          \
        conf_diagnostics_add((words)->d, CONF_ERROR, (at), __VA_ARGS__); \
    } while (0)

/* Moves to the next word of the line. False at the end of the line or at a comment. */
bool words_next(struct words *words);

/* Moves to the start of the next line. False if there is none. */
bool words_next_line(struct words *words);

/*
 * Takes the key under the cursor and returns its meaning; its place goes to `at`. Reports what is
 * no key, skips it with what seems to belong to it, and returns NULL. Then *meant is the nearest
 * key, or NULL.
 */
const struct keyword *words_key(struct words *words, struct conf_position *at,
                                const struct keyword **meant);

/* Takes the colon and the value after a key. The value goes to words->value, its place to `at`.
 * False: there is none, and that was reported. */
bool words_value(struct words *words, const struct keyword *keyword, struct conf_position *at);

/* Which of these words is the value, from 1 on? The first one stands for "not given". 0: none of
 * them, and that was reported. */
unsigned words_choose(struct words *words, struct conf_position at, const char *const choices[],
                      unsigned count, const char *expected);

/* Takes a colon and a value after a flag, which are a mistake, and reports it. */
void words_no_value(struct words *words, const struct keyword *keyword);

#endif
