/*
 * directnfs check: the configuration, as a program that starts now would find it.
 */
#include "cmd/check.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/text.h"
#include "sys/log.h"

#define TIMEOUT_DEFAULT 5 /* seconds */
#define LABEL_WIDTH     12

static void print_line(unsigned indent, const char *label, const char *mark, const char *format,
                       va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        return;
    /* Names of files and exports come from elsewhere. */
    char *printable = cmd_printable(text, strlen(text));
    printf("%*s%-*s%s%s\n", (int)indent, "", label[0] ? LABEL_WIDTH : 0, label, mark, printable);
    fflush(stdout); /* the next question may take seconds */
    free(printable);
    free(text);
}

void check_line(unsigned indent, const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(indent, label, "", format, arguments);
    va_end(arguments);
}

void check_problem(struct check *check, unsigned indent, const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(indent, label, "NOT FINE: ", format, arguments);
    va_end(arguments);
    check->problems++;
}

static void print_diagnostics(const struct conf_diagnostics *found)
{
    for (size_t i = 0; i < found->count; i++) {
        char line[PATH_MAX + 1024];
        conf_diagnostic_format(&found->list[i], line, sizeof(line));
        char *printable = cmd_printable(line, sizeof(line));
        fprintf(stderr, "%s\n", printable);
        free(printable);
    }
    if (found->errors + found->notices > found->count)
        fprintf(stderr, "... and %zu more\n", found->errors + found->notices - found->count);
}

static void print_overridden(const struct conf_nfstab *tab)
{
    for (size_t i = 0; i < tab->overridden_count; i++) {
        const struct conf_overridden *entry = &tab->overridden[i];
        fprintf(stderr,
                "%s:%u:%u: notice: not used: export %s of server %s at %s; %s:%u:%u goes before\n",
                entry->at.file, entry->at.line, entry->at.column, entry->directory, entry->server,
                entry->mount, entry->by.file, entry->by.line, entry->by.column);
    }
}

/* Sources: what was named on the command line and nothing else, or the documented order. */
static void choose_sources(struct conf_sources *sources, const char *nfstab)
{
    conf_sources_default(sources);
    if (nfstab == NULL)
        return;
    memset(sources, 0, sizeof(*sources));
    strncpy(sources->only, nfstab, sizeof(sources->only) - 1);
}

static void print_sources(const struct conf_nfstab *tab, const char *conf, bool conf_exists)
{
    size_t mounts = 0;
    for (size_t i = 0; i < tab->server_count; i++)
        mounts += tab->servers[i].export_count;
    for (size_t i = 0; i < tab->file_count; i++)
        check_line(0, "nfstab", "%s", tab->files[i]);
    check_line(0, "tunables", "%s%s", conf,
               conf_exists ? "" : " is not there: the defaults are used");
    check_line(0, "found", "%zu server%s, %zu mount%s", tab->server_count,
               tab->server_count == 1 ? "" : "s", mounts, mounts == 1 ? "" : "s");
}

static int contact(const struct conf_nfstab *tab, const struct conf_tunables *tunables,
                   int timeout_ms)
{
    struct check check = {.tunables = tunables, .timeout_ms = timeout_ms};
    for (size_t i = 0; i < tab->server_count; i++)
        check_server(&check, &tab->servers[i]);
    putchar('\n');
    if (tab->server_count == 0) {
        puts("No mount is configured, so all files are the kernel's: write an nfstab(5).");
        return CMD_NOT_FINE;
    }
    printf("%u of %u mount%s would be served by directnfs", check.served, check.mounts,
           check.mounts == 1 ? "" : "s");
    if (check.problems > 0)
        printf("; %u thing%s not fine (see NOT FINE above)", check.problems,
               check.problems == 1 ? " is" : "s are");
    puts(".");
    return check.problems > 0 ? CMD_NOT_FINE : CMD_FINE;
}

/* Without a configuration that the library would use there is nobody to contact. */
static void complain_of_mistakes(const char *file, size_t count)
{
    cmd_complain("check",
                 "%s has %zu mistake%s: a program started with it leaves all files to the kernel. "
                 "No server was contacted.",
                 file, count, count == 1 ? "" : "s");
}

/* The work after the options: everything that is printed, and the exit status. */
static int check_configuration(const char *nfstab, bool print, int timeout_ms)
{
    struct conf_nfstab tab = {0};
    struct conf_tunables tunables;
    struct conf_diagnostics found = {0}, found_conf = {0};
    struct conf_sources sources;
    char conf[PATH_MAX];

    choose_sources(&sources, nfstab);
    int tab_error = conf_nfstab_load(&tab, &sources, &found);
    int required = conf_tunables_file(conf);
    int conf_error = conf_tunables_load(&tunables, conf, required, &found_conf);

    print_diagnostics(&found);
    print_diagnostics(&found_conf);
    print_overridden(&tab);
    int status = tab_error || conf_error ? CMD_NOT_FINE : CMD_FINE;
    if (tab_error)
        complain_of_mistakes("the nfstab", found.errors);
    if (conf_error)
        complain_of_mistakes(conf, found_conf.errors);
    if (print && !tab_error) {
        char *text = conf_nfstab_print(&tab);
        if (text == NULL) {
            cmd_complain("check", "there is not enough memory");
            status = CMD_NOT_FINE;
        } else {
            fputs(text, stdout);
            free(text);
        }
    } else if (status == CMD_FINE) {
        struct stat unused;
        print_sources(&tab, conf, stat(conf, &unused) == 0);
        status = contact(&tab, &tunables, timeout_ms);
    }
    conf_diagnostics_free(&found);
    conf_diagnostics_free(&found_conf);
    conf_nfstab_free(&tab);
    return status;
}

int cmd_check(int argc, char **argv)
{
    static const struct option options[] = {
        {"print", no_argument, NULL, 'p'},
        {"timeout", required_argument, NULL, 't'},
        {0},
    };
    bool print = false;
    double timeout = TIMEOUT_DEFAULT;
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        switch (option) {
        case 'p':
            print = true;
            break;
        case 't':
            if (!cmd_parse_number(optarg, true, 0.001, 3600, &timeout))
                return cmd_usage_error(
                    "check", "--timeout takes seconds from 0.001 to 3600, not '%s'", optarg);
            break;
        default:
            return cmd_option_error("check", option, argv);
        }
    }
    if (argc - optind > 1)
        return cmd_usage_error("check", "one nfstab at a time; '%s' is too much", argv[optind + 1]);
    if (argc > optind && (argv[optind][0] == '\0' || strlen(argv[optind]) >= PATH_MAX))
        return cmd_usage_error("check", "the nfstab's name is empty or too long");
    log_set_level(LOG_LEVEL_ERROR); /* what goes wrong on a path is in the report */
    return check_configuration(argv[optind], print, (int)(timeout * 1000));
}
