/*
 * directnfs(1): finds the subcommand, and says what can be said without one.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/print.h"
#include "sys/log.h"

static const struct cmd_command *const commands[] = {
    &cmd_run,   &cmd_check, &cmd_stat,   &cmd_top,      &cmd_path,
    &cmd_flush, &cmd_fence, &cmd_report, &cmd_exporter, &cmd_agent};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

struct request {
    bool version;
};

static const struct cmd_option options[] = {
    CMD_FLAG_OPTION("version", 'V', version, NULL),
};

/* What stands before the subcommand. */
static const struct cmd_command self = {
    .usage = "--help | COMMAND --help | --version\n",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .stops = true,
};

/* ---- help ---- */

static void print_usage(const struct cmd_command *command, bool first)
{
    const char *line = command->usage;
    for (size_t length; *line; line += length) {
        length = strcspn(line, "\n") + 1;
        printf("%s%s%.*s", first ? "usage: " : "       ", *line == ' ' ? "" : "directnfs ",
               (int)length, line);
        first = false;
    }
}

static void print_options(const struct cmd_command *command)
{
    if (command->option_count > 0)
        printf("%s:\n", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cmd_option *option = &command->options[i];
        char words[64];
        snprintf(words, sizeof(words), "--%s %s", option->name,
                 option->argument ? option->argument : "");
        printf("  %c%c%c %-18s %s\n", option->letter ? '-' : ' ',
               option->letter ? option->letter : ' ', option->letter ? ',' : ' ', words,
               option->help);
    }
}

void cmd_help(const struct cmd_command *command)
{
    if (command->name) {
        print_usage(command, true);
        printf("\n  %-6s %s\n\n", command->name, command->purpose);
        print_options(command);
        puts("\nManual page: directnfs(1).");
        return;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        print_usage(commands[i], i == 0);
    print_usage(&self, false);
    putchar('\n');
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-6s %s\n", commands[i]->name, commands[i]->purpose);
    putchar('\n');
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        print_options(commands[i]);
    fputs("\n"
          "Exit status: 0 fine, 1 what was checked is not fine, 2 wrong usage; run: that of "
          "PROGRAM,\n"
          "127 if it is not found, 126 if it cannot be started, 125 if the library is missing.\n"
          "Manual pages: directnfs(1), libdirectnfs(8), libdirectnfs(7), nfstab(5),\n"
          "directnfs.conf(5), directnfs-stats(7), directnfs-troubleshooting(7).\n",
          stdout);
}

/* ---- messages and numbers ---- */

static void complain(const char *command, const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        return;
    char *printable = cmd_printable(text, SIZE_MAX);
    fflush(stdout);
    fprintf(stderr, "directnfs%s%s: %s\n", command ? " " : "", command ? command : "", printable);
    free(printable);
    free(text);
}

void cmd_complain(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(command, format, arguments);
    va_end(arguments);
}

int cmd_usage_error(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(command, format, arguments);
    va_end(arguments);
    fprintf(stderr, "Try 'directnfs %s%s--help'.\n", command ? command : "", command ? " " : "");
    return CMD_WRONG_USAGE;
}

bool cmd_parse_number(const char *text, bool fraction, double low, double high, double *value)
{
    if (text[0] == '\0' || strspn(text, fraction ? "0123456789." : "0123456789") != strlen(text))
        return false;
    char *end;
    double number = strtod(text, &end);
    if (*end != '\0' || end == text || !(number >= low && number <= high))
        return false;
    *value = number;
    return true;
}

/* A full disk or a closed pipe must not pass for a report that was printed. */
static int flush_output(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        cmd_complain(NULL, "cannot write to standard output: %m");
        return status == CMD_FINE ? CMD_NOT_FINE : status;
    }
    return status;
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    int status = cmd_options(&self, argc, argv, &request);
    if (status != CMD_GO_ON)
        return status;
    if (request.version) {
        puts("directnfs " DIRECTNFS_VERSION);
        return CMD_FINE;
    }
    if (optind == argc)
        return cmd_usage_error(
            NULL,
            "which command? There are run, check, stat, top, path, flush, fence, report and agent");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[optind], commands[i]->name) == 0)
            return commands[i]->run(argc - optind, argv + optind);
    return cmd_usage_error(
        NULL,
        "'%s' is no command; there are run, check, stat, top, path, flush, fence, report and agent",
        argv[optind]);
}

int main(int argc, char **argv)
{
    log_open(NULL);
    return flush_output(run(argc, argv));
}
