#include "cmd/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "config/source.h"

#define LONG 256 /* getopt's number of the first long option; letters are lower */

/* The option of a result. NULL: --help. */
static const struct cmd_option *find(const struct cmd_command *command, int result)
{
    if (result >= LONG)
        return (size_t)(result - LONG) < command->option_count ? &command->options[result - LONG]
                                                               : NULL;
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].letter == result)
            return &command->options[i];
    return NULL;
}

/* For a long option that getopt does not know. Several may begin so, one may be like it, or
 * none. */
static int complain_of_long(const struct cmd_command *command, const char *word)
{
    const char *name = word + 2, *nearest = NULL;
    size_t length = strcspn(name, "=");
    unsigned begin_so = strncmp("help", name, length) == 0;
    for (size_t i = 0; i < command->option_count; i++)
        begin_so += strncmp(command->options[i].name, name, length) == 0;
    if (begin_so > 1)
        return cmd_usage_error(command->name, "several options begin with %s", word);
    if (command->option_count > 0)
        nearest = conf_nearest_name(name, length, command->options, command->option_count,
                                    sizeof(command->options[0]));
    return cmd_usage_error(command->name, "unknown option %s%s%s%s", word, nearest ? "; is --" : "",
                           nearest ? nearest : "", nearest ? " meant?" : "");
}

/* Complains of what getopt_long() did not like. */
static int complain(const struct cmd_command *command, int result, char **argv)
{
    const char *word = argv[optind - 1];
    if (result == ':')
        return cmd_usage_error(command->name, "the option %s needs an argument", word);
    if (optopt >= LONG)
        return cmd_usage_error(command->name, "the option %.*s takes no argument",
                               (int)strcspn(word, "="), word);
    if (optopt)
        return cmd_usage_error(command->name, "unknown option -%c", optopt);
    return complain_of_long(command, word);
}

/* False: the option does not take that. */
static bool take(const struct cmd_option *option, void *request)
{
    char *place = (char *)request + option->offset;
    double number = 0;
    if (option->kind >= CMD_OPTION_NUMBER &&
        !cmd_parse_number(optarg, option->kind == CMD_OPTION_NUMBER, option->low, option->high,
                          &number))
        return false;
    unsigned whole = (unsigned)number;
    bool flag = true;
    switch (option->kind) {
    case CMD_OPTION_FLAG:
        memcpy(place, &flag, sizeof(flag));
        break;
    case CMD_OPTION_TEXT:
        memcpy(place, &optarg, sizeof(optarg));
        break;
    case CMD_OPTION_NUMBER:
        memcpy(place, &number, sizeof(number));
        break;
    case CMD_OPTION_WHOLE:
        memcpy(place, &whole, sizeof(whole));
        break;
    }
    return true;
}

int cmd_options(const struct cmd_command *command, int argc, char **argv, void *request)
{
    size_t count = command->option_count;
    struct option longs[count + 2];
    char letters[sizeof("+:h") + 2 * count];
    char *letter = stpcpy(letters, command->stops ? "+:h" : ":h");
    for (size_t i = 0; i < count; i++) {
        const struct cmd_option *option = &command->options[i];
        longs[i] = (struct option){option->name, option->argument != NULL, NULL, LONG + (int)i};
        if (option->letter)
            letter += sprintf(letter, "%c%s", option->letter, option->argument ? ":" : "");
    }
    longs[count] = (struct option){"help", no_argument, NULL, LONG + (int)count};
    longs[count + 1] = (struct option){0};

    opterr = 0;
    optind = 0; /* glibc: start afresh, maybe with another vector */
    for (int result; (result = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (result == '?' || result == ':')
            return complain(command, result, argv);
        const struct cmd_option *option = find(command, result);
        if (option == NULL) {
            cmd_help(command);
            return CMD_FINE;
        }
        if (!take(option, request))
            return cmd_usage_error(command->name, "--%s takes %s, not '%s'", option->name,
                                   option->range, optarg);
    }
    return CMD_GO_ON;
}
