/*
 * directnfs(1): finds the subcommand, and says what can be said without one.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "sys/log.h"

static const char help[] =
    "usage: directnfs run [-t NFSTAB] [--] PROGRAM [ARGUMENT...]\n"
    "       directnfs check [--json] [--read FILE] [--timeout SECONDS] [NFSTAB]\n"
    "       directnfs check --print [NFSTAB]\n"
    "       directnfs check [--json] --program PROGRAM | --pid PID\n"
    "       directnfs stat [servers|processes|channels|paths|files|stats|latency] [OPTION...]\n"
    "       directnfs top [--interval SECONDS] [--batch] [--count N] [--once] [--user USER]\n"
    "                     [paths|processes|files|calls]\n"
    "       directnfs path list [--user USER] [--json]\n"
    "       directnfs path offline|online [--user USER] [--force] [--wait SECONDS]\n"
    "                                     SERVER PATH [LOCAL]\n"
    "       directnfs --help | --version\n"
    "\n"
    "  run    starts an unmodified program whose files on configured mounts are read and\n"
    "         written by the NFSv3 client in libdirectnfs.so\n"
    "  check  shows every mistake in the nfstab and the tunables, then contacts each server\n"
    "         on each path and says what would be used and how; or shows whether a program's\n"
    "         files can be served, or those of a running process are\n"
    "  stat   shows which servers, sockets and files running programs use, and how fast\n"
    "  top    shows the same as it goes, with rates and histories, on the terminal\n"
    "  path   shows the network paths that running programs use, and takes one offline or\n"
    "         online in all of them\n"
    "\n"
    "run:\n"
    "  -t, --nfstab NFSTAB    use this nfstab and no other\n"
    "check:\n"
    "      --print            print the effective configuration as an nfstab; contact nobody\n"
    "      --timeout SECONDS  wait no longer than this for each answer (default 5)\n"
    "      --read FILE        measure the throughput of each path to this file, for a second\n"
    "      --program PROGRAM  which calls of it the library would see, without running it\n"
    "      --pid PID          whether the library is in this process, and what it serves\n"
    "      --json             print one object with all findings\n"
    "stat:\n"
    "      --interval SECONDS report again and again, what was counted in between per second\n"
    "      --count N          stop after N reports\n"
    "      --sum              show the sum of all processes, ended ones included\n"
    "      --last             show the sums over processes that have ended\n"
    "      --pid PID          show this process only\n"
    "      --server NAME      show this server, and the processes that use it\n"
    "      --sort COLUMN      numbers from the largest, texts from A\n"
    "      --json             print an array of objects (without a view: an object of arrays)\n"
    "      --prometheus       print metrics for a node_exporter textfile\n"
    "      --plot FILE        draw latencies, of several reports over time too, as SVG\n"
    "top:\n"
    "  -d, --interval SECONDS read as often (default 2)\n"
    "  -b, --batch            print tables, one after the other; no terminal is needed\n"
    "  -n, --count N          end after N of them\n"
    "      --once             --batch --count 1\n"
    "      --user USER        as root: the processes of this user, not of all\n"
    "path:\n"
    "      --user USER        as root: the processes of this user, not of all\n"
    "      --force            take the last path of a server offline too\n"
    "      --wait SECONDS     until no call uses the path any more (default 10, 0: not at all)\n"
    "\n"
    "Exit status: 0 fine, 1 what was checked is not fine, 2 wrong usage; run: that of PROGRAM,\n"
    "127 if it is not found, 126 if it cannot be started, 125 if the library is missing.\n"
    "Manual pages: directnfs(1), libdirectnfs(8), nfstab(5), directnfs.conf(5),\n"
    "directnfs-stats(7).\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", cmd_run}, {"check", cmd_check}, {"stat", cmd_stat},
    {"top", cmd_top}, {"path", cmd_path},
};

static void complain(const char *command, const char *format, va_list arguments)
{
    fflush(stdout);
    fprintf(stderr, "directnfs%s%s: ", command ? " " : "", command ? command : "");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
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
    fputs("Try 'directnfs --help'.\n", stderr);
    return CMD_WRONG_USAGE;
}

int cmd_option_error(const char *command, int result, char **argv)
{
    /* A long option has no letter in optopt when it is unknown; it was the word before optind. */
    const char *word = argv[optind - 1];
    if (result == ':')
        return cmd_usage_error(command, "the option %s needs an argument", word);
    if (optopt && optopt < 256 && strncmp(word, "--", 2) != 0)
        return cmd_usage_error(command, "unknown option -%c", optopt);
    return cmd_usage_error(command,
                           "unknown or ambiguous option, or one that takes no argument: %s", word);
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

int cmd_parse_pid(const char *command, const char *text, uint32_t *pid)
{
    double number;
    if (!cmd_parse_number(text, false, 1, INT32_MAX, &number))
        return cmd_usage_error(command, "--pid takes a process number, not '%s'", text);
    *pid = (uint32_t)number;
    return CMD_FINE;
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

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {0},
    };
    opterr = 0;
    log_open(NULL);
    for (int option; (option = getopt_long(argc, argv, "+:hV", options, NULL)) != -1;) {
        switch (option) {
        case 'h':
            fputs(help, stdout);
            return flush_output(CMD_FINE);
        case 'V':
            puts("directnfs " DIRECTNFS_VERSION);
            return flush_output(CMD_FINE);
        default:
            return cmd_option_error(NULL, option, argv);
        }
    }
    if (optind == argc)
        return cmd_usage_error(NULL, "which command? There are run, check, stat, top and path");

    char **rest = argv + optind;
    int count = argc - optind;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(rest[0], commands[i].name) != 0)
            continue;
        /* People ask for help behind the subcommand too; behind `run PROGRAM` it is not ours. */
        if (count > 1 && (strcmp(rest[1], "--help") == 0 || strcmp(rest[1], "-h") == 0)) {
            fputs(help, stdout);
            return flush_output(CMD_FINE);
        }
        optind = 0; /* glibc: start afresh with another vector */
        return flush_output(commands[i].run(count, rest));
    }
    return cmd_usage_error(NULL, "'%s' is no command; there are run, check, stat, top and path",
                           rest[0]);
}
