/*
 * The options of the command and its subcommands. One table has the name of an option, what it
 * takes, where that is stored, and its help.
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
    size_t offset;        /* where its value goes, in the command's request */
    const char *argument; /* its name in help: "SECONDS"; NULL for a flag */
    double low, high;     /* bounds of a number */
    const char *range;    /* the bounds in words: "seconds from 1 to 3600" */
    const char *help;
};

/* A line of a command's table. `member` is one of its struct request. */
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
    const char *usage; /* lines of help without "directnfs "; a blank in front continues one */
    const char *purpose;
    const struct cmd_option *options;
    size_t option_count;
    bool stops; /* options after the first word are not ours */
    /* argv[0] is the subcommand's name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

/* The subcommands. They use getopt_long(3), so a process runs only one of them. */
extern const struct cmd_command cmd_run, cmd_check, cmd_stat, cmd_top, cmd_path, cmd_flush,
    cmd_fence, cmd_report, cmd_exporter, cmd_agent;

#define CMD_GO_ON (-1)

/*
 * Stores the options in `request`, which has the defaults. Then optind is the place of the first
 * word. Returns CMD_GO_ON, or the exit status: after --help, and after a mistake, with a message.
 */
int cmd_options(const struct cmd_command *command, int argc, char **argv, void *request);

/* Prints help for a subcommand, or for all. */
void cmd_help(const struct cmd_command *command);

#endif
