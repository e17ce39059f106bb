/*
 * The options of the command and its subcommands: one table says what an option is called, what it
 * takes, where that goes, and what --help says of it.
 */
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h> /* optind */

enum cmd_option_kind {
    CMD_OPTION_FLAG,   /* a bool */
    CMD_OPTION_TEXT,   /* a const char * */
    CMD_OPTION_NUMBER, /* a double, fractions allowed */
    CMD_OPTION_WHOLE,  /* an unsigned */
};

struct cmd_option {
    const char *name; /* without "--"; the first member, for conf_nearest_name() */
    char letter;      /* the short option; 0: none */
    enum cmd_option_kind kind;
    size_t offset;        /* of what it sets in the command's request */
    const char *argument; /* as help names it: "SECONDS"; NULL for a flag */
    double low, high;     /* of a number */
    const char *range;    /* the same in words: "seconds from 1 to 3600" */
    const char *help;
};

/* A line of a command's table. `member` is that of its struct request. */
#define CMD_OPTION(is, name, letter, member, ...)                                    \
    {                                                                                \
        name, letter, CMD_OPTION_##is, offsetof(struct request, member), __VA_ARGS__ \
    }
#define CMD_FLAG_OPTION(name, letter, member, help) \
    CMD_OPTION(FLAG, name, letter, member, NULL, 0, 0, NULL, help)
#define CMD_TEXT_OPTION(name, letter, member, argument, help) \
    CMD_OPTION(TEXT, name, letter, member, argument, 0, 0, NULL, help)
#define CMD_NUMBER_OPTION(name, letter, member, argument, low, high, range, help) \
    CMD_OPTION(NUMBER, name, letter, member, argument, low, high, range, help)
#define CMD_WHOLE_OPTION(name, letter, member, argument, low, high, range, help) \
    CMD_OPTION(WHOLE, name, letter, member, argument, low, high, range, help)

struct cmd_command {
    const char *name;  /* NULL: the command itself */
    const char *usage; /* lines of help without "directnfs "; what begins with a blank goes on */
    const char *purpose;
    const struct cmd_option *options;
    size_t option_count;
    bool stops; /* options behind the first word are not ours */
    /* argv[0] is its name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

/* The subcommands. They use getopt_long(3), so only one of them runs in a process. */
extern const struct cmd_command cmd_run, cmd_check, cmd_stat, cmd_top, cmd_path, cmd_flush,
    cmd_fence, cmd_report, cmd_exporter, cmd_agent;

#define CMD_GO_ON (-1)

/*
 * Takes the options into `request`, which has the defaults; optind is that of the first word then.
 * Returns CMD_GO_ON, or the exit status: after --help, and after a mistake, which was said.
 */
int cmd_options(const struct cmd_command *command, int argc, char **argv, void *request);

/* Prints what --help does: of a subcommand, or of all. */
void cmd_help(const struct cmd_command *command);

#endif
