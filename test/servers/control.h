/* The control socket of proxy.c and powerserver.c: it takes one command a connection. */
#ifndef FAULT_CONTROL_H
#define FAULT_CONTROL_H

#include <getopt.h>
#include <sys/un.h>

#include "loop.h"

enum { WORDS_MOST = 16, ANSWER_MOST = 8192 };

/* Does one command; writes the answer to `out`. False when it is not understood. */
typedef bool control_command(char **words, unsigned count, FILE *out);

struct control {
    struct watch watch;
    control_command *command;
};

unsigned control_words(char *line, char **words);

/* Says "ready" and runs until SIGTERM: `due` as of loop_run(). */
void control_run(const char *path, control_command *command, uint64_t (*due)(uint64_t now));
void control_counter(FILE *out, const char *name, uint64_t value);

/* Gives a command to a program that listens at `path`. False when it did not take it. */
bool control_ask(const char *path, const char *command, char answer[ANSWER_MOST]);

/* What every program with a control socket is told. */
struct control_options {
    const char *path;
    uint64_t seed;
};

#define CONTROL_OPTIONS OPTION("control", 'c'), OPTION("seed", 's')
/* Takes one of these; any other letter is a mistake. */
void control_option(struct control_options *options, int letter);

/* `PROGRAM --ask SOCKET WORD...` is the other end, for scripts. */
bool control_asks(int argc, char **argv);

/* The exit status. */
int control_client(int argc, char **argv);

/* A word as a number up to `most`. */
bool word_number(const char *word, uint64_t most, uint64_t *number);

#endif
